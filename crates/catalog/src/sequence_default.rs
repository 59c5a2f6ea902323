//! Defaults that take values from sequences, as SQL text.

use crate::sequence::sequence_name;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value};
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::parse::parse_as_written;
use hypostyle_sql::walk::expressions_mut;
use hypostyle_storage::{Catalog, ColumnEntry, SCHEMA_MAIN, SequenceEntry, TableEntry};
use std::ops::ControlFlow;

/// Returns schema and name of an object that has a name in the definitions of its own database.
pub fn within_database(parts: &[String]) -> (String, String) {
    match parts {
        [.., schema, name] => (schema.clone(), name.clone()),
        _ => (SCHEMA_MAIN.into(), parts.concat()),
    }
}

/// Returns the SQL text of the next value of a sequence.
pub fn next_value(sequence: &SequenceEntry) -> String {
    let name = format!("{}.{}", quoted(&sequence.schema), quoted(&sequence.name));
    format!("nextval('{}')", name.replace('\'', "''"))
}

/// Returns the sequence of a default that is its next value and no more.
pub fn sequence_of_default(sql: &str) -> Option<(String, String)> {
    let name = sql.strip_prefix("nextval('")?.strip_suffix("')")?;
    (!name.contains('\'')).then(|| within_database(&sequence_name(name)))
}

/// Returns [`next_value`] for statements, whose names may be looked for in another database.
pub fn next_value_in(database: &str, (schema, name): (&str, &str)) -> String {
    format!("nextval('{}')", full_name(database, schema, name).replace('\'', "''"))
}

fn full_name(database: &str, schema: &str, name: &str) -> String {
    [database, schema, name].map(quoted).join(".")
}

/// Functions whose first argument is a sequence.
const OF_SEQUENCES: [&str; 3] = ["nextval", "currval", "setval"];

/// Returns the sequence's name in a call of nextval, currval or setval.
pub fn named_sequence(expr: &mut Expr) -> Option<&mut String> {
    if let Expr::Function(function) = expr
        && OF_SEQUENCES.iter().any(|known| function.name.to_string().eq_ignore_ascii_case(known))
        && let FunctionArguments::List(list) = &mut function.args
        && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))) = list.args.first_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
    {
        return Some(text);
    }
    None
}

/// Returns a default for statements, whose names may be looked for in another database than the one
/// that has it.
pub fn within(database: &str, default: String) -> String {
    if let Some((schema, name)) = sequence_of_default(&default) {
        return next_value_in(database, (&schema, &name));
    }
    let lower = default.to_ascii_lowercase();
    if !OF_SEQUENCES.iter().any(|function| lower.contains(function)) {
        return default;
    }
    // The planner refuses what cannot be read here.
    let Ok(mut expression) = parse_as_written(&default) else { return default };
    let _all = expressions_mut(&mut expression, &mut |expr| {
        if let Some(text) = named_sequence(expr) {
            let (schema, name) = within_database(&sequence_name(text));
            *text = full_name(database, &schema, &name);
        }
        ControlFlow::<()>::Continue(())
    });
    expression.to_string()
}

/// Returns the SQL text of the value for a column of a database's table in a row that has none.
pub fn default_of(
    database: &str,
    catalog: &Catalog,
    table: &TableEntry,
    column: &ColumnEntry,
) -> Option<String> {
    if column.identity.is_some() {
        let sequence = catalog.sequence_of(table.id, column.id)?;
        return Some(next_value_in(database, (&sequence.schema, &sequence.name)));
    }
    let default = column.default.clone()?;
    Some(within(database, default))
}
