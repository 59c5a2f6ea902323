//! Statements: at once, or prepared with parameters.

use crate::call::{Slot, answer, call, check_place, give, give_handle, read_struct, write_struct};
use crate::connecting::Connection;
use crate::handle::{Handle, Kind};
use crate::imported::rows_of;
use crate::layout::{BY_NAME, Column, Value};
use crate::results::QueryRows;
use crate::text::{misuse, text};
use crate::value::scalar;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use arrow::record_batch::RecordBatchReader;
use hypostyle::lexer::{TokenKind, tokens};
use hypostyle::{
    CancelMark, DriverSession, Error, ErrorKind, Executed, LogicalType, Parameters, QueryResult, Result,
    ScalarValue, StatementKind,
};
use hypostyle_sync::Mutex;
use std::ffi::{CString, c_char};
use std::sync::{Arc, OnceLock};

/// `hypostyle_statement`.
pub struct Statement {
    session: Arc<DriverSession>,
    statement: hypostyle::Statement,
    names: Vec<String>,
    bound: Mutex<Bound>,
    /// The parameters as the database has told them, with texts for C.
    told: OnceLock<Vec<Told>>,
}

impl Kind for Statement {
    const MAGIC: u64 = 0x4859_504f_0000_0004;
    const NAME: &'static str = "statement";
}

/// What is bound to a statement.
#[derive(Default)]
struct Bound {
    /// A value for each parameter.
    values: Vec<Option<ScalarValue>>,
    /// Rows for the next execution, and whether they are matched by name.
    rows: Option<(Box<dyn RecordBatchReader + Send>, bool)>,
}

/// A column or parameter with its texts for C.
pub struct Told {
    name: Option<CString>,
    type_name: CString,
    logical_type: Option<LogicalType>,
    nullable: bool,
}

impl Told {
    pub fn new(name: Option<&str>, logical_type: Option<LogicalType>, nullable: bool) -> Self {
        let type_name = logical_type.as_ref().map(ToString::to_string).unwrap_or_default();
        Self {
            name: name.map(crate::text::c_text),
            type_name: crate::text::c_text(&type_name),
            logical_type,
            nullable,
        }
    }

    /// Returns what C is told; its texts stay here.
    pub fn column(&self) -> Column {
        let (of, precision, scale) = self.logical_type.as_ref().map_or((0, 0, 0), crate::value::type_of);
        let name = self.name.as_deref();
        Column {
            size: size_of::<Column>() as u32,
            of,
            name: name.map_or(std::ptr::null(), std::ffi::CStr::as_ptr),
            name_length: name.map_or(0, std::ffi::CStr::count_bytes),
            type_name: self.type_name.as_ptr(),
            type_name_length: self.type_name.count_bytes(),
            precision,
            scale,
            nullable: i32::from(self.nullable),
            reserved: 0,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_execute(
    connection: *mut Handle<Connection>,
    sql: *const c_char,
    length: usize,
    result: *mut *mut Handle<QueryRows>,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let (session, sql) = unsafe { (&Handle::get(connection)?.0, text(sql, length, "the SQL")?) };
        let mark = CancelMark::default();
        let rows = session.step(|| session.execute(&mark, sql, Parameters::None))?;
        // SAFETY: the header says what it is.
        unsafe { give_result(result, session, rows) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// Gives a result to a caller who wants it. Otherwise its rows are computed, and nobody gets them.
///
/// # Safety
/// `out` is NULL or a place for a handle.
unsafe fn give_result(
    out: *mut *mut Handle<QueryRows>,
    session: &Arc<DriverSession>,
    result: QueryResult,
) -> Result<()> {
    if out.is_null() {
        let mark = CancelMark::default();
        while session.call(&mark, |_| result.next_unread())?.is_some() {}
        return Ok(());
    }
    // SAFETY: it is a place.
    unsafe { give_handle(out, QueryRows::new(session.clone(), result)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_next_statement(
    sql: *const c_char,
    length: usize,
    start: *mut usize,
    statement: *mut *const c_char,
    statement_length: *mut usize,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(start, "the start")?;
        check_place(statement, "the statement")?;
        check_place(statement_length, "the statement's length")?;
        // SAFETY: the header says what they are.
        let (text, from) = unsafe { (text(sql, length, "the SQL")?, start.read()) };
        let rest = text.get(from..);
        let rest = rest.ok_or_else(|| misuse(format!("the text has no place {from} to begin at")))?;
        let (found, end) = first_statement(rest);
        let begin = from + found.start;
        // SAFETY: they are places, and the statement is within the text.
        unsafe {
            statement.write(text.as_ptr().add(begin).cast());
            statement_length.write(found.len());
            start.write(from + end);
        }
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

/// Returns the first statement of a text, and where the next one may begin.
fn first_statement(sql: &str) -> (std::ops::Range<usize>, usize) {
    let mut found: Option<std::ops::Range<usize>> = None;
    for token in tokens(sql) {
        match token.kind {
            TokenKind::Comment => {}
            TokenKind::Symbol if token.is_symbol(";") => {
                if let Some(found) = found {
                    return (found, token.end());
                }
            }
            // Some editors put a mark at the start of a file.
            _ if token.text == "\u{FEFF}" => {}
            _ => {
                let begin = found.map_or(token.start, |found| found.start);
                found = Some(begin..token.end());
            }
        }
    }
    (found.unwrap_or(sql.len()..sql.len()), sql.len())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_prepare(
    connection: *mut Handle<Connection>,
    sql: *const c_char,
    length: usize,
    statement: *mut *mut Handle<Statement>,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(statement, "the statement")?;
        // SAFETY: the header says what they are.
        let (session, sql) = unsafe { (&Handle::get(connection)?.0, text(sql, length, "the SQL")?) };
        let prepared = hypostyle::Statement::new(session.clone(), sql);
        let names = prepared.parameter_names();
        let bound = Bound { values: vec![None; names.len()], rows: None };
        let prepared = Statement {
            session: session.clone(),
            statement: prepared,
            names,
            bound: Mutex::new(bound),
            told: OnceLock::new(),
        };
        // SAFETY: it is a place.
        unsafe { give_handle(statement, prepared) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_kind(statement: *const Handle<Statement>) -> i32 {
    answer(0, || {
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }.ok()?;
        Some(match statement.statement.kind() {
            StatementKind::Other => 0,
            StatementKind::Query => 1,
            StatementKind::Insert => 2,
            StatementKind::Update => 3,
            StatementKind::Delete => 4,
            StatementKind::Merge => 5,
            StatementKind::Copy => 6,
            StatementKind::Definition => 7,
            StatementKind::Transaction => 8,
        })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_parameters(statement: *const Handle<Statement>) -> usize {
    // SAFETY: the header says what it is.
    answer(0, || Some(unsafe { Handle::get(statement) }.ok()?.names.len()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_parameter(
    statement: *mut Handle<Statement>,
    index: usize,
    parameter: *mut Column,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }?;
        check_parameter(statement, index)?;
        if statement.told.get().is_none() {
            let parameters = statement.statement.parameters()?;
            let told =
                parameters.into_iter().map(|told| Told::new(told.name.as_deref(), told.logical_type, true));
            // Another thread may have been told the same.
            let _told = statement.told.set(told.collect());
        }
        let told = statement.told.get().and_then(|told| told.get(index));
        let told = told.ok_or_else(|| Error::internal("a parameter that nothing is told of"))?;
        // SAFETY: the header says what it is.
        unsafe { write_struct(parameter, told.column()) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

fn check_parameter(statement: &Statement, index: usize) -> Result<()> {
    match statement.names.len() {
        count if index < count => Ok(()),
        count => Err(misuse(format!("no parameter {index}: the statement has {count} parameters"))),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_parameter_index(
    statement: *const Handle<Statement>,
    name: *const c_char,
    length: usize,
    index: *mut usize,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let (statement, name) = unsafe { (Handle::get(statement)?, text(name, length, "the name")?) };
        let place = statement.names.iter().position(|known| known == name);
        let place = place.ok_or_else(|| {
            let known = statement.names.join(", ");
            Error::new(ErrorKind::UnknownName, format!("no parameter \"{name}\"; the statement has {known}"))
                .with_sqlstate("42P02")
        })?;
        // SAFETY: the header says what it is.
        unsafe { give(index, place, "the index") }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_schema(
    statement: *mut Handle<Statement>,
    schema: *mut FFI_ArrowSchema,
    error: Slot,
) -> i32 {
    let work = || {
        check_place(schema, "the schema")?;
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }?;
        let told = statement.statement.schema(None, false)?;
        // SAFETY: it is a place.
        unsafe { crate::results::give_schema(schema, &told) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_bind(
    statement: *mut Handle<Statement>,
    index: usize,
    value: *const Value,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what they are.
        let (statement, value) = unsafe { (Handle::get(statement)?, read_struct(value)?) };
        check_parameter(statement, index)?;
        // SAFETY: the header says what its data is.
        let value = unsafe { scalar(&value) }?;
        let mut bound = statement.bound.lock();
        bound.values[index] = Some(value);
        bound.rows = None;
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_bind_stream(
    statement: *mut Handle<Statement>,
    rows: *mut FFI_ArrowArrayStream,
    flags: u32,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is; it is taken also when the statement is none.
        let rows = unsafe { rows_of(rows) }?;
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }?;
        statement.bound.lock().rows = Some((Box::new(rows), flags & BY_NAME != 0));
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_clear_bindings(statement: *mut Handle<Statement>, error: Slot) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }?;
        let mut bound = statement.bound.lock();
        bound.values.fill(None);
        bound.rows = None;
        Ok(())
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_execute(
    statement: *mut Handle<Statement>,
    result: *mut *mut Handle<QueryRows>,
    error: Slot,
) -> i32 {
    let work = || {
        // SAFETY: the header says what it is.
        let statement = unsafe { Handle::get(statement) }?;
        let rows = execute(statement)?;
        // SAFETY: the header says what it is.
        unsafe { give_result(result, &statement.session, rows) }
    };
    // SAFETY: the header says what it is.
    unsafe { call(error, work) }
}

fn execute(statement: &Statement) -> Result<QueryResult> {
    let rows = statement.bound.lock().rows.take();
    let executed = match rows {
        Some((rows, by_name)) => statement.statement.execute_rows(rows, by_name)?,
        None => {
            let values = statement.bound.lock().values.clone();
            let missing = values.iter().position(Option::is_none);
            if let Some(missing) = missing {
                let name = &statement.names[missing];
                let message = format!("the parameter \"{name}\" has no value; bind one");
                return Err(Error::invalid_input(message).with_sqlstate("07002"));
            }
            let values = values.into_iter().flatten().collect();
            statement.statement.execute(statement.statement.parameters_of(values)?)?
        }
    };
    match executed {
        Executed::Once(result) => Ok(result),
        Executed::Written(rows) => Ok(QueryResult::written(rows)),
        Executed::Rows(mut rows) => {
            let schema = rows.schema();
            let mut batches = Vec::new();
            while let Some(batch) = rows.next_batch()? {
                batches.push(batch);
            }
            QueryResult::of_batches(schema, batches)
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn hypostyle_statement_free(statement: *mut *mut Handle<Statement>) {
    // SAFETY: the header says what it is.
    unsafe { Handle::free(statement) };
}
