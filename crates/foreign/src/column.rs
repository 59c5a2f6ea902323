//! The columns of another system's tables, as far as conditions on them are understood.

use arrow::datatypes::DataType;

/// What comparisons of a column mean, on both sides alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Boolean,
    Integer,
    Decimal {
        precision: u8,
        scale: i8,
    },
    Float4,
    Float8,
    /// A text. Equal texts have equal bytes only if its collation is deterministic.
    Text {
        is_deterministic: bool,
    },
    /// A value of an enumeration, which is text here.
    Enumeration,
    Date,
    Timestamp,
    TimestampTz,
    Uuid,
    /// Only NULL means the same.
    Other,
    /// Not even that: PostgreSQL's `IS NULL` of a structure looks at its fields.
    Structure,
}

impl Form {
    /// Returns the form of a type of PostgreSQL's. `kind` is its `typtype`, `name` its name if it is
    /// one of `pg_catalog`, and `data_type` the type in which its values come.
    pub fn of(name: &str, kind: &str, is_deterministic: bool, data_type: &DataType) -> Self {
        match (name, data_type) {
            ("bool", DataType::Boolean) => Self::Boolean,
            ("int2", DataType::Int16) | ("int4", DataType::Int32) | ("int8", DataType::Int64) => {
                Self::Integer
            }
            ("numeric", data_type) if let Some((precision, scale)) = digits(data_type) => {
                Self::Decimal { precision, scale }
            }
            ("float4", DataType::Float32) => Self::Float4,
            ("float8", DataType::Float64) => Self::Float8,
            // Values of char(n) lose their blanks at the end in comparisons there.
            ("text" | "varchar" | "name", DataType::LargeUtf8) => Self::Text { is_deterministic },
            ("date", DataType::Date32) => Self::Date,
            ("timestamp", DataType::Timestamp(_, None)) => Self::Timestamp,
            ("timestamptz", DataType::Timestamp(_, Some(_))) => Self::TimestampTz,
            ("uuid", DataType::FixedSizeBinary(16)) => Self::Uuid,
            _ => match kind {
                "e" if matches!(data_type, DataType::Dictionary(..)) => Self::Enumeration,
                "b" | "e" | "r" | "m" => Self::Other,
                _ => Self::Structure,
            },
        }
    }
}

/// Returns the precision and the scale of a type of decimal numbers.
pub fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

/// A column of another system's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignColumn {
    pub name: String,
    pub form: Form,
}

impl ForeignColumn {
    /// Returns its name as SQL has it.
    pub fn quoted(&self) -> String {
        quoted_name(&self.name)
    }
}

/// The columns of a table.
#[derive(Debug)]
pub struct Columns {
    pub all: Vec<ForeignColumn>,
    /// Its database has UTF-8, so that texts have the same characters and bytes on both sides.
    pub is_utf8: bool,
}

impl Columns {
    pub fn named(&self, name: &str) -> Option<&ForeignColumn> {
        self.all.iter().find(|column| column.name == name)
    }
}

/// Returns a name as SQL has it.
pub fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_known_only_where_both_types_are() {
        let of = |name: &str, kind: &str, data_type: DataType| Form::of(name, kind, true, &data_type);
        assert_eq!(of("int4", "b", DataType::Int32), Form::Integer);
        assert_eq!(of("numeric", "b", DataType::Decimal128(9, 2)), Form::Decimal { precision: 9, scale: 2 });
        assert_eq!(of("numeric", "b", DataType::LargeUtf8), Form::Other);
        assert_eq!(of("bpchar", "b", DataType::LargeUtf8), Form::Other);
        assert_eq!(of("text", "b", DataType::LargeUtf8), Form::Text { is_deterministic: true });
        assert_eq!(of("", "b", DataType::LargeUtf8), Form::Other);
        assert_eq!(of("", "c", DataType::LargeUtf8), Form::Structure);
        assert_eq!(of("", "d", DataType::Int32), Form::Structure);
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted_name("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
    }
}
