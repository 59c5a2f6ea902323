//! CREATE, REFRESH and ALTER MATERIALIZED VIEW.

use crate::cursor::{Cursor, blanked};
use crate::lexer::{Token, TokenKind, tokens};
use crate::parse::{self, Extension};
use datafusion_sql::parser::Statement as DfStatement;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{AlterTable, CreateView, ObjectName, Statement as Tree};

/// CREATE MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateMaterialized {
    pub create: Box<CreateView>,
    pub with_data: bool,
}

/// REFRESH MATERIALIZED VIEW.
#[derive(Clone, Debug, PartialEq)]
pub struct Refresh {
    pub name: ObjectName,
    pub concurrently: bool,
    pub with_data: bool,
}

/// Returns a statement without `WITH [NO] DATA` at its end, and whether the view gets rows.
fn data_clause(sql: &str) -> (&str, bool) {
    let words: Vec<Token<'_>> = tokens(sql).filter(|token| token.kind != TokenKind::Comment).collect();
    let is = |from_end: usize, word: &str| {
        words
            .len()
            .checked_sub(from_end)
            .is_some_and(|at| words[at].kind == TokenKind::Word && words[at].text.eq_ignore_ascii_case(word))
    };
    let until = |from_end: usize| &sql[..words[words.len() - from_end].start];
    match (is(1, "DATA"), is(2, "NO")) {
        (true, true) if is(3, "WITH") => (until(3), false),
        (true, _) if is(2, "WITH") => (until(2), true),
        _ => (sql, true),
    }
}

/// Reads CREATE MATERIALIZED VIEW.
///
/// # Errors
/// `Syntax`, also for what the query has.
pub(super) fn create(sql: &str, extension: &Extension) -> Result<CreateMaterialized> {
    let (text, with_data) = data_clause(sql);
    let usage = || Error::new(ErrorKind::Syntax, "write CREATE MATERIALIZED VIEW name AS query");
    match parse::parse(text, extension)? {
        DfStatement::Statement(statement) => match *statement {
            Tree::CreateView(create) => Ok(CreateMaterialized { create: Box::new(create), with_data }),
            _ => Err(usage()),
        },
        _ => Err(usage()),
    }
}

/// Reads what follows REFRESH MATERIALIZED.
///
/// # Errors
/// `Syntax` where something else is written.
pub(super) fn refresh(cursor: &mut Cursor<'_>) -> Result<Refresh> {
    let usage = "write REFRESH MATERIALIZED VIEW [CONCURRENTLY] name [WITH [NO] DATA]";
    let wrong = |cursor: &Cursor<'_>| cursor.usage(usage);
    if !cursor.take("VIEW") {
        return Err(wrong(cursor));
    }
    let concurrently = cursor.take("CONCURRENTLY");
    let name = cursor.table().map_err(|_| wrong(cursor))?;
    let with_data = !cursor.take_all(&["WITH", "NO", "DATA"]);
    let _default = cursor.take_all(&["WITH", "DATA"]);
    if !cursor.is_at_end() {
        return Err(wrong(cursor));
    }
    if concurrently && !with_data {
        return Err(Error::new(ErrorKind::Syntax, "REFRESH has CONCURRENTLY or WITH NO DATA, not both"));
    }
    Ok(Refresh { name, concurrently, with_data })
}

/// Reads ALTER MATERIALIZED VIEW as the ALTER TABLE that it is.
///
/// # Errors
/// `Syntax` where something else is written.
pub(super) fn alter(sql: &str, extension: &Extension) -> Result<AlterTable> {
    let mut cursor = Cursor::skipping(sql, 1);
    let start = cursor.start();
    cursor.expect(&["MATERIALIZED"])?;
    let usage = "write ALTER MATERIALIZED VIEW name RENAME TO other";
    if !cursor.take("VIEW") {
        return Err(cursor.usage(usage));
    }
    const TABLE: &str = "TABLE";
    let mut plain = blanked(sql, start..cursor.end_of_last());
    plain.replace_range(start..start + TABLE.len(), TABLE);
    match parse::parse(&plain, extension)? {
        DfStatement::Statement(statement) => match *statement {
            Tree::AlterTable(alter) => Ok(alter),
            _ => Err(cursor.usage(usage)),
        },
        _ => Err(cursor.usage(usage)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::super::tests::parsed;
    use super::*;

    #[test]
    fn the_clause_of_the_data_is_the_last_one() {
        for (sql, text, with_data) in [
            ("CREATE … AS SELECT 1 WITH DATA", "CREATE … AS SELECT 1 ", true),
            ("CREATE … AS SELECT 1 with no /* … */ data -- x", "CREATE … AS SELECT 1 ", false),
            ("CREATE … AS SELECT 'WITH DATA'", "CREATE … AS SELECT 'WITH DATA'", true),
            ("CREATE … AS SELECT no DATA", "CREATE … AS SELECT no DATA", true),
        ] {
            assert_eq!(data_clause(sql), (text, with_data), "{sql}");
        }
        let sql = "/* c */ create materialized view v as select 1 as a with no data";
        let Ok(Statement::CreateMaterialized(found)) = parsed(sql) else { panic!("{sql}") };
        assert_eq!((found.create.query.to_string(), found.with_data), ("SELECT 1 AS a".into(), false));
    }

    #[test]
    fn a_view_is_refreshed_with_rows_or_without() {
        let refresh = |sql: &str| match parsed(sql)? {
            Statement::RefreshMaterialized(found) => {
                Ok((found.name.to_string(), found.concurrently, found.with_data))
            }
            other => panic!("{other:?}"),
        };
        let empty = refresh("REFRESH MATERIALIZED VIEW a.\"B\" WITH NO DATA").unwrap();
        assert_eq!(empty, ("a.\"B\"".to_string(), false, false));
        let full = refresh("refresh materialized view /* c */ concurrently m WITH DATA;").unwrap();
        assert_eq!(full, ("m".to_string(), true, true));
        for wrong in [
            "REFRESH MATERIALIZED VIEW",
            "REFRESH MATERIALIZED m",
            "REFRESH MATERIALIZED VIEW m n",
            "REFRESH MATERIALIZED VIEW CONCURRENTLY m WITH NO DATA",
        ] {
            let error: Error = refresh(wrong).unwrap_err();
            assert_eq!(error.sqlstate(), "42601", "{wrong}");
        }
    }

    #[test]
    fn a_view_is_altered_as_a_table() {
        let sql = "alter -- c\nMaterialized /* \u{e4} */ view v rename to w";
        let Ok(Statement::AlterMaterialized(alter)) = parsed(sql) else { panic!("{sql}") };
        assert_eq!((alter.name.to_string(), alter.operations.len()), ("v".into(), 1));
        assert_eq!(parsed("ALTER MATERIALIZED v RENAME TO w").unwrap_err().position(), Some(20));
    }
}
