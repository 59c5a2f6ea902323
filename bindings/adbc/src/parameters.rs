//! The placeholders of a statement, and the rows of values that are bound to them.

use crate::error::{Result, from_database, invalid_argument};
use adbc_core::error::Error;
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchReader};
use arrow_schema::SchemaRef;
use hypostyle::lexer::{TokenKind, tokens};
use hypostyle::{LogicalType, Parameters, ScalarValue};
use std::ops::Range;

/// The parts of a statement's text that are found without parsing it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scanned {
    /// The ranges of the placeholders: `?` without a name, `$1`, `$name`.
    marks: Vec<(Range<usize>, Option<String>)>,
    /// The words outside of quotes and comments, in upper case, with their ends.
    words: Vec<(String, usize)>,
}

/// An INSERT of one row of parameters. It can be written as an INSERT of several rows, which is
/// some hundred times faster.
#[derive(Clone, Debug, PartialEq)]
pub struct RowInsert<'a> {
    /// The text before the row.
    head: &'a str,
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
        format!("{} {}", self.head, (0..rows).map(row).collect::<Vec<_>>().join(","))
    }

    /// Returns the number of rows for which the database remembers the text.
    pub fn rows_at_once(&self) -> usize {
        let mark_bytes = 6;
        ((4096 - self.head.len().min(4096)) / (self.row.len() * mark_bytes + 3)).clamp(1, 100)
    }
}

impl Scanned {
    pub fn of(sql: &str) -> Self {
        let mut scanned = Self::default();
        for token in tokens(sql) {
            match token.kind {
                TokenKind::Parameter => {
                    let name = token.text.strip_prefix('$').map(str::to_string);
                    scanned.marks.push((token.range(), name));
                }
                TokenKind::Word | TokenKind::Number => {
                    scanned.words.push((token.text.to_uppercase(), token.end()));
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

    pub fn first_word(&self) -> &str {
        self.words.first().map_or("", |(word, _)| word)
    }

    pub fn has_word(&self, words: &[&str]) -> bool {
        self.words.iter().any(|(word, _)| words.contains(&word.as_str()))
    }

    /// Returns the statement if it is `INSERT … VALUES` with one row that has all the parameters
    /// and nothing else.
    pub fn row_insert<'a>(&self, sql: &'a str) -> Option<RowInsert<'a>> {
        let (last, end) = self.words.last()?;
        let is_insert = self.first_word() == "INSERT" && last == "VALUES" && !self.has_names();
        let row = sql.get(*end..).filter(|_| is_insert)?.trim().trim_end_matches(';').trim_end();
        let row = row.strip_prefix('(')?.strip_suffix(')')?.split(',').enumerate();
        let number = |(index, mark): (usize, &str)| match mark.trim() {
            "?" => Some(index + 1),
            mark => mark.strip_prefix('$')?.parse().ok(),
        };
        let row = row.map(number).collect::<Option<Vec<usize>>>()?;
        let uniform = self.marks.iter().all(|(_, name)| name.is_none() == self.marks[0].1.is_none());
        let parameters = self.names().len();
        (uniform && row.len() == self.marks.len()).then(|| RowInsert { head: &sql[..*end], row, parameters })
    }

    /// Says whether it changes nothing, so that rows which nobody takes need not be computed.
    pub fn only_reads(&self) -> bool {
        match self.first_word() {
            "SELECT" | "VALUES" | "TABLE" | "FROM" => true,
            "WITH" => !self.has_word(&["INSERT", "UPDATE", "DELETE", "MERGE"]),
            _ => false,
        }
    }
}

/// Bound values, with a row for each execution.
pub struct Rows {
    reader: Box<dyn RecordBatchReader + Send>,
    /// The index of each parameter's column, and its name if it is bound by name.
    places: Vec<(usize, Option<String>)>,
    batch: Option<RecordBatch>,
    row: usize,
}

impl Rows {
    /// # Errors
    /// `InvalidArguments` when a parameter that is bound by name has no column.
    pub fn new(reader: Box<dyn RecordBatchReader + Send>, scanned: &Scanned, by_name: bool) -> Result<Self> {
        let schema = reader.schema();
        let names = scanned.names();
        let name = |name: &String| scanned.has_names().then(|| name.clone());
        let places = if by_name {
            let place = |wanted: &String| {
                let found = schema.fields().iter().position(|field| field.name() == wanted);
                let place = found.ok_or_else(|| {
                    invalid_argument(format!("no bound column has the name of the parameter \"{wanted}\""))
                });
                Ok((place?, name(wanted)))
            };
            names.iter().map(place).collect::<Result<_>>()?
        } else if scanned.has_names() {
            if names.len() != schema.fields().len() {
                return Err(invalid_argument(format!(
                    "the statement has {} parameters, but {} columns are bound",
                    names.len(),
                    schema.fields().len()
                )));
            }
            names.iter().map(name).enumerate().collect()
        } else {
            // The database counts them, and reports what is wrong.
            (0..schema.fields().len()).map(|place| (place, None)).collect()
        };
        Ok(Self { reader, places, batch: None, row: 0 })
    }

    pub fn schema(&self) -> SchemaRef {
        self.reader.schema()
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.places.len()
    }

    /// Says whether there is another row.
    ///
    /// # Errors
    /// The errors of the stream that is bound.
    pub fn more(&mut self) -> Result<bool> {
        loop {
            if self.batch.as_ref().is_some_and(|batch| self.row < batch.num_rows()) {
                return Ok(true);
            }
            let Some(batch) = self.reader.next() else { return Ok(false) };
            let unreadable = |error| invalid_argument(format!("the bound rows cannot be read: {error}"));
            self.batch = Some(batch.map_err(unreadable)?);
            self.row = 0;
        }
    }

    /// # Errors
    /// The errors of [`Self::more`].
    pub fn next(&mut self) -> Result<Option<Parameters>> {
        let more = self.more()?;
        let Some(batch) = self.batch.as_ref().filter(|_| more) else { return Ok(None) };
        self.row += 1;
        parameters(batch, self.row - 1, &self.places).map(Some)
    }

    /// Returns NULLs of the right types, for a use to which only the types matter.
    pub fn nulls(&self) -> Result<Parameters> {
        let nulls = RecordBatch::try_new(
            self.schema(),
            self.schema()
                .fields()
                .iter()
                .map(|field| arrow_array::new_null_array(field.data_type(), 1))
                .collect(),
        );
        match nulls {
            Ok(batch) => parameters(&batch, 0, &self.places),
            // These are columns that are not nullable.
            Err(_) => Ok(Parameters::None),
        }
    }
}

fn parameters(batch: &RecordBatch, row: usize, places: &[(usize, Option<String>)]) -> Result<Parameters> {
    let value = |place: usize| -> Result<ScalarValue> {
        let column = batch.column(place);
        if let Some(uuids) = column.as_fixed_size_binary_opt()
            && LogicalType::from_arrow(batch.schema_ref().field(place))
                .is_ok_and(|of| of == LogicalType::Uuid)
            && uuids.is_valid(row)
            && let Ok(bytes) = uuids.value(row).try_into()
        {
            return Ok(Parameters::uuid(bytes));
        }
        let value = ScalarValue::try_from_array(column, row).map_err(|error| {
            from_database(hypostyle::Error::invalid_input(format!("parameter {}: {error}", place + 1)))
        })?;
        Ok(match value {
            // The layout of the values in the program's memory does not concern the statement.
            ScalarValue::Dictionary(_, value) => *value,
            other => other,
        })
    };
    if places.iter().any(|(_, name)| name.is_some()) {
        let named = places.iter().map(|(place, name)| Ok((name.clone().unwrap_or_default(), value(*place)?)));
        return Ok(Parameters::Named(named.collect::<Result<_>>()?));
    }
    Ok(Parameters::Positional(places.iter().map(|(place, _)| value(*place)).collect::<Result<_, Error>>()?))
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
        for other in [
            "insert into t values (?, 1)",
            "insert into t values (?), (?)",
            "insert into t values (?) returning a",
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

    #[test]
    fn what_only_reads_is_known_by_its_words() {
        for (sql, expected) in [
            (" -- insert\n select 1", true),
            ("(select 1)", true),
            ("with x as (select 'insert') select * from x", true),
            ("with x as (select 1) insert into t select * from x", false),
            ("insert into t values (1)", false),
            ("", false),
        ] {
            assert_eq!(Scanned::of(sql).only_reads(), expected, "{sql}");
        }
    }
}
