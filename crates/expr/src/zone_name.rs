//! Names of time zones, in any case: those of the table of zones, abbreviations as PostgreSQL's, and
//! offsets.

use crate::time_read::offset_of;
use arrow::array::timezone::Tz;
use chrono::{NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::{OffsetComponents, OffsetName, TZ_VARIANTS};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A zone of the table of zones, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedZone {
    pub name: &'static str,
    pub abbreviation: String,
    /// The seconds that its clocks are ahead of UTC.
    pub offset: i32,
    /// They show the time of summer.
    pub is_summer: bool,
}

/// Returns the zones that have names.
pub fn named_zones() -> Vec<NamedZone> {
    let now = Utc::now().naive_utc();
    let named = TZ_VARIANTS.iter().map(|zone| {
        let offset = zone.offset_from_utc_datetime(&now);
        NamedZone {
            name: zone.name(),
            abbreviation: offset.abbreviation().unwrap_or_default().to_string(),
            offset: offset.fix().local_minus_utc(),
            is_summer: !offset.dst_offset().is_zero(),
        }
    });
    named.collect()
}

/// Abbreviations, and how many minutes the clocks that they mean are ahead of UTC.
const ABBREVIATIONS: [(&str, i32); 43] = [
    ("acdt", 630),
    ("acst", 570),
    ("adt", -180),
    ("aedt", 660),
    ("aest", 600),
    ("akdt", -480),
    ("akst", -540),
    ("ast", -240),
    ("awst", 480),
    ("bst", 60),
    ("cdt", -300),
    ("cest", 120),
    ("cet", 60),
    ("cst", -360),
    ("edt", -240),
    ("eest", 180),
    ("eet", 120),
    ("est", -300),
    ("gmt", 0),
    ("hst", -600),
    ("idt", 180),
    ("ist", 120),
    ("jst", 540),
    ("kst", 540),
    ("mdt", -360),
    ("mest", 120),
    ("met", 60),
    ("msd", 240),
    ("msk", 180),
    ("mst", -420),
    ("ndt", -150),
    ("nst", -210),
    ("nzdt", 780),
    ("nzst", 720),
    ("pdt", -420),
    ("pst", -480),
    ("ut", 0),
    ("utc", 0),
    ("west", 60),
    ("wet", 0),
    ("z", 0),
    ("zulu", 0),
    ("bdst", 120),
];

/// Returns the zone of a name of the table of zones, or of an offset such as `+02:00`.
///
/// # Errors
/// `InvalidInput` (22023).
pub(crate) fn of_table(name: &str) -> Result<Tz> {
    static NAMES: LazyLock<HashMap<String, &str>> = LazyLock::new(|| {
        TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), zone.name())).collect()
    });
    let name = name.trim();
    let known = || NAMES.get(&name.to_ascii_lowercase()).and_then(|name| name.parse().ok());
    name.parse().ok().or_else(known).ok_or_else(|| {
        let message = format!(
            "time zone \"{name}\" is not known; see pg_timezone_names, or write an offset, as '+02:00'"
        );
        external(Error::invalid_input(message).with_sqlstate("22023"))
    })
}

/// Returns the zone that a statement names: that of an abbreviation, or of the table; or, as POSIX
/// has it and so PostgreSQL, of an offset that tells how far UTC is ahead.
///
/// # Errors
/// As [`of_table`].
pub(crate) fn of_statement(name: &str) -> Result<Tz> {
    let name = name.trim();
    let lower = name.to_ascii_lowercase();
    if let Some((_, minutes)) = ABBREVIATIONS.iter().find(|(known, _)| *known == lower) {
        return of_table(&offset_text(i64::from(*minutes) * 60));
    }
    let letters = name.bytes().take_while(u8::is_ascii_alphabetic).count();
    match offset_of(&name[letters..]) {
        Some(behind) if letters == 0 || letters >= 3 => of_table(&offset_text(-behind)),
        _ => of_table(name),
    }
}

/// Returns an offset in seconds as the name of a zone.
pub(crate) fn offset_text(seconds: i64) -> String {
    let (sign, ahead) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    format!("{sign}{:02}:{:02}", ahead / 3600, ahead / 60 % 60)
}

/// Returns how clocks of a zone are called at a point in time, which is in UTC: `CET`.
pub(crate) fn abbreviation(zone: &str, moment: NaiveDateTime) -> String {
    if let Ok(zone) = zone.parse::<chrono_tz::Tz>() {
        let offset = zone.offset_from_utc_datetime(&moment);
        if let Some(name) = offset.abbreviation() {
            return name.to_string();
        }
        return offset.fix().to_string();
    }
    zone.to_string()
}
