//! Intervals as text.

use std::fmt;

const SECOND_NANOSECONDS: u64 = 1_000_000_000;

/// An interval in the style of PostgreSQL: `1 year 2 mons -3 days +04:05:06.7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntervalText {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

impl fmt::Display for IntervalText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut is_empty, mut negative_before) = (true, false);
        let parts = [(self.months / 12, "year"), (self.months % 12, "mon"), (self.days, "day")];
        for (value, unit) in parts.into_iter().filter(|(value, _)| *value != 0) {
            let blank = if is_empty { "" } else { " " };
            let sign = if negative_before && value > 0 { "+" } else { "" };
            let plural = if value == 1 { "" } else { "s" };
            write!(f, "{blank}{sign}{value} {unit}{plural}")?;
            (is_empty, negative_before) = (false, value < 0);
        }
        if self.nanoseconds == 0 && !is_empty {
            return Ok(());
        }
        let blank = if is_empty { "" } else { " " };
        let sign = match self.nanoseconds {
            ..0 => "-",
            _ if negative_before => "+",
            _ => "",
        };
        let nanoseconds = self.nanoseconds.unsigned_abs();
        let (seconds, fraction) = (nanoseconds / SECOND_NANOSECONDS, nanoseconds % SECOND_NANOSECONDS);
        write!(f, "{blank}{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)?;
        match fraction {
            0 => Ok(()),
            _ => write!(f, ".{}", format!("{fraction:09}").trim_end_matches('0')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_postgresql() {
        for (months, days, nanoseconds, shown) in [
            (0, 0, 0, "00:00:00"),
            (14, 3, 14_706_789_000_000, "1 year 2 mons 3 days 04:05:06.789"),
            (-14, 3, -1_000_000_000, "-1 years -2 mons +3 days -00:00:01"),
            (0, -1, 1_000_000_000, "-1 days +00:00:01"),
            (0, 1, 0, "1 day"),
            (0, 0, i64::MIN, "-2562047:47:16.854775808"),
        ] {
            assert_eq!(IntervalText { months, days, nanoseconds }.to_string(), shown);
        }
    }
}
