//! The types of columns as the parser has them, so that no text is written, and read, for one.

use crate::build::name;
use hypostyle_types::{LogicalType, TimeUnit};
use sqlparser::ast::{
    ArrayElemTypeDef, DataType, ExactNumberInfo, Ident, ObjectName, StructBracketKind, StructField,
    TimezoneInfo,
};

/// Returns what the parser makes of the name of a type.
pub fn type_of(of: &LogicalType) -> DataType {
    match of {
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
        LogicalType::Timestamp { unit: TimeUnit::Microsecond, time_zone: None } => {
            DataType::Timestamp(None, TimezoneInfo::None)
        }
        LogicalType::Timestamp { unit, time_zone: Some(_) } => {
            let digits = match unit {
                TimeUnit::Second => Some(0),
                TimeUnit::Millisecond => Some(3),
                TimeUnit::Microsecond => None,
                TimeUnit::Nanosecond => Some(9),
            };
            DataType::Timestamp(digits, TimezoneInfo::WithTimeZone)
        }
        LogicalType::Interval => DataType::Interval { fields: None, precision: None },
        LogicalType::Varchar => DataType::Varchar(None),
        LogicalType::Json => DataType::JSON,
        LogicalType::Blob => DataType::Blob(None),
        LogicalType::Uuid => DataType::Uuid,
        LogicalType::FixedBinary { bytes } => DataType::Binary(u64::try_from(*bytes).ok()),
        LogicalType::List { element } => list(element, None),
        LogicalType::Array { element, length } => list(element, u64::try_from(*length).ok()),
        LogicalType::Struct { fields } => {
            let field = |field: &hypostyle_types::StructField| StructField {
                field_name: Some(name(&field.name)),
                field_type: type_of(&field.logical_type),
                options: None,
            };
            DataType::Struct(fields.iter().map(field).collect(), StructBracketKind::Parentheses)
        }
        LogicalType::Map { key, value } => DataType::Map(Box::new(type_of(key)), Box::new(type_of(value))),
        // These are words that the parser does not know.
        LogicalType::UInteger | LogicalType::Timestamp { .. } | LogicalType::Duration { .. } => {
            DataType::Custom(ObjectName::from(vec![Ident::new(of.to_string())]), Vec::new())
        }
    }
}

fn list(element: &LogicalType, length: Option<u64>) -> DataType {
    DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(type_of(element)), length))
}

#[cfg(test)]
mod tests {
    use super::type_of;
    use crate::reading::parse_as_written;
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
            assert_eq!(type_of(&of), read(&of.to_string()), "{of}");
        }
    }

    #[test]
    fn the_types_of_structures_are_read_as_they_are_printed() {
        let fields = vec![
            StructField { name: "a".into(), logical_type: LogicalType::Json },
            StructField { name: "B b".into(), logical_type: LogicalType::Interval },
        ];
        let built = type_of(&LogicalType::Struct { fields });
        assert_eq!(read(&built.to_string()), built);
    }

    #[test]
    fn moments_have_digits_where_their_type_has_no_name() {
        for (unit, name) in [
            (TimeUnit::Second, "TIMESTAMP(0) WITH TIME ZONE"),
            (TimeUnit::Nanosecond, "TIMESTAMP(9) WITH TIME ZONE"),
        ] {
            let built = type_of(&LogicalType::Timestamp { unit, time_zone: Some("UTC".into()) });
            assert_eq!((built.to_string().as_str(), &built), (name, &read(name)));
        }
    }
}
