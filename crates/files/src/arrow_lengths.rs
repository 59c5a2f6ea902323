//! Checks the lengths in an Arrow IPC file before anything is read: the reader would allocate
//! whatever they say.

use crate::damage::not_that_format;
use arrow::ipc::{
    Block, CompressionType, Endianness, Message, MessageHeader, RecordBatch, Schema, root_as_footer,
    root_as_message,
};
use hypostyle_types::{Error, Result};
use std::cell::Cell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The bytes that a batch may have after decompression.
const BATCH_BYTES_MAX: u64 = 4 << 30;

/// The rows that a batch may have, whatever its bytes: columns of NULLs have none. Others have a bit for
/// each.
const ROWS_FREE: u64 = 1 << 24;

/// LZ4 makes no more of a byte.
const LZ4_RATIO_MAX: u64 = 255;

const MAGIC: &[u8; 6] = b"ARROW1";

/// The magic at the end of a file, behind the footer's length.
const TRAILER_BYTES: u64 = 10;

const CONTINUATION: [u8; 4] = [0xff; 4];

/// What is known of a file whose lengths are right.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// It has no footer.
    pub is_stream: bool,
    /// The bytes that its largest batch becomes.
    pub batch_bytes: u64,
}

/// Checks a file, of either kind.
///
/// # Errors
/// `InvalidInput` when it is none, gives lengths that it does not have, or has numbers of another
/// machine's order of bytes.
pub fn check(file: &File, path: &Path) -> Result<Known> {
    let length = file.metadata().map(|metadata| metadata.len());
    let length =
        length.map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", path.display())))?;
    let of = Lengths { file, length, batch_bytes: Cell::new(0) };
    // What begins as a file is none of the other kind: its magic would be taken for a length.
    let is_stream = !of.bytes(0, MAGIC.len() as u64).is_ok_and(|start| start == MAGIC);
    let checked = if is_stream { of.check_stream() } else { of.check_blocks() };
    checked.map_err(|why| not_that_format(path, "Arrow", &why))?;
    Ok(Known { is_stream, batch_bytes: of.batch_bytes.get() })
}

/// Returns the bytes of the footer of a file that has one.
///
/// # Errors
/// What is wrong with it.
pub fn footer(file: &File) -> Checked<Vec<u8>> {
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    Lengths { file, length, batch_bytes: Cell::new(0) }.footer()
}

/// Refuses numbers in another order of bytes.
fn check_order(schema: &Schema<'_>) -> Checked {
    match schema.endianness() == Endianness::Little {
        true => Ok(()),
        false => Err("its numbers are big-endian; only little-endian ones are read".into()),
    }
}

struct Lengths<'a> {
    file: &'a File,
    length: u64,
    /// The bytes of the largest batch so far.
    batch_bytes: Cell<u64>,
}

/// The result of a check; the error says what is wrong.
pub type Checked<T = ()> = std::result::Result<T, String>;

impl Lengths<'_> {
    /// Returns some bytes of the file, which has them.
    fn bytes(&self, at: u64, count: u64) -> Checked<Vec<u8>> {
        let end = at.checked_add(count).filter(|end| *end <= self.length);
        let Some(count) = end.and_then(|_| usize::try_from(count).ok()) else {
            return Err(format!("it has {} bytes, and names {count} at {at}", self.length));
        };
        let mut bytes = vec![0; count];
        self.file.read_exact_at(&mut bytes, at).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn footer(&self) -> Checked<Vec<u8>> {
        let trailer = self.length.checked_sub(TRAILER_BYTES).ok_or("it ends before its footer")?;
        let end = self.bytes(trailer, TRAILER_BYTES)?;
        if !end.ends_with(MAGIC) {
            return Err("it ends before its footer".into());
        }
        let footer = u64::try_from(number(&end[..4])).ok().filter(|bytes| *bytes <= trailer);
        let footer = footer.ok_or("its footer is longer than the file")?;
        self.bytes(trailer - footer, footer)
    }

    fn check_blocks(&self) -> Checked {
        let footer = self.footer()?;
        let footer = root_as_footer(&footer).map_err(|error| format!("its footer is damaged: {error}"))?;
        check_order(&footer.schema().ok_or("its footer has no schema")?)?;
        let (dictionaries, batches) = (footer.dictionaries(), footer.recordBatches());
        let mut blocks = dictionaries.iter().flatten().chain(batches.iter().flatten());
        blocks.try_for_each(|block| self.check_block(block))
    }

    fn check_block(&self, block: &Block) -> Checked {
        let [at, metadata, body] =
            [block.offset(), block.metaDataLength().into(), block.bodyLength()].map(u64::try_from);
        let (Ok(at), Ok(metadata), Ok(body)) = (at, metadata, body) else {
            return Err("a block has a negative length".into());
        };
        let message = self.bytes(at, metadata)?;
        let prefix = if message.starts_with(&CONTINUATION) { 8 } else { 4 };
        let message = message.get(prefix..).ok_or("a block has no message")?;
        self.check_message(message, at.saturating_add(metadata), Some(body)).map(drop)
    }

    fn check_stream(&self) -> Checked {
        let mut at = 0;
        while at + 4 <= self.length {
            let mut start = self.bytes(at, 4)?;
            at += 4;
            if start == CONTINUATION {
                start = self.bytes(at, 4)?;
                at += 4;
            }
            let metadata = u64::try_from(number(&start)).map_err(|_| "a message has a negative length")?;
            if metadata == 0 {
                return Ok(());
            }
            let message = self.bytes(at, metadata)?;
            at += metadata;
            at += self.check_message(&message, at, None)?;
        }
        Ok(())
    }

    /// Gives the length of the body, which begins at `at`, and of which a block may say that it is
    /// longer.
    fn check_message(&self, message: &[u8], at: u64, block: Option<u64>) -> Checked<u64> {
        let message = root_as_message(message).map_err(|error| format!("a message is damaged: {error}"))?;
        let body = u64::try_from(message.bodyLength()).map_err(|_| "a body has a negative length")?;
        let body = body.max(block.unwrap_or(0));
        if at.checked_add(body).is_none_or(|end| end > self.length) {
            return Err(format!("it has {} bytes, and a body has {body} at {at}", self.length));
        }
        if let Some(schema) = message.header_as_schema() {
            check_order(&schema)?;
        }
        match batch_of(&message) {
            Some(batch) => self.check_batch(&batch, at, body).map(|()| body),
            None => Ok(body),
        }
    }

    fn check_batch(&self, batch: &RecordBatch<'_>, at: u64, body: u64) -> Checked {
        let compression = batch.compression();
        let mut total: u64 = 0;
        for buffer in batch.buffers().iter().flatten() {
            let (Ok(offset), Ok(length)) = (u64::try_from(buffer.offset()), u64::try_from(buffer.length()))
            else {
                return Err("a buffer has a negative length".into());
            };
            if offset.checked_add(length).is_none_or(|end| end > body) {
                return Err("a buffer is not within its body".into());
            }
            let Some(compression) = compression.filter(|_| length >= 8) else { continue };
            let prefix = self.bytes(at + offset, 8)?.try_into().map_or(0, i64::from_le_bytes);
            // -1 marks a buffer that is not compressed.
            let bytes = u64::try_from(prefix).unwrap_or(length);
            let is_lz4 = compression.codec() == CompressionType::LZ4_FRAME;
            if is_lz4 && bytes / LZ4_RATIO_MAX > length {
                return Err(format!("a buffer of {length} bytes cannot become {bytes}"));
            }
            total = total.saturating_add(bytes);
        }
        if compression.is_none() {
            total = body;
        }
        check_rows(batch, total)?;
        self.batch_bytes.set(self.batch_bytes.get().max(total));
        match compression.is_some() && total > BATCH_BYTES_MAX {
            true => Err(format!("a batch would become {total} bytes, and one may be {BATCH_BYTES_MAX}")),
            false => Ok(()),
        }
    }
}

/// Checks how many rows a batch says that it has: who counts them reads no column.
fn check_rows(batch: &RecordBatch<'_>, bytes: u64) -> Checked {
    let rows = u64::try_from(batch.length()).map_err(|_| "a batch has a negative length")?;
    let first = batch.nodes().and_then(|nodes| nodes.iter().next()).map(|column| column.length());
    if let Some(first) = first.filter(|first| *first != batch.length()) {
        return Err(format!("a batch has {rows} rows, and its first column {first}"));
    }
    match rows > bytes.saturating_mul(8).max(ROWS_FREE) {
        true => Err(format!("a batch of {bytes} bytes cannot have {rows} rows")),
        false => Ok(()),
    }
}

fn number(bytes: &[u8]) -> i32 {
    bytes.try_into().map_or(-1, i32::from_le_bytes)
}

fn batch_of<'a>(message: &Message<'a>) -> Option<RecordBatch<'a>> {
    match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch()?.data(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrow_table::arrow_reader;
    use crate::room::Room;
    use arrow::array::{ArrayRef, DictionaryArray, RecordBatch as Rows, StringArray};
    use arrow::datatypes::Int32Type;
    use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
    use std::sync::Arc;

    fn rows() -> Rows {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a text that is long enough".repeat(50); 500]));
        let codes: DictionaryArray<Int32Type> = (0..500).map(|row| ["red", "green"][row % 2]).collect();
        Rows::try_from_iter([("texts", texts), ("codes", Arc::new(codes) as ArrayRef)]).unwrap()
    }

    fn written(compression: Option<CompressionType>, as_stream: bool) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let (mut bytes, rows) = (Vec::new(), rows());
        if as_stream {
            let mut writer = StreamWriter::try_new_with_options(&mut bytes, &rows.schema(), options).unwrap();
            writer.write(&rows).unwrap();
            writer.finish().unwrap();
            drop(writer);
        } else {
            let mut writer = FileWriter::try_new_with_options(&mut bytes, &rows.schema(), options).unwrap();
            writer.write(&rows).unwrap();
            writer.finish().unwrap();
            drop(writer);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<usize> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.arrow");
        std::fs::write(&path, bytes).unwrap();
        let reader = arrow_reader(&path, Room(u64::MAX))?;
        Ok(reader.map_while(|batch| batch.ok()).map(|batch| batch.num_rows()).sum())
    }

    #[test]
    fn what_is_whole_passes_and_lengths_that_are_not_there_do_not() {
        for compression in [None, Some(CompressionType::LZ4_FRAME)] {
            for as_stream in [false, true] {
                let bytes = written(compression, as_stream);
                assert_eq!(read(&bytes).unwrap(), 500, "{compression:?}");
                // Lengths are numbers of 4 or 8 bytes at multiples of 8: each is made huge once,
                // and none makes the reader take memory that there is not, which would end this
                // process.
                for at in (0..bytes.len() - 8).step_by(8).take(80) {
                    for huge in [&[0xff, 0xff, 0xff, 0x7f][..], &(i64::MAX / 3).to_le_bytes()] {
                        let mut damaged = bytes.clone();
                        damaged[at..at + huge.len()].copy_from_slice(huge);
                        let _any = std::panic::catch_unwind(|| read(&damaged));
                    }
                }
            }
        }
    }

    fn checked(bytes: &[u8]) -> Result<Known> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.arrow");
        std::fs::write(&path, bytes).unwrap();
        check(&File::open(&path).unwrap(), &path)
    }

    #[test]
    fn a_batch_has_the_rows_of_its_first_column() {
        let whole = written(None, false);
        assert!(checked(&whole).is_ok());
        // Those of the batch, and of each column.
        let number = 500_i64.to_le_bytes();
        let places: Vec<usize> =
            (0..whole.len() - 8).filter(|at| whole[*at..].starts_with(&number)).collect();
        let set = |bytes: &mut [u8], at: usize, rows: i64| {
            bytes[at..at + 8].copy_from_slice(&rows.to_le_bytes());
        };
        let mut refused = 0;
        for at in &places {
            let mut bytes = whole.clone();
            set(&mut bytes, *at, i64::MAX / 2);
            refused += usize::from(checked(&bytes).is_err_and(|error| error.message().contains(" rows")));
        }
        assert!(refused >= 2, "{refused} of {places:?}");
        let mut bytes = whole.clone();
        places.iter().for_each(|at| set(&mut bytes, *at, i64::MAX / 2));
        let error = checked(&bytes).unwrap_err();
        assert!(error.message().contains("cannot have 4611686018427387903 rows"), "{error}");
    }

    #[test]
    fn a_buffer_is_within_its_body() {
        let whole = written(None, true);
        let mut refused = 0;
        // Buffers stand in the message of the batch, before its body, each with where it is.
        for at in (0..whole.len().min(4096) - 8).step_by(8) {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&(1_i64 << 40).to_le_bytes());
            let error = checked(&bytes).err();
            refused += usize::from(error.is_some_and(|error| error.message().contains("within its body")));
        }
        assert!(refused > 2, "{refused}");
    }

    #[test]
    fn a_file_is_never_tried_as_a_stream() {
        // The magic would be the length of a message, of more than a gigabyte.
        for damage in [4, 8] {
            let mut file = written(None, false);
            let at = file.len() - damage;
            file[at] ^= 0xff;
            let error = read(&file).unwrap_err();
            assert!(error.message().contains("is not a readable Arrow file: it"), "{error}");
        }
    }

    #[test]
    fn numbers_in_the_order_of_another_machine_are_refused() {
        // A flatbuffer of a footer, of which all that there is is a schema, and all of that its
        // order.
        let footer: [i16; 20] = [16, 0, 8, 8, 0, 4, 0, 0, 12, 0, 12, 0, 6, 8, 4, 0, 8, 0, 1, 0];
        let mut file = b"ARROW1\0\0".to_vec();
        file.extend(footer.iter().flat_map(|number| number.to_le_bytes()));
        file.extend(40_i32.to_le_bytes());
        file.extend(b"ARROW1");
        let error = read(&file).unwrap_err();
        assert!(error.message().contains("big-endian"), "{error}");
    }

    #[test]
    fn a_buffer_that_says_it_becomes_terabytes_is_refused() {
        let whole = written(Some(CompressionType::LZ4_FRAME), false);
        // The length stands before the frame.
        let frame = whole.windows(4).position(|bytes| bytes == [0x04, 0x22, 0x4d, 0x18]).unwrap();
        let at = frame - 8;
        let mut bytes = whole.clone();
        bytes[at..at + 8].copy_from_slice(&139_000_000_000_000_i64.to_le_bytes());
        let error = read(&bytes).unwrap_err();
        assert!(error.message().contains("cannot become 139000000000000"), "{error}");
    }
}
