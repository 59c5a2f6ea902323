//! The server's certificate, and those of its clients.

use crate::users::warn_if_others_may;
use hypostyle_auth::scram;
use hypostyle_types::{Error, Result};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// What a server speaks with clients that encrypt.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<rustls::ServerConfig>,
    /// What logins are bound to, where the certificate's signature has a hash.
    pub(crate) end_point: Option<Arc<[u8]>>,
}

impl Tls {
    /// Reads a certificate chain and its key, and the certificates of who signs those that clients
    /// then have to show; all PEM.
    ///
    /// # Errors
    /// `NotFound`, `InvalidInput` naming the file.
    pub fn read(certificates: &Path, key: &Path, client_authorities: Option<&Path>) -> Result<Self> {
        let chain = read_certificates(certificates)?;
        let end_point = chain.first().and_then(|own| scram::end_point(own)).map(Arc::from);
        warn_if_others_may(key, "the certificate's key");
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong =
            |error: rustls::Error| Error::invalid_input(format!("\"{}\": {error}", certificates.display()));
        let config = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(wrong)?;
        let config = match client_authorities {
            None => config.with_no_client_auth(),
            Some(path) => {
                let failed = |why: String| Error::invalid_input(format!("\"{}\": {why}", path.display()));
                let mut roots = RootCertStore::empty();
                for certificate in read_certificates(path)? {
                    roots.add(certificate).map_err(|error| failed(error.to_string()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                config.with_client_cert_verifier(
                    verifier
                        .build()
                        .map_err(|error| failed(format!("it cannot be used for clients: {error}")))?,
                )
            }
        };
        let config = config.with_single_cert(chain, private).map_err(wrong)?;
        Ok(Self { config: Arc::new(config), end_point })
    }
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
