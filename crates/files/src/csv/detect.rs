//! Detects the properties of a CSV file: its delimiter, its header, its columns and their types.

use crate::chunk::{Chunks, Purpose, TextFormat};
use crate::csv::{CsvFormat, Dialect, Form, Guess};
use crate::input::{Input, check_text};
use crate::option::ReadOptions;
use crate::path::extension;
use crate::reject::{Advice, Rejects};
use arrow::datatypes::{DataType, Field, Schema};
use hypostyle_types::{Error, Result};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Bytes that the dialect is told from.
const HEAD_BYTES: u64 = 1 << 20;

/// Records that every delimiter is tried on.
const DELIMITER_RECORDS: usize = 100;

const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Columns of a file. More of them are rather a file with other delimiters or line ends.
pub const COLUMNS_MAX: usize = 16_384;

/// A file as it describes itself.
#[derive(Debug)]
pub struct Detected {
    pub dialect: Dialect,
    pub header: bool,
    /// The names in the header, as they stand there.
    pub header_names: Option<Vec<String>>,
    /// Lines that start with `#` come before the header.
    pub has_notes: bool,
    /// Unique names and detected types of all columns.
    pub columns: Vec<Field>,
    /// How each column's values are written.
    pub forms: Vec<Form>,
}

/// Returns an error for a file of so many columns, if those are too many.
///
/// # Errors
/// `InvalidInput`, with what may be wrong.
pub fn check_columns(path: &Path, columns: usize) -> Result<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    Err(Error::invalid_input(format!(
        "\"{}\" has {columns} columns, and a file may have {COLUMNS_MAX}; is another delimiter meant?",
        path.display()
    )))
}

/// Detects what `options` leave open from the first file; a row of `known_names` is a header.
///
/// # Errors
/// `InvalidInput` for a file without a row; those of reading it.
pub fn detect(file: &Input, options: &ReadOptions, known_names: &[&str]) -> Result<Detected> {
    let path = file.path();
    let mut bytes = Vec::new();
    let mut reader = file.sample(options)?;
    reader.by_ref().take(HEAD_BYTES).read_to_end(&mut bytes).map_err(|error| Input::damaged(path, &error))?;
    drop(reader);
    check_text(path, &bytes)?;
    let head = &bytes[CsvFormat::preamble(&bytes, options.skip, false)..];
    let has_notes = has_notes(path, options, head, known_names);
    let head = &bytes[CsvFormat::preamble(&bytes, options.skip, has_notes)..];
    let look = Look { file, options, head, has_notes, known_names };
    let Some((dialect, first, sample)) = look.dialect()? else {
        return Err(Error::invalid_input(format!("\"{}\" is empty: it has no columns", path.display())));
    };
    let header = options.header.unwrap_or_else(|| is_header(&first, &sample, options, known_names));
    let mut guesses = sample.rest;
    if !header {
        guesses.iter_mut().zip(&sample.first).for_each(|(guess, first)| *guess &= *first);
    }
    let given = if header { first.as_slice() } else { &[] };
    let given = if options.names.is_empty() { given } else { options.names.as_slice() };
    let mut names = given.to_vec();
    if options.normalize_names {
        names.iter_mut().for_each(|name| *name = normalized(name));
    }
    let names = unique_names(&names, guesses.len());
    let columns = names.into_iter().zip(&guesses).map(|(name, guess)| {
        let data_type = if options.all_text { DataType::Utf8View } else { guess.data_type() };
        Field::new(name, data_type, true)
    });
    let columns: Vec<Field> = columns.collect();
    // A lone column has an empty line where it is NULL.
    let has_empty_lines = columns.len() == 1 && options.null_texts.iter().any(String::is_empty);
    Ok(Detected {
        dialect: Dialect { has_empty_lines, ..dialect },
        header,
        header_names: header.then_some(first),
        has_notes,
        columns,
        forms: guesses.iter().map(|guess| guess.form(&options.given)).collect(),
    })
}

/// Says whether a file starts with lines of notes: those that start with `#` and do not have the
/// values of the others.
fn has_notes(path: &Path, options: &ReadOptions, head: &[u8], known_names: &[&str]) -> bool {
    if options.comment.is_some() || options.skip > 0 || !head.starts_with(b"#") {
        return false;
    }
    let behind = CsvFormat::preamble(head, 0, true);
    let quote = options.quote.unwrap_or(Some(b'"'));
    let dialect = detect_dialect(path, options, &head[behind..], quote, known_names);
    let Some((first, _)) = dialect.first_record(&head[behind..]) else { return false };
    let mut notes = head[..behind].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let is_uneven = |line: &[u8]| dialect.values(line).len() != first.len();
    // A lone column may hold such texts. Before a header all of them are notes.
    first.len() > 1 && (notes.all(is_uneven) || starts_with_header(dialect, &head[behind..], options))
}

/// Says whether the types of some records tell that the first one is a header.
fn starts_with_header(dialect: Dialect, records: &[u8], options: &ReadOptions) -> bool {
    let places = dialect.records(records).into_iter().take(DELIMITER_RECORDS);
    let rows: Vec<Vec<Vec<u8>>> = places.map(|place| dialect.values(&records[place])).collect();
    let [first, _, ..] = rows.as_slice() else { return false };
    let mut sample = Sample::new(first.len());
    for (number, values) in rows.iter().enumerate() {
        sample.take(values, number == 0, dialect, options);
    }
    sample.names_a_column() && sample.first.iter().all(|guess| guess.is_text())
}

/// Returns a name in lower case, with underscores in the place of all but letters and digits.
fn normalized(name: &str) -> String {
    let plain: String = name
        .trim()
        .chars()
        .map(|character| if character.is_alphanumeric() { character } else { '_' })
        .collect::<String>()
        .to_lowercase();
    if plain.starts_with(|first: char| first.is_numeric()) { format!("_{plain}") } else { plain }
}

/// The start of a file, from which its dialect is told.
struct Look<'a> {
    file: &'a Input,
    options: &'a ReadOptions,
    head: &'a [u8],
    has_notes: bool,
    /// The columns to be filled, if those are known.
    known_names: &'a [&'a str],
}

/// A dialect, the first record, and what the sample of the file is in that dialect.
type Found = (Dialect, Vec<String>, Sample);

impl Look<'_> {
    fn detected(&self, quote: Option<u8>) -> Dialect {
        detect_dialect(self.file.path(), self.options, self.head, quote, self.known_names)
    }

    /// Returns the dialect; `None` for a file without a record.
    fn dialect(&self) -> Result<Option<Found>> {
        let (path, options, head) = (self.file.path(), self.options, self.head);
        let quoted = self.detected(options.quote.unwrap_or(Some(b'"')));
        let Some((first, _)) = quoted.first_record(head) else { return Ok(None) };
        check_columns(path, first.len())?;
        let sampled = self.sample(quoted, first.len());
        let is_sound = sampled.as_ref().is_ok_and(|sample| sample.is_even && !sample.is_misquoted);
        if !is_sound && let Some(found) = self.with_backslashes(quoted) {
            return Ok(Some(found));
        }
        if options.quote.is_none() {
            // What seems to be a lone column may have its delimiters in quotes.
            let single = if is_sound && first.len() > 1 { None } else { self.in_single_quotes() };
            let plain = || if is_sound { None } else { self.without_quotes(quoted) };
            if let Some(found) = single.or_else(plain) {
                return Ok(Some(found));
            }
        }
        Ok(Some((quoted, first, sampled?)))
    }

    /// Returns the dialect in which a backslash stands before quotes within quotes, if that explains all
    /// of the sample.
    fn with_backslashes(&self, quoted: Dialect) -> Option<Found> {
        let quote = quoted.quote.filter(|_| self.options.escape.is_none())?;
        if !self.head.windows(2).any(|pair| pair[0] == b'\\' && pair[1] == quote) {
            return None;
        }
        let options = ReadOptions { escape: Some(b'\\'), ..self.options.clone() };
        let path = self.file.path();
        let dialect = detect_dialect(path, &options, self.head, quoted.quote, self.known_names);
        let (first, _) = dialect.first_record(self.head)?;
        let sample = self.sample(dialect, first.len()).ok()?;
        (sample.is_even && !sample.is_misquoted).then_some((dialect, first, sample))
    }

    /// Returns the dialect in which `'` quotes, if that explains all of the sample.
    fn in_single_quotes(&self) -> Option<Found> {
        let dialect = self.detected(Some(b'\''));
        let before = |byte: u8| byte == dialect.delimiter || matches!(byte, b'\n' | b'\r');
        if !self.head.windows(2).any(|pair| before(pair[0]) && pair[1] == b'\'') {
            return None;
        }
        let (first, _) = dialect.first_record(self.head)?;
        let sample = self.sample(dialect, first.len()).ok()?;
        (first.len() > 1 && sample.is_even && !sample.is_misquoted).then_some((dialect, first, sample))
    }

    /// Returns the dialect in which quotes are text, if that explains all of the sample. A header
    /// whose quotes quote tells that all of them do.
    fn without_quotes(&self, quoted: Dialect) -> Option<Found> {
        let dialect = self.detected(None);
        let (first, end) = dialect.first_record(self.head)?;
        let opens = |value: &String| value.bytes().next() == quoted.quote;
        if first.iter().any(opens) && !quoted.is_misquoted(&self.head[..end]) {
            return None;
        }
        let sample = self.sample(dialect, first.len()).ok()?;
        sample.is_even.then_some((dialect, first, sample))
    }

    fn sample(&self, dialect: Dialect, columns: usize) -> Result<Sample> {
        let options = self.options;
        let format = Arc::new(CsvFormat {
            dialect,
            header: false,
            skip: options.skip,
            has_notes: self.has_notes,
            header_names: None,
            null_texts: options.null_texts.clone(),
            allow_quoted_nulls: options.allow_quoted_nulls,
            columns: Arc::new(Schema::empty()),
            forms: Vec::new(),
            projection: Vec::new(),
        });
        // The reader reports what is wrong with the file.
        let lenient = ReadOptions { ignore_errors: true, ..ReadOptions::default() };
        let rejects = Arc::new(Rejects::new(&lenient, Advice::None));
        let files = vec![self.file.clone()];
        let mut sample = Sample::new(columns);
        let mut rows = 0;
        for chunk in Chunks::new(Arc::clone(&format), Arc::clone(&rejects), files, options, Purpose::Sample) {
            let chunk = chunk?;
            sample.is_misquoted |= dialect.is_misquoted(&chunk.bytes);
            for record in format.records(&chunk.bytes) {
                if options.sample_rows.is_some_and(|limit| rows > limit) {
                    return Ok(sample);
                }
                sample.take(&dialect.values(&chunk.bytes[record]), rows == 0, dialect, options);
                check_columns(self.file.path(), sample.rest.len())?;
                rows += 1;
            }
        }
        // A rejected row means a quote that nothing closes.
        sample.is_misquoted |= rejects.has_any();
        Ok(sample)
    }
}

fn detect_dialect(
    path: &Path,
    options: &ReadOptions,
    head: &[u8],
    quote: Option<u8>,
    known_names: &[&str],
) -> Dialect {
    let escape = options.escape.filter(|escape| quote.is_some() && Some(*escape) != quote);
    let (comment, is_padded) = (options.comment, options.is_padded);
    let (is_spaced, has_empty_lines) = (false, false);
    let dialect = Dialect { delimiter: b',', quote, escape, comment, is_padded, is_spaced, has_empty_lines };
    if let Some(delimiter) = options.delimiter {
        return spaced(Dialect { delimiter, ..dialect }, head);
    }
    if extension(&path.to_string_lossy()).as_deref() == Some("tsv") {
        return spaced(Dialect { delimiter: b'\t', ..dialect }, head);
    }
    let counts = |delimiter: u8| -> Vec<usize> {
        let dialect = spaced(Dialect { delimiter, ..dialect }, head);
        // The last record may be cut off.
        let records = dialect.records(&head[..dialect.ends(head).end]);
        let records = records.iter().take(DELIMITER_RECORDS);
        records.map(|record| dialect.values(&head[record.clone()]).len()).collect()
    };
    let fields = |delimiter: u8| match counts(delimiter).as_slice() {
        [first, rest @ ..] if rest.iter().all(|count| count == first) => *first,
        _ => 0,
    };
    let delimiters = DELIMITERS.iter().copied().filter(|delimiter| Some(*delimiter) != quote);
    // The most columns win, and the first of equals.
    let mut best = (1, dialect.delimiter);
    // So do as many as are to be filled, unless a header tells more.
    let mut fitting = None;
    for delimiter in delimiters {
        let count = fields(delimiter);
        if count > best.0 {
            best = (count, delimiter);
        }
        if count == known_names.len() {
            fitting.get_or_insert(delimiter);
        }
    }
    let names = spaced(Dialect { delimiter: best.1, ..dialect }, head).first_record(head);
    let has =
        |name: &&str| names.iter().any(|(names, _)| names.iter().any(|own| own.eq_ignore_ascii_case(name)));
    if let Some(delimiter) = fitting
        && best.0 != known_names.len()
        && !known_names.iter().all(has)
    {
        best.1 = delimiter;
    }
    if best.0 == 1 && known_names.len() < 2 && is_lone(&counts(best.1)) {
        let mut others = DELIMITERS.iter().rev().copied().filter(|other| Some(*other) != quote);
        best.1 = others.find(|other| fields(*other) == 1).unwrap_or(best.1);
    }
    spaced(Dialect { delimiter: best.1, ..dialect }, head)
}

/// Says whether records of so many fields are rather those of a lone column, some of whose texts have the
/// delimiter in them: its name is one field, and so are most of them.
fn is_lone(counts: &[usize]) -> bool {
    let ones = counts.iter().filter(|count| **count == 1).count();
    counts.first() == Some(&1) && ones < counts.len() && 2 * ones > counts.len()
}

/// Returns the dialect that leaves out blanks after delimiters, if there is one after each.
fn spaced(dialect: Dialect, head: &[u8]) -> Dialect {
    let spaced = Dialect { is_spaced: true, ..dialect };
    let first = spaced.first_record(head).map_or(0, |(_, end)| end);
    // Most files are told by their first record.
    if dialect.delimiter == b' ' || !spaced.is_spaced_out(&head[..first]) {
        return dialect;
    }
    let end = match spaced.ends(head).end {
        0 => head.len(),
        end => end,
    };
    let mut records = spaced.records(&head[..end]).into_iter().take(DELIMITER_RECORDS);
    if records.all(|record| spaced.is_spaced_out(&head[record])) { spaced } else { dialect }
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

impl Sample {
    fn new(columns: usize) -> Self {
        let guesses = vec![Guess::default(); columns];
        Self { first: guesses.clone(), rest: guesses, is_even: true, is_misquoted: false }
    }

    /// Says whether the first record has a text where later ones have values of another type.
    fn names_a_column(&self) -> bool {
        self.first.iter().zip(&self.rest).any(|(first, rest)| {
            let mut both = *rest;
            both &= *first;
            !rest.is_text() && both.is_text()
        })
    }

    /// Looks at the values of one record.
    fn take(&mut self, values: &[Vec<u8>], is_first: bool, dialect: Dialect, options: &ReadOptions) {
        let columns = self.rest.len();
        if values.len() != columns && !dialect.is_padded {
            self.is_even = false;
            return;
        }
        if values.len() > columns {
            self.first.resize(values.len(), Guess::default());
            self.rest.resize(values.len(), Guess::default());
        }
        let guesses = if is_first { &mut self.first } else { &mut self.rest };
        for (guess, value) in guesses.iter_mut().zip(values) {
            let text = String::from_utf8_lossy(value);
            if !options.null_texts.iter().any(|null| *null == text) {
                *guess &= Guess::of(&text, &options.given);
            }
        }
    }
}

/// Says whether the first record names columns: it has a known name, or a text where values are
/// not.
fn is_header(first: &[String], sample: &Sample, options: &ReadOptions, known_names: &[&str]) -> bool {
    let known = |name: &String| known_names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if !options.names.is_empty() {
        let is_of_texts = sample.first.iter().all(|guess| guess.is_text());
        return first == options.names || is_of_texts && sample.names_a_column();
    }
    if first.iter().any(known) {
        return true;
    }
    // A file of only texts gives no hint; most files have a header.
    let texts_only = sample.first.iter().chain(&sample.rest).all(|guess| guess.is_text());
    sample.names_a_column()
        || (texts_only && known_names.is_empty() && first.iter().all(|name| !name.is_empty()))
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

    fn input(path: &str) -> Input {
        Input::of(vec![path.into()], &ReadOptions::default()).unwrap().remove(0)
    }

    fn detected(contents: &str) -> Detected {
        let directory = TestDirectory::new("detect");
        let path = directory.write("x.csv", contents);
        detect(&input(&path), &ReadOptions::default(), &[]).unwrap()
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
        let file = detected("name\nLee, Ann\nBob\nCid\n");
        assert_eq!((file.dialect.delimiter != b',', columns(&file)), (true, vec!["name Utf8View".into()]));
        assert_eq!(detected("a\n1,2\n3,4\n").dialect.delimiter, b',');
    }

    #[test]
    fn blanks_single_quotes_and_notes_are_detected() {
        let file = detected("a, b\n1, 2\n3, \"x, y\"\n");
        assert_eq!(
            (file.dialect.is_spaced, columns(&file)),
            (true, vec!["a Int64".into(), "b Utf8View".into()])
        );
        assert!(!detected("a, b\n1,2\n").dialect.is_spaced);
        let file = detected("a,b\n1,'x,y'\n2,'z'\n");
        assert_eq!((file.dialect.quote, file.columns.len()), (Some(b'\''), 2));
        assert_eq!(detected("a,b\n1,'t Hoen\n2,it's\n").dialect.quote, Some(b'"'));
        let file = detected("# made by x\n# on a Monday\nid,name\n1,Ann\n");
        assert_eq!((file.has_notes, columns(&file)), (true, vec!["id Int64".into(), "name Utf8View".into()]));
        let file = detected("#chrom,pos\nX,1\n");
        assert_eq!(
            (file.has_notes, columns(&file)),
            (false, vec!["#chrom Utf8View".into(), "pos Int64".into()])
        );
        let wide = (0..=COLUMNS_MAX).map(|column| column.to_string()).collect::<Vec<_>>().join(",");
        let path = TestDirectory::new("wide");
        let path_of = path.write("x.csv", wide);
        let error = detect(&input(&path_of), &ReadOptions::default(), &[]).unwrap_err();
        assert!(error.message().contains("has 16385 columns"), "{error}");
    }
}
