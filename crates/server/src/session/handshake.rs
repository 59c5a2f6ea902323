//! From a new socket to a session: TLS, versions, who it is (protocol.md §1, §3).

use crate::resume::{Awaited, Resumable};
use crate::server::{Guest, Identity, LOGIN_TIME, REFUSAL_TIME, Server};
use crate::users::nonce;
use hypostyle_transport::{Channel, Frame, Hook, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::scram;
use hypostyle_wire::{Capabilities, FRAME_BYTES_MAX, FrameType, Hello, Note, Role, Welcome};
use std::sync::Arc;
use std::time::Instant;

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// Frames shorter than this are refused by nobody.
const FRAME_BYTES_MIN: u32 = 1 << 20;

/// Lets a client in; `None` when it goes on with a session that it has.
///
/// # Errors
/// Why not; the client has been told.
pub fn shake_hands(server: &Arc<Server>, socket: Socket) -> Result<Option<(Channel, Guest)>> {
    let deadline = Instant::now() + LOGIN_TIME;
    let mut hook = || {
        if Instant::now() > deadline || server.is_stopping() {
            let message = format!("nobody has logged in within {} s", LOGIN_TIME.as_secs());
            return Err(Error::new(ErrorKind::Connection, message));
        }
        Ok(())
    };
    let hook: Hook<'_> = &mut hook;
    let mut transport = Transport::new(socket);
    if transport.first_byte(hook)? == TLS_HANDSHAKE {
        let Some(tls) = server.tls() else {
            return Err(Error::protocol("a client began with TLS, which this server has no certificate for"));
        };
        let connection = rustls::ServerConnection::new(tls)
            .map_err(|error| Error::internal(format!("TLS cannot begin: {error}")))?;
        transport = transport.with_tls(connection);
        transport.shake_hands(hook)?;
    }
    let result = let_in(server, &mut transport, hook);
    if let Err(error) = &result {
        server.metrics.refused.inc();
        let refused = error.kind() == ErrorKind::Denied;
        if refused {
            std::thread::sleep(REFUSAL_TIME);
        }
        let transaction = wire::Transaction::None;
        let failure = wire::Failure { query: 0, error: error.clone(), fatal: true, transaction };
        let _gone = transport.send(&failure.frame(), hook);
    }
    match result? {
        Entry::New(guest, Some(awaited)) => {
            Ok(Some((Channel::resumable(transport, Box::new(awaited)), *guest)))
        }
        Entry::New(guest, None) => Ok(Some((Channel::new(transport), *guest))),
        Entry::Again { session, user, key, stream } => {
            server.resumable.give(session, &user, &key, (stream, transport))?;
            server.metrics.streams.inc_by(u64::from(stream != 0));
            Ok(None)
        }
    }
}

/// Who has come.
enum Entry {
    New(Box<Guest>, Option<Awaited>),
    /// To a session that there is: in the place of its connection, or as a further one with a number.
    Again {
        session: u64,
        user: String,
        key: Vec<u8>,
        stream: u32,
    },
}

fn let_in(server: &Arc<Server>, transport: &mut Transport, hook: Hook<'_>) -> Result<Entry> {
    let version = transport.receive_preface(hook)?.agree(wire::VERSION)?;
    if server.tls().is_some() && !transport.has_tls() && !transport.socket().is_unix() {
        return Err(Error::protocol("this server wants TLS; connect with tls=on"));
    }
    let hello = Hello::decode(&expect(transport, FrameType::Hello, hook)?.body)?;
    let (role, last) = authenticate(server, transport, &hello, hook)?;
    let mut welcome = Welcome {
        version,
        capabilities: Capabilities::default(),
        frame_bytes_max: FRAME_BYTES_MAX,
        server: format!("Hypostyle {}", env!("CARGO_PKG_VERSION")),
        session: hello.session,
        key: Vec::new(),
        role,
        last,
    };
    transport.set_body_bytes_max(FRAME_BYTES_MAX);
    if hello.session != 0 {
        welcome.capabilities = server.resumable.find(hello.session, &hello.user, &hello.key)?;
        welcome.key = hello.key;
        transport.send(&welcome.frame(), hook)?;
        return Ok(Entry::Again {
            session: hello.session,
            user: hello.user,
            key: welcome.key,
            stream: hello.stream,
        });
    }
    let is_direct = transport.socket().is_direct(&hello.origin);
    let identity = Identity { user: hello.user, role, client: hello.client, peer: transport.socket().peer() };
    let by_socket = match transport.socket().is_unix() {
        true => Capabilities::DESCRIPTORS,
        false if server.limits.resume_time.is_zero() => Capabilities::default(),
        false => Capabilities::RESUME,
    };
    let served = Capabilities::PROGRESS.with(Capabilities::RESOLVE).with(by_socket);
    let guest = server.open(
        identity,
        hello.capabilities.both(served),
        hello.codecs,
        hello.frame_bytes_max.max(FRAME_BYTES_MIN),
        is_direct,
    )?;
    welcome.capabilities = guest.capabilities;
    welcome.session = guest.session;
    welcome.key.clone_from(&guest.key);
    // Before the client knows of the session, and may connect to it again.
    let awaited = guest.capabilities.has(Capabilities::RESUME).then(|| Resumable::add(server, &guest));
    transport.send(&welcome.frame(), hook)?;
    Ok(Entry::New(Box::new(guest), awaited))
}

fn expect(transport: &mut Transport, wanted: FrameType, hook: Hook<'_>) -> Result<Frame> {
    let frame = transport.receive(hook)?;
    if frame.frame_type != wanted {
        return Err(Error::protocol(format!("a {:?} frame where {wanted:?} must be", frame.frame_type)));
    }
    Ok(frame)
}

/// The role of the user, and the mechanism's last message.
fn authenticate(
    server: &Arc<Server>,
    transport: &mut Transport,
    hello: &Hello,
    hook: Hook<'_>,
) -> Result<(Role, Vec<u8>)> {
    // A user that is not there is answered as one whose password is wrong, and as slowly.
    let Some((role, verifier)) = server.credentials(&hello.user) else {
        return Ok((Role::Admin, Vec::new()));
    };
    // Who may open the database's files may also ask for what is in them.
    if transport.socket().peer_user().is_some_and(|user| user == rustix::process::geteuid().as_raw())
        && hello.mechanism.is_empty()
    {
        return Ok((Role::Admin, Vec::new()));
    }
    if hello.mechanism != scram::MECHANISM {
        let message = match hello.mechanism.as_str() {
            "" => "this server wants a user and a password".to_string(),
            other => format!("this server knows no mechanism \"{other}\", but {}", scram::MECHANISM),
        };
        return Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"));
    }
    let exchange = scram::Server::new(&hello.user, verifier, &hello.initial, &nonce()?)?;
    transport.send(&Note(exchange.challenge().to_vec()).frame(FrameType::Challenge), hook)?;
    let response = Note::decode(&expect(transport, FrameType::Response, hook)?.body)?;
    let last = exchange.check(&response.0)?;
    match role {
        Some(role) => Ok((role, last)),
        None => Err(Error::new(ErrorKind::Denied, "there is no such user").with_sqlstate("28P01")),
    }
}
