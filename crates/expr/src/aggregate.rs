//! `sum` and `avg` that are exact where DataFusion's are not, those of intervals and points in time,
//! moments of numbers, and aggregates that slide: `bool_and`, `bool_or`, those of bits, and those of
//! floating-point numbers.
//!
//! DataFusion adds BIGINTs modulo 2⁶⁴ and decimals modulo 2¹²⁸, and truncates the average of
//! decimals after four more digits. All are wrapped here. Integers are added as 128-bit decimals,
//! decimals of many digits as 256-bit ones, and a sum that its type cannot hold is an error,
//! whatever the order of rows. The average of decimals is the DOUBLE nearest to exact sum ÷ count,
//! as in DuckDB.

use crate::arithmetic::nearest_quotient;
use crate::cast::cast as cast_as_sql;
use crate::distinct_sum::DistinctSum;
use crate::interval::INTERVAL;
use crate::moments;
use crate::percentile;
use crate::sliding_bits::{CountedBits, ExclusiveOr};
use crate::sliding_bool::Truths;
use crate::sliding_numbers::{self, of_moments};
use crate::time_sums::{TimeAggregate, TimeSums, type_of_average};
use crate::wide_sum::{self, WideSum};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array, Float64Array};
use arrow::compute::kernels::numeric::div;
use arrow::compute::{CastOptions, cast, cast_with_options, sum};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, Float64Type,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::types::{NativeType, logical_boolean, logical_int64};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::correlation::corr_udaf;
use datafusion::functions_aggregate::covariance::{covar_pop_udaf, covar_samp_udaf};
use datafusion::functions_aggregate::regr;
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, Cast};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Documentation, EmitTo, Expr, ExprSchemable,
    GroupsAccumulator, Operator, ReversedUDAF, SetMonotonicity, Signature, TypeSignature, TypeSignatureClass,
    Volatility, WindowFunctionDefinition, lit,
};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;
use std::sync::{Arc, LazyLock};

/// Returns the functions, to take the places of DataFusion's.
pub fn functions() -> Vec<AggregateUDF> {
    let exact = [
        sum_udaf(),
        avg_udaf(),
        bool_and_udaf(),
        bool_or_udaf(),
        bit_and_udaf(),
        bit_or_udaf(),
        bit_xor_udaf(),
    ];
    let sliding = [
        var_samp_udaf(),
        var_pop_udaf(),
        stddev_udaf(),
        stddev_pop_udaf(),
        covar_samp_udaf(),
        covar_pop_udaf(),
        corr_udaf(),
        regr::regr_slope_udaf(),
        regr::regr_intercept_udaf(),
        regr::regr_count_udaf(),
        regr::regr_avgx_udaf(),
        regr::regr_avgy_udaf(),
        regr::regr_sxx_udaf(),
        regr::regr_syy_udaf(),
        regr::regr_sxy_udaf(),
    ];
    let wrapped = |inner: Arc<AggregateUDF>| {
        let signature = match inner.name() {
            "avg" => Signature::user_defined(Volatility::Immutable),
            "sum" => with_truths(inner.signature()),
            _ => inner.signature().clone(),
        };
        // DataFusion's own way to add a name forgets that the function slides.
        let more = (inner.name() == "var").then_some("variance");
        let aliases = inner.aliases().iter().map(String::as_str).chain(more).map(String::from).collect();
        AggregateUDF::from(Exact { inner, signature, aliases })
    };
    exact.into_iter().chain(sliding).map(wrapped).collect()
}

/// Returns the signature of a function that takes truths for the numbers 1 and 0, too.
fn with_truths(signature: &Signature) -> Signature {
    let truths = TypeSignatureClass::Native(logical_boolean());
    let number = TypeSignatureClass::Native(logical_int64());
    let truths = Coercion::new_implicit(number, vec![truths], NativeType::Int64);
    let mut known = match &signature.type_signature {
        TypeSignature::OneOf(known) => known.clone(),
        other => vec![other.clone()],
    };
    known.push(TypeSignature::Coercible(vec![truths]));
    Signature::one_of(known, signature.volatility)
}

/// The aggregates that give the same whatever order values come in.
const UNORDERED: [&str; 20] = [
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "max",
    "median",
    "min",
    "regr_count",
    "regr_slope",
    "stddev",
    "stddev_pop",
    "sum",
    "var",
    "var_pop",
];

/// Leaves out the order of values for aggregates that do not depend on it: DataFusion gives them the keys
/// as further arguments, which some do not expect.
pub fn without_order(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expression {
        Expr::AggregateFunction(mut call)
            if !call.params.order_by.is_empty() && UNORDERED.contains(&call.func.name()) =>
        {
            call.params.order_by.clear();
            Transformed::yes(Expr::AggregateFunction(call))
        }
        other => Transformed::no(other),
    })
}

/// What lies between two REALs is computed as a DOUBLE, as in PostgreSQL: a REAL has too few digits for
/// it. The median of DOUBLEs is the percentile in the middle: DataFusion's adds two of them up, which may be
/// infinite.
pub fn middles_of_reals(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    static PERCENTILE: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| Arc::new(percentile::function()));
    let is_middle = |name: &str| matches!(name, "median" | "percentile_cont");
    let (is_median, args) = match &mut expression {
        Expr::AggregateFunction(call) if is_middle(call.func.name()) => {
            (call.func.name() == "median", &mut call.params.args)
        }
        Expr::WindowFunction(call) if is_middle(call.fun.name()) => {
            (call.fun.name() == "median", &mut call.params.args)
        }
        _ => return Ok(Transformed::no(expression)),
    };
    let of = args.first().and_then(|of| of.get_type(schema).ok());
    let is_real = of == Some(DataType::Float32);
    if let Some(of) = args.first_mut().filter(|_| is_real) {
        *of = Expr::Cast(Cast::new(Box::new(std::mem::take(of)), DataType::Float64));
    }
    if !is_median || !(is_real || of == Some(DataType::Float64)) {
        return Ok(Transformed::new_transformed(expression, is_real));
    }
    args.push(lit(0.5));
    match &mut expression {
        Expr::AggregateFunction(call) => {
            call.func = PERCENTILE.clone();
            // A median does not depend on it.
            call.params.order_by.clear();
        }
        Expr::WindowFunction(call) => call.fun = WindowFunctionDefinition::AggregateUDF(PERCENTILE.clone()),
        _ => {}
    }
    Ok(Transformed::yes(expression))
}

/// Gives a type to what has that of NULL where it is added up or averaged.
pub fn of_nulls(mut expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let wanted = |name: &str| match name {
        "sum" => Some(DataType::Int64),
        "avg" => Some(DataType::Float64),
        _ => None,
    };
    let (wanted, args) = match &mut expression {
        Expr::AggregateFunction(call) => (wanted(call.func.name()), &mut call.params.args),
        Expr::WindowFunction(call) => (wanted(call.fun.name()), &mut call.params.args),
        _ => return Ok(Transformed::no(expression)),
    };
    let mut changed = false;
    if let (Some(wanted), Some(of)) = (wanted, args.first_mut())
        && of.get_type(schema).is_ok_and(|of| of.is_null())
    {
        *of = Expr::Cast(Cast::new(Box::new(std::mem::take(of)), wanted));
        changed = true;
    }
    Ok(Transformed::new_transformed(expression, changed))
}

/// Refuses the least and the greatest of values without an order.
pub fn of_ordered(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (name, args) = match &expression {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return Ok(Transformed::no(expression)),
    };
    if !matches!(name, "min" | "max") {
        return Ok(Transformed::no(expression));
    }
    if let Some(of) = args.first()
        && let Ok(of @ (DataType::Map(..) | DataType::Union(..))) = of.get_type(schema)
    {
        let message = format!("{name}() of {}: such values have no order", type_name(&of));
        return Err(external(Error::invalid_input(message).with_sqlstate("42883")));
    }
    Ok(Transformed::no(expression))
}

/// A sum of integers while it is added up: no column has enough rows to overflow it.
const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);

/// The digits of decimals that are added up as they are: no column has enough rows to overflow the
/// sum, which has ten digits more.
const NARROW_DIGITS: u8 = DECIMAL128_MAX_PRECISION - 10;

/// How a result of the wrapped function's accumulator is made exact.
#[derive(Clone, Debug)]
enum Adapter {
    /// Nothing is to be done.
    None,
    /// Values come in as decimals of the first type, and the sum goes out as the second one.
    Sum(DataType, DataType),
    /// The state, count and sum, becomes a quotient.
    Average,
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exact {
    inner: Arc<AggregateUDF>,
    signature: Signature,
    aliases: Vec<String>,
}

impl Exact {
    fn adapter(&self, input: &DataType) -> Adapter {
        match (self.inner.name(), input) {
            ("sum", of) if of.is_integer() => Adapter::Sum(WIDE, of.clone()),
            ("sum", DataType::Decimal128(digits, scale)) if *digits > NARROW_DIGITS => {
                let sum = DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale);
                Adapter::Sum(DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale), sum)
            }
            ("avg", of) if of.is_decimal() => Adapter::Average,
            _ => Adapter::None,
        }
    }

    /// Returns what the function is of such values, if it is one of intervals or of points in time.
    fn time_aggregate(&self, input: &DataType) -> Option<TimeAggregate> {
        TimeAggregate::of(self.inner.name(), input)
    }

    /// Returns the accumulator of intervals, or of points in time, if it is these that are added up or
    /// averaged.
    fn of_times(&self, args: &AccumulatorArgs<'_>) -> Option<Result<Box<dyn Accumulator>>> {
        let aggregate = self.time_aggregate(args.expr_fields[0].data_type())?;
        if args.is_distinct {
            let (name, values) = (self.inner.name(), aggregate.values());
            let message = format!("{name}(DISTINCT) of {values} is not supported");
            return Some(Err(external(Error::unsupported(message))));
        }
        Some(Ok(Box::new(TimeSums::new(aggregate))))
    }

    /// Returns the scale of DECIMALs whose sums may have more than 256 bits, if it is these that are added
    /// up or averaged.
    fn wide_scale(&self, input: &DataType) -> Option<i8> {
        match input {
            DataType::Decimal256(digits, scale)
                if *digits > wide_sum::NARROW_DIGITS && matches!(self.inner.name(), "sum" | "avg") =>
            {
                Some(*scale)
            }
            _ => None,
        }
    }

    /// Returns the accumulator of such DECIMALs.
    fn of_wide(&self, args: &AccumulatorArgs<'_>) -> Option<Result<Box<dyn Accumulator>>> {
        let of = args.expr_fields[0].data_type();
        let scale = self.wide_scale(of)?;
        if args.is_distinct {
            let message = format!("{}(DISTINCT) of {} is not supported", self.inner.name(), type_name(of));
            return Some(Err(external(Error::unsupported(message))));
        }
        Some(Ok(Box::new(WideSum::new(scale, args.return_field.data_type().clone()))))
    }

    /// Returns the accumulator of values that the wrapped function does not add up, if these are such ones.
    fn of_own(&self, args: &AccumulatorArgs<'_>) -> Option<Result<Box<dyn Accumulator>>> {
        self.of_times(args).or_else(|| self.of_wide(args))
    }

    /// Runs `with` on the arguments as the wrapped function is to see them.
    fn adapted<T>(
        &self,
        args: AccumulatorArgs<'_>,
        with: impl FnOnce(&AggregateUDF, AccumulatorArgs<'_>) -> Result<T>,
    ) -> Result<(Adapter, T)> {
        let adapter = self.adapter(args.expr_fields[0].data_type());
        let inputs = adapter.inputs(args.expr_fields);
        let return_field = adapter.return_field(&self.inner, &inputs, &args.return_field)?;
        let value = with(&self.inner, AccumulatorArgs { return_field, expr_fields: &inputs, ..args })?;
        Ok((adapter, value))
    }

    fn wrap(
        &self,
        args: AccumulatorArgs<'_>,
        create: impl FnOnce(&AggregateUDF, AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>>,
    ) -> Result<Box<dyn Accumulator>> {
        Ok(match self.adapted(args, create)? {
            (Adapter::None, inner) => inner,
            (adapter, inner) => Box::new(ExactAccumulator { adapter, inner }),
        })
    }
}

impl Adapter {
    fn inputs(&self, fields: &[FieldRef]) -> Vec<FieldRef> {
        let input = |field: &FieldRef| match self {
            Self::Sum(wide, _) => Arc::new(field.as_ref().clone().with_data_type(wide.clone())),
            _ => field.clone(),
        };
        fields.iter().map(input).collect()
    }

    fn return_field(&self, inner: &AggregateUDF, inputs: &[FieldRef], outer: &FieldRef) -> Result<FieldRef> {
        match self {
            Self::None => Ok(outer.clone()),
            _ => {
                let types: Vec<DataType> = inputs.iter().map(|field| field.data_type().clone()).collect();
                Ok(Arc::new(Field::new(outer.name(), inner.return_type(&types)?, true)))
            }
        }
    }

    fn values(&self, values: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        match self {
            Self::Sum(wide, _) => values.iter().map(|array| Ok(cast(array, wide)?)).collect(),
            _ => Ok(values.to_vec()),
        }
    }

    /// Returns the results, from those of the wrapped accumulator or from its state.
    fn results(&self, evaluated: impl FnOnce(bool) -> Result<Vec<ArrayRef>>) -> Result<ArrayRef> {
        match self {
            Self::Average => match evaluated(true)?.as_slice() {
                [counts, sums] => quotients(counts, sums),
                // For AVG(DISTINCT) these are lists of the distinct values.
                [distinct] => Ok(Arc::new(list_averages(distinct)?)),
                _ => Err(DataFusionError::Internal("the state of avg is neither two columns nor one".into())),
            },
            Self::Sum(_, gives) => {
                let sums = only(evaluated(false)?)?;
                let strict = CastOptions { safe: false, ..CastOptions::default() };
                cast_with_options(&sums, gives, &strict).map_err(|_| {
                    let instead = if gives.is_integer() { "DECIMALs or DOUBLEs" } else { "DOUBLEs" };
                    let message =
                        format!("a sum is out of range of {}; add up {instead} instead", type_name(gives));
                    DataFusionError::ArrowError(
                        Box::new(arrow::error::ArrowError::ArithmeticOverflow(message)),
                        None,
                    )
                })
            }
            Self::None => only(evaluated(false)?),
        }
    }
}

fn only(mut arrays: Vec<ArrayRef>) -> Result<ArrayRef> {
    arrays.pop().ok_or_else(|| DataFusionError::Internal("an aggregate without a result".into()))
}

fn quotients(counts: &ArrayRef, sums: &ArrayRef) -> Result<ArrayRef> {
    let counts = cast(counts, &DataType::Float64)?;
    // A frame of a window that has left all rows behind has the sum 0 and no average.
    let counts = counts.as_primitive::<Float64Type>().iter().map(|count| count.filter(|count| *count > 0.0));
    let counts: Float64Array = counts.collect();
    if let Some(sums) = sums.as_primitive_opt::<Decimal128Type>() {
        let scale = sums.scale();
        let pairs = sums.iter().zip(&counts);
        // Without rows the sum is NULL.
        let quotients = pairs.map(|(sum, count)| Some(nearest_quotient((sum?, scale), (count? as i128, 0))));
        return Ok(Arc::new(quotients.collect::<Float64Array>()));
    }
    let double = Field::new("", DataType::Float64, true);
    let sums = cast_as_sql(sums, &double, false)?;
    Ok(div(&sums, &counts)?)
}

fn list_averages(lists: &ArrayRef) -> Result<Float64Array> {
    let averages = lists.as_list::<i32>().iter().map(|list| {
        let Some(list) = list.filter(|list| list.len() > list.null_count()) else { return Ok(None) };
        let count = (list.len() - list.null_count()) as f64;
        let total = match list.data_type() {
            // The sum is exact, so the order of the values does not matter.
            DataType::Decimal128(_, scale) => {
                let wide = DataType::Decimal256(DECIMAL256_MAX_PRECISION, *scale);
                let total = sum(cast(&list, &wide)?.as_primitive::<Decimal256Type>());
                let total = Decimal256Array::from(vec![total]).with_data_type(wide);
                cast(&total, &DataType::Float64)?.as_primitive::<Float64Type>().iter().next().flatten()
            }
            _ => sum(cast(&list, &DataType::Float64)?.as_primitive::<Float64Type>()),
        };
        Ok(total.map(|total| total / count))
    });
    averages.collect()
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Those of the wrapped function, and intervals and points in time for `avg`.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if matches!(types, [of] if *of == INTERVAL) {
            return Ok(types.to_vec());
        }
        if let ("avg", [of]) = (self.inner.name(), types)
            && let Some(of) = type_of_average(of)
        {
            return Ok(vec![of]);
        }
        let field = |of: &DataType| Arc::new(Field::new("", of.clone(), true));
        let fields: Vec<FieldRef> = types.iter().map(field).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(coerced.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, inputs: &[DataType]) -> Result<DataType> {
        if inputs[0] == INTERVAL && matches!(self.inner.name(), "avg" | "sum") {
            return Ok(INTERVAL);
        }
        if inputs[0].is_null() && self.inner.name() == "sum" {
            return Ok(DataType::Int64);
        }
        if let ("avg", Some(of)) = (self.inner.name(), type_of_average(&inputs[0])) {
            return Ok(of);
        }
        match self.adapter(&inputs[0]) {
            Adapter::Average => Ok(DataType::Float64),
            _ => self.inner.return_type(inputs),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(made) = self.of_own(&args) {
            return made;
        }
        if let Some(moments) = moments::accumulator(self.inner.name(), args.return_field.data_type())
            && !args.is_distinct
        {
            return Ok(moments);
        }
        self.wrap(args, |inner, args| inner.accumulator(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if let Some(made) = self.of_own(&args) {
            return made;
        }
        if args.is_distinct && self.inner.name() == "sum" {
            return DistinctSum::of(args.return_field.data_type());
        }
        match self.inner.name() {
            "bool_and" => return Ok(Box::new(Truths::all())),
            "bool_or" => return Ok(Box::new(Truths::any())),
            "bit_and" => return Ok(Box::new(CountedBits::of_all(args.return_field.data_type().clone()))),
            "bit_or" => return Ok(Box::new(CountedBits::of_any(args.return_field.data_type().clone()))),
            "bit_xor" if !args.is_distinct => {
                return Ok(Box::new(ExclusiveOr::new(args.return_field.data_type().clone())));
            }
            name => {
                let is_exact =
                    matches!(name, "sum" | "avg") && !args.expr_fields[0].data_type().is_floating();
                let gives = args.return_field.data_type();
                if !is_exact
                    && !args.is_distinct
                    && let Some(numbers) = sliding_numbers::accumulator(name, gives)
                {
                    return Ok(numbers);
                }
            }
        }
        self.wrap(args, |inner, args| inner.create_sliding_accumulator(args))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if let Some(aggregate) = self.time_aggregate(args.input_fields[0].data_type()) {
            return Ok(aggregate.state_fields(args.name));
        }
        if self.wide_scale(args.input_fields[0].data_type()).is_some() {
            return Ok(wide_sum::state_fields(args.name));
        }
        if of_moments(self.inner.name()).is_some() && !args.is_distinct {
            return Ok(moments::state_fields(args.name));
        }
        let adapter = self.adapter(args.input_fields[0].data_type());
        let inputs = adapter.inputs(args.input_fields);
        let return_field = adapter.return_field(&self.inner, &inputs, &args.return_field)?;
        self.inner.state_fields(StateFieldsArgs { input_fields: &inputs, return_field, ..args })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        let of = args.expr_fields[0].data_type();
        if self.time_aggregate(of).is_some() || self.wide_scale(of).is_some() {
            return false;
        }
        if of_moments(self.inner.name()).is_some() {
            return !args.is_distinct;
        }
        let supported = self.adapted(args, |inner, args| Ok(inner.groups_accumulator_supported(args)));
        supported.is_ok_and(|(_, supported)| supported)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if let Some(moments) = moments::groups(self.inner.name(), args.return_field.data_type())
            && !args.is_distinct
        {
            return Ok(moments);
        }
        Ok(match self.adapted(args, |inner, args| inner.create_groups_accumulator(args))? {
            (Adapter::None, inner) => inner,
            (adapter, inner) => Box::new(ExactGroupsAccumulator { adapter, inner }),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    /// Returns the result of no rows, which is also that of an empty frame.
    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match self.inner.name() {
            "regr_count" => ScalarValue::new_zero(data_type),
            _ => self.inner.default_value(data_type),
        }
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        argument: &Expr,
        operator: Operator,
        literal: &Expr,
        argument_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.inner().simplify_expr_op_literal(function, argument, operator, literal, argument_is_left)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[derive(Debug)]
struct ExactAccumulator {
    adapter: Adapter,
    inner: Box<dyn Accumulator>,
}

impl Accumulator for ExactAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.update_batch(&self.adapter.values(values)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.inner.retract_batch(&self.adapter.values(values)?)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Self { adapter, inner } = self;
        let result = adapter.results(|state| {
            let scalars = if state { inner.state()? } else { vec![inner.evaluate()?] };
            scalars.iter().map(ScalarValue::to_array).collect()
        })?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}

struct ExactGroupsAccumulator {
    adapter: Adapter,
    inner: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for ExactGroupsAccumulator {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.inner.update_batch(&self.adapter.values(values)?, group_indices, filter, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let Self { adapter, inner } = self;
        adapter.results(|state| if state { inner.state(emit_to) } else { Ok(vec![inner.evaluate(emit_to)?]) })
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], groups: usize) -> Result<()> {
        self.inner.merge_batch(values, group_indices, groups)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.inner.convert_to_state(&self.adapter.values(values)?, filter)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
