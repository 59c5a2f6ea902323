//! Structures of the fields of others, and their fields by their values, as DuckDB has them.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::cast::cast as cast_as_sql;
use crate::common_type::of_decimals;
use crate::structures::row_field;
use crate::value_keys::{comparable, value_bytes};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, StructArray, make_comparator};
use arrow::compute::{SortOptions, is_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::SessionContext;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::samples::SAMPLED_ROW;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] = &[
    // `struct_insert(s, b := 2)` is written so, too.
    Described::new(&["struct_concat"], &[Kind::Any, Kind::Any], joined_type, |args, rows| {
        let columns = args.iter().map(columns).collect::<Result<Vec<_>>>()?.into_iter().flatten();
        structure(joined_type(&types_of(args))?, columns.collect(), rows)
    })
    .more(),
    // `struct_update(s, b := 2)`.
    Described::new(&["struct_updated"], &[Kind::Any, Kind::Any], updated_type, |args, rows| {
        let [old, new] = args else { return Err(refused("struct_update() is of a structure and fields")) };
        let (mut found, names) = (columns(old)?, fields_of(old.data_type())?);
        let mut places = places_by_name(names);
        for (field, column) in fields_of(new.data_type())?.iter().zip(columns(new)?) {
            match places.entry(field.name().to_ascii_lowercase()) {
                Entry::Occupied(place) => found[*place.get()] = column,
                Entry::Vacant(place) => {
                    place.insert(found.len());
                    found.push(column);
                }
            }
        }
        structure(updated_type(&types_of(args))?, found, rows)
    }),
    Described::new(&["struct_values"], &[Kind::Any], values_type, |args, rows| {
        let of = args[0].as_struct_opt().ok_or_else(|| no_structure(args[0].data_type()))?;
        let DataType::Struct(fields) = values_type(&types_of(args))? else {
            return Err(no_structure(args[0].data_type()));
        };
        let values = of.columns().to_vec();
        Ok(Arc::new(StructArray::try_new_with_length(fields, values, of.nulls().cloned(), rows)?))
    }),
    Described::new(
        &["struct_contains", "struct_has"],
        &[Kind::Any, Kind::Any],
        |_| Ok(DataType::Boolean),
        |args, rows| {
            let nulls = [&args[0], &args[1]].map(|values| values.logical_nulls());
            let is_known = |row: usize| nulls.iter().flatten().all(|nulls| nulls.is_valid(row));
            let places = places(args, rows)?.into_iter().enumerate();
            let found = places.map(|(row, place)| is_known(row).then_some(place.is_some()));
            Ok(Arc::new(found.collect::<BooleanArray>()))
        },
    ),
    Described::new(
        &["struct_position", "struct_indexof"],
        &[Kind::Any, Kind::Any],
        |_| Ok(DataType::Int64),
        |args, rows| Ok(Arc::new(Int64Array::from(places(args, rows)?))),
    ),
    // What the rows of a sample with a seed are told apart by.
    Described::new(
        &[SAMPLED_ROW],
        &[Kind::Any],
        |_| Ok(DataType::LargeBinary),
        |args, _| Ok(Arc::new(value_bytes(&args[0])?)),
    ),
];

/// Returns the place, from 1, of the first field of each structure that has the value beside it, which may
/// be NULL.
fn places(args: &[ArrayRef], rows: usize) -> Result<Vec<Option<i64>>> {
    let mut places = vec![None; rows];
    if args[0].data_type().is_null() {
        return Ok(places);
    }
    let of = args[0].as_struct_opt().ok_or_else(|| no_structure(args[0].data_type()))?;
    for (place, column) in (1..).zip(of.columns()) {
        let [column, value] = alike(column, &args[1])?;
        let compared = make_comparator(&column, &value, SortOptions::default())?;
        for (row, known) in places.iter_mut().enumerate() {
            if known.is_none() && of.is_valid(row) && compared(row, row).is_eq() {
                *known = Some(place);
            }
        }
    }
    Ok(places)
}

/// Returns two columns in the type that has the values of both, as they are compared.
fn alike(one: &ArrayRef, other: &ArrayRef) -> Result<[ArrayRef; 2]> {
    let types = [one.data_type().clone(), other.data_type().clone()];
    let common = match &types {
        [one, other] if one.is_null() && other.is_null() => Some(DataType::Boolean),
        [one, other] if one == other => Some(one.clone()),
        [one, other] => of_decimals(&types).or_else(|| type_union_coercion(one, other)),
    };
    let common = common.ok_or_else(|| {
        let [one, other] = types.each_ref().map(type_name);
        refused(format!("a field of {one} has no value of {other}"))
    })?;
    let field = Field::new("", common, true);
    let compared = |values: &ArrayRef| comparable(&cast_as_sql(values, &field, false)?);
    Ok([compared(one)?, compared(other)?])
}

fn types_of(args: &[ArrayRef]) -> Vec<DataType> {
    args.iter().map(|of| of.data_type().clone()).collect()
}

fn fields_of(of: &DataType) -> Result<&Fields> {
    match of {
        DataType::Struct(fields) => Ok(fields),
        other => Err(no_structure(other)),
    }
}

fn no_structure(of: &DataType) -> DataFusionError {
    refused(format!("a structure was expected, not {}", type_name(of)))
}

/// The type of all fields of structures. No two of them have one name.
fn joined_type(types: &[DataType]) -> Result<DataType> {
    let (mut all, mut names): (Vec<FieldRef>, HashSet<String>) = (Vec::new(), HashSet::new());
    for field in types.iter().map(fields_of).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        if !names.insert(field.name().to_ascii_lowercase()) {
            return Err(refused(format!("a structure has two fields of the name \"{}\"", field.name())));
        }
        all.push(nullable(field));
    }
    Ok(DataType::Struct(all.into()))
}

/// The type of a structure with other values of some fields, and with further ones.
fn updated_type(types: &[DataType]) -> Result<DataType> {
    let [old, new] = types else { return Err(refused("struct_update() is of a structure and fields")) };
    let mut all: Vec<FieldRef> = fields_of(old)?.iter().map(nullable).collect();
    let mut places = places_by_name(fields_of(old)?);
    for field in fields_of(new)? {
        match places.entry(field.name().to_ascii_lowercase()) {
            Entry::Occupied(place) => all[*place.get()] = nullable(field),
            Entry::Vacant(place) => {
                place.insert(all.len());
                all.push(nullable(field));
            }
        }
    }
    Ok(DataType::Struct(all.into()))
}

/// The places of fields by their names in small letters. There may be thousands.
fn places_by_name(fields: &Fields) -> HashMap<String, usize> {
    let mut places = HashMap::with_capacity(fields.len());
    for (place, field) in fields.iter().enumerate() {
        places.entry(field.name().to_ascii_lowercase()).or_insert(place);
    }
    places
}

/// The type of a structure whose fields have the names of their places.
fn values_type(types: &[DataType]) -> Result<DataType> {
    let named = |(place, field): (usize, &FieldRef)| Field::clone(field).with_name(row_field(place));
    let fields = types.first().map(fields_of).transpose()?.into_iter().flatten().enumerate();
    Ok(DataType::Struct(fields.map(named).collect()))
}

fn nullable(field: &FieldRef) -> FieldRef {
    Arc::new(Field::clone(field).with_nullable(true))
}

/// The columns of structures; those of one that is NULL are.
fn columns(of: &ArrayRef) -> Result<Vec<ArrayRef>> {
    let structures = of.as_struct_opt().ok_or_else(|| no_structure(of.data_type()))?;
    if structures.null_count() == 0 {
        return Ok(structures.columns().to_vec());
    }
    let missing = is_null(structures)?;
    structures.columns().iter().map(|column| Ok(nullif(column, &missing)?)).collect()
}

fn structure(of: DataType, columns: Vec<ArrayRef>, rows: usize) -> Result<ArrayRef> {
    let fields = fields_of(&of)?.clone();
    Ok(Arc::new(StructArray::try_new_with_length(fields, columns, None, rows)?))
}

pub(super) fn register(context: &SessionContext) {
    context.register_udf(field_at());
}

/// Returns the function that gives the field of a structure at a place.
pub(crate) fn field_at() -> ScalarUDF {
    ScalarUDF::from(FieldAt { signature: Signature::any(2, Volatility::Immutable) })
}

/// `struct_extract_at(s, n)`: the field of a structure at a place, from 1.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct FieldAt {
    signature: Signature,
}

/// Returns the place from 0 that a number means.
fn place(number: Option<&ScalarValue>, fields: &Fields) -> Result<usize> {
    let number = number.filter(|number| number.data_type().is_integer());
    let Some(ScalarValue::Int64(Some(number))) =
        number.map(|number| number.cast_to(&DataType::Int64)).transpose()?
    else {
        return Err(refused("the place in struct_extract_at() is a whole number, as it is written"));
    };
    let place = number.checked_sub(1).and_then(|place| usize::try_from(place).ok());
    place.filter(|place| *place < fields.len()).ok_or_else(|| {
        refused(format!("struct_extract_at(): the structure has fields 1 to {}, not {number}", fields.len()))
    })
}

impl ScalarUDFImpl for FieldAt {
    fn name(&self) -> &'static str {
        "struct_extract_at"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of struct_extract_at() depends on the place")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [of, _] = args.arg_fields else {
            return Err(refused("struct_extract_at() takes a structure and a place"));
        };
        let fields = fields_of(of.data_type())?;
        let field = &fields[place(args.scalar_arguments.get(1).copied().flatten(), fields)?];
        Ok(Arc::new(field.as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [of, ColumnarValue::Scalar(number)] = args.args.as_slice() else {
            return Err(refused("struct_extract_at() takes a structure and a place"));
        };
        let is_scalar = matches!(of, ColumnarValue::Scalar(_));
        let structures = of.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let place = place(Some(number), fields_of(structures.data_type())?)?;
        let values = columns(&structures)?.swap_remove(place);
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?),
            false => ColumnarValue::Array(values),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_of_very_many_fields_are_put_together() {
        let structure = |names: std::ops::Range<usize>, of: DataType| {
            DataType::Struct(names.map(|name| Field::new(format!("k{name}"), of.clone(), true)).collect())
        };
        let one = structure(0..40_000, DataType::Int64);
        let joined = joined_type(&[one.clone(), structure(40_000..80_000, DataType::Int64)]).unwrap();
        assert_eq!(fields_of(&joined).unwrap().len(), 80_000);
        assert!(joined_type(&[one.clone(), structure(39_999..40_001, DataType::Int64)]).is_err());
        let updated = updated_type(&[one, structure(20_000..60_000, DataType::Utf8)]).unwrap();
        let updated = fields_of(&updated).unwrap();
        assert_eq!((updated.len(), updated[19_999].data_type()), (60_000, &DataType::Int64));
        assert_eq!(updated[20_000].data_type(), &DataType::Utf8);
    }
}
