//! The directory of a node.

use super::config;
use hypostyle::{Error, Result};
use std::fs::{File, OpenOptions, create_dir_all, rename};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The port of the first node, if nothing else is said; the others have those that follow.
const PORT: u16 = 4953;

/// The file with the password by which the nodes of a cluster know each other.
const PASSWORD: &str = "cluster.password";

/// The file with the configuration of a node, in its directory.
const CONFIG: &str = "cluster.toml";

/// The bytes of chance in the password.
const PASSWORD_BYTES: usize = 32;

/// A node of a cluster on this machine.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    /// Where it answers: `host:port`.
    pub address: String,
    directory: PathBuf,
}

impl Node {
    pub fn database(&self) -> PathBuf {
        self.directory.join("main.hypo")
    }

    pub fn config_file(&self) -> PathBuf {
        self.directory.join(CONFIG)
    }

    pub fn log_file(&self) -> PathBuf {
        self.directory.join("log")
    }

    pub fn pid_file(&self) -> PathBuf {
        self.directory.join("pid")
    }
}

/// Returns the nodes of a cluster, in their order.
///
/// # Errors
/// `InvalidInput` for a configuration that is none, `Io`.
pub fn all(cluster: &Path) -> Result<Vec<Node>> {
    (1..).map(|number| existing(cluster, number)).map_while(Result::transpose).collect()
}

/// Returns the first nodes of a cluster. Those that are missing are made; the others stay as they
/// are.
///
/// # Errors
/// `InvalidInput` for a port at which the first node does not listen or that leaves too few for the
/// others, and for a configuration that is none; `Io`.
pub fn prepare(cluster: &Path, count: u16, port: Option<u16>) -> Result<Vec<Node>> {
    let mut nodes = all(cluster)?;
    nodes.truncate(count.into());
    let first = first_port(&nodes, port)?;
    let Some(last) = first.checked_add(count.saturating_sub(1)) else {
        return Err(Error::invalid_input(format!("there are no ports for {count} nodes from {first} on")));
    };
    write_password(cluster)?;
    let addresses: Vec<SocketAddr> =
        (first..=last).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let names: Vec<String> = (1..=count).map(name_of).collect();
    for number in nodes.len()..names.len() {
        let peers = names.iter().zip(&addresses).enumerate().filter(|(other, _)| *other != number);
        let peers: String = peers
            .map(|(_, (name, address))| format!("\n[[peers]]\nname = \"{name}\"\naddress = \"{address}\"\n"))
            .collect();
        let (name, address) = (&names[number], addresses[number]);
        let text =
            format!("name = \"{name}\"\nlisten = \"{address}\"\ncredentials = \"../{PASSWORD}\"\n{peers}");
        let node = Node { name: name.clone(), address: address.to_string(), directory: cluster.join(name) };
        write_config(&node, &text)?;
        nodes.push(node);
    }
    Ok(nodes)
}

fn name_of(number: u16) -> String {
    format!("node{number}")
}

/// Returns a node that is there.
fn existing(cluster: &Path, number: u16) -> Result<Option<Node>> {
    let directory = cluster.join(name_of(number));
    let file = directory.join(CONFIG);
    if !file.exists() {
        return Ok(None);
    }
    let config = config::read(&file)?;
    let address = config.advertised().to_owned();
    Ok(Some(Node { name: config.name, address, directory }))
}

/// Returns the port of the first node.
fn first_port(nodes: &[Node], wanted: Option<u16>) -> Result<u16> {
    let Some(first) = nodes.first() else { return Ok(wanted.unwrap_or(PORT)) };
    let port = first.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    match (port, wanted) {
        (Some(port), Some(wanted)) if port != wanted => Err(Error::invalid_input(format!(
            "the cluster is there already, and its first node listens at port {port}: leave out --port, or take another --data"
        ))),
        (Some(port), _) => Ok(port),
        (None, _) => Err(Error::invalid_input(format!("\"{}\" has no port", first.address))),
    }
}

/// Writes the configuration of a node. It is there whole or not at all.
fn write_config(node: &Node, text: &str) -> Result<()> {
    let file = node.config_file();
    let partial = file.with_extension("partial");
    create_dir_all(&node.directory)
        .and_then(|()| std::fs::write(&partial, text))
        .and_then(|()| rename(&partial, &file))
        .map_err(|error| Error::from_io(&error, format!("cannot write \"{}\"", file.display())))
}

/// Writes a password that nobody knows, unless there is one. An empty file is none: a full disk has left it.
fn write_password(cluster: &Path) -> Result<()> {
    let path = cluster.join(PASSWORD);
    if path.metadata().is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    let mut chance = [0; PASSWORD_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut chance))
        .map_err(|error| Error::from_io(&error, "cannot read \"/dev/urandom\""))?;
    let password: String = chance.iter().map(|byte| format!("{byte:02x}")).collect();
    // It is there whole or not at all.
    let partial = path.with_extension("partial");
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial);
    file.and_then(|mut file| writeln!(file, "{password}"))
        .and_then(|()| rename(&partial, &path))
        .map_err(|error| Error::from_io(&error, format!("cannot write \"{}\"", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Returns an empty directory for one test.
    fn directory(test: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("hypostyle-node-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn nodes_that_are_there_stay_as_they_are() {
        let cluster = directory("stay");
        let addresses =
            |nodes: &[Node]| -> Vec<String> { nodes.iter().map(|node| node.address.clone()).collect() };
        let two = prepare(&cluster, 2, Some(7000)).unwrap();
        assert_eq!(addresses(&two), ["127.0.0.1:7000", "127.0.0.1:7001"]);
        let (config, password) = (std::fs::read(two[0].config_file()).unwrap(), cluster.join(PASSWORD));
        let secret = std::fs::read_to_string(&password).unwrap();
        let three = prepare(&cluster, 3, None).unwrap();
        assert_eq!(addresses(&three), ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]);
        assert_eq!(std::fs::read(two[0].config_file()).unwrap(), config);
        assert_eq!(std::fs::read_to_string(&password).unwrap(), secret);
        assert_eq!(secret.trim_end().len(), 2 * PASSWORD_BYTES);
        assert_eq!(std::fs::metadata(&password).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(addresses(&prepare(&cluster, 1, Some(7000)).unwrap()), ["127.0.0.1:7000"]);
        assert_eq!(addresses(&all(&cluster).unwrap()), addresses(&three));
        let read = config::read(&three[2].config_file()).unwrap();
        let peers: Vec<&str> = read.peers.iter().map(|peer| peer.name.as_str()).collect();
        assert_eq!((read.name.as_str(), peers), ("node3", vec!["node1", "node2"]));
        assert_eq!(std::fs::read_to_string(read.credentials.unwrap()).unwrap(), secret);
        std::fs::remove_dir_all(cluster).unwrap();
    }

    #[test]
    fn a_password_that_a_full_disk_has_cut_is_written_anew() {
        let cluster = directory("password");
        let password = cluster.join(PASSWORD);
        std::fs::write(&password, "").unwrap();
        prepare(&cluster, 1, Some(7300)).unwrap();
        let secret = std::fs::read_to_string(&password).unwrap();
        assert_eq!(secret.trim_end().len(), 2 * PASSWORD_BYTES);
        assert_eq!(std::fs::metadata(&password).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!password.with_extension("partial").exists());
        std::fs::remove_dir_all(cluster).unwrap();
    }

    #[test]
    fn ports_have_to_fit() {
        let cluster = directory("ports");
        let message = |count, port| prepare(&cluster, count, port).unwrap_err().message().to_owned();
        assert!(message(2, Some(u16::MAX)).contains("no ports for 2 nodes from 65535"));
        prepare(&cluster, 1, Some(7100)).unwrap();
        assert!(message(1, Some(7200)).contains("listens at port 7100"));
        std::fs::remove_dir_all(cluster).unwrap();
    }
}
