//! Rows of CSV files, which Arrow's parser reads and which are then converted if the type needs it.

use crate::chunk::{BATCH_ROWS, Fault, Scan, TextFormat};
use crate::convert::{csv_reads, from_text, type_name};
use crate::csv::dialect::{Dialect, texts};
use crate::reject::shown;
use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::csv::ReaderBuilder;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use hypostyle_types::{Error, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const NEVER_CLOSED: &str =
    "has a quoted value that is never closed; where quotes are text, set the option quote to ''";
const GOES_ON: &str = "has a quoted value that goes on after its closing quote; where quotes are text, set the option quote to ''";

/// The options for reading the files of one table.
#[derive(Clone, Debug)]
pub struct CsvFormat {
    pub dialect: Dialect,
    pub header: bool,
    /// Lines before the header.
    pub skip: usize,
    /// The header that every file has to have; `None`: any.
    pub header_names: Option<Vec<String>>,
    /// Texts that mean NULL.
    pub null_texts: Vec<String>,
    /// Every column of the file, with the type to read it as.
    pub columns: SchemaRef,
    /// The columns wanted, in the order wanted.
    pub projection: Vec<usize>,
}

impl CsvFormat {
    pub fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.projection.iter().map(|index| self.field(*index)).collect::<Vec<_>>()))
    }

    fn field(&self, index: usize) -> Arc<Field> {
        Arc::clone(&self.columns.fields()[index])
    }

    /// Returns the first bytes without a byte order mark and skipped lines: how many those are.
    pub fn preamble(start: &[u8], skip: usize) -> usize {
        let mut offset = if start.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        for _ in 0..skip {
            match start[offset..].iter().position(|byte| *byte == b'\n') {
                Some(end) => offset += end + 1,
                None => return start.len(),
            }
        }
        offset
    }

    fn reader(&self) -> Result<ReaderBuilder, ArrowError> {
        let carriers = self.columns.fields().iter().map(|field| {
            let data_type =
                if csv_reads(field.data_type()) { field.data_type().clone() } else { DataType::Utf8 };
            Field::new(field.name(), data_type, true)
        });
        let mut builder = ReaderBuilder::new(Arc::new(Schema::new(carriers.collect::<Vec<_>>())))
            .with_delimiter(self.dialect.delimiter)
            // A byte that occurs in no UTF-8 text quotes nothing.
            .with_quote(self.dialect.quote.unwrap_or(0xFF))
            .with_truncated_rows(self.dialect.is_padded)
            .with_batch_size(BATCH_ROWS)
            .with_projection(self.projection.clone());
        if let Some(escape) = self.dialect.escape {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = self.dialect.comment {
            builder = builder.with_comment(comment);
        }
        // Arrow reads an empty text as NULL without the cost of a pattern.
        if self.null_texts != [""] {
            let alternatives: Vec<String> =
                self.null_texts.iter().map(|text| literal_pattern(text)).collect();
            let pattern = format!("^(?:{})$", alternatives.join("|"));
            let pattern = pattern.parse().map_err(|error| ArrowError::CsvError(format!("{error}")))?;
            builder = builder.with_null_regex(pattern);
        }
        Ok(builder)
    }

    fn convert(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
            if column.data_type() == field.data_type() {
                return Ok(Arc::clone(column));
            }
            from_text(column.as_string(), field)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
    }
}

/// Returns a pattern that matches this text and nothing else.
fn literal_pattern(text: &str) -> String {
    text.chars().map(|character| format!("\\x{{{:x}}}", u32::from(character))).collect()
}

impl TextFormat for CsvFormat {
    type State = ();

    fn begin(&self, path: &Path, start: &[u8]) -> Result<((), usize)> {
        let skipped = Self::preamble(start, self.skip);
        let Some((names, end)) = self.dialect.first_record(&start[skipped..]).filter(|_| self.header) else {
            return Ok(((), skipped));
        };
        if self.dialect.is_misquoted(&start[skipped..skipped + end]) {
            return Err(Error::invalid_input(format!("{}: the header {GOES_ON}", path.display())));
        }
        if let Some(expected) = &self.header_names {
            let same = names.len() == expected.len()
                && names.iter().zip(expected).all(|(name, expected)| name.eq_ignore_ascii_case(expected));
            if !same {
                return Err(Error::invalid_input(format!(
                    "{}: the header is ({}), but that of the first file is ({})",
                    path.display(),
                    shown(&names.join(", ")),
                    shown(&expected.join(", ")),
                )));
            }
        }
        Ok(((), skipped + end))
    }

    fn scan(&self, (): &mut (), bytes: &mut [u8]) -> Scan {
        let ends = self.dialect.ends(bytes);
        Scan { end: ends.end, open: ends.is_open.then_some(NEVER_CLOSED) }
    }

    fn parse(&self, mut records: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        // Arrow's parser would continue without an error, with whole records in one value.
        if self.dialect.is_misquoted(records) {
            return Err(ArrowError::CsvError(GOES_ON.into()));
        }
        let mut decoder = self.reader()?.build_decoder();
        let schema = self.schema();
        let mut batches = Vec::new();
        loop {
            let used = decoder.decode(records)?;
            records = &records[used..];
            // No bytes were used: the batch is full, or everything is read.
            if used == 0 {
                match decoder.flush()? {
                    Some(batch) => batches.push(self.convert(&batch, &schema)?),
                    None => return Ok(batches),
                }
            }
        }
    }

    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        self.dialect.records(bytes)
    }

    fn explain(&self, record: &[u8], error: &ArrowError) -> Fault {
        let values = self.dialect.values(record);
        let whole = || shown(String::from_utf8_lossy(record).trim_end());
        if self.dialect.is_misquoted(record) {
            return Fault { column: None, value: whole(), reason: GOES_ON.into() };
        }
        let expected = self.columns.fields().len();
        if values.len() > expected || (values.len() < expected && !self.dialect.is_padded) {
            let plural = if values.len() == 1 { "field" } else { "fields" };
            let reason = format!("has {} {plural}, expected {expected}", values.len());
            return Fault { column: None, value: whole(), reason };
        }
        let texts = texts(&values);
        let blame = |index: usize, reason: String| {
            let column = Some((index + 1, self.field(index).name().clone()));
            Fault { column, value: shown(&texts[index]), reason }
        };
        if let Some(index) = values.iter().position(|value| std::str::from_utf8(value).is_err()) {
            return blame(index, format!("is not valid UTF-8: '{}'", shown(&texts[index])));
        }
        let unreadable = self.projection.iter().filter(|index| **index < values.len()).find(|index| {
            let alone = Self { projection: vec![**index], ..self.clone() };
            alone.parse(record).is_err()
        });
        match unreadable {
            Some(index) => {
                let field = self.field(*index);
                let reason = format!("cannot read '{}' as {}", shown(&texts[*index]), type_name(&field));
                blame(*index, reason)
            }
            None => Fault { column: None, value: whole(), reason: format!("cannot be read: {error}") },
        }
    }
}
