//! `hypostyle-bench tpch` runs each query on DataFusion alone, with its own types and with those that we
//! store: one warm-up and then the counted runs.
//!
//! An engine runs one query to the end of its runs before the next engine starts, so that all are
//! hot and none suffers from another's effect on the caches. A query that fails is recorded as an
//! error; the others are still measured.

use std::error::Error;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use clap::Args;
use hypostyle::{Connection, Database, OpenOptions};
use serde_json::{Map, Value, json};

use crate::datafusion_peer::{ColumnTypes, DataFusionPeer};

const TABLES: [&str; 8] =
    ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"];

#[derive(Args)]
pub struct Arguments {
    /// Hypostyle database that holds the TPC-H tables
    #[arg(long)]
    database: PathBuf,
    /// Counted runs of each query on each engine
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Threads of each engine [default: all cores]
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Folder with the queries, q01.sql to q22.sql
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/tpch/src/queries"))]
    queries: PathBuf,
    /// File to write the samples to
    #[arg(long)]
    json: PathBuf,
}

/// A function that runs a query to its end and returns the number of rows.
type Engine<'a> = Box<dyn Fn(&str) -> Result<u64, Box<dyn Error>> + 'a>;

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let threads = match arguments.threads {
        Some(threads) => threads.get(),
        None => available_parallelism()?.get(),
    };
    let queries = read_queries(&arguments.queries)?;
    let options = OpenOptions { read_only: true, threads: Some(threads), ..OpenOptions::default() };
    let connection = Database::open(&arguments.database, options)?.connect()?;
    let natural = load_peer(&connection, threads, ColumnTypes::Natural)?;
    let stored = load_peer(&connection, threads, ColumnTypes::Stored)?;

    let engines: [(&str, Engine<'_>); 2] = [
        ("DataFusion", Box::new(|sql| Ok(natural.run(sql)?))),
        ("DataFusion, our types", Box::new(|sql| Ok(stored.run(sql)?))),
    ];
    let mut results = engines.each_ref().map(|_| Map::new());
    for (name, sql) in &queries {
        for ((_, engine), results) in engines.iter().zip(&mut results) {
            results.insert(name.clone(), measure(engine, sql, arguments.runs));
        }
    }
    let results: Map<String, Value> = engines
        .iter()
        .zip(results)
        .map(|((name, _), results)| ((*name).to_owned(), Value::Object(results)))
        .collect();
    let record = json!({ "threads": threads, "runs": arguments.runs, "engines": results });
    fs::write(&arguments.json, record.to_string())
        .map_err(|error| format!("cannot write {}: {error}", arguments.json.display()))?;
    Ok(())
}

/// Returns the queries in order, by name.
fn read_queries(folder: &Path) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    (1..=22)
        .map(|number| {
            let name = format!("q{number:02}");
            let path = folder.join(format!("{name}.sql"));
            let sql = fs::read_to_string(&path)
                .map_err(|error| format!("cannot read query {}: {error}", path.display()))?;
            Ok((name, sql))
        })
        .collect()
}

fn load_peer(
    connection: &Connection,
    threads: usize,
    types: ColumnTypes,
) -> Result<DataFusionPeer, Box<dyn Error>> {
    let peer = DataFusionPeer::new(threads, types)?;
    for table in TABLES {
        let result = connection.table(table)?;
        peer.load(table, &result.schema(), &result.record_batches()?)?;
    }
    Ok(peer)
}

fn measure(engine: &Engine<'_>, sql: &str, runs: usize) -> Value {
    let timed = || {
        let start = Instant::now();
        engine(sql).map(|rows| (rows, start.elapsed().as_secs_f64()))
    };
    let samples = timed().and_then(|(rows, _)| {
        let seconds =
            (0..runs).map(|_| timed().map(|(_, seconds)| seconds)).collect::<Result<Vec<f64>, _>>()?;
        Ok((rows, seconds))
    });
    match samples {
        Ok((rows, seconds)) => json!({ "rows": rows, "seconds": seconds }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
