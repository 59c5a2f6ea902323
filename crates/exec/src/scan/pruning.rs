//! Decides by their synopses which blocks a scan can skip.

use crate::scan::statistics::{End, scalar};
use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{self as physical, BinaryExpr, Literal};
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use hypostyle_storage::{BlockSynopsis, Bound, TableData};
use hypostyle_types::BLOCK_ROWS;
use std::collections::HashSet;
use std::ops::Range;
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

    /// Returns the same for any predicate: one that cannot be judged by bounds keeps every block.
    fn keep(&self, predicate: Option<&Arc<dyn PhysicalExpr>>) -> Vec<bool> {
        let all = vec![true; self.blocks];
        let Some(predicate) = predicate else { return all };
        if let Some(keep) = self.compare(predicate) {
            return keep;
        }
        let pruning = PruningPredicateBuilder::new().with_file_schema(self.schema.clone());
        let pruning = pruning.try_build(predicate.clone());
        pruning.and_then(|pruning| pruning.prune(self)).unwrap_or(all)
    }
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
