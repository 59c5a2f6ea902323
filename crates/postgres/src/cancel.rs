//! Cancels the statement of a session, over a connection of its own.

use crate::address::KeepAlive;
use crate::message::Writer;
use crate::stream::{Peer, Stream};
use crate::tls;
use hypostyle_types::{Error, ErrorKind, Result};
use rustls::ClientConfig;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time that a cancel may take.
const CANCEL_TIME: Duration = Duration::from_secs(3);

/// What it takes to cancel the statements of a session.
#[derive(Clone)]
pub struct Canceler {
    pub peer: Peer,
    /// The configuration and the name of the host, if the session is inside TLS, and whether TLS
    /// begins at once.
    pub tls: Option<(Arc<ClientConfig>, String, bool)>,
    pub process: u32,
    pub key: Vec<u8>,
}

impl Canceler {
    /// Asks the server to cancel the statement. The server closes the connection once it has passed
    /// that on.
    ///
    /// # Errors
    /// `Connection` when the server does not take the request.
    pub fn cancel(&self) -> Result<()> {
        let begin = Instant::now();
        let mut poll = || match begin.elapsed() < CANCEL_TIME {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Connection, "the server does not take a cancel in time")),
        };
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Connection, format!("the statement cannot be cancelled: {error}"))
        };
        let mut stream = Stream::connect(&self.peer, &KeepAlive::default(), CANCEL_TIME).map_err(failed)?;
        if let Some((config, host, is_direct)) = &self.tls {
            if !is_direct {
                let mut writer = Writer::default();
                writer.tls_request();
                stream.send(writer.bytes(), &mut poll)?;
                if stream.read_byte(&mut poll)? != b'S' {
                    return Err(Error::protocol("the server has lost its TLS"));
                }
            }
            stream.start_tls(tls::connection(config, host)?, &mut poll)?;
        }
        let mut writer = Writer::default();
        writer.cancel(self.process, &self.key);
        stream.send(writer.bytes(), &mut poll)?;
        // Nothing comes but the end.
        while let Ok(came) = stream.fill() {
            if !came {
                stream.wait_to_read()?;
            }
            poll()?;
        }
        Ok(())
    }
}
