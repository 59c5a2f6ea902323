//! Says of values what they are. UUIDs and JSON are texts in plans, and a field says so, also within
//! lists, structures and maps. DataFusion's operators and most of its functions forget it.

use crate::cast::{cast, only_value};
use crate::portable::{Decoder, Functions, Portable, PortableField};
use crate::said::as_said;
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Returns an expression whose field says of its values what another one says of its own. It has the
/// expression's name.
pub fn typed(expr: Expr, said: Field) -> Expr {
    let function = ScalarUDF::from(Typed::new(Arc::new(said)));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// The name of the function that says what its argument is.
pub const TYPED: &str = "typed";

/// Returns values in a type that says something else of them, and has the text of UUIDs for their bytes.
///
/// # Errors
/// Those of [`cast`], for values of another shape.
pub fn in_type(values: &ArrayRef, wanted: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    if values.data_type() == wanted {
        return Ok(values.clone());
    }
    Ok(match (values.data_type(), wanted) {
        (DataType::List(_), DataType::List(field)) => Arc::new(list::<i32>(values, field)?),
        (DataType::LargeList(_), DataType::LargeList(field)) => Arc::new(list::<i64>(values, field)?),
        (DataType::FixedSizeList(_, own), DataType::FixedSizeList(field, size)) if own == size => {
            let lists = values.as_fixed_size_list();
            let elements = in_type(lists.values(), field.data_type())?;
            let nulls = lists.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(field.clone(), *size, elements, nulls)?)
        }
        (DataType::Struct(own), DataType::Struct(fields)) if own.len() == fields.len() => {
            let own = values.as_struct();
            let columns = own.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| in_type(column, field.data_type()));
            let columns = columns.collect::<std::result::Result<_, _>>()?;
            let nulls = own.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, own.len())?)
        }
        (DataType::Map(..), DataType::Map(entries, is_sorted)) => {
            let maps = values.as_map();
            let own: ArrayRef = Arc::new(maps.entries().clone());
            let own = in_type(&own, entries.data_type())?;
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            Arc::new(MapArray::try_new(entries.clone(), offsets, own.as_struct().clone(), nulls, *is_sorted)?)
        }
        _ => cast(values, &Field::new("", wanted.clone(), true), false)?,
    })
}

fn list<O: OffsetSizeTrait>(
    values: &ArrayRef,
    field: &FieldRef,
) -> std::result::Result<GenericListArray<O>, ArrowError> {
    let lists = values.as_list::<O>();
    let elements = in_type(lists.values(), field.data_type())?;
    GenericListArray::try_new(field.clone(), lists.offsets().clone(), elements, lists.nulls().cloned())
}

/// Gives its argument, with a field that says what it is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Typed {
    said: FieldRef,
    signature: Signature,
}

impl Typed {
    fn new(said: FieldRef) -> Self {
        Self { said, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Portable for Typed {
    type Function = ScalarUDF;

    const TAG: &'static str = TYPED;

    /// A field that says what the values are.
    type Parameters = PortableField;

    fn parameters(&self, _: &Functions) -> Result<Self::Parameters> {
        self.said.as_ref().try_into()
    }

    fn from_parameters(said: Self::Parameters, _: &Decoder<'_>) -> Result<Self> {
        Ok(Self::new(Arc::new(said.try_into()?)))
    }
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &'static str {
        TYPED
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [of] => Ok(of.schema_name().to_string()),
            _ => Err(plan_datafusion_err!("a type is said of one value")),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().cloned().unwrap_or(DataType::Null);
        Ok(as_said(&self.said, &Field::new("", of, true)).data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        match args.arg_fields {
            [of] => Ok(Arc::new(as_said(&self.said, of))),
            _ => Err(plan_datafusion_err!("a type is said of one value")),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let wanted = args.return_field.data_type();
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(in_type(values, wanted)?)),
            [ColumnarValue::Scalar(value)] => Ok(ColumnarValue::Scalar(scalar_in_type(value, wanted)?)),
            _ => Err(plan_datafusion_err!("a type is said of one value")),
        }
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs.first().map_or(SortProperties::Unordered, |of| of.sort_properties))
    }
}

/// Returns one value in a type that says something else of it: DataFusion's own lists of one value say
/// nothing of their elements.
///
/// # Errors
/// Those of [`in_type`].
pub fn scalar_in_type(value: &ScalarValue, wanted: &DataType) -> Result<ScalarValue> {
    match value.data_type() == *wanted {
        true => Ok(value.clone()),
        false => only_value(&in_type(&value.to_array()?, wanted)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::said::UUID_BYTES;
    use arrow::array::{FixedSizeBinaryArray, ListArray, StringViewArray};
    use arrow::buffer::OffsetBuffer;
    use hypostyle_types::LogicalType;

    fn text(of: &LogicalType) -> FieldRef {
        Arc::new(of.mark(Field::new("item", DataType::Utf8View, true)))
    }

    #[test]
    fn fields_say_what_others_say() {
        let list = |item: FieldRef| Field::new("l", DataType::List(item), true);
        let plain = Arc::new(Field::new("item", DataType::Utf8View, true));
        let large = Field::new("l", DataType::LargeList(plain.clone()), true);
        let said = list(text(&LogicalType::Json));
        assert_eq!(as_said(&said, &list(plain.clone())), said);
        assert_eq!(*as_said(&said, &large).data_type(), DataType::LargeList(text(&LogicalType::Json)));
        assert_eq!(as_said(&list(plain.clone()), &said), list(plain.clone()));
        let number = Field::new("n", DataType::Int64, true);
        assert_eq!(as_said(&said, &number), number);
        assert_eq!(as_said(&number, &said), said);
        let bytes = Field::new("u", UUID_BYTES, true);
        let uuid = as_said(&text(&LogicalType::Uuid), &bytes);
        assert_eq!(*uuid.data_type(), DataType::Utf8View);
        assert_eq!(LogicalType::from_arrow(&uuid).unwrap(), LogicalType::Uuid);
        assert_eq!(as_said(&plain, &bytes), bytes);
    }

    #[test]
    fn bytes_of_uuids_within_lists_become_text() {
        let bytes: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([[1_u8; 16]].iter()).unwrap());
        let field = Arc::new(LogicalType::Uuid.arrow_field("item", true));
        let lists = ListArray::try_new(field, OffsetBuffer::from_lengths([1]), bytes, None).unwrap();
        let wanted = DataType::List(text(&LogicalType::Uuid));
        let found = in_type(&(Arc::new(lists) as ArrayRef), &wanted).unwrap();
        assert_eq!(*found.data_type(), wanted);
        let texts = StringViewArray::from(vec!["01010101-0101-0101-0101-010101010101"]);
        assert_eq!(found.as_list::<i32>().values().as_string_view(), &texts);
    }
}
