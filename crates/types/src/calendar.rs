//! The Gregorian calendar of all years that there are: days since 1970-01-01, and their dates.

/// The days from 0000-03-01 to 1970-01-01. Years are counted from March, so that a leap day is their last.
const EPOCH: i64 = 719_468;

const YEARS_PER_ERA: i64 = 400;
const DAYS_PER_ERA: i64 = 146_097;

/// A day by its year, of which 0 is the one before the first, its month and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    pub month: u32,
    pub day: u32,
}

/// Says whether a year has a 29 February.
fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns how many days a month has.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a day, which may be beyond its month.
pub fn days_of(year: i64, month: u32, day: i64) -> i64 {
    let from_march = if month <= 2 { year - 1 } else { year };
    let of_months = (153 * i64::from((month + 9) % 12) + 2) / 5;
    let (era, of_era) = (from_march.div_euclid(YEARS_PER_ERA), from_march.rem_euclid(YEARS_PER_ERA));
    era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_months + day - 1 - EPOCH
}

/// Returns the date of a day, counted from 1970-01-01.
pub fn date_of(days: i64) -> Date {
    let from_march = days + EPOCH;
    let (era, of_era) = (from_march.div_euclid(DAYS_PER_ERA), from_march.rem_euclid(DAYS_PER_ERA));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (DAYS_PER_ERA - 1)) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * YEARS_PER_ERA + i64::from(month <= 2);
    let small = |value: i64| u32::try_from(value).unwrap_or_default();
    Date { year, month: small(month), day: small(day) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_inverse() {
        let mut before = date_of(-800_001);
        for days in -800_000..800_000_i64 {
            let date = date_of(days);
            assert_eq!(days_of(date.year, date.month, i64::from(date.day)), days);
            let next = match before {
                Date { year, month: 12, day: 31 } => Date { year: year + 1, month: 1, day: 1 },
                Date { year, month, day } if day == days_in_month(year, month) => {
                    Date { year, month: month + 1, day: 1 }
                }
                Date { year, month, day } => Date { year, month, day: day + 1 },
            };
            assert_eq!(date, next);
            before = date;
        }
    }

    #[test]
    fn known_days_have_their_dates() {
        for (days, year, month, day) in [
            (0, 1970, 1, 1),
            (11_016, 2000, 2, 29),
            (-719_162, 1, 1, 1),
            (-719_163, 0, 12, 31),
            (2_932_897, 10_000, 1, 1),
            (i64::from(i32::MAX), 5_881_580, 7, 11),
            (i64::from(i32::MIN), -5_877_641, 6, 23),
        ] {
            assert_eq!(date_of(days), Date { year, month, day });
            assert_eq!(days_of(year, month, i64::from(day)), days);
        }
    }
}
