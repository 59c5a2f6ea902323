//! Rows of CSV files.

use crate::chunk::{BATCH_ROWS, Fault, Scan, TextFormat, VALUES_AT_ONCE};
use crate::convert::type_name;
use crate::csv::dialect::{Dialect, texts};
use crate::csv::form::Form;
use crate::csv::records::{Meaning, Records};
use crate::reject::{OF_ENCODING, shown};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
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
    /// Lines that start with `#` come before the header.
    pub has_notes: bool,
    /// The header that every file has to have; `None`: any.
    pub header_names: Option<Vec<String>>,
    /// Texts that mean NULL.
    pub null_texts: Vec<String>,
    /// Quoted texts may mean NULL, too.
    pub allow_quoted_nulls: bool,
    /// Every column of the file, with the type to read it as.
    pub columns: SchemaRef,
    /// How each column's values are written.
    pub forms: Vec<Form>,
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

    /// Returns the first bytes without a byte order mark, skipped lines and notes: how many those
    /// are.
    pub fn preamble(start: &[u8], skip: usize, has_notes: bool) -> usize {
        let mut offset = if start.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        for _ in 0..skip {
            match start[offset..].iter().position(|byte| *byte == b'\n') {
                Some(end) => offset += end + 1,
                None => return start.len(),
            }
        }
        // Empty lines among the notes are none of the rows either.
        let is_note = |rest: &[u8]| matches!(rest, [b'#' | b'\n', ..] | [b'\r', b'\n', ..]);
        while has_notes && is_note(&start[offset..]) {
            match start[offset..].iter().position(|byte| *byte == b'\n') {
                Some(end) => offset += end + 1,
                None => return start.len(),
            }
        }
        offset
    }

    fn batch(
        &self,
        records: &Records<'_>,
        rows: usize,
        schema: &SchemaRef,
    ) -> Result<RecordBatch, ArrowError> {
        let meaning = Meaning { null_texts: &self.null_texts, allow_quoted_nulls: self.allow_quoted_nulls };
        let columns = self.projection.iter().enumerate().map(|(slot, column)| {
            let form = self.forms.get(*column).unwrap_or(&Form::Usual);
            records.column(*column, schema.field(slot), form, meaning)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect::<Result<_, _>>()?, &options)
    }
}

impl TextFormat for CsvFormat {
    type State = ();

    fn begin(&self, path: &Path, start: &[u8]) -> Result<((), usize)> {
        let skipped = Self::preamble(start, self.skip, self.has_notes);
        let dialect = Dialect { has_empty_lines: false, ..self.dialect };
        let Some((names, end)) = dialect.first_record(&start[skipped..]).filter(|_| self.header) else {
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
        // The other half of a line end may be in the bytes that follow.
        let ends = self.dialect.ends(bytes.strip_suffix(b"\r").unwrap_or(bytes));
        Scan { end: ends.end, open: ends.is_open.then_some(NEVER_CLOSED) }
    }

    fn parse(&self, records: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
        let columns = self.columns.fields().len();
        let mut records = Records::new(&self.dialect, records, columns, &self.projection, BATCH_ROWS)?;
        let schema = self.schema();
        let mut batches = Vec::new();
        loop {
            match records.advance()? {
                0 => return Ok(batches),
                rows => batches.push(self.batch(&records, rows, &schema)?),
            }
        }
    }

    fn records(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        self.dialect.records(bytes)
    }

    fn records_at_once(&self, bytes: &[u8]) -> Option<usize> {
        // Others have a byte for each value, at least.
        let most = VALUES_AT_ONCE / self.projection.len().max(1);
        let ends = || bytes.iter().filter(|byte| matches!(**byte, b'\n' | b'\r')).count();
        (self.dialect.is_padded && ends() > most).then_some(most)
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
        if let Some(index) = values.iter().position(|value| value.contains(&0)) {
            let value = shown(&texts[index].replace('\0', "\u{2400}"));
            return blame(
                index,
                format!("has a NUL character: '{value}'; for a file in UTF-16 give the {OF_ENCODING}"),
            );
        }
        if let Some(index) = values.iter().position(|value| std::str::from_utf8(value).is_err()) {
            let value = shown(&texts[index]);
            return blame(index, format!("is not valid UTF-8 or UTF-16: '{value}'; give the {OF_ENCODING}"));
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
