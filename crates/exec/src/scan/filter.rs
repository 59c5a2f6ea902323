//! Filters that a scan applies itself, before it materialises rows.
//!
//! A window of rows goes through the conjuncts of a filter one after the other, as a [`Selection`]
//! of the rows that remain. A conjunct over one dictionary column is decided once for each of its
//! values and then looked up by code. A comparison of a column with a constant is made over the
//! whole window, and so is a dynamic filter. Any other conjunct is evaluated for the remaining
//! rows, and so never sees a row that an earlier one has refused. Only the rows that are selected
//! in the end are gathered into batches (PosDB: position pipelines, late materialisation).
//!
//! A dynamic filter, which a join or a TopK above the scan tightens while it runs, is optional: its
//! owner checks the rows again. It is dropped when it lets too many rows pass to be worth its time.

use crate::scan::view::{EngineColumn, engine_array, engine_field, result_field};
use crate::slices::evaluated;
use arrow::array::BooleanBufferBuilder;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate, cast, concat, filter, prep_null_mask_filter, take};
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Schema, SchemaRef,
};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use hypostyle_storage::{ColumnData, TableData, view_rows};
use roaring::RoaringTreemap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The share of rows below which they are picked by position instead of by mask: one in this many.
const SPARSE: usize = 8;

/// Rows after which a dynamic filter is judged, and the share of them it must refuse to be kept.
const TRIAL_ROWS: usize = 1 << 16;
const WORTHWHILE: f64 = 0.3;

/// A column of the table, open for reading.
#[derive(Clone, Debug)]
pub struct OpenColumn {
    stored: Arc<ColumnData>,
    view: EngineColumn,
    /// Rows that only the log has, by the position of the first of each array.
    tail: Arc<[(u64, ArrayRef)]>,
    data_type: DataType,
    /// The type in a result that only picks the column's rows.
    result_type: DataType,
}

impl OpenColumn {
    pub fn open(table: &TableData, index: usize) -> Result<Self> {
        let stored = table.columns()[index].clone();
        let open = || DataFusionError::External;
        let view = EngineColumn::open(table, &stored).map_err(|error| open()(Box::new(error)))?;
        let mut position = table.rows_in_files();
        let mut tail = Vec::new();
        for batch in table.beyond_files().tail.batches() {
            tail.push((position, batch.column(index).clone()));
            position += batch.num_rows() as u64;
        }
        let data_type = engine_field(table, &stored).data_type().clone();
        let result_type = result_field(table, &stored).data_type().clone();
        Ok(Self { stored, view, tail: tail.into(), data_type, result_type })
    }

    /// Says whether a window is of rows that only the log has.
    fn in_tail(&self, rows: &Range<u64>) -> bool {
        self.tail.first().is_some_and(|(position, _)| rows.start >= *position)
    }

    /// Returns the rows of a window as they are stored, their checksums verified.
    fn window(&self, rows: &Range<u64>) -> Result<ArrayRef> {
        self.verify(rows)?;
        Ok(self.view.at_rest().slice(rows.start as usize, (rows.end - rows.start) as usize))
    }

    fn verify(&self, rows: &Range<u64>) -> Result<()> {
        let verified = self.stored.verify_rows(rows.clone());
        verified.map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// Returns the picked rows of a window, as the engine sees them.
    ///
    /// A window lies in the files or in one array of the tail.
    pub fn read(&self, rows: &Range<u64>, pick: &Pick) -> Result<ArrayRef> {
        if !self.in_tail(rows) {
            return self.view.read(self.window(rows)?, pick);
        }
        engine_array(&pick.of(self.tail_window(rows))?, &self.data_type)
    }

    /// Returns the picked rows of a window, in the type that they have in a result.
    pub fn read_for_result(&self, rows: &Range<u64>, pick: &Pick) -> Result<ArrayRef> {
        if self.in_tail(rows) {
            return Ok(cast(&pick.of(self.tail_window(rows))?, &self.result_type)?);
        }
        if self.result_type == self.data_type {
            return self.view.read(self.window(rows)?, pick);
        }
        self.verify(rows)?;
        let stored = self.stored.array().map_err(|error| DataFusionError::External(Box::new(error)))?;
        let window = stored.slice(rows.start as usize, (rows.end - rows.start) as usize);
        Ok(cast(&pick.of(window)?, &self.result_type)?)
    }

    fn tail_window(&self, rows: &Range<u64>) -> ArrayRef {
        let after = self.tail.partition_point(|(position, _)| *position <= rows.start);
        let (position, array) = &self.tail[after - 1];
        array.slice((rows.start - position) as usize, (rows.end - rows.start) as usize)
    }
}

impl Pick {
    pub fn of(&self, window: ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Self::All => window,
            Self::Mask { predicate, .. } => predicate.filter(&window)?,
            Self::Positions(positions) => take(&window, positions, None)?,
        })
    }

    /// Returns [`view_rows`] of the picked ones.
    pub fn views(&self, window: &ArrayRef) -> Option<ArrayRef> {
        match self {
            Self::All => view_rows(window, || 0..window.len(), window.len()),
            Self::Mask { mask, predicate } => {
                let rows = || mask.set_slices().flat_map(|(start, end)| start..end);
                view_rows(window, rows, predicate.count())
            }
            Self::Positions(positions) => {
                let rows = || positions.values().iter().map(|position| *position as usize);
                view_rows(window, rows, positions.len())
            }
        }
    }
}

/// The way in which rows are picked from a window.
pub enum Pick {
    All,
    Mask { mask: BooleanBuffer, predicate: FilterPredicate },
    Positions(UInt32Array),
}

/// The rows of a window that are still in.
#[derive(Debug)]
pub enum Selection {
    All(usize),
    Mask(BooleanBuffer),
    Positions(UInt32Array),
}

impl Selection {
    /// Returns the rows of a selection of a window that are not deleted.
    fn without(self, deleted: &RoaringTreemap, rows: &Range<u64>) -> Result<Self> {
        if let Self::Positions(positions) = &self {
            let is_kept = |row| !deleted.contains(rows.start + u64::from(positions.value(row)));
            let kept = BooleanBuffer::collect_bool(positions.len(), is_kept);
            return self.keep(kept);
        }
        let count = (rows.end - rows.start) as usize;
        let mut gone = deleted.iter();
        gone.advance_to(rows.start);
        let mut gone = gone.take_while(|position| *position < rows.end).peekable();
        if gone.peek().is_none() {
            return Ok(self);
        }
        let mut kept = BooleanBufferBuilder::new(count);
        kept.append_n(count, true);
        gone.for_each(|position| kept.set_bit((position - rows.start) as usize, false));
        self.keep(kept.finish())
    }

    pub fn rows(&self) -> usize {
        match self {
            Self::All(rows) => *rows,
            Self::Mask(mask) => mask.count_set_bits(),
            Self::Positions(positions) => positions.len(),
        }
    }

    /// Returns how to pick the rows when `columns` columns are read.
    pub fn pick(self, columns: usize) -> Pick {
        match self {
            Self::All(_) => Pick::All,
            Self::Positions(positions) => Pick::Positions(positions),
            Self::Mask(mask) => {
                let builder = FilterBuilder::new(&BooleanArray::from(mask.clone()));
                let predicate = if columns > 1 { builder.optimize().build() } else { builder.build() };
                Pick::Mask { mask, predicate }
            }
        }
    }

    /// Returns the selection by position, so that the next condition sees no other rows.
    fn narrowed(self) -> Self {
        match self {
            Self::Mask(mask) => Self::Positions(mask.set_indices_u32().collect::<Vec<_>>().into()),
            other => other,
        }
    }

    /// Returns the rows of a selection that verdicts, one for each of its rows or for the whole
    /// window, let pass.
    fn keep(self, verdicts: BooleanBuffer) -> Result<Self> {
        let mask = match self {
            Self::Positions(positions) => {
                let kept = filter(&positions, &BooleanArray::from(verdicts))?;
                return Ok(Self::Positions(kept.as_primitive().clone()));
            }
            Self::Mask(mask) => &mask & &verdicts,
            Self::All(_) => verdicts,
        };
        let rows = mask.count_set_bits();
        Ok(match rows {
            all if all == mask.len() => Self::All(all),
            few if few * SPARSE < mask.len() => Self::Mask(mask).narrowed(),
            _ => Self::Mask(mask),
        })
    }
}

/// One condition of a filter.
#[derive(Clone, Debug)]
pub struct Conjunct {
    /// The expression, over a batch of just its columns.
    expression: Arc<dyn PhysicalExpr>,
    /// Their places in the table, and the batch's schema.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Cannot fail on any row, so that it may see rows that others have refused.
    total: bool,
    dynamic: bool,
    volatile: bool,
}

impl Conjunct {
    /// Creates a filter. `table` is the schema of the whole table; the expression's columns are
    /// found by name.
    pub fn new(expression: Arc<dyn PhysicalExpr>, table: &Schema) -> Result<Self> {
        let mut columns = collect_columns(&expression)
            .into_iter()
            .map(|column| Ok(table.index_of(column.name())?))
            .collect::<Result<Vec<_>>>()?;
        columns.sort_unstable();
        columns.dedup();
        // The field is nullable, because a dictionary's verdict on NULL is computed even if there
        // is no NULL.
        let fields = columns.iter().map(|column| table.field(*column).clone().with_nullable(true));
        let schema = Schema::new(fields.collect::<Vec<Field>>());
        let dynamic = DynamicFilterTracking::classify(&expression).contains_dynamic_filter();
        Ok(Self {
            total: is_comparison(&expression),
            dynamic,
            volatile: is_volatile(&expression),
            expression: reassign_expr_columns(expression, &schema)?,
            columns,
            schema: Arc::new(schema),
        })
    }

    pub fn expression(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expression
    }

    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Evaluates at the positions of a selection, or over all of its window.
    fn verdicts(
        &self,
        columns: &[Option<OpenColumn>],
        rows: &Range<u64>,
        selection: &Selection,
    ) -> Result<Option<BooleanBuffer>> {
        let (pick, count) = match selection {
            Selection::Positions(positions) => (Pick::Positions(positions.clone()), positions.len()),
            _ => (Pick::All, (rows.end - rows.start) as usize),
        };
        let arrays = self.columns.iter().map(|column| read(columns, *column, rows, &pick));
        self.evaluate(arrays.collect::<Result<Vec<_>>>()?, count)
    }

    /// Evaluates over columns of the batch's own kind; `None` when all rows pass.
    fn evaluate(&self, arrays: Vec<ArrayRef>, rows: usize) -> Result<Option<BooleanBuffer>> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // A dynamic filter of a join is a set of bits, which tells 0.0 from −0.0; the join does
        // not.
        let zeros = if self.dynamic { zeros(&arrays) } else { None };
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        let verdicts = match evaluated(&self.expression, &batch)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => return Ok(None),
            ColumnarValue::Scalar(_) => BooleanBuffer::new_unset(rows),
            ColumnarValue::Array(array) => {
                let verdicts = array.as_boolean();
                match verdicts.null_count() {
                    0 => verdicts.values().clone(),
                    _ => prep_null_mask_filter(verdicts).values().clone(),
                }
            }
        };
        Ok(Some(match zeros {
            Some(zeros) => &verdicts | &zeros,
            None => verdicts,
        }))
    }
}

/// Returns the rows with a 0.0 or −0.0 in any column; `None` without columns of floats.
fn zeros(columns: &[ArrayRef]) -> Option<BooleanBuffer> {
    let zeros = |column: &ArrayRef| match column.data_type() {
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>().values();
            Some(BooleanBuffer::collect_bool(values.len(), |row| values[row] == 0.0))
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>().values();
            Some(BooleanBuffer::collect_bool(values.len(), |row| values[row] == 0.0))
        }
        _ => None,
    };
    columns.iter().filter_map(zeros).reduce(|one, other| &one | &other)
}

impl fmt::Display for Conjunct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

/// Says whether it is a dynamic filter of keys of which one is a part of another, as those of `ORDER BY
/// a + b, a LIMIT 3` are. DataFusion finds new columns for `a` first, and then no `a + b` any more,
/// whose `b` stays what it was.
pub fn has_nested_keys(filter: &Arc<dyn PhysicalExpr>) -> bool {
    let is_part = |part: &Arc<dyn PhysicalExpr>, whole: &Arc<dyn PhysicalExpr>| {
        part != whole && whole.exists(|node| Ok(node == part)).unwrap_or(true)
    };
    let has_nested = |node: &Arc<dyn PhysicalExpr>| {
        let keys = if node.is::<DynamicFilterPhysicalExpr>() { node.children() } else { Vec::new() };
        Ok(keys.iter().any(|part| keys.iter().any(|whole| is_part(part, whole))))
    };
    filter.exists(has_nested).unwrap_or(true)
}

/// Says whether an expression is a comparison of a column with a constant.
pub fn is_comparison(expression: &Arc<dyn PhysicalExpr>) -> bool {
    expression.downcast_ref::<BinaryExpr>().is_some_and(|binary| {
        binary.op().supports_propagation()
            && binary.left().downcast_ref::<Column>().is_some()
            && binary.right().downcast_ref::<Literal>().is_some()
    })
}

/// The verdicts of a conjunct on the values of the one dictionary column it is about: the first on
/// NULL, whose code is −1, the others by code.
#[derive(Debug)]
struct ByCode(Vec<bool>);

impl ByCode {
    /// Returns `None` where a conjunct cannot be decided by value.
    fn decide(conjunct: &Conjunct, values: &ArrayRef) -> Option<Self> {
        if conjunct.volatile || conjunct.dynamic {
            return None;
        }
        let null = new_null_array(values.data_type(), 1);
        let values = concat(&[&null, values]).ok()?;
        let rows = values.len();
        // An error may be about a value that no row has, or that another conjunct refuses.
        let verdicts = conjunct.evaluate(vec![values], rows).ok()?;
        Some(Self(verdicts.map_or_else(|| vec![true; rows], |verdicts| verdicts.iter().collect())))
    }

    fn look_up(&self, codes: &ArrayRef, selection: &Selection) -> Result<BooleanBuffer> {
        match codes.data_type() {
            DataType::Int8 => Ok(self.look_up_as::<Int8Type>(codes, selection)),
            DataType::Int16 => Ok(self.look_up_as::<Int16Type>(codes, selection)),
            DataType::Int32 => Ok(self.look_up_as::<Int32Type>(codes, selection)),
            other => Err(DataFusionError::Internal(format!("dictionary codes of type {other}"))),
        }
    }

    fn look_up_as<T: ArrowPrimitiveType>(&self, codes: &ArrayRef, selection: &Selection) -> BooleanBuffer
    where
        T::Native: Into<i64>,
    {
        let codes = codes.as_primitive::<T>().values();
        let passes = |code: T::Native| {
            let place: i64 = code.into() + 1;
            self.0.get(place as usize).copied().unwrap_or(false)
        };
        match selection {
            Selection::Positions(positions) => {
                let positions = positions.values();
                BooleanBuffer::collect_bool(positions.len(), |row| passes(codes[positions[row] as usize]))
            }
            _ => BooleanBuffer::collect_bool(codes.len(), |row| passes(codes[row])),
        }
    }
}

/// The conjuncts of a scan, decided where they can be, cheapest first.
#[derive(Debug)]
pub struct Filter {
    steps: Vec<Step>,
}

#[derive(Debug)]
struct Step {
    conjunct: Conjunct,
    by_code: Option<ByCode>,
}

/// The counts of one partition for the steps: rows that came, and rows that passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trial {
    came: usize,
    passed: usize,
}

impl Trial {
    fn worthwhile(&self) -> bool {
        self.came < TRIAL_ROWS || ((self.came - self.passed) as f64) > WORTHWHILE * self.came as f64
    }
}

impl Filter {
    pub fn new(conjuncts: &[Conjunct], columns: &[Option<OpenColumn>]) -> Result<Self> {
        let mut steps = Vec::with_capacity(conjuncts.len());
        for conjunct in conjuncts {
            let by_code = match conjunct.columns[..] {
                [column] => match columns.get(column).and_then(Option::as_ref).map(|column| &column.view) {
                    Some(EngineColumn::Dictionary { values, .. }) => ByCode::decide(conjunct, values),
                    _ => None,
                },
                _ => None,
            };
            steps.push(Step { conjunct: conjunct.clone(), by_code });
        }
        // The sort is stable: conditions that may fail stay in the order in which they were
        // written.
        steps.sort_by_key(|step| match step {
            Step { by_code: Some(_), .. } => 0,
            Step { conjunct: Conjunct { total: true, .. }, .. } => 1,
            _ => 2,
        });
        Ok(Self { steps })
    }

    pub fn trials(&self) -> Vec<Trial> {
        vec![Trial::default(); self.steps.len()]
    }

    /// Returns the rows of a window that pass every conjunct.
    pub fn select(
        &self,
        columns: &[Option<OpenColumn>],
        rows: &Range<u64>,
        deleted: &RoaringTreemap,
        trials: &mut [Trial],
    ) -> Result<Selection> {
        let mut selection = Selection::All((rows.end - rows.start) as usize);
        let mut deleted = Some(deleted);
        for (step, trial) in self.steps.iter().zip(trials) {
            let conjunct = &step.conjunct;
            // Conditions that cannot fail may see deleted rows: few rows pass, so the deleted ones
            // are found quickly among them.
            if !conjunct.total
                && let Some(deleted) = deleted.take()
            {
                selection = selection.without(deleted, rows)?;
            }
            let came = selection.rows();
            if came == 0 {
                break;
            }
            if conjunct.dynamic && !trial.worthwhile() {
                continue;
            }
            let verdicts = if let (Some(by_code), [column]) = (&step.by_code, &conjunct.columns[..])
                && !open(columns, *column)?.in_tail(rows)
            {
                let codes = open(columns, *column)?.window(rows)?;
                Some(by_code.look_up(&codes, &selection)?)
            } else {
                if !conjunct.total && !conjunct.dynamic {
                    selection = selection.narrowed();
                }
                match conjunct.verdicts(columns, rows, &selection) {
                    // It may have failed on a row that other conjuncts have refused.
                    Err(_) if matches!(selection, Selection::Mask(_)) => {
                        selection = selection.narrowed();
                        conjunct.verdicts(columns, rows, &selection)?
                    }
                    verdicts => verdicts?,
                }
            };
            if let Some(verdicts) = verdicts {
                selection = selection.keep(verdicts)?;
                trial.came += came;
                trial.passed += selection.rows();
            }
        }
        match deleted {
            Some(deleted) => selection.without(deleted, rows),
            None => Ok(selection),
        }
    }
}

/// Returns the picked rows of a column; the one behind the table's columns is the position.
pub fn read(
    columns: &[Option<OpenColumn>],
    index: usize,
    rows: &Range<u64>,
    pick: &Pick,
) -> Result<ArrayRef> {
    match index == columns.len() {
        true => pick.of(Arc::new(UInt64Array::from_iter_values(rows.clone()))),
        false => open(columns, index)?.read(rows, pick),
    }
}

fn open(columns: &[Option<OpenColumn>], index: usize) -> Result<&OpenColumn> {
    columns
        .get(index)
        .and_then(Option::as_ref)
        .ok_or_else(|| DataFusionError::Internal(format!("column {index} of a scan is not open")))
}
