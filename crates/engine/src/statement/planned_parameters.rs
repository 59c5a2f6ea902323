//! Parameters whose values determine the columns of a query, so that planning needs them: among the
//! arguments of table functions, as in `read_csv(?)` and `generate_series(1, ?)`, and of
//! `unnest(?)`. And those that are bounds of window frames, `ROWS ? PRECEDING` and `RANGE ? PRECEDING`,
//! which the planner takes as literals only. They become literals first.

use crate::session::{Parameters, as_text};
use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, IntervalUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Array as ArrayLiteral, Expr, Function, Interval, NamedWindowDefinition, NamedWindowExpr, Select,
    Statement, TableFactor, Value, Visitor, VisitorMut, WindowFrameBound, WindowSpec, WindowType,
};
use hypostyle_sql::build;
use hypostyle_sql::type_tree::type_of;
use hypostyle_sql::walk::{Part, expressions, expressions_mut, walk, walk_mut};
use hypostyle_types::{LogicalType, TimeUnit};
use std::ops::ControlFlow;

/// Writes values in the place of such parameters; those whose values cannot be written stay.
pub(super) fn write_values(statement: &mut Statement, parameters: &Parameters) {
    if !parameters.is_empty() {
        let _done = walk_mut(statement, &mut Values(parameters));
    }
}

/// Says whether a statement has such parameters.
pub(super) fn needs_values(statement: &Statement) -> bool {
    walk(statement, &mut Needs).is_break()
}

struct Needs;

impl Visitor for Needs {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let is_function = matches!(
            factor,
            TableFactor::Table { args: Some(_), .. }
                | TableFactor::Function { .. }
                | TableFactor::UNNEST { .. }
        );
        if is_function { find_parameter(factor) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        select.named_window.iter().try_for_each(|NamedWindowDefinition(_, window)| match window {
            NamedWindowExpr::WindowSpec(spec) => find_bound(spec),
            NamedWindowExpr::NamedWindow(_) => ControlFlow::Continue(()),
        })
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if is_unnest(function) => find_parameter(&function.args),
            Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) => find_bound(spec),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn find_bound(spec: &WindowSpec) -> ControlFlow<()> {
    let bounds = spec.window_frame.iter();
    let mut bounds = bounds.flat_map(|frame| std::iter::once(&frame.start_bound).chain(&frame.end_bound));
    let is_parameter = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(Some(size)) | WindowFrameBound::Following(Some(size)) => {
            parameter(size).is_some()
        }
        _ => false,
    };
    if bounds.any(is_parameter) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns the mark of a parameter, which may be cast.
fn parameter(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => parameter(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(mark) => Some(mark),
            _ => None,
        },
        _ => None,
    }
}

fn find_parameter(within: &impl Part) -> ControlFlow<()> {
    expressions(within, &mut |expr| match expr {
        Expr::Value(value) if matches!(value.value, Value::Placeholder(_)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
}

fn is_unnest(function: &Function) -> bool {
    function.name.to_string().eq_ignore_ascii_case("unnest")
}

struct Values<'a>(&'a Parameters);

impl VisitorMut for Values<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { args: Some(arguments), .. } => self.write(arguments),
            TableFactor::Function { args, .. } => self.write(args),
            TableFactor::UNNEST { array_exprs, .. } => self.write(array_exprs),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = window {
                self.write_bounds(spec);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if is_unnest(function) => self.write(&mut function.args),
            Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) => {
                self.write_bounds(spec);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

impl Values<'_> {
    /// Writes the bounds of a window's frame.
    fn write_bounds(&self, spec: &mut WindowSpec) {
        let frame = spec.window_frame.iter_mut();
        for bound in
            frame.flat_map(|frame| std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound))
        {
            if let WindowFrameBound::Preceding(Some(size)) | WindowFrameBound::Following(Some(size)) = bound
                && let Some(value) = parameter(size).and_then(|mark| self.0.value(mark))
                && let Some(written) = distance(value)
            {
                **size = written;
            }
        }
    }

    fn write(&self, arguments: &mut impl Part) -> ControlFlow<()> {
        expressions_mut(arguments, &mut |expr| {
            if let Expr::Value(value) = expr
                && let Value::Placeholder(mark) = &value.value
                && let Some(literal) = self.0.value(mark).and_then(literal)
            {
                *expr = literal;
            }
            ControlFlow::Continue(())
        })
    }
}

/// Returns the distance that a value is, as a number, or as an interval, which is how the planner takes
/// texts of any type; `None` for a negative one, which is left to be refused.
fn distance(value: &ScalarValue) -> Option<Expr> {
    let (value, is_interval) = match value.data_type() {
        DataType::Duration(_) => (value.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano)).ok()?, true),
        DataType::Interval(_) => (value.clone(), true),
        _ => (value.clone(), false),
    };
    let written = match literal(&value)? {
        Expr::Cast { expr, .. } => *expr,
        other => other,
    };
    let Expr::Value(of) = &written else { return None };
    let is_negative = |text: &str| if is_interval { text.contains('-') } else { text.starts_with('-') };
    match &of.value {
        Value::Number(text, _) if !is_negative(text) => Some(written),
        Value::SingleQuotedString(text) if !is_negative(text) => Some(Expr::Interval(Interval {
            value: Box::new(written),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        })),
        _ => None,
    }
}

/// Returns a value as SQL writes it.
pub(super) fn literal(value: &ScalarValue) -> Option<Expr> {
    let elements = |array: ArrayRef| {
        let literals =
            (0..array.len()).map(|place| literal(&ScalarValue::try_from_array(&array, place).ok()?));
        Some(Expr::Array(ArrayLiteral { elem: literals.collect::<Option<_>>()?, named: true }))
    };
    let text = || match value.cast_to(&DataType::Utf8).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    };
    if value.is_null() {
        return Some(Expr::value(Value::Null));
    }
    if let Some(ScalarValue::Utf8View(Some(text))) = as_text(value) {
        return Some(Expr::value(Value::SingleQuotedString(text)));
    }
    match value {
        ScalarValue::List(list) => elements(list.value(0)),
        ScalarValue::LargeList(list) => elements(list.value(0)),
        ScalarValue::FixedSizeList(list) => elements(list.value(0)),
        ScalarValue::Boolean(Some(truth)) => Some(Expr::value(Value::Boolean(*truth))),
        whole if whole.data_type().is_integer() => Some(Expr::value(Value::Number(text()?, false))),
        string if string.data_type().is_string() => Some(Expr::value(Value::SingleQuotedString(text()?))),
        other => {
            let of = match LogicalType::from_arrow(&Field::new("", other.data_type(), true)).ok()? {
                // Their text has the time zone.
                LogicalType::Timestamp { unit, .. } if unit != TimeUnit::Microsecond => {
                    LogicalType::Timestamp { unit, time_zone: None }
                }
                other => other,
            };
            Some(build::cast(Expr::value(Value::SingleQuotedString(text()?)), type_of(&of)))
        }
    }
}
