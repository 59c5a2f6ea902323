//! ceil(), floor(), round(), sign() and trunc() of DECIMALs. Their results have the scale that is
//! asked for, as in PostgreSQL, and it is decided once, while planning: DataFusion's have another
//! one when their arguments have become constants. round() and trunc() of integers are integers of that type:
//! DataFusion's become DOUBLEs, which have not all of their digits.

use crate::arithmetic::type_of;
use crate::impl_portable;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, Field, FieldRef, Int64Type};
use arrow::error::ArrowError;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue, plan_datafusion_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use hypostyle_error::type_name::type_name;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Digits that no DECIMAL has: rounding to more places behind the point changes nothing, to more
/// before it leaves zero.
const PLACES_MAX: i64 = 2 * DECIMAL128_MAX_PRECISION as i64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Ceil,
    Floor,
    Round,
    Trunc,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ceil" => Self::Ceil,
            "floor" => Self::Floor,
            "round" => Self::Round,
            "trunc" => Self::Trunc,
            _ => return None,
        })
    }

    /// A quotient with the rest of a division, rounded.
    fn rounded(self, quotient: i128, rest: i128, divisor: i128) -> i128 {
        let away = match self {
            Self::Ceil => rest > 0,
            Self::Floor => rest < 0,
            // Powers of ten are even. Halves go away from zero.
            Self::Round => rest.unsigned_abs() >= divisor.unsigned_abs() / 2,
            Self::Trunc => false,
        };
        if away { quotient + rest.signum() } else { quotient }
    }
}

/// Takes the functions of this module for DataFusion's where they are of DECIMALs or integers.
pub fn of_exact(expression: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(ScalarFunction { func, args }) = &expression else {
        return Ok(Transformed::no(expression));
    };
    if func.name() == "signum"
        && matches!(args.as_slice(), [of] if type_of(of, schema).is_ok_and(|of| of.is_decimal()))
    {
        let sign = Cast::new(Box::new(expression), DataType::Decimal128(1, 0));
        return Ok(Transformed::yes(Expr::Cast(sign)));
    }
    // Plans of subqueries come here several times. The places of one of these are no argument any more.
    if func.inner().is::<Rounding>() {
        return Ok(Transformed::no(expression));
    }
    let Some(kind) = Kind::named(func.name()) else { return Ok(Transformed::no(expression)) };
    let (of, places) = match args.as_slice() {
        [of] => (of, Some(0)),
        [of, places] => (of, constant(places)),
        _ => return Ok(Transformed::no(expression)),
    };
    match type_of(of, schema) {
        Ok(DataType::Decimal128(_, 0..)) => {}
        // Those of the others are DOUBLEs in PostgreSQL and DuckDB.
        Ok(of) if of.is_integer() && matches!(kind, Kind::Round | Kind::Trunc) => {}
        _ => return Ok(Transformed::no(expression)),
    }
    let mut args = args.clone();
    args.truncate(if places.is_some() { 1 } else { 2 });
    if let Some(places) = args.get_mut(1) {
        *places = Expr::Cast(Cast::new(Box::new(std::mem::take(places)), DataType::Int64));
    }
    let function = Arc::new(ScalarUDF::from(Rounding::new(kind, places)));
    Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
}

/// Returns a DECIMAL without its places.
pub(crate) fn truncated(value: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Rounding::new(Kind::Trunc, Some(0))));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![value]))
}

/// Places that are written as a number.
fn constant(places: &Expr) -> Option<i64> {
    let places = match places {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(places)) if value.data_type().is_integer() => places?,
            _ => return None,
        },
        Expr::Negative(of) => constant(of)?.checked_neg()?,
        Expr::Cast(Cast { expr, field }) if field.data_type().is_integer() => constant(expr)?,
        _ => return None,
    };
    Some(places.clamp(-PLACES_MAX, PLACES_MAX))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rounding {
    kind: Kind,
    /// `None` for those of an argument, which may be others for each row: the results keep the
    /// scale of what is rounded.
    places: Option<i64>,
    signature: Signature,
}

impl Rounding {
    fn new(kind: Kind, places: Option<i64>) -> Self {
        let arguments = if places.is_some() { 1 } else { 2 };
        Self { kind, places, signature: Signature::any(arguments, Volatility::Immutable) }
    }

    /// The digits, and those behind the point, of the result for a DECIMAL of so many.
    fn digits(&self, precision: u8, scale: u8) -> (u8, u8) {
        let whole = precision.saturating_sub(scale);
        let scale = match self.places {
            None => scale,
            Some(places) => {
                let most = i64::from(DECIMAL128_MAX_PRECISION - whole);
                u8::try_from(places.clamp(0, most)).unwrap_or_default()
            }
        };
        // One more digit before the point, as 9.9 is rounded to 10.
        let carried = u8::from(self.kind != Kind::Trunc);
        ((whole + carried + scale).clamp(1, DECIMAL128_MAX_PRECISION), scale)
    }

    fn of(&self, value: i128, scale: i64, places: i64, wanted: i64) -> Option<i128> {
        let power = |of: i64| u32::try_from(of).ok().and_then(|of| 10_i128.checked_pow(of));
        if places >= scale {
            return value.checked_mul(power(wanted - scale)?);
        }
        // All digits of a DECIMAL are below its half.
        let Some(divisor) = power(scale - places) else { return Some(0) };
        let rounded = self.kind.rounded(value / divisor, value % divisor, divisor);
        rounded.checked_mul(power(wanted - places)?)
    }
}

impl_portable!(Rounding, "rounding", kind: Kind, places: Option<i64>);

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Ceil => "ceil",
            Kind::Floor => "floor",
            Kind::Round => "round",
            Kind::Trunc => "trunc",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut names: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        names.extend(self.places.map(|places| places.to_string()));
        Ok(format!("{}({})", self.name(), names.join(",")))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let (precision, scale) = match types.first() {
            Some(DataType::Decimal128(precision, scale)) => (*precision, *scale),
            Some(of) if of.is_integer() => return Ok(of.clone()),
            _ => return Err(plan_datafusion_err!("{}() is of a DECIMAL or an integer", self.name())),
        };
        let (precision, scale) = self.digits(precision, scale.unsigned_abs());
        Ok(DataType::Decimal128(precision, i8::try_from(scale).unwrap_or_default()))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { args.number_rows };
        let columns = args.args.iter().map(|value| value.to_array(rows)).collect::<Result<Vec<_>>>()?;
        let values = match columns[0].data_type().is_integer() {
            true => self.integers(&columns)?,
            false => self.rounded(&columns)?,
        };
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

impl Rounding {
    fn rounded(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        let types: Vec<DataType> = columns.iter().map(|column| column.data_type().clone()).collect();
        let wanted = self.return_type(&types)?;
        let DataType::Decimal128(precision, wanted_scale) = wanted else {
            return Err(plan_datafusion_err!("{}() is of a DECIMAL", self.name()));
        };
        let values = columns[0].as_primitive::<Decimal128Type>();
        let (scale, wanted_scale) = (i64::from(values.scale()), i64::from(wanted_scale));
        let out_of_range = |row: usize| {
            let message = format!(
                "{}({}) is out of range of DECIMAL({precision},{wanted_scale})",
                self.name(),
                values.value_as_string(row)
            );
            DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow(message)), None)
        };
        let limit = 10_i128.pow(u32::from(precision));
        let rounded = values.iter().enumerate().map(|(row, value)| {
            let (Some(value), Some(places)) = (value, self.places_of(columns, row)) else { return Ok(None) };
            let rounded = self.of(value, scale, places, wanted_scale);
            rounded.filter(|rounded| rounded.abs() < limit).map(Some).ok_or_else(|| out_of_range(row))
        });
        let rounded: Decimal128Array = rounded.collect::<Result<_>>()?;
        Ok(Arc::new(rounded.with_data_type(wanted)))
    }

    /// Returns the places to which the value of a row is rounded.
    fn places_of(&self, columns: &[ArrayRef], row: usize) -> Option<i64> {
        let given = || {
            let places = columns.get(1)?.as_primitive::<Int64Type>();
            places.is_valid(row).then(|| places.value(row))
        };
        Some(self.places.or_else(given)?.clamp(-PLACES_MAX, PLACES_MAX))
    }

    /// Rounds integers, of which no digit is behind the point.
    fn integers(&self, columns: &[ArrayRef]) -> Result<ArrayRef> {
        if self.places.is_some_and(|places| places >= 0) {
            return Ok(columns[0].clone());
        }
        let of = columns[0].data_type();
        let limits = limits_of(of);
        let wide = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0);
        let values = cast(&columns[0], &wide)?;
        let rounded = values.as_primitive::<Decimal128Type>().iter().enumerate().map(|(row, value)| {
            let (Some(value), Some(places)) = (value, self.places_of(columns, row)) else { return Ok(None) };
            let rounded = self.of(value, 0, places, 0).filter(|rounded| limits.contains(rounded));
            rounded.map(Some).ok_or_else(|| {
                let message = format!("{}({value}) is out of range of {}", self.name(), type_name(of));
                DataFusionError::ArrowError(Box::new(ArrowError::ArithmeticOverflow(message)), None)
            })
        });
        let rounded: Decimal128Array = rounded.collect::<Result<_>>()?;
        Ok(cast(&rounded.with_data_type(wide), of)?)
    }
}

/// Returns the least and the greatest integer of a type.
fn limits_of(of: &DataType) -> RangeInclusive<i128> {
    match of {
        DataType::Int8 => i8::MIN.into()..=i8::MAX.into(),
        DataType::Int16 => i16::MIN.into()..=i16::MAX.into(),
        DataType::Int32 => i32::MIN.into()..=i32::MAX.into(),
        DataType::UInt8 => 0..=u8::MAX.into(),
        DataType::UInt16 => 0..=u16::MAX.into(),
        DataType::UInt32 => 0..=u32::MAX.into(),
        DataType::UInt64 => 0..=u64::MAX.into(),
        _ => i64::MIN.into()..=i64::MAX.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt64Array;
    use arrow::datatypes::UInt64Type;

    #[test]
    fn integers_keep_their_digits() {
        let of = |kind, places, value: u64| {
            let column: ArrayRef = Arc::new(UInt64Array::from(vec![Some(value), None]));
            let rounded = Rounding::new(kind, Some(places)).integers(&[column]);
            rounded.map(|rounded| rounded.as_primitive::<UInt64Type>().iter().collect::<Vec<_>>())
        };
        let most = u64::MAX;
        for (kind, places, rounded) in [
            (Kind::Trunc, 0, most),
            (Kind::Trunc, -2, most - 15),
            (Kind::Round, -2, most - 15),
            (Kind::Trunc, -19, 10_000_000_000_000_000_000),
            (Kind::Round, -20, 0),
        ] {
            assert_eq!(of(kind, places, most).unwrap(), [Some(rounded), None], "{kind:?} {places}");
        }
        assert!(of(Kind::Round, -1, most).is_err());
    }

    #[test]
    fn scales_are_those_asked_for() {
        let of =
            |kind, places| Rounding { kind, places, signature: Signature::any(1, Volatility::Immutable) };
        for (kind, places, value, precision, scale, rounded, digits) in [
            (Kind::Round, Some(1), 1250, 5, 3, 13, (4, 1)),
            (Kind::Round, Some(1), -1250, 5, 3, -13, (4, 1)),
            (Kind::Round, Some(0), 1499, 5, 3, 1, (3, 0)),
            (Kind::Round, Some(4), 1499, 5, 3, 14_990, (7, 4)),
            (Kind::Round, Some(-1), 15_000, 5, 3, 20, (3, 0)),
            (Kind::Round, Some(-76), 99_999, 5, 3, 0, (3, 0)),
            (Kind::Trunc, Some(1), -1299, 5, 3, -12, (3, 1)),
            (Kind::Ceil, Some(0), 1001, 5, 3, 2, (3, 0)),
            (Kind::Ceil, Some(0), -1999, 5, 3, -1, (3, 0)),
            (Kind::Floor, Some(0), -1001, 5, 3, -2, (3, 0)),
            (Kind::Floor, Some(0), 9, 2, 2, 0, (1, 0)),
            (Kind::Round, None, 1250, 5, 3, 1250, (6, 3)),
        ] {
            let rounding = of(kind, places);
            assert_eq!(rounding.digits(precision, scale), digits, "{kind:?} {places:?}");
            let wanted = i64::from(digits.1);
            let scale = i64::from(scale);
            assert_eq!(
                rounding.of(value, scale, places.unwrap_or(3), wanted),
                Some(rounded),
                "{kind:?} {value}"
            );
        }
    }
}
