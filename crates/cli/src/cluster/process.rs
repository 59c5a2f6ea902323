//! Processes that were started earlier. A file has the number of one and when it began, since a
//! number may be that of another process later.

use hypostyle::{Error, Result};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time that processes have to end by themselves, before they are killed.
const END_TIME: Duration = Duration::from_secs(10);

/// The time between two looks at processes.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// A process that runs, or has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pid: Pid,
    /// When it began, in the kernel's ticks since the machine was started.
    began: u64,
}

impl Process {
    /// Returns the process of a number, if it runs.
    pub fn of(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Some(Self { pid, began: beginning(&stat)? })
    }

    /// Returns the process of a file, if it still runs.
    ///
    /// # Errors
    /// `Io`, where the file is there and cannot be read.
    pub fn of_file(file: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            other => other
                .map_err(|error| Error::from_io(&error, format!("cannot read \"{}\"", file.display())))?,
        };
        let mut numbers = text.split_whitespace();
        let pid = numbers.next().and_then(|pid| pid.parse().ok());
        let began = numbers.next().and_then(|began| began.parse().ok());
        Ok(pid.and_then(Self::of).filter(|process| Some(process.began) == began))
    }

    /// Writes the file of a process.
    ///
    /// # Errors
    /// `Io`.
    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, format!("{} {}\n", self.pid(), self.began))
            .map_err(|error| Error::from_io(&error, format!("cannot write \"{}\"", file.display())))
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub fn runs(&self) -> bool {
        u32::try_from(self.pid()).ok().and_then(Self::of) == Some(*self)
    }

    /// Sends a signal, unless the process has ended.
    fn signal(&self, signal: Signal) -> Result<()> {
        let sent = pidfd_open(self.pid, PidfdFlags::empty()).and_then(|process| {
            // The descriptor is of one process. If that is ours now, it stays ours.
            if self.runs() { pidfd_send_signal(&process, signal) } else { Ok(()) }
        });
        match sent {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(Error::from_io(&error.into(), format!("cannot end process {}", self.pid()))),
        }
    }
}

/// Ends processes, by force where they do not end in time. Returns how many that were.
///
/// # Errors
/// `Io` for a process that may not be ended.
pub fn end_all(processes: &[Process]) -> Result<usize> {
    for process in processes {
        process.signal(Signal::TERM)?;
    }
    let left = wait_for(processes);
    for process in &left {
        process.signal(Signal::KILL)?;
    }
    wait_for(&left);
    Ok(left.len())
}

/// Waits until processes have ended, and returns those that have not in time.
fn wait_for(processes: &[Process]) -> Vec<Process> {
    let since = Instant::now();
    loop {
        let left: Vec<Process> = processes.iter().copied().filter(Process::runs).collect();
        if left.is_empty() || since.elapsed() >= END_TIME {
            return left;
        }
        sleep(LOOK_INTERVAL);
    }
}

/// Removes the file of a process.
///
/// # Errors
/// `Io`.
pub fn forget(file: &Path) -> Result<()> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::from_io(&error, format!("cannot remove \"{}\"", file.display())))
        }
        _ => Ok(()),
    }
}

/// Returns when a process began, from its line in `/proc`; `None` for one that has ended and whose
/// parent has not asked yet how.
fn beginning(stat: &str) -> Option<u64> {
    // The name of the program is in parentheses and may have some itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_line_of_a_process_says_when_it_began() {
        let line = |state: &str| {
            format!(
                "7 (a) b (c) {state} 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 123456 10 5 18446744073709551615"
            )
        };
        assert_eq!(beginning(&line("S")), Some(123_456));
        assert_eq!(beginning(&line("Z")), None);
        assert_eq!(beginning(""), None);
        assert_eq!(beginning("7 (a) S 1"), None);
    }

    #[test]
    fn a_file_is_of_one_process_only() {
        let mut child = Command::new("sleep").arg("100").stdin(Stdio::null()).spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let file = std::env::temp_dir().join(format!("hypostyle-pid-{}", child.id()));
        process.write(&file).unwrap();
        assert_eq!(Process::of_file(&file).unwrap(), Some(process));
        let earlier = Process { began: process.began - 1, ..process };
        earlier.write(&file).unwrap();
        assert_eq!(Process::of_file(&file).unwrap(), None);
        earlier.signal(Signal::KILL).unwrap();
        assert!(process.runs(), "the signal is for an earlier process of the number");
        assert_eq!(end_all(&[process]).unwrap(), 0);
        assert!(!process.runs(), "what has ended and was not waited for does not run");
        child.wait().unwrap();
        for text in ["", "x", "1", "99999999999 1", "-1 1"] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(Process::of_file(&file).unwrap(), None, "{text}");
        }
        forget(&file).unwrap();
        assert_eq!(Process::of_file(&file).unwrap(), None);
    }
}
