//! Cuts batches into pieces before operators that produce much from little, or keep all of it.
//!
//! UnnestExec produces all rows of a list at once, and repeats the other columns for each. An
//! expression repeats its constants for each row of a batch. An aggregate adds each row to all of
//! its grouping sets. Window functions give one value to many rows, and WindowAggExec keeps its
//! whole input without a reservation. A join copies long values into each row that it produces.
//! Below each of them is a `PiecesExec`. It passes on small pieces, or reserves memory for what is
//! kept, or refuses rows that are too wide, so that the operator stays within its limit.

use crate::node_rule::node_rule;
use crate::passing::{Passing, passing, passing_below};
use crate::yielding::watched;
use arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Volatility};
use datafusion::physical_expr::expressions::{CastExpr, Literal};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::{StreamExt, TryStreamExt, stream};
use hypostyle_error::external;
use hypostyle_expr::at_once::may_be_large;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::sizes::{ELEMENT_BYTES, bytes_of, leaves_of, length_of_list, scalar_bytes};
use hypostyle_types::{Error, ErrorKind};
use std::ops::Range;
use std::sync::Arc;

/// The approximate bytes that an operator produces from one piece.
const PIECE_BYTES: u64 = 16 << 20;

/// The rows that an aggregate takes at once, each counted for each of its grouping sets: it adds them to all
/// sets before it asks for memory or yields.
const GROUPED_ROWS: u64 = 1 << 18;

/// Shorter constants are not counted: there may be many, which are compared with and not repeated.
const LONG_CONSTANT: u64 = 1 << 10;

pub fn is_long(constant: &ScalarValue) -> bool {
    scalar_bytes(constant) >= LONG_CONSTANT
}

/// Says whether an expression calls a function whose result is the same in all rows, and was not
/// made a constant.
fn is_constant_call(expression: &Arc<dyn PhysicalExpr>) -> bool {
    let is_call = |expression: &Arc<dyn PhysicalExpr>| expression.is::<ScalarFunctionExpr>();
    let varies = |expression: &Arc<dyn PhysicalExpr>| {
        let call = expression.downcast_ref::<ScalarFunctionExpr>();
        let is_volatile = call.is_some_and(|call| call.fun().signature().volatility == Volatility::Volatile);
        Ok(is_volatile || !(call.is_some() || expression.is::<Literal>() || expression.is::<CastExpr>()))
    };
    is_call(expression) && !expression.exists(varies).unwrap_or(true)
}

/// Returns the bytes of such a result; 0 where it is short, or an error, which is the operator's.
fn bytes_of_constant(expression: &Arc<dyn PhysicalExpr>) -> u64 {
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
    let bytes = match row.map(|row| expression.evaluate(&row)) {
        Ok(Ok(ColumnarValue::Scalar(value))) => scalar_bytes(&value),
        Ok(Ok(ColumnarValue::Array(values))) => bytes_of(values.as_ref(), 0..values.len()),
        _ => 0,
    };
    if bytes < LONG_CONSTANT { 0 } else { bytes }
}

/// Returns the bytes of the long constants in an expression.
fn long_constants(expression: &Arc<dyn PhysicalExpr>) -> Result<u64> {
    let mut bytes = 0;
    expression.apply(|expression| {
        if let Some(constant) = expression.downcast_ref::<Literal>() {
            bytes += if is_long(constant.value()) { scalar_bytes(constant.value()) } else { 0 };
        }
        if is_constant_call(expression) {
            bytes += bytes_of_constant(expression);
            return Ok(TreeNodeRecursion::Jump);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(bytes)
}

/// Returns the same of the arguments of window functions, which are repeated for all rows that are kept.
fn long_arguments(functions: &[Arc<dyn WindowExpr>]) -> Result<u64> {
    functions.iter().flat_map(|function| function.expressions()).map(|of| long_constants(&of)).sum()
}

/// Puts a `PiecesExec` below the operators that need it.
#[derive(Debug)]
pub struct InPieces;

node_rule!(InPieces: "InPieces", in_pieces);

/// Puts a `PiecesExec` below an operator that needs it.
fn in_pieces(
    plan: Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let batch_rows = config.execution.batch_size.get();
    let Some(how) = How::of(plan.as_ref(), batch_rows)? else { return Ok(Transformed::no(plan)) };
    let is_join = matches!(how, How::Joined { .. });
    let plan = passing_below(&plan, &how)?;
    Ok(Transformed::yes(if is_join { passing(&plan, FewRows) } else { plan }))
}

/// The treatment of an operator's input.
#[derive(Clone, Debug)]
enum How {
    /// Long lists are cut, for those that are unnested.
    Lists(Arc<[ListUnnest]>),
    /// No piece has more rows.
    Rows(usize),
    /// All of it is kept: reserved is its size twice, and so much for each row, or a value of any
    /// length.
    Kept { row_bytes: usize, repeats: bool },
    /// Any value, and constants of so many bytes, may become that of all rows of a piece.
    Repeated { constants: u64 },
    /// Functions make long values of long ones.
    Wide,
    /// A join, above which is a `FewRowsExec`: it makes so few rows at a time that they may be
    /// wide. Its inputs have as many as ever.
    Joined { batch_rows: usize },
}

impl How {
    fn of(plan: &dyn ExecutionPlan, batch_rows: usize) -> Result<Option<Self>> {
        if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
            return Ok(Some(Self::Lists(unnest.list_column_indices().into())));
        }
        if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            let constants = long_arguments(window.window_expr())?;
            let row_bytes = window.window_expr().len() * ELEMENT_BYTES as usize + constants as usize;
            let fields = window.window_expr().iter().map(|expr| expr.field());
            let fields = fields.collect::<Result<Vec<_>>>()?;
            let repeats = fields.iter().any(|field| is_long_type(field.data_type()));
            return Ok(Some(Self::Kept { row_bytes, repeats }));
        }
        if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            return Ok(Some(Self::Repeated { constants: long_arguments(window.window_expr())? }));
        }
        let is_join = plan.is::<CrossJoinExec>()
            || plan.is::<HashJoinExec>()
            || plan.is::<NestedLoopJoinExec>()
            || plan.is::<SortMergeJoinExec>();
        if is_join {
            let copied = |input: &&Arc<dyn ExecutionPlan>| {
                input.schema().fields().iter().any(|field| is_copied_type(field.data_type()))
            };
            return Ok(plan.children().iter().any(copied).then_some(Self::Joined { batch_rows }));
        }
        let (mut constants, mut is_large) = (0, false);
        plan.apply_expressions(&mut |expression| {
            is_large |= may_be_large(expression);
            constants += long_constants(expression)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        let sets = plan.downcast_ref::<AggregateExec>().map_or(1, |sets| sets.group_expr().groups().len());
        let rows = (PIECE_BYTES / constants.max(1)).min(GROUPED_ROWS / sets.max(1) as u64);
        Ok(match rows < batch_rows as u64 {
            true => Some(Self::Rows(rows.max(1) as usize)),
            // A projection computes as few rows at once as are not too much (`slices`).
            false => (is_large && !plan.is::<ProjectionExec>()).then_some(Self::Wide),
        })
    }
}

impl Passing for How {
    const NAME: &'static str = "PiecesExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows_max = context.session_config().batch_size().max(1);
        let context = match self {
            Self::Joined { batch_rows } => with_batch_rows(&context, *batch_rows),
            _ => context,
        };
        let input = input.execute(partition, context.clone())?;
        let schema = input.schema();
        let meter = context.session_config().get_extension::<Meter>();
        let limit = meter.as_ref().map_or(u64::MAX, |meter| meter.batch_limit());
        let reserved = MemoryConsumer::new("WindowAggExec").register(context.memory_pool());
        let how = self.clone();
        let (mut rows_kept, mut widest) = (0_u64, 0_u64);
        let pieces = input.map(move |batch| {
            let batch = batch?;
            let pieces: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> = match &how {
                How::Kept { row_bytes, repeats } => {
                    let all = batch.num_rows().saturating_mul(*row_bytes);
                    let kept = all.saturating_add(2 * batch.get_array_memory_size());
                    reserved.try_grow(kept)?;
                    rows_kept += batch.num_rows() as u64;
                    if *repeats {
                        widest = widest.max(widest_row(&batch, is_long_type));
                        // This is the memory that all rows would take beyond the reservation.
                        let all = rows_kept.saturating_mul(widest) as usize;
                        reserved.try_grow(all.saturating_sub(reserved.size()))?;
                    }
                    Box::new(std::iter::once(Ok(batch)))
                }
                How::Repeated { constants } => {
                    widest = widest.max(widest_row(&batch, is_long_type)).max(*constants);
                    Box::new(cut(batch, (PIECE_BYTES / widest.max(1)).clamp(1, rows_max as u64) as usize))
                }
                How::Joined { .. } => {
                    let width = widest_row(&batch, is_copied_type);
                    if width.saturating_mul(rows_max as u64) > limit {
                        return Err(too_wide(width, limit / rows_max as u64));
                    }
                    Box::new(std::iter::once(Ok(batch)))
                }
                How::Rows(rows) => Box::new(cut(batch, *rows)),
                How::Wide => Box::new(cut_by_bytes(batch)),
                How::Lists(lists) => Box::new(Lists::new(batch, lists, rows_max, limit)?),
            };
            Ok::<_, DataFusionError>(stream::iter(pieces))
        });
        // One batch may become very many pieces, so the task checks its limits and yields between
        // them.
        Ok(watched(pieces.try_flatten(), schema, meter))
    }
}

/// Returns values of any length.
fn is_long_type(of: &DataType) -> bool {
    matches!(of, DataType::Utf8View | DataType::BinaryView) || is_copied_type(of)
}

/// Returns values of any length, which are copied with each row that has them.
fn is_copied_type(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary)
        || of.is_nested()
}

/// Returns the bytes of the widest row, of the columns of some types; 0 when there are none, or all
/// are short together.
fn widest_row(batch: &RecordBatch, is_counted: fn(&DataType) -> bool) -> u64 {
    let columns = batch.columns().iter().filter(|column| is_counted(column.data_type()));
    let columns: Vec<&ArrayRef> = columns.collect();
    let bytes = |rows: Range<usize>| -> u64 {
        columns.iter().map(|column| bytes_of(column.as_ref(), rows.clone())).fold(0, u64::saturating_add)
    };
    let all = bytes(0..batch.num_rows());
    match all < LONG_CONSTANT {
        true => all,
        false => (0..batch.num_rows()).map(|row| bytes(row..row + 1)).max().unwrap_or(0),
    }
}

fn too_wide(width: u64, limit: u64) -> DataFusionError {
    let message = format!(
        "a join of rows of {width} bytes, where memory_limit lets one have {limit}: each row that the join makes has a copy; raise \
         memory_limit, or join without the long values"
    );
    external(Error::new(ErrorKind::OutOfMemory, message))
}

/// The rows that a join produces at once if they may be wide.
const JOINED_ROWS: usize = 256;

/// Returns the same task with batches of other sizes.
fn with_batch_rows(context: &TaskContext, rows: usize) -> Arc<TaskContext> {
    let config = context.session_config().clone().with_batch_size(rows);
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        config,
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        context.runtime_env(),
    ))
}

/// Lets its input make few rows at a time.
#[derive(Clone, Debug)]
struct FewRows;

impl Passing for FewRows {
    const NAME: &'static str = "FewRowsExec";

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().batch_size().min(JOINED_ROWS);
        input.execute(partition, with_batch_rows(&context, rows))
    }
}

/// Returns a batch in pieces of so many rows.
fn cut(batch: RecordBatch, rows: usize) -> impl Iterator<Item = Result<RecordBatch>> + Send {
    let starts = (0..batch.num_rows()).step_by(rows);
    starts.map(move |start| Ok(batch.slice(start, rows.min(batch.num_rows() - start))))
}

/// Returns a batch in pieces of few bytes, or of one row.
fn cut_by_bytes(batch: RecordBatch) -> impl Iterator<Item = Result<RecordBatch>> + Send {
    let mut start = 0;
    std::iter::from_fn(move || {
        let rest = start..batch.num_rows();
        if rest.is_empty() && start > 0 {
            return None;
        }
        let bytes = |rows: Range<usize>| -> u64 {
            let columns = batch.columns().iter().filter(|column| is_long_type(column.data_type()));
            columns.map(|column| bytes_of(column.as_ref(), rows.clone())).fold(0, u64::saturating_add)
        };
        let mut rows = rest.len();
        if bytes(rest.clone()) > PIECE_BYTES {
            let mut sum = 0_u64;
            let fit = rest.take_while(|row| {
                sum = sum.saturating_add(bytes(*row..row + 1));
                sum <= PIECE_BYTES
            });
            rows = fit.count().max(1);
        }
        start += rows.max(1);
        Some(Ok(batch.slice(start - rows.max(1), rows)))
    })
}

/// A batch whose lists are to be unnested, in pieces of which each becomes few rows and bytes.
struct Lists {
    batch: RecordBatch,
    /// The columns whose lists are cut, and whether their elements are lists that become rows, too.
    cut: Vec<usize>,
    is_nested: bool,
    rows_max: u64,
    /// The number of rows that each row becomes, and the bytes of one of them.
    expanded: Vec<(u64, u64)>,
    limit: u64,
    /// The next row, and the next element of its lists.
    row: usize,
    element: usize,
}

impl Lists {
    fn new(batch: RecordBatch, lists: &[ListUnnest], rows_max: usize, limit: u64) -> Result<Self> {
        let deepest = lists.iter().map(|list| list.depth).max().unwrap_or(0);
        let (deep, flat): (Vec<&ListUnnest>, Vec<&ListUnnest>) =
            lists.iter().partition(|list| list.depth == deepest);
        let columns = |lists: &[&ListUnnest]| -> Vec<usize> {
            let mut columns: Vec<usize> = lists.iter().map(|list| list.index_in_input_schema).collect();
            columns.dedup();
            columns
        };
        let (deep, flat) = (columns(&deep), columns(&flat));
        let is_list = |column: &usize| {
            matches!(batch.column(*column).data_type(), DataType::List(_) | DataType::LargeList(_))
        };
        // A list that is unnested to two depths is needed as a whole.
        let may_cut = deep.iter().all(is_list) && !deep.iter().any(|column| flat.contains(column));
        let expanded = (0..batch.num_rows()).map(|row| expanded(&batch, &deep, &flat, deepest, row));
        let expanded = expanded.collect();
        Ok(Self {
            cut: if may_cut { deep } else { Vec::new() },
            is_nested: deepest > 1,
            rows_max: rows_max as u64,
            expanded,
            batch,
            limit,
            row: 0,
            element: 0,
        })
    }

    /// Returns the number of rows that together become few.
    fn small_rows(&self) -> usize {
        let (mut rows, mut bytes) = (0_u64, 0_u64);
        let fit = self.expanded[self.row..].iter().take_while(|(count, width)| {
            rows = rows.saturating_add(*count);
            bytes = bytes.saturating_add(count.saturating_mul(*width));
            rows <= self.rows_max && bytes <= PIECE_BYTES
        });
        fit.count()
    }

    /// Returns the elements that the lists of the present row have, and how many of them one piece
    /// has.
    fn elements(&self) -> (usize, usize) {
        let lists = self.cut.iter().filter_map(|column| length_of_list(self.batch.column(*column), self.row));
        let all = lists.max().unwrap_or(0);
        let (_, width) = self.expanded[self.row];
        let at_once = match self.is_nested {
            true => 1,
            false => (PIECE_BYTES / width.max(1)).clamp(1, self.rows_max) as usize,
        };
        (all, at_once)
    }

    /// Returns some elements of the present row's lists, beside its other columns.
    fn piece_of_row(&self, elements: Range<usize>) -> Result<RecordBatch> {
        let columns =
            self.batch.columns().iter().enumerate().map(|(index, column)| match self.cut.contains(&index) {
                true => part_of_list(column, self.row, elements.clone()),
                false => Ok(column.slice(self.row, 1)),
            });
        Ok(RecordBatch::try_new(self.batch.schema(), columns.collect::<Result<_>>()?)?)
    }

    fn large_row(&mut self) -> Result<RecordBatch> {
        let (all, at_once) = self.elements();
        if self.cut.is_empty() || all <= 1 {
            let (count, width) = self.expanded[self.row];
            let bytes = count.saturating_mul(width);
            if bytes > self.limit {
                let message = format!(
                    "unnest() would make {bytes} bytes of one row, and memory_limit lets it make {}; raise memory_limit",
                    self.limit
                );
                return Err(external(Error::new(ErrorKind::OutOfMemory, message)));
            }
            self.row += 1;
            return Ok(self.batch.slice(self.row - 1, 1));
        }
        let end = all.min(self.element + at_once);
        let piece = self.piece_of_row(self.element..end)?;
        (self.row, self.element) = if end == all { (self.row + 1, 0) } else { (self.row, end) };
        Ok(piece)
    }
}

impl Iterator for Lists {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.row == self.batch.num_rows() {
            return None;
        }
        let small = if self.element == 0 { self.small_rows() } else { 0 };
        if small == 0 {
            let piece = self.large_row();
            if piece.is_err() {
                self.row = self.batch.num_rows();
            }
            return Some(piece);
        }
        self.row += small;
        Some(Ok(self.batch.slice(self.row - small, small)))
    }
}

/// Returns the rows that one row becomes when lists are unnested, and the bytes that are copied for
/// each.
fn expanded(batch: &RecordBatch, deep: &[usize], flat: &[usize], deepest: usize, row: usize) -> (u64, u64) {
    let within = row..row + 1;
    let length = |column: &usize| length_of_list(batch.column(*column), row).unwrap_or(1) as u64;
    let mut rows = match deepest {
        0 | 1 => deep.iter().map(length).max().unwrap_or(1),
        _ => {
            // A list of empty lists becomes rows, too.
            let leaves = |column: &usize| leaves_of(batch.column(*column), within.clone()).0;
            deep.iter().map(|column| leaves(column).saturating_add(length(column))).max().unwrap_or(1)
        }
    };
    for column in flat {
        rows = rows.saturating_mul(length(column).max(1));
    }
    let copied = |(index, column): (usize, &ArrayRef)| match column.data_type() {
        DataType::Utf8View | DataType::BinaryView => ELEMENT_BYTES,
        _ if deep.contains(&index) => ELEMENT_BYTES,
        _ => bytes_of(column.as_ref(), within.clone()).saturating_add(ELEMENT_BYTES),
    };
    let width = batch.columns().iter().enumerate().map(copied).fold(0, u64::saturating_add);
    (rows.max(1), width)
}

/// Returns some elements of the list in a row, as a list in a row; what the list does not have is
/// left out.
fn part_of_list(column: &ArrayRef, row: usize, elements: Range<usize>) -> Result<ArrayRef> {
    if column.is_null(row) {
        return Ok(column.slice(row, 1));
    }
    match column.data_type() {
        DataType::List(_) => part_of(column.as_list::<i32>(), row, elements),
        DataType::LargeList(_) => part_of(column.as_list::<i64>(), row, elements),
        _ => Ok(column.slice(row, 1)),
    }
}

fn part_of<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    row: usize,
    elements: Range<usize>,
) -> Result<ArrayRef> {
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(DataFusionError::Internal("a list is of another type".into()));
    };
    let offsets = list.value_offsets();
    let (start, end) = (offsets[row].as_usize(), offsets[row + 1].as_usize());
    let (start, end) = (end.min(start + elements.start), end.min(start + elements.end));
    let values = list.values().slice(start, end - start);
    let offsets = OffsetBuffer::<O>::from_lengths([end - start]);
    Ok(Arc::new(GenericListArray::<O>::try_new(field.clone(), offsets, values, None)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, ListArray, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int64Type;

    fn lists(rows: &[Option<Vec<i64>>]) -> ArrayRef {
        let rows = rows.iter().map(|row| row.as_ref().map(|row| row.iter().copied().map(Some)));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
    }

    fn list(index_in_input_schema: usize, depth: usize) -> ListUnnest {
        ListUnnest { index_in_input_schema, depth }
    }

    fn pieces(
        batch: &RecordBatch,
        of: &[ListUnnest],
        rows_max: usize,
        limit: u64,
    ) -> Vec<Result<RecordBatch>> {
        Lists::new(batch.clone(), of, rows_max, limit).unwrap().collect()
    }

    #[test]
    fn long_lists_are_cut_where_all_are_and_nothing_is_lost() {
        let of_range = |range: Range<i64>| Some(range.collect::<Vec<_>>());
        let a = lists(&[of_range(0..2), of_range(0..25), None, of_range(7..7), of_range(0..12)]);
        let b = lists(&[None, of_range(0..3), of_range(0..1), None, of_range(90..101)]);
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e"]));
        let batch = RecordBatch::try_from_iter([("a", a), ("b", b), ("name", names)]).unwrap();
        let found = pieces(&batch, &[list(0, 1), list(1, 1)], 10, u64::MAX);
        let found: Vec<RecordBatch> = found.into_iter().map(Result::unwrap).collect();
        let lengths = |piece: &RecordBatch, column: usize| -> Vec<usize> {
            (0..piece.num_rows()).map(|row| length_of_list(piece.column(column), row).unwrap()).collect()
        };
        let a: Vec<Vec<usize>> = found.iter().map(|piece| lengths(piece, 0)).collect();
        assert_eq!(a, [vec![2], vec![10], vec![10], vec![5], vec![0, 0], vec![10], vec![2]]);
        let b: Vec<Vec<usize>> = found.iter().map(|piece| lengths(piece, 1)).collect();
        assert_eq!(b, [vec![0], vec![3], vec![0], vec![0], vec![1, 0], vec![10], vec![1]]);
        let all = concat_batches(&batch.schema(), &found).unwrap();
        let values = |batch: &RecordBatch, column: usize| -> Vec<Option<i64>> {
            let list = batch.column(column).as_list::<i32>().clone();
            let rows = (0..list.len()).filter(|row| list.is_valid(*row)).map(|row| list.value(row));
            rows.flat_map(|row| row.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()).collect()
        };
        for column in [0, 1] {
            assert_eq!(values(&all, column), values(&batch, column));
        }
        assert_eq!(all.column(2).as_string::<i32>().iter().flatten().collect::<String>(), "abbbcdee");
    }

    #[test]
    fn what_is_repeated_for_each_element_is_bounded() {
        let numbers = lists(&[Some((0..100).collect())]);
        let wide: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(PIECE_BYTES as usize / 4)]));
        let batch = RecordBatch::try_from_iter([("numbers", numbers.clone()), ("wide", wide)]).unwrap();
        assert!(pieces(&batch, &[list(0, 1)], 8192, u64::MAX).len() >= 25);
        let narrow: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_from_iter([("numbers", numbers), ("narrow", narrow)]).unwrap();
        assert_eq!(pieces(&batch, &[list(0, 1)], 8192, u64::MAX).len(), 1);
    }

    #[test]
    fn a_list_that_must_stay_whole_is_refused_when_it_is_too_much() {
        let inner = lists(&vec![Some((0..50).collect()); 40]);
        let DataType::List(field) = DataType::new_list(inner.data_type().clone(), true) else {
            unreachable!()
        };
        let outer = ListArray::try_new(field, OffsetBuffer::from_lengths([40]), inner, None).unwrap();
        let batch = RecordBatch::try_from_iter([("a", Arc::new(outer) as ArrayRef)]).unwrap();
        let found = pieces(&batch, &[list(0, 2), list(0, 1)], 100, 1000);
        let error = found.into_iter().next().unwrap().unwrap_err();
        assert_eq!(hypostyle_error::from_datafusion(error).sqlstate(), "53200");
        // For lists of lists, the outer list is cut.
        let found = pieces(&batch, &[list(0, 2)], 100, 1000);
        assert_eq!(found.into_iter().map(Result::unwrap).count(), 40);
    }

    #[test]
    fn batches_are_cut_into_rows() {
        let numbers: ArrayRef = Arc::new(Int64Array::from((0..10).collect::<Vec<_>>()));
        let batch = RecordBatch::try_from_iter([("a", numbers)]).unwrap();
        let found: Vec<RecordBatch> = cut(batch.clone(), 4).map(Result::unwrap).collect();
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(concat_batches(&batch.schema(), &found).unwrap(), batch);
    }
}
