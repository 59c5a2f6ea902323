//! Records taken apart into values, and columns made of them.
//!
//! Values stay where they are in the bytes of a chunk; only those with doubled or escaped quotes
//! are copied. This parser knows which values stand in quotes: those are texts, even if they look
//! like NULL.

use crate::chunk::VALUES_MAX;
use crate::convert::from_text;
use crate::csv::dialect::{Dialect, before_comment, find};
use crate::csv::form::Form;
use crate::csv::guess::Guess;
use crate::option::Given;
use crate::uuid_column::is_of_text;
use arrow::array::{ArrayRef, PrimitiveArray, PrimitiveBuilder, StringBuilder, StringViewBuilder};
use arrow::compute::kernels::cast_utils::{Parser, parse_decimal};
use arrow::datatypes::*;
use arrow::error::ArrowError;
use hypostyle_types::LogicalType;
use std::borrow::Cow;
use std::sync::Arc;

/// A value in quotes, and one without its doubled or escaped quotes; then the length of a value.
const QUOTED: u32 = 1 << 31;
const COPIED: u32 = 1 << 30;
const LENGTH: u32 = COPIED - 1;

/// The place of a value.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    /// The length, and what else is known.
    rest: u32,
}

/// The place of a value that the record does not have.
const MISSING: Place = Place { start: u32::MAX, rest: 0 };

/// What the values of a file mean.
#[derive(Clone, Copy, Debug)]
pub struct Meaning<'a> {
    /// Texts that mean NULL.
    pub null_texts: &'a [String],
    /// Quoted texts may mean NULL, too.
    pub allow_quoted_nulls: bool,
}

/// Whole records that are taken apart.
pub struct Records<'a> {
    dialect: &'a Dialect,
    text: &'a str,
    at: usize,
    columns: usize,
    /// The place of each column in a row of those wanted.
    slots: Vec<Option<usize>>,
    wanted: usize,
    rows_max: usize,
    places: Vec<Place>,
    copied: String,
    rows: usize,
}

/// Bytes of a number that has surely no more digits than 256 bits.
const PLAIN_DECIMAL_MAX: usize = 76;

fn wrong(message: impl Into<String>) -> ArrowError {
    ArrowError::CsvError(message.into())
}

impl<'a> Records<'a> {
    /// Returns the records of some bytes, of so many columns, of which some are wanted.
    ///
    /// # Errors
    /// When the bytes are no text.
    pub fn new(
        dialect: &'a Dialect,
        bytes: &'a [u8],
        columns: usize,
        wanted: &[usize],
        rows_max: usize,
    ) -> Result<Self, ArrowError> {
        let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
        if bytes.contains(&0) {
            return Err(wrong("a NUL character"));
        }
        let mut slots = vec![None; columns];
        let mut count = 0;
        for column in wanted {
            if slots[*column].is_none() {
                slots[*column] = Some(count);
                count += 1;
            }
        }
        let wanted = count;
        let rows_max = rows_max.min(VALUES_MAX / columns.max(1)).max(1);
        let (places, copied) = (Vec::new(), String::new());
        Ok(Self { dialect, text, at: 0, columns, slots, wanted, rows_max, places, copied, rows: 0 })
    }

    /// Takes the next records apart; returns how many.
    ///
    /// # Errors
    /// When a record has other columns or wrong quotes.
    pub fn advance(&mut self) -> Result<usize, ArrowError> {
        self.places.clear();
        self.copied.clear();
        self.rows = 0;
        let bytes = self.text.as_bytes();
        while self.rows < self.rows_max {
            match bytes.get(self.at) {
                None => break,
                Some(b'\n' | b'\r') => {
                    self.end_line();
                    if self.dialect.has_empty_lines {
                        self.push(&[Place { start: 0, rest: 0 }]);
                    }
                }
                Some(first) if Some(*first) == self.dialect.comment => self.skip_line(),
                Some(_) => self.record()?,
            }
        }
        Ok(self.rows)
    }

    /// Goes past a line end.
    fn end_line(&mut self) {
        let bytes = self.text.as_bytes();
        let is_pair = bytes[self.at..].starts_with(b"\r\n");
        self.at += if is_pair { 2 } else { 1 };
    }

    fn skip_line(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        match rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(length) => {
                self.at += length;
                self.end_line();
            }
            None => self.at = self.text.len(),
        }
    }

    /// Takes a record whose values are known.
    fn push(&mut self, values: &[Place]) {
        let first = self.places.len();
        self.places.resize(first + self.wanted, MISSING);
        for (value, slot) in values.iter().zip(&self.slots) {
            if let Some(slot) = slot {
                self.places[first + slot] = *value;
            }
        }
        self.rows += 1;
    }

    fn record(&mut self) -> Result<(), ArrowError> {
        let bytes = self.text.as_bytes();
        let first = self.places.len();
        self.places.resize(first + self.wanted, MISSING);
        let mut column = 0;
        loop {
            while column > 0 && self.dialect.is_spaced && bytes.get(self.at) == Some(&b' ') {
                self.at += 1;
            }
            let is_quoted = self.dialect.quote.is_some() && bytes.get(self.at).copied() == self.dialect.quote;
            let place = if is_quoted { self.quoted()? } else { self.plain() };
            match self.slots.get(column) {
                Some(Some(slot)) => self.places[first + slot] = place,
                Some(None) => {}
                None => return Err(wrong("too many values")),
            }
            column += 1;
            match bytes.get(self.at) {
                Some(byte) if *byte == self.dialect.delimiter => self.at += 1,
                Some(b'\n' | b'\r') => {
                    self.end_line();
                    break;
                }
                None => break,
                Some(byte) if Some(*byte) == self.dialect.comment => {
                    self.skip_line();
                    break;
                }
                Some(_) => return Err(wrong("text after a quoted value")),
            }
        }
        if column < self.columns && !self.dialect.is_padded {
            return Err(wrong("too few values"));
        }
        self.rows += 1;
        Ok(())
    }

    /// Takes a value without quotes.
    fn plain(&mut self) -> Place {
        let (delimiter, comment) = (self.dialect.delimiter, self.dialect.comment);
        let rest = &self.text.as_bytes()[self.at..];
        let ends = |byte: &u8| *byte == delimiter || matches!(byte, b'\n' | b'\r') || Some(*byte) == comment;
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let is_commented = comment.is_some() && rest.get(length).copied() == comment;
        let value = if is_commented { before_comment(&rest[..length]) } else { length };
        let place = Place { start: self.at as u32, rest: value as u32 };
        self.at += length;
        place
    }

    /// Takes a value from its opening quote to what follows the closing one.
    fn quoted(&mut self) -> Result<Place, ArrowError> {
        let bytes = self.text.as_bytes();
        let quote = bytes[self.at];
        let start = self.at + 1;
        let (mut from, mut at, copied) = (start, start, self.copied.len());
        loop {
            let end = match self.dialect.escape {
                None => find(quote, bytes, at),
                Some(escape) => {
                    let found = bytes[at..].iter().position(|byte| *byte == quote || *byte == escape);
                    found.map(|found| at + found)
                }
            };
            let Some(end) = end else { return Err(wrong("a quote that is never closed")) };
            let is_escape = bytes[end] != quote;
            if !is_escape && bytes.get(end + 1) != Some(&quote) {
                self.at = end + 1;
                if self.copied.len() == copied && from == start {
                    return Ok(Place { start: start as u32, rest: (end - start) as u32 | QUOTED });
                }
                self.copied.push_str(&self.text[from..end]);
                let length = self.copied.len() - copied;
                return Ok(Place { start: copied as u32, rest: length as u32 | QUOTED | COPIED });
            }
            // The text before, without the escape; then the character after it, or the quote.
            self.copied.push_str(&self.text[from..end]);
            from = end + 1;
            let next =
                self.text[from..].chars().next().ok_or_else(|| wrong("a quote that is never closed"))?;
            at = from + next.len_utf8();
        }
    }

    /// Returns the text of a value of the batch and whether it stands in quotes; `None`: there is
    /// none.
    fn value(&self, row: usize, slot: usize) -> Option<(&str, bool)> {
        let place = self.places[row * self.wanted + slot];
        if place.start == MISSING.start {
            return None;
        }
        let text = if place.rest & COPIED != 0 { self.copied.as_str() } else { self.text };
        let start = place.start as usize;
        let text = text.get(start..start + (place.rest & LENGTH) as usize).unwrap_or_default();
        Some((text, place.rest & QUOTED != 0))
    }

    /// Returns one of the wanted columns of the batch, in the type of a field.
    ///
    /// # Errors
    /// When a value is none of that type.
    pub fn column(
        &self,
        column: usize,
        field: &Field,
        form: &Form,
        meaning: Meaning<'_>,
    ) -> Result<ArrayRef, ArrowError> {
        let slot = self.slots[column].ok_or_else(|| wrong("a column that is not wanted"))?;
        Column { records: self, slot, form, meaning, is_text: is_text(field) }.build(field)
    }
}

/// Says whether a value of a field's type may be an empty text.
fn is_text(field: &Field) -> bool {
    let data_type = field.data_type();
    let is_json = LogicalType::from_arrow(field).is_ok_and(|known| known == LogicalType::Json);
    (data_type.is_string() && !is_json) || data_type.is_binary()
}

fn is_number_or_time(text: &str) -> bool {
    !Guess::of(text, &Given::default()).is_text()
}

/// A column of a batch.
struct Column<'a> {
    records: &'a Records<'a>,
    slot: usize,
    form: &'a Form,
    meaning: Meaning<'a>,
    is_text: bool,
}

impl Column<'_> {
    /// Returns the texts; `None` where they are NULL.
    fn texts(&self) -> impl Iterator<Item = Option<&str>> {
        let Meaning { null_texts, allow_quoted_nulls } = self.meaning;
        let is_plain = matches!(null_texts, [only] if only.is_empty());
        (0..self.records.rows).map(move |row| {
            let (text, is_quoted) = self.records.value(row, self.slot)?;
            let is_null = match is_plain {
                true => text.is_empty(),
                false => null_texts.iter().any(|null| null == text),
            };
            // What is no value of another type than text is NULL also in quotes, which many
            // programs put around everything.
            let is_value = is_quoted && !allow_quoted_nulls && (self.is_text || is_number_or_time(text));
            (!is_null || is_value).then_some(text)
        })
    }

    /// Returns the texts as SQL writes them.
    fn usual(&self) -> impl Iterator<Item = Option<Result<Cow<'_, str>, ArrowError>>> {
        self.texts().map(move |text| {
            text.map(|text| self.form.usual(text).ok_or_else(|| wrong(format!("'{text}' has another form"))))
        })
    }

    fn build(&self, field: &Field) -> Result<ArrayRef, ArrowError> {
        match field.data_type() {
            DataType::Utf8View if !is_of_text(field) => {
                let mut builder = StringViewBuilder::with_capacity(self.records.rows);
                self.texts().for_each(|text| builder.append_option(text));
                Ok(Arc::new(builder.finish()))
            }
            DataType::Int8 => self.parsed::<Int8Type>(),
            DataType::Int16 => self.parsed::<Int16Type>(),
            DataType::Int32 => self.parsed::<Int32Type>(),
            DataType::Int64 => self.parsed::<Int64Type>(),
            DataType::UInt8 => self.parsed::<UInt8Type>(),
            DataType::UInt16 => self.parsed::<UInt16Type>(),
            DataType::UInt32 => self.parsed::<UInt32Type>(),
            DataType::UInt64 => self.parsed::<UInt64Type>(),
            DataType::Float32 => self.parsed::<Float32Type>(),
            DataType::Float64 => self.parsed::<Float64Type>(),
            DataType::Time64(TimeUnit::Nanosecond) => self.parsed::<Time64NanosecondType>(),
            DataType::Decimal32(precision, scale) => {
                self.decimals::<Decimal32Type>(*precision, *scale, field)
            }
            DataType::Decimal64(precision, scale) => {
                self.decimals::<Decimal64Type>(*precision, *scale, field)
            }
            DataType::Decimal128(precision, scale) => {
                self.decimals::<Decimal128Type>(*precision, *scale, field)
            }
            DataType::Decimal256(precision, scale) => {
                self.decimals::<Decimal256Type>(*precision, *scale, field)
            }
            DataType::Utf8 => self.strings(self.texts().map(|text| text.map(|text| Ok(Cow::Borrowed(text))))),
            // Dates and times are among these, and have all forms that a cast reads.
            data_type => {
                if *data_type == DataType::Date32
                    && let Some(dates) = self.plain_dates()
                {
                    return Ok(dates);
                }
                let texts = match data_type.is_string() {
                    true => self.strings(self.texts().map(|text| text.map(|text| Ok(Cow::Borrowed(text))))),
                    false => self.strings(self.usual()),
                };
                from_text(arrow::array::AsArray::as_string(texts?.as_ref()), field)
            }
        }
    }

    fn strings<'t>(
        &self,
        texts: impl Iterator<Item = Option<Result<Cow<'t, str>, ArrowError>>>,
    ) -> Result<ArrayRef, ArrowError> {
        let mut builder = StringBuilder::with_capacity(self.records.rows, self.records.rows * 8);
        for text in texts {
            builder.append_option(text.transpose()?);
        }
        Ok(Arc::new(builder.finish()))
    }

    fn primitives<T: ArrowPrimitiveType>(
        &self,
        read: impl Fn(&str) -> Result<T::Native, ArrowError>,
    ) -> Result<PrimitiveArray<T>, ArrowError> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.records.rows);
        if *self.form == Form::Usual {
            for text in self.texts() {
                builder.append_option(text.map(&read).transpose()?);
            }
        } else {
            for text in self.usual() {
                builder.append_option(text.map(|text| read(&text?)).transpose()?);
            }
        }
        Ok(builder.finish())
    }

    fn parsed<T: Parser>(&self) -> Result<ArrayRef, ArrowError> {
        let read = |text: &str| T::parse(text).ok_or_else(|| wrong(format!("cannot read '{text}'")));
        Ok(Arc::new(self.primitives::<T>(read)?))
    }

    /// Returns the dates, if all are written as `2024-01-05`, which takes less time than others.
    fn plain_dates(&self) -> Option<ArrayRef> {
        let read = |text: &str| match text.as_bytes() {
            [_, _, _, _, b'-', _, _, b'-', _, _] if !text.starts_with("0000") => {
                Date32Type::parse(text).ok_or_else(|| wrong("no date"))
            }
            _ => Err(wrong("another form")),
        };
        Some(Arc::new(self.primitives::<Date32Type>(read).ok()?))
    }

    fn decimals<T: DecimalType>(
        &self,
        precision: u8,
        scale: i8,
        field: &Field,
    ) -> Result<ArrayRef, ArrowError> {
        let plain = self.primitives::<T>(|text| match is_plain_decimal(text, scale) {
            true => parse_decimal::<T>(text, precision, scale),
            false => Err(wrong(format!("'{text}' has another form"))),
        });
        match plain {
            Ok(values) => Ok(Arc::new(values.with_precision_and_scale(precision, scale)?)),
            // A cast reads all forms.
            Err(_) => {
                let texts = self.strings(self.usual())?;
                from_text(arrow::array::AsArray::as_string(texts.as_ref()), field)
            }
        }
    }
}

/// Says whether Arrow's parser reads a number as it is: it counts digits in eight bits and exponents in
/// sixteen, and cuts off what is behind the last digit.
fn is_plain_decimal(text: &str, scale: i8) -> bool {
    let fraction = text.bytes().position(|byte| byte == b'.').map_or(0, |point| text.len() - point - 1);
    text.len() <= PLAIN_DECIMAL_MAX
        && fraction <= usize::try_from(scale).unwrap_or_default()
        && text.ends_with(|last: char| last.is_ascii_digit())
        && !text.bytes().any(|byte| matches!(byte, b'e' | b'E'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csv::dialect::texts;

    /// Returns each row's values, with NULL as `∅`.
    fn taken(dialect: &Dialect, file: &[u8], columns: usize) -> Result<Vec<Vec<String>>, ArrowError> {
        let wanted: Vec<usize> = (0..columns).collect();
        let mut records = Records::new(dialect, file, columns, &wanted, 3)?;
        let mut rows = Vec::new();
        while records.advance()? > 0 {
            for row in 0..records.rows {
                let value =
                    |slot| records.value(row, slot).map_or("∅".into(), |(text, _)| text.to_string());
                rows.push((0..columns).map(value).collect());
            }
        }
        Ok(rows)
    }

    #[test]
    fn records_are_taken_apart_as_they_are_found() {
        let alphabet = b"aa,,\"\"\"\n\r\\# ";
        let mut seed = 7_u64;
        let mut next = |of: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % of
        };
        let (mut sound, mut refused) = (0, 0);
        for round in 0..40_000 {
            let dialect = Dialect {
                delimiter: b',',
                quote: (round % 5 != 0).then_some(b'"'),
                escape: (round % 3 == 0 && round % 5 != 0).then_some(b'\\'),
                comment: (round % 2 == 0).then_some(b'#'),
                is_padded: round % 7 == 0,
                is_spaced: round % 11 == 0,
                has_empty_lines: false,
            };
            let text: Vec<u8> = (0..next(24)).map(|_| alphabet[next(alphabet.len())]).collect();
            let shown = String::from_utf8_lossy(&text);
            let columns = 1 + next(3);
            let found: Vec<Vec<String>> = dialect
                .records(&text)
                .into_iter()
                .map(|record| texts(&dialect.values(&text[record])))
                .collect();
            let fits = |row: &Vec<String>| row.len() == columns || (dialect.is_padded && row.len() < columns);
            let is_sound = !dialect.is_misquoted(&text) && found.iter().all(fits);
            match taken(&dialect, &text, columns) {
                Err(_) => {
                    assert!(!is_sound, "{dialect:?} {shown:?}");
                    refused += 1;
                }
                Ok(rows) => {
                    assert!(is_sound, "{dialect:?} {shown:?} {rows:?}");
                    let padded = found.into_iter().map(|mut row| {
                        row.resize(columns, "∅".into());
                        row
                    });
                    assert_eq!(rows, padded.collect::<Vec<_>>(), "{dialect:?} {shown:?}");
                    sound += 1;
                }
            }
        }
        assert!(sound > 5_000 && refused > 5_000, "{sound} {refused}");
    }
}
