//! One open database, one connection and the settings; runs one statement at a time.

use crate::failure::{Failure, Outcome};
use crate::import;
use crate::interrupt::Interrupt;
use crate::options::Options;
use crate::output::{self, Settings};
use crate::progress::Display;
use crate::sink::Sink;
use crate::token::first_keyword;
use hypostyle::arrow::array::timezone::Tz;
use hypostyle::kind::has_in_name;
use hypostyle::lexer::{TokenKind, tokens};
use hypostyle::{Connection, Error, OpenOptions, Patience, Poll, QueryResult};
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

pub struct Session {
    pub connection: Connection,
    pub settings: Settings,
    pub output: Sink,
    /// Says whether the time of each statement is printed.
    pub timer: bool,
    pub quiet: bool,
    /// Says whether a script ends at its first failure.
    pub bail: bool,
    /// Says whether a statement has failed and the script has continued.
    pub has_failed: bool,
    /// How many scripts run, each by the one before.
    pub script_levels: usize,
    /// Says whether statements are printed before they run.
    pub echo: bool,
    /// The prompt of the shell; if it is empty, the database's name.
    pub prompt: String,
    /// The program that shows output which is longer than the screen.
    pub pager: Option<String>,
    /// The lines of the screen, if there is one.
    pub screen_height: Option<usize>,
    /// The previous output, to which results return after the next one, if `.once` has changed it.
    pub output_after: Option<Sink>,
    open_options: OpenOptions,
    interrupt: Arc<Interrupt>,
    progress: Arc<Display>,
    /// The file for the one query's result, until it is written.
    parquet: Parquet,
    /// The session's time zone; `None`: a statement may have changed it.
    zone: Option<Arc<str>>,
}

/// The time zone of a new session of ours.
const FIRST_ZONE: &str = "UTC";

/// The table that has a server's rows while they are written to a file.
const RESULT: &str = "result";

enum Parquet {
    No,
    Wanted(PathBuf),
    Written(PathBuf),
}

impl Session {
    pub fn open(options: &Options, interrupt: Arc<Interrupt>) -> hypostyle::Result<Self> {
        let asked = interrupt.clone();
        let patience = Patience::default().unless(move || asked.check());
        let open_options = OpenOptions { patience: Some(patience), ..options.opening.options() };
        let progress = Arc::new(Display::default());
        let connection = {
            let _running = interrupt.begin();
            Connection::open(options.database.as_deref(), open_options.clone())?
        };
        let mut session = Self {
            connection,
            settings: Settings {
                format: options.format(),
                headers: !options.no_header,
                null: options.null.clone(),
                footer: !options.quiet,
                ..Settings::default()
            },
            output: Sink::standard(),
            timer: options.timing,
            quiet: options.quiet,
            bail: true,
            has_failed: false,
            script_levels: 0,
            echo: false,
            prompt: String::new(),
            pager: std::env::var("PAGER").ok().filter(|pager| !pager.is_empty()),
            screen_height: None,
            output_after: None,
            open_options,
            interrupt,
            progress,
            parquet: options.parquet.clone().map_or(Parquet::No, Parquet::Wanted),
            zone: None,
        };
        session.zone = session.first_zone();
        session.listen_to_connection();
        Ok(session)
    }

    /// Closes this database and opens another, with the same options.
    pub fn reopen(&mut self, target: Option<&Path>) -> hypostyle::Result<()> {
        // The old one is closed first: it may be the same directory.
        self.close()?;
        let _running = self.interrupt.begin();
        self.connection = Connection::open(target, self.open_options.clone())?;
        self.zone = self.first_zone();
        self.listen_to_connection();
        Ok(())
    }

    /// Closes the database, or the session with the server.
    pub fn close(&self) -> hypostyle::Result<()> {
        match self.connection.database() {
            Some(database) => database.close(),
            None => self.connection.close(),
        }
    }

    /// Returns the prompt: the database, and `*` in a transaction, or `!` in one that has failed.
    /// In a prompt of the user, `%d` stands for the former and `%t` for the latter.
    pub fn prompt(&self) -> String {
        let state = match self.connection.is_in_transaction() {
            _ if self.connection.is_transaction_failed() => "!",
            true => "*",
            false => "",
        };
        let prompt = if self.prompt.is_empty() { "%d%t> " } else { &self.prompt };
        prompt.replace("%d", &self.database_name()).replace("%t", state)
    }

    /// Returns "memory", the directory's name without its extension, or the server's address.
    pub fn database_name(&self) -> String {
        if let Some(address) = self.connection.address() {
            return address;
        }
        let path = self.connection.path();
        path.and_then(Path::file_stem)
            .map_or_else(|| "memory".into(), |name| name.to_string_lossy().into_owned())
    }

    fn listen_to_connection(&self) {
        self.listen_to(&self.connection);
    }

    /// Shows the progress of a connection, and interrupts it on Ctrl-C.
    fn listen_to(&self, connection: &Connection) {
        let interrupt = Arc::clone(&self.interrupt);
        let progress = Arc::clone(&self.progress);
        let quiet = self.quiet;
        connection.set_poll(Some(Arc::new(move |state| {
            if !quiet {
                progress.update(state);
            }
            if interrupt.requested() { Poll::Interrupt } else { Poll::Continue }
        })));
    }

    /// Runs one statement and prints its result. The times and the bar go to standard error.
    pub fn run_statement(&mut self, sql: &str) -> Outcome {
        self.run(|session, started| {
            if session.echo {
                writeln!(session.output, "{};", sql.trim().trim_end_matches(';'))?;
            }
            session.execute_and_print(sql, started).map_err(|failure| failure.in_statement(sql))
        })
    }

    /// Loads a file of this machine into a table. COPY loads the server's own files.
    pub fn import(&mut self, file: &str, table: &str) -> Outcome {
        import::check(file)?;
        if self.connection.address().is_none() {
            let sql = import::statement(&self.connection, file, table)?;
            return self.run_statement(&sql);
        }
        self.run(|session, started| {
            let local = Connection::open(None, session.open_options.clone())?;
            session.listen_to(&local);
            let rows = import::append(&session.connection, &local, file, table)?;
            session.progress.end();
            output::write_count(&session.settings, &mut session.output, Some(rows), started.elapsed())
        })
    }

    /// Runs the work of a statement. It can be interrupted, its output is paged if it is too long,
    /// and its time is printed.
    fn run(&mut self, work: impl FnOnce(&mut Self, Instant) -> Outcome) -> Outcome {
        let started = Instant::now();
        let running = self.interrupt.begin();
        self.progress.begin();
        let paged = self.begin_paging();
        let mut outcome = work(self, started);
        self.progress.end();
        let flushed = self.output.flush();
        drop(running);
        if let Some(standard) = paged {
            if let Sink::Paged(pager) = std::mem::replace(&mut self.output, standard) {
                pager.finish()?;
            }
            // A user who has left the pager wants no more output.
            if matches!(&outcome, Err(Failure::Write(error)) if error.kind() == ErrorKind::BrokenPipe) {
                outcome = Ok(());
            }
        }
        if let Some(output) = self.output_after.take() {
            self.output = output;
        }
        if self.timer {
            eprintln!("Time: {:.3} ms", started.elapsed().as_secs_f64() * 1000.0);
        }
        outcome.and(flushed.map_err(Into::into))
    }

    /// Puts a pager before the terminal, and returns the previous output.
    fn begin_paging(&mut self) -> Option<Sink> {
        let (pager, height) = self.pager.as_deref().zip(self.screen_height)?;
        if !matches!(self.output, Sink::Standard(_)) || !self.output.is_terminal() {
            return None;
        }
        Some(std::mem::replace(&mut self.output, Sink::paged(pager, height)))
    }

    /// Returns the time zone of a session that has just begun. PostgreSQL's is the user's or the
    /// server's.
    fn first_zone(&self) -> Option<Arc<str>> {
        (!self.connection.is_postgres()).then(|| FIRST_ZONE.into())
    }

    /// Returns the session's time zone, in which points in time are printed.
    fn zone(&mut self) -> Arc<str> {
        if let Some(zone) = &self.zone {
            return Arc::clone(zone);
        }
        let ask = || -> hypostyle::Result<Option<String>> {
            let batch = self.connection.execute("SHOW timezone")?.next_batch()?;
            Ok(batch.and_then(|batch| output::first_text(&batch)))
        };
        // A transaction that has failed answers nothing.
        let Ok(Some(zone)) = ask() else { return FIRST_ZONE.into() };
        // PostgreSQL has names that are not known here, such as localtime.
        let zone = if zone.parse::<Tz>().is_ok() { zone } else { FIRST_ZONE.to_string() };
        Arc::clone(self.zone.insert(zone.into()))
    }

    fn execute_and_print(&mut self, sql: &str, started: Instant) -> Outcome {
        let zone = self.zone();
        if may_change_zone(sql) {
            self.zone = None;
        }
        let result = match self.parquet_file(sql)? {
            Some(file) => self.write_parquet(sql, &file)?,
            None => self.connection.execute(sql)?,
        };
        if !result.is_query() {
            self.progress.end();
            if copies_to_standard_output(sql) {
                return Ok(());
            }
            return output::write_count(
                &self.settings,
                &mut self.output,
                result.rows_affected(),
                started.elapsed(),
            );
        }
        let mut writer = output::writer(&self.settings, &self.output, &result);
        let mut printed = 0;
        while let Some(batch) = result.next_unread()? {
            for piece in output::pieces(&batch) {
                let piece = output::in_zone(piece, &zone)?;
                self.interrupt.check()?;
                let rows = printed..printed + piece.num_rows() as u64;
                if self.shows(&result, &rows, writer.streams())? {
                    result.verify_rows(rows.clone())?;
                }
                printed = rows.end;
                if self.output.is_terminal() && writer.streams() {
                    self.progress.end();
                }
                writer.batch(&mut self.output, &piece)?;
            }
        }
        self.progress.end();
        writer.end(&mut self.output, started.elapsed())
    }

    /// Says whether any of these rows is printed. A box shows only the first and the last rows, and
    /// rows of a stored table that are not shown need not be read.
    fn shows(&self, result: &QueryResult, rows: &Range<u64>, streams: bool) -> hypostyle::Result<bool> {
        let shown = self.settings.rows_max as u64;
        if streams || shown == 0 || !result.is_stored() {
            return Ok(true);
        }
        Ok(rows.start < shown || rows.end > result.row_count()?.saturating_sub(shown))
    }

    /// Writes a query's result to a file of this machine. A server would write its own file: its rows
    /// are taken into a database in memory first.
    fn write_parquet(&self, sql: &str, file: &str) -> hypostyle::Result<QueryResult> {
        if self.connection.address().is_none() {
            // The newlines keep a comment at either end of the query from hiding our text.
            let query = sql.trim().trim_end_matches(';');
            return self.connection.execute(&format!("COPY (\n{query}\n) TO {file} (FORMAT parquet)"));
        }
        let rows = self.connection.execute(sql)?;
        let local = Connection::open(None, self.open_options.clone())?;
        self.listen_to(&local);
        import::append_rows(&local, RESULT, rows, true)?;
        local.execute(&format!("COPY {RESULT} TO {file} (FORMAT parquet)"))
    }

    /// Checks that what has run has given a result for `--parquet`.
    ///
    /// # Errors
    /// `InvalidInput` when nothing has.
    pub fn check_parquet(&self) -> hypostyle::Result<()> {
        match &self.parquet {
            Parquet::Wanted(path) if !self.has_failed => Err(Error::invalid_input(format!(
                "--parquet {} takes the result of one query, and there was none; nothing was written",
                path.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the file for the query's result, as a constant of SQL, when `--parquet` was given.
    fn parquet_file(&mut self, sql: &str) -> hypostyle::Result<Option<String>> {
        if !matches!(
            first_keyword(sql).as_deref(),
            Some("SELECT" | "WITH" | "FROM" | "VALUES" | "TABLE" | "(")
        ) {
            return Ok(None);
        }
        match std::mem::replace(&mut self.parquet, Parquet::No) {
            Parquet::No => Ok(None),
            Parquet::Wanted(path) => {
                let name = path.display().to_string().replace('\'', "''");
                self.parquet = Parquet::Written(path);
                Ok(Some(format!("'{name}'")))
            }
            Parquet::Written(path) => Err(Error::invalid_input(format!(
                "--parquet {} takes the result of one query, and this is the second; use COPY (query) TO 'file'",
                path.display()
            ))),
        }
    }
}

/// Says whether the session's time zone may be another one after a statement.
fn may_change_zone(sql: &str) -> bool {
    const WORDS: [&str; 9] =
        ["SET", "RESET", "DISCARD", "COMMIT", "END", "ROLLBACK", "ABORT", "ATTACH", "RELEASE"];
    first_keyword(sql).is_some_and(|first| WORDS.contains(&first.as_str())) || has_in_name(sql, "set_config")
}

/// Says whether a statement is a COPY that writes rows to standard output, in place of its count.
fn copies_to_standard_output(sql: &str) -> bool {
    const NAMES: [&str; 3] = ["'/dev/stdout'", "'/dev/fd/1'", "'/proc/self/fd/1'"];
    first_keyword(sql).as_deref() == Some("COPY")
        && tokens(sql).any(|token| token.kind == TokenKind::Text && NAMES.contains(&token.text))
}
