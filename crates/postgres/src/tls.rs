//! TLS as the parameters of an address ask for it.

use crate::address::{Roots, Tls, TlsMode};
use hypostyle_types::{Error, ErrorKind, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::path::Path;
use std::sync::Arc;

/// The name of the protocol inside TLS.
const PROTOCOL: &[u8] = b"postgresql";

/// How a server's certificate is checked.
#[derive(Debug)]
struct Verifier {
    checks_chain: bool,
    checks_name: bool,
    roots: RootCertStore,
    /// The trusted certificates themselves: a server may show one of them, which is then no
    /// authority's but its own.
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = match self.checks_chain || self.checks_name {
            true => ParsedCertificate::try_from(end_entity)?,
            false => return Ok(ServerCertVerified::assertion()),
        };
        if self.checks_chain && !self.trusted.iter().any(|trusted| trusted.as_ref() == end_entity.as_ref()) {
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &self.roots,
                intermediates,
                now,
                self.algorithms.all,
            )?;
        }
        if self.checks_name {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns the configuration for the servers of an address.
///
/// # Errors
/// `InvalidInput` for a file that has no certificates or no key.
pub fn config(tls: &Tls) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (mut roots, mut trusted) = (RootCertStore::empty(), Vec::new());
    let mut checks_chain = tls.mode >= TlsMode::VerifyCa;
    match &tls.roots {
        Roots::None => {}
        Roots::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        // As in libpq, a file of trusted certificates makes "require" check the chain.
        Roots::File(path) if tls.mode >= TlsMode::Require => {
            checks_chain = true;
            trusted = certificates(path, "sslrootcert")?;
            roots.add_parsable_certificates(trusted.iter().cloned());
        }
        Roots::File(_) => {}
    }
    let verifier = Verifier {
        checks_chain,
        checks_name: tls.mode == TlsMode::VerifyFull,
        roots,
        trusted,
        algorithms: provider.signature_verification_algorithms,
    };
    let versions: &[&rustls::SupportedProtocolVersion] = match tls.versions {
        (true, true) => &[&rustls::version::TLS12, &rustls::version::TLS13],
        (true, false) => &[&rustls::version::TLS12],
        (false, _) => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &tls.own {
        Some((path, key)) => {
            let chain = certificates(path, "sslcert")?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("sslkey", key, &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| failed(&error))?
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = tls.sends_name;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(config))
}

/// Returns the beginning of a connection inside TLS to a host.
pub fn connection(config: &Arc<ClientConfig>, host: &str) -> Result<ClientConnection> {
    let name = ServerName::try_from(host.to_string())
        .map_err(|_| Error::invalid_input(format!("host: \"{host}\" is no name that TLS can check")))?;
    ClientConnection::new(config.clone(), name).map_err(|error| failed(&error))
}

fn certificates(path: &Path, parameter: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(parameter, path, &error))?;
    match found.is_empty() {
        true => Err(unreadable(parameter, path, &"there is no certificate in it")),
        false => Ok(found),
    }
}

fn unreadable(parameter: &str, path: &Path, why: &dyn std::fmt::Display) -> Error {
    Error::invalid_input(format!("{parameter}: cannot read \"{}\" as PEM: {why}", path.display()))
}

/// Returns the error for a failure of TLS, with what a person can do about the common ones.
pub fn failed(error: &rustls::Error) -> Error {
    use rustls::CertificateError::*;
    let hint = match error {
        rustls::Error::InvalidCertificate(UnknownIssuer | BadSignature) => {
            "; name the certificate of the server's authority in sslrootcert"
        }
        rustls::Error::InvalidCertificate(NotValidForName | NotValidForNameContext { .. }) => {
            "; the certificate must name the host as a subject alternative name"
        }
        _ => "",
    };
    Error::new(ErrorKind::Connection, format!("TLS: {error}{hint}")).with_sqlstate("08001")
}
