//! The `hypostyle` program: a SQL shell, and a batch runner for scripts and pipes.
//!
//! Results go to standard output, everything else (errors, progress, times) to standard error, so
//! that `hypostyle shop.hypo --csv -c '…' | …` is always clean. Exit status: 0 done, 1 a statement
//! failed, 2 wrong usage, 130 interrupted. A reader that closes our output is no failure.

#![forbid(unsafe_code)]

mod command;
mod complete;
mod failure;
mod highlight;
mod import;
mod interrupt;
mod options;
mod output;
mod progress;
mod schema;
mod script;
mod session;
mod shell;
mod sink;
mod token;

use failure::{Failure, Outcome};
use interrupt::Interrupt;
use options::{Options, Source};
use session::Session;
use std::io::{BufReader, IsTerminal, Write, stdin};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Options::read()) {
        Ok(()) | Err(Failure::Leave) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.report();
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run(options: &Options) -> Outcome {
    let sources = options.sources();
    let interactive = sources.is_empty() && stdin().is_terminal();
    let interrupt = Interrupt::listen(interactive)?;
    let mut session = Session::open(options, interrupt)?;
    if let Some(path) = &options.init {
        script::run_file(&mut session, path)?;
    }
    for source in &sources {
        match source {
            Source::Command(text) => script::run_text(&mut session, text)?,
            Source::File(path) => script::run_file(&mut session, path)?,
        }
    }
    if interactive {
        shell::run(&mut session)?;
    } else if sources.is_empty() {
        script::run_lines(&mut session, BufReader::new(stdin()), Some("standard input"))?;
    }
    session.output.flush()?;
    Ok(())
}
