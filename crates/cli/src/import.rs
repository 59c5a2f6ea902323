//! `.import`: the SQL that loads a file into a table. The engine knows the file's format by its ending.

use crate::token::quote_name;
use hypostyle::{Connection, Result};

/// `COPY` into a table that exists, `CREATE TABLE … AS` for one that does not.
///
/// # Errors
/// When the tables cannot be listed.
pub fn statement(connection: &Connection, file: &str, table: &str) -> Result<String> {
    let exists = connection
        .tables()?
        .iter()
        .any(|known| known.name == table || format!("{}.{}", known.schema, known.name) == table);
    Ok(load_statement(file, table, exists))
}

fn load_statement(file: &str, table: &str, exists: bool) -> String {
    let name: Vec<String> = table.split('.').map(quote_name).collect();
    let (name, file) = (name.join("."), file.replace('\'', "''"));
    match exists {
        true => format!("COPY {name} FROM '{file}'"),
        false => format!("CREATE TABLE {name} AS SELECT * FROM '{file}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_are_quoted() {
        assert_eq!(
            load_statement("it's.csv.gz", "raw.Order", false),
            "CREATE TABLE raw.\"Order\" AS SELECT * FROM 'it''s.csv.gz'"
        );
        assert_eq!(load_statement("a.ndjson", "t", true), "COPY t FROM 'a.ndjson'");
    }
}
