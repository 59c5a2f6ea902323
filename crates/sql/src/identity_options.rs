//! The options of identity columns, which the parser takes in one order and PostgreSQL in any.

use sqlparser::tokenizer::Token;

/// Clauses in the order in which the parser knows the options of an identity column.
const ORDER: [&str; 6] = ["INCREMENT", "MINVALUE", "MAXVALUE", "START", "CACHE", "CYCLE"];

/// Returns the text of some tokens with the options of identity columns in that order.
pub fn order_identity_options(tokens: &[Token]) -> String {
    let word = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    let mut text = String::new();
    let mut rest = tokens.iter().peekable();
    while let Some(token) = rest.next() {
        text.push_str(&token.to_string());
        if word(token) != "IDENTITY" {
            continue;
        }
        while let Some(space) = rest.next_if(|token| matches!(token, Token::Whitespace(_))) {
            text.push_str(&space.to_string());
        }
        if rest.next_if_eq(&&Token::LParen).is_none() {
            continue;
        }
        let mut clauses: Vec<(usize, String)> = Vec::new();
        let mut after_no = false;
        while let Some(token) = rest.next_if(|token| **token != Token::RParen) {
            let word = word(token);
            let rank = ORDER.iter().position(|first| *first == word);
            match (rank, clauses.last_mut()) {
                // NO has begun the clause.
                (Some(rank), Some((of_clause, _))) if after_no => *of_clause = rank,
                (Some(rank), _) => clauses.push((rank, String::new())),
                _ if word == "NO" => clauses.push((ORDER.len(), String::new())),
                (None, None) => clauses.push((0, String::new())),
                (None, Some(_)) => {}
            }
            after_no = word == "NO" || after_no && matches!(token, Token::Whitespace(_));
            if let Some((_, clause)) = clauses.last_mut() {
                clause.push_str(&token.to_string());
            }
        }
        clauses.sort_by_key(|(rank, _)| *rank);
        let clauses: Vec<String> = clauses.into_iter().map(|(_, clause)| clause).collect();
        text.push_str(&format!("({}", clauses.join(" ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::order_identity_options;
    use crate::parse::{Extension, parse};
    use crate::tokenized::tokens_of;

    #[test]
    fn options_of_an_identity_come_in_any_order() {
        let sql = "CREATE TABLE t (identity INT GENERATED ALWAYS AS identity (START 5 NO CYCLE NO MINVALUE increment BY -1), b INT)";
        let ordered = order_identity_options(&tokens_of(sql));
        let expected = "(increment BY -1 NO MINVALUE  START 5  NO CYCLE ), b INT)";
        assert!(ordered.ends_with(expected), "{ordered}");
        assert!(parse(sql, &Extension::NONE).is_ok());
        assert_eq!(
            order_identity_options(&tokens_of("SELECT 'identity (' FROM identity")),
            "SELECT 'identity (' FROM identity"
        );
    }
}
