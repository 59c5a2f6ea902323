//! Lists of IN that begin with a subquery, as `x IN ((SELECT 1), 2)`: the parser takes the subquery
//! for the only thing there.

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

/// Such a list behind an expression; `None` where something else stands there.
pub fn with_subqueries(parser: &mut Parser, expr: &Expr) -> Option<Result<Expr, ParserError>> {
    let negated = begins_with_subquery(parser)?;
    let parse = |parser: &mut Parser| {
        if negated {
            parser.expect_keyword_is(Keyword::NOT)?;
        }
        parser.expect_keyword_is(Keyword::IN)?;
        parser.expect_token(&Token::LParen)?;
        let list = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        Ok(Expr::InList { expr: Box::new(expr.clone()), list, negated })
    };
    Some(parse(parser))
}

/// Whether it is `NOT IN` before such a list; `None` without one.
fn begins_with_subquery(parser: &Parser) -> Option<bool> {
    let is = |token: &Token, known: Keyword| matches!(token, Token::Word(word) if word.keyword == known);
    // Most operators are others.
    let first = &parser.peek_token_ref().token;
    let negated = is(first, Keyword::NOT);
    if !negated && !is(first, Keyword::IN) {
        return None;
    }
    let mut place = 0;
    let mut next = || loop {
        let token = parser.peek_nth_token_no_skip(place).token;
        place += 1;
        if !matches!(token, Token::Whitespace(_)) {
            return token;
        }
    };
    let first = next();
    let first = if negated { next() } else { first };
    if !is(&first, Keyword::IN) || next() != Token::LParen || next() != Token::LParen {
        return None;
    }
    let mut open = 1_usize;
    let begin = loop {
        match next() {
            Token::LParen => open += 1,
            other => break other,
        }
    };
    if ![Keyword::SELECT, Keyword::WITH, Keyword::VALUES, Keyword::FROM]
        .iter()
        .any(|known| is(&begin, *known))
    {
        return None;
    }
    while open > 0 {
        match next() {
            Token::LParen => open += 1,
            Token::RParen => open -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    (next() == Token::Comma).then_some(negated)
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse};

    #[test]
    fn lists_may_begin_with_subqueries() {
        for (sql, written) in [
            ("SELECT x IN ((SELECT 1), 2)", "SELECT x IN ((SELECT 1), 2)"),
            ("SELECT x NOT IN ((SELECT 1), (SELECT 2))", "SELECT x NOT IN ((SELECT 1), (SELECT 2))"),
            ("SELECT x IN ((SELECT 1))", "SELECT x IN ((SELECT 1))"),
            ("SELECT x IN ((SELECT 1) UNION SELECT 2)", "SELECT x IN ((SELECT 1) UNION SELECT 2)"),
            ("SELECT x IN (1, (SELECT 2))", "SELECT x IN (1, (SELECT 2))"),
            ("SELECT x IN (((SELECT 1)), 2)", "SELECT x IN (((SELECT 1)), 2)"),
            ("SELECT x IN (((SELECT 1) UNION SELECT 1), 2)", "SELECT x IN (((SELECT 1) UNION SELECT 1), 2)"),
        ] {
            assert_eq!(parse(sql, &Extension::NONE).unwrap().to_string(), written);
        }
    }
}
