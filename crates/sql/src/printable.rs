//! Makes the syntax tree print as a text that is parsed to the same tree. Definitions are printed, and
//! parsed again: what is a text must not become code, and no operator may find another
//! operand.
//!
//! sqlparser prints operands without parentheses, a sign before a sign as a comment, and takes a
//! quotation mark behind a backslash, or behind another, for one that is escaped already.

use crate::operators::{IS, of_binary, of_expression, of_unary};
use crate::walk::{Part, taken, walk_mut};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, CastKind, DollarQuotedString, Expr, Ident, Query, Select, SelectItem, UnaryOperator,
    Value, ValueWithSpan, VisitorMut,
};
use sqlparser::dialect::Precedence;
use sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// Changes a part of a syntax tree so that its text means what it means.
pub fn rewrite(part: &mut impl Part) {
    let _done = walk_mut(part, &mut Printable);
}

/// Says whether a name can be written so that it is read as it is.
pub fn is_printable(name: &str) -> bool {
    marks_for(name).is_some()
}

struct Printable;

impl VisitorMut for Printable {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => requote(alias),
                SelectItem::UnnamedExpr(Expr::Named { name, .. }) => requote(name),
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with {
            for table in &mut with.cte_tables {
                requote(&mut table.alias.name);
                table.alias.columns.iter_mut().for_each(|column| requote(&mut column.name));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
        if let Value::SingleQuotedString(text) = &mut value.value
            && !prints_as_itself(text, '\'')
        {
            value.value = Value::DollarQuotedString(between_dollars(std::mem::take(text)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let level = of_expression(expr);
        match expr {
            Expr::Identifier(name) => requote(name),
            Expr::CompoundIdentifier(names) => names.iter_mut().for_each(requote),
            Expr::Dictionary(fields) => fields.iter_mut().for_each(|field| requote(&mut field.key)),
            Expr::BinaryOp { left, op, right } => {
                close(left, level);
                match right.as_ref() {
                    // Chains of AND and OR are balanced when they are read.
                    Expr::BinaryOp { op: inner, .. } if is_chain(op) && op == inner => {}
                    _ => close(right, level + 1),
                }
            }
            Expr::AnyOp { left, compare_op, .. } | Expr::AllOp { left, compare_op, .. } => {
                close(left, of_binary(compare_op));
            }
            Expr::UnaryOp { op, expr: inner } => match op {
                UnaryOperator::PGPostfixFactorial => close(inner, level),
                UnaryOperator::Not => close(inner, level),
                _ if begins_with_sign(inner) => enclose(inner),
                op => close(inner, of_unary(*op) + 1),
            },
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                close(left, IS);
                close(right, IS + 1);
            }
            Expr::IsNull(inner)
            | Expr::IsNotNull(inner)
            | Expr::IsTrue(inner)
            | Expr::IsNotTrue(inner)
            | Expr::IsFalse(inner)
            | Expr::IsNotFalse(inner)
            | Expr::IsUnknown(inner)
            | Expr::IsNotUnknown(inner)
            | Expr::InList { expr: inner, .. }
            | Expr::InSubquery { expr: inner, .. }
            | Expr::InUnnest { expr: inner, .. } => close(inner, level),
            Expr::Between { expr: inner, low, high, .. } => {
                close(inner, level);
                close(low, level + 1);
                close(high, level + 1);
            }
            Expr::Like { expr: inner, pattern, .. }
            | Expr::ILike { expr: inner, pattern, .. }
            | Expr::SimilarTo { expr: inner, pattern, .. }
            | Expr::RLike { expr: inner, pattern, .. } => {
                close(inner, level);
                close(pattern, level + 1);
            }
            Expr::AtTimeZone { timestamp, time_zone } => {
                close(timestamp, level);
                close(time_zone, level + 1);
            }
            Expr::Cast { kind: CastKind::DoubleColon, expr: inner, .. } => close(inner, level),
            Expr::Collate { expr: inner, .. }
            | Expr::CompoundFieldAccess { root: inner, .. }
            | Expr::JsonAccess { value: inner, .. } => close(inner, u8::MAX),
            Expr::Interval(interval) => close(&mut interval.value, u8::MAX),
            Expr::Position { expr: inner, .. } => {
                close(inner, crate::operators::of_class(Precedence::Between) + 1);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_chain(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::And | BinaryOperator::Or)
}

/// Puts an operand in parentheses that holds together less than its place wants.
pub(crate) fn close(operand: &mut Expr, level: u8) {
    if of_expression(operand) < level {
        enclose(operand);
    }
}

fn enclose(operand: &mut Expr) {
    let inner = taken(operand);
    *operand = Expr::Nested(Box::new(inner));
}

/// Says whether an expression's text begins with a sign or another operator, which would become one
/// token with an operator before it.
fn begins_with_sign(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { .. } => true,
        Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) => number.starts_with(['-', '+']),
        Expr::BinaryOp { left, .. } => begins_with_sign(left),
        Expr::Cast { kind: CastKind::DoubleColon, expr, .. } | Expr::Collate { expr, .. } => {
            begins_with_sign(expr)
        }
        Expr::AtTimeZone { timestamp, .. } => begins_with_sign(timestamp),
        Expr::CompoundFieldAccess { root, .. } => begins_with_sign(root),
        _ => false,
    }
}

/// Says whether sqlparser prints a text between quotation marks so that it is read as it was.
pub fn prints_as_itself(text: &str, quote: char) -> bool {
    let mut previous = None;
    for character in text.chars() {
        if character == quote && (previous == Some('\\') || previous == Some(quote)) {
            return false;
        }
        previous = Some(character);
    }
    true
}

/// Returns a text between dollars, with a tag that is not in it: there nothing is escaped.
fn between_dollars(value: String) -> DollarQuotedString {
    let tag = (0_u64..).map(|number| format!("q{number}")).find(|tag| {
        let mark = format!("${tag}$");
        format!("{value}{mark}").find(&mark) == Some(value.len())
    });
    DollarQuotedString { value, tag }
}

/// Gives a name other quotation marks if sqlparser would print it wrongly.
fn requote(name: &mut Ident) {
    if let Some(quote) = name.quote_style
        && !prints_as_itself(&name.value, quote)
        && let Some(other) = marks_for(&name.value)
    {
        name.quote_style = Some(other);
    }
}

/// Changes the tokens of a statement to such as are printed as they are read: names get other quotation
/// marks, and texts of other kinds become plain ones.
///
/// # Errors
/// `Unsupported` naming the name for which there are no marks; `Syntax` for bytes that are none.
pub fn plain_tokens(tokens: &mut [TokenWithSpan]) -> Result<()> {
    for token in tokens {
        match &mut token.token {
            Token::Word(word) => {
                if let Some(quote) = word.quote_style
                    && !prints_as_itself(&word.value, quote)
                {
                    let other = marks_for(&word.value);
                    word.quote_style = Some(other.ok_or_else(|| unprintable(&word.value))?);
                }
            }
            // A text between dollars may stand wherever a text may, as in COMMENT ON.
            Token::DollarQuotedString(DollarQuotedString { value: text, .. })
            | Token::NationalStringLiteral(text)
            | Token::SingleQuotedRawStringLiteral(text) => {
                token.token = Token::SingleQuotedString(std::mem::take(text));
            }
            Token::HexStringLiteral(digits) if !digits.chars().all(|digit| digit.is_ascii_hexdigit()) => {
                return Err(no_bytes(&format!("X'{digits}'")));
            }
            Token::SingleQuotedByteStringLiteral(text)
            | Token::DoubleQuotedByteStringLiteral(text)
            | Token::DoubleQuotedRawStringLiteral(text)
                if text.contains(['\'', '"', '\\']) =>
            {
                return Err(no_bytes(&format!("'{text}'")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns quotation marks between which a name is printed as it is read.
fn marks_for(name: &str) -> Option<char> {
    ['"', '`'].into_iter().find(|quote| prints_as_itself(name, *quote))
}

fn no_bytes(text: &str) -> Error {
    Error::new(ErrorKind::Syntax, format!("{text} is no string of bytes: its characters are no digits of it"))
}

fn unprintable(name: &str) -> Error {
    Error::unsupported(format!(
        "the name {name} is not supported: it has quotation marks of both kinds in a row, or behind a backslash"
    ))
}

#[cfg(test)]
#[path = "printable_tests.rs"]
mod tests;
