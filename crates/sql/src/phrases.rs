//! Rewrites phrases that the parser does not know to others that it knows: list comprehensions,
//! `x -> …` for a function of list elements, `FROM t WHERE …` without SELECT, `TABLE t`, `* LIKE 'x%'` for
//! columns by their names, a number of rows in parentheses behind FETCH FIRST, and kinds of FOR UPDATE.

use crate::replaced_tokens::{blank, replace};
use crate::{frame_exclusion, time_literal};
use sqlparser::tokenizer::Token;

/// Comprehensions of a statement that are written out; more are left to be refused.
const COMPREHENSIONS_MAX: usize = 200;

/// Functions that take another one.
const OF_FUNCTIONS: [&str; 18] = [
    "list_transform",
    "array_transform",
    "list_apply",
    "array_apply",
    "apply",
    "list_filter",
    "array_filter",
    "filter",
    "list_reduce",
    "array_reduce",
    "reduce",
    "any_match",
    "array_any_match",
    "list_any_match",
    "array_sort_by",
    "transform",
    "list_sort_by",
    "exists_in_list",
];

/// Returns the tokens in words that are known; `None` where they are known already.
pub fn known(tokens: &[Token]) -> Option<Vec<Token>> {
    let may_be = |token: &Token| {
        *token == Token::Arrow || is_word(Some(token), &["FETCH", "FOR", "INTERVAL", "EXCLUDE"])
    };
    let begins = |place| {
        begins_with_from(tokens, place)
            || is_whole_table(tokens, place)
            || pattern_of_names(tokens, place).is_some()
    };
    if !tokens.iter().any(may_be) && !(0..tokens.len()).any(begins) {
        return None;
    }
    let mut tokens: Vec<Token> = tokens.to_vec();
    let of_intervals = time_literal::known(&mut tokens);
    let of_frames = marked_exclusions(&mut tokens);
    let changed = [
        of_intervals,
        of_frames,
        plain_fetch(&mut tokens),
        plain_locks(&mut tokens),
        whole_tables(&mut tokens),
        named_columns(&mut tokens),
        selects(&mut tokens),
        lambdas(&mut tokens),
        comprehensions(&mut tokens),
    ];
    changed.contains(&true).then_some(tokens)
}

/// Says whether a token is one of some words, without quotes.
pub(crate) fn is_word(token: Option<&Token>, words: &[&str]) -> bool {
    match token {
        Some(Token::Word(found)) => {
            found.quote_style.is_none() && words.iter().any(|word| found.value.eq_ignore_ascii_case(word))
        }
        _ => false,
    }
}

/// Returns the place of the next token behind a place that is not blank, or of the one before it.
pub(crate) fn next(tokens: &[Token], place: usize) -> Option<usize> {
    (place + 1..tokens.len()).find(|place| !matches!(tokens[*place], Token::Whitespace(_)))
}

pub(crate) fn last_before(tokens: &[Token], place: usize) -> Option<usize> {
    (0..place).rev().find(|place| !matches!(tokens[*place], Token::Whitespace(_)))
}

/// Returns the place where the parenthesis or bracket ends that begins at a place.
pub(crate) fn end_of(tokens: &[Token], start: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(start) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(place);
                }
            }
            _ => {}
        }
    }
    None
}

fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

/// Returns `FETCH FIRST (n) ROWS ONLY` without the parentheses.
fn plain_fetch(tokens: &mut [Token]) -> bool {
    let mut changed = false;
    for place in (0..tokens.len()).rev() {
        if !is_word(tokens.get(place), &["FETCH"]) {
            continue;
        }
        let found = next(tokens, place).filter(|first| is_word(tokens.get(*first), &["FIRST", "NEXT"]));
        let open = found.and_then(|first| next(tokens, first));
        let number = open.filter(|open| tokens[*open] == Token::LParen).and_then(|open| next(tokens, open));
        let close = number
            .filter(|number| matches!(tokens[*number], Token::Number(..) | Token::Placeholder(_)))
            .and_then(|number| next(tokens, number));
        if let (Some(open), Some(close)) = (open, close.filter(|close| tokens[*close] == Token::RParen)) {
            tokens[close] = blank();
            tokens[open] = blank();
            changed = true;
        }
    }
    changed
}

/// Returns `FOR NO KEY UPDATE` and `FOR KEY SHARE` as `FOR UPDATE` and `FOR SHARE`, since rows are not locked
/// by their keys, and `FOR UPDATE OF a, b` as two clauses.
fn plain_locks(tokens: &mut Vec<Token>) -> bool {
    let mut written = Vec::new();
    for place in 0..tokens.len() {
        if !is_word(tokens.get(place), &["FOR"]) {
            continue;
        }
        let no = word_behind(tokens, place, &["NO"]);
        let key = word_behind(tokens, no.unwrap_or(place), &["KEY"]);
        let kind = match (no, key) {
            (Some(_), Some(key)) => word_behind(tokens, key, &["UPDATE"]),
            (None, Some(key)) => word_behind(tokens, key, &["SHARE"]),
            (None, None) => word_behind(tokens, place, &["UPDATE", "SHARE"]),
            (Some(_), None) => None,
        };
        let Some(kind) = kind else { continue };
        let of = word_behind(tokens, kind, &["OF"]);
        let commas = of.map_or_else(Vec::new, |of| commas_between_names(tokens, of));
        let clause = [word("FOR"), blank(), tokens[kind].clone(), blank(), word("OF")];
        let clause = || std::iter::once(blank()).chain(clause.clone()).collect();
        written.extend(commas.into_iter().map(|comma| (comma..comma + 1, clause())));
        written.extend([no, key].into_iter().flatten().map(|extra| (extra..extra + 1, vec![blank()])));
    }
    replace(tokens, written)
}

/// Returns the place of the next token behind a place, if it is one of some words.
fn word_behind(tokens: &[Token], place: usize, words: &[&str]) -> Option<usize> {
    next(tokens, place).filter(|found| is_word(tokens.get(*found), words))
}

/// Returns the places of the commas in a list of names behind a place.
fn commas_between_names(tokens: &[Token], place: usize) -> Vec<usize> {
    let mut commas = Vec::new();
    let mut at = next(tokens, place);
    while let Some(name) = at.filter(|name| matches!(tokens[*name], Token::Word(_))) {
        at = next(tokens, name).and_then(|end| match tokens[end] {
            Token::Period => next(tokens, end),
            Token::Comma => {
                commas.push(end);
                next(tokens, end)
            }
            _ => None,
        });
    }
    commas
}

/// Returns `TABLE t` as `SELECT * FROM t`, which it means (ISO/IEC 9075-2, 7.17).
fn whole_tables(tokens: &mut Vec<Token>) -> bool {
    let select = || vec![word("SELECT"), blank(), Token::Mul, blank(), word("FROM")];
    let places = (0..tokens.len()).filter(|place| is_whole_table(tokens, *place));
    let selects = places.map(|place| (place..place + 1, select())).collect();
    replace(tokens, selects)
}

/// Says whether the TABLE at a place is a query: it begins the statement, or stands where a query may,
/// and only what may follow a query follows the name.
fn is_whole_table(tokens: &[Token], place: usize) -> bool {
    if !is_word(tokens.get(place), &["TABLE"]) {
        return false;
    }
    let Some(previous) = last_before(tokens, place) else { return true };
    let begins = |words: &[&str]| {
        let first = tokens.iter().find(|token| !matches!(token, Token::Whitespace(_)));
        is_word(first, words)
    };
    let may_be = match &tokens[previous] {
        Token::LParen => true,
        Token::RParen => begins(&["EXPLAIN", "INSERT", "WITH"]),
        word if is_word(
            Some(word),
            &["AS", "FOR", "UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "NAME"],
        ) =>
        {
            true
        }
        word if begins(&["EXPLAIN"]) => is_word(Some(word), &["EXPLAIN", "ANALYZE", "VERBOSE"]),
        word => begins(&["INSERT"]) && matches!(word, Token::Word(_)) && !is_word(Some(word), &["INTO"]),
    };
    may_be && ends_with_name(tokens, place)
}

/// Says whether a query may end behind the name that follows a place.
fn ends_with_name(tokens: &[Token], place: usize) -> bool {
    const FOLLOWING: [&str; 10] =
        ["ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "UNION", "INTERSECT", "EXCEPT", "WITH", "RETURNING"];
    let mut part = next(tokens, place);
    while let Some(name) = part.filter(|name| matches!(tokens[*name], Token::Word(_))) {
        part = match next(tokens, name) {
            Some(dot) if tokens[dot] == Token::Period => next(tokens, dot),
            Some(end) => {
                return matches!(tokens[end], Token::RParen | Token::SemiColon)
                    || is_word(tokens.get(end), &FOLLOWING)
                    || is_word(tokens.get(end), &["ON"]);
            }
            None => return true,
        };
    }
    false
}

/// Returns `* LIKE 'x%'`, `* NOT GLOB 'x*'` and the like in a SELECT list, and `COLUMNS(c -> c LIKE 'x%')`,
/// as COLUMNS(…) of the regular expression (DuckDB).
fn named_columns(tokens: &mut Vec<Token>) -> bool {
    let mut calls = Vec::new();
    for place in 0..tokens.len() {
        if let Some((last, pattern)) = pattern_of_names(tokens, place) {
            let call = [word("COLUMNS"), Token::LParen].into_iter().chain(pattern).chain([Token::RParen]);
            calls.push((place..last + 1, call.collect()));
        }
    }
    replace(tokens, calls)
}

/// Returns the last token of what says by a pattern which columns are meant, from a place on, and what
/// COLUMNS(…) has in its stead.
fn pattern_of_names(tokens: &[Token], place: usize) -> Option<(usize, Vec<Token>)> {
    match &tokens[place] {
        Token::Mul => pattern_of_star(tokens, place),
        columns if is_word(Some(columns), &["COLUMNS"]) => pattern_of_lambda(tokens, place),
        _ => None,
    }
}

fn pattern_of_star(tokens: &[Token], place: usize) -> Option<(usize, Vec<Token>)> {
    let previous = last_before(tokens, place)?;
    let is_item = tokens[previous] == Token::Comma || is_word(tokens.get(previous), &["SELECT", "DISTINCT"]);
    // The parser knows ILIKE.
    let operator = next(tokens, place).filter(|operator| !is_word(tokens.get(*operator), &["ILIKE"]));
    operator.filter(|_| is_item).and_then(|_| pattern_behind(tokens, place))
}

/// Reads `(c -> c LIKE 'x%')` or `(lambda c : c LIKE 'x%')` behind COLUMNS.
fn pattern_of_lambda(tokens: &[Token], place: usize) -> Option<(usize, Vec<Token>)> {
    let open = next(tokens, place).filter(|open| tokens[*open] == Token::LParen)?;
    let first = next(tokens, open)?;
    let (name, sign) = match is_word(tokens.get(first), &["LAMBDA"]) {
        true => (next(tokens, first)?, Token::Colon),
        false => (first, Token::Arrow),
    };
    let sign = next(tokens, name).filter(|found| tokens[*found] == sign)?;
    let operand = next(tokens, sign).filter(|operand| tokens[*operand] == tokens[name])?;
    let (last, pattern) = pattern_behind(tokens, operand)?;
    let close = next(tokens, last).filter(|close| tokens[*close] == Token::RParen)?;
    matches!(tokens[name], Token::Word(_)).then_some((close, pattern))
}

/// Returns the last token of a pattern behind a place, and the regular expression that it means, with NOT
/// before it where it is denied.
fn pattern_behind(tokens: &[Token], place: usize) -> Option<(usize, Vec<Token>)> {
    let first = next(tokens, place)?;
    let is_denied = is_word(tokens.get(first), &["NOT"]);
    let operator = if is_denied { next(tokens, first)? } else { first };
    let behind = next(tokens, operator)?;
    let (last, letters, flags) = match tokens.get(operator) {
        of if is_word(of, &["LIKE"]) => (behind, Some(('%', '_')), ""),
        of if is_word(of, &["ILIKE"]) => (behind, Some(('%', '_')), "(?i)"),
        of if is_word(of, &["GLOB"]) => (behind, Some(('*', '?')), ""),
        of if is_word(of, &["SIMILAR"]) && is_word(tokens.get(behind), &["TO"]) => {
            (next(tokens, behind)?, None, "")
        }
        _ => return None,
    };
    let Token::SingleQuotedString(pattern) = &tokens[last] else { return None };
    let expression = letters.map_or_else(|| pattern.clone(), |letters| of_letters(pattern, letters));
    let expression = Token::SingleQuotedString(format!("{flags}^(?:{expression})$"));
    Some((last, if is_denied { vec![word("NOT"), blank(), expression] } else { vec![expression] }))
}

/// Returns a pattern, with its letters for any text and for any letter, as a regular expression. The
/// quotation marks in it are doubled, and stay so.
fn of_letters(pattern: &str, (any, one): (char, char)) -> String {
    let mut written = String::new();
    for letter in pattern.chars() {
        match letter {
            _ if letter == any => written.push_str(".*"),
            _ if letter == one => written.push('.'),
            '_' | '\'' => written.push(letter),
            _ if letter.is_ascii_punctuation() => written.extend(['\\', letter]),
            _ => written.push(letter),
        }
    }
    written
}

/// Returns `FROM t WHERE …` with SELECT * before it. Alone, or before a SELECT, the parser knows FROM.
fn selects(tokens: &mut Vec<Token>) -> bool {
    let select = || vec![word("SELECT"), blank(), Token::Mul, blank()];
    let begins = |place: &usize| begins_with_from(tokens, *place) && filters_alone(&tokens[*place..]);
    let selects = (0..tokens.len()).filter(begins).map(|place| (place..place, select())).collect();
    replace(tokens, selects)
}

/// Says whether the FROM at a place is the first word of a query.
fn begins_with_from(tokens: &[Token], place: usize) -> bool {
    is_word(tokens.get(place), &["FROM"])
        && last_before(tokens, place).is_none_or(|open| {
            let is_call = last_before(tokens, open).is_some_and(|name| is_word(tokens.get(name), &["TRIM"]));
            is_word(tokens.get(open), &["AS"]) || tokens[open] == Token::LParen && !is_call
        })
}

/// Says whether a query that begins with FROM has WHERE, and no SELECT.
fn filters_alone(tokens: &[Token]) -> bool {
    let mut depth = 0_usize;
    let mut has_filter = false;
    let mut previous = None;
    for token in tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))) {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => break,
            },
            _ if depth > 0 => {}
            token if is_word(Some(token), &["SELECT"]) => return false,
            token if is_word(Some(token), &["UNION", "INTERSECT", "EXCEPT"]) => break,
            // Another query begins.
            token if is_word(Some(token), &["FROM"]) && is_word(previous, &["AS"]) => break,
            token if is_word(Some(token), &["WHERE"]) => has_filter = true,
            _ => {}
        }
        previous = Some(token);
    }
    has_filter
}

/// Leaves out EXCLUDE NO OTHERS, which is what a frame without it means, and puts a mark among the keys of
/// the window in the place of other rows that are left out.
fn marked_exclusions(tokens: &mut Vec<Token>) -> bool {
    let mut around: Vec<Window> = Vec::new();
    let mut marks = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => around.push(Window::default()),
            Token::RParen | Token::RBracket | Token::RBrace => {
                around.pop();
            }
            Token::Word(_) => {
                let Some(window) = around.last_mut() else { continue };
                window.read(tokens, place);
                if is_word(Some(token), &["EXCLUDE"])
                    && let Some((first, last)) = exclusion(tokens, place)
                    && let Some((frame, is_ordered)) = window.frame
                {
                    marks.push((place..last + 1, vec![blank()]));
                    let mark = match &tokens[first] {
                        Token::Word(word) => frame_exclusion::mark(&word.value),
                        _ => None,
                    };
                    let before = match is_ordered {
                        true => vec![Token::Comma],
                        false => vec![word("ORDER"), blank(), word("BY"), blank()],
                    };
                    marks.extend(mark.map(|mark| {
                        (frame..frame, before.into_iter().chain([mark, blank()]).collect::<Vec<_>>())
                    }));
                }
            }
            _ => {}
        }
    }
    replace(tokens, marks)
}

/// What has been read within brackets, which may be a window.
#[derive(Default)]
struct Window {
    is_ordered: bool,
    /// Where its frame begins, and whether ORDER BY is before that.
    frame: Option<(usize, bool)>,
}

impl Window {
    fn read(&mut self, tokens: &[Token], place: usize) {
        match tokens.get(place) {
            word if is_word(word, &["ROWS", "RANGE", "GROUPS"]) => {
                self.frame = Some((place, self.is_ordered));
            }
            word if is_word(word, &["ORDER"]) => {
                self.is_ordered |= next(tokens, place).is_some_and(|by| is_word(tokens.get(by), &["BY"]));
            }
            _ => {}
        }
    }
}

/// Returns the first and the last word behind an EXCLUDE that ends a window frame; `None` for that of
/// a SELECT list.
fn exclusion(tokens: &[Token], place: usize) -> Option<(usize, usize)> {
    let first = next(tokens, place)?;
    let last = match tokens.get(first) {
        word if is_word(word, &["GROUP", "TIES"]) => first,
        word if is_word(word, &["NO"]) => {
            next(tokens, first).filter(|last| is_word(tokens.get(*last), &["OTHERS"]))?
        }
        word if is_word(word, &["CURRENT"]) => {
            next(tokens, first).filter(|last| is_word(tokens.get(*last), &["ROW"]))?
        }
        _ => return None,
    };
    let ends = next(tokens, last).is_some_and(|end| tokens[end] == Token::RParen);
    let bound = last_before(tokens, place).filter(|_| ends)?;
    is_word(tokens.get(bound), &["PRECEDING", "FOLLOWING", "ROW"]).then_some((first, last))
}

/// Returns `x -> …` and `(x, y) -> …` as `lambda x, y : …`, among the arguments of functions that
/// take functions, and in COLUMNS.
fn lambdas(tokens: &mut Vec<Token>) -> bool {
    // For each open parenthesis what is before parameters, if it is that of such a function.
    let mut open = Vec::new();
    let mut found = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => {
                open.push(match last_before(tokens, place).and_then(|name| tokens.get(name)) {
                    name if is_word(name, &OF_FUNCTIONS) => Some(Token::Comma),
                    name if is_word(name, &["COLUMNS"]) => Some(Token::LParen),
                    _ => None,
                });
            }
            Token::LBracket | Token::LBrace => open.push(None),
            Token::RParen | Token::RBracket | Token::RBrace => {
                open.pop();
            }
            Token::Arrow => {
                let Some(Some(wanted)) = open.last() else { continue };
                let start = last_before(tokens, place).and_then(|last| parameters(tokens, last));
                let is_argument = |start: &usize| {
                    last_before(tokens, *start).is_some_and(|before| tokens[before] == *wanted)
                };
                found.extend(start.filter(is_argument).map(|start| (start, place)));
            }
            _ => {}
        }
    }
    let lambda = |(start, arrow): (usize, usize)| {
        let names = tokens[start..arrow].iter();
        let names = names.filter(|token| !matches!(token, Token::LParen | Token::RParen)).cloned();
        let written = [word("lambda"), blank()].into_iter().chain(names).chain([Token::Colon]);
        (start..arrow + 1, written.collect())
    };
    let lambdas = found.into_iter().map(lambda).collect();
    replace(tokens, lambdas)
}

/// Returns where the parameters begin that end at a place.
fn parameters(tokens: &[Token], last: usize) -> Option<usize> {
    match &tokens[last] {
        Token::Word(_) => Some(last),
        Token::RParen => {
            let start = (0..last).rev().find(|place| {
                !matches!(tokens[*place], Token::Whitespace(_) | Token::Word(_) | Token::Comma)
            })?;
            (tokens[start] == Token::LParen).then_some(start)
        }
        _ => None,
    }
}

/// Returns `[value FOR x IN list IF condition]` as functions of the list, from the inside out.
fn comprehensions(tokens: &mut Vec<Token>) -> bool {
    let mut count = 0;
    for start in (0..tokens.len()).rev() {
        if count < COMPREHENSIONS_MAX
            && tokens[start] == Token::LBracket
            && let Some(end) = end_of(tokens, start)
            && let Some(call) = comprehension(&tokens[start + 1..end])
        {
            tokens.splice(start..=end, call);
            count += 1;
        }
    }
    count > 0
}

/// Returns what stands for a comprehension, of which the brackets are left out.
fn comprehension(inside: &[Token]) -> Option<Vec<Token>> {
    let at = |words: &[&str], from: usize| {
        let mut depth = 0_usize;
        for (place, token) in inside.iter().enumerate() {
            match token {
                Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
                Token::RParen | Token::RBracket | Token::RBrace => depth = depth.checked_sub(1)?,
                // CASE has no IF, and EXTRACT its FOR in parentheses.
                _ if depth == 0 && place >= from && is_word(Some(token), words) => return Some(place),
                _ => {}
            }
        }
        None
    };
    let has = at(&["FOR"], 1)?;
    let within = at(&["IN"], has)?;
    let condition = at(&["IF"], within);
    let names = &inside[has + 1..within];
    if !names.iter().all(|token| matches!(token, Token::Word(_) | Token::Comma | Token::Whitespace(_))) {
        return None;
    }
    let lambda = |body: &[Token]| {
        let head = [word("lambda"), blank()].into_iter().chain(names.iter().cloned());
        let body = [Token::Colon, blank(), Token::LParen].into_iter().chain(body.iter().cloned());
        head.chain(body).chain([Token::RParen]).collect::<Vec<_>>()
    };
    let call = |name: &str, list: Vec<Token>, function: Vec<Token>| {
        let head = [word(name), Token::LParen].into_iter().chain(list).chain([Token::Comma, blank()]);
        head.chain(function).chain([Token::RParen]).collect::<Vec<_>>()
    };
    let list = &inside[within + 1..condition.unwrap_or(inside.len())];
    let list = [Token::LParen].into_iter().chain(list.iter().cloned()).chain([Token::RParen]).collect();
    let list = match condition {
        Some(condition) => call("list_filter", list, lambda(&inside[condition + 1..])),
        None => list,
    };
    Some(call("list_transform", list, lambda(&inside[..has])))
}

#[cfg(test)]
mod tests {
    use super::{is_word, known};
    use crate::tokenized::tokens_of;

    #[test]
    fn phrases_are_written_in_others() {
        let cases = [
            ("fetch first (2) rows only", "fetch first  2  rows only"),
            ("over (rows current row exclude no others)", "over (rows current row)"),
            ("list_transform(l, x -> x + 1)", "list_transform(l, lambda x  : x + 1)"),
            ("select columns(c -> length(c) > 2) from t", "select columns(lambda c  : length(c) > 2) from t"),
            ("list_reduce(l, (x, y) -> x + y)", "list_reduce(l, lambda x, y  : x + y)"),
            (
                "list_filter(l, x -> list_any_match(x, y -> y > 1))",
                "list_filter(l, lambda x  : list_any_match(x, lambda y  : y > 1))",
            ),
            ("from t where a > 1", "SELECT * from t where a > 1"),
            (
                "select * like 'a_%', * glob 'x.*' from t",
                "select COLUMNS('^(?:a..*)$'), COLUMNS('^(?:x\\..*)$') from t",
            ),
            ("select 1, * similar to '(a|b)'", "select 1, COLUMNS('^(?:(a|b))$')"),
            ("select * not like 'a%' from t", "select COLUMNS(NOT '^(?:a.*)$') from t"),
            ("select columns(c -> c like 'a%') from t", "select COLUMNS('^(?:a.*)$') from t"),
            (
                "select max(columns(lambda c : c not ilike 'a_')) from t",
                "select max(COLUMNS(NOT '(?i)^(?:a.)$')) from t",
            ),
            ("table t order by a", "SELECT * FROM t order by a"),
            ("create view v as table s.t", "create view v as SELECT * FROM s.t"),
            ("(table t) union all table \"T\"", "(SELECT * FROM t) union all SELECT * FROM \"T\""),
            (
                "insert into t (a) table u on conflict do nothing",
                "insert into t (a) SELECT * FROM u on conflict do nothing",
            ),
            ("insert into t table u returning a", "insert into t SELECT * FROM u returning a"),
            ("explain analyze table t", "explain analyze SELECT * FROM t"),
            ("with w as (table t) table w", "with w as (SELECT * FROM t) SELECT * FROM w"),
            (
                "select * from (from t where (select true)), u where exists (from u)",
                "select * from (SELECT * from t where (select true)), u where exists (from u)",
            ),
            ("from t where a union select 1", "SELECT * from t where a union select 1"),
            ("[x * 2 for x in l]", "list_transform(( l),lambda x : (x * 2 ))"),
            (
                "[x for x in l if x > 1]",
                "list_transform(list_filter(( l ),lambda x : ( x > 1)),lambda x : (x ))",
            ),
        ];
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        for (text, shown) in cases {
            let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(plain(&found), plain(shown), "{found}");
        }
        for text in [
            "from t",
            "from t select a where b",
            "create table t (a int)",
            "select a * b like 'x', 2 * c glob 'x' from t",
            "select * ilike 'x', columns('a') from t",
            "select * from t where a like 'x'",
            "select 1 as table from t order by a",
            "select 1 as table union all select 2",
            "insert into table t values (1)",
            "drop table t; alter table t add column a int; analyze table t",
            "trim(from a) from t where b",
            "j -> 'a'",
            "f(a, b -> 'x')",
            "[1, 2]",
            "substring(a from 1 for 2)",
            "fetch first 2 rows only",
        ] {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn many_phrases_are_written_at_once() {
        let items = "* like 'a%', (table t), (from t where a), list_transform(l, x -> x), ".repeat(25_000);
        let found = known(&tokens_of(&format!("select {items}1"))).unwrap();
        let count = |word: &str| found.iter().filter(|&token| is_word(Some(token), &[word])).count();
        assert_eq!(["COLUMNS", "SELECT", "lambda"].map(count), [25_000, 50_001, 25_000]);
        let frames = "sum(a) over (rows 1 preceding exclude ties), ".repeat(25_000);
        let found = known(&tokens_of(&format!("select {frames}1"))).unwrap();
        assert_eq!(found.iter().filter(|&token| is_word(Some(token), &["ORDER"])).count(), 25_000);
        for text in ["1 as from, ", "row exclude ties ) "] {
            assert!(known(&tokens_of(&format!("select [{}1]", text.repeat(100_000)))).is_none(), "{text}");
        }
    }

    #[test]
    fn kinds_of_locks_are_those_that_are_known() {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        for (text, shown) in [
            ("from t for no key update", "from t for update"),
            ("from t for key share skip locked", "from t for share skip locked"),
            (
                "from t, s.u for no key update of t, u nowait",
                "from t, s.u for update of t FOR update OF u nowait",
            ),
        ] {
            let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(plain(&found), plain(shown), "{found}");
        }
        for text in ["from t for update of t nowait", "select 1 for no reason"] {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn frames_that_leave_rows_out_are_marked() {
        let plain = |text: &str| text.split_whitespace().collect::<String>();
        for (text, shown) in [
            (
                "over (order by (a) rows 1 preceding exclude current row)",
                "over (order by (a) ,\"window frame EXCLUDE CURRENT ROW\" rows 1 preceding )",
            ),
            (
                "w as (partition by f(order by b) range 1 preceding exclude /* a */ ties)",
                "w as (partition by f(order by b) ORDER BY \"window frame EXCLUDE TIES\" range 1 preceding )",
            ),
            ("over (rows 1 preceding exclude no others)", "over (rows 1 preceding )"),
        ] {
            let found: String = known(&tokens_of(text)).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(plain(&found), plain(shown), "{found}");
        }
        for text in ["(select * exclude ties)", "select * exclude (a), b"] {
            assert!(known(&tokens_of(text)).is_none(), "{text}");
        }
    }
}
