//! The types of columns as the parser has them, so that no text is written, and read, for one.

use crate::build::name;
use hypostyle_types::{Error, LogicalType, Result, TimeUnit};
use sqlparser::ast::{
    ArrayElemTypeDef, DataType, ExactNumberInfo, Ident, ObjectName, StructBracketKind, StructField,
    TimezoneInfo,
};

/// Returns what the parser makes of the name of a type.
///
/// # Errors
/// `Unsupported` for a type that SQL has no name for.
pub fn type_of(of: &LogicalType) -> Result<DataType> {
    Ok(match of {
        LogicalType::Boolean => DataType::Boolean,
        LogicalType::TinyInt => DataType::TinyInt(None),
        LogicalType::SmallInt => DataType::SmallInt(None),
        LogicalType::Integer => DataType::Integer(None),
        LogicalType::BigInt => DataType::BigInt(None),
        LogicalType::UTinyInt => DataType::UTinyInt,
        LogicalType::USmallInt => DataType::USmallInt,
        LogicalType::UBigInt => DataType::UBigInt,
        LogicalType::Float => DataType::Float(ExactNumberInfo::None),
        LogicalType::Double => DataType::Double(ExactNumberInfo::None),
        LogicalType::Decimal { precision, scale } => {
            DataType::Decimal(ExactNumberInfo::PrecisionAndScale(u64::from(*precision), i64::from(*scale)))
        }
        LogicalType::Date => DataType::Date,
        LogicalType::Time => DataType::Time(None, TimezoneInfo::None),
        LogicalType::Timestamp { unit: TimeUnit::Microsecond, time_zone } => {
            let zone = time_zone.as_ref().map_or(TimezoneInfo::None, |_| TimezoneInfo::WithTimeZone);
            DataType::Timestamp(None, zone)
        }
        LogicalType::Timestamp { time_zone: Some(_), .. } => {
            return Err(Error::unsupported(format!("SQL has no name for the type {of}")));
        }
        LogicalType::Interval => DataType::Interval { fields: None, precision: None },
        LogicalType::Varchar => DataType::Varchar(None),
        LogicalType::Json => DataType::JSON,
        LogicalType::Blob => DataType::Blob(None),
        LogicalType::Uuid => DataType::Uuid,
        LogicalType::FixedBinary { bytes } => DataType::Binary(u64::try_from(*bytes).ok()),
        LogicalType::List { element } => list(element, None)?,
        LogicalType::Array { element, length } => list(element, u64::try_from(*length).ok())?,
        LogicalType::Struct { fields } => {
            let field = |field: &hypostyle_types::StructField| -> Result<StructField> {
                let field_type = type_of(&field.logical_type)?;
                Ok(StructField { field_name: Some(name(&field.name)), field_type, options: None })
            };
            let fields = fields.iter().map(field).collect::<Result<_>>()?;
            DataType::Struct(fields, StructBracketKind::Parentheses)
        }
        LogicalType::Map { key, value } => DataType::Map(Box::new(type_of(key)?), Box::new(type_of(value)?)),
        // These are words that the parser does not know.
        LogicalType::UInteger | LogicalType::Timestamp { .. } | LogicalType::Duration { .. } => {
            DataType::Custom(ObjectName::from(vec![Ident::new(of.to_string())]), Vec::new())
        }
    })
}

fn list(element: &LogicalType, length: Option<u64>) -> Result<DataType> {
    Ok(DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(type_of(element)?), length)))
}

#[cfg(test)]
mod tests {
    use super::type_of;
    use crate::parse::parse_as_written;
    use hypostyle_types::{LogicalType, StructField, TimeUnit};
    use sqlparser::ast::{DataType, Expr};

    /// Returns the type that a text names.
    fn read(text: &str) -> DataType {
        match parse_as_written(&format!("CAST(NULL AS {text})")).unwrap() {
            Expr::Cast { data_type, .. } => data_type,
            other => panic!("{other} is no cast"),
        }
    }

    #[test]
    fn types_are_those_that_the_parser_reads() {
        use LogicalType::*;
        let units = [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond];
        let timestamps = units.map(|unit| Timestamp { unit, time_zone: None });
        let durations = units.map(|unit| Duration { unit });
        let list = |element: LogicalType| List { element: Box::new(element) };
        let others = [
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
            Decimal { precision: 18, scale: 3 },
            Date,
            Time,
            LogicalType::timestamp_with_time_zone(),
            Interval,
            Varchar,
            Json,
            Blob,
            Uuid,
            FixedBinary { bytes: 5 },
            list(list(UInteger)),
            Array { element: Box::new(Float), length: 3 },
            Map { key: Box::new(Varchar), value: Box::new(list(Integer)) },
        ];
        for of in others.into_iter().chain(timestamps).chain(durations) {
            assert_eq!(type_of(&of).unwrap(), read(&of.to_string()), "{of}");
        }
    }

    #[test]
    fn the_types_of_structures_are_read_as_they_are_printed() {
        let fields = vec![
            StructField { name: "a".into(), logical_type: LogicalType::Json },
            StructField { name: "B b".into(), logical_type: LogicalType::Interval },
        ];
        let built = type_of(&LogicalType::Struct { fields }).unwrap();
        assert_eq!(read(&built.to_string()), built);
    }

    #[test]
    fn a_type_without_a_name_is_refused() {
        let moment = LogicalType::Timestamp { unit: TimeUnit::Second, time_zone: Some("UTC".into()) };
        assert_eq!(type_of(&moment).unwrap_err().sqlstate(), "0A000");
    }
}
