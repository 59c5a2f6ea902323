//! Subqueries in expressions that begin with another word than SELECT or WITH, or with a query in
//! parentheses: `(VALUES (1))`, `(TABLE t)`, `((SELECT 1) UNION SELECT 2)`, `= ANY (VALUES (1), (2))`. The
//! parser takes what is in the parentheses for values.

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// The words that a query begins with.
const QUERIES: [Keyword; 5] =
    [Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::TABLE, Keyword::FROM];

/// The words behind a query in parentheses that is an operand of a set operation, or has a clause.
const BEHIND: [Keyword; 7] = [
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
];

/// The words before the parentheses of a query whose rows are compared.
const QUANTIFIERS: [Keyword; 3] = [Keyword::ANY, Keyword::ALL, Keyword::SOME];

/// The largest number of parentheses that are opened one after the other before such a query.
const OPENED_MAX: usize = 16;

/// Reads such a subquery in the place of an expression; `None` where something else stands.
pub fn read(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let may_begin = match &parser.peek_token_ref().token {
        Token::LParen if is_query(ahead(parser).skip(1)) => {
            parser.advance_token();
            let query = parser.parse_query();
            let query = query.and_then(|query| parser.expect_token(&Token::RParen).map(|_| query));
            return Some(query.map(Expr::Subquery));
        }
        Token::LParen => true,
        token => QUERIES.contains(&keyword(token)),
    };
    if may_begin && is_compared(parser) && is_query(ahead(parser)) {
        return Some(parser.parse_query().map(Expr::Subquery));
    }
    None
}

/// Returns the keyword that a token is; a word in quotes is none.
fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// Returns the tokens that are next; behind the last one it goes on with those of the end.
fn ahead<'t>(parser: &'t Parser<'_>) -> impl Iterator<Item = &'t Token> {
    (parser.index()..).map(move |place| &parser.token_at(place).token).filter(|token| !is_space(token))
}

/// Says whether what is next is behind the parenthesis of a query whose rows are compared.
fn is_compared(parser: &Parser<'_>) -> bool {
    let before = (0..parser.index()).rev().map(|place| &parser.token_at(place).token);
    let mut before = before.filter(|token| !is_space(token));
    before.next() == Some(&Token::LParen)
        && before.next().is_some_and(|token| QUANTIFIERS.contains(&keyword(token)))
}

fn is_query<'t>(mut tokens: impl Iterator<Item = &'t Token>) -> bool {
    match tokens.next() {
        Some(Token::LParen) => is_operand(tokens),
        Some(token) if keyword(token) == Keyword::VALUES => tokens.next() == Some(&Token::LParen),
        Some(token) if keyword(token) == Keyword::TABLE => matches!(tokens.next(), Some(Token::Word(_))),
        _ => false,
    }
}

/// Says whether a parenthesis, which is open, is around a query that more of its query is behind.
fn is_operand<'t>(mut tokens: impl Iterator<Item = &'t Token>) -> bool {
    let mut open = 1;
    let first = loop {
        match tokens.next() {
            Some(Token::LParen) if open < OPENED_MAX => open += 1,
            other => break other,
        }
    };
    if !first.is_some_and(|token| QUERIES.contains(&keyword(token))) {
        return false;
    }
    while open > 0 {
        match tokens.next() {
            Some(Token::LParen) => open += 1,
            Some(Token::RParen) => open -= 1,
            Some(Token::EOF) | None => return false,
            Some(_) => {}
        }
    }
    tokens.next().is_some_and(|token| BEHIND.contains(&keyword(token)))
}

#[cfg(test)]
mod tests {
    use crate::reading::parse_as_written;

    /// `TABLE t` is read as `SELECT * FROM t` before, in statements.
    #[test]
    fn subqueries_may_begin_with_any_query() {
        for sql in [
            "(VALUES (1)) + 1",
            "((SELECT 2) UNION SELECT 2)",
            "1 + (((SELECT 2)) EXCEPT (SELECT 3)) * 2",
            "((VALUES (2), (1)) ORDER BY 1 LIMIT 1)",
            "(((SELECT 1) UNION SELECT 2) EXCEPT SELECT 2)",
            "x = ANY(VALUES (1), (2)) AND x <> ALL(VALUES (3))",
            "x = ANY((SELECT 1) UNION SELECT 2)",
            // These are what they were.
            "((SELECT 2))",
            "((SELECT 2) + 1)",
            "((1 + 2) * 3)",
            "x = ANY(ARRAY[(SELECT 1)])",
            "array_agg((SELECT x) ORDER BY x)",
        ] {
            let read = parse_as_written(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
            assert_eq!(read.to_string(), sql);
        }
    }
}
