//! The statements of a text, and what kind each is.

/// A statement of a text, without the semicolon that ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'a> {
    pub text: &'a str,
    /// The characters of the whole text before it.
    pub before: usize,
}

/// What is known of a statement by its first words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// A query, which COPY can run as well.
    Query,
    /// It may return rows.
    Perhaps,
    /// It returns no rows.
    Command,
}

/// The words at which statements begin that return no rows.
const COMMANDS: [&str; 41] = [
    "abort",
    "alter",
    "analyze",
    "begin",
    "checkpoint",
    "close",
    "cluster",
    "comment",
    "commit",
    "copy",
    "create",
    "deallocate",
    "declare",
    "discard",
    "do",
    "drop",
    "end",
    "grant",
    "import",
    "listen",
    "load",
    "lock",
    "move",
    "notify",
    "prepare",
    "reassign",
    "refresh",
    "reindex",
    "release",
    "reset",
    "revoke",
    "rollback",
    "savepoint",
    "security",
    "set",
    "start",
    "truncate",
    "unlisten",
    "vacuum",
    "repack",
    "wait",
];

impl Statement<'_> {
    pub fn nature(&self) -> Nature {
        match self.first_word().as_str() {
            "select" | "with" | "values" | "table" => Nature::Query,
            word if COMMANDS.contains(&word) => Nature::Command,
            _ => Nature::Perhaps,
        }
    }

    /// Returns the first word in small letters. Queries may be in parentheses.
    fn first_word(&self) -> String {
        let mut text = self.text;
        loop {
            text = text.get(blank(text)..).unwrap_or_default();
            match text.strip_prefix('(') {
                Some(rest) => text = rest,
                None => break,
            }
        }
        let length = text.find(|character: char| !character.is_ascii_alphabetic()).unwrap_or(text.len());
        text.get(..length).unwrap_or_default().to_ascii_lowercase()
    }

    /// Says whether the statement asks for a rollback.
    pub fn rolls_back(&self) -> bool {
        matches!(self.first_word().as_str(), "rollback" | "abort")
    }

    /// Says whether the statement writes rows, which it may also give.
    pub fn writes(&self) -> bool {
        matches!(self.first_word().as_str(), "insert" | "update" | "delete" | "merge")
    }

    /// Says whether the statement may change types that are known already.
    pub fn may_change_types(&self) -> bool {
        self.nature() == Nature::Command
    }
}

/// Returns the bytes of the blanks and comments at the beginning of a text.
fn blank(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let length = match rest.as_bytes() {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => 1,
            [b'-', b'-', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => comment(rest),
            _ => return at,
        };
        at += length;
    }
}

/// Returns the length of the comment at the beginning of a text; comments may have others inside.
fn comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        match rest {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth.saturating_sub(1), at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Splits a text into its statements, and leaves out those that have nothing but comments.
/// `is_standard` says that a backslash in a string stands for itself.
pub fn split(text: &str, is_standard: bool) -> Vec<Statement<'_>> {
    let mut statements = Vec::new();
    let mut scanner = Scanner { text, at: 0, is_standard, parentheses: 0, blocks: 0, words: Vec::new() };
    let mut start = 0;
    loop {
        let end = scanner.statement();
        let piece = text.get(start..end).unwrap_or_default();
        let lead = blank(piece);
        if lead < piece.len() {
            let before = text.get(..start + lead).map_or(0, |before| before.chars().count());
            statements.push(Statement { text: piece.get(lead..).unwrap_or_default().trim_end(), before });
        }
        if end >= text.len() {
            return statements;
        }
        start = end + 1;
        scanner.at = start;
    }
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    is_standard: bool,
    parentheses: usize,
    /// The open blocks of a function's body: from BEGIN ATOMIC or CASE to END.
    blocks: usize,
    /// The first words of the statement, in lower case.
    words: Vec<String>,
}

impl Scanner<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Goes on to the semicolon that ends the statement, or to the end of the text, and returns its
    /// place.
    fn statement(&mut self) -> usize {
        (self.parentheses, self.blocks) = (0, 0);
        self.words.clear();
        while let Some(character) = self.rest().chars().next() {
            let is_after_word = self.at > 0
                && self.text.as_bytes().get(self.at - 1).is_some_and(|byte| is_word(char::from(*byte)));
            match character {
                ';' if self.parentheses == 0 && self.blocks == 0 => return self.at,
                '(' => self.step(|scanner| scanner.parentheses += 1),
                ')' => self.step(|scanner| scanner.parentheses = scanner.parentheses.saturating_sub(1)),
                '\'' => self.quoted('\'', !self.is_standard),
                '"' => self.quoted('"', false),
                '$' if !is_after_word => self.dollar(),
                '-' | '/' => {
                    let is_comment = self.rest().starts_with("--") || self.rest().starts_with("/*");
                    self.at += if is_comment { blank(self.rest()) } else { 1 };
                }
                character if is_word(character) => self.word(),
                other => self.at += other.len_utf8(),
            }
        }
        self.text.len()
    }

    fn step(&mut self, act: impl FnOnce(&mut Self)) {
        self.at += 1;
        act(self);
    }

    /// Passes a text in quotes. Doubled quotes are two texts, which makes no difference here.
    fn quoted(&mut self, quote: char, has_escapes: bool) {
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' if has_escapes => drop(characters.next()),
                character if character == quote => {
                    self.at += at + 1;
                    return;
                }
                _ => {}
            }
        }
        self.at = self.text.len();
    }

    /// Passes a text in dollar quotes, or the dollar of a parameter.
    fn dollar(&mut self) {
        let rest = self.rest();
        let after = rest.get(1..).unwrap_or_default();
        let length = after.find(|character: char| !is_word(character)).unwrap_or(after.len());
        let is_tag = after.get(length..).is_some_and(|end| end.starts_with('$'))
            && !after.starts_with(|first: char| first.is_ascii_digit());
        if !is_tag {
            self.at += 1;
            return;
        }
        let tag = rest.get(..length + 2).unwrap_or_default();
        let body = rest.get(tag.len()..).unwrap_or_default();
        match body.find(tag) {
            Some(end) => self.at += end + 2 * tag.len(),
            None => self.at = self.text.len(),
        }
    }

    fn word(&mut self) {
        let rest = self.rest();
        let is_inside = |character: char| is_word(character) || character == '$';
        let length = rest.find(|character: char| !is_inside(character)).unwrap_or(rest.len());
        let word = rest.get(..length).unwrap_or_default().to_ascii_lowercase();
        let is_string = rest.get(length..).is_some_and(|after| after.starts_with('\''));
        self.at += length;
        if is_string && word == "e" {
            return self.quoted('\'', true);
        }
        if self.words.len() < 4 {
            self.words.push(word.clone());
        }
        let is_routine = self.words.first().is_some_and(|first| first == "create")
            && self.words.iter().any(|word| word == "function" || word == "procedure");
        if !is_routine {
            return;
        }
        match word.as_str() {
            "begin" | "case" => self.blocks += 1,
            "end" => self.blocks = self.blocks.saturating_sub(1),
            _ => {}
        }
    }
}

/// Says whether a character can be part of a word.
fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || !character.is_ascii()
}

/// Returns a name as SQL has it, in quotes.
pub fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a text as SQL has it, whatever the server does with backslashes.
pub fn quoted_text(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!(" E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<&str> {
        split(text, true).into_iter().map(|statement| statement.text).collect()
    }

    #[test]
    fn statements_end_at_semicolons_that_are_not_inside_something() {
        for (text, statements) in [
            ("", &[][..]),
            (" ; -- nothing\n; /* ; */ ", &[]),
            ("SELECT 1", &["SELECT 1"]),
            ("SELECT ';' ; SELECT \";\"", &["SELECT ';'", "SELECT \";\""]),
            ("SELECT 'a''; b'; SELECT 2;", &["SELECT 'a''; b'", "SELECT 2"]),
            ("SELECT E'\\';'; SELECT 2", &["SELECT E'\\';'", "SELECT 2"]),
            ("SELECT '\\'; SELECT 2", &["SELECT '\\'", "SELECT 2"]),
            ("SELECT $$;$$, $a$;$$;$a$; SELECT $1;", &["SELECT $$;$$, $a$;$$;$a$", "SELECT $1"]),
            ("SELECT a$b$c; SELECT 2", &["SELECT a$b$c", "SELECT 2"]),
            ("SELECT 1 /* ; /* ; */ ; */ ; SELECT 2", &["SELECT 1 /* ; /* ; */ ; */", "SELECT 2"]),
            (
                "CREATE RULE r AS ON INSERT TO t DO (a; b); c",
                &["CREATE RULE r AS ON INSERT TO t DO (a; b)", "c"],
            ),
            (
                "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; \
                 SELECT 2; END; BEGIN; \
                 END",
                &[
                    "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; \
                     SELECT 2; END",
                    "BEGIN",
                    "END",
                ],
            ),
            ("SELECT 'open; ", &["SELECT 'open;"]),
            ("SELECT ä; SELECT 'é'", &["SELECT ä", "SELECT 'é'"]),
        ] {
            assert_eq!(texts(text), statements, "{text}");
        }
        assert_eq!(split("SELECT '\\'; SELECT 2", false).len(), 1);
        assert_eq!(split("é; SELECT 2", true)[1].before, 3);
    }

    #[test]
    fn the_first_word_tells_what_a_statement_is() {
        let nature = |text: &str| split(text, true)[0].nature();
        for text in ["SELECT 1", "/* a */ ( (VALUES (1)))", "with a as (select 1) select", "TABLE t"] {
            assert_eq!(nature(text), Nature::Query, "{text}");
        }
        for text in ["INSERT INTO t VALUES (1)", "EXPLAIN SELECT 1", "SHOW all", "FETCH 1 FROM c", "x"] {
            assert_eq!(nature(text), Nature::Perhaps, "{text}");
        }
        for text in ["BEGIN", "create table t (a int)", "COPY t FROM STDIN"] {
            assert_eq!(nature(text), Nature::Command, "{text}");
        }
        for text in ["insert into t values (1)", "/* a */ DELETE FROM t"] {
            assert!(split(text, true)[0].writes(), "{text}");
        }
        assert!(!split("SELECT 1", true)[0].writes());
        for text in ["ROLLBACK", "-- a\n abort", "rollback to savepoint a"] {
            assert!(split(text, true)[0].rolls_back(), "{text}");
        }
        for text in ["COMMIT", "END", "PREPARE TRANSACTION 'rollback'"] {
            assert!(!split(text, true)[0].rolls_back(), "{text}");
        }
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted_name("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted_text("a'b"), "'a''b'");
        assert_eq!(quoted_text("a\\'b"), " E'a\\\\''b'");
    }
}
