//! What a program says of its connections.

use std::time::Duration;

const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How to connect, where the address does not say it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the program, for the server's lists and logs.
    pub application_name: String,
    /// The time for connecting to one host, from the first packet to the end of the login.
    pub connect_time: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let application_name = format!("hypostyle {}", env!("CARGO_PKG_VERSION"));
        Self { application_name, connect_time: CONNECT_TIME }
    }
}
