//! Detects the properties of a CSV file: its delimiter, its header, its columns and their types.

use crate::chunk::{Chunks, TextFormat};
use crate::csv::{CsvFormat, Dialect, Guess};
use crate::option::ReadOptions;
use crate::path::{extension, open};
use crate::reject::Rejects;
use arrow::datatypes::{DataType, Field, Schema};
use hypostyle_types::{Error, Result};
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that the dialect is told from.
const HEAD_BYTES: u64 = 1 << 20;

/// Records that every delimiter is tried on.
const DELIMITER_RECORDS: usize = 100;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// A file as it describes itself.
#[derive(Debug)]
pub struct Detected {
    pub dialect: Dialect,
    pub header: bool,
    /// The names in the header, as they stand there.
    pub header_names: Option<Vec<String>>,
    /// Unique names and detected types of all columns.
    pub columns: Vec<Field>,
}

/// Detects what `options` leave open from the first file; a row of `known_names` is a header.
///
/// # Errors
/// `InvalidInput` for a file without a row; those of reading it.
pub fn detect(path: &Path, options: &ReadOptions, known_names: &[&str]) -> Result<Detected> {
    let mut head = Vec::new();
    let mut reader = open(path, options.compression)?;
    reader.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(|error| {
        Error::invalid_input(format!(
            "\"{}\" is damaged or not compressed as its name says: {error}",
            path.display()
        ))
    })?;
    let head = &head[CsvFormat::preamble(&head, options.skip)..];
    let quoted = detect_dialect(path, options, head, options.quote.unwrap_or(Some(b'"')));
    let Some((first, _)) = quoted.first_record(head) else {
        return Err(Error::invalid_input(format!("\"{}\" is empty: it has no columns", path.display())));
    };
    let sampled = sample(path, options, quoted, first.len());
    let is_sound = sampled.as_ref().is_ok_and(|sample| sample.is_even && !sample.is_misquoted);
    let unquoted =
        (!is_sound && options.quote.is_none()).then(|| without_quotes(path, options, quoted, head)).flatten();
    let (dialect, first, sample) = match unquoted {
        Some(unquoted) => unquoted,
        None => (quoted, first, sampled?),
    };
    let header = options.header.unwrap_or_else(|| is_header(&first, &sample, options, known_names));
    let mut guesses = sample.rest;
    if !header {
        guesses.iter_mut().zip(&sample.first).for_each(|(guess, first)| *guess &= *first);
    }
    let names = if options.names.is_empty() {
        unique_names(if header { &first } else { &[] }, first.len())
    } else {
        unique_names(&options.names, first.len())
    };
    let columns = names.into_iter().zip(guesses).map(|(name, guess)| {
        let data_type = if options.all_text { DataType::Utf8View } else { guess.data_type() };
        Field::new(name, data_type, true)
    });
    let columns = columns.collect();
    Ok(Detected { dialect, header, header_names: header.then_some(first), columns })
}

/// Returns the same file read with quotes as text, if all its records then have as many values, and
/// its first one no quoted value: that of a file which quotes would have.
fn without_quotes(
    path: &Path,
    options: &ReadOptions,
    quoted: Dialect,
    head: &[u8],
) -> Option<(Dialect, Vec<String>, Sample)> {
    let dialect = detect_dialect(path, options, head, None);
    let (first, end) = dialect.first_record(head)?;
    let opens = |value: &String| value.bytes().next() == quoted.quote;
    if first.iter().any(opens) && !quoted.is_misquoted(&head[..end]) {
        return None;
    }
    let sample = sample(path, options, dialect, first.len()).ok()?;
    sample.is_even.then_some((dialect, first, sample))
}

fn detect_dialect(path: &Path, options: &ReadOptions, head: &[u8], quote: Option<u8>) -> Dialect {
    let escape = options.escape.filter(|escape| quote.is_some() && Some(*escape) != quote);
    let (comment, is_padded) = (options.comment, options.is_padded);
    let dialect = Dialect { delimiter: b',', quote, escape, comment, is_padded };
    if let Some(delimiter) = options.delimiter {
        return Dialect { delimiter, ..dialect };
    }
    if extension(&path.to_string_lossy()).as_deref() == Some("tsv") {
        return Dialect { delimiter: b'\t', ..dialect };
    }
    let fields = |delimiter: u8| {
        let dialect = Dialect { delimiter, ..dialect };
        // The last record may be cut off.
        let records = dialect.records(&head[..dialect.ends(head).end]);
        let mut counts =
            records.iter().take(DELIMITER_RECORDS).map(|record| dialect.values(&head[record.clone()]).len());
        let first = counts.next().unwrap_or(0);
        if counts.all(|count| count == first) { first } else { 0 }
    };
    // The most columns win, and the first of equals.
    let mut best = (1, dialect.delimiter);
    for delimiter in DELIMITERS {
        let count = fields(delimiter);
        if count > best.0 {
            best = (count, delimiter);
        }
    }
    Dialect { delimiter: best.1, ..dialect }
}

/// The types that fit the first record, and those that fit the later ones.
struct Sample {
    first: Vec<Guess>,
    rest: Vec<Guess>,
    /// All records have as many values.
    is_even: bool,
    /// There are quotes that are not where they should be.
    is_misquoted: bool,
}

fn sample(path: &Path, options: &ReadOptions, dialect: Dialect, columns: usize) -> Result<Sample> {
    let format = Arc::new(CsvFormat {
        dialect,
        header: false,
        skip: options.skip,
        header_names: None,
        null_texts: options.null_texts.clone(),
        columns: Arc::new(Schema::empty()),
        projection: Vec::new(),
    });
    // The reader reports what is wrong with the file.
    let lenient = ReadOptions { ignore_errors: true, ..ReadOptions::default() };
    let rejects = Arc::new(Rejects::new(&lenient, ""));
    let files: Vec<PathBuf> = vec![path.to_path_buf()];
    let guesses = vec![Guess::default(); columns];
    let mut sample = Sample { first: guesses.clone(), rest: guesses, is_even: true, is_misquoted: false };
    let mut rows = 0;
    for chunk in Chunks::new(Arc::clone(&format), Arc::clone(&rejects), files, options.compression) {
        let chunk = chunk?;
        sample.is_misquoted |= dialect.is_misquoted(&chunk.bytes);
        for record in format.records(&chunk.bytes) {
            if options.sample_rows.is_some_and(|limit| rows > limit) {
                return Ok(sample);
            }
            let values = dialect.values(&chunk.bytes[record]);
            let guesses = if rows == 0 { &mut sample.first } else { &mut sample.rest };
            rows += 1;
            if values.len() != columns && !(dialect.is_padded && values.len() < columns) {
                sample.is_even = false;
                continue;
            }
            for (guess, value) in guesses.iter_mut().zip(&values) {
                let text = String::from_utf8_lossy(value);
                if !options.null_texts.iter().any(|null| *null == text) {
                    *guess &= Guess::of(&text);
                }
            }
        }
    }
    // A rejected row means a quote that nothing closes.
    sample.is_misquoted |= rejects.has_any();
    Ok(sample)
}

/// Says whether the first record names columns: it has a known name, or a text where values are
/// not.
fn is_header(first: &[String], sample: &Sample, options: &ReadOptions, known_names: &[&str]) -> bool {
    let known = |name: &String| known_names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if !options.names.is_empty() {
        return first == options.names;
    }
    if first.iter().any(known) {
        return true;
    }
    let names_a_column = sample.first.iter().zip(&sample.rest).any(|(first, rest)| {
        let mut both = *rest;
        both &= *first;
        !rest.is_text() && both.is_text()
    });
    // A file of only texts gives no hint; most files have a header.
    let texts_only = sample.first.iter().chain(&sample.rest).all(|guess| guess.is_text());
    names_a_column || (texts_only && known_names.is_empty() && first.iter().all(|name| !name.is_empty()))
}

/// Returns names for all columns: `column0`, … where there is none, and a number after those that
/// come again.
fn unique_names(given: &[String], columns: usize) -> Vec<String> {
    let mut taken = HashSet::new();
    (0..columns)
        .map(|index| {
            let name = given.get(index).map(String::as_str).filter(|name| !name.trim().is_empty());
            let base = name.map_or_else(|| format!("column{index}"), str::to_string);
            let mut unique = base.clone();
            let mut number = 1;
            while !taken.insert(unique.clone()) {
                unique = format!("{base}_{number}");
                number += 1;
            }
            unique
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_directory::TestDirectory;

    fn detected(contents: &str) -> Detected {
        let directory = TestDirectory::new("detect");
        let path = directory.write("x.csv", contents);
        detect(Path::new(&path), &ReadOptions::default(), &[]).unwrap()
    }

    fn columns(detected: &Detected) -> Vec<String> {
        detected.columns.iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect()
    }

    #[test]
    fn delimiter_header_and_types_are_detected() {
        let file = detected("id;name;when\n1;Ann;2024-01-01\n2;\"B;b\";2024-01-02\n");
        assert_eq!((file.dialect.delimiter, file.header), (b';', true));
        assert_eq!(columns(&file), ["id Int64", "name Utf8View", "when Date32"]);
        let file = detected("1,Ann\n2,Bob\n");
        assert!(!file.header);
        assert_eq!(columns(&file), ["column0 Int64", "column1 Utf8View"]);
        let file = detected("a,a,,a\n1,2,3,4\n");
        assert_eq!(columns(&file), ["a Int64", "a_1 Int64", "column2 Int64", "a_2 Int64"]);
        assert!(detected("first,last\nAnn,Lee\n").header);
        assert!(!detected("only\n").columns.is_empty());
    }
}
