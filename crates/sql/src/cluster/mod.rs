//! Statements about a cluster: how the rows of a new table are distributed, ALTER CLUSTER, BACKUP
//! CLUSTER, SHOW CLUSTER and SHOW FRAGMENTS (docs/sql.md, "Clusters").
//!
//! The parser knows none of them. Their words are read here from the tokens of the text, so that
//! errors have a place and the words stay names everywhere else. What they add to CREATE TABLE is
//! blanked out, and the parser reads the rest.

mod alter;
mod bound;
mod create;
mod distribution;

use crate::cursor::Cursor;
use crate::parse::Extension;
use crate::split::leading_words;
use hypostyle_types::Result;
use sqlparser::ast::{CreateTable, Expr, ObjectName};

/// A statement about a cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ClusterStatement {
    /// CREATE TABLE with a distribution.
    CreateTable {
        /// The statement without the distribution.
        create: Box<CreateTable>,
        distribution: Distribution,
    },
    /// ALTER CLUSTER.
    Alter(AlterCluster),
    /// BACKUP CLUSTER TO 'directory'.
    Backup { directory: String },
    /// SHOW CLUSTER: the nodes.
    ShowCluster,
    /// SHOW FRAGMENTS, of all tables or of one.
    ShowFragments { table: Option<ObjectName> },
}

/// The distribution of a table's rows over the nodes, as a statement writes it. Names of columns
/// are folded, and nothing says yet whether there are such columns.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// PARTITION BY HASH (columns) INTO n FRAGMENTS.
    Hash { columns: Vec<String>, fragments: u32, replicas: u32 },
    /// PARTITION BY RANGE (column) (VALUES LESS THAN (bound), …). Only the last bound may be
    /// MAXVALUE. Whether the others ascend depends on the type of the column.
    Range { column: String, bounds: Vec<Bound>, replicas: u32 },
    /// PARTITION BY ROUND ROBIN INTO n FRAGMENTS.
    RoundRobin { fragments: u32, replicas: u32 },
    /// REPLICATED: each node has all rows.
    Replicated,
}

/// The value that a fragment ends before.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A literal, which may have a sign or a type.
    Value(Box<Expr>),
    /// The fragment has all values from the bound before on, and NULL.
    MaxValue,
}

/// What ALTER CLUSTER changes. Names of nodes are folded.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterCluster {
    AddNode {
        name: String,
        /// Where the other nodes find it: `host:port`.
        address: String,
    },
    /// Moves the replicas of a node to others.
    DrainNode { name: String },
    /// Has a node let no new clients in, and waits until those are gone that it has.
    DrainClients { name: String },
    DropNode {
        name: String,
        /// Says that fragments of which it has the only replica are given up.
        force: bool,
    },
    /// Makes the distribution of all tables even, or that of one.
    Rebalance { table: Option<ObjectName> },
    /// Makes a node the coordinator.
    Promote { name: String },
}

impl ClusterStatement {
    /// Reads a statement; `None` where it is about something else.
    ///
    /// # Errors
    /// `Syntax` at its place in the text, and what [`crate::parse::parse`] gives for the rest of
    /// CREATE TABLE.
    pub fn parse(sql: &str, extension: &Extension) -> Result<Option<Self>> {
        let words = leading_words(sql);
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["CREATE", ..] => create::parse(sql, extension),
            ["ALTER", "CLUSTER"] => alter::parse(sql).map(Some),
            ["BACKUP", "CLUSTER"] => rest(sql, |cursor| {
                cursor.expect(&["TO"])?;
                cursor.text("a directory").map(|directory| Self::Backup { directory })
            })
            .map(Some),
            ["SHOW", "CLUSTER"] => rest(sql, |_| Ok(Self::ShowCluster)).map(Some),
            ["SHOW", "FRAGMENTS"] => rest(sql, |cursor| {
                let table = if cursor.take("FROM") { Some(cursor.table()?) } else { None };
                Ok(Self::ShowFragments { table })
            })
            .map(Some),
            _ => Ok(None),
        }
    }

    /// Says whether the statement gives rows.
    pub fn gives_rows(&self) -> bool {
        matches!(self, Self::ShowCluster | Self::ShowFragments { .. })
    }
}

/// Reads what follows the first two words of a statement.
fn rest(
    sql: &str,
    read: impl FnOnce(&mut Cursor<'_>) -> Result<ClusterStatement>,
) -> Result<ClusterStatement> {
    let mut cursor = Cursor::skipping(sql, 2);
    let statement = read(&mut cursor)?;
    cursor.end()?;
    Ok(statement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::ast::Ident;

    /// Statements with all words, in which a part is missing or too much.
    const STATEMENTS: [&str; 7] = [
        "CREATE OR REPLACE TABLE \"größe\".t (a DECIMAL(9, 2), b TEXT) /* c */ PARTITION BY HASH (a, \"B\") INTO 32 FRAGMENTS REPLICAS 2 AS SELECT 1, 'é';",
        "CREATE TABLE t (a DATE) PARTITION BY RANGE (a) (VALUES LESS THAN (DATE '2024-01-01'), VALUES LESS THAN (MAXVALUE)) REPLICAS 3",
        "CREATE TABLE t PARTITION BY ROUND ROBIN INTO 4 FRAGMENTS AS SELECT * FROM (VALUES (1)) AS v (a)",
        "ALTER CLUSTER ADD NODE \"ñ\" ADDRESS 'é:1'",
        "ALTER CLUSTER DROP NODE n FORCE",
        "SHOW FRAGMENTS FROM a.\"b\".c",
        "BACKUP CLUSTER TO 'é''s/b';",
    ];

    #[test]
    fn whatever_is_missing_or_twice_is_an_error_with_a_place() {
        let check = |sql: &str| {
            if let Err(error) = ClusterStatement::parse(sql, &Extension::NONE) {
                assert!(matches!(error.kind(), hypostyle_types::ErrorKind::Syntax), "{sql}: {error:?}");
                let place = error.position().unwrap_or(1);
                assert!((1..=sql.chars().count() + 1).contains(&place), "{sql}: {place}");
            }
        };
        for sql in STATEMENTS {
            assert!(matches!(ClusterStatement::parse(sql, &Extension::NONE), Ok(Some(_))), "{sql}");
            let places: Vec<usize> = sql.char_indices().map(|(place, _)| place).collect();
            for (number, &place) in places.iter().enumerate() {
                check(&sql[..place]);
                let next = places.get(number + 1).copied().unwrap_or(sql.len());
                check(&format!("{}{}", &sql[..place], &sql[next..]));
                for more in ["(", ")", "'", "\"", "-", ";", " 7 ", " x ", "/*", "\u{0}"] {
                    check(&format!("{}{more}{}", &sql[..place], &sql[place..]));
                }
            }
        }
    }

    #[test]
    fn a_backup_has_a_directory() {
        let backup = ClusterStatement::Backup { directory: "it's/here".into() };
        let of = |sql: &str| ClusterStatement::parse(sql, &Extension::NONE);
        assert_eq!(of("backup /* all */ cluster to 'it''s/here';").unwrap(), Some(backup));
        assert_eq!(of("BACKUP DATABASE TO 'd'").unwrap(), None);
        for (sql, position, message) in [
            ("BACKUP CLUSTER", 15, "TO was expected, not the end of the statement"),
            ("BACKUP CLUSTER TO d", 19, "a directory in single quotes was expected, not d"),
            ("BACKUP CLUSTER TO 'd' 'e'", 23, "the end of the statement was expected, not 'e'"),
        ] {
            let error = of(sql).unwrap_err();
            assert!(error.message().contains(message), "{sql}: {error}");
            assert_eq!((error.position(), error.sqlstate()), (Some(position), "42601"), "{sql}");
        }
    }

    #[test]
    fn fragments_are_shown_of_all_tables_or_of_one() {
        let of = |sql: &str| ClusterStatement::parse(sql, &Extension::NONE).unwrap().unwrap();
        let table = ObjectName::from(vec![Ident::new("s"), Ident::with_quote('"', "T.1")]);
        assert_eq!(of("show fragments -- all\n;"), ClusterStatement::ShowFragments { table: None });
        let shown = of("SHOW FRAGMENTS FROM s.\"T.1\"");
        assert_eq!(shown, ClusterStatement::ShowFragments { table: Some(table) });
        assert!(shown.gives_rows() && of("SHOW CLUSTER").gives_rows());
        assert!(!of("ALTER CLUSTER REBALANCE").gives_rows());
        for (sql, position) in
            [("SHOW CLUSTER NODES", 14), ("SHOW FRAGMENTS OF t", 16), ("SHOW FRAGMENTS FROM", 20)]
        {
            let error = ClusterStatement::parse(sql, &Extension::NONE).unwrap_err();
            assert_eq!((error.position(), error.sqlstate()), (Some(position), "42601"), "{sql}");
        }
    }
}
