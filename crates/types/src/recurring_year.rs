//! Years after those that tables of time zones have. The rule of a zone's last year goes on, and it
//! depends on nothing but the calendar: a year has the clock changes of an earlier one with the same
//! days of the week.

use crate::calendar::{date_of, days_of};

const DAY_SECONDS: i64 = 86_400;

/// The last years that tables of time zones have, as many as have all calendars.
const LAST: std::ops::RangeInclusive<i64> = 2072..=2099;

/// Returns a point in time, in seconds since 1970, at which clocks are as far from UTC as at another
/// one: itself unless that is after the last year that tables of time zones have, and else one in a
/// year of the same calendar before.
pub fn recurring(seconds: i64) -> i64 {
    let year = date_of(seconds.div_euclid(DAY_SECONDS)).year;
    if year <= *LAST.end() {
        return seconds;
    }
    let calendar = |year: i64| {
        let (first, next) = (first_day(year), first_day(year + 1));
        (first.rem_euclid(7), next - first)
    };
    let same = LAST.rev().find(|known| calendar(*known) == calendar(year)).unwrap_or(*LAST.end());
    seconds - (first_day(year) - first_day(same)) * DAY_SECONDS
}

/// Returns the days from the first one of 1970 to that of a year.
fn first_day(year: i64) -> i64 {
    days_of(year, 1, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_years_have_the_calendar_of_a_known_one() {
        let moment = |year: i64, second: i64| first_day(year) * DAY_SECONDS + second;
        for second in [0, 1, 8_000_000, 31_535_999] {
            assert_eq!(recurring(moment(2099, second)), moment(2099, second));
            for year in 2100..3000 {
                let same = recurring(moment(year, second));
                let known = date_of(same.div_euclid(DAY_SECONDS)).year;
                assert!(LAST.contains(&known), "{year}: {known}");
                assert_eq!(same - moment(known, 0), second);
                assert_eq!((moment(year, second) - same) % (7 * DAY_SECONDS), 0);
                assert_eq!(first_day(year + 1) - first_day(year), first_day(known + 1) - first_day(known));
            }
        }
    }
}
