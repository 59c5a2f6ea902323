//! VACUUM and ANALYZE in all forms of PostgreSQL's programs.

use crate::cursor::Cursor;
use hypostyle_types::{Error, Result};
use sqlparser::ast::ObjectName;

/// Options of VACUUM and ANALYZE that are words.
const OPTIONS: [&str; 5] = ["FULL", "FREEZE", "VERBOSE", "ANALYZE", "ANALYSE"];

/// Reads the tables behind VACUUM or ANALYZE; none of them means all. The options change nothing.
///
/// # Errors
/// `Syntax` for what is neither an option nor a table.
pub(super) fn tables(cursor: &mut Cursor<'_>) -> Result<Vec<ObjectName>> {
    if cursor.take_symbol("(") {
        let _options = cursor.parenthesized()?;
    }
    while OPTIONS.iter().any(|option| cursor.take(option)) {}
    let mut tables = Vec::new();
    while !cursor.is_at_end() {
        tables.push(cursor.table().map_err(|_| wrong(cursor))?);
        // These are its columns.
        if cursor.take_symbol("(") {
            let _columns = cursor.parenthesized()?;
        }
        if !cursor.take_symbol(",") && !cursor.is_at_end() {
            return Err(wrong(cursor));
        }
    }
    Ok(tables)
}

fn wrong(cursor: &Cursor<'_>) -> Error {
    cursor.wrong(cursor.start(), format!("names of tables were expected, not {}", cursor.found()))
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::*;
    use crate::parse::Extension;

    #[test]
    fn tables_are_found_behind_options() {
        let of = |sql: &str| match Statement::parse(sql, None, &Extension::NONE)? {
            Statement::Vacuum { tables } | Statement::Analyze { tables } => {
                Ok(tables.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(of("VACUUM").unwrap(), Vec::<String>::new());
        assert_eq!(of("-- c\nvacuum full analyze t").unwrap(), ["t"]);
        assert_eq!(of("VACUUM (ANALYZE, full)").unwrap(), Vec::<String>::new());
        assert_eq!(of("ANALYZE (VERBOSE, SKIP_LOCKED) main.\"T\" (a, b), u;").unwrap(), ["main.\"T\"", "u"]);
        for (wrong, position) in [("ANALYZE 1", 9), ("VACUUM t u", 10), ("VACUUM (FULL", 13)] {
            let error: Error = of(wrong).unwrap_err();
            assert_eq!((error.position(), error.sqlstate()), (Some(position), "42601"), "{wrong}");
        }
    }
}
