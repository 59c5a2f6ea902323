//! Appends record batches to a table, by COPY in binary; in text where a column has no binary form
//! here, or gets texts that the server reads.

use crate::describe::{Table, TableColumn, table};
use crate::encode::{Encoded, Target, check_whole};
use crate::link::Link;
use crate::message::Writer;
use crate::statement::quoted_name;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};
use bytes::{BufMut, BytesMut};
use hypostyle_client::{AppendOptions, Transaction};
use hypostyle_pgtypes::types as pg;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, did_you_mean};

/// The first and the last bytes of COPY in binary.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TRAILER: [u8; 2] = [0xff, 0xff];

/// The bytes of a message of rows.
const MESSAGE_BYTES: usize = 256 << 10;

/// Where each column of the data goes.
struct Plan {
    /// The text of the COPY.
    sql: String,
    targets: Vec<(String, Target)>,
    is_binary: bool,
}

/// Appends all rows of `data` by one statement, and returns their number. A table that is created
/// for them is part of the same transaction.
///
/// # Errors
/// `UnknownName`, `InvalidInput` or `Constraint`, with the row and the column as far as the server
/// tells; the error of `data`. Nothing is appended then.
pub fn append(
    link: &mut Link,
    name: &str,
    mut data: Box<dyn RecordBatchReader + Send>,
    options: AppendOptions,
    told: &mut dyn FnMut(u64),
) -> Result<u64> {
    let schema = data.schema();
    let found = table(link, name)?;
    let found_now = match found {
        Some(found) => return copy(link, &plan(&found, &schema, options)?, &mut data, told),
        None if !options.create => {
            let message = format!("there is no table {name}");
            return Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42P01"));
        }
        None => creation(name, &schema)?,
    };
    let is_own = link.transaction == Transaction::None;
    if is_own {
        link.select("BEGIN")?;
    }
    let appended = (|| {
        link.select(&found_now)?;
        let created = table(link, name)?;
        let created = created.ok_or_else(|| Error::internal("a table that was created is not there"))?;
        copy(link, &plan(&created, &schema, options)?, &mut data, told)
    })();
    if is_own && !link.is_broken() {
        let ended = link.select(if appended.is_ok() { "COMMIT" } else { "ROLLBACK" });
        return appended.and_then(|rows| ended.map(|_| rows));
    }
    appended
}

/// Returns the text that creates a table for data.
fn creation(name: &str, schema: &Schema) -> Result<String> {
    let columns = schema.fields().iter().map(|field| {
        let logical_type = LogicalType::from_arrow(field)?;
        let shown = pg::shown(&logical_type);
        let modifier = Some(i64::from(shown.modifier)).filter(|modifier| *modifier >= 0);
        let sql = match shown.scalar == pg::JSON {
            true => Some("jsonb".to_string()),
            false => pg::format_type(shown.oid(), modifier),
        };
        let sql = sql.ok_or_else(|| Error::internal("a type without a name"))?;
        let sql = if sql == "character varying" { "text".into() } else { sql };
        Ok(format!("{} {sql}", quoted_name(field.name())))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(format!("CREATE TABLE {name} ({})", columns.join(", ")))
}

/// Finds the column of the table for each column of the data.
fn plan(table: &Table, schema: &Schema, options: AppendOptions) -> Result<Plan> {
    let mut targets: Vec<&TableColumn> = Vec::new();
    if options.by_name {
        for field in schema.fields() {
            let found = table.columns.iter().find(|column| column.described.name == *field.name());
            targets.push(found.ok_or_else(|| {
                let names = table.columns.iter().map(|column| column.described.name.as_str());
                let suggestion = did_you_mean(field.name(), names);
                let message =
                    format!("the table {} has no column \"{}\"{suggestion}", table.name, field.name());
                Error::new(ErrorKind::UnknownName, message).with_sqlstate("42703")
            })?);
        }
    } else {
        targets.extend(table.columns.iter().filter(|column| !column.is_generated));
        let (wanted, given) = (targets.len(), schema.fields().len());
        if wanted != given {
            let message = format!("the table {} has {wanted} columns, and the data {given}", table.name);
            return Err(Error::invalid_input(message));
        }
    }
    let named: Vec<(String, Target)> = targets
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| {
            let target = Target::new(column.described.oid, field.data_type());
            (column.described.name.clone(), target)
        })
        .collect();
    let is_binary = named.iter().all(|(_, target)| target.is_binary());
    let columns: Vec<String> = named.iter().map(|(name, _)| quoted_name(name)).collect();
    let form = if is_binary { "binary" } else { "text" };
    let list = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
    let sql = format!("COPY {}{list} FROM STDIN (FORMAT {form})", table.name);
    Ok(Plan { sql, targets: named, is_binary })
}

/// Sends the rows, and waits for the end.
fn copy(
    link: &mut Link,
    plan: &Plan,
    data: &mut Box<dyn RecordBatchReader + Send>,
    told: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut writer = Writer::default();
    writer.query(&plan.sql);
    link.send(&writer)?;
    loop {
        let message = link.receive()?;
        match message.kind {
            b'G' => break,
            b'E' => {
                let error = link.failed(message);
                return link.fail(error);
            }
            _ => {}
        }
    }
    let sent = send(link, plan, data, told);
    let mut end = Writer::default();
    match &sent {
        Ok(_) => end.copy_done(),
        Err(_) if link.is_broken() || !link.running => return sent,
        Err(error) => end.copy_fail(&error.message().replace('\0', "")),
    };
    link.send_part(end.bytes())?;
    match (link.finish(), sent) {
        (Ok(()), Ok(rows)) => Ok(rows),
        // The server only repeats why this side has given up.
        (_, Err(error)) if error.sqlstate() != STOPPED => Err(error),
        (Err(error), _) => Err(with_place(link, error)),
        (Ok(()), Err(_)) => Err(Error::interrupted()),
    }
}

/// The code of an error by which sending stops because the server has sent one.
const STOPPED: &str = "57000";

/// Puts the row and the column that the server names in front of its message.
fn with_place(link: &Link, error: Error) -> Error {
    let copied = link.failure.as_ref().and_then(|failure| failure.copied());
    match copied {
        Some((row, Some(column))) => error.context(format!("row {row}, column \"{column}\"")),
        Some((row, None)) => error.context(format!("row {row}")),
        None => error,
    }
}

/// Sends the batches in messages.
fn send(
    link: &mut Link,
    plan: &Plan,
    data: &mut Box<dyn RecordBatchReader + Send>,
    told: &mut dyn FnMut(u64),
) -> Result<u64> {
    let mut out = BytesMut::with_capacity(MESSAGE_BYTES);
    if plan.is_binary {
        out.put_slice(HEADER);
    }
    let mut rows = 0;
    for batch in data {
        let batch = batch.map_err(of_data)?;
        put_batch(link, plan, &batch, rows, &mut out)?;
        rows += batch.num_rows() as u64;
        told(batch.num_rows() as u64);
    }
    if plan.is_binary {
        out.put_slice(&TRAILER);
    }
    flush(link, &mut out)?;
    Ok(rows)
}

/// Returns the error of the data, which may be one of ours inside Arrow's.
fn of_data(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(error) => *error,
            Err(other) => Error::invalid_input(format!("the data to append: {other}")),
        },
        other => Error::invalid_input(format!("the data to append: {other}")),
    }
}

/// Writes the rows of a batch, and sends what is enough for a message.
fn put_batch(
    link: &mut Link,
    plan: &Plan,
    batch: &RecordBatch,
    before: u64,
    out: &mut BytesMut,
) -> Result<()> {
    if batch.num_columns() != plan.targets.len() {
        return Err(Error::invalid_input("a batch has other columns than its stream"));
    }
    let encoded = encode(plan, batch, before)?;
    let count =
        u16::try_from(encoded.len()).map_err(|_| Error::invalid_input("the data has too many columns"))?;
    for row in 0..batch.num_rows() {
        match plan.is_binary {
            true => {
                out.put_u16(count);
                for (column, (name, _)) in encoded.iter().zip(&plan.targets) {
                    let place = || format!("row {}, column \"{name}\"", before + row as u64 + 1);
                    column.put(row, out).map_err(|error| error.context(place()))?;
                }
            }
            false => put_text_row(&encoded, row, out),
        }
        if out.len() >= MESSAGE_BYTES {
            flush(link, out)?;
        }
    }
    Ok(())
}

/// Brings the columns of a batch into the forms of their targets. An error names the first row that
/// has it.
fn encode(plan: &Plan, batch: &RecordBatch, before: u64) -> Result<Vec<Encoded>> {
    let encoded = |(array, (name, target)): (&arrow_array::ArrayRef, &(String, Target))| {
        let encode = |array: &arrow_array::ArrayRef| {
            check_whole(array, name, *target).and_then(|()| Encoded::new(array, name, *target))
        };
        encode(array).map_err(|error| {
            let fails = |row: &usize| encode(&array.slice(*row, 1)).is_err();
            match (0..array.len()).find(fails) {
                Some(row) => error.context(format!("row {}", before + row as u64 + 1)),
                None => error,
            }
        })
    };
    batch.columns().iter().zip(&plan.targets).map(encoded).collect()
}

/// Writes a row of COPY in text: values with tabs between them, and a backslash before what would be
/// taken for something else.
fn put_text_row(encoded: &[Encoded], row: usize, out: &mut BytesMut) {
    let mut value = BytesMut::new();
    for (index, column) in encoded.iter().enumerate() {
        if index > 0 {
            out.put_u8(b'\t');
        }
        if column.is_null(row) {
            out.put_slice(b"\\N");
            continue;
        }
        value.clear();
        column.put_text(row, &mut value);
        for byte in &value {
            match byte {
                b'\\' => out.put_slice(b"\\\\"),
                b'\n' => out.put_slice(b"\\n"),
                b'\r' => out.put_slice(b"\\r"),
                b'\t' => out.put_slice(b"\\t"),
                other => out.put_u8(*other),
            }
        }
    }
    out.put_u8(b'\n');
}

/// Sends what is written, unless the server has said that it is of no use.
fn flush(link: &mut Link, out: &mut BytesMut) -> Result<()> {
    let mut writer = Writer::default();
    writer.message(b'd', |to| to.extend_from_slice(out));
    out.clear();
    link.send_part(writer.bytes())?;
    link.look()?;
    if link.is_interrupted() || link.has_failed()? {
        return Err(
            Error::new(ErrorKind::Interrupted, "the server takes no more rows").with_sqlstate(STOPPED)
        );
    }
    Ok(())
}
