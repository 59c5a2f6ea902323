//! The server's certificate.

use hypostyle_types::{Error, Result};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// Reads a certificate chain and its key, both PEM.
///
/// # Errors
/// `NotFound`, `InvalidInput` naming the file.
pub fn server_config(certificates: &Path, key: &Path) -> Result<Arc<rustls::ServerConfig>> {
    let unreadable = |path: &Path, error: rustls_pki_types::pem::Error| match error {
        rustls_pki_types::pem::Error::Io(error) => {
            Error::from_io(&error, format_args!("cannot read \"{}\"", path.display()))
        }
        other => Error::invalid_input(format!("\"{}\" is not a PEM file: {other}", path.display())),
    };
    let chain = CertificateDer::pem_file_iter(certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unreadable(certificates, error))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, private))
        .map_err(|error| Error::invalid_input(format!("\"{}\": {error}", certificates.display())))?;
    Ok(Arc::new(config))
}
