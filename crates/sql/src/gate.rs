//! Limits how complex a statement may be. All code that walks an expression or a plan recurses:
//! here, in the parser and in DataFusion. A stack overflow ends the whole process, and some walks
//! take time or memory that doubles with every level.
//!
//! The limits apply to the tokens alone, before anything is built from them: see [`check`]. They
//! are documented in docs/decisions/0013.

use hypostyle_error::complexity::too_complex;
use hypostyle_types::Result;
use sqlparser::tokenizer::{Token, Word};

/// Words, values and signs of one statement: each becomes hundreds of bytes.
const PARTS_MAX: usize = 500_000;

/// Tokens between two commas, with those of the deepest brackets among them. Each of them may be
/// one more level for whoever recurses, so that nothing that is not known about the grammar has to
/// be.
const PATH_MAX: usize = 40_000;

/// Operators and brackets within each other, operators of one precedence in a row among them; and
/// queries put together by UNION and the like, and relations of one FROM. The time to plan them
/// grows faster than their number.
const OPERATORS_MAX: usize = 2000;
const QUERIES_MAX: usize = 500;

/// The largest nesting of operators that are planned one within the other: CASE, comparisons, casts
/// and the like. Operators of numbers and texts do not count, because a chain of them is one call.
const LEVELS_MAX: usize = 400;

/// Queries within each other; and functions, lists and the like, for which DataFusion takes time
/// that grows with the fourth power of their number.
const SUBQUERIES_MAX: usize = 32;
const FUNCTIONS_MAX: usize = 100;

/// Operators within each other of those that are computed from copies of their operands, and of
/// those whose type is found by finding that of an operand twice: a CASE or a lambda within a
/// function or operator within another one.
const DOUBLINGS_MAX: usize = 12;

/// Items of one list, but for rows of VALUES, lists of IN and arrays. A table has no more columns.
const ITEMS_MAX: usize = 16_384;

/// Stack that a token of a path takes at most, and the bounds of a stack for a statement: the
/// larger one has room for the longest path.
const TOKEN_STACK_BYTES: usize = 6 << 10;
const STACK_BYTES_MIN: usize = 16 << 20;
pub const STACK_BYTES_MAX: usize = 256 << 20;

/// Longer statements run on a stack of their own: they may nest deeper than a caller's thread has
/// room for. Shorter ones do where a thread has less than they may need; code that is not optimised
/// needs more.
const SHORT_BYTES: usize = 512;
const SHORT_STACK_BYTES: usize = if cfg!(debug_assertions) { 4 << 20 } else { 1 << 20 };

/// Stack of a short query of one stored table, or of none, and of each part of its text. Signs before
/// operands take most; functions within each other take a third of it.
const QUERY_STACK_BYTES: usize = 384 << 10;
const PART_STACK_BYTES: usize = 16 << 10;

const SET_OPERATORS: [&str; 3] = ["UNION", "EXCEPT", "INTERSECT"];

/// Words between operands: those between conditions, and others.
const CONNECTIVES: [&str; 2] = ["AND", "OR"];
const OPERATORS: [&str; 16] = [
    "NOT", "IS", "IN", "LIKE", "ILIKE", "GLOB", "SIMILAR", "REGEXP", "RLIKE", "BETWEEN", "COLLATE", "DIV",
    "XOR", "AT", "INTERVAL", "MEMBER",
];

/// Words that begin another expression.
const BEGINNINGS: [&str; 13] = [
    "SELECT", "FROM", "WHERE", "HAVING", "GROUP", "ORDER", "ON", "WHEN", "THEN", "ELSE", "VALUES", "SET",
    "LIMIT",
];

/// Functions and operators that are computed from copies of their operands, and how often these double:
/// a function that stands for another one and a CASE around copies doubles more than once.
pub const DOUBLING_FUNCTIONS: [(&str, usize); 18] = [
    ("COALESCE", 1),
    ("NVL", 1),
    ("NVL2", 1),
    ("IFNULL", 1),
    ("ARRAY_SORT", 1),
    ("ARRAY_ZIP", 1),
    ("DATE_ADD", 1),
    ("DATE_SUBTRACT", 1),
    ("DATE_TRUNC", 1),
    ("EVEN", 1),
    ("FMOD", 1),
    ("LIST_SORT", 1),
    ("LIST_ZIP", 1),
    ("ORD", 2),
    ("PG_INPUT_IS_VALID", 1),
    ("REGEXP_EXTRACT", 3),
    ("UNICODE", 2),
    ("YEARWEEK", 1),
];
const DOUBLING_OPERATORS: [&str; 3] = ["BETWEEN", "OVERLAPS", "SYMMETRIC"];

/// Comparisons with all values of a list or query, each of which is more than one of the above, and
/// how much more.
const QUANTIFIERS: [&str; 3] = ["ALL", "ANY", "SOME"];
const QUANTIFIER_DOUBLINGS: usize = 4;

/// The words behind a relation that make another one of it.
const OF_RELATIONS: [&str; 3] = ["JOIN", "PIVOT", "UNPIVOT"];

/// Lists before which these words stand may be as long as a statement.
const OF_LONG_LISTS: [&str; 2] = ["IN", "ARRAY"];

/// Looks whether a text has few enough parts to be made tokens of.
///
/// # Errors
/// `Syntax` (54001) when it has too many.
pub fn check_size(sql: &str) -> Result<()> {
    if sql.len() <= PARTS_MAX || parts(sql) <= PARTS_MAX {
        return Ok(());
    }
    Err(too_complex(format!(
        "it has more than {PARTS_MAX} words, values and signs; give the values as parameters, append them, or COPY them from a file"
    )))
}

/// Runs of letters and digits, quoted texts, and other signs of a text, without its comments at the
/// ends of lines.
fn parts(sql: &str) -> usize {
    let bytes = sql.as_bytes();
    let is_of_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let (mut count, mut at) = (0_usize, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        count += 1;
        let length = match rest[0] {
            byte if byte.is_ascii_whitespace() => {
                count -= 1;
                1
            }
            quote @ (b'\'' | b'"' | b'`') => {
                let end = rest[1..].iter().position(|byte| *byte == quote).map_or(rest.len(), |end| end + 2);
                // A doubled quote continues the same text.
                count -= usize::from(rest.get(end) == Some(&quote));
                end
            }
            b'-' if rest.starts_with(b"--") => {
                count -= 1;
                rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
            }
            byte if is_of_word(byte) => rest.iter().position(|byte| !is_of_word(*byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        at += length;
    }
    count
}

/// The amount of nested items in a part of a statement.
#[derive(Clone, Copy, Default)]
struct Height {
    /// Tokens on the longest path.
    tokens: usize,
    operators: usize,
    levels: usize,
    functions: usize,
    doublings: usize,
    subqueries: usize,
    /// There is a CASE or a lambda, and no function or operator around it.
    has_case: bool,
}

impl Height {
    fn or_more(&mut self, other: Self) {
        self.tokens = self.tokens.max(other.tokens);
        self.operators = self.operators.max(other.operators);
        self.levels = self.levels.max(other.levels);
        self.functions = self.functions.max(other.functions);
        self.doublings = self.doublings.max(other.doublings);
        self.subqueries = self.subqueries.max(other.subqueries);
        self.has_case |= other.has_case;
    }

    /// Returns the same within a function or operator.
    fn computed(self) -> Self {
        Self { doublings: self.doublings + usize::from(self.has_case), has_case: false, ..self }
    }
}

/// The tokens between two brackets, or between CASE and END.
#[derive(Clone, Copy, Default)]
struct Level {
    is_case: bool,
    /// The brackets are those of a function, a list or the like.
    is_computed: bool,
    /// The doublings of what the brackets belong to: one of [`DOUBLING_FUNCTIONS`] or
    /// [`QUANTIFIERS`].
    doubles: usize,
    /// It is a query.
    selects: bool,
    /// It may have more than [`ITEMS_MAX`] items.
    is_long: bool,
    items: usize,
    queries: usize,
    relations: usize,
    is_from: bool,
    /// BETWEEN whose AND is still to come.
    betweens: usize,
    /// The height of the present item: of the text in its brackets, and of the item itself.
    /// Operators and doublings are those since the last AND or OR.
    inner: Height,
    own: Height,
    /// The greatest height of the earlier items.
    most: Height,
}

impl Level {
    fn height(&self) -> Height {
        let inner = if self.own.operators > 0 { self.inner.computed() } else { self.inner };
        Height {
            tokens: inner.tokens + self.own.tokens,
            operators: inner.operators + self.own.operators,
            levels: inner.levels + self.own.levels,
            functions: inner.functions + self.own.functions,
            doublings: inner.doublings + self.own.doublings,
            has_case: inner.has_case || self.own.has_case,
            ..inner
        }
    }

    /// Begins another item of a list.
    fn next_item(&mut self) {
        self.most.or_more(self.height());
        (self.inner, self.own) = Default::default();
        self.betweens = 0;
    }

    /// Begins another operand of AND or OR, or another clause. For code that recurses, it may still
    /// be inside the earlier one.
    fn next_operand(&mut self) {
        self.most.or_more(self.height());
        self.inner =
            Height { tokens: self.inner.tokens, subqueries: self.inner.subqueries, ..Height::default() };
        self.own = Height { tokens: self.own.tokens, ..Height::default() };
    }

    /// Returns the height of the whole, for the level that contains it.
    fn whole(&self) -> Height {
        let mut height = self.height();
        height.or_more(self.most);
        let height = if self.is_computed { height.computed() } else { height };
        Height {
            tokens: height.tokens + 1,
            operators: height.operators + 1,
            levels: height.levels + usize::from(self.is_case),
            functions: height.functions + usize::from(self.is_computed),
            doublings: height.doublings + self.doubles,
            subqueries: height.subqueries + usize::from(self.selects),
            has_case: height.has_case || self.is_case,
        }
    }

    fn take_word(&mut self, word: &Word, before: Option<&Token>) {
        if is_any(word, &SET_OPERATORS) {
            self.queries += 1;
            self.is_from = false;
            self.next_operand();
        } else if is_any(word, &CONNECTIVES) {
            match self.betweens > 0 && is_any(word, &["AND"]) {
                true => self.betweens -= 1,
                false => self.next_operand(),
            }
        } else if is_any(word, &BEGINNINGS) && begins(word, before) {
            self.next_operand();
            self.selects |= is_any(word, &["SELECT"]);
            self.is_long = is_any(word, &["VALUES"]) || (self.is_long && !is_any(word, &["SELECT"]));
            self.is_from = is_any(word, &["FROM"]) || (self.is_from && is_any(word, &["ON"]));
            self.items = 0;
        } else if is_any(word, &OF_RELATIONS) {
            self.relations += 1;
        } else if is_any(word, &OPERATORS) {
            self.own.operators += 1;
            self.own.levels += 1;
            self.betweens += usize::from(is_any(word, &["BETWEEN"]));
        }
        self.own.doublings += usize::from(is_any(word, &DOUBLING_OPERATORS));
    }

    /// Looks at what is within `depth` brackets with so many tokens before them.
    ///
    /// # Errors
    /// `Syntax` (54001) for what is too much.
    fn check(&self, depth: usize, tokens: usize) -> Result<()> {
        let height = self.height();
        let what = if tokens + height.tokens > PATH_MAX {
            format!("{PATH_MAX} words, values and signs in one expression; use IN (…), or a table of values")
        } else if depth + height.operators > OPERATORS_MAX {
            format!(
                "{OPERATORS_MAX} operators or brackets within each other; use IN (…), or a table of values"
            )
        } else if height.levels > LEVELS_MAX {
            format!(
                "{LEVELS_MAX} comparisons, casts, CASEs and the like within each other; compute some of them in a query in between"
            )
        } else if height.functions > FUNCTIONS_MAX {
            format!("{FUNCTIONS_MAX} functions within each other; compute some of them in a query in between")
        } else if height.doublings > DOUBLINGS_MAX {
            format!(
                "{DOUBLINGS_MAX} of BETWEEN, OVERLAPS, coalesce, nvl, list_sort, or CASE in functions, within each \
                 other, of which = ANY (…) and the like are {QUANTIFIER_DOUBLINGS}, and regexp_extract 3"
            )
        } else if height.subqueries > SUBQUERIES_MAX {
            format!("{SUBQUERIES_MAX} queries within each other; use WITH, or views")
        } else if self.queries > QUERIES_MAX {
            format!("{QUERIES_MAX} queries put together; use a table of values")
        } else if self.relations > QUERIES_MAX {
            format!("{QUERIES_MAX} relations joined; use tables in between")
        } else if self.items >= ITEMS_MAX && !self.is_long {
            format!("{ITEMS_MAX} items in one list")
        } else {
            return Ok(());
        };
        Err(too_complex(format!("it has more than {what}")))
    }
}

/// Says whether a word that begins an expression does so here: it is no name, and not that of IS
/// DISTINCT FROM.
fn begins(word: &Word, before: Option<&Token>) -> bool {
    match before {
        Some(Token::Word(before)) => !(is_any(word, &["FROM"]) && is_any(before, &["DISTINCT"])),
        Some(before) => !is_operator(before) && *before != Token::Period,
        None => true,
    }
}

/// Says whether a token is a sign between or before operands.
fn is_operator(token: &Token) -> bool {
    !matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Comma
            | Token::SemiColon
            | Token::EOF
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::LParen
            | Token::RParen
            | Token::LBracket
            | Token::RBracket
            | Token::LBrace
            | Token::RBrace
    )
}

/// Says whether an operator is one of numbers or texts.
fn is_chained(token: &Token) -> bool {
    use Token::{Div, Minus, Mod, Mul, Plus, StringConcat};
    matches!(token, Plus | Minus | Mul | Div | Mod | StringConcat)
}

/// Says whether an operator is planned as a function.
fn is_function(token: &Token) -> bool {
    use Token::{Arrow, Caret, HashArrow, HashLongArrow, LongArrow};
    matches!(token, Arrow | LongArrow | HashArrow | HashLongArrow | Caret)
}

/// Looks whether a statement is simple enough to be parsed and planned.
///
/// # Errors
/// `Syntax` (54001), naming the bound.
pub fn check<'a>(tokens: impl Iterator<Item = &'a Token>) -> Result<()> {
    let mut outer: Vec<Level> = Vec::new();
    let mut level = Level::default();
    let mut before: Option<&Token> = None;
    let mut before_that: Option<&Token> = None;
    // The tokens of the levels around the present one.
    let mut tokens_before = 0;
    let open = |level: &mut Level, outer: &mut Vec<Level>, tokens: &mut usize, inner: Level| {
        *tokens += level.own.tokens;
        outer.push(std::mem::replace(level, inner));
    };
    let close = |level: &mut Level, outer: &mut Vec<Level>, tokens: &mut usize| {
        if let Some(parent) = outer.pop() {
            *tokens -= parent.own.tokens;
            let whole = level.whole();
            *level = parent;
            level.inner.or_more(whole);
        }
    };
    for token in tokens.filter(|token| !matches!(token, Token::Whitespace(_))) {
        level.own.tokens += 1;
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                // Anything directly behind an expression, such as an index into a list, is one more
                // operator.
                let is_place = *token == Token::LBracket;
                level.own.operators += usize::from(is_place);
                level.own.functions +=
                    usize::from(is_place && !matches!(before, Some(Token::LBracket | Token::Comma)));
                let name = match before {
                    Some(Token::Word(word)) => Some(word),
                    _ => None,
                };
                let is = |known: &[&str]| name.is_some_and(|name| is_any(name, known));
                let is_quantified = is(&QUANTIFIERS) && before_that.is_some_and(is_operator);
                let is_key = is(&BEGINNINGS) || is(&CONNECTIVES) || is(&OPERATORS);
                let inner = Level {
                    is_computed: *token != Token::LParen || (name.is_some() && !is_key),
                    doubles: match is_quantified {
                        true => QUANTIFIER_DOUBLINGS,
                        false => name.map_or(0, doublings_of),
                    },
                    is_long: *token == Token::LBracket || is(&OF_LONG_LISTS),
                    ..Level::default()
                };
                open(&mut level, &mut outer, &mut tokens_before, inner);
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                while level.is_case {
                    close(&mut level, &mut outer, &mut tokens_before);
                }
                close(&mut level, &mut outer, &mut tokens_before);
            }
            Token::Comma => {
                level.items += 1;
                level.relations += usize::from(level.is_from);
                level.next_item();
            }
            Token::Word(word) if is_any(word, &["CASE"]) => {
                let inner = Level { is_case: true, ..Level::default() };
                open(&mut level, &mut outer, &mut tokens_before, inner);
            }
            Token::Word(word) if level.is_case && is_any(word, &["END"]) => {
                close(&mut level, &mut outer, &mut tokens_before)
            }
            Token::Word(word) => level.take_word(word, before),
            other => {
                level.own.operators += usize::from(is_operator(other));
                level.own.levels += usize::from(is_operator(other) && !is_chained(other));
                level.own.has_case |= *other == Token::Arrow;
                let is_prefix = is_operator(other) && before.is_some_and(is_operator);
                level.own.functions += usize::from(is_prefix || is_function(other));
            }
        }
        level.check(outer.len(), tokens_before)?;
        before_that = before.replace(token);
    }
    Ok(())
}

fn doublings_of(function: &Word) -> usize {
    let known = DOUBLING_FUNCTIONS.iter().find(|(name, _)| is_any(function, &[*name]));
    known.map_or(0, |(_, doublings)| *doublings)
}

fn is_any(word: &Word, known: &[&str]) -> bool {
    word.quote_style.is_none() && known.iter().any(|known| word.value.eq_ignore_ascii_case(known))
}

/// Runs a statement where there is room for what it may nest, and for so many parts more.
pub fn with_room<T>(sql: &str, more: usize, run: impl FnOnce() -> T) -> T {
    let length = sql.len().saturating_add(more);
    if length <= SHORT_BYTES {
        let bytes = text_stack_bytes(sql) + more * PART_STACK_BYTES;
        return stacker::maybe_grow(bytes.max(SHORT_STACK_BYTES), STACK_BYTES_MIN, run);
    }
    let bytes = length.saturating_mul(TOKEN_STACK_BYTES);
    stacker::grow(bytes.clamp(STACK_BYTES_MIN, STACK_BYTES_MAX), run)
}

/// Runs a statement where there is room for what its text nests, if it is short. Less is needed for that than
/// the megabyte that threads of a JVM have as a whole: mapping another stack takes as long as a small query.
pub fn with_room_for_text<T>(sql: &str, run: impl FnOnce() -> T) -> T {
    match sql.len() <= SHORT_BYTES {
        true => stacker::maybe_grow(text_stack_bytes(sql), STACK_BYTES_MIN, run),
        false => with_room(sql, 0, run),
    }
}

/// Runs what may nest more than the text of the statement, which one of the functions above runs.
pub fn with_more_room<T>(sql: &str, run: impl FnOnce() -> T) -> T {
    if sql.len() <= SHORT_BYTES { with_room(sql, 0, run) } else { run() }
}

fn text_stack_bytes(sql: &str) -> usize {
    QUERY_STACK_BYTES + parts(sql) * PART_STACK_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::tokenizer::Tokenizer;

    fn checked(sql: &str) -> Result<()> {
        check(Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap().iter())
    }

    fn repeated(part: &str, between: &str, count: usize) -> String {
        vec![part; count].join(between)
    }

    fn nested(open: &str, within: &str, close: &str, count: usize) -> String {
        format!("SELECT {}{within}{}", open.repeat(count), close.repeat(count))
    }

    #[test]
    fn a_stack_of_a_megabyte_has_room_for_small_queries_and_none_for_what_nests() {
        for sql in ["SELECT 1", "SELECT CAST(? AS INTEGER)", "SELECT a, b FROM t WHERE key = ? AND day >= $1"]
        {
            assert!(text_stack_bytes(sql) < 800 << 10, "{sql}");
        }
        // What was measured: 5 KiB for each part of a call, and 16 for each sign.
        assert!(text_stack_bytes(&nested("abs(", "1", ")", 100)) > 1600 << 10);
        assert!(text_stack_bytes(&nested("- ", "1", "", 40)) > 900 << 10);
    }

    #[test]
    fn what_is_long_and_does_not_nest_is_simple() {
        const MANY: usize = 3 * OPERATORS_MAX;
        for sql in [
            format!("SELECT {}", repeated("1 + 1", ", ", MANY)),
            format!("INSERT INTO t VALUES {}", repeated("(-1, 'a' || 'b')", ", ", 10 * MANY)),
            format!("SELECT a IN ({})", repeated("1", ", ", 100_000)),
            format!("SELECT ARRAY[{}], [{}]", repeated("1", ", ", 100_000), repeated("1", ", ", 100_000)),
            format!("SELECT 1 FROM t WHERE {}", repeated("a = 1 AND b - 1 > 2", " OR ", 3000)),
            format!("SELECT 1 FROM t WHERE {}", repeated("(a = 1 AND b - 1 > 2)", " OR ", 10_000)),
            format!("SELECT 1 FROM t WHERE {}", repeated("a BETWEEN 1 AND 2", " AND ", 6000)),
            format!("SELECT CASE {} END", repeated("WHEN a = 1 THEN -1", " ", 5000)),
            repeated("SELECT a.b FROM t WHERE a = 1 AND b = 2", " UNION ALL ", QUERIES_MAX),
            nested("(", "1", ")", 1000),
            nested("(1 + ", "1", ")", 900),
            format!("SELECT {}", repeated("a || b", " || ", 900)),
            nested("replace(", "1", ", 'a', 'b')", FUNCTIONS_MAX),
            nested("CASE WHEN a THEN 1 ELSE ", "1", " END", 100),
            nested("CASE WHEN a THEN 1 ELSE (", "1", ") END", 100),
            format!("SELECT {}", repeated("coalesce(a, 1)", " + ", 1000)),
            format!("SELECT {}", repeated("CASE WHEN a THEN abs(1) END", " + ", 500)),
            format!("SELECT f(j{})", " -> 'a'".repeat(90)),
            nested("1 = ALL (ARRAY[", "1", "])", DOUBLINGS_MAX / QUANTIFIER_DOUBLINGS),
            repeated("(SELECT 1)", " UNION ALL ", QUERIES_MAX),
        ] {
            checked(&sql).unwrap_or_else(|error| panic!("{error}: {}", &sql[..60]));
        }
    }

    #[test]
    fn what_nests_is_counted_however_it_is_written() {
        const MANY: usize = 3 * OPERATORS_MAX;
        for sql in [
            format!("SELECT {}", repeated("1", " + ", MANY)),
            format!("SELECT {}", repeated("'a'", " || ", MANY)),
            format!("SELECT 1 {}", "IS DISTINCT FROM 1 ".repeat(MANY)),
            format!("SELECT {}", repeated("set", " + ", MANY)),
            format!("SELECT 1 FROM t WHERE {}", repeated("a = 1", " OR ", 20_000)),
            format!("SELECT 1{}", "::int".repeat(MANY)),
            format!("SELECT l{}", "[1]".repeat(FUNCTIONS_MAX + 1)),
            repeated("SELECT 1, 2", " UNION ", MANY),
            format!("SELECT 1 FROM {}", repeated("t", ", ", MANY)),
            format!("SELECT 1 FROM t {}", "JOIN t ON a = b, t ".repeat(MANY)),
            format!("SELECT * FROM t {}", "PIVOT (sum(i) FOR a IN ('a')) ".repeat(MANY)),
            nested("1 = ALL (ARRAY[", "1", "])", DOUBLINGS_MAX / QUANTIFIER_DOUBLINGS + 1),
            nested("1 < ANY (ARRAY[", "1", "])", DOUBLINGS_MAX / QUANTIFIER_DOUBLINGS + 1),
            nested("(", "1", ")", MANY),
            nested("(", "1", " + 1)", MANY / 2),
            nested("CASE WHEN a THEN 1 ELSE ", "1", " END", MANY),
            nested("CASE ", "1", "", MANY),
            nested("CASE WHEN a THEN 1 ELSE ", "1", " END", LEVELS_MAX + 1),
            format!("SELECT 1{}", " = 1".repeat(LEVELS_MAX + 1)),
            format!("SELECT 1{}", " & 1".repeat(LEVELS_MAX + 1)),
            nested("coalesce(", "1", ", 2)", 2 * DOUBLINGS_MAX),
            nested("regexp_extract(", "'a'", ", 'a')", DOUBLINGS_MAX / 3 + 1),
            nested("CASE WHEN a THEN abs(", "1", ") END", 2 * DOUBLINGS_MAX),
            nested("CASE WHEN a THEN 1 ELSE 1 + (", "1", ") END", 2 * DOUBLINGS_MAX),
            nested("f(l, x -> ", "1", ")", 2 * DOUBLINGS_MAX),
            nested("f(", "1", ")", FUNCTIONS_MAX + 1),
            nested("[", "1", "]", FUNCTIONS_MAX + 1),
            format!("SELECT j{}", " -> 'a'".repeat(FUNCTIONS_MAX + 1)),
            format!("SELECT {}1", "- ".repeat(FUNCTIONS_MAX + 2)),
            nested("(", "1", " BETWEEN 1 AND 2)", 2 * DOUBLINGS_MAX),
            format!("SELECT 1 {}", "BETWEEN 1 AND 2 ".repeat(2 * DOUBLINGS_MAX)),
            nested("(SELECT ", "1", ")", 2 * SUBQUERIES_MAX),
            "EXPLAIN ".repeat(PATH_MAX + 1),
            "x ".repeat(PATH_MAX + 1),
            format!("SELECT {}", repeated("1", ", ", ITEMS_MAX + 1)),
            format!("SELECT f({})", repeated("1", ", ", ITEMS_MAX + 1)),
        ] {
            let error = checked(&sql).map_or_else(|error| error, |()| panic!("{}", &sql[..60]));
            assert_eq!(error.sqlstate(), "54001", "{}", &sql[..60]);
        }
    }

    #[test]
    fn a_text_of_too_many_parts_is_refused_and_a_long_value_is_not() {
        check_size(&format!("SELECT '{}'", "x'' ,1".repeat(PARTS_MAX))).unwrap();
        check_size(&format!("SELECT '{}'", "x ,1".repeat(PARTS_MAX))).unwrap();
        check_size(&format!("SELECT -- {}\n 1", "x ,1".repeat(PARTS_MAX))).unwrap();
        assert_eq!(check_size(&"(1),".repeat(PARTS_MAX)).unwrap_err().sqlstate(), "54001");
        assert_eq!(parts("SELECT a.b <= 'it''s', \"x y\" -- end"), 9);
    }
}
