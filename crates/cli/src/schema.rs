//! `.schema`: the statements that would make the tables and views again.

use crate::token::{first_keyword, quote_name};
use hypostyle::arrow::array::AsArray;
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::DataType;
use hypostyle::{Connection, Error, ErrorKind, Result, TableDescription, TableKind};

/// The CREATE statements of every table, or of the one of that name.
///
/// # Errors
/// `UnknownName` when there is none.
pub fn create_statements(connection: &Connection, name: Option<&str>) -> Result<String> {
    let mut tables = connection.tables()?;
    if let Some(name) = name {
        tables.retain(|table| {
            table.name.eq_ignore_ascii_case(name)
                || format!("{}.{}", table.schema, table.name).eq_ignore_ascii_case(name)
        });
        if tables.is_empty() {
            return Err(Error::new(
                ErrorKind::UnknownName,
                format!("no table or view \"{name}\"; see .tables"),
            ));
        }
    }
    let mut text = String::new();
    for table in &tables {
        match table.kind {
            TableKind::Table => text.push_str(&create_table(table)),
            TableKind::View => text.push_str(&view_definition(connection, table)?),
        }
        text.push('\n');
    }
    Ok(text)
}

fn qualified_name(table: &TableDescription) -> String {
    match table.schema.as_str() {
        "main" | "public" | "" => quote_name(&table.name),
        schema => format!("{}.{}", quote_name(schema), quote_name(&table.name)),
    }
}

fn create_table(table: &TableDescription) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|column| {
            let not_null = if column.nullable { "" } else { " NOT NULL" };
            format!("  {} {}{not_null}", quote_name(&column.name), column.logical_type)
        })
        .collect();
    format!("CREATE TABLE {} (\n{}\n);", qualified_name(table), columns.join(",\n"))
}

/// The view's own text, which only the information schema has.
fn view_definition(connection: &Connection, view: &TableDescription) -> Result<String> {
    let text = |value: &str| value.replace('\'', "''");
    let sql = format!(
        "SELECT definition FROM information_schema.views WHERE table_schema = '{}' AND table_name = '{}'",
        text(&view.schema),
        text(&view.name)
    );
    let mut definition = None;
    for batch in connection.execute(&sql)?.record_batches()? {
        let column = cast(batch.column(0), &DataType::Utf8)
            .map_err(|error| Error::internal(format!("a view's definition is not text: {error}")))?;
        definition = column.as_string::<i32>().iter().flatten().next().map(str::to_string).or(definition);
    }
    let Some(definition) = definition else {
        return Err(Error::internal(format!("the view {} has no definition", qualified_name(view))));
    };
    Ok(create_view(view, &definition))
}

fn create_view(view: &TableDescription, definition: &str) -> String {
    let definition = definition.trim().trim_end_matches(';');
    match first_keyword(definition).as_deref() {
        Some("CREATE") => format!("{definition};"),
        _ => format!("CREATE VIEW {} AS {definition};", qualified_name(view)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle::{ColumnDescription, LogicalType};

    #[test]
    fn a_table_is_written_as_sql_takes_it() {
        let column = |name: &str, logical_type, nullable| ColumnDescription {
            name: name.into(),
            logical_type,
            nullable,
        };
        let table = TableDescription {
            schema: "raw".into(),
            name: "Order".into(),
            kind: TableKind::Table,
            row_count: Some(3),
            columns: vec![
                column("id", LogicalType::BigInt, false),
                column("a b", LogicalType::Decimal { precision: 15, scale: 2 }, true),
            ],
        };
        let expected = "CREATE TABLE raw.\"Order\" (\n  id BIGINT NOT NULL,\n  \"a b\" DECIMAL(15,2)\n);";
        assert_eq!(create_table(&table), expected);
    }
}
