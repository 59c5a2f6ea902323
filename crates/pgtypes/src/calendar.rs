//! Dates and times of day as PostgreSQL writes them (`DateStyle` ISO), and the days between our
//! epoch and its own.

use bytes::{BufMut, BytesMut};
use hypostyle_types::DAY_MICROSECONDS;
use std::fmt::Write;

/// The days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
pub const EPOCH_MICROSECONDS: i64 = EPOCH_DAYS as i64 * DAY_MICROSECONDS;

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar; the year before 1 is 0.
fn civil(days: i64) -> (i64, u32, u32) {
    // Counted in eras of 400 years from 0000-03-01, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    // A buffer in memory takes everything.
    let _never_fails = out.write_fmt(text);
}

/// What comes behind a date before the year 1.
fn era(year: i64) -> &'static str {
    if year < 1 { " BC" } else { "" }
}

fn put_day(out: &mut BytesMut, days: i64) -> &'static str {
    let (year, month, day) = civil(days);
    let shown = if year < 1 { 1 - year } else { year };
    put(out, format_args!("{shown:04}-{month:02}-{day:02}"));
    era(year)
}

pub fn put_date(out: &mut BytesMut, days: i32) {
    let era = put_day(out, i64::from(days));
    out.put_slice(era.as_bytes());
}

/// Writes the time of a day, or that of an interval.
pub fn put_time(out: &mut BytesMut, microseconds: i64) {
    let (seconds, fraction) = (microseconds / 1_000_000, microseconds % 1_000_000);
    put(out, format_args!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    if fraction > 0 {
        let digits = format!("{fraction:06}");
        put(out, format_args!(".{}", digits.trim_end_matches('0')));
    }
}

/// A timestamp; with the seconds that its zone is ahead of UTC where it has one.
pub fn put_timestamp(out: &mut BytesMut, microseconds: i64, offset: Option<i64>) {
    let local = microseconds.saturating_add(offset.unwrap_or(0) * 1_000_000);
    let era = put_day(out, local.div_euclid(DAY_MICROSECONDS));
    out.put_u8(b' ');
    put_time(out, local.rem_euclid(DAY_MICROSECONDS));
    if let Some(offset) = offset {
        let (sign, offset) = if offset < 0 { ('-', -offset) } else { ('+', offset) };
        put(out, format_args!("{sign}{:02}", offset / 3600));
        if offset % 3600 != 0 {
            put(out, format_args!(":{:02}", offset / 60 % 60));
        }
        // Of the time before there were zones.
        if offset % 60 != 0 {
            put(out, format_args!(":{:02}", offset % 60));
        }
    }
    out.put_slice(era.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn dates_and_times_are_those_of_postgresql() {
        for (days, shown) in [
            (0, "1970-01-01"),
            (EPOCH_DAYS, "2000-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (-719_162, "0001-01-01"),
            (-719_163, "0001-12-31 BC"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(text(|out| put_date(out, days)), shown);
        }
        assert_eq!(text(|out| put_timestamp(out, -1, None)), "1969-12-31 23:59:59.999999");
        assert_eq!(text(|out| put_timestamp(out, 1_500_000, Some(0))), "1970-01-01 00:00:01.5+00");
        assert_eq!(text(|out| put_timestamp(out, 0, Some(-12_600))), "1969-12-31 20:30:00-03:30");
        assert_eq!(text(|out| put_timestamp(out, 0, Some(3208))), "1970-01-01 00:53:28+00:53:28");
    }
}
