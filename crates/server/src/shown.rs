//! What clients have said, as it stands in logs and lists: on one line, whatever it is.

use std::fmt::{self, Display, Write};

/// The most characters of a program's name and version that are shown.
const PROGRAM_CHARACTERS_MAX: usize = 200;

/// Shows a text or an error so that nothing in it begins a line, moves a cursor or turns the
/// direction of reading.
pub(crate) struct Shown<'a, T: ?Sized>(pub &'a T);

impl<T: Display + ?Sized> Display for Shown<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaping(f), "{}", self.0)
    }
}

struct Escaping<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|character| match is_plain(character) {
            true => self.0.write_char(character),
            false => write!(self.0, "{}", character.escape_default()),
        })
    }
}

fn is_plain(character: char) -> bool {
    // Separators of lines and paragraphs, and what overrides the direction of text.
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !character.is_control() && !turns
}

/// The name of a client's program, for the lists of sessions.
pub(crate) fn program(name: &str) -> String {
    Shown(name).to_string().chars().take(PROGRAM_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_begins_a_line() {
        let forged = "eve\"\n2026-01-01 INFO login user=\"root\"\r\x1b[2K\u{85}\u{2028}\u{202e}\0 größe";
        let shown = Shown(forged).to_string();
        assert!(shown.chars().all(is_plain), "{shown:?}");
        assert!(shown.starts_with("eve\"\\n2026") && shown.ends_with(" größe"), "{shown}");
        assert_eq!(program(&"\n".repeat(1000)).len(), 200);
    }
}
