//! The way from a new socket to a session: TLS, versions, who it is (protocol.md §1, §3).

use crate::arrivals::{Arrival, Peer};
use crate::resume::{Awaited, Resumable};
use crate::server::{
    FIRST_BYTE_TIME, Guest, Identity, LOGIN_TIME, Login, Method, NODES_USER, REFUSAL_TIME, Server, user_name,
};
use crate::users::nonce;
use hypostyle_auth::scram;
use hypostyle_transport::{Channel, Frame, Hook, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire as wire;
use hypostyle_wire::{Capabilities, FRAME_BYTES_MAX, FrameType, Hello, Note, Role, Welcome};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The first byte of a TLS connection.
const TLS_HANDSHAKE: u8 = 0x16;

/// The time between two looks whether a client that waits for its turn has to go.
const TURN_INTERVAL: Duration = Duration::from_millis(50);

/// Frames shorter than this are refused by nobody.
const FRAME_BYTES_MIN: u32 = 1 << 20;

/// Lets a client in; `None` when it goes on with a session that it has.
///
/// # Errors
/// Why not; the client has been told.
pub fn shake_hands(
    server: &Arc<Server>,
    socket: Socket,
    arrival: &Arrival,
) -> Result<Option<(Channel, Guest)>> {
    let begin = Instant::now();
    let within = |time: Duration| {
        if begin.elapsed() > time || server.is_stopping() {
            let message = format!("nobody has logged in within {} s", time.as_secs());
            return Err(Error::new(ErrorKind::Connection, message));
        }
        if arrival.is_given_up() {
            let message =
                "too many clients come at a time, of which this one has waited longest; try again later";
            return Err(Error::new(ErrorKind::Busy, message).with_sqlstate("53300"));
        }
        Ok(())
    };
    let mut transport = Transport::new(socket);
    let (mut end_point, mut is_node) = (None, None);
    let first = transport.first_byte(&mut || within(FIRST_BYTE_TIME))?;
    let mut hook = || within(LOGIN_TIME);
    let hook: Hook<'_> = &mut hook;
    if first == TLS_HANDSHAKE {
        let Some(tls) = server.tls() else {
            return Err(Error::protocol("a client began with TLS, which this server has no certificate for"));
        };
        end_point = tls.end_point.clone();
        let connection = rustls::ServerConnection::new(tls.config.clone())
            .map_err(|error| Error::internal(format!("TLS cannot begin: {error}")))?;
        transport = transport.with_tls(connection);
        transport.shake_hands(hook)?;
        is_node = tls.is_node(transport.peer_certificates());
    }
    let from = Origin { peer: arrival.peer, end_point, is_node };
    let result = let_in(server, &mut transport, &from, hook);
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

/// Where a client comes from.
struct Origin {
    peer: Peer,
    /// What its login can be bound to.
    end_point: Option<Arc<[u8]>>,
    /// Whether it has shown the certificate of a node, where nodes have to.
    is_node: Option<bool>,
}

/// Who has come.
enum Entry {
    New(Box<Guest>, Option<Awaited>),
    /// It goes to a session that there is: in the place of its connection, or as a further one with a
    /// number.
    Again {
        session: u64,
        user: String,
        key: Vec<u8>,
        stream: u32,
    },
}

fn let_in(server: &Arc<Server>, transport: &mut Transport, from: &Origin, hook: Hook<'_>) -> Result<Entry> {
    let version = transport.receive_preface(hook)?.agree(wire::VERSION)?;
    if server.tls().is_some() && !transport.has_tls() && !transport.socket().is_unix() {
        return Err(Error::protocol("this server wants TLS; connect with tls=on"));
    }
    let mut hello = Hello::decode(&expect(transport, FrameType::Hello, hook)?.body)?;
    hello.user = user_name(&hello.user)?;
    let place = transport.socket().peer();
    let login = Login { protocol: "hypostyle", user: &hello.user, peer: &place };
    let authenticated = authenticate(server, transport, &hello, from, hook)
        .and_then(|found| check_may_call(found.0, hello.capabilities).map(|()| found))
        .and_then(|found| check_is_node(found.0, &hello.user, from).map(|()| found));
    let (role, last) = match authenticated {
        Ok((role, last, method)) => {
            login.allowed(method, role);
            (role, last)
        }
        Err(error) => {
            login.refused(&error);
            return Err(error);
        }
    };
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
    let identity = Identity::new(hello.user, role, &hello.client, place);
    let mut guest = server.open(
        identity,
        hello.capabilities.both(served_capabilities(server, transport.socket(), role)),
        hello.codecs,
        hello.frame_bytes_max.max(FRAME_BYTES_MIN),
        is_direct,
        from.peer,
    )?;
    let own = rustix::process::geteuid().as_raw();
    guest.may_open_files = transport.socket().peer_user().is_some_and(|user| user == own || user == 0);
    welcome.capabilities = guest.capabilities;
    welcome.session = guest.session;
    welcome.key.clone_from(&guest.key);
    // Before the client knows of the session, and may connect to it again.
    let awaited = guest.capabilities.has(Capabilities::RESUME).then(|| Resumable::add(server, &guest));
    transport.send(&welcome.frame(), hook)?;
    Ok(Entry::New(Box::new(guest), awaited))
}

/// What this server can over a socket, for a user of a role.
fn served_capabilities(server: &Server, socket: &Socket, role: Role) -> Capabilities {
    let by_socket = match socket.is_unix() {
        true => Capabilities::DESCRIPTORS.with(Capabilities::PIECES),
        false if server.limits.resume_time.is_zero() => Capabilities::default(),
        false => Capabilities::RESUME,
    };
    let by_role = match role {
        Role::Cluster => Capabilities::CLUSTER,
        _ => Capabilities::RESOLVE,
    };
    Capabilities::PROGRESS.with(Capabilities::PLACES).with(by_socket).with(by_role)
}

/// # Errors
/// `Denied` for a client that can do nothing with its user's role.
fn check_may_call(role: Role, capabilities: Capabilities) -> Result<()> {
    if role != Role::Cluster || capabilities.has(Capabilities::CLUSTER) {
        return Ok(());
    }
    let message = "the user's role is cluster, for calls only, which this client does not know; \
                   connect as another user, or update the client";
    Err(Error::new(ErrorKind::Denied, message))
}

/// # Errors
/// `Denied` for a node that does not show the certificate that it has to.
fn check_is_node(role: Role, user: &str, from: &Origin) -> Result<()> {
    let is_meant = role == Role::Cluster || user == NODES_USER;
    if !is_meant || from.is_node != Some(false) {
        return Ok(());
    }
    let message = "nodes of this cluster have to show certificates (mutual in cluster.toml)";
    Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"))
}

fn expect(transport: &mut Transport, wanted: FrameType, hook: Hook<'_>) -> Result<Frame> {
    let frame = transport.receive(hook)?;
    if frame.frame_type != wanted {
        return Err(Error::protocol(format!("a {:?} frame where {wanted:?} must be", frame.frame_type)));
    }
    Ok(frame)
}

/// The role of the user, the mechanism's last message, and how the user has said who it is.
fn authenticate(
    server: &Arc<Server>,
    transport: &mut Transport,
    hello: &Hello,
    from: &Origin,
    hook: Hook<'_>,
) -> Result<(Role, Vec<u8>, Method)> {
    // The certificate says it, where nodes have no password.
    if hello.user == NODES_USER && from.is_node == Some(true) && !server.nodes_have_a_password() {
        return Ok((Role::Cluster, Vec::new(), Method::Certificate));
    }
    // A user that is not there is answered as one whose password is wrong, and as slowly.
    let Some((role, verifier)) = server.credentials(&hello.user) else {
        return Ok((Role::Admin, Vec::new(), Method::Trust));
    };
    // Who may open the database's files may also ask for what is in them.
    if transport.socket().peer_user().is_some_and(|user| user == rustix::process::geteuid().as_raw())
        && hello.mechanism.is_empty()
    {
        return Ok((Role::Admin, Vec::new(), Method::SameUser));
    }
    let end_point = from.end_point.as_deref();
    if !scram::offered(end_point).contains(&hello.mechanism.as_str()) {
        let message = match hello.mechanism.as_str() {
            "" => "this server wants a user and a password".to_string(),
            other => format!(
                "this server knows no mechanism \"{other}\" here, but {}",
                scram::offered(end_point).join(", ")
            ),
        };
        return Err(Error::new(ErrorKind::Denied, message).with_sqlstate("28000"));
    }
    let turn = Instant::now() + server.attempts.turn(&hello.user, from.peer)?;
    while let Some(left) = turn.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        hook()?;
        std::thread::sleep(left.min(TURN_INTERVAL));
    }
    let first = (hello.mechanism.as_str(), hello.initial.as_slice());
    let exchange = scram::Server::new(&hello.user, verifier, first, &nonce()?, end_point)?;
    let further = server.further_credentials(&hello.user, from.is_node == Some(true));
    let exchange = further.cloned().fold(exchange, scram::Server::or);
    transport.send(&Note(exchange.challenge().to_vec()).frame(FrameType::Challenge), hook)?;
    let response = Note::decode(&expect(transport, FrameType::Response, hook)?.body)?;
    let no_user = || Error::new(ErrorKind::Denied, "there is no such user").with_sqlstate("28P01");
    let proved =
        exchange.check(&response.0).and_then(|last| role.map(|role| (role, last)).ok_or_else(no_user));
    match proved {
        Ok((role, last)) => {
            server.attempts.succeeded(&hello.user, from.peer);
            Ok((role, last, Method::of_mechanism(&hello.mechanism)))
        }
        Err(error) => {
            server.attempts.failed(&hello.user, from.peer);
            Err(error)
        }
    }
}
