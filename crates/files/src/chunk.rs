//! Text files that are cut into chunks of whole records, each of which one thread parses.
//!
//! One thread at a time reads the next bytes of the file, so that compressed files, quoted line
//! ends and several files need nothing special. Parsing, which costs most, is parallel. A chunk
//! that fails to parse is read in smaller and smaller steps until a bad record stands alone, so that
//! good files pay nothing for exact error messages.

use crate::input::{Input, Stopped};
use crate::nested::leaves;
use crate::option::ReadOptions;
use crate::ordered::{Emit, Ordered};
use crate::reject::{Rejected, Rejects, shown};
use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, SchemaRef};
use arrow::error::ArrowError;
use hypostyle_types::{Error, Result};
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes a thread gets at once: enough rows for good batches, little enough for the caches.
const CHUNK_BYTES: usize = 4 << 20;

/// A longer record is taken for a quote or bracket that is never closed.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Batches that one chunk may have waiting.
const CHUNK_BATCHES: usize = 16;

/// Rows of one batch.
pub const BATCH_ROWS: usize = 8_192;

/// Values that are read at once: what they become is in memory together.
pub const VALUES_AT_ONCE: usize = 4 << 20;

/// Values of one batch; with more columns it has fewer rows.
pub const VALUES_MAX: usize = 1 << 20;

/// Returns how many rows a batch of some columns has, and how many batches may wait: as many as have some
/// number of values together, from two to `most`.
pub fn batches_of(fields: &[FieldRef], values: usize, most: usize) -> (usize, usize) {
    let width = leaves(fields);
    let rows = BATCH_ROWS.min(VALUES_MAX / width).max(1);
    (rows, (values / (rows * width)).clamp(2, most))
}

/// The end of the whole records in some bytes.
pub struct Scan {
    /// The offset after the last whole record; 0 if there is none.
    pub end: usize,
    /// The construct that would stay open if the file ended there.
    pub open: Option<&'static str>,
}

/// Why a record cannot be read.
pub struct Fault {
    pub column: Option<(usize, String)>,
    pub value: String,
    pub reason: String,
}

/// A kind of text file.
pub trait TextFormat: Send + Sync + 'static {
    /// The state that passes from one chunk of a file to the next.
    type State: Send + 'static;

    /// Looks at the first bytes of a file; returns how many of them come before the records.
    fn begin(&self, path: &Path, start: &[u8]) -> Result<(Self::State, usize)>;

    /// Finds the end of the last whole record; may blank out what stands between records.
    fn scan(&self, state: &mut Self::State, bytes: &mut [u8]) -> Scan;

    /// Reads whole records.
    fn parse(&self, records: &[u8]) -> Result<Vec<RecordBatch>, ArrowError>;

    /// Returns the place of each record in bytes that hold whole records.
    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>>;

    /// Returns how many records may be read at once, if there may be more of them in some bytes. Records may
    /// be short and have many columns, most of which have no value in them.
    fn records_at_once(&self, _bytes: &[u8]) -> Option<usize> {
        None
    }

    /// Says what is wrong with one record that does not parse.
    fn explain(&self, record: &[u8], error: &ArrowError) -> Fault;
}

/// Whole records and where they stand.
pub struct Chunk {
    pub file: Arc<str>,
    /// Line of the first byte, from 1.
    pub line: u64,
    pub bytes: Vec<u8>,
}

/// What files are read for.
#[derive(Clone, Debug)]
pub enum Purpose {
    /// Detection of what they hold: what is read is read again.
    Sample,
    /// Their rows, until nobody waits for them.
    Rows(Stopped),
}

/// The chunks of several files, in order.
pub struct Chunks<F: TextFormat> {
    format: Arc<F>,
    rejects: Arc<Rejects>,
    options: ReadOptions,
    purpose: Purpose,
    files: std::vec::IntoIter<Input>,
    current: Option<OpenFile<F::State>>,
}

struct OpenFile<S> {
    name: Arc<str>,
    reader: Box<dyn Read + Send>,
    state: S,
    /// Bytes read but not yet part of a chunk.
    rest: Vec<u8>,
    line: u64,
    at_end: bool,
    finished: bool,
}

impl<F: TextFormat> Chunks<F> {
    pub fn new(
        format: Arc<F>,
        rejects: Arc<Rejects>,
        files: Vec<Input>,
        options: &ReadOptions,
        purpose: Purpose,
    ) -> Self {
        let options = options.clone();
        Self { format, rejects, options, purpose, files: files.into_iter(), current: None }
    }

    fn open(&self, file: &Input) -> Result<OpenFile<F::State>> {
        let path = file.path();
        let mut reader = match &self.purpose {
            Purpose::Sample => file.sample(&self.options)?,
            Purpose::Rows(stopped) => file.rows(&self.options, stopped)?,
        };
        let name: Arc<str> = path.to_string_lossy().into();
        let mut rest = Vec::new();
        let at_end = fill(reader.as_mut(), &mut rest, CHUNK_BYTES, &name)?;
        let (state, skipped) = self.format.begin(path, &rest)?;
        let line = 1 + newlines(&rest[..skipped]);
        rest.drain(..skipped);
        Ok(OpenFile { name, reader, state, rest, line, at_end, finished: false })
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>> {
        loop {
            if self.current.is_none() {
                let Some(file) = self.files.next() else { return Ok(None) };
                self.current = Some(self.open(&file)?);
            }
            let Some(file) = &mut self.current else { continue };
            match file.next_chunk(self.format.as_ref(), &self.rejects)? {
                Some(chunk) => return Ok(Some(chunk)),
                None => self.current = None,
            }
        }
    }
}

impl<F: TextFormat> Iterator for Chunks<F> {
    type Item = Result<Chunk>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_chunk().transpose()
    }
}

impl<S> OpenFile<S> {
    fn next_chunk<F: TextFormat<State = S>>(
        &mut self,
        format: &F,
        rejects: &Rejects,
    ) -> Result<Option<Chunk>> {
        if self.finished {
            return Ok(None);
        }
        let mut bytes = std::mem::take(&mut self.rest);
        let mut wanted = CHUNK_BYTES;
        loop {
            if !self.at_end {
                self.at_end = fill(self.reader.as_mut(), &mut bytes, wanted, &self.name)?;
            }
            let scan = format.scan(&mut self.state, &mut bytes);
            if self.at_end {
                self.finished = true;
                if let Some(open) = scan.open {
                    let line = self.line + newlines(&bytes[..scan.end]);
                    let value = shown(&String::from_utf8_lossy(&bytes[scan.end..]));
                    let file = self.name.to_string();
                    rejects.report(Rejected { file, line, column: None, value, reason: open.into() })?;
                    bytes.truncate(scan.end);
                }
            } else if scan.end > 0 {
                self.rest = bytes.split_off(scan.end);
            } else if bytes.len() < RECORD_BYTES_MAX {
                wanted = bytes.len() * 2;
                continue;
            } else {
                return Err(Error::invalid_input(format!(
                    "{}, line {} {} within {} MiB",
                    self.name,
                    self.line,
                    scan.open.unwrap_or("does not end"),
                    RECORD_BYTES_MAX >> 20,
                )));
            }
            let line = self.line;
            self.line += newlines(&bytes);
            return Ok((!bytes.is_empty()).then(|| Chunk { file: Arc::clone(&self.name), line, bytes }));
        }
    }
}

/// Reads until there are `wanted` bytes; true at the end of the file.
fn fill(reader: &mut dyn Read, bytes: &mut Vec<u8>, wanted: usize, name: &str) -> Result<bool> {
    let missing = wanted.saturating_sub(bytes.len());
    bytes.reserve_exact(missing);
    reader
        .take(missing as u64)
        .read_to_end(bytes)
        .map_err(|error| Input::damaged(Path::new(name), &error))?;
    Ok(bytes.len() < wanted)
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// Reads files on several threads, in file order.
///
/// # Errors
/// `OutOfMemory` when no thread can be started; those of the files come with the batches.
pub fn read<F: TextFormat>(
    format: Arc<F>,
    schema: SchemaRef,
    files: Vec<Input>,
    options: &ReadOptions,
    rejects: Arc<Rejects>,
    threads: usize,
) -> Result<Ordered> {
    let stop = Arc::new(AtomicBool::new(false));
    let purpose = Purpose::Rows(Stopped::by(Arc::clone(&stop)));
    let chunks = Chunks::new(Arc::clone(&format), Arc::clone(&rejects), files, options, purpose);
    let (_, waiting) = batches_of(schema.fields(), VALUES_AT_ONCE, CHUNK_BATCHES);
    let rows = Ordered::start(schema, threads, waiting, chunks, move |chunk, emit| {
        read_chunk(format.as_ref(), &rejects, &chunk, emit)
    })?;
    // A thread that waits for a pipe has to be told that nobody waits for its rows.
    Ok(rows.at_end(move || stop.store(true, Ordering::Relaxed)))
}

/// Reads the rows of a chunk, until nobody wants more.
fn read_chunk<F: TextFormat>(
    format: &F,
    rejects: &Rejects,
    chunk: &Chunk,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let Some(most) = format.records_at_once(&chunk.bytes) else {
        return match format.parse(&chunk.bytes) {
            Ok(batches) => {
                batches.into_iter().all(emit);
                Ok(())
            }
            Err(_) => {
                let records = format.records(&chunk.bytes);
                read_carefully(format, rejects, chunk, &records, emit).map(drop)
            }
        };
    };
    for records in format.records(&chunk.bytes).chunks(most.max(1)) {
        let bytes = &chunk.bytes[records[0].start..records[records.len() - 1].end];
        let goes_on = match format.parse(bytes) {
            Ok(batches) => batches.into_iter().all(&mut *emit),
            Err(_) => read_carefully(format, rejects, chunk, records, emit)?,
        };
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Reads what can be read of rows that do not parse together, and reports the rest, in order; false when
/// nobody wants more.
///
/// Each row is parsed a few times, however many are bad: a step that fails is halved until its first bad
/// row is found, and steps grow from one row again behind it, so that none is much longer than the rows
/// since the bad row before.
fn read_carefully<F: TextFormat>(
    format: &F,
    rejects: &Rejects,
    chunk: &Chunk,
    records: &[Range<usize>],
    emit: &mut Emit<'_>,
) -> Result<bool> {
    let parse =
        |rows: Range<usize>| format.parse(&chunk.bytes[records[rows.start].start..records[rows.end - 1].end]);
    let mut lines = LineCount { bytes: &chunk.bytes, at: 0, line: chunk.line };
    let mut from = 0;
    // All rows together have been tried.
    let mut step = records.len().div_ceil(2);
    while from < records.len() {
        let mut to = records.len().min(from + step);
        match parse(from..to) {
            Ok(batches) => {
                if !batches.into_iter().all(&mut *emit) {
                    return Ok(false);
                }
                from = to;
                step *= 2;
            }
            Err(error) if to - from == 1 => {
                let record = &records[from];
                let Fault { column, value, reason } = format.explain(&chunk.bytes[record.clone()], &error);
                let line = lines.line_of(record.start);
                rejects.report(Rejected { file: chunk.file.to_string(), line, column, value, reason })?;
                from = to;
                step = 1;
            }
            Err(_) => {
                while to - from > 1 {
                    let middle = from + (to - from) / 2;
                    match parse(from..middle) {
                        Ok(batches) => {
                            if !batches.into_iter().all(&mut *emit) {
                                return Ok(false);
                            }
                            from = middle;
                        }
                        Err(_) => to = middle,
                    }
                }
                step = 1;
            }
        }
    }
    Ok(true)
}

/// Counts lines up to places in a chunk that come in order.
struct LineCount<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl LineCount<'_> {
    fn line_of(&mut self, at: usize) -> u64 {
        self.line += newlines(&self.bytes[self.at..at]);
        self.at = at;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reject::Advice;
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type};
    use std::sync::atomic::AtomicUsize;

    /// Lines of numbers, which counts the bytes that it parses.
    #[derive(Default)]
    struct Numbers {
        parsed: AtomicUsize,
        /// The records that are read at once.
        most: Option<usize>,
    }

    impl TextFormat for Numbers {
        type State = ();

        fn begin(&self, _: &Path, _: &[u8]) -> Result<((), usize)> {
            Ok(((), 0))
        }

        fn scan(&self, (): &mut (), bytes: &mut [u8]) -> Scan {
            Scan { end: bytes.len(), open: None }
        }

        fn parse(&self, records: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
            self.parsed.fetch_add(records.len(), Ordering::Relaxed);
            let text = String::from_utf8_lossy(records);
            let numbers = text.lines().map(|line| line.parse::<i64>().ok());
            match numbers.collect::<Option<Vec<_>>>() {
                Some(numbers) => {
                    let numbers: ArrayRef = Arc::new(Int64Array::from(numbers));
                    Ok(vec![RecordBatch::try_from_iter([("n", numbers)])?])
                }
                None => Err(ArrowError::ParseError("no number".into())),
            }
        }

        fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
            let mut end = 0;
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').map(|line| {
                end += line.len();
                end - line.len()..end
            });
            lines.collect()
        }

        fn records_at_once(&self, _: &[u8]) -> Option<usize> {
            self.most
        }

        fn explain(&self, record: &[u8], error: &ArrowError) -> Fault {
            let value = String::from_utf8_lossy(record).trim_end().to_string();
            Fault { column: None, value, reason: error.to_string() }
        }
    }

    /// Reads rows of which some are bad; returns how often each byte was parsed.
    fn read_rows(rows: usize, is_bad: impl Fn(usize) -> bool) -> f64 {
        const BEFORE: u64 = 7;
        let row = |row: usize| if is_bad(row) { format!("bad{row}\n") } else { format!("{row}\n") };
        let bytes = (0..rows).map(row).collect::<String>().into_bytes();
        let chunk = Chunk { file: "x".into(), line: BEFORE, bytes };
        let options =
            ReadOptions { ignore_errors: true, rejects_table: Some("r".into()), ..ReadOptions::default() };
        let (format, rejects) = (Numbers::default(), Rejects::new(&options, Advice::None));
        let mut read = Vec::new();
        let mut emit = |batch: RecordBatch| {
            read.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
            true
        };
        let records = format.records(&chunk.bytes);
        assert!(read_carefully(&format, &rejects, &chunk, &records, &mut emit).unwrap());
        let good: Vec<i64> = (0..rows).filter(|row| !is_bad(*row)).map(|row| row as i64).collect();
        assert_eq!(read, good);
        let bad = (0..rows).filter(|row| is_bad(*row));
        let bad: Vec<_> = bad.map(|row| (BEFORE + row as u64, format!("bad{row}"))).collect();
        let rejected = rejects.take().into_iter().map(|row| (row.line, row.value));
        assert_eq!(rejected.collect::<Vec<_>>(), bad);
        format.parsed.into_inner() as f64 / chunk.bytes.len() as f64
    }

    #[test]
    fn a_row_is_parsed_a_few_times_however_many_are_bad() {
        for rows in [1, 2, 3, 1_000, 40_000] {
            for every in [1, 2, 3, 10, 97, 1_000, 39_999] {
                let times = read_rows(rows, |row| row % every == every - 1);
                assert!(times <= 6.0, "{rows} rows, one of {every} bad: {times}");
                let times = read_rows(rows, |row| row % every == 0);
                assert!(times <= 6.0, "{rows} rows, the first and one of {every} bad: {times}");
            }
            let times = read_rows(rows, |row| (rows / 3..rows / 2).contains(&row));
            assert!(times <= 6.0, "{rows} rows, some in the middle bad: {times}");
        }
    }

    #[test]
    fn few_values_wait_whatever_the_width_of_a_table() {
        for (width, expected) in
            [(1, (8_192, 128)), (16, (8_192, 128)), (128, (8_192, 16)), (16_384, (64, 16)), (1 << 24, (1, 2))]
        {
            let number = || Arc::new(Field::new("a", DataType::Int64, true));
            let fields: Vec<FieldRef> = (0..width.min(16_384)).map(|_| number()).collect();
            let structure = Arc::new(Field::new("s", DataType::Struct(fields.clone().into()), true));
            let fields = if width > 16_384 { vec![structure; width / 16_384] } else { fields };
            assert_eq!(batches_of(&fields, 16 << 20, 128), expected, "{width}");
        }
    }

    #[test]
    fn rows_are_read_in_pieces_where_they_become_much() {
        let bytes = (0..10).map(|row| if row == 6 { "x\n".into() } else { format!("{row}\n") });
        let chunk = Chunk { file: "x".into(), line: 3, bytes: bytes.collect::<String>().into_bytes() };
        let options =
            ReadOptions { ignore_errors: true, rejects_table: Some("r".into()), ..ReadOptions::default() };
        for most in [1, 3, 4, 10, 100] {
            let format = Numbers { most: Some(most), ..Numbers::default() };
            let rejects = Rejects::new(&options, Advice::None);
            let mut read: Vec<Vec<i64>> = Vec::new();
            let mut emit = |batch: RecordBatch| {
                read.push(batch.column(0).as_primitive::<Int64Type>().values().to_vec());
                true
            };
            read_chunk(&format, &rejects, &chunk, &mut emit).unwrap();
            assert!(read.iter().all(|rows| rows.len() <= most), "{most}: {read:?}");
            assert_eq!(read.concat(), [0, 1, 2, 3, 4, 5, 7, 8, 9], "{most}");
            assert_eq!(rejects.take().iter().map(|row| row.line).collect::<Vec<_>>(), [9], "{most}");
        }
        let format = Numbers { most: Some(2), ..Numbers::default() };
        let mut read = 0;
        let mut emit = |batch: RecordBatch| {
            read += batch.num_rows();
            false
        };
        read_chunk(&format, &Rejects::new(&options, Advice::None), &chunk, &mut emit).unwrap();
        assert_eq!(read, 2);
    }

    #[test]
    fn reading_ends_when_nobody_wants_more() {
        let bytes = b"1\n2\nx\n4\n".to_vec();
        let chunk = Chunk { file: "x".into(), line: 1, bytes };
        let options = ReadOptions { ignore_errors: true, ..ReadOptions::default() };
        let (format, rejects) = (Numbers::default(), Rejects::new(&options, Advice::None));
        let records = format.records(&chunk.bytes);
        let mut batches = 0;
        let mut emit = |_: RecordBatch| {
            batches += 1;
            false
        };
        assert!(!read_carefully(&format, &rejects, &chunk, &records, &mut emit).unwrap());
        assert_eq!(batches, 1);
    }
}
