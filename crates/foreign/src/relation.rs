//! The tables and views of another system's database: what the server says of them.

use crate::column::{Columns, ForeignColumn, Form, compared_as, quoted_name};
use crate::literal::quoted_text;
use crate::server::{Connection, Rows, Wanted};
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use hypostyle_expr::said;
use hypostyle_types::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The first version that reads a range of a table's pages without the others.
const VERSION_OF_RANGES: u64 = 140_000;

/// The schema and the name of a table or view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    pub schema: String,
    pub name: String,
}

impl Name {
    /// Returns the name as SQL has it.
    pub fn quoted(&self) -> String {
        format!("{}.{}", quoted_name(&self.schema), quoted_name(&self.name))
    }
}

/// Pages that one connection reads at least, where several read a table: 16 MiB.
const PAGES_MIN: u64 = 2048;

/// Pages from one on, and before another.
pub type Range = (Option<u64>, Option<u64>);

/// A table or view.
#[derive(Debug)]
pub struct Relation {
    /// The name as SQL has it.
    pub name: String,
    pub columns: Columns,
    /// The columns as plans have them.
    pub schema: SchemaRef,
    /// The server's estimate of its rows.
    pub rows: Option<usize>,
    /// The pages that can be read apart from each other; 0 where that is not possible.
    pub pages: u64,
}

impl Relation {
    /// Returns the number of connections by which it can be read.
    pub fn connections(&self) -> usize {
        usize::try_from(self.pages / PAGES_MIN).unwrap_or(usize::MAX).max(1)
    }

    /// Returns the pages that each of some connections reads.
    pub fn ranges(&self, connections: usize) -> Vec<Range> {
        let count = connections.max(1) as u64;
        let cut = |number: u64| (1..count).contains(&number).then_some(self.pages / count * number);
        // The last one goes on to the end, wherever that is by then.
        (0..count).map(|number| (cut(number), cut(number + 1))).collect()
    }
}

/// Asks the server for a table or view; `None` if there is none of that name.
///
/// # Errors
/// Those of the server.
pub fn relation(connection: &dyn Connection, name: &Name, wanted: &Wanted) -> Result<Option<Relation>> {
    let found = texts(connection, &about_relation(name), wanted)?;
    let Some(found) = found.first() else { return Ok(None) };
    let number = |place: usize| text(found, place).parse::<u64>().unwrap_or(0);
    let pages = if number(3) >= VERSION_OF_RANGES { number(2) } else { 0 };
    // A table of which nothing is known has -1 rows.
    let rows = text(found, 1).parse::<f64>().ok().filter(|rows| *rows >= 0.0).map(|rows| rows as usize);
    let described = connection.describe(&format!("SELECT * FROM {}", name.quoted()), wanted)?;
    let known: HashMap<String, Vec<Option<String>>> =
        texts(connection, &about_columns(text(found, 0)), wanted)?
            .into_iter()
            .map(|row| (text(&row, 0).to_string(), row))
            .collect();
    let column = |field: &FieldRef| {
        let (form, compared_as) = match known.get(field.name()) {
            Some(row) => {
                let form = Form::of(text(row, 2), text(row, 1), text(row, 3) != "false", field.data_type());
                (form, compared_as(form, text(row, 2), text(row, 4) == "d"))
            }
            None => (Form::Structure, None),
        };
        ForeignColumn { name: field.name().clone(), form, compared_as }
    };
    let columns = Columns {
        all: described.fields().iter().map(column).collect(),
        is_utf8: text(found, 4).eq_ignore_ascii_case("UTF8"),
    };
    let fields: Vec<Field> = described.fields().iter().map(|field| in_plans(field)).collect();
    Ok(Some(Relation { name: name.quoted(), columns, schema: Arc::new(Schema::new(fields)), rows, pages }))
}

/// Returns a column as it is in plans: UUIDs and enumerations are text, and all decimals have 128
/// bits or more, as those of stored columns. No column is free of NULL for sure.
fn in_plans(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Dictionary(..) => DataType::Utf8View,
        _ => said::in_plans(field).data_type().clone(),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}

/// Returns the query for a relation: its number, rows and pages, the version of the server and the
/// encoding of the database.
fn about_relation(name: &Name) -> String {
    format!(
        "SELECT c.oid::pg_catalog.text, c.reltuples::pg_catalog.text, \
         (CASE WHEN c.relkind IN ('r', 'm') AND am.amname = 'heap' THEN pg_catalog.pg_relation_size(c.oid) \
         / pg_catalog.current_setting('block_size')::pg_catalog.int8 ELSE 0 END)::pg_catalog.text, \
         pg_catalog.current_setting('server_version_num'), pg_catalog.current_setting('server_encoding') \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam \
         WHERE n.nspname::pg_catalog.text = {} AND c.relname::pg_catalog.text = {} \
         AND c.relkind IN ('r', 'p', 'f', 'v', 'm')",
        quoted_text(&name.schema),
        quoted_text(&name.name)
    )
}

/// Returns the query for the columns of the relation of a number: the name, the kind of the type, the
/// name of the type if it is one of every PostgreSQL, whether the collation is deterministic, and the kind
/// of the column's own type. Of a domain the others tell the type below. Collations before PostgreSQL 12 do
/// not tell, and all are deterministic.
fn about_columns(number: &str) -> String {
    format!(
        "SELECT a.attname::pg_catalog.text, b.typtype::pg_catalog.text, \
         CASE WHEN n.nspname = 'pg_catalog' THEN b.typname::pg_catalog.text ELSE '' END, \
         pg_catalog.to_jsonb(l) ->> 'collisdeterministic', t.typtype::pg_catalog.text \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
         JOIN pg_catalog.pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END \
         JOIN pg_catalog.pg_namespace n ON n.oid = b.typnamespace \
         LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation \
         WHERE a.attrelid = {}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped",
        quoted_text(number)
    )
}

/// Runs a query whose columns are texts, and returns its few rows.
///
/// # Errors
/// Those of the server.
pub fn texts(connection: &dyn Connection, sql: &str, wanted: &Wanted) -> Result<Vec<Vec<Option<String>>>> {
    let unread = |_| Error::protocol("a row of the catalog is not as it was asked for");
    let mut rows = Vec::new();
    let mut found: Box<dyn Rows> = connection.query(sql, wanted)?;
    while let Some(batch) = found.next()? {
        let columns = batch.columns().iter().map(|column| cast(column, &DataType::LargeUtf8));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(unread)?;
        for row in 0..batch.num_rows() {
            let value = |column: &Arc<dyn Array>| {
                let column = column.as_string::<i64>();
                column.is_valid(row).then(|| column.value(row).to_string())
            };
            rows.push(columns.iter().map(value).collect());
        }
    }
    Ok(rows)
}

/// Returns a value of a row, or an empty text.
fn text(row: &[Option<String>], place: usize) -> &str {
    row.get(place).and_then(Option::as_deref).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_texts_of_the_queries() {
        let name = Name { schema: "a'b".into(), name: "c\\'; DROP TABLE t; --".into() };
        let sql = about_relation(&name);
        assert!(sql.contains("n.nspname::pg_catalog.text = 'a''b' AND"), "{sql}");
        assert!(sql.contains("= E'c\\\\''; DROP TABLE t; --' AND"), "{sql}");
        assert_eq!(name.quoted(), "\"a'b\".\"c\\'; DROP TABLE t; --\"");
    }

    #[test]
    fn columns_have_the_types_of_stored_ones() {
        let in_plan = |of: DataType| in_plans(&Field::new("a", of, false)).data_type().clone();
        assert_eq!(in_plan(DataType::Decimal32(9, 2)), DataType::Decimal128(9, 2));
        assert_eq!(in_plan(DataType::Decimal64(18, 0)), DataType::Decimal128(18, 0));
        assert_eq!(in_plan(DataType::Decimal256(40, 2)), DataType::Decimal256(40, 2));
        let labels = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::LargeUtf8));
        assert_eq!(in_plan(labels), DataType::Utf8View);
        assert_eq!(in_plan(DataType::LargeUtf8), DataType::LargeUtf8);
        assert!(in_plans(&Field::new("a", DataType::Int32, false)).is_nullable());
    }
}
