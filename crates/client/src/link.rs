//! The socket of a connection, and waiting on it: progress, interrupts, and requests of the server
//! meanwhile.

use crate::asked::Named;
use crate::login::lost;
use crate::options::{Hook, Options, Resolver};
use crate::progress::Meter;
use crate::sending::Sending;
use crate::silence::Silence;
use crate::traffic::Traffic;
use arrow_buffer::Buffer;
use hypostyle_sync::Mutex;
use hypostyle_transport::{Channel, Frame};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Answer, Ask, Done, FRAME_HEADER_BYTES, Failure, FrameType, Reply, Transaction};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A second interrupt within this time after the first counts as the same; a later one gives the
/// connection up.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// An answer within this time came from a server that had nothing else to do, over a short link.
const QUICK_ANSWER_TIME: Duration = Duration::from_micros(200);

/// The time for which a thread stays awake while it waits for the answer of such a server.
const AWAKE_TIME: Duration = Duration::from_micros(100);

/// A server that sends nothing for this long after an interrupt is given up.
const SILENCE_TIME: Duration = Duration::from_secs(10);

/// How often interrupts are looked for while frames come without a wait.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// The hook that is called during waits; shared with the code that connects again.
pub type SharedHook = Arc<Mutex<Option<Hook>>>;

pub struct Link {
    pub channel: Channel,
    /// The requested capabilities that the server has granted.
    pub capabilities: wire::Capabilities,
    /// The longest body that the server accepts.
    pub frame_bytes_max: u32,
    last_query: u32,
    /// The query of which more has to come.
    pub running: Option<u32>,
    pub transaction: Transaction,
    pub hook: SharedHook,
    pub resolver: Option<Resolver>,
    /// The names that the server may ask for, until the running statement has a result.
    pub named: Named,
    pub interrupted: Arc<AtomicBool>,
    interrupts: Interrupts,
    /// When they were looked for, while frames came without a wait.
    looked: Instant,
    /// The time after which a server that says nothing is given up.
    silence: Option<Duration>,
    traffic: Arc<Traffic>,
    /// The time that the answer to the last statement took, if there was one.
    answer_time: Option<Duration>,
    /// The reported progress of the running statement.
    pub meter: Arc<Meter>,
    /// The reason why the connection is of no use any more.
    broken: Option<Error>,
}

/// The interrupts of the running statement.
#[derive(Default)]
struct Interrupts {
    /// The time at which the server was told.
    cancelled: Option<Instant>,
    /// The last answer of the hook: some hooks report an interrupt once, some again and again.
    asked: bool,
}

impl Interrupts {
    /// Says whether there is a new interrupt.
    fn look(&mut self, hook: Option<&Hook>, meter: &Meter, interrupted: &AtomicBool) -> bool {
        let asked = is_refused(hook, meter);
        let is_new = asked && !std::mem::replace(&mut self.asked, asked);
        self.asked = asked;
        interrupted.swap(false, Ordering::AcqRel) || is_new
    }

    /// Says whether the server has not had the time to answer the last interrupt: the user was
    /// impatient, or two hooks reported the same one.
    fn is_early(&self) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.elapsed() < ANSWER_TIME)
    }

    /// Says whether the server, which was last heard at `heard`, should have answered.
    fn is_overdue(&self, heard: Instant) -> bool {
        self.cancelled.is_some_and(|cancelled| cancelled.max(heard).elapsed() > SILENCE_TIME)
    }
}

impl Link {
    pub fn new(
        mut channel: Channel,
        welcome: &wire::Welcome,
        options: &Options,
        hook: SharedHook,
        meter: Arc<Meter>,
        interrupted: Arc<AtomicBool>,
    ) -> Self {
        channel.set_stall_time(options.silence);
        Self {
            channel,
            capabilities: welcome.capabilities,
            frame_bytes_max: welcome.frame_bytes_max,
            last_query: 0,
            running: None,
            transaction: Transaction::None,
            hook,
            resolver: None,
            named: Named::default(),
            interrupted,
            interrupts: Interrupts::default(),
            looked: Instant::now(),
            silence: options.silence,
            traffic: options.traffic.clone(),
            answer_time: None,
            meter,
            broken: None,
        }
    }

    /// Says whether the next result may come as descriptors. A computed result cannot be requested
    /// again if this process has none left.
    pub fn takes_descriptors(&self) -> bool {
        self.capabilities.has(wire::Capabilities::DESCRIPTORS)
            && rustix::io::fcntl_dupfd_cloexec(self.channel.socket(), 0).is_ok()
    }

    /// Returns the number for the next statement.
    pub fn begin(&mut self) -> Result<u32> {
        if let Some(error) = &self.broken {
            let message = format!("the connection to the server is lost ({error}); connect again");
            let again = Error::new(ErrorKind::Connection, message);
            return Err(if error.is_unreachable() { again.unreachable() } else { again });
        }
        self.hear_farewell()?;
        self.interrupted.store(false, Ordering::Release);
        self.interrupts = Interrupts::default();
        self.named = Named::default();
        self.last_query = self.last_query.wrapping_add(1).max(1);
        self.running = Some(self.last_query);
        Ok(self.last_query)
    }

    /// Reads the error with which the server may have ended the session meanwhile: it is lost once
    /// more is sent.
    fn hear_farewell(&mut self) -> Result<()> {
        while let Some(frame) = self.try_receive()? {
            match frame.frame_type {
                FrameType::Error => return Err(self.failed(&frame)),
                // These frames belong to statements that are over.
                FrameType::Credit | FrameType::Progress => {}
                other => {
                    let error = Error::protocol(format!("a {other:?} frame that nothing asked for"));
                    return self.keep_error(Err(error));
                }
            }
        }
        Ok(())
    }

    /// Keeps an error that breaks the connection. The connection stays broken, because later bytes
    /// would be misread.
    pub fn keep_error<T>(&mut self, result: Result<T>) -> Result<T> {
        let result = result.map_err(lost);
        if let Err(error) = &result
            && error.kind() == ErrorKind::Connection
            && self.broken.is_none()
        {
            self.broken = Some(error.clone());
            self.running = None;
            self.lose_transaction();
            self.channel.close();
        }
        result
    }

    /// Notes that the server rolls back the open transaction; a later COMMIT must fail.
    fn lose_transaction(&mut self) {
        if self.transaction == Transaction::Open {
            self.transaction = Transaction::Failed;
        }
    }

    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_buffers(vec![Buffer::from(bytes)])
    }

    pub fn send_buffers(&mut self, buffers: Vec<Buffer>) -> Result<()> {
        self.traffic.send(buffers.iter().map(Buffer::len).sum());
        let hook = self.hook.lock().clone();
        let mut since = self.interrupts.cancelled.map(|_| Instant::now());
        let mut interrupts = 0;
        let sent = self.channel.send_buffers(buffers, &mut || {
            if self.interrupts.look(hook.as_ref(), &self.meter, &self.interrupted) {
                interrupts += 1;
                since.get_or_insert_with(Instant::now);
            }
            // An interrupt does not cut a frame short, except by ending the connection.
            match interrupts > 1 || since.is_some_and(|since| since.elapsed() > SILENCE_TIME) {
                true => Err(given_up()),
                false => Ok(()),
            }
        });
        if interrupts > 0 {
            // The next wait deals with it.
            self.interrupted.store(true, Ordering::Release);
        }
        self.keep_error(sent)
    }

    /// Ends the connection after telling the server, which may be gone.
    pub fn close(&mut self) {
        let bye = wire::FrameHeader { length: 0, frame_type: FrameType::Bye, descriptors: 0 };
        self.channel.close_with(&bye.encode());
    }

    /// Returns the next frame of a query. Frames that only inform or ask are handled here. After an
    /// interrupt the query is cancelled, and its end is awaited.
    ///
    /// # Errors
    /// The errors of the statement and of the connection.
    pub fn receive(&mut self, query: u32) -> Result<Frame> {
        let frame = self.receive_any(query);
        let frame = self.keep_error(frame)?;
        if frame.frame_type != FrameType::Error {
            return Ok(frame);
        }
        Err(self.failed(&frame))
    }

    /// Returns the error that ends the running statement.
    pub fn failed(&mut self, frame: &Frame) -> Error {
        let failure = Failure::decode(&frame.body);
        let failure = match self.keep_error(failure) {
            Ok(failure) => failure,
            Err(error) => return error,
        };
        self.running = None;
        match failure.fatal {
            true => self.lose_transaction(),
            false => self.transaction = failure.transaction,
        }
        if failure.fatal {
            self.broken = Some(failure.error.clone());
            self.channel.close();
        }
        failure.error
    }

    /// Reads the end of the running statement.
    pub fn done(&mut self, frame: &Frame) -> Result<Done> {
        let done = Done::decode(&frame.body);
        let done = self.keep_error(done)?;
        self.running = None;
        self.transaction = done.transaction;
        Ok(done)
    }

    /// Reads the bytes that answer the running call.
    pub fn reply(&mut self, frame: &Frame) -> Result<Vec<u8>> {
        let reply = Reply::decode(&frame.body);
        let reply = self.keep_error(reply)?;
        self.running = None;
        Ok(reply.reply)
    }

    /// Ends a statement whose rows nobody wants any more.
    pub fn abandon(&mut self, query: u32) -> Result<()> {
        if self.running != Some(query) {
            return Ok(());
        }
        self.send(&wire::Cancel(query).frame(FrameType::Cancel))?;
        while self.running == Some(query) {
            match self.receive(query) {
                Ok(frame) if frame.frame_type == FrameType::Done => drop(self.done(&frame)?),
                Ok(frame) if frame.frame_type == FrameType::Reply => drop(self.reply(&frame)?),
                Ok(_) => {}
                Err(error) if self.broken.is_some() => return Err(error),
                Err(_cancelled) => {}
            }
        }
        Ok(())
    }

    /// Returns the next frame of a query if it has come already.
    pub fn try_receive(&mut self) -> Result<Option<Frame>> {
        let frame = self.channel.try_receive(&mut || Ok(()));
        let frame = self.keep_error(frame)?;
        Ok(frame.inspect(|frame| self.traffic.receive(length_of(frame))))
    }

    /// Checks for interrupts during work that does not wait for the server.
    pub fn check_interrupt(&self) -> Result<()> {
        let hook = self.hook.lock().clone();
        if is_refused(hook.as_ref(), &self.meter) || self.interrupted.load(Ordering::Acquire) {
            return Err(Error::interrupted());
        }
        Ok(())
    }

    /// Returns the next frame of a statement that has just been sent. If the last answer came at
    /// once, the thread waits for a while without sleeping: waking up takes as long as a short
    /// statement.
    fn receive_answer(&mut self, query: u32) -> Result<Frame> {
        let sent = Instant::now();
        if self.answer_time.is_some_and(|time| time < QUICK_ANSWER_TIME) {
            // The next read meets the error again.
            while sent.elapsed() < AWAKE_TIME
                && matches!(self.channel.is_readable_within(Duration::ZERO), Ok(false))
            {
                std::thread::yield_now();
            }
        }
        let frame = self.receive(query);
        self.answer_time = Some(sent.elapsed());
        frame
    }

    /// Returns the first frame of an answer. Credit for rows that are all sent may come before it.
    pub fn receive_first(&mut self, query: u32) -> Result<Frame> {
        let mut frame = self.receive_answer(query)?;
        while frame.frame_type == FrameType::Credit {
            frame = self.receive(query)?;
        }
        Ok(frame)
    }

    fn receive_any(&mut self, query: u32) -> Result<Frame> {
        let mut silence = Silence::new(self.silence);
        loop {
            self.look(query)?;
            let (hook, heard) = (self.hook.lock().clone(), self.channel.heard());
            let mut is_new = false;
            let mut poll = || {
                is_new |= self.interrupts.look(hook.as_ref(), &self.meter, &self.interrupted);
                match is_new || self.interrupts.is_overdue(heard) || silence.is_too_long(heard) {
                    true => Err(Error::interrupted()),
                    false => Ok(()),
                }
            };
            let frame = match self.channel.receive(&mut poll) {
                Ok(frame) => frame,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if let Some(error) = silence.end(self.channel.heard()) {
                        return Err(error);
                    }
                    // The bytes that have come by now may be a part of a frame.
                    self.cancel(query, is_new)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            self.traffic.receive(length_of(&frame));
            match frame.frame_type {
                FrameType::Progress => self.take_progress(query, &frame)?,
                FrameType::Ask => self.answer(&Ask::decode(&frame.body)?)?,
                _ => return Ok(frame),
            }
        }
    }

    /// Looks for interrupts from time to time, also when frames never have to be waited for.
    fn look(&mut self, query: u32) -> Result<()> {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return Ok(());
        }
        self.looked = Instant::now();
        let hook = self.hook.lock().clone();
        match self.interrupts.look(hook.as_ref(), &self.meter, &self.interrupted) {
            true => self.cancel(query, true),
            false => Ok(()),
        }
    }

    /// Tells the server of a new interrupt, or gives it up that has not answered the last one.
    fn cancel(&mut self, query: u32, is_new: bool) -> Result<()> {
        let is_new = is_new && !self.interrupts.is_early();
        let is_again = is_new && self.interrupts.cancelled.is_some();
        if is_again || self.interrupts.is_overdue(self.channel.heard()) {
            self.close();
            return Err(given_up());
        }
        if is_new {
            self.interrupts.cancelled = Some(Instant::now());
            self.send(&wire::Cancel(query).frame(FrameType::Cancel))?;
        }
        Ok(())
    }

    /// Records the progress of the running statement. The frame may be about an earlier one.
    pub fn take_progress(&self, query: u32, frame: &Frame) -> Result<()> {
        let progress = wire::Progress::decode(&frame.body)?;
        if progress.query == query {
            self.meter.computed(progress.done, progress.total);
        }
        Ok(())
    }

    /// Sends the program's table of a name, if the running statement has that name.
    fn answer(&mut self, ask: &Ask) -> Result<()> {
        let query = ask.query;
        if !self.capabilities.has(wire::Capabilities::RESOLVE) || self.running != Some(query) {
            return Err(Error::protocol("the server asks for a table of the program, which it may not"));
        }
        let resolver = self.resolver.clone().filter(|_| self.named.allow(&ask.name));
        let found = resolver.and_then(|resolver| resolver(&ask.name));
        let table = match found {
            None => return self.send(&Answer::Nothing { query }.frame()),
            Some(Err(error)) => {
                let why = error.message().to_string();
                return self.send(&Answer::Unreadable { query, why }.frame());
            }
            Some(Ok(table)) => table,
        };
        let schema = match wire::canonical_schema(&table.schema) {
            Ok(schema) => schema,
            Err(error) => {
                let why = error.message().to_string();
                return self.send(&Answer::Unreadable { query, why }.frame());
            }
        };
        self.send(&Answer::Table { query, schema: schema.clone() }.frame())?;
        let mut sending = Sending::new(self, query, schema);
        for batch in table.batches {
            sending.batch(self, &batch)?;
        }
        match sending.end(self)? {
            None => Ok(()),
            Some(frame) => {
                Err(Error::protocol(format!("a {:?} frame before a table's end", frame.frame_type)))
            }
        }
    }
}

fn length_of(frame: &Frame) -> usize {
    FRAME_HEADER_BYTES + frame.body.len()
}

/// Says whether the program's hook wants to end the wait.
pub fn is_refused(hook: Option<&Hook>, meter: &Meter) -> bool {
    hook.is_some_and(|hook| !hook(&meter.progress().unwrap_or_default()))
}

fn given_up() -> Error {
    Error::new(
        ErrorKind::Connection,
        "the server does not answer to the interrupt: the connection is given up, and what it had open is rolled back",
    )
}
