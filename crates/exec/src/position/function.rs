//! Window functions that pipelines compute.

use super::aggregate::{PlannedAggregate, is_average, is_sum};
use super::flow::{Expression, Universe, substitute};
use crate::pieces::is_long;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::windows::WindowUDFExpr;
use hypostyle_position::window::Bound;
use std::fmt;
use std::sync::Arc;

/// Aggregates of all rows of a partition whose result no order of these rows changes.
const UNORDERED: [&str; 16] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "stddev",
    "stddev_pop",
    "var",
    "var_pop",
    "corr",
    "covar_pop",
];

/// A window function of a plan, over numbered columns.
#[derive(Clone, Debug)]
pub(super) enum Function {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile(u64),
    /// The value of the row that is so many rows before, or else a constant.
    Shift {
        value: Expression,
        offset: i64,
        default: ScalarValue,
    },
    /// The value of a row of the frame.
    Pick {
        value: Expression,
        pick: Pick,
        frame: Frame,
    },
    /// An aggregate of all rows of the partition.
    Whole(Box<PlannedAggregate>),
    /// An aggregate of the rows of the frame.
    Framed {
        aggregate: Aggregate,
        value: Expression,
        frame: Frame,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pick {
    /// The row that is so many rows behind the first one.
    FromFirst(u64),
    Last,
}

/// An aggregate of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aggregate {
    /// How many rows there are, whatever their values.
    Rows,
    Count,
    Sum,
    Average,
    Least,
    Greatest,
}

/// Where the frames of a function begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub start: Bound,
    pub end: Bound,
}

impl Frame {
    /// Returns the frames of a plan; `None` for those that are told by values.
    fn of(frame: &WindowFrame) -> Option<Self> {
        let is_rows = frame.units == WindowFrameUnits::Rows;
        let bound = |bound: &WindowFrameBound, is_start: bool| {
            let offset = |value: &ScalarValue| match value.cast_to(&DataType::Int64) {
                Ok(ScalarValue::Int64(Some(rows))) if is_rows && rows >= 0 => Some(rows),
                _ => None,
            };
            match bound {
                WindowFrameBound::Preceding(rows) if rows.is_null() => is_start.then_some(Bound::Partition),
                WindowFrameBound::Following(rows) if rows.is_null() => {
                    (!is_start).then_some(Bound::Partition)
                }
                WindowFrameBound::CurrentRow if is_rows => Some(Bound::Row(0)),
                WindowFrameBound::CurrentRow => Some(Bound::Peers),
                WindowFrameBound::Preceding(rows) => offset(rows).map(|rows| Bound::Row(-rows)),
                WindowFrameBound::Following(rows) => offset(rows).map(Bound::Row),
            }
        };
        Some(Self { start: bound(&frame.start_bound, true)?, end: bound(&frame.end_bound, false)? })
    }

    /// Tells whether each frame is the partition; without an order all of its rows are peers.
    fn is_whole(self, has_order: bool) -> bool {
        let is_whole = |bound| bound == Bound::Partition || bound == Bound::Peers && !has_order;
        is_whole(self.start) && is_whole(self.end)
    }

    fn counts_rows(self) -> bool {
        matches!(self.start, Bound::Row(_)) || matches!(self.end, Bound::Row(_))
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arguments: Vec<String> = match self {
            Self::Ntile(buckets) => vec![buckets.to_string()],
            Self::Shift { value, offset, .. } => vec![value.to_string(), offset.to_string()],
            other => other.expressions().iter().map(ToString::to_string).collect(),
        };
        write!(f, "{}({})", self.name(), arguments.join(", "))
    }
}

impl Function {
    /// Returns the function of a plan over what its columns are; `None` for others.
    pub fn of(
        expr: &Arc<dyn WindowExpr>,
        columns: &[Expression],
        universe: &Universe,
    ) -> Result<Option<Self>> {
        if expr.expressions().iter().any(is_volatile) {
            return Ok(None);
        }
        let Some(frame) = Frame::of(expr.get_window_frame()) else { return Ok(None) };
        if let Some(standard) = expr.as_any().downcast_ref::<StandardWindowExpr>() {
            let function = standard.get_standard_func_expr().as_any().downcast_ref::<WindowUDFExpr>();
            return function.map_or(Ok(None), |function| Self::standard(function, frame, columns));
        }
        let aggregate = if let Some(plain) = expr.as_any().downcast_ref::<PlainAggregateWindowExpr>() {
            plain.get_aggregate_expr()
        } else if let Some(sliding) = expr.as_any().downcast_ref::<SlidingAggregateWindowExpr>() {
            sliding.get_aggregate_expr()
        } else {
            return Ok(None);
        };
        // DataFusion shows the condition of FILTER nowhere else.
        if !format!("{expr:?}").ends_with("filter: None }") || aggregate.ignore_nulls() {
            return Ok(None);
        }
        let arguments = aggregate.expressions();
        let arguments = arguments.iter().map(|argument| substitute(argument, columns));
        let planned = PlannedAggregate {
            function: Arc::new(aggregate.clone()),
            arguments: arguments.collect::<Result<_>>()?,
            filter: None,
        };
        let has_order = !expr.order_by().is_empty();
        if frame.is_whole(has_order) {
            let any_order = !has_order || UNORDERED.contains(&aggregate.fun().name());
            let is_known = any_order && planned.is_supported();
            return Ok(is_known.then(|| Self::Whole(Box::new(planned))));
        }
        Ok(Self::framed(&planned, frame, universe))
    }

    fn framed(planned: &PlannedAggregate, frame: Frame, universe: &Universe) -> Option<Self> {
        let [value] = planned.arguments.as_slice() else { return None };
        if planned.function.is_distinct() || !planned.is_supported() {
            return None;
        }
        let of = value.data_type(&universe.schema()).ok()?;
        let result = planned.function.field().data_type().clone();
        let aggregate = match planned.function.fun().name() {
            "count" if !value.nullable(&universe.schema()).unwrap_or(true) => Aggregate::Rows,
            "count" => Aggregate::Count,
            "sum" if is_sum(&of, &result) => Aggregate::Sum,
            "avg" if is_average(&of, &result) => Aggregate::Average,
            "min" if of == result => Aggregate::Least,
            "max" if of == result => Aggregate::Greatest,
            _ => return None,
        };
        // Floating-point numbers are not subtracted from a sum: what was lost does not come back.
        let adds = matches!(aggregate, Aggregate::Sum | Aggregate::Average);
        if adds && of == DataType::Float64 && frame.start != Bound::Partition {
            return None;
        }
        Some(Self::Framed { aggregate, value: value.clone(), frame })
    }

    fn standard(function: &WindowUDFExpr, frame: Frame, columns: &[Expression]) -> Result<Option<Self>> {
        // Nothing else shows whether NULLs are ignored, or the order is reversed.
        if !format!("{function:?}").ends_with("is_reversed: false, ignore_nulls: false }") {
            return Ok(None);
        }
        let arguments = function.args().iter().map(|argument| substitute(argument, columns));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        let constant = |place: usize| match arguments.get(place) {
            Some(argument) => argument.downcast_ref::<Literal>().map(|literal| literal.value().clone()),
            None => None,
        };
        let number = |place: usize| match constant(place)?.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        };
        let first = |value: &Expression, place| Self::Pick {
            value: value.clone(),
            pick: Pick::FromFirst(place),
            frame,
        };
        Ok(match (function.fun().name(), arguments.as_slice()) {
            ("row_number", []) => Some(Self::RowNumber),
            ("rank", []) => Some(Self::Rank),
            ("dense_rank", []) => Some(Self::DenseRank),
            ("percent_rank", []) => Some(Self::PercentRank),
            ("cume_dist", []) => Some(Self::CumeDist),
            ("ntile", [_]) => match number(0) {
                Some(buckets @ 1..) => Some(Self::Ntile(buckets as u64)),
                _ => None,
            },
            ("first_value", [value]) => Some(first(value, 0)),
            ("nth_value", [value, _]) => match number(1) {
                Some(place @ 1..) => Some(first(value, place as u64 - 1)),
                _ => None,
            },
            ("last_value", [value]) => Some(Self::Pick { value: value.clone(), pick: Pick::Last, frame }),
            ("lag" | "lead", [value, rest @ ..]) if rest.len() <= 2 && !value.is::<Literal>() => {
                let offset =
                    if rest.is_empty() { Some(1) } else { number(1).filter(|rows| *rows != i64::MIN) };
                // A long constant would be repeated for all rows without another one.
                let short = || constant(2).filter(|value| !is_long(value));
                let default = if rest.len() < 2 { Some(ScalarValue::Null) } else { short() };
                let sign = if function.fun().name() == "lag" { 1 } else { -1 };
                offset.zip(default).map(|(offset, default)| Self::Shift {
                    value: value.clone(),
                    offset: sign * offset,
                    default,
                })
            }
            _ => None,
        })
    }

    fn name(&self) -> &str {
        match self {
            Self::RowNumber => "row_number",
            Self::Rank => "rank",
            Self::DenseRank => "dense_rank",
            Self::PercentRank => "percent_rank",
            Self::CumeDist => "cume_dist",
            Self::Ntile(_) => "ntile",
            Self::Shift { .. } => "lag",
            Self::Pick { pick: Pick::FromFirst(0), .. } => "first_value",
            Self::Pick { pick: Pick::FromFirst(_), .. } => "nth_value",
            Self::Pick { pick: Pick::Last, .. } => "last_value",
            Self::Whole(planned) => planned.function.fun().name(),
            Self::Framed { aggregate, .. } => match aggregate {
                Aggregate::Count | Aggregate::Rows => "count",
                Aggregate::Sum => "sum",
                Aggregate::Average => "avg",
                Aggregate::Least => "min",
                Aggregate::Greatest => "max",
            },
        }
    }

    /// Returns the value that it reads of all rows.
    pub fn value(&self) -> Option<&Expression> {
        match self {
            Self::Framed { aggregate: Aggregate::Rows, .. } => None,
            Self::Shift { value, .. } | Self::Pick { value, .. } | Self::Framed { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Returns all expressions that it reads.
    pub fn expressions(&self) -> Vec<Expression> {
        match self {
            Self::Whole(planned) => planned.arguments.clone(),
            other => other.value().into_iter().cloned().collect(),
        }
    }

    /// Returns the frame that it looks at.
    pub fn frame(&self) -> Option<Frame> {
        match self {
            Self::Pick { frame, .. } | Self::Framed { frame, .. } => Some(*frame),
            _ => None,
        }
    }

    /// Tells whether the result depends on the order of rows whose keys are equal.
    pub fn tells_peers_apart(&self) -> bool {
        match self {
            Self::RowNumber | Self::Ntile(_) | Self::Shift { .. } | Self::Pick { .. } => true,
            Self::Framed { frame, .. } => frame.counts_rows(),
            Self::Whole(planned) => !UNORDERED.contains(&planned.function.fun().name()),
            _ => false,
        }
    }
}
