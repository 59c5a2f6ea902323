//! Ctrl-C. The library sets no signal handler. The program sets one, and turns the signal into a
//! flag that a running statement polls.
//!
//! The first Ctrl-C interrupts the running statement. A third one ends the program, in case the
//! statement does not react. When nothing runs, Ctrl-C ends a batch program and does nothing in a
//! shell (at the prompt the line editor sees Ctrl-C as a key).

use hypostyle::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// The number of presses during one statement after which the program ends.
const PRESSES_MAX: u32 = 3;

#[derive(Debug, Default)]
pub struct Interrupt {
    interactive: bool,
    running: AtomicBool,
    presses: AtomicU32,
}

impl Interrupt {
    /// Starts to listen on a thread of its own.
    ///
    /// # Errors
    /// `Io` when the operating system gives no thread or no handler.
    pub fn listen(interactive: bool) -> Result<Arc<Self>> {
        let failed = |error: std::io::Error| Error::from_io(&error, "cannot listen for Ctrl-C");
        let interrupt = Arc::new(Self { interactive, ..Self::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let mut signals = {
            let _context = runtime.enter();
            signal(SignalKind::interrupt()).map_err(failed)?
        };
        let listener = Arc::clone(&interrupt);
        thread::Builder::new()
            .name("ctrl-c".into())
            .spawn(move || {
                runtime.block_on(async {
                    while signals.recv().await.is_some() {
                        if listener.press() {
                            std::process::exit(130);
                        }
                    }
                });
            })
            .map_err(failed)?;
        Ok(interrupt)
    }

    /// Counts a Ctrl-C. Returns true when the program has to end.
    fn press(&self) -> bool {
        if !self.running.load(Ordering::SeqCst) {
            return !self.interactive;
        }
        self.presses.fetch_add(1, Ordering::SeqCst) + 1 >= PRESSES_MAX
    }

    /// Marks a statement as running until the guard is dropped.
    pub fn begin(self: &Arc<Self>) -> Running {
        // In a batch, a press at the end of a statement stops the next one.
        if self.interactive {
            self.presses.store(0, Ordering::SeqCst);
        }
        self.running.store(true, Ordering::SeqCst);
        Running(Arc::clone(self))
    }

    pub fn requested(&self) -> bool {
        self.presses.load(Ordering::SeqCst) > 0
    }

    /// Fails if the running statement has to stop.
    pub fn check(&self) -> Result<()> {
        match self.requested() {
            true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }
}

/// Marks a statement as running while this value lives.
#[derive(Debug)]
pub struct Running(Arc<Interrupt>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_stops_the_statement_first_and_the_program_last() {
        let interrupt = Arc::new(Interrupt { interactive: true, ..Interrupt::default() });
        assert!(!interrupt.press(), "an idle shell stays");
        let running = interrupt.begin();
        assert!(interrupt.check().is_ok());
        assert!(!interrupt.press());
        assert_eq!(interrupt.check().unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(!interrupt.press());
        assert!(interrupt.press(), "the third press gives up");
        drop(running);
        let _next = interrupt.begin();
        assert!(interrupt.check().is_ok(), "the next statement starts afresh");
    }

    #[test]
    fn a_batch_ends_even_if_ctrl_c_came_too_late_for_the_statement() {
        let interrupt = Arc::new(Interrupt::default());
        let running = interrupt.begin();
        assert!(!interrupt.press());
        drop(running);
        let next = interrupt.begin();
        assert!(interrupt.check().is_err());
        drop(next);
        assert!(interrupt.press(), "an idle batch ends at once");
    }
}
