//! `hypostyle-bench design-space` measures the design space of the chapter (its Tables 3.3 to 3.9)
//! with our own code.
//!
//! Each parameter of a protocol is a value here. The product's chunks are called through
//! `hypostyle-wire`, and code that the product does not use is only in these modules. A
//! [`format::Format`] turns rows into frames and back. [`transfer`] sends them through a socket,
//! over a [`link`] that may be slower than loopback. [`tables`] says which formats are compared.

mod columnar;
mod columns;
mod format;
mod general;
mod integers;
mod link;
mod product;
mod protobuf;
mod rows;
mod tables;
mod text;
mod transfer;

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::ipc::reader::FileReader;
use clap::Args;
use hypostyle::tpch;
use serde_json::json;

/// The result of any function, with an error from any thread.
type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Args)]
pub struct Arguments {
    /// Table of the chapter
    #[arg(long)]
    table: tables::Table,
    /// TPC-H scale factor of the lineitem that is sent
    #[arg(long, default_value_t = 0.1)]
    sf: f64,
    /// Arrow file with the rows to send in place of lineitem, for Tables 3.3 and 3.6: integers and
    /// floats of 4 and 8 bytes, and large strings, without NULLs
    #[arg(long)]
    rows: Option<PathBuf>,
    /// Counted runs of each alternative
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// File to write the samples to
    #[arg(long)]
    json: PathBuf,
}

pub fn run(arguments: &Arguments) -> std::result::Result<(), Box<dyn Error>> {
    record(arguments).map_err(|error| error as Box<dyn Error>)
}

fn record(arguments: &Arguments) -> Result<()> {
    let rows = match &arguments.rows {
        None => lineitem(arguments.sf)?,
        Some(path) if arguments.table.is_of_any_rows() => read(path)?,
        Some(_) => return Err("only Tables 3.3 and 3.6 are of other rows than lineitem's".into()),
    };
    let measured = arguments.table.measure(&rows, arguments.runs)?;
    let record = json!({ "rows": rows.num_rows(), "runs": arguments.runs, "measured": measured });
    fs::write(&arguments.json, record.to_string())
        .map_err(|error| format!("cannot write {}: {error}", arguments.json.display()))?;
    Ok(())
}

/// Returns lineitem as one batch: integers of 4 and 8 bytes, and strings; no NULLs, no
/// dictionaries.
fn lineitem(scale_factor: f64) -> Result<RecordBatch> {
    let tables = tpch::tables(scale_factor)?;
    let table = tables.iter().find(|table| table.name == "lineitem").ok_or("TPC-H has no lineitem")?;
    let batches = table.read(1)?.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(concat_batches(&table.schema, &batches)?)
}

/// Returns the rows of an Arrow file as one batch.
fn read(path: &Path) -> Result<RecordBatch> {
    let file = File::open(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let reader = FileReader::try_new(file, None)?;
    let schema = reader.schema();
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(concat_batches(&schema, &batches)?)
}
