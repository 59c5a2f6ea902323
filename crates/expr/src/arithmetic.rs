//! Arithmetic that is exact or fails.
//!
//! DataFusion's `+`, `-` and `*` wrap around on integers and exceed a decimal's digits silently,
//! and its quotient of decimals is truncated after four more digits. Functions replace the
//! operators, under the operators' names, so that nothing else in a plan changes. `/` of decimals
//! becomes the DOUBLE nearest to the quotient, as in DuckDB, and operators that may overflow become
//! checked.

use crate::cast::{cast as cast_as_sql, cast_scalar, nearest_double};
use crate::impl_portable;
use crate::portable::{Decoder, Functions, Portable, malformed};
use crate::rounding::truncated;
use arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, Float64Array};
use arrow::compute::cast;
use arrow::compute::kernels::numeric::{add, div, mul, neg, rem, sub};
use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field,
    FieldRef, Float32Type, Float64Type,
};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr_common::datum::apply;
use hypostyle_error::type_name::type_name;
use std::sync::{Arc, LazyLock};

/// The quotient of decimals.
const QUOTIENT: (Operator, &str) = (Operator::Divide, "divide");

/// Sums, differences and products that may overflow, integers whose bits are shifted, and those of
/// which DataFusion takes `a # a` for 0 where a is NULL; and remainders of DECIMALs, of which it
/// takes `a % 1` for 0.
const CHECKED: [(Operator, &str); 7] = [
    (Operator::Plus, "checked_add"),
    (Operator::Minus, "checked_subtract"),
    (Operator::Multiply, "checked_multiply"),
    (Operator::BitwiseShiftLeft, "checked_shift_left"),
    (Operator::BitwiseShiftRight, "checked_shift_right"),
    (Operator::BitwiseXor, "bitwise_xor"),
    (Operator::Modulo, "remainder"),
];

fn function((operator, name): (Operator, &'static str)) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Arithmetic::new(operator, name)))
}

fn call(function: &Arc<ScalarUDF>, left: Expr, right: Expr) -> Transformed<Expr> {
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function.clone(), vec![left, right])))
}

/// Returns a quotient as it is before the types are coerced.
pub fn divided(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| function(QUOTIENT));
    Ok(match expression {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Divide, right })
            if exact_quotient(&left, &right, schema) =>
        {
            call(&FUNCTION, *left, *right)
        }
        Expr::BinaryExpr(binary)
            if binary.op == Operator::Divide && is_of_signs(&binary.left, &binary.right, schema) =>
        {
            Transformed::yes(truncated(Expr::BinaryExpr(binary)))
        }
        other => Transformed::no(other),
    })
}

/// Says whether a quotient is one of a UBIGINT and an integer that may be negative. These become DECIMALs,
/// whose quotient has places, other than that of integers.
fn is_of_signs(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (type_of(left, schema), type_of(right, schema)) {
        (Ok(DataType::UInt64), Ok(other)) | (Ok(other), Ok(DataType::UInt64)) => other.is_signed_integer(),
        _ => false,
    }
}

/// Says whether a quotient is one of a decimal and a decimal or an integer.
fn exact_quotient(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    match (type_of(left, schema), type_of(right, schema)) {
        (Ok(left), Ok(right)) => {
            (left.is_decimal() || right.is_decimal()) && is_exact(&left) && is_exact(&right)
        }
        _ => false,
    }
}

/// Returns the operator and the operands of a function of ours.
pub fn operands(expr: &Expr) -> Option<(Operator, &[Expr; 2])> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = expr else { return None };
    let arithmetic = func.inner().downcast_ref::<Arithmetic>()?;
    Some((arithmetic.operator, args.as_slice().try_into().ok()?))
}

/// Returns the operator that a function of ours stands for.
pub fn operator_of(function: &ScalarUDF) -> Option<Operator> {
    function.inner().downcast_ref::<Arithmetic>().map(|arithmetic| arithmetic.operator)
}

/// Returns the type of an operand. That of a function is found by DataFusion with the names of all
/// that is within it, which takes time that grows with the cube of a chain of operators.
pub fn type_of(expr: &Expr, schema: &DFSchema) -> Result<DataType> {
    let mut operators = Vec::new();
    let mut first = expr;
    while let Some((operator, [left, right])) = operands(first) {
        operators.push((operator, right));
        first = left;
    }
    let mut found = first.get_type(schema)?;
    for (operator, right) in operators.into_iter().rev() {
        found = match operator {
            Operator::Divide => DataType::Float64,
            _ => coerced_type(operator, &found, &type_of(right, schema)?)?,
        };
    }
    Ok(found)
}

/// Returns what may overflow, of operands that have been coerced.
pub fn checked(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expression else {
        return Ok(Transformed::no(expression));
    };
    static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; CHECKED.len()]> = LazyLock::new(|| CHECKED.map(function));
    let Some(place) = CHECKED.iter().position(|(checked, _)| *checked == op) else {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
    };
    // Planning refuses an expression whose type cannot be determined.
    let result = match (type_of(&left, schema), type_of(&right, schema)) {
        (Ok(left), Ok(right)) if is_exact(&left) && is_exact(&right) => coerced_type(op, &left, &right).ok(),
        _ => None,
    };
    let is_own = result.is_some_and(|result| match result {
        other if op == Operator::Modulo => other.is_decimal(),
        _ if op == Operator::Multiply && (may_be_zero(&left) || may_be_zero(&right)) => true,
        DataType::Decimal128(precision, _) => precision == DECIMAL128_MAX_PRECISION,
        DataType::Decimal256(precision, _) => precision == DECIMAL256_MAX_PRECISION,
        other => other.is_integer(),
    });
    Ok(match is_own {
        true => call(&FUNCTIONS[place], *left, *right),
        false => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
    })
}

/// Says whether a factor is zero as it is written, or may become so. DataFusion takes `a * 0` for that
/// zero, which has not the places of the product.
fn may_be_zero(factor: &Expr) -> bool {
    match factor {
        Expr::Literal(value, _) => ScalarValue::new_zero(&value.data_type()).is_ok_and(|zero| zero == *value),
        Expr::Cast(cast) => may_be_zero(&cast.expr),
        Expr::Placeholder(_) => true,
        _ => false,
    }
}

/// Returns the negative of an integer, which the least one does not have, and of a floating-point
/// number: that of NaN is NaN, which is greater than all numbers, and not one that is less.
pub fn negated(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    static NEGATED: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Negated::default())));
    let Expr::Negative(of) = expression else { return Ok(Transformed::no(expression)) };
    let is_own = type_of(&of, schema).is_ok_and(|of| of.is_signed_integer() || of.is_floating());
    Ok(match is_own {
        true => Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(NEGATED.clone(), vec![*of]))),
        false => Transformed::no(Expr::Negative(of)),
    })
}

/// [`negated`].
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Negated {
    signature: Signature,
}

impl Default for Negated {
    fn default() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl_portable!(Negated, "negated");

impl ScalarUDFImpl for Negated {
    fn name(&self) -> &str {
        "checked_negative"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let of = args.first().map(|of| of.schema_name().to_string());
        Ok(format!("(- {})", of.unwrap_or_default()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        types.first().cloned().ok_or_else(|| plan_datafusion_err!("a negative is of one number"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields.first();
        let field = field.ok_or_else(|| plan_datafusion_err!("a negative is of one number"))?;
        Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), field.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(of) = args.args.first() else {
            return Err(plan_datafusion_err!("a negative is of one number"));
        };
        let is_scalar = matches!(of, ColumnarValue::Scalar(_));
        let values = of.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let values: ArrayRef = match values.data_type() {
            DataType::Float64 => {
                let negative = |value: f64| if value.is_nan() { f64::NAN } else { -value };
                Arc::new(values.as_primitive::<Float64Type>().unary::<_, Float64Type>(negative))
            }
            DataType::Float32 => {
                let negative = |value: f32| if value.is_nan() { f32::NAN } else { -value };
                Arc::new(values.as_primitive::<Float32Type>().unary::<_, Float32Type>(negative))
            }
            _ => neg(&values)?,
        };
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

/// Bits that are shifted by a number of places, or those that two numbers do not share. A left
/// shift that loses some is out of range; nobody shifts by a number below 0.
fn of_bits(operator: Operator, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
    const WIDE: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
    let ((left, is_left_scalar), (right, is_right_scalar)) = (left.get(), right.get());
    let rows = if is_left_scalar { right.len() } else { left.len() };
    let of = left.data_type();
    let bits = i128::try_from(of.primitive_width().unwrap_or_default() * 8).unwrap_or_default();
    let (left, right) = (cast(left, &WIDE)?, cast(right, &WIDE)?);
    let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
    let at = |values: &Decimal128Array, row: usize, is_scalar: bool| {
        let row = if is_scalar { 0 } else { row };
        values.is_valid(row).then(|| values.value(row))
    };
    let places = (0..rows).map(|row| {
        let (Some(value), Some(by)) = (at(left, row, is_left_scalar), at(right, row, is_right_scalar)) else {
            return Ok(None);
        };
        if operator == Operator::BitwiseXor {
            return Ok(Some(value ^ by));
        }
        let refused = |why: &str| ArrowError::ArithmeticOverflow(format!("{value} {operator} {by} {why}"));
        if by < 0 {
            return Err(refused("is not defined: bits are shifted by 0 places or more"));
        }
        let by = by.min(bits);
        let shifted = if operator == Operator::BitwiseShiftLeft { value << by } else { value >> by };
        let (least, greatest) = match of.is_unsigned_integer() {
            true => (0, (1 << bits) - 1),
            false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        };
        match (least..=greatest).contains(&shifted) {
            true => Ok(Some(shifted)),
            false => Err(refused(&format!("is out of range of {}", type_name(of)))),
        }
    });
    let places: Decimal128Array = places.collect::<Result<_, ArrowError>>()?;
    cast(&places.with_data_type(WIDE), of)
}

/// Returns the type of `left operator right` for operands that have been coerced.
fn coerced_type(operator: Operator, left: &DataType, right: &DataType) -> Result<DataType> {
    BinaryTypeCoercer::new(left, &operator, right).get_result_type()
}

/// Says whether numbers are integers or decimals, of which results are exact.
fn is_exact(of: &DataType) -> bool {
    of.is_decimal() || of.is_integer()
}

/// Returns the type of `left operator right` for numbers as they are written.
pub fn result_type(operator: Operator, left: &DataType, right: &DataType) -> Result<DataType> {
    let is_quotient = operator == Operator::Divide && (left.is_decimal() || right.is_decimal());
    match is_quotient && is_exact(left) && is_exact(right) {
        true => Ok(DataType::Float64),
        false => coerced_type(operator, left, right),
    }
}

/// Returns `left operator right` of numbers as they are written.
///
/// # Errors
/// What is out of the result's range; a division by zero.
pub fn computed(operator: Operator, left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let types = [left.data_type(), right.data_type()];
    let is_quotient = operator == Operator::Divide && types.iter().any(DataType::is_decimal);
    if is_quotient && types.iter().all(is_exact) {
        return quotient(left, right);
    }
    let (of_left, of_right) = BinaryTypeCoercer::new(&types[0], &operator, &types[1]).get_input_types()?;
    let cast = |value: &ColumnarValue, of: &DataType, wanted: &DataType| match of == wanted {
        true => Ok(value.clone()),
        false => value.cast_to(wanted, None),
    };
    let (left, right) = (cast(left, &types[0], &of_left)?, cast(right, &types[1], &of_right)?);
    let result = match operator {
        Operator::Plus => apply(&left, &right, add),
        Operator::Minus => apply(&left, &right, sub),
        Operator::Multiply => apply(&left, &right, mul),
        Operator::Divide => apply(&left, &right, div),
        Operator::Modulo => apply(&left, &right, rem),
        other => return Err(plan_datafusion_err!("{other} is no operator of numbers")),
    }?;
    check_digits(&result)?;
    Ok(result)
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    operator: Operator,
    name: &'static str,
    signature: Signature,
}

impl Arithmetic {
    fn new(operator: Operator, name: &'static str) -> Self {
        Self { operator, name, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl Portable for Arithmetic {
    type Function = ScalarUDF;

    const TAG: &'static str = "arithmetic";

    /// The name, which tells the operator.
    type Parameters = String;

    fn parameters(&self, _: &Functions) -> Result<String> {
        Ok(self.name.to_string())
    }

    fn from_parameters(name: String, _: &Decoder<'_>) -> Result<Self> {
        let mut known = std::iter::once(QUOTIENT).chain(CHECKED);
        let found = known.find(|(_, known)| *known == name);
        let (operator, name) = found.ok_or_else(|| malformed(format!("there is no operator {name:?}")))?;
        Ok(Self::new(operator, name))
    }
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return Err(plan_datafusion_err!("{} takes two arguments", self.name));
        };
        // A chain of operators has one name, which is not composed of the names of its parts.
        let (mut first, mut rest) = (left, vec![(self.operator, right)]);
        while let Some((operator, [left, right])) = operands(first) {
            rest.push((operator, right));
            first = left;
        }
        let mut name = first.schema_name().to_string();
        for (operator, operand) in rest.iter().rev() {
            name += &format!(" {operator} {}", operand.schema_name());
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, _] if self.operator == Operator::Divide => Ok(DataType::Float64),
            [left, right] => coerced_type(self.operator, left, right),
            _ => Err(plan_datafusion_err!("{} takes two arguments", self.name)),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    /// Is NULL beside a NULL constant, whatever the other operand is.
    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if !args.iter().any(|arg| matches!(arg, Expr::Literal(value, _) if value.is_null())) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let types = args.iter().map(|arg| context.get_data_type(arg)).collect::<Result<Vec<_>>>()?;
        let null = ScalarValue::try_new_null(&self.return_type(&types)?)?;
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(null, None)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return Err(plan_datafusion_err!("{} takes two arguments", self.name));
        };
        let result = match self.operator {
            Operator::Plus => apply(left, right, add),
            Operator::Minus => apply(left, right, sub),
            Operator::Multiply => apply(left, right, mul),
            Operator::Modulo => apply(left, right, rem),
            operator @ (Operator::BitwiseShiftLeft | Operator::BitwiseShiftRight | Operator::BitwiseXor) => {
                apply(left, right, |left, right| of_bits(operator, left, right))
            }
            _ => quotient(left, right),
        }?;
        check_digits(&result)?;
        Ok(result)
    }
}

/// The DOUBLEs nearest to the quotients of decimals and integers.
fn quotient(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    if left.data_type().is_null() || right.data_type().is_null() {
        return quotient_of_doubles(left, right);
    }
    match (digits(left)?, digits(right)?) {
        (Some(left), Some(right)) => apply(&left, &right, |left, right| {
            let ((left, is_left_scalar), (right, is_right_scalar)) = (left.get(), right.get());
            let (left, right) = (left.as_primitive(), right.as_primitive());
            quotients(left, is_left_scalar, right, is_right_scalar)
        }),
        _ => quotient_of_doubles(left, right),
    }
}

/// Decimals of 128 bits; `None` for wider ones.
fn digits(value: &ColumnarValue) -> Result<Option<ColumnarValue>> {
    let of = value.data_type();
    match of {
        DataType::Decimal128(..) => Ok(Some(value.clone())),
        DataType::Decimal256(..) => Ok(None),
        _ if of.is_decimal() => Ok(None),
        _ => value.cast_to(&DataType::Decimal128(20, 0), None).map(Some),
    }
}

fn quotients(
    left: &Decimal128Array,
    is_left_scalar: bool,
    right: &Decimal128Array,
    is_right_scalar: bool,
) -> Result<ArrayRef, ArrowError> {
    let rows = if is_left_scalar { right.len() } else { left.len() };
    let at = |values: &Decimal128Array, row: usize, is_scalar: bool| {
        let row = if is_scalar { 0 } else { row };
        values.is_valid(row).then(|| values.value(row))
    };
    let (of_left, of_right) = (left.scale(), right.scale());
    let quotients = (0..rows).map(|row| {
        let (Some(left), Some(right)) = (at(left, row, is_left_scalar), at(right, row, is_right_scalar))
        else {
            return Ok(None);
        };
        match right {
            0 => Err(ArrowError::DivideByZero),
            _ => Ok(Some(nearest_quotient((left, of_left), (right, of_right)))),
        }
    });
    Ok(Arc::new(quotients.collect::<Result<Float64Array, ArrowError>>()?))
}

/// The DOUBLE nearest to a quotient of decimals, each with its scale, if both have few digits: then
/// it is rounded once.
pub fn nearest_quotient(left: (i128, i8), right: (i128, i8)) -> f64 {
    const EXACT_MAX: u128 = 1 << 53;
    let scale = left.1.max(right.1);
    let whole = |(value, own): (i128, i8)| {
        let power = 10_i128.checked_pow(u32::try_from(i32::from(scale) - i32::from(own)).ok()?)?;
        value.checked_mul(power).filter(|value| value.unsigned_abs() <= EXACT_MAX)
    };
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left as f64 / right as f64,
        _ => nearest_double(left.0, left.1) / nearest_double(right.0, right.1),
    }
}

fn quotient_of_doubles(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let double = |value: &ColumnarValue| -> Result<ColumnarValue> {
        let field = Field::new("", DataType::Float64, true);
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(cast_as_sql(values, &field, false)?),
            ColumnarValue::Scalar(value) => ColumnarValue::Scalar(cast_scalar(value, &field)?),
        })
    };
    apply(&double(left)?, &double(right)?, |left, right| {
        let divisors = right.get().0.as_primitive::<Float64Type>();
        // NULL is no division by zero, and the value under it may be 0.
        if divisors.iter().flatten().any(|divisor| divisor == 0.0) {
            return Err(ArrowError::DivideByZero);
        }
        div(left, right)
    })
}

/// Refuses decimals with more digits than their type has.
fn check_digits(value: &ColumnarValue) -> Result<()> {
    let array = match value {
        ColumnarValue::Array(array) => array.clone(),
        ColumnarValue::Scalar(scalar) => scalar.to_array()?,
    };
    let checked = match array.data_type() {
        DataType::Decimal128(precision, _) => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)
        }
        DataType::Decimal256(precision, _) => {
            array.as_primitive::<Decimal256Type>().validate_decimal_precision(*precision)
        }
        _ => Ok(()),
    };
    checked.map_err(|error| {
        let message = match error {
            ArrowError::InvalidArgumentError(message) => message,
            other => other.to_string(),
        };
        DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow(message)), None)
    })
}
