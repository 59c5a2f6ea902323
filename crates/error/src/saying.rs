//! Messages of other libraries as a table has them: what each says, and the kind, the SQLSTATE and the words
//! that it has for a user.

use crate::message::plain;
use hypostyle_types::{Error, ErrorKind};

/// Stands in what is said for a text that ends where the next words begin.
const PART: &str = "{}";

/// Stands in what is said for the beginning of the message.
const BEGINNING: char = '^';

/// What a message says, and what is told instead.
pub(crate) struct Saying {
    /// The words of the message, which may be anywhere in it, with its parts between them.
    pub said: &'static str,
    kind: ErrorKind,
    sqlstate: &'static str,
    pub told: Telling,
}

/// What is told of a message.
pub(crate) enum Telling {
    /// What it says itself, for a reader of SQL.
    Same,
    Words(&'static str),
    /// One that is made of its parts; `None` where these are others than are meant.
    Made(fn(&[&str]) -> Option<Sentence>),
}

/// A sentence, and the word of the statement that it is about.
pub(crate) struct Sentence {
    text: String,
    about: Option<String>,
}

impl Sentence {
    pub fn new(text: String) -> Self {
        Self { text, about: None }
    }

    pub fn about(self, word: &str) -> Self {
        Self { about: Some(word.to_string()), ..self }
    }
}

/// Returns the row of a table for a message that is told as it is.
pub(crate) const fn same(said: &'static str, kind: ErrorKind, sqlstate: &'static str) -> Saying {
    Saying { said, kind, sqlstate, told: Telling::Same }
}

/// Returns the row of a table for a message that is told in other words.
pub(crate) const fn told(
    said: &'static str,
    kind: ErrorKind,
    sqlstate: &'static str,
    words: &'static str,
) -> Saying {
    Saying { said, kind, sqlstate, told: Telling::Words(words) }
}

/// Returns the row of a table for a message of whose parts other words are made.
pub(crate) const fn made(
    said: &'static str,
    kind: ErrorKind,
    sqlstate: &'static str,
    sentence: fn(&[&str]) -> Option<Sentence>,
) -> Saying {
    Saying { said, kind, sqlstate, told: Telling::Made(sentence) }
}

/// Returns the error of the first row of a table that a message is of.
pub(crate) fn read(table: &[Saying], message: &str) -> Option<Error> {
    table.iter().find_map(|saying| saying.read(message))
}

impl Saying {
    fn read(&self, message: &str) -> Option<Error> {
        let parts = parts(message, self.said)?;
        let sentence = match self.told {
            Telling::Same => Sentence::new(plain(message)),
            Telling::Words(words) => Sentence::new(words.to_string()),
            Telling::Made(made) => made(&parts)?,
        };
        let error = Error::new(self.kind, sentence.text).with_sqlstate(self.sqlstate);
        Some(match sentence.about {
            Some(word) => error.about(&word),
            None => error,
        })
    }
}

/// Returns the parts of a message between the words that are said, if it has these.
pub(crate) fn parts<'a>(message: &'a str, said: &str) -> Option<Vec<&'a str>> {
    let mut words = said.split(PART);
    let first = words.next()?;
    let mut rest = match first.strip_prefix(BEGINNING) {
        Some(first) => message.strip_prefix(first)?,
        None => message.split_once(first)?.1,
    };
    let mut words = words.peekable();
    let mut parts = Vec::new();
    while let Some(next) = words.next() {
        let is_last = words.peek().is_none();
        let (part, behind) = if next.is_empty() && is_last { (rest, "") } else { rest.split_once(next)? };
        parts.push(part);
        rest = behind;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::{Sentence, made, parts, read, same, told};
    use hypostyle_types::{Error, ErrorKind, Mark};

    #[test]
    fn parts_stand_between_the_words_of_a_message() {
        let message = "Function 'f' takes 2, not 3: 'x'";
        assert_eq!(parts(message, "takes {}, not {}:"), Some(vec!["2", "3"]));
        assert_eq!(parts(message, "^Function '{}'"), Some(vec!["f"]));
        assert_eq!(parts(message, "'{}'{}"), Some(vec!["f", " takes 2, not 3: 'x'"]));
        assert_eq!(parts(message, "takes"), Some(vec![]));
        assert_eq!(parts(message, "^takes"), None);
        assert_eq!(parts(message, "takes {}, nor {}:"), None);
    }

    #[test]
    fn the_first_row_of_a_table_that_means_a_message_tells_it() {
        fn of_even(parts: &[&str]) -> Option<Sentence> {
            let [number] = parts else { return None };
            let is_even = number.ends_with(['0', '2', '4', '6', '8']);
            is_even.then(|| Sentence::new(format!("{number} is even")).about(number))
        }
        let table = [
            made("^no {}", ErrorKind::InvalidInput, "22003", of_even),
            told("^no ", ErrorKind::Syntax, "42601", "it is odd"),
            same("Int64", ErrorKind::Syntax, "42804"),
        ];
        let found = |message: &str| read(&table, message);
        let told = |error: Option<Error>| error.map(|error| (error.message().to_string(), error.kind()));
        let even = found("no 12").unwrap();
        assert_eq!((even.message(), even.sqlstate()), ("12 is even", "22003"));
        assert_eq!(even.mark(), Some(&Mark { word: Some("12".into()), line_and_column: None }));
        assert_eq!(told(found("no 13")), Some(("it is odd".into(), ErrorKind::Syntax)));
        assert_eq!(told(found("an Int64")), Some(("an BIGINT".into(), ErrorKind::Syntax)));
        assert_eq!(told(found("yes")), None);
    }
}
