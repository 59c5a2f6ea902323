//! Waiting for the locks of other processes. A wait has a deadline, can be interrupted, and can
//! name the process that has the lock.

use crate::directory::Identity;
use hypostyle_types::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;
use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that a wait for a lock may take by default.
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// A shorter wait than this yields the processor and does not sleep.
const YIELDING: Duration = Duration::from_micros(30);

/// The sleep between two attempts is this part of the time waited so far, within bounds. So a wait
/// becomes longer by at most this part, and a long wait costs nothing. Eight processes that commit
/// at once are then as fast as with locks that block; with an eighth, they miss each other's syncs.
const SLEEP_SHARE: u32 = 32;
const SLEEP_MIN: Duration = Duration::from_micros(20);
const SLEEP_MAX: Duration = Duration::from_millis(2);

/// How often the caller is asked whether to go on.
const ASKING_INTERVAL: Duration = Duration::from_millis(20);

/// A question that fails when the wait must end.
type GoesOn = Arc<dyn Fn() -> Result<()> + Send + Sync>;

thread_local! {
    static PATIENCE: RefCell<Patience> = RefCell::default();
}

/// How long a wait for the locks of others may take, and who may end it earlier.
#[derive(Clone)]
pub struct Patience {
    timeout: Duration,
    goes_on: Option<GoesOn>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { timeout: LOCK_TIMEOUT, goes_on: None }
    }
}

impl fmt::Debug for Patience {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Patience of {:?}", self.timeout)
    }
}

impl Patience {
    /// Returns a patience of the given time, or of the default.
    pub fn of(timeout: Option<Duration>) -> Self {
        Self { timeout: timeout.unwrap_or(LOCK_TIMEOUT), goes_on: None }
    }

    /// Adds a question that the waiting thread asks from time to time. Its error ends the wait.
    pub fn unless(self, goes_on: impl Fn() -> Result<()> + Send + Sync + 'static) -> Self {
        Self { goes_on: Some(Arc::new(goes_on)), ..self }
    }

    /// Gives this patience to the waits of this thread, for as long as the returned value lives.
    pub fn hold(self) -> Held {
        Held { before: Some(PATIENCE.replace(self)), _of_this_thread: PhantomData }
    }
}

/// Restores the previous patience of a thread when it is dropped.
#[derive(Debug)]
pub struct Held {
    before: Option<Patience>,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            PATIENCE.set(before);
        }
    }
}

/// A wait, from its beginning.
#[derive(Debug)]
pub struct Waiting {
    begin: Instant,
    asked: Instant,
    patience: Patience,
}

impl Waiting {
    /// Begins a wait with the patience of this thread.
    pub fn begin() -> Self {
        let begin = Instant::now();
        Self { begin, asked: begin, patience: PATIENCE.with_borrow(Patience::clone) }
    }

    /// Begins a wait for work that cannot be undone any more: nobody is asked whether to go on.
    pub fn to_the_end() -> Self {
        let mut waiting = Self::begin();
        waiting.patience.goes_on = None;
        waiting
    }

    /// Returns when to check this wait again, for a thread that is woken by others.
    pub fn next_look(&self) -> Instant {
        let soon = Instant::now() + ASKING_INTERVAL;
        self.begin.checked_add(self.patience.timeout).map_or(soon, |end| end.min(soon))
    }

    /// # Errors
    /// `Busy` with the text of `holder` when the time is over; or the error of the question.
    pub fn check(&mut self, holder: impl FnOnce() -> String) -> Result<()> {
        let now = Instant::now();
        if let Some(goes_on) = &self.patience.goes_on
            && now - self.asked >= ASKING_INTERVAL
        {
            self.asked = now;
            goes_on()?;
        }
        if now - self.begin < self.patience.timeout {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Busy,
            format!(
                "not within {:?}: {}; try again when it has ended, or raise lock_timeout",
                self.patience.timeout,
                holder()
            ),
        )
        .with_sqlstate("55P03"))
    }

    /// Lets some time pass before the next try.
    ///
    /// # Errors
    /// The errors of [`Self::check`].
    pub fn pause(&mut self, holder: impl FnOnce() -> String) -> Result<()> {
        self.check(holder)?;
        match self.begin.elapsed() {
            waited if waited < YIELDING => std::thread::yield_now(),
            waited => std::thread::sleep((waited / SLEEP_SHARE).clamp(SLEEP_MIN, SLEEP_MAX)),
        }
        Ok(())
    }
}

/// Takes the `flock` of an open file. It never blocks, because only a signal handler could end
/// that.
pub(crate) fn wait_for(
    file: &fs::File,
    operation: FlockOperation,
    name: &str,
    waiting: &mut Waiting,
) -> Result<()> {
    while !try_flock(file, operation, name)? {
        let holder = || format!("{} has its lock", holder_of(file));
        waiting.pause(holder).map_err(|error| error.context(format!("waiting for \"{name}\"")))?;
    }
    Ok(())
}

/// Tries to take the `flock`. Returns false when another process has it.
pub(crate) fn try_flock(file: &fs::File, operation: FlockOperation, name: &str) -> Result<bool> {
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                return Err(Error::from_io(&error.into(), format_args!("cannot lock \"{name}\"")));
            }
        }
    }
}

/// How often the list of all locks is read for one of them.
const READS_OF_LOCKS: usize = 4;

/// Names the process that has a lock of a file, as far as the system tells.
pub(crate) fn holder_of(file: &fs::File) -> String {
    // The list is read in pieces, between which locks come and go: it may lack one that is there.
    let holder = |identity| {
        (0..READS_OF_LOCKS).find_map(|_| {
            let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
            holder_in(&locks, identity)
        })
    };
    match Identity::of(file).ok().and_then(holder) {
        Some(process) if process == std::process::id() => {
            "this process, through another handle or thread,".to_string()
        }
        Some(process) => match fs::read_to_string(format!("/proc/{process}/comm")) {
            Ok(command) => format!("process {process} ({})", command.trim().escape_debug()),
            Err(_) => format!("process {process}"),
        },
        None => "a process that cannot be seen from here".to_string(),
    }
}

/// Returns the process that `/proc/locks` names for this device and inode, or else for this inode,
/// because some file systems have devices of their own.
fn holder_in(locks: &str, identity: Identity) -> Option<u32> {
    let (exact, inode) = identity.in_proc();
    let found = |matches: &dyn Fn(&str) -> bool| {
        locks.lines().find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, "FLOCK", _, _, process, place, ..] = fields.as_slice() else { return None };
            matches(place).then(|| process.parse().ok())?
        })
    };
    found(&|place| place == exact).or_else(|| found(&|place| place.ends_with(&inode)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn locked_file() -> (tempfile::NamedTempFile, fs::File) {
        let file = tempfile::NamedTempFile::new().unwrap();
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let other = fs::File::open(file.path()).unwrap();
        (file, other)
    }

    const LOCK: FlockOperation = FlockOperation::NonBlockingLockExclusive;

    #[test]
    fn a_wait_ends_with_its_time_and_names_who_has_the_lock() {
        let (held, other) = locked_file();
        let patient = Patience::of(Some(Duration::from_millis(30))).hold();
        let error = wait_for(&other, LOCK, "f", &mut Waiting::begin()).unwrap_err();
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Busy, "55P03"));
        assert!(error.message().contains("\"f\"") && error.message().contains("this process"), "{error}");
        drop(held);
        wait_for(&other, LOCK, "f", &mut Waiting::begin()).unwrap();
        drop(patient);
        // The patience was for that work only.
        assert_eq!(Waiting::begin().patience.timeout, LOCK_TIMEOUT);
    }

    #[test]
    fn a_wait_ends_when_somebody_says_so_unless_it_must_go_on() {
        let (_held, other) = locked_file();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let patience = Patience::of(Some(Duration::from_secs(3600))).unless(move || {
            match counted.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(()),
                _ => Err(Error::new(ErrorKind::Interrupted, "enough")),
            }
        });
        let patient = patience.hold();
        let waited = wait_for(&other, LOCK, "f", &mut Waiting::begin());
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Interrupted);
        drop(patient);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let patience = Patience::of(Some(Duration::from_millis(60)))
            .unless(|| Err(Error::new(ErrorKind::Interrupted, "enough")));
        let _patient = patience.hold();
        let waited = wait_for(&other, LOCK, "f", &mut Waiting::to_the_end());
        assert_eq!(waited.unwrap_err().kind(), ErrorKind::Busy);
    }

    #[test]
    fn holders_are_found_by_device_and_inode() {
        let (held, _) = locked_file();
        let identity = Identity::of(&held).unwrap();
        let (exact, inode) = identity.in_proc();
        let line = |kind: &str, process: u32, place: &str| {
            format!("7: {kind}  ADVISORY  WRITE {process} {place} 0 EOF\n")
        };
        let others = line("POSIX", 1, &exact) + &line("FLOCK", 2, "00:00:1");
        assert_eq!(holder_in(&others, identity), None);
        let elsewhere = others + &line("FLOCK", 3, &format!("ff:ff{inode}"));
        assert_eq!(holder_in(&elsewhere, identity), Some(3));
        assert_eq!(holder_in(&(elsewhere + &line("FLOCK", 4, &exact)), identity), Some(4));
    }
}
