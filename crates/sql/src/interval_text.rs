//! Reads and writes intervals by PostgreSQL's rules. A number without a unit is in seconds, and
//! before a time it is in days. A fraction of a year becomes months, and one of a month or a week
//! becomes days and a time.

use arrow::datatypes::IntervalMonthDayNano;
use hypostyle_types::{Error, Result};

const DAY_NANOSECONDS: f64 = 86_400e9;
const DAYS_IN_MONTH: f64 = 30.0;

/// The field of an interval that a unit counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Months(i64),
    Days(i64),
    Nanoseconds(i64),
}

/// Units by their names in lower case, without the `s` of the plural.
const UNITS: [(&str, Unit); 41] = {
    use Unit::{Days, Months, Nanoseconds};
    const SECOND: i64 = 1_000_000_000;
    [
        ("nanosecond", Nanoseconds(1)),
        ("n", Nanoseconds(1)),
        ("microsecond", Nanoseconds(1_000)),
        ("usecond", Nanoseconds(1_000)),
        ("usec", Nanoseconds(1_000)),
        ("u", Nanoseconds(1_000)),
        ("us", Nanoseconds(1_000)),
        ("millisecond", Nanoseconds(1_000_000)),
        ("msecond", Nanoseconds(1_000_000)),
        ("msec", Nanoseconds(1_000_000)),
        ("ms", Nanoseconds(1_000_000)),
        ("second", Nanoseconds(SECOND)),
        ("sec", Nanoseconds(SECOND)),
        ("s", Nanoseconds(SECOND)),
        ("minute", Nanoseconds(60 * SECOND)),
        ("min", Nanoseconds(60 * SECOND)),
        ("m", Nanoseconds(60 * SECOND)),
        ("hour", Nanoseconds(3600 * SECOND)),
        ("hr", Nanoseconds(3600 * SECOND)),
        ("h", Nanoseconds(3600 * SECOND)),
        ("day", Days(1)),
        ("d", Days(1)),
        ("week", Days(7)),
        ("w", Days(7)),
        ("month", Months(1)),
        ("mon", Months(1)),
        ("quarter", Months(3)),
        ("qtr", Months(3)),
        ("year", Months(12)),
        ("yr", Months(12)),
        ("y", Months(12)),
        ("decade", Months(120)),
        ("dec", Months(120)),
        ("century", Months(1200)),
        ("centurie", Months(1200)),
        ("cent", Months(1200)),
        ("c", Months(1200)),
        ("millennium", Months(12_000)),
        ("millennia", Months(12_000)),
        ("mil", Months(12_000)),
        ("millenium", Months(12_000)),
    ]
};

fn unit_of(name: &str) -> Option<Unit> {
    let name = name.to_ascii_lowercase();
    let find = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, unit)| *unit);
    find(&name).or_else(|| find(name.strip_suffix('s')?))
}

/// The parts of an interval while they are added up.
#[derive(Default)]
struct Parts {
    months: i64,
    days: i64,
    nanoseconds: i64,
}

/// Why a text is no interval.
#[derive(Clone, Copy)]
enum Refusal {
    Syntax,
    /// One of its numbers is out of range.
    Field,
}

/// The fields of which an interval is told that it has them, as in `INTERVAL '1-2' YEAR TO MONTH`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The last one. What is below it is cut off.
    pub last: Option<Last>,
    /// Whether the first one is MINUTE, and there are others, so that `1:02` has minutes and seconds.
    pub from_minutes: bool,
    /// The digits of the seconds behind the point.
    pub digits: Option<u32>,
}

/// The last field of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

impl Last {
    /// Returns the field of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "YEAR" | "YEARS" => Self::Year,
            "MONTH" | "MONTHS" => Self::Month,
            "DAY" | "DAYS" => Self::Day,
            "HOUR" | "HOURS" => Self::Hour,
            "MINUTE" | "MINUTES" => Self::Minute,
            "SECOND" | "SECONDS" => Self::Second,
            _ => return None,
        })
    }

    fn unit(self) -> Unit {
        match self {
            Self::Year => Unit::Months(12),
            Self::Month => Unit::Months(1),
            Self::Day => Unit::Days(1),
            Self::Hour => Unit::Nanoseconds(3_600_000_000_000),
            Self::Minute => Unit::Nanoseconds(60_000_000_000),
            Self::Second => Unit::Nanoseconds(1_000_000_000),
        }
    }
}

impl Fields {
    /// Returns the fields of words such as `DAY TO SECOND`; `None` where there are no such fields.
    pub fn named(words: &str, digits: Option<u32>) -> Option<Self> {
        if words.trim().is_empty() {
            return Some(Self { digits, ..Self::default() });
        }
        let words: Vec<&str> = words.split_whitespace().collect();
        let (first, last) = match words.as_slice() {
            [only] => (Last::named(only)?, Last::named(only)?),
            [first, to, last] if to.eq_ignore_ascii_case("TO") => (Last::named(first)?, Last::named(last)?),
            _ => return None,
        };
        let from_minutes = first == Last::Minute && last == Last::Second;
        Some(Self { last: Some(last), from_minutes, digits })
    }

    /// Returns an interval without what is below its fields.
    pub fn truncate(self, interval: IntervalMonthDayNano) -> IntervalMonthDayNano {
        let IntervalMonthDayNano { mut months, mut days, mut nanoseconds } = interval;
        let cut = |nanoseconds: i64, unit: i64| nanoseconds / unit * unit;
        match self.last {
            Some(Last::Year) => (months, days, nanoseconds) = (months / 12 * 12, 0, 0),
            Some(Last::Month) => (days, nanoseconds) = (0, 0),
            Some(Last::Day) => nanoseconds = 0,
            Some(Last::Hour) => nanoseconds = cut(nanoseconds, 3_600_000_000_000),
            Some(Last::Minute) => nanoseconds = cut(nanoseconds, 60_000_000_000),
            Some(Last::Second) | None => {}
        }
        if let Some(digits) = self.digits.filter(|digits| *digits < 9) {
            let unit = 10_i64.pow(9 - digits);
            let (rest, whole) = (nanoseconds % unit, cut(nanoseconds, unit));
            let away = if rest.abs() >= unit / 2 { unit * rest.signum() } else { 0 };
            nanoseconds = whole.saturating_add(away);
        }
        IntervalMonthDayNano::new(months, days, nanoseconds)
    }
}

impl Parts {
    fn add(&mut self, number: &Number, unit: Unit) -> Option<()> {
        let whole = |per: i64| number.whole.checked_mul(per);
        match unit {
            Unit::Months(1) => {
                self.months = self.months.checked_add(number.whole)?;
                self.add_days(number.fraction * DAYS_IN_MONTH)
            }
            // A fraction of a quarter is one of its months, and has days.
            Unit::Months(3) => {
                let months = number.fraction * 3.0;
                self.months = self.months.checked_add(whole(3)?)?.checked_add(months.trunc() as i64)?;
                self.add_days(months.fract() * DAYS_IN_MONTH)
            }
            Unit::Months(per) => {
                let fraction = (number.fraction * per as f64).round_ties_even() as i64;
                self.months = self.months.checked_add(whole(per)?)?.checked_add(fraction)?;
                Some(())
            }
            Unit::Days(per) => {
                self.days = self.days.checked_add(whole(per)?)?;
                self.add_days(number.fraction * per as f64)
            }
            // What is written in nanoseconds has them; all else has microseconds.
            Unit::Nanoseconds(1) => {
                let fraction = number.fraction.round() as i64;
                self.nanoseconds = self.nanoseconds.checked_add(number.whole)?.checked_add(fraction)?;
                Some(())
            }
            Unit::Nanoseconds(per) => {
                let fraction = (number.fraction * per as f64 / 1e3).round_ties_even() as i64 * 1000;
                self.nanoseconds = self.nanoseconds.checked_add(whole(per)?)?.checked_add(fraction)?;
                Some(())
            }
        }
    }

    /// Days, of which a fraction is a time, to the microsecond.
    fn add_days(&mut self, days: f64) -> Option<()> {
        self.days = self.days.checked_add(days.trunc() as i64)?;
        let microseconds = (days.fract() * DAY_NANOSECONDS / 1e3).round_ties_even() as i64;
        self.nanoseconds = self.nanoseconds.checked_add(microseconds.checked_mul(1000)?)?;
        Some(())
    }

    fn negate(&mut self) {
        (self.months, self.days, self.nanoseconds) = (-self.months, -self.days, -self.nanoseconds);
    }

    fn interval(&self) -> Option<IntervalMonthDayNano> {
        let months = i32::try_from(self.months).ok()?;
        Some(IntervalMonthDayNano::new(months, i32::try_from(self.days).ok()?, self.nanoseconds))
    }
}

/// A decimal number; both parts have its sign.
struct Number {
    whole: i64,
    fraction: f64,
}

/// Returns the sign of a number, and the rest.
fn signed(word: &str) -> (i64, &str) {
    match word.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, word.strip_prefix('+').unwrap_or(word)),
    }
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

fn number(word: &str) -> Option<Number> {
    let (sign, word) = signed(word);
    let (whole, fraction) = word.split_once('.').unwrap_or((word, "0"));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || word == "." || word.is_empty() {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
    Some(Number { whole: whole.checked_mul(sign)?, fraction: fraction * sign as f64 })
}

/// Returns `04:05`, `04:05:06.7` or `05:06.7` as nanoseconds; in `minutes`, `04:05` is `00:04:05`.
fn clock(word: &str, in_minutes: bool) -> std::result::Result<i64, Refusal> {
    let (sign, word) = signed(word);
    let parts: Vec<&str> = word.split(':').collect();
    let (hours, minutes, seconds) = match parts.as_slice() {
        [minutes, seconds] if in_minutes || seconds.contains('.') => ("0", *minutes, *seconds),
        [hours, minutes] => (*hours, *minutes, "0"),
        [hours, minutes, seconds] => (*hours, *minutes, *seconds),
        _ => return Err(Refusal::Syntax),
    };
    let whole = |text: &str| digits(text).ok_or_else(|| refusal_of_number(text));
    let (hours, minutes) = (whole(hours)?, whole(minutes)?);
    let seconds = number(seconds).filter(|_| !seconds.starts_with(['-', '+'])).ok_or(Refusal::Syntax)?;
    if minutes > 59 || seconds.whole > 60 || seconds.whole == 60 && seconds.fraction > 0.0 {
        return Err(Refusal::Field);
    }
    let fraction = (seconds.fraction * 1e6).round_ties_even() as i64 * 1000;
    let found = hours.checked_mul(60).and_then(|of| of.checked_add(minutes));
    let found = found.and_then(|of| of.checked_mul(60)).and_then(|of| of.checked_add(seconds.whole));
    let found = found.and_then(|of| of.checked_mul(1_000_000_000)).and_then(|of| of.checked_add(fraction));
    found.and_then(|of| of.checked_mul(sign)).ok_or(Refusal::Field)
}

/// Says why a word is no number: it may only have too many digits.
fn refusal_of_number(word: &str) -> Refusal {
    let digits = word.trim_start_matches(['-', '+']);
    let is_long = digits.len() > 18 && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_long { Refusal::Field } else { Refusal::Syntax }
}

/// Returns `1-2`, which are years and months.
fn years_and_months(word: &str) -> Option<i64> {
    let (sign, word) = signed(word);
    let (years, months) = word.split_once('-')?;
    digits(years)?.checked_mul(12)?.checked_add(digits(months)?)?.checked_mul(sign)
}

/// Returns the words of a text; a unit that stands right behind its number is one of its own.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let unit = word.find(|c: char| c.is_ascii_alphabetic()).filter(|at| *at > 0);
        match unit {
            Some(at) => words.extend([&word[..at], &word[at..]]),
            None => words.push(word),
        }
    }
    words
}

/// Units that have been written, each of which may be written once.
#[derive(Default)]
struct Written(Vec<Unit>);

impl Written {
    fn note(&mut self, units: &[Unit]) -> std::result::Result<(), Refusal> {
        if units.iter().any(|unit| self.0.contains(unit)) {
            return Err(Refusal::Syntax);
        }
        self.0.extend(units);
        Ok(())
    }
}

/// The units of `04:05:06`.
const OF_CLOCK: [Unit; 3] = [
    Unit::Nanoseconds(3_600_000_000_000),
    Unit::Nanoseconds(60_000_000_000),
    Unit::Nanoseconds(1_000_000_000),
];

fn parts_of(text: &str, of_number: Unit, in_minutes: bool) -> std::result::Result<Parts, Refusal> {
    let mut parts = Parts::default();
    let words = words(text.trim().strip_prefix('@').unwrap_or(text));
    let mut words = words.iter().peekable();
    let mut written = Written::default();
    let mut is_empty = true;
    while let Some(word) = words.next() {
        if !is_empty && word.eq_ignore_ascii_case("ago") && words.peek().is_none() {
            parts.negate();
            break;
        }
        is_empty = false;
        let added = if word.contains(':') {
            let time = clock(word, in_minutes)?;
            written.note(&OF_CLOCK)?;
            parts.nanoseconds.checked_add(time).map(|sum| parts.nanoseconds = sum)
        } else if let Some(months) = years_and_months(word) {
            written.note(&[Unit::Months(1)])?;
            parts.months.checked_add(months).map(|sum| parts.months = sum)
        } else {
            let number = number(word).ok_or_else(|| refusal_of_number(word))?;
            let one_more = words.len() == 1;
            let unit = match words.peek() {
                Some(next) if next.contains(':') => Unit::Days(1),
                Some(next) if unit_of(next).is_some() => {
                    let unit = unit_of(next).unwrap_or(of_number);
                    words.next();
                    unit
                }
                None => of_number,
                Some(next) if next.eq_ignore_ascii_case("ago") => of_number,
                // In front of hours that name no unit are days.
                Some(next) if of_number == OF_CLOCK[0] && one_more && is_number(next) => Unit::Days(1),
                Some(_) => return Err(Refusal::Syntax),
            };
            written.note(&[unit])?;
            parts.add(&number, unit)
        };
        added.ok_or(Refusal::Field)?;
    }
    if is_empty { Err(Refusal::Syntax) } else { Ok(parts) }
}

fn is_number(word: &str) -> bool {
    number(word).is_some()
}

/// Returns `P1Y2M3DT4H5M6.7S` of ISO 8601.
fn iso(text: &str) -> Option<std::result::Result<Parts, Refusal>> {
    let text = text.trim().strip_prefix(['P', 'p'])?;
    let read = || {
        let (dates, times) = match text.split_once(['T', 't']) {
            Some((dates, times)) => (dates, Some(times)),
            None => (text, None),
        };
        let mut parts = Parts::default();
        let mut read = |of: &str, units: &[(char, Unit)]| -> std::result::Result<(), Refusal> {
            let mut rest = of;
            while !rest.is_empty() {
                let at = rest.find(|c: char| c.is_ascii_alphabetic()).ok_or(Refusal::Syntax)?;
                let sign = rest[at..].chars().next().map(|sign| sign.to_ascii_uppercase());
                let unit = units.iter().find(|(known, _)| Some(*known) == sign).ok_or(Refusal::Syntax)?;
                let number = number(&rest[..at]).ok_or(Refusal::Syntax)?;
                parts.add(&number, unit.1).ok_or(Refusal::Field)?;
                rest = &rest[at + 1..];
            }
            Ok(())
        };
        let of_dates =
            [('Y', Unit::Months(12)), ('M', Unit::Months(1)), ('W', Unit::Days(7)), ('D', Unit::Days(1))];
        let second = Unit::Nanoseconds(1_000_000_000);
        let of_times = [
            ('H', Unit::Nanoseconds(3_600_000_000_000)),
            ('M', Unit::Nanoseconds(60_000_000_000)),
            ('S', second),
        ];
        if dates.is_empty() && times.is_none_or(str::is_empty) {
            return Err(Refusal::Syntax);
        }
        read(dates, &of_dates)?;
        read(times.unwrap_or_default(), &of_times)?;
        Ok(parts)
    };
    Some(read())
}

/// Returns the interval that a text is; numbers without a unit are of `unit`, or seconds.
///
/// # Errors
/// `InvalidInput` for a text that is none (22007), and for one that is out of range (22015).
pub fn read_with(text: &str, unit: Option<&str>) -> Result<IntervalMonthDayNano> {
    match unit {
        None => read_unit(text, Some(Unit::Nanoseconds(1_000_000_000)), false),
        Some(unit) => read_unit(text, unit_of(unit), false),
    }
}

/// Returns the interval that a text is, within some fields; numbers without a unit are of the last.
///
/// # Errors
/// As [`read_with`].
pub fn read_within(text: &str, fields: Fields) -> Result<IntervalMonthDayNano> {
    let unit = fields.last.map_or(Unit::Nanoseconds(1_000_000_000), Last::unit);
    Ok(fields.truncate(read_unit(text, Some(unit), fields.from_minutes)?))
}

fn read_unit(text: &str, of_number: Option<Unit>, in_minutes: bool) -> Result<IntervalMonthDayNano> {
    let parts = match (iso(text), of_number) {
        (Some(parts), _) => parts,
        (None, Some(of_number)) => parts_of(text, of_number, in_minutes),
        (None, None) => Err(Refusal::Syntax),
    };
    let refused =
        |what: &str, sqlstate| Error::invalid_input(format!("{what}: \"{text}\"")).with_sqlstate(sqlstate);
    match parts.map(|parts| parts.interval()) {
        Ok(Some(interval)) => Ok(interval),
        Ok(None) | Err(Refusal::Field) => Err(refused("interval field value out of range", "22015")),
        Err(Refusal::Syntax) => Err(refused("invalid input syntax for type interval", "22007")),
    }
}

/// Returns [`read_with`] seconds.
///
/// # Errors
/// As there.
pub fn read(text: &str) -> Result<IntervalMonthDayNano> {
    read_with(text, None)
}

/// Says whether a word is a unit that numbers of an interval may have.
pub fn is_unit(word: &str) -> bool {
    unit_of(word).is_some()
}

/// Returns an interval in the words that DataFusion's planner reads.
pub fn in_words(interval: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    format!("{months} months {days} days {nanoseconds} nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::{Fields, read, read_with, read_within};

    #[test]
    fn intervals_are_those_of_postgresql() {
        const SECOND: i64 = 1_000_000_000;
        for (text, months, days, nanoseconds) in [
            ("100", 0, 0, 100 * SECOND),
            ("-1.5", 0, 0, -3 * SECOND / 2),
            ("1 day", 0, 1, 0),
            ("1day 2h", 0, 1, 7200 * SECOND),
            ("0.05 year", 1, 0, 0),
            ("1.5 year", 18, 0, 0),
            ("1.5 millennia", 18_000, 0, 0),
            ("1.5 month", 1, 15, 0),
            ("0.35 month", 0, 10, 43_200 * SECOND),
            ("1.5 week", 0, 10, 43_200 * SECOND),
            ("-1.5 days", 0, -1, -43_200 * SECOND),
            ("26.3434 s", 0, 0, 26_343_400_000),
            ("04:05:06.7", 0, 0, 14_706_700_000_000),
            ("05:06.7", 0, 0, 306_700_000_000),
            ("1 12:30", 0, 1, 45_000 * SECOND),
            ("1 day -04:05", 0, 1, -14_700 * SECOND),
            ("1-2", 14, 0, 0),
            ("-1-2", -14, 0, 0),
            ("+1-2 3 days 1:00:00", 14, 3, 3600 * SECOND),
            ("@ 1 hour ago", 0, 0, -3600 * SECOND),
            ("1 quarter", 3, 0, 0),
            ("1.5 QUARTER", 4, 15, 0),
            ("31.123456789", 0, 0, 31_123_457_000),
            ("0:0:0.9999999", 0, 0, SECOND),
            ("2 centuries 3 decades", 2760, 0, 0),
            ("1 us 2 ms 3 ns", 0, 0, 2_001_003),
            ("P1Y2M3DT4H5M6.5S", 14, 3, 14_706_500_000_000),
            ("P2W", 0, 14, 0),
            ("PT-1H", 0, 0, -3600 * SECOND),
        ] {
            let read = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((read.months, read.days, read.nanoseconds), (months, days, nanoseconds), "{text}");
        }
        assert_eq!(read_with("1.5", Some("DAY")).unwrap().nanoseconds, 43_200 * SECOND);
    }

    #[test]
    fn fields_cut_what_is_below_them() {
        const SECOND: i64 = 1_000_000_000;
        for (text, fields, digits, shown) in [
            ("1 2:03", "minute to second", None, (0, 1, 123 * SECOND)),
            ("1 2:03:04", "minute to second", None, (0, 1, 7384 * SECOND)),
            ("1 2", "day to hour", None, (0, 1, 7200 * SECOND)),
            ("1 2:03:04", "day to hour", None, (0, 1, 7200 * SECOND)),
            ("1 2:03:04", "day to minute", None, (0, 1, 7380 * SECOND)),
            ("1 2:03:04", "hour to second", None, (0, 1, 7384 * SECOND)),
            ("1-2", "year", None, (12, 0, 0)),
            ("1-2", "year to month", None, (14, 0, 0)),
            ("5", "month", None, (5, 0, 0)),
            ("1.5", "day", None, (0, 1, 0)),
            ("-1.5", "minute", None, (0, 0, -60 * SECOND)),
            ("1 day 01:23:45.6789", "", Some(2), (0, 1, 5_025_680_000_000)),
            ("-0.125", "second", Some(2), (0, 0, -130_000_000)),
            ("0.5", "second", Some(0), (0, 0, SECOND)),
        ] {
            let read = read_within(text, Fields::named(fields, digits).unwrap()).unwrap();
            assert_eq!((read.months, read.days, read.nanoseconds), shown, "{text} {fields}");
        }
        assert!(read_within("1 2", Fields::named("day to minute", None).unwrap()).is_err());
        assert!(Fields::named("day to", None).is_none());
    }

    #[test]
    fn what_is_no_interval_is_refused() {
        for (text, sqlstate) in [
            ("", "22007"),
            ("day", "22007"),
            ("1 x", "22007"),
            ("1:2:3:4", "22007"),
            ("a-b", "22007"),
            ("1 2 days", "22007"),
            ("P", "22007"),
            ("P1X", "22007"),
            ("é1", "22007"),
            ("1 day 1 day", "22007"),
            ("1:60", "22015"),
            ("3000000000 days", "22015"),
            ("99999999999999999999 years", "22015"),
            ("9223372036854775807 hours", "22015"),
        ] {
            let error = read(text).expect_err(text);
            assert_eq!(error.sqlstate(), sqlstate, "{text}");
        }
    }
}
