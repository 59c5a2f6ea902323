//! Values of expressions for the rows of a chunk, read where they are needed.

use super::chunk::Chunk;
use super::flow::{Expression, Source, Universe};
use super::number::{Numbers, Register};
use super::stop::{Stop, Stopped};
use super::table::TableColumn;
use crate::slices::evaluated;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::physical_expr::expressions::Column as ColumnExpression;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use hypostyle_position::{Column, NO_POSITION, Rows};
use std::sync::{Arc, OnceLock};

/// The columns of a pipeline's tables, by their numbers. They are opened when their rows are there:
/// those of inputs once these have been collected.
#[derive(Debug)]
pub(super) struct Columns {
    pub universe: Arc<Universe>,
    columns: Vec<OnceLock<TableColumn>>,
    needed: Vec<bool>,
}

impl Columns {
    /// Opens the columns of tables that some expressions read. Of those that are `late` only rows of
    /// the result are read.
    pub fn open(universe: &Arc<Universe>, needed: Vec<bool>, late: &[bool]) -> Stopped<Self> {
        let mut columns = Vec::with_capacity(universe.columns.len());
        for ((column, needed), late) in universe.columns.iter().zip(&needed).zip(late) {
            columns.push(match universe.sources.get(column.slot) {
                Some(Source::Table(source)) if *needed => {
                    OnceLock::from(TableColumn::open(&source.table, column.column, *late)?)
                }
                Some(Source::Truths) => OnceLock::from(TableColumn::of_truths()?),
                _ => OnceLock::new(),
            });
        }
        Ok(Self { universe: universe.clone(), columns, needed })
    }

    /// Opens the columns of an input's rows.
    pub fn open_rows(&self, slot: usize, schema: &SchemaRef, rows: &[RecordBatch]) -> Stopped<()> {
        let columns = self.universe.columns.iter().zip(&self.columns).zip(&self.needed);
        for ((column, open), needed) in columns {
            if column.slot == slot && *needed {
                let opened = TableColumn::of_rows(rows, schema, column.column)?;
                open.get_or_init(|| opened);
            }
        }
        Ok(())
    }

    /// Returns a column.
    pub fn get(&self, number: usize) -> Stopped<&TableColumn> {
        let column = self.columns.get(number).and_then(OnceLock::get);
        column.ok_or_else(|| Stop::Unfit(format!("column {number} is not open")))
    }

    /// Returns the slot of a column.
    pub fn slot(&self, number: usize) -> usize {
        self.universe.columns.get(number).map_or(usize::MAX, |column| column.slot)
    }

    /// Returns the open columns of a slot.
    pub fn of_slot(&self, slot: usize) -> impl Iterator<Item = &TableColumn> {
        let columns = self.columns.iter().zip(&self.universe.columns);
        columns.filter(move |(_, column)| column.slot == slot).filter_map(|(open, _)| open.get())
    }

    /// Returns one of the open columns of a slot.
    pub fn any_of_slot(&self, slot: usize) -> Stopped<&TableColumn> {
        let column = self.of_slot(slot).next();
        column.ok_or_else(|| Stop::Unfit(format!("no column of table {slot} is open")))
    }

    /// Checks what an expression reads of late columns.
    pub fn verify_late(&self, evaluator: &Evaluator, chunk: &Chunk) -> Stopped<()> {
        let Evaluator::Expression { columns, .. } = evaluator else { return Ok(()) };
        columns
            .iter()
            .try_for_each(|number| self.get(*number)?.verify_late(chunk.positions(self.slot(*number))))
    }

    /// Tells whether a row may have no position in a column's table.
    pub fn is_outer(&self, number: usize) -> bool {
        self.universe.outer.contains(&self.slot(number))
    }
}

/// An expression, ready to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Evaluator {
    /// A column as it is stored.
    Column(usize),
    /// A column in the type that expressions see.
    Seen(usize),
    /// A step of [`Numbers`], and the expression for chunks in which it may overflow.
    Number(usize, Box<Evaluator>),
    Expression {
        expression: Expression,
        schema: SchemaRef,
        columns: Vec<usize>,
    },
}

impl Evaluator {
    /// Makes an expression ready; its result is in a stored type, or in that of plans.
    pub fn new(expression: &Expression, universe: &Universe, numbers: Option<&mut Numbers>) -> Stopped<Self> {
        if let Some(column) = expression.downcast_ref::<ColumnExpression>() {
            return Ok(Self::Column(column.index()));
        }
        let node = numbers.and_then(|numbers| numbers.compile(expression, universe));
        let evaluator = Self::of_expression(expression, universe)?;
        Ok(match node {
            Some(node) => Self::Number(node, Box::new(evaluator)),
            None => evaluator,
        })
    }

    /// Makes an expression ready whose result has the type of plans.
    pub fn seen(expression: &Expression, universe: &Universe) -> Stopped<Self> {
        match expression.downcast_ref::<ColumnExpression>() {
            Some(column) => Ok(Self::Seen(column.index())),
            None => Self::of_expression(expression, universe),
        }
    }

    fn of_expression(expression: &Expression, universe: &Universe) -> Stopped<Self> {
        let mut columns: Vec<usize> =
            collect_columns(expression).iter().map(ColumnExpression::index).collect();
        columns.sort_unstable();
        columns.dedup();
        // Columns of several tables may have one name.
        let fields: Vec<Field> = columns
            .iter()
            .map(|number| universe.columns[*number].field.as_ref().clone().with_name(format!("#{number}")))
            .collect();
        let schema = Arc::new(Schema::new(fields));
        let renamed: Vec<Expression> = universe
            .columns
            .iter()
            .enumerate()
            .map(|(number, _)| Arc::new(ColumnExpression::new(&format!("#{number}"), number)) as Expression)
            .collect();
        let expression = super::flow::substitute(expression, &renamed)
            .and_then(|expression| reassign_expr_columns(expression, &schema))
            .map_err(Stop::expression)?;
        Ok(Self::Expression { expression, schema, columns })
    }

    /// Returns the value of an expression for no rows.
    pub fn of_no_rows(&self) -> Stopped<ArrayRef> {
        match self {
            Self::Expression { schema, .. } => {
                let arrays = schema.fields().iter().map(|field| new_empty_array(field.data_type()));
                self.over(arrays.collect(), 0)
            }
            _ => Err(Stop::Unfit("a column is no expression".into())),
        }
    }

    /// Evaluates over columns of the types of plans.
    pub fn over(&self, arrays: Vec<ArrayRef>, rows: usize) -> Stopped<ArrayRef> {
        let Self::Expression { expression, schema, .. } = self else {
            return Err(Stop::Unfit("a column is no expression".into()));
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        // NULL may be asked of columns that have none.
        let fields: Vec<Field> =
            schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options).map_err(Stop::arrow)?;
        let value = evaluated(expression, &batch).map_err(Stop::expression)?;
        value.into_array(rows).map_err(Stop::expression)
    }
}

/// A value for each row of a chunk.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    /// Rows of a table's column.
    Rows(&'a ArrayRef, Rows<'a>),
    /// An array of their own.
    Own(ArrayRef),
}

impl Value<'_> {
    /// Returns the value as kernels read it.
    pub fn column(&self) -> Column<'_> {
        match self {
            Value::Rows(array, rows) => Column { array: array.as_ref(), rows: *rows },
            Value::Own(array) => Column { array: array.as_ref(), rows: Rows::Range(0, array.len() as u32) },
        }
    }

    /// Returns the array, and the rows of it.
    pub fn parts(&self) -> (&ArrayRef, Rows<'_>) {
        match self {
            Value::Rows(array, rows) => (array, *rows),
            Value::Own(array) => (array, Rows::Range(0, array.len() as u32)),
        }
    }

    /// Returns the values as an array.
    pub fn array(&self) -> Stopped<ArrayRef> {
        match self {
            Value::Rows(array, rows) => Ok(hypostyle_position::gather::gather(array, *rows)?),
            Value::Own(array) => Ok(array.clone()),
        }
    }

    pub fn data_type(&self) -> &DataType {
        match self {
            Value::Rows(array, _) => array.data_type(),
            Value::Own(array) => array.data_type(),
        }
    }
}

/// Evaluates expressions for one chunk.
pub(super) struct Values<'a> {
    columns: &'a Columns,
    numbers: &'a Numbers,
    chunk: &'a Chunk,
    registers: Vec<Option<Register>>,
}

impl<'a> Values<'a> {
    pub fn new(columns: &'a Columns, numbers: &'a Numbers, chunk: &'a Chunk) -> Self {
        Self { columns, numbers, chunk, registers: numbers.registers() }
    }

    /// Returns the rows of a column's table, and whether some of them may have none.
    fn rows(&self, number: usize) -> (Rows<'a>, bool) {
        let rows = self.chunk.positions(self.columns.slot(number));
        let has_none =
            self.columns.is_outer(number) && matches!(rows, Rows::List(list) if list.contains(&NO_POSITION));
        (rows, has_none)
    }

    /// Returns a byte for each row, 1 where a condition is true.
    pub fn truths(&mut self, condition: &Evaluator) -> Stopped<Vec<u8>> {
        let verdicts = self.get(condition)?.array()?;
        let Some(verdicts) = verdicts.as_boolean_opt() else {
            return Err(Stop::Unfit("a condition is not BOOLEAN".into()));
        };
        Ok((0..verdicts.len()).map(|row| u8::from(verdicts.is_valid(row) && verdicts.value(row))).collect())
    }

    /// Returns the value of an expression for each row.
    pub fn get(&mut self, evaluator: &Evaluator) -> Stopped<Value<'a>> {
        match evaluator {
            Evaluator::Column(number) => {
                let column = self.columns.get(*number)?;
                Ok(match self.rows(*number) {
                    (rows, false) => Value::Rows(&column.stored, rows),
                    (rows, true) => Value::Own(column.read_stored(rows)?),
                })
            }
            Evaluator::Seen(number) => Ok(Value::Own(self.columns.get(*number)?.read(self.rows(*number).0)?)),
            Evaluator::Number(node, otherwise) => {
                let columns = self.columns;
                let chunk = self.chunk;
                let column = |number: usize| {
                    let rows = chunk.positions(columns.slot(number));
                    Some((columns.get(number).ok()?, rows))
                };
                match self.numbers.evaluate(*node, &mut self.registers, &column, self.chunk.rows) {
                    Some(array) => Ok(Value::Own(array)),
                    None => self.get(otherwise),
                }
            }
            Evaluator::Expression { columns, .. } => {
                let arrays = columns
                    .iter()
                    .map(|number| self.columns.get(*number)?.read(self.rows(*number).0))
                    .collect::<Stopped<Vec<_>>>()?;
                Ok(Value::Own(evaluator.over(arrays, self.chunk.rows)?))
            }
        }
    }
}
