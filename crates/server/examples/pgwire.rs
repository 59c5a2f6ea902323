//! Serves a database to PostgreSQL's clients, for tests and for trying out drivers: `pgwire 127.0.0.1:5433 [PATH [USERS]]`.

use hypostyle::{Database, OpenOptions};
use hypostyle_server::{Limits, Server, Users};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:5433".into());
    let database = match arguments.next() {
        Some(path) => Database::open(path, OpenOptions::default())?,
        None => Database::in_memory(OpenOptions::default())?,
    };
    let limits = Limits { clients: 100, statement_time: None, idle_time: None, query_memory: None };
    let users = arguments.next().map(|path| Users::read(path.as_ref())).transpose()?;
    let server = Server::new(database, users, limits, None);
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("{}", listener.local_addr()?);
    server.serve_postgres(listener).await?;
    Ok(())
}
