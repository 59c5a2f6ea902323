//! Rewrites clauses of INSERT that the parser does not know to others that it knows.

use sqlparser::ast::Expr;
use sqlparser::tokenizer::Token;

/// Returns the text with ON CONFLICT behind a condition: behind a SELECT list, the parser takes ON
/// for an alias.
pub fn conflict_apart(tokens: &[Token]) -> Option<String> {
    let is_word = |token: &Token, word: &str| match token {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let conflict = tokens.iter().rposition(|token| is_word(token, "CONFLICT"))?;
    let before = tokens[..conflict].iter().rposition(|token| !matches!(token, Token::Whitespace(_)))?;
    let text = |tokens: &[Token]| tokens.iter().map(Token::to_string).collect::<String>();
    is_word(&tokens[before], "ON")
        .then(|| format!("{}WHERE TRUE {}", text(&tokens[..before]), text(&tokens[before..])))
}

/// The text in place of OVERRIDING SYSTEM VALUE, which the parser does not know.
const OVERRIDING: &str = "PARTITION (__overriding)";

/// Returns an INSERT with OVERRIDING SYSTEM VALUE (ISO/IEC 9075-2, 14.11) in words that the parser
/// knows.
pub fn known_overriding(tokens: &[Token]) -> Option<String> {
    let words = ["OVERRIDING", "SYSTEM", "VALUE"];
    let places: Vec<usize> =
        (0..tokens.len()).filter(|place| !matches!(tokens[*place], Token::Whitespace(_))).collect();
    let is_word = |place: usize, word: &str| match &tokens[place] {
        Token::Word(found) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
        _ => false,
    };
    let found = places
        .windows(words.len())
        .find(|places| places.iter().zip(words).all(|(place, word)| is_word(*place, word)))?;
    let text = |tokens: &[Token]| tokens.iter().map(Token::to_string).collect::<String>();
    Some(format!("{}{OVERRIDING}{}", text(&tokens[..found[0]]), text(&tokens[found[2] + 1..])))
}

/// Says whether the PARTITION of an INSERT says that it gives identity columns other values than
/// their own.
pub fn take_overriding(partition: &mut Option<Vec<Expr>>) -> bool {
    let says = |given: &mut Vec<Expr>| matches!(given.as_slice(), [only] if OVERRIDING == format!("PARTITION ({only})"));
    partition.take_if(says).is_some()
}
