//! Functions as users of PostgreSQL and DuckDB know them: DataFusion's by further names, and for further types.

use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

const SCALAR: [(&str, &[&str]); 6] = [
    ("signum", &["sign"]),
    ("string_to_array", &["string_split", "str_split"]),
    ("regexp_like", &["regexp_matches"]),
    ("date_part", &["datepart"]),
    ("now", &["transaction_timestamp", "statement_timestamp", "clock_timestamp", "get_current_timestamp"]),
    ("uuid", &["gen_random_uuid"]),
];

const AGGREGATE: [(&str, &[&str]); 6] = [
    ("array_agg", &["list"]),
    ("first_value", &["first"]),
    ("last_value", &["last"]),
    ("var", &["variance"]),
    ("approx_distinct", &["approx_count_distinct"]),
    ("approx_percentile_cont", &["approx_quantile"]),
];

/// Registers the names, for the functions that there are, and functions in the place of DataFusion's.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(OctetLength::new()));
    for name in COUNTING {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(Counting { inner }));
        }
    }
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

/// Functions that count and are unsigned in DataFusion, where a difference of two may be out of range, and whose results PostgreSQL's
/// clients take for decimals.
const COUNTING: [&str; 4] = ["array_length", "array_position", "array_ndims", "cardinality"];

/// One of [`COUNTING`], as BIGINT.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Counting {
    inner: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for Counting {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let own = Arc::new(Field::new(self.name(), self.inner.return_type(&types)?, true));
        let counted = self.inner.invoke_with_args(ScalarFunctionArgs { return_field: own, ..args })?;
        counted.cast_to(&DataType::Int64, None)
    }
}

/// The bytes of a text, or of a BLOB, which DataFusion's does not take.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OctetLength {
    signature: Signature,
}

impl OctetLength {
    fn new() -> Self {
        let of = |given| TypeSignature::Exact(vec![given]);
        let kinds = vec![of(DataType::Utf8View), of(DataType::LargeBinary), TypeSignature::String(1)];
        Self { signature: Signature::one_of(kinds, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for OctetLength {
    fn name(&self) -> &str {
        "octet_length"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args.args[0].to_array(args.number_rows)?;
        let bytes = length(cast(&values, &DataType::LargeBinary)?.as_ref())?;
        Ok(ColumnarValue::Array(cast(&bytes, &DataType::Int64)?))
    }
}
