//! What a statement does, as far as its words say: for whoever decides about a text that is not parsed.
//! The words are those outside of comments, quotes and, at its beginning, parentheses.

use crate::lexer::{Token, TokenKind, tokens};

/// What a statement does, as far as its words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// It gives rows and changes nothing.
    Query,
    Insert,
    Update,
    Delete,
    Merge,
    Copy,
    /// CREATE, ALTER, DROP and the like.
    Definition,
    /// BEGIN, COMMIT and the like.
    Transaction,
    /// Settings, CALL, CHECK DATABASE and the like, or several statements.
    Other,
}

/// Words between CREATE, ALTER or DROP and the word for what these are about.
const QUALIFIERS: [&str; 10] =
    ["OR", "REPLACE", "TEMP", "TEMPORARY", "LOCAL", "GLOBAL", "UNLOGGED", "RECURSIVE", "UNIQUE", "ORDER"];

/// Statements that write rows.
const WRITES: [&str; 4] = ["INSERT", "UPDATE", "DELETE", "MERGE"];

/// The words of a statement that say what it does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// The first word in upper case.
    verb: String,
    /// What CREATE, ALTER or DROP is about, in upper case: `TABLE`.
    object: String,
    /// What follows the queries of WITH.
    main: Option<&'static str>,
    /// A word anywhere behind WITH that may be that of a statement which writes rows.
    written: Option<&'static str>,
}

impl Kind {
    /// Reads the words of a statement.
    pub fn read(sql: &str) -> Self {
        Self::of_tokens(tokens(sql))
    }

    /// Reads the words among the tokens of a statement, as far as they say something.
    pub fn of_tokens<'a>(tokens: impl Iterator<Item = Token<'a>>) -> Self {
        let mut rest = tokens.filter(|token| token.kind != TokenKind::Comment);
        let Some(verb) = next_word(&mut rest) else { return Self::default() };
        let mut kind = Self { verb, ..Self::default() };
        match kind.verb.as_str() {
            "WITH" => kind.read_queries(rest),
            "CREATE" | "ALTER" | "DROP" => {
                let mut words = std::iter::from_fn(|| next_word(&mut rest));
                let object = words.find(|word| !QUALIFIERS.contains(&word.as_str()));
                kind.object = object.unwrap_or_default();
            }
            _ => {}
        }
        kind
    }

    /// Reads what is behind WITH.
    fn read_queries<'a>(&mut self, tokens: impl Iterator<Item = Token<'a>>) {
        let mut depth = 0_usize;
        for token in tokens {
            if token.is_symbol("(") {
                depth += 1;
            } else if token.is_symbol(")") {
                depth = depth.saturating_sub(1);
            } else if token.kind == TokenKind::Word {
                let is = |known: &&str| token.text.eq_ignore_ascii_case(known);
                let write = WRITES.iter().copied().find(is);
                self.written = self.written.or(write);
                if depth == 0 {
                    self.main = self.main.or(write).or(["SELECT"].into_iter().find(is));
                }
            }
        }
    }

    /// Says what the statement does.
    pub fn class(&self) -> StatementKind {
        match self.row_verb() {
            "INSERT" => StatementKind::Insert,
            "UPDATE" => StatementKind::Update,
            "DELETE" => StatementKind::Delete,
            "MERGE" => StatementKind::Merge,
            "SELECT" | "VALUES" | "TABLE" | "FROM" | "PIVOT" | "UNPIVOT" | "SHOW" | "EXPLAIN"
            | "DESCRIBE" | "SUMMARIZE" | "PRAGMA" => StatementKind::Query,
            "COPY" => StatementKind::Copy,
            "CREATE" | "ALTER" | "DROP" | "TRUNCATE" | "COMMENT" => StatementKind::Definition,
            "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT" | "SAVEPOINT" | "RELEASE" => {
                StatementKind::Transaction
            }
            _ => StatementKind::Other,
        }
    }

    /// Returns the verb; in the place of WITH that of a statement which may write rows, or SELECT.
    fn row_verb(&self) -> &str {
        match self.verb.as_str() {
            "WITH" => self.main.filter(|main| *main != "SELECT").or(self.written).unwrap_or("SELECT"),
            verb => verb,
        }
    }

    /// Says whether it changes nothing, so that rows which nobody takes need not be computed.
    pub fn only_reads(&self) -> bool {
        matches!(self.row_verb(), "SELECT" | "VALUES" | "TABLE" | "FROM" | "PIVOT" | "UNPIVOT")
    }

    /// Says whether it is about rows; what is not may change the session's state.
    pub fn is_of_rows(&self) -> bool {
        WRITES.contains(&self.verb.as_str()) || matches!(self.verb.as_str(), "SELECT" | "WITH" | "VALUES")
    }

    /// Says whether it may change the session's state. BEGIN, COMMIT and the like do not by themselves:
    /// what SET LOCAL has set, the session takes back.
    pub fn may_change_session(&self) -> bool {
        !self.is_of_rows() && self.verb != "SHOW" && self.class() != StatementKind::Transaction
    }

    /// Says whether it begins with INSERT.
    pub fn is_insert(&self) -> bool {
        self.verb == "INSERT"
    }

    /// Says whether it is PREPARE.
    pub fn prepares(&self) -> bool {
        self.verb == "PREPARE"
    }

    /// Says whether it ends a transaction.
    pub fn ends_transaction(&self) -> bool {
        self.commits() || matches!(self.verb.as_str(), "ROLLBACK" | "ABORT")
    }

    /// Says whether it ends a transaction whose changes stay.
    pub fn commits(&self) -> bool {
        matches!(self.verb.as_str(), "COMMIT" | "END")
    }

    /// Says whether it changes nothing that others see when it ends: it reads, or begins a transaction.
    pub fn publishes_nothing(&self) -> bool {
        matches!(self.verb.as_str(), "SHOW" | "SELECT" | "VALUES" | "TABLE" | "BEGIN" | "START")
    }

    /// Returns what a client of PostgreSQL is told that the statement has done, without the rows.
    pub fn tag(&self) -> String {
        match self.verb.as_str() {
            "FROM" | "VALUES" | "TABLE" | "PIVOT" | "UNPIVOT" | "SUMMARIZE" | "DESCRIBE" | "DESC"
            | "PRAGMA" => "SELECT".into(),
            "WITH" => self.main.unwrap_or("SELECT").into(),
            "START" | "BEGIN" => "BEGIN".into(),
            "END" => "COMMIT".into(),
            "ABORT" => "ROLLBACK".into(),
            "TRUNCATE" => "TRUNCATE TABLE".into(),
            "REFRESH" => "REFRESH MATERIALIZED VIEW".into(),
            "SET" => "SET CONSTRAINTS".into(),
            "CREATE" | "DROP" | "ALTER" => {
                let object = if self.object == "MATERIALIZED" { "MATERIALIZED VIEW" } else { &self.object };
                format!("{} {object}", self.verb).trim_end().to_string()
            }
            verb => verb.to_string(),
        }
    }
}

/// Returns the next word in upper case, past parentheses that open; `None` for anything else.
fn next_word<'a>(tokens: &mut impl Iterator<Item = Token<'a>>) -> Option<String> {
    let token = tokens.find(|token| !token.is_symbol("("))?;
    (token.kind == TokenKind::Word).then(|| token.text.to_ascii_uppercase())
}

/// Says whether a text has a part, in any case.
fn has_part(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len().max(1)).any(|found| found.eq_ignore_ascii_case(part.as_bytes()))
}

/// Says whether a text, in any case, is a part of a name in a statement, such as that of a function.
pub fn has_in_name(sql: &str, part: &str) -> bool {
    let is_name = |token: &Token<'_>| matches!(token.kind, TokenKind::Word | TokenKind::QuotedName);
    // Most texts do not have it at all.
    has_part(sql, part) && tokens(sql).any(|token| is_name(&token) && has_part(token.text, part))
}

/// Says whether a statement is EXPLAIN.
pub fn explains(sql: &str) -> bool {
    let mut rest = tokens(sql).filter(|token| token.kind != TokenKind::Comment);
    next_word(&mut rest).is_some_and(|verb| verb == "EXPLAIN")
}

/// Says whether a statement writes to one table and surely reads no others.
pub fn writes_values(sql: &str) -> bool {
    let mut words = tokens(sql).filter(|token| token.kind == TokenKind::Word);
    let Some(verb) = words.next() else { return false };
    let is = |known: &str| verb.text.eq_ignore_ascii_case(known);
    // What is deleted from is named behind FROM, with which a query may begin, too.
    let (may_read, froms): (&[&str], usize) = if is("INSERT") || is("UPDATE") {
        (&["SELECT", "TABLE"], 0)
    } else if is("DELETE") {
        (&["SELECT", "TABLE", "USING"], 1)
    } else {
        return false;
    };
    let mut found = 0;
    for word in words {
        if may_read.iter().any(|part| has_part(word.text, part)) {
            return false;
        }
        found += usize::from(has_part(word.text, "FROM"));
    }
    found == froms
}

/// Returns the numbers of the parameters that a statement casts to arrays of a type: of `$2::oid[]` it is 2.
pub fn parameters_as_arrays(sql: &str, of_type: &str) -> Vec<usize> {
    // Most texts do not have it at all.
    if !has_part(sql, of_type) {
        return Vec::new();
    }
    let tokens: Vec<Token<'_>> = tokens(sql).filter(|token| token.kind != TokenKind::Comment).collect();
    let number = |part: &[Token<'_>]| match part {
        [parameter, first, second, name, open, close]
            if parameter.kind == TokenKind::Parameter
                && first.is_symbol(":")
                && second.is_symbol(":")
                && name.kind == TokenKind::Word
                && name.text.eq_ignore_ascii_case(of_type)
                && open.is_symbol("[")
                && close.is_symbol("]") =>
        {
            parameter.text.strip_prefix('$')?.parse::<usize>().ok()
        }
        _ => None,
    };
    tokens.windows(6).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_those_of_postgresql() {
        for (sql, expected) in [
            ("select 1", "SELECT"),
            ("/* x */ (select 1)", "SELECT"),
            ("with a as (insert into t values (1)) select 1", "SELECT"),
            ("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "INSERT"),
            ("WITH a AS (SELECT 1) VALUES (1)", "SELECT"),
            ("create or replace temp view v as select 1", "CREATE VIEW"),
            ("create table t(a int)", "CREATE TABLE"),
            ("create order index i on t (a)", "CREATE INDEX"),
            ("CREATE MATERIALIZED VIEW v AS SELECT 1", "CREATE MATERIALIZED VIEW"),
            ("drop schema s", "DROP SCHEMA"),
            ("drop \"schema\"", "DROP"),
            ("-- \u{e4}\nsummarize t", "SELECT"),
            ("END", "COMMIT"),
            ("", ""),
            ("'text'", ""),
        ] {
            assert_eq!(Kind::read(sql).tag(), expected, "{sql}");
        }
    }

    #[test]
    fn what_only_reads_is_known_by_its_words() {
        for (sql, expected) in [
            (" -- insert\n select 1", true),
            ("(select 1)", true),
            ("FROM t", true),
            ("with x as (select 'insert') select * from x", true),
            ("with x as (select 1) insert into t select * from x", false),
            ("with x as (delete from t returning a) select * from x", false),
            ("insert into t values (1)", false),
            ("explain analyze insert into t values (1)", false),
            ("", false),
        ] {
            assert_eq!(Kind::read(sql).only_reads(), expected, "{sql}");
        }
    }

    #[test]
    fn a_statement_behind_with_is_what_it_writes() {
        for (sql, expected) in [
            ("WITH x AS (SELECT 1) DELETE FROM t", StatementKind::Delete),
            ("WITH x AS (SELECT 1 AS \"insert\") SELECT * FROM x", StatementKind::Query),
            ("WITH x AS (UPDATE t SET a = 1 RETURNING a) SELECT * FROM x", StatementKind::Update),
            ("/* ? */ copy t to 'x'", StatementKind::Copy),
            ("Truncate t", StatementKind::Definition),
            ("abort", StatementKind::Transaction),
            ("call f()", StatementKind::Other),
        ] {
            assert_eq!(Kind::read(sql).class(), expected, "{sql}");
        }
    }

    #[test]
    fn comments_change_nothing() {
        let all = |kind: &Kind| {
            [
                kind.prepares(),
                kind.commits(),
                kind.ends_transaction(),
                kind.publishes_nothing(),
                kind.is_of_rows(),
                kind.may_change_session(),
            ]
        };
        for (sql, expected) in [
            ("prepare q as select 1", [true, false, false, false, false, true]),
            ("commit", [false, true, true, false, false, false]),
            ("abort", [false, false, true, false, false, false]),
            ("show x", [false, false, false, true, false, false]),
            ("values (1)", [false, false, false, true, true, false]),
            ("merge into t", [false, false, false, false, true, false]),
            ("set timezone = 'UTC'", [false, false, false, false, false, true]),
        ] {
            for sql in [sql.to_string(), format!("-- \u{e4}\n{sql}"), format!("/* a /* b */ */{sql} -- c")] {
                assert_eq!(all(&Kind::read(&sql)), expected, "{sql}");
            }
        }
    }

    #[test]
    fn writes_of_values_read_one_table() {
        for sql in [
            "insert into t values ($1)",
            "insert into t values ('select') -- from",
            "UPDATE t SET a = $1",
            "DELETE FROM t WHERE a = $1",
        ] {
            assert!(writes_values(sql), "{sql}");
        }
        for sql in [
            "INSERT INTO t TABLE u",
            "INSERT INTO t SELECT * FROM 'x.csv' WHERE a = $1",
            "UPDATE t SET a = b FROM 'x.csv'",
            "DELETE FROM t USING 'x.csv'",
            "DELETE FROM t WHERE a IN (SELECT 1)",
            "DELETE FROM t WHERE $1 = (FROM 'x.csv')",
            "SELECT 1",
            "",
        ] {
            assert!(!writes_values(sql), "{sql}");
        }
    }

    #[test]
    fn casts_of_parameters_are_found_among_the_tokens() {
        let found = |sql| parameters_as_arrays(sql, "oid");
        assert_eq!(found("SELECT $1, any($2::oid[]), $3 :: OID [ ]"), [2, 3]);
        let none =
            "SELECT x::oid[], '$1::oid[]', $99999999999999999999::oid[], 7::oid[], $1::oid -- $1::oid[]";
        assert!(found(none).is_empty(), "{none}");
    }

    #[test]
    fn explain_is_known_behind_comments() {
        for (sql, expected) in [
            ("explain select 1", true),
            ("-- x\nEXPLAIN (ANALYZE) SELECT 1", true),
            ("select explain", false),
        ] {
            assert_eq!(explains(sql), expected, "{sql}");
        }
    }

    #[test]
    fn names_have_parts_that_texts_and_comments_do_not_have() {
        for (sql, expected) in [
            ("SELECT PG_Advisory_lock(1)", true),
            ("SELECT \"pg_advisory_lock\"(1)", true),
            ("SELECT 'pg_advisory_lock'", false),
            ("SELECT 1 -- advisory", false),
            ("", false),
        ] {
            assert_eq!(has_in_name(sql, "advisory"), expected, "{sql}");
        }
    }
}
