//! COMMENT ON CONSTRAINT, which the parser does not know.

use crate::cursor::{Cursor, blanked};
use crate::parse::{self, Extension};
use datafusion_sql::parser::Statement as DfStatement;
use hypostyle_types::Result;
use sqlparser::ast::{ObjectName, Statement as Tree};

/// COMMENT ON CONSTRAINT name ON table.
#[derive(Clone, Debug, PartialEq)]
pub struct ConstraintComment {
    pub constraint: String,
    pub table: ObjectName,
    /// `None` takes the comment away.
    pub comment: Option<String>,
}

/// Reads COMMENT ON; `None` for a comment on something else.
///
/// # Errors
/// `Syntax` for what is behind the name of the constraint.
pub(super) fn parse(sql: &str, extension: &Extension) -> Result<Option<ConstraintComment>> {
    let mut cursor = Cursor::skipping(sql, 2);
    let start = cursor.start();
    if !cursor.take("CONSTRAINT") {
        return Ok(None);
    }
    let constraint = cursor.name("the name of a constraint")?;
    cursor.expect(&["ON"])?;
    // The rest is the same as for a comment on the table.
    const TABLE: &str = "TABLE";
    let mut plain = blanked(sql, start..cursor.end_of_last());
    plain.replace_range(start..start + TABLE.len(), TABLE);
    match parse::parse(&plain, extension)? {
        DfStatement::Statement(statement) => match *statement {
            Tree::Comment { object_name: table, comment, .. } => {
                Ok(Some(ConstraintComment { constraint, table, comment }))
            }
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::*;

    #[test]
    fn a_constraint_is_one_of_a_table() {
        let of = |sql: &str| Statement::parse(sql, None, &Extension::NONE);
        for (sql, expected) in [
            ("COMMENT ON CONSTRAINT c ON t IS 'it''s'", ("c", "t", Some("it's"))),
            ("-- \u{e4}\ncomment on /* \u{e4} */ constraint \"C c\" on a.T is NULL", ("C c", "a.T", None)),
        ] {
            let Ok(Statement::CommentOnConstraint(found)) = of(sql) else { panic!("{sql}") };
            let table = found.table.to_string();
            assert_eq!((found.constraint.as_str(), table.as_str(), found.comment.as_deref()), expected);
        }
        assert!(matches!(of("COMMENT ON TABLE t IS 'x'"), Ok(Statement::Tree(_))));
        let error = of("COMMENT ON CONSTRAINT c t IS 'x'").unwrap_err();
        assert_eq!((error.position(), error.sqlstate()), (Some(25), "42601"));
    }
}
