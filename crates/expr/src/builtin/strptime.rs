//! Points in time from texts, by patterns with DuckDB's specifiers. A part that is written twice, or
//! that says another day than the others, is refused.

use crate::builtin::strftime::Item;
use crate::calendar::{
    Clock, DAY_SECONDS, MONTHS, WEEKDAYS, checked_days, date_of, first_of_year, iso_week, iso_year_start,
    weekday,
};
use crate::time_read::{Zone, fraction_of, offset_of};

/// The microseconds that a clock shows, and its zone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub microseconds: i64,
    pub zone: Option<Zone>,
}

/// Returns what a text says, by the parts of a pattern; `None` where it is not of the pattern, or
/// contradicts itself.
pub(crate) fn read(text: &str, items: &[Item]) -> Option<Found> {
    let mut reader = Reader { rest: text.trim_start(), parts: Parts::default() };
    let mut place = 0;
    while let Some(item) = items.get(place) {
        match item {
            Item::Literal(character) if character.is_whitespace() => {
                let blanks = items[place..].iter().take_while(|item| is_blank(item)).count();
                let without = reader.rest.trim_start();
                if without.len() == reader.rest.len() && place > 0 {
                    return None;
                }
                reader.rest = without;
                place += blanks;
                continue;
            }
            Item::Literal(character) => reader.rest = reader.rest.strip_prefix(*character)?,
            Item::Specifier(specifier, _) => reader.part(*specifier)?,
        }
        place += 1;
    }
    if !reader.rest.trim_start().is_empty() {
        return None;
    }
    let parts = reader.parts;
    let (days, time) = (parts.days()?, parts.time()?);
    Some(Found { microseconds: days * DAY_SECONDS * 1_000_000 + time, zone: parts.zone })
}

fn is_blank(item: &Item) -> bool {
    matches!(item, Item::Literal(character) if character.is_whitespace())
}

#[derive(Default)]
struct Parts {
    year: Option<i64>,
    year_in_century: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// The day of the week, of which Sunday is 0.
    weekday: Option<i64>,
    sunday_week: Option<i64>,
    monday_week: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    hour: Option<i64>,
    hour_of_half: Option<i64>,
    is_afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    /// Microseconds of the second.
    fraction: Option<i64>,
    zone: Option<Zone>,
}

/// Takes a part, which may be written again only if it says the same.
fn note<T: PartialEq>(part: &mut Option<T>, value: T) -> Option<()> {
    match part {
        Some(known) if *known != value => None,
        _ => {
            *part = Some(value);
            Some(())
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    parts: Parts,
}

impl Reader<'_> {
    /// Returns up to so many digits.
    fn digits(&mut self, most: usize) -> Option<&str> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        (count > 0).then_some(digits)
    }

    fn number(&mut self, most: usize, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
        self.digits(most)?.parse().ok().filter(|value| range.contains(value))
    }

    /// Returns the place of one of some names, of which the first `length` letters are written.
    fn name(&mut self, names: &[&str], length: usize) -> Option<usize> {
        let place = names.iter().position(|name| {
            let name = &name[..length.min(name.len())];
            self.rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name))
        })?;
        self.rest = &self.rest[length.min(names[place].len())..];
        Some(place)
    }

    fn part(&mut self, specifier: char) -> Option<()> {
        const WHOLE: usize = usize::MAX;
        let at = |place: usize| i64::try_from(place).ok();
        match specifier {
            'Y' => {
                let year = self.number(4, 0..=9999)?;
                note(&mut self.parts.year, year)
            }
            'y' => {
                let year = self.number(2, 0..=99)?;
                note(&mut self.parts.year_in_century, year)
            }
            'm' => {
                let month = self.number(2, 1..=12)?;
                note(&mut self.parts.month, month)
            }
            'b' | 'h' => {
                let month = self.name(&MONTHS, 3).and_then(at)? + 1;
                note(&mut self.parts.month, month)
            }
            'B' => {
                let month = self.name(&MONTHS, WHOLE).and_then(at)? + 1;
                note(&mut self.parts.month, month)
            }
            'd' => {
                let day = self.number(2, 1..=31)?;
                note(&mut self.parts.day, day)
            }
            'j' => {
                let day = self.number(3, 1..=366)?;
                note(&mut self.parts.day_of_year, day)
            }
            'a' => {
                let day = self.name(&WEEKDAYS, 3).and_then(at)?;
                note(&mut self.parts.weekday, day)
            }
            'A' => {
                let day = self.name(&WEEKDAYS, WHOLE).and_then(at)?;
                note(&mut self.parts.weekday, day)
            }
            'w' => {
                let day = self.number(1, 0..=6)?;
                note(&mut self.parts.weekday, day)
            }
            'u' => {
                let day = self.number(1, 1..=7)? % 7;
                note(&mut self.parts.weekday, day)
            }
            'U' => {
                let week = self.number(2, 0..=53)?;
                note(&mut self.parts.sunday_week, week)
            }
            'W' => {
                let week = self.number(2, 0..=53)?;
                note(&mut self.parts.monday_week, week)
            }
            'G' => {
                let year = self.number(4, 0..=9999)?;
                note(&mut self.parts.iso_year, year)
            }
            'V' => {
                let week = self.number(2, 1..=53)?;
                note(&mut self.parts.iso_week, week)
            }
            _ => self.part_of_time(specifier),
        }
    }

    fn part_of_time(&mut self, specifier: char) -> Option<()> {
        match specifier {
            'H' => {
                let hour = self.number(2, 0..=23)?;
                note(&mut self.parts.hour, hour)
            }
            'I' => {
                let hour = self.number(2, 1..=12)?;
                note(&mut self.parts.hour_of_half, hour)
            }
            'p' => {
                let half = self.name(&["AM", "PM"], usize::MAX)?;
                note(&mut self.parts.is_afternoon, half == 1)
            }
            'M' => {
                let minute = self.number(2, 0..=59)?;
                note(&mut self.parts.minute, minute)
            }
            'S' => {
                let second = self.number(2, 0..=59)?;
                note(&mut self.parts.second, second)
            }
            'f' | 'g' | 'n' => {
                let most = match specifier {
                    'f' => 6,
                    'g' => 3,
                    _ => 9,
                };
                let microseconds = fraction_of(self.digits(most)?.as_bytes(), 6) / 1000;
                note(&mut self.parts.fraction, microseconds)
            }
            'z' => {
                let is_part = |c: char| c.is_ascii_digit() || c == ':';
                self.rest.chars().next().filter(|sign| matches!(sign, '+' | '-'))?;
                let length = self.rest[1..].find(|c| !is_part(c)).map_or(self.rest.len(), |at| at + 1);
                let (offset, rest) = self.rest.split_at(length);
                let hours = offset[1..].split(':').next().unwrap_or_default().len();
                let ahead = offset_of(offset).filter(|_| hours == 2 || hours == 4)?;
                self.rest = rest;
                note(&mut self.parts.zone, Zone::Offset(ahead))
            }
            'Z' => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '+' | '-');
                let length = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(length);
                self.rest = rest;
                match name.starts_with(|first: char| first.is_ascii_alphabetic()) {
                    true => note(&mut self.parts.zone, Zone::Named(name.to_string())),
                    false => None,
                }
            }
            _ => None,
        }
    }
}

impl Parts {
    /// Returns the days since 1970, of the first day that has all parts.
    fn days(&self) -> Option<i64> {
        let days = self.possible_days()?;
        let clock = Clock::at(days * DAY_SECONDS, 0);
        let date = date_of(days);
        let is = |part: Option<i64>, shown: i64| part.is_none_or(|part| part == shown);
        let has_day = self.day.is_some() || self.day_of_year.is_some();
        let has_week = self.sunday_week.is_some() || self.monday_week.is_some() || self.iso_week.is_some();
        let (iso_year, iso_week) = iso_week(days);
        let fits = is(self.year.filter(|_| !self.is_of_iso_week()), date.year)
            && is(self.month, date.month.into())
            && is(self.day, date.day.into())
            && is(self.day_of_year, clock.day_of_year())
            && is(self.weekday.filter(|_| has_day || has_week), weekday(days))
            && is(self.sunday_week, clock.week_from(0))
            && is(self.monday_week, clock.week_from(1))
            && is(self.iso_year, iso_year)
            && is(self.iso_week, iso_week);
        let of_century = self.year_in_century.filter(|_| self.year.is_some());
        (fits && is(of_century, date.year.rem_euclid(100))).then_some(days)
    }

    fn is_of_iso_week(&self) -> bool {
        self.iso_week.is_some() && self.iso_year.is_none() && self.day.is_none() && self.day_of_year.is_none()
    }

    fn possible_days(&self) -> Option<i64> {
        let of_century = self.year_in_century.map(|year| if year <= 68 { 2000 + year } else { 1900 + year });
        let given = self.year.or(of_century);
        let is_of_month = self.month.is_some() || self.day.is_some();
        let year = given.unwrap_or(1900);
        if !is_of_month && self.day_of_year.is_none() {
            if let Some(week) = self.iso_week {
                let monday = iso_year_start(self.iso_year.unwrap_or(year)) + (week - 1) * 7;
                return Some(monday + self.weekday.map_or(0, |day| (day + 6) % 7));
            }
            let start = first_of_year(year);
            let of_week = |week: i64, first: i64| {
                let before = (first - weekday(start)).rem_euclid(7);
                let first_day = start + before + (week - 1) * 7;
                let day = self.weekday.map_or(0, |day| (day - first).rem_euclid(7));
                // Week 0 begins with the year.
                if self.weekday.is_none() { (first_day + day).max(start) } else { first_day + day }
            };
            if let Some(week) = self.sunday_week {
                return Some(of_week(week, 0));
            }
            if let Some(week) = self.monday_week {
                return Some(of_week(week, 1));
            }
            if let (Some(iso_year), None) = (self.iso_year, given) {
                return Some(iso_year_start(iso_year) + self.weekday.map_or(0, |day| (day + 6) % 7));
            }
        }
        match self.day_of_year {
            Some(day) => Some(first_of_year(year) + day - 1),
            None => checked_days(year, self.month.unwrap_or(1), self.day.unwrap_or(1)),
        }
        .filter(|days| date_of(*days).year == year)
    }

    /// Returns the microseconds since midnight.
    fn time(&self) -> Option<i64> {
        let hour = match (self.hour, self.hour_of_half, self.is_afternoon) {
            (Some(hour), Some(half), _) if hour % 12 != half % 12 => return None,
            // `%H` may be one of twelve hours, too.
            (Some(hour), _, Some(true)) if (1..=12).contains(&hour) => hour % 12 + 12,
            (Some(hour), _, Some(false)) if hour <= 12 => hour % 12,
            (Some(_), _, Some(_)) => return None,
            (Some(hour), _, None) => hour,
            // Twelve without a half is noon.
            (None, half, None) => half.unwrap_or(0),
            (None, half, Some(is_afternoon)) => half.unwrap_or(0) % 12 + if is_afternoon { 12 } else { 0 },
        };
        let seconds = (hour * 60 + self.minute.unwrap_or(0)) * 60 + self.second.unwrap_or(0);
        Some(seconds * 1_000_000 + self.fraction.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::strftime::{Shown, items, written};
    use crate::calendar::days_of;

    fn found(text: &str, pattern: &str) -> Option<String> {
        let found = read(text, &items(pattern).unwrap())?;
        let (seconds, rest) =
            (found.microseconds.div_euclid(1_000_000), found.microseconds.rem_euclid(1_000_000));
        let clock = Clock::at(seconds, u32::try_from(rest).unwrap() * 1000);
        Some(written(&items("%c.%f").unwrap(), &Shown { clock, ahead: 0, zone: "" }))
    }

    #[test]
    fn texts_are_read_as_in_duckdb() {
        for (text, pattern, shown) in [
            ("58.745232", "%S.%f", "1900-01-01 00:00:58.745232"),
            ("5.7", "%S.%f", "1900-01-01 00:00:05.700000"),
            ("5.123", "%S.%g", "1900-01-01 00:00:05.123000"),
            ("5.1234567", "%S.%n", "1900-01-01 00:00:05.123457"),
            ("2024-10-2", "%G-%V-%u", "2024-03-05 00:00:00.000000"),
            ("2024-10", "%G-%V", "2024-03-04 00:00:00.000000"),
            ("2024", "%G", "2024-01-01 00:00:00.000000"),
            ("2024-10", "%Y-%U", "2024-03-10 00:00:00.000000"),
            ("2024-10-3", "%Y-%U-%w", "2024-03-13 00:00:00.000000"),
            ("2024-10-3", "%Y-%W-%w", "2024-03-06 00:00:00.000000"),
            ("2024-10", "%Y-%W", "2024-03-04 00:00:00.000000"),
            ("2024 60", "%Y %j", "2024-02-29 00:00:00.000000"),
            ("12 AM", "%I %p", "1900-01-01 00:00:00.000000"),
            ("5 PM", "%H %p", "1900-01-01 17:00:00.000000"),
            ("PM", "%p", "1900-01-01 12:00:00.000000"),
            (" 2024-01-01 ", "%Y-%m-%d", "2024-01-01 00:00:00.000000"),
            ("2024  01", "%Y %m", "2024-01-01 00:00:00.000000"),
            ("20240105", "%Y%m%d", "2024-01-05 00:00:00.000000"),
            ("mArCH 68", "%B %y", "2068-03-01 00:00:00.000000"),
            ("Tue 69", "%a %y", "1969-01-01 00:00:00.000000"),
            ("Mon 30, June 2003, 12:00:00 AM", "%a %d, %B %Y, %I:%M:%S %p", "2003-06-30 00:00:00.000000"),
        ] {
            assert_eq!(found(text, pattern).as_deref(), Some(shown), "{text} {pattern}");
        }
        for (text, pattern) in [
            ("60", "%S"),
            ("13 PM", "%H %p"),
            ("0 AM", "%I %p"),
            ("2024-02-30", "%Y-%m-%d"),
            ("2024-13-01", "%Y-%m-%d"),
            ("Mon 30, December 2003, 7:3:5 PM", "%a %d, %B %Y, %I:%M:%S %p"),
            ("2024 60 10", "%Y %j %d"),
            ("2023 366", "%Y %j"),
            ("24 2023", "%y %Y"),
            ("2023-53", "%G-%V"),
            ("2024-01-01x", "%Y-%m-%d"),
            ("2024-01-01", "%Y-%m-%d "),
            ("March", "%b"),
            ("12024", "%Y"),
            ("", "%Y"),
        ] {
            assert_eq!(found(text, pattern), None, "{text} {pattern}");
        }
        for pattern in ["%q", "%", "%-", "%-w", "a%"] {
            assert!(items(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut number = 1_u64;
        let mut random = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from(number >> 33).unwrap()
        };
        for _ in 0..20_000 {
            let days = random() % days_of(9999, 12, 31);
            let second = days * DAY_SECONDS + random() % DAY_SECONDS;
            let clock = Clock::at(second, u32::try_from(random() % 1_000_000).unwrap() * 1000);
            let shown = Shown { clock, ahead: 19_800, zone: "Asia/Kolkata" };
            for pattern in [
                "%c.%f",
                "%Y-%j %I:%M:%S %p .%f",
                "%G-%V-%u %T,%n",
                "%A, %d %B %Y %X.%f %z",
                "%Y %U %w %T.%f",
                "%Y %W %a %H%M%S%f",
                "%x %T.%f %Z",
                "%a %b %-d %-H:%-M:%-S.%f %Y week %V day %j",
            ] {
                let items = items(pattern).unwrap();
                let text = written(&items, &shown);
                let found = read(&text, &items).unwrap_or_else(|| panic!("{text} {pattern}"));
                let expected = second * 1_000_000 + i64::from(clock.nanosecond / 1000);
                assert_eq!(found.microseconds, expected, "{text} {pattern}");
            }
        }
    }
}
