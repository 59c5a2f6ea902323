//! The types of structures, in the notation that every dialect of the parser knows.

use sqlparser::tokenizer::Token;

/// Returns a statement with STRUCT<a INTEGER> for STRUCT(a INTEGER), which no dialect of the parser
/// knows beside MAP(…).
pub fn with_angle_brackets(tokens: &[Token]) -> String {
    let is = |token: &Token, word: &str| matches!(token, Token::Word(found) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word));
    let mut text = String::new();
    // Says for each open parenthesis whether it is that of a structure.
    let mut open = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        let before = tokens[..place].iter().rfind(|token| !matches!(token, Token::Whitespace(_)));
        match token {
            Token::LParen => {
                open.push(before.is_some_and(|before| is(before, "STRUCT")));
                text.push(if open.last() == Some(&true) { '<' } else { '(' });
            }
            // A blank follows: of `>>[]` the parser would give the list to the inner type.
            Token::RParen => text.push_str(if open.pop() == Some(true) { "> " } else { ")" }),
            other => text.push_str(&other.to_string()),
        }
    }
    text
}
