//! Results in columns, from a server that has the extension `hypostyle` (docs/protocol.md, §15).

use crate::address::Numeric;
use crate::link::Link;
use crate::statement::{Nature, Statement, quoted_text};
use crate::types::Described;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeListArray, RecordBatch, RecordBatchOptions, StructArray};
use arrow_buffer::Buffer;
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use hypostyle_client::Transaction;
use hypostyle_types::{Error, Result};
use hypostyle_wire::{Codec, Done, FRAME_HEADER_BYTES, FrameHeader, FrameType, ResultHeader, StreamDecoder};
use std::sync::Arc;

/// Loads the extension into the session: it catches COPY from then on. A pooler may have another
/// server for each transaction, so it comes with each statement.
pub const LOAD: &str = "SELECT pg_catalog.hypostyle_protocol()";

/// What comes in front of a query that COPY runs.
const COPY_BEFORE: &str = "COPY (";

/// The version of the extension that does not find digits.
const FIRST_VERSION: &str = "0.1";

/// The number of the type `numeric`.
const NUMERIC: u32 = 1700;

/// The version of the protocol that this client speaks.
const PROTOCOL: u32 = 1;

/// The longest frame that is accepted: a server has no longer messages. So a row may be as long here as in
/// COPY and in rows.
const FRAME_BYTES: u32 = (1 << 30) - 65;

/// Returns the text of the COPY that runs a query, and the number of characters before the query in
/// it.
pub fn copy_text(statement: Statement<'_>, numeric: Numeric, codec: Codec, origin: &str) -> (String, usize) {
    let numeric = match numeric {
        Numeric::Text => "text".to_string(),
        Numeric::Auto => "auto".into(),
        Numeric::Double => "double".into(),
        Numeric::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
    };
    let text = format!(
        "{COPY_BEFORE}{}\n) TO STDOUT (FORMAT hypostyle, protocol {PROTOCOL}, frame_bytes {FRAME_BYTES}, \
         codec '{codec}', numeric '{numeric}', origin '{origin}')",
        statement.text
    );
    (text, COPY_BEFORE.len())
}

/// Says whether the server has the extension.
///
/// # Errors
/// Those of the server.
pub fn are_spoken(link: &mut Link) -> Result<bool> {
    if let Some(are_spoken) = link.speaks_columns {
        return Ok(are_spoken);
    }
    let found = link.select("SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'hypostyle'")?;
    let version = found.first().and_then(|row| row.first()).and_then(Option::as_deref);
    link.speaks_columns = Some(version.is_some());
    link.finds_digits = version.is_some_and(|version| version != FIRST_VERSION);
    Ok(version.is_some())
}

/// Asks the extension for the digits of the columns that are numerics without a modifier, and sets the
/// modifiers that it finds. Returns whether there are some. So a query's types are the same however its rows
/// come.
///
/// # Errors
/// Those of the server.
pub fn find_digits(
    link: &mut Link,
    statement: Statement<'_>,
    parameters: &[u32],
    columns: &mut [Described],
) -> Result<bool> {
    let is_open = |column: &Described| column.oid == NUMERIC && column.modifier < 0;
    let is_asked = statement.nature() == Nature::Query && columns.iter().any(is_open);
    if !is_asked || !are_spoken(link)? || !link.finds_digits {
        return Ok(false);
    }
    let types: Vec<String> = parameters.iter().map(u32::to_string).collect();
    let sql = format!(
        "SELECT pg_catalog.hypostyle_numerics({}, '{{{}}}')",
        quoted_text(statement.text),
        types.join(",")
    );
    let rows = match link.select(&sql) {
        Ok(rows) => rows,
        // It was dropped meanwhile.
        Err(error) if error.sqlstate() == "42883" && link.transaction == Transaction::None => {
            link.speaks_columns = Some(false);
            return Ok(false);
        }
        Err(error) => return Err(error.nowhere()),
    };
    let found = rows.first().and_then(|row| row.first()).and_then(Option::as_deref).unwrap_or_default();
    let found: Vec<i32> = modifiers(found);
    let mut is_found = false;
    for (column, modifier) in columns.iter_mut().zip(found) {
        if is_open(column) && modifier >= 0 {
            column.modifier = modifier;
            is_found = true;
        }
    }
    Ok(is_found)
}

/// Returns the numbers of an array as PostgreSQL writes it; none for what is no such array.
fn modifiers(array: &str) -> Vec<i32> {
    let inside = array.strip_prefix('{').and_then(|array| array.strip_suffix('}')).unwrap_or_default();
    inside.split(',').map(str::parse::<i32>).collect::<std::result::Result<_, _>>().unwrap_or_default()
}

/// The frames of a result, one in each message.
pub struct Columns {
    /// The columns as they are described, however they come.
    schema: SchemaRef,
    decoder: Box<StreamDecoder>,
    done: bool,
}

impl Columns {
    /// Takes the first frame. `described` has what the server says of the columns beside.
    ///
    /// # Errors
    /// `Connection` for bytes that are no such frame.
    pub fn new(message: &[u8], described: &Schema) -> Result<Self> {
        let (FrameType::Result, body) = frame(message)? else {
            return Err(Error::protocol("the first frame of a result is none of it"));
        };
        let header = ResultHeader::decode(body)?;
        let fields = header.schema.fields();
        let fields: Vec<Field> = fields
            .iter()
            .enumerate()
            .map(|(index, field)| as_described(field, described.fields().get(index).map(|field| &**field)))
            .collect();
        let decoder = Box::new(StreamDecoder::new(header.query, header.schema.clone()));
        Ok(Self { decoder, schema: Arc::new(Schema::new(fields)), done: false })
    }

    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Takes the next frame. Returns the rows that it has.
    ///
    /// # Errors
    /// `Connection` for bytes that are no frame of a result.
    pub fn take(&mut self, message: &[u8]) -> Result<Option<RecordBatch>> {
        if self.done {
            return Err(Error::protocol("a frame follows the last one of a result"));
        }
        let (frame_type, body) = frame(message)?;
        match frame_type {
            FrameType::Dictionary => self.decoder.dictionary(Buffer::from(body))?,
            FrameType::Chunk => {
                let batch = self.decoder.chunk(Buffer::from(body))?.decode()?;
                return as_schema(&batch, &self.schema).map(Some).map_err(unfit);
            }
            FrameType::Done => {
                let done = Done::decode(body)?;
                self.decoder.end(done.rows, done.checksum)?;
                self.done = true;
            }
            other => return Err(Error::protocol(format!("a {other:?} frame is none of a result"))),
        }
        Ok(None)
    }

    /// Checks that the result has come to its end.
    ///
    /// # Errors
    /// `Connection` if it was cut short.
    pub fn end(&self) -> Result<()> {
        match self.done {
            true => Ok(()),
            false => Err(Error::protocol("the frames of a result end before its end")),
        }
    }
}

/// Returns a field with what is said of it beside, which may be more.
fn as_described(field: &Field, described: Option<&Field>) -> Field {
    let Some(described) = described else { return field.clone() };
    let mut metadata = described.metadata().clone();
    metadata.extend(field.metadata().clone());
    let field = field.clone().with_metadata(metadata);
    match is_same(field.data_type(), described.data_type()) {
        true => field.with_data_type(described.data_type().clone()),
        false => field,
    }
}

/// Says whether a type that is sent is the described one but for what is said of the fields within, and for
/// the width of a dictionary's codes: frames have the least.
fn is_same(sent: &DataType, described: &DataType) -> bool {
    match (sent, described) {
        (DataType::LargeList(sent), DataType::LargeList(described)) => {
            is_same(sent.data_type(), described.data_type())
        }
        (DataType::Struct(sent), DataType::Struct(described)) => {
            let is_same_field = |(sent, described): (&Arc<Field>, &Arc<Field>)| {
                sent.name() == described.name() && is_same(sent.data_type(), described.data_type())
            };
            sent.len() == described.len() && sent.iter().zip(described).all(is_same_field)
        }
        (DataType::Dictionary(_, sent), DataType::Dictionary(_, described)) => sent == described,
        _ => sent == described,
    }
}

/// Returns rows with the fields of a schema, which [`is_same`].
fn as_schema(batch: &RecordBatch, schema: &SchemaRef) -> std::result::Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| as_type(column, field.data_type()));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

fn as_type(column: &ArrayRef, data_type: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    if column.data_type() == data_type {
        return Ok(column.clone());
    }
    match data_type {
        DataType::LargeList(field) if let Some(list) = column.as_list_opt::<i64>() => {
            let values = as_type(list.values(), field.data_type())?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(LargeListArray::try_new(field.clone(), offsets, values, nulls)?))
        }
        DataType::Struct(fields) if let Some(members) = column.as_struct_opt() => {
            let columns = members.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| as_type(column, field.data_type()));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields.clone(), columns, members.nulls().cloned())?))
        }
        _ => cast(column, data_type),
    }
}

fn unfit(error: ArrowError) -> Error {
    Error::protocol(format!("columns are not those that were described: {error}"))
}

/// Returns the kind and the body of the frame that a message is.
fn frame(message: &[u8]) -> Result<(FrameType, &[u8])> {
    let short = || Error::protocol("a message is shorter than the frame in it");
    let (header, body) = message.split_first_chunk::<FRAME_HEADER_BYTES>().ok_or_else(short)?;
    let header = FrameHeader::decode(header, FRAME_BYTES)?;
    match usize::try_from(header.length) == Ok(body.len()) {
        true => Ok((header.frame_type, body)),
        false => Err(short()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int8Type, Int32Type};
    use arrow_array::{DictionaryArray, Int32Array, LargeStringArray};
    use arrow_buffer::{NullBuffer, OffsetBuffer};
    use arrow_schema::Fields;

    fn named(name: &str, data_type: DataType) -> Field {
        let metadata = [("postgresql:type".to_string(), "mood".to_string())];
        Field::new(name, data_type, true).with_metadata(metadata.into())
    }

    #[test]
    fn columns_have_the_types_that_are_described() {
        let texts = || Arc::new(LargeStringArray::from(vec!["a", "b"])) as ArrayRef;
        let list = |field: Field| {
            let offsets = OffsetBuffer::new(vec![0_i64, 2, 2].into());
            let nulls = NullBuffer::from(vec![true, false]);
            Arc::new(LargeListArray::new(Arc::new(field), offsets, texts(), Some(nulls))) as ArrayRef
        };
        let row = |field: Field| {
            let fields = Fields::from(vec![field, Field::new("n", DataType::Int32, true)]);
            let columns = vec![texts(), Arc::new(Int32Array::from(vec![1, 2])) as ArrayRef];
            Arc::new(StructArray::new(fields, columns, None)) as ArrayRef
        };
        let plain = |name: &str| Field::new(name, DataType::LargeUtf8, true);
        let of_labels = |name: &str| named(name, DataType::LargeUtf8);
        let labels = DictionaryArray::<Int8Type>::from_iter(["x", "y"]);
        let labels = cast(&labels, &dictionary(DataType::Int8)).unwrap();
        let sent = [
            ("e", labels.clone()),
            ("l", list(plain("item"))),
            ("s", row(plain("a"))),
            ("other", row(plain("b"))),
        ];
        let wanted = [
            ("e", cast(&labels, &dictionary(DataType::Int32)).unwrap()),
            ("l", list(of_labels("item"))),
            ("s", row(of_labels("a"))),
            ("other", texts()),
        ];
        let batch = |columns: &[(&str, ArrayRef)]| RecordBatch::try_from_iter(columns.to_vec()).unwrap();
        let (sent, wanted) = (batch(&sent), batch(&wanted));
        let fields = sent.schema().fields().clone();
        let fields = fields
            .iter()
            .zip(wanted.schema().fields().clone().iter())
            .map(|(sent, wanted)| as_described(sent, Some(&**wanted)))
            .collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let found = as_schema(&sent, &schema).unwrap();
        for place in 0..3 {
            assert_eq!(found.column(place), wanted.column(place));
            assert_eq!(found.column(place).data_type(), wanted.column(place).data_type());
        }
        assert_eq!(found.column(0).as_dictionary::<Int32Type>().keys().values().to_vec(), [0, 1]);
        // What is another type stays as it came.
        assert_eq!(found.column(3), sent.column(3));
    }

    #[test]
    fn modifiers_are_numbers_in_braces() {
        assert_eq!(modifiers("{-1,1114118}"), [-1, 1_114_118]);
        for text in ["", "{}", "{NULL}", "1,2"] {
            assert!(modifiers(text).is_empty(), "{text}");
        }
    }

    fn dictionary(code: DataType) -> DataType {
        DataType::Dictionary(Box::new(code), Box::new(DataType::LargeUtf8))
    }
}
