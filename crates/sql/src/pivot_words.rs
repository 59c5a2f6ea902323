//! PIVOT and UNPIVOT as DuckDB writes them, `PIVOT t ON c USING sum(x) GROUP BY y` and
//! `UNPIVOT t ON a, b INTO NAME n VALUE v`, in the words that the parser knows behind a relation of FROM.

use crate::phrases::{end_of, is_word, last_before, next};
use crate::pivot::{GROUPS, VALUES};
use sqlparser::tokenizer::{Token, Whitespace};

/// What ends the clauses of a PIVOT, and is of the query around it.
const BEHIND: [&str; 8] = ["ORDER", "LIMIT", "OFFSET", "FETCH", "UNION", "INTERSECT", "EXCEPT", "RETURNING"];

/// Those of a statement that are written out, each of which moves all behind it; more are left to be refused.
const WRITTEN_MAX: usize = 1000;

/// Words that no relation has that is pivoted.
const NO_RELATION: [&str; 6] = ["JOIN", "SELECT", "WHERE", "FROM", "SET", "VALUES"];

/// Returns the tokens in words that are known; `None` where they are known already.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    let is_one = |token: &Token| is_word(Some(token), &["PIVOT", "UNPIVOT"]);
    if !tokens.iter().any(is_one) {
        return None;
    }
    let mut known = tokens.to_vec();
    let mut count = 0;
    for place in (0..tokens.len()).rev().filter(|place| is_one(&tokens[*place])) {
        let written = match begins_query(&known, place) {
            true if is_word(known.get(place), &["PIVOT"]) => pivot(&known, place),
            true => unpivot(&known, place),
            false => grouped(&known, place),
        };
        if let Some((written, end)) = written {
            if count == WRITTEN_MAX {
                break;
            }
            drop(known.splice(place..end, written));
            count += 1;
        }
    }
    (count > 0).then_some(known)
}

/// Says whether a word stands where a query may begin.
fn begins_query(tokens: &[Token], place: usize) -> bool {
    let Some(previous) = last_before(tokens, place) else { return true };
    match &tokens[previous] {
        Token::LParen => true,
        // What is in parentheses behind the name of a relation is the other form.
        Token::RParen => {
            let first = tokens.iter().find(|token| !matches!(token, Token::Whitespace(_)));
            let is_group = next(tokens, place).is_some_and(|next| tokens[next] == Token::LParen);
            is_word(first, &["WITH"]) && !is_group
        }
        word => is_word(Some(word), &["AS", "EXPLAIN", "ANALYZE", "VERBOSE"]),
    }
}

/// Returns the place of the first of some words from a place on, or of what ends the query that is there.
fn find(tokens: &[Token], start: usize, words: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return place,
            },
            Token::SemiColon if depth == 0 => return place,
            token if depth == 0 && is_word(Some(token), words) => return place,
            _ => {}
        }
    }
    tokens.len()
}

/// Returns the parts of a list.
fn items(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0_usize;
    let parts = tokens.split(|token| {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && *token == Token::Comma
    });
    parts.collect()
}

fn is_blank(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| matches!(token, Token::Whitespace(_)))
}

/// Tokens that are written one behind the other.
#[derive(Default)]
struct Written(Vec<Token>);

impl Written {
    /// Writes words and signs that are apart from each other.
    fn words(mut self, words: &str) -> Self {
        for word in words.split(' ') {
            let token = match word {
                "(" => Token::LParen,
                ")" => Token::RParen,
                "," => Token::Comma,
                "*" => Token::Mul,
                word => Token::make_word(word, None),
            };
            self.0.extend([token, Token::Whitespace(Whitespace::Space)]);
        }
        self
    }

    /// Writes a comma behind so many others.
    fn comma_behind(self, others: usize) -> Self {
        if others > 0 { self.words(",") } else { self }
    }

    /// Writes what was written, in a line of its own: a comment may end it.
    fn tokens(mut self, tokens: &[Token]) -> Self {
        self.0.extend_from_slice(tokens);
        self.0.push(Token::Whitespace(Whitespace::Newline));
        self
    }
}

/// Returns the relation behind a word, and the place of ON behind it.
fn relation(tokens: &[Token], place: usize) -> Option<(&[Token], usize)> {
    let on = find(tokens, place + 1, &["ON", "USING", "GROUP", "INTO"]);
    let relation = tokens.get(place + 1..on)?;
    let is_refused = relation.contains(&Token::Comma) && items(relation).len() > 1
        || find(tokens, place + 1, &NO_RELATION) < on
        || is_blank(relation);
    (!is_refused && is_word(tokens.get(on), &["ON"])).then_some((relation, on))
}

/// Reads `PIVOT t ON c IN (…) USING … GROUP BY …`, and returns where it ends.
fn pivot(tokens: &[Token], place: usize) -> Option<(Vec<Token>, usize)> {
    let clauses: Vec<&str> = ["USING", "GROUP"].into_iter().chain(BEHIND).collect();
    let (relation, on) = relation(tokens, place)?;
    let mut end = find(tokens, on + 1, &clauses);
    let columns = items(&tokens[on + 1..end]).into_iter().map(column).collect::<Option<Vec<_>>>()?;
    let mut written = Written::default().words("SELECT * FROM").tokens(relation).words("PIVOT (");
    if is_word(tokens.get(end), &["USING"]) {
        let start = end + 1;
        end = find(tokens, start, &clauses);
        written = written.tokens(&tokens[start..end]);
    } else {
        written = written.words("count ( * )");
    }
    if is_word(tokens.get(end), &["GROUP"]) {
        let by = next(tokens, end).filter(|by| is_word(tokens.get(*by), &["BY"]))?;
        end = find(tokens, by, &BEHIND);
        written = written.words(&format!(", {GROUPS} (")).tokens(&tokens[by + 1..end]).words(")");
    }
    written = written.words("FOR (");
    for (number, (column, _)) in columns.iter().enumerate() {
        written = written.comma_behind(number).tokens(column);
    }
    written = written.words(") IN (");
    for (number, (_, values)) in columns.iter().enumerate() {
        written = written.comma_behind(number);
        written = match (columns.len(), values) {
            (1, Some(values)) => written.tokens(values),
            (1, None) => written.words("ANY"),
            (_, Some(values)) => written.words(&format!("{VALUES} (")).tokens(values).words(")"),
            (_, None) => written.words(&format!("{VALUES} ( * )")),
        };
    }
    Some((written.words(") )").0, end))
}

/// Returns what one of the columns of PIVOT is, and the values that are given for it.
fn column(item: &[Token]) -> Option<(&[Token], Option<&[Token]>)> {
    let within = find(item, 0, &["IN"]);
    let column = &item[..within];
    if is_blank(column) {
        return None;
    }
    if within == item.len() {
        return Some((column, None));
    }
    let open = next(item, within).filter(|open| item[*open] == Token::LParen)?;
    let close = end_of(item, open)?;
    is_blank(&item[close + 1..]).then_some((column, Some(&item[open + 1..close])))
}

/// Reads `UNPIVOT t ON a, b INTO NAME n VALUE v`, and returns where it ends.
fn unpivot(tokens: &[Token], place: usize) -> Option<(Vec<Token>, usize)> {
    let (mut relation, on) = relation(tokens, place)?;
    let nulls = last_before(tokens, on).filter(|nulls| is_word(tokens.get(*nulls), &["NULLS"]));
    let include = nulls
        .and_then(|nulls| last_before(tokens, nulls))
        .filter(|include| is_word(tokens.get(*include), &["INCLUDE"]));
    if let Some(include) = include {
        relation = tokens.get(place + 1..include)?;
    }
    let clauses: Vec<&str> = ["INTO"].into_iter().chain(BEHIND).collect();
    let mut end = find(tokens, on + 1, &clauses);
    let columns = items(&tokens[on + 1..end]);
    let (mut name, mut value) = (Token::make_word("name", None), Token::make_word("value", None));
    if is_word(tokens.get(end), &["INTO"]) {
        let word = next(tokens, end).filter(|word| is_word(tokens.get(*word), &["NAME"]))?;
        let named = next(tokens, word)?;
        let word = next(tokens, named).filter(|word| is_word(tokens.get(*word), &["VALUE"]))?;
        let valued = next(tokens, word)?;
        (name, value) = (tokens[named].clone(), tokens[valued].clone());
        end = next(tokens, valued).unwrap_or(tokens.len());
    }
    let includes = if include.is_some() { "UNPIVOT INCLUDE NULLS (" } else { "UNPIVOT (" };
    let mut written = Written::default().words("SELECT * FROM").tokens(relation).words(includes);
    written = written.tokens(&[value]).words("FOR").tokens(&[name]).words("IN (");
    for (number, column) in columns.iter().enumerate() {
        written = written.comma_behind(number);
        let first = column.iter().find(|token| !matches!(token, Token::Whitespace(_)))?;
        written = match first {
            Token::Mul => written.words("COLUMNS (").tokens(column).words(")"),
            _ => written.tokens(column),
        };
    }
    Some((written.words(") )").0, end))
}

/// Reads `PIVOT (… FOR … IN (…) GROUP BY …)` behind a relation: the groups become a call before FOR.
fn grouped(tokens: &[Token], place: usize) -> Option<(Vec<Token>, usize)> {
    let open = next(tokens, place).filter(|open| tokens[*open] == Token::LParen)?;
    let close = end_of(tokens, open)?;
    let values = find(tokens, open + 1, &["FOR"]);
    let group = find(tokens, values + 1, &["GROUP"]);
    let by = next(tokens, group).filter(|by| is_word(tokens.get(*by), &["BY"]))?;
    if group >= close || !is_word(tokens.get(place), &["PIVOT"]) {
        return None;
    }
    let written = Written::default().words("PIVOT (").tokens(&tokens[open + 1..values]);
    let written = written.words(&format!(", {GROUPS} (")).tokens(&tokens[by + 1..close]).words(")");
    Some((written.tokens(&tokens[values..group]).words(")").0, close + 1))
}

#[cfg(test)]
mod tests {
    use super::known;
    use crate::tokenized::tokens_of;

    fn plain(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn queries_are_written_behind_their_relations() {
        for (text, shown) in [
            (
                "pivot t on c in (1, 2) using sum(x) as s group by y order by y",
                "SELECT * FROM t PIVOT ( sum(x) as s , pivot_groups ( y ) FOR ( c ) IN ( 1, 2 ) ) order by y",
            ),
            ("pivot t on c", "SELECT * FROM t PIVOT ( count ( * ) FOR ( c ) IN ( ANY ) )"),
            (
                "with w as (pivot (select 1) on a in (1), b) from w",
                "with w as (SELECT * FROM (select 1) PIVOT ( count ( * ) FOR ( a , b ) \
                 IN ( pivot_values ( 1 ) , pivot_values ( * ) ) ) ) from w",
            ),
            (
                "unpivot t include nulls on a, * exclude (b) into name n value v limit 1",
                "SELECT * FROM t UNPIVOT INCLUDE NULLS ( v FOR n IN ( a , COLUMNS ( * exclude (b) ) ) ) limit 1",
            ),
            (
                "from t pivot (sum(x) for c in (1, 2) group by y) p",
                "from t PIVOT ( sum(x) , pivot_groups ( y ) for c in (1, 2) ) p",
            ),
        ] {
            let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(plain(&found), plain(shown), "{text}");
        }
        let many = vec!["(pivot t on c)"; super::WRITTEN_MAX + 1].join(", ");
        let found = known(&tokens_of(&format!("select {many}"))).unwrap();
        let left = found.split(|token| token.to_string() == "SELECT").next().unwrap();
        assert_eq!(left.iter().filter(|token| token.to_string() == "pivot").count(), 1);
        for text in [
            "select pivot from t",
            "from t as pivot join u on true",
            "from t pivot (sum(x) for c in (1, 2))",
            "select * from (pivot join u on a = b)",
            "from t unpivot (v for n in (a, b))",
        ] {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }
}
