//! What all who accept connections have in common.

use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// The time between two attempts to accept when the system has no descriptors left.
pub(crate) const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);

/// Stack of a session's thread: the parser recurses.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// The next connection, also after some that could not be accepted.
pub(crate) async fn next_connection(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(connection) => return connection,
            Err(error) => {
                // No descriptors are left, mostly; those who are here will go.
                tracing::error!(%error, "a client could not be accepted");
                tokio::time::sleep(ACCEPT_INTERVAL).await;
            }
        }
    }
}
