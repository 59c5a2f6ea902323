//! The nodes of a cluster, as processes that can be killed, stopped and started again.

use crate::common::ports;
use crate::links::Links;
use hypostyle::arrow::array::{Array, AsArray, RecordBatch};
use hypostyle::arrow::compute::cast;
use hypostyle::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use hypostyle::{Connection, Error, OpenOptions, Poll, Result};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time after which a statement is a hang, which ends its connection.
const HANG: Duration = Duration::from_secs(40);

/// The time that a node has to come up.
const START: Duration = Duration::from_secs(60);

/// Nodes on this machine.
pub struct Nodes {
    directory: PathBuf,
    /// Where the nodes listen.
    listens: Vec<SocketAddr>,
    /// What the nodes reach each other by, if not directly.
    links: Option<Links>,
    /// Where the nodes reach each other.
    addresses: Vec<SocketAddr>,
    processes: Vec<Mutex<Option<Child>>>,
    /// The milliseconds that each node has been stopped for.
    stopped: Vec<AtomicU64>,
}

impl Nodes {
    /// Starts nodes that are no cluster yet, and reach each other directly or by links that can fail. With
    /// failover, one of them replaces a coordinator that is away.
    pub fn start(directory: &Path, count: usize, by_links: bool, failover: bool) -> Self {
        let _none = std::fs::remove_dir_all(directory);
        std::fs::create_dir_all(directory).unwrap();
        std::fs::write(directory.join("password"), "of the nodes of a test\n").unwrap();
        let proxies = if by_links { ports(u16::try_from(count).unwrap()) } else { Vec::new() };
        // The ports are free once all are known.
        let ports = ports(u16::try_from(count).unwrap());
        let at = |port: &TcpListener| port.local_addr().unwrap();
        let listens: Vec<SocketAddr> = ports.iter().map(at).collect();
        drop(ports);
        let addresses = if by_links { proxies.iter().map(at).collect() } else { listens.clone() };
        let nodes = Self {
            directory: directory.into(),
            links: by_links.then(|| Links::start(proxies, listens.clone())),
            listens,
            addresses,
            processes: (0..count).map(|_| Mutex::default()).collect(),
            stopped: (0..count).map(|_| AtomicU64::new(0)).collect(),
        };
        (0..count).for_each(|node| nodes.configure(node, failover));
        (0..count).for_each(|node| nodes.begin(node));
        (0..count).for_each(|node| nodes.wait(node));
        nodes
    }

    fn configure(&self, node: usize, failover: bool) {
        let (name, listen, address) = (name(node), self.listens[node], self.addresses[node]);
        let text = format!(
            "name = \"{name}\"\nlisten = \"{listen}\"\naddress = \"{address}\"\ncredentials = \"../password\"\n\
             failover = {failover}\n"
        );
        std::fs::create_dir(self.directory.join(&name)).unwrap();
        std::fs::write(self.directory.join(&name).join("cluster.toml"), text).unwrap();
    }

    pub fn count(&self) -> usize {
        self.addresses.len()
    }

    /// Returns where other nodes reach a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        self.addresses[node]
    }

    /// Returns what the nodes reach each other by.
    pub fn links(&self) -> &Links {
        self.links.as_ref().unwrap()
    }

    /// Starts the process of a node.
    pub fn begin(&self, node: usize) {
        let directory = self.directory.join(name(node));
        let log = File::options().create(true).append(true).open(directory.join("log")).unwrap();
        // A file that may grow no more is an error, not a signal that ends the process.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hypostyle")]);
        command.arg("serve").arg(directory.join("main.hypo"));
        command.arg("--cluster").arg(directory.join("cluster.toml"));
        command.args(["--threads", "2", "--memory-limit", "512MiB"]);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap();
        if let Some(links) = &self.links {
            links.know(node, process.id());
        }
        *self.processes[node].lock().unwrap() = Some(process);
    }

    /// Waits until a node answers.
    pub fn wait(&self, node: usize) {
        let since = Instant::now();
        while self.connect(node).is_err() {
            assert!(since.elapsed() < START, "{} does not come up: {}", name(node), self.log(node));
            sleep(Duration::from_millis(20));
        }
    }

    /// Kills a node, unless it has ended.
    pub fn kill(&self, node: usize) {
        if let Some(mut child) = self.processes[node].lock().unwrap().take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops a node for some time.
    pub fn stop(&self, node: usize, time: Duration) {
        self.signal(node, Signal::STOP);
        sleep(time);
        self.stopped[node].fetch_add(time.as_millis() as u64, Ordering::SeqCst);
        self.signal(node, Signal::CONT);
    }

    /// Sends the process of a node a signal, unless it has ended.
    pub fn signal(&self, node: usize, signal: Signal) {
        if let Some(child) = self.processes[node].lock().unwrap().as_ref() {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Lets no file of a node grow beyond so many bytes, as if its disk were full, or lets it again.
    pub fn limit_files(&self, node: usize, bytes: Option<u64>) {
        if let Some(child) = self.processes[node].lock().unwrap().as_ref() {
            let maximum = getrlimit(Resource::Fsize).maximum;
            let limit = Rlimit { current: bytes.or(maximum), maximum };
            prlimit(Some(Pid::from_child(child)), Resource::Fsize, limit).unwrap();
        }
    }

    /// Gives a node, which does not run, the files that it had: returns what does so later.
    pub fn keep_files(&self, node: usize) -> impl Fn() + use<> {
        let own = self.directory.join(name(node)).join("main.hypo");
        let kept = own.with_extension("kept");
        let _none = std::fs::remove_dir_all(&kept);
        copy_directory(&own, &kept);
        move || {
            std::fs::remove_dir_all(&own).unwrap();
            copy_directory(&kept, &own);
        }
    }

    /// Returns how many bytes of memory the process of a node has that are of no file.
    pub fn own_memory(&self, node: usize) -> u64 {
        let process = self.processes[node].lock().unwrap().as_ref().map(Child::id);
        let status = process.and_then(|id| std::fs::read_to_string(format!("/proc/{id}/status")).ok());
        let status = status.unwrap_or_default();
        let kibibytes =
            status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.split_whitespace().next());
        kibibytes.map_or(0, |kibibytes| kibibytes.parse::<u64>().unwrap() << 10)
    }

    /// Returns for how long a node has been stopped until now.
    pub fn stopped(&self, node: usize) -> Duration {
        Duration::from_millis(self.stopped[node].load(Ordering::SeqCst))
    }

    /// Connects to a node directly. A statement that hangs ends with an error.
    pub fn connect(&self, node: usize) -> Result<Connection> {
        let address = format!("hypostyle://{}/", self.listens[node]);
        let connection = Connection::open(Some(Path::new(&address)), OpenOptions::default())?;
        let since = Instant::now();
        connection.set_poll(Some(Arc::new(move |_| match since.elapsed() < HANG {
            true => Poll::Continue,
            false => Poll::Interrupt,
        })));
        Ok(connection)
    }

    /// Runs a statement on a node.
    pub fn run(&self, node: usize, sql: &str) -> Result<()> {
        self.connect(node)?.execute(sql).map(drop)
    }

    /// Returns the state of the catalog that a node knows.
    pub fn epoch(&self, node: usize) -> Result<u64> {
        let shown = self.connect(node)?.execute("SHOW CLUSTER")?.record_batches()?;
        let epochs = shown.iter().filter_map(|batch| batch.column_by_name("epoch"));
        Ok(epochs.map(|column| column.as_primitive::<UInt64Type>().value(0)).next().unwrap_or(0))
    }

    /// Returns the node that coordinates, as far as another one knows.
    pub fn coordinator(&self, node: usize) -> Option<usize> {
        let shown =
            self.connect(node).and_then(|node| node.execute("SHOW CLUSTER")?.record_batches()).ok()?;
        let columns = shown.iter().filter_map(|batch| batch.column_by_name("coordinator"));
        columns.flat_map(|column| column.as_boolean().iter()).position(|is| is == Some(true))
    }

    /// Returns what a node's log has.
    fn log(&self, node: usize) -> String {
        std::fs::read_to_string(self.directory.join(name(node)).join("log")).unwrap_or_default()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.count()).for_each(|node| self.kill(node));
    }
}

/// Copies a directory with all that is in it.
fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&path, &copy),
            false => drop(std::fs::copy(&path, &copy).unwrap()),
        }
    }
}

/// Returns the name of a node.
pub fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

/// Returns the rows of a query whose columns are whole numbers.
pub fn numbers(connection: &Connection, sql: &str) -> Result<Vec<Vec<i64>>> {
    let batches = connection.execute(sql)?.record_batches()?;
    Ok(batches.iter().flat_map(rows).collect())
}

fn rows(batch: &RecordBatch) -> Vec<Vec<i64>> {
    let columns = batch.columns().iter().map(|column| cast(column, &DataType::Int64).unwrap());
    let columns: Vec<_> = columns.collect();
    let value = |row| {
        let of_row = columns.iter().map(move |column| column.as_primitive::<Int64Type>());
        of_row.map(|values| if values.is_null(row) { 0 } else { values.value(row) }).collect()
    };
    (0..batch.num_rows()).map(value).collect()
}

/// Says whether an error leaves open what came of a statement: its node was lost meanwhile, or could
/// not tell.
pub fn is_open(error: &Error) -> bool {
    error.kind() == hypostyle::ErrorKind::Connection
}
