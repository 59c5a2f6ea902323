//! Decides what a server may ask for: tables of the program whose names are in the statement that
//! it runs, and nothing else.

use std::collections::HashMap;
use std::iter::Peekable;
use std::str::Chars;

/// How often a name may be asked for. A plan may need it again: in a join with itself, or when it
/// is planned anew.
const TIMES_MAX: u32 = 16;

/// The names in a statement, and how often each may still be asked for.
#[derive(Default)]
pub struct Named(HashMap<String, u32>);

impl Named {
    /// Collects the identifiers of an SQL text that may be names of tables: those that stand by
    /// themselves, quoted or not, outside of strings and comments.
    pub fn of_statement(text: &str) -> Self {
        let mut named = Self::default();
        let mut behind_dot = false;
        for word in Words(text.chars().peekable()) {
            match word {
                Word::Identifier(_) if behind_dot => behind_dot = false,
                Word::Identifier(name) => named.add(&name),
                Word::Dot => behind_dot = true,
                Word::Other => behind_dot = false,
            }
        }
        named
    }

    /// Allows one name of a table.
    pub fn of_table(name: &str) -> Self {
        let mut named = Self::default();
        named.add(name);
        named
    }

    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_lowercase()).or_default() += TIMES_MAX;
    }

    /// Says whether the server may have the table of a name. The server names it as the statement
    /// does, in any case.
    pub fn allow(&mut self, name: &str) -> bool {
        let Some(times) = self.0.get_mut(&name.to_lowercase()).filter(|times| **times > 0) else {
            return false;
        };
        *times -= 1;
        true
    }
}

enum Word {
    Identifier(String),
    Dot,
    Other,
}

struct Words<'a>(Peekable<Chars<'a>>);

impl Iterator for Words<'_> {
    type Item = Word;

    fn next(&mut self) -> Option<Word> {
        let characters = &mut self.0;
        while characters.next_if(|next| next.is_whitespace()).is_some() {}
        Some(match characters.next()? {
            '.' => Word::Dot,
            quote @ ('"' | '`') => Word::Identifier(quoted(characters, quote)),
            '\'' => {
                quoted(characters, '\'');
                Word::Other
            }
            '-' if characters.next_if_eq(&'-').is_some() => {
                while characters.next_if(|next| *next != '\n').is_some() {}
                return self.next();
            }
            '/' if characters.next_if_eq(&'*').is_some() => {
                skip_comment(characters);
                return self.next();
            }
            '$' => {
                skip_dollars(characters);
                Word::Other
            }
            first if is_part(first) => {
                let mut name = String::from(first);
                while let Some(next) = characters.next_if(|next| is_part(*next) || *next == '$') {
                    name.push(next);
                }
                Word::Identifier(name)
            }
            _ => Word::Other,
        })
    }
}

fn is_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Reads up to a closing quote; a doubled quote is part of the text.
fn quoted(characters: &mut Peekable<Chars<'_>>, quote: char) -> String {
    let mut text = String::new();
    while let Some(next) = characters.next() {
        if next == quote && characters.next_if_eq(&quote).is_none() {
            break;
        }
        text.push(next);
    }
    text
}

/// Skips a comment, which may contain comments.
fn skip_comment(characters: &mut Peekable<Chars<'_>>) {
    let mut depth = 1;
    while let Some(next) = characters.next() {
        match next {
            '*' if characters.next_if_eq(&'/').is_some() => depth -= 1,
            '/' if characters.next_if_eq(&'*').is_some() => depth += 1,
            _ => {}
        }
        if depth == 0 {
            return;
        }
    }
}

/// Skips what follows a dollar: a parameter, or a string between two `$tag$`.
fn skip_dollars(characters: &mut Peekable<Chars<'_>>) {
    let mut tag = String::from("$");
    while let Some(next) = characters.next_if(|next| is_part(*next)) {
        tag.push(next);
    }
    if characters.next_if_eq(&'$').is_none() {
        return;
    }
    tag.push('$');
    let mut text = String::new();
    for next in characters {
        text.push(next);
        if next == '$' && text.ends_with(&tag) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_gets_what_the_statement_names() {
        let text = "SELECT a.hidden, 'secret', $$ dollar $$, $tag$ x $ y $tag$, $1 -- comment\n \
                    FROM Frame a /* outer /* inner */ still */ JOIN \"My \"\"Table\"\"\" USING (k), größe";
        let mut named = Named::of_statement(text);
        for name in ["frame", "FRAME", "my \"table\"", "k", "größe", "GRÖSSE"] {
            assert_eq!(named.allow(name), name != "GRÖSSE", "{name}");
        }
        for name in ["hidden", "secret", "dollar", "tag", "x", "comment", "outer", "inner", "still", "1", ""]
        {
            assert!(!named.allow(name), "{name}");
        }
        for text in ["'", "\"", "/*", "$", "$$", "--", ".", "$a$ $a", "/* /* */"] {
            assert!(!Named::of_statement(text).allow("secret_frame"), "{text}");
        }
    }

    #[test]
    fn a_name_is_not_given_without_end() {
        let mut named = Named::of_statement("SELECT * FROM frame a, frame b");
        let given = (0..1000).filter(|_| named.allow("frame")).count();
        assert_eq!(given, 2 * TIMES_MAX as usize);
        let mut named = Named::of_table("frame");
        assert!(named.allow("frame") && !named.allow("other"));
    }
}
