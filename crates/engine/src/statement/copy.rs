//! COPY table FROM 'file' and COPY table | (query) TO 'file'.

use crate::session::{Outcome, Parameters, Session, Waits};
use crate::statement::dialect::as_statement;
use crate::statement::materialized::refuse_materialized;
use crate::statement::refusal::{refuse_given, refuse_other_kind};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::dataframe::DataFrame;
use hypostyle_catalog::scope::Name;
use hypostyle_cluster::stages::over_nodes;
use hypostyle_error::from_datafusion;
use hypostyle_files::{Pair, ReadOptions, Rejected, WriteOptions, read_for_copy, take_format, write};
use hypostyle_plan::subquery_form::in_chosen_form;
use hypostyle_sql::identifier::split_name;
use hypostyle_sql::names::name_columns;
use hypostyle_sql::statement::{CopyFrom, CopyOption, CopyTo, CopyValue};
use hypostyle_storage::{ColumnEntry, SCHEMA_MAIN, Transaction, unknown_column, unknown_table};
use hypostyle_types::{Error, Identity, LogicalType, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns an option as those of readers and writers are given.
fn pair((name, value): CopyOption) -> Pair {
    let value = match value {
        CopyValue::Truth(is) => ScalarValue::from(is),
        CopyValue::Integer(number) => ScalarValue::from(number),
        CopyValue::Text(text) => ScalarValue::from(text),
        CopyValue::List(texts) => {
            let texts: Vec<ScalarValue> = texts.into_iter().map(ScalarValue::from).collect();
            ScalarValue::List(ScalarValue::new_list_nullable(&texts, &DataType::Utf8))
        }
    };
    (name, value)
}

impl Session {
    /// Runs COPY table FROM 'file'.
    pub(super) fn copy_from(&self, copy: CopyFrom) -> Result<Outcome> {
        check_files(&self.identity)?;
        let CopyFrom { table, columns, path, options } = copy;
        let mut given: Vec<Pair> = options.into_iter().map(pair).collect();
        let Name { database, schema, name } = self.names().resolve(&table)?;
        let snapshot = self.scope.database(&database)?.snapshot;
        let Some(table) = snapshot.table(&schema, &name) else {
            refuse_other_kind(snapshot.catalog(), &schema, &name, "a table")?;
            return Err(unknown_table(snapshot.catalog(), &name));
        };
        let entry = table.entry();
        refuse_materialized(entry)?;
        let chosen: Vec<&ColumnEntry> = match columns.is_empty() {
            true => entry.columns.iter().filter(|column| column.generated.is_none()).collect(),
            false => {
                let of_name =
                    |name: &String| entry.column_meant(name).ok_or_else(|| unknown_column(entry, name));
                columns.iter().map(of_name).collect::<Result<_>>()?
            }
        };
        chosen.iter().try_for_each(|column| refuse_given(&name, column))?;
        let zone = self.compiler().time_zone();
        let target: Vec<Field> = chosen.iter().map(|column| field_read(column, &zone)).collect();
        let format = take_format(&path, &mut given)?;
        let options = ReadOptions::parse(&format!("COPY FROM '{path}'"), format, &given)?;
        let rejects_table = options.rejects_table.clone();
        let context = self.context.clone();
        let source = self.wait(async move {
            read_for_copy(&context, &path, format, &options, Arc::new(Schema::new(target))).await
        })?;
        let places: Vec<Option<usize>> = (entry.columns.iter())
            .map(|column| chosen.iter().position(|other| other.id == column.id))
            .collect();
        let mut completion = self.compiler().completion(&database, snapshot.catalog(), entry, &places)?;
        let rows = self.write(&database, |writer| {
            let Some(id) = writer.catalog().table(&schema, &name).map(|table| table.id) else {
                return Err(unknown_table(writer.catalog(), &name));
            };
            let mut rows = 0;
            self.for_each(source.rows, |batch| {
                writer.append(id, &completion.complete(&batch)?)?;
                rows += batch.num_rows() as u64;
                // No scan has counted them.
                self.counters.done.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                Ok(())
            })?;
            if let Some(rejects_table) = rejects_table {
                write_rejects(writer, &rejects_table, &source.rejects.take())?;
            }
            Ok(rows)
        })?;
        Ok(Outcome::Done { rows_affected: Some(rows) })
    }

    /// Runs COPY … TO 'file'.
    pub(super) fn copy_to(&self, copy: CopyTo) -> Result<Outcome> {
        check_files(&self.identity)?;
        let CopyTo { mut query, path, options } = copy;
        let mut given: Vec<Pair> = options.into_iter().map(pair).collect();
        let format = take_format(&path, &mut given)?;
        let options = WriteOptions::parse(&path, format, &given)?;
        name_columns(&mut query);
        let plan = self.planner().plan(as_statement(*query), &Parameters::None)?;
        let state = self.context.state();
        let rows = self.wait_apart(async move {
            let plan = in_chosen_form(&state, plan).map_err(from_datafusion)?;
            let state = over_nodes(state, &plan).map_err(from_datafusion)?;
            let rows = DataFrame::new(state, plan);
            write(rows, &path, format, &options).await.map_err(from_datafusion)
        })?;
        Ok(Outcome::Done { rows_affected: Some(rows) })
    }
}

/// Checks that a user may name files.
fn check_files(identity: &Identity) -> Result<()> {
    identity.privileges.check_machine("read or write files of this machine")
}

/// Returns the field as which a file's column is read for a column.
fn field_read(column: &ColumnEntry, zone: &Arc<str>) -> Field {
    let data_type = match column.logical_type.arrow_type() {
        _ if column.logical_type == LogicalType::Uuid => DataType::Utf8View,
        // Times without a zone are in the session's time zone.
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(unit, Some(zone.clone())),
        other => other,
    };
    let field = column.logical_type.arrow_field(&column.name, column.nullable);
    match data_type == *field.data_type() {
        true => field,
        false => Field::new(&column.name, data_type, column.nullable),
    }
}

/// Adds the rows that were left out to a table, created if it does not exist.
fn write_rejects(writer: &mut Transaction, table: &str, rejected: &[Rejected]) -> Result<()> {
    let text = |value: fn(&Rejected) -> Option<String>| -> ArrayRef {
        Arc::new(rejected.iter().map(value).collect::<StringArray>())
    };
    let lines = Int64Array::from_iter_values(rejected.iter().map(|row| row.line as i64));
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("file", text(|row| Some(row.file.clone())), true),
        ("line", Arc::new(lines), true),
        ("column_name", text(|row| row.column.as_ref().map(|(_, name)| name.clone())), true),
        ("value", text(|row| Some(row.value.clone())), true),
        ("reason", text(|row| Some(row.reason.clone())), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns)
        .map_err(|error| Error::internal(format!("cannot list rejected rows: {error}")))?;
    let parts = split_name(table);
    let (schema, name) = match parts.as_slice() {
        [.., schema, name] => (schema.as_str(), name.as_str()),
        _ => (SCHEMA_MAIN, table),
    };
    let existing = writer.catalog().table(schema, name).map(|entry| entry.id);
    let id = match existing {
        Some(id) => id,
        None => writer.create_table(schema, name, super::new_columns(&batch.schema())?)?,
    };
    writer.append(id, &batch)
}
