//! Lists: sums that are exact, and their lengths.

use crate::builtin::{Described, Kind, refused};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, FieldRef};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_types::Error;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    Described::new(&["array_sum_exact"], &[Kind::List], sum_type, sums),
    Described::new(&["len"], &[Kind::Any], |_| Ok(DataType::Int64), lengths),
];

/// Returns the elements of lists, or the characters of texts.
fn lengths(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let of = &args[0];
    let item = |field: &FieldRef| DataType::LargeList(field.clone());
    let lengths: Int64Array = match of.data_type() {
        DataType::Null => Int64Array::new_null(rows),
        data_type if data_type.is_string() => {
            let texts = cast(of, &DataType::Utf8View)?;
            texts.as_string_view().iter().map(|text| text.map(|text| text.chars().count() as i64)).collect()
        }
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            let lists = cast(of, &item(field))?;
            let lists = lists.as_list::<i64>();
            (0..rows).map(|row| lists.is_valid(row).then(|| lists.value_length(row))).collect()
        }
        _ => return Err(refused("len() is of a list or a text")),
    };
    Ok(Arc::new(lengths))
}

fn element(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Some(field.data_type())
        }
        _ => None,
    }
}

/// Returns BIGINT for integers, and the widest DECIMAL of their scale for DECIMALs.
fn sum_type(types: &[DataType]) -> Result<DataType> {
    Ok(match types.first().and_then(element) {
        Some(
            DataType::Decimal32(_, scale) | DataType::Decimal64(_, scale) | DataType::Decimal128(_, scale),
        ) => DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale),
        Some(of) if of.is_integer() => DataType::Int64,
        _ => return Err(refused("list_sum() is of a list of numbers")),
    })
}

fn sums(args: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    let lists = &args[0];
    let gives = sum_type(&[lists.data_type().clone()])?;
    let out_of_range = || {
        let error = Error::invalid_input(format!(
            "list_sum(): the sum is out of range of {}",
            hypostyle_error::type_name::type_name(&gives)
        ));
        external(error.with_sqlstate("22003"))
    };
    let scale = if let DataType::Decimal128(_, scale) = gives { scale } else { 0 };
    let wide = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    let item = DataType::LargeList(Arc::new(arrow::datatypes::Field::new("item", wide, true)));
    let lists = cast(lists, &item)?;
    let lists = lists.as_list::<i64>();
    let elements = lists.values().as_primitive::<Decimal128Type>();
    let sums = (0..lists.len()).map(|row| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
        let values = (start..end).filter(|at| elements.is_valid(*at)).map(|at| elements.value(at));
        let mut sum = None;
        for value in values {
            sum = Some(sum.unwrap_or(0_i128).checked_add(value).ok_or_else(out_of_range)?);
        }
        Ok(sum)
    });
    let sums = sums.collect::<Result<Vec<Option<i128>>>>()?;
    if gives == DataType::Int64 {
        let sums = sums.into_iter().map(|sum| sum.map(|sum| i64::try_from(sum).map_err(|_| out_of_range())));
        return Ok(Arc::new(sums.map(Option::transpose).collect::<Result<Int64Array>>()?));
    }
    let sums = Decimal128Array::from(sums).with_precision_and_scale(DECIMAL128_MAX_PRECISION, scale)?;
    sums.validate_decimal_precision(DECIMAL128_MAX_PRECISION).map_err(|_| out_of_range())?;
    Ok(Arc::new(sums))
}
