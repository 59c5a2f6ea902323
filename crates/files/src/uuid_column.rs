//! UUIDs, which are text in plans, and in files the 16 bytes that others expect of the name
//! arrow.uuid.

use crate::nested::{parts, with_leaves, with_parts};
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion::common::{exec_datafusion_err, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_expr::said::in_plans;
use hypostyle_types::{LogicalType, parse_uuid};
use std::sync::Arc;
use uuid::Uuid;

const BYTES: i32 = 16;

/// Says whether a field is of UUIDs in the form of bytes, or has some within it.
pub fn has_bytes(field: &Field) -> bool {
    in_plans(field) != *field
}

/// Says whether a field is of UUIDs, in the form of text.
pub fn is_of_text(field: &Field) -> bool {
    field.data_type().is_string() && is_of_uuids(field)
}

fn is_of_uuids(field: &Field) -> bool {
    LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Uuid)
}

/// Says whether fields are of UUIDs, or have some within them.
pub fn has_uuids(fields: &[FieldRef]) -> bool {
    fields.iter().any(|field| is_of_uuids(field) || has_uuids(parts(field.data_type())))
}

/// Returns for each column of Parquet that fields become, in their order, whether it is of UUIDs.
pub fn uuid_leaves(fields: &[FieldRef]) -> Vec<bool> {
    let leaves = fields.iter().map(|field| match field.data_type().is_nested() {
        true => uuid_leaves(parts(field.data_type())),
        false => vec![is_of_uuids(field)],
    });
    leaves.flatten().collect()
}

/// Returns the type of a field's values with bytes in the place of the text of UUIDs, also of those
/// within it.
pub fn with_bytes(field: &Field) -> DataType {
    match is_of_text(field) {
        true => DataType::FixedSizeBinary(BYTES),
        false => with_parts(field.data_type(), &mut |part| {
            Arc::new(part.as_ref().clone().with_data_type(with_bytes(part)))
        }),
    }
}

/// Returns the function that makes bytes of text, or text of bytes, also of those within lists, structures
/// and maps.
pub fn converter(to_bytes: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Converter { to_bytes, signature }))
}

/// Returns values with the text of UUIDs in the place of their bytes, also within them, as a field of plans
/// has it.
///
/// # Errors
/// Those of Arrow, for values of another type.
pub fn as_text(values: &ArrayRef, field: &Field) -> Result<ArrayRef, ArrowError> {
    with_leaves(values, field, &|leaves, part| match leaves.data_type() {
        DataType::FixedSizeBinary(BYTES) => Ok(text(leaves)),
        _ => cast(leaves, part.data_type()),
    })
}

/// Returns the text of UUIDs.
fn text(values: &ArrayRef) -> ArrayRef {
    let mut builder = StringViewBuilder::with_capacity(values.len());
    let mut buffer = Uuid::encode_buffer();
    for value in values.as_fixed_size_binary() {
        let uuid = value.and_then(|bytes| Uuid::from_slice(bytes).ok());
        builder.append_option(uuid.map(|uuid| &*uuid.hyphenated().encode_lower(&mut buffer)));
    }
    Arc::new(builder.finish())
}

fn bytes(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = cast(values, &DataType::Utf8View)?;
    let mut builder = FixedSizeBinaryBuilder::with_capacity(texts.len(), BYTES);
    for text in texts.as_string_view() {
        match text {
            Some(text) => {
                let uuid = parse_uuid(text).map_err(|error| ArrowError::ExternalError(Box::new(error)))?;
                builder.append_value(uuid.as_bytes())?;
            }
            None => builder.append_null(),
        }
    }
    Ok(Arc::new(builder.finish()))
}

/// The function that makes bytes of a UUID's text, or text of its bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Converter {
    to_bytes: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Converter {
    fn name(&self) -> &str {
        if self.to_bytes { "uuid_bytes" } else { "uuid_text" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(internal_datafusion_err!("the type of {} is that of its field", self.name()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let field = field.ok_or_else(|| exec_datafusion_err!("{} is of one column", self.name()))?;
        Ok(Arc::new(match self.to_bytes {
            true => field.as_ref().clone().with_data_type(with_bytes(field)),
            false => in_plans(field),
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let made = match self.to_bytes {
            true => with_leaves(&values[0], &args.return_field, &|texts, _| bytes(texts))?,
            false => as_text(&values[0], &args.return_field)?,
        };
        Ok(ColumnarValue::Array(made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ListArray, MapArray, StringArray, StringViewArray, StructArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};

    const ONE: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    const OTHER: &str = "ffffffff-ffff-ffff-ffff-ffffffffffff";

    #[test]
    fn text_and_bytes_are_the_same_values() {
        let given: ArrayRef = Arc::new(StringArray::from(vec![Some(ONE), None, Some(OTHER)]));
        let made = text(&bytes(&given).unwrap());
        let made: Vec<Option<&str>> = made.as_string_view().iter().collect();
        assert_eq!(made, [Some(ONE), None, Some(OTHER)]);
        let wrong: ArrayRef = Arc::new(StringArray::from(vec!["no"]));
        assert!(bytes(&wrong).is_err());
    }

    fn of_text(name: &str, nullable: bool) -> FieldRef {
        Arc::new(LogicalType::Uuid.mark(Field::new(name, DataType::Utf8View, nullable)))
    }

    /// Returns UUIDs as the elements of lists, which stand in structures, which stand in maps by UUIDs.
    fn nested() -> ArrayRef {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some(ONE), None, Some(OTHER)]));
        let nulls = NullBuffer::from(vec![true, false, true]);
        let offsets = OffsetBuffer::from_lengths([1, 0, 2]);
        let lists: ArrayRef =
            Arc::new(ListArray::new(of_text("item", true), offsets, texts.clone(), Some(nulls)));
        let fields = vec![
            Arc::new(Field::new("l", lists.data_type().clone(), true)),
            Arc::new(Field::new("t", DataType::Utf8View, true)),
        ];
        let structures: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![lists, texts], None));
        let keys: ArrayRef = Arc::new(StringViewArray::from(vec![ONE, OTHER, ONE]));
        let value = Arc::new(Field::new("value", structures.data_type().clone(), true));
        let entries =
            StructArray::new(vec![of_text("key", false), value].into(), vec![keys, structures], None);
        let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
        Arc::new(MapArray::new(field, OffsetBuffer::from_lengths([2, 1]), entries, None, false))
    }

    #[test]
    fn text_within_others_becomes_bytes_in_its_place() {
        for given in [nested(), nested().slice(1, 1)] {
            let field = Field::new("m", given.data_type().clone(), true);
            let wanted = field.clone().with_data_type(with_bytes(&field));
            let made = with_leaves(&given, &wanted, &|texts, _| bytes(texts)).unwrap();
            assert_eq!((made.data_type(), made.len()), (wanted.data_type(), given.len()));
            let (given, made) = (given.as_map(), made.as_map());
            assert_eq!(made.value_offsets(), given.value_offsets());
            assert_eq!(text(made.keys()).as_string_view(), given.keys().as_string_view());
            let (given, made) = (given.values().as_struct(), made.values().as_struct());
            assert_eq!(made.column(1), given.column(1), "a text is no UUID");
            let (given, made) = (given.column(0).as_list::<i32>(), made.column(0).as_list::<i32>());
            assert_eq!((made.offsets(), made.nulls()), (given.offsets(), given.nulls()));
            assert_eq!(text(made.values()).as_string_view(), given.values().as_string_view());
        }
        let given = nested();
        let field = Field::new("m", given.data_type().clone(), true);
        let of_bytes = field.clone().with_data_type(with_bytes(&field));
        let made = with_leaves(&given, &of_bytes, &|texts, _| bytes(texts)).unwrap();
        assert!(has_bytes(&of_bytes) && !has_bytes(&field));
        assert_eq!(in_plans(&of_bytes), field);
        assert_eq!(as_text(&made, &field).unwrap().as_map().keys(), given.as_map().keys());
    }

    #[test]
    fn leaves_are_in_the_order_of_parquet() {
        let map: FieldRef = Arc::new(Field::new("m", nested().data_type().clone(), true));
        let other: FieldRef = Arc::new(Field::new("n", DataType::Int64, true));
        let fields = [other.clone(), map, of_text("u", true)];
        assert_eq!(uuid_leaves(&fields), [false, true, true, false, true]);
        assert!(has_uuids(&fields[1..2]) && !has_uuids(&[other]));
    }
}
