//! Decides by their synopses which blocks a scan can skip.

use crate::scan::statistics::{End, scalar};
use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{self as physical, BinaryExpr, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use hypostyle_storage::{BlockSynopsis, Bound, TableData};
use hypostyle_types::BLOCK_ROWS;
use std::collections::HashSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

struct Synopses<'a> {
    table: &'a TableData,
    schema: SchemaRef,
    blocks: usize,
}

impl Synopses<'_> {
    fn of(&self, column: &Column) -> Option<(&[BlockSynopsis], usize)> {
        let index = self.schema.index_of(column.name()).ok()?;
        let synopses = self.table.columns().get(index)?.synopses().ok()?;
        (synopses.len() == self.blocks).then_some((synopses, index))
    }

    fn bounds(&self, column: &Column, end: End) -> Option<ArrayRef> {
        let (synopses, index) = self.of(column)?;
        let data_type = self.schema.field(index).data_type();
        let null = ScalarValue::try_from(data_type).ok()?;
        let values = synopses.iter().map(|synopsis| {
            let bounds = synopsis.bounds.as_ref();
            // NaN is above every number: a block with one has no maximum.
            let bounds = bounds.filter(|_| end == End::Minimum || !synopsis.has_nan);
            bounds
                .and_then(|(low, high)| scalar(if end == End::Minimum { low } else { high }, data_type, end))
                .unwrap_or_else(|| null.clone())
        });
        ScalarValue::iter_to_array(values).ok()
    }

    /// Returns which blocks may have rows that pass a comparison of a column with a constant;
    /// `None` for other predicates, for blocks without bounds, and for floats, whose zeros are
    /// equal and in no order of scalars.
    fn compare(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<Vec<bool>> {
        let comparison = predicate.downcast_ref::<BinaryExpr>()?;
        let column = comparison.left().downcast_ref::<physical::Column>()?;
        let constant = comparison.right().downcast_ref::<Literal>()?.value();
        let (synopses, index) = self.of(&Column::from_name(column.name()))?;
        let data_type = self.schema.field(index).data_type();
        if data_type.is_floating() {
            return None;
        }
        let order = |bound: &Bound, end| scalar(bound, data_type, end)?.partial_cmp(constant);
        let may_pass = |synopsis: &BlockSynopsis| {
            let (minimum, maximum) = synopsis.bounds.as_ref()?;
            let (minimum, maximum) = (order(minimum, End::Minimum)?, order(maximum, End::Maximum)?);
            Some(match comparison.op() {
                Operator::Eq => minimum.is_le() && maximum.is_ge(),
                Operator::Lt => minimum.is_lt(),
                Operator::LtEq => minimum.is_le(),
                Operator::Gt => maximum.is_gt(),
                Operator::GtEq => maximum.is_ge(),
                _ => return None,
            })
        };
        synopses.iter().map(may_pass).collect()
    }

    /// Returns the same for a comparison of an integer column that is cast to another type of integers. Rows
    /// that the type has not are errors: a block of which not all fit stays, unless they are NULLs then.
    fn compare_cast(&self, predicate: &Arc<dyn PhysicalExpr>) -> Option<Vec<bool>> {
        let comparison = predicate.downcast_ref::<BinaryExpr>()?;
        let cast = comparison.left().downcast_ref::<ScalarFunctionExpr>()?;
        let ([value], "cast" | "try_cast") = (cast.args(), cast.fun().name()) else { return None };
        let column = value.downcast_ref::<physical::Column>()?;
        let constant = integer(comparison.right().downcast_ref::<Literal>()?.value())?;
        let limits = limits(cast.return_type())?;
        let (synopses, index) = self.of(&Column::from_name(column.name()))?;
        if !self.schema.field(index).data_type().is_integer() {
            return None;
        }
        let may_pass = |synopsis: &BlockSynopsis| {
            let Some((Bound::Integer(minimum), Bound::Integer(maximum))) = &synopsis.bounds else {
                return Some(true);
            };
            let fits = limits.contains(minimum) && limits.contains(maximum);
            let may_pass = match comparison.op() {
                Operator::Eq => (*minimum..=*maximum).contains(&constant),
                Operator::Lt => *minimum < constant,
                Operator::LtEq => *minimum <= constant,
                Operator::Gt => *maximum > constant,
                Operator::GtEq => *maximum >= constant,
                _ => return None,
            };
            Some(may_pass || !(fits || cast.fun().name() == "try_cast"))
        };
        synopses.iter().map(may_pass).collect()
    }

    /// Returns the same for any predicate: one that cannot be judged by bounds keeps every block.
    fn keep(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Vec<bool> {
        let all = vec![true; self.blocks];
        let Some(predicate) = predicate else { return all };
        if let Some(keep) = self.compare(predicate) {
            return keep;
        }
        let pruning = PruningPredicateBuilder::new().with_file_schema(self.schema.clone());
        let pruning = pruning.try_build(predicate.clone());
        let mut keep = pruning.and_then(|pruning| pruning.prune(self)).unwrap_or(all);
        for of_cast in split_conjunction(predicate).into_iter().filter_map(|part| self.compare_cast(part)) {
            keep.iter_mut().zip(of_cast).for_each(|(keep, may_pass)| *keep &= may_pass);
        }
        keep
    }
}

/// Returns an integer that is not NULL.
fn integer(value: &ScalarValue) -> Option<i128> {
    Some(match value {
        ScalarValue::Int8(value) => i128::from((*value)?),
        ScalarValue::Int16(value) => i128::from((*value)?),
        ScalarValue::Int32(value) => i128::from((*value)?),
        ScalarValue::Int64(value) => i128::from((*value)?),
        ScalarValue::UInt8(value) => i128::from((*value)?),
        ScalarValue::UInt16(value) => i128::from((*value)?),
        ScalarValue::UInt32(value) => i128::from((*value)?),
        ScalarValue::UInt64(value) => i128::from((*value)?),
        _ => return None,
    })
}

/// Returns the values that a type of integers has.
fn limits(of: &DataType) -> Option<RangeInclusive<i128>> {
    Some(match of {
        DataType::Int8 => i8::MIN.into()..=i8::MAX.into(),
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::Int64 => i64::MIN.into()..=i64::MAX.into(),
        DataType::UInt8 => 0..=u8::MAX.into(),
        DataType::UInt16 => 0..=u16::MAX.into(),
        DataType::UInt32 => 0..=u32::MAX.into(),
        DataType::UInt64 => 0..=u64::MAX.into(),
        _ => return None,
    })
}

impl PruningStatistics for Synopses<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Minimum)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column, End::Maximum)
    }

    fn num_containers(&self) -> usize {
        self.blocks
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let (synopses, _) = self.of(column)?;
        Some(Arc::new(UInt64Array::from_iter_values(
            synopses.iter().map(|synopsis| u64::from(synopsis.nulls)),
        )))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.table.rows_in_files();
        let counts = (0..self.blocks as u64).map(|block| BLOCK_ROWS.min(rows - block * BLOCK_ROWS));
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Returns the row ranges that may hold rows the predicate accepts; `schema` is the table's,
/// unprojected.
pub fn prune(
    table: &TableData,
    schema: &SchemaRef,
    predicate: Option<&Arc<dyn PhysicalExpr>>,
) -> Vec<Range<u64>> {
    let rows = table.rows_in_files();
    let blocks = rows.div_ceil(BLOCK_ROWS) as usize;
    let synopses = Synopses { table, schema: schema.clone(), blocks };
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (block, keep) in synopses.keep(predicate).into_iter().enumerate() {
        if !keep {
            continue;
        }
        let (start, end) = (block as u64 * BLOCK_ROWS, rows.min((block as u64 + 1) * BLOCK_ROWS));
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    // A range never reaches from the files into the log, nor over the end of a batch there.
    let mut start = rows;
    for batch in table.beyond_files().tail.batches() {
        ranges.push(start..start + batch.num_rows() as u64);
        start += batch.num_rows() as u64;
    }
    ranges
}
