//! How much two texts differ, as in DuckDB.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use std::collections::BTreeSet;
use std::sync::Arc;

const OF_TWO: &[Kind] = &[Kind::Text, Kind::Text];

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(
        &["damerau_levenshtein"],
        OF_TWO,
        |_| Ok(DataType::Int64),
        |args, _| counted(args, |one, other| Ok(strsim::damerau_levenshtein(one, other))),
    ),
    Described::new(
        &["hamming", "mismatches"],
        OF_TWO,
        |_| Ok(DataType::Int64),
        |args, _| {
            counted(args, |one, other| {
                strsim::hamming(one, other)
                    .map_err(|_| refused(format!("'{one}' and '{other}' differ in length")))
            })
        },
    ),
    Described::new(
        &["jaro_similarity"],
        OF_TWO,
        |_| Ok(DataType::Float64),
        |args, _| measured(args, strsim::jaro),
    ),
    Described::new(
        &["jaro_winkler_similarity"],
        OF_TWO,
        |_| Ok(DataType::Float64),
        |args, _| measured(args, strsim::jaro_winkler),
    ),
    Described::new(&["jaccard"], OF_TWO, |_| Ok(DataType::Float64), |args, _| measured(args, jaccard)),
];

/// The characters that both have, of all that one of them has.
fn jaccard(one: &str, other: &str) -> f64 {
    let (one, other): (BTreeSet<char>, BTreeSet<char>) = (one.chars().collect(), other.chars().collect());
    let all = one.union(&other).count();
    if all == 0 { 0.0 } else { one.intersection(&other).count() as f64 / all as f64 }
}

fn pairs(args: &[ArrayRef]) -> impl Iterator<Item = Option<(&str, &str)>> {
    args[0]
        .as_string::<i32>()
        .iter()
        .zip(args[1].as_string::<i32>().iter())
        .map(|(one, other)| one.zip(other))
}

fn counted(args: &[ArrayRef], of: impl Fn(&str, &str) -> Result<usize>) -> Result<ArrayRef> {
    let counts = pairs(args).map(|pair| pair.map(|(one, other)| of(one, other)).transpose());
    let counts = counts.map(|count| Ok(count?.map(|count| count as i64)));
    Ok(Arc::new(counts.collect::<Result<Int64Array>>()?))
}

fn measured(args: &[ArrayRef], of: fn(&str, &str) -> f64) -> Result<ArrayRef> {
    let measures = pairs(args).map(|pair| pair.map(|(one, other)| of(one, other)));
    Ok(Arc::new(measures.collect::<Float64Array>()))
}
