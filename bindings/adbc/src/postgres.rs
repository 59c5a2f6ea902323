//! What the driver asks a PostgreSQL server in other words than a database of ours: its catalog has
//! other columns, a session stays in one database, and temporary tables have a schema of their own.

use crate::cancel::Mark;
use crate::error::{Result, invalid_argument, invalid_state, not_implemented, with_sqlstate};
use crate::query::{current, quoted, texts};
use crate::session::Session;
use adbc_core::constants as adbc;
use adbc_core::error::Status;
use hypostyle::{Parameters, ScalarValue};

/// The name by which each session finds the schema of its temporary tables.
pub const TEMPORARY: &str = "pg_temp";

/// The schemas that are not the server's own.
pub const SCHEMAS: &str = "SELECT current_database(), n.nspname FROM pg_catalog.pg_namespace n \
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' OR n.oid = pg_catalog.pg_my_temp_schema() \
    ORDER BY n.nspname";

pub const TABLES: &str = "SELECT current_database(), n.nspname, c.relname, \
    CASE WHEN c.relkind IN ('v', 'm') THEN 'VIEW' ELSE 'BASE TABLE' END \
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p', 'f', 'v', 'm') AND n.nspname <> 'information_schema' \
    AND (n.nspname !~ '^pg_' OR n.oid = pg_catalog.pg_my_temp_schema()) ORDER BY c.relname";

/// The columns of [`TABLES`], in the order of `column::QUERY`. A domain has the digits of its base.
pub const COLUMNS: &str = "SELECT current_database(), n.nspname, c.relname, a.attname, \
    pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnum, \
    information_schema._pg_numeric_precision(b.oid, b.modifier), \
    information_schema._pg_numeric_scale(b.oid, b.modifier), \
    information_schema._pg_numeric_precision_radix(b.oid, b.modifier), \
    information_schema._pg_datetime_precision(b.oid, b.modifier), \
    CASE WHEN a.attgenerated = '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END, \
    pg_catalog.col_description(c.oid, a.attnum), \
    CASE WHEN a.attnotnull THEN 'NO' ELSE 'YES' END, \
    CASE WHEN a.attidentity <> '' THEN 'YES' ELSE 'NO' END, \
    CASE WHEN a.attgenerated <> '' THEN 'ALWAYS' ELSE 'NEVER' END \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum \
    CROSS JOIN LATERAL (SELECT information_schema._pg_truetypid(a, t), information_schema._pg_truetypmod(a, t)) \
    AS b (oid, modifier) \
    WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'f', 'v', 'm') \
    ORDER BY a.attnum";

/// The isolation levels, and what the server calls them.
const LEVELS: [(&str, &str); 5] = [
    (adbc::ADBC_OPTION_ISOLATION_LEVEL_READ_UNCOMMITTED, "read uncommitted"),
    (adbc::ADBC_OPTION_ISOLATION_LEVEL_READ_COMMITTED, "read committed"),
    (adbc::ADBC_OPTION_ISOLATION_LEVEL_REPEATABLE_READ, "repeatable read"),
    (adbc::ADBC_OPTION_ISOLATION_LEVEL_SNAPSHOT, "repeatable read"),
    (adbc::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE, "serializable"),
];

fn execute(session: &Session, sql: &str) -> Result<()> {
    session.execute(&Mark::default(), sql, Parameters::None).map(drop)
}

/// Says whether a name, as SQL writes it, is of something that a new table cannot be named like.
pub fn exists(session: &Session, name: &str) -> Result<bool> {
    let sql = "SELECT pg_catalog.to_regclass($1)::pg_catalog.text";
    let name = ScalarValue::Utf8(Some(name.into()));
    let rows = texts(session, sql, Parameters::Positional(vec![name]))?;
    Ok(rows.into_iter().flatten().any(|found| found.is_some()))
}

/// Checks that a session stays in its database.
pub fn set_catalog(session: &Session, name: &str) -> Result<()> {
    match current(session)?.0 == name {
        true => Ok(()),
        false => Err(not_implemented(format!(
            "a session of PostgreSQL stays in its database; connect to \"{name}\" instead"
        ))),
    }
}

pub fn set_schema(session: &Session, name: &str) -> Result<()> {
    let sql = "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = $1";
    let given = ScalarValue::Utf8(Some(name.into()));
    if texts(session, sql, Parameters::Positional(vec![given]))?.is_empty() {
        return Err(with_sqlstate(format!("there is no schema \"{name}\""), Status::NotFound, "3F000"));
    }
    execute(session, &format!("SET search_path TO {}", quoted(name)))
}

/// Sets the isolation level of the transactions to come.
pub fn set_isolation(session: &Session, level: &str) -> Result<()> {
    let sql = match LEVELS.iter().find(|(name, _)| *name == level) {
        Some((_, word)) => format!("SET default_transaction_isolation TO '{word}'"),
        None if level == adbc::ADBC_OPTION_ISOLATION_LEVEL_DEFAULT => {
            "RESET default_transaction_isolation".into()
        }
        None if level == adbc::ADBC_OPTION_ISOLATION_LEVEL_LINEARIZABLE => {
            return Err(not_implemented(format!(
                "\"{level}\": PostgreSQL has nothing stronger than {}",
                adbc::ADBC_OPTION_ISOLATION_LEVEL_SERIALIZABLE
            )));
        }
        None => {
            return Err(invalid_argument(format!(
                "\"{}\" is one of {}, not \"{level}\"",
                adbc::ADBC_CONNECTION_OPTION_ISOLATION_LEVEL,
                LEVELS.map(|(name, _)| name).join(", ")
            )));
        }
    };
    if session.connection().is_in_transaction() {
        return Err(invalid_state(
            "a transaction is open; the isolation level of the next ones can be set when it is over",
        ));
    }
    execute(session, &sql)
}

/// Returns the isolation level of the transactions to come.
pub fn isolation(session: &Session) -> Result<String> {
    let rows = texts(session, "SHOW default_transaction_isolation", Parameters::None)?;
    let word = rows.into_iter().flatten().flatten().next().unwrap_or_default();
    let level = LEVELS.iter().find(|(_, of)| *of == word).map(|(name, _)| (*name).to_string());
    Ok(level.unwrap_or(word))
}

/// Returns the server's version.
pub fn version(session: &Session) -> Result<String> {
    let rows = texts(session, "SHOW server_version", Parameters::None)?;
    Ok(rows.into_iter().flatten().flatten().next().unwrap_or_default())
}
