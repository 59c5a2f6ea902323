//! Colours SQL at the prompt: keywords, text and comments.

use crate::token::is_keyword;
use hypostyle::lexer::{TokenKind, tokens};

const KEYWORD: &str = "\x1b[1;34m";
const TEXT: &str = "\x1b[32m";
const FAINT: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// Returns `line` with colours. Without its escape sequences it is the same text.
pub fn colour(line: &str) -> String {
    let mut coloured = String::with_capacity(line.len() * 2);
    let mut done = 0;
    for token in tokens(line) {
        let text = token.text;
        let style = match token.kind {
            TokenKind::Word if is_keyword(text) => KEYWORD,
            TokenKind::Text => TEXT,
            TokenKind::Comment => FAINT,
            _ => continue,
        };
        coloured.push_str(&line[done..token.start]);
        coloured.extend([style, text, PLAIN]);
        done = token.end();
    }
    coloured.push_str(&line[done..]);
    coloured
}

/// Returns text in the style of an offer that is not typed yet.
pub fn faint(text: &str) -> String {
    format!("{FAINT}{text}{PLAIN}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_text_have_colours_and_nothing_is_lost() {
        let line = "select 'from' as x -- end";
        let coloured = colour(line);
        assert!(coloured.starts_with("\x1b[1;34mselect\x1b[0m \x1b[32m'from'\x1b[0m"), "{coloured:?}");
        let plain =
            [KEYWORD, TEXT, FAINT, PLAIN].iter().fold(coloured, |text, style| text.replace(style, ""));
        assert_eq!(plain, line);
    }
}
