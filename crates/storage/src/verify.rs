//! When stored columns are verified that are handed out as they lie (docs/decisions/0011).
//!
//! Who reads rows here verifies them first, block by block. A result that is a mapping is read
//! elsewhere, by NumPy or another process, and must cost the same whatever its rows. So what this
//! machine has written itself is handed out at once, and a thread verifies it meanwhile; what came
//! from elsewhere is verified before.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use crate::column::ColumnData;
use crate::origin::Origin;
use hypostyle_io::{Store, yield_to_others};
use hypostyle_sync::{Condvar, Mutex};
use hypostyle_types::{BLOCK_ROWS, Error, ErrorKind, Result};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A block of about so many bytes is verified before it is handed out, wherever it comes from.
const BLOCK_BYTES_MAX: u64 = 4 << 20;

/// Parts of columns that may wait for the thread; what does not find a place is verified by who
/// wants it.
const WAITING_MAX: usize = 1 << 16;

/// The longest rest of the thread, which rests as long as it has worked.
const REST_MAX: Duration = Duration::from_millis(20);

/// When columns are verified that are handed out without being read here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verify {
    /// A column is verified before, if the database came from elsewhere or a block is all there is;
    /// else at the same time.
    #[default]
    Auto,
    /// A column is always verified before.
    Always,
    /// Not at all.
    Never,
}

impl FromStr for Verify {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "always" => Ok(Self::Always),
            "never" => Ok(Self::Never),
            // The text is not told: it may be of a password, if it comes from a connection string.
            _ => Err(Error::invalid_input("verify must be auto, always or never")),
        }
    }
}

/// What a database knows of its files, and the thread that looks at them.
#[derive(Debug)]
pub(crate) struct Verifier {
    when: Verify,
    /// What the directory would say if it were this machine's own; `None` where there is nothing to
    /// tell.
    origin: Option<Origin>,
    is_own: AtomicBool,
    background: Arc<Background>,
}

#[derive(Debug)]
struct Background {
    /// A child of `fork()` has no thread of its parent's.
    process: u32,
    queue: Mutex<Queue>,
    /// Everything that waited is verified.
    idle: Condvar,
    stopped: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<(Arc<ColumnData>, Range<u64>)>,
    /// The keys of those that wait, and of the one that is being verified.
    keys: HashSet<Key>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
}

/// Which rows of which column, as long as somebody has the column.
type Key = (usize, u64, u64);

fn key(column: &Arc<ColumnData>, rows: &Range<u64>) -> Key {
    (Arc::as_ptr(column).addr(), rows.start, rows.end)
}

impl Verifier {
    pub fn new(when: Verify, store: &Store) -> Self {
        let origin = Origin::of(store);
        let is_own = origin.as_ref().is_none_or(|origin| origin.is_recorded(store));
        let background = Background {
            process: std::process::id(),
            queue: Mutex::default(),
            idle: Condvar::new(),
            stopped: AtomicBool::new(false),
        };
        Self { when, origin, is_own: AtomicBool::new(is_own), background: Arc::new(background) }
    }

    pub fn is_own(&self) -> bool {
        self.is_own.load(Ordering::Acquire)
    }

    /// Takes the directory for this machine's own from now on, after all of it was found to be
    /// sound.
    ///
    /// # Errors
    /// `ReadOnly`, `DiskFull`, `Io`.
    pub fn adopt(&self, store: &Store) -> Result<()> {
        if let Some(origin) = self.origin.as_ref().filter(|_| !self.is_own()) {
            origin.record(store)?;
            self.is_own.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Verifies rows of a column before they are handed out, or has them verified.
    pub fn hand_out(
        &self,
        column: &Arc<ColumnData>,
        rows: Range<u64>,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if self.when == Verify::Never {
            return Ok(());
        }
        let waits = self.when == Verify::Auto
            && self.is_own()
            && !column.is_suspect()
            && !is_little(column, &rows)
            && !column.is_verified(rows.clone())?;
        match waits && Background::take(&self.background, column, &rows) {
            true => Ok(()),
            false => verify_now(column, rows, proceed),
        }
    }

    /// Waits until the thread has nothing to do.
    pub fn wait(&self) {
        let mut queue = self.background.queue.lock();
        while queue.is_running {
            queue = self.background.idle.wait(queue);
        }
    }
}

impl Drop for Verifier {
    fn drop(&mut self) {
        if std::process::id() != self.background.process {
            // There is no such thread, not even for letting it go.
            std::mem::forget(self.background.clone());
            return;
        }
        self.background.stopped.store(true, Ordering::Release);
        let thread = self.background.queue.lock().thread.take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of it was reported where it happened.
            let _panicked = thread.join();
        }
    }
}

/// Verifies rows of a column that are about to be handed out.
pub(crate) fn verify_now(
    column: &ColumnData,
    rows: Range<u64>,
    proceed: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    column.verify_counts()?;
    column.verify_rows_unless(rows, proceed)
}

/// Whether rows lie in one block, and it is not larger than that it can be read at once.
fn is_little(column: &ColumnData, rows: &Range<u64>) -> bool {
    let blocks = column.rows().div_ceil(BLOCK_ROWS).max(1);
    // Elements of lists are in blocks of their own.
    let bytes = if column.is_nested() { column.bytes() } else { column.bytes() / blocks };
    rows.start / BLOCK_ROWS + 1 >= rows.end.div_ceil(BLOCK_ROWS) && bytes <= BLOCK_BYTES_MAX
}

impl Background {
    /// Whether a thread will verify them.
    fn take(background: &Arc<Self>, column: &Arc<ColumnData>, rows: &Range<u64>) -> bool {
        if background.stopped.load(Ordering::Acquire) || std::process::id() != background.process {
            return false;
        }
        let mut queue = background.queue.lock();
        if queue.keys.contains(&key(column, rows)) {
            return true;
        }
        if queue.waiting.len() >= WAITING_MAX {
            return false;
        }
        if !queue.is_running {
            let own = background.clone();
            let name = "hypostyle-verify".to_string();
            match std::thread::Builder::new().name(name).spawn(move || own.run()) {
                Ok(thread) => {
                    queue.is_running = true;
                    queue.thread = Some(thread);
                }
                Err(error) => {
                    tracing::warn!(%error, "no thread for verifying what is handed out: it is done before");
                    return false;
                }
            }
        }
        queue.keys.insert(key(column, rows));
        queue.waiting.push_back((column.clone(), rows.clone()));
        true
    }

    fn run(&self) {
        yield_to_others();
        loop {
            let next = {
                let mut queue = self.queue.lock();
                let next = queue.waiting.pop_front().filter(|_| !self.stopped.load(Ordering::Acquire));
                if next.is_none() {
                    queue.waiting.clear();
                    queue.keys.clear();
                    queue.is_running = false;
                    self.idle.notify_all();
                }
                next
            };
            let Some((column, rows)) = next else { return };
            self.verify(&column, rows.clone());
            self.queue.lock().keys.remove(&key(&column, &rows));
        }
    }

    fn verify(&self, column: &ColumnData, rows: Range<u64>) {
        let mut begun = Instant::now();
        let verified = verify_now(column, rows, &mut || {
            // Half of the time is others'.
            std::thread::sleep(begun.elapsed().min(REST_MAX));
            begun = Instant::now();
            match self.stopped.load(Ordering::Acquire) {
                true => Err(Error::new(ErrorKind::Interrupted, "the database was closed")),
                false => Ok(()),
            }
        });
        match verified {
            // Nobody keeps the files for this thread.
            Err(error) if error.kind() == ErrorKind::Corrupt && column.has_files() => {
                column.suspect();
                tracing::error!(%error, "what was handed out before is damaged");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_one_of_three_words() {
        assert_eq!(Verify::default(), "Auto".parse().unwrap());
        assert_eq!(Verify::Always, "always".parse().unwrap());
        assert_eq!(Verify::Never, "never".parse().unwrap());
        assert_eq!("".parse::<Verify>().unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
