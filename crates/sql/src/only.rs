//! Words of PostgreSQL that say nothing more here: ONLY before a table, USING with an operator in ORDER BY,
//! and the condition of an index in ON CONFLICT. And WHERE, which DuckDB may leave out of FILTER.

use crate::phrases::{end_of, is_word, last_before, next};
use crate::replaced_tokens::{blank, replace};
use crate::table_as::last_of_name;
use sqlparser::tokenizer::Token;
use std::ops::Range;

/// Returns the tokens without such words; `None` where there are none.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    if !tokens.iter().any(|token| is_word(Some(token), &["ONLY", "USING", "CONFLICT", "FILTER"])) {
        return None;
    }
    let mut written = Vec::new();
    without_only(tokens, &mut written);
    directions(tokens, &mut written);
    without_conditions(tokens, &mut written);
    filters(tokens, &mut written);
    if written.is_empty() {
        return None;
    }
    let mut known = tokens.to_vec();
    replace(&mut known, written).then_some(known)
}

/// What stands before ONLY and a table.
const BEFORE_ONLY: [&str; 6] = ["FROM", "JOIN", "UPDATE", "TRUNCATE", "TABLE", "INTO"];

/// What may follow a table that is called `only`: no other name.
const BEHIND_TABLE: &str = "add alter anti as asof cascade continue cross default detach disable drop enable except fetch for \
    from full group having inner intersect is join left like limit natural offset on order outer \
    overriding owner partition pivot positional qualify rename replicated restart restrict returning \
    right select semi set tablesample to union unpivot using values when where window with";

fn may_follow_table(word: &str) -> bool {
    BEHIND_TABLE.split(' ').any(|known| word.eq_ignore_ascii_case(known))
}

/// Leaves out ONLY before a table, as in `FROM ONLY t` and `UPDATE ONLY t`: no table inherits from another.
fn without_only(tokens: &[Token], written: &mut Vec<(Range<usize>, Vec<Token>)>) {
    for place in (0..tokens.len()).filter(|place| is_word(tokens.get(*place), &["ONLY"])) {
        let before = last_before(tokens, place).and_then(|before| tokens.get(before));
        if !is_word(before, &BEFORE_ONLY) {
            continue;
        }
        let Some(table) = next(tokens, place) else { continue };
        match &tokens[table] {
            Token::Word(name) if name.quote_style.is_some() || !may_follow_table(&name.value) => {
                written.push((place..place + 1, vec![blank()]));
            }
            Token::LParen if is_word(before, &["FROM", "JOIN"]) => {
                let last = next(tokens, table).and_then(|name| last_of_name(tokens, name));
                let close = last.and_then(|last| next(tokens, last));
                if let Some(close) = close.filter(|close| tokens[*close] == Token::RParen) {
                    written.push((place..table + 1, vec![blank()]));
                    written.push((close..close + 1, vec![blank()]));
                }
            }
            _ => {}
        }
    }
}

/// Returns `ORDER BY x USING <` and `USING >` as ASC and DESC.
fn directions(tokens: &[Token], written: &mut Vec<(Range<usize>, Vec<Token>)>) {
    for place in (0..tokens.len()).filter(|place| is_word(tokens.get(*place), &["USING"])) {
        let Some(operator) = next(tokens, place) else { continue };
        let direction = match tokens[operator] {
            Token::Lt => "ASC",
            Token::Gt => "DESC",
            _ => continue,
        };
        written.push((place..operator + 1, vec![Token::make_word(direction, None)]));
    }
}

/// Leaves `WHERE …` out of `ON CONFLICT (a) WHERE … DO`: a key holds for all rows, and so for those.
fn without_conditions(tokens: &[Token], written: &mut Vec<(Range<usize>, Vec<Token>)>) {
    for place in (0..tokens.len()).filter(|place| is_word(tokens.get(*place), &["CONFLICT"])) {
        let open = next(tokens, place).filter(|open| tokens[*open] == Token::LParen);
        let condition = open.and_then(|open| next(tokens, end_of(tokens, open)?));
        let Some(first) = condition.filter(|first| is_word(tokens.get(*first), &["WHERE"])) else { continue };
        let mut at = Some(first);
        while let Some(part) = at.filter(|part| !is_word(tokens.get(*part), &["DO", "CONFLICT"])) {
            let end = if tokens[part] == Token::LParen { end_of(tokens, part) } else { Some(part) };
            at = end.and_then(|end| next(tokens, end));
        }
        if let Some(action) = at.filter(|action| is_word(tokens.get(*action), &["DO"])) {
            written.push((first..action, vec![blank()]));
        }
    }
}

/// Returns `FILTER (condition)` behind a call as `FILTER (WHERE condition)`. Several names in the parentheses
/// are those of columns.
fn filters(tokens: &[Token], written: &mut Vec<(Range<usize>, Vec<Token>)>) {
    for place in (0..tokens.len()).filter(|place| is_word(tokens.get(*place), &["FILTER"])) {
        let is_behind_call = last_before(tokens, place).is_some_and(|before| tokens[before] == Token::RParen);
        let open = next(tokens, place).filter(|open| is_behind_call && tokens[*open] == Token::LParen);
        let Some((open, end)) = open.and_then(|open| Some((open, end_of(tokens, open)?))) else { continue };
        let inside = &tokens[open + 1..end];
        let are_names = inside.contains(&Token::Comma)
            && inside
                .iter()
                .all(|token| matches!(token, Token::Word(_) | Token::Comma | Token::Whitespace(_)));
        let has_where = next(tokens, open).is_some_and(|first| is_word(tokens.get(first), &["WHERE"]));
        if !are_names && !has_where {
            written.push((open + 1..open + 1, vec![Token::make_word("WHERE", None), blank()]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::known;
    use crate::tokenized::tokens_of;

    #[test]
    fn words_that_say_nothing_are_left_out() {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        for (text, shown) in [
            ("update only s.t set a = 1", "update s.t set a = 1"),
            ("select * from only t join only ( s.u ) on true", "select * from t join s.u on true"),
            ("merge into only \"Where\" as t using u", "merge into \"Where\" as t using u"),
            ("order by a using >, b using < nulls last", "order by a DESC, b ASC nulls last"),
            (
                "on conflict (a, f(b)) where (a in (1, 2)) and b do nothing",
                "on conflict (a, f(b)) do nothing",
            ),
            (
                "sum(a) filter (a > 1), count(*) filter (b)",
                "sum(a) filter (WHERE a > 1), count(*) filter (WHERE b)",
            ),
        ] {
            let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(plain(&found), plain(shown), "{found}");
        }
        for text in [
            "select only from only where only.a",
            "insert into only (a) values (1)",
            "update only set a = 1",
            "fetch first 2 rows only",
            "select * from t join u using (a)",
            "on conflict (a) do update set a = 1 where a = 2",
            "on conflict do nothing",
            "sum(a) filter (where a > 1), filter(l, f), filter (a > 1)",
            "from f(1) filter (a, b)",
        ] {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }
}
