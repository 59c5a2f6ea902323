//! The tokens of a text as the parser has them.

use crate::escapes;
use crate::watched_dialect::Watched;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// The tokens of a text, for those who look at its words, and for the parser.
#[derive(Default)]
pub struct Tokenized {
    /// Texts are as they are written: printed, the tokens are the text.
    pub written: Vec<Token>,
    /// Texts are as they are meant, and each token has its place; `None` where the text has to be read anew
    /// for that.
    pub meant: Option<Vec<TokenWithSpan>>,
}

impl Tokenized {
    /// Reads a text in which no literal has escapes; one that is not even tokens has none.
    pub fn read(sql: &str) -> Self {
        let dialect = Watched::of_tokens(&GenericDialect {});
        let tokens = Tokenizer::new(&dialect, sql).with_unescape(false).tokenize_with_location();
        let Ok(mut tokens) = tokens else { return Self::default() };
        let written = tokens.iter().map(|token| token.token.clone()).collect();
        let are_meant = tokens.iter_mut().all(|token| mean(&mut token.token));
        Self { written, meant: are_meant.then_some(tokens) }
    }
}

/// Takes one of two quotation marks within a token that stand for one. Says whether it is what the parser
/// would have read.
fn mean(token: &mut Token) -> bool {
    let (text, quote) = match token {
        Token::Word(word) => match word.quote_style {
            Some(quote) => (&mut word.value, quote),
            None => return true,
        },
        // The parser's tokenizer knows other escapes there.
        Token::HexStringLiteral(text) if text.contains('\\') => return false,
        Token::SingleQuotedString(text)
        | Token::NationalStringLiteral(text)
        | Token::HexStringLiteral(text)
        | Token::SingleQuotedByteStringLiteral(text)
        | Token::SingleQuotedRawStringLiteral(text) => (text, '\''),
        Token::DoubleQuotedByteStringLiteral(text) | Token::DoubleQuotedRawStringLiteral(text) => (text, '"'),
        _ => return true,
    };
    if text.contains(quote) {
        *text = text.replace(&[quote, quote].iter().collect::<String>(), quote.encode_utf8(&mut [0; 4]));
    }
    true
}

/// Returns the tokens of a text; none where it is not even tokens, which the parser is to refuse.
pub fn tokens_of(sql: &str) -> Vec<Token> {
    tokens_as_written(sql).unwrap_or_default()
}

/// Returns the tokens of a text, with its texts as they are written: printed, they are the text, but
/// for those with escapes, which are plain ones.
///
/// # Errors
/// `Syntax` for a text or a comment without an end; `InvalidInput` for an escape that is none.
fn tokens_as_written(sql: &str) -> Result<Vec<Token>> {
    let dialect = Watched::of_tokens(&GenericDialect {});
    let sql = &*escapes::plain(sql)?;
    let tokens = Tokenizer::new(&dialect, sql).with_unescape(false).tokenize();
    tokens.map_err(|error| Error::new(ErrorKind::Syntax, error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::Tokenized;
    use crate::watched_dialect::Watched;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::tokenizer::{Token, Tokenizer};

    #[test]
    fn tokens_as_they_are_meant_are_those_that_the_parser_reads() {
        for sql in [
            "SELECT a.\"b\"\"c\", `d``e`, 'it''s' -- ''\n FROM t",
            "SELECT N'a''b', X'00', B'0''1', R'a''b', '', '''', \"\"\"\"",
            "SELECT $$ '' $$, $1, ?, 1.5e3 /* '' */",
            "",
        ] {
            let dialect = Watched::of_tokens(&GenericDialect {});
            let read = Tokenizer::new(&dialect, sql).tokenize_with_location().unwrap();
            let Tokenized { written, meant } = Tokenized::read(sql);
            assert_eq!(meant.unwrap(), read, "{sql}");
            assert_eq!(written.iter().map(Token::to_string).collect::<String>(), sql);
        }
    }

    #[test]
    fn what_the_parser_reads_in_another_way_is_read_anew() {
        assert!(Tokenized::read("SELECT X'0\\0'").meant.is_none());
        let none = Tokenized::read("SELECT 'without an end");
        assert!(none.written.is_empty() && none.meant.is_none());
    }
}
