//! Errors that several statements give for what they cannot do.

use datafusion::sql::sqlparser::ast::OutputClause;
use hypostyle_storage::{ColumnEntry, Identity};
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};

pub(super) fn refuse(is_there: bool, what: &str) -> Result<()> {
    if is_there { Err(Error::unsupported(format!("{what} is not supported"))) } else { Ok(()) }
}

pub(super) fn refuse_output(output: Option<&OutputClause>) -> Result<()> {
    match output {
        None => Ok(()),
        Some(_) => Err(Error::unsupported("OUTPUT is not supported; write RETURNING")),
    }
}

/// Refuses values for a column that makes its own.
pub(super) fn refuse_given(table: &str, column: &ColumnEntry) -> Result<()> {
    let what = match (&column.generated, column.identity) {
        (Some(_), _) => "a generated column",
        (None, Some(Identity::Always)) => "GENERATED ALWAYS AS IDENTITY",
        _ => return Ok(()),
    };
    Err(Error::new(
        ErrorKind::Constraint,
        format!("column \"{}\" of table \"{table}\" is {what}: leave it out, or write DEFAULT", column.name),
    )
    .with_sqlstate("428C9"))
}

/// Returns the error about a name that there is not.
pub(super) fn missing<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    Error::new(ErrorKind::UnknownName, format!("no {what} \"{name}\"{}", did_you_mean(name, known)))
}
