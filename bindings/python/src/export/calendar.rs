//! Converts days since 1970-01-01 to year, month and day of the proleptic Gregorian calendar, and
//! back.

/// The days from 0000-03-01 to 1970-01-01. Years that begin in March have the leap day at their
/// end.
const EPOCH_FROM_MARCH_OF_YEAR_ZERO: i64 = 719_468;
const DAYS_PER_ERA: i64 = 146_097;
const YEARS_PER_ERA: i64 = 400;

pub fn civil(days: i64) -> (i64, u8, u8) {
    let shifted = days + EPOCH_FROM_MARCH_OF_YEAR_ZERO;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * YEARS_PER_ERA + i64::from(month <= 2);
    (year, month as u8, day as u8)
}

/// Returns the days since 1970-01-01 of a date of the proleptic Gregorian calendar.
pub fn days(year: i64, month: u8, day: u8) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(YEARS_PER_ERA);
    let year_of_era = year.rem_euclid(YEARS_PER_ERA);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_FROM_MARCH_OF_YEAR_ZERO
}
