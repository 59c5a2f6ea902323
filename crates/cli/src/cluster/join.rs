//! Makes a served database a node of a cluster, and nodes one cluster.

use super::node::Node;
use hypostyle::cluster::repair::{Care, look_after};
use hypostyle::{Connection, Database, Error, OpenOptions, Result};
use hypostyle_node::{Certificates, RemotePeers};
use hypostyle_placement::config::Config;
use hypostyle_server::{NODES_USER, Server};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long the process that was the node before may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// Makes the database of a server a node, by its configuration.
///
/// # Errors
/// `NotFound` or `Io` for a file that the configuration names; `Conflict` if the node runs elsewhere already;
/// those of the database.
pub fn join(server: &Arc<Server>, database: &Database, config: &Config) -> Result<()> {
    let passwords = config.credentials.as_deref().map(passwords).transpose()?.unwrap_or_default();
    if !passwords.is_empty() {
        server.admit_nodes(passwords.iter().map(String::as_str), !config.password_needed)?;
    }
    let password = passwords.into_iter().next();
    let certificates = config.tls.as_ref().map(|tls| Certificates {
        certificate: tls.certificate.clone(),
        key: tls.key.clone(),
        authorities: tls.authorities.clone(),
    });
    let places = config.peers.iter().map(|peer| (peer.name.clone(), peer.address.clone()));
    let peers = RemotePeers::new(NODES_USER, password, certificates).found_at(places);
    let peers = peers.by_certificate(!config.password_needed);
    let node = database.join_cluster(&config.name, config.advertised(), Arc::new(peers))?;
    node.begin_alone(ENDING)?;
    node.set_clients(server.clients_max());
    node.set_door(server.door());
    for name in node.strangers()? {
        tracing::warn!(
            %name,
            "the schema hypostyle_cluster has something that the node has not made; copy its rows elsewhere and drop it"
        );
    }
    let lost_after = Duration::from_secs(config.lost_after.into());
    let lost_after = (!lost_after.is_zero()).then_some(lost_after);
    look_after(&node, Care { failover: config.failover, lost_after })
}

/// Reads the passwords of the nodes: the one by which this node calls others, and those by which these may
/// call it as well.
fn passwords(path: &Path) -> Result<Vec<String>> {
    let failed = |error: std::io::Error| {
        Error::from_io(&error, format_args!("cannot read the nodes' password \"{}\"", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let passwords: Vec<String> = text.lines().filter(|line| !line.is_empty()).map(String::from).collect();
    match passwords.is_empty() {
        true => Err(Error::invalid_input(format!("the nodes' password \"{}\" is empty", path.display()))),
        false => Ok(passwords),
    }
}

/// Makes the nodes of this machine one cluster: the first begins it, and adds those that it lacks.
///
/// # Errors
/// Those of the nodes.
pub fn unite(nodes: &[Node]) -> Result<()> {
    let Some((first, others)) = nodes.split_first() else { return Ok(()) };
    let address = format!("hypostyle://{}/", first.address);
    let connection = Connection::open(Some(Path::new(&address)), OpenOptions::default())?;
    let known = match connection.execute("SHOW CLUSTER") {
        Ok(shown) => names(&shown.record_batches()?),
        Err(_) => {
            connection.execute(&format!("ALTER CLUSTER PROMOTE {}", first.name))?;
            vec![first.name.clone()]
        }
    };
    for node in others.iter().filter(|node| !known.contains(&node.name)) {
        connection.execute(&format!("ALTER CLUSTER ADD NODE {} ADDRESS '{}'", node.name, node.address))?;
    }
    Ok(())
}

/// Returns the names of the nodes, the first column of SHOW CLUSTER.
fn names(shown: &[hypostyle::arrow::array::RecordBatch]) -> Vec<String> {
    use hypostyle::arrow::array::AsArray;
    use hypostyle::arrow::compute::cast;
    use hypostyle::arrow::datatypes::DataType;
    let texts = shown.iter().filter_map(|batch| cast(batch.column(0), &DataType::Utf8).ok());
    texts
        .flat_map(|names| names.as_string::<i32>().iter().flatten().map(String::from).collect::<Vec<_>>())
        .collect()
}
