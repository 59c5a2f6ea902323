//! Statements with and without comments, and what is behind them.

use super::*;

/// Returns the statement of a text without parameters.
pub(super) fn parsed(sql: &str) -> Result<Statement> {
    Statement::parse(sql, None, &Extension::NONE)
}

/// The name of a statement's variant.
fn variant(sql: &str) -> String {
    let shown = format!("{:?}", parsed(sql).unwrap());
    shown.chars().take_while(|character| character.is_alphanumeric()).collect()
}

/// A text of each production, and what it is.
const ALL: [(&str, &str); 38] = [
    ("ALTER TABLE t ALTER COLUMN c DROP IDENTITY", "AlterColumn"),
    ("ALTER MATERIALIZED VIEW v RENAME TO w", "AlterMaterialized"),
    ("ALTER SEQUENCE s RESTART", "AlterSequence"),
    ("ANALYSE t", "Analyze"),
    ("BACKUP DATABASE TO 'd'", "BackupDatabase"),
    ("BACKUP CLUSTER TO 'd'", "Cluster"),
    ("CHECK DATABASE", "CheckDatabase"),
    ("CHECKPOINT", "Checkpoint"),
    ("COMMENT ON CONSTRAINT c ON t IS 'x'", "CommentOnConstraint"),
    ("COPY t FROM 'x'", "CopyFrom"),
    ("COPY (SELECT 1) TO 'x'", "CopyTo"),
    ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CreateMaterialized"),
    ("CREATE ORDER INDEX i ON t (a)", "CreateOrderIndex"),
    ("CREATE SEQUENCE s", "CreateSequence"),
    ("CREATE TEMPORARY SEQUENCE s", "CreateSequence"),
    ("CREATE UNLOGGED TABLE t (a INTEGER)", "Tree"),
    ("CREATE EXTENSION citext", "Extension"),
    ("CREATE USER u", "Refused"),
    ("DROP ROLE u", "Refused"),
    ("EXPLAIN (FORMAT JSON) SELECT 1", "Explain"),
    ("EXPLAIN (SELECT 1)", "Tree"),
    ("EXPORT DATABASE 'd'", "ExportDatabase"),
    ("GRANT SELECT ON t TO u", "Refused"),
    ("IMPORT DATABASE 'd'", "ImportDatabase"),
    ("KILL 1", "Kill"),
    ("PRAGMA version", "Pragma"),
    ("READ PARTITION 'p'", "ReadPartition"),
    ("REFRESH MATERIALIZED VIEW v", "RefreshMaterialized"),
    ("RESET VARIABLE v", "ResetVariable"),
    ("SET CONSTRAINTS ALL DEFERRED", "SetConstraints"),
    ("SET SCHEMA 's'", "SetSchema"),
    ("SET VARIABLE v = 1 + 1", "SetVariable"),
    ("SHOW DATABASES", "ShowDatabases"),
    ("SHOW INDEXES", "ShowIndexes"),
    ("SHOW PARTITIONS FOR SELECT 1", "ShowPartitions"),
    ("SHOW SESSIONS", "ShowSessions"),
    ("SUMMARIZE t", "Summarize"),
    ("VACUUM FULL t", "Vacuum"),
];

#[test]
fn comments_and_case_mean_nothing() {
    for (sql, expected) in ALL {
        // Texts in quotes have no capital letters here.
        for sql in [sql.to_string(), sql.to_lowercase()] {
            assert_eq!(variant(&sql), expected, "{sql}");
            assert_eq!(variant(&format!("-- note \u{e4}\n{sql} -- end")), expected, "{sql}");
            let between = sql.replace(' ', " /* \u{fc} /* nested */ */ ");
            assert_eq!(variant(&format!("/* \u{fc} */{between};")), expected, "{between}");
        }
    }
}

#[test]
fn statements_of_some_words_have_no_others() {
    for (sql, position) in [
        ("CHECK DATABASE d", 16),
        ("/* c */ CHECKPOINT now", 20),
        ("SHOW DATABASES LIKE 'x'", 16),
        ("SHOW SESSIONS 1", 15),
        ("SHOW INDEXES t", 14),
        ("SET SCHEMA 's' t", 16),
    ] {
        let error = parsed(sql).unwrap_err();
        assert_eq!((error.position(), error.sqlstate()), (Some(position), "42601"), "{sql}");
        assert!(error.message().starts_with("the end of the statement was expected, not "), "{error}");
    }
}

#[test]
fn words_in_quotes_begin_no_production() {
    for sql in ["\"KILL\" 1", "\"CHECKPOINT\"", "\"COPY\" t FROM 'x'"] {
        assert_eq!(parsed(sql).unwrap_err().sqlstate(), "42601", "{sql}");
    }
    assert_eq!(variant("SELECT 1 AS \"checkpoint\""), "Tree");
}

#[test]
fn what_is_summarized_is_a_query() {
    for (sql, expected) in [
        ("SUMMARIZE t", "SELECT * FROM t"),
        ("-- c\nsummarize /* c */ SELECT 1 AS a", "SELECT 1 AS a"),
        ("summarize read_csv('x')", "SELECT * FROM read_csv('x')"),
    ] {
        let Ok(Statement::Summarize(query)) = parsed(sql) else { panic!("{sql}") };
        assert_eq!(query.to_string(), expected, "{sql}");
    }
    for wrong in ["SUMMARIZE", "SUMMARIZE t WHERE a", "SUMMARIZE t, u"] {
        assert_eq!(parsed(wrong).unwrap_err().sqlstate(), "42601", "{wrong}");
    }
}

#[test]
fn marks_have_numbers_where_values_are_given() {
    let Ok(Statement::Tree(statement)) = Statement::parse("SELECT ?, ?", Some(2), &Extension::NONE) else {
        panic!("a query");
    };
    assert_eq!(statement.to_string(), "SELECT $1, $2");
    assert!(Statement::parse("SELECT ?", Some(2), &Extension::NONE).is_err());
}

#[test]
fn explained_statements_keep_their_places() {
    let error = parsed("EXPLAIN (ANALYZE) BACKUP DATABASE d").unwrap_err();
    assert_eq!(error.position(), Some(35));
    let Ok(Statement::Explain(options, statement)) = parsed("explain (verbose) select 1") else {
        panic!("EXPLAIN");
    };
    assert!(options.verbose && matches!(*statement, Statement::Tree(_)));
}
