//! Opens a session with one of the servers of an address.

use crate::address::{Address, ChannelBinding, Host, Method, Place, Target, TlsMode};
use crate::cancel::Canceler;
use crate::failure::Notice;
use crate::link::{Found, Link, NOTICES_MAX, PARAMETERS_MAX, Told, parameter, transaction};
use crate::md5;
use crate::message::{Cursor, Writer, check_text};
use crate::stream::{Message, Peer, Stream, peers, unreached};
use crate::tls;
use crate::{Options, random};
use hypostyle_auth::scram::{self, ServerSignature};
use hypostyle_client::Transaction;
use hypostyle_types::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest message before the end of the login.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

const NONCE_BYTES: usize = 18;

/// How a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Plain,
    /// Inside TLS if the server has it.
    Offered,
    Tls,
}

/// Opens a session with the first server that is as the address wants it.
///
/// # Errors
/// `Connection` when no server answers; `Denied` when the login fails.
pub fn open(address: &Address, options: &Options, told: &Arc<Told>) -> Result<Link> {
    let config = match address.tls.mode {
        TlsMode::Disable => None,
        _ => Some(tls::config(&address.tls)?),
    };
    let mut hosts: Vec<&Host> = address.hosts.iter().collect();
    if address.load_balance {
        shuffle(&mut hosts)?;
    }
    let rounds = match address.target {
        Target::PreferStandby => vec![Target::Standby, Target::Any],
        other => vec![other],
    };
    let mut failures: Vec<Error> = Vec::new();
    for target in rounds {
        failures.clear();
        for host in &hosts {
            match open_host(address, options, host, config.as_ref(), told, target) {
                Ok(link) => return Ok(link),
                // A server that was reached and lets nobody in is the answer, as in libpq.
                Err(error) if error.kind() == ErrorKind::Denied => return Err(error),
                Err(error) => failures.push(error),
            }
        }
    }
    match failures.len() {
        0 | 1 => Err(failures.pop().unwrap_or_else(|| Error::internal("an address without a host"))),
        _ => {
            let last = failures.last().cloned().unwrap_or_else(Error::interrupted);
            let all: Vec<&str> = failures.iter().map(Error::message).collect();
            Err(Error::new(last.kind(), all.join("\n")).with_sqlstate(last.sqlstate()))
        }
    }
}

fn shuffle(hosts: &mut [&Host]) -> Result<()> {
    for left in (1..hosts.len()).rev() {
        let number = u64::from_le_bytes(random()?);
        let other = usize::try_from(number % (left as u64 + 1)).unwrap_or_default();
        hosts.swap(left, other);
    }
    Ok(())
}

/// Opens a session with one host, at any of its addresses and in any of the ways that the mode of TLS
/// allows.
fn open_host(
    address: &Address,
    options: &Options,
    host: &Host,
    config: Option<&Arc<ClientConfig>>,
    told: &Arc<Told>,
    target: Target,
) -> Result<Link> {
    let limit = address.connect_timeout.unwrap_or(options.connect_time);
    let attempts: &[Attempt] = match (&host.place, address.tls.mode) {
        // What crosses no network needs no TLS.
        (Place::Unix { .. }, _) | (_, TlsMode::Disable) => &[Attempt::Plain],
        (_, TlsMode::Allow) => &[Attempt::Plain, Attempt::Tls],
        (_, TlsMode::Prefer) => &[Attempt::Offered, Attempt::Plain],
        _ => &[Attempt::Tls],
    };
    let mut last = None;
    for peer in peers(&host.place)? {
        for attempt in attempts {
            let login = Login { address, options, host, config, peer: &peer, begin: Instant::now(), limit };
            match login.run(*attempt) {
                Ok(found) => {
                    let mut link = Link::new(found, told.clone());
                    check_target(&mut link, target, &host.place)?;
                    return Ok(link);
                }
                Err((error, may_try_otherwise)) => {
                    let error = match error.sqlstate() {
                        "08006" | "08001" if !error.message().contains(&host.place.to_string()) => {
                            error.context(&host.place)
                        }
                        _ => error,
                    };
                    // The first error says more than that of a second way.
                    last.get_or_insert(error);
                    if !may_try_otherwise {
                        break;
                    }
                }
            }
        }
        if last.as_ref().is_some_and(|error: &Error| error.kind() == ErrorKind::Denied) {
            break;
        }
    }
    Err(last.unwrap_or_else(|| unreached(&host.place, &"the name has no address")))
}

/// Checks whether the server is as the address wants it.
fn check_target(link: &mut Link, target: Target, place: &Place) -> Result<()> {
    let is_on = |link: &mut Link, parameter: &str, sql: &str| -> Result<bool> {
        if let Some(value) = link.parameters.get(parameter) {
            return Ok(value == "on");
        }
        let rows = link.select(sql)?;
        let value = rows.first().and_then(|row| row.first().cloned().flatten());
        Ok(value.is_some_and(|value| value == "on" || value == "t"))
    };
    let (wanted, refused) = match target {
        Target::Any | Target::PreferStandby => return Ok(()),
        Target::Primary => ("a primary", true),
        Target::Standby => ("a standby", false),
        Target::ReadWrite => ("read-write", true),
        Target::ReadOnly => ("read-only", false),
    };
    let mut is_so = is_on(link, "in_hot_standby", "SELECT pg_catalog.pg_is_in_recovery()")?;
    if matches!(target, Target::ReadWrite | Target::ReadOnly) && !is_so {
        is_so = is_on(link, "default_transaction_read_only", "SHOW default_transaction_read_only")?;
    }
    if is_so == refused {
        link.close();
        let message = format!("{place} is not {wanted}, as target_session_attrs asks");
        return Err(Error::new(ErrorKind::Connection, message).with_sqlstate("08004"));
    }
    Ok(())
}

/// One attempt at a login.
struct Login<'a> {
    address: &'a Address,
    options: &'a Options,
    host: &'a Host,
    config: Option<&'a Arc<ClientConfig>>,
    peer: &'a Peer,
    begin: Instant,
    limit: Duration,
}

/// How far the proof of the user has come.
#[derive(Default)]
struct Proof {
    exchange: Option<scram::Client>,
    signature: Option<ServerSignature>,
    /// The method that the server has asked for.
    method: Option<Method>,
    /// Says that the login is bound to the server's certificate.
    is_bound: bool,
    /// Says that the server has proved that it knows the password.
    is_server_checked: bool,
}

impl Login<'_> {
    fn poll(&self) -> Result<()> {
        match self.begin.elapsed() < self.limit {
            true => Ok(()),
            false => {
                let message =
                    format!("{} has not answered within {} s", self.host.place, self.limit.as_secs_f64());
                Err(Error::new(ErrorKind::Connection, message).with_sqlstate("08001").unreachable())
            }
        }
    }

    /// Runs the attempt. An error says whether another attempt may do better.
    fn run(&self, attempt: Attempt) -> Result<Found, (Error, bool)> {
        let stream = Stream::connect(self.peer, &self.address.keep_alive, self.limit)
            .map_err(|error| (unreached(&self.host.place, &error), false))?;
        let stream = self.secure(stream, attempt).map_err(|error| (error, true))?;
        self.check_peer(&stream).map_err(|error| (error, false))?;
        // A server may let a user in by one way only.
        let has_tls = stream.has_tls();
        self.introduce(stream).map_err(|error| {
            let is_refused = error.sqlstate() == "28000";
            (error, is_refused && (has_tls == (attempt == Attempt::Offered)))
        })
    }

    /// Begins TLS, if the attempt has it.
    fn secure(&self, mut stream: Stream, attempt: Attempt) -> Result<Stream> {
        let mut poll = || self.poll();
        let Some(config) = self.config.filter(|_| attempt != Attempt::Plain) else { return Ok(stream) };
        if !self.address.tls.is_direct {
            let mut writer = Writer::default();
            writer.tls_request();
            stream.send(writer.bytes(), &mut poll)?;
            match stream.read_byte(&mut poll)? {
                b'S' => {}
                b'N' if attempt == Attempt::Offered => return Ok(stream),
                b'N' => {
                    let message = "the server has no TLS, which sslmode asks for";
                    return Err(Error::new(ErrorKind::Connection, message).with_sqlstate("08001"));
                }
                _ => return Err(Error::protocol("the server answers neither yes nor no to TLS")),
            }
        }
        stream.start_tls(tls::connection(config, self.name())?, &mut poll)?;
        Ok(stream)
    }

    fn name(&self) -> &str {
        match &self.host.place {
            Place::Tcp { host, .. } => host,
            Place::Unix { directory, .. } => directory,
        }
    }

    /// Checks the user that a server on a Unix socket runs as.
    fn check_peer(&self, stream: &Stream) -> Result<()> {
        let Some(wanted) = self.address.require_peer.as_deref().filter(|_| stream.is_unix()) else {
            return Ok(());
        };
        let text = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let user = stream.peer_user().map(|user| user.to_string());
        let is_so = text
            .lines()
            .map(|line| line.split(':').collect::<Vec<_>>())
            .any(|fields| fields.first() == Some(&wanted) && fields.get(2).map(ToString::to_string) == user);
        match is_so {
            true => Ok(()),
            false => Err(denied(format!("requirepeer: the server does not run as the user \"{wanted}\""))),
        }
    }

    /// Sends the first message, and goes on to the end of the login.
    fn introduce(&self, mut stream: Stream) -> Result<Found> {
        let address = self.address;
        let program = address.application_name.as_deref().unwrap_or(&self.options.application_name);
        let mut settings = vec![
            ("user", address.user.as_str()),
            ("database", address.database.as_str()),
            ("client_encoding", "UTF8"),
        ];
        if !program.is_empty() {
            settings.push(("application_name", program));
        }
        settings.extend(address.settings.iter().map(|(name, value)| (*name, value.as_str())));
        for (name, value) in &settings {
            check_text(value, name)?;
        }
        let mut writer = Writer::default();
        writer.startup(&settings);
        stream.send(writer.bytes(), &mut || self.poll())?;
        let mut proof = Proof::default();
        let (mut parameters, mut notices) = (BTreeMap::new(), VecDeque::new());
        let (mut process, mut key) = (0, Vec::new());
        let mut is_in = false;
        loop {
            let message = self.receive(&mut stream)?;
            let body = stream.body(message);
            match message.kind {
                b'R' if !is_in => is_in = self.prove(&mut stream, message, &mut proof)?,
                b'E' => return Err(Notice::decode(body)?.error()),
                b'N' => {
                    notices.push_back(Notice::decode(body)?);
                    notices.truncate(NOTICES_MAX);
                }
                // The server lacks options of the protocol, of which none were asked for.
                b'v' => {}
                b'S' if is_in && parameters.len() < PARAMETERS_MAX => parameters.extend([parameter(body)?]),
                b'K' if is_in => {
                    let mut cursor = Cursor(body);
                    (process, key) = (cursor.u32()?, cursor.0.to_vec());
                }
                b'Z' if is_in => {
                    let transaction: Transaction = transaction(body)?;
                    let canceler = self.canceler(&stream, process, key);
                    return Ok(Found { stream, process, parameters, notices, transaction, canceler });
                }
                other => {
                    let kind = char::from(other);
                    return Err(Error::protocol(format!("a message {kind:?} during the login")));
                }
            }
        }
    }

    fn canceler(&self, stream: &Stream, process: u32, key: Vec<u8>) -> Canceler {
        let config = self.config.filter(|_| stream.has_tls());
        let tls = config.map(|config| (config.clone(), self.name().to_string(), self.address.tls.is_direct));
        Canceler { peer: self.peer.clone(), tls, process, key }
    }

    fn receive(&self, stream: &mut Stream) -> Result<Message> {
        loop {
            // A server that never stops does not wait, either.
            self.poll()?;
            if let Some(message) = stream.take(MESSAGE_BYTES_MAX)? {
                return Ok(message);
            }
            if !stream.fill()? {
                stream.wait_to_read()?;
            }
        }
    }

    /// Answers to a message of the authentication. Returns whether the user is let in.
    fn prove(&self, stream: &mut Stream, message: Message, proof: &mut Proof) -> Result<bool> {
        let mut cursor = Cursor(stream.body(message));
        let step = cursor.u32()?;
        let body = cursor.0.to_vec();
        let mut writer = Writer::default();
        match step {
            0 => return self.check_end(proof).map(|()| true),
            3 => {
                self.check_method(proof, Method::Password)?;
                self.check_clear(stream)?;
                writer.password(&[self.password()?.as_bytes(), &[0]].concat());
            }
            5 => {
                self.check_method(proof, Method::Md5)?;
                let salt = Cursor(&body).array()?;
                writer.password(&md5::answer(&self.address.user, self.password()?, salt));
            }
            10 => {
                self.check_method(proof, Method::Scram)?;
                let exchange = self.exchange(stream, &body, proof)?;
                writer.sasl_initial(exchange.mechanism(), &exchange.first());
                proof.exchange = Some(exchange);
            }
            11 => {
                let exchange = proof.exchange.as_ref().filter(|_| proof.signature.is_none());
                let exchange = exchange.ok_or_else(|| Error::protocol("a step of SCRAM out of turn"))?;
                let (answer, signature) = exchange.proof(&body)?;
                proof.signature = Some(signature);
                writer.password(&answer);
            }
            12 => {
                let signature = proof.signature.as_ref();
                signature.ok_or_else(|| Error::protocol("a step of SCRAM out of turn"))?.check(&body)?;
                proof.is_server_checked = true;
                return Ok(false);
            }
            other => {
                let name = match other {
                    2 | 6 => "Kerberos",
                    7 | 8 => "GSSAPI",
                    9 => "SSPI",
                    _ => "of a kind that is not known",
                };
                return Err(Error::unsupported(format!(
                    "the server asks for an authentication that this client lacks ({name})"
                ))
                .with_sqlstate("28000"));
            }
        }
        stream.send(writer.bytes(), &mut || self.poll())?;
        Ok(false)
    }

    fn password(&self) -> Result<&str> {
        let password = self.address.password(self.host).filter(|password| !password.is_empty());
        let password = password.ok_or_else(|| {
            denied(
                "the server asks for a password, and none is given: name it in the address, PGPASSWORD or \
                 .pgpass",
            )
        })?;
        check_text(password, "the password")?;
        Ok(password)
    }

    /// Refuses to send a password that others could read on its way.
    fn check_clear(&self, stream: &Stream) -> Result<()> {
        let is_asked = self.address.require_auth.as_ref().is_some_and(|named| named.name(Method::Password));
        match stream.has_tls() || stream.is_unix() || is_asked {
            true => Ok(()),
            false => Err(denied(
                "the server asks for the password in clear text on a connection without TLS: use \
                 sslmode=require, or allow \
                 it with require_auth=password",
            )),
        }
    }

    /// Notes the method that the server asks for, and refuses one that the address does not allow.
    fn check_method(&self, proof: &mut Proof, method: Method) -> Result<()> {
        if proof.method.replace(method).is_some() {
            return Err(Error::protocol("the server asks for a second proof"));
        }
        let is_allowed = self.address.require_auth.as_ref().is_none_or(|allowed| allowed.allow(method));
        match is_allowed {
            true => Ok(()),
            false => Err(denied("require_auth does not allow the authentication that the server asks for")),
        }
    }

    /// Begins SCRAM with the best of the mechanisms that the server offers.
    fn exchange(&self, stream: &Stream, offered: &[u8], proof: &mut Proof) -> Result<scram::Client> {
        let mut cursor = Cursor(offered);
        let mut names = Vec::new();
        loop {
            match cursor.text()? {
                "" => break,
                name => names.push(name),
            }
        }
        let binds =
            self.address.channel_binding != ChannelBinding::Disable && names.contains(&scram::MECHANISM_PLUS);
        let end_point = stream.certificate().and_then(scram::end_point);
        let could_bind = self.address.channel_binding != ChannelBinding::Disable && end_point.is_some();
        let binding = end_point.filter(|_| binds);
        if binding.is_none() && !names.contains(&scram::MECHANISM) {
            return Err(Error::unsupported(format!(
                "the server offers no authentication that this client has ({})",
                names.join(", ")
            )));
        }
        proof.is_bound = binding.is_some();
        let nonce: String = random::<NONCE_BYTES>()?.iter().map(|byte| format!("{byte:02x}")).collect();
        // The server takes the user's name from the first message of the session.
        let client = scram::Client::new("", self.password()?, &nonce, binding);
        Ok(if could_bind && !proof.is_bound { client.not_offered() } else { client })
    }

    /// Checks at the end whether the server has proved what the address asks for.
    fn check_end(&self, proof: &Proof) -> Result<()> {
        if proof.exchange.is_some() && !proof.is_server_checked {
            return Err(denied("the server has not proved that it knows the password"));
        }
        if self.address.channel_binding == ChannelBinding::Require && !proof.is_bound {
            return Err(denied("channel_binding: the server lets the user in without it"));
        }
        let allows_none = |allowed: &crate::address::Methods| allowed.allow(Method::None);
        match proof.method.is_none() && !self.address.require_auth.as_ref().is_none_or(allows_none) {
            true => Err(denied("require_auth: the server lets the user in without a proof")),
            false => Ok(()),
        }
    }
}

fn denied(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Denied, message).with_sqlstate("28000")
}
