//! Converts SQL type names to logical types, for CREATE TABLE, and for casts to types that
//! DataFusion lacks.

use crate::said::in_plans;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as Sql, ExactNumberInfo, TimezoneInfo};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, StructField, TimeUnit, did_you_mean};
use std::collections::HashSet;
use std::sync::Arc;

const DECIMAL_PRECISION_DEFAULT: u64 = 18;
const DECIMAL_SCALE_DEFAULT: i64 = 3;

/// The key of the metadata of what is cast to JSONB: its text is written in one way, so that equal
/// values are equal texts.
pub const JSONB: &str = "hypostyle.jsonb";

/// Names beyond the parser's own, for suggestions and for [`by_name`].
const NAMES: [&str; 24] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "INTERVAL",
    "VARCHAR",
    "TEXT",
    "BLOB",
    "UUID",
    "JSON",
    "TIMESTAMP_NS",
    "STRING",
];

/// Gives casts the types that DataFusion's planner does not know.
#[derive(Debug)]
pub struct TypeNames;

impl TypePlanner for TypeNames {
    fn plan_type_field(&self, sql: &Sql) -> datafusion::error::Result<Option<FieldRef>> {
        let (logical_type, data_type) = match sql {
            Sql::JSON => (LogicalType::Json, DataType::Utf8View),
            Sql::JSONB => {
                let mut metadata = LogicalType::Json.arrow_field("", true).metadata().clone();
                metadata.insert(JSONB.into(), "true".into());
                return Ok(Some(Arc::new(Field::new("", DataType::Utf8View, true).with_metadata(metadata))));
            }
            // In plans UUIDs are text.
            Sql::Uuid => (LogicalType::Uuid, DataType::Utf8View),
            Sql::Blob(_) | Sql::Varbinary(_) => (LogicalType::Blob, DataType::LargeBinary),
            // Points in time count as in columns: DataFusion's TIMESTAMP counts nanoseconds, and
            // ends in 2262.
            Sql::Timestamp(..)
            | Sql::Datetime(..)
            | Sql::Time(..)
            | Sql::UTinyInt
            | Sql::USmallInt
            | Sql::UBigInt
            | Sql::Custom(..) => {
                let Ok(found) = logical_type(sql) else { return Ok(None) };
                let data_type = found.arrow_type();
                (found, data_type)
            }
            Sql::Map(..) => {
                check_measures(sql).map_err(hypostyle_error::external)?;
                let found = logical_type(sql).map_err(hypostyle_error::external)?;
                return Ok(Some(Arc::new(in_plans(&found.arrow_field("", true)))));
            }
            other => {
                check_measures(other).map_err(hypostyle_error::external)?;
                return Ok(None);
            }
        };
        let metadata = logical_type.arrow_field("", true).metadata().clone();
        Ok(Some(Arc::new(Field::new("", data_type, true).with_metadata(metadata))))
    }
}

/// Looks whether a type has the lengths and digits that it may have.
///
/// # Errors
/// `InvalidInput` (22023) for a precision or a length that is too small or too large; `Syntax` for one
/// of a type that has none.
fn check_measures(sql: &Sql) -> Result<()> {
    let wrong = |why: &str| Err(Error::invalid_input(format!("{sql}: {why}")).with_sqlstate("22023"));
    match sql {
        Sql::TinyInt(Some(_))
        | Sql::SmallInt(Some(_))
        | Sql::MediumInt(Some(_))
        | Sql::Int(Some(_))
        | Sql::Integer(Some(_))
        | Sql::BigInt(Some(_))
        | Sql::Int2(Some(_))
        | Sql::Int4(Some(_))
        | Sql::Int8(Some(_)) => Err(Error::new(
            ErrorKind::Syntax,
            format!("{sql}: an integer has no length; write the type alone, or DECIMAL(digits)"),
        )),
        Sql::Float(ExactNumberInfo::Precision(0 | 54..)) => wrong("the precision is 1 to 53 bits"),
        Sql::Decimal(ExactNumberInfo::Precision(precision))
        | Sql::Numeric(ExactNumberInfo::Precision(precision))
        | Sql::Dec(ExactNumberInfo::Precision(precision)) => decimal(*precision, 0).map(drop),
        Sql::Decimal(ExactNumberInfo::PrecisionAndScale(precision, scale))
        | Sql::Numeric(ExactNumberInfo::PrecisionAndScale(precision, scale))
        | Sql::Dec(ExactNumberInfo::PrecisionAndScale(precision, scale)) => {
            decimal(*precision, *scale).map(drop)
        }
        Sql::Array(ArrayElemTypeDef::SquareBracket(_, Some(0))) => {
            wrong("a list of a fixed length has 1 element or more")
        }
        Sql::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => check_measures(element),
        Sql::Struct(fields, _) => {
            let mut names = fields.iter().filter_map(|field| field.field_name.as_ref());
            let mut seen = HashSet::new();
            if let Some(name) = names.find(|name| !seen.insert(name.value.as_str())) {
                let name = &name.value;
                let message = format!("{sql}: a structure has a field '{name}' once");
                return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701"));
            }
            fields.iter().try_for_each(|field| check_measures(&field.field_type))
        }
        Sql::Map(key, value) => check_measures(key).and_then(|()| check_measures(value)),
        _ => Ok(()),
    }
}

fn decimal(precision: u64, scale: i64) -> Result<LogicalType> {
    LogicalType::decimal(precision, scale).map_err(|error| error.with_sqlstate("22023"))
}

/// # Errors
/// `Unsupported` for a type that Hypostyle has not, with the nearest that it has; those of
/// [`check_measures`].
pub fn logical_type(sql: &Sql) -> Result<LogicalType> {
    use LogicalType::*;
    check_measures(sql)?;
    Ok(match sql {
        Sql::Boolean | Sql::Bool => Boolean,
        Sql::TinyInt(_) => TinyInt,
        Sql::SmallInt(_) | Sql::Int2(_) | Sql::Int16 => SmallInt,
        Sql::Int(_) | Sql::Integer(_) | Sql::Int4(_) | Sql::Int32 | Sql::MediumInt(_) => Integer,
        // INT8 counts bytes, as in PostgreSQL.
        Sql::BigInt(_) | Sql::Int64 | Sql::Int8(_) => BigInt,
        Sql::TinyIntUnsigned(_) | Sql::UTinyInt | Sql::UInt8 => UTinyInt,
        Sql::SmallIntUnsigned(_) | Sql::USmallInt | Sql::UInt16 | Sql::Int2Unsigned(_) => USmallInt,
        Sql::IntUnsigned(_) | Sql::IntegerUnsigned(_) | Sql::UInt32 | Sql::Int4Unsigned(_) => UInteger,
        Sql::BigIntUnsigned(_) | Sql::UBigInt | Sql::UInt64 | Sql::Int8Unsigned(_) => UBigInt,
        Sql::Real | Sql::Float4 | Sql::Float32 => Float,
        // As in standard SQL, FLOAT(p) of 24 bits or fewer is single precision; bare FLOAT is, too.
        Sql::Float(info) => match info {
            ExactNumberInfo::Precision(bits) if *bits > 24 => Double,
            _ => Float,
        },
        Sql::Double(_) | Sql::DoublePrecision | Sql::Float8 | Sql::Float64 => Double,
        Sql::Decimal(info) | Sql::Numeric(info) | Sql::Dec(info) => match info {
            ExactNumberInfo::None => decimal(DECIMAL_PRECISION_DEFAULT, DECIMAL_SCALE_DEFAULT)?,
            ExactNumberInfo::Precision(precision) => decimal(*precision, 0)?,
            ExactNumberInfo::PrecisionAndScale(precision, scale) => decimal(*precision, *scale)?,
        },
        Sql::Date | Sql::Date32 => Date,
        Sql::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Time,
        Sql::Timestamp(digits, zone) => {
            timestamp(*digits, matches!(zone, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
        }
        Sql::Datetime(digits) => timestamp(*digits, false),
        Sql::Interval { .. } => Interval,
        Sql::Varchar(_)
        | Sql::Char(_)
        | Sql::Character(_)
        | Sql::CharVarying(_)
        | Sql::CharacterVarying(_)
        | Sql::Nvarchar(_)
        | Sql::Text
        | Sql::String(_) => Varchar,
        Sql::Blob(_) | Sql::Bytea | Sql::Binary(None) | Sql::Varbinary(_) | Sql::Bytes(_) => Blob,
        Sql::Binary(Some(bytes)) => {
            let bytes = i32::try_from(*bytes).map_err(|_| unknown(&sql.to_string()))?;
            FixedBinary { bytes }
        }
        Sql::Uuid => Uuid,
        Sql::JSON | Sql::JSONB => Json,
        Sql::Array(element) => match element {
            ArrayElemTypeDef::SquareBracket(element, Some(length)) => Array {
                element: Box::new(logical_type(element)?),
                length: i32::try_from(*length).map_err(|_| unknown(&sql.to_string()))?,
            },
            ArrayElemTypeDef::SquareBracket(element, None)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element) => List { element: Box::new(logical_type(element)?) },
            ArrayElemTypeDef::None => return Err(unknown("ARRAY without an element type")),
        },
        Sql::Struct(fields, _) => Struct {
            fields: fields
                .iter()
                .zip(1..)
                .map(|(field, number)| {
                    let name = match &field.field_name {
                        Some(name) => name.value.clone(),
                        None => format!("c{number}"),
                    };
                    Ok(StructField { name, logical_type: logical_type(&field.field_type)? })
                })
                .collect::<Result<_>>()?,
        },
        Sql::Map(key, value) => {
            Map { key: Box::new(logical_type(key)?), value: Box::new(logical_type(value)?) }
        }
        Sql::Custom(name, arguments) if arguments.is_empty() => by_name(&name.to_string())?,
        other => return Err(unknown(&other.to_string())),
    })
}

fn timestamp(digits: Option<u64>, with_zone: bool) -> LogicalType {
    let unit = match digits {
        Some(0) => TimeUnit::Second,
        Some(1..=3) => TimeUnit::Millisecond,
        Some(7..) => TimeUnit::Nanosecond,
        _ => TimeUnit::Microsecond,
    };
    LogicalType::Timestamp { unit, time_zone: with_zone.then(|| "UTC".to_string()) }
}

fn by_name(name: &str) -> Result<LogicalType> {
    let of = |unit| LogicalType::Timestamp { unit, time_zone: None };
    Ok(match name.to_ascii_uppercase().as_str() {
        "UTINYINT" => LogicalType::UTinyInt,
        "USMALLINT" => LogicalType::USmallInt,
        "UINTEGER" => LogicalType::UInteger,
        "UBIGINT" => LogicalType::UBigInt,
        "TIMESTAMP_S" => of(TimeUnit::Second),
        "TIMESTAMP_MS" => of(TimeUnit::Millisecond),
        "TIMESTAMP_NS" => of(TimeUnit::Nanosecond),
        "DURATION" => LogicalType::Duration { unit: TimeUnit::Microsecond },
        "DURATION_NS" => LogicalType::Duration { unit: TimeUnit::Nanosecond },
        "DURATION_MS" => LogicalType::Duration { unit: TimeUnit::Millisecond },
        "DURATION_S" => LogicalType::Duration { unit: TimeUnit::Second },
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> Error {
    Error::unsupported(format!("no type {name}{}", did_you_mean(name, NAMES))).with_sqlstate("42704")
}
