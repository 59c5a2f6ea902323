//! Options of reading and writing files, the same in `COPY … (name value)` and
//! `read_csv(…, name => value)`.

use crate::encoding::Encoding;
use crate::input::Reading;
use crate::path::FileFormat;
use chrono::format::{Item, StrftimeItems};
use datafusion::common::ScalarValue;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use hypostyle_types::{Error, Result, did_you_mean};

/// A name and a value as SQL gives them.
pub type Pair = (String, ScalarValue);

/// The layout of the values of a JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// One value per line.
    Lines,
    /// One array of all values.
    Array,
    /// Values one after another, each over any number of lines.
    Values,
}

/// The forms that options give to dates, points in time and numbers.
#[derive(Clone, Debug, Default)]
pub struct Given {
    pub date: Option<String>,
    pub timestamp: Option<String>,
    pub point: Option<char>,
    /// What stands between the thousands of a number.
    pub thousands: Option<char>,
}

/// The options for reading a file; those that are `None` are detected.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    pub header: Option<bool>,
    pub delimiter: Option<u8>,
    /// `Some(None)`: nothing quotes.
    pub quote: Option<Option<u8>>,
    pub escape: Option<u8>,
    /// Begins a line that is left out.
    pub comment: Option<u8>,
    /// Rows may have fewer values than there are columns; those that they lack are NULL.
    pub is_padded: bool,
    /// Texts that mean NULL.
    pub null_texts: Vec<String>,
    /// Quoted texts may mean NULL, too.
    pub allow_quoted_nulls: bool,
    /// The forms of dates and numbers.
    pub given: Given,
    /// Names of columns get lower case and underscores.
    pub normalize_names: bool,
    /// `None`: UTF-8, or what the mark at the start of the file tells.
    pub encoding: Option<Encoding>,
    /// Lines to leave out before the header.
    pub skip: usize,
    pub names: Vec<String>,
    pub types_by_position: Vec<String>,
    pub types_by_name: Vec<(String, String)>,
    pub all_text: bool,
    pub compression: Option<FileCompressionType>,
    /// Rows that types are detected from; `None`: all.
    pub sample_rows: Option<usize>,
    pub layout: Option<JsonLayout>,
    /// Leave out rows that cannot be read.
    pub ignore_errors: bool,
    /// The number of bad rows that is too many, with `ignore_errors`.
    pub errors_max: Option<u64>,
    /// The table that takes the rows left out.
    pub rejects_table: Option<String>,
    /// The session that reads.
    pub reading: Reading,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            header: None,
            delimiter: None,
            quote: None,
            escape: None,
            comment: None,
            is_padded: false,
            null_texts: vec![String::new()],
            allow_quoted_nulls: false,
            given: Given::default(),
            normalize_names: false,
            encoding: None,
            skip: 0,
            names: Vec::new(),
            types_by_position: Vec::new(),
            types_by_name: Vec::new(),
            all_text: false,
            compression: None,
            sample_rows: Some(20_480),
            layout: None,
            ignore_errors: false,
            errors_max: None,
            rejects_table: None,
            reading: Reading::default(),
        }
    }
}

const READ_CSV: &[&str] = &[
    "header",
    "delim",
    "delimiter",
    "sep",
    "quote",
    "escape",
    "comment",
    "null_padding",
    "nullstr",
    "null",
    "allow_quoted_nulls",
    "dateformat",
    "date_format",
    "timestampformat",
    "timestamp_format",
    "decimal_separator",
    "thousands",
    "encoding",
    "normalize_names",
    "strict_mode",
    "skip",
    "names",
    "types",
    "dtypes",
    "columns",
    "all_varchar",
    "compression",
    "sample_size",
    "ignore_errors",
    "max_errors",
    "rejects_table",
];
const READ_JSON: &[&str] = &[
    "format",
    "encoding",
    "types",
    "columns",
    "compression",
    "sample_size",
    "ignore_errors",
    "max_errors",
    "rejects_table",
];

/// What the functions in FROM say of several files, whatever their format.
pub const OF_SEVERAL_FILES: &[&str] = &["filename", "union_by_name", "hive_partitioning"];

impl ReadOptions {
    /// Options of a statement or function, which `of` names in errors.
    ///
    /// # Errors
    /// `InvalidInput` for an option that the format does not have and for a value it does not take.
    pub fn parse(of: &str, format: FileFormat, pairs: &[Pair]) -> Result<Self> {
        Self::parse_beside(of, format, &[], pairs)
    }

    /// Reads options as [`Self::parse`] does, with others that are there, too, and have been taken.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_beside(of: &str, format: FileFormat, taken: &[&str], pairs: &[Pair]) -> Result<Self> {
        let known = match format {
            FileFormat::Csv => READ_CSV,
            FileFormat::Json => READ_JSON,
            FileFormat::Parquet | FileFormat::Arrow => &[],
        };
        let mut options = Self::default();
        for (name, value) in pairs {
            let value = Value { of, name: &known_name(of, name, known, taken)?, value };
            options.set(&value)?;
        }
        let given = &options.given;
        if given.thousands.is_some_and(|thousands| thousands == given.point.unwrap_or('.')) {
            return Err(Error::invalid_input(format!(
                "{of}: the options \"thousands\" and \"decimal_separator\" (by default '.') take different characters"
            )));
        }
        Ok(options)
    }

    fn set(&mut self, value: &Value<'_>) -> Result<()> {
        match value.name {
            "header" => self.header = Some(value.boolean()?),
            "delim" | "delimiter" | "sep" => {
                self.delimiter = Some(value.byte()?.ok_or_else(|| value.wrong("one character"))?);
            }
            "quote" => self.quote = Some(value.byte()?),
            "escape" => self.escape = value.byte()?,
            "comment" => self.comment = value.byte()?,
            "null_padding" => self.is_padded = value.boolean()?,
            "nullstr" | "null" => self.null_texts = value.texts()?,
            "allow_quoted_nulls" => self.allow_quoted_nulls = value.boolean()?,
            "dateformat" | "date_format" => self.given.date = value.pattern()?,
            "timestampformat" | "timestamp_format" => self.given.timestamp = value.pattern()?,
            "decimal_separator" => {
                self.given.point = value.byte()?.map(char::from).filter(|point| *point != '.')
            }
            "thousands" => self.given.thousands = value.byte()?.map(char::from),
            "strict_mode" => value.strict()?,
            "encoding" => self.encoding = Some(value.encoding()?),
            "normalize_names" => self.normalize_names = value.boolean()?,
            "skip" => self.skip = value.count()? as usize,
            "names" => self.names = value.texts()?,
            "types" | "dtypes" => match value.pairs() {
                Some(pairs) => self.types_by_name = pairs?,
                None => self.types_by_position = value.texts()?,
            },
            "columns" => {
                let pairs = value.pairs().ok_or_else(|| value.wrong("{'name': 'TYPE', …}"))??;
                (self.names, self.types_by_position) = pairs.into_iter().unzip();
            }
            "all_varchar" => self.all_text = value.boolean()?,
            "compression" => self.compression = value.compression()?,
            "sample_size" => {
                self.sample_rows = match value.number()? {
                    -1 => None,
                    0.. => Some(value.count()? as usize),
                    _ => return Err(value.wrong("a number of rows, or -1 for all")),
                }
            }
            "format" => self.layout = value.layout()?,
            "ignore_errors" => self.ignore_errors = value.boolean()?,
            "max_errors" => {
                self.errors_max = Some(value.count()?);
                self.ignore_errors = true;
            }
            _ => {
                self.rejects_table = Some(value.text()?);
                self.ignore_errors = true;
            }
        }
        Ok(())
    }
}

/// The options for writing a file.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    pub header: bool,
    pub delimiter: u8,
    pub quote: u8,
    pub escape: Option<u8>,
    pub null_text: String,
    /// The columns whose texts all stand in quotes in CSV; `*` is all of them.
    pub force_quote: Vec<String>,
    pub date_format: Option<String>,
    pub timestamp_format: Option<String>,
    /// The compression of the whole file, for CSV and JSON.
    pub compression: FileCompressionType,
    /// The compression of the pages, for Parquet, as DataFusion spells it.
    pub page_compression: String,
    pub compression_level: Option<u32>,
    pub row_group_rows: Option<usize>,
    /// One JSON array of all rows.
    pub is_array: bool,
}

const WRITE_CSV: &[&str] = &[
    "header",
    "delim",
    "delimiter",
    "sep",
    "quote",
    "escape",
    "nullstr",
    "null",
    "force_quote",
    "dateformat",
    "timestampformat",
    "compression",
    "compression_level",
];
/// Options of others for writing many files.
const WRITE_DIRECTORIES: &[&str] = &[
    "partition_by",
    "overwrite",
    "overwrite_or_ignore",
    "append",
    "filename_pattern",
    "file_size_bytes",
    "per_thread_output",
    "write_partition_columns",
];
const WRITE_JSON: &[&str] = &["array", "compression", "compression_level"];
const WRITE_PARQUET: &[&str] = &["compression", "compression_level", "row_group_size"];
const PAGE_COMPRESSIONS: [&str; 7] = ["uncompressed", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "zstd"];

impl WriteOptions {
    /// Options of `COPY … TO`; the name of the file tells what they do not.
    ///
    /// # Errors
    /// `InvalidInput` for an option that the format does not have and for a value it does not take.
    pub fn parse(path: &str, format: FileFormat, pairs: &[Pair]) -> Result<Self> {
        let known = match format {
            FileFormat::Csv => WRITE_CSV,
            FileFormat::Json => WRITE_JSON,
            FileFormat::Parquet => WRITE_PARQUET,
            FileFormat::Arrow => &[],
        };
        let tabs = crate::path::extension(path).as_deref() == Some("tsv");
        let mut options = Self {
            header: true,
            delimiter: if tabs { b'\t' } else { b',' },
            quote: b'"',
            escape: None,
            null_text: String::new(),
            force_quote: Vec::new(),
            date_format: None,
            timestamp_format: None,
            compression: crate::path::compression_from_path(std::path::Path::new(path)),
            page_compression: "zstd".into(),
            compression_level: None,
            row_group_rows: None,
            is_array: false,
        };
        let of = format!("COPY TO {}", format.name());
        for (name, value) in pairs {
            if WRITE_DIRECTORIES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(Error::unsupported(format!(
                    "{of}: the option \"{name}\" is not supported: a COPY writes one file"
                )));
            }
            let value = Value { of: &of, name: &known_name(&of, name, known, &[])?, value };
            options.set(format, &value)?;
        }
        if options.is_array && options.compression != FileCompressionType::UNCOMPRESSED {
            return Err(Error::unsupported(format!(
                "{of}: an array is not compressed; leave out one of both"
            )));
        }
        Ok(options)
    }

    fn set(&mut self, format: FileFormat, value: &Value<'_>) -> Result<()> {
        let byte = || value.byte()?.ok_or_else(|| value.wrong("one character"));
        match value.name {
            "array" => self.is_array = value.boolean()?,
            "header" => self.header = value.boolean()?,
            "delim" | "delimiter" | "sep" => self.delimiter = byte()?,
            "quote" => self.quote = byte()?,
            "escape" => self.escape = value.byte()?,
            "nullstr" | "null" => self.null_text = value.text()?,
            "force_quote" => self.force_quote = value.texts()?,
            "dateformat" => self.date_format = Some(value.text()?),
            "timestampformat" => self.timestamp_format = Some(value.text()?),
            "compression_level" => self.compression_level = Some(value.count()? as u32),
            "row_group_size" => match value.count()? {
                0 => return Err(value.wrong("a number of rows")),
                rows => self.row_group_rows = Some(rows as usize),
            },
            _ if format == FileFormat::Parquet => {
                let name = value.text()?.to_ascii_lowercase();
                let name = if name == "none" { "uncompressed".to_string() } else { name };
                if !PAGE_COMPRESSIONS.contains(&name.as_str()) {
                    return Err(value.wrong(&format!("one of {}", PAGE_COMPRESSIONS.join(", "))));
                }
                self.page_compression = name;
            }
            _ => self.compression = value.compression()?.unwrap_or(self.compression),
        }
        Ok(())
    }
}

impl WriteOptions {
    /// Says whether all texts of a column stand in quotes.
    pub fn is_quoted(&self, column: &str) -> bool {
        self.force_quote.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(column))
    }

    /// # Errors
    /// `InvalidInput` (42703) for a column with quotes that is none of the rows'.
    pub fn check_columns(&self, columns: &[&str]) -> Result<()> {
        let is_known =
            |name: &&String| *name == "*" || columns.iter().any(|column| name.eq_ignore_ascii_case(column));
        match self.force_quote.iter().find(|name| !is_known(name)) {
            Some(name) => {
                Err(Error::invalid_input(format!("force_quote names no column \"{name}\" of the rows"))
                    .with_sqlstate("42703"))
            }
            None => Ok(()),
        }
    }
}

/// Takes `FORMAT name` out of the options of a COPY, or else tells the format from the file's name.
///
/// # Errors
/// `InvalidInput` for an unknown format, and when neither tells it.
pub fn take_format(path: &str, pairs: &mut Vec<Pair>) -> Result<FileFormat> {
    if let Some(index) = pairs.iter().position(|(name, _)| name.eq_ignore_ascii_case("format")) {
        let name = text_of(&pairs[index].1).unwrap_or_default();
        // A JSON file may also say its layout here: that is left for the JSON options.
        if ["array", "newline_delimited", "nd", "auto"].contains(&name.to_ascii_lowercase().as_str()) {
            return Ok(FileFormat::Json);
        }
        let format = FileFormat::from_name(&name)?;
        pairs.remove(index);
        return Ok(format);
    }
    FileFormat::from_path(path).ok_or_else(|| {
        Error::invalid_input(format!(
            "cannot tell the format of \"{path}\" from its name; add (FORMAT csv), parquet, json or arrow"
        ))
    })
}

/// Takes an option out of those of a function that is true or false; `None` where it is not there.
///
/// # Errors
/// `InvalidInput` for another value.
pub fn take_flag(of: &str, pairs: &mut Vec<Pair>, name: &str) -> Result<Option<bool>> {
    let place = pairs.iter().position(|(given, _)| given.eq_ignore_ascii_case(name));
    let taken = place.map(|place| pairs.remove(place));
    taken.map(|(_, value)| Value { of, name, value: &value }.boolean()).transpose()
}

/// Returns the name of an option that is known; an error names those that are taken already, too.
fn known_name(of: &str, name: &str, known: &[&str], taken: &[&str]) -> Result<String> {
    let lower = name.to_ascii_lowercase();
    if known.contains(&lower.as_str()) {
        return Ok(lower);
    }
    let all = [known, taken].concat();
    let list = match all.as_slice() {
        [] => format!("{of} has no options"),
        all => format!("the options are {}", all.join(", ")),
    };
    let suggestion = did_you_mean(name, all.iter().copied());
    Err(Error::invalid_input(format!("{of} has no option \"{name}\"{suggestion}; {list}")))
}

/// One option's value, with the names that its errors need.
struct Value<'a> {
    of: &'a str,
    name: &'a str,
    value: &'a ScalarValue,
}

impl Value<'_> {
    fn wrong(&self, wanted: &str) -> Error {
        let Self { of, name, value } = self;
        Error::invalid_input(format!("{of}: the option \"{name}\" takes {wanted}, not '{value}'"))
    }

    fn text(&self) -> Result<String> {
        text_of(self.value).ok_or_else(|| self.wrong("a text"))
    }

    fn texts(&self) -> Result<Vec<String>> {
        if let Some(text) = text_of(self.value) {
            return Ok(vec![text]);
        }
        elements(self.value)
            .and_then(|values| values.iter().map(text_of).collect::<Option<Vec<_>>>())
            .ok_or_else(|| self.wrong("a text or a list of texts"))
    }

    fn pairs(&self) -> Option<Result<Vec<(String, String)>>> {
        let ScalarValue::Struct(values) = self.value else { return None };
        let pairs = values.fields().iter().zip(values.columns()).map(|(field, column)| {
            let value = ScalarValue::try_from_array(column, 0).ok().as_ref().and_then(text_of);
            Ok((field.name().clone(), value.ok_or_else(|| self.wrong("{'name': 'TYPE', …}"))?))
        });
        Some(pairs.collect())
    }

    /// Reads a switch. An option without a value, such as `HEADER` in COPY, is on.
    fn boolean(&self) -> Result<bool> {
        match self.value {
            ScalarValue::Boolean(Some(value)) => Ok(*value),
            _ => match self.text()?.to_ascii_lowercase().as_str() {
                "" | "true" | "t" | "on" | "yes" | "1" => Ok(true),
                "false" | "f" | "off" | "no" | "0" => Ok(false),
                _ => Err(self.wrong("true or false")),
            },
        }
    }

    fn number(&self) -> Result<i64> {
        self.text()?.parse().map_err(|_| self.wrong("a whole number"))
    }

    fn count(&self) -> Result<u64> {
        u64::try_from(self.number()?).map_err(|_| self.wrong("a whole number from 0"))
    }

    fn byte(&self) -> Result<Option<u8>> {
        let text = self.text()?;
        match text.as_str() {
            "" => Ok(None),
            "\\t" | "tab" => Ok(Some(b'\t')),
            _ => match text.as_bytes() {
                [byte] if byte.is_ascii() && !b"\r\n".contains(byte) => Ok(Some(*byte)),
                _ => Err(self.wrong("one ASCII character")),
            },
        }
    }

    /// Reads a pattern of strptime; `auto` is none.
    fn pattern(&self) -> Result<Option<String>> {
        let text = self.text()?;
        if text.is_empty() || text.eq_ignore_ascii_case("auto") {
            return Ok(None);
        }
        let is_sound = !StrftimeItems::new(&text).any(|item| item == Item::Error);
        if is_sound && text.contains('%') {
            Ok(Some(text))
        } else {
            Err(self.wrong("a pattern such as '%d.%m.%Y'"))
        }
    }

    fn encoding(&self) -> Result<Encoding> {
        Encoding::from_name(&self.text()?).ok_or_else(|| self.wrong("utf-8, utf-16, utf-16-be or latin-1"))
    }

    /// Checks what is read: rows by the rules of the file.
    fn strict(&self) -> Result<()> {
        match self.boolean()? {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "{}: \"strict_mode\" is always true: rows that break the file's rules are errors. Leave them out with \
                 ignore_errors => true, fill short ones with null_padding => true, or set quote => '' where quotes are \
                 text",
                self.of
            ))),
        }
    }

    fn compression(&self) -> Result<Option<FileCompressionType>> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "auto" | "auto_detect" => Ok(None),
            "none" | "uncompressed" => Ok(Some(FileCompressionType::UNCOMPRESSED)),
            name => match name.parse() {
                Ok(compression) => Ok(Some(compression)),
                Err(_) => Err(self.wrong("gzip, zstd, bz2, xz, none or auto")),
            },
        }
    }

    fn layout(&self) -> Result<Option<JsonLayout>> {
        match self.text()?.to_ascii_lowercase().as_str() {
            "auto" => Ok(None),
            "newline_delimited" | "nd" => Ok(Some(JsonLayout::Lines)),
            "array" => Ok(Some(JsonLayout::Array)),
            "unstructured" => Ok(Some(JsonLayout::Values)),
            _ => Err(self.wrong("auto, newline_delimited, array or unstructured")),
        }
    }
}

/// Returns the text of a scalar that is one; numbers and truth values as SQL writes them.
pub fn text_of(value: &ScalarValue) -> Option<String> {
    if value.is_null() || value.data_type().is_nested() { None } else { Some(value.to_string()) }
}

/// Returns the elements of a list.
pub fn elements(value: &ScalarValue) -> Option<Vec<ScalarValue>> {
    let list = match value {
        ScalarValue::List(list) => list.value(0),
        ScalarValue::LargeList(list) => list.value(0),
        ScalarValue::FixedSizeList(list) => list.value(0),
        _ => return None,
    };
    (0..list.len()).map(|index| ScalarValue::try_from_array(&list, index).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> Pair {
        (name.into(), ScalarValue::from(value))
    }

    #[test]
    fn read_options_are_understood() {
        let pairs = [
            pair("HEADER", ""),
            pair("sep", "\\t"),
            pair("quote", ""),
            pair("skip", "2"),
            pair("sample_size", "-1"),
            pair("max_errors", "5"),
            pair("compression", "gzip"),
        ];
        let options = ReadOptions::parse("COPY FROM csv", FileFormat::Csv, &pairs).unwrap();
        assert_eq!((options.header, options.delimiter, options.quote), (Some(true), Some(b'\t'), Some(None)));
        assert_eq!((options.skip, options.sample_rows, options.errors_max), (2, None, Some(5)));
        assert!(options.ignore_errors);
        assert_eq!(options.compression, Some(FileCompressionType::GZIP));
    }

    #[test]
    fn a_wrong_option_is_named_with_the_right_ones() {
        let read = |format, name: &str, value: &str| {
            ReadOptions::parse("read_csv", format, &[pair(name, value)]).unwrap_err().to_string()
        };
        let error = read(FileFormat::Csv, "heder", "x");
        assert!(error.starts_with("read_csv has no option \"heder\"; did you mean \"header\"?"), "{error}");
        assert!(error.contains("all_varchar"), "{error}");
        assert_eq!(
            read(FileFormat::Csv, "header", "perhaps"),
            "read_csv: the option \"header\" takes true or false, not 'perhaps'"
        );
        assert!(read(FileFormat::Csv, "delim", "ab").contains("one ASCII character"));
        assert!(read(FileFormat::Parquet, "header", "1").contains("has no options"));
        let pairs = [pair("filenam", "1")];
        let error = ReadOptions::parse_beside("read_parquet", FileFormat::Parquet, OF_SEVERAL_FILES, &pairs)
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean \"filename\"?"), "{error}");
        assert!(error.ends_with("the options are filename, union_by_name, hive_partitioning"), "{error}");
        let error = WriteOptions::parse("a.parquet", FileFormat::Parquet, &[pair("compression", "zip")]);
        assert!(error.unwrap_err().message().contains("snappy"));
    }

    #[test]
    fn a_copy_takes_its_format_from_the_option_or_the_name() {
        let mut pairs = vec![pair("Format", "CSV"), pair("header", "1")];
        assert_eq!(take_format("x.parquet", &mut pairs).unwrap(), FileFormat::Csv);
        assert_eq!(pairs.len(), 1);
        assert_eq!(take_format("x.parquet", &mut pairs).unwrap(), FileFormat::Parquet);
        assert!(take_format("x", &mut pairs).unwrap_err().message().contains("FORMAT csv"));
    }
}
