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
    /// The type of `pg_catalog` as which it is compared, if operators of the type that it has itself would
    /// be looked for elsewhere, too.
    pub compared_as: Option<&'static str>,
}

impl ForeignColumn {
    /// Returns its name as SQL has it.
    pub fn quoted(&self) -> String {
        quoted_name(&self.name)
    }

    /// Returns it as the operand of an operator.
    pub fn operand(&self) -> String {
        match self.compared_as {
            Some(name) => format!("{}::pg_catalog.{name}", self.quoted()),
            None => self.quoted(),
        }
    }
}

/// Returns the type as which a column of a type is compared, if that is another one.
///
/// PostgreSQL takes the operator that fits both types best, in any schema of the user's search path. None of
/// `pg_catalog` fits varchar and domains without a cast. So whoever may create operators in such a schema
/// could have the user of the address run a function of theirs: the cast that is made anyway is written.
pub fn compared_as(form: Form, name: &str, is_domain: bool) -> Option<&'static str> {
    let exact = match (form, name) {
        (Form::Text { .. }, "name") => "name",
        (Form::Text { .. }, _) => "text",
        (Form::Boolean, _) => "bool",
        (Form::Integer, "int2") => "int2",
        (Form::Integer, "int4") => "int4",
        (Form::Integer, _) => "int8",
        (Form::Decimal { .. }, _) => "numeric",
        (Form::Float4, _) => "float4",
        (Form::Float8, _) => "float8",
        (Form::Date, _) => "date",
        (Form::Timestamp, _) => "timestamp",
        (Form::TimestampTz, _) => "timestamptz",
        (Form::Uuid, _) => "uuid",
        // Values of enumerations are compared as texts, and the others not at all.
        (Form::Enumeration | Form::Other | Form::Structure, _) => return None,
    };
    (is_domain || name == "varchar").then_some(exact)
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
    fn columns_are_compared_by_operators_of_the_catalog_alone() {
        let text = Form::Text { is_deterministic: true };
        assert_eq!(compared_as(text, "text", false), None);
        assert_eq!(compared_as(text, "name", false), None);
        assert_eq!(compared_as(Form::Integer, "int2", false), None);
        assert_eq!(compared_as(text, "varchar", false), Some("text"));
        assert_eq!(compared_as(text, "varchar", true), Some("text"));
        assert_eq!(compared_as(text, "name", true), Some("name"));
        assert_eq!(compared_as(Form::Integer, "int4", true), Some("int4"));
        assert_eq!(compared_as(Form::Decimal { precision: 9, scale: 2 }, "numeric", true), Some("numeric"));
        assert_eq!(compared_as(Form::Enumeration, "", true), None);
        assert_eq!(compared_as(Form::Other, "inet", true), None);
        let column = |compared_as| ForeignColumn { name: "a".into(), form: Form::Integer, compared_as };
        assert_eq!(column(None).operand(), "\"a\"");
        assert_eq!(column(Some("int4")).operand(), "\"a\"::pg_catalog.int4");
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted_name("a\"; DROP TABLE t; --"), "\"a\"\"; DROP TABLE t; --\"");
    }
}
