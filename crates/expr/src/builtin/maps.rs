//! Maps of the entries of others.

use crate::arguments::refused;
use crate::builtin::written::{Described, Kind};
use crate::value_keys::nested_keys;
use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Described] =
    &[Described::new(&["map_concat"], &[Kind::Any, Kind::Any], joined_type, joined).more()];

fn no_maps() -> DataFusionError {
    refused("map_concat() is of maps whose keys have one type, and whose values have one")
}

/// Returns the key and the value of a map.
fn entry(of: &DataType) -> Result<(&FieldRef, &FieldRef)> {
    let DataType::Map(entries, _) = of else { return Err(no_maps()) };
    match entries.data_type() {
        DataType::Struct(pair) if pair.len() == 2 => Ok((&pair[0], &pair[1])),
        _ => Err(no_maps()),
    }
}

fn united(one: &FieldRef, other: &FieldRef) -> Result<FieldRef> {
    let common = type_union_coercion(one.data_type(), other.data_type()).ok_or_else(no_maps)?;
    Ok(Arc::new(one.as_ref().clone().with_data_type(common)))
}

fn joined_type(types: &[DataType]) -> Result<DataType> {
    let mut known: Option<(FieldRef, FieldRef)> = None;
    for of in types.iter().filter(|of| !of.is_null()) {
        let (key, value) = entry(of)?;
        known = Some(match known {
            None => (key.clone(), value.clone()),
            Some((first_key, first_value)) => (united(&first_key, key)?, united(&first_value, value)?),
        });
    }
    let Some((key, value)) = known else { return Ok(DataType::Null) };
    let key = key.as_ref().clone().with_name("key").with_nullable(false);
    let value = value.as_ref().clone().with_name("value").with_nullable(true);
    let pair = DataType::Struct(Fields::from(vec![key, value]));
    Ok(DataType::Map(Arc::new(Field::new("entries", pair, false)), false))
}

/// The entries of all maps, of which a later one is in the place of an earlier one with its key. A map
/// that is NULL has none.
fn joined(args: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
    let types: Vec<DataType> = args.iter().map(|of| of.data_type().clone()).collect();
    let gives = joined_type(&types)?;
    let DataType::Map(field, _) = &gives else { return Ok(new_null_array(&DataType::Null, rows)) };
    let DataType::Struct(pair) = field.data_type() else { return Err(no_maps()) };
    let maps = args.iter().filter(|of| !of.data_type().is_null());
    let maps = maps.map(|of| Ok(cast(of, &gives)?.as_map().clone())).collect::<Result<Vec<MapArray>>>()?;
    let keys: Vec<&dyn Array> = maps.iter().map(|map| map.keys().as_ref()).collect();
    let values: Vec<&dyn Array> = maps.iter().map(|map| map.values().as_ref()).collect();
    let (keys, values) = (concat(&keys)?, concat(&values)?);
    let bytes = nested_keys(&keys)?;
    let (mut taken, mut lengths, mut known) =
        (Vec::new(), Vec::with_capacity(rows), Vec::with_capacity(rows));
    for row in 0..rows {
        let (before, mut places, mut start) = (taken.len(), HashMap::new(), 0);
        for map in &maps {
            let entries = map.value_offsets()[row] as usize..map.value_offsets()[row + 1] as usize;
            let entries = if map.is_valid(row) { entries } else { 0..0 };
            for entry in entries.map(|entry| start + entry) {
                match places.entry(bytes.value(entry)) {
                    Entry::Occupied(place) => taken[*place.get()] = entry as u64,
                    Entry::Vacant(place) => {
                        place.insert(taken.len());
                        taken.push(entry as u64);
                    }
                }
            }
            start += map.keys().len();
        }
        lengths.push(taken.len() - before);
        known.push(maps.iter().any(|map| map.is_valid(row)));
    }
    let taken = UInt64Array::from(taken);
    let columns = vec![take(&keys, &taken, None)?, take(&values, &taken, None)?];
    let entries = StructArray::try_new(pair.clone(), columns, None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(MapArray::try_new(field.clone(), offsets, entries, Some(NullBuffer::from(known)), false)?))
}
