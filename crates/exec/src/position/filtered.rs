//! Aggregates over the rows for which a condition holds: FILTER, and CASE without another value.

use super::chunk::Chunk;
use super::codes::{KeyValue, MetOften, RowCodes};
use super::evaluate::{Columns, Evaluator, Values};
use super::flow::Expression;
use super::number::Numbers;
use super::stop::{Stop, Stopped};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Schema, UInt32Type};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{CaseExpr, Literal};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use hypostyle_position::Rows;
use hypostyle_position::fold::Ids;

/// A value for the rows for which a condition holds.
pub(super) struct Chosen {
    pub condition: Expression,
    pub value: Expression,
    /// Whether other rows have 0, not NULL.
    pub or_zero: bool,
}

impl Chosen {
    /// Returns the parts of `CASE WHEN condition THEN value [ELSE 0] END`.
    pub fn of(expression: &Expression, schema: &Schema) -> Option<Self> {
        let case = expression.downcast_ref::<CaseExpr>()?;
        let (None, [(condition, value)]) = (case.expr(), case.when_then_expr()) else { return None };
        let or_zero = match case.else_expr().map(|other| other.downcast_ref::<Literal>()) {
            None => false,
            Some(Some(literal)) if literal.value().is_null() => false,
            Some(Some(literal)) => {
                let zero = ScalarValue::new_zero(&literal.value().data_type()).ok()?;
                (zero == *literal.value()).then_some(true)?
            }
            Some(None) => return None,
        };
        let data_type = |of: &Expression| of.data_type(schema).ok();
        let is_same = data_type(value)? == data_type(expression)?;
        is_same.then(|| Self { condition: condition.clone(), value: value.clone(), or_zero })
    }
}

/// A condition on the rows of an aggregate.
#[derive(Debug)]
pub(super) enum Filter {
    Each(Evaluator),
    /// It depends on the rows of one joined table, for each of which it is evaluated once.
    OfRows(RowCodes),
}

impl Filter {
    pub fn new(condition: &Expression, columns: &Columns, met_often: MetOften<'_>) -> Stopped<Self> {
        let evaluator = Evaluator::seen(condition, &columns.universe)?;
        if let [slot] = &columns.universe.slots_of(condition)[..]
            && let Some(positions) = met_often(*slot)
            && !is_volatile(condition)
        {
            let key = KeyValue { evaluator, codes: None, key_type: (DataType::Boolean, true) };
            return Ok(Self::OfRows(RowCodes::new(*slot, positions, vec![key])?));
        }
        Ok(Self::Each(evaluator))
    }

    /// Returns the places of a chunk's rows for which the condition is true.
    pub fn places(&self, columns: &Columns, chunk: &Chunk) -> Stopped<Vec<u32>> {
        let truths = match self {
            Self::Each(evaluator) => {
                let numbers = Numbers::default();
                Values::new(columns, &numbers, chunk).truths(evaluator)?
            }
            Self::OfRows(codes) => {
                let of_rows = codes.of(columns, chunk)?;
                let truths = codes.truths(columns)?;
                let of_rows = of_rows.as_primitive::<UInt32Type>().values();
                of_rows.iter().map(|code| truths.get(*code as usize).copied().unwrap_or(0)).collect()
            }
        };
        Ok((0..).zip(truths).filter(|(_, is_true)| *is_true == 1).map(|(place, _)| place).collect())
    }

    pub fn bytes(&self) -> usize {
        match self {
            Self::Each(_) => 0,
            Self::OfRows(codes) => codes.bytes(),
        }
    }
}

/// The rows of a chunk that have passed a filter.
pub(super) struct Passed {
    places: Vec<u32>,
    ids: Option<Vec<u32>>,
    id: u32,
    pub chunk: Chunk,
}

impl Passed {
    pub fn new(filter: &Filter, columns: &Columns, chunk: &Chunk, ids: Ids<'_>) -> Stopped<Self> {
        let places = filter.places(columns, chunk)?;
        let (id, ids) = match ids {
            Ids::One { id, .. } => (id, None),
            Ids::Each(ids) => (0, Some(Rows::List(ids).pick(&places))),
        };
        Ok(Self { chunk: chunk.at(&places), places, ids, id })
    }

    /// Returns the ids of the rows' groups.
    pub fn ids(&self) -> Ids<'_> {
        match &self.ids {
            Some(ids) => Ids::Each(ids),
            None => Ids::One { id: self.id, rows: self.places.len() },
        }
    }
}

/// Returns sums with 0 where nothing was added up, but some rows had not passed.
pub(super) fn or_zero(sums: &ArrayRef, rows: &ArrayRef, passed: &ArrayRef) -> Stopped<ArrayRef> {
    let has_others = arrow::compute::kernels::cmp::gt(rows, passed).map_err(Stop::arrow)?;
    let places = (0..sums.len()).map(|row| match sums.is_null(row) && has_others.value(row) {
        true => (1, 0),
        false => (0, row),
    });
    let places: Vec<(usize, usize)> = places.collect();
    let zero = ScalarValue::new_zero(sums.data_type()).and_then(|zero| zero.to_array());
    let zero = zero.map_err(Stop::expression)?;
    arrow::compute::interleave(&[sums.as_ref(), zero.as_ref()], &places).map_err(Stop::arrow)
}
