//! SHOW PARTITIONS FOR and READ PARTITION (docs/sql.md, "Partitions of a query").

use crate::cursor::Cursor;
use hypostyle_types::Result;

/// Reads the query of SHOW PARTITIONS FOR, which is a text for other sessions.
///
/// # Errors
/// `Syntax` where there is none.
pub(super) fn shown(cursor: &mut Cursor<'_>) -> Result<String> {
    if !cursor.take("FOR") || cursor.is_at_end() {
        return Err(cursor.usage("write SHOW PARTITIONS FOR and a query"));
    }
    Ok(cursor.rest().trim().into())
}

/// Reads the text of READ PARTITION, which is between quotes.
///
/// # Errors
/// `Syntax` where there is none.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<String> {
    let usage = "write READ PARTITION and the text of a partition, which SHOW PARTITIONS FOR gives";
    match cursor.text("a partition") {
        Ok(text) if cursor.is_at_end() => Ok(text),
        _ => Err(cursor.usage(usage)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Statement;
    use super::*;
    use crate::parse::Extension;

    fn text_of(sql: &str) -> Result<String> {
        match Statement::parse(sql, None, &Extension::NONE)? {
            Statement::ReadPartition { text } => Ok(text),
            Statement::ShowPartitions { query } => Ok(query),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_of_partitions_are_read_as_they_are_written() {
        assert_eq!(text_of("READ PARTITION 'a''b\\n'").unwrap(), "a'b\\n");
        assert_eq!(text_of("read /* c */ partition 'a\n{}' ; -- end").unwrap(), "a\n{}");
        for wrong in [
            "READ PARTITION",
            "READ PARTITION a",
            "READ PARTITION 'a",
            "READ PARTITION 'a' 'b'",
            "READ PARTITION E'a'",
        ] {
            assert_eq!(text_of(wrong).unwrap_err().sqlstate(), "42601", "{wrong}");
        }
    }

    #[test]
    fn queries_of_partitions_are_texts() {
        assert_eq!(text_of("show -- c\npartitions for SELECT 'FOR' ").unwrap(), "SELECT 'FOR'");
        for wrong in ["SHOW PARTITIONS FOR", "SHOW PARTITIONS FROM t", "SHOW PARTITIONS FOR;"] {
            assert_eq!(text_of(wrong).unwrap_err().sqlstate(), "42601", "{wrong}");
        }
    }
}
