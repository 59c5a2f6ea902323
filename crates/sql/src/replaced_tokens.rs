//! Tokens in the places of others.

use sqlparser::tokenizer::{Token, Whitespace};
use std::ops::Range;

/// Returns a blank between tokens.
pub(crate) fn blank() -> Token {
    Token::Whitespace(Whitespace::Space)
}

/// Replaces ranges of tokens all at once, since one after the other each would move what is behind it: a text
/// may have 100,000. An empty range puts tokens in. A range that overlaps one before it stays as it is. Says
/// whether there were some.
pub(crate) fn replace(tokens: &mut Vec<Token>, mut ranges: Vec<(Range<usize>, Vec<Token>)>) -> bool {
    if ranges.is_empty() {
        return false;
    }
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    let mut replaced = Vec::with_capacity(tokens.len());
    let mut rest = std::mem::take(tokens).into_iter();
    let mut place = 0;
    for (range, written) in ranges {
        if range.start >= place {
            replaced.extend(rest.by_ref().take(range.start - place));
            replaced.extend(written);
            rest.by_ref().take(range.len()).for_each(drop);
            place = range.end;
        }
    }
    replaced.extend(rest);
    *tokens = replaced;
    true
}

#[cfg(test)]
mod tests {
    use super::replace;
    use crate::tokenized::tokens_of;

    #[test]
    fn ranges_are_replaced_in_the_order_of_their_places() {
        let mut tokens = tokens_of("a b c d");
        let ranges = vec![
            (4..7, tokens_of("x")),
            (4..4, tokens_of("in ")),
            (6..7, tokens_of("overlaps")),
            (0..1, tokens_of("y z")),
        ];
        assert!(replace(&mut tokens, ranges));
        assert_eq!(tokens.iter().map(ToString::to_string).collect::<String>(), "y z b in x");
        assert!(!replace(&mut tokens, Vec::new()));
    }
}
