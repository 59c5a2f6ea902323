//! SQL types, their names, and the Arrow types that carry them.
//!
//! A logical type says which values a column has. Their layout on disk (a dictionary or plain
//! strings, for example) is a decision of the storage and not part of the type. The narrowest Arrow
//! decimal that holds the precision carries a DECIMAL, because the array at rest is the result.

use crate::{Error, Result};
use arrow_schema::{DECIMAL32_MAX_PRECISION, DECIMAL64_MAX_PRECISION, DECIMAL128_MAX_PRECISION};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

pub use arrow_schema::DECIMAL256_MAX_PRECISION as DECIMAL_PRECISION_MAX;

const EXTENSION_NAME: &str = "ARROW:extension:name";
const EXTENSION_METADATA: &str = "ARROW:extension:metadata";
const EXTENSION_JSON: &str = "arrow.json";
const EXTENSION_UUID: &str = "arrow.uuid";

/// Unit of a timestamp or duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl From<TimeUnit> for arrow_schema::TimeUnit {
    fn from(unit: TimeUnit) -> Self {
        match unit {
            TimeUnit::Second => Self::Second,
            TimeUnit::Millisecond => Self::Millisecond,
            TimeUnit::Microsecond => Self::Microsecond,
            TimeUnit::Nanosecond => Self::Nanosecond,
        }
    }
}

impl From<arrow_schema::TimeUnit> for TimeUnit {
    fn from(unit: arrow_schema::TimeUnit) -> Self {
        match unit {
            arrow_schema::TimeUnit::Second => Self::Second,
            arrow_schema::TimeUnit::Millisecond => Self::Millisecond,
            arrow_schema::TimeUnit::Microsecond => Self::Microsecond,
            arrow_schema::TimeUnit::Nanosecond => Self::Nanosecond,
        }
    }
}

/// A named member of a STRUCT.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StructField {
    pub name: String,
    #[serde(flatten)]
    pub logical_type: LogicalType,
}

/// The type of a column as SQL sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogicalType {
    Boolean,
    TinyInt,
    SmallInt,
    Integer,
    BigInt,
    UTinyInt,
    USmallInt,
    UInteger,
    UBigInt,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Date,
    /// The time of a day: microseconds since midnight.
    Time,
    /// A count of units since 1970-01-01; with a time zone, an instant that is shown in that zone.
    Timestamp {
        unit: TimeUnit,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        time_zone: Option<String>,
    },
    /// Months, days and nanoseconds, each a number of its own.
    Interval,
    /// An exact length of time, as pandas' timedelta.
    Duration {
        unit: TimeUnit,
    },
    Varchar,
    Json,
    Blob,
    Uuid,
    FixedBinary {
        bytes: i32,
    },
    List {
        element: Box<LogicalType>,
    },
    /// Lists of the same length, such as embeddings.
    Array {
        element: Box<LogicalType>,
        length: i32,
    },
    Struct {
        fields: Vec<StructField>,
    },
    Map {
        key: Box<LogicalType>,
        value: Box<LogicalType>,
    },
}

impl LogicalType {
    /// Returns a DECIMAL after checking its precision and scale.
    ///
    /// # Errors
    /// `InvalidInput` when the precision is not in 1…76 or the scale not in 0…precision.
    pub fn decimal(precision: u64, scale: i64) -> Result<Self> {
        let valid = (1..=u64::from(DECIMAL_PRECISION_MAX)).contains(&precision)
            && (0..=precision as i64).contains(&scale);
        if !valid {
            return Err(Error::invalid_input(format!(
                "DECIMAL({precision},{scale}): the precision is 1 to {DECIMAL_PRECISION_MAX} and the scale 0 to the precision"
            )));
        }
        Ok(Self::Decimal { precision: precision as u8, scale: scale as i8 })
    }

    pub fn timestamp() -> Self {
        Self::Timestamp { unit: TimeUnit::Microsecond, time_zone: None }
    }

    pub fn timestamp_with_time_zone() -> Self {
        Self::Timestamp { unit: TimeUnit::Microsecond, time_zone: Some("UTC".into()) }
    }

    /// Says whether values of the type are maps, or have maps within them.
    pub fn has_map(&self) -> bool {
        match self {
            Self::Map { .. } => true,
            Self::List { element } | Self::Array { element, .. } => element.has_map(),
            Self::Struct { fields } => fields.iter().any(|field| field.logical_type.has_map()),
            _ => false,
        }
    }

    /// Returns the type of a column that is created from data of this Arrow type.
    ///
    /// # Errors
    /// `Unsupported` for half floats, unions, run-end encodings and decimals of negative scale.
    pub fn from_arrow(field: &Field) -> Result<Self> {
        let extension = field.metadata().get(EXTENSION_NAME).map(String::as_str);
        if extension == Some(EXTENSION_JSON) {
            return Ok(Self::Json);
        }
        Ok(match field.data_type() {
            DataType::Boolean => Self::Boolean,
            DataType::Int8 => Self::TinyInt,
            DataType::Int16 => Self::SmallInt,
            DataType::Int32 => Self::Integer,
            DataType::Int64 => Self::BigInt,
            DataType::UInt8 => Self::UTinyInt,
            DataType::UInt16 => Self::USmallInt,
            DataType::UInt32 => Self::UInteger,
            DataType::UInt64 => Self::UBigInt,
            DataType::Float16 | DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => {
                Self::decimal(u64::from(*precision), i64::from(*scale))
                    .map_err(|error| error.context(format!("column \"{}\"", field.name())))?
            }
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(unit, time_zone) => Self::Timestamp {
                unit: (*unit).into(),
                time_zone: time_zone.as_ref().map(|zone| zone.to_string()),
            },
            DataType::Interval(_) => Self::Interval,
            DataType::Duration(unit) => Self::Duration { unit: (*unit).into() },
            // UUIDs are text while they are processed.
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
                if extension == Some(EXTENSION_UUID) =>
            {
                Self::Uuid
            }
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Varchar,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Blob,
            DataType::FixedSizeBinary(16) if extension == Some(EXTENSION_UUID) => Self::Uuid,
            DataType::FixedSizeBinary(bytes) => Self::FixedBinary { bytes: *bytes },
            DataType::List(element)
            | DataType::LargeList(element)
            | DataType::ListView(element)
            | DataType::LargeListView(element) => {
                Self::List { element: Box::new(Self::from_arrow(element)?) }
            }
            DataType::FixedSizeList(element, length) => {
                Self::Array { element: Box::new(Self::from_arrow(element)?), length: *length }
            }
            DataType::Struct(fields) => Self::Struct {
                fields: fields
                    .iter()
                    .map(|member| {
                        Ok(StructField {
                            name: member.name().clone(),
                            logical_type: Self::from_arrow(member)?,
                        })
                    })
                    .collect::<Result<_>>()?,
            },
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => Self::Map {
                    key: Box::new(Self::from_arrow(&fields[0])?),
                    value: Box::new(Self::from_arrow(&fields[1])?),
                },
                other => {
                    return Err(Error::unsupported(format!("a map whose entries are {other}")));
                }
            },
            DataType::Dictionary(_, value) => {
                Self::from_arrow(&Field::new(field.name(), value.as_ref().clone(), field.is_nullable()))?
            }
            // An untyped NULL becomes text, which can take any later value.
            DataType::Null => Self::Varchar,
            other @ (DataType::Union(_, _) | DataType::RunEndEncoded(_, _)) => {
                return Err(Error::unsupported(format!(
                    "column \"{}\" has the Arrow type {other}, which no SQL type holds",
                    field.name()
                )));
            }
        })
    }

    /// Returns the Arrow type of this column at rest when it is not dictionary-encoded (format.md
    /// §3).
    pub fn arrow_type(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::TinyInt => DataType::Int8,
            Self::SmallInt => DataType::Int16,
            Self::Integer => DataType::Int32,
            Self::BigInt => DataType::Int64,
            Self::UTinyInt => DataType::UInt8,
            Self::USmallInt => DataType::UInt16,
            Self::UInteger => DataType::UInt32,
            Self::UBigInt => DataType::UInt64,
            Self::Float => DataType::Float32,
            Self::Double => DataType::Float64,
            Self::Decimal { precision, scale } => match *precision {
                p if p <= DECIMAL32_MAX_PRECISION => DataType::Decimal32(p, *scale),
                p if p <= DECIMAL64_MAX_PRECISION => DataType::Decimal64(p, *scale),
                p if p <= DECIMAL128_MAX_PRECISION => DataType::Decimal128(p, *scale),
                p => DataType::Decimal256(p, *scale),
            },
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(arrow_schema::TimeUnit::Microsecond),
            Self::Timestamp { unit, time_zone } => {
                DataType::Timestamp((*unit).into(), time_zone.as_deref().map(Arc::from))
            }
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Duration { unit } => DataType::Duration((*unit).into()),
            Self::Varchar | Self::Json => DataType::LargeUtf8,
            Self::Blob => DataType::LargeBinary,
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::FixedBinary { bytes } => DataType::FixedSizeBinary(*bytes),
            Self::List { element } => DataType::LargeList(element.element_field()),
            Self::Array { element, length } => DataType::FixedSizeList(element.element_field(), *length),
            Self::Struct { fields } => DataType::Struct(
                fields.iter().map(|member| member.logical_type.arrow_field(&member.name, true)).collect(),
            ),
            Self::Map { key, value } => {
                let entries =
                    Fields::from(vec![key.arrow_field("key", false), value.arrow_field("value", true)]);
                DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
            }
        }
    }

    fn element_field(&self) -> FieldRef {
        Arc::new(self.arrow_field("item", true))
    }

    /// Returns an Arrow field of [`Self::arrow_type`], with the extension name of JSON and UUID.
    pub fn arrow_field(&self, name: &str, nullable: bool) -> Field {
        let field = Field::new(name, self.arrow_type(), nullable);
        self.mark(field)
    }

    /// Puts this type's Arrow extension name on a field, whatever the field's storage type.
    pub fn mark(&self, field: Field) -> Field {
        let extension = match self {
            Self::Json => EXTENSION_JSON,
            Self::Uuid => EXTENSION_UUID,
            _ => return field,
        };
        let mut metadata: HashMap<String, String> = field.metadata().clone();
        metadata.insert(EXTENSION_NAME.into(), extension.into());
        metadata.insert(EXTENSION_METADATA.into(), String::new());
        field.with_metadata(metadata)
    }

    /// Says whether the storage may choose a dictionary for the type.
    pub fn may_have_dictionary(&self) -> bool {
        matches!(self, Self::Varchar)
    }
}

impl fmt::Display for LogicalType {
    /// Writes the SQL name, as CREATE TABLE takes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean => f.write_str("BOOLEAN"),
            Self::TinyInt => f.write_str("TINYINT"),
            Self::SmallInt => f.write_str("SMALLINT"),
            Self::Integer => f.write_str("INTEGER"),
            Self::BigInt => f.write_str("BIGINT"),
            Self::UTinyInt => f.write_str("UTINYINT"),
            Self::USmallInt => f.write_str("USMALLINT"),
            Self::UInteger => f.write_str("UINTEGER"),
            Self::UBigInt => f.write_str("UBIGINT"),
            Self::Float => f.write_str("FLOAT"),
            Self::Double => f.write_str("DOUBLE"),
            Self::Decimal { precision, scale } => write!(f, "DECIMAL({precision},{scale})"),
            Self::Date => f.write_str("DATE"),
            Self::Time => f.write_str("TIME"),
            Self::Timestamp { unit, time_zone } => {
                f.write_str("TIMESTAMP")?;
                f.write_str(match unit {
                    TimeUnit::Second => "_S",
                    TimeUnit::Millisecond => "_MS",
                    TimeUnit::Microsecond => "",
                    TimeUnit::Nanosecond => "_NS",
                })?;
                match time_zone {
                    Some(_) => f.write_str(" WITH TIME ZONE"),
                    None => Ok(()),
                }
            }
            Self::Interval => f.write_str("INTERVAL"),
            Self::Duration { unit } => f.write_str(match unit {
                TimeUnit::Second => "DURATION_S",
                TimeUnit::Millisecond => "DURATION_MS",
                TimeUnit::Microsecond => "DURATION",
                TimeUnit::Nanosecond => "DURATION_NS",
            }),
            Self::Varchar => f.write_str("VARCHAR"),
            Self::Json => f.write_str("JSON"),
            Self::Blob => f.write_str("BLOB"),
            Self::Uuid => f.write_str("UUID"),
            Self::FixedBinary { bytes } => write!(f, "BINARY({bytes})"),
            Self::List { element } => write!(f, "{element}[]"),
            Self::Array { element, length } => write!(f, "{element}[{length}]"),
            Self::Struct { fields } => {
                f.write_str("STRUCT(")?;
                for (index, member) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{} {}", quote_identifier(&member.name), member.logical_type)?;
                }
                f.write_str(")")
            }
            Self::Map { key, value } => write!(f, "MAP({key}, {value})"),
        }
    }
}

/// Returns a name as SQL takes it, with quotes only if it needs them.
fn quote_identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<LogicalType> {
        use LogicalType::*;
        vec![
            Boolean,
            TinyInt,
            UBigInt,
            Double,
            Decimal { precision: 9, scale: 2 },
            Decimal { precision: 18, scale: 0 },
            Decimal { precision: 38, scale: 38 },
            Decimal { precision: 76, scale: 1 },
            Date,
            Time,
            LogicalType::timestamp(),
            Timestamp { unit: TimeUnit::Nanosecond, time_zone: Some("Europe/Rome".into()) },
            Interval,
            Duration { unit: TimeUnit::Second },
            Varchar,
            Json,
            Blob,
            Uuid,
            FixedBinary { bytes: 5 },
            List { element: Box::new(Varchar) },
            Array { element: Box::new(Float), length: 3 },
            Struct {
                fields: vec![
                    StructField { name: "a".into(), logical_type: Json },
                    StructField { name: "B b".into(), logical_type: List { element: Box::new(Date) } },
                ],
            },
            Map { key: Box::new(Varchar), value: Box::new(Integer) },
        ]
    }

    #[test]
    fn arrow_and_json_bring_every_type_back() {
        for logical_type in examples() {
            let field = logical_type.arrow_field("c", true);
            assert_eq!(LogicalType::from_arrow(&field).unwrap(), logical_type);
            let json = serde_json::to_string(&logical_type).unwrap();
            assert_eq!(serde_json::from_str::<LogicalType>(&json).unwrap(), logical_type, "{json}");
        }
    }

    #[test]
    fn names_are_sql() {
        let nested = &examples()[21];
        assert_eq!(nested.to_string(), "STRUCT(a JSON, \"B b\" DATE[])");
        assert_eq!(LogicalType::timestamp_with_time_zone().to_string(), "TIMESTAMP WITH TIME ZONE");
    }

    #[test]
    fn maps_are_found_within_others() {
        let map = examples().pop().unwrap();
        assert_eq!(
            examples().into_iter().filter(LogicalType::has_map).collect::<Vec<_>>(),
            std::slice::from_ref(&map)
        );
        let list = LogicalType::List { element: Box::new(map) };
        let fields = vec![StructField { name: "a".into(), logical_type: list }];
        assert!(LogicalType::Struct { fields }.has_map());
    }

    #[test]
    fn a_decimal_out_of_range_is_refused() {
        for (precision, scale) in [(0, 0), (77, 0), (5, 6), (5, -1)] {
            assert!(LogicalType::decimal(precision, scale).is_err(), "DECIMAL({precision},{scale})");
        }
    }
}
