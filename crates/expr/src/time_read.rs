//! Dates, times of day and points in time as people write them: in the forms of ISO 8601, and in
//! those of PostgreSQL in which the order of the parts is clear.

use crate::calendar::{DAY_NANOSECONDS, JULIAN_1970, MONTHS, WEEKDAYS, checked_days, place_of_name};

/// What a text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// Days since 1970.
    pub days: Option<i64>,
    /// Nanoseconds since midnight; as many as a day has at its end.
    pub time: Option<i64>,
    pub zone: Option<Zone>,
}

/// The zone behind a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Zone {
    /// Seconds ahead of UTC.
    Offset(i64),
    Named(String),
}

/// Why a text is neither a date nor a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Syntax,
    /// One of its numbers is out of range.
    Field,
    Infinite,
}

type Found<T> = Result<T, Refusal>;

/// Returns what a text says, with so many digits of a second, to which it is rounded.
pub(crate) fn read(text: &str, digits: u32) -> Found<Written> {
    let text = text.trim_ascii();
    match in_iso(text.as_bytes(), digits) {
        Some(written) => Ok(written),
        None => Reader { digits, ..Reader::default() }.read(text),
    }
}

/// Reads `2024-01-05`, `2024-01-05 10:20:30.5` and `2024-01-05T10:20:30`, which most texts are.
fn in_iso(text: &[u8], digits: u32) -> Option<Written> {
    let number = |from: usize, length: usize| {
        let part = text.get(from..from + length)?;
        part.iter()
            .all(u8::is_ascii_digit)
            .then(|| part.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    };
    let is = |at: usize, sign: &[u8]| text.get(at).is_some_and(|found| sign.contains(found));
    if !is(4, b"-") || !is(7, b"-") {
        return None;
    }
    let days =
        Some(checked_days(number(0, 4)?, number(5, 2)?, number(8, 2)?).filter(|_| number(0, 4) != Some(0))?);
    if text.len() == 10 {
        return Some(Written { days, ..Written::default() });
    }
    if !is(10, b" T") || !is(13, b":") || !is(16, b":") {
        return None;
    }
    let (hour, minute, second) = (number(11, 2)?, number(14, 2)?, number(17, 2)?);
    let fraction = match text.get(19..)? {
        [] => 0,
        [b'.', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            fraction_of(rest, digits)
        }
        _ => return None,
    };
    let is_time = hour < 24 && minute < 60 && second < 60;
    let time = ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction;
    is_time.then_some(Written { days, time: Some(time), zone: None })
}

/// Returns the nanoseconds of digits behind a point, rounded to so many of them, halves to the even
/// one.
pub(crate) fn fraction_of(behind: &[u8], digits: u32) -> i64 {
    let kept = digits.min(9) as usize;
    let digit = |place: usize| behind.get(place).map_or(0, |digit| i64::from(digit - b'0'));
    let value = (0..kept).fold(0, |sum, place| sum * 10 + digit(place));
    let rest = behind.get(kept..).unwrap_or_default();
    let is_half = digit(kept) == 5 && rest.iter().skip(1).all(|digit| *digit == b'0');
    let up = if is_half { value % 2 } else { i64::from(digit(kept) >= 5) };
    (value + up) * 10_i64.pow(9 - digits.min(9))
}

#[derive(Default)]
struct Reader {
    digits: u32,
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    /// Days since 1970, where they are written as one number.
    days: Option<i64>,
    time: Option<i64>,
    zone: Option<Zone>,
    is_afternoon: Option<bool>,
    is_before: Option<bool>,
    /// Numbers that may be days or years, as in `8 January 1999`.
    numbers: Vec<(i64, usize)>,
}

impl Reader {
    fn read(mut self, text: &str) -> Found<Written> {
        if !text.is_ascii() || text.is_empty() {
            return Err(Refusal::Syntax);
        }
        for word in text.split(|c: char| c.is_ascii_whitespace() || c == ',').filter(|word| !word.is_empty())
        {
            self.word(word)?;
        }
        self.written()
    }

    fn word(&mut self, word: &str) -> Found<()> {
        let first = word.as_bytes()[0];
        if word.contains(':') && (first.is_ascii_digit() || matches!(first, b'T' | b't')) {
            return self.with_time(word);
        }
        match first {
            b'+' | b'-' if self.time.is_some() => self.offset(word),
            b'+' | b'-' if word[1..].eq_ignore_ascii_case("infinity") => Err(Refusal::Infinite),
            b'+' | b'-' => self.date(word),
            b'0'..=b'9' => match word.find(|c: char| !c.is_ascii_digit()) {
                None => self.digits(word),
                // The time is behind T, or AM and a zone stand right behind a number.
                Some(at) if matches!(word.as_bytes()[at], b'T' | b't') && at == 8 => {
                    self.digits(&word[..at])?;
                    self.compact_time(&word[at + 1..])
                }
                Some(_) => self.date(word),
            },
            _ => self.name(word),
        }
    }

    /// A date and a time, or a time, with what stands right behind it.
    fn with_time(&mut self, word: &str) -> Found<()> {
        let colon = word.find(':').ok_or(Refusal::Syntax)?;
        let start = word[..colon].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
        let before = &word[..start];
        if let Some(before) = before.strip_suffix(['T', 't']) {
            if !before.is_empty() {
                self.word(before)?;
            }
        } else if !before.is_empty() {
            return Err(Refusal::Syntax);
        }
        let rest = &word[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && !matches!(c, ':' | '.')).unwrap_or(rest.len());
        self.clock(&rest[..end])?;
        match &rest[end..] {
            "" => Ok(()),
            zone if zone.starts_with(['+', '-']) => self.offset(zone),
            zone => self.name(zone),
        }
    }

    fn clock(&mut self, text: &str) -> Found<()> {
        let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
        let parts: Vec<&str> = clock.split(':').collect();
        let (hour, minute, second) = match parts.as_slice() {
            [hour, minute] => (*hour, *minute, "0"),
            [hour, minute, second] => (*hour, *minute, *second),
            _ => return Err(Refusal::Syntax),
        };
        if text.ends_with('.')
            || parts.len() == 2 && !fraction.is_empty()
            || minute.is_empty()
            || second.is_empty()
        {
            return Err(Refusal::Syntax);
        }
        self.time_of(small(hour)?, small(minute)?, small(second)?, fraction)
    }

    /// Returns `040506` or `0405`, behind a T.
    fn compact_time(&mut self, text: &str) -> Found<()> {
        if text.contains(':') || !text.is_ascii() {
            return self.with_time(text);
        }
        let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
        match clock.len() {
            4 => self.time_of(small(&clock[..2])?, small(&clock[2..])?, 0, fraction),
            6 => self.time_of(small(&clock[..2])?, small(&clock[2..4])?, small(&clock[4..])?, fraction),
            _ => Err(Refusal::Syntax),
        }
    }

    fn time_of(&mut self, hour: i64, minute: i64, second: i64, fraction: &str) -> Found<()> {
        if self.time.is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Refusal::Syntax);
        }
        let time = ((hour * 60 + minute) * 60 + second) * 1_000_000_000;
        let time = time + fraction_of(fraction.as_bytes(), self.digits);
        if hour > 24 || minute > 59 || second > 60 || time > DAY_NANOSECONDS {
            return Err(Refusal::Field);
        }
        self.time = Some(time);
        Ok(())
    }

    /// `+02`, `-03:30` or `+0530`.
    fn offset(&mut self, text: &str) -> Found<()> {
        let seconds = offset_of(text).ok_or(Refusal::Syntax)?;
        if self.zone.is_some() || seconds.abs() >= 16 * 3600 {
            return Err(if self.zone.is_some() { Refusal::Syntax } else { Refusal::Field });
        }
        self.zone = Some(Zone::Offset(seconds));
        Ok(())
    }

    /// A date whose parts are separated: the year comes first, or the month is a name.
    fn date(&mut self, word: &str) -> Found<()> {
        let (sign, rest) = match word.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, word.strip_prefix('+').unwrap_or(word)),
        };
        let parts: Vec<&str> = rest.split(['-', '/', '.']).collect();
        let month_of = |part: &str| place_of_name(&MONTHS, part).map(|place| place as i64 + 1);
        let is_year = |part: &str| part.len() >= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        let (year, month, day) = match parts.as_slice() {
            [year, month, day] if is_year(year) && month_of(month).is_none() => (*year, small(month)?, *day),
            [year, month, day] if is_year(year) => (*year, month_of(month).ok_or(Refusal::Syntax)?, *day),
            [day, month, year] if is_year(year) && sign == 1 && month_of(month).is_some() => {
                (*year, month_of(month).ok_or(Refusal::Syntax)?, *day)
            }
            [month, day, year] if is_year(year) && sign == 1 && month_of(month).is_some() => {
                (*year, month_of(month).ok_or(Refusal::Syntax)?, *day)
            }
            // Day 8 of the year.
            [year, day] if is_year(year) && day.len() == 3 && rest.contains('.') => (*year, 0, *day),
            _ => return Err(Refusal::Syntax),
        };
        let year: i64 = year.parse().map_err(|_| Refusal::Field)?;
        if self.has_date() {
            return Err(Refusal::Syntax);
        }
        if month == 0 && parts.len() == 2 {
            let day: i64 = day.parse().map_err(|_| Refusal::Syntax)?;
            let start =
                checked_days(year, 1, 1).filter(|_| (1..=366).contains(&day)).ok_or(Refusal::Field)?;
            self.days = Some(start + day - 1);
            return Ok(());
        }
        if word.starts_with(['-', '+']) || year != 0 {
            (self.year, self.month, self.day) = (Some(sign * year), Some(month), Some(small(day)?));
            return Ok(());
        }
        Err(Refusal::Field)
    }

    fn has_date(&self) -> bool {
        self.year.is_some() || self.day.is_some() || self.days.is_some()
    }

    fn digits(&mut self, word: &str) -> Found<()> {
        let value: i64 = word.parse().map_err(|_| Refusal::Field)?;
        if word.len() == 8 && !self.has_date() && self.numbers.is_empty() && self.month.is_none() {
            (self.year, self.month, self.day) =
                (Some(value / 10_000), Some(value / 100 % 100), Some(value % 100));
            return Ok(());
        }
        self.numbers.push((value, word.len()));
        Ok(())
    }

    fn name(&mut self, word: &str) -> Found<()> {
        let lower = word.trim_matches(['(', ')']).to_ascii_lowercase();
        match lower.as_str() {
            "infinity" | "inf" => return Err(Refusal::Infinite),
            "epoch" if !self.has_date() => {
                (self.days, self.time, self.zone) = (Some(0), Some(0), Some(Zone::Offset(0)));
                return Ok(());
            }
            "allballs" if self.time.is_none() => {
                self.time = Some(0);
                return Ok(());
            }
            "am" | "pm" if self.time.is_some() && self.is_afternoon.is_none() => {
                self.is_afternoon = Some(lower == "pm");
                return Ok(());
            }
            "bc" | "ad" if self.is_before.is_none() => {
                self.is_before = Some(lower == "bc");
                return Ok(());
            }
            "t" => return Ok(()),
            _ => {}
        }
        if let Some(days) = lower.strip_prefix('j').and_then(|days| days.parse::<i64>().ok()) {
            if self.has_date() || days > 200_000_000 {
                return Err(Refusal::Field);
            }
            self.days = Some(days - JULIAN_1970);
            return Ok(());
        }
        if let Some(time) =
            lower.strip_prefix('t').filter(|time| time.starts_with(|c: char| c.is_ascii_digit()))
        {
            return self.compact_time(time);
        }
        if word.contains('-') && word.bytes().any(|byte| byte.is_ascii_digit()) && self.time.is_none() {
            return self.date(word);
        }
        let plain = lower.trim_end_matches('.');
        if let Some(month) = place_of_name(&MONTHS, plain).filter(|_| self.month.is_none()) {
            self.month = Some(month as i64 + 1);
            return Ok(());
        }
        if place_of_name(&WEEKDAYS, plain).is_some() && !self.has_date() {
            return Ok(());
        }
        if self.zone.is_some() || self.time.is_none() && !self.has_date() {
            return Err(Refusal::Syntax);
        }
        self.zone = Some(match lower.as_str() {
            "z" => Zone::Offset(0),
            _ => Zone::Named(word.to_string()),
        });
        Ok(())
    }

    /// Puts numbers that stand alone into the places of the parts that are missing.
    fn place_numbers(&mut self) -> Found<()> {
        let numbers = std::mem::take(&mut self.numbers);
        if numbers.is_empty() {
            return Ok(());
        }
        if self.has_date() {
            return Err(Refusal::Syntax);
        }
        let is_year = |number: &(i64, usize)| number.1 >= 3;
        match (self.month, numbers.as_slice()) {
            (Some(_), [day, year]) if is_year(year) && !is_year(day) => {
                (self.day, self.year) = (Some(day.0), Some(year.0));
            }
            (Some(_), [year, day]) if is_year(year) && !is_year(day) => {
                (self.day, self.year) = (Some(day.0), Some(year.0));
            }
            (None, [year, month, day]) if is_year(year) && !is_year(month) && !is_year(day) => {
                (self.year, self.month, self.day) = (Some(year.0), Some(month.0), Some(day.0));
            }
            // A time of day, as 040506.
            (None, [(value, 6)]) if self.time.is_none() => {
                return self.time_of(value / 10_000, value / 100 % 100, value % 100, "");
            }
            _ => return Err(Refusal::Syntax),
        }
        Ok(())
    }

    fn written(mut self) -> Found<Written> {
        self.place_numbers()?;
        let year = match (self.year, self.is_before) {
            (Some(year), Some(true)) if year > 0 => Some(1 - year),
            (Some(year), Some(false)) if year > 0 => Some(year),
            (Some(_), Some(_)) => return Err(Refusal::Field),
            (year, None) => year,
            (None, Some(_)) => return Err(Refusal::Syntax),
        };
        let days = match (self.days, year, self.month, self.day) {
            (Some(days), None, None, None) => Some(days),
            (None, Some(year), Some(month), Some(day)) => {
                Some(checked_days(year, month, day).ok_or(Refusal::Field)?)
            }
            (None, None, None, None) => None,
            _ => return Err(Refusal::Syntax),
        };
        const HOUR: i64 = DAY_NANOSECONDS / 24;
        let time = match (self.time, self.is_afternoon) {
            (Some(time), Some(_)) if !(1..=12).contains(&(time / HOUR)) && time / HOUR != 0 => {
                return Err(Refusal::Field);
            }
            (Some(time), Some(true)) if time / HOUR < 12 => Some(time + 12 * HOUR),
            (Some(time), Some(false)) if time / HOUR == 12 => Some(time - 12 * HOUR),
            (time, _) => time,
        };
        match (days, time) {
            (None, None) => Err(Refusal::Syntax),
            _ => Ok(Written { days, time, zone: self.zone }),
        }
    }
}

/// Returns a number of one or two digits.
fn small(text: &str) -> Found<i64> {
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true if (1..=2).contains(&text.len()) => text.parse().map_err(|_| Refusal::Syntax),
        _ => Err(Refusal::Syntax),
    }
}

/// Returns the seconds of `+02`, `-3:30`, `+0530` or `+01:02:03`.
pub(crate) fn offset_of(text: &str) -> Option<i64> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let part = |text: &str| small(text).ok();
    let parts: Vec<&str> = rest.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [hours] if hours.len() <= 2 => (part(hours)?, 0, 0),
        [both] if both.len() == 4 && both.is_ascii() => (part(&both[..2])?, part(&both[2..])?, 0),
        [hours, minutes] => (part(hours)?, part(minutes)?, 0),
        [hours, minutes, seconds] => (part(hours)?, part(minutes)?, part(seconds)?),
        _ => return None,
    };
    (minutes < 60 && seconds < 60).then(|| sign * (hours * 3600 + minutes * 60 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calendar::days_of;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn dates_are_those_of_postgresql() {
        for (text, year, month, day) in [
            ("1999-01-08", 1999, 1, 8),
            ("1990/02/11", 1990, 2, 11),
            ("2004/2/9", 2004, 2, 9),
            ("2004-2-9", 2004, 2, 9),
            ("1999.1.8", 1999, 1, 8),
            ("January 8, 1999", 1999, 1, 8),
            ("Jan 5, 2024", 2024, 1, 5),
            ("5 jan 2024", 2024, 1, 5),
            ("2024 Jan 5", 2024, 1, 5),
            ("Mon, 8 Jan 1999", 1999, 1, 8),
            ("1999-Jan-08", 1999, 1, 8),
            ("08-Jan-1999", 1999, 1, 8),
            ("Jan-08-1999", 1999, 1, 8),
            ("19990108", 1999, 1, 8),
            ("J2451187", 1999, 1, 8),
            ("1999.008", 1999, 1, 8),
            ("1999 01 08", 1999, 1, 8),
            ("0044-03-15 BC", -43, 3, 15),
            ("0044-03-15 (BC)", -43, 3, 15),
            ("March 15, 0044 BC", -43, 3, 15),
            ("1999-01-08 AD", 1999, 1, 8),
            ("-0043-03-15", -43, 3, 15),
            ("+12024-01-01", 12_024, 1, 1),
            ("12024-01-01", 12_024, 1, 1),
            ("epoch", 1970, 1, 1),
        ] {
            let found = read(text, 6).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
            assert_eq!(found.days, Some(days_of(year, month, day)), "{text}");
        }
    }

    #[test]
    fn times_are_rounded_and_have_zones() {
        let hours = |of: i64| Some(of * 3600 * SECOND);
        for (text, time, zone) in [
            ("2024-01-05 10:00", hours(10), None),
            ("2024-01-05T24:00:00", hours(24), None),
            ("2024-01-05 23:59:59.9999999", hours(24), None),
            ("2024-01-05 09:59:60", hours(10), None),
            ("10:00:00.0000004", hours(10), None),
            ("2024-01-05 10:00:00.0000005", hours(10), None),
            ("2024-01-05 10:00:00+08", hours(10), Some(Zone::Offset(8 * 3600))),
            ("2024-01-05 10:00 -03:30", hours(10), Some(Zone::Offset(-12_600))),
            ("2024-01-05T10:00:00Z", hours(10), Some(Zone::Offset(0))),
            ("2024-01-05 10:00 Europe/Berlin", hours(10), Some(Zone::Named("Europe/Berlin".into()))),
            ("2024-01-05 10:00:00America/New_York", hours(10), Some(Zone::Named("America/New_York".into()))),
            ("Fri Jan 05 10:00:00 2024 PST", hours(10), Some(Zone::Named("PST".into()))),
            ("10:00 PM", hours(22), None),
            ("12:00am", hours(0), None),
            ("12:00 pm", hours(12), None),
            ("100000", hours(10), None),
            ("20240105T100000", hours(10), None),
            ("T10:00", hours(10), None),
            ("1:0:0", hours(1), None),
        ] {
            let found = read(text, 6).unwrap_or_else(|refusal| panic!("{text}: {refusal:?}"));
            assert_eq!((found.time, found.zone), (time, zone), "{text}");
        }
        assert_eq!(read("10:00:00.123456789", 9).unwrap().time, Some(36_000_123_456_789));
        assert_eq!(read("10:00:00.1234565", 6).unwrap().time, Some(36_000_123_456_000));
        assert_eq!(read("10:00:00.1234575", 6).unwrap().time, Some(36_000_123_458_000));
    }

    #[test]
    fn what_is_neither_is_refused() {
        use Refusal::{Field, Infinite, Syntax};
        for (text, refusal) in [
            ("", Syntax),
            ("x", Syntax),
            ("11", Syntax),
            ("1/8/1999", Syntax),
            ("99-01-08", Syntax),
            ("2024-01-05 2024-01-06", Syntax),
            ("2024-13-01", Field),
            ("2024-02-30", Field),
            ("0000-01-01", Field),
            ("2024-01-05 25:00", Field),
            ("2024-01-05 24:00:01", Field),
            ("2024-01-05 10:60", Field),
            ("2024-01-05 10:00 +2:99", Syntax),
            ("2024-01-05 13:00 PM", Field),
            ("2024-01-05 10:00:", Syntax),
            ("10:00:00.", Syntax),
            ("2024-01", Syntax),
            ("January 1999", Syntax),
            ("2024-01-05 10:00 UTC UTC", Syntax),
            ("infinity", Infinite),
            ("-infinity", Infinite),
            ("é2024-01-05", Syntax),
        ] {
            assert_eq!(read(text, 6), Err(refusal), "{text}");
        }
    }
}
