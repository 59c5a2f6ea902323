//! The alternatives that each table of the chapter compares.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use clap::ValueEnum;
use hypostyle_wire::{CHUNK_BYTES, Codec};
use serde_json::{Map, Value, json};

use super::Result;
use super::columnar::ColumnWise;
use super::format::{Format, Messages, Serializer};
use super::general::General;
use super::integers::Integers;
use super::link::{LAN, LOCAL, Link, SLOW, WAN};
use super::product::Chunks;
use super::protobuf::{ProtobufColumns, ProtobufRows};
use super::rows::RowWise;
use super::text::Strings;
use super::transfer::{transfer, verify};

/// A table, by the chapter's numbers.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Table {
    #[value(name = "3.3")]
    ChunkSize,
    #[value(name = "3.4")]
    Files,
    #[value(name = "3.5")]
    Compression,
    #[value(name = "3.6")]
    Integers,
    #[value(name = "3.7")]
    Protobuf,
    #[value(name = "3.8")]
    ShortStrings,
    #[value(name = "3.9")]
    LongStrings,
}

/// The chapter's sizes of chunks, and one between the best two.
const CHUNK_SIZES: [(&str, usize); 7] = [
    ("2 KB", 2 << 10),
    ("10 KB", 10 << 10),
    ("100 KB", 100 << 10),
    ("1 MB", 1 << 20),
    ("4 MB", 4 << 20),
    ("10 MB", 10 << 20),
    ("100 MB", 100 << 20),
];

/// The rows of the files of Table 3.4.
const FILE_ROWS: usize = 1_000_000;

const RETURNFLAG: usize = 8;
const COMMENT: usize = 15;

/// One alternative.
struct Case {
    name: String,
    format: Box<dyn Format>,
    chunk_bytes: usize,
    runs_max: usize,
}

impl Case {
    fn new(name: impl Into<String>, format: impl Format + 'static) -> Self {
        Self {
            name: name.into(),
            format: Box::new(format),
            chunk_bytes: CHUNK_BYTES as usize,
            runs_max: usize::MAX,
        }
    }

    fn product(codec: Codec) -> Self {
        Self::new(format!("Hypostyle {codec}"), Chunks(codec))
    }

    /// Returns a case that is named after the serializer and, unless there is none, the
    /// compression.
    fn message(name: &str, serializer: impl Serializer + 'static, general: General) -> Self {
        let name = match general {
            General::None => name.to_owned(),
            general => format!("{name} + {}", general.name()),
        };
        Self::new(name, Messages { serializer, general })
    }
}

impl Table {
    /// Whether the chapter measures other data sets than lineitem, too.
    pub fn is_of_any_rows(self) -> bool {
        matches!(self, Self::ChunkSize | Self::Integers)
    }

    pub fn measure(self, rows: &RecordBatch, runs: usize) -> Result<Vec<Value>> {
        match self {
            Self::ChunkSize => measure(&chunk_sizes(), rows, &[LOCAL], runs),
            Self::Files => files(&rows.slice(0, FILE_ROWS.min(rows.num_rows())), runs),
            Self::Compression => measure(&compressions(), rows, &[LOCAL, LAN, WAN, SLOW], runs),
            Self::Integers => measure(&integers(), &integer_columns(rows)?, &[LOCAL, LAN, WAN], runs),
            Self::Protobuf => measure(&serializations(), rows, &[LOCAL, LAN, WAN], runs),
            Self::ShortStrings => {
                let column = rows.project(&[RETURNFLAG])?;
                let mut measured = measure(&strings(&[1]), &column, &[LOCAL], runs)?;
                let stored = [Codec::None, Codec::Light]
                    .map(|codec| Case::new(format!("Hypostyle {codec}, stored dictionary"), Chunks(codec)));
                measured.extend(measure(&stored, &as_dictionary(&column)?, &[LOCAL], runs)?);
                Ok(measured)
            }
            Self::LongStrings => {
                let column = rows.project(&[COMMENT])?;
                measure(&strings(&[44, 100, 1000, 10_000]), &column, &[LOCAL], runs)
            }
        }
    }
}

/// Returns the columns of integers and decimals: of lineitem the chapter's eight, l_orderkey to l_tax.
fn integer_columns(rows: &RecordBatch) -> Result<RecordBatch> {
    let schema = rows.schema();
    let places: Vec<usize> = (0..rows.num_columns())
        .filter(|&place| {
            let data_type = schema.field(place).data_type();
            data_type.is_integer() || data_type.is_decimal()
        })
        .collect();
    Ok(rows.project(&places)?)
}

fn chunk_sizes() -> Vec<Case> {
    let sizes = CHUNK_SIZES.into_iter().flat_map(|(size, chunk_bytes)| {
        [
            Case::message("columns", ColumnWise::CHAPTER, General::None),
            Case::message("columns", ColumnWise::CHAPTER, General::Snappy),
            Case::product(Codec::None),
            Case::product(Codec::Light),
            Case::product(Codec::Zstd(1)),
        ]
        .map(|case| Case { name: format!("{size}: {}", case.name), chunk_bytes, ..case })
    });
    sizes.collect()
}

fn compressions() -> Vec<Case> {
    let mut cases = Vec::new();
    for general in
        [General::None, General::Snappy, General::Lz4, General::Zstd(1), General::Zstd(9), General::Gzip]
    {
        cases.push(Case::message("rows", RowWise, general));
        cases.push(Case::message("columns", ColumnWise::CHAPTER, general));
    }
    // XZ takes minutes, and is included for the chapter's last line.
    cases.push(Case { runs_max: 1, ..Case::message("columns", ColumnWise::CHAPTER, General::Xz) });
    let codecs = [Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1), Codec::Zstd(9), Codec::Auto];
    cases.extend(codecs.map(Case::product));
    cases
}

fn integers() -> Vec<Case> {
    let mut cases = Vec::new();
    for general in [General::None, General::Snappy, General::Zstd(1)] {
        for integers in Integers::ALL {
            let serializer = ColumnWise { integers, strings: Strings::NulTerminated };
            cases.push(Case::message(integers.name(), serializer, general));
        }
    }
    let codecs = [Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1), Codec::Auto];
    cases.extend(codecs.map(Case::product));
    cases
}

fn serializations() -> Vec<Case> {
    let mut cases = Vec::new();
    for general in [General::None, General::Snappy] {
        cases.push(Case::message("columns", ColumnWise::CHAPTER, general));
        cases.push(Case::message("Protobuf rows", ProtobufRows, general));
        cases.push(Case::message("Protobuf columns", ProtobufColumns, general));
    }
    cases.extend([Codec::None, Codec::Light, Codec::Auto].map(Case::product));
    cases
}

/// Returns fixed widths beside the two alternatives that need none.
fn strings(widths: &[usize]) -> Vec<Case> {
    let mut layouts = vec![
        ("NUL-terminated".to_owned(), Strings::NulTerminated),
        ("varint prefix".to_owned(), Strings::VarintPrefix),
    ];
    layouts.extend(widths.iter().map(|width| (format!("VARCHAR({width})"), Strings::Fixed(*width))));
    let mut cases = Vec::new();
    for general in [General::None, General::Snappy] {
        for (name, strings) in &layouts {
            let serializer = ColumnWise { integers: Integers::Plain, strings: *strings };
            cases.push(Case::message(name, serializer, general));
        }
    }
    cases.extend([Codec::None, Codec::Light, Codec::Lz4, Codec::Zstd(1)].map(Case::product));
    cases
}

/// Returns a column of strings in the stored form of a column with few distinct ones.
fn as_dictionary(column: &RecordBatch) -> Result<RecordBatch> {
    let data_type = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
    let field = Field::new(column.schema().field(0).name(), data_type.clone(), false);
    let array = cast(column.column(0), &data_type)?;
    Ok(RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array])?)
}

/// Sends the rows by each alternative over each link. The alternatives take turns. Before that each
/// is checked, which also warms it up.
fn measure(cases: &[Case], rows: &RecordBatch, links: &[Link], runs: usize) -> Result<Vec<Value>> {
    let explained = |case: &Case, error| format!("{}: {error}", case.name);
    let mut records = Vec::with_capacity(cases.len());
    for case in cases {
        let checked =
            verify(case.format.as_ref(), rows, case.chunk_bytes).map_err(|error| explained(case, error))?;
        records.push(json!({
            "name": case.name,
            "rows_per_chunk": rows.num_rows() as f64 / checked.chunks as f64,
            "buffer_bytes": checked.buffer_bytes,
        }));
    }
    let mut samples: Vec<Map<String, Value>> = vec![Map::new(); cases.len()];
    let mut bytes: Vec<Map<String, Value>> = samples.clone();
    for link in links {
        let sent = rows.slice(0, rows.num_rows() / link.share);
        let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); cases.len()];
        for run in 0..runs.min(link.runs_max) {
            for (index, case) in cases.iter().enumerate().filter(|(_, case)| run < case.runs_max) {
                let transfer = transfer(case.format.as_ref(), &sent, case.chunk_bytes, link)
                    .map_err(|error| explained(case, error))?;
                seconds[index].push(transfer.seconds);
                bytes[index].insert(link.name.to_owned(), transfer.bytes.into());
            }
        }
        for (samples, seconds) in samples.iter_mut().zip(seconds) {
            samples.insert(link.name.to_owned(), seconds.into());
        }
    }
    for ((record, samples), bytes) in records.iter_mut().zip(samples).zip(bytes) {
        record["seconds"] = samples.into();
        record["bytes"] = bytes.into();
    }
    Ok(records)
}

/// Measures Table 3.4: all rows as one message, by row and by column, and with each compression.
fn files(rows: &RecordBatch, runs: usize) -> Result<Vec<Value>> {
    let mut records = Vec::new();
    let layouts: [(&str, &dyn Serializer); 2] = [("rows", &RowWise), ("columns", &ColumnWise::CHAPTER)];
    for (layout, serializer) in layouts {
        let mut message = Vec::new();
        serializer.write(rows, &mut message)?;
        for general in General::ALL {
            // XZ takes a minute, and is included for its size.
            let runs = if general == General::Xz { 1 } else { runs };
            records.push(file(layout, &message, general, runs)?);
        }
    }
    Ok(records)
}

fn file(layout: &str, message: &[u8], general: General, runs: usize) -> Result<Value> {
    let (mut compress, mut decompress, mut bytes) = (Vec::new(), Vec::new(), 0);
    for _ in 0..runs {
        let copy = message.to_vec();
        let start = Instant::now();
        let body = general.compress(copy)?;
        compress.push(start.elapsed().as_secs_f64());
        bytes = body.len();
        let start = Instant::now();
        let undone = general.decompress(body)?;
        decompress.push(start.elapsed().as_secs_f64());
        if undone.as_slice() != message {
            return Err(format!("{} does not give {layout} back", general.name()).into());
        }
    }
    Ok(json!({
        "name": format!("{layout}: {}", general.name()),
        "bytes": { "file": bytes },
        "seconds": { "compress": compress, "decompress": decompress },
    }))
}
