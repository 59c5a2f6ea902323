//! The tokens of a text as the parser has them.

use crate::escapes;
use crate::watched_dialect::Watched;
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, Tokenizer};

/// Returns the tokens of a text; none where it is not even tokens, which the parser is to refuse.
pub fn tokens_of(sql: &str) -> Vec<Token> {
    tokens_as_written(sql).unwrap_or_default()
}

/// Returns the tokens of a text, with its texts as they are written: printed, they are the text, but
/// for those with escapes, which are plain ones.
///
/// # Errors
/// `Syntax` for a text or a comment without an end; `InvalidInput` for an escape that is none.
pub fn tokens_as_written(sql: &str) -> Result<Vec<Token>> {
    let dialect = Watched::of_tokens(&GenericDialect {});
    let sql = &*escapes::plain(sql)?;
    let tokens = Tokenizer::new(&dialect, sql).with_unescape(false).tokenize();
    tokens.map_err(|error| Error::new(ErrorKind::Syntax, error.to_string()))
}
