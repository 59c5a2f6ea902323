//! The aggregate of a subquery that stands for a value: its one row, or an error.

use crate::subquery_guards::{SINGLE_VALUE, several_rows};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility};
use hypostyle_expr::impl_portable;
use hypostyle_expr::typed::scalar_in_type;
use std::sync::Arc;

/// Returns the only value of an expression, or NULL where there is no row.
pub fn single_value(of: Expr) -> Expr {
    AggregateUDF::from(SingleValue::default()).call(vec![of])
}

/// The one value of a group; more are an error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SingleValue {
    signature: Signature,
}

impl Default for SingleValue {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(AggregateUDF: SingleValue, "single_value");

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        SINGLE_VALUE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    /// Returns the field with the argument's metadata, by which UUIDs and JSON are known.
    fn return_field(&self, arguments: &[FieldRef]) -> Result<FieldRef> {
        Ok(Arc::new(arguments[0].as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let gives = arguments.return_field.data_type().clone();
        Ok(Box::new(Single { rows: 0, value: ScalarValue::try_from(&gives)?, gives }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(vec![
            Arc::new(Field::new("rows", DataType::UInt64, false)),
            Arc::new(Field::new("value", arguments.return_field.data_type().clone(), true)),
        ])
    }
}

#[derive(Debug)]
struct Single {
    rows: u64,
    value: ScalarValue,
    gives: DataType,
}

impl Single {
    fn add(&mut self, rows: u64, value: &ArrayRef, place: usize) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 {
            return Err(several_rows());
        }
        if rows == 1 {
            self.value = scalar_in_type(&ScalarValue::try_from_array(value, place)?, &self.gives)?;
        }
        Ok(())
    }
}

impl Accumulator for Single {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values[0].len() {
            0 => Ok(()),
            rows => self.add(rows as u64, &values[0], 0),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = states[0].as_primitive::<UInt64Type>().values();
        rows.iter().enumerate().try_for_each(|(place, rows)| self.add(*rows, &states[1], place))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.rows)), self.value.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
