//! Aggregates of ordered values: a quantile that is one of them, the most frequent one, the number of
//! each, their entropy, and the median of their distances from the median.

use crate::arguments::refused;
use crate::builtin::kept::Kept;
use crate::interval::{INTERVAL, lengths};
use crate::json::is_json;
use crate::json::order::json_keys;
use crate::value_keys::{comparable, nested_key, nested_keys};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, LargeBinaryArray, ListArray, MapArray, PrimitiveArray, StructArray,
    UInt32Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, filter, is_not_null, partition, sort_to_indices, take};
use arrow::datatypes::{
    ArrowNativeTypeOp, ArrowPrimitiveType, DataType, Field, FieldRef, Float64Type, Int64Type,
};
use arrow::downcast_primitive_array;
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{DFSchema, ScalarValue, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

pub(super) fn register(context: &SessionContext) {
    for (what, aliases) in [
        (What::Quantile, vec!["quantile".to_string()]),
        (What::QuantileDown, vec![]),
        (What::Mode, vec![]),
        (MODE_FIRST, vec![]),
        (MODE_LAST, vec![]),
        (What::Histogram, vec![]),
        (What::Entropy, vec![]),
        (What::Deviation, vec![]),
    ] {
        context.register_udaf(AggregateUDF::from(Ordered { aliases, ..Ordered::new(what) }));
    }
}

const MODE_FIRST: What = What::ModeOf { is_descending: false };
const MODE_LAST: What = What::ModeOf { is_descending: true };

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    /// The least value that is not less than a fraction of all; of fractions in a list, a list.
    Quantile,
    /// The same from the greatest value on.
    QuantileDown,
    /// The most frequent value, of several ones the least.
    Mode,
    /// The same, of several ones that with the least or the greatest key.
    ModeOf {
        is_descending: bool,
    },
    Histogram,
    /// How many bits tell on average which of the values it is.
    Entropy,
    /// The median of the distances of numbers from their median.
    Deviation,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ordered {
    what: What,
    aliases: Vec<String>,
    signature: Signature,
}

impl Ordered {
    fn new(what: What) -> Self {
        Self { what, aliases: Vec::new(), signature: Signature::user_defined(Volatility::Immutable) }
    }
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
            MODE_FIRST => "mode_first",
            What::ModeOf { .. } => "mode_last",
            What::Histogram => "histogram",
            What::Entropy => "entropy",
            What::Deviation => "mad",
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
            (What::ModeOf { .. }, [of, DataType::LargeBinary]) => Ok(vec![of.clone(), DataType::LargeBinary]),
            (What::Mode | What::Histogram | What::Entropy, [of]) => Ok(vec![of.clone()]),
            (What::Deviation, [of]) if of.is_numeric() || of.is_null() => Ok(vec![DataType::Float64]),
            (What::Deviation, _) => Err(refused("mad() is of numbers")),
            _ => Err(refused(format!("{}() is of one value", self.name()))),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let of = types.first().cloned().unwrap_or(DataType::Null);
        Ok(match (self.what, types) {
            (What::Histogram, _) => map_type(&of),
            (What::Entropy | What::Deviation, _) => DataType::Float64,
            (_, [_, DataType::List(_)]) => DataType::List(Arc::new(Field::new_list_field(of, true))),
            _ => of,
        })
    }

    /// Returns a field that says of a chosen value what that of the values says: that it is a UUID, or
    /// JSON.
    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        Ok(Arc::new(match fields.first() {
            Some(of) if of.data_type() == field.data_type() => field.with_metadata(of.metadata().clone()),
            _ => field,
        }))
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match self.what {
            What::ModeOf { is_descending } => {
                let gives = args.return_field.data_type().clone();
                let is_distinct = args.is_distinct;
                Ok(Box::new(Frequencies { is_descending, is_distinct, gives, values: HashMap::new() }))
            }
            _ => Ok(Box::new(self.values(&args)?)),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        !args.is_distinct && !matches!(self.what, What::ModeOf { .. })
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        let of_group = self.values(&args)?;
        let (of, gives) = (of_group.of.clone(), of_group.gives.clone());
        let of_group = move |values: ArrayRef| {
            let values = if values.is_empty() { Vec::new() } else { vec![values] };
            Values { values, ..of_group.clone() }.evaluate()
        };
        Ok(Box::new(Kept::new(of, gives, Box::new(of_group))))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let of = args.input_fields[0].data_type().clone();
        if matches!(self.what, What::ModeOf { .. }) {
            let parts = [("values", of), ("rows", DataType::Int64), ("keys", DataType::LargeBinary)];
            let field = |(part, of)| {
                let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
                Arc::new(Field::new(format!("{}[{part}]", args.name), list, true))
            };
            return Ok(parts.into_iter().map(field).collect());
        }
        let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list, true))])
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

impl Ordered {
    fn values(&self, args: &AccumulatorArgs<'_>) -> Result<Values> {
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
        let (what, is_distinct, is_json) = (self.what, args.is_distinct, is_json(&args.expr_fields[0]));
        Ok(Values { what, of, gives, fractions, in_list, is_distinct, is_json, values: Vec::new() })
    }
}

/// Has these aggregates look at the order of their values: a quantile goes from the other end, and of
/// several most frequent values the first one is taken.
pub fn by_order(mut expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    static FUNCTIONS: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
        let functions = [What::QuantileDown, MODE_FIRST, MODE_LAST].map(Ordered::new);
        functions.into_iter().map(|function| Arc::new(AggregateUDF::from(function))).collect()
    });
    let Expr::AggregateFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let [key, rest @ ..] = call.params.order_by.as_slice() else { return Ok(Transformed::no(expression)) };
    match (call.func.name(), call.params.args.as_slice()) {
        ("quantile_disc", [of, _]) => {
            if !key.asc && key.expr == *of {
                call.func = FUNCTIONS[0].clone();
            }
        }
        ("mode", [_]) if rest.is_empty() => {
            call.func = FUNCTIONS[if key.asc { 1 } else { 2 }].clone();
            call.params.args.push(nested_key(key.expr.clone()));
        }
        ("mode", [_]) => {
            let message = "mode() with several keys in its ORDER BY is not supported";
            return Err(external(Error::unsupported(message)));
        }
        _ => return Ok(Transformed::no(expression)),
    }
    call.params.order_by.clear();
    Ok(Transformed::yes(expression))
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

/// Each value that is not NULL, with the number of its rows and the key that is the first of them.
#[derive(Debug)]
struct Frequencies {
    is_descending: bool,
    /// Says whether each value counts once.
    is_distinct: bool,
    gives: DataType,
    values: HashMap<ScalarValue, Frequency>,
}

#[derive(Debug)]
struct Frequency {
    rows: i64,
    key: Option<Vec<u8>>,
}

impl Frequencies {
    fn add(&mut self, value: ScalarValue, rows: i64, key: Option<&[u8]>) {
        let (is_descending, is_distinct) = (self.is_descending, self.is_distinct);
        let known = self.values.entry(value).or_insert(Frequency { rows: 0, key: None });
        known.rows = if is_distinct { 1 } else { known.rows + rows };
        let is_first = key.is_some_and(|key| precedes(key, known.key.as_deref(), is_descending));
        if is_first {
            known.key = key.map(<[u8]>::to_vec);
        }
    }
}

/// Tells whether a key comes before another one, or before none.
fn precedes(key: &[u8], other: Option<&[u8]>, is_descending: bool) -> bool {
    other.is_none_or(|other| if is_descending { key > other } else { key < other })
}

impl Accumulator for Frequencies {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values, keys, ..] = values else { return Err(refused("mode() is of a value and a key")) };
        let values = if values.data_type().is_floating() { comparable(values)? } else { values.clone() };
        let keys = keys.as_binary::<i64>();
        for row in (0..values.len()).filter(|row| values.is_valid(*row)) {
            let value = ScalarValue::try_from_array(&values, row)?;
            self.add(value, 1, keys.is_valid(row).then(|| keys.value(row)));
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let most = self.values.values().map(|of| of.rows).max().unwrap_or(0);
        let mut best: Option<(&ScalarValue, &Frequency)> = None;
        for (value, of) in self.values.iter().filter(|(_, of)| of.rows == most) {
            let is_better = best.is_none_or(|(known, best)| match (&of.key, &best.key) {
                (one, other) if one == other => value.partial_cmp(known).is_some_and(|order| order.is_lt()),
                (Some(key), other) => precedes(key, other.as_deref(), self.is_descending),
                (None, _) => false,
            });
            if is_better {
                best = Some((value, of));
            }
        }
        best.map_or_else(|| ScalarValue::try_from(&self.gives), |(value, _)| value.cast_to(&self.gives))
    }

    fn size(&self) -> usize {
        let of_value =
            |(value, of): (&ScalarValue, &Frequency)| value.size() + of.key.as_ref().map_or(0, Vec::len);
        size_of_val(self) + self.values.iter().map(of_value).sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, of): (Vec<ScalarValue>, Vec<&Frequency>) =
            self.values.iter().map(|(value, of)| (value.clone(), of)).unzip();
        let values = match values.is_empty() {
            true => new_empty_array(&self.gives),
            false => ScalarValue::iter_to_array(values)?,
        };
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(of.iter().map(|of| of.rows)));
        let keys: ArrayRef = Arc::new(of.iter().map(|of| of.key.as_deref()).collect::<LargeBinaryArray>());
        let list = |array| SingleRowListArrayBuilder::new(array).with_nullable(true).build_list_scalar();
        Ok([values, rows, keys].map(list).into())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, rows, keys] = states else { return Err(refused("the state of mode() is three lists")) };
        let lists = [values, rows, keys].map(|list| list.as_list::<i32>());
        for row in 0..lists[0].len() {
            let [values, rows, keys] = lists.map(|list| list.value(row));
            let (rows, keys) = (rows.as_primitive::<Int64Type>(), keys.as_binary::<i64>());
            for place in 0..values.len() {
                let value = ScalarValue::try_from_array(&values, place)?;
                self.add(value, rows.value(place), keys.is_valid(place).then(|| keys.value(place)));
            }
        }
        Ok(())
    }
}

/// All values that are not NULL.
#[derive(Clone, Debug)]
struct Values {
    what: What,
    of: DataType,
    gives: DataType,
    fractions: Option<Vec<Option<f64>>>,
    /// Says whether a list of fractions gives a list.
    in_list: bool,
    /// Says whether each value counts once.
    is_distinct: bool,
    /// Says whether the values are JSON, which has an order of its own.
    is_json: bool,
    values: Vec<ArrayRef>,
}

impl Values {
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        let known = match values.logical_null_count() {
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
        let all = self.values.first().cloned().unwrap_or_else(|| new_empty_array(&self.of));
        if all.data_type().is_floating() { comparable(&all) } else { Ok(all) }
    }

    /// Returns the same with each value once.
    fn once(&mut self) -> Result<Self> {
        let (sorted, ranges) = self.sorted()?;
        let starts: UInt32Array = ranges.iter().map(|range| range.start as u32).collect();
        let values = if ranges.is_empty() { Vec::new() } else { vec![take(&sorted, &starts, None)?] };
        Ok(Self { is_distinct: false, values, ..self.clone() })
    }

    fn quantiles(&mut self) -> Result<ScalarValue> {
        let all = self.all()?;
        let fractions = self.fractions.clone().unwrap_or_default();
        let found = fractions.iter().map(|fraction| match fraction {
            Some(fraction) if !all.is_empty() => {
                let place = ((fraction * all.len() as f64).ceil() as usize).clamp(1, all.len());
                let is_down = self.what == What::QuantileDown;
                nth(&all, if is_down { all.len() - place } else { place - 1 }, self.is_json)
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
        let keys = keys_of(&all)?;
        let places = sort_to_indices(&keys, None, None)?;
        let ranges = match all.is_empty() {
            true => Vec::new(),
            false => partition(&[take(&keys, &places, None)?])?.ranges(),
        };
        Ok((take(&all, &places, None)?, ranges))
    }
}

/// Returns that by which values are ordered: themselves, the lengths of intervals, or the bytes of what has
/// values within it.
fn keys_of(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        of if of.is_nested() => Arc::new(nested_keys(values)?),
        of if *of == INTERVAL => Arc::new(lengths(values.as_primitive())?),
        _ => values.clone(),
    })
}

/// Returns the value at a place in the order of all.
fn nth(all: &ArrayRef, place: usize, is_json: bool) -> Result<ScalarValue> {
    if *all.data_type() != INTERVAL {
        let all = all.as_ref();
        downcast_primitive_array! {
            all => return selected(all, place),
            _ => {}
        }
    }
    let keys = if is_json { json_keys(all)? } else { keys_of(all)? };
    let places = sort_to_indices(&keys, None, Some(place + 1))?;
    ScalarValue::try_from_array(all, places.value(place) as usize)
}

fn selected<T: ArrowPrimitiveType>(all: &PrimitiveArray<T>, place: usize) -> Result<ScalarValue> {
    let mut values = all.values().to_vec();
    let (_, value, _) = values.select_nth_unstable_by(place, |one, other| one.compare(*other));
    let value = PrimitiveArray::<T>::from_value(*value, 1).with_data_type(all.data_type().clone());
    ScalarValue::try_from_array(&value, 0)
}

/// Puts numbers in order, and returns the one in the middle, or what lies between two.
fn median(numbers: &mut [f64]) -> Option<f64> {
    numbers.sort_unstable_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let high = *numbers.get(middle)?;
    Some(match numbers.len() % 2 {
        0 => f64::midpoint(numbers[middle - 1], high),
        _ => high,
    })
}

/// Returns the most frequent one of some values, the least one of several; `None` for values that lie
/// in no plain array, and for none.
fn most_frequent(all: &ArrayRef) -> Option<Result<ScalarValue>> {
    if *all.data_type() == INTERVAL || all.is_empty() {
        return None;
    }
    let all = all.as_ref();
    downcast_primitive_array! {
        all => Some(most_frequent_of(all)),
        _ => None,
    }
}

fn most_frequent_of<T: ArrowPrimitiveType>(all: &PrimitiveArray<T>) -> Result<ScalarValue> {
    let mut values = all.values().to_vec();
    values.sort_unstable_by(|one, other| one.compare(*other));
    let equal = values.chunk_by(|one, other| one.compare(*other).is_eq());
    let found = equal.rev().max_by_key(|equal| equal.len()).and_then(|equal| equal.first());
    let found = found.map(|found| PrimitiveArray::<T>::from_value(*found, 1));
    let found = found.ok_or_else(|| internal_datafusion_err!("there is no most frequent value"))?;
    ScalarValue::try_from_array(&found.with_data_type(all.data_type().clone()), 0)
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0])
    }

    /// Takes back the values of rows that leave the frame of a window, which are those that came first.
    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = values[0].len() - values[0].logical_null_count();
        while let Some(first) = self.values.first_mut().filter(|_| gone > 0) {
            if first.len() > gone {
                *first = first.slice(gone, first.len() - gone);
                break;
            }
            gone -= first.len();
            self.values.remove(0);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.is_distinct {
            return self.once()?.evaluate();
        }
        match self.what {
            What::Quantile | What::QuantileDown => self.quantiles(),
            What::Mode | What::ModeOf { .. } => {
                if let Some(found) = most_frequent(&self.all()?) {
                    return found;
                }
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
            What::Entropy => {
                if self.all()?.is_empty() {
                    return Ok(ScalarValue::Float64(Some(0.0)));
                }
                let (sorted, ranges) = self.sorted()?;
                let share = |range: &std::ops::Range<usize>| range.len() as f64 / sorted.len() as f64;
                let bits = ranges.iter().map(share).map(|share| -share * share.log2()).sum::<f64>();
                // That of equal values is 0, which has no sign.
                Ok(ScalarValue::Float64(Some(bits + 0.0)))
            }
            What::Deviation => {
                let mut numbers = self.all()?.as_primitive::<Float64Type>().values().to_vec();
                let Some(middle) = median(&mut numbers) else { return Ok(ScalarValue::Float64(None)) };
                for number in &mut numbers {
                    *number = (*number - middle).abs();
                }
                Ok(ScalarValue::Float64(median(&mut numbers)))
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
