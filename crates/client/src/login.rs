//! Opens a connection from an address, up to the end of the login (protocol.md §1, §3).

use crate::address::{Address, Place, Tls};
use crate::options::Options;
use hypostyle_auth::scram::{self, ServerSignature};
use hypostyle_transport::{Hook, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Capabilities, FRAME_BYTES_MAX, Failure, FrameType, Hello, Note, Preface, Welcome};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The SQLSTATE when nobody listens at the address.
pub const REFUSED: &str = "08004";

const NONCE_BYTES: usize = 18;

/// The environment variable with the password for addresses that have none.
const PASSWORD_VARIABLE: &str = "HYPOSTYLE_PASSWORD";

/// An existing session: its number, its key, and the number of the connection in it. The number is
/// 0 for the first connection.
pub type Known<'a> = (u64, &'a [u8], u32);

/// Connects to a new session, or to an existing one.
///
/// # Errors
/// `Connection` when nobody answers or TLS fails; `Denied` when the login fails; `Version`, `Busy`;
/// `Closed` when the session to resume is over.
pub fn log_in(
    address: &Address,
    options: &Options,
    session: Option<Known<'_>>,
) -> Result<(Transport, Welcome)> {
    let (begin, limit) = (Instant::now(), options.connect_time);
    let mut hook = || match begin.elapsed() < limit {
        true => Ok(()),
        false => Err(unanswered(address, limit)),
    };
    let mut transport = Transport::new(open(address, begin, limit)?);
    if let Some(connection) = tls(address)? {
        transport = transport.with_tls(connection);
        transport.shake_hands(&mut hook).map_err(lost)?;
    }
    let welcome = introduce(address, options, session, &mut transport, &mut hook)
        .map_err(|error| if error.sqlstate() == "08006" { error.context(address) } else { error })?;
    transport.set_body_bytes_max(FRAME_BYTES_MAX);
    if welcome.capabilities.has(Capabilities::DESCRIPTORS) {
        transport.take_descriptors();
    }
    Ok((transport, welcome))
}

fn unanswered(address: &Address, limit: Duration) -> Error {
    let message = format!("{address} has not answered within {} s", limit.as_secs_f64());
    Error::new(ErrorKind::Connection, message).with_sqlstate("08001").unreachable()
}

fn open(address: &Address, begin: Instant, limit: Duration) -> Result<Socket> {
    let failed = |error: &std::io::Error| {
        let is_refused = error.kind() == std::io::ErrorKind::ConnectionRefused;
        Error::new(ErrorKind::Connection, format!("cannot connect to {address}: {error}"))
            .with_sqlstate(if is_refused { REFUSED } else { "08001" })
            .unreachable()
    };
    match &address.place {
        Place::Unix(path) => UnixStream::connect(path).map(Socket::Unix).map_err(|error| failed(&error)),
        Place::Tcp { host, port } => {
            let addresses = (host.as_str(), *port).to_socket_addrs().map_err(|error| failed(&error))?;
            let mut last = std::io::Error::other("no address of the host answers in time");
            for address in addresses {
                let left = limit.saturating_sub(begin.elapsed());
                if left.is_zero() {
                    break;
                }
                match TcpStream::connect_timeout(&address, left) {
                    Ok(stream) => return Socket::tcp(stream),
                    Err(error) => last = error,
                }
            }
            Err(failed(&last))
        }
    }
}

fn tls(address: &Address) -> Result<Option<rustls::ClientConnection>> {
    let Place::Tcp { host, .. } = &address.place else { return Ok(None) };
    let is_loopback =
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|host| host.is_loopback());
    // A user who names certificates wants them to be checked.
    let is_wanted = !is_loopback || address.tls_ca.is_some() || address.tls_cert.is_some();
    if address.tls == Tls::Off || (address.tls == Tls::Auto && !is_wanted) {
        return Ok(None);
    }
    let mut roots = rustls::RootCertStore::empty();
    match &address.tls_ca {
        Some(path) => {
            let unreadable = |why: String| {
                Error::invalid_input(format!("cannot read certificates from \"{}\": {why}", path.display()))
            };
            for certificate in
                CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?
            {
                let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unreadable("there is none in it".into()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let failed =
        |why: String| Error::new(ErrorKind::Connection, format!("TLS: {why}")).with_sqlstate("08001");
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots);
    let config = match (&address.tls_cert, &address.tls_key) {
        (Some(certificates), Some(key)) => {
            let (chain, key) = own_certificate(certificates, key)?;
            config.with_client_auth_cert(chain, key).map_err(|error| failed(error.to_string()))?
        }
        _ => config.with_no_client_auth(),
    };
    let name = ServerName::try_from(host.clone()).map_err(|error| failed(error.to_string()))?;
    let connection = rustls::ClientConnection::new(Arc::new(config), name);
    connection.map(Some).map_err(|error| failed(error.to_string()))
}

/// Reads the certificates that the client shows, and their key.
fn own_certificate(
    certificates: &Path,
    key: &Path,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let unreadable = |path: &Path, why: rustls_pki_types::pem::Error| {
        Error::invalid_input(format!("cannot read \"{}\" as PEM: {why}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificates).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unreadable(certificates, error))?;
    Ok((chain, PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?))
}

fn introduce(
    address: &Address,
    options: &Options,
    session: Option<Known<'_>>,
    transport: &mut Transport,
    hook: Hook<'_>,
) -> Result<Welcome> {
    let password = address.password.clone().or_else(|| std::env::var(PASSWORD_VARIABLE).ok());
    let wants_password = password.is_some() || !address.user.is_empty();
    let exchange = match wants_password {
        true => {
            let password = password.as_deref().unwrap_or_default();
            let binding = transport.peer_certificate().and_then(scram::end_point);
            Some(scram::Client::new(&address.user, password, &nonce()?, binding))
        }
        false => None,
    };
    let (session, key, stream) = session.unwrap_or_default();
    let hello = Hello {
        capabilities: capabilities(transport.socket(), address, options),
        codecs: wire::COMPRESSIONS,
        frame_bytes_max: FRAME_BYTES_MAX,
        user: address.user.clone(),
        client: options.client.clone(),
        mechanism: exchange.as_ref().map_or("", scram::Client::mechanism).into(),
        initial: exchange.as_ref().map(scram::Client::first).unwrap_or_default(),
        session,
        key: key.to_vec(),
        stream,
        origin: transport.socket().origin(),
    };
    let mut first = Preface { oldest: wire::VERSION, newest: wire::VERSION }.encode().to_vec();
    first.extend_from_slice(&hello.frame());
    transport.send(&first, hook).map_err(lost)?;
    let mut signature: Option<ServerSignature> = None;
    loop {
        let frame = transport.receive(hook).map_err(lost)?;
        match frame.frame_type {
            FrameType::Error => return Err(Failure::decode(&frame.body)?.error),
            FrameType::Challenge => {
                let exchange = exchange.as_ref().filter(|_| signature.is_none());
                let exchange =
                    exchange.ok_or_else(|| Error::protocol("a challenge that was not asked for"))?;
                let (proof, expected) = exchange.proof(&Note::decode(&frame.body)?.0)?;
                signature = Some(expected);
                transport.send(&Note(proof).frame(FrameType::Response), hook).map_err(lost)?;
            }
            FrameType::Welcome => {
                let welcome = Welcome::decode(&frame.body)?;
                if !hello.capabilities.has(welcome.capabilities) {
                    return Err(Error::protocol(
                        "the server takes for granted what this side has not offered",
                    ));
                }
                match &signature {
                    Some(signature) => signature.check(&welcome.last)?,
                    None if password.is_some() => return Err(unasked_password(address)),
                    // The server accepts everybody.
                    None => {}
                }
                return Ok(welcome);
            }
            other => return Err(Error::protocol(format!("a {other:?} frame before Welcome"))),
        }
    }
}

/// Marks an error of the connection itself: the server has broken no rule, but cannot be reached.
pub fn lost(error: Error) -> Error {
    match (error.kind(), error.sqlstate()) {
        (ErrorKind::Connection, "08006") => error.unreachable(),
        _ => error,
    }
}

/// Returns the error for a server that has not asked for the password, and so has not proved that
/// it knows it.
fn unasked_password(address: &Address) -> Error {
    let message = format!(
        "a password was given, and {address} has let everybody in: it has no users, or is not the server that it says it is; \
         leave the password and {PASSWORD_VARIABLE} away to connect nevertheless"
    );
    Error::new(ErrorKind::Denied, message).with_sqlstate("28000")
}

fn capabilities(socket: &Socket, address: &Address, options: &Options) -> Capabilities {
    let own = rustix::process::geteuid().as_raw();
    let peer = socket.peer_user();
    let mut asked = Capabilities::PROGRESS.with(Capabilities::PLACES).with(Capabilities::CLUSTER);
    // A server of our own user could read the program's memory as well. Other servers get only what
    // the user has allowed.
    if address.variables.unwrap_or(peer == Some(own)) {
        asked = asked.with(Capabilities::RESOLVE);
    }
    // Mappings of files that another user writes can end the process, so only our own user and root
    // are accepted.
    match peer {
        Some(user) if options.descriptors && (user == 0 || user == own) => {
            asked.with(Capabilities::DESCRIPTORS).with(Capabilities::PIECES)
        }
        // Who wants to know soon that the server is gone does not wait for its return.
        None if options.silence.is_none() => asked.with(Capabilities::RESUME),
        _ => asked,
    }
}

fn nonce() -> Result<String> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| Error::internal("the system gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
