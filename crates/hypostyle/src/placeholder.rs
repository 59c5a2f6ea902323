//! The placeholders of a statement, which are found without parsing it.

use hypostyle_engine::kind::{Kind, StatementKind};
use hypostyle_engine::lexer::{Token, TokenKind, tokens};
use std::ops::Range;

/// The parts of a statement's text that are found without parsing it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scanned {
    /// The ranges of the placeholders: `?` without a name, `$1`, `$name`.
    marks: Vec<(Range<usize>, Option<String>)>,
    /// The end of VALUES, if no word follows, or else RETURNING alone, and where that begins.
    row: Option<(usize, Option<usize>)>,
    kind: Kind,
}

/// An INSERT of one row of parameters. It can be written as an INSERT of several rows, which is
/// some hundred times faster.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowInsert<'a> {
    /// The text before the row, and RETURNING behind it.
    head: &'a str,
    tail: &'a str,
    /// The numbers of its parameters, from 1.
    row: Vec<usize>,
    /// The number of parameters.
    pub parameters: usize,
}

impl RowInsert<'_> {
    pub fn of_rows(&self, rows: usize) -> String {
        let row = |at: usize| {
            let marks: Vec<String> =
                self.row.iter().map(|number| format!("${}", at * self.parameters + number)).collect();
            format!("({})", marks.join(","))
        };
        let rows = (0..rows).map(row).collect::<Vec<_>>().join(",");
        match self.tail {
            "" => format!("{} {rows}", self.head),
            tail => format!("{} {rows} {tail}", self.head),
        }
    }

    /// Returns the number of rows for which the database remembers the text.
    pub fn rows_at_once(&self) -> usize {
        let mark_bytes = 6;
        let around = self.head.len() + self.tail.len();
        ((4096 - around.min(4096)) / (self.row.len() * mark_bytes + 3)).clamp(1, 100)
    }
}

impl Scanned {
    pub fn of(sql: &str) -> Self {
        let tokens: Vec<Token<'_>> = tokens(sql).collect();
        let mut scanned = Self { kind: Kind::of_tokens(tokens.iter().copied()), ..Self::default() };
        let mut last_word: Option<Token<'_>> = None;
        for token in tokens {
            match token.kind {
                TokenKind::Parameter => {
                    let name = token.text.strip_prefix('$').map(str::to_string);
                    scanned.marks.push((token.range(), name));
                }
                TokenKind::Word | TokenKind::Number => {
                    let follows_values =
                        last_word.is_some_and(|last| last.text.eq_ignore_ascii_case("VALUES"));
                    scanned.row = match scanned.row {
                        _ if token.text.eq_ignore_ascii_case("VALUES") => Some((token.end(), None)),
                        Some((end, None))
                            if follows_values && token.text.eq_ignore_ascii_case("RETURNING") =>
                        {
                            Some((end, Some(token.start)))
                        }
                        Some((_, None)) => None,
                        known => known,
                    };
                    last_word = Some(token);
                }
                TokenKind::QuotedName | TokenKind::Text | TokenKind::Comment | TokenKind::Symbol => {}
            }
        }
        scanned
    }

    /// Returns the names of the placeholders, each once and in order. The names of `?` are their
    /// numbers.
    pub fn names(&self) -> Vec<String> {
        let unnamed = self.marks.iter().all(|(_, name)| name.is_none());
        if unnamed {
            return (1..=self.marks.len()).map(|number| number.to_string()).collect();
        }
        let named = self.marks.iter().filter_map(|(_, name)| name.clone());
        let numbers: Option<Vec<usize>> = named.clone().map(|name| name.parse().ok()).collect();
        if let Some(numbers) = numbers {
            let highest = numbers.into_iter().max().unwrap_or(0).min(usize::from(u16::MAX));
            return (1..=highest).map(|number| number.to_string()).collect();
        }
        let mut names: Vec<String> = Vec::new();
        for name in named {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Says whether the placeholders have names that are not numbers.
    pub fn has_names(&self) -> bool {
        self.marks.iter().any(|(_, name)| name.as_ref().is_some_and(|name| name.parse::<usize>().is_err()))
    }

    /// Says whether there are placeholders `$1` and the like, beside which `?` is an operator of
    /// PostgreSQL.
    pub fn has_numbers(&self) -> bool {
        self.marks.iter().any(|(_, name)| name.as_ref().is_some_and(|name| name.parse::<usize>().is_ok()))
    }

    /// Returns the text with `$1` and so on for its placeholders.
    pub fn numbered(&self, sql: &str) -> String {
        let names = self.names();
        let (mut text, mut copied) = (String::with_capacity(sql.len() + 8), 0);
        for (index, (place, name)) in self.marks.iter().enumerate() {
            let number = match name {
                Some(name) => names.iter().position(|found| found == name).map_or(index, |place| place) + 1,
                None => index + 1,
            };
            text.push_str(&sql[copied..place.start]);
            text.push_str(&format!("${number}"));
            copied = place.end;
        }
        text.push_str(&sql[copied..]);
        text
    }

    /// Returns the statement if it is `INSERT … VALUES` with one row that has all the parameters
    /// and nothing else, perhaps with a RETURNING that means the same for several rows: calls and queries
    /// may read the table.
    pub fn row_insert<'a>(&self, sql: &'a str) -> Option<RowInsert<'a>> {
        let (end, returning) = self.row.filter(|_| self.kind.is_insert() && !self.has_names())?;
        let at_end = |text: &'a str| text.trim().trim_end_matches(';').trim_end();
        let (row, tail) = match returning {
            None => (at_end(sql.get(end..)?), ""),
            Some(start) => (sql.get(end..start)?.trim(), at_end(sql.get(start..)?)),
        };
        if tail.contains([';', '(']) {
            return None;
        }
        let row = row.strip_prefix('(')?.strip_suffix(')')?.split(',').enumerate();
        let number = |(index, mark): (usize, &str)| match mark.trim() {
            "?" => Some(index + 1),
            mark => mark.strip_prefix('$')?.parse().ok(),
        };
        let row = row.map(number).collect::<Option<Vec<usize>>>()?;
        let uniform = self.marks.iter().all(|(_, name)| name.is_none() == self.marks[0].1.is_none());
        let parameters = self.names().len();
        (uniform && row.len() == self.marks.len()).then(|| RowInsert {
            head: &sql[..end],
            tail,
            row,
            parameters,
        })
    }

    /// Says by its words what the statement does.
    pub fn kind(&self) -> StatementKind {
        self.kind.class()
    }

    /// Says whether it changes nothing, so that rows which nobody takes need not be computed.
    pub fn only_reads(&self) -> bool {
        self.kind.only_reads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sql: &str) -> Vec<String> {
        Scanned::of(sql).names()
    }

    #[test]
    fn placeholders_are_found_outside_of_quotes_and_comments() {
        assert_eq!(names("select ?, '?', \"?\", ? -- ?\n, /* ? /* ? */ ? */ ?"), ["1", "2", "3"]);
        assert_eq!(names("select $2, $1, $2"), ["1", "2"]);
        assert_eq!(names("select $b, $a, $b"), ["b", "a"]);
        assert_eq!(names("select 'it''s ?', E'\\'?', $$ ? $1 $$, $x$ $$ ? $x$, ?"), ["1"]);
        assert_eq!(names("select a$1, price$ from t"), Vec::<String>::new());
        assert_eq!(names("select 'ends nowhere ?"), Vec::<String>::new());
        assert_eq!(names("/* ends nowhere ?"), Vec::<String>::new());
        assert_eq!(names("select 'ä' || ? || 'ß', $"), ["1"]);
        assert!(Scanned::of("select $a").has_names() && !Scanned::of("select $1, ?").has_names());
    }

    #[test]
    fn placeholders_are_numbered() {
        let numbered = |sql| Scanned::of(sql).numbered(sql);
        assert_eq!(numbered("select ?, '?', ?"), "select $1, '?', $2");
        assert_eq!(numbered("select $b, $a, $b"), "select $1, $2, $1");
        assert_eq!(numbered("select $2, $1"), "select $2, $1");
        assert_eq!(numbered("select 1"), "select 1");
    }

    #[test]
    fn inserts_of_one_row_become_inserts_of_several() {
        let of_two = |sql| Scanned::of(sql).row_insert(sql).map(|insert| insert.of_rows(2));
        let found = of_two("insert into \"?\" (a, b) values\n ( ?, ? ) ; ");
        assert_eq!(found.as_deref(), Some("insert into \"?\" (a, b) values ($1,$2),($3,$4)"));
        assert_eq!(
            of_two("INSERT INTO t VALUES ($2,$1)").as_deref(),
            Some("INSERT INTO t VALUES ($2,$1),($4,$3)")
        );
        assert_eq!(
            of_two("insert into t values (?, ?) returning id, a + 1 as b;").as_deref(),
            Some("insert into t values ($1,$2),($3,$4) returning id, a + 1 as b")
        );
        for other in [
            "insert into t values (?, 1)",
            "insert into t values (?), (?)",
            "insert into t values (?) returning f(a)",
            "insert into t values (?) returning (select 1)",
            "insert into t values (?) returning a + ?",
            "insert into t values (?) returning a; delete from t",
            "insert into t values (?) on conflict do nothing returning a",
            "insert into t values (1, ?) returning a",
            "insert into t values (?) -- ?",
            "insert into t values ($a)",
            "insert into t values (?, $1)",
            "insert into t values ()",
            "insert into t select ?",
            "insert into t values (f(?))",
            "insert into t values (?); delete from t",
            "with x as (select ?) insert into t values (?)",
            "values (?)",
        ] {
            assert_eq!(of_two(other), None, "{other}");
        }
    }
}
