//! Forms of dates and numbers that SQL does not write: dates in other orders than year, month and
//! day, those that a pattern describes, and numbers with another point.

use crate::convert::is_whole;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime};
use std::borrow::Cow;

/// The orders of the parts of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parts {
    YearMonthDay,
    DayMonthYear,
    MonthDayYear,
}

/// How the texts of a column are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// SQL's.
    #[default]
    Usual,
    /// Dates in an order, with a separator, and perhaps with a time of day.
    Ordered(Parts, u8),
    /// Dates or times by a pattern of strptime.
    Pattern(String),
    /// Numbers with another point, or with something between their thousands.
    Number(Option<char>, Option<char>),
    /// Such numbers, but whole ones only: the type that was detected has no places for others.
    Whole(Option<char>, Option<char>),
}

/// The forms of dates that are told from the values, but for SQL's.
pub const DATES: [Form; 6] = [
    Form::Ordered(Parts::YearMonthDay, b'/'),
    Form::Ordered(Parts::DayMonthYear, b'.'),
    Form::Ordered(Parts::DayMonthYear, b'/'),
    Form::Ordered(Parts::MonthDayYear, b'/'),
    Form::Ordered(Parts::DayMonthYear, b'-'),
    Form::Ordered(Parts::MonthDayYear, b'-'),
];

impl Form {
    /// Returns a text as SQL writes it; `None` if it does not have this form.
    pub fn usual<'a>(&self, text: &'a str) -> Option<Cow<'a, str>> {
        match self {
            Self::Usual => Some(Cow::Borrowed(text)),
            Self::Ordered(parts, separator) => {
                let (date, time) = self::ordered(text, *parts, *separator)?;
                Some(Cow::Owned(match time {
                    None => date.to_string(),
                    Some(time) => shown(date.and_time(time)),
                }))
            }
            Self::Pattern(pattern) => by_pattern(text, pattern).map(Cow::Owned),
            Self::Number(point, thousands) => number(text, point.unwrap_or('.'), *thousands),
            Self::Whole(point, thousands) => {
                number(text, point.unwrap_or('.'), *thousands).filter(|number| is_whole(number))
            }
        }
    }

    /// Returns the form for a column whose type is given, and may have places that the detected one has not.
    pub fn of_given_type(self) -> Self {
        match self {
            Self::Whole(None, None) => Self::Usual,
            Self::Whole(point, thousands) => Self::Number(point, thousands),
            other => other,
        }
    }
}

/// Returns a number as SQL writes it, of which the parts before and behind the point are told by
/// characters that are no others.
fn number(text: &str, point: char, thousands: Option<char>) -> Option<Cow<'_, str>> {
    let (whole, fraction) = text.split_once(point).map_or((text, None), |(one, two)| (one, Some(two)));
    let is_grouped = thousands.is_some_and(|separator| whole.contains(separator));
    // A point where the point is a comma may separate thousands, or be a wrong option.
    let is_pointed = point != '.' && thousands != Some('.') && text.contains('.');
    if is_pointed || fraction.is_some_and(|fraction| fraction.contains([point, '.'])) {
        return None;
    }
    if !is_grouped && (point == '.' || fraction.is_none()) {
        return Some(Cow::Borrowed(text));
    }
    let mut usual = String::with_capacity(text.len());
    if let Some(separator) = thousands.filter(|_| is_grouped) {
        let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
        usual.push_str(sign);
        for (place, group) in digits.split(separator).enumerate() {
            let fits = if place == 0 { (1..=3).contains(&group.len()) } else { group.len() == 3 };
            if !fits || !group.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            usual.push_str(group);
        }
    } else {
        usual.push_str(whole);
    }
    usual.extend(fraction.into_iter().flat_map(|fraction| [".", fraction]));
    Some(Cow::Owned(usual))
}

fn shown(moment: NaiveDateTime) -> String {
    moment.format("%Y-%m-%d %H:%M:%S%.f").to_string()
}

/// Returns the date and the time of day in a text.
pub fn ordered(text: &str, parts: Parts, separator: u8) -> Option<(NaiveDate, Option<NaiveTime>)> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time_of_day(time)?)),
        None => (text, None),
    };
    let mut numbers = date.split(char::from(separator));
    let parts_of = [numbers.next()?, numbers.next()?, numbers.next()?];
    if numbers.next().is_some() {
        return None;
    }
    let [year, month, day] = match (parts, parts_of) {
        (Parts::YearMonthDay, [year, month, day])
        | (Parts::DayMonthYear, [day, month, year])
        | (Parts::MonthDayYear, [month, day, year]) => [year, month, day],
    };
    let number = |text: &str, digits: std::ops::RangeInclusive<usize>| {
        let fits = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if fits { text.parse::<u32>().ok() } else { None }
    };
    let year = i32::try_from(number(year, 4..=4)?).ok()?;
    Some((NaiveDate::from_ymd_opt(year, number(month, 1..=2)?, number(day, 1..=2)?)?, time))
}

/// Returns the time of day in a text, with or without seconds.
pub fn time_of_day(text: &str) -> Option<NaiveTime> {
    let digits = text.as_bytes();
    let has_hours = digits.len() >= 5 && digits[2] == b':' && digits[..2].iter().all(u8::is_ascii_digit);
    let pattern = if has_hours && digits.len() == 5 { "%H:%M" } else { "%H:%M:%S%.f" };
    // Two digits each, as clocks show it.
    (has_hours && (digits.len() == 5 || digits.len() >= 8))
        .then(|| NaiveTime::parse_from_str(text, pattern).ok())
        .flatten()
}

/// Reads a text by a pattern, which is one of dates, of points in time, or of those with a zone.
fn by_pattern(text: &str, pattern: &str) -> Option<String> {
    if let Ok(moment) = DateTime::parse_from_str(text, pattern) {
        // A column without a zone has the time in UTC.
        return Some(moment.to_utc().to_rfc3339());
    }
    if let Ok(moment) = NaiveDateTime::parse_from_str(text, pattern) {
        return Some(shown(moment));
    }
    NaiveDate::parse_from_str(text, pattern).ok().map(|date| date.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_numbers_are_written_as_in_sql() {
        let usual = |form: Form, text: &str| form.usual(text).map(Cow::into_owned);
        let dotted = || DATES[1].clone();
        assert_eq!(usual(dotted(), "31.12.2025").as_deref(), Some("2025-12-31"));
        assert_eq!(usual(dotted(), "1.2.2025 10:30").as_deref(), Some("2025-02-01 10:30:00"));
        assert_eq!(
            usual(DATES[0].clone(), "2025/12/31T10:00:00.5").as_deref(),
            Some("2025-12-31 10:00:00.500")
        );
        assert_eq!(usual(DATES[3].clone(), "12/31/2025").as_deref(), Some("2025-12-31"));
        for wrong in
            ["31.12.25", "32.1.2025", "1.2.2025.3", "1..2025", "+1.2.2025", "1.2.2025 25:00", "", "x"]
        {
            assert_eq!(usual(dotted(), wrong), None, "{wrong}");
        }
        let pattern = |pattern: &str| Form::Pattern(pattern.into());
        assert_eq!(usual(pattern("%d %b %Y"), "05 Jan 2024").as_deref(), Some("2024-01-05"));
        assert_eq!(
            usual(pattern("%H:%M %d/%m/%y"), "10:30 05/01/24").as_deref(),
            Some("2024-01-05 10:30:00")
        );
        assert_eq!(
            usual(pattern("%Y-%m-%d %H:%M:%S %z"), "2024-01-05 10:30:00 +0200").as_deref(),
            Some("2024-01-05T08:30:00+00:00")
        );
        let comma = || Form::Number(Some(','), None);
        assert_eq!(usual(comma(), "-1,5").as_deref(), Some("-1.5"));
        assert_eq!(usual(comma(), "1.000,5"), None);
        assert_eq!(usual(comma(), "1,5.0"), None);
        let grouped = || Form::Number(None, Some(','));
        for (text, number) in [
            ("1,234,567.5", Some("1234567.5")),
            ("-12,345", Some("-12345")),
            ("1234.5e3", Some("1234.5e3")),
            ("12", Some("12")),
            ("1,23", None),
            ("1,2345", None),
            (",123", None),
            ("1234,567", None),
            ("1,234,", None),
        ] {
            assert_eq!(usual(grouped(), text).as_deref(), number, "{text}");
        }
        let whole = || Form::Whole(None, None);
        for text in ["12", "-12.00", "1.5e1", "120e-1", "0.0", "0e-5", "1e400", "nan"] {
            assert_eq!(usual(whole(), text).as_deref(), Some(text), "{text}");
        }
        for text in ["1.5", "-0.1", "12e-1", "1.25e1", "1e-400", "1.5e-9223372036854775807"] {
            assert_eq!(usual(whole(), text), None, "{text}");
        }
        assert_eq!(usual(Form::Whole(Some(','), Some('.')), "1.234,00").as_deref(), Some("1234.00"));
        assert_eq!(usual(Form::Whole(Some(','), Some('.')), "1.234,5"), None);
        assert_eq!(whole().of_given_type(), Form::Usual);
        let german = Form::Number(Some(','), Some('.'));
        assert_eq!(Form::Whole(Some(','), Some('.')).of_given_type(), german);
        assert_eq!(usual(german.clone(), "1.234.567,25").as_deref(), Some("1234567.25"));
        assert_eq!(usual(german, "1.5"), None);
    }
}
