//! Functions in FROM by which programs of DuckDB and PostgreSQL ask about the catalog: queries of its
//! relations in their place.

use crate::reading::parse_as_written;
use sqlparser::ast::{Expr, Query, Value};

/// The functions without arguments, and their queries.
const QUERIES: [(&str, &str); 14] = [
    (
        "duckdb_columns",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, column_name, \
         ordinal_position AS column_index, column_comment AS comment, \
         table_schema IN ('information_schema', 'pg_catalog') AS internal, column_default, \
         is_nullable = 'YES' AS is_nullable, column_type AS data_type, character_maximum_length, \
         numeric_precision, numeric_precision_radix, numeric_scale FROM information_schema.columns",
    ),
    (
        "duckdb_constraints",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, constraint_name, \
         constraint_type FROM information_schema.table_constraints",
    ),
    (
        "duckdb_databases",
        "SELECT DISTINCT catalog_name AS database_name, false AS internal FROM information_schema.schemata",
    ),
    (
        "duckdb_functions",
        "SELECT routine_catalog AS database_name, routine_schema AS schema_name, \
         routine_name AS function_name, lower(function_type) AS function_type, description, \
         data_type AS return_type FROM information_schema.routines",
    ),
    (
        "duckdb_indexes",
        "SELECT current_database() AS database_name, schemaname AS schema_name, indexname AS index_name, \
         tablename AS table_name, indexdef AS sql FROM pg_catalog.pg_indexes",
    ),
    (
        "duckdb_schemas",
        "SELECT catalog_name AS database_name, schema_name, \
         schema_name IN ('information_schema', 'pg_catalog') AS internal FROM information_schema.schemata",
    ),
    (
        "duckdb_sequences",
        "SELECT sequence_catalog AS database_name, sequence_schema AS schema_name, sequence_name, start_value, \
         minimum_value AS min_value, maximum_value AS max_value, increment AS increment_by, \
         cycle_option = 'YES' AS cycle FROM information_schema.sequences",
    ),
    (
        "duckdb_settings",
        "SELECT name, setting AS value, short_desc AS description, vartype AS input_type \
         FROM pg_catalog.pg_settings",
    ),
    (
        "duckdb_tables",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, \
         table_comment AS comment, false AS internal, table_type = 'LOCAL TEMPORARY' AS temporary \
         FROM information_schema.tables WHERE table_type IN ('BASE TABLE', 'LOCAL TEMPORARY')",
    ),
    (
        "duckdb_views",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name AS view_name, \
         table_schema IN ('information_schema', 'pg_catalog') AS internal, view_definition AS sql \
         FROM information_schema.views",
    ),
    // PostgreSQL's, which its views are made of.
    ("pg_lock_status", "SELECT * FROM pg_catalog.pg_locks"),
    ("pg_show_all_settings", "SELECT * FROM pg_catalog.pg_settings"),
    ("pg_timezone_abbrevs", "SELECT * FROM pg_catalog.pg_timezone_abbrevs"),
    ("pg_timezone_names", "SELECT * FROM pg_catalog.pg_timezone_names"),
];

/// The function of a table's columns.
const TABLE_INFO: &str = "pragma_table_info";

/// Its query, but for the table.
const COLUMNS: &str = "SELECT c.ordinal_position - 1 AS cid, c.column_name AS name, c.column_type AS type, \
     c.is_nullable = 'NO' AS \"notnull\", c.column_default AS dflt_value, k.column_name IS NOT NULL AS pk \
     FROM information_schema.columns AS c LEFT JOIN \
     (SELECT u.table_catalog, u.table_schema, u.table_name, u.column_name \
     FROM information_schema.key_column_usage AS u JOIN information_schema.table_constraints AS p \
     ON u.constraint_catalog = p.constraint_catalog AND u.constraint_schema = p.constraint_schema \
     AND u.constraint_name = p.constraint_name AND u.table_name = p.table_name \
     WHERE p.constraint_type = 'PRIMARY KEY') AS k \
     ON c.table_catalog = k.table_catalog AND c.table_schema = k.table_schema \
     AND c.table_name = k.table_name AND c.column_name = k.column_name";

/// Returns the query that a call in FROM stands for.
pub fn query(function: &str, arguments: &[Expr]) -> Option<Query> {
    let function = function.trim_start_matches("pg_catalog.");
    let sql = match arguments {
        [] => QUERIES.iter().find(|(known, _)| *known == function)?.1.to_string(),
        [Expr::Value(value)] if function == TABLE_INFO => match &value.value {
            Value::SingleQuotedString(name) => columns_of(name),
            _ => return None,
        },
        _ => return None,
    };
    match parse_as_written(&format!("({sql})")).ok()? {
        Expr::Subquery(query) => Some(*query),
        _ => None,
    }
}

/// Returns the query of the columns of a table, whose name may have its schema before it.
fn columns_of(name: &str) -> String {
    let quoted = |text: &str| text.replace('\'', "''");
    let of_table = match name.rsplit_once('.') {
        Some((schema, table)) => {
            let schema = schema.rsplit('.').next().unwrap_or(schema);
            format!("c.table_schema = '{}' AND c.table_name = '{}'", quoted(schema), quoted(table))
        }
        None => format!(
            "(c.table_schema = current_schema() OR c.table_catalog = 'temp') AND c.table_name = '{}'",
            quoted(name)
        ),
    };
    format!("{COLUMNS} WHERE {of_table} ORDER BY 1")
}

#[cfg(test)]
mod tests {
    use super::{QUERIES, TABLE_INFO, query};
    use crate::build::text;

    #[test]
    fn all_can_be_read() {
        for (function, _) in QUERIES {
            assert!(query(function, &[]).is_some(), "{function}");
        }
        for table in ["t", "it's", "s.t", "a.s.t'"] {
            let found = query(TABLE_INFO, &[text(table)]).map(|query| query.to_string());
            assert!(found.is_some_and(|found| found.contains("WHERE")), "{table}");
        }
        assert!(query("duckdb_tables", &[text("t")]).is_none() && query("nothing", &[]).is_none());
    }
}
