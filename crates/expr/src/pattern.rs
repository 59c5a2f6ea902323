//! Patterns of LIKE and SIMILAR TO.

use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;

/// What stands before a character of a pattern that is meant as it is.
pub const ESCAPE: char = '\\';

/// The function that gives a pattern of LIKE as it is, and refuses one that ends in its escape
/// character.
pub const WHOLE_PATTERN: &str = "whole_pattern";

/// Looks whether a pattern ends in its escape character.
///
/// # Errors
/// `InvalidInput` (22025) naming it.
pub fn check_pattern(text: &str) -> Result<()> {
    let escapes = text.chars().rev().take_while(|letter| *letter == ESCAPE).count();
    // A character that is escaped escapes nothing.
    match escapes % 2 {
        0 => Ok(()),
        _ => {
            let message = format!(
                "the pattern '{text}' ends in its escape character, which is to stand before another one"
            );
            Err(external(Error::invalid_input(message).with_sqlstate("22025")))
        }
    }
}
