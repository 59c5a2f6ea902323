//! Names that users of PostgreSQL and DuckDB know DataFusion's functions by.

use datafusion::execution::FunctionRegistry;
use datafusion::prelude::SessionContext;

const SCALAR: [(&str, &[&str]); 4] = [
    ("signum", &["sign"]),
    ("string_to_array", &["string_split", "str_split"]),
    ("regexp_like", &["regexp_matches"]),
    ("date_part", &["datepart"]),
];

const AGGREGATE: [(&str, &[&str]); 6] = [
    ("array_agg", &["list"]),
    ("first_value", &["first"]),
    ("last_value", &["last"]),
    ("var", &["variance"]),
    ("approx_distinct", &["approx_count_distinct"]),
    ("approx_percentile_cont", &["approx_quantile"]),
];

/// Registers the names, for the functions that there are.
pub(crate) fn register_aliases(context: &SessionContext) {
    for (name, aliases) in SCALAR {
        if let Ok(function) = context.udf(name) {
            context.register_udf(function.as_ref().clone().with_aliases(aliases.iter().copied()));
        }
    }
    for (name, aliases) in AGGREGATE {
        if let Ok(function) = context.udaf(name) {
            context.register_udaf(function.as_ref().clone().with_aliases(aliases.iter().copied()));
        }
    }
}
