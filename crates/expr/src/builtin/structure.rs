//! Structures of the fields of others, as DuckDB has them.

use crate::builtin::{Described, Kind, refused};
use crate::structures::row_field;
use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::type_name::type_name;
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
        let mut places: Vec<&str> = names.iter().map(|field| field.name().as_str()).collect();
        for (field, column) in fields_of(new.data_type())?.iter().zip(columns(new)?) {
            match places.iter().position(|name| name.eq_ignore_ascii_case(field.name())) {
                Some(place) => found[place] = column,
                None => {
                    places.push(field.name());
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
];

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
    let mut all: Vec<FieldRef> = Vec::new();
    for field in types.iter().map(fields_of).collect::<Result<Vec<_>>>()?.into_iter().flatten() {
        if all.iter().any(|other| other.name().eq_ignore_ascii_case(field.name())) {
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
    for field in fields_of(new)? {
        match all.iter_mut().find(|other| other.name().eq_ignore_ascii_case(field.name())) {
            Some(other) => *other = nullable(field),
            None => all.push(nullable(field)),
        }
    }
    Ok(DataType::Struct(all.into()))
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
