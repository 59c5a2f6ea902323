//! How deep a statement may nest: whoever walks an expression or a plan recurses, here and in DataFusion, and a stack that
//! overflows ends the whole process.

use datafusion::sql::sqlparser::tokenizer::{Token, Word};
use hypostyle_types::{Error, ErrorKind, Result};

/// Operators in a row, and queries put together by UNION and the like. The parser itself bounds parentheses.
const OPERATORS_MAX: usize = 2000;
const QUERIES_MAX: usize = 500;

/// Longer statements run on a stack of their own: they may nest deeper than a caller's thread has room for. Shorter ones do where
/// a thread has less than they may need; code that is not optimised needs more.
const SHORT_BYTES: usize = 512;
const SHORT_STACK_BYTES: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };
const STACK_BYTES: usize = 16 << 20;

const SET_OPERATORS: [&str; 3] = ["UNION", "EXCEPT", "INTERSECT"];

/// Words between operands: those between conditions, and others.
const CONNECTIVES: [&str; 3] = ["AND", "OR", "XOR"];
const OPERATORS: [&str; 8] = ["NOT", "IS", "IN", "LIKE", "ILIKE", "BETWEEN", "COLLATE", "DIV"];

/// Words that begin another expression.
const BEGINNINGS: [&str; 13] = [
    "SELECT", "FROM", "WHERE", "HAVING", "GROUP", "ORDER", "ON", "WHEN", "THEN", "ELSE", "VALUES", "SET",
    "LIMIT",
];

/// What has been found between two parentheses.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Of the present expression.
    connectives: usize,
    /// Since the last of them.
    operators: usize,
    queries: usize,
}

impl Level {
    /// Another expression.
    fn begin(&mut self) {
        (self.connectives, self.operators) = (0, 0);
    }
}

/// # Errors
/// `Syntax` (54001) when an expression has too many operators in a row, or a query too many parts.
pub(super) fn check_depth(tokens: &[Token]) -> Result<()> {
    let mut outer = Vec::new();
    let mut level = Level::default();
    for token in tokens {
        match token {
            Token::Whitespace(_) => {}
            Token::LParen | Token::LBracket | Token::LBrace => {
                // What follows an expression at once, as the place in a list does, is one more operator.
                level.operators += usize::from(*token == Token::LBracket);
                outer.push(level);
                level = Level::default();
            }
            Token::RParen | Token::RBracket | Token::RBrace => level = outer.pop().unwrap_or_default(),
            Token::Comma => level.begin(),
            Token::SemiColon => level = Level::default(),
            Token::Word(word) if is_any(word, &SET_OPERATORS) => level.queries += 1,
            Token::Word(word) if is_any(word, &BEGINNINGS) => level.begin(),
            Token::Word(word) if is_any(word, &CONNECTIVES) => {
                level.connectives += 1;
                level.operators = 0;
            }
            Token::Word(word) => level.operators += usize::from(is_any(word, &OPERATORS)),
            Token::Number(..) | Token::Placeholder(_) | Token::Period | Token::EOF => {}
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {}
            _ => level.operators += 1,
        }
        let what = match level {
            Level { connectives, operators, .. } if connectives + operators > OPERATORS_MAX => {
                format!("{OPERATORS_MAX} operators in one expression; use IN (…), or a table of values")
            }
            Level { queries, .. } if queries > QUERIES_MAX => {
                format!("{QUERIES_MAX} queries put together; use a table of values")
            }
            _ => continue,
        };
        let message = format!("the statement is too complex: it has more than {what}");
        return Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("54001"));
    }
    Ok(())
}

fn is_any(word: &Word, known: &[&str]) -> bool {
    word.quote_style.is_none() && known.iter().any(|known| word.value.eq_ignore_ascii_case(known))
}

/// Runs a statement where there is room for what it may nest.
pub(super) fn with_room<T>(sql: &str, run: impl FnOnce() -> T) -> T {
    match sql.len() <= SHORT_BYTES {
        true => stacker::maybe_grow(SHORT_STACK_BYTES, STACK_BYTES, run),
        false => stacker::grow(STACK_BYTES, run),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn check(sql: &str) -> Result<()> {
        check_depth(&Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap())
    }

    #[test]
    fn what_nests_is_counted_and_what_is_long_is_not() {
        let many = 3 * OPERATORS_MAX;
        let of = |part: &str, between: &str| vec![part; many].join(between);
        for sql in [
            format!("SELECT {}", of("1 + 1", ", ")),
            format!("INSERT INTO t VALUES {}", of("(-1, 'a' || 'b')", ", ")),
            format!("SELECT a IN ({})", of("1", ", ")),
            of("SELECT 1 = 1", "; "),
            format!(
                "SELECT 1 FROM t WHERE {}",
                vec!["a = 1 AND b - 1 > 2"; OPERATORS_MAX / 2 - 1].join(" OR ")
            ),
            format!("SELECT CASE {} END", of("WHEN a = 1 THEN -1", " ")),
            vec!["SELECT a.b FROM t WHERE a = 1 AND b = 2"; QUERIES_MAX].join(" UNION ALL "),
        ] {
            check(&sql).unwrap_or_else(|error| panic!("{error}: {}", &sql[..60]));
        }
        for sql in [
            format!("SELECT {}", of("1", " + ")),
            format!("SELECT {}", of("'a'", " || ")),
            format!("SELECT 1 FROM t WHERE {}", of("a = 1", " OR ")),
            format!("SELECT 1{}", of("::int", "")),
            format!("SELECT l{}", of("[1]", "")),
            format!("SELECT f({})", of("a", " AND ")),
            of("SELECT 1", " UNION "),
        ] {
            assert_eq!(check(&sql).unwrap_err().sqlstate(), "54001", "{}", &sql[..60]);
        }
    }
}
