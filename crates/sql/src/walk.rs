//! Walks through syntax trees.
//!
//! The parser's crate compiles its walk, some hundred functions, anew for each type of visitor, and in
//! each crate that walks. Here one walk is compiled for all, so that a pass costs little to compile.

use sqlparser::ast::{
    AlterTableOperation, Array, Assignment, Cte, Distinct, Expr, Function, FunctionArg, FunctionArguments,
    Insert, MergeClause, NamedWindowDefinition, ObjectName, OnInsert, OrderBy, OrderByExpr, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, TableFunctionArgs, TableWithJoins, UpdateTableFromKind,
    Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Walks through a part of a syntax tree.
pub fn walk<B>(part: &(impl Part + ?Sized), visitor: &mut dyn Visitor<Break = B>) -> ControlFlow<B> {
    let mut keeping = Keeping { visitor, broken: None };
    let _kept = part.walked(&mut Shared(&mut keeping));
    keeping.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Walks through a part of a syntax tree that the visitor may change.
pub fn walk_mut<B>(
    part: &mut (impl Part + ?Sized),
    visitor: &mut dyn VisitorMut<Break = B>,
) -> ControlFlow<B> {
    let mut keeping = KeepingMut { visitor, broken: None };
    let _kept = part.walked_mut(&mut SharedMut(&mut keeping));
    keeping.broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Takes an expression from its place, where NULL is left.
pub fn taken(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::value(Value::Null))
}

/// Says to a walk whether it goes on, which it does until something fails.
pub fn done<E>(result: Result<(), E>) -> ControlFlow<E> {
    result.map_or_else(ControlFlow::Break, ControlFlow::Continue)
}

/// Returns what a walk broke with as an error.
///
/// # Errors
/// What it broke with.
pub fn checked<E>(walked: ControlFlow<E>) -> Result<(), E> {
    walked.break_value().map_or(Ok(()), Err)
}

/// Calls a function for each expression, before those within it.
pub fn expressions<B>(
    part: &(impl Part + ?Sized),
    each: &mut dyn FnMut(&Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk(part, &mut Expressions(each))
}

/// Calls a function for each expression, which it may change, after those within it.
pub fn expressions_mut<B>(
    part: &mut (impl Part + ?Sized),
    each: &mut dyn FnMut(&mut Expr) -> ControlFlow<B>,
) -> ControlFlow<B> {
    walk_mut(part, &mut ExpressionsMut(each))
}

/// Returns how many expressions a part has.
pub fn parts_of(part: &(impl Part + ?Sized)) -> usize {
    let mut parts = 0;
    let _all = expressions(part, &mut |_| {
        parts += 1;
        ControlFlow::<()>::Continue(())
    });
    parts
}

/// A part of a syntax tree, or several of one kind.
pub trait Part {
    /// Lets a visitor see the part, until it breaks.
    fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()>;

    /// Lets a visitor see and change the part, until it breaks.
    fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()>;
}

/// Parts whose walks are compiled here.
macro_rules! parts {
    ($($part:ty),+ $(,)?) => {$(
        impl Part for $part {
            fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()> {
                self.visit(visitor)
            }

            fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()> {
                self.visit(visitor)
            }
        }
    )+};
}

parts! {
    AlterTableOperation, Array, Assignment, Cte, Distinct, Expr, Function, FunctionArg, FunctionArguments,
    Insert, MergeClause, NamedWindowDefinition, OnInsert, OrderBy, OrderByExpr, Query, Select, SelectItem,
    SetExpr, Statement, TableFactor, TableFunctionArgs, TableWithJoins, UpdateTableFromKind,
}

impl<P: Part> Part for [P] {
    fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|part| part.walked(visitor))
    }

    fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|part| part.walked_mut(visitor))
    }
}

impl<P: Part> Part for Vec<P> {
    fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()> {
        self.as_slice().walked(visitor)
    }

    fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()> {
        self.as_mut_slice().walked_mut(visitor)
    }
}

impl<P: Part> Part for Option<P> {
    fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()> {
        self.iter().try_for_each(|part| part.walked(visitor))
    }

    fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|part| part.walked_mut(visitor))
    }
}

impl<P: Part + ?Sized> Part for Box<P> {
    fn walked(&self, visitor: &mut Shared<'_>) -> ControlFlow<()> {
        self.as_ref().walked(visitor)
    }

    fn walked_mut(&mut self, visitor: &mut SharedMut<'_>) -> ControlFlow<()> {
        self.as_mut().walked_mut(visitor)
    }
}

/// The visitor that all walks without changes have.
pub struct Shared<'a>(&'a mut dyn Visitor<Break = ()>);

/// The visitor that all walks with changes have.
pub struct SharedMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// Keeps what a visitor broke with.
struct Keeping<'a, B> {
    visitor: &'a mut dyn Visitor<Break = B>,
    broken: Option<B>,
}

/// Keeps what a visitor that may change parts broke with.
struct KeepingMut<'a, B> {
    visitor: &'a mut dyn VisitorMut<Break = B>,
    broken: Option<B>,
}

/// Methods of a visitor that are those of the one within.
macro_rules! forward {
    ($($method:ident: $part:ty),+ $(,)?) => {
        $(fn $method(&mut self, part: $part) -> ControlFlow<()> {
            self.0.$method(part)
        })+
    };
}

/// Methods of a visitor that keep what the one within breaks with.
macro_rules! keep {
    ($($method:ident: $part:ty),+ $(,)?) => {
        $(fn $method(&mut self, part: $part) -> ControlFlow<()> {
            match self.visitor.$method(part) {
                ControlFlow::Continue(()) => ControlFlow::Continue(()),
                ControlFlow::Break(broken) => {
                    self.broken = Some(broken);
                    ControlFlow::Break(())
                }
            }
        })+
    };
}

/// Names all methods of a visitor to one of the macros above.
macro_rules! methods {
    ($each:ident, $($reference:tt)+) => {
        $each! {
            pre_visit_query: $($reference)+ Query,
            post_visit_query: $($reference)+ Query,
            pre_visit_select: $($reference)+ Select,
            post_visit_select: $($reference)+ Select,
            pre_visit_relation: $($reference)+ ObjectName,
            post_visit_relation: $($reference)+ ObjectName,
            pre_visit_table_factor: $($reference)+ TableFactor,
            post_visit_table_factor: $($reference)+ TableFactor,
            pre_visit_expr: $($reference)+ Expr,
            post_visit_expr: $($reference)+ Expr,
            pre_visit_statement: $($reference)+ Statement,
            post_visit_statement: $($reference)+ Statement,
            pre_visit_value: $($reference)+ ValueWithSpan,
            post_visit_value: $($reference)+ ValueWithSpan,
        }
    };
}

impl Visitor for Shared<'_> {
    type Break = ();

    methods!(forward, &);
}

impl VisitorMut for SharedMut<'_> {
    type Break = ();

    methods!(forward, &mut);
}

impl<B> Visitor for Keeping<'_, B> {
    type Break = ();

    methods!(keep, &);
}

impl<B> VisitorMut for KeepingMut<'_, B> {
    type Break = ();

    methods!(keep, &mut);
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
