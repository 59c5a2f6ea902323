//! Semi and anti joins with a comparison: whether a row has a partner for which it holds is told by the
//! least and the greatest value of the rows with its key, without a look at each pair.

use super::condition::is_kernel_type;
use super::evaluate::{Evaluator, Values};
use super::flow::{Expression, Universe};
use super::stop::{Stop, Stopped};
use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::kernels::cmp::{gt, gt_eq, lt, lt_eq, neq};
use arrow::compute::{or_kleene, take};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use hypostyle_position::fold::{self, Fold, Ids};
use hypostyle_position::{Column, NO_POSITION, Rows};

/// A value of the collected rows, compared with one of the rows that mark them.
#[derive(Debug)]
pub(super) struct Comparison {
    own: Evaluator,
    operator: Operator,
    other: Evaluator,
    data_type: DataType,
}

impl Comparison {
    /// Returns the only condition, if it compares a value of the rows of some slots with one of others.
    pub fn of(conditions: &[Expression], slots: &[usize], universe: &Universe) -> Stopped<Option<Self>> {
        let [condition] = conditions else { return Ok(None) };
        let Some(compared) = condition.downcast_ref::<BinaryExpr>() else { return Ok(None) };
        let is_own = |side: &Expression| {
            let of_side = universe.slots_of(side);
            !of_side.is_empty() && of_side.iter().all(|slot| slots.contains(slot))
        };
        let is_other = |side: &Expression| {
            let of_side = universe.slots_of(side);
            !of_side.is_empty() && !of_side.iter().any(|slot| slots.contains(slot))
        };
        let (left, right) = (compared.left(), compared.right());
        let (own, operator, other) = match (is_own(left) && is_other(right), is_other(left) && is_own(right))
        {
            (true, _) => (left, Some(*compared.op()), right),
            (_, true) => (right, compared.op().swap(), left),
            _ => return Ok(None),
        };
        let schema = universe.schema();
        let data_type = own.data_type(&schema).map_err(Stop::expression)?;
        // The greatest of floats is another one than NaN.
        let has_order = is_kernel_type(&data_type)
            && !data_type.is_floating()
            && !matches!(data_type, DataType::Dictionary(..));
        let is_same = other.data_type(&schema).map_err(Stop::expression)? == data_type;
        let operator = operator.filter(|operator| {
            use Operator::{Gt, GtEq, Lt, LtEq, NotEq};
            matches!(operator, NotEq | Lt | LtEq | Gt | GtEq)
        });
        let (true, true, Some(operator)) = (has_order, is_same, operator) else { return Ok(None) };
        let own = Evaluator::seen(own, universe)?;
        Ok(Some(Self { own, operator, other: Evaluator::seen(other, universe)?, data_type }))
    }

    /// Returns the places of collected rows that have a partner for which the comparison holds. `firsts`
    /// are the first rows with the same keys, whose extremes are those of all their partners.
    pub fn fulfilled(
        &self,
        values: &mut Values<'_>,
        extremes: &Extremes,
        firsts: &[u32],
    ) -> Stopped<Vec<u32>> {
        let own = values.get(&self.own)?.array()?;
        let known = firsts.iter().map(|first| (*first != NO_POSITION).then_some(*first));
        let firsts: UInt32Array = known.collect();
        let of = |fold: &dyn Fold| -> Stopped<ArrayRef> {
            take(&fold.finish()?, &firsts, None).map_err(Stop::arrow)
        };
        let (least, greatest) = (of(extremes.least.as_ref())?, of(extremes.greatest.as_ref())?);
        let verdicts = match self.operator {
            Operator::Lt => lt(&own, &greatest),
            Operator::LtEq => lt_eq(&own, &greatest),
            Operator::Gt => gt(&own, &least),
            Operator::GtEq => gt_eq(&own, &least),
            _ => neq(&own, &least).and_then(|low| or_kleene(&low, &neq(&own, &greatest)?)),
        };
        let verdicts = verdicts.map_err(Stop::arrow)?;
        Ok((0..)
            .zip(verdicts.iter())
            .filter(|(_, holds)| *holds == Some(true))
            .map(|(place, _)| place)
            .collect())
    }
}

/// The least and the greatest value of the rows that have found each of the collected rows.
pub(super) struct Extremes {
    least: Box<dyn Fold>,
    greatest: Box<dyn Fold>,
}

impl Extremes {
    /// Makes the extremes of no values for so many collected rows.
    pub fn new(comparison: &Comparison, rows: usize) -> Stopped<Self> {
        let (least, greatest) =
            (fold::minimum(&comparison.data_type)?, fold::maximum(&comparison.data_type)?);
        let mut made = Self { least, greatest };
        made.least.grow(rows);
        made.greatest.grow(rows);
        Ok(made)
    }

    /// Takes the values of rows that have found collected rows, or none.
    pub fn push(&mut self, comparison: &Comparison, values: &mut Values<'_>, found: &[u32]) -> Stopped<()> {
        let value = values.get(&comparison.other)?.array()?;
        let is_found = |(_, first): &(u32, &u32)| **first != NO_POSITION;
        let (places, firsts): (Vec<u32>, Vec<u32>) = (0..).zip(found).filter(is_found).unzip();
        let column = Column { array: value.as_ref(), rows: Rows::List(&places) };
        self.least.fold(Ids::Each(&firsts), Some(column))?;
        Ok(self.greatest.fold(Ids::Each(&firsts), Some(column))?)
    }

    /// Adds those of another worker.
    pub fn merge(&mut self, other: &Self, rows: usize) -> Stopped<()> {
        let all: Vec<u32> = (0..rows as u32).collect();
        self.least.merge(other.least.as_ref(), Ids::Each(&all))?;
        Ok(self.greatest.merge(other.greatest.as_ref(), Ids::Each(&all))?)
    }

    pub fn bytes(&self) -> usize {
        self.least.bytes() + self.greatest.bytes()
    }
}
