//! Patterns of percent signs, with DuckDB's specifiers, and points in time as text by them.

use crate::calendar::{Clock, MONTHS, WEEKDAYS, iso_week, iso_weekday, weekday};

/// A part of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A character as it is.
    Literal(char),
    /// A specifier, and whether its number has no zeros in front, as of `%-d`.
    Specifier(char, bool),
}

/// Specifiers that stand for patterns of others.
const LONGER: [(char, &str); 4] =
    [('c', "%Y-%m-%d %H:%M:%S"), ('x', "%Y-%m-%d"), ('X', "%H:%M:%S"), ('T', "%H:%M:%S")];

const KNOWN: &str = "aAbBdfgGhHIjmMnpSuUVwWyYzZ";

/// Specifiers whose zeros may be left out.
const BARE: &str = "dmyHIMSj";

/// Returns the parts of a pattern.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn items(pattern: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            items.push(Item::Literal(character));
            continue;
        }
        let (specifier, is_bare) = match rest.next() {
            Some('-') => (rest.next(), true),
            other => (other, false),
        };
        let Some(specifier) = specifier else {
            return Err(format!("the pattern '{pattern}' ends with a percent sign; write %% for one"));
        };
        let longer = LONGER.iter().find(|(known, _)| *known == specifier && !is_bare);
        match specifier {
            '%' if !is_bare => items.push(Item::Literal('%')),
            _ if is_bare && BARE.contains(specifier) => items.push(Item::Specifier(specifier, true)),
            _ if !is_bare && KNOWN.contains(specifier) => items.push(Item::Specifier(specifier, false)),
            _ => match longer {
                Some((_, longer)) => items.extend(self::items(longer)?),
                None => {
                    let sign = if is_bare { "%-" } else { "%" };
                    return Err(format!("'{sign}{specifier}' is no specifier, in the pattern '{pattern}'"));
                }
            },
        }
    }
    Ok(items)
}

/// What is shown of a point in time.
pub(crate) struct Shown<'a> {
    pub clock: Clock,
    /// How far clocks are ahead of UTC, in seconds.
    pub ahead: i64,
    /// The name of the zone, where there is one.
    pub zone: &'a str,
}

/// Returns a point in time by a pattern.
pub(crate) fn written(items: &[Item], shown: &Shown<'_>) -> String {
    let mut text = String::new();
    for item in items {
        match item {
            Item::Literal(character) => text.push(*character),
            Item::Specifier(specifier, is_bare) => part(&mut text, *specifier, *is_bare, shown),
        }
    }
    text
}

fn part(text: &mut String, specifier: char, is_bare: bool, shown: &Shown<'_>) {
    let clock = &shown.clock;
    let mut number = |value: i64, width: usize| {
        let width = if is_bare { 0 } else { width };
        text.push_str(&format!("{value:0width$}"));
    };
    let month = usize::try_from(clock.date.month).unwrap_or(1).clamp(1, 12) - 1;
    let day = usize::try_from(weekday(clock.days)).unwrap_or_default();
    let hour = i64::from(clock.hour);
    let nanosecond = i64::from(clock.nanosecond);
    match specifier {
        'd' => number(clock.date.day.into(), 2),
        'f' => number(nanosecond / 1000, 6),
        'g' => number(nanosecond / 1_000_000, 3),
        'n' => number(nanosecond, 9),
        'H' => number(hour, 2),
        'I' => number((hour + 11) % 12 + 1, 2),
        'j' => number(clock.day_of_year(), 3),
        'm' => number(clock.date.month.into(), 2),
        'M' => number(clock.minute.into(), 2),
        'S' => number(clock.second.into(), 2),
        'u' => number(iso_weekday(clock.days), 1),
        'U' => number(clock.week_from(0), 2),
        'V' => number(iso_week(clock.days).1, 2),
        'w' => number(weekday(clock.days), 1),
        'W' => number(clock.week_from(1), 2),
        'y' => number(clock.date.year.abs() % 100, 2),
        'G' | 'Y' => {
            let year = if specifier == 'Y' { clock.date.year } else { iso_week(clock.days).0 };
            number(year, if year < 0 { 0 } else { 4 });
        }
        'a' => text.push_str(&WEEKDAYS[day][..3]),
        'A' => text.push_str(WEEKDAYS[day]),
        'b' | 'h' => text.push_str(&MONTHS[month][..3]),
        'B' => text.push_str(MONTHS[month]),
        'p' => text.push_str(if clock.hour < 12 { "AM" } else { "PM" }),
        'z' => {
            let (sign, ahead) = (if shown.ahead < 0 { '-' } else { '+' }, shown.ahead.abs());
            text.push_str(&format!("{sign}{:02}", ahead / 3600));
            if ahead % 3600 != 0 {
                text.push_str(&format!(":{:02}", ahead / 60 % 60));
            }
        }
        'Z' => text.push_str(shown.zone),
        _ => {}
    }
}
