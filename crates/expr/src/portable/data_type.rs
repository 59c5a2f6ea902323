//! Arrow's fields and types as parameters, with the metadata of all fields, by which UUIDs and JSON
//! are known.
//!
//! Arrow's own reader of schemas panics on some bytes, so types are told in another way: a type
//! without fields is the text that Arrow shows for it and reads.

use crate::portable::malformed;
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Field, FieldRef,
    validate_decimal_precision_and_scale,
};
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_types::Error;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The text of a type has no more bytes: those with the longest names of time zones have 70.
const TEXT_BYTES_MAX: usize = 128;

/// A field of Arrow's.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PortableField {
    name: String,
    #[serde(rename = "type")]
    data_type: PortableType,
    nullable: bool,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PortableType {
    /// A type without fields, as Arrow shows it.
    Plain(String),
    List(Box<PortableField>),
    LargeList(Box<PortableField>),
    FixedSizeList(Box<PortableField>, i32),
    Struct(Vec<PortableField>),
    /// The entries, and whether their keys are sorted.
    Map(Box<PortableField>, bool),
}

impl TryFrom<&Field> for PortableField {
    type Error = DataFusionError;

    fn try_from(field: &Field) -> Result<Self> {
        let metadata = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
        Ok(Self {
            name: field.name().clone(),
            data_type: field.data_type().try_into()?,
            nullable: field.is_nullable(),
            metadata: metadata.collect(),
        })
    }
}

impl TryFrom<&DataType> for PortableType {
    type Error = DataFusionError;

    fn try_from(data_type: &DataType) -> Result<Self> {
        let boxed = |field: &FieldRef| PortableField::try_from(field.as_ref()).map(Box::new);
        Ok(match data_type {
            DataType::List(field) => Self::List(boxed(field)?),
            DataType::LargeList(field) => Self::LargeList(boxed(field)?),
            DataType::FixedSizeList(field, size) => Self::FixedSizeList(boxed(field)?, *size),
            DataType::Struct(fields) => {
                let fields = fields.iter().map(|field| PortableField::try_from(field.as_ref()));
                Self::Struct(fields.collect::<Result<_>>()?)
            }
            DataType::Map(entries, are_sorted) => Self::Map(boxed(entries)?, *are_sorted),
            plain => match plain_type(&plain.to_string()) {
                Ok(read) if read == *plain => Self::Plain(plain.to_string()),
                _ => {
                    let message = format!("a parameter of the type {plain} cannot be sent to another node");
                    return Err(external(Error::unsupported(message)));
                }
            },
        })
    }
}

impl TryFrom<PortableField> for Field {
    type Error = DataFusionError;

    fn try_from(field: PortableField) -> Result<Self> {
        let PortableField { name, data_type, nullable, metadata } = field;
        Ok(Self::new(name, data_type.try_into()?, nullable).with_metadata(metadata.into_iter().collect()))
    }
}

impl TryFrom<PortableType> for DataType {
    type Error = DataFusionError;

    fn try_from(data_type: PortableType) -> Result<Self> {
        let shared = |field: PortableField| Field::try_from(field).map(Arc::new);
        Ok(match data_type {
            PortableType::Plain(text) => plain_type(&text)?,
            PortableType::List(field) => Self::List(shared(*field)?),
            PortableType::LargeList(field) => Self::LargeList(shared(*field)?),
            PortableType::FixedSizeList(field, size @ 0..) => Self::FixedSizeList(shared(*field)?, size),
            PortableType::FixedSizeList(_, size) => {
                return Err(malformed(format!("lists have {size} elements")));
            }
            PortableType::Struct(fields) => {
                Self::Struct(fields.into_iter().map(Field::try_from).collect::<Result<Vec<_>>>()?.into())
            }
            PortableType::Map(entries, are_sorted) => {
                let entries = shared(*entries)?;
                match entries.data_type() {
                    Self::Struct(fields) if fields.len() == 2 => Self::Map(entries, are_sorted),
                    other => return Err(malformed(format!("a map has entries of the type {other}"))),
                }
            }
        })
    }
}

/// Reads a type without fields.
fn plain_type(text: &str) -> Result<DataType> {
    // The reader calls itself for a type within a type, and longer texts might have many.
    if text.len() > TEXT_BYTES_MAX {
        return Err(malformed(format!("the text of a type has {} bytes", text.len())));
    }
    let data_type: DataType = text.parse().map_err(malformed)?;
    match &data_type {
        DataType::Decimal32(precision, scale) => {
            validate_decimal_precision_and_scale::<Decimal32Type>(*precision, *scale).map_err(malformed)?;
        }
        DataType::Decimal64(precision, scale) => {
            validate_decimal_precision_and_scale::<Decimal64Type>(*precision, *scale).map_err(malformed)?;
        }
        DataType::Decimal128(precision, scale) => {
            validate_decimal_precision_and_scale::<Decimal128Type>(*precision, *scale).map_err(malformed)?;
        }
        DataType::Decimal256(precision, scale) => {
            validate_decimal_precision_and_scale::<Decimal256Type>(*precision, *scale).map_err(malformed)?;
        }
        DataType::FixedSizeBinary(..0) => return Err(malformed(format!("there is no type {text}"))),
        DataType::Dictionary(..) => {}
        nested if nested.is_nested() => return Err(malformed(format!("{text} is a type with fields"))),
        _ => {}
    }
    Ok(data_type)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{IntervalUnit, TimeUnit};
    use hypostyle_types::LogicalType;

    fn round_trip(field: &Field) -> Result<Field> {
        let text = serde_json::to_string(&PortableField::try_from(field)?).map_err(malformed)?;
        serde_json::from_str::<PortableField>(&text).map_err(malformed)?.try_into()
    }

    #[test]
    fn fields_come_back_with_their_metadata() {
        let uuid = Arc::new(LogicalType::Uuid.arrow_field("id", true));
        let json = Arc::new(LogicalType::Json.arrow_field("doc", false));
        let entries =
            DataType::Struct(vec![Field::new("key", DataType::Utf8, false), (*json).clone()].into());
        let types = [
            DataType::Null,
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt64,
            DataType::Float32,
            DataType::Decimal128(38, -3),
            DataType::Decimal256(76, 76),
            DataType::Utf8View,
            DataType::LargeBinary,
            DataType::FixedSizeBinary(16),
            DataType::Date32,
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Timestamp(TimeUnit::Microsecond, Some("America/Argentina/ComodRivadavia".into())),
            DataType::Duration(TimeUnit::Second),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            DataType::List(uuid.clone()),
            DataType::LargeList(json.clone()),
            DataType::FixedSizeList(uuid.clone(), 3),
            DataType::Struct(vec![uuid, json].into()),
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false),
        ];
        for data_type in types {
            let metadata = [("a key".to_string(), "\"a\u{0} value".to_string())].into();
            for field in [
                Field::new("", data_type.clone(), true),
                Field::new("näme", data_type, false).with_metadata(metadata),
            ] {
                assert_eq!(round_trip(&field).unwrap(), field);
            }
        }
    }

    #[test]
    fn a_type_that_cannot_be_told_is_refused() {
        let field = Arc::new(Field::new("", DataType::Int32, true));
        let ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let of = DataType::RunEndEncoded(ends, field);
        let error = round_trip(&Field::new("", of, true)).unwrap_err();
        assert!(error.to_string().contains("cannot be sent to another node"), "{error}");
    }

    #[test]
    fn texts_of_no_type_are_errors() {
        let deep = format!("{}Int8{}", "List(".repeat(100_000), ")".repeat(100_000));
        for text in [
            "",
            "Int",
            "Decimal128(0, 0)",
            "Decimal128(39, 0)",
            "Decimal256(200, 1)",
            "FixedSizeBinary(-1)",
            "List(Int8)",
            deep.as_str(),
        ] {
            let error = plain_type(text).unwrap_err();
            assert!(error.to_string().contains("cannot be decoded"), "{error}");
        }
    }
}
