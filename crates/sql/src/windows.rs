//! Windows that begin as others, as in `OVER (w ORDER BY x)` and
//! `WINDOW w2 AS (w ROWS 1 PRECEDING)` (ISO/IEC 9075-2, 7.15). They are written out, because EXCLUDE is
//! written as other frames here (`frame_exclusion`), which need the whole window.

use crate::frame_exclusion::{self, is_marked, take_mark};
use crate::identifier::fold;
use crate::time_literal;
use crate::walk::{Part, checked, walk, walk_mut};
use hypostyle_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, Value,
    ValueWithSpan, Visitor, VisitorMut, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};
use std::ops::ControlFlow;

/// Writes out what such windows are.
///
/// # Errors
/// `UnknownName` for a window that is not there; `Syntax` (42P20) for one that says again what the
/// other one says; `InvalidInput` (22013) for a frame of a negative size; those of
/// [`frame_exclusion::rewrite`].
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk(part, &mut Frames))?;
    checked(walk_mut(part, &mut Windows))?;
    let _done: ControlFlow<()> = walk_mut(part, &mut EmptyFrames);
    frame_exclusion::rewrite(part)
}

/// Refuses frames whose bounds are on the wrong side: DataFusion would give them no rows.
struct Frames;

impl Visitor for Frames {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        select.named_window.iter().try_for_each(|NamedWindowDefinition(_, window)| match window {
            NamedWindowExpr::WindowSpec(spec) => check_frame(spec),
            NamedWindowExpr::NamedWindow(_) => ControlFlow::Continue(()),
        })
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) => check_frame(spec),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn check_frame(spec: &WindowSpec) -> ControlFlow<Error> {
    let frame = spec.window_frame.iter();
    let mut bounds = frame.flat_map(|frame| std::iter::once(&frame.start_bound).chain(&frame.end_bound));
    let is_negative = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(Some(size)) | WindowFrameBound::Following(Some(size)) => {
            time_literal::is_negative(size)
        }
        _ => false,
    };
    if bounds.any(is_negative) {
        let message = "invalid preceding or following size in window function: it is negative";
        return ControlFlow::Break(Error::invalid_input(message).with_sqlstate("22013"));
    }
    ControlFlow::Continue(())
}

/// Puts a frame that is behind all rows in the stead of one that ends before it begins, as `ROWS BETWEEN 1
/// PRECEDING AND 2 PRECEDING`: it has no rows, and DataFusion refuses it.
struct EmptyFrames;

/// More rows than a table has.
const BEHIND_ALL: &str = "4611686018427387904";

impl VisitorMut for EmptyFrames {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = window {
                empty_frame(spec);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr {
            empty_frame(spec);
        }
        ControlFlow::Continue(())
    }
}

fn empty_frame(spec: &mut WindowSpec) {
    let is_marked = is_marked(spec);
    let Some(frame) = spec.window_frame.as_mut().filter(|_| !is_marked) else { return };
    let ends_first = match (distance(&frame.start_bound), frame.end_bound.as_ref().and_then(distance)) {
        // Bounds on two sides of the row are in order, or refused.
        (Some((is_behind, start)), Some((ends_behind, end))) if is_behind == ends_behind => {
            if is_behind {
                start > end
            } else {
                start < end
            }
        }
        _ => false,
    };
    if ends_first {
        let bound = || {
            let rows = Expr::value(Value::Number(BEHIND_ALL.to_string(), false));
            WindowFrameBound::Following(Some(Box::new(rows)))
        };
        frame.units = WindowFrameUnits::Rows;
        (frame.start_bound, frame.end_bound) = (bound(), Some(bound()));
    }
}

/// Returns whether a bound is behind the row, and how far from it, if a number says so.
fn distance(bound: &WindowFrameBound) -> Option<(bool, f64)> {
    let (is_behind, size) = match bound {
        WindowFrameBound::Following(Some(size)) => (true, size),
        WindowFrameBound::Preceding(Some(size)) => (false, size),
        _ => return None,
    };
    let Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) = size.as_ref() else {
        return None;
    };
    Some((is_behind, number.parse().ok()?))
}

/// Windows with their names, as the WINDOW clause of a SELECT defines them.
type Defined = Vec<(String, WindowSpec)>;

struct Windows;

impl VisitorMut for Windows {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Query { body, order_by: Some(order), .. } = query else { return ControlFlow::Continue(()) };
        let SetExpr::Select(select) = body.as_mut() else { return ControlFlow::Continue(()) };
        match defined(select) {
            Ok(defined) => walk_mut(order, &mut Inheriting { defined, depth: 0 }),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match defined(select) {
            Ok(defined) => walk_mut(select, &mut Inheriting { defined, depth: 0 }),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Returns the windows of a SELECT, which then say all of themselves.
fn defined(select: &mut Select) -> Result<Defined> {
    let mut defined = Defined::new();
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        match window {
            NamedWindowExpr::WindowSpec(spec) => {
                inherit(spec, &defined)?;
                defined.push((fold(name), spec.clone()));
            }
            NamedWindowExpr::NamedWindow(other) => {
                if let Some(spec) = excluding(other, &defined) {
                    defined.push((fold(name), spec.clone()));
                    *window = NamedWindowExpr::WindowSpec(spec);
                }
            }
        }
    }
    Ok(defined)
}

/// Returns a window by its name, if it leaves rows out: whatever is over it says so itself.
fn excluding(name: &Ident, defined: &Defined) -> Option<WindowSpec> {
    let name = fold(name);
    defined.iter().find(|(known, spec)| *known == name && is_marked(spec)).map(|(_, spec)| spec.clone())
}

/// Gives a window what the one has that it begins as.
fn inherit(spec: &mut WindowSpec, defined: &Defined) -> Result<()> {
    let Some(name) = spec.window_name.take() else { return Ok(()) };
    let Some((_, base)) = defined.iter().find(|(known, _)| *known == fold(&name)) else {
        let message = format!("no window {}", shown(&name));
        return Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704").about(&name.value));
    };
    let refused = |what: &str| {
        let message = format!("{what}: write the whole window in the place of {}", shown(&name));
        Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42P20").about(&name.value))
    };
    let mark = take_mark(spec);
    if !spec.partition_by.is_empty() {
        return refused("a window that begins as another one has no PARTITION BY of its own");
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return refused("the window has ORDER BY already");
    }
    if base.window_frame.is_some() {
        return refused("a window that has a frame cannot begin another one");
    }
    spec.partition_by.clone_from(&base.partition_by);
    if spec.order_by.is_empty() {
        spec.order_by.clone_from(&base.order_by);
    }
    spec.order_by.extend(mark);
    Ok(())
}

fn shown(name: &Ident) -> String {
    format!("\"{}\"", fold(name))
}

/// The windows of a SELECT's own functions.
struct Inheriting {
    defined: Defined,
    depth: usize,
}

impl VisitorMut for Inheriting {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Function(function) if self.depth == 0 => match &mut function.over {
                Some(WindowType::WindowSpec(spec)) => {
                    inherit(spec, &self.defined).map_or_else(ControlFlow::Break, ControlFlow::Continue)
                }
                Some(WindowType::NamedWindow(name)) => {
                    if let Some(spec) = excluding(name, &self.defined) {
                        function.over = Some(WindowType::WindowSpec(spec));
                    }
                    ControlFlow::Continue(())
                }
                None => ControlFlow::Continue(()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}
