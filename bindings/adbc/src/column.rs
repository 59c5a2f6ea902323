//! Columns of tables, with the properties that ODBC and JDBC ask for.

use crate::error::Result;
use crate::nested;
use crate::postgres;
use crate::query::{Place, texts};
use crate::session::Session;
use arrow_array::{ArrayRef, BooleanArray, Int16Array, Int32Array, new_null_array};
use arrow_schema::DataType;
use hypostyle::Parameters;
use std::sync::Arc;

pub struct Column {
    pub name: String,
    position: Option<i32>,
    comment: Option<String>,
    type_name: String,
    /// The digits, or bits, of a number.
    precision: Option<i32>,
    scale: Option<i16>,
    radix: Option<i16>,
    /// The digits of a second.
    second_digits: Option<i16>,
    nullable: bool,
    default: Option<String>,
    identity: bool,
    generated: bool,
}

const QUERY: &str = "SELECT table_catalog, table_schema, table_name, column_name, column_type, ordinal_position, \
    numeric_precision, numeric_scale, numeric_precision_radix, datetime_precision, column_default, column_comment, \
    is_nullable, is_identity, is_generated FROM information_schema.columns ORDER BY ordinal_position";

/// Returns the columns of all tables and views, in order.
pub fn columns(session: &Session) -> Result<Vec<(Place, Column)>> {
    let query = if session.connection().is_postgres() { postgres::COLUMNS } else { QUERY };
    let rows = texts(session, query, Parameters::None)?;
    Ok(rows.into_iter().filter_map(|row| column(&mut row.into_iter())).collect())
}

fn column(values: &mut impl Iterator<Item = Option<String>>) -> Option<(Place, Column)> {
    let mut next = || values.next().flatten();
    let place = (next()?, next()?, next()?);
    let (name, type_name) = (next()?, next()?);
    let position = number(next());
    let (precision, scale, radix, second_digits) =
        (number(next()), number(next()), number(next()), number(next()));
    let (default, comment) = (next(), next());
    let mut yes = |word: &str| next().is_some_and(|value| value == word);
    let (nullable, identity, generated) = (yes("YES"), yes("YES"), yes("ALWAYS"));
    let column = Column {
        name,
        position,
        comment,
        type_name,
        precision,
        scale,
        radix,
        second_digits,
        nullable,
        default,
        identity,
        generated,
    };
    Some((place, column))
}

fn number<N: std::str::FromStr>(text: Option<String>) -> Option<N> {
    text.and_then(|text| text.parse().ok())
}

/// The numbers of a type in ODBC.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Code {
    data_type: i16,
    /// The type, in which dates and times share one number; `datetime_sub` tells them apart.
    sql_data_type: i16,
    datetime_sub: Option<i16>,
}

const DATETIME: i16 = 9;

/// Returns the numbers of a type of ours, or of PostgreSQL's.
fn code(type_name: &str) -> Code {
    let plain = |data_type| Code { data_type, sql_data_type: data_type, datetime_sub: None };
    let time = |data_type, sub| Code { data_type, sql_data_type: DATETIME, datetime_sub: Some(sub) };
    // The name of a list or array ends so, whatever its elements are.
    if type_name.ends_with(']') {
        return plain(0);
    }
    let end = type_name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(type_name.len());
    match type_name[..end].to_ascii_uppercase().as_str() {
        "BOOLEAN" => plain(-7),
        "TINYINT" | "UTINYINT" => plain(-6),
        "SMALLINT" | "USMALLINT" => plain(5),
        "INTEGER" | "UINTEGER" => plain(4),
        "BIGINT" | "UBIGINT" => plain(-5),
        "FLOAT" | "REAL" => plain(7),
        "DOUBLE" => plain(8),
        "DECIMAL" | "NUMERIC" => plain(3),
        "DATE" => time(91, 1),
        "TIME" => time(92, 2),
        name if name.starts_with("TIMESTAMP") => time(93, 3),
        "INTERVAL" => plain(10),
        "VARCHAR" | "TEXT" | "CHARACTER" => plain(12),
        "JSON" | "JSONB" => plain(-1),
        "BLOB" | "BYTEA" => plain(-3),
        "BINARY" => plain(-2),
        "UUID" => plain(-11),
        // These are durations, structs and maps, for which ODBC has no number.
        _ => plain(0),
    }
}

/// Returns the members of ADBC's struct of a column.
pub fn members(columns: &[Column]) -> Vec<ArrayRef> {
    let small = |value: &dyn Fn(&Column) -> Option<i16>| -> ArrayRef {
        Arc::new(columns.iter().map(value).collect::<Int16Array>())
    };
    let number = |value: &dyn Fn(&Column) -> Option<i32>| -> ArrayRef {
        Arc::new(columns.iter().map(value).collect::<Int32Array>())
    };
    let flag = |value: &dyn Fn(&Column) -> bool| -> ArrayRef {
        Arc::new(columns.iter().map(|column| Some(value(column))).collect::<BooleanArray>())
    };
    let none = |data_type| new_null_array(&data_type, columns.len());
    vec![
        nested::texts(columns, |column| Some(&column.name)),
        number(&|column| column.position),
        nested::texts(columns, |column| column.comment.as_deref()),
        small(&|column| Some(code(&column.type_name).data_type)),
        nested::texts(columns, |column| Some(&column.type_name)),
        number(&|column| column.precision),
        small(&|column| column.scale.or(column.second_digits)),
        small(&|column| column.radix),
        small(&|column| Some(i16::from(column.nullable))),
        nested::texts(columns, |column| column.default.as_deref()),
        small(&|column| Some(code(&column.type_name).sql_data_type)),
        small(&|column| code(&column.type_name).datetime_sub),
        none(DataType::Int32),
        nested::texts(columns, |column| Some(if column.nullable { "YES" } else { "NO" })),
        none(DataType::Utf8),
        none(DataType::Utf8),
        none(DataType::Utf8),
        flag(&|column| column.identity),
        flag(&|column| column.generated),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_numbers_of_odbc() {
        for (name, data_type, sql_data_type, sub) in [
            ("INTEGER", 4, 4, None),
            ("DECIMAL(10,2)", 3, 3, None),
            ("TIMESTAMP WITH TIME ZONE", 93, 9, Some(3)),
            ("TIMESTAMP_NS", 93, 9, Some(3)),
            ("DATE", 91, 9, Some(1)),
            ("VARCHAR", 12, 12, None),
            ("VARCHAR[]", 0, 0, None),
            ("STRUCT(a DATE)", 0, 0, None),
            ("STRUCT(a DATE)[3]", 0, 0, None),
            ("double precision", 8, 8, None),
            ("numeric(12,3)", 3, 3, None),
            ("character varying(9)", 12, 12, None),
            ("timestamp without time zone", 93, 9, Some(3)),
            ("time(3) without time zone", 92, 9, Some(2)),
            ("\"Date\"", 0, 0, None),
            ("date[]", 0, 0, None),
        ] {
            assert_eq!(code(name), Code { data_type, sql_data_type, datetime_sub: sub }, "{name}");
        }
    }
}
