//! Decades, centuries and millennia of years, and days since 4714 BC, as in PostgreSQL.

use serde::{Deserialize, Serialize};

/// The Julian day that began with 1970 at midnight.
pub(crate) const JULIAN_DAY_1970: f64 = 2_440_588.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Millennium,
    Century,
    Decade,
    Julian,
}

impl Part {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "millennium" | "millenniums" | "millennia" | "mil" | "mils" => Self::Millennium,
            "century" | "centuries" | "cent" | "c" => Self::Century,
            "decade" | "decades" | "dec" | "decs" => Self::Decade,
            "julian" => Self::Julian,
            _ => return None,
        })
    }

    /// That of a year, of which 0 is the one before the first: decades begin with their tens, the
    /// others with their first year.
    pub(crate) fn of_year(self, year: i32) -> i32 {
        let counted = |years: i32| match year {
            1.. => (year - 1) / years + 1,
            _ => -((years - year) / years),
        };
        match self {
            Self::Millennium => counted(1000),
            Self::Century => counted(100),
            Self::Decade => year.div_euclid(10),
            Self::Julian => year,
        }
    }
}

/// Says whether a part of points in time is a year.
pub(crate) fn is_year(part: &str) -> bool {
    ["year", "years", "y", "yr", "yrs", "isoyear"].iter().any(|year| part.eq_ignore_ascii_case(year))
}

/// Returns a year as it is shown, of which there is no 0, of one that counts on from the first year down.
pub(crate) fn shown(year: i32) -> i32 {
    if year > 0 { year } else { year.saturating_sub(1) }
}

/// The other way round: -1 is the year before the first.
pub(crate) fn counted(year: i32) -> i32 {
    if year < 0 { year + 1 } else { year }
}

#[cfg(test)]
mod tests {
    use super::{Part, counted, is_year, shown};

    #[test]
    fn there_is_no_year_0() {
        for (year, before) in [(2024, 2024), (1, 1), (0, -1), (-1, -2), (-43, -44)] {
            assert_eq!((shown(year), counted(before)), (before, year));
        }
        assert!(is_year("YEAR") && is_year("isoyear") && !is_year("month"));
    }

    #[test]
    fn parts_are_those_of_postgresql() {
        for (year, decade, century, millennium) in [
            (2000, 200, 20, 2),
            (2001, 200, 21, 3),
            (1999, 199, 20, 2),
            (1, 0, 1, 1),
            (100, 10, 1, 1),
            (0, 0, -1, -1),
            (-1, -1, -1, -1),
            (-99, -10, -1, -1),
            (-100, -10, -2, -1),
            (-10, -1, -1, -1),
        ] {
            let parts = [Part::Decade, Part::Century, Part::Millennium].map(|part| part.of_year(year));
            assert_eq!(parts, [decade, century, millennium], "{year}");
        }
    }
}
