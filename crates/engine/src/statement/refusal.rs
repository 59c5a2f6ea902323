//! Errors that several statements give for what they cannot do.

use datafusion::sql::sqlparser::ast::OutputClause;
use hypostyle_storage::{Catalog, ColumnEntry, Identity, TableEntry};
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

/// Returns the error for foreign keys between a table of the cluster and another one.
pub(super) fn refused_reference() -> Error {
    Error::unsupported(
        "a foreign key between a table of the cluster and one that is not of the cluster is not supported: the other \
         nodes do not have its rows",
    )
}

/// Returns the error about a name that there is not.
pub(super) fn missing<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    Error::new(ErrorKind::UnknownName, format!("no {what} \"{name}\"{}", did_you_mean(name, known)))
}

/// Returns the error about a constraint that a table has not.
pub(super) fn unknown_constraint(table: &TableEntry, name: &str) -> Error {
    let known = table.constraints.iter().map(|constraint| constraint.name.as_str());
    let suggestion = did_you_mean(name, known);
    let message = format!("table \"{}\" has no constraint \"{name}\"{suggestion}", table.name);
    Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704")
}

/// Returns what a name is that is not of the kind that is wanted, such as `a table`; `None` for a name of
/// nothing.
pub(super) fn other_kind(
    catalog: &Catalog,
    schema: &str,
    name: &str,
    wanted: &'static str,
) -> Option<&'static str> {
    let table = catalog.table(schema, name).map(|table| match table.query {
        Some(_) => "a materialized view",
        None => "a table",
    });
    let view = catalog.view(schema, name).map(|_| "a view");
    let sequence = catalog.sequence(schema, name).map(|_| "a sequence");
    let kinds = [table, view, sequence];
    if kinds.contains(&Some(wanted)) { None } else { kinds.into_iter().flatten().next() }
}

/// Refuses a name of something of another kind.
pub(super) fn refuse_other_kind(
    catalog: &Catalog,
    schema: &str,
    name: &str,
    wanted: &'static str,
) -> Result<()> {
    match other_kind(catalog, schema, name, wanted) {
        Some(kind) => Err(wrong_kind(format!("\"{name}\" is {kind}, not {wanted}"))),
        None => Ok(()),
    }
}

/// Returns the error about something of another kind than a statement is about.
pub(super) fn wrong_kind(message: String) -> Error {
    Error::invalid_input(message).with_sqlstate("42809")
}

/// Answers a DROP of what a database has none of.
///
/// # Errors
/// `UnknownName` with the SQLSTATE, without IF EXISTS.
pub(super) fn drop_nothing(what: &str, name: &str, if_exists: bool, sqlstate: &str) -> Result<()> {
    match if_exists {
        true => Ok(()),
        false => {
            let message = format!("no {what} \"{name}\": a database has no {what}s that can be dropped");
            Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate(sqlstate))
        }
    }
}
