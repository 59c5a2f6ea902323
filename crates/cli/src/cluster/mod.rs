//! `hypostyle cluster` runs the nodes of a cluster on this machine, for development.
//!
//! The cluster's directory has a directory for each node, with its database, its configuration, its
//! log and the number of its process. The nodes run on their own: whatever this command does begins
//! with a look at what runs.

pub mod config;
mod directory;
mod join;
mod node;
mod process;
mod start;

pub use join::join;

use crate::options::ClusterCommand;
use directory::Directory;
use hypostyle::Result;
use node::Node;
use process::Process;
use std::path::Path;

/// Runs a command.
///
/// # Errors
/// `NotFound` where there is no cluster, `Busy` where another command is at work on it,
/// `Connection` for a node that does not come up, and `Io`.
pub fn run(command: &ClusterCommand) -> Result<()> {
    match command {
        ClusterCommand::Up { nodes, port, place } => up(*nodes, *port, &place.data),
        ClusterCommand::Down { place } => down(&place.data),
        ClusterCommand::Status { place } => status(&place.data),
    }
}

fn up(count: u16, port: Option<u16>, data: &Path) -> Result<()> {
    let directory = Directory::make(data)?;
    let nodes = node::prepare(directory.path(), count, port)?;
    let processes = start::start(&nodes)?;
    join::unite(&nodes)?;
    print_header();
    for (node, process) in nodes.iter().zip(processes) {
        print(node, Some(process), "running");
    }
    if let Some(first) = nodes.first() {
        println!("\nConnect: hypostyle hypostyle://{}/", first.address);
        println!("End:     hypostyle cluster down --data {}", data.display());
    }
    Ok(())
}

fn status(data: &Path) -> Result<()> {
    let directory = Directory::open(data)?;
    print_header();
    for node in node::all(directory.path())? {
        let process = Process::of_file(&node.pid_file())?;
        let state = match process {
            None => "stopped",
            Some(_) if start::answers(&node) => "running",
            Some(_) => "does not answer",
        };
        print(&node, process, state);
    }
    Ok(())
}

fn down(data: &Path) -> Result<()> {
    let directory = Directory::open(data)?;
    let nodes = node::all(directory.path())?;
    let mut running = Vec::new();
    for node in &nodes {
        running.extend(Process::of_file(&node.pid_file())?);
    }
    let killed = process::end_all(&running)?;
    for node in &nodes {
        process::forget(&node.pid_file())?;
    }
    println!("{} of {} nodes ran and have ended", running.len(), nodes.len());
    if killed > 0 {
        eprintln!("{killed} of them had to be killed: their logs in \"{}\" may say why", data.display());
    }
    Ok(())
}

fn print_header() {
    println!("{:<10} {:<24} {:>8}  state", "node", "address", "pid");
}

fn print(node: &Node, process: Option<Process>, state: &str) {
    let pid = process.map_or_else(|| "-".into(), |process| process.pid().to_string());
    println!("{:<10} {:<24} {pid:>8}  {state}", node.name, node.address);
}
