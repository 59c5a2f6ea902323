//! Samples as DuckDB writes them, `USING SAMPLE 10%` and `TABLESAMPLE reservoir(20 ROWS)`, in the words of
//! the parser's TABLESAMPLE. And LIMIT with a percentage, as a call of a function.

use crate::phrases::{is_word, last_before, next};
use crate::replaced_tokens::{blank, replace};
use hypostyle_types::{Error, Result};
use sqlparser::tokenizer::Token;

/// The function that stands for so many percent of the rows in LIMIT.
pub const PERCENT_OF_ROWS: &str = "percent_of_rows";

/// The functions that stand for a number of rows in LIMIT and in OFFSET that a subquery has.
pub const ROWS_OF_LIMIT: &str = "rows_of_limit";
pub const ROWS_OF_OFFSET: &str = "rows_of_offset";

/// The function that stands for the number of rows in FETCH FIRST … WITH TIES.
pub const ROWS_WITH_TIES: &str = "rows_with_ties";

/// The function that gives the bytes of a row, without the names of its columns.
pub const SAMPLED_ROW: &str = "sampled_row";

/// Ways to take a sample of so many percent, and of so many rows.
const OF_PERCENT: [&str; 2] = ["BERNOULLI", "SYSTEM"];
const OF_ROWS: &str = "RESERVOIR";

/// What follows the relations of FROM.
const CLAUSES: [&str; 6] = ["WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "SELECT"];

/// What may follow the number of LIMIT.
const BEHIND_LIMIT: [&str; 8] = ["OFFSET", "FOR", "FETCH", "UNION", "INTERSECT", "EXCEPT", "RETURNING", "ON"];

/// Returns the tokens in words that are known; `None` where they are known already.
///
/// # Errors
/// `Unsupported` for a sample of several tables.
pub fn known(tokens: &[Token]) -> Result<Option<Vec<Token>>> {
    let has = |words: &[&str]| tokens.iter().any(|token| is_word(Some(token), words));
    let may_have_shares = || has(&["LIMIT"]) && (tokens.contains(&Token::Mod) || has(&["PERCENT"]));
    if !has(&["TABLESAMPLE", "SAMPLE"]) && !may_have_shares() {
        return Ok(None);
    }
    let mut written = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        if is_word(Some(token), &["TABLESAMPLE"]) {
            if let Some((sample, last)) = sample(tokens, place)
                && !is_alike(&tokens[place..=last], &sample)
            {
                written.push((place..last + 1, with_blanks(sample)));
            }
        } else if is_word(Some(token), &["LIMIT"])
            && let Some((rows, last)) = share(tokens, place)
        {
            written.push((place + 1..last + 1, with_blanks(rows)));
        } else if is_word(Some(token), &["USING"])
            && let Some(word) = next(tokens, place).filter(|word| is_word(tokens.get(*word), &["SAMPLE"]))
            && let Some((sample, last)) = sample(tokens, word)
            && let Some(end) = end_of_relation(tokens, place)?
        {
            written.push((place..last + 1, vec![blank()]));
            written.push((end..end, with_blanks(sample)));
        }
    }
    let mut known = tokens.to_vec();
    Ok(replace(&mut known, written).then_some(known))
}

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// Says whether tokens are the same, but for blanks and capitals.
fn is_alike(tokens: &[Token], others: &[Token]) -> bool {
    let shown = |token: &Token| token.to_string().to_ascii_uppercase();
    tokens.iter().filter(|token| !is_blank(token)).map(shown).eq(others.iter().map(shown))
}

fn with_blanks(sample: Vec<Token>) -> Vec<Token> {
    std::iter::once(blank()).chain(sample.into_iter().flat_map(|token| [token, blank()])).collect()
}

/// Reads the tokens of a sample, one after the other.
struct Reader<'a> {
    tokens: &'a [Token],
    last: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.tokens.get(next(self.tokens, self.last)?)
    }

    /// Takes the next token, if it is a wanted one.
    fn take(&mut self, is_wanted: impl Fn(&Token) -> bool) -> Option<&'a Token> {
        let place = next(self.tokens, self.last)?;
        let token = self.tokens.get(place).filter(|token| is_wanted(token))?;
        self.last = place;
        Some(token)
    }

    fn number(&mut self) -> Option<Token> {
        self.take(|token| matches!(token, Token::Number(..))).cloned()
    }

    /// Takes a number and its unit, if it has one.
    fn quantity(&mut self) -> Option<(Token, Option<&'static str>)> {
        let number = self.number()?;
        let unit = if self.take(|token| *token == Token::Mod || is_word(Some(token), &["PERCENT"])).is_some()
        {
            Some("PERCENT")
        } else {
            self.take(|token| is_word(Some(token), &["ROWS"])).map(|_| "ROWS")
        };
        Some((number, unit))
    }

    /// Takes what is in parentheses.
    fn group(&mut self) -> Option<()> {
        let start = next(self.tokens, self.last).filter(|start| self.tokens[*start] == Token::LParen)?;
        let mut depth = 0_usize;
        for (place, token) in self.tokens.iter().enumerate().skip(start) {
            match token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                self.last = place;
                return Some(());
            }
        }
        None
    }

    /// Takes the name of a way to take a sample.
    fn method(&mut self) -> Option<&'static str> {
        let mut methods = OF_PERCENT.into_iter().chain([OF_ROWS]);
        let found = methods.find(|method| is_word(self.peek(), &[*method]))?;
        self.take(|_| true).map(|_| found)
    }

    /// Takes a seed in parentheses behind a word.
    fn seed(&mut self) -> Option<Token> {
        self.take(|token| is_word(Some(token), &["REPEATABLE"]))?;
        self.take(|token| *token == Token::LParen)?;
        let seed = self.number()?;
        self.take(|token| *token == Token::RParen)?;
        Some(seed)
    }
}

/// Returns the sample that begins behind a word, as the parser knows it, and where it ends.
fn sample(tokens: &[Token], word: usize) -> Option<(Vec<Token>, usize)> {
    let mut reader = Reader { tokens, last: word };
    let mut method = reader.method();
    let mut seed = None;
    let in_parentheses = reader.take(|token| *token == Token::LParen).is_some();
    let (number, unit) = reader.quantity()?;
    if in_parentheses {
        reader.take(|token| *token == Token::RParen)?;
    } else if method.is_some() {
        return None;
    } else if reader.peek() == Some(&Token::LParen) {
        // `10% (bernoulli, 42)`
        reader.take(|_| true)?;
        method = Some(reader.method()?);
        if reader.take(|token| *token == Token::Comma).is_some() {
            seed = Some(reader.number()?);
        }
        reader.take(|token| *token == Token::RParen)?;
    }
    if is_word(reader.peek(), &["REPEATABLE"]) {
        seed = Some(reader.seed()?);
    }
    let make = |word: &str| Token::make_word(word, None);
    let mut sample = vec![make("TABLESAMPLE")];
    sample.extend(method.filter(|method| OF_PERCENT.contains(method)).map(make));
    sample.extend([Token::LParen, number]);
    sample.extend(unit.map(make));
    sample.push(Token::RParen);
    if let Some(seed) = seed {
        sample.extend([make("REPEATABLE"), Token::LParen, seed, Token::RParen]);
    }
    Some((sample, reader.last))
}

/// Returns where the only relation of FROM ends, of a query that ends at a place.
///
/// # Errors
/// `Unsupported` where there are several.
fn end_of_relation(tokens: &[Token], place: usize) -> Result<Option<usize>> {
    let Some(from) = from_before(tokens, place) else { return Ok(None) };
    let (mut depth, mut end) = (0_usize, from);
    for (at, token) in tokens.iter().enumerate().take(place).skip(from + 1) {
        match token {
            token if is_blank(token) => continue,
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(Some(token), &CLAUSES) => break,
            token if depth == 0 && (*token == Token::Comma || is_word(Some(token), &["JOIN"])) => {
                return Err(Error::unsupported(
                    "USING SAMPLE of several tables is not supported; write FROM (SELECT …) AS t TABLESAMPLE (…)",
                ));
            }
            _ => {}
        }
        end = at;
    }
    Ok((end > from).then_some(end + 1))
}

/// Returns the place of the FROM of the query that ends at a place.
fn from_before(tokens: &[Token], place: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().take(place).rev() {
        match token {
            Token::RParen | Token::RBracket | Token::RBrace => depth += 1,
            Token::LParen | Token::LBracket | Token::LBrace => depth = depth.checked_sub(1)?,
            token if depth == 0 && is_word(Some(token), &["FROM"]) => {
                let is_comparison =
                    last_before(tokens, at).is_some_and(|before| is_word(tokens.get(before), &["DISTINCT"]));
                if !is_comparison {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the number of rows of `LIMIT 10%`, `LIMIT 10 PERCENT` or `LIMIT (…)%`, as the parser knows it, and
/// where it ends.
fn share(tokens: &[Token], limit: usize) -> Option<(Vec<Token>, usize)> {
    let mut reader = Reader { tokens, last: limit };
    let first = next(tokens, limit)?;
    if reader.number().is_none() {
        reader.group()?;
    }
    let percentage = &tokens[first..=reader.last];
    let unit = reader.take(|token| *token == Token::Mod || is_word(Some(token), &["PERCENT"]))?;
    let ends = *unit != Token::Mod
        || match reader.peek() {
            None | Some(Token::RParen | Token::SemiColon) => true,
            other => is_word(other, &BEHIND_LIMIT),
        };
    let call = [Token::make_word(PERCENT_OF_ROWS, None), Token::LParen];
    ends.then(|| {
        (call.into_iter().chain(percentage.iter().cloned()).chain([Token::RParen]).collect(), reader.last)
    })
}

#[cfg(test)]
mod tests {
    use super::{PERCENT_OF_ROWS, is_word, known};
    use crate::tokenized::tokens_of;

    #[test]
    fn samples_are_written_as_the_parser_knows_them() {
        let plain = |text: &str| text.split_whitespace().collect::<String>().to_uppercase();
        for (text, shown) in [
            ("from t using sample 10%", "from t tablesample (10 percent)"),
            ("select a from t as x using sample 5", "select a from t as x tablesample (5)"),
            (
                "select a from t where a > 1 using sample 5 rows",
                "select a from t tablesample (5 rows) where a > 1",
            ),
            ("select a from t using sample reservoir(5 rows)", "select a from t tablesample (5 rows)"),
            (
                "select a from t using sample 1.5 percent (bernoulli)",
                "select a from t tablesample bernoulli (1.5 percent)",
            ),
            (
                "select a from t using sample 20% (system, 377) order by a",
                "select a from t tablesample system (20 percent) repeatable (377) order by a",
            ),
            (
                "select a from f(1, 2) g (n) using sample 2 rows",
                "select a from f(1, 2) g (n) tablesample (2 rows)",
            ),
            ("select * from (select a from t, u where a is distinct from b using sample 3 rows) x", ""),
            ("select a from t tablesample reservoir(20%)", "select a from t tablesample (20 percent)"),
            ("select a from t tablesample 10 rows", "select a from t tablesample (10 rows)"),
            (
                "select a from t tablesample bernoulli(10%)",
                "select a from t tablesample bernoulli (10 percent)",
            ),
            ("select 1 limit 10%", "select 1 limit percent_of_rows(10)"),
            ("(select 1 limit 2.5 percent)", "(select 1 limit percent_of_rows(2.5))"),
            ("select 1 limit 10 % offset 1", "select 1 limit percent_of_rows(10) offset 1"),
            (
                "select 1 limit ((1 + f(2)) * 3)% union select 2",
                "select 1 limit percent_of_rows(((1 + f(2)) * 3)) union select 2",
            ),
        ] {
            match known(&tokens_of(text)) {
                Ok(Some(found)) => {
                    let found: String = found.iter().map(ToString::to_string).collect();
                    assert_eq!(plain(&found), plain(shown), "{found}");
                    assert!(known(&tokens_of(&found)).is_ok_and(|again| again.is_none()), "{found}");
                }
                Ok(None) => panic!("{text} is not rewritten"),
                Err(error) => assert_eq!((error.sqlstate(), shown), ("0A000", ""), "{text}: {error}"),
            }
        }
        for text in [
            "select a from t tablesample bernoulli (10)",
            "select a from t join u using (sample)",
            "alter table t alter column c type integer using sample + 1",
            "delete from t using sample where a",
            "select a from t limit 10 % 3",
            "select a from t limit 10",
            "select a from t limit (10) % 3",
            "select a % 2 from t limit 10",
        ] {
            assert!(known(&tokens_of(text)).is_ok_and(|found| found.is_none()), "{text}");
        }
    }

    #[test]
    fn many_samples_are_written_at_once() {
        let items = "(from t using sample 10%), (from t limit 10%), ".repeat(50_000);
        let found = known(&tokens_of(&format!("select {items}1"))).unwrap().unwrap();
        let shares = found.iter().filter(|&token| is_word(Some(token), &["TABLESAMPLE", PERCENT_OF_ROWS]));
        assert_eq!(shares.count(), 100_000);
    }
}
