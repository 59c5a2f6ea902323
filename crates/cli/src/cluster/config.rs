//! Reads `cluster.toml`, the configuration of a node (docs/cluster.md).

use hypostyle::{Error, Result};
use hypostyle_placement::config::Config;
use std::path::Path;

/// Reads and checks the configuration of a node. Its paths are as seen from here, not from the
/// directory of the file.
///
/// # Errors
/// `NotFound`, `Io`, and `InvalidInput` naming the line or the setting.
pub fn read(path: &Path) -> Result<Config> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::from_io(&error, format!("cannot read \"{shown}\"")))?;
    let mut config = Config::parse(&text).map_err(|error| error.context(format!("\"{shown}\"")))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let files =
        config.tls.iter_mut().flat_map(|tls| [&mut tls.certificate, &mut tls.key, &mut tls.authorities]);
    for file in files.chain(config.credentials.as_mut()) {
        *file = directory.join(&*file);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the configuration of a node of `deploy/cluster/compose.yaml`.
    fn deployed(node: &str) -> Config {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/cluster");
        read(&directory.join(format!("{node}.toml"))).unwrap()
    }

    #[test]
    fn the_deployed_nodes_know_each_other() {
        let nodes = ["node1", "node2", "node3"];
        for node in nodes {
            let config = deployed(node);
            assert_eq!((config.name.as_str(), config.advertised()), (node, format!("{node}:4953").as_str()));
            let peers = config.peers.iter().map(|peer| (peer.name.as_str(), peer.address.as_str()));
            let others = nodes.into_iter().filter(|other| *other != node).map(deployed);
            let others: Vec<_> =
                others.map(|other| (other.name.clone(), other.advertised().to_owned())).collect();
            assert!(
                peers.eq(others.iter().map(|(name, address)| (name.as_str(), address.as_str()))),
                "{node}"
            );
        }
    }

    #[test]
    fn paths_are_from_the_directory_of_the_file() {
        let tls = deployed("node1").tls.unwrap();
        for (path, end) in [
            (tls.certificate, "deploy/cluster/certificates/node.pem"),
            (tls.key, "deploy/cluster/certificates/node.key"),
            (tls.authorities, "deploy/cluster/certificates/ca.pem"),
        ] {
            assert!(path.is_absolute() && path.ends_with(end), "{}", path.display());
        }
    }
}
