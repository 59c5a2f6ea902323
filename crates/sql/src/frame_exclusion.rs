//! Window frames that leave rows out, with EXCLUDE CURRENT ROW, GROUP or TIES (ISO/IEC 9075-2, 7.15). The
//! parser's tree has no place for it, so that a mark among the keys of the window says it. DataFusion has no
//! such frames: the rows that are left are one frame before those that are left out, one behind them, and
//! some between, and the function's values over these are put together.

use crate::build;
use crate::call::call;
use crate::identifier::fold;
use crate::names::name_unnamed;
use crate::walk::{Part, checked, expressions_mut, walk, walk_mut};
use hypostyle_types::{Error, Result};
use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, DataType, ExactNumberInfo, Expr, Function, FunctionArguments, Ident,
    NamedWindowDefinition, NamedWindowExpr, NullTreatment, ObjectName, ObjectNamePart, OrderByExpr, Query,
    Select, Value, Visitor, VisitorMut, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowSpec,
    WindowType,
};
use sqlparser::tokenizer::Token;
use std::ops::ControlFlow;

/// The rows that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exclusion {
    CurrentRow,
    Group,
    Ties,
}

/// The names of columns that stand for them, as the last key of a window: no column is called so.
const MARKS: [(Exclusion, &str, &str); 3] = [
    (Exclusion::CurrentRow, "CURRENT ROW", "window frame EXCLUDE CURRENT ROW"),
    (Exclusion::Group, "GROUP", "window frame EXCLUDE GROUP"),
    (Exclusion::Ties, "TIES", "window frame EXCLUDE TIES"),
];

/// Functions of the rows of a partition, whatever the frame is.
const OF_PARTITIONS: [&str; 8] =
    ["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

/// Functions that take a row of the frame.
const OF_ROWS: [&str; 3] = ["first_value", "last_value", "nth_value"];

/// Returns the mark for what EXCLUDE names by its first word; `None` for NO OTHERS.
pub fn mark(first: &str) -> Option<Token> {
    let found = MARKS
        .iter()
        .find(|(_, words, _)| words.split(' ').next().is_some_and(|word| word.eq_ignore_ascii_case(first)));
    found.map(|(_, _, name)| Token::make_word(name, Some('"')))
}

fn marked(key: &OrderByExpr) -> Option<Exclusion> {
    let Expr::Identifier(Ident { value, quote_style: Some(_), .. }) = &key.expr else { return None };
    MARKS.iter().find(|(_, _, name)| name == value).map(|(exclusion, ..)| *exclusion)
}

/// Says whether a window leaves rows out.
pub fn is_marked(spec: &WindowSpec) -> bool {
    spec.order_by.last().is_some_and(|key| marked(key).is_some())
}

/// Takes the mark away, which is a key of no window.
pub fn take_mark(spec: &mut WindowSpec) -> Option<OrderByExpr> {
    if is_marked(spec) { spec.order_by.pop() } else { None }
}

/// Writes functions over such frames as those over others.
///
/// # Errors
/// `Unsupported` for a function or a frame of which this cannot be done.
pub fn rewrite(part: &mut impl Part) -> Result<()> {
    checked(walk_mut(part, &mut Exclusions))
}

struct Exclusions;

impl VisitorMut for Exclusions {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // Functions over windows with names have them in their own place.
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = window {
                let _mark = take_mark(spec);
            }
        }
        name_unnamed(&mut select.projection, |expr| {
            without_marks(expr).map(|written| Ident::with_quote('"', written.to_string()))
        });
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let Some(WindowType::WindowSpec(spec)) = &mut function.over else {
            return ControlFlow::Continue(());
        };
        let Some(exclusion) = take_mark(spec).as_ref().and_then(marked) else {
            return ControlFlow::Continue(());
        };
        let spec = spec.clone();
        match meant(function, &spec, exclusion) {
            Some(meant) => {
                *expr = meant;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(refused(function, exclusion)),
        }
    }
}

/// Returns an expression without marks; `None` where there are none.
fn without_marks(expr: &Expr) -> Option<Expr> {
    let mut expr = expr.clone();
    let mut is_changed = false;
    let _all = expressions_mut(&mut expr, &mut |part| {
        if let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = part {
            is_changed |= take_mark(spec).is_some();
        }
        ControlFlow::<()>::Continue(())
    });
    is_changed.then_some(expr)
}

fn refused(function: &Function, exclusion: Exclusion) -> Error {
    let words = MARKS.iter().find(|(of, ..)| *of == exclusion).map_or("", |(_, words, _)| *words);
    Error::unsupported(format!(
        "{} over this window frame with EXCLUDE {words} is not supported; take the values of the rows that are \
         left out from the aggregate of the whole frame, or join the table with itself",
        function.name
    ))
}

/// A bound of a frame, in rows or groups of equal rows from the current one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Start,
    At(i64),
    End,
}

impl Place {
    fn of_bound(bound: &WindowFrameBound) -> Option<Self> {
        Some(match bound {
            WindowFrameBound::CurrentRow => Self::At(0),
            WindowFrameBound::Preceding(None) => Self::Start,
            WindowFrameBound::Following(None) => Self::End,
            WindowFrameBound::Preceding(Some(size)) => Self::At(-written(size)?),
            WindowFrameBound::Following(Some(size)) => Self::At(written(size)?),
        })
    }

    fn bound(self) -> WindowFrameBound {
        let size = |size: i64| Some(Box::new(build::number(size.unsigned_abs())));
        match self {
            Self::Start => WindowFrameBound::Preceding(None),
            Self::End => WindowFrameBound::Following(None),
            Self::At(0) => WindowFrameBound::CurrentRow,
            Self::At(place) if place < 0 => WindowFrameBound::Preceding(size(place)),
            Self::At(place) => WindowFrameBound::Following(size(place)),
        }
    }
}

/// Returns a number of rows that is written out.
fn written(size: &Expr) -> Option<i64> {
    match size {
        Expr::Nested(inner) => written(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Rows of a frame that are a frame by themselves.
struct Piece {
    units: WindowFrameUnits,
    from: Place,
    to: Place,
    /// They are of the rows that are equal to the current one alone.
    is_of_peers: bool,
}

impl Piece {
    fn window(&self, spec: &WindowSpec) -> WindowSpec {
        let frame = WindowFrame {
            units: self.units,
            start_bound: self.from.bound(),
            end_bound: Some(self.to.bound()),
        };
        let mut window = WindowSpec { window_frame: Some(frame), ..spec.clone() };
        if self.is_of_peers {
            window.partition_by.extend(window.order_by.drain(..).map(|key| key.expr));
        }
        window
    }
}

/// Returns the rows or groups of a frame before the current one and behind it.
fn beside_current(units: WindowFrameUnits, from: Place, to: Place) -> [Option<Piece>; 2] {
    let piece =
        |from: Place, to: Place| (from <= to).then_some(Piece { units, from, to, is_of_peers: false });
    [piece(from, to.min(Place::At(-1))), piece(from.max(Place::At(1)), to)]
}

/// Returns the rows that a frame has but for those that it leaves out; `None` where these are not frames.
fn pieces(spec: &WindowSpec, from: Place, to: Place, exclusion: Exclusion) -> Option<Vec<Piece>> {
    use WindowFrameUnits::{Groups, Range, Rows};
    let frame = spec.window_frame.as_ref()?;
    let is_ordered = !spec.order_by.is_empty();
    let is_whole = |from: Place, to: Place| from == Place::Start && to == Place::End;
    let has_distance = |bound: &WindowFrameBound| {
        matches!(bound, WindowFrameBound::Preceding(Some(_)) | WindowFrameBound::Following(Some(_)))
    };
    let (units, from, to) = match frame.units {
        Range if has_distance(&frame.start_bound) || frame.end_bound.as_ref().is_some_and(has_distance) => {
            return None;
        }
        // All rows are equal.
        Range if !is_ordered => (Rows, Place::Start, Place::End),
        Groups if !is_ordered => return None,
        Rows if is_ordered && exclusion != Exclusion::CurrentRow && is_whole(from, to) => (Groups, from, to),
        Groups | Range if exclusion == Exclusion::CurrentRow && is_whole(from, to) => (Rows, from, to),
        Range => (Groups, from, to),
        units => (units, from, to),
    };
    let has_current = from <= Place::At(0) && Place::At(0) <= to;
    let piece = |from, to, is_of_peers| Piece { units: Rows, from, to, is_of_peers };
    let [before, behind] = beside_current(units, from, to);
    let between = match (units, exclusion) {
        (Rows, Exclusion::CurrentRow) | (Groups, Exclusion::Group) => Vec::new(),
        (Rows, Exclusion::Group) if !is_ordered => return Some(Vec::new()),
        (Rows, Exclusion::Ties) if !is_ordered => {
            let current = piece(Place::At(0), Place::At(0), false);
            return Some(if has_current { vec![current] } else { Vec::new() });
        }
        (Groups, _) if !has_current => Vec::new(),
        (Groups, Exclusion::Ties) => vec![piece(Place::At(0), Place::At(0), false)],
        (Groups, Exclusion::CurrentRow) => {
            vec![piece(Place::Start, Place::At(-1), true), piece(Place::At(1), Place::End, true)]
        }
        // Where the equal rows end within a frame of rows, no bound tells.
        _ => return None,
    };
    Some(before.into_iter().chain(between).chain(behind).collect())
}

/// Returns what a function means over a window that leaves rows out.
fn meant(function: &Function, spec: &WindowSpec, exclusion: Exclusion) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = function.name.0.as_slice() else { return None };
    let name = fold(name);
    let frame = spec.window_frame.as_ref()?;
    let over = |window: WindowSpec| {
        let over = Some(WindowType::WindowSpec(window));
        Function { over, ..function.clone() }
    };
    if OF_PARTITIONS.contains(&name.as_str()) {
        return Some(Expr::Function(over(spec.clone())));
    }
    let from = Place::of_bound(&frame.start_bound)?;
    let to = frame.end_bound.as_ref().map_or(Some(Place::At(0)), Place::of_bound)?;
    // Such a frame is empty, or refused.
    if from > to || from == Place::End || to == Place::Start {
        return Some(Expr::Function(over(spec.clone())));
    }
    let windows: Vec<WindowSpec> =
        pieces(spec, from, to, exclusion)?.iter().map(|piece| piece.window(spec)).collect();
    // What is written several times must not be so again within itself.
    if windows.len() > 1 && has_query_or_window(function) {
        return None;
    }
    match windows.as_slice() {
        [] if OF_ROWS.contains(&name.as_str()) => {
            Some(build::case(build::truth(false), Expr::Function(over(spec.clone()))))
        }
        [] => {
            let filter = Some(Box::new(build::truth(false)));
            Some(Expr::Function(Function { filter, ..over(spec.clone()) }))
        }
        [window] => Some(Expr::Function(over(window.clone()))),
        _ => {
            let calls = windows.iter().cloned().map(over).collect();
            together(&name, calls).map(|all| Expr::Nested(Box::new(all)))
        }
    }
}

/// Says whether there is a query, or a function over a window, among what a function has.
fn has_query_or_window(function: &Function) -> bool {
    struct Any;
    impl Visitor for Any {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(Function { over: Some(_), .. }) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk(function, &mut Any).is_break()
}

/// Returns a function's value over several frames, one behind the other, from those over each.
fn together(name: &str, calls: Vec<Function>) -> Option<Expr> {
    let first = calls.first()?;
    let FunctionArguments::List(list) = &first.args else { return None };
    if !list.clauses.is_empty() || !first.within_group.is_empty() {
        return None;
    }
    let is_distinct = list.duplicate_treatment.is_some();
    let arguments = list.args.len();
    if OF_ROWS.contains(&name) {
        return if is_distinct || arguments != 1 { None } else { chosen(name, calls) };
    }
    if first.null_treatment.is_some() || is_distinct && !matches!(name, "min" | "max") {
        return None;
    }
    match (name, arguments) {
        ("min", 1) => Some(call("least", all(calls))),
        ("max", 1) => Some(call("greatest", all(calls))),
        ("count", _) => added(calls),
        ("sum", 1) => joined(all(calls), &|left, right| build::binary(left, BinaryOperator::Plus, right)),
        ("avg" | "mean", 1) => average(&calls),
        ("bool_and" | "every", 1) => {
            joined(all(calls), &|left, right| build::binary(left, BinaryOperator::And, right))
        }
        ("bool_or", 1) => joined(all(calls), &|left, right| build::binary(left, BinaryOperator::Or, right)),
        ("array_agg" | "list", 1) => {
            joined(all(calls), &|left, right| build::binary(left, BinaryOperator::StringConcat, right))
        }
        _ => None,
    }
}

fn all(calls: Vec<Function>) -> Vec<Expr> {
    calls.into_iter().map(Expr::Function).collect()
}

fn added(calls: Vec<Function>) -> Option<Expr> {
    all(calls).into_iter().reduce(|left, right| build::binary(left, BinaryOperator::Plus, right))
}

/// Puts values together, of which those of frames without values are NULL.
fn joined(values: Vec<Expr>, join: &dyn Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    values
        .into_iter()
        .reduce(|left, right| call("coalesce", vec![join(left.clone(), right.clone()), left, right]))
}

fn average(calls: &[Function]) -> Option<Expr> {
    let named = |name: &str| -> Vec<Function> {
        let name = ObjectName::from(vec![Ident::new(name)]);
        calls.iter().map(|call| Function { name: name.clone(), ..call.clone() }).collect()
    };
    let sum = joined(all(named("sum")), &|left, right| build::binary(left, BinaryOperator::Plus, right))?;
    let count = call("nullif", vec![added(named("count"))?, build::number(0)]);
    // A sum of numbers becomes a DOUBLE with it; one of intervals is none.
    let count = build::cast(count, DataType::Double(ExactNumberInfo::None));
    Some(build::binary(sum, BinaryOperator::Divide, count))
}

/// Returns the first or the last value of several frames.
fn chosen(name: &str, mut calls: Vec<Function>) -> Option<Expr> {
    match name {
        "first_value" => {}
        "last_value" => calls.reverse(),
        _ => return None,
    }
    if calls.first()?.null_treatment == Some(NullTreatment::IgnoreNulls) {
        return Some(call("coalesce", all(calls)));
    }
    let last = calls.pop()?;
    let conditions = calls.into_iter().map(|call| {
        let mut rows = build::count_rows();
        if let Expr::Function(count) = &mut rows {
            count.over.clone_from(&call.over);
            count.filter.clone_from(&call.filter);
        }
        let condition = build::binary(rows, BinaryOperator::Gt, build::number(0));
        CaseWhen { condition, result: Expr::Function(call) }
    });
    Some(Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: conditions.collect(),
        else_result: Some(Box::new(Expr::Function(last))),
    })
}

#[cfg(test)]
mod tests {
    use crate::parse::{Extension, parse_query};

    fn read(expr: &str) -> Result<String, hypostyle_types::Error> {
        parse_query(&format!("SELECT {expr} AS x FROM t"), &Extension::NONE).map(|query| query.to_string())
    }

    #[test]
    fn what_is_left_of_a_frame_is_several() {
        for (with, without) in [
            (
                "count(*) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
                "(count(*) OVER (ORDER BY a ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) \
                 + count(*) OVER (ORDER BY a ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING))",
            ),
            (
                "sum(b) OVER (ORDER BY a ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)",
                "sum(b) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
            ),
            (
                "sum(b) OVER (ORDER BY a RANGE UNBOUNDED PRECEDING EXCLUDE GROUP)",
                "sum(b) OVER (ORDER BY a GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)",
            ),
            (
                "max(b) OVER (PARTITION BY c ORDER BY a RANGE UNBOUNDED PRECEDING EXCLUDE TIES)",
                "(greatest(max(b) OVER (PARTITION BY c ORDER BY a GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), \
                 max(b) OVER (PARTITION BY c ORDER BY a ROWS BETWEEN CURRENT ROW AND CURRENT ROW)))",
            ),
            (
                "rank() OVER (ORDER BY a RANGE UNBOUNDED PRECEDING EXCLUDE TIES)",
                "rank() OVER (ORDER BY a RANGE UNBOUNDED PRECEDING)",
            ),
            (
                "sum(b) OVER (RANGE UNBOUNDED PRECEDING EXCLUDE GROUP)",
                "sum(b) FILTER (WHERE false) OVER (RANGE UNBOUNDED PRECEDING)",
            ),
        ] {
            assert_eq!(read(with).unwrap(), read(without).unwrap(), "{with}");
        }
    }

    #[test]
    fn windows_with_names_are_alike() {
        let of = |sql: &str| parse_query(sql, &Extension::NONE).unwrap().to_string();
        assert_eq!(
            of(
                "SELECT min(b) OVER w AS x FROM t WINDOW w AS (ORDER BY a ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)"
            ),
            of(
                "SELECT min(b) OVER (ORDER BY a ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS x FROM t \
                WINDOW w AS (ORDER BY a ROWS UNBOUNDED PRECEDING)"
            ),
        );
    }

    #[test]
    fn what_is_not_several_frames_is_refused() {
        for expr in [
            "sum(b) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES)",
            "sum(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE GROUP)",
            "stddev(b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
            "sum((SELECT 1)) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
            "sum(DISTINCT b) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW)",
        ] {
            assert_eq!(read(expr).unwrap_err().sqlstate(), "0A000", "{expr}");
        }
    }
}
