//! `x = ANY (list)` (ISO/IEC 9075-2, 8.9). The result is NULL if x is none of the elements, and one
//! of them or x is NULL. DataFusion reads it as `array_has`, which is then false.

use crate::common_type::digits;
use crate::value_keys::has_other_equals;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_sql::operators::ANY_EQUAL as NAME;
use std::sync::Arc;

pub(crate) fn register(context: &SessionContext) {
    if let Ok(inner) = context.udf("array_has") {
        let signature = Signature::user_defined(Volatility::Immutable);
        context.register_udf(ScalarUDF::from(AnyEqual { inner, signature }));
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct AnyEqual {
    /// `array_has`.
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

fn is_bytes(of: &DataType) -> bool {
    matches!(of, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Returns the DECIMAL that has all digits of two numbers, of which one is a DECIMAL of 256 bits: `array_has`
/// finds no common type of those.
fn wide_decimal(one: &DataType, other: &DataType) -> Option<DataType> {
    let is_wide = |of: &DataType| matches!(of, DataType::Decimal256(..));
    if one == other || !is_wide(one) && !is_wide(other) {
        return None;
    }
    let digits = |of: &DataType| match of {
        DataType::Decimal256(precision, scale) => Some((*precision as i8 - scale, *scale)),
        narrow => digits(narrow),
    };
    let (one, other) = (digits(one)?, digits(other)?);
    let (whole, scale) = (one.0.max(other.0), one.1.max(other.1));
    let precision = u8::try_from(i32::from(whole) + i32::from(scale)).ok()?;
    (precision <= DECIMAL256_MAX_PRECISION).then_some(DataType::Decimal256(precision, scale))
}

impl ScalarUDFImpl for AnyEqual {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // These are bytes of several types, for which `array_has` finds no common type.
        if let [
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _),
            of,
        ] = types
            && is_bytes(element.data_type())
            && is_bytes(of)
        {
            let element = element.as_ref().clone().with_data_type(DataType::LargeBinary);
            return Ok(vec![DataType::LargeList(Arc::new(element)), DataType::LargeBinary]);
        }
        if let [
            DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _),
            of,
        ] = types
            && let Some(common) = wide_decimal(element.data_type(), of)
        {
            let element = element.as_ref().clone().with_data_type(common.clone());
            return Ok(vec![DataType::LargeList(Arc::new(element)), common]);
        }
        // Texts beside a BOOLEAN are BOOLEANs.
        if let [DataType::List(element) | DataType::LargeList(element), DataType::Boolean] = types
            && element.data_type().is_string()
        {
            return Ok(vec![DataType::new_large_list(DataType::Boolean, true), DataType::Boolean]);
        }
        // A text as it is written is one of the elements.
        if let [list @ (DataType::List(element) | DataType::LargeList(element)), DataType::Utf8] = types
            && !element.data_type().is_string()
            && !element.data_type().is_decimal()
            && !element.data_type().is_null()
        {
            return Ok(vec![list.clone(), element.data_type().clone()]);
        }
        // A text is read as a list, and so is a parameter without a value.
        if let [list, of] = types
            && (list.is_string() || list.is_null())
        {
            return Ok(vec![DataType::new_large_list(of.clone(), true), of.clone()]);
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|of| Arc::new(Field::new("", of.clone(), true))).collect();
        let fields = fields_with_udf(&fields, self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = self.inner.return_field_from_args(args)?;
        Ok(Arc::new(field.as_ref().clone().with_name(NAME).with_nullable(true)))
    }

    /// Turns a list of literals into one for IN, which scans can use.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let elements = match args.as_slice() {
            [Expr::Literal(list, _), sought] => {
                let elements = elements_of(list);
                let of = sought.get_type(info.schema().as_ref())?;
                // IN would look for what is the same.
                elements.filter(|elements| {
                    !elements.is_empty() && *elements.data_type() == of && !has_other_equals(&of)
                })
            }
            _ => None,
        };
        let (Some(elements), [_, sought]) = (elements, args.as_slice()) else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let list = (0..elements.len())
            .map(|row| ScalarValue::try_from_array(&elements, row).map(|value| Expr::Literal(value, None)));
        let list = list.collect::<Result<Vec<_>>>()?;
        Ok(ExprSimplifyResult::Simplified(Expr::InList(InList::new(Box::new(sought.clone()), list, false))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let found = self.inner.invoke_with_args(args)?.into_array(rows)?;
        let found = found.as_boolean();
        let [lists, sought] = arrays.as_slice() else {
            return Ok(ColumnarValue::Array(Arc::new(found.clone())));
        };
        let unknown = sought.logical_nulls();
        let is_known = |row| unknown.as_ref().is_none_or(|unknown| unknown.is_valid(row));
        let answer = |row| {
            let elements = element_range(lists, row)?;
            match found.is_valid(row) && found.value(row) {
                true => Some(true),
                false if elements.is_empty() => Some(false),
                false => (is_known(row) && elements.logical_null_count() == 0).then_some(false),
            }
        };
        let answers: BooleanArray = (0..rows).map(answer).collect();
        Ok(ColumnarValue::Array(Arc::new(answers)))
    }
}

/// Returns the elements of one list; `None` where it is NULL.
fn element_range(lists: &ArrayRef, row: usize) -> Option<ArrayRef> {
    if lists.is_null(row) {
        return None;
    }
    match lists.data_type() {
        DataType::List(_) => Some(lists.as_list::<i32>().value(row)),
        DataType::LargeList(_) => Some(lists.as_list::<i64>().value(row)),
        DataType::FixedSizeList(..) => Some(lists.as_fixed_size_list().value(row)),
        _ => None,
    }
}

fn elements_of(list: &ScalarValue) -> Option<ArrayRef> {
    element_range(&list.to_array().ok()?, 0)
}
