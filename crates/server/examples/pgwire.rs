//! Serves a database to PostgreSQL's clients, for tests and for trying out drivers:
//! `pgwire [ADDRESS [PATH [USERS [CERTIFICATE KEY]]]]`. An empty path is a database in memory, and
//! empty users are everybody.

use hypostyle::{Database, OpenOptions};
use hypostyle_server::{Limits, Server, Tls, Users};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |place: usize| arguments.get(place).filter(|argument| !argument.is_empty());
    let database = match argument(1) {
        Some(path) => Database::open(path, OpenOptions::default())?,
        None => Database::in_memory(OpenOptions::default())?,
    };
    let users = argument(2).map(|path| Users::read(path.as_ref())).transpose()?;
    let tls = match (argument(3), argument(4)) {
        (Some(certificate), Some(key)) => Some(Tls::read(certificate.as_ref(), key.as_ref(), None)?),
        _ => None,
    };
    let server = Server::new(database, users, Limits::default(), tls)?;
    let address = argument(0).map_or("127.0.0.1:5433", String::as_str);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    server.serve_postgres(listener).await;
    Ok(())
}
