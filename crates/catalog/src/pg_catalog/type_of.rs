//! `typeof` (DuckDB) and `pg_typeof` (PostgreSQL 15, 9.26.4): the name of the type of a value. It is
//! known without looking at the value.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_pgtypes::types::{Shown, shown};
use hypostyle_types::LogicalType;

pub(super) fn register(context: &SessionContext) {
    for name in ["pg_typeof", "typeof"] {
        let signature = Signature::any(1, Volatility::Stable);
        context.register_udf(ScalarUDF::from(TypeOf { name, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeOf {
    name: &'static str,
    signature: Signature,
}

impl TypeOf {
    /// Returns the type of a value, as PostgreSQL or as this database calls it.
    fn name_of(&self, value: &FieldRef) -> String {
        match LogicalType::from_arrow(value) {
            Err(_) => "unknown".into(),
            Ok(known) if self.name == "typeof" => known.to_string(),
            Ok(known) => {
                let Shown { scalar, is_array, .. } = shown(&known);
                format!("{}{}", scalar.sql, if is_array { "[]" } else { "" })
            }
        }
    }
}

impl ScalarUDFImpl for TypeOf {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = arguments.arg_fields.first().map(|value| self.name_of(value));
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8(name)))
    }
}
