//! Aggregates of ordered values: a quantile that is one of them, the most frequent one, and the
//! number of each.

use crate::builtin::refused;
use crate::interval::INTERVAL;
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, PrimitiveArray, StructArray, UInt32Array,
    new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, filter, is_not_null, partition, sort_to_indices, take};
use arrow::datatypes::{ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Field, FieldRef, Float64Type};
use arrow::downcast_primitive_array;
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

pub(super) fn register(context: &SessionContext) {
    for (what, aliases) in [
        (What::Quantile, vec!["quantile".to_string()]),
        (What::QuantileDown, vec![]),
        (What::Mode, vec![]),
        (What::Histogram, vec![]),
    ] {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udaf(AggregateUDF::from(Ordered { what, aliases, signature }));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// The least value that is not less than a fraction of all; of fractions in a list, a list.
    Quantile,
    /// The same from the greatest value on.
    QuantileDown,
    Mode,
    Histogram,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordered {
    what: What,
    aliases: Vec<String>,
    signature: Signature,
}

fn map_type(of: &DataType) -> DataType {
    let key = Field::new("key", of.clone(), false);
    let entries = DataType::Struct(vec![key, Field::new("value", DataType::Int64, true)].into());
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

impl AggregateUDFImpl for Ordered {
    fn name(&self) -> &str {
        match self.what {
            What::Quantile => "quantile_disc",
            What::QuantileDown => "quantile_disc_desc",
            What::Mode => "mode",
            What::Histogram => "histogram",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let doubles = |of: &DataType| match of {
            of if of.is_numeric() || of.is_null() => Some(DataType::Float64),
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                Some(DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true))))
            }
            _ => None,
        };
        match (self.what, types) {
            (What::Quantile | What::QuantileDown, [of, fraction])
                if let Some(fraction) = doubles(fraction) =>
            {
                Ok(vec![of.clone(), fraction])
            }
            (What::Quantile | What::QuantileDown, _) => {
                Err(refused("quantile_disc() is of a value, and a fraction from 0 to 1"))
            }
            (_, [of]) => Ok(vec![of.clone()]),
            _ => Err(refused(format!("{}() is of one value", self.name()))),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().cloned().unwrap_or(DataType::Null);
        Ok(match (self.what, types) {
            (What::Histogram, _) => map_type(&of),
            (_, [_, DataType::List(_)]) => DataType::List(Arc::new(Field::new_list_field(of, true))),
            _ => of,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let fractions = match self.what {
            What::Quantile | What::QuantileDown => {
                let fraction = args.exprs.get(1).and_then(|expr| expr.downcast_ref::<Literal>());
                Some(fractions(fraction.map(Literal::value))?)
            }
            _ => None,
        };
        let of = args.expr_fields[0].data_type().clone();
        let gives = args.return_field.data_type().clone();
        let in_list = args.expr_fields.get(1).is_some_and(|field| field.data_type().is_nested());
        Ok(Box::new(Values { what: self.what, of, gives, fractions, in_list, values: Vec::new() }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.input_fields[0].data_type().clone();
        let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list, true))])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Returns the fractions that are written in a call.
fn fractions(given: Option<&ScalarValue>) -> Result<Vec<Option<f64>>> {
    let values = match given {
        Some(ScalarValue::List(list)) if list.is_valid(0) => list.value(0),
        Some(value) => value.to_array()?,
        None => return Err(refused("the fraction of quantile_disc() is a constant")),
    };
    let Some(values) = values.as_primitive_opt::<Float64Type>() else { return Ok(vec![None]) };
    let checked = values.iter().map(|fraction| match fraction {
        Some(fraction) if !(0.0..=1.0).contains(&fraction) => {
            Err(refused(format!("the fraction of quantile_disc() is from 0 to 1, not {fraction}")))
        }
        other => Ok(other),
    });
    checked.collect()
}

/// All values that are not NULL.
#[derive(Debug)]
struct Values {
    what: What,
    of: DataType,
    gives: DataType,
    fractions: Option<Vec<Option<f64>>>,
    /// Says whether a list of fractions gives a list.
    in_list: bool,
    values: Vec<ArrayRef>,
}

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let known = match values.null_count() {
            0 => values.clone(),
            _ => filter(values, &is_not_null(values)?)?,
        };
        if !known.is_empty() && !known.data_type().is_null() {
            self.values.push(known);
        }
        Ok(())
    }

    fn all(&mut self) -> Result<ArrayRef> {
        if self.values.len() > 1 {
            let parts: Vec<&dyn Array> = self.values.iter().map(AsRef::as_ref).collect();
            self.values = vec![concat(&parts)?];
        }
        Ok(self.values.first().cloned().unwrap_or_else(|| new_empty_array(&self.of)))
    }

    fn quantiles(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        let fractions = self.fractions.clone().unwrap_or_default();
        let found = fractions.iter().map(|fraction| match fraction {
            Some(fraction) if !all.is_empty() => {
                let place = ((fraction * all.len() as f64).ceil() as usize).clamp(1, all.len());
                let is_down = self.what == What::QuantileDown;
                nth(&all, if is_down { all.len() - place } else { place - 1 })
            }
            _ => ScalarValue::try_from(&self.of),
        });
        let mut found = found.collect::<Result<Vec<_>>>()?;
        match &self.gives {
            DataType::List(field) if self.in_list && !all.is_empty() => {
                let values = match found.is_empty() {
                    true => new_empty_array(&self.of),
                    false => ScalarValue::iter_to_array(found)?,
                };
                Ok(SingleRowListArrayBuilder::new(values).with_field(field).build_list_scalar())
            }
            DataType::List(_) if self.in_list => ScalarValue::try_from(&self.gives),
            _ => found.pop().map_or_else(|| ScalarValue::try_from(&self.gives), Ok),
        }
    }

    /// Returns the values in their order, and where equal ones begin and end.
    fn sorted(&mut self) -> Result<(ArrayRef, Vec<std::ops::Range<usize>>)> {
        let all = self.all()?;
        let sorted = take(&all, &sort_to_indices(&all, None, None)?, None)?;
        let ranges =
            if sorted.is_empty() { Vec::new() } else { partition(std::slice::from_ref(&sorted))?.ranges() };
        Ok((sorted, ranges))
    }
}

/// Returns the value at a place in the order of all.
fn nth(all: &ArrayRef, place: usize) -> Result<ScalarValue> {
    if *all.data_type() != INTERVAL {
        let all = all.as_ref();
        downcast_primitive_array! {
            all => return selected(all, place),
            _ => {}
        }
    }
    let places = sort_to_indices(all, None, Some(place + 1))?;
    ScalarValue::try_from_array(all, places.value(place) as usize)
}

fn selected<T: ArrowPrimitiveType>(all: &PrimitiveArray<T>, place: usize) -> Result<ScalarValue> {
    let mut values = all.values().to_vec();
    let (_, value, _) = values.select_nth_unstable_by(place, |one, other| one.compare(*other));
    let value = PrimitiveArray::<T>::from_value(*value, 1).with_data_type(all.data_type().clone());
    ScalarValue::try_from_array(&value, 0)
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.what {
            What::Quantile | What::QuantileDown => self.quantiles(),
            What::Mode => {
                let (sorted, ranges) = self.sorted()?;
                // Of several most frequent values, the least is taken.
                let longest = ranges.iter().rev().max_by_key(|range| range.len());
                match longest {
                    Some(range) => ScalarValue::try_from_array(&sorted, range.start),
                    None => ScalarValue::try_from(&self.gives),
                }
            }
            What::Histogram => {
                let (sorted, ranges) = self.sorted()?;
                let DataType::Map(field, _) = &self.gives else { return ScalarValue::try_from(&self.gives) };
                let DataType::Struct(fields) = field.data_type() else {
                    return ScalarValue::try_from(&self.gives);
                };
                if ranges.is_empty() {
                    return ScalarValue::try_from(&self.gives);
                }
                let starts: UInt32Array = ranges.iter().map(|range| range.start as u32).collect();
                let counts: Int64Array = ranges.iter().map(|range| range.len() as i64).collect();
                let columns = vec![take(&sorted, &starts, None)?, Arc::new(counts) as ArrayRef];
                let entries = StructArray::try_new(fields.clone(), columns, None)?;
                let offsets = OffsetBuffer::from_lengths([entries.len()]);
                let map = MapArray::try_new(field.clone(), offsets, entries, None, false)?;
                Ok(ScalarValue::Map(Arc::new(map)))
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.iter().map(|values| values.get_array_memory_size()).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = self.all()?;
        let field = Arc::new(Field::new_list_field(self.of.clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([all.len()]), all, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        lists.iter().flatten().try_for_each(|values| self.add(&values))
    }
}
