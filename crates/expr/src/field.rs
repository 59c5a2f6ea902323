//! Fields of structures and values of maps. DataFusion returns the value under a NULL structure. It
//! compares the keys of a map only with values of their own type, and keys that are lists with the
//! wrong ones.

use crate::portable::{Decoder, Encoded, Functions, Portable};
use crate::value_keys::{comparable, has_equals};
use crate::wrapped::as_within;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, MapArray, UInt64Array, make_comparator, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{SortOptions, nullif, take};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::{greatest, least};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    StructFieldMapping, lit, when,
};
use std::sync::Arc;

/// Takes this function for DataFusion's.
pub fn of_structures(expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(wrapped(expression))
}

/// Steps of a slice as they fit in all lists: none has more elements.
pub fn steps_within(mut expression: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(call) = &mut expression else { return Ok(Transformed::no(expression)) };
    let (true, [_, _, _, step]) = (call.func.name() == "array_slice", call.args.as_mut_slice()) else {
        return Ok(Transformed::no(expression));
    };
    if matches!(step, Expr::Literal(ScalarValue::Int64(Some(step)), _) if i32::try_from(*step).is_ok()) {
        return Ok(Transformed::no(expression));
    }
    let (least_step, greatest_step) = (lit(i64::from(-i32::MAX)), lit(i64::from(i32::MAX)));
    let is_some = step.clone().is_not_null();
    let within = least(vec![greatest(vec![std::mem::take(step), least_step]), greatest_step]);
    *step = when(is_some, within).end()?;
    Ok(Transformed::yes(expression))
}

fn wrapped(expression: Expr) -> Transformed<Expr> {
    match expression {
        Expr::ScalarFunction(mut call) if call.func.name() == "get_field" && !is_own(&call) => {
            let function = FieldOf { inner: call.func.clone() };
            call.func = Arc::new(ScalarUDF::from(function));
            Transformed::yes(Expr::ScalarFunction(call))
        }
        other => Transformed::no(other),
    }
}

fn is_own(call: &ScalarFunction) -> bool {
    call.func.inner().downcast_ref::<FieldOf>().is_some()
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldOf {
    inner: Arc<ScalarUDF>,
}

impl Portable for FieldOf {
    type Function = ScalarUDF;

    const TAG: &'static str = "field";

    /// The function within.
    type Parameters = Encoded;

    fn parameters(&self, functions: &Functions) -> Result<Encoded> {
        functions.describe(self.inner.as_ref())
    }

    fn from_parameters(inner: Encoded, decoder: &Decoder<'_>) -> Result<Self> {
        Ok(Self { inner: decoder.function(inner)? })
    }
}

impl ScalarUDFImpl for FieldOf {
    as_within!(name, schema_name, signature, coerce_types, return_type, return_field_from_args);

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.inner.inner().simplify(args, context)? {
            ExprSimplifyResult::Simplified(expr) => {
                ExprSimplifyResult::Simplified(expr.transform_up(|expr| Ok(wrapped(expr)))?.data)
            }
            original => original,
        })
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.inner().struct_field_mapping(literals)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.inner().placement(args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut parts = args.args.into_iter();
        let base = parts.next().ok_or_else(|| exec_datafusion_err!("a field is of a value"))?;
        if base.data_type().is_null() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        let is_scalar = matches!(base, ColumnarValue::Scalar(_));
        let mut values = base.into_array(args.number_rows.max(1))?;
        for name in parts {
            let ColumnarValue::Scalar(name) = name else {
                return exec_err!("the name of a field, or the key of a map, is a constant");
            };
            values = part_of(&values, &name)?;
        }
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

fn part_of(values: &ArrayRef, name: &ScalarValue) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Struct(_) => field_of(values, name),
        DataType::Map(..) => value_of(values.as_map(), name),
        DataType::Dictionary(_, of) if of.is_nested() => {
            let dictionary = values.as_any_dictionary();
            Ok(dictionary.with_values(part_of(dictionary.values(), name)?))
        }
        DataType::Null => Ok(values.clone()),
        other => exec_err!("{} has no fields", hypostyle_error::type_name::type_name(other)),
    }
}

fn field_of(values: &ArrayRef, name: &ScalarValue) -> Result<ArrayRef> {
    let values = values.as_struct();
    let name = name.try_as_str().flatten().unwrap_or_default();
    let field = values
        .column_by_name(name)
        .ok_or_else(|| exec_datafusion_err!("the structure has no field \"{name}\""))?;
    without_hidden(field, values.nulls())
}

/// Returns values of which some lie under a NULL.
fn without_hidden(values: &ArrayRef, above: Option<&NullBuffer>) -> Result<ArrayRef> {
    match above.filter(|above| above.null_count() > 0 && !values.data_type().is_null()) {
        None => Ok(values.clone()),
        Some(above) => Ok(nullif(values, &BooleanArray::new(!above.inner(), None))?),
    }
}

/// Returns the values that a key has in each map.
fn value_of(maps: &MapArray, key: &ScalarValue) -> Result<ArrayRef> {
    let keys = maps.keys();
    let nothing = || Ok(new_null_array(maps.values().data_type(), maps.len()));
    let Ok(key) = key.cast_to(keys.data_type()) else { return nothing() };
    if key.is_null() {
        return nothing();
    }
    let (keys, key) = match has_equals(keys.data_type()) {
        true => (comparable(keys)?, comparable(&key.to_array()?)?),
        false => (keys.clone(), key.to_array()?),
    };
    let compare = make_comparator(keys.as_ref(), key.as_ref(), SortOptions::default())?;
    let offsets = maps.value_offsets();
    let found = (0..maps.len()).map(|row| {
        let mut entries = offsets[row] as usize..offsets[row + 1] as usize;
        if maps.is_null(row) { None } else { entries.find(|entry| compare(*entry, 0).is_eq()) }
    });
    let found: UInt64Array = found.map(|entry| entry.map(|entry| entry as u64)).collect();
    Ok(take(maps.values(), &found, None)?)
}
