//! How values look as text, which the session's settings say.

use arrow::array::timezone::Tz;
use bytes::{BufMut, BytesMut};
use hypostyle_types::IntervalText;

/// How intervals are written: IntervalStyle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalStyle {
    Postgres,
    Verbose,
    Iso8601,
    Standard,
}

/// How values are written as text.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// The zone that instants are shown in.
    pub zone: Tz,
    pub intervals: IntervalStyle,
    /// Bytes are written as characters, with escapes where they are none.
    pub escapes_bytes: bool,
}

impl From<Tz> for Style {
    fn from(zone: Tz) -> Self {
        Self { zone, intervals: IntervalStyle::Postgres, escapes_bytes: false }
    }
}

impl Style {
    /// Returns the style that the settings of a session say, by their names.
    pub fn of<T: AsRef<str>>(zone: Tz, setting: impl Fn(&str) -> Option<T>) -> Self {
        let is = |name: &str, value: &str| {
            setting(name).is_some_and(|known| known.as_ref().eq_ignore_ascii_case(value))
        };
        let intervals = match () {
            () if is("IntervalStyle", "postgres_verbose") => IntervalStyle::Verbose,
            () if is("IntervalStyle", "iso_8601") => IntervalStyle::Iso8601,
            () if is("IntervalStyle", "sql_standard") => IntervalStyle::Standard,
            () => IntervalStyle::Postgres,
        };
        Self { zone, intervals, escapes_bytes: is("bytea_output", "escape") }
    }
}

const MICROSECONDS: i64 = 1_000_000;

/// An interval in the parts in which it is written.
#[derive(Clone, Copy)]
struct Parts {
    years: i64,
    months: i64,
    days: i64,
    hours: i64,
    minutes: i64,
    /// Seconds and their fraction.
    microseconds: i64,
}

impl Parts {
    fn of(text: &IntervalText) -> Self {
        let (months, time) = (i64::from(text.months), text.nanoseconds / 1000);
        let minute = 60 * MICROSECONDS;
        Self {
            years: months / 12,
            months: months % 12,
            days: text.days.into(),
            hours: time / (60 * minute),
            minutes: time / minute % 60,
            microseconds: time % minute,
        }
    }

    fn all(&self) -> [i64; 6] {
        [self.years, self.months, self.days, self.hours, self.minutes, self.microseconds]
    }

    /// Returns the seconds without their sign, with two digits before the point or as few as there
    /// are.
    fn seconds(&self, wide: bool) -> String {
        let (whole, fraction) =
            (self.microseconds.abs() / MICROSECONDS, self.microseconds.abs() % MICROSECONDS);
        let whole = if wide { format!("{whole:02}") } else { whole.to_string() };
        match fraction {
            0 => whole,
            fraction => format!("{whole}.{}", format!("{fraction:06}").trim_end_matches('0')),
        }
    }

    fn iso(&self) -> String {
        if self.all().iter().all(|part| *part == 0) {
            return "PT0S".into();
        }
        let part = |value: i64, unit: char| if value == 0 { String::new() } else { format!("{value}{unit}") };
        let mut text =
            format!("P{}{}{}", part(self.years, 'Y'), part(self.months, 'M'), part(self.days, 'D'));
        let time = format!("{}{}", part(self.hours, 'H'), part(self.minutes, 'M'));
        let sign = if self.microseconds < 0 { "-" } else { "" };
        if self.microseconds != 0 {
            text.push_str(&format!("T{time}{sign}{}S", self.seconds(false)));
        } else if !time.is_empty() {
            text.push_str(&format!("T{time}"));
        }
        text
    }

    fn verbose(&self) -> String {
        let (mut text, mut is_zero, mut is_before) = ("@".to_string(), true, false);
        let units = ["year", "mon", "day", "hour", "min"];
        for (mut value, unit) in self.all().into_iter().zip(units).filter(|(value, _)| *value != 0) {
            if is_zero {
                (is_before, value) = (value < 0, value.abs());
            } else if is_before {
                value = -value;
            }
            let plural = if value == 1 { "" } else { "s" };
            text.push_str(&format!(" {value} {unit}{plural}"));
            is_zero = false;
        }
        if self.microseconds != 0 {
            text.push(' ');
            if self.microseconds < 0 {
                match (is_zero, is_before) {
                    (true, _) => is_before = true,
                    (false, false) => text.push('-'),
                    (false, true) => {}
                }
            } else if is_before {
                text.push('-');
            }
            let plural = if self.microseconds.abs() == MICROSECONDS { "" } else { "s" };
            text.push_str(&format!("{} sec{plural}", self.seconds(false)));
            is_zero = false;
        }
        if is_zero {
            text.push_str(" 0");
        }
        if is_before {
            text.push_str(" ago");
        }
        text
    }

    fn standard(mut self) -> String {
        let (has_negative, has_positive) =
            (self.all().iter().any(|part| *part < 0), self.all().iter().any(|part| *part > 0));
        let has_months = self.years != 0 || self.months != 0;
        let has_time = self.all()[2..].iter().any(|part| *part != 0);
        if !has_negative && !has_positive {
            return "0".into();
        }
        if has_negative && has_positive || has_months && has_time {
            // Each part has its sign.
            let sign = |negative: bool| if negative { '-' } else { '+' };
            let time_is_negative = self.hours < 0 || self.minutes < 0 || self.microseconds < 0;
            return format!(
                "{}{}-{} {}{} {}{}:{:02}:{}",
                sign(self.years < 0 || self.months < 0),
                self.years.abs(),
                self.months.abs(),
                sign(self.days < 0),
                self.days.abs(),
                sign(time_is_negative),
                self.hours.abs(),
                self.minutes.abs(),
                self.seconds(true)
            );
        }
        let sign = if has_negative { "-" } else { "" };
        for part in [&mut self.years, &mut self.months, &mut self.days, &mut self.hours, &mut self.minutes] {
            *part = part.abs();
        }
        let time = format!("{}:{:02}:{}", self.hours, self.minutes, self.seconds(true));
        match (has_months, self.days) {
            (true, _) => format!("{sign}{}-{}", self.years, self.months),
            (false, 0) => format!("{sign}{time}"),
            (false, days) => format!("{sign}{days} {time}"),
        }
    }
}

impl IntervalStyle {
    /// Writes an interval.
    pub fn put(self, out: &mut BytesMut, interval: &IntervalText) {
        let text = match self {
            Self::Postgres => interval.to_string(),
            Self::Verbose => Parts::of(interval).verbose(),
            Self::Iso8601 => Parts::of(interval).iso(),
            Self::Standard => Parts::of(interval).standard(),
        };
        out.put_slice(text.as_bytes());
    }
}

/// Writes bytes as characters, with a backslash and three octal digits for those that are none.
pub fn put_escaped_bytes(out: &mut BytesMut, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b' '..=b'~' => out.put_u8(*byte),
            other => out.put_slice(format!("\\{other:03o}").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_the_styles_of_postgresql() {
        let hour = 3_600 * 1_000_000_000_i64;
        for (months, days, nanoseconds, verbose, iso, standard) in [
            (0, 0, 0, "@ 0", "PT0S", "0"),
            (14, 0, 0, "@ 1 year 2 mons", "P1Y2M", "1-2"),
            (0, 3, 4 * hour, "@ 3 days 4 hours", "P3DT4H", "3 4:00:00"),
            (0, 0, -hour - 6_500_000_000, "@ 1 hour 6.5 secs ago", "PT-1H-6.5S", "-1:00:06.5"),
            (-14, 3, -hour, "@ 1 year 2 mons -3 days 1 hour ago", "P-1Y-2M3DT-1H", "-1-2 +3 -1:00:00"),
            (0, 0, 1_000_000_000, "@ 1 sec", "PT1S", "0:00:01"),
            (1, 1, 60_000_000_000, "@ 1 mon 1 day 1 min", "P1M1DT1M", "+0-1 +1 +0:01:00"),
        ] {
            let text = IntervalText { months, days, nanoseconds };
            let written = |style: IntervalStyle| {
                let mut out = BytesMut::new();
                style.put(&mut out, &text);
                String::from_utf8(out.to_vec()).unwrap()
            };
            assert_eq!(written(IntervalStyle::Verbose), verbose);
            assert_eq!(written(IntervalStyle::Iso8601), iso);
            assert_eq!(written(IntervalStyle::Standard), standard);
        }
        let mut out = BytesMut::new();
        put_escaped_bytes(&mut out, b"a\\\0\xff~");
        assert_eq!(&out[..], br"a\\\000\377~");
    }
}
