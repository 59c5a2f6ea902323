//! PostgreSQL's protocol (version 3.0; "Frontend/Backend Protocol" in PostgreSQL's documentation):
//! its programs and drivers use the database as if it were one of PostgreSQL's. What they can do is
//! in docs/pgwire.md.
//!
//! The beginning of a connection is served asynchronously, because those who are not yet let in may be many
//! and slow. A session is a thread of its own (decision 0029): it reads the socket, runs the statement as far
//! as that needs no other thread, and writes the answer. While it waits for the engine, it looks
//! whether the client has gone.

pub(crate) mod cancel;
mod channel;
mod column;
mod command;
mod copy;
mod decode;
mod documents;
#[cfg(test)]
mod fuzz;
mod known;
mod message;
mod prepared;
mod reply;
mod rows;
mod session;
mod setting;
mod socket;
mod startup;
mod words;

use crate::Server;
use crate::accept::{STACK_BYTES, next_connection};
use crate::arrivals::{Arrival, Peer};
use crate::server::{FIRST_BYTE_TIME, Identity, LOGIN_TIME, Place, REFUSAL_TIME};
use crate::shown::Shown;
use cancel::Registered;
use hypostyle::Connection;
use hypostyle_transport::keep_alive;
use hypostyle_types::{Error, ErrorKind, Result};
use reply::{Replies, Severity};
use session::Session;
use startup::{Client, Socket, Start, authenticate, begin};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;

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

/// Serves a connection until it is a session's. What goes wrong is told to the client.
async fn serve(socket: TcpStream, peer: String, server: Arc<Server>, arrival: Arrival) {
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
    if let Some((client, identity, place)) = entered {
        begin_session(Entered { client, identity, place, peer, server }).await;
    }
}

/// Somebody who has been let in.
struct Entered {
    client: Client,
    identity: Identity,
    place: Place,
    peer: String,
    server: Arc<Server>,
}

/// Gives a client to a thread of its own.
async fn begin_session(entered: Entered) {
    // The thread gets the client when there is one, so that a client for which there is none can be told.
    let (give, take) = sync_channel::<Entered>(1);
    let runtime = Handle::current();
    let serve = move || {
        if let Ok(entered) = take.recv() {
            serve_session(entered, &runtime);
        }
    };
    let thread = std::thread::Builder::new().name("pgwire".into()).stack_size(STACK_BYTES).spawn(serve);
    match thread {
        Ok(_) => {
            // There is room for it, and the thread waits.
            let _given = give.send(entered);
        }
        Err(error) => {
            tracing::error!(%error, "a client could not be served");
            entered.server.metrics.refused.inc();
            let message = "the server has no thread for one more client; try again later";
            let error = Error::new(ErrorKind::Busy, message).with_sqlstate("53300");
            let mut client = entered.client;
            refuse(&mut client, &error).await;
        }
    }
}

/// Serves a session to its end, on its thread.
fn serve_session(entered: Entered, runtime: &Handle) {
    let Entered { mut client, identity, place, peer, server } = entered;
    let user = identity.user.clone();
    tracing::info!(peer, user, "a PostgreSQL session begins");
    match open(&client, &identity, &server) {
        Ok((connection, registered)) => run(client, connection, registered, server),
        Err(error) => runtime.block_on(refuse(&mut client, &error)),
    }
    tracing::info!(peer, user, "a PostgreSQL session ends");
    drop(place);
}

/// Everything before the session.
async fn start(
    socket: Box<dyn Socket>,
    peer: &str,
    counted: Peer,
    server: &Arc<Server>,
) -> Option<(Client, Identity, Place)> {
    // Who has begun a startup has been told what is wrong with it; before, nobody is there to be told.
    let mut client = match begin(socket, server).await.ok()? {
        Start::Session(client) => *client,
        Start::Cancel(key) => {
            server.cancels.cancel(key);
            return None;
        }
        Start::Nothing => return None,
    };
    let entered = match authenticate(&mut client, server, peer, counted).await {
        Ok(identity) => server.enter(counted, false).map(|place| (identity, place)),
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
            let message =
                format!("database \"{database}\" does not exist; that of the server is \"hypostyle\"");
            Error::new(ErrorKind::UnknownName, message).with_sqlstate("3D000")
        })?;
    }
    let registered = server.cancels.add(&connection)?;
    let settings = connection.postgres_settings()?;
    settings.set_process(registered.key.process);
    settings.set_wire();
    Ok((connection, registered))
}

fn run(client: Client, connection: Connection, registered: Registered, server: Arc<Server>) {
    let Client { socket, received, parameters, newer, .. } = client;
    let socket = match socket.into_session() {
        Ok(socket) => Arc::new(socket),
        Err(error) => return tracing::error!(%error, "a client could not be served"),
    };
    if let Ok(mut session) = Session::new(server, connection.clone(), socket.clone(), received) {
        session.run(registered.key, &parameters, newer);
    }
    socket.close();
    // Nobody waits for the list while the connection rolls back what is open.
    drop(registered);
    drop(connection);
}
