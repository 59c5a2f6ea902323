//! The relations of `pg_catalog`, and their rows, which name only the columns that have values.

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, Int64Builder, ListBuilder, StringArray, StringBuilder,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use hypostyle_types::{Error, Result};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// The key in the metadata of a field that says that its arrays are vectors. The text of a vector
/// is that of its elements with blanks between them.
pub const VECTOR: &str = "hypostyle.postgres.vector";

/// The relations, one a line: name, number, kind, and columns with their types. All are those of
/// PostgreSQL 15.
const RELATIONS: &str = include_str!("relations.txt");

/// The kind of a column's values: `b`oolean, `i`nteger, `f`loat, `t`ext, `z` for an instant, `I`
/// and `T` for arrays, and `V` for an array of integers that PostgreSQL writes as a vector. There
/// are fewer kinds than types: all integers and numbers of objects are BIGINT here, and all texts
/// and names of functions VARCHAR.
type Kind = u8;

/// Returns the kind of the values of a type.
fn kind(type_name: &str) -> Kind {
    match type_name {
        "bool" => b'b',
        "int2" | "int4" | "int8" | "oid" | "xid" | "xid8" => b'i',
        "float4" | "float8" | "numeric" => b'f',
        "timestamptz" => b'z',
        "int2vector" | "oidvector" => b'V',
        "_int2" | "_int4" | "_oid" => b'I',
        "anyarray" => b'T',
        array if array.starts_with('_') => b'T',
        _ => b't',
    }
}

#[derive(Debug)]
pub struct SystemRelation {
    pub oid: i64,
    pub name: &'static str,
    pub is_view: bool,
    pub columns: Vec<(&'static str, Kind)>,
    /// The types of the columns, as `pg_type` has them.
    pub types: Vec<&'static str>,
}

/// Returns all of `pg_catalog`, by name.
pub fn system_relations() -> &'static [SystemRelation] {
    static PARSED: OnceLock<Vec<SystemRelation>> = OnceLock::new();
    PARSED.get_or_init(|| parse_relations(RELATIONS))
}

/// Returns the relations of a text.
pub fn parse_relations(text: &'static str) -> Vec<SystemRelation> {
    text.lines().filter_map(parse).collect()
}

fn parse(line: &'static str) -> Option<SystemRelation> {
    let mut words = line.split(' ');
    let (name, oid, is) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    let typed = words.map(|word| word.split_once(':')).collect::<Option<Vec<_>>>()?;
    let columns = typed.iter().map(|(name, type_name)| (*name, kind(type_name))).collect();
    let types = typed.iter().map(|(_, type_name)| *type_name).collect();
    Some(SystemRelation { oid, name, is_view: is == "v", columns, types })
}

/// Says whether a column of some relation of `pg_catalog` names functions.
pub(super) fn names_functions(column: &str) -> bool {
    static PARSED: OnceLock<HashSet<&str>> = OnceLock::new();
    let parsed = PARSED.get_or_init(|| {
        let typed =
            system_relations().iter().flat_map(|relation| relation.columns.iter().zip(&relation.types));
        typed.filter(|(_, of)| **of == "regproc").map(|((name, _), _)| *name).collect()
    });
    parsed.contains(column)
}

pub fn system_relation(name: &str) -> Option<&'static SystemRelation> {
    system_relations().iter().find(|relation| relation.name == name)
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    Integers(Vec<i64>),
    Texts(Vec<String>),
}

macro_rules! from {
    ($($given:ty => $variant:ident: $convert:expr),* $(,)?) => {$(
        impl From<$given> for Value {
            fn from(value: $given) -> Self {
                Self::$variant($convert(value))
            }
        }
    )*};
}
from! {
    bool => Bool: |value| value,
    i64 => Integer: |value| value,
    u32 => Integer: i64::from,
    i32 => Integer: i64::from,
    usize => Integer: |value| value as i64,
    f64 => Float: |value| value,
    &str => Text: str::to_string,
    char => Text: String::from,
    String => Text: |value| value,
    Vec<i64> => Integers: |value| value,
    Vec<String> => Texts: |value| value,
}

/// A row: what is not named is NULL.
pub type Row = Vec<(&'static str, Value)>;

/// A row from names and what becomes a value.
macro_rules! row {
    ($($name:ident: $value:expr),* $(,)?) => {
        vec![$((stringify!($name), $crate::pg_catalog::rows::Value::from($value))),*]
    };
}
pub(crate) use row;

/// Returns the rows of a relation in the types of its columns.
///
/// # Errors
/// `Internal` when a value is not of its column's kind.
pub fn batch(relation: &SystemRelation, rows: &[Row]) -> Result<RecordBatch> {
    let mut fields = Vec::with_capacity(relation.columns.len());
    let mut arrays = Vec::with_capacity(relation.columns.len());
    for (name, kind) in &relation.columns {
        let mut guess = Guess::default();
        let values = rows.iter().map(|row| guess.value_of(row, name));
        let array = array(*kind, values).ok_or_else(|| {
            Error::internal(format!("a value of {}.{name} is of another kind", relation.name))
        })?;
        let field = Field::new(*name, array.data_type().clone(), true);
        fields.push(match kind {
            b'V' => field.with_metadata(HashMap::from([(VECTOR.to_string(), String::new())])),
            _ => field,
        });
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|error| Error::internal(format!("cannot list {}: {error}", relation.name)))
}

/// The place of a column in the row before. Rows of one length are mostly of one form, and there are
/// thousands of them.
#[derive(Default)]
struct Guess {
    length: usize,
    place: usize,
}

impl Guess {
    /// Returns what a row says last of a column.
    fn value_of<'a>(&mut self, row: &'a Row, column: &str) -> Option<&'a Value> {
        if row.len() == self.length
            && let Some((named, value)) = row.get(self.place)
            && *named == column
        {
            return Some(value);
        }
        self.place = row.iter().rposition(|(named, _)| *named == column)?;
        self.length = row.len();
        Some(&row[self.place].1)
    }
}

fn array<'a>(kind: Kind, values: impl Iterator<Item = Option<&'a Value>>) -> Option<ArrayRef> {
    macro_rules! collect {
        ($variant:ident, $array:ty, $take:expr) => {{
            let taken = values.map(|value| match value {
                None => Some(None),
                Some(Value::$variant(value)) => Some(Some($take(value))),
                Some(_) => None,
            });
            Arc::new(taken.collect::<Option<Vec<_>>>()?.into_iter().collect::<$array>()) as ArrayRef
        }};
    }
    Some(match kind {
        b'b' => collect!(Bool, BooleanArray, |value: &bool| *value),
        b'i' => collect!(Integer, Int64Array, |value: &i64| *value),
        b'f' => collect!(Float, Float64Array, |value: &f64| *value),
        b'z' => {
            let instants: Vec<Option<i64>> = values
                .map(|value| match value {
                    None => Some(None),
                    Some(Value::Integer(value)) => Some(Some(*value)),
                    Some(_) => None,
                })
                .collect::<Option<_>>()?;
            Arc::new(TimestampMicrosecondArray::from(instants).with_timezone("UTC"))
        }
        b'I' | b'V' => {
            let mut lists = ListBuilder::new(Int64Builder::new());
            for value in values {
                match value {
                    None => lists.append_null(),
                    Some(Value::Integers(items)) => lists.append_value(items.iter().copied().map(Some)),
                    Some(_) => return None,
                }
            }
            Arc::new(lists.finish())
        }
        b'T' => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    None => lists.append_null(),
                    Some(Value::Texts(items)) => lists.append_value(items.iter().map(Some)),
                    Some(_) => return None,
                }
            }
            Arc::new(lists.finish())
        }
        _ => collect!(Text, StringArray, |value: &String| value.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    #[test]
    fn every_line_is_a_relation_and_a_row_names_its_columns() {
        assert_eq!(system_relations().len(), RELATIONS.lines().count());
        let relation = system_relation("pg_namespace").unwrap();
        let rows = [row! { oid: 11_i64, nspname: "pg_catalog" }, row! { oid: 12_i64 }];
        let batch = batch(relation, &rows).unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (2, relation.columns.len()));
        assert!(super::batch(relation, &[row! { oid: "eleven" }]).is_err());
        let mut twice = row! { oid: 1_i64, nspname: "one" };
        twice.extend(row! { oid: 2_i64 });
        let rows = [twice, row! { nspname: "two", oid: 3_i64 }, row! { nspname: "none" }];
        let oids = super::batch(relation, &rows).unwrap();
        let oids = oids.column_by_name("oid").unwrap().as_primitive::<Int64Type>();
        assert_eq!(oids.iter().collect::<Vec<_>>(), [Some(2), Some(3), None]);
    }
}
