//! `greatest` and `least` of intervals, lists, structures and JSON, by the keys that these are ordered
//! by, and `nullif` of such that may be equal and not the same.

use crate::portable::{Decoder, Functions, Portable};
use crate::value_keys::{key_of, key_of_equals};
use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::{SortOptions, interleave};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    when,
};
use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

/// Takes the functions of this module for DataFusion's where these compare other values than they
/// should.
pub fn by_keys(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    let order = match (func.name(), args.as_slice()) {
        ("greatest", _) => Ordering::Greater,
        ("least", _) => Ordering::Less,
        ("nullif", [one, other]) if are_of_one_type(one, other, schema) => {
            let (Some(key), Some(sought)) = (key_of_equals(one, schema), key_of_equals(other, schema)) else {
                return Ok(Transformed::no(expression));
            };
            let chosen = when(key.eq(sought).is_not_true(), one.clone()).end()?;
            return Ok(Transformed::yes(chosen));
        }
        _ => return Ok(Transformed::no(expression)),
    };
    let keys: Option<Vec<Expr>> = args.iter().map(|arg| key_of(arg, schema)).collect();
    let Some(keys) = keys else { return Ok(Transformed::no(expression)) };
    static EXTREMES: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
        [Ordering::Less, Ordering::Greater].map(|order| Arc::new(ScalarUDF::from(Extreme::new(order))))
    });
    let function = EXTREMES[usize::from(order == Ordering::Greater)].clone();
    let args = args.iter().cloned().chain(keys).collect();
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

fn are_of_one_type(one: &Expr, other: &Expr, schema: &DFSchema) -> bool {
    matches!((one.get_type(schema), other.get_type(schema)), (Ok(one), Ok(other)) if one == other)
}

/// The first of some values whose key is the least or the greatest; the keys follow the values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Extreme {
    order: Ordering,
    signature: Signature,
}

impl Extreme {
    fn new(order: Ordering) -> Self {
        Self { order, signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl Portable for Extreme {
    type Function = ScalarUDF;

    const TAG: &'static str = "extreme";

    /// Whether the greatest is chosen.
    type Parameters = bool;

    fn parameters(&self, _: &Functions) -> Result<bool> {
        Ok(self.order == Ordering::Greater)
    }

    fn from_parameters(is_greatest: bool, _: &Decoder<'_>) -> Result<Self> {
        Ok(Self::new(if is_greatest { Ordering::Greater } else { Ordering::Less }))
    }
}

impl ScalarUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.order == Ordering::Greater { "greatest_by_key" } else { "least_by_key" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| internal_datafusion_err!("{}() of nothing", self.name()))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (values, keys) = arrays.split_at(arrays.len() / 2);
        let compare = |one: &ArrayRef, other: &ArrayRef| make_comparator(one, other, SortOptions::default());
        let comparators = keys.iter().map(|one| keys.iter().map(|other| compare(one, other)).collect());
        let comparators: Vec<Vec<_>> = comparators.collect::<std::result::Result<_, _>>()?;
        let rows = keys.first().map_or(0, |key| key.len());
        let chosen: Vec<(usize, usize)> = (0..rows)
            .map(|row| {
                let some = (0..keys.len()).filter(|place| keys[*place].is_valid(row));
                let best = some.reduce(|best, place| match comparators[place][best](row, row) {
                    order if order == self.order => place,
                    _ => best,
                });
                (best.unwrap_or(0), row)
            })
            .collect();
        let values: Vec<&dyn Array> = values.iter().map(|values| values.as_ref()).collect();
        Ok(ColumnarValue::Array(interleave(&values, &chosen)?))
    }
}
