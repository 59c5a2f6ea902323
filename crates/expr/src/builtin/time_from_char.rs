//! Points in time from texts, by PostgreSQL's patterns, as `to_timestamp` and `to_date` read them.

use crate::builtin::time_pattern::{Field, Node};
use crate::calendar::{
    DAY_SECONDS, JULIAN_1970, MONTHS, WEEKDAYS, checked_days, first_of_year, iso_year_start,
};

/// What a text says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub days: i64,
    /// Microseconds since midnight.
    pub time: i64,
    /// How far the clock is ahead of UTC, in seconds.
    pub ahead: Option<i64>,
}

/// Why a text has no point in time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// What is not as in the pattern.
    Syntax(String),
    /// A number is out of range.
    Range,
    /// The pattern has a field that only `to_char` knows.
    Unsupported(&'static str),
}

type Result<T> = std::result::Result<T, Refusal>;

const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Returns what a text says, by a pattern. What is behind it is not looked at.
///
/// # Errors
/// Why it says nothing.
pub(crate) fn read(text: &str, nodes: &[Node]) -> Result<Found> {
    let mut reader = Reader { rest: text, parts: Parts::default() };
    for (place, node) in nodes.iter().enumerate() {
        match node {
            Node::Separator(_) => {
                let is_separator = |c: char| !c.is_alphanumeric();
                let without = reader.rest.trim_start();
                // A sign belongs to the number behind it, where another separator was before it.
                let is_sign = without.starts_with(['+', '-']) && without.len() < reader.rest.len();
                reader.rest = match without.strip_prefix(is_separator) {
                    Some(behind) if !is_sign => behind,
                    _ => without,
                };
            }
            Node::Text(character) => {
                let is = |c: char| c.eq_ignore_ascii_case(character);
                let rest = reader.rest.trim_start();
                reader.rest = match reader.rest.strip_prefix(is).or_else(|| rest.strip_prefix(is)) {
                    Some(behind) => behind,
                    None => return Err(Refusal::Syntax(format!("'{character}' was expected at \"{rest}\""))),
                };
            }
            Node::Field { field, bare, ordinal, .. } => {
                let is_free = *bare || ordinal.is_some() || is_separated(nodes.get(place + 1));
                reader.field(*field, is_free)?;
                if ordinal.is_some() {
                    reader.rest = reader.rest.get(2..).unwrap_or_default();
                }
            }
        }
    }
    reader.parts.found()
}

/// Says whether no digit can follow, so that a number has all that there are.
fn is_separated(next: Option<&Node>) -> bool {
    use Field::{DayAbbreviation, DayName, Era, Half, MonthAbbreviation, MonthName, RomanMonth, ZoneHour};
    match next {
        None | Some(Node::Separator(_)) => true,
        Some(Node::Text(character)) => !character.is_ascii_digit(),
        Some(Node::Field { field, .. }) => matches!(
            field,
            DayAbbreviation
                | DayName
                | Era(_)
                | Half(_)
                | MonthAbbreviation
                | MonthName
                | RomanMonth
                | ZoneHour
        ),
    }
}

#[derive(Default)]
struct Parts {
    year: Option<i64>,
    year_of_century: Option<i64>,
    century: Option<i64>,
    is_before: bool,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    week: Option<i64>,
    week_of_month: Option<i64>,
    julian: Option<i64>,
    iso_year: Option<i64>,
    iso_week: Option<i64>,
    iso_weekday: Option<i64>,
    iso_day: Option<i64>,
    hour: Option<i64>,
    is_of_half: bool,
    is_afternoon: Option<bool>,
    minute: Option<i64>,
    second: Option<i64>,
    second_of_day: Option<i64>,
    microsecond: Option<i64>,
    zone_is_behind: bool,
    zone_hour: Option<i64>,
    zone_minute: Option<i64>,
}

struct Reader<'a> {
    rest: &'a str,
    parts: Parts,
}

impl<'a> Reader<'a> {
    /// Returns the digits of a number with its sign: all, or no more than so many.
    fn number_text(&mut self, most: usize, is_free: bool) -> Result<&'a str> {
        self.rest = self.rest.trim_start();
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let most = if is_free { usize::MAX } else { most - sign.min(most) };
        let digits = self.rest.bytes().skip(sign).take(most).take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(Refusal::Syntax(format!("a number was expected at \"{}\"", self.rest)));
        }
        let (number, rest) = self.rest.split_at(sign + digits);
        self.rest = rest;
        Ok(number)
    }

    fn number(&mut self, most: usize, is_free: bool) -> Result<i64> {
        whole(self.number_text(most, is_free)?)
    }

    /// Returns the place of one of some names, the longest that fits.
    fn name(&mut self, names: &[&str]) -> Result<usize> {
        self.rest = self.rest.trim_start();
        let is = |name: &str| self.rest.get(..name.len()).is_some_and(|text| text.eq_ignore_ascii_case(name));
        let found = names.iter().enumerate().filter(|(_, name)| is(name)).max_by_key(|(_, name)| name.len());
        let (place, name) = found.ok_or_else(|| {
            Refusal::Syntax(format!("one of {} was expected at \"{}\"", names.join(", "), self.rest))
        })?;
        self.rest = &self.rest[name.len()..];
        Ok(place)
    }

    fn short_name(&mut self, names: &[&str]) -> Result<usize> {
        let short: Vec<&str> = names.iter().map(|name| &name[..3]).collect();
        self.name(&short)
    }

    fn field(&mut self, field: Field, is_free: bool) -> Result<()> {
        let at = |place: usize| i64::try_from(place).unwrap_or_default();
        match field {
            Field::Year(_) | Field::YearWithComma | Field::IsoYear(_) | Field::Century => {
                return self.year(field, is_free);
            }
            Field::Quarter => _ = self.number(1, is_free)?,
            Field::Month => self.parts.month = Some(self.number(2, is_free)?),
            Field::MonthName => self.parts.month = Some(at(self.name(&MONTHS)?) + 1),
            Field::MonthAbbreviation => self.parts.month = Some(at(self.short_name(&MONTHS)?) + 1),
            Field::RomanMonth => self.parts.month = Some(at(self.name(&ROMAN)?) + 1),
            Field::Week => self.parts.week = Some(self.number(2, is_free)?),
            Field::WeekOfMonth => self.parts.week_of_month = Some(self.number(1, is_free)?),
            Field::IsoWeek => self.parts.iso_week = Some(self.number(2, is_free)?),
            Field::DayOfYear => self.parts.day_of_year = Some(self.number(3, is_free)?),
            Field::IsoDayOfYear => self.parts.iso_day = Some(self.number(3, is_free)?),
            Field::Day => self.parts.day = Some(self.number(2, is_free)?),
            Field::Weekday => _ = self.number(1, is_free)?,
            Field::IsoWeekday => self.parts.iso_weekday = Some(self.number(1, is_free)?),
            Field::DayName => _ = self.name(&WEEKDAYS)?,
            Field::DayAbbreviation => _ = self.short_name(&WEEKDAYS)?,
            Field::JulianDay => self.parts.julian = Some(self.number(10, is_free)?),
            _ => return self.field_of_time(field, is_free),
        }
        Ok(())
    }

    fn year(&mut self, field: Field, is_free: bool) -> Result<()> {
        match field {
            Field::Century => self.parts.century = Some(self.number(2, is_free)?),
            Field::YearWithComma => {
                let thousands = self.number(6, true)?;
                self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                self.parts.year = Some(thousands * 1000 + self.number(3, false)?);
            }
            Field::Year(digits) | Field::IsoYear(digits) => {
                let text = self.number_text(digits as usize, is_free)?;
                let value = whole(text)?;
                let is_short = digits < 4 && text.len() < 4;
                let year = if is_short { near_2020(value) } else { value };
                match field {
                    Field::IsoYear(_) => self.parts.iso_year = Some(year),
                    _ => {
                        self.parts.year = Some(year);
                        self.parts.year_of_century = Some(value).filter(|_| digits <= 2);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn field_of_time(&mut self, field: Field, is_free: bool) -> Result<()> {
        match field {
            Field::Hour => self.parts.hour = Some(self.number(2, is_free)?),
            Field::HourOfHalf => {
                self.parts.hour = Some(self.number(2, is_free)?);
                self.parts.is_of_half = true;
            }
            Field::Minute => self.parts.minute = Some(self.number(2, is_free)?),
            Field::Second => self.parts.second = Some(self.number(2, is_free)?),
            Field::SecondOfDay => self.parts.second_of_day = Some(self.number(5, is_free)?),
            Field::Fraction(digits) => {
                let text = self.number_text(digits as usize, is_free)?;
                if text.len() > 6 || text.starts_with(['+', '-']) {
                    return Err(Refusal::Range);
                }
                let value = whole(text)?;
                let missing = u32::try_from(6 - text.len()).unwrap_or_default();
                self.parts.microsecond = Some(value * 10_i64.pow(missing));
            }
            Field::Half(has_points) => {
                let names = if has_points { ["A.M.", "P.M."] } else { ["AM", "PM"] };
                self.parts.is_afternoon = Some(self.name(&names)? == 1);
                self.parts.is_of_half = true;
            }
            Field::Era(has_points) => {
                let names = if has_points { ["A.D.", "B.C."] } else { ["AD", "BC"] };
                self.parts.is_before = self.name(&names)? == 1;
            }
            Field::ZoneHour => {
                let text = self.number_text(3, is_free)?;
                self.parts.zone_is_behind = text.starts_with('-');
                self.parts.zone_hour = Some(whole(text)?.abs());
            }
            Field::ZoneMinute => {
                self.rest = self.rest.strip_prefix(':').unwrap_or(self.rest);
                self.parts.zone_minute = Some(self.number(2, is_free)?);
            }
            Field::ZoneName => return Err(Refusal::Unsupported("TZ")),
            _ => return Err(Refusal::Unsupported("OF")),
        }
        Ok(())
    }
}

/// Reads a number of 32 bits, as PostgreSQL does, so that nothing that is computed of it overflows.
fn whole(text: &str) -> Result<i64> {
    text.parse::<i32>().map(i64::from).map_err(|_| Refusal::Range)
}

/// Returns the year that is meant by its last digits, the one that is nearest to 2020.
fn near_2020(year: i64) -> i64 {
    match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        other => other,
    }
}

impl Parts {
    fn found(&self) -> Result<Found> {
        let ahead = match (self.zone_hour, self.zone_minute) {
            (None, None) => None,
            (hour, minute) => {
                let (hour, minute) = (hour.unwrap_or(0), minute.unwrap_or(0));
                if hour > 15 || !(0..60).contains(&minute) {
                    return Err(Refusal::Range);
                }
                let seconds = hour * 3600 + minute * 60;
                Some(if self.zone_is_behind { -seconds } else { seconds })
            }
        };
        Ok(Found { days: self.days()?, time: self.time()?, ahead })
    }

    fn days(&self) -> Result<i64> {
        if let Some(days) = self.julian {
            let days = days - JULIAN_1970;
            let years = first_of_year(-YEARS)..first_of_year(YEARS);
            return if years.contains(&days) { Ok(days) } else { Err(Refusal::Range) };
        }
        let in_range = |value: i64, most: i64| match (1..=most).contains(&value) {
            true => Ok(value),
            false => Err(Refusal::Range),
        };
        if self.iso_week.is_some() || self.iso_day.is_some() {
            let year = self.iso_year.or(self.year).unwrap_or(0);
            let start = iso_year_start(checked_year(year)?);
            return match self.iso_day {
                Some(day) => Ok(start + in_range(day, 371)? - 1),
                None => {
                    let week = in_range(self.iso_week.unwrap_or(1), 53)?;
                    Ok(start + (week - 1) * 7 + in_range(self.iso_weekday.unwrap_or(1), 7)? - 1)
                }
            };
        }
        let year = checked_year(self.year())?;
        let of_week = self.week.map(|week| in_range(week, 53).map(|week| (week - 1) * 7 + 1)).transpose()?;
        if let (Some(day), None) = (self.day_of_year.or(of_week), self.month) {
            let days = first_of_year(year) + in_range(day, 366)? - 1;
            return if days < first_of_year(year + 1) { Ok(days) } else { Err(Refusal::Range) };
        }
        let day = match (self.day, self.week_of_month) {
            (None, Some(week)) => (in_range(week, 5)? - 1) * 7 + 1,
            (day, _) => day.unwrap_or(1),
        };
        checked_days(year, self.month.unwrap_or(1), day).ok_or(Refusal::Range)
    }

    /// Returns the year, of which 0 is the one before the first.
    fn year(&self) -> i64 {
        let year = match (self.century, self.year_of_century) {
            (Some(century), Some(year)) => (century - 1) * 100 + year,
            (Some(century), None) if self.year.is_none() => (century - 1) * 100 + 1,
            _ => self.year.or(self.iso_year).unwrap_or(0),
        };
        let year = if self.is_before { -year } else { year };
        if year < 0 { year + 1 } else { year }
    }

    fn time(&self) -> Result<i64> {
        let (mut hour, mut minute, mut second) =
            (self.hour.unwrap_or(0), self.minute.unwrap_or(0), self.second.unwrap_or(0));
        if let Some(seconds) = self.second_of_day {
            (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        if self.is_of_half && self.hour.is_some() {
            if !(1..=12).contains(&hour) {
                return Err(Refusal::Syntax(format!("hour \"{hour}\" is none of the 12 of a clock's face")));
            }
            match self.is_afternoon {
                Some(true) if hour < 12 => hour += 12,
                Some(false) if hour == 12 => hour = 0,
                _ => {}
            }
        }
        let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..60).contains(&second);
        match is_time {
            true => Ok(((hour * 60 + minute) * 60 + second) * 1_000_000 + self.microsecond.unwrap_or(0)),
            false => Err(Refusal::Range),
        }
    }
}

/// The year of which no date is read, and that before which none is.
const YEARS: i64 = 260_000;

fn checked_year(year: i64) -> Result<i64> {
    if year.abs() < YEARS { Ok(year) } else { Err(Refusal::Range) }
}

impl Found {
    /// Returns the text of ISO 8601, with the offset if there is one.
    pub(crate) fn text(&self) -> String {
        let date = crate::calendar::date_of(self.days);
        let second = self.time / 1_000_000;
        debug_assert!(second < DAY_SECONDS);
        let year = match date.year {
            year @ 1..=9999 => format!("{year:04}"),
            year => format!("{year:+05}"),
        };
        let offset = self.ahead.map_or(String::new(), |ahead| {
            let sign = if ahead < 0 { '-' } else { '+' };
            format!("{sign}{:02}:{:02}", ahead.abs() / 3600, ahead.abs() / 60 % 60)
        });
        format!(
            "{year}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}{offset}",
            date.month,
            date.day,
            second / 3600,
            second / 60 % 60,
            second % 60,
            self.time % 1_000_000
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::time_pattern::nodes;

    #[test]
    fn texts_are_read_as_in_postgresql() {
        for (text, pattern, shown) in [
            ("2024-01-05", "YYYY-MM-DD", "2024-01-05 00:00:00.000000"),
            ("20240105", "YYYYMMDD", "2024-01-05 00:00:00.000000"),
            ("05 Dec 2000", "DD Mon YYYY", "2000-12-05 00:00:00.000000"),
            ("December 5, 2000", "FMMonth DD, YYYY", "2000-12-05 00:00:00.000000"),
            ("1997 BC 11 16", "YYYY BC MM DD", "-1996-11-16 00:00:00.000000"),
            ("-44-02-01", "YYYY-MM-DD", "-0043-02-01 00:00:00.000000"),
            ("95-1-2", "YY-MM-DD", "1995-01-02 00:00:00.000000"),
            ("24-1-2", "YY-MM-DD", "2024-01-02 00:00:00.000000"),
            ("2011-12-18 11:38 PM", "YYYY-MM-DD HH12:MI PM", "2011-12-18 23:38:00.000000"),
            ("2011-12-18 11:38 -05:30", "YYYY-MM-DD HH12:MI TZH:TZM", "2011-12-18 11:38:00.000000-05:30"),
            ("12:30:05.1", "HH24:MI:SS.MS", "+0000-01-01 12:30:05.100000"),
            ("12:30:05.000012", "HH24:MI:SS.US", "+0000-01-01 12:30:05.000012"),
            ("2024 60", "YYYY DDD", "2024-02-29 00:00:00.000000"),
            ("2024-10-2", "IYYY-IW-ID", "2024-03-05 00:00:00.000000"),
            ("2451187", "J", "1999-01-08 00:00:00.000000"),
            ("2024-W10", "IYYY-\"W\"IW", "2024-03-04 00:00:00.000000"),
            ("1st March 2024", "DDth Month YYYY", "2024-03-01 00:00:00.000000"),
            ("IV 2024", "RM YYYY", "2024-04-01 00:00:00.000000"),
            ("2024-01-05 43200", "YYYY-MM-DD SSSSS", "2024-01-05 12:00:00.000000"),
            ("2024/01/05", "YYYY-MM-DD", "2024-01-05 00:00:00.000000"),
            ("2024-01-05T10:20", "YYYY-MM-DDTHH24:MI", "2024-01-05 10:20:00.000000"),
        ] {
            let found = read(text, &nodes(pattern)).unwrap_or_else(|why| panic!("{text} {pattern}: {why:?}"));
            assert_eq!(found.text(), shown, "{text} {pattern}");
        }
        for (text, pattern, is_of_range) in [
            ("2024-13-01", "YYYY-MM-DD", true),
            ("2024-02-30", "YYYY-MM-DD", true),
            ("2023 366", "YYYY DDD", true),
            ("25:00", "HH24:MI", true),
            ("x", "YYYY", false),
            ("5 Foo 2000", "DD Mon YYYY", false),
            ("13:00 PM", "HH12:MI PM", false),
            ("", "YYYY", false),
        ] {
            let refusal = read(text, &nodes(pattern)).unwrap_err();
            assert_eq!(refusal == Refusal::Range, is_of_range, "{text} {pattern} {refusal:?}");
        }
    }
}
