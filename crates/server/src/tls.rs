//! The server's certificate, and those of its clients.

use crate::users::warn_if_others_may;
use hypostyle_auth::scram;
use hypostyle_types::{Error, Result};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::path::Path;
use std::sync::Arc;

/// What a server speaks with clients that encrypt.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<rustls::ServerConfig>,
    /// What it speaks where no other node comes: nobody is asked for a certificate that only nodes have to
    /// show.
    pub(crate) of_postgres: Arc<rustls::ServerConfig>,
    /// What logins are bound to, where the certificate's signature has a hash.
    pub(crate) end_point: Option<Arc<[u8]>>,
    /// Looks at the certificates of other nodes of a cluster, if they have to show some.
    nodes: Option<Arc<dyn ClientCertVerifier>>,
}

impl Tls {
    /// Reads a certificate chain and its key, and the certificates of who signs those that clients
    /// then have to show; all PEM.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` naming the file.
    pub fn read(certificates: &Path, key: &Path, client_authorities: Option<&Path>) -> Result<Self> {
        Self::of_node(certificates, key, client_authorities, None)
    }

    /// Reads as well who signs the certificates of other nodes of a cluster, which these have to show then.
    ///
    /// # Errors
    /// Those of [`Self::read`].
    pub fn of_node(
        certificates: &Path,
        key: &Path,
        client_authorities: Option<&Path>,
        node_authorities: Option<&Path>,
    ) -> Result<Self> {
        let chain = read_certificates(certificates)?;
        let end_point = chain.first().and_then(|own| scram::end_point(own)).map(Arc::from);
        warn_if_others_may(key, "the certificate's key");
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong =
            |error: rustls::Error| Error::invalid_input(format!("\"{}\": {error}", certificates.display()));
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let nodes = node_authorities.map(|path| verifier(&[path])).transpose()?;
        let clients = match client_authorities {
            None => None,
            Some(clients) => {
                let authorities: Vec<&Path> = [clients].into_iter().chain(node_authorities).collect();
                Some(verifier(&authorities)?)
            }
        };
        let any = |nodes: &Arc<dyn ClientCertVerifier>| -> Arc<dyn ClientCertVerifier> {
            Arc::new(AnyOrNone(nodes.clone()))
        };
        let asking = |verifier: Option<Arc<dyn ClientCertVerifier>>| {
            let config = match verifier {
                Some(verifier) => config.clone().with_client_cert_verifier(verifier),
                None => config.clone().with_no_client_auth(),
            };
            config.with_single_cert(chain.clone(), private.clone_key()).map(Arc::new).map_err(wrong)
        };
        let of_postgres = asking(clients.clone())?;
        let config = match (clients, nodes.as_ref().map(any)) {
            (None, Some(any)) => asking(Some(any))?,
            _ => of_postgres.clone(),
        };
        Ok(Self { config, of_postgres, end_point, nodes })
    }

    /// Says whether somebody has shown the certificate of a node, his own first of those that lead to an
    /// authority; `None` if nodes have to show none.
    pub(crate) fn is_node(&self, shown: Option<&[CertificateDer<'static>]>) -> Option<bool> {
        let nodes = self.nodes.as_ref()?;
        let (own, others) = match shown {
            Some([own, others @ ..]) => (own, others),
            _ => return Some(false),
        };
        Some(nodes.verify_client_cert(own, others, UnixTime::now()).is_ok())
    }
}

/// Lets clients show no certificate, or whichever one they have: programs show the one for other servers to
/// whoever asks, and only nodes are meant here. Who is one is looked at when it says so
/// ([`Tls::is_node`]). Whoever shows a certificate has its key in any case.
#[derive(Debug)]
struct AnyOrNone(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for AnyOrNone {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _own: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, own, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, own, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Returns what looks at certificates that some authorities sign, which have to be shown.
fn verifier(authorities: &[&Path]) -> Result<Arc<dyn ClientCertVerifier>> {
    let shown: Vec<String> = authorities.iter().map(|path| format!("\"{}\"", path.display())).collect();
    let failed = |why: String| Error::invalid_input(format!("{}: {why}", shown.join(", ")));
    let mut roots = RootCertStore::empty();
    for path in authorities {
        for certificate in read_certificates(path)? {
            roots.add(certificate).map_err(|error| failed(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
    verifier.map_err(|error| failed(format!("it cannot be used for clients: {error}")))
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: rustls_pki_types::pem::Error) -> Error {
    match error {
        rustls_pki_types::pem::Error::Io(error) => {
            Error::from_io(&error, format_args!("cannot read \"{}\"", path.display()))
        }
        other => Error::invalid_input(format!("\"{}\" is not a PEM file: {other}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::client::ResolvesClientCert;
    use rustls::sign::CertifiedKey;
    use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Notes whether a client is asked for a certificate, and shows none.
    #[derive(Debug, Default)]
    struct Asked(AtomicBool);

    impl ResolvesClientCert for Asked {
        fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            self.0.store(true, Ordering::Relaxed);
            None
        }

        fn has_certs(&self) -> bool {
            true
        }
    }

    /// Gives one side what the other one has to send.
    fn carry(from: &mut Connection, to: &mut Connection) {
        let mut sent = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut sent).unwrap();
        }
        let mut sent = sent.as_slice();
        while !sent.is_empty() {
            to.read_tls(&mut sent).unwrap();
            to.process_new_packets().unwrap();
        }
    }

    /// Says whether a client that trusts a certificate is asked for its own.
    fn is_asked(config: &Arc<ServerConfig>, trusted: &Path) -> bool {
        let asked = Arc::new(Asked::default());
        let mut roots = RootCertStore::empty();
        read_certificates(trusted).unwrap().into_iter().for_each(|root| roots.add(root).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let own = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_cert_resolver(asked.clone());
        let client = ClientConnection::new(Arc::new(own), "localhost".try_into().unwrap()).unwrap();
        let mut client = Connection::Client(client);
        let mut server = Connection::Server(ServerConnection::new(config.clone()).unwrap());
        while client.is_handshaking() || server.is_handshaking() {
            carry(&mut client, &mut server);
            carry(&mut server, &mut client);
        }
        asked.0.load(Ordering::Relaxed)
    }

    #[test]
    fn nobody_is_asked_for_a_certificate_of_nodes_where_none_come() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("own.pem"), directory.path().join("own.key"));
        let certified = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        std::fs::write(&certificate, certified.cert.pem()).unwrap();
        std::fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
        let alone = Tls::read(&certificate, &key, None).unwrap();
        assert!(!is_asked(&alone.config, &certificate) && !is_asked(&alone.of_postgres, &certificate));
        let of_node = Tls::of_node(&certificate, &key, None, Some(&certificate)).unwrap();
        assert!(is_asked(&of_node.config, &certificate) && !is_asked(&of_node.of_postgres, &certificate));
        // Clients that have to show one are asked wherever they come.
        let of_clients = Tls::of_node(&certificate, &key, Some(&certificate), Some(&certificate)).unwrap();
        assert!(Arc::ptr_eq(&of_clients.config, &of_clients.of_postgres));
    }
}
