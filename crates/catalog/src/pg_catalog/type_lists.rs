//! `::regtype[]`: the names of types for a list of their numbers.

use arrow::array::{Array, ArrayRef, AsArray, LargeListArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_pgtypes::types::format_type;
use std::sync::Arc;

/// The name of the function that replaces the cast.
pub(super) const NAME: &str = "regtypes_out";

pub(super) fn register(context: &SessionContext) {
    let signature = Signature::any(1, Volatility::Immutable);
    context.register_udf(ScalarUDF::from(TypesOut { signature }));
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypesOut {
    signature: Signature,
}

fn element() -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Utf8, true))
}

impl ScalarUDFImpl for TypesOut {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::LargeList(element()))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = matches!(arguments.args.as_slice(), [ColumnarValue::Scalar(_)]);
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let numbers = Field::new("item", DataType::Int64, true);
        let lists = cast(&arrays[0], &DataType::LargeList(Arc::new(numbers)))?;
        let lists = lists.as_list::<i64>();
        let name = |oid: Option<i64>| {
            let oid = oid?;
            let known = u32::try_from(oid).ok().and_then(|oid| format_type(oid, None));
            Some(known.unwrap_or_else(|| oid.to_string()))
        };
        let names = lists.values().as_primitive::<Int64Type>().iter().map(name).collect::<StringArray>();
        let named: ArrayRef = Arc::new(LargeListArray::try_new(
            element(),
            lists.offsets().clone(),
            Arc::new(names),
            lists.nulls().cloned(),
        )?);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&named, 0)?),
            false => ColumnarValue::Array(named),
        })
    }
}
