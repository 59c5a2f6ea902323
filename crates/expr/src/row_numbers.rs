//! `lag`, `lead`, `nth_value` and `ntile` whose number of rows, places or buckets is computed from the
//! row, as in PostgreSQL. DataFusion's know constants, and do these still.

use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt64Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{LimitEffect, PartitionEvaluator, WindowUDF, WindowUDFImpl};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;
use std::ops::Range;
use std::sync::Arc;

const NTILE: &str = "ntile";
const NTH_VALUE: &str = "nth_value";
const LAG: &str = "lag";
const LEAD: &str = "lead";

pub(crate) fn register(context: &SessionContext) {
    for name in [LAG, LEAD, NTH_VALUE, NTILE] {
        if let Ok(inner) = context.udwf(name) {
            context.register_udwf(WindowUDF::from(OfRows { inner }));
        }
    }
}

/// One of these functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfRows {
    inner: Arc<WindowUDF>,
}

impl OfRows {
    /// The place of the number among the arguments.
    fn place(&self) -> usize {
        usize::from(self.inner.name() != NTILE)
    }

    /// Says whether the number is no constant, or NULL.
    fn is_of_rows(&self, arguments: &[Arc<dyn PhysicalExpr>]) -> bool {
        arguments.get(self.place()).is_some_and(|number| {
            number.downcast_ref::<Literal>().is_none_or(|literal| literal.value().is_null())
        })
    }
}

impl WindowUDFImpl for OfRows {
    as_within!(name, aliases, signature, coerce_types, sort_options, reverse_expr);

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        match self.is_of_rows(args.input_exprs()) {
            true => args.input_exprs().iter().take(self.place() + 1).cloned().collect(),
            false => self.inner.expressions(args),
        }
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        if !self.is_of_rows(args.input_exprs()) {
            return self.inner.partition_evaluator_factory(args);
        }
        let of = args.input_fields().get(self.place()).map(|field| field.data_type());
        if let Some(other) = of.filter(|of| !of.is_integer() && !of.is_null()) {
            let message = format!("{}() takes an integer, not {}", self.name(), type_name(other));
            return Err(external(Error::invalid_input(message).with_sqlstate("42883")));
        }
        let (ignores_nulls, is_reversed) = (args.ignore_nulls(), args.is_reversed());
        let evaluator: Box<dyn PartitionEvaluator> = match self.name() {
            NTILE => Box::new(Buckets),
            NTH_VALUE => Box::new(Place { row: 0, ignores_nulls, is_reversed }),
            name => Box::new(Shift { is_ahead: (name == LEAD) != is_reversed, ignores_nulls }),
        };
        Ok(evaluator)
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let may_be_null = args.input_fields().get(self.place()).is_some_and(|field| field.is_nullable());
        let field = self.inner.field(args)?;
        match may_be_null && !field.is_nullable() {
            true => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
            false => Ok(field),
        }
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        if !matches!(self.name(), LAG | LEAD) {
            return self.inner.inner().limit_effect(args);
        }
        let by = match args.get(self.place()) {
            None => Some(1),
            Some(number) => number.downcast_ref::<Literal>().and_then(|number| {
                match number.value().cast_to(&DataType::Int64) {
                    Ok(ScalarValue::Int64(by)) => by,
                    _ => None,
                }
            }),
        };
        // How many rows ahead have to be there is not known where NULLs are ignored.
        let is_behind = by.is_some_and(|by| if self.name() == LAG { by >= 0 } else { by <= 0 });
        if is_behind { LimitEffect::None } else { LimitEffect::Unknown }
    }
}

fn numbers(array: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn without_arguments<T>() -> Result<T> {
    exec_err!("a window function lacks an argument")
}

/// `lag` and `lead`.
#[derive(Debug)]
struct Shift {
    is_ahead: bool,
    ignores_nulls: bool,
}

impl PartitionEvaluator for Shift {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let [value, by] = values else { return without_arguments() };
        let by = numbers(by)?;
        let nulls = value.logical_nulls().filter(|_| self.ignores_nulls);
        let counted: Option<Vec<usize>> =
            nulls.map(|nulls| (0..rows).filter(|row| nulls.is_valid(*row)).collect());
        let place = |row: usize| {
            let number = by.is_valid(row).then(|| by.value(row))?;
            let ahead = if self.is_ahead { number } else { number.checked_neg()? };
            let distance = usize::try_from(ahead.unsigned_abs()).ok()?;
            let found = match (&counted, ahead) {
                (_, 0) => Some(row),
                (None, 1..) => row.checked_add(distance),
                (None, _) => row.checked_sub(distance),
                (Some(counted), 1..) => {
                    let behind = counted.partition_point(|other| *other <= row);
                    behind.checked_add(distance - 1).and_then(|at| counted.get(at).copied())
                }
                (Some(counted), _) => {
                    let before = counted.partition_point(|other| *other < row);
                    before.checked_sub(distance).and_then(|at| counted.get(at).copied())
                }
            };
            found.filter(|place| *place < rows).and_then(|place| u64::try_from(place).ok())
        };
        let places: UInt64Array = (0..rows).map(place).collect();
        Ok(take(value, &places, None)?)
    }
}

/// `nth_value`.
#[derive(Debug)]
struct Place {
    /// The row that comes next: a partition's rows are asked for one after the other.
    row: usize,
    ignores_nulls: bool,
    is_reversed: bool,
}

impl PartitionEvaluator for Place {
    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        let [value, numbers, ..] = values else { return without_arguments() };
        let number = ScalarValue::try_from_array(numbers, self.row)?.cast_to(&DataType::Int64)?;
        self.row += 1;
        let place = match number {
            ScalarValue::Int64(Some(number @ 1..)) => usize::try_from(number - 1).ok(),
            ScalarValue::Int64(Some(_)) => return Err(place_below_one()),
            _ => None,
        };
        let nulls = value.logical_nulls().filter(|_| self.ignores_nulls);
        let mut rows = range.clone();
        let found = place.and_then(|place| match (nulls, self.is_reversed) {
            (None, false) => rows.nth(place),
            (None, true) => rows.nth_back(place),
            (Some(nulls), false) => rows.filter(|row| nulls.is_valid(*row)).nth(place),
            (Some(nulls), true) => rows.rev().filter(|row| nulls.is_valid(*row)).nth(place),
        });
        match found {
            Some(row) => ScalarValue::try_from_array(value, row),
            None => ScalarValue::try_from(value.data_type()),
        }
    }

    fn uses_window_frame(&self) -> bool {
        true
    }
}

/// The error of `nth_value` with a place that is none.
pub(crate) fn place_below_one() -> DataFusionError {
    let message = "nth_value() counts from 1: its argument must be greater than zero";
    external(Error::invalid_input(message).with_sqlstate("22016"))
}

/// `ntile`: the first row of a partition says how many buckets it has.
#[derive(Debug)]
struct Buckets;

impl PartitionEvaluator for Buckets {
    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        let [number] = values else { return without_arguments() };
        let buckets = match numbers(&number.slice(0, rows.min(1)))?.iter().next().flatten() {
            None => return Ok(new_null_array(&DataType::Int64, rows)),
            Some(buckets @ 1..) => buckets,
            Some(_) => {
                let message = "ntile() makes one bucket or more: its argument must be greater than zero";
                return Err(external(Error::invalid_input(message).with_sqlstate("22014")));
            }
        };
        let Ok(count) = i64::try_from(rows) else { return exec_err!("too many rows for ntile()") };
        // The first buckets have a row more than the others.
        let (size, longer) = (count / buckets, count % buckets);
        let of_longer = longer * (size + 1);
        let bucket = |row: i64| match row < of_longer {
            true => row / (size + 1),
            false => longer + (row - of_longer) / size,
        };
        Ok(Arc::new(Int64Array::from_iter_values((0..count).map(|row| bucket(row) + 1))))
    }
}
