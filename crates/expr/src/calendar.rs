//! The calendar: days since 1970, years, months and weeks, of all years that there are.

pub(crate) use hypostyle_types::calendar::{Date, date_of, days_in_month, days_of};

pub(crate) const DAY_SECONDS: i64 = 86_400;
pub(crate) const DAY_NANOSECONDS: i64 = DAY_SECONDS * 1_000_000_000;

/// The Julian day that began with 1970 at midnight, as PostgreSQL counts.
pub(crate) const JULIAN_1970: i64 = 2_440_588;

pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The days of the week, from Sunday.
pub(crate) const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// What a calendar and a clock show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Days since 1970.
    pub days: i64,
    pub date: Date,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    pub nanosecond: u32,
}

impl Clock {
    /// Returns what is shown so many seconds after 1970 began, and nanoseconds of the next second.
    pub(crate) fn at(seconds: i64, nanosecond: u32) -> Self {
        let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let rest = u32::try_from(rest).unwrap_or_default();
        Self {
            days,
            date: date_of(days),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            nanosecond,
        }
    }

    /// Returns the day of the year, from 1.
    pub(crate) fn day_of_year(&self) -> i64 {
        self.days - first_of_year(self.date.year) + 1
    }

    /// Returns the number of the week of the year: the first day of a week, as counted from Sunday,
    /// begins the first one.
    pub(crate) fn week_from(&self, first: i64) -> i64 {
        (self.day_of_year() + 6 - (weekday(self.days) - first).rem_euclid(7)) / 7
    }
}

/// More years than 32 bits of days have.
const YEARS_MAX: i64 = 6_000_000;

/// Returns the days from 1970 to one that there is.
pub(crate) fn checked_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let month = u32::try_from(month).ok().filter(|month| (1..=12).contains(month))?;
    let is_day = (1..=i64::from(days_in_month(year, month))).contains(&day);
    (is_day && year.abs() < YEARS_MAX).then(|| days_of(year, month, day))
}

pub(crate) fn first_of_year(year: i64) -> i64 {
    days_of(year, 1, 1)
}

/// Returns the day of the week, of which Sunday is 0.
pub(crate) fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// Returns the day of the week of ISO 8601, of which Monday is 1.
pub(crate) fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// Returns the Monday that begins the first week of a year of ISO 8601.
pub(crate) fn iso_year_start(year: i64) -> i64 {
    let fourth = days_of(year, 1, 4);
    fourth - iso_weekday(fourth) + 1
}

/// Returns the year and the week of ISO 8601.
pub(crate) fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - iso_weekday(days) + 4;
    let year = date_of(thursday).year;
    (year, (thursday - first_of_year(year)) / 7 + 1)
}

/// Returns the place of a name in a list, of its first three letters, or of the whole; in any case.
pub(crate) fn place_of_name(names: &[&str], name: &str) -> Option<usize> {
    let is = |known: &&str| {
        known.eq_ignore_ascii_case(name)
            || known.get(..3).is_some_and(|short| short.eq_ignore_ascii_case(name))
    };
    names.iter().position(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_are_inverse() {
        for days in -800_000..800_000_i64 {
            let (year, week) = iso_week(days);
            assert_eq!(iso_year_start(year) + (week - 1) * 7 + iso_weekday(days) - 1, days);
        }
    }

    #[test]
    fn weeks_are_those_of_strftime() {
        for (days, sunday, monday, iso) in [
            (days_of(2024, 3, 5), 9, 10, (2024, 10)),
            (days_of(2024, 12, 31), 52, 53, (2025, 1)),
            (days_of(2021, 1, 3), 1, 0, (2020, 53)),
            (days_of(1970, 1, 1), 0, 0, (1970, 1)),
        ] {
            let clock = Clock::at(days * DAY_SECONDS, 0);
            assert_eq!((clock.week_from(0), clock.week_from(1), iso_week(days)), (sunday, monday, iso));
        }
    }
}
