//! `percentile_cont`, which weighs the two values that it lies between as exactly as a DOUBLE can, as
//! PostgreSQL does: DataFusion's weights are whole millionths. It and `median` are of points in time, times
//! of day and intervals, too.

use crate::time_percentile::{Times, is_of_time};
use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema, TimeUnit};
use datafusion::common::types::{NativeType, logical_date, logical_float64};
use datafusion::common::{ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::median::median_udaf;
use datafusion::functions_aggregate::percentile_cont::percentile_cont_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, ColumnarValue, Documentation, EmitTo, Expr,
    GroupsAccumulator, Signature, TypeSignature, TypeSignatureClass,
};
use hypostyle_error::external;
use hypostyle_types::Error;
use std::cmp::Ordering;
use std::sync::Arc;

/// Returns `percentile_cont`.
pub fn function() -> AggregateUDF {
    AggregateUDF::from(Percentile::new(percentile_cont_udaf()))
}

/// Returns the functions, to take the places of DataFusion's.
pub fn functions() -> [AggregateUDF; 2] {
    [function(), AggregateUDF::from(Percentile::new(median_udaf()))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Percentile {
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

impl AggregateUDFImpl for Percentile {
    as_within!(name, aliases, return_type);

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.numbers(args, false)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.numbers(args, true)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !is_of_time(args.expr_fields[0].data_type()) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let place = Place::of(&args);
        let inner = self.inner.create_groups_accumulator(args)?;
        Ok(match place {
            None => inner,
            Some(place) => Box::new(Groups { inner, place }),
        })
    }

    /// Returns DataFusion's simplification to the least or the greatest of numbers. Intervals it would
    /// compare part by part.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let simplified = self.inner.simplify()?;
        Some(Box::new(move |call, info| {
            let of = call.params.args.first().and_then(|of| info.get_data_type(of).ok());
            match of.is_some_and(|of| is_of_time(&of)) {
                true => Ok(Expr::AggregateFunction(call)),
                false => simplified(call, info),
            }
        }))
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

impl Percentile {
    fn new(inner: Arc<AggregateUDF>) -> Self {
        let signature = with_times(inner.signature());
        Self { inner, signature }
    }

    /// Returns an accumulator of DOUBLEs, or of times, and DataFusion's for what is neither. It checks the
    /// share, too.
    fn numbers(&self, args: AccumulatorArgs<'_>, slides: bool) -> Result<Box<dyn Accumulator>> {
        let (of, is_distinct) = (args.expr_fields[0].data_type(), args.is_distinct);
        if is_of_time(of) {
            let Place { share, is_descending } = Place::of_times(&args)?;
            return Ok(Box::new(Times::new(of.clone(), share, is_descending, is_distinct, slides)));
        }
        let place = Place::of(&args);
        let inner = match slides {
            true => self.inner.create_sliding_accumulator(args)?,
            false => self.inner.accumulator(args)?,
        };
        Ok(match place {
            None => inner,
            Some(place) => Box::new(Numbers { numbers: Vec::new(), place, is_distinct, slides }),
        })
    }
}

/// Returns the signature of a function of numbers, and maybe a share of them, that is of times, too.
fn with_times(signature: &Signature) -> Signature {
    let share = Coercion::new_implicit(
        TypeSignatureClass::Native(logical_float64()),
        vec![TypeSignatureClass::Numeric],
        NativeType::Float64,
    );
    let names = signature.parameter_names.as_deref();
    let others = vec![share; names.map_or(0, |names| names.len().saturating_sub(1))];
    // The average of dates is a point in time, too.
    let date = TypeSignatureClass::Native(logical_date());
    let point = NativeType::Timestamp(TimeUnit::Microsecond, None);
    let times = [
        Coercion::new_implicit(TypeSignatureClass::Timestamp, vec![date], point),
        Coercion::new_exact(TypeSignatureClass::Time),
        Coercion::new_exact(TypeSignatureClass::Interval),
    ];
    let mut known = match &signature.type_signature {
        TypeSignature::OneOf(known) => known.clone(),
        other => vec![other.clone()],
    };
    known.extend(
        times
            .into_iter()
            .map(|of| TypeSignature::Coercible(std::iter::once(of).chain(others.iter().cloned()).collect())),
    );
    let parameter_names = signature.parameter_names.clone();
    Signature { parameter_names, ..Signature::one_of(known, signature.volatility) }
}

/// Where the result lies among the values in their order.
#[derive(Clone, Copy, Debug)]
struct Place {
    share: f64,
    is_descending: bool,
}

impl Place {
    /// Returns the place among values, if these are DOUBLEs.
    fn of(args: &AccumulatorArgs<'_>) -> Option<Self> {
        if *args.expr_fields.first()?.data_type() != DataType::Float64 {
            return None;
        }
        Self::written(args)
    }

    /// Returns the place in a constant share of the values, or in the middle where there is none.
    fn of_times(args: &AccumulatorArgs<'_>) -> Result<Self> {
        if args.exprs.len() == 1 {
            return Ok(Self { share: 0.5, is_descending: false });
        }
        let refused = |message: String| external(Error::invalid_input(message).with_sqlstate("22003"));
        let place = Self::written(args);
        let place = place.ok_or_else(|| refused("the fraction of percentile_cont() is a constant".into()))?;
        match (0.0..=1.0).contains(&place.share) {
            true => Ok(place),
            false => {
                Err(refused(format!("the fraction of percentile_cont() is from 0 to 1, not {}", place.share)))
            }
        }
    }

    fn written(args: &AccumulatorArgs<'_>) -> Option<Self> {
        let nothing = RecordBatch::new_empty(Arc::new(Schema::empty()));
        match args.exprs.get(1)?.evaluate(&nothing).ok()? {
            ColumnarValue::Scalar(ScalarValue::Float64(Some(share))) => {
                let is_descending = args.order_bys.first().is_some_and(|key| key.options.descending);
                Some(Self { share, is_descending })
            }
            _ => None,
        }
    }

    /// Returns what lies there between two numbers, which are put in order as far as is needed.
    fn among(self, numbers: &mut [f64]) -> Option<f64> {
        let order = |one: &f64, other: &f64| -> Ordering {
            let order = one.total_cmp(other);
            if self.is_descending { order.reverse() } else { order }
        };
        let place = self.share * numbers.len().checked_sub(1)? as f64;
        let before = place.floor();
        let (_, first, others) = numbers.select_nth_unstable_by(before as usize, order);
        let (first, weight) = (*first, place - before);
        let second = others.iter().copied().min_by(order);
        let Some(second) = second.filter(|second| weight > 0.0 && order(&first, second).is_ne()) else {
            return Some(first);
        };
        let distance = second - first;
        Some(match distance.is_finite() {
            true => first + weight * distance,
            // That of two finite numbers may be infinite.
            false => first * (1.0 - weight) + second * weight,
        })
    }
}

/// The numbers of one group or frame.
#[derive(Debug)]
struct Numbers {
    numbers: Vec<f64>,
    place: Place,
    is_distinct: bool,
    /// Whether numbers leave the frame, in the order in which they came.
    slides: bool,
}

impl Numbers {
    fn result(&self, numbers: &mut Vec<f64>) -> Option<f64> {
        if self.is_distinct {
            numbers.sort_unstable_by(f64::total_cmp);
            numbers.dedup_by(|one, other| one.total_cmp(other).is_eq());
        }
        self.place.among(numbers)
    }
}

impl Accumulator for Numbers {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Float64Type>();
        self.numbers.extend(values.iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let gone = values[0].len() - values[0].null_count();
        self.numbers.drain(..gone.min(self.numbers.len()));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.slides
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.slides {
            return Ok(ScalarValue::Float64(self.result(&mut self.numbers.clone())));
        }
        let mut numbers = std::mem::take(&mut self.numbers);
        let result = self.result(&mut numbers);
        self.numbers = numbers;
        Ok(ScalarValue::Float64(result))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.numbers.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let numbers = Float64Array::from(std::mem::take(&mut self.numbers));
        let field = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([numbers.len()]);
        let list = ListArray::try_new(field, offsets, Arc::new(numbers), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = states[0].as_list::<i32>();
        lists.iter().flatten().try_for_each(|numbers| self.update_batch(&[numbers]))
    }
}

/// DataFusion's numbers of groups, with results that are ours.
struct Groups {
    inner: Box<dyn GroupsAccumulator>,
    place: Place,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(values, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let state = self.inner.state(emit_to)?;
        let lists = state.first().and_then(|lists| lists.as_list_opt::<i32>());
        let lists =
            lists.ok_or_else(|| internal_datafusion_err!("the state of percentile_cont is no list"))?;
        let results = lists.iter().map(|numbers| {
            let mut numbers = numbers?.as_primitive::<Float64Type>().values().to_vec();
            self.place.among(&mut numbers)
        });
        Ok(Arc::new(results.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn weights_have_all_digits() {
        let among = |share: f64, is_descending: bool, numbers: &[f64]| {
            Place { share, is_descending }.among(&mut numbers.to_vec())
        };
        assert_eq!(among(0.5, false, &[]), None);
        assert_eq!(among(0.5, false, &[7.0]), Some(7.0));
        assert_eq!(among(0.25, false, &[1e9, 0.0]), Some(250_000_000.0));
        assert_eq!(among(1.0 / 3.0, false, &[0.0, 1e9]), Some(1e9 / 3.0));
        assert_eq!(among(0.3, true, &[1.0, 2.0, 4.0, 9.0]), among(0.3, true, &[9.0, 4.0, 2.0, 1.0]));
        assert_eq!(among(0.25, true, &[1.0, 2.0]), Some(1.75));
        assert_eq!(among(0.5, false, &[1.7e308, -1.7e308]), Some(0.0));
        assert_eq!(among(0.5, false, &[f64::INFINITY, f64::INFINITY]), Some(f64::INFINITY));
        assert_eq!(among(1.0, false, &[3.0, 1.0, 2.0]), Some(3.0));
        assert_eq!(among(0.0, true, &[3.0, 1.0, 2.0]), Some(3.0));
    }
}
