//! What the file says, and whether it can be.

use super::text::parse;
use hypostyle_types::{Error, NAME_BYTES_MAX, Result};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

/// The configuration of a node. Paths are as the file has them: relative ones are meant from the
/// directory of the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The name of this node.
    pub name: String,
    /// Where this node listens: `host:port`.
    pub listen: String,
    /// Where the other nodes find it, if that is another address.
    #[serde(default)]
    pub address: Option<String>,
    /// The certificates by which nodes know each other. Only on one machine are they not needed.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// The file with the password of the role `cluster`. Not needed where certificates say who
    /// somebody is.
    #[serde(default)]
    pub credentials: Option<PathBuf>,
    /// Whether nodes with certificates need the password as well. Not while they get their first one, or give
    /// it up, one after the other.
    #[serde(default = "yes")]
    pub password_needed: bool,
    /// Whether this node replaces the coordinator when a majority of the nodes has missed it.
    #[serde(default = "yes")]
    pub failover: bool,
    /// The seconds after which a node that stays away is lost, if this one coordinates: other nodes get its
    /// fragments. 0 for never.
    #[serde(default = "lost_after")]
    pub lost_after: u32,
    /// Other nodes that this one finds at these addresses, whatever the catalog says.
    #[serde(default)]
    pub peers: Vec<Peer>,
}

fn yes() -> bool {
    true
}

fn lost_after() -> u32 {
    600
}

/// The files of a node's certificates, in PEM.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate of this node, and those that lead to an authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities that the certificates of other nodes are from.
    pub authorities: PathBuf,
    /// Says that other nodes have to show certificates, too.
    #[serde(default)]
    pub mutual: bool,
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Its name.
    pub name: String,
    /// Where it listens: `host:port`.
    pub address: String,
}

impl Config {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// `InvalidInput` naming the line or the setting.
    ///
    /// ```
    /// use hypostyle_placement::config::Config;
    /// let config = Config::parse(
    ///     r#"
    ///     name = "n1"
    ///     listen = "127.0.0.1:4953"
    ///     credentials = "cluster.password"
    ///     [[peers]]
    ///     name = "n2"
    ///     address = "127.0.0.1:4954"
    ///     "#,
    /// )?;
    /// assert_eq!(config.peers[0].name, "n2");
    /// # Ok::<(), hypostyle_types::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let value = parse(text)?;
        let config: Self =
            serde_json::from_value(value).map_err(|error| Error::invalid_input(error.to_string()))?;
        config.check()?;
        Ok(config)
    }

    /// Returns where the other nodes find this one.
    pub fn advertised(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.listen)
    }

    fn check(&self) -> Result<()> {
        check_name("name", &self.name)?;
        check_address("listen", &self.listen)?;
        check_address("address", self.advertised())?;
        let (mut names, mut addresses) =
            (BTreeSet::from([self.name.as_str()]), BTreeSet::from([self.advertised()]));
        for peer in &self.peers {
            check_name("peers.name", &peer.name)?;
            check_address("peers.address", &peer.address)?;
            if !names.insert(&peer.name) || !addresses.insert(&peer.address) {
                return Err(Error::invalid_input(format!(
                    "peers: another node has the name \"{}\" or the address '{}'; this node itself is not listed",
                    peer.name, peer.address
                )));
            }
        }
        if let Some(host) = host_of(self.advertised()).filter(|host| is_any(host)) {
            return Err(Error::invalid_input(format!(
                "address: '{host}' means every interface of this machine; say by which name the other nodes find it"
            )));
        }
        self.check_secrets()
    }

    fn check_secrets(&self) -> Result<()> {
        let addresses = [&self.listen].into_iter().chain(self.peers.iter().map(|peer| &peer.address));
        let mut hosts = addresses.filter_map(|address| host_of(address));
        if let Some(host) = hosts.find(|host| self.tls.is_none() && !is_loopback(host)) {
            return Err(Error::invalid_input(format!(
                "tls: nodes on several machines need certificates ('{host}' is not this machine only)"
            )));
        }
        let is_mutual = self.tls.as_ref().is_some_and(|tls| tls.mutual);
        if !self.password_needed && !is_mutual {
            return Err(Error::invalid_input(
                "password_needed: without the password, nodes have to show certificates: set mutual = true in [tls]",
            ));
        }
        if self.credentials.is_none() && !is_mutual {
            return Err(Error::invalid_input(
                "credentials: name the file with the password of the role cluster, or set mutual = true in [tls]",
            ));
        }
        Ok(())
    }
}

fn check_name(setting: &str, name: &str) -> Result<()> {
    if !(1..=NAME_BYTES_MAX).contains(&name.len()) || name.chars().any(char::is_control) {
        return Err(Error::invalid_input(format!(
            "{setting}: a node's name has 1 to {NAME_BYTES_MAX} bytes"
        )));
    }
    Ok(())
}

/// Returns the host of an address, without the brackets of IPv6.
fn host_of(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    port.parse::<u16>().ok().filter(|&port| port > 0)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // An address of IPv6 without brackets has no port: its last part would be taken for one.
    let is_clear = !bare.is_empty() && (bare.len() < host.len() || !bare.contains(':'));
    is_clear.then_some(bare)
}

/// Checks that a setting is `host:port`, with a port that can be connected to.
///
/// # Errors
/// `InvalidInput` naming the setting.
pub fn check_address(setting: &str, address: &str) -> Result<()> {
    if host_of(address).is_none() {
        return Err(Error::invalid_input(format!(
            "{setting}: '{}' is not host:port, such as n1.example:4953 or [::1]:4953",
            address.chars().take(60).collect::<String>()
        )));
    }
    Ok(())
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_any(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        # A node of three.
        name = "n1"
        listen = "0.0.0.0:4953"
        address = 'n1.example:4953' # its name outside
        credentials = "secrets/\u0063luster"
        failover = false
        lost_after = 90

        [tls]
        certificate = "n1.pem"
        key = "n1.key"
        authorities = "ca.pem"
        mutual = true

        [[peers]]
        name = "n2"
        address = "n2.example:4953"
        [[peers]]
        name = "n3"
        address = "[fd00::3]:4953"
    "#;

    #[test]
    fn a_whole_file_is_read() {
        let config = Config::parse(WHOLE).unwrap();
        assert_eq!(config.advertised(), "n1.example:4953");
        assert_eq!(config.credentials, Some("secrets/cluster".into()));
        assert!(config.tls.unwrap().mutual && config.password_needed);
        let without = WHOLE.replacen("failover", "password_needed = false\n        failover", 1);
        assert!(!Config::parse(&without).unwrap().password_needed);
        assert_eq!((config.failover, config.lost_after), (false, 90));
        assert_eq!(config.peers.iter().map(|peer| &*peer.name).collect::<Vec<_>>(), ["n2", "n3"]);
    }

    #[test]
    fn errors_name_the_setting() {
        let changed = |from: &str, to: &str| {
            assert!(WHOLE.contains(from), "{from}");
            Config::parse(&WHOLE.replacen(from, to, 1)).unwrap_err().message().to_owned()
        };
        for (from, to, message) in [
            ("name = \"n1\"", "nam = \"n1\"", "unknown field `nam`"),
            ("name = \"n1\"", "", "missing field `name`"),
            ("name = \"n1\"", "name = 1", "invalid type: integer `1`, expected a string"),
            ("name = \"n1\"", "name = ''", "name: a node's name"),
            ("0.0.0.0:4953", "0.0.0.0", "listen: '0.0.0.0' is not host:port"),
            ("0.0.0.0:4953", "::1", "listen: '::1' is not host:port"),
            ("0.0.0.0:4953", "h:0", "listen: 'h:0' is not host:port"),
            ("n1.example:4953", "0.0.0.0:4953", "address: '0.0.0.0' means every interface"),
            ("\"n3\"", "\"n2\"", "another node has the name \"n2\""),
            ("\"n3\"", "\"n1\"", "another node has the name \"n1\""),
            ("key = \"n1.key\"", "", "missing field `key`"),
            ("mutual = true", "mutual = \"yes\"", "expected a boolean"),
            ("lost_after = 90", "lost_after = -1", "expected u32"),
        ] {
            let found = changed(from, to);
            assert!(found.contains(message), "{to}: {found}");
        }
    }

    #[test]
    fn what_leaves_the_machine_needs_certificates() {
        let local = "name = 'a'\nlisten = '127.0.0.1:1'\ncredentials = 'c'\n";
        let config = Config::parse(local).unwrap();
        assert_eq!((config.failover, config.lost_after), (true, 600));
        let message = |text: &str| Config::parse(text).unwrap_err().message().to_owned();
        assert!(message(&local.replace("127.0.0.1", "n1")).starts_with("tls: "));
        let peer = format!("{local}[[peers]]\nname = 'b'\naddress = 'n2:1'\n");
        assert!(message(&peer).starts_with("tls: "));
        assert!(message(&local.replace("credentials = 'c'\n", "")).starts_with("credentials: "));
        assert!(message(&format!("{local}password_needed = false\n")).starts_with("password_needed: "));
    }
}
