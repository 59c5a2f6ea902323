//! A path of SQL/JSON as a tree.

use super::lexer::{Token, malformed, tokens};
use crate::json::text::{normalised, quote};
use crate::pattern::states_of;
use hypostyle_types::{Error, Result};
use regex::{Regex, RegexBuilder};

/// A path.
pub(super) struct Path {
    pub is_strict: bool,
    pub expr: Expr,
}

/// What gives values.
pub(super) enum Expr {
    /// A value that is written, as JSON.
    Value(String),
    Root,
    Current,
    /// The place of an array's last element.
    Last,
    Variable(String),
    Steps(Box<Expr>, Vec<Step>),
    Negated(Box<Expr>),
    Same(Box<Expr>),
    Computed(Operator, Box<Expr>, Box<Expr>),
    Condition(Box<Condition>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Plus,
    Minus,
    Times,
    Divided,
    Modulo,
}

/// One step of a path.
pub(super) enum Step {
    Member(String),
    AllMembers,
    AllElements,
    /// Places, or the first and the last of some.
    Elements(Vec<(Expr, Option<Expr>)>),
    /// All values within, from a level to another; [`LAST_LEVEL`] twice is of those with nothing within.
    Within(u32, u32),
    Filter(Box<Condition>),
    Method(Method),
}

/// The deepest level, and what stands for the values with nothing within.
pub(super) const LAST_LEVEL: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Type,
    Size,
    Abs,
    Floor,
    Ceiling,
    Double,
    Number,
    Integer,
    Bigint,
    Boolean,
    String,
    KeyValue,
}

const METHODS: [(&str, Method); 12] = [
    ("type", Method::Type),
    ("size", Method::Size),
    ("abs", Method::Abs),
    ("floor", Method::Floor),
    ("ceiling", Method::Ceiling),
    ("double", Method::Double),
    ("number", Method::Number),
    ("integer", Method::Integer),
    ("bigint", Method::Bigint),
    ("boolean", Method::Boolean),
    ("string", Method::String),
    ("keyvalue", Method::KeyValue),
];

impl Method {
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(_, method)| *method == self).map_or("", |(name, _)| name)
    }
}

/// Methods of PostgreSQL's that are not had.
const NOT_HAD: [&str; 7] = ["datetime", "date", "time", "time_tz", "timestamp", "timestamp_tz", "decimal"];

/// What is true, false or unknown.
pub(super) enum Condition {
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
    Not(Box<Condition>),
    IsUnknown(Box<Condition>),
    Exists(Expr),
    Compared(Comparison, Expr, Expr),
    StartsWith(Expr, Expr),
    /// The last is about how many states the pattern has.
    Matches(Expr, Regex, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

const COMPARISONS: [(&str, Comparison); 7] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<>", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    ("<", Comparison::Less),
    (">=", Comparison::GreaterOrEqual),
    (">", Comparison::Greater),
];

/// The operators, parentheses and filters that a path may have: each may be within the one before.
const NODES_MAX: usize = 128;

/// The size of a compiled regular expression.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Reads a path.
///
/// # Errors
/// `InvalidInput`: 42601 for what is no path, 22P02 for an empty one, and 54001 for one of too many parts;
/// `Unsupported` for a method that there is not.
pub(super) fn read(path: &str) -> Result<Path> {
    let tokens = tokens(path)?;
    if tokens.is_empty() {
        return Err(Error::invalid_input("an empty text is no jsonpath").with_sqlstate("22P02"));
    }
    let mut parser = Parser { path, tokens, at: 0, nodes: 0, filters: 0, subscripts: 0 };
    let is_strict = parser.takes_word("strict");
    if !is_strict {
        parser.takes_word("lax");
    }
    let expr = parser.any_of()?;
    match parser.tokens.get(parser.at) {
        None => Ok(Path { is_strict, expr }),
        Some(_) => Err(parser.wrong()),
    }
}

struct Parser<'a> {
    path: &'a str,
    tokens: Vec<Token>,
    at: usize,
    nodes: usize,
    /// The filters around this place, and the places of elements.
    filters: usize,
    subscripts: usize,
}

impl Parser<'_> {
    fn wrong(&self) -> Error {
        let at = match self.tokens.get(self.at) {
            Some(Token::Name(text) | Token::Text(text) | Token::Number(text)) => text.clone(),
            Some(Token::Variable(name)) => format!("${name}"),
            Some(Token::Sign(sign)) => (*sign).to_string(),
            None => String::new(),
        };
        malformed(self.path, &at)
    }

    fn grow(&mut self) -> Result<()> {
        self.nodes += 1;
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let message = format!("a jsonpath has {NODES_MAX} operators, parentheses and filters at most");
        Err(Error::invalid_input(message).with_sqlstate("54001"))
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_there = matches!(self.tokens.get(self.at), Some(Token::Sign(own)) if *own == sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expects(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { Err(self.wrong()) }
    }

    fn is_at(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Sign(own)) if *own == sign)
    }

    fn is_at_word(&self, word: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(Token::Name(own)) if own.eq_ignore_ascii_case(word))
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.is_at_word(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn text(&mut self) -> Result<String> {
        match self.tokens.get(self.at) {
            Some(Token::Text(text)) => {
                self.at += 1;
                Ok(text.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    fn condition(&self, of: Expr) -> Result<Box<Condition>> {
        match of {
            Expr::Condition(condition) => Ok(condition),
            _ => Err(self.wrong()),
        }
    }

    fn value(&self, of: Expr) -> Result<Expr> {
        match of {
            Expr::Condition(_) => Err(self.wrong()),
            value => Ok(value),
        }
    }

    /// Reads conditions with `||` between them, or what is no condition.
    fn any_of(&mut self) -> Result<Expr> {
        let mut left = self.all_of()?;
        while self.takes("||") {
            self.grow()?;
            let right = self.all_of()?;
            let (left_side, right_side) = (self.condition(left)?, self.condition(right)?);
            left = Expr::Condition(Box::new(Condition::Or(left_side, right_side)));
        }
        Ok(left)
    }

    fn all_of(&mut self) -> Result<Expr> {
        let mut left = self.compared()?;
        while self.takes("&&") {
            self.grow()?;
            let right = self.compared()?;
            let (left_side, right_side) = (self.condition(left)?, self.condition(right)?);
            left = Expr::Condition(Box::new(Condition::And(left_side, right_side)));
        }
        Ok(left)
    }

    fn compared(&mut self) -> Result<Expr> {
        if self.takes("!") {
            self.grow()?;
            let is_delimited = self.is_at("(") || self.is_at_word("exists");
            if !is_delimited {
                return Err(self.wrong());
            }
            let inner = self.primary()?;
            return Ok(Expr::Condition(Box::new(Condition::Not(self.condition(inner)?))));
        }
        let left = self.sum()?;
        if let Some((_, comparison)) = COMPARISONS.iter().find(|(sign, _)| self.is_at(sign)) {
            self.at += 1;
            self.grow()?;
            let right = self.sum()?;
            let (left, right) = (self.value(left)?, self.value(right)?);
            return Ok(Expr::Condition(Box::new(Condition::Compared(*comparison, left, right))));
        }
        if self.takes_word("is") {
            if !self.takes_word("unknown") {
                return Err(self.wrong());
            }
            self.grow()?;
            return Ok(Expr::Condition(Box::new(Condition::IsUnknown(self.condition(left)?))));
        }
        if self.takes_word("starts") {
            if !self.takes_word("with") {
                return Err(self.wrong());
            }
            let initial = match self.tokens.get(self.at) {
                Some(Token::Text(text)) => Expr::Value(quoted(text)),
                Some(Token::Variable(name)) => Expr::Variable(name.clone()),
                _ => return Err(self.wrong()),
            };
            self.at += 1;
            return Ok(Expr::Condition(Box::new(Condition::StartsWith(self.value(left)?, initial))));
        }
        if self.takes_word("like_regex") {
            let pattern = self.text()?;
            let flags = if self.takes_word("flag") { self.text()? } else { String::new() };
            let (regex, states) = compiled(&pattern, &flags)?;
            return Ok(Expr::Condition(Box::new(Condition::Matches(self.value(left)?, regex, states))));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.takes("+") => Operator::Plus,
                () if self.takes("-") => Operator::Minus,
                () => return Ok(left),
            };
            self.grow()?;
            let right = self.product()?;
            let (left_side, right_side) = (Box::new(self.value(left)?), Box::new(self.value(right)?));
            left = Expr::Computed(operator, left_side, right_side);
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut left = self.signed()?;
        loop {
            let operator = match () {
                () if self.takes("*") => Operator::Times,
                () if self.takes("/") => Operator::Divided,
                () if self.takes("%") => Operator::Modulo,
                () => return Ok(left),
            };
            self.grow()?;
            let right = self.signed()?;
            let (left_side, right_side) = (Box::new(self.value(left)?), Box::new(self.value(right)?));
            left = Expr::Computed(operator, left_side, right_side);
        }
    }

    fn signed(&mut self) -> Result<Expr> {
        let is_negated = self.takes("-");
        if !is_negated && !self.takes("+") {
            return self.path();
        }
        self.grow()?;
        let of = self.signed()?;
        let of = Box::new(self.value(of)?);
        Ok(if is_negated { Expr::Negated(of) } else { Expr::Same(of) })
    }

    /// Reads a value and the steps from it.
    fn path(&mut self) -> Result<Expr> {
        let first = self.primary()?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        Ok(if steps.is_empty() { first } else { Expr::Steps(Box::new(first), steps) })
    }

    fn primary(&mut self) -> Result<Expr> {
        let Some(token) = self.tokens.get(self.at).cloned() else { return Err(self.wrong()) };
        self.at += 1;
        Ok(match token {
            Token::Number(number) => Expr::Value(normalised(&number)),
            Token::Text(text) => Expr::Value(quoted(&text)),
            Token::Variable(name) => Expr::Variable(name),
            Token::Name(name) if matches!(name.as_str(), "true" | "false" | "null") => Expr::Value(name),
            Token::Name(name) if name.eq_ignore_ascii_case("last") && self.subscripts > 0 => Expr::Last,
            Token::Name(name) if name.eq_ignore_ascii_case("exists") => {
                self.grow()?;
                self.expects("(")?;
                let of = self.any_of()?;
                self.expects(")")?;
                Expr::Condition(Box::new(Condition::Exists(self.value(of)?)))
            }
            Token::Sign("$") => Expr::Root,
            Token::Sign("@") if self.filters > 0 => Expr::Current,
            Token::Sign("(") => {
                self.grow()?;
                let within = self.any_of()?;
                self.expects(")")?;
                within
            }
            _ => {
                self.at -= 1;
                return Err(self.wrong());
            }
        })
    }

    fn step(&mut self) -> Result<Option<Step>> {
        if self.takes("[") {
            return self.elements().map(Some);
        }
        if self.takes("?") {
            self.grow()?;
            self.expects("(")?;
            self.filters += 1;
            let condition = self.any_of()?;
            self.filters -= 1;
            self.expects(")")?;
            return Ok(Some(Step::Filter(self.condition(condition)?)));
        }
        if !self.takes(".") {
            return Ok(None);
        }
        if self.takes("*") {
            return Ok(Some(Step::AllMembers));
        }
        if self.takes("**") {
            return self.levels().map(Some);
        }
        let (name, may_be_method) = match self.tokens.get(self.at) {
            Some(Token::Name(name)) => (name.clone(), true),
            Some(Token::Text(name)) => (name.clone(), false),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        if !may_be_method || !self.is_at("(") {
            return Ok(Some(Step::Member(name)));
        }
        if NOT_HAD.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            return Err(Error::unsupported(format!("the jsonpath method .{name}() is not supported")));
        }
        let method = METHODS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let (_, method) = method.ok_or_else(|| self.wrong())?;
        self.expects("(")?;
        self.expects(")")?;
        Ok(Some(Step::Method(*method)))
    }

    fn elements(&mut self) -> Result<Step> {
        if self.takes("*") {
            self.expects("]")?;
            return Ok(Step::AllElements);
        }
        self.grow()?;
        self.subscripts += 1;
        let mut places = Vec::new();
        loop {
            let first = self.sum()?;
            let last = if self.takes_word("to") { Some(self.sum()?) } else { None };
            let last = last.map(|last| self.value(last)).transpose()?;
            places.push((self.value(first)?, last));
            if !self.takes(",") {
                break;
            }
        }
        self.subscripts -= 1;
        self.expects("]")?;
        Ok(Step::Elements(places))
    }

    /// Reads the levels of `.**{1 to last}`.
    fn levels(&mut self) -> Result<Step> {
        if !self.takes("{") {
            return Ok(Step::Within(0, LAST_LEVEL));
        }
        let first = self.level()?;
        let last = if self.takes_word("to") { self.level()? } else { first };
        self.expects("}")?;
        Ok(Step::Within(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        if self.takes_word("last") {
            return Ok(LAST_LEVEL);
        }
        let level = match self.tokens.get(self.at) {
            Some(Token::Number(number)) => number.parse().ok(),
            _ => None,
        };
        let level = level.ok_or_else(|| self.wrong())?;
        self.at += 1;
        Ok(level)
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}

fn compiled(pattern: &str, flags: &str) -> Result<(Regex, u64)> {
    for flag in flags.chars() {
        match flag {
            'i' | 's' | 'm' | 'q' => {}
            'x' => return Err(Error::unsupported("the flag x of like_regex is not supported")),
            _ => {
                let message = format!("like_regex has no flag '{flag}'; there are i, s, m and q");
                return Err(Error::invalid_input(message).with_sqlstate("42601"));
            }
        }
    }
    let has = |flag: char| flags.contains(flag);
    let pattern = if has('q') { regex::escape(pattern) } else { pattern.to_string() };
    let regex = RegexBuilder::new(&pattern)
        .case_insensitive(has('i'))
        .dot_matches_new_line(has('s'))
        .multi_line(has('m'))
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    let regex = regex.map_err(|error| {
        Error::invalid_input(format!("invalid regular expression in a jsonpath: {error}"))
            .with_sqlstate("2201B")
    })?;
    Ok((regex, states_of(&pattern)))
}
