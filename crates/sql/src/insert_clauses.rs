//! Rewrites clauses of INSERT that the parser does not know to others that it knows.

use sqlparser::ast::{Expr, Statement, visit_statements_mut};
use sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

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

/// Turns the text of [`known_overriding`] into a PARTITION of nothing: the syntax tree has no other
/// place for the clause, and no text that the parser takes has such a PARTITION.
pub fn mark_overriding(statement: &mut Statement) {
    let stands_for_it =
        |given: &Vec<Expr>| matches!(given.as_slice(), [only] if OVERRIDING == format!("PARTITION ({only})"));
    let _all = visit_statements_mut(statement, |statement| {
        if let Statement::Insert(insert) = statement
            && insert.partitioned.as_ref().is_some_and(stands_for_it)
        {
            insert.partitioned = Some(Vec::new());
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Takes OVERRIDING SYSTEM VALUE off an INSERT: it gives identity columns other values than their
/// own.
pub fn take_overriding(partition: &mut Option<Vec<Expr>>) -> bool {
    partition.take_if(|given| given.is_empty()).is_some()
}
