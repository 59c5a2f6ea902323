//! Columns of Parquet and Arrow files as queries see them: names of their own, types that SQL has,
//! and one NaN.

use crate::nested::with_parts;
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use hypostyle_types::{Error, Result};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Returns names of their own for columns: a number follows those that come again, as in CSV.
pub fn own_names<'a>(given: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = HashSet::new();
    let own = given.map(|base| {
        let mut own = base.to_string();
        let mut number = 1;
        while !taken.insert(own.clone()) {
            own = format!("{base}_{number}");
            number += 1;
        }
        own
    });
    own.collect()
}

/// Returns the fields of a file's columns.
pub fn fields(given: &Fields) -> Vec<Field> {
    let names = own_names(given.iter().map(|field| field.name().as_str()));
    let named = given.iter().zip(names).map(|(field, name)| {
        let known = known(field.data_type());
        field.as_ref().clone().with_name(name).with_data_type(known)
    });
    named.collect()
}

/// Returns the type that values of a file become: SQL has no half floats, and one type of times.
fn known(of: &DataType) -> DataType {
    match of {
        DataType::Float16 => DataType::Float32,
        DataType::Time32(_) => DataType::Time64(TimeUnit::Microsecond),
        other => with_parts(other, &mut |part| {
            Arc::new(part.as_ref().clone().with_data_type(known(part.data_type())))
        }),
    }
}

/// Returns the columns of files that are one table: those of all, by their names.
///
/// # Errors
/// `InvalidInput` where columns of one name have other types.
pub fn merged(files: &[(&Path, Vec<Field>)]) -> Result<Schema> {
    let mut all = Schema::empty();
    for (path, fields) in files {
        all = Schema::try_merge([all, Schema::new(fields.clone())]).map_err(|error| {
            let (file, first) = (path.display(), files[0].0.display());
            Error::invalid_input(format!(
                "the columns of \"{file}\" do not fit those of \"{first}\": {error}"
            ))
        })?;
    }
    let names = |(_, fields): &(&Path, Vec<Field>)| -> HashSet<String> {
        fields.iter().map(|field| field.name().clone()).collect()
    };
    let known: Vec<HashSet<String>> = files.iter().map(names).collect();
    let is_in_all = |field: &Field| known.iter().all(|names| names.contains(field.name()));
    // It is NULL for the rows of a file that lacks it.
    let fields = all.fields().iter().map(|field| match is_in_all(field) {
        true => Arc::clone(field),
        false => Arc::new(field.as_ref().clone().with_nullable(true)),
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// Says whether a type is a structure without fields, or has one within it: neither files nor SQL
/// have values of it.
pub fn is_hollow(of: &DataType) -> bool {
    match of {
        DataType::Struct(fields) => {
            fields.is_empty() || fields.iter().any(|field| is_hollow(field.data_type()))
        }
        DataType::List(of)
        | DataType::LargeList(of)
        | DataType::FixedSizeList(of, _)
        | DataType::Map(of, _) => is_hollow(of.data_type()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_come_again_get_a_number() {
        assert_eq!(own_names(["a", "b", "a", "a_1", "a"].into_iter()), ["a", "b", "a_1", "a_1_1", "a_2"]);
    }

    #[test]
    fn types_become_those_of_sql_within_others_too() {
        let half = Arc::new(Field::new("element", DataType::Float16, true));
        let given = Fields::from(vec![
            Field::new("l", DataType::List(half), false),
            Field::new("t", DataType::Time32(TimeUnit::Second), false),
        ]);
        let found = fields(&given);
        let float = Arc::new(Field::new("element", DataType::Float32, true));
        assert_eq!(found[0], Field::new("l", DataType::List(float), false));
        assert_eq!(found[1], Field::new("t", DataType::Time64(TimeUnit::Microsecond), false));
    }
}
