//! CREATE TABLE name (LIKE table …), which is a column of the type `table` for the parser.

use crate::cursor::Cursor;
use sqlparser::ast::ObjectName;

/// CREATE TABLE name (LIKE source INCLUDING …).
#[derive(Clone, Debug, PartialEq)]
pub struct CreateLike {
    pub or_replace: bool,
    pub temporary: bool,
    pub if_not_exists: bool,
    pub name: ObjectName,
    pub source: ObjectName,
    /// What the new table has of the other one besides its columns.
    pub including: Vec<LikePart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikePart {
    Comments,
    Constraints,
    Defaults,
    Generated,
    Identity,
    Indexes,
}

/// The parts by their names. Tables have none of the others.
const PARTS: [(&str, Option<LikePart>); 9] = [
    ("COMMENTS", Some(LikePart::Comments)),
    ("COMPRESSION", None),
    ("CONSTRAINTS", Some(LikePart::Constraints)),
    ("DEFAULTS", Some(LikePart::Defaults)),
    ("GENERATED", Some(LikePart::Generated)),
    ("IDENTITY", Some(LikePart::Identity)),
    ("INDEXES", Some(LikePart::Indexes)),
    ("STATISTICS", None),
    ("STORAGE", None),
];

/// Reads such a statement; `None` for another one.
pub(super) fn parse(sql: &str) -> Option<CreateLike> {
    let mut cursor = Cursor::skipping(sql, 1);
    let or_replace = cursor.take_all(&["OR", "REPLACE"]);
    let temporary = cursor.take("TEMP") || cursor.take("TEMPORARY");
    if !cursor.take("TABLE") {
        return None;
    }
    let if_not_exists = cursor.take_all(&["IF", "NOT", "EXISTS"]);
    let name = cursor.table().ok()?;
    if !cursor.take_symbol("(") || !cursor.take("LIKE") {
        return None;
    }
    let source = cursor.table().ok()?;
    let mut including: Vec<LikePart> = Vec::new();
    loop {
        let is_including = cursor.take("INCLUDING");
        if !is_including && !cursor.take("EXCLUDING") {
            break;
        }
        let parts = parts(&mut cursor)?;
        including.retain(|known| !parts.contains(known));
        if is_including {
            including.extend(parts);
        }
    }
    let is_all = cursor.take_symbol(")") && cursor.is_at_end();
    is_all.then_some(CreateLike { or_replace, temporary, if_not_exists, name, source, including })
}

/// Reads what INCLUDING or EXCLUDING is of; `None` for another word.
fn parts(cursor: &mut Cursor<'_>) -> Option<Vec<LikePart>> {
    if cursor.take("ALL") {
        return Some(PARTS.iter().filter_map(|(_, part)| *part).collect());
    }
    let (_, part) = PARTS.iter().find(|(word, _)| cursor.take(word))?;
    Some(part.iter().copied().collect())
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::*;
    use crate::parse::Extension;

    #[test]
    fn parts_are_those_that_are_included_last() {
        let of = |sql: &str| match Statement::parse(sql, None, &Extension::NONE) {
            Ok(Statement::CreateLike(like)) => like,
            other => panic!("{sql}: {other:?}"),
        };
        let like = of("create or replace temp table if not exists a.\"B\" ( like /* x */ c.d );");
        assert!(like.or_replace && like.temporary && like.if_not_exists && like.including.is_empty());
        assert_eq!(
            (like.name.to_string(), like.source.to_string()),
            ("a.\"B\"".to_string(), "c.d".to_string())
        );
        for (options, including) in [
            ("INCLUDING DEFAULTS including Indexes", vec![LikePart::Defaults, LikePart::Indexes]),
            ("INCLUDING STORAGE EXCLUDING COMPRESSION", vec![]),
            (
                "INCLUDING ALL EXCLUDING COMMENTS EXCLUDING IDENTITY",
                vec![LikePart::Constraints, LikePart::Defaults, LikePart::Generated, LikePart::Indexes],
            ),
            ("INCLUDING DEFAULTS EXCLUDING ALL", vec![]),
        ] {
            assert_eq!(of(&format!("CREATE TABLE t (LIKE u {options})")).including, including, "{options}");
        }
        for sql in ["CREATE TABLE t (a INTEGER)", "CREATE TABLE t (\"like\" INTEGER)"] {
            assert!(matches!(Statement::parse(sql, None, &Extension::NONE), Ok(Statement::Tree(_))), "{sql}");
        }
    }
}
