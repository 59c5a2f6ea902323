//! SET CONSTRAINTS.

use crate::cursor::Cursor;
use crate::identifier::last_of;
use hypostyle_types::Result;

/// SET CONSTRAINTS: when a transaction checks what it has put off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetConstraints {
    /// `None`: all of them.
    pub names: Option<Vec<String>>,
    pub deferred: bool,
}

/// Reads what follows SET CONSTRAINTS.
///
/// # Errors
/// `Syntax` where something else is written.
pub(super) fn set(cursor: &mut Cursor<'_>) -> Result<SetConstraints> {
    let usage = "write SET CONSTRAINTS ALL, or names of constraints, and IMMEDIATE or DEFERRED";
    let wrong = |cursor: &Cursor<'_>| cursor.usage(usage);
    let mut names = None;
    if !cursor.take("ALL") {
        let mut found = Vec::new();
        loop {
            let name = cursor.table().map_err(|_| wrong(cursor))?;
            found.push(last_of(&name)?);
            if !cursor.take_symbol(",") {
                break;
            }
        }
        names = Some(found);
    }
    let deferred = cursor.take("DEFERRED");
    if !deferred && !cursor.take("IMMEDIATE") || !cursor.is_at_end() {
        return Err(wrong(cursor));
    }
    Ok(SetConstraints { names, deferred })
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use crate::parse::Extension;

    #[test]
    fn names_may_have_schemas_and_quotes() {
        let of = |sql: &str| match Statement::parse(sql, None, &Extension::NONE) {
            Ok(Statement::SetConstraints(found)) => Ok((found.names, found.deferred)),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error),
        };
        assert_eq!(of("SET CONSTRAINTS ALL DEFERRED").unwrap(), (None, true));
        let names = vec!["a".to_string(), "B c".into()];
        assert_eq!(of("set /* c */ constraints main.A, \"B c\" immediate;").unwrap(), (Some(names), false));
        for wrong in
            ["SET CONSTRAINTS IMMEDIATE", "SET CONSTRAINTS ALL LATER", "SET CONSTRAINTS a b DEFERRED"]
        {
            assert_eq!(of(wrong).unwrap_err().sqlstate(), "42601", "{wrong}");
        }
    }
}
