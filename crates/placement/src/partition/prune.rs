//! Finds the fragments that can have rows which a query asks for.

use super::hash::{fragment_of_hash, hash_row};
use super::range::Ranges;
use super::scheme::Partitioning;
use super::value::{Datum, Kind, Value};
use std::cmp::Ordering;

/// The largest number of keys for which hashed fragments are looked up one by one.
pub const CONSTANTS_MAX: usize = 1024;

/// One end of a range of values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// There is none.
    None,
    /// The value itself is in the range.
    Including(Value),
    /// The value itself is not in the range.
    Excluding(Value),
}

/// What is known about the rows that a query asks for. `column` is a place in the partition key.
/// The constants have the type of the column, or the condition must not be given: SQL may find
/// values of two types equal that are different keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The column has one of these values: `=` with one, IN with several.
    In {
        /// The column's place in the key.
        column: usize,
        /// The values, none of which is NULL: nothing equals NULL.
        values: Vec<Value>,
    },
    /// The column is within a range, and so not NULL.
    Range {
        /// The column's place in the key.
        column: usize,
        /// The lower end.
        lower: Limit,
        /// The upper end.
        upper: Limit,
    },
    /// The column is NULL.
    IsNull {
        /// The column's place in the key.
        column: usize,
    },
}

impl Partitioning {
    /// Says of each fragment whether it can have rows for which all conditions are true. Conditions
    /// that say nothing about the fragments rule out none.
    pub fn matching(&self, conditions: &[Condition]) -> Vec<bool> {
        let mut matching = vec![true; usize::try_from(self.fragments()).unwrap_or(0)];
        match self {
            Self::Hash { fragments, .. } => {
                if let Some(keys) = self.keys(conditions) {
                    matching.fill(false);
                    for key in keys {
                        let fragment = fragment_of_hash(hash_row(&key), *fragments);
                        if let Some(place) = usize::try_from(fragment).ok().and_then(|n| matching.get_mut(n))
                        {
                            *place = true;
                        }
                    }
                }
            }
            Self::Range { column, bounds, max_value } => {
                let ranges = Ranges { bounds, has_rest: *max_value };
                for condition in conditions {
                    keep(&mut matching, &ranges, column.kind, condition);
                }
            }
            Self::RoundRobin { .. } | Self::Replicated => {}
        }
        matching
    }

    /// Returns all keys that rows can have; `None` if there are too many, or unknown ones.
    fn keys<'a>(&self, conditions: &'a [Condition]) -> Option<Vec<Vec<Datum<'a>>>> {
        let mut keys = vec![Vec::new()];
        for (place, column) in self.columns().iter().enumerate() {
            let values = possible(conditions, place, column.kind)?;
            if keys.len().checked_mul(values.len())? > CONSTANTS_MAX {
                return None;
            }
            keys = keys
                .iter()
                .flat_map(|key| values.iter().map(move |&value| [key.as_slice(), &[value]].concat()))
                .collect();
        }
        Some(keys)
    }
}

/// Returns the values that a column can have. The conditions for its place are all true, so the
/// shortest list is enough; `None` if there is no list.
fn possible(conditions: &[Condition], place: usize, kind: Kind) -> Option<Vec<Datum<'_>>> {
    let list = |condition: &'_ Condition| match condition {
        Condition::IsNull { column } if *column == place => Some(vec![Datum::Null]),
        _ => None,
    };
    let values = |condition: &'_ Condition| match condition {
        Condition::In { column, values }
            if *column == place && values.iter().all(|value| value.kind() == kind) =>
        {
            Some(values.len())
        }
        _ => None,
    };
    if let Some(null) = conditions.iter().find_map(list) {
        return Some(null);
    }
    let shortest =
        conditions.iter().filter(|condition| values(condition).is_some()).min_by_key(|c| values(c))?;
    match shortest {
        Condition::In { values, .. } => Some(values.iter().map(Value::datum).collect()),
        _ => None,
    }
}

/// Clears the fragments whose range a condition on the key rules out.
fn keep(matching: &mut [bool], ranges: &Ranges<'_>, kind: Kind, condition: &Condition) {
    let clear = |matching: &mut [bool], keeps: &dyn Fn(usize) -> bool| {
        for (number, place) in matching.iter_mut().enumerate() {
            *place = *place && keeps(number);
        }
    };
    match condition {
        Condition::In { column: 0, values } if values.iter().all(|value| value.kind() == kind) => {
            let wanted: Vec<usize> = values.iter().map(|value| ranges.position(value.datum())).collect();
            clear(matching, &|number| wanted.contains(&number));
        }
        Condition::IsNull { column: 0 } => clear(matching, &|number| number == ranges.bounds.len()),
        Condition::Range { column: 0, lower, upper } => {
            let first = match lower {
                Limit::Including(value) | Limit::Excluding(value) if value.kind() == kind => {
                    ranges.position(value.datum())
                }
                _ => 0,
            };
            let last = last_of(ranges, kind, upper);
            clear(matching, &|number| (first..=last).contains(&number));
        }
        _ => {}
    }
}

/// Returns the last range that has values up to a limit.
fn last_of(ranges: &Ranges<'_>, kind: Kind, upper: &Limit) -> usize {
    match upper {
        Limit::Including(value) if value.kind() == kind => ranges.position(value.datum()),
        // The range that begins with the value has none that is less.
        Limit::Excluding(value) if value.kind() == kind => {
            let limit = value.datum();
            ranges.bounds.partition_point(|bound| bound.datum().compare(&limit) == Some(Ordering::Less))
        }
        _ => usize::MAX,
    }
}
