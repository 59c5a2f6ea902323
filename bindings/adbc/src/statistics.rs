//! Statistics: the number of rows of each table of the current catalog, which is exact and costs
//! nothing.

use crate::cancel::Mark;
use crate::error::{Result, internal};
use crate::nested::{self, lists, member, structs};
use crate::pattern::passes;
use crate::query::{Reader, current, one_batch};
use crate::session::Session;
use adbc_core::constants::ADBC_STATISTIC_ROW_COUNT_KEY;
use adbc_core::error::Error;
use adbc_core::schemas::{
    GET_STATISTIC_NAMES_SCHEMA, GET_STATISTICS_SCHEMA, STATISTIC_VALUE_SCHEMA, STATISTICS_DB_SCHEMA_SCHEMA,
    STATISTICS_SCHEMA,
};
use arrow_array::{
    ArrayRef, BooleanArray, Int16Array, Int64Array, RecordBatch, UnionArray, new_empty_array, new_null_array,
};
use arrow_schema::DataType;
use std::sync::Arc;

/// Returns no names: there are only ADBC's own.
pub fn names() -> Reader {
    one_batch(RecordBatch::new_empty(GET_STATISTIC_NAMES_SCHEMA.clone()))
}

struct DbSchema {
    name: String,
    tables: Vec<(String, i64)>,
}

pub fn statistics(
    session: &Session,
    catalog: Option<&str>,
    db_schema: Option<&str>,
    table_name: Option<&str>,
) -> Result<RecordBatch> {
    let (name, _) = current(session)?;
    let mut schemas: Vec<DbSchema> = Vec::new();
    let tables = session.call(&Mark::default(), |connection| connection.tables())?;
    let shown = passes(catalog, &name);
    for table in tables.into_iter().filter(|_| shown) {
        let Some(rows) = table.row_count.and_then(|rows| i64::try_from(rows).ok()) else { continue };
        if !passes(db_schema, &table.schema) || !passes(table_name, &table.name) {
            continue;
        }
        match schemas.last_mut().filter(|last| last.name == table.schema) {
            Some(last) => last.tables.push((table.name, rows)),
            None => schemas.push(DbSchema { name: table.schema, tables: vec![(table.name, rows)] }),
        }
    }
    let schema = GET_STATISTICS_SCHEMA.clone();
    let catalogs = if shown { vec![name] } else { Vec::new() };
    let names = nested::texts(&catalogs, |name| Some(name));
    let schemas = catalogs.iter().map(|_| Some(std::mem::take(&mut schemas))).collect();
    let schemas = lists(schema.field(1).data_type(), schemas, schema_structs)?;
    RecordBatch::try_new(schema, vec![names, schemas]).map_err(Error::from)
}

fn schema_structs(schemas: Vec<DbSchema>) -> Result<ArrayRef> {
    let data_type = &STATISTICS_DB_SCHEMA_SCHEMA;
    let names = nested::texts(&schemas, |schema| Some(&schema.name));
    let tables = schemas.into_iter().map(|schema| Some(schema.tables)).collect();
    structs(data_type, vec![names, lists(member(data_type, "db_schema_statistics")?, tables, row_counts)?])
}

fn row_counts(tables: Vec<(String, i64)>) -> Result<ArrayRef> {
    let DataType::Union(members, _) = &*STATISTIC_VALUE_SCHEMA else {
        return Err(internal("the values of statistics are a union"));
    };
    let count = tables.len();
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(tables.iter().map(|(_, rows)| *rows)));
    let empty = members.iter().skip(1).map(|(_, field)| new_empty_array(field.data_type()));
    let children = [rows].into_iter().chain(empty).collect();
    let offsets = (0..count as i32).collect();
    let values = UnionArray::try_new(members.clone(), vec![0; count].into(), Some(offsets), children);
    structs(
        &STATISTICS_SCHEMA,
        vec![
            nested::texts(&tables, |(name, _)| Some(name)),
            new_null_array(&DataType::Utf8, count),
            Arc::new(Int16Array::from(vec![ADBC_STATISTIC_ROW_COUNT_KEY; count])),
            Arc::new(values.map_err(Error::from)?),
            Arc::new(BooleanArray::from(vec![false; count])),
        ],
    )
}
