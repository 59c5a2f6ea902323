//! Values as PostgreSQL's SQL has them: each a text in quotes with its type, so that nothing of a value
//! is read as anything else.

use crate::column::Form;
use arrow::datatypes::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use datafusion::common::ScalarValue;
use hypostyle_types::parse_uuid;

/// The days and microseconds of the years 1 to 9999, which are written alike everywhere.
const DAYS: std::ops::RangeInclusive<i32> = -719_162..=2_932_896;
const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// Returns a text as SQL has it, whatever the server does with backslashes.
pub fn quoted_text(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

/// Returns a text as a value of the type `text`; `None` for one that PostgreSQL has not.
pub fn text_value(text: &str) -> Option<String> {
    (!text.contains('\0')).then(|| format!("{}::pg_catalog.text", quoted_text(text)))
}

/// Returns the text of a value, if it is a text.
pub fn text_of(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(text),
        ScalarValue::Dictionary(_, value) => text_of(value),
        _ => None,
    }
}

/// Returns a value for a comparison with a column of some form; `None` if it is NULL, or one for which
/// the comparison might mean something else.
pub fn literal(value: &ScalarValue, form: Form) -> Option<String> {
    let typed = |text: String, name: &str| Some(format!("'{text}'::pg_catalog.{name}"));
    match form {
        Form::Boolean => match value {
            ScalarValue::Boolean(Some(true)) => Some("TRUE".into()),
            ScalarValue::Boolean(Some(false)) => Some("FALSE".into()),
            _ => None,
        },
        Form::Integer => typed(integer(value)?.to_string(), "int8"),
        Form::Decimal { .. } => typed(decimal(value)?, "numeric"),
        // There are two zeros, of which each side has its own rules.
        Form::Float4 => match value {
            ScalarValue::Float32(Some(number)) if number.is_finite() && *number != 0.0 => {
                typed(format!("{number:?}"), "float4")
            }
            _ => None,
        },
        Form::Float8 => match value {
            ScalarValue::Float64(Some(number)) if number.is_finite() && *number != 0.0 => {
                typed(format!("{number:?}"), "float8")
            }
            _ => None,
        },
        Form::Text { .. } | Form::Enumeration => text_value(text_of(value)?),
        Form::Date => match value {
            ScalarValue::Date32(Some(days)) if DAYS.contains(days) => {
                typed(date32_to_datetime(*days)?.format("%Y-%m-%d").to_string(), "date")
            }
            _ => None,
        },
        Form::Timestamp => match value {
            ScalarValue::TimestampMicrosecond(Some(time), None) => typed(moment(*time)?, "timestamp"),
            _ => None,
        },
        Form::TimestampTz => match value {
            ScalarValue::TimestampMicrosecond(Some(time), Some(_)) => {
                typed(format!("{}+00", moment(*time)?), "timestamptz")
            }
            _ => None,
        },
        Form::Uuid => {
            let uuid = parse_uuid(text_of(value)?).ok()?.hyphenated().to_string();
            // In plans a UUID is its text: another notation is another text.
            if text_of(value) == Some(uuid.as_str()) { typed(uuid, "uuid") } else { None }
        }
        Form::Other | Form::Structure => None,
    }
}

fn integer(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(number) => number.map(i64::from),
        ScalarValue::Int32(number) => number.map(i64::from),
        ScalarValue::Int64(number) => *number,
        _ => None,
    }
}

fn decimal(value: &ScalarValue) -> Option<String> {
    match value {
        ScalarValue::Decimal32(Some(digits), precision, scale) => {
            Some(Decimal32Type::format_decimal(*digits, *precision, *scale))
        }
        ScalarValue::Decimal64(Some(digits), precision, scale) => {
            Some(Decimal64Type::format_decimal(*digits, *precision, *scale))
        }
        ScalarValue::Decimal128(Some(digits), precision, scale) => {
            Some(Decimal128Type::format_decimal(*digits, *precision, *scale))
        }
        ScalarValue::Decimal256(Some(digits), precision, scale) => {
            Some(Decimal256Type::format_decimal(*digits, *precision, *scale))
        }
        _ => None,
    }
}

/// Returns a point in time by its microseconds since 1970.
fn moment(microseconds: i64) -> Option<String> {
    let days = i32::try_from(microseconds.div_euclid(DAY_MICROSECONDS)).ok()?;
    let time = timestamp_us_to_datetime(microseconds).filter(|_| DAYS.contains(&days))?;
    Some(time.format("%Y-%m-%d %H:%M:%S%.6f").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_within_their_quotes() {
        for (text, expected) in [
            ("a", "'a'"),
            ("'; DROP TABLE t; --", "'''; DROP TABLE t; --'"),
            ("\\", "E'\\\\'"),
            ("\\'; DROP TABLE t; --", "E'\\\\''; DROP TABLE t; --'"),
            ("$$ $1 \" /* é", "'$$ $1 \" /* é'"),
        ] {
            assert_eq!(quoted_text(text), expected);
        }
        assert_eq!(text_value("a\0b"), None);
    }

    #[test]
    fn values_have_their_types() {
        for (value, form, expected) in [
            (ScalarValue::Int32(Some(-5)), Form::Integer, "'-5'::pg_catalog.int8"),
            (ScalarValue::Int64(Some(i64::MIN)), Form::Integer, "'-9223372036854775808'::pg_catalog.int8"),
            (
                ScalarValue::Decimal128(Some(-1230), 9, 2),
                Form::Decimal { precision: 9, scale: 2 },
                "'-12.30'::pg_catalog.numeric",
            ),
            (ScalarValue::Float64(Some(1e300)), Form::Float8, "'1e300'::pg_catalog.float8"),
            (ScalarValue::Float32(Some(0.1)), Form::Float4, "'0.1'::pg_catalog.float4"),
            (ScalarValue::Date32(Some(-719_162)), Form::Date, "'0001-01-01'::pg_catalog.date"),
            (ScalarValue::Date32(Some(2_932_896)), Form::Date, "'9999-12-31'::pg_catalog.date"),
            (
                ScalarValue::TimestampMicrosecond(Some(-1), None),
                Form::Timestamp,
                "'1969-12-31 23:59:59.999999'::pg_catalog.timestamp",
            ),
            (
                ScalarValue::TimestampMicrosecond(Some(0), Some("Europe/Paris".into())),
                Form::TimestampTz,
                "'1970-01-01 00:00:00.000000+00'::pg_catalog.timestamptz",
            ),
            (
                ScalarValue::Utf8(Some("6ccd780c-baba-1026-9564-5b8c656024db".into())),
                Form::Uuid,
                "'6ccd780c-baba-1026-9564-5b8c656024db'::pg_catalog.uuid",
            ),
            (ScalarValue::Boolean(Some(false)), Form::Boolean, "FALSE"),
        ] {
            assert_eq!(literal(&value, form).as_deref(), Some(expected), "{value:?}");
        }
    }

    #[test]
    fn what_might_mean_something_else_is_none() {
        for (value, form) in [
            (ScalarValue::Int64(None), Form::Integer),
            (ScalarValue::Float64(Some(1.0)), Form::Integer),
            (ScalarValue::Float64(Some(0.0)), Form::Float8),
            (ScalarValue::Float64(Some(-0.0)), Form::Float8),
            (ScalarValue::Float64(Some(f64::NAN)), Form::Float8),
            (ScalarValue::Date32(Some(2_932_897)), Form::Date),
            (ScalarValue::Date32(Some(i32::MIN)), Form::Date),
            (ScalarValue::TimestampMicrosecond(Some(i64::MAX), None), Form::Timestamp),
            (ScalarValue::TimestampMicrosecond(Some(0), None), Form::TimestampTz),
            (ScalarValue::Utf8(Some("6CCD780C-baba-1026-9564-5b8c656024db".into())), Form::Uuid),
            (ScalarValue::Utf8(Some("a\0".into())), Form::Text { is_deterministic: true }),
            (ScalarValue::Utf8(Some("a".into())), Form::Other),
        ] {
            assert_eq!(literal(&value, form), None, "{value:?}");
        }
    }
}
