//! Rewrites clauses of INSERT that the parser does not know to others that it knows.

use crate::phrases::{is_word, next};
use crate::table_as::last_of_name;
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

/// What stands in a PARTITION in place of BY NAME, which the parser does not know.
const BY_NAME: &str = "__by_name";

/// Returns an INSERT whose query's columns are those of the table by their names, as DuckDB has it, in words
/// that the parser knows; `None` where it is another statement.
pub fn known_by_name(tokens: &[Token]) -> Option<String> {
    let text = |tokens: &[Token]| tokens.iter().map(Token::to_string).collect::<String>();
    let of_name = |into: usize| {
        let name = last_of_name(tokens, next(tokens, into)?)?;
        let by = next(tokens, name).filter(|by| is_word(tokens.get(*by), &["BY"]))?;
        let end = next(tokens, by).filter(|end| is_word(tokens.get(*end), &["NAME"]))?;
        Some(format!("{}PARTITION ({BY_NAME}){}", text(&tokens[..by]), text(&tokens[end + 1..])))
    };
    (0..tokens.len()).filter(|place| is_word(tokens.get(*place), &["INTO"])).find_map(of_name)
}

/// Says whether the columns of an INSERT are named by its query, by its PARTITION.
pub fn is_by_name(partition: Option<&[Expr]>) -> bool {
    matches!(partition, Some([Expr::Identifier(name)]) if name.value == BY_NAME)
}

#[cfg(test)]
mod tests {
    use super::known_by_name;
    use crate::tokenized::tokens_of;

    #[test]
    fn by_name_stands_behind_a_table() {
        for (sql, meant) in [
            ("INSERT INTO s.t BY NAME SELECT 1 AS a", "INSERT INTO s.t PARTITION (__by_name) SELECT 1 AS a"),
            ("insert into \"T\" by -- so\nname FROM u", "insert into \"T\" PARTITION (__by_name) FROM u"),
        ] {
            assert_eq!(known_by_name(&tokens_of(sql)).as_deref(), Some(meant), "{sql}");
        }
        for sql in ["INSERT INTO t SELECT * FROM u ORDER BY name", "SELECT 1 UNION ALL BY NAME SELECT 2"] {
            assert_eq!(known_by_name(&tokens_of(sql)), None, "{sql}");
        }
    }
}
