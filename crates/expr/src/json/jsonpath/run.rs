//! What a path of SQL/JSON leads to in a value (ISO/IEC 9075-2, 9.46), as PostgreSQL finds it.

use super::number::{Number, Wrong, compared};
use super::parse::{Comparison, Condition, Expr, LAST_LEVEL, Method, Operator, Path, Step};
use crate::json::text::{Kind, elements, kind, member, members, quote, unquoted};
use hypostyle_types::Error;
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

/// A value that is found, as normal JSON: a part of the text, or one that was computed.
pub(super) type Item<'a> = Cow<'a, str>;

/// Why nothing is found.
pub(super) enum Failure {
    /// The value is not as the path wants it: no error where it is asked for silently.
    OfValue(Error),
    Other(Error),
}

type Outcome<T> = Result<T, Failure>;

/// The values within each other that are looked through.
const DEPTH_MAX: usize = 256;

/// What a value costs that is found, beside its bytes.
const ITEM_COST: usize = 64;

fn of_value(sqlstate: &'static str, message: impl Into<String>) -> Failure {
    Failure::OfValue(Error::invalid_input(message.into()).with_sqlstate(sqlstate))
}

fn too_much(message: &str) -> Failure {
    Failure::Other(Error::invalid_input(message.to_string()).with_sqlstate("54000"))
}

/// True, false, or unknown.
type Truth = Option<bool>;

/// A path that is followed from a value.
pub(super) struct Run<'a> {
    is_strict: bool,
    expr: &'a Expr,
    root: &'a str,
    /// An object, whose members are the variables.
    variables: &'a str,
    /// What may still be looked at.
    budget: &'a Cell<u64>,
    /// What is filtered.
    current: Item<'a>,
    /// The elements of the array whose places are asked for.
    length: usize,
    /// Members and elements that are missing are no errors.
    is_forgiving: bool,
    depth: usize,
}

fn is_array(item: &str) -> bool {
    kind(item) == Some(Kind::Array)
}

/// Returns the elements of an array, or the values of an object.
fn parts_of<'a>(item: &Item<'a>) -> Vec<Item<'a>> {
    fn parts(text: &str) -> Vec<&str> {
        match is_array(text) {
            true => elements(text).collect(),
            false => members(text).map(|(_, value)| value).collect(),
        }
    }
    match item {
        &Cow::Borrowed(text) => parts(text).into_iter().map(Cow::Borrowed).collect(),
        Cow::Owned(text) => parts(text).into_iter().map(|part| Cow::Owned(part.to_string())).collect(),
    }
}

fn member_of<'a>(item: &Item<'a>, name: &str) -> Option<Item<'a>> {
    match item {
        &Cow::Borrowed(text) => member(text, name).map(Cow::Borrowed),
        Cow::Owned(text) => member(text, name).map(|value| Cow::Owned(value.to_string())),
    }
}

impl<'a> Run<'a> {
    pub fn new(path: &'a Path, root: &'a str, variables: &'a str, budget: &'a Cell<u64>) -> Self {
        Self {
            is_strict: path.is_strict,
            expr: &path.expr,
            root,
            variables,
            budget,
            current: Cow::Borrowed(root),
            length: 0,
            is_forgiving: !path.is_strict,
            depth: 0,
        }
    }

    /// Returns all values that are found; beside an error those before it.
    pub fn all(&mut self) -> (Vec<Item<'a>>, Option<Failure>) {
        let mut found = Vec::new();
        let result = self.given(self.expr, &Cow::Borrowed(self.root), Some(&mut found));
        (found, result.err())
    }

    /// Says whether there is a value.
    pub fn exists(&mut self) -> Outcome<bool> {
        let root = Cow::Borrowed(self.root);
        // An error may be behind the first value.
        if self.is_strict {
            let mut found = Vec::new();
            self.given(self.expr, &root, Some(&mut found))?;
            return Ok(!found.is_empty());
        }
        self.given(self.expr, &root, None)
    }

    fn pay(&self, cost: usize) -> Outcome<()> {
        match self.budget.get().checked_sub(cost as u64 + 1) {
            Some(left) => {
                self.budget.set(left);
                Ok(())
            }
            None => Err(too_much("a jsonpath looks at too many values for these rows")),
        }
    }

    fn push(&self, item: Item<'a>, found: Option<&mut Vec<Item<'a>>>) -> Outcome<bool> {
        if let Some(found) = found {
            self.pay(item.len() + ITEM_COST)?;
            found.push(item);
        }
        Ok(true)
    }

    /// Finds what an expression gives for a value; whether there was something. Without a place for what is
    /// found, the first value is enough.
    fn given(&mut self, expr: &'a Expr, of: &Item<'a>, found: Option<&mut Vec<Item<'a>>>) -> Outcome<bool> {
        if self.depth > DEPTH_MAX {
            return Err(too_much("a jsonpath looks at values too deep within others"));
        }
        self.depth += 1;
        let result = self.given_within(expr, of, found);
        self.depth -= 1;
        result
    }

    fn given_within(
        &mut self,
        expr: &'a Expr,
        of: &Item<'a>,
        mut found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let item = match expr {
            Expr::Value(value) => Cow::Borrowed(value.as_str()),
            Expr::Root => Cow::Borrowed(self.root),
            Expr::Current => self.current.clone(),
            Expr::Last => Cow::Owned((self.length as i64 - 1).to_string()),
            Expr::Variable(name) => self.variable(name)?,
            Expr::Steps(first, steps) => {
                let from = match first.as_ref() {
                    Expr::Root => vec![Cow::Borrowed(self.root)],
                    Expr::Current => vec![self.current.clone()],
                    other => {
                        let mut from = Vec::new();
                        self.given(other, of, Some(&mut from))?;
                        from
                    }
                };
                return self.along_each(steps, from, !self.is_strict, found);
            }
            Expr::Computed(operator, left, right) => self.computed(*operator, left, right, of)?,
            Expr::Negated(inner) | Expr::Same(inner) => {
                let mut is_some = false;
                for item in self.operands(inner, of)? {
                    let number = match kind(&item) {
                        Some(Kind::Number) => item,
                        // The first value is not looked for further.
                        _ if found.is_none() => continue,
                        _ => {
                            let message = "operand of unary jsonpath operator is not a numeric value";
                            return Err(of_value("2203B", message));
                        }
                    };
                    let number = match expr {
                        Expr::Negated(_) => Cow::Owned(self.number(&number)?.negated().written()),
                        _ => number,
                    };
                    is_some = self.push(number, found.as_deref_mut())?;
                }
                return Ok(is_some);
            }
            Expr::Condition(condition) => Cow::Borrowed(match self.truth(condition, of)? {
                Some(true) => "true",
                Some(false) => "false",
                None => "null",
            }),
        };
        self.push(item, found)
    }

    fn variable(&self, name: &str) -> Outcome<Item<'a>> {
        self.pay(self.variables.len())?;
        member(self.variables, name).map(Cow::Borrowed).ok_or_else(|| {
            let message = format!("could not find jsonpath variable \"{name}\"");
            Failure::Other(Error::invalid_input(message).with_sqlstate("42704"))
        })
    }

    fn number(&self, item: &str) -> Outcome<Number> {
        Number::read(item)
            .ok_or_else(|| of_value("22003", format!("a jsonpath computes with 38 digits, not with {item}")))
    }

    /// Returns what an expression gives; where the path is lax, the elements of arrays in their place.
    fn operands(&mut self, expr: &'a Expr, of: &Item<'a>) -> Outcome<Vec<Item<'a>>> {
        self.operands_with(expr, of, true)
    }

    fn operands_with(&mut self, expr: &'a Expr, of: &Item<'a>, unwraps: bool) -> Outcome<Vec<Item<'a>>> {
        let mut found = Vec::new();
        self.given(expr, of, Some(&mut found))?;
        if self.is_strict || !unwraps || !found.iter().any(|item| is_array(item)) {
            return Ok(found);
        }
        let mut all = Vec::new();
        for item in found {
            if !is_array(&item) {
                all.push(item);
                continue;
            }
            for part in parts_of(&item) {
                self.push(part, Some(&mut all))?;
            }
        }
        Ok(all)
    }

    fn computed(
        &mut self,
        operator: Operator,
        left: &'a Expr,
        right: &'a Expr,
        of: &Item<'a>,
    ) -> Outcome<Item<'a>> {
        let operands = [self.operands(left, of)?, self.operands(right, of)?];
        let mut numbers = [Number::of_integer(0); 2];
        for ((number, operand), side) in numbers.iter_mut().zip(&operands).zip(["left", "right"]) {
            match operand.as_slice() {
                [item] if kind(item) == Some(Kind::Number) => *number = self.number(item)?,
                _ => {
                    let sign = sign_of(operator);
                    let message =
                        format!("{side} operand of jsonpath operator {sign} is not a single numeric value");
                    return Err(of_value("22038", message));
                }
            }
        }
        match numbers[0].computed(operator, numbers[1]) {
            Ok(number) => Ok(Cow::Owned(number.written())),
            Err(Wrong::DividedByZero) => Err(of_value("22012", "division by zero")),
            Err(Wrong::OutOfRange) => Err(of_value(
                "22003",
                format!("a number of jsonpath operator {} has more than 38 digits", sign_of(operator)),
            )),
        }
    }

    /// Follows steps from several values.
    fn along_each(
        &mut self,
        steps: &'a [Step],
        from: Vec<Item<'a>>,
        unwraps: bool,
        mut found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let mut is_some = false;
        for item in from {
            is_some |= self.along(steps, item, unwraps, found.as_deref_mut())?;
            if is_some && found.is_none() {
                break;
            }
        }
        Ok(is_some)
    }

    fn along(
        &mut self,
        steps: &'a [Step],
        item: Item<'a>,
        unwraps: bool,
        found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let Some((step, rest)) = steps.split_first() else { return self.push(item, found) };
        if self.depth > DEPTH_MAX {
            return Err(too_much("a jsonpath looks at values too deep within others"));
        }
        self.pay(item.len())?;
        self.depth += 1;
        let is_unwrapped = unwraps
            && is_array(&item)
            && match step {
                Step::Member(_) | Step::AllMembers | Step::Filter(_) => true,
                Step::Method(method) => !matches!(method, Method::Type | Method::Size),
                Step::AllElements | Step::Elements(_) | Step::Within(..) => false,
            };
        let result = match is_unwrapped {
            true => self.along_each(steps, parts_of(&item), false, found),
            false => self.step(step, rest, item, found),
        };
        self.depth -= 1;
        result
    }

    /// Follows a step, and those behind it.
    fn step(
        &mut self,
        step: &'a Step,
        rest: &'a [Step],
        item: Item<'a>,
        found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let is_object = kind(&item) == Some(Kind::Object);
        let is_lax = !self.is_strict;
        match step {
            Step::Member(name) if is_object => match member_of(&item, name) {
                Some(value) => self.along(rest, value, is_lax, found),
                None => self.missing("2203A", || format!("JSON object does not contain key \"{name}\"")),
            },
            Step::Member(_) => {
                self.missing("2203A", || "jsonpath member accessor can only be applied to an object".into())
            }
            Step::AllMembers if is_object => self.along_each(rest, parts_of(&item), is_lax, found),
            Step::AllMembers => self.missing("2203C", || {
                "jsonpath wildcard member accessor can only be applied to an object".into()
            }),
            Step::AllElements if is_array(&item) => self.along_each(rest, parts_of(&item), is_lax, found),
            Step::AllElements if is_lax => self.along(rest, item, is_lax, found),
            Step::AllElements => self.missing("22039", || {
                "jsonpath wildcard array accessor can only be applied to an array".into()
            }),
            Step::Elements(places) if is_lax || is_array(&item) => self.elements(places, rest, &item, found),
            Step::Elements(_) => {
                self.missing("22039", || "jsonpath array accessor can only be applied to an array".into())
            }
            Step::Within(first, last) => self.within(*first, *last, rest, item, found),
            Step::Filter(condition) => {
                let before = std::mem::replace(&mut self.current, item.clone());
                let truth = self.truth(condition, &item);
                self.current = before;
                match truth? {
                    Some(true) => self.along(rest, item, is_lax, found),
                    _ => Ok(false),
                }
            }
            Step::Method(method) => match self.method(*method, &item)? {
                Some(items) => self.along_each(rest, items, is_lax, found),
                None => Ok(false),
            },
        }
    }

    /// Nothing is found, which may be an error.
    fn missing(&self, sqlstate: &'static str, message: impl FnOnce() -> String) -> Outcome<bool> {
        if self.is_forgiving { Ok(false) } else { Err(of_value(sqlstate, message())) }
    }

    fn elements(
        &mut self,
        places: &'a [(Expr, Option<Expr>)],
        rest: &'a [Step],
        item: &Item<'a>,
        mut found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let parts = if is_array(item) { parts_of(item) } else { vec![item.clone()] };
        let mut is_some = false;
        for (first, last) in places {
            let before = std::mem::replace(&mut self.length, parts.len());
            let bounds = self.bounds(first, last.as_ref(), item);
            self.length = before;
            let (first, last) = bounds?;
            let length = parts.len() as i64;
            if !self.is_forgiving && (first < 0 || first > last || last >= length) {
                return Err(of_value("22033", "jsonpath array subscript is out of bounds"));
            }
            for place in first.max(0)..=last.min(length - 1) {
                let Some(part) = parts.get(place as usize) else { continue };
                is_some |= self.along(rest, part.clone(), !self.is_strict, found.as_deref_mut())?;
                if is_some && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(is_some)
    }

    fn bounds(&mut self, first: &'a Expr, last: Option<&'a Expr>, of: &Item<'a>) -> Outcome<(i64, i64)> {
        let first = self.place(first, of)?;
        let last = last.map(|last| self.place(last, of)).transpose()?;
        Ok((first, last.unwrap_or(first)))
    }

    fn place(&mut self, expr: &'a Expr, of: &Item<'a>) -> Outcome<i64> {
        let mut found = Vec::new();
        self.given(expr, of, Some(&mut found))?;
        let number = match found.as_slice() {
            [item] if kind(item) == Some(Kind::Number) => self.number(item)?,
            _ => return Err(of_value("22033", "jsonpath array subscript is not a single numeric value")),
        };
        let place = i32::try_from(number.truncated());
        place
            .map(i64::from)
            .map_err(|_| of_value("22033", "jsonpath array subscript is out of integer range"))
    }

    /// Follows steps from a value and those within it, level by level.
    fn within(
        &mut self,
        first: u32,
        last: u32,
        rest: &'a [Step],
        item: Item<'a>,
        mut found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let mut is_some = false;
        if first == 0 {
            let before = std::mem::replace(&mut self.is_forgiving, true);
            let result = self.along(rest, item.clone(), !self.is_strict, found.as_deref_mut());
            self.is_forgiving = before;
            is_some = result?;
            if is_some && found.is_none() {
                return Ok(true);
            }
        }
        Ok(self.below(1, (first, last), rest, &item, found)? || is_some)
    }

    fn below(
        &mut self,
        level: u32,
        levels: (u32, u32),
        rest: &'a [Step],
        item: &Item<'a>,
        found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        if level > levels.1 || !matches!(kind(item), Some(Kind::Array | Kind::Object)) {
            return Ok(false);
        }
        if self.depth > DEPTH_MAX {
            return Err(too_much("a jsonpath looks at values too deep within others"));
        }
        self.pay(item.len())?;
        self.depth += 1;
        let result = self.below_each(level, levels, rest, item, found);
        self.depth -= 1;
        result
    }

    fn below_each(
        &mut self,
        level: u32,
        levels: (u32, u32),
        rest: &'a [Step],
        item: &Item<'a>,
        mut found: Option<&mut Vec<Item<'a>>>,
    ) -> Outcome<bool> {
        let (first, last) = levels;
        let mut is_some = false;
        for part in parts_of(item) {
            let is_last = !matches!(kind(&part), Some(Kind::Array | Kind::Object));
            if level >= first || (first == LAST_LEVEL && last == LAST_LEVEL && is_last) {
                let before = std::mem::replace(&mut self.is_forgiving, true);
                let result = self.along(rest, part.clone(), !self.is_strict, found.as_deref_mut());
                self.is_forgiving = before;
                is_some |= result?;
                if is_some && found.is_none() {
                    break;
                }
            }
            is_some |= self.below(level + 1, levels, rest, &part, found.as_deref_mut())?;
            if is_some && found.is_none() {
                break;
            }
        }
        Ok(is_some)
    }

    /// Returns what a method gives; `None` where it has nothing, and that is no error.
    fn method(&self, method: Method, item: &Item<'a>) -> Outcome<Option<Vec<Item<'a>>>> {
        let name = method.name();
        let of = kind(item);
        let number = of == Some(Kind::Number);
        let one = |text: String| -> Outcome<Option<Vec<Item<'a>>>> { Ok(Some(vec![Cow::Owned(text)])) };
        match method {
            Method::Type => one(quoted(type_name(item))),
            Method::Size if is_array(item) => one(elements(item).count().to_string()),
            Method::Size if self.is_strict && !self.is_forgiving => Err(of_value(
                "22039",
                format!("jsonpath item method .{name}() can only be applied to an array"),
            )),
            Method::Size if self.is_strict => Ok(None),
            Method::Size => one("1".to_string()),
            Method::Abs if number => one(self.number(item)?.absolute().written()),
            Method::Floor if number => one(self.number(item)?.floor().written()),
            Method::Ceiling if number => one(self.number(item)?.ceiling().written()),
            Method::Abs | Method::Floor | Method::Ceiling => {
                let message =
                    format!("jsonpath item method .{name}() can only be applied to a numeric value");
                Err(of_value("22036", message))
            }
            Method::KeyValue if of == Some(Kind::Object) => Ok(Some(self.pairs(item))),
            Method::KeyValue => Err(of_value(
                "2203C",
                format!("jsonpath item method .{name}() can only be applied to an object"),
            )),
            Method::Double
            | Method::Number
            | Method::Integer
            | Method::Bigint
            | Method::Boolean
            | Method::String => one(converted(method, item)?),
        }
    }

    /// Returns an object for each member of one.
    fn pairs(&self, item: &Item<'a>) -> Vec<Item<'a>> {
        // Which object it was: the place where its text is.
        let place = (item.as_ptr() as usize).wrapping_sub(self.root.as_ptr() as usize);
        let id = if place < self.root.len() { place } else { 0 };
        let pair = |(name, value): (&str, &str)| -> Item<'a> {
            Cow::Owned(format!("{{\"id\": {id}, \"key\": {name}, \"value\": {value}}}"))
        };
        members(item).map(pair).collect()
    }

    fn truth(&mut self, condition: &'a Condition, of: &Item<'a>) -> Outcome<Truth> {
        if self.depth > DEPTH_MAX {
            return Err(too_much("a jsonpath looks at values too deep within others"));
        }
        self.depth += 1;
        let truth = self.truth_within(condition, of);
        self.depth -= 1;
        truth
    }

    fn truth_within(&mut self, condition: &'a Condition, of: &Item<'a>) -> Outcome<Truth> {
        Ok(match condition {
            Condition::And(left, right) => match self.truth(left, of)? {
                Some(false) => Some(false),
                left => match (left, self.truth(right, of)?) {
                    (left, Some(true)) => left,
                    (_, right) => right,
                },
            },
            Condition::Or(left, right) => match self.truth(left, of)? {
                Some(true) => Some(true),
                left => match (left, self.truth(right, of)?) {
                    (left, Some(false)) => left,
                    (_, right) => right,
                },
            },
            Condition::Not(inner) => self.truth(inner, of)?.map(|truth| !truth),
            Condition::IsUnknown(inner) => Some(self.truth(inner, of)?.is_none()),
            Condition::Exists(expr) => {
                if self.is_strict {
                    known(self.operands_with(expr, of, false))?.map(|found| !found.is_empty())
                } else {
                    known(self.given(expr, of, None))?
                }
            }
            Condition::Compared(comparison, left, right) => {
                let (left, right) = (known(self.operands(left, of))?, known(self.operands(right, of))?);
                let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
                self.pay(left.len().saturating_mul(right.len()))?;
                self.any(
                    left.iter().flat_map(|left| right.iter().map(move |right| (left, right))),
                    |(left, right)| holds(*comparison, left, right),
                )
            }
            Condition::StartsWith(expr, initial) => {
                let texts = known(self.operands(expr, of))?;
                let initial = known(self.operands_with(initial, of, false))?;
                let (Some(texts), Some(initial)) = (texts, initial) else { return Ok(None) };
                let pairs = texts.iter().flat_map(|text| initial.iter().map(move |initial| (text, initial)));
                self.any(pairs, |(text, initial)| {
                    let are_texts = [text, initial].iter().all(|item| kind(item) == Some(Kind::Text));
                    are_texts.then(|| unquoted(text).starts_with(&*unquoted(initial)))
                })
            }
            Condition::Matches(expr, pattern, states) => {
                let Some(texts) = known(self.operands(expr, of))? else { return Ok(None) };
                let bytes: usize = texts.iter().map(|text| text.len()).sum();
                self.pay(bytes.saturating_mul(1 + *states as usize / 16))?;
                self.any(texts.iter(), |text| {
                    (kind(text) == Some(Kind::Text)).then(|| pattern.is_match(&unquoted(text)))
                })
            }
        })
    }

    /// Says whether something holds for one of some; unknown where it is so for one that is looked at.
    fn any<T>(&self, of: impl Iterator<Item = T>, holds: impl Fn(T) -> Truth) -> Truth {
        let (mut is_any, mut is_unknown) = (false, false);
        for one in of {
            match holds(one) {
                Some(true) if !self.is_strict => return Some(true),
                Some(true) => is_any = true,
                Some(false) => {}
                None if self.is_strict => return None,
                None => is_unknown = true,
            }
        }
        match (is_any, is_unknown) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }
}

/// Returns what is found, or nothing where the value is not as it should be.
fn known<T>(found: Outcome<T>) -> Outcome<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Failure::OfValue(_)) => Ok(None),
        Err(other) => Err(other),
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::new();
    quote(text, &mut out);
    out
}

fn sign_of(operator: Operator) -> &'static str {
    match operator {
        Operator::Plus => "+",
        Operator::Minus => "-",
        Operator::Times => "*",
        Operator::Divided => "/",
        Operator::Modulo => "%",
    }
}

fn type_name(item: &str) -> &'static str {
    match kind(item) {
        Some(Kind::Null) | None => "null",
        Some(Kind::Boolean) => "boolean",
        Some(Kind::Number) => "number",
        Some(Kind::Text) => "string",
        Some(Kind::Array) => "array",
        Some(Kind::Object) => "object",
    }
}

/// Compares two values; values of two types are neither equal nor not.
fn holds(comparison: Comparison, left: &str, right: &str) -> Truth {
    let (of_left, of_right) = (kind(left)?, kind(right)?);
    if of_left != of_right {
        // null is a value of each type.
        let is_null = of_left == Kind::Null || of_right == Kind::Null;
        return is_null.then_some(comparison == Comparison::NotEqual);
    }
    let order = match of_left {
        Kind::Null => Ordering::Equal,
        Kind::Boolean => (left == "true").cmp(&(right == "true")),
        Kind::Number => compared(left, right),
        Kind::Text => unquoted(left).cmp(&unquoted(right)),
        Kind::Array | Kind::Object => return None,
    };
    Some(match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::NotEqual => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    })
}

/// Returns a value as another type's, as JSON.
fn converted(method: Method, item: &str) -> Outcome<String> {
    let (of, text) = (kind(item), unquoted(item));
    let is_number_or_text = matches!(of, Some(Kind::Number | Kind::Text));
    let found = match method {
        Method::String => match of {
            Some(Kind::Text) => Some(item.to_string()),
            Some(Kind::Number | Kind::Boolean) => Some(quoted(item)),
            _ => None,
        },
        Method::Boolean => match of {
            Some(Kind::Boolean) => Some(item.to_string()),
            Some(Kind::Number) => item.parse::<i32>().ok().map(|number| (number != 0).to_string()),
            Some(Kind::Text) => truth_of(text.trim()).map(|truth| truth.to_string()),
            _ => None,
        },
        _ if !is_number_or_text => None,
        Method::Double => {
            let number = text.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            number.map(|number| crate::json::text::normalised(&format!("{number:.14e}")))
        }
        Method::Integer => {
            whole(&text, of).filter(|number| i32::try_from(*number).is_ok()).map(|of| of.to_string())
        }
        Method::Bigint => {
            whole(&text, of).filter(|number| i64::try_from(*number).is_ok()).map(|of| of.to_string())
        }
        _ => of_text(&text),
    };
    found.ok_or_else(|| {
        let (name, shown) = (method.name(), type_name(item));
        of_value("22036", format!("jsonpath item method .{name}() cannot be applied to this {shown}"))
    })
}

/// Returns a number of JSON that a text says.
fn of_text(text: &str) -> Option<String> {
    let text = text.trim().trim_start_matches('+');
    serde_json::from_str::<serde_json::Number>(text).ok()?;
    Some(crate::json::text::normalised(text))
}

/// Returns the whole number that a text says, or that is nearest to a number.
fn whole(text: &str, of: Option<Kind>) -> Option<i128> {
    match of {
        Some(Kind::Number) => Some(Number::read(text)?.rounded()),
        _ => text.trim().parse().ok(),
    }
}

/// Returns the truth that a text says, or begins to say.
fn truth_of(text: &str) -> Truth {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str| !text.is_empty() && word.starts_with(text.as_str());
    match text.as_str() {
        "1" | "on" => Some(true),
        "0" | "of" | "off" => Some(false),
        _ if begins("true") || begins("yes") => Some(true),
        _ if begins("false") || begins("no") => Some(false),
        _ => None,
    }
}
