//! COPY between a table and the client, in PostgreSQL's text, CSV and binary formats.

mod binary;
mod command;
pub(super) mod csv;
mod incoming;
pub(super) mod text;

use super::channel::{Failure, Input, Output};
use super::rows::Rows;
use binary::BINARY_SIGNATURE;
use bytes::{BufMut, BytesMut};
pub(super) use command::Copy;
use command::Format;
use csv::put_csv;
use hypostyle::{AppendOptions, ColumnDescription, Connection};
use hypostyle_pgtypes::Style;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, Result};
use incoming::{Delivery, Incoming};
use std::collections::HashSet;
use std::sync::Arc;
use text::put_escaped;

/// Sends rows to the client, and gives their number.
pub(super) fn send(
    connection: &Connection,
    output: &mut Output,
    style: Style,
    copy: &Copy,
) -> Result<u64, Failure> {
    let query = copy.query();
    let refused = || Failure::Statement(Error::invalid_input("COPY TO needs a query that has rows"));
    // Before it has done anything.
    let described = connection.describe(&query)?;
    if described.columns.is_none() && !described.runs_to_tell {
        return Err(refused());
    }
    let result = connection.execute(&query)?;
    if !result.is_query() {
        return Err(refused());
    }
    let mut rows = Rows::new(connection.clone(), result, None, style)?;
    let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
    let quoted = copy.of_columns(&names)?;
    let (header, copy) = (copy, &quoted);
    output.replies.copy(b'H', copy.format == Format::Binary, rows.columns.len());
    if copy.header && copy.format != Format::Binary {
        let names = rows.columns.iter().map(|column| Some(column.name.as_bytes()));
        output.replies.message(b'd', |body| put_line(body, names, header));
    }
    // Clients expect the beginning and the first row, or the end, in one message.
    let mut first = copy.format == Format::Binary;
    let mut put_beginning = |body: &mut BytesMut| {
        if std::mem::take(&mut first) {
            body.put_slice(BINARY_SIGNATURE);
            body.put_u64(0);
        }
    };
    let mut count = 0;
    while let Some(chunk) = rows.next(usize::MAX)? {
        let mut texts: Vec<BytesMut> = vec![BytesMut::new(); chunk.cells.len()];
        for row in 0..chunk.rows {
            output.replies.row(b'd', |body| match copy.format {
                Format::Binary => {
                    put_beginning(body);
                    body.put_u16(chunk.cells.len() as u16);
                    chunk.cells.iter().for_each(|cells| cells.put(row, true, body));
                }
                _ => {
                    for (cells, text) in chunk.cells.iter().zip(&mut texts) {
                        text.clear();
                        if !cells.is_null(row) {
                            cells.text(row, text);
                        }
                    }
                    let fields = chunk.cells.iter().zip(&texts);
                    let fields = fields.map(|(cells, text)| (!cells.is_null(row)).then_some(&text[..]));
                    put_line(body, fields, copy);
                }
            })?;
            output.flush_if_full()?;
        }
        count += chunk.rows as u64;
    }
    if copy.format == Format::Binary {
        output.replies.message(b'd', |body| {
            put_beginning(body);
            body.put_i16(-1);
        });
    }
    output.replies.copy_done();
    Ok(count)
}

/// One row; NULL is `None`.
fn put_line<'a>(body: &mut BytesMut, fields: impl Iterator<Item = Option<&'a [u8]>>, copy: &Copy) {
    for (index, field) in fields.enumerate() {
        if index > 0 {
            body.put_u8(copy.delimiter);
        }
        match field {
            None => body.put_slice(copy.null.as_bytes()),
            Some(text) if copy.format == Format::Csv => {
                put_csv(body, text, copy, copy.quoted.get(index).copied().unwrap_or_default());
            }
            Some(text) => put_escaped(body, text, copy.delimiter),
        }
    }
    body.put_u8(b'\n');
}

/// Appends the rows that the client sends, and gives their number. `zone`: of times that are
/// written without one.
pub(super) fn receive(
    connection: &Connection,
    input: &Arc<Mutex<Input>>,
    output: &mut Output,
    zone: String,
    copy: &Copy,
) -> Result<u64, Failure> {
    let described = connection.describe(&copy.query())?;
    let columns = described.columns.unwrap_or_default();
    check_once(&columns)?;
    // A client that is asked for rows sends them all before it reads why they are refused.
    connection.check_append(&copy.table)?;
    output.replies.copy(b'G', copy.format == Format::Binary, columns.len());
    output.flush()?;
    let rows = Incoming::new(input.clone(), connection.clone(), copy.clone(), columns, zone);
    let delivery = rows.delivery.clone();
    let options = AppendOptions { create: false, by_name: true };
    let appended = connection.append(&copy.table, Box::new(rows), options);
    let delivery = *delivery.lock();
    match appended {
        Ok(rows) if delivery == Delivery::Ended => Ok(rows),
        Ok(_) => Err(Failure::Statement(Error::internal("COPY ended before its data"))),
        Err(error) if delivery == Delivery::GivenUp => Err(Failure::GivenUp(error)),
        // While the client still sends, the session passes over the rest of it.
        Err(error) => Err(Failure::Statement(error)),
    }
}

/// # Errors
/// `Syntax` (42701) for a column that is named twice.
fn check_once(columns: &[ColumnDescription]) -> Result<()> {
    let mut names = HashSet::new();
    match columns.iter().find(|column| !names.insert(column.name.as_str())) {
        Some(ColumnDescription { name, .. }) => {
            let message = format!("column \"{name}\" specified more than once");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::csv::csv_fields;
    use super::text::text_fields;
    use super::*;
    use crate::pgwire::words::Words;

    fn copy(sql: &str) -> Copy {
        Copy::read(Words::of(sql)).unwrap().unwrap()
    }

    #[test]
    fn fields_come_back() {
        let text = copy("t TO STDOUT");
        let csv = copy("t TO STDOUT CSV");
        let fields = [Some("a\tb\\"), None, Some(""), Some("c\nd\",é"), Some("\\N")];
        let text_fields = |line: &str, copy: &Copy| text_fields(line, copy).unwrap();
        for (copy, split) in [(&text, text_fields as fn(&str, &Copy) -> _), (&csv, csv_fields)] {
            let mut line = BytesMut::new();
            put_line(&mut line, fields.iter().map(|field| field.map(str::as_bytes)), copy);
            let line = std::str::from_utf8(&line).unwrap().strip_suffix('\n').unwrap();
            let back: Vec<Option<String>> = split(line, copy);
            assert_eq!(back.iter().map(Option::as_deref).collect::<Vec<_>>(), fields, "{line}");
        }
    }

    #[test]
    fn columns_stand_in_quotes_where_that_is_asked_for() {
        for (options, expected) in [
            ("FORMAT csv, FORCE_QUOTE *", "\"x\",,\"1\"\n"),
            ("FORMAT csv, FORCE_QUOTE (c, b)", "x,,\"1\"\n"),
            ("FORMAT csv", "x,,1\n"),
        ] {
            let copy = copy(&format!("t TO STDOUT ({options})")).of_columns(&["a", "b", "c"]).unwrap();
            let mut line = BytesMut::new();
            put_line(&mut line, [Some(&b"x"[..]), None, Some(&b"1"[..])].into_iter(), &copy);
            assert_eq!(std::str::from_utf8(&line).unwrap(), expected, "{options}");
        }
        let unknown = copy("t TO STDOUT (FORMAT csv, FORCE_QUOTE (d))").of_columns(&["a"]).unwrap_err();
        assert_eq!(unknown.sqlstate(), "42703");
        for wrong in ["t TO STDOUT (FORCE_QUOTE *)", "t FROM STDIN (FORMAT csv, FORCE_QUOTE *)"] {
            assert_eq!(Copy::read(Words::of(wrong)).unwrap_err().sqlstate(), "42601", "{wrong}");
        }
    }
}
