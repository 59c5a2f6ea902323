//! The state of a session: the stream, what the server says of itself, interrupts and notices.

use crate::cancel::Canceler;
use crate::failure::Notice;
use crate::message::{Cursor, Writer};
use crate::stream::{Message, Stream};
use crate::types::Catalog;
use hypostyle_client::{Hook, Meter, Transaction};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the program's hook is asked while messages come without a pause.
const HOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The time in which the server can answer to an interrupt. A second one within it is the same one.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// The time after which a server that does not answer to an interrupt is given up.
const SILENCE_TIME: Duration = Duration::from_secs(10);

/// The notices that are kept until the program asks for them, and the bytes of each; longer ones are not.
pub const NOTICES_MAX: usize = 100;
const NOTICE_BYTES_MAX: usize = 1 << 20;

/// The settings that a server reports, and the bytes of each. PostgreSQL has some fifteen.
pub const PARAMETERS_MAX: usize = 1_000;
const PARAMETER_BYTES_MAX: usize = 64 << 10;

/// The bytes of a result that nobody wants which are read before the statement is cancelled.
const UNWANTED_BYTES_MAX: usize = 1 << 20;

/// What other threads may see and say of a session.
#[derive(Default)]
pub struct Told {
    pub interrupted: AtomicBool,
    pub meter: Arc<Meter>,
}

/// A session on its stream.
pub struct Link {
    pub stream: Stream,
    pub process: u32,
    /// The settings that the server reports.
    pub parameters: BTreeMap<String, String>,
    pub transaction: Transaction,
    /// Says that the end of an answer, `ReadyForQuery`, has not come.
    pub running: bool,
    pub hook: Option<Hook>,
    pub notices: VecDeque<Notice>,
    /// The last error of the server, with all that it said.
    pub failure: Option<Notice>,
    pub catalog: Catalog,
    /// Says whether the server sends results in columns, as far as it has been asked.
    pub speaks_columns: Option<bool>,
    /// Says whether the extension that sends them was loaded by an earlier statement.
    pub has_loaded: bool,
    /// Says whether it also finds the digits of numerics in queries, where it does.
    pub finds_digits: bool,
    /// The last statement that the server took with the types which its parameters were declared with, and
    /// these types.
    pub typed: Option<(String, Vec<u32>)>,
    /// The characters that were sent before the statement of the program.
    pub sent_before: usize,
    told: Arc<Told>,
    canceler: Canceler,
    interrupts: Interrupts,
    /// The reason why the connection is of no use any more.
    broken: Option<Error>,
}

/// The interrupts of the running statement.
#[derive(Default)]
struct Interrupts {
    /// The time at which the server was told.
    cancelled: Option<Instant>,
    /// The last answer of the hook: some hooks report an interrupt once, some again and again.
    is_asked: bool,
    /// The time at which the hook was asked last.
    looked: Option<Instant>,
}

/// What a login has found out.
pub struct Found {
    pub stream: Stream,
    pub process: u32,
    pub parameters: BTreeMap<String, String>,
    pub notices: VecDeque<Notice>,
    pub transaction: Transaction,
    pub canceler: Canceler,
}

impl Link {
    pub fn new(found: Found, told: Arc<Told>) -> Self {
        Self {
            stream: found.stream,
            process: found.process,
            parameters: found.parameters,
            transaction: found.transaction,
            running: false,
            hook: None,
            notices: found.notices,
            failure: None,
            catalog: Catalog::default(),
            speaks_columns: None,
            has_loaded: false,
            finds_digits: false,
            typed: None,
            sent_before: 0,
            told,
            canceler: found.canceler,
            interrupts: Interrupts::default(),
            broken: None,
        }
    }

    /// Begins a call of the program: older interrupts were meant for earlier ones.
    pub fn begin(&mut self) -> Result<()> {
        if let Some(error) = &self.broken {
            let message = format!("the connection to the server is lost ({error}); connect again");
            return Err(Error::new(ErrorKind::Connection, message).unreachable());
        }
        self.told.interrupted.store(false, Ordering::Release);
        self.interrupts = Interrupts::default();
        self.failure = None;
        self.sent_before = 0;
        let came = self.stream.fill();
        self.hear_farewell()?;
        self.keep(came).map(drop)
    }

    /// Reads the error with which the server may have ended the session meanwhile.
    fn hear_farewell(&mut self) -> Result<()> {
        while let Some(message) = self.try_take()? {
            if message.kind == b'E' {
                return Err(self.failed(message));
            }
        }
        Ok(())
    }

    /// Says whether the server has sent an error while this side sends rows.
    pub fn has_failed(&mut self) -> Result<bool> {
        let came = self.stream.fill();
        self.keep(came)?;
        Ok(self.stream.next_kind() == Some(b'E'))
    }

    /// Says whether the running statement was interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.interrupts.cancelled.is_some()
    }

    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// Keeps an error after which the stream is of no use.
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && self.broken.is_none()
        {
            self.broken = Some(error.clone());
            self.running = false;
            if self.transaction == Transaction::Open {
                self.transaction = Transaction::Failed;
            }
            self.stream.close(&[]);
        }
        result
    }

    /// Keeps an error about bytes of the server that this side cannot go on after.
    pub fn keep_protocol<T>(&mut self, result: Result<T>) -> Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::Connection => self.keep(Err(error)),
            other => other,
        }
    }

    /// Sends messages of which the last asks for `ReadyForQuery`.
    pub fn send(&mut self, writer: &Writer) -> Result<()> {
        self.running = true;
        self.send_part(writer.bytes())
    }

    /// Sends bytes of messages.
    pub fn send_part(&mut self, bytes: &[u8]) -> Result<()> {
        let (told, hook) = (self.told.clone(), self.hook.clone());
        let Self { stream, interrupts, canceler, .. } = self;
        let sent = stream.send(bytes, &mut || interrupts.look(&told, hook.as_ref(), canceler).map(drop));
        if sent.is_err() {
            // The server may have said why it takes no more.
            while self.stream.fill().is_ok_and(|came| came) {}
            self.hear_farewell()?;
        }
        self.keep(sent)
    }

    /// Forgets what a statement of the program may have changed.
    pub fn forget(&mut self) {
        self.catalog.forget();
        self.speaks_columns = None;
        self.typed = None;
    }

    /// Looks for an interrupt between two steps of work that does not wait.
    pub fn look(&mut self) -> Result<()> {
        let (told, hook) = (self.told.clone(), self.hook.clone());
        let looked = self.interrupts.look(&told, hook.as_ref(), &self.canceler);
        self.keep(looked)
    }

    /// Returns the next message that is not about the session as such. An interrupt meanwhile is
    /// told to the server, and its answer is awaited.
    pub fn receive(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = self.try_take()? {
                return Ok(message);
            }
            let came = self.stream.fill();
            if !self.keep(came)? {
                let waited = self.stream.wait_to_read();
                self.keep(waited)?;
                self.look()?;
            } else if self.interrupts.is_due() {
                self.look()?;
            }
        }
    }

    /// Returns the next message if it has come.
    pub fn try_take(&mut self) -> Result<Option<Message>> {
        loop {
            let taken = self.stream.take(usize::MAX);
            let Some(message) = self.keep(taken)? else { return Ok(None) };
            match message.kind {
                b'N' if self.stream.body(message).len() > NOTICE_BYTES_MAX => {}
                b'N' => {
                    let notice = Notice::decode(self.stream.body(message));
                    let notice = self.keep(notice)?;
                    if self.notices.len() == NOTICES_MAX {
                        self.notices.pop_front();
                    }
                    self.notices.push_back(notice);
                }
                b'S' => {
                    let body = self.stream.body(message);
                    let is_bounded =
                        body.len() <= PARAMETER_BYTES_MAX && self.parameters.len() < PARAMETERS_MAX;
                    let parameter = match is_bounded {
                        true => parameter(body),
                        false => Err(Error::protocol("the server reports more settings than one has")),
                    };
                    let (name, value) = self.keep(parameter)?;
                    self.parameters.insert(name, value);
                }
                // Notifications of LISTEN, which nothing here asks for.
                b'A' => {}
                b'Z' => {
                    let state = transaction(self.stream.body(message));
                    self.transaction = self.keep(state)?;
                    self.running = false;
                    return Ok(Some(message));
                }
                _ => return Ok(Some(message)),
            }
        }
    }

    /// Returns the error of an `ErrorResponse`.
    pub fn failed(&mut self, message: Message) -> Error {
        let notice = Notice::decode(self.stream.body(message));
        let notice = match self.keep(notice) {
            Ok(notice) => notice,
            Err(error) => return error,
        };
        let mut error = notice.error();
        if notice.sqlstate == "57014" && self.is_interrupted() {
            error = Error::interrupted();
        }
        if notice.is_fatal() {
            let _kept = self.keep::<()>(Err(error.clone()));
        }
        self.failure = Some(notice);
        error
    }

    /// Reads to the end of the answer. Returns the first error on the way.
    pub fn finish(&mut self) -> Result<()> {
        let mut first = None;
        while self.running {
            let message = match self.receive() {
                Ok(message) => message,
                Err(error) => return Err(first.unwrap_or(error)),
            };
            match message.kind {
                b'E' => {
                    let error = self.failed(message);
                    first.get_or_insert(error);
                }
                // The server waits for rows that nobody has.
                b'G' | b'W' => {
                    let mut writer = Writer::default();
                    writer.copy_fail("no rows are sent with this statement");
                    self.send_part(writer.bytes())?;
                }
                _ => {}
            }
            if self.is_broken() {
                break;
            }
        }
        match first {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Reads to the end of an answer after an error, which it returns.
    pub fn fail<T>(&mut self, error: Error) -> Result<T> {
        if self.running && !self.is_broken() {
            // The first error is the one that counts.
            let _later = self.finish();
        }
        Err(error)
    }

    /// Ends a statement whose rows nobody wants any more. Inside a transaction, which a cancel would
    /// abort, the rows are read to the end.
    pub fn abandon(&mut self) -> Result<()> {
        let mut bytes = 0;
        let mut is_cancelled = self.transaction != Transaction::None;
        while self.running && !self.is_broken() {
            let message = self.receive()?;
            bytes += self.stream.body(message).len();
            if message.kind == b'E' {
                // It says that the statement was cancelled, or is of no interest.
                let _cancelled = self.failed(message);
            }
            if bytes > UNWANTED_BYTES_MAX && !is_cancelled {
                is_cancelled = true;
                // The rows that come nevertheless are read.
                let _untold = self.canceler.cancel();
            }
        }
        Ok(())
    }

    /// Runs a query of this client's own and returns its rows as text.
    pub fn select(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut writer = Writer::default();
        writer.query(sql);
        self.send(&writer)?;
        let mut rows = Vec::new();
        loop {
            let message = self.receive()?;
            match message.kind {
                b'D' => {
                    let row = texts(self.stream.body(message));
                    rows.push(self.keep(row)?);
                }
                b'E' => {
                    let error = self.failed(message);
                    return self.fail(error);
                }
                b'Z' => return Ok(rows),
                _ => {}
            }
        }
    }

    /// Ends the session after telling the server, which may be gone.
    pub fn close(&mut self) {
        let mut writer = Writer::default();
        writer.terminate();
        self.stream.close(writer.bytes());
        if self.broken.is_none() {
            self.broken = Some(Error::new(ErrorKind::Closed, "the connection is closed"));
        }
    }
}

impl Interrupts {
    /// Says whether it is time to ask the hook again.
    fn is_due(&self) -> bool {
        self.looked.is_none_or(|looked| looked.elapsed() >= HOOK_INTERVAL)
    }

    /// Looks for an interrupt, and tells the server of a new one.
    ///
    /// # Errors
    /// `Connection` when the server has not answered to an earlier one.
    fn look(&mut self, told: &Told, hook: Option<&Hook>, canceler: &Canceler) -> Result<()> {
        self.looked = Some(Instant::now());
        let is_asked = hook.is_some_and(|hook| !hook(&told.meter.progress().unwrap_or_default()));
        let is_new = is_asked && !std::mem::replace(&mut self.is_asked, is_asked);
        self.is_asked = is_asked;
        let is_new = told.interrupted.swap(false, Ordering::AcqRel) || is_new;
        match self.cancelled {
            None if is_new => {
                self.cancelled = Some(Instant::now());
                // A server that cannot be told is given up like one that does not answer.
                let _untold = canceler.cancel();
                Ok(())
            }
            Some(when) if is_new && when.elapsed() > ANSWER_TIME => Err(given_up()),
            Some(when) if when.elapsed() > SILENCE_TIME => Err(given_up()),
            _ => Ok(()),
        }
    }
}

fn given_up() -> Error {
    Error::new(
        ErrorKind::Connection,
        "the server does not answer to the interrupt: the connection is given up, and what it had open is \
         rolled back",
    )
}

/// Reads the name and the value of a setting.
pub fn parameter(body: &[u8]) -> Result<(String, String)> {
    let mut cursor = Cursor(body);
    Ok((cursor.text()?.into(), cursor.text()?.into()))
}

/// Reads the state of the transaction.
pub fn transaction(body: &[u8]) -> Result<Transaction> {
    match body {
        b"I" => Ok(Transaction::None),
        b"T" => Ok(Transaction::Open),
        b"E" => Ok(Transaction::Failed),
        _ => Err(Error::protocol("the server tells a state of the transaction that there is not")),
    }
}

/// Reads a row in text.
fn texts(body: &[u8]) -> Result<Vec<Option<String>>> {
    let mut cursor = Cursor(body);
    let count = cursor.count(4)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (0..count).map(|_| Ok(cursor.value()?.map(text))).collect()
}
