//! Functions of numbers outside of their domain, and results that no DOUBLE can hold. DataFusion's
//! give NaN and infinity for them; SQL's functions refuse them.

use crate::wrapped::as_within;
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::Arc;

/// What is wrong about arguments: its SQLSTATE and its name.
type Wrong = Option<(&'static str, &'static str)>;

/// Says what is wrong about arguments.
type Look = fn(&[f64]) -> Wrong;

const TOO_LARGE: (&str, &str) = ("22003", "the result is out of range of DOUBLE");
const OUT_OF_RANGE: (&str, &str) = ("22003", "the input is out of range");

/// The functions, with what is wrong about arguments that are numbers.
const FUNCTIONS: [(&str, Look); 14] = [
    ("acos", |of| beyond_one(of[0])),
    ("acosh", |of| (of[0] < 1.0).then_some(OUT_OF_RANGE)),
    ("asin", |of| beyond_one(of[0])),
    ("atanh", |of| (of[0].abs() >= 1.0).then_some(OUT_OF_RANGE)),
    ("cos", |of| infinite(of[0])),
    ("exp", |_| None),
    ("ln", |of| no_logarithm(of[0])),
    ("log", |of| match of {
        [base, of] => no_logarithm(*base)
            .or_else(|| no_logarithm(*of))
            .or_else(|| (*base == 1.0).then_some(("22012", "division by zero"))),
        of => no_logarithm(of[0]),
    }),
    ("log10", |of| no_logarithm(of[0])),
    ("log2", |of| no_logarithm(of[0])),
    ("power", |of| match of {
        [base, exponent] if *base == 0.0 && *exponent < 0.0 => {
            Some(("2201F", "zero to a negative power is undefined"))
        }
        [base, exponent] if *base < 0.0 && exponent.fract() != 0.0 => {
            Some(("2201F", "a negative number to a power that is no whole number is no real number"))
        }
        _ => None,
    }),
    ("sin", |of| infinite(of[0])),
    ("sqrt", |of| (of[0] < 0.0).then_some(("2201F", "a negative number has no square root"))),
    ("tan", |of| infinite(of[0])),
];

fn infinite(of: f64) -> Wrong {
    of.is_infinite().then_some(OUT_OF_RANGE)
}

fn beyond_one(of: f64) -> Wrong {
    (of.abs() > 1.0).then_some(OUT_OF_RANGE)
}

fn no_logarithm(of: f64) -> Wrong {
    match of {
        0.0 => Some(("2201E", "zero has no logarithm")),
        of if of < 0.0 => Some(("2201E", "a negative number has no logarithm")),
        _ => None,
    }
}

pub(super) fn register(context: &SessionContext) {
    for (name, _) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::from(WithinDomain { inner }));
        }
    }
}

/// One of [`FUNCTIONS`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct WithinDomain {
    inner: Arc<ScalarUDF>,
}

impl WithinDomain {
    /// Checks the arguments of results that are not finite.
    fn check(&self, arguments: &[ArrayRef], result: &ArrayRef) -> Result<()> {
        if !result.data_type().is_floating() {
            return Ok(());
        }
        let result = cast(result, &DataType::Float64)?;
        let result = result.as_primitive::<Float64Type>();
        // The logarithm to the base of zero would be zero.
        let is_sound = |value: f64| value.is_finite() && (value != 0.0 || arguments.len() == 1);
        if result.values().iter().all(|value| is_sound(*value)) {
            return Ok(());
        }
        let arguments = arguments.iter().map(|values| cast(values, &DataType::Float64));
        let arguments = arguments.collect::<std::result::Result<Vec<_>, _>>()?;
        for row in (0..result.len()).filter(|row| result.is_valid(*row) && !is_sound(result.value(*row))) {
            let given: Vec<f64> =
                arguments.iter().map(|values| values.as_primitive::<Float64Type>().value(row)).collect();
            if given.iter().any(|value| value.is_nan()) {
                continue;
            }
            if let Some(wrong) = self.wrong(&given, result.value(row)) {
                return Err(self.refused(&given, wrong));
            }
        }
        Ok(())
    }

    fn wrong(&self, given: &[f64], result: f64) -> Wrong {
        let (_, wrong) = FUNCTIONS.iter().find(|(name, _)| *name == self.inner.name())?;
        let is_too_large = given.iter().all(|value| value.is_finite()) && !result.is_finite();
        wrong(given).or_else(|| is_too_large.then_some(TOO_LARGE))
    }

    fn refused(&self, given: &[f64], (sqlstate, why): (&'static str, &str)) -> DataFusionError {
        let given: Vec<String> = given.iter().map(|value| format!("{value:?}")).collect();
        let message = format!("{}({}): {why}", self.inner.name(), given.join(", "));
        external(Error::invalid_input(message).with_sqlstate(sqlstate))
    }
}

impl ScalarUDFImpl for WithinDomain {
    as_within!(name, aliases, signature, coerce_types, return_type, return_field_from_args);

    // What DataFusion puts in its place would not be checked.
    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Original(args))
    }

    fn output_ordering(&self, input: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(input)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let given = args.args.clone();
        let result = self.inner.invoke_with_args(args).map_err(|error| self.told(&given, error))?;
        let arrays = given.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        if arrays.iter().all(|values| !values.data_type().is_nested()) {
            self.check(&arrays, &result.to_array(rows)?)?;
        }
        Ok(result)
    }
}

impl WithinDomain {
    /// Returns DataFusion's own error with its SQLSTATE, if a constant is what is wrong.
    fn told(&self, given: &[ColumnarValue], error: DataFusionError) -> DataFusionError {
        let numbers = given.iter().map(|value| match value {
            ColumnarValue::Scalar(value) => value.to_array().ok(),
            ColumnarValue::Array(values) => Some(values.clone()),
        });
        let Some(numbers) = numbers.collect::<Option<Vec<_>>>() else { return error };
        let doubles: Option<Vec<ArrayRef>> =
            numbers.iter().map(|values| cast(values, &DataType::Float64).ok()).collect();
        let Some(doubles) = doubles else { return error };
        let rows = doubles.iter().map(|values| values.len()).max().unwrap_or(0);
        for row in 0..rows {
            let at = |values: &ArrayRef| {
                let row = if values.len() == 1 { 0 } else { row };
                values.is_valid(row).then(|| values.as_primitive::<Float64Type>().value(row))
            };
            let Some(given) = doubles.iter().map(at).collect::<Option<Vec<f64>>>() else { continue };
            let wrong = FUNCTIONS.iter().find(|(name, _)| *name == self.inner.name());
            if let Some(wrong) = wrong.and_then(|(_, wrong)| wrong(&given)) {
                return self.refused(&given, wrong);
            }
        }
        error
    }
}
