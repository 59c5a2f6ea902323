//! The narrowest type that holds every text seen in a column.

use crate::csv::form::{DATES, Form, Parts, ordered, time_of_day};
use crate::option::Given;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::{DataType, TimeUnit};
use chrono::{NaiveDate, NaiveDateTime, Utc};
use std::ops::BitAndAssign;
use std::sync::Arc;

/// A set of types, as bits; the lowest bit that is left is the narrowest type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    types: u32,
    seen: bool,
}

const BOOLEAN: u32 = 1;
const INTEGER: u32 = 1 << 1;
const WIDE_INTEGER: u32 = 1 << 2;
const FLOAT: u32 = 1 << 3;
const DATE: u32 = 1 << 4;
const GIVEN_DATE: u32 = 1 << 5;
/// The first of the bits of [`DATES`] as dates.
const FIRST_DATE: u32 = 6;
const TIME: u32 = 1 << 12;
const TIMESTAMP: u32 = 1 << 13;
const GIVEN_TIMESTAMP: u32 = 1 << 14;
/// The first of the bits of [`DATES`] as points in time.
const FIRST_TIMESTAMP: u32 = 15;
const INSTANT: u32 = 1 << 21;

/// The length of `1.2.2025`.
const DATE_BYTES_MIN: usize = 8;

impl Default for Guess {
    fn default() -> Self {
        Self { types: u32::MAX, seen: false }
    }
}

impl BitAndAssign for Guess {
    fn bitand_assign(&mut self, other: Self) {
        self.types &= other.types;
        self.seen |= other.seen;
    }
}

impl Guess {
    /// Returns the types that one text can be read as.
    pub fn of(text: &str, given: &Given) -> Self {
        Self { types: types_of(text, given), seen: true }
    }

    /// Returns which date or point in time a text is, as SQL and JSON write them.
    pub fn of_moment(text: &str) -> Self {
        let may_be = text.as_bytes().first().is_some_and(u8::is_ascii_digit);
        Self { types: if may_be { in_sql(text, &Given::default()) } else { 0 }, seen: true }
    }

    pub fn is_text(self) -> bool {
        self.data_type() == DataType::Utf8View
    }

    pub fn data_type(self) -> DataType {
        match self.narrowest() {
            None => DataType::Utf8View,
            Some(BOOLEAN) => DataType::Boolean,
            Some(INTEGER) => DataType::Int64,
            Some(WIDE_INTEGER) => DataType::Decimal128(38, 0),
            Some(FLOAT) => DataType::Float64,
            Some(TIME) => DataType::Time64(TimeUnit::Microsecond),
            Some(INSTANT) => DataType::Timestamp(TimeUnit::Microsecond, Some(Arc::from("UTC"))),
            Some(date) if date < TIME => DataType::Date32,
            Some(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// Returns how the texts are written.
    pub fn form(self, given: &Given) -> Form {
        let pattern = |pattern: &Option<String>| pattern.clone().map_or(Form::Usual, Form::Pattern);
        let ordered = |first: u32, bit: u32| {
            let index = bit.trailing_zeros().saturating_sub(first);
            DATES.get(index as usize).cloned().unwrap_or_default()
        };
        match self.narrowest() {
            Some(GIVEN_DATE) => pattern(&given.date),
            Some(GIVEN_TIMESTAMP) => pattern(&given.timestamp),
            Some(FLOAT | INTEGER) => number_form(given).unwrap_or_default(),
            // Its cast would round.
            Some(WIDE_INTEGER) => Form::Whole(given.point, given.thousands),
            Some(DATE | TIME | TIMESTAMP | INSTANT | BOOLEAN) | None => Form::Usual,
            Some(date) if date < TIME => ordered(FIRST_DATE, date),
            Some(moment) => ordered(FIRST_TIMESTAMP, moment),
        }
    }

    /// Returns the bit of the narrowest type; `None` for text. Dates that may begin with the day or
    /// with the month stay text.
    fn narrowest(self) -> Option<u32> {
        if !self.seen || self.types == 0 {
            return None;
        }
        let bit = 1_u32 << self.types.trailing_zeros();
        let first = if bit < TIME { FIRST_DATE } else { FIRST_TIMESTAMP };
        let place = bit.trailing_zeros().checked_sub(first).and_then(|index| DATES.get(index as usize));
        let other = match place {
            Some(Form::Ordered(Parts::DayMonthYear, separator @ (b'/' | b'-'))) => {
                DATES.iter().position(|form| *form == Form::Ordered(Parts::MonthDayYear, *separator))
            }
            _ => None,
        };
        let is_ambiguous = other.is_some_and(|other| self.types & (1 << (first + other as u32)) != 0);
        (!is_ambiguous).then_some(bit)
    }
}

fn types_of(text: &str, given: &Given) -> u32 {
    given_moment(text, given)
        | match text.as_bytes() {
            [b'0'..=b'9' | b'-' | b'.', ..] => pointed(text, given) | moment(text, given),
            [first, ..] if given.point.is_some_and(|point| point == char::from(*first)) => {
                pointed(text, given)
            }
            [b't' | b'T' | b'f' | b'F', ..] => {
                let boolean = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
                if boolean { BOOLEAN } else { 0 }
            }
            _ if ["nan", "inf"].iter().any(|word| text.eq_ignore_ascii_case(word)) => FLOAT,
            _ => 0,
        }
}

/// Returns the types of a text by the patterns that options give.
fn given_moment(text: &str, given: &Given) -> u32 {
    let fits = |pattern: &Option<String>| {
        let form = pattern.clone().map(Form::Pattern);
        form.and_then(|form| form.usual(text).map(|text| text.len()))
    };
    let date = fits(&given.date).map_or(0, |_| GIVEN_DATE);
    date | fits(&given.timestamp).map_or(0, |_| GIVEN_TIMESTAMP)
}

/// Returns the form of numbers that options give.
fn number_form(given: &Given) -> Option<Form> {
    let is_given = given.point.or(given.thousands).is_some();
    is_given.then_some(Form::Number(given.point, given.thousands))
}

fn pointed(text: &str, given: &Given) -> u32 {
    match number_form(given) {
        None => number(text),
        Some(form) => form.usual(text).map_or(0, |text| number(&text)),
    }
}

fn number(text: &str) -> u32 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // A number that starts with zeros is an identifier: a postcode, a telephone number.
    if digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit() {
        return 0;
    }
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return match (text.parse::<i64>(), digits.len()) {
            (Ok(_), _) => INTEGER | WIDE_INTEGER | FLOAT,
            (_, ..=38) => WIDE_INTEGER | FLOAT,
            // A DOUBLE has the first 15 digits of it, and no type has all: it is an identifier.
            _ => 0,
        };
    }
    let spelt = digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if (spelt || digits.eq_ignore_ascii_case("inf")) && text.parse::<f64>().is_ok() { FLOAT } else { 0 }
}

fn moment(text: &str, given: &Given) -> u32 {
    let mut types = match time_of_day(text) {
        Some(_) => TIME,
        None => in_sql(text, given) | without_seconds(text, given),
    };
    let first = text.bytes().find(|byte| !byte.is_ascii_digit()).filter(|_| text.len() >= DATE_BYTES_MIN);
    for (index, form) in DATES.iter().enumerate() {
        let Form::Ordered(parts, separator) = form else { continue };
        if first != Some(*separator) {
            continue;
        }
        let index = index as u32;
        let (date, timestamp) = (1 << (FIRST_DATE + index), 1 << (FIRST_TIMESTAMP + index));
        types |= match ordered(text, *parts, *separator) {
            Some((_, None)) => date | timestamp,
            Some((_, Some(_))) => timestamp,
            None => 0,
        };
    }
    // The forms that options give are the only ones.
    let dates = ((1 << DATES.len()) - 1) << FIRST_DATE;
    let timestamps = ((1 << DATES.len()) - 1) << FIRST_TIMESTAMP;
    types &= if given.date.is_some() { !dates } else { u32::MAX };
    types & if given.timestamp.is_some() { !timestamps } else { u32::MAX }
}

/// Returns the types of a date or a point in time as SQL writes them.
fn in_sql(text: &str, given: &Given) -> u32 {
    let Some((date, rest)) = text.split_at_checked(10) else { return 0 };
    let is_date = date.as_bytes()[4] == b'-' && NaiveDate::parse_from_str(date, "%Y-%m-%d").is_ok();
    let of_dates = if given.date.is_none() { DATE } else { 0 };
    let of_timestamps = if given.timestamp.is_none() { TIMESTAMP | INSTANT } else { 0 };
    match rest.as_bytes() {
        _ if !is_date => 0,
        [] => of_dates | of_timestamps,
        [b' ' | b'T', ..] if string_to_datetime(&Utc, text).is_ok() => {
            let with_zone = rest.contains(['Z', 'z', '+', '-']);
            of_timestamps & if with_zone { INSTANT } else { TIMESTAMP | INSTANT }
        }
        _ => 0,
    }
}

/// Returns the types of a point in time that SQL reads and does not write: without seconds.
fn without_seconds(text: &str, given: &Given) -> u32 {
    const FORM: &[u8] = b"0000-00-00 00:00";
    let fits = |(byte, form): (u8, &u8)| match form {
        b'0' => byte.is_ascii_digit(),
        b' ' => matches!(byte, b' ' | b'T'),
        sign => byte == *sign,
    };
    let is_of_form = text.len() == FORM.len() && text.bytes().zip(FORM).all(fits);
    let is_moment = || NaiveDateTime::parse_from_str(&text.replace('T', " "), "%Y-%m-%d %H:%M").is_ok();
    if given.timestamp.is_none() && is_of_form && is_moment() { TIMESTAMP | INSTANT } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_of(texts: &[&str]) -> DataType {
        let mut guess = Guess::default();
        texts.iter().for_each(|text| guess &= Guess::of(text, &Given::default()));
        guess.data_type()
    }

    #[test]
    fn the_narrowest_common_type_is_chosen() {
        let micros = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Microsecond, zone.map(Arc::from));
        for (texts, data_type) in [
            (&["true", "False"][..], DataType::Boolean),
            (&["1", "-20", "0"], DataType::Int64),
            (&["1", "12345678901234567890"], DataType::Decimal128(38, 0)),
            (&["1", "2.5", "-1e9", ".5", "nan"], DataType::Float64),
            (&["2024-02-29", "1999-12-31"], DataType::Date32),
            (&["2024-02-29", "1999-12-31 23:59:59.5"], micros(None)),
            (&["2024-02-29T10:00:00Z", "1999-12-31 23:59:59+01:00"], micros(Some("UTC"))),
            (&["2024-02-29 10:30", "1999-12-31T23:59"], micros(None)),
            (&["2024-02-29 10:30", "1999-12-31 23:59:59Z"], micros(Some("UTC"))),
            (&["2024-02-29 10:60"], DataType::Utf8View),
            (&["2024-02-30 10:30"], DataType::Utf8View),
            (&["10:11:12", "23:00:00.25", "07:30"], DataType::Time64(TimeUnit::Microsecond)),
            (&["31.12.2025", "1.1.2026"], DataType::Date32),
            (&["31.12.2025 10:30", "1.1.2026"], micros(None)),
            (&["2025/12/31", "2025/1/2"], DataType::Date32),
            (&["31/12/2025", "01/02/2025"], DataType::Date32),
            (&["12/31/2025 10:00:00", "01/02/2025"], micros(None)),
            (&["01/02/2025", "03/04/2025"], DataType::Utf8View),
            (&["01/02/2025 10:00", "03/04/2025"], DataType::Utf8View),
            (&["31/12/2025", "12/31/2025"], DataType::Utf8View),
            (&["31-12-2025", "2025-12-31"], DataType::Utf8View),
            (&["99999999999999999999999999999999999999", "1"], DataType::Decimal128(38, 0)),
            (&["123456789012345678901234567890123456789", "1"], DataType::Utf8View),
            (&["7:30"], DataType::Utf8View),
            (&["007", "1"], DataType::Utf8View),
            (&["2024-02-30"], DataType::Utf8View),
            (&["1", "x"], DataType::Utf8View),
            (&["1-2", "555-1234"], DataType::Utf8View),
            (&["true", "1"], DataType::Utf8View),
            (&["ünïcödé über"], DataType::Utf8View),
            (&[], DataType::Utf8View),
        ] {
            assert_eq!(type_of(texts), data_type, "{texts:?}");
        }
    }

    #[test]
    fn options_give_the_forms_of_dates_and_numbers() {
        let given = |date: Option<&str>, timestamp: Option<&str>, point: Option<char>| Given {
            date: date.map(str::to_string),
            timestamp: timestamp.map(str::to_string),
            point,
            thousands: None,
        };
        let days = given(Some("%d/%m/%Y"), None, None);
        let guess = Guess::of("01/02/2025", &days);
        assert_eq!(
            (guess.data_type(), guess.form(&days)),
            (DataType::Date32, Form::Pattern("%d/%m/%Y".into()))
        );
        assert_eq!(
            Guess::of("2025-02-01", &days).data_type(),
            DataType::Timestamp(TimeUnit::Microsecond, None)
        );
        let moments = given(None, Some("%H:%M %d.%m.%Y"), None);
        assert!(matches!(Guess::of("10:00 01.02.2025", &moments).data_type(), DataType::Timestamp(_, None)));
        let comma = given(None, None, Some(','));
        let mut guess = Guess::of("1,5", &comma);
        guess &= Guess::of("2", &comma);
        assert_eq!(
            (guess.data_type(), guess.form(&comma)),
            (DataType::Float64, Form::Number(Some(','), None))
        );
        assert!(Guess::of("1.5", &comma).is_text());
        let grouped = Given { thousands: Some('.'), ..comma };
        let mut guess = Guess::of("1.234.567", &grouped);
        assert_eq!(guess.data_type(), DataType::Int64);
        guess &= Guess::of("0,5", &grouped);
        assert_eq!(guess.data_type(), DataType::Float64);
        assert!(Guess::of("1.5", &grouped).is_text());
    }
}
