//! The `hypostyle` program: a SQL shell, and a batch runner for scripts and pipes.
//!
//! Results go to standard output. Everything else (errors, progress, times) goes to standard error,
//! so that `hypostyle shop.hypo --csv -c '…' | …` is always clean. The exit status is 0 for
//! success, 1 for a failed statement, 2 for wrong usage, and 130 after an interrupt. It is no
//! failure if a reader closes our output.

#![forbid(unsafe_code)]

mod cluster;
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
mod serve;
mod session;
mod shell;
mod sink;
mod token;

/// Limits statements by the memory that the process has (see `hypostyle_memory`).
#[global_allocator]
static ALLOCATOR: hypostyle_memory::Counting = hypostyle_memory::Counting;

use failure::{Failure, Outcome};
use interrupt::Interrupt;
use options::{Command, Options, Source};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use session::Session;
use std::io::{BufReader, Write, stdin};

fn main() -> ! {
    let options = Options::read();
    allow_many_files();
    if let Some(command) = &options.command {
        std::process::exit(run_command(command));
    }
    let outcome = open(&options).map(|mut session| {
        let outcome = run(&mut session, &options);
        let has_failed = session.has_failed;
        // It is closed but not dropped: dropping would wait for threads that still run an
        // interrupted statement.
        let closed = session.close().map_err(Failure::from);
        std::mem::forget(session);
        outcome.and(closed).map(|()| i32::from(has_failed))
    });
    let status = match outcome {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) | Err(failure) => {
            failure.report();
            failure.exit_status()
        }
    };
    std::process::exit(status)
}

/// Raises the soft limit of open files to the hard one, because each file of a database in memory
/// is one.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If that is refused, the statement that needs more files reports it.
    let _kept = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

fn run_command(command: &Command) -> i32 {
    let result = match command {
        Command::Serve(options) => serve::run(options),
        Command::Cluster(command) => cluster::run(command),
        Command::User { name, role } => serve::user(name, *role),
    };
    match result.map_err(Failure::from) {
        Ok(()) => 0,
        Err(failure) => {
            failure.report();
            failure.exit_status()
        }
    }
}

/// Runs the user's start script. A mistake in it is reported, but the shell starts.
fn run_start_script(session: &mut Session) -> Outcome {
    let Some(path) = shell::start_script() else { return Ok(()) };
    match script::run_file(session, &path) {
        Err(failure) if failure.is_of_statement() => failure.report(),
        outcome => outcome?,
    }
    Ok(())
}

fn open(options: &Options) -> Outcome<Session> {
    let interrupt = Interrupt::listen(options.is_interactive())?;
    Ok(Session::open(options, interrupt)?)
}

fn run(session: &mut Session, options: &Options) -> Outcome {
    let sources = options.sources();
    match &options.init {
        Some(path) => script::run_file(session, path)?,
        None if options.is_interactive() => run_start_script(session)?,
        None => {}
    }
    for source in sources {
        match source {
            Source::Command(text) => script::run_text(session, text)?,
            Source::File(path) => script::run_file(session, path)?,
        }
    }
    if options.is_interactive() {
        shell::run(session)?;
    } else if sources.is_empty() {
        script::run_lines(session, BufReader::new(stdin()), Some("standard input"))?;
    }
    session.output.flush()?;
    if !options.is_interactive() {
        session.check_parquet()?;
    }
    Ok(())
}
