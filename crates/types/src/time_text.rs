//! Days, times of day and points in time as text, as PostgreSQL writes them (`DateStyle` ISO).

use crate::calendar::{Date, date_of};
use std::fmt;

const SECOND_NANOSECONDS: i64 = 1_000_000_000;

/// A day, counted from 1970-01-01, in the Gregorian calendar: `2024-01-05`, `10000-01-01`, `0044-03-15 BC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateText(pub i64);

impl fmt::Display for DateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let era = write_date(f, self.0)?;
        f.write_str(era)
    }
}

/// Nanoseconds since midnight: `10:20:30.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockText(pub i64);

impl fmt::Display for ClockText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0 / SECOND_NANOSECONDS, self.0 % SECOND_NANOSECONDS);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        if fraction == 0 {
            return Ok(());
        }
        let digits = format!("{fraction:09}");
        write!(f, ".{}", digits.trim_end_matches('0'))
    }
}

/// What a calendar and a clock show: `2024-01-05 10:20:30.5+02`; with `{:#}` as in JSON,
/// `2024-01-05T10:20:30.5+02:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MomentText {
    /// Days since 1970-01-01.
    pub days: i64,
    /// Nanoseconds since midnight.
    pub nanoseconds: i64,
    /// The seconds that they are ahead of UTC, where they are those of a zone.
    pub ahead: Option<i64>,
}

impl fmt::Display for MomentText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let era = write_date(f, self.days)?;
        write!(f, "{}{}", if f.alternate() { 'T' } else { ' ' }, ClockText(self.nanoseconds))?;
        if let Some(ahead) = self.ahead {
            let (sign, ahead) = (if ahead < 0 { '-' } else { '+' }, ahead.abs());
            write!(f, "{sign}{:02}", ahead / 3600)?;
            if ahead % 3600 != 0 || f.alternate() {
                write!(f, ":{:02}", ahead / 60 % 60)?;
            }
            // Of the time before there were zones.
            if ahead % 60 != 0 {
                write!(f, ":{:02}", ahead % 60)?;
            }
        }
        f.write_str(era)
    }
}

/// Writes a date with the year of its era; what stands behind those before the year 1.
fn write_date(f: &mut fmt::Formatter<'_>, days: i64) -> Result<&'static str, fmt::Error> {
    let Date { year, month, day } = date_of(days);
    let (shown, era) = if year < 1 { (1 - year, " BC") } else { (year, "") };
    write!(f, "{shown:04}-{month:02}-{day:02}")?;
    Ok(era)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_those_of_postgresql() {
        for (days, shown) in [
            (0, "1970-01-01"),
            (10_957, "2000-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(DateText(days).to_string(), shown);
        }
        let moment = |days, nanoseconds, ahead| MomentText { days, nanoseconds, ahead }.to_string();
        assert_eq!(moment(-1, 86_399_999_999_000, None), "1969-12-31 23:59:59.999999");
        assert_eq!(moment(0, 1_500_000_000, Some(0)), "1970-01-01 00:00:01.5+00");
        assert_eq!(moment(-1, 73_800_000_000_000, Some(-12_600)), "1969-12-31 20:30:00-03:30");
        assert_eq!(moment(0, 3_208_000_000_000, Some(3208)), "1970-01-01 00:53:28+00:53:28");
        assert_eq!(moment(-719_163, 0, Some(3600)), "0001-12-31 00:00:00+01 BC");
        let in_json = |days, nanoseconds, ahead| format!("{:#}", MomentText { days, nanoseconds, ahead });
        assert_eq!(in_json(0, 1_500_000_000, None), "1970-01-01T00:00:01.5");
        assert_eq!(in_json(2_932_897, 0, Some(0)), "10000-01-01T00:00:00+00:00");
        assert_eq!(in_json(-719_163, 0, Some(-12_600)), "0001-12-31T00:00:00-03:30 BC");
    }
}
