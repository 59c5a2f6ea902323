//! Starts nodes as processes of their own, and waits until they answer.

use super::node::Node;
use super::process::{LOOK_INTERVAL, Process, end_all};
use hypostyle::{Connection, Error, ErrorKind, OpenOptions, Result};
use std::fs::{File, OpenOptions as FileOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time that a node has to come up.
const START_TIME: Duration = Duration::from_secs(60);

/// The time that a node lets statements run when it is to end, so that it ends before it is killed.
const STOP_SECONDS: u32 = 5;

/// The percentage of the machine's memory that all nodes may take together.
const MEMORY_PERCENT: usize = 80;

/// The lines and the bytes of a log's end that are shown.
const LOG_LINES: usize = 10;
const LOG_BYTES: u64 = 16 << 10;

/// What a server writes to its log once its addresses are its own.
const ANNOUNCEMENT: &str = "hypostyle serves ";

/// A node that should answer soon.
struct Starting<'a> {
    node: &'a Node,
    process: Process,
    /// The process, if it was started here.
    child: Option<Child>,
    /// The length that its log had before.
    log_start: u64,
    /// The nodes of the cluster.
    count: usize,
}

/// Starts those nodes that do not run, and returns the processes of all once they answer. If one
/// does not, those that were started are ended again.
///
/// # Errors
/// `Connection` with the end of the log of a node that does not come up, `Io`.
pub fn start(nodes: &[Node]) -> Result<Vec<Process>> {
    let mut starting = Vec::new();
    let all_answer = nodes.iter().try_for_each(|node| {
        starting.push(Starting::of(node, nodes.len())?);
        Ok(())
    });
    let all_answer = all_answer.and_then(|()| starting.iter_mut().try_for_each(Starting::wait));
    if let Err(error) = all_answer {
        let started: Vec<Process> =
            starting.iter().filter(|node| node.child.is_some()).map(|node| node.process).collect();
        end_all(&started)?;
        return Err(error);
    }
    Ok(starting.into_iter().map(|node| node.process).collect())
}

/// Says whether a server answers at the address of a node.
pub fn answers(node: &Node) -> bool {
    let address = format!("hypostyle://{}/", node.address);
    match Connection::open(Some(Path::new(&address)), OpenOptions::default()) {
        Ok(_) => true,
        // It has users, and answers those alone.
        Err(error) => error.kind() == ErrorKind::Denied,
    }
}

impl<'a> Starting<'a> {
    /// Starts a node, one of several, unless it runs.
    fn of(node: &'a Node, count: usize) -> Result<Self> {
        if let Some(process) = Process::of_file(&node.pid_file())? {
            return Ok(Self { node, process, child: None, log_start: 0, count });
        }
        Self::launch(node, count)
    }

    fn launch(node: &'a Node, count: usize) -> Result<Self> {
        let failed =
            |error: std::io::Error| Error::from_io(&error, format!("cannot start \"{}\"", node.name));
        let log = FileOptions::new().create(true).append(true).open(node.log_file()).map_err(failed)?;
        let log_start = log.metadata().map_err(failed)?.len();
        let memory = format!("{}%", (MEMORY_PERCENT / count.max(1)).max(1));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.arg("serve").arg(node.database()).arg("--cluster").arg(node.config_file());
        command.args(["--stop-timeout", &STOP_SECONDS.to_string(), "--memory-limit", &memory]);
        command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
        // Ctrl-C in this terminal is for whoever is in the foreground, not for the nodes.
        let mut child = command.process_group(0).spawn().map_err(failed)?;
        let Some(process) = Process::of(child.id()) else {
            let ended = child.wait().map_err(failed)?;
            return Err(not_up(node, &format!("it ended with {ended}"), log_start));
        };
        let starting = Self { node, process, child: Some(child), log_start, count };
        match process.write(&node.pid_file()) {
            Ok(()) => Ok(starting),
            // Nobody would know that it runs.
            Err(error) => end_all(&[process]).and(Err(error)),
        }
    }

    /// Waits until the node answers.
    fn wait(&mut self) -> Result<()> {
        let since = Instant::now();
        loop {
            if let Some(why) = self.ended() {
                if self.child.is_none() {
                    // It was about to end: somebody has killed it.
                    *self = Self::launch(self.node, self.count)?;
                    continue;
                }
                return Err(not_up(self.node, &why, self.log_start));
            }
            // Another program may answer at an address that the node could not have.
            if self.is_listening() && answers(self.node) {
                return Ok(());
            }
            if since.elapsed() >= START_TIME {
                let why = format!("it does not answer at {} in {START_TIME:?}", self.node.address);
                return Err(not_up(self.node, &why, self.log_start));
            }
            sleep(LOOK_INTERVAL);
        }
    }

    /// Returns how the process has ended, if it has.
    fn ended(&mut self) -> Option<String> {
        let status = match self.child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Some(status),
            _ if self.process.runs() => return None,
            // It has ended since.
            _ => self.child.as_mut().and_then(|child| child.wait().ok()),
        };
        Some(status.map_or_else(|| "it ended".into(), |status| format!("it ended with {status}")))
    }

    fn is_listening(&self) -> bool {
        self.child.is_none() || end_of_log(self.node, self.log_start).contains(ANNOUNCEMENT)
    }
}

/// Returns the error for a node that does not come up.
fn not_up(node: &Node, why: &str, log_start: u64) -> Error {
    let log = end_of_log(node, log_start);
    let lines: Vec<&str> = log.lines().collect();
    let shown = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
    Error::new(
        ErrorKind::Connection,
        format!(
            "node \"{}\" did not come up: {why}. The end of its log \"{}\":\n  {shown}",
            node.name,
            node.log_file().display()
        ),
    )
}

/// Returns the end of what a node has written to its log since it had a length; nothing where it
/// cannot be read.
fn end_of_log(node: &Node, start: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut log = File::open(node.log_file())?;
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(start.max(length.saturating_sub(LOG_BYTES))))?;
        let mut bytes = Vec::new();
        log.take(LOG_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
