//! The columns of statements and results, as PostgreSQL's clients are told of them.

use hypostyle::postgres::{Origin, VECTOR, told_name};
use hypostyle::{ColumnDescription, QueryResult, StatementDescription};
use hypostyle_pgtypes::Column;
use hypostyle_types::{Error, Result};

/// The most columns that a message counts: libraries read the number with a sign.
const COLUMNS_MAX: usize = 32_767;

/// # Errors
/// `54011` for more columns than a message counts.
pub(super) fn check_count(columns: usize) -> Result<()> {
    match columns <= COLUMNS_MAX {
        true => Ok(()),
        false => Err(Error::invalid_input(format!(
            "the result has {columns} columns, and PostgreSQL's protocol counts up to {COLUMNS_MAX}"
        ))
        .with_sqlstate("54011")),
    }
}

/// Returns those of a statement that has not run, if it gives rows.
pub(super) fn all_described(statement: &StatementDescription) -> Option<Vec<Column>> {
    Some(all(statement.columns.as_deref()?, &statement.origins))
}

/// Returns those of a result, whose fields tell of vectors.
pub(super) fn of_result(result: &QueryResult) -> Vec<Column> {
    let mut columns = all(result.columns(), result.origins());
    for (column, field) in columns.iter_mut().zip(result.schema().fields()) {
        if field.metadata().contains_key(VECTOR) {
            column.show_as_vector();
        }
    }
    columns
}

fn all(columns: &[ColumnDescription], origins: &[Option<Origin>]) -> Vec<Column> {
    let told = |column: &ColumnDescription| Column::new(told_name(&column.name), &column.logical_type);
    let mut all: Vec<Column> = columns.iter().map(told).collect();
    if origins.len() == all.len() {
        for (column, origin) in all.iter_mut().zip(origins) {
            let Some(origin) = origin else { continue };
            (column.table, column.number) = (origin.table, origin.column);
            if let Some(oid) = origin.type_oid {
                column.show_as(oid);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_columns_than_are_counted_are_refused() {
        assert!(check_count(COLUMNS_MAX).is_ok());
        assert_eq!(check_count(65_537).unwrap_err().sqlstate(), "54011");
    }
}
