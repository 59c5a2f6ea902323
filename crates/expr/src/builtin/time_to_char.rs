//! Points in time and intervals as texts, by PostgreSQL's patterns.

use crate::builtin::time_pattern::{Field, Letters, Node};
use crate::calendar::{Clock, JULIAN_1970, MONTHS, WEEKDAYS, iso_week, iso_weekday, iso_year_start, weekday};

/// The parts of what is shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    /// The calendar's days since 1970; `None` for an interval, which has none.
    pub days: Option<i64>,
    pub year: i64,
    pub month: i64,
    pub day: i64,
    pub day_of_year: i64,
    pub hour: i64,
    pub minute: i64,
    pub second: i64,
    pub nanosecond: i64,
    /// How far clocks are ahead of UTC, in seconds.
    pub ahead: i64,
    /// How the clocks are called, as `CET`.
    pub zone: String,
}

impl Parts {
    /// The parts of what a clock shows.
    pub(crate) fn of_clock(clock: &Clock) -> Self {
        Self {
            days: Some(clock.days),
            year: clock.date.year,
            month: clock.date.month.into(),
            day: clock.date.day.into(),
            day_of_year: clock.day_of_year(),
            hour: clock.hour.into(),
            minute: clock.minute.into(),
            second: clock.second.into(),
            nanosecond: clock.nanosecond.into(),
            ..Self::default()
        }
    }

    /// Those of an interval, each with its sign.
    pub(crate) fn of_interval(months: i32, days: i32, nanoseconds: i64) -> Self {
        const SECOND: i64 = 1_000_000_000;
        let (year, month) = (i64::from(months / 12), i64::from(months % 12));
        Self {
            year,
            month,
            day: days.into(),
            day_of_year: i64::from(months) * 30 + i64::from(days),
            hour: nanoseconds / (3600 * SECOND),
            minute: nanoseconds / (60 * SECOND) % 60,
            second: nanoseconds / SECOND % 60,
            nanosecond: nanoseconds % SECOND,
            ..Self::default()
        }
    }

    /// Returns the year as it is counted before and after Christ.
    fn counted(&self, year: i64) -> i64 {
        if self.days.is_some() && year <= 0 { 1 - year } else { year }
    }
}

const ROMAN: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// Returns a text by a pattern; `None` where an interval has no such part.
pub(crate) fn written(nodes: &[Node], parts: &Parts) -> Option<String> {
    let mut text = String::new();
    for node in nodes {
        match node {
            Node::Text(character) | Node::Separator(character) => text.push(*character),
            Node::Field { field, letters, bare, ordinal } => {
                let shown = match name(*field, *letters, *bare, parts)? {
                    Some(name) => name,
                    None => number(*field, *bare, parts)?,
                };
                text.push_str(&shown);
                if let Some(letters) = ordinal {
                    text.push_str(&cased(ordinal_of(&shown), *letters));
                }
            }
        }
    }
    Some(text)
}

fn cased(text: &str, letters: Letters) -> String {
    match letters {
        Letters::Upper => text.to_ascii_uppercase(),
        Letters::Capital => text.to_string(),
        Letters::Lower => text.to_ascii_lowercase(),
    }
}

/// Returns the letters behind a number, as in `1st`.
fn ordinal_of(number: &str) -> &'static str {
    let digits: Vec<u8> = number.bytes().filter(u8::is_ascii_digit).rev().take(2).collect();
    match digits.as_slice() {
        [_, b'1'] => "th",
        [b'1', ..] => "st",
        [b'2', ..] => "nd",
        [b'3', ..] => "rd",
        _ => "th",
    }
}

/// Returns a field that is a name; the inner `None` is for one that is a number.
fn name(field: Field, letters: Letters, bare: bool, parts: &Parts) -> Option<Option<String>> {
    let padded = |text: String, width: usize| if bare { text } else { format!("{text:width$}") };
    let place = |of: i64| usize::try_from(of).ok();
    let month = || parts.days.and_then(|_| MONTHS.get(place(parts.month - 1)?));
    let day = || parts.days.and_then(|days| WEEKDAYS.get(place(weekday(days))?));
    Some(Some(match field {
        Field::MonthName => padded(cased(month()?, letters), 9),
        Field::MonthAbbreviation => cased(&month()?[..3], letters),
        Field::DayName => padded(cased(day()?, letters), 9),
        Field::DayAbbreviation => cased(&day()?[..3], letters),
        Field::RomanMonth => {
            // Months before the beginning are counted from the end.
            let roman = place(parts.month.rem_euclid(12)).map(|month| ROMAN[(month + 11) % 12]);
            padded(
                if letters == Letters::Lower { roman?.to_ascii_lowercase() } else { roman?.to_string() },
                4,
            )
        }
        Field::Half(has_points) => {
            let is_afternoon = parts.hour.rem_euclid(24) >= 12;
            let half = match (is_afternoon, has_points) {
                (false, false) => "AM",
                (false, true) => "A.M.",
                (true, false) => "PM",
                (true, true) => "P.M.",
            };
            if letters == Letters::Lower { half.to_ascii_lowercase() } else { half.to_string() }
        }
        Field::Era(has_points) => {
            parts.days?;
            let era = match (parts.year <= 0, has_points) {
                (false, false) => "AD",
                (false, true) => "A.D.",
                (true, false) => "BC",
                (true, true) => "B.C.",
            };
            if letters == Letters::Lower { era.to_ascii_lowercase() } else { era.to_string() }
        }
        Field::ZoneName => {
            parts.days?;
            if letters == Letters::Lower { parts.zone.to_ascii_lowercase() } else { parts.zone.clone() }
        }
        Field::ZoneHour => format!("{}{:02}", sign(parts.ahead), parts.ahead.abs() / 3600),
        Field::ZoneMinute => format!("{:02}", parts.ahead.abs() / 60 % 60),
        Field::Offset => {
            parts.days?;
            let (hours, minutes) = (parts.ahead.abs() / 3600, parts.ahead.abs() / 60 % 60);
            let width = if bare { 0 } else { 2 };
            let minutes = if minutes == 0 { String::new() } else { format!(":{minutes:02}") };
            format!("{}{hours:0width$}{minutes}", sign(parts.ahead))
        }
        _ => return Some(None),
    }))
}

fn sign(of: i64) -> char {
    if of < 0 { '-' } else { '+' }
}

/// Returns a field that is a number.
fn number(field: Field, bare: bool, parts: &Parts) -> Option<String> {
    let (value, width) = match field {
        Field::YearWithComma => {
            let year = parts.counted(parts.year);
            return Some(format!("{},{:03}", year / 1000, (year % 1000).abs()));
        }
        Field::Year(digits) => of_year(parts.counted(parts.year), digits),
        Field::IsoYear(digits) => of_year(parts.counted(iso_week(parts.days?).0), digits),
        Field::Century => {
            let year = parts.year;
            let century =
                if year > 0 || parts.days.is_none() { (year - 1) / 100 + 1 } else { year / 100 - 1 };
            (century, 2)
        }
        Field::Quarter => ((parts.month - 1) / 3 + 1, 1),
        Field::Month => (parts.month, 2),
        Field::Week => ((parts.day_of_year - 1) / 7 + 1, 2),
        Field::WeekOfMonth => ((parts.day - 1) / 7 + 1, 1),
        Field::IsoWeek => (iso_week(parts.days?).1, 2),
        Field::DayOfYear => (parts.day_of_year, 3),
        Field::IsoDayOfYear => {
            let days = parts.days?;
            (days - iso_year_start(iso_week(days).0) + 1, 3)
        }
        Field::Day => (parts.day, 2),
        Field::Weekday => (weekday(parts.days?) + 1, 1),
        Field::IsoWeekday => (iso_weekday(parts.days?), 1),
        Field::JulianDay => (parts.days? + JULIAN_1970, 1),
        Field::Hour => (parts.hour, 2),
        Field::HourOfHalf => (if parts.hour % 12 == 0 { 12 } else { parts.hour % 12 }, 2),
        Field::Minute => (parts.minute, 2),
        Field::Second => (parts.second, 2),
        Field::SecondOfDay => ((parts.hour * 60 + parts.minute) * 60 + parts.second, 1),
        Field::Fraction(digits) => {
            // A fraction has all its zeros.
            let (value, width) = (parts.nanosecond / 10_i64.pow(9 - digits), digits as usize);
            let width = width + usize::from(value < 0);
            return Some(format!("{value:0width$}"));
        }
        _ => return None,
    };
    let width = if bare { 0 } else { width + usize::from(value < 0) };
    Some(format!("{value:0width$}"))
}

/// Returns the last digits of a year, and how many there are at least.
fn of_year(year: i64, digits: u32) -> (i64, usize) {
    let value = if digits >= 4 { year } else { year % 10_i64.pow(digits) };
    (value, digits as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::time_pattern::nodes;
    use crate::calendar::{DAY_SECONDS, days_of};

    #[test]
    fn times_are_shown_as_in_postgresql() {
        let clock = |year, month, day, second| {
            Clock::at(days_of(year, month, day) * DAY_SECONDS + second, 12_345_000)
        };
        let of = |clock: Clock| Parts { ahead: 19_800, zone: "IST".into(), ..Parts::of_clock(&clock) };
        for (pattern, parts, shown) in [
            ("YYYY-\"Q\"Q", of(clock(2024, 3, 5, 0)), "2024-Q1"),
            ("SSSS SSSSS", of(clock(2024, 3, 5, 43_200)), "43200 43200"),
            ("Day, DD  Month", of(clock(2024, 3, 5, 0)), "Tuesday  , 05  March    "),
            ("FMDay, FMDDth FMMonth", of(clock(2024, 3, 1, 0)), "Friday, 1st March"),
            ("DDTH ddth", of(clock(2024, 3, 12, 0)), "12TH 12th"),
            ("DDth", of(clock(2024, 3, 23, 0)), "23rd"),
            ("DAY day Dy DY MON mon", of(clock(2024, 3, 23, 0)), "SATURDAY  saturday  Sat SAT MAR mar"),
            ("J WW IW W D ID DDD IDDD", of(clock(1999, 1, 8, 0)), "2451187 02 01 2 6 5 008 005"),
            ("RM rm FMRM", of(clock(2024, 3, 5, 0)), "III  iii  III"),
            ("CC YY Y Y,YYY IYYY IYY", of(clock(2024, 3, 5, 0)), "21 24 4 2,024 2024 024"),
            ("HH:MI:SS.MS AM a.m. HH24", of(clock(2024, 3, 5, 46_800)), "01:00:00.012 PM p.m. 13"),
            ("US FF1 FF6 FMMS", of(clock(2024, 3, 5, 0)), "012345 0 012345 012"),
            ("TZH:TZM OF TZ tz", of(clock(2024, 3, 5, 0)), "+05:30 +05:30 IST ist"),
            ("YYYY BC AD b.c.", of(clock(-43, 3, 15, 0)), "0044 BC BC b.c."),
            ("YYYY-MM-DDTHH24", of(clock(2024, 3, 5, 0)), "2024-03-05T00"),
            ("HH24:MI:SS", Parts::of_interval(0, 0, 54_132_000_000_000), "15:02:12"),
            ("HH12 DD MM YYYY", Parts::of_interval(14, 3, 54_132_000_000_000), "03 03 02 0001"),
            ("HH24:MI", Parts::of_interval(0, 0, -3_660_000_000_000), "-01:-01"),
            ("HH24", Parts::of_interval(0, 0, 360_000_000_000_000), "100"),
        ] {
            assert_eq!(written(&nodes(pattern), &parts).as_deref(), Some(shown), "{pattern}");
        }
        assert_eq!(written(&nodes("Day"), &Parts::of_interval(0, 1, 0)), None);
    }
}
