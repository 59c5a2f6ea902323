//! Walks through syntax trees.
//!
//! The parser's crate compiles its walk, some hundred functions, anew for each type of visitor. Here
//! all visitors that break with the same type share one walk, so that a pass costs little to compile.

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Walks through a part of a syntax tree.
pub fn walk<B>(part: &impl Visit, visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    part.visit(&mut Shared(visitor))
}

/// Walks through a part of a syntax tree that the visitor may change.
pub fn walk_mut<B>(part: &mut impl VisitMut, visitor: &mut dyn VisitorMut<Break = B>) -> ControlFlow<B> {
    part.visit(&mut SharedMut(visitor))
}

/// Calls a function for each expression, before those within it.
pub fn expressions<B>(part: &impl Visit, each: &mut dyn FnMut(&Expr) -> ControlFlow<B>) -> ControlFlow<B> {
    walk(part, &mut Expressions(each))
}

/// Calls a function for each expression, which it may change, after those within it.
pub fn expressions_mut<B>(
    part: &mut impl VisitMut,
    each: &mut dyn FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk_mut(part, &mut ExpressionsMut(each))
}

struct Shared<'a, B>(&'a mut dyn Visitor<Break = B>);

struct SharedMut<'a, B>(&'a mut dyn VisitorMut<Break = B>);

/// Methods of a visitor that are those of the one within.
macro_rules! forward {
    ($($method:ident: $part:ty),+ $(,)?) => {
        $(fn $method(&mut self, part: $part) -> ControlFlow<B> {
            self.0.$method(part)
        })+
    };
}

impl<B> Visitor for Shared<'_, B> {
    type Break = B;

    forward! {
        pre_visit_query: &Query,
        post_visit_query: &Query,
        pre_visit_select: &Select,
        post_visit_select: &Select,
        pre_visit_relation: &ObjectName,
        post_visit_relation: &ObjectName,
        pre_visit_table_factor: &TableFactor,
        post_visit_table_factor: &TableFactor,
        pre_visit_expr: &Expr,
        post_visit_expr: &Expr,
        pre_visit_statement: &Statement,
        post_visit_statement: &Statement,
        pre_visit_value: &ValueWithSpan,
        post_visit_value: &ValueWithSpan,
    }
}

impl<B> VisitorMut for SharedMut<'_, B> {
    type Break = B;

    forward! {
        pre_visit_query: &mut Query,
        post_visit_query: &mut Query,
        pre_visit_select: &mut Select,
        post_visit_select: &mut Select,
        pre_visit_relation: &mut ObjectName,
        post_visit_relation: &mut ObjectName,
        pre_visit_table_factor: &mut TableFactor,
        post_visit_table_factor: &mut TableFactor,
        pre_visit_expr: &mut Expr,
        post_visit_expr: &mut Expr,
        pre_visit_statement: &mut Statement,
        post_visit_statement: &mut Statement,
        pre_visit_value: &mut ValueWithSpan,
        post_visit_value: &mut ValueWithSpan,
    }
}

struct Expressions<'a, B>(&'a mut dyn FnMut(&Expr) -> ControlFlow<B>);

impl<B> Visitor for Expressions<'_, B> {
    type Break = B;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}

struct ExpressionsMut<'a, B>(&'a mut dyn FnMut(&mut Expr) -> ControlFlow<B>);

impl<B> VisitorMut for ExpressionsMut<'_, B> {
    type Break = B;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<B> {
        (self.0)(expr)
    }
}
