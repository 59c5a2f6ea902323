//! Values in PostgreSQL's binary form, decoded into the buffers of Arrow arrays.

mod list;
pub(crate) mod number;

use crate::message::Cursor;
use crate::types::{Kind, Shape};
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeBinaryArray, LargeBinaryArray, LargeListArray,
    LargeStringArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow_buffer::{
    Buffer, IntervalMonthDayNano, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer, i256,
};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use hypostyle_pgtypes::calendar::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use hypostyle_types::{DAY_MICROSECONDS, Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The rows of a batch.
const BATCH_ROWS: usize = 65_536;

/// The bytes of values after which a batch has enough rows.
const BATCH_BYTES: usize = 16 << 20;

/// The version of JSON's binary form.
const JSONB_VERSION: u8 = 1;

/// The rows of a result on their way into batches.
pub struct Rows {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    /// The rows of the batches that are finished.
    before: u64,
}

impl Rows {
    pub fn new(schema: SchemaRef, shapes: &[Shape]) -> Self {
        let columns = shapes.iter().map(Column::new).collect();
        Self { schema, columns, rows: 0, bytes: 0, before: 0 }
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Decodes a row: the number of its values, and each with its length before it.
    ///
    /// # Errors
    /// `InvalidInput` with the row and the column for a value that no type of ours has;
    /// `Connection` for bytes that are no value.
    pub fn row(&mut self, cursor: &mut Cursor<'_>) -> Result<()> {
        let count = cursor.i16()?;
        self.values(count, cursor)
    }

    fn values(&mut self, count: i16, cursor: &mut Cursor<'_>) -> Result<()> {
        if usize::try_from(count) != Ok(self.columns.len()) {
            let expected = self.columns.len();
            return Err(Error::protocol(format!(
                "a row has {count} columns where {expected} were described"
            )));
        }
        let length = cursor.0.len();
        for (index, column) in self.columns.iter_mut().enumerate() {
            let value = cursor.value()?;
            if let Err(error) = column.append(value) {
                let row = self.before + self.rows as u64 + 1;
                let name = self.schema.fields().get(index).map_or("", |field| field.name().as_str());
                return Err(error.context(format!("row {row}, column \"{name}\"")));
            }
        }
        self.rows += 1;
        self.bytes += length - cursor.0.len();
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.rows >= BATCH_ROWS || self.bytes >= BATCH_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns the rows as a batch, and begins the next one.
    ///
    /// # Errors
    /// `InvalidInput` for text that is not UTF-8.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(self.columns.len());
        for (index, column) in self.columns.iter_mut().enumerate() {
            let array = column.finish().map_err(|error| {
                let name = self.schema.fields().get(index).map_or("", |field| field.name().as_str());
                error.context(format!("column \"{name}\""))
            })?;
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options);
        self.before += self.rows as u64;
        (self.rows, self.bytes) = (0, 0);
        batch.map_err(|error| unfit(&error))
    }
}

/// The data of COPY in binary: a header, rows, and an end.
#[derive(Default)]
pub struct Copy {
    /// The beginning of a row of which the rest has not come.
    rest: Vec<u8>,
    has_header: bool,
    is_ended: bool,
}

/// The bytes of a row at most: PostgreSQL sends one in a message of its own.
const ROW_BYTES_MAX: usize = 1 << 30;

/// The first bytes of COPY in binary.
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

impl Copy {
    /// Takes the next bytes. Rows may begin in one message and end in another.
    pub fn take(&mut self, bytes: &[u8], rows: &mut Rows) -> Result<()> {
        if self.rest.is_empty() {
            let left = self.take_whole(bytes, rows)?;
            self.rest.extend_from_slice(left);
            return Ok(());
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(bytes);
        let left = self.take_whole(&rest, rows)?.len();
        rest.drain(..rest.len() - left);
        self.rest = rest;
        check_row(left)
    }

    /// Takes the rows that are whole, and returns what is left.
    fn take_whole<'a>(&mut self, mut bytes: &'a [u8], rows: &mut Rows) -> Result<&'a [u8]> {
        if !self.has_header {
            let mut cursor = Cursor(bytes);
            let Some(left) = header(&mut cursor)? else { return Ok(bytes) };
            bytes = left;
            self.has_header = true;
        }
        while !bytes.is_empty() {
            if self.is_ended {
                return Err(Error::protocol("bytes follow the end of COPY"));
            }
            if bytes.starts_with(&[0xff, 0xff]) {
                self.is_ended = true;
                bytes = bytes.get(2..).unwrap_or_default();
                continue;
            }
            let Some(length) = row_length(bytes)? else { break };
            let (row, left) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
            rows.row(&mut Cursor(row))?;
            bytes = left;
        }
        Ok(bytes)
    }

    /// Checks that the data has come to its end.
    pub fn end(&self) -> Result<()> {
        match self.is_ended && self.rest.is_empty() {
            true => Ok(()),
            false => Err(Error::protocol("the data of COPY ends before its end")),
        }
    }
}

/// Checks the length of a row of which the end has not come.
fn check_row(bytes: usize) -> Result<()> {
    match bytes <= ROW_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::protocol("a row of COPY is longer than a gigabyte")),
    }
}

/// Reads the header, and returns what follows it if it has come whole.
fn header<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a [u8]>> {
    let known = cursor.0.len().min(SIGNATURE.len());
    if cursor.0.get(..known) != SIGNATURE.get(..known) {
        return Err(Error::protocol("the data of COPY is not in its binary form"));
    }
    let Some(fixed) = cursor.0.get(SIGNATURE.len()..SIGNATURE.len() + 8) else { return Ok(None) };
    let mut fields = Cursor(fixed);
    let (flags, extension) = (fields.u32()?, fields.u32()?);
    // The upper half of the flags is for what a reader must know.
    if flags >> 16 != 0 || extension > 1 << 16 {
        return Err(Error::protocol("the data of COPY is in a form that is not known"));
    }
    let length = SIGNATURE.len() + 8 + usize::try_from(extension).unwrap_or(usize::MAX);
    Ok(cursor.0.get(length..))
}

/// Returns the length of the row at the beginning of some bytes, if it is there whole.
fn row_length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
    let count = i16::from_be_bytes(*count);
    if count < 0 {
        return Err(Error::protocol("a row of COPY has a number of columns that it cannot have"));
    }
    for _ in 0..count {
        let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = match i32::from_be_bytes(*length) {
            -1 => 0,
            length => usize::try_from(length)
                .map_err(|_| Error::protocol("a value of COPY has a length that it cannot have"))?,
        };
        let Some(after) = after.get(length..) else { return Ok(None) };
        rest = after;
    }
    Ok(Some(bytes.len() - rest.len()))
}

/// The values of a column on their way into an array.
struct Column {
    kind: Kind,
    data_type: DataType,
    nulls: NullBufferBuilder,
    values: Values,
}

enum Values {
    Bool(BooleanBufferBuilder),
    I16(Vec<i16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    I128(Vec<i128>),
    I256(Vec<i256>),
    Interval(Vec<IntervalMonthDayNano>),
    Uuid(Vec<u8>),
    Bytes(Vec<i64>, Vec<u8>),
    Enum(Vec<i32>, Labels),
    List(Vec<i64>, Box<Column>),
    Struct(Vec<Column>),
}

/// The labels of an enum. One that the catalog has not told is added when it comes.
struct Labels {
    labels: Vec<String>,
    index: HashMap<String, i32>,
    array: Option<ArrayRef>,
}

impl Labels {
    fn new(labels: &[String]) -> Self {
        let mut new = Self { labels: Vec::new(), index: HashMap::new(), array: None };
        for label in labels {
            new.add(label);
        }
        new
    }

    fn add(&mut self, label: &str) -> i32 {
        let key = i32::try_from(self.labels.len()).unwrap_or(i32::MAX);
        self.labels.push(label.into());
        self.index.insert(label.into(), key);
        self.array = None;
        key
    }

    fn key(&mut self, label: &str) -> i32 {
        match self.index.get(label) {
            Some(key) => *key,
            None => self.add(label),
        }
    }

    fn array(&mut self) -> ArrayRef {
        let labels = &self.labels;
        let array = || Arc::new(LargeStringArray::from_iter_values(labels)) as ArrayRef;
        self.array.get_or_insert_with(array).clone()
    }
}

impl Column {
    fn new(shape: &Shape) -> Self {
        let values = match &shape.kind {
            Kind::Bool => Values::Bool(BooleanBufferBuilder::new(0)),
            Kind::Int2 => Values::I16(Vec::new()),
            Kind::Int4 | Kind::Date => Values::I32(Vec::new()),
            Kind::Oid => Values::U32(Vec::new()),
            Kind::Int8 | Kind::Time | Kind::Timestamp | Kind::TimestampTz => Values::I64(Vec::new()),
            Kind::Float4 => Values::F32(Vec::new()),
            Kind::Float8 | Kind::NumericDouble => Values::F64(Vec::new()),
            Kind::Decimal { .. } => match shape.data_type() {
                DataType::Decimal32(_, _) => Values::I32(Vec::new()),
                DataType::Decimal64(_, _) => Values::I64(Vec::new()),
                DataType::Decimal128(_, _) => Values::I128(Vec::new()),
                _ => Values::I256(Vec::new()),
            },
            Kind::Interval => Values::Interval(Vec::new()),
            Kind::Uuid => Values::Uuid(Vec::new()),
            Kind::NumericText
            | Kind::Text
            | Kind::Char
            | Kind::Json
            | Kind::Jsonb
            | Kind::Bytes
            | Kind::Shown
            | Kind::ShownRow => Values::Bytes(vec![0], Vec::new()),
            Kind::Enum(labels) => Values::Enum(Vec::new(), Labels::new(labels)),
            Kind::List(element) => Values::List(vec![0], Box::new(Self::new(element))),
            Kind::Struct(members) => {
                Values::Struct(members.iter().map(|(_, shape)| Self::new(shape)).collect())
            }
        };
        let nulls = NullBufferBuilder::new(0);
        Self { kind: shape.kind.clone(), data_type: shape.data_type(), nulls, values }
    }

    /// Returns the number of values. It is that of the validity, which every value has.
    fn len(&self) -> usize {
        self.nulls.len()
    }

    fn append(&mut self, value: Option<&[u8]>) -> Result<()> {
        match value {
            Some(bytes) => {
                self.append_value(bytes)?;
                self.nulls.append_non_null();
            }
            None => self.append_null(),
        }
        Ok(())
    }

    /// Appends NULL. The value below it is one by which programs know a missing value.
    fn append_null(&mut self) {
        self.nulls.append_null();
        match &mut self.values {
            Values::Bool(values) => values.append(false),
            Values::I16(values) => values.push(i16::MIN),
            Values::I32(values) => values.push(i32::MIN),
            Values::U32(values) => values.push(0),
            Values::I64(values) => values.push(i64::MIN),
            Values::F32(values) => values.push(f32::NAN),
            Values::F64(values) => values.push(f64::NAN),
            Values::I128(values) => values.push(0),
            Values::I256(values) => values.push(i256::ZERO),
            Values::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Values::Uuid(values) => values.extend_from_slice(&[0; 16]),
            Values::Bytes(offsets, _) | Values::List(offsets, _) => {
                offsets.push(offsets.last().copied().unwrap_or_default());
            }
            Values::Enum(keys, _) => keys.push(0),
            Values::Struct(members) => members.iter_mut().for_each(Self::append_null),
        }
    }

    /// Appends the bytes of a value, without its validity.
    fn append_value(&mut self, bytes: &[u8]) -> Result<()> {
        if let Kind::Decimal { precision, scale } = self.kind {
            return self.append_decimal(bytes, precision, scale);
        }
        match (&mut self.values, &self.kind) {
            (Values::Bool(values), _) => values.append(fixed::<1>(bytes)? != [0]),
            (Values::I16(values), _) => values.push(i16::from_be_bytes(fixed(bytes)?)),
            (Values::I32(values), Kind::Date) => values.push(date(i32::from_be_bytes(fixed(bytes)?))?),
            (Values::I32(values), _) => values.push(i32::from_be_bytes(fixed(bytes)?)),
            (Values::U32(values), _) => values.push(u32::from_be_bytes(fixed(bytes)?)),
            (Values::I64(values), Kind::Int8) => values.push(i64::from_be_bytes(fixed(bytes)?)),
            (Values::I64(values), Kind::Time) => values.push(time(i64::from_be_bytes(fixed(bytes)?))?),
            (Values::I64(values), _) => values.push(timestamp(i64::from_be_bytes(fixed(bytes)?))?),
            (Values::F32(values), _) => values.push(f32::from_be_bytes(fixed(bytes)?)),
            (Values::F64(values), Kind::NumericDouble) => values.push(number::double(bytes)?),
            (Values::F64(values), _) => values.push(f64::from_be_bytes(fixed(bytes)?)),
            (Values::Interval(values), _) => values.push(interval(bytes)?),
            (Values::Uuid(values), _) => values.extend_from_slice(&fixed::<16>(bytes)?),
            (Values::Bytes(offsets, data), kind) => {
                match kind {
                    Kind::NumericText => number::put_text(bytes, data)?,
                    Kind::Char => put_character(fixed(bytes)?, data),
                    Kind::Jsonb => match bytes.split_first() {
                        Some((&JSONB_VERSION, text)) => data.extend_from_slice(text),
                        _ => return Err(Error::protocol("JSON is in a form that is not known")),
                    },
                    _ => data.extend_from_slice(bytes),
                }
                offsets.push(data.len() as i64);
            }
            (Values::Enum(keys, labels), _) => {
                let label = std::str::from_utf8(bytes).map_err(|_| no_text())?;
                keys.push(labels.key(label));
            }
            (Values::Struct(members), _) => append_members(members, bytes)?,
            (Values::List(offsets, element), _) => list::append(offsets, element, bytes)?,
            (Values::I128(_) | Values::I256(_), _) => {
                return Err(Error::internal("a decimal without its precision"));
            }
        }
        Ok(())
    }

    fn append_decimal(&mut self, bytes: &[u8], precision: u8, scale: i8) -> Result<()> {
        let unfit = || number::unfit(bytes, precision, scale);
        match &mut self.values {
            Values::I32(values) => {
                let value = number::decimal128(bytes, precision, scale)?;
                values.push(i32::try_from(value).map_err(|_| unfit())?);
            }
            Values::I64(values) => {
                let value = number::decimal128(bytes, precision, scale)?;
                values.push(i64::try_from(value).map_err(|_| unfit())?);
            }
            Values::I128(values) => values.push(number::decimal128(bytes, precision, scale)?),
            Values::I256(values) => values.push(number::decimal256(bytes, precision, scale)?),
            _ => return Err(Error::internal("a decimal among other values")),
        }
        Ok(())
    }

    /// Returns the array, and begins the next one.
    fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let data_type = &self.data_type;
        Ok(match &mut self.values {
            Values::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::I16(values) => primitive::<Int16Type>(values, nulls, data_type),
            Values::I32(values) => match data_type {
                DataType::Date32 => primitive::<Date32Type>(values, nulls, data_type),
                DataType::Decimal32(_, _) => primitive::<Decimal32Type>(values, nulls, data_type),
                _ => primitive::<Int32Type>(values, nulls, data_type),
            },
            Values::U32(values) => primitive::<UInt32Type>(values, nulls, data_type),
            Values::I64(values) => match data_type {
                DataType::Time64(_) => primitive::<Time64MicrosecondType>(values, nulls, data_type),
                DataType::Timestamp(_, _) => primitive::<TimestampMicrosecondType>(values, nulls, data_type),
                DataType::Decimal64(_, _) => primitive::<Decimal64Type>(values, nulls, data_type),
                _ => primitive::<Int64Type>(values, nulls, data_type),
            },
            Values::F32(values) => primitive::<Float32Type>(values, nulls, data_type),
            Values::F64(values) => primitive::<Float64Type>(values, nulls, data_type),
            Values::I128(values) => primitive::<Decimal128Type>(values, nulls, data_type),
            Values::I256(values) => primitive::<Decimal256Type>(values, nulls, data_type),
            Values::Interval(values) => primitive::<IntervalMonthDayNanoType>(values, nulls, data_type),
            Values::Uuid(values) => {
                let buffer = Buffer::from_vec(std::mem::take(values));
                Arc::new(FixedSizeBinaryArray::try_new(16, buffer, nulls).map_err(|error| unfit(&error))?)
            }
            Values::Bytes(offsets, data) => {
                let offsets = taken_offsets(offsets);
                let next = Vec::with_capacity(data.len());
                let buffer = Buffer::from_vec(std::mem::replace(data, next));
                match data_type {
                    DataType::LargeBinary => Arc::new(
                        LargeBinaryArray::try_new(offsets, buffer, nulls).map_err(|error| unfit(&error))?,
                    ),
                    _ => Arc::new(LargeStringArray::try_new(offsets, buffer, nulls).map_err(|_| no_text())?),
                }
            }
            Values::Enum(keys, labels) => {
                let keys = PrimitiveArray::<Int32Type>::new(std::mem::take(keys).into(), nulls);
                let array = DictionaryArray::try_new(keys, labels.array());
                Arc::new(array.map_err(|error| unfit(&error))?)
            }
            Values::List(offsets, element) => {
                let DataType::LargeList(field) = data_type else {
                    return Err(Error::internal("a list that is of no list's type"));
                };
                let array =
                    LargeListArray::try_new(field.clone(), taken_offsets(offsets), element.finish()?, nulls);
                Arc::new(array.map_err(|error| unfit(&error))?)
            }
            Values::Struct(members) => {
                let DataType::Struct(fields) = data_type else {
                    return Err(Error::internal("a structure that is of no structure's type"));
                };
                let arrays = members.iter_mut().map(Self::finish).collect::<Result<Vec<_>>>()?;
                let array = StructArray::try_new(fields.clone(), arrays, nulls);
                Arc::new(array.map_err(|error| unfit(&error))?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> ArrayRef {
    // The next batch has as many rows, unless this is the last.
    let next = Vec::with_capacity(values.len());
    let values = ScalarBuffer::from(std::mem::replace(values, next));
    Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(data_type.clone()))
}

fn taken_offsets(offsets: &mut Vec<i64>) -> OffsetBuffer<i64> {
    let mut next = Vec::with_capacity(offsets.len());
    next.push(0);
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, next)))
}

/// Reads the members of a composite value: their number, and each with its type and its length.
fn append_members(members: &mut [Column], bytes: &[u8]) -> Result<()> {
    let mut cursor = Cursor(bytes);
    if usize::try_from(cursor.i32()?) != Ok(members.len()) {
        return Err(Error::invalid_input(
            "the composite type has changed since the statement was described: run it again",
        ));
    }
    for member in members {
        cursor.u32()?;
        member.append(cursor.value()?)?;
    }
    Ok(())
}

/// Returns a value of a fixed length.
fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes
        .try_into()
        .map_err(|_| Error::protocol(format!("a value has {} bytes where its type has {N}", bytes.len())))
}

/// Writes a value of the type `"char"` as the server does: nothing for zero, and bytes that are no
/// ASCII in octal digits.
fn put_character([byte]: [u8; 1], to: &mut Vec<u8>) {
    match byte {
        0 => {}
        1..=127 => to.push(byte),
        _ => to.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
    }
}

fn date(days: i32) -> Result<i32> {
    match days {
        i32::MAX | i32::MIN => Err(infinite("date")),
        days => days.checked_add(EPOCH_DAYS).ok_or_else(|| Error::protocol("a date is out of range")),
    }
}

fn time(microseconds: i64) -> Result<i64> {
    match microseconds {
        0..DAY_MICROSECONDS => Ok(microseconds),
        DAY_MICROSECONDS => Err(out_of_range(
            "the time 24:00:00 is that of no day",
            "cast the column to text or interval in the query",
        )),
        _ => Err(Error::protocol("a time is out of range")),
    }
}

fn timestamp(microseconds: i64) -> Result<i64> {
    match microseconds {
        i64::MAX | i64::MIN => Err(infinite("timestamp")),
        microseconds => microseconds.checked_add(EPOCH_MICROSECONDS).ok_or_else(|| {
            out_of_range(
                "the timestamp is later than microseconds since 1970 can tell",
                "cast the column to text in the query",
            )
        }),
    }
}

fn interval(bytes: &[u8]) -> Result<IntervalMonthDayNano> {
    let mut cursor = Cursor(bytes);
    let (microseconds, days, months) = (cursor.i64()?, cursor.i32()?, cursor.i32()?);
    if !cursor.is_empty() {
        return Err(Error::protocol("an interval has more bytes than its type"));
    }
    match microseconds.checked_mul(1000) {
        Some(nanoseconds) => Ok(IntervalMonthDayNano::new(months, days, nanoseconds)),
        None => Err(out_of_range(
            "the interval is longer than nanoseconds can tell, or infinite",
            "cast the column to text in the query",
        )),
    }
}

fn infinite(what: &str) -> Error {
    out_of_range(
        &format!("the {what} is infinite"),
        "replace it in the query with nullif(column, 'infinity'), or cast the column to text",
    )
}

fn out_of_range(what: &str, hint: &str) -> Error {
    Error::invalid_input(format!("{what}; {hint}")).with_sqlstate("22008")
}

fn no_text() -> Error {
    Error::invalid_input(
        "a text is not UTF-8; the database has the encoding SQL_ASCII, so convert it in the query with \
         convert_from",
    )
    .with_sqlstate("22021")
}

fn unfit(error: &ArrowError) -> Error {
    Error::internal(format!("decoded values are no array: {error}"))
}

#[cfg(test)]
mod tests;
