//! `hypostyle-bench commits` measures durable commits of one row each, by one thread and by several
//! at once.
//!
//! The Python script measures the same through its own package, where the threads share one
//! interpreter lock. Here they share only the database.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use clap::Args;
use hypostyle::{Connection, Database, OpenOptions, Parameters, ScalarValue};
use serde_json::json;

#[derive(Args)]
pub struct Arguments {
    /// Threads that commit at once
    #[arg(long, default_value_t = 8)]
    writers: u64,
    /// Commits of a run, all threads together
    #[arg(long, default_value_t = 8000)]
    commits: u64,
    /// Runs of one writer and of all, in turn
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Folder for the databases, which are removed afterwards
    #[arg(long)]
    scratch: PathBuf,
    /// File to write the samples to
    #[arg(long)]
    json: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let (mut one, mut all) = (Vec::new(), Vec::new());
    for _ in 0..arguments.runs {
        one.push(seconds_per_commit(arguments, 1)?);
        all.push(seconds_per_commit(arguments, arguments.writers)?);
    }
    fs::write(&arguments.json, json!({ "one": one, "all": all }).to_string())?;
    Ok(())
}

fn seconds_per_commit(arguments: &Arguments, writers: u64) -> Result<f64, Box<dyn Error>> {
    let directory = tempfile::TempDir::new_in(&arguments.scratch)?;
    let database = Database::open(directory.path(), OpenOptions::default())?;
    let connection = database.connect()?;
    connection.execute("CREATE TABLE t (id INTEGER, name VARCHAR, amount DOUBLE)")?;
    let each = arguments.commits / writers;
    insert_rows(&connection, 50)?;
    let start = Instant::now();
    thread::scope(|scope| {
        let work = || insert_rows(&database.connect()?, each);
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done.map_err(Box::<dyn Error>::from),
            Err(_) => Err("a writer has panicked".into()),
        })
    })?;
    let seconds = start.elapsed().as_secs_f64();
    let rows = connection.execute("SELECT * FROM t")?.row_count()?;
    if rows != 50 + each * writers {
        return Err(format!("{rows} rows are there, and not {}", 50 + each * writers).into());
    }
    Ok(seconds / (each * writers) as f64)
}

fn insert_rows(connection: &Connection, count: u64) -> Result<(), hypostyle::Error> {
    for number in 0..count {
        let values = vec![
            ScalarValue::Int64(Some(number as i64)),
            ScalarValue::Utf8(Some(format!("name {number}"))),
            ScalarValue::Float64(Some(number as f64 / 2.0)),
        ];
        connection.execute_with("INSERT INTO t VALUES (?, ?, ?)", Parameters::Positional(values))?;
    }
    Ok(())
}
