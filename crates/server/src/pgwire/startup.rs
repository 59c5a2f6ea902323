//! The beginning of a connection: encryption, the client's parameters, and who it is.
//!
//! Nothing is believed here: what comes is short, and there is little time for it.

#![cfg_attr(
    not(test),
    deny(clippy::cast_possible_truncation, clippy::expect_used, clippy::panic, clippy::unwrap_used)
)]

use super::message::{Body, Message, STARTUP_BYTES_MAX, take_in_startup};
use super::reply::{Replies, Severity};
use super::socket::SessionSocket;
use crate::Server;
use crate::arrivals::Peer;
use crate::pgwire::cancel::Key;
use crate::server::{Identity, Login, Method, user_name};
use crate::users::nonce;
use bytes::{Bytes, BytesMut};
use hypostyle_auth::scram::{Server as Scram, Verifier, offered};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::Role;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// A connection's bytes, encrypted or not.
pub(super) trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Returns the socket for the thread of a session.
    ///
    /// # Errors
    /// Those of the system.
    fn into_session(self: Box<Self>) -> io::Result<SessionSocket>;
}

impl Socket for TcpStream {
    fn into_session(self: Box<Self>) -> io::Result<SessionSocket> {
        // It does not block, as in the hands of the runtime.
        self.into_std().map(SessionSocket::new)
    }
}

impl Socket for TlsStream<Box<dyn Socket>> {
    fn into_session(self: Box<Self>) -> io::Result<SessionSocket> {
        let (socket, tls) = self.into_inner();
        Ok(socket.into_session()?.encrypted(tls))
    }
}

const PROTOCOL_MAJOR: u32 = 3;
const CANCEL_REQUEST: u32 = 80_877_102;
const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;
const SASL_FINAL: u32 = 12;

/// What a connection is for.
pub(super) enum Start {
    Session(Box<Client>),
    Cancel(Key),
    /// The peer said nothing, or went away.
    Nothing,
}

/// Somebody who wants a session.
pub(super) struct Client {
    pub socket: Box<dyn Socket>,
    /// What has been received and not yet been read.
    pub received: BytesMut,
    pub parameters: BTreeMap<String, String>,
    pub encrypted: bool,
    /// What a login can be bound to.
    end_point: Option<Arc<[u8]>>,
    /// The version and the options of the protocol, where the server does not know them.
    pub newer: Option<(u32, Vec<String>)>,
}

impl Client {
    pub fn user(&self) -> &str {
        self.parameters.get("user").map_or("", String::as_str)
    }

    async fn next(&mut self) -> Result<Message> {
        loop {
            if let Some(message) = take_in_startup(&mut self.received)? {
                return Ok(message);
            }
            if read_some(&mut self.socket, &mut self.received).await? == 0 {
                return Err(Error::new(ErrorKind::Connection, "the client went away"));
            }
        }
    }

    pub async fn send(&mut self, replies: &mut Replies) -> Result<()> {
        write(&mut self.socket, &replies.take()).await
    }

    async fn password(&mut self) -> Result<Bytes> {
        match self.next().await? {
            Message::Password(body) => Ok(body),
            _ => Err(Error::protocol("an answer to the authentication was expected")),
        }
    }
}

async fn read_some(socket: &mut Box<dyn Socket>, received: &mut BytesMut) -> Result<usize> {
    let read = socket.read_buf(received).await;
    read.map_err(|error| Error::new(ErrorKind::Connection, format!("cannot read from the client: {error}")))
}

pub(super) async fn write(socket: &mut (impl AsyncWrite + Unpin + ?Sized), bytes: &[u8]) -> Result<()> {
    let wrong = |error| Error::new(ErrorKind::Connection, format!("cannot write to the client: {error}"));
    socket.write_all(bytes).await.map_err(wrong)?;
    socket.flush().await.map_err(wrong)
}

/// Reads the first packets, up to the one that says what the connection is for.
pub(super) async fn begin(socket: Box<dyn Socket>, server: &Server) -> Result<Start> {
    let mut socket = socket;
    let mut received = BytesMut::new();
    let (mut encrypted, mut end_point) = (false, None);
    loop {
        let Some(packet) = packet(&mut socket, &mut received).await? else { return Ok(Start::Nothing) };
        let mut body = Body(packet);
        match body.u32()? {
            SSL_REQUEST | GSS_REQUEST if !received.is_empty() => {
                // What was sent before the encryption may be somebody else's.
                return Err(Error::protocol("there is unencrypted data behind the request for encryption"));
            }
            SSL_REQUEST => match (server.tls(), encrypted) {
                (Some(tls), false) => {
                    write(&mut socket, b"S").await?;
                    let acceptor = tokio_rustls::TlsAcceptor::from(tls.of_postgres);
                    let accepted = acceptor.accept(socket).await.map_err(|error| {
                        Error::new(ErrorKind::Connection, format!("no encryption was agreed upon: {error}"))
                    })?;
                    socket = Box::new(accepted);
                    (encrypted, end_point) = (true, tls.end_point);
                }
                _ => write(&mut socket, b"N").await?,
            },
            GSS_REQUEST => write(&mut socket, b"N").await?,
            CANCEL_REQUEST => {
                return Ok(Start::Cancel(Key { process: body.u32()?, secret: body.u32()? }));
            }
            version if version >> 16 == PROTOCOL_MAJOR => {
                let parameters = match parameters(&mut body) {
                    Ok(parameters) => parameters,
                    Err(error) => return Err(refused(&mut socket, error).await),
                };
                let unknown: Vec<String> =
                    parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
                let newer = (version & 0xffff > 0 || !unknown.is_empty()).then_some((0, unknown));
                return Ok(Start::Session(Box::new(Client {
                    socket,
                    received,
                    parameters,
                    encrypted,
                    end_point,
                    newer,
                })));
            }
            other => {
                let error = Error::protocol(format!(
                    "unsupported frontend protocol {}.{}: the server supports 3.0",
                    other >> 16,
                    other & 0xffff
                ));
                return Err(refused(&mut socket, error.with_sqlstate("0A000")).await);
            }
        }
    }
}

/// Reads the parameters of a startup, up to an empty name.
fn parameters(body: &mut Body) -> Result<BTreeMap<String, String>> {
    let mut parameters = BTreeMap::new();
    loop {
        let name = body.text()?;
        if name.is_empty() {
            return Ok(parameters);
        }
        parameters.insert(name, body.text()?);
    }
}

/// Tells who began a startup what is wrong with it.
async fn refused(socket: &mut Box<dyn Socket>, error: Error) -> Error {
    let mut replies = Replies::default();
    replies.error(Severity::Fatal, &error, None);
    // The connection ends either way.
    let _told = write(socket, &replies.take()).await;
    error
}

/// A packet of the time before messages have types; `None` when the peer is gone.
async fn packet(socket: &mut Box<dyn Socket>, received: &mut BytesMut) -> Result<Option<Bytes>> {
    loop {
        if let Some(length) = received.first_chunk::<4>() {
            let length = u32::from_be_bytes(*length) as usize;
            if !(8..=STARTUP_BYTES_MAX).contains(&length) {
                return Err(Error::protocol("invalid length of startup packet"));
            }
            if received.len() >= length {
                let packet = received.split_to(length).freeze();
                return Ok(Some(packet.slice(4..)));
            }
        }
        if read_some(socket, received).await? == 0 {
            return Ok(None);
        }
    }
}

/// Has the client prove who it is, if the server has users.
///
/// # Errors
/// `28P01`, the same whether there is no such user or the password is another.
pub(super) async fn authenticate(
    client: &mut Client,
    server: &Server,
    peer: &str,
    counted: Peer,
) -> Result<Identity> {
    let user = user_name(client.user())?;
    if user.is_empty() {
        return Err(
            Error::protocol("no PostgreSQL user name specified in startup packet").with_sqlstate("28000")
        );
    }
    if server.tls().is_some() && !client.encrypted {
        let message = "this server wants TLS; connect with sslmode=require";
        return Err(Error::protocol(message).with_sqlstate("28000"));
    }
    let login = Login { protocol: "postgresql", user: &user, peer };
    let (role, method) = match server.credentials(&user) {
        None => (Role::Admin, Method::Trust),
        Some((role, verifier)) => match prove(client, server, (&user, counted), role, verifier).await {
            Ok((Role::Cluster, _)) => {
                // Unlike who is denied, a user who has proved who it is is told why.
                let message =
                    "the user's role is cluster, for calls between nodes only; connect as another user";
                let error = Error::unsupported(message).with_sqlstate("42501");
                login.refused(&error);
                return Err(error);
            }
            Ok(proved) => proved,
            Err(error) => {
                login.refused(&error);
                return Err(error);
            }
        },
    };
    login.allowed(method, role);
    let program = client.parameters.get("application_name").map_or("", String::as_str);
    Ok(Identity::new(user, role, program, peer.into()))
}

async fn prove(
    client: &mut Client,
    server: &Server,
    (user, counted): (&str, Peer),
    role: Option<Role>,
    verifier: Verifier,
) -> Result<(Role, Method)> {
    tokio::time::sleep(server.attempts.turn(user, counted)?).await;
    let mut replies = Replies::default();
    let end_point = client.end_point.clone();
    let mechanisms = offered(end_point.as_deref());
    replies.authentication(SASL, format!("{}\0\0", mechanisms.join("\0")).as_bytes());
    client.send(&mut replies).await?;
    let mut first = Body(client.password().await?);
    let mechanism = first.text()?;
    if !mechanisms.contains(&mechanism.as_str()) {
        return Err(Error::protocol(format!("the mechanism \"{mechanism}\" was not offered")));
    }
    let first = first.value()?.unwrap_or_default();
    let scram = Scram::new(user, verifier, (&mechanism, &first), &nonce()?, end_point.as_deref())?;
    replies.authentication(SASL_CONTINUE, scram.challenge());
    client.send(&mut replies).await?;
    let answer = client.password().await?;
    // Nobody has the password of a user that there is not.
    let no_user = || Error::new(ErrorKind::Denied, "no such user");
    let proved = scram.check(&answer).and_then(|last| role.map(|role| (role, last)).ok_or_else(no_user));
    match proved {
        Ok((role, last)) => {
            server.attempts.succeeded(user, counted);
            replies.authentication(SASL_FINAL, &last);
            client.send(&mut replies).await?;
            Ok((role, Method::of_mechanism(&mechanism)))
        }
        Err(error) => {
            server.attempts.failed(user, counted);
            Err(error)
        }
    }
}
