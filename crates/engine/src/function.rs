//! Names that users of PostgreSQL and DuckDB know DataFusion's functions by, and `version()`.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

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

/// `version()` is the database's, and not that of a library.
pub(crate) fn register_version(context: &SessionContext) {
    let version = |_: &[ColumnarValue]| {
        let text = concat!("Hypostyle ", env!("CARGO_PKG_VERSION")).to_string();
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(Some(text))))
    };
    let (none, text) = (Vec::new(), DataType::Utf8);
    context.register_udf(create_udf("version", none, text, Volatility::Immutable, Arc::new(version)));
}
