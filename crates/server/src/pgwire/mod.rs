//! PostgreSQL's protocol (version 3.0; "Frontend/Backend Protocol" in PostgreSQL's documentation):
//! its programs and drivers use the database as if it were one of PostgreSQL's. What they can do is
//! in docs/pgwire.md.
//!
//! The socket is served asynchronously. A session is a thread of its own, because the engine's
//! calls block; it takes messages from a channel and puts replies into another. Whoever reads the
//! socket sees that the client has gone, while the session waits for the engine, and interrupts it.

pub(crate) mod cancel;
mod channel;
mod column;
mod command;
mod copy;
mod decode;
mod documents;
#[cfg(test)]
mod fuzz;
mod message;
mod prepared;
mod presence;
mod reply;
mod rows;
mod session;
mod setting;
mod startup;
mod words;

use crate::Server;
use crate::accept::{STACK_BYTES, next_connection};
use crate::arrivals::{Arrival, Peer};
use crate::server::{FIRST_BYTE_TIME, Identity, LOGIN_TIME, Place, REFUSAL_TIME};
use crate::shown::Shown;
use bytes::{Bytes, BytesMut};
use cancel::Registered;
use channel::{Batch, Input, LOOK_INTERVAL, Output};
use hypostyle::Connection;
use hypostyle_transport::keep_alive;
use hypostyle_types::{Error, ErrorKind, Result};
use message::{announced, take};
use presence::Presence;
use reply::{Replies, Severity};
use session::Session;
use startup::{Client, Socket, Start, authenticate, begin};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Sender, channel};

/// A client that takes nothing for so long is given up.
const STALL_TIME: Duration = Duration::from_secs(120);

/// The time for the last words to a client that may not listen.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// Buffers that wait for the socket.
const WRITES_IN_FLIGHT: usize = 4;

/// Bytes of messages that wait for the session; one message may have more.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// So much of it takes no memory of the session's; what takes some is called so.
const WAITING_BYTES_FREE: usize = 1 << 20;
const WAITS: &str = "messages of a client";

/// What a message takes that says nothing.
const MESSAGE_BYTES_MIN: usize = 128;

/// Reads that wait for the session: no fewer than there is room for, so that the end of what a
/// client says is seen behind them.
const READS_IN_FLIGHT: usize = WAITING_BYTES_MAX / MESSAGE_BYTES_MIN;

/// Names in a startup that stand for the server's own database, beside the user's: those that
/// clients take when they are told none.
const OWN_DATABASE_NAMES: [&str; 3] = ["hypostyle", "postgres", "template1"];

impl Server {
    /// Serves PostgreSQL's clients on a socket.
    pub async fn serve_postgres(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (socket, peer) = next_connection(&listener).await;
            let _slow_at_worst = socket.set_nodelay(true);
            // One that is gone without a word would keep its place and its transaction.
            let _kept_at_worst = keep_alive(&socket);
            // One too many is let go without a word: nothing is read of it.
            let Some(arrival) = self.arrive(&self.postgres_arriving, Peer::of_address(peer.ip())) else {
                continue;
            };
            tokio::spawn(serve(socket, peer.to_string(), self.clone(), arrival));
        }
    }
}

/// Serves one connection to its end. What goes wrong is told to the client.
async fn serve(socket: TcpStream, peer: String, server: Arc<Server>, arrival: Arrival) {
    let presence = match Presence::of(&socket) {
        Ok(presence) => Arc::new(presence),
        Err(error) => return tracing::error!(%error, "a client could not be served"),
    };
    let entering = async {
        let speaks = tokio::time::timeout(FIRST_BYTE_TIME, socket.readable()).await;
        if !matches!(speaks, Ok(Ok(()))) {
            return None;
        }
        tokio::time::timeout(LOGIN_TIME, start(Box::new(socket), &peer, arrival.peer, &server)).await.ok()?
    };
    let entered = tokio::select! {
        entered = entering => entered,
        () = arrival.given_up() => {
            server.metrics.refused.inc();
            None
        }
    };
    drop(arrival);
    if let Some((client, identity, _place)) = entered {
        let user = identity.user.clone();
        tracing::info!(peer, user, "a PostgreSQL session begins");
        run(client, identity, &server, presence).await;
        tracing::info!(peer, user, "a PostgreSQL session ends");
    }
}

/// Everything before the session.
async fn start(
    socket: Box<dyn Socket>,
    peer: &str,
    counted: Peer,
    server: &Arc<Server>,
) -> Option<(Client, Identity, Place)> {
    // Before the startup packet, nobody is there to be told.
    let mut client = match begin(socket, server).await.ok()? {
        Start::Session(client) => *client,
        Start::Cancel(key) => {
            server.cancels.cancel(key);
            return None;
        }
        Start::Nothing => return None,
    };
    let entered = match authenticate(&mut client, server, peer, counted).await {
        Ok(identity) => server.enter(counted).map(|place| (identity, place)),
        Err(error) => Err(error),
    };
    match entered {
        Ok((identity, place)) => Some((client, identity, place)),
        Err(error) => {
            let (user, error_shown) = (Shown(client.user()).to_string(), Shown(&error));
            tracing::warn!(peer, user, error = %error_shown, "a PostgreSQL client was not let in");
            server.metrics.refused.inc();
            if error.kind() == ErrorKind::Denied {
                tokio::time::sleep(REFUSAL_TIME).await;
            }
            refuse(&mut client, &error).await;
            None
        }
    }
}

async fn refuse(client: &mut Client, error: &Error) {
    let mut replies = Replies::default();
    // Whether there is such a user is nobody's business.
    let denied = error.kind() == ErrorKind::Denied;
    let told = Error::new(
        ErrorKind::Denied,
        format!("password authentication failed for user \"{}\"", client.user()),
    )
    .with_sqlstate("28P01");
    replies.error(Severity::Fatal, if denied { &told } else { error }, None);
    // The connection ends either way.
    let _told = client.send(&mut replies).await;
}

/// Opens a connection to the database for a client that has been let in.
fn open(client: &Client, identity: &Identity, server: &Arc<Server>) -> Result<(Connection, Registered)> {
    let connection = server.connect(identity)?;
    if let Some(database) = client.parameters.get("database")
        && database != client.user()
        && !OWN_DATABASE_NAMES.contains(&database.as_str())
    {
        let name = database.replace('"', "\"\"");
        connection.execute(&format!("USE \"{name}\"")).map_err(|_| {
            Error::new(ErrorKind::UnknownName, format!("database \"{database}\" does not exist"))
                .with_sqlstate("3D000")
        })?;
    }
    let registered = server.cancels.add(&connection)?;
    let settings = connection.postgres_settings()?;
    settings.set_process(registered.key.process);
    settings.set_wire();
    Ok((connection, registered))
}

async fn run(mut client: Client, identity: Identity, server: &Arc<Server>, presence: Arc<Presence>) {
    let opening = {
        let server = server.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let opened = open(&client, &identity, &server);
            (client, opened)
        });
        opened.await
    };
    let Ok((opened_client, opened)) = opening else { return };
    client = opened_client;
    let (connection, registered) = match opened {
        Ok(opened) => opened,
        Err(error) => return refuse(&mut client, &error).await,
    };
    let Client { socket, received, parameters, newer, .. } = client;
    let (reader, mut writer) = tokio::io::split(socket);
    let (message_sender, message_receiver) = channel(READS_IN_FLIGHT);
    let (reply_sender, mut reply_receiver) = channel::<Bytes>(WRITES_IN_FLIGHT);
    let input =
        Input::new(message_receiver, Handle::current(), server.clone(), connection.clone(), presence.clone());
    let output = Output::new(reply_sender);
    let (session_server, session_connection) = (server.clone(), connection.clone());
    let key = registered.key;
    let thread = std::thread::Builder::new().name("pgwire".into()).stack_size(STACK_BYTES).spawn(move || {
        if let Ok(mut session) = Session::new(session_server, session_connection, input, output) {
            session.run(key, &parameters, newer);
        }
    });
    if let Err(error) = thread {
        tracing::error!("no thread for a session: {error}");
        return;
    }
    let reading = tokio::spawn(read(reader, received, message_sender, presence.clone(), connection.clone()));
    while let Some(bytes) = reply_receiver.recv().await {
        if !pass_on(&mut writer, &bytes, &connection, &presence).await {
            break;
        }
    }
    // The session has ended, or its client cannot be told anything any more.
    connection.interrupt();
    reading.abort();
    // A session that still writes is to end, and a client that reads nothing does not take the end
    // of TLS either.
    drop(reply_receiver);
    let _gone = tokio::time::timeout(GOODBYE_TIME, writer.shutdown()).await;
    drop(registered);
}

/// Writes to the client; false when it is gone, takes nothing for too long, or its session is ended.
async fn pass_on(
    writer: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
    connection: &Connection,
    presence: &Presence,
) -> bool {
    let (mut left, mut since) = (bytes, Instant::now());
    while !left.is_empty() {
        match tokio::time::timeout(LOOK_INTERVAL, writer.write(left)).await {
            Ok(Ok(0) | Err(_)) => return false,
            Ok(Ok(length)) => {
                left = &left[length..];
                since = Instant::now();
            }
            Err(_) if connection.is_killed() || presence.is_over() || since.elapsed() > STALL_TIME => {
                return false;
            }
            Err(_) => {}
        }
    }
    matches!(tokio::time::timeout(STALL_TIME, writer.flush()).await, Ok(Ok(())))
}

/// Cuts what the client says into messages. When it says no more, what it has asked for is of no
/// use after a moment.
async fn read(
    mut reader: ReadHalf<Box<dyn Socket>>,
    mut received: BytesMut,
    batches: Sender<Batch>,
    presence: Arc<Presence>,
    connection: Connection,
) {
    let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
    // Of the message that is being received.
    let mut memory = None;
    loop {
        let (mut messages, before) = (Vec::new(), received.len());
        let broken = loop {
            match take(&mut received) {
                Ok(Some(message)) => messages.push(Ok(message)),
                Ok(None) => break false,
                Err(error) => {
                    messages.push(Err(error));
                    break true;
                }
            }
        };
        if !messages.is_empty() {
            // A message of few bytes takes some, too.
            let bytes = (before - received.len()).max(messages.len() * MESSAGE_BYTES_MIN);
            let mut memory = memory.take();
            let waiting = WAITING_BYTES_MAX - room.available_permits();
            let mut wanted = bytes.min(WAITING_BYTES_MAX);
            if memory.is_none() && waiting + bytes > WAITING_BYTES_FREE {
                memory = connection.hold(WAITS, bytes as u64).unwrap_or_else(|_| {
                    // Where there is no memory, nothing else waits.
                    wanted = WAITING_BYTES_MAX;
                    None
                });
            }
            let Ok(room) = room.clone().acquire_many_owned(wanted as u32).await else { return };
            if batches.send(Batch { messages, room, memory }).await.is_err() {
                return;
            }
        }
        if broken {
            return;
        }
        let announced = announced(&received);
        if memory.is_none() && announced > WAITING_BYTES_FREE {
            memory = match connection.hold(WAITS, announced as u64) {
                Ok(memory) => memory,
                Err(error) => {
                    let Ok(room) = room.clone().acquire_owned().await else { return };
                    let _gone = batches.send(Batch { messages: vec![Err(error)], room, memory: None }).await;
                    return;
                }
            };
        }
        match reader.read_buf(&mut received).await {
            Ok(0) | Err(_) => return presence.leave(),
            Ok(_) => {}
        }
    }
}
