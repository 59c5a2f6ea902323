//! Runs statements: it describes them, and chooses by which messages their rows come.

use crate::address::{Numeric, Transfer};
use crate::columns::{self, Columns};
use crate::decode::{Copy, Rows};
use crate::encode::{Encoded, Target, as_constants, declared, put_length};
use crate::incoming::Incoming;
use crate::link::Link;
use crate::message::{Cursor, Writer, check_text};
use crate::statement::{Nature, Statement};
use crate::stream::Message;
use crate::types::{Described, Shape, add_dimensions, shapes};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use bytes::BytesMut;
use hypostyle_client::Transaction;
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::Codec;
use std::sync::Arc;

/// What comes in front of a query that COPY runs.
const COPY_BEFORE: &str = "COPY (";
const COPY_AFTER: &str = "\n) TO STDOUT (FORMAT binary)";

/// Errors at which the server may find other types for the parameters than those declared: there is
/// no such function or operator, or several, or a type does not go with another.
const TYPE_ERRORS: [&str; 4] = ["42883", "42725", "42804", "42846"];

/// The error at a format of COPY that no extension of the session has made known.
const UNKNOWN_FORMAT: &str = "22023";

/// Such an error leaves a transaction as it was at a savepoint.
const SAVE: &str = "SAVEPOINT hypostyle_types";
const RELEASE: &str = "RELEASE SAVEPOINT hypostyle_types";
const GO_BACK: &str = "ROLLBACK TO SAVEPOINT hypostyle_types; RELEASE SAVEPOINT hypostyle_types";

/// What the server says of a statement that has not run.
pub struct Prepared {
    /// The types of the parameters.
    pub parameters: Vec<u32>,
    /// The columns of its rows, if it has some.
    pub columns: Option<Vec<Described>>,
}

/// How rows come.
#[derive(Clone, Copy, Debug)]
pub struct Choices {
    pub numeric: Numeric,
    pub transfer: Transfer,
    pub codec: Codec,
}

/// A statement that has begun.
pub enum Begun {
    /// Rows will come.
    Rows(Box<Incoming>),
    /// It is over, and has written some rows.
    Done(Option<u64>),
}

/// Values for the parameters of a statement, in the forms that were chosen for them.
#[derive(Default)]
struct Bound {
    types: Vec<u32>,
    formats: Vec<bool>,
    values: BytesMut,
}

/// Describes a statement, with the types of its parameters; 0 for those that the server is to find.
///
/// # Errors
/// Those of the server.
pub fn describe(link: &mut Link, sql: &str, types: &[u32]) -> Result<Prepared> {
    let mut writer = Writer::default();
    writer.parse(sql, types).describe_statement().sync();
    described(link, &writer)
}

/// The same, where an error can be undone by [`go_back`] within a transaction. The savepoint takes no
/// round trip of its own.
fn try_describe(link: &mut Link, sql: &str, types: &[u32]) -> Result<Prepared> {
    if link.transaction == Transaction::None {
        return describe(link, sql, types);
    }
    let mut writer = Writer::default();
    writer.parse(SAVE, &[]).bind(&[], &[], &[]).execute();
    writer.parse(sql, types).describe_statement();
    writer.parse(RELEASE, &[]).bind(&[], &[], &[]).execute().sync();
    described(link, &writer)
}

/// Leaves a transaction as it was before the error of [`try_describe`].
fn go_back(link: &mut Link) -> Result<()> {
    match link.transaction {
        Transaction::Failed => link.select(GO_BACK).map(drop),
        Transaction::None | Transaction::Open => Ok(()),
    }
}

/// Sends what describes a statement, and reads the answer.
fn described(link: &mut Link, writer: &Writer) -> Result<Prepared> {
    link.send(writer)?;
    let mut prepared = Prepared { parameters: Vec::new(), columns: None };
    loop {
        let message = link.receive()?;
        let body = link.stream.body(message);
        match message.kind {
            b't' => {
                let parameters = parameters(body);
                prepared.parameters = link.keep_protocol(parameters)?;
            }
            b'T' => {
                let columns = columns(body);
                prepared.columns = Some(link.keep_protocol(columns)?);
            }
            b'E' => {
                let error = link.failed(message);
                return link.fail(error);
            }
            b'Z' => return Ok(prepared),
            _ => {}
        }
    }
}

fn parameters(body: &[u8]) -> Result<Vec<u32>> {
    let mut cursor = Cursor(body);
    let count = cursor.count(4)?;
    (0..count).map(|_| cursor.u32()).collect()
}

fn columns(body: &[u8]) -> Result<Vec<Described>> {
    /// The bytes of a column without its name, and with the zero that ends the name.
    const COLUMN_BYTES: usize = 19;
    let mut cursor = Cursor(body);
    let count = cursor.count(COLUMN_BYTES)?;
    let column = |_| {
        let name = cursor.text()?.to_string();
        let (table, number, oid) = (cursor.u32()?, cursor.i16()?, cursor.u32()?);
        let (_bytes, modifier, _format) = (cursor.i16()?, cursor.i32()?, cursor.i16()?);
        Ok(Described { name, table, number, oid, modifier, dimensions: 0, is_nullable: true })
    };
    (0..count).map(column).collect()
}

/// Returns the schema of described columns, and the shapes of their values.
///
/// # Errors
/// Those of the queries for types.
pub fn schema(
    link: &mut Link,
    columns: &mut [Described],
    numeric: Numeric,
) -> Result<(SchemaRef, Vec<Shape>)> {
    add_dimensions(link, columns)?;
    let shapes = shapes(link, columns, numeric)?;
    let fields: Vec<_> =
        columns.iter().zip(&shapes).map(|(column, shape)| shape.field(&column.name, true)).collect();
    Ok((Arc::new(Schema::new(fields)), shapes))
}

/// Runs a statement to its end, without its rows.
///
/// # Errors
/// Those of the server, at their place in the whole text.
pub fn run_before_last(link: &mut Link, statement: Statement<'_>) -> Result<()> {
    let mut writer = Writer::default();
    writer.query(statement.text);
    link.send(&writer)?;
    if statement.may_change_types() {
        link.forget();
    }
    let ended = match statement.nature() {
        Nature::Command => finish_command(link, statement).map(drop),
        Nature::Query | Nature::Perhaps => link.finish(),
    };
    ended.map_err(|error| moved(error, statement.before, 0))
}

/// Begins the last statement of a text. `row` has its parameters.
///
/// # Errors
/// Those of the server, at their place in the whole text.
pub fn run(
    link: &mut Link,
    statement: Statement<'_>,
    row: Option<&RecordBatch>,
    mut choices: Choices,
) -> Result<Begun> {
    check_text(statement.text, "the statement")?;
    if statement.may_change_types() {
        link.forget();
    }
    let row = row.filter(|row| row.num_columns() > 0);
    if statement.nature() == Nature::Command && row.is_none() {
        return run_command(link, statement);
    }
    let at_place = |error| moved(error, statement.before, 0);
    let (prepared, bound) = match row {
        Some(row) => bind(link, statement.text, row).map_err(at_place)?,
        None => (describe(link, statement.text, &[]).map_err(at_place)?, Bound::default()),
    };
    if prepared.parameters.len() != bound.formats.len() {
        let (wanted, given) = (prepared.parameters.len(), bound.formats.len());
        let message = format!("the statement has {wanted} parameters, and {given} values are given");
        return Err(Error::invalid_input(message).with_sqlstate("08P01"));
    }
    let Some(mut columns) = prepared.columns else {
        send_rows(link, statement, &bound, &[])?;
        return finish_command(link, statement).map_err(at_place);
    };
    if choices.numeric == Numeric::Auto
        && !columns::find_digits(link, statement, &prepared.parameters, &mut columns)?
    {
        choices.numeric = Numeric::Text;
    }
    let (schema, shapes) = schema(link, &mut columns, choices.numeric)?;
    let is_query = statement.nature() == Nature::Query && !columns.is_empty();
    let may_be_columns =
        choices.transfer == Transfer::Columns || !shapes.iter().any(Shape::is_other_in_columns);
    if is_query && may_be_columns && takes_columns(link, choices.transfer)? {
        match run_columns(link, statement, &prepared.parameters, &bound, &schema, choices) {
            // It was dropped meanwhile.
            Err(error) if choices.transfer == Transfer::Auto && is_not_spoken(link, &error) => {
                link.speaks_columns = Some(false);
            }
            begun => return begun.map_err(at_place),
        }
    }
    let rows = Rows::new(schema, &shapes);
    let may_copy = is_query && bound.formats.is_empty() && choices.transfer != Transfer::Rows;
    match copy_text(statement, &shapes).filter(|_| may_copy) {
        Some((text, before)) => {
            let mut writer = Writer::default();
            writer.query(&text);
            link.sent_before = before;
            link.send(&writer)?;
            await_rows(link).map_err(|error| moved(error, statement.before, before))?;
            Ok(Begun::Rows(Box::new(Incoming::Copy(Copy::default(), rows))))
        }
        None => {
            send_rows(link, statement, &bound, &shapes)?;
            await_rows(link).map_err(at_place)?;
            Ok(Begun::Rows(Box::new(Incoming::Rows(rows))))
        }
    }
}

/// Says whether rows come in columns.
///
/// # Errors
/// `Unsupported` if they must and the server has not the extension.
fn takes_columns(link: &mut Link, transfer: Transfer) -> Result<bool> {
    match transfer {
        Transfer::Copy | Transfer::Rows => Ok(false),
        Transfer::Auto => columns::are_spoken(link),
        Transfer::Columns if columns::are_spoken(link)? => Ok(true),
        Transfer::Columns => Err(Error::unsupported(
            "the database has not the extension \"hypostyle\", which transfer=columns asks for: CREATE \
             EXTENSION hypostyle, or leave the choice to transfer=auto",
        )),
    }
}

/// Says whether an error tells that the extension is not there, and has changed nothing.
fn is_not_spoken(link: &Link, error: &Error) -> bool {
    link.transaction == Transaction::None
        && (error.sqlstate() == "42883" && error.message().contains("hypostyle_protocol")
            || error.message().contains("COPY format \"hypostyle\""))
}

/// Says whether an error tells that the extension is not loaded, and has changed nothing. What the query
/// itself computes may have the same state.
fn is_not_loaded(link: &Link, error: &Error) -> bool {
    let is_of_format = error.sqlstate() == UNKNOWN_FORMAT && error.message().contains("hypostyle");
    is_of_format && link.transaction == Transaction::None
}

/// Begins a query whose rows come in the frames of the extension, which one statement has to load before.
/// Beyond a pooler, another server may answer the next one. Outside a transaction nothing has happened then.
fn run_columns(
    link: &mut Link,
    statement: Statement<'_>,
    types: &[u32],
    bound: &Bound,
    described: &Schema,
    choices: Choices,
) -> Result<Begun> {
    let (text, before) = columns::copy_text(statement, choices.numeric, choices.codec, &link.stream.origin());
    let message = |before_copy: Option<&str>| {
        let mut writer = Writer::default();
        if types.is_empty() {
            let load = before_copy.map(|load| format!("{load};")).unwrap_or_default();
            writer.query(&format!("{load}{text}"));
            return (writer, before + load.len());
        }
        if let Some(load) = before_copy {
            writer.parse(load, &[]).bind(&[], &[], &[]).execute();
        }
        writer.parse(&text, types).bind(&bound.formats, &bound.values, &[]).execute().sync();
        (writer, before)
    };
    if link.has_loaded && link.transaction == Transaction::None {
        match begin_columns(link, message(None), described) {
            Err(error) if is_not_loaded(link, &error) => link.failure = None,
            begun => return begun,
        }
    }
    let begun = begin_columns(link, message(Some(columns::LOAD)), described)?;
    link.has_loaded = true;
    Ok(begun)
}

/// Sends what begins a query in columns, with the number of characters before it, and takes the first frame.
fn begin_columns(link: &mut Link, (message, before): (Writer, usize), described: &Schema) -> Result<Begun> {
    link.sent_before = before;
    link.send(&message)?;
    let first = await_first_frame(link).map_err(|error| moved(error, 0, before))?;
    let columns = Columns::new(link.stream.body(first), described);
    let columns = link.keep_protocol(columns)?;
    Ok(Begun::Rows(Box::new(Incoming::Columns(columns))))
}

/// Waits for the first frame of a result in columns, past the answer of what loads the extension.
fn await_first_frame(link: &mut Link) -> Result<Message> {
    loop {
        let message = link.receive()?;
        match message.kind {
            b'd' => return Ok(message),
            b'1' | b'2' | b'T' | b'D' | b'C' | b'H' => {}
            b'E' => {
                let error = link.failed(message);
                return link.fail(error);
            }
            other => {
                let error =
                    Error::protocol(format!("a message {:?} where frames must be", char::from(other)));
                return link.keep_protocol(Err(error));
            }
        }
    }
}

/// Returns the text of the COPY that runs a query, and the number of characters before the query in
/// it. Columns whose binary form is not read here are cast to text.
fn copy_text(statement: Statement<'_>, shapes: &[Shape]) -> Option<(String, usize)> {
    if !shapes.iter().any(Shape::is_shown) {
        return Some((format!("{COPY_BEFORE}{}{COPY_AFTER}", statement.text), COPY_BEFORE.len()));
    }
    // A statement that writes within WITH must be the outermost one.
    if statement.text.get(..4).is_some_and(|word| word.eq_ignore_ascii_case("with")) {
        return None;
    }
    let casts: Vec<String> = (1..)
        .zip(shapes)
        .map(|(number, shape)| {
            let column = format!("c{number}");
            if shape.is_shown() { shape.as_text(&column) } else { column }
        })
        .collect();
    let names: Vec<String> = (1..=shapes.len()).map(|number| format!("c{number}")).collect();
    let before = format!("{COPY_BEFORE}SELECT {} FROM (", casts.join(","));
    let text = format!("{before}{}\n) AS q ({}){COPY_AFTER}", statement.text, names.join(","));
    Some((text, before.len()))
}

/// Sends a statement whose rows come by the extended protocol. It is given to the server again,
/// because a pooler may have another server for each transaction.
fn send_rows(link: &mut Link, statement: Statement<'_>, bound: &Bound, shapes: &[Shape]) -> Result<()> {
    let formats: Vec<bool> = shapes.iter().map(|shape| !shape.is_shown()).collect();
    let mut writer = Writer::default();
    writer.parse(statement.text, &bound.types).bind(&bound.formats, &bound.values, &formats).execute().sync();
    link.send(&writer)
}

/// Waits for the answer of a statement that returns rows.
fn await_rows(link: &mut Link) -> Result<()> {
    loop {
        let message = link.receive()?;
        match message.kind {
            // The beginning of COPY, or the end of Bind.
            b'H' | b'2' => return Ok(()),
            b'E' => {
                let error = link.failed(message);
                return link.fail(error);
            }
            b'1' => {}
            other => {
                let error = Error::protocol(format!("a message {:?} where rows must be", char::from(other)));
                return link.keep_protocol(Err(error));
            }
        }
    }
}

/// Runs a statement that returns no rows and has no parameters.
fn run_command(link: &mut Link, statement: Statement<'_>) -> Result<Begun> {
    let mut writer = Writer::default();
    writer.query(statement.text);
    link.send(&writer)?;
    finish_command(link, statement).map_err(|error| moved(error, statement.before, 0))
}

/// What the server tells of a COMMIT in a transaction that an error has aborted.
const ROLLED_BACK: &[u8] = b"ROLLBACK\0";

/// Waits for the end of a statement that returns no rows. The server rolls a transaction that an error has
/// aborted back at its COMMIT, without an error; here it is one, because nothing of it took effect.
fn finish_command(link: &mut Link, statement: Statement<'_>) -> Result<Begun> {
    let (mut rows, mut failed) = (None, None);
    loop {
        let message = link.receive()?;
        match message.kind {
            b'C' => {
                let tag = link.stream.body(message);
                rows = affected(tag);
                if tag == ROLLED_BACK && !statement.rolls_back() {
                    let message = "the transaction was rolled back, because an error had aborted it";
                    failed = Some(Error::new(ErrorKind::TransactionState, message).with_sqlstate("25P02"));
                }
            }
            b'E' => {
                let error = link.failed(message);
                return link.fail(failed.unwrap_or(error));
            }
            b'G' => {
                let why = "rows are appended by this client's own function, not by COPY FROM STDIN";
                let mut writer = Writer::default();
                writer.copy_fail(why);
                failed = Some(Error::unsupported(why));
                link.send_part(writer.bytes())?;
            }
            b'H' => {
                let why = "COPY TO STDOUT gives no result here: run the query itself";
                failed = Some(Error::unsupported(why));
            }
            b'Z' => return failed.map_or(Ok(Begun::Done(rows)), Err),
            _ => {}
        }
    }
}

/// Returns the number of rows of a command's tag, such as `INSERT 0 5`.
pub fn affected(body: &[u8]) -> Option<u64> {
    let tag = std::str::from_utf8(body.strip_suffix(&[0])?).ok()?;
    tag.rsplit_once(' ')?.1.parse().ok()
}

/// Returns the number of rows of a command's tag if the command writes rows.
pub fn written(body: &[u8]) -> Option<u64> {
    let words = [b"INSERT ".as_slice(), b"UPDATE ", b"DELETE ", b"MERGE "];
    affected(body).filter(|_| words.iter().any(|word| body.starts_with(word)))
}

/// Describes a statement with parameters. Returns also the types that it was given for them: those of the
/// values, else those of the same constants in SQL, else none, so that the server finds all. Within a
/// transaction it is as without one; the error of all tries is that of the first, and aborts it.
fn find_types(link: &mut Link, sql: &str, row: &RecordBatch) -> Result<(Prepared, Vec<u32>)> {
    let types: Vec<u32> = row.schema().fields().iter().map(|field| declared(field)).collect();
    let is_known = link.typed.as_ref().is_some_and(|(text, known)| text == sql && *known == types);
    let first = match is_known {
        true => describe(link, sql, &types),
        false => try_describe(link, sql, &types),
    };
    let error = match first {
        Ok(prepared) => {
            if !is_known {
                link.typed = Some((sql.to_string(), types.clone()));
            }
            return Ok((prepared, types));
        }
        Err(error) if is_known && link.transaction != Transaction::None => return Err(error),
        Err(error) if !TYPE_ERRORS.contains(&error.sqlstate()) => return Err(error),
        Err(error) => error,
    };
    let failure = link.failure.take();
    let constants = row.columns().iter().zip(&types).map(|(values, oid)| as_constants(values, *oid));
    let constants: Vec<u32> = constants.collect();
    if constants != types {
        go_back(link)?;
        if let Ok(prepared) = try_describe(link, sql, &constants) {
            return Ok((prepared, constants));
        }
    }
    go_back(link)?;
    describe(link, sql, &[]).map(|prepared| (prepared, Vec::new())).map_err(|_| {
        link.failure = failure;
        error
    })
}

/// Describes a statement with parameters, and brings their values into the types that the server
/// tells.
fn bind(link: &mut Link, sql: &str, row: &RecordBatch) -> Result<(Prepared, Bound)> {
    let (prepared, types) = find_types(link, sql, row)?;
    let mut bound = Bound { types, ..Bound::default() };
    for (index, (array, oid)) in row.columns().iter().zip(&prepared.parameters).enumerate() {
        let target = Target::new(*oid, array.data_type());
        let encoded = Encoded::new(array, &format!("${}", index + 1), target)?;
        bound.formats.push(target.is_binary());
        if target.is_binary() || encoded.is_null(0) {
            encoded.put(0, &mut bound.values)?;
            continue;
        }
        let start = bound.values.len();
        bound.values.extend_from_slice(&[0; 4]);
        encoded.put_text(0, &mut bound.values);
        put_length(start, &mut bound.values);
    }
    if row.num_columns() != prepared.parameters.len() {
        bound.formats.resize(row.num_columns(), false);
    }
    Ok((prepared, bound))
}

/// Moves the place of an error: the statement is after some characters of the program's text, and
/// was sent after some others.
pub fn moved(error: Error, before: usize, sent_before: usize) -> Error {
    match error.position() {
        None => error,
        Some(position) if position <= sent_before => error.nowhere(),
        Some(position) => error.at(position - sent_before + before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::split;

    #[test]
    fn errors_are_at_their_place_in_the_program_s_text() {
        let error = || Error::invalid_input("x").at(10);
        assert_eq!(moved(error(), 5, 0).position(), Some(15));
        assert_eq!(moved(error(), 5, 6).position(), Some(9));
        assert_eq!(moved(error(), 0, 10).position(), None);
    }

    #[test]
    fn tags_tell_the_rows() {
        assert_eq!(affected(b"INSERT 0 5\0"), Some(5));
        assert_eq!(affected(b"UPDATE 7\0"), Some(7));
        assert_eq!(affected(b"CREATE TABLE\0"), None);
        assert_eq!(affected(b"\xff"), None);
        assert_eq!((written(b"INSERT 0 5\0"), written(b"MERGE 2\0")), (Some(5), Some(2)));
        assert_eq!((written(b"SELECT 5\0"), written(b"COPY 5\0")), (None, None));
    }

    #[test]
    fn what_is_told_of_columns_may_be_cut() {
        let mut body = vec![0, 1];
        body.extend_from_slice(b"a\0");
        body.extend_from_slice(&[0, 0, 0, 1, 0, 2, 0, 0, 0, 23, 0, 4, 255, 255, 255, 255, 0, 0]);
        let column = Described {
            name: "a".into(),
            table: 1,
            number: 2,
            oid: 23,
            modifier: -1,
            dimensions: 0,
            is_nullable: true,
        };
        assert_eq!(columns(&body).unwrap(), [column]);
        for length in 0..body.len() {
            assert!(columns(&body[..length]).is_err());
        }
        assert!(parameters(&[0, 2, 0, 0, 0, 1]).is_err());
    }

    #[test]
    fn columns_without_a_binary_form_are_cast() {
        let statement = split("SELECT a, b -- c", true)[0];
        let int = Shape { kind: crate::types::Kind::Int4, name: None };
        let inet = Shape { kind: crate::types::Kind::Shown, name: Some("inet".into()) };
        let (text, before) = copy_text(statement, &[int, inet.clone()]).unwrap();
        assert_eq!(
            text,
            "COPY (SELECT c1,pg_catalog.textin(pg_catalog.inet_out(c2)) FROM (SELECT a, b -- c\n\
             ) AS q (c1,c2)\n) TO STDOUT (FORMAT binary)"
        );
        assert_eq!(&text[before..before + 6], "SELECT");
        let with = split("WITH w AS (DELETE FROM t RETURNING a) TABLE w", true)[0];
        assert!(copy_text(with, &[inet]).is_none());
    }
}
