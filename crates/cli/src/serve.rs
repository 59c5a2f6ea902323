//! `hypostyle serve` serves a database over sockets, until a signal stops it.

use crate::cluster;
use crate::options::{ServeOptions, parse_address};
use hypostyle::{Database, Error, ErrorKind, Result};
use hypostyle_placement::config::Config;
use hypostyle_server::{Addresses, Limits, Listening, Role, Server, Users, listen};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Serves until SIGINT or SIGTERM. SIGHUP reads the users' file and the certificate again, and SIGUSR1
/// lets no new clients in.
pub fn run(options: &ServeOptions) -> Result<()> {
    log_to_standard_error(options);
    raise_file_limit();
    let node = options.cluster.as_deref().map(cluster::config::read).transpose()?;
    let addresses = Addresses {
        tcp: address(options, node.as_ref())?,
        unix: options.unix.clone(),
        unix_mode: options.unix_mode,
        postgres: options.pgwire,
        http: options.metrics,
    };
    let users = options.users.as_deref().map(Users::read).transpose()?;
    let tls = options.tls(node.as_ref()).transpose()?;
    let database = match options.database.to_str() {
        Some(":memory:") => Database::in_memory(options.opening.options())?,
        _ => Database::open(&options.database, options.opening.options())?,
    };
    let limits = Limits {
        clients: options.clients_max.get(),
        clients_of_peer: options.clients_per_peer_max.map(NonZeroUsize::get),
        statement_time: options.statement_timeout.map(Duration::from_secs_f64),
        idle_time: options.idle_timeout.map(Duration::from_secs_f64),
        idle_transaction_time: options.idle_in_transaction_timeout.map(Duration::from_secs_f64),
        message_time: Duration::from_secs_f64(options.message_timeout),
        stop_time: Duration::from_secs(options.stop_timeout.into()),
        resume_time: Duration::from_secs(options.resume_timeout.into()),
    };
    let server = Server::new(database.clone(), users, limits, tls)?;
    if let Some(config) = &node {
        cluster::join(&server, &database, config)?;
    }
    let failed = |error: std::io::Error| Error::from_io(&error, "cannot listen for signals");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let signals = || -> Result<Signals> {
        let _context = runtime.enter();
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt()).map_err(failed)?,
            terminate: signal(SignalKind::terminate()).map_err(failed)?,
            hangup: signal(SignalKind::hangup()).map_err(failed)?,
            drain: signal(SignalKind::user_defined1()).map_err(failed)?,
        })
    };
    let mut signals = signals()?;
    let listening = listen(&server, &addresses)?;
    announce(options, &listening);
    runtime.block_on(wait((&server, &database), options, node.as_ref(), &mut signals));
    tracing::info!(hint = "a second signal ends what still runs at once", "stopping");
    let _unsaid = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    runtime.block_on(async {
        let stopped = tokio::task::spawn_blocking(move || listening.stop());
        tokio::select! {
            _ = stopped => {}
            _ = signals.interrupt.recv() => {}
            _ = signals.terminate.recv() => {}
        }
    });
    runtime.shutdown_background();
    if let Some(Err(error)) = database.node().map(|node| node.store_readable()) {
        tracing::warn!(%error, "the node may begin again with a state before the one that it has shown");
    }
    database.close()
}

/// Returns the address for clients: that which is given, or else that of the node.
fn address(options: &ServeOptions, node: Option<&Config>) -> Result<Option<SocketAddr>> {
    let of_node = node.map(|node| parse_address(&node.listen)).transpose();
    let of_node = of_node.map_err(|error| Error::invalid_input(format!("the node's address: {error}")))?;
    Ok(options.listen.or(of_node))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
    drain: Signal,
}

async fn wait(
    (server, database): (&Arc<Server>, &Database),
    options: &ServeOptions,
    node: Option<&Config>,
    signals: &mut Signals,
) {
    loop {
        tokio::select! {
            _ = signals.interrupt.recv() => return,
            _ = signals.terminate.recv() => return,
            _ = signals.hangup.recv() => read_again(server, options, node),
            _ = signals.drain.recv() => drain(server, database.clone()),
        }
    }
}

/// Lets no new clients in, and has another node coordinate the cluster: the server is to be ended soon.
fn drain(server: &Server, database: Database) {
    server.drain();
    tracing::info!("draining");
    let _handed_over = tokio::task::spawn_blocking(move || {
        if let Some(Err(error)) = database.node().map(|node| node.hand_over()) {
            tracing::warn!(%error, "no other node coordinates the cluster");
        }
    });
}

fn read_again(server: &Server, options: &ServeOptions, node: Option<&Config>) {
    match options.users.as_deref().map(Users::read) {
        Some(Ok(users)) => {
            server.set_users(users);
            tracing::info!("the users' file was read again");
        }
        Some(Err(error)) => tracing::error!(%error, "the users stay as they were"),
        None => {}
    }
    match options.tls(node) {
        Some(Ok(tls)) => {
            server.set_tls(tls);
            tracing::info!("the certificate was read again");
        }
        Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        None => {}
    }
}

/// Prints one line for people and scripts, and notifies systemd.
fn announce(options: &ServeOptions, listening: &Listening) {
    let mut places = Vec::new();
    places.extend(listening.tcp.map(|address| format!("hypostyle://{address}/")));
    places.extend(options.unix.as_ref().map(|path| format!("hypostyle+unix://{}", path.display())));
    places.extend(listening.postgres.map(|address| format!("postgresql://{address}/")));
    places.extend(listening.http.map(|address| format!("http://{address}/metrics")));
    eprintln!("hypostyle serves {} on {}", options.database.display(), places.join(" "));
    tracing::info!(database = %options.database.display(), places = places.join(" "), "serving");
    let _unsaid = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
}

/// Raises the limit of open files to the hard limit, because mapped columns and clients take more
/// than a shell's usual limit.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it was");
    }
}

fn log_to_standard_error(options: &ServeOptions) {
    // What cannot be written is lost: to say so, it would print, and whoever logs would panic on a full disk.
    let log = tracing_subscriber::fmt().log_internal_errors(false);
    let log = log.with_max_level(options.log_level).with_writer(std::io::stderr);
    if options.log_json { log.json().init() } else { log.init() }
}

/// Runs `hypostyle user`, which prints the line of the users' file for a user. The password comes
/// from standard input.
pub fn user(name: &str, role: Role) -> Result<()> {
    let mut password = String::new();
    let failed = |error: std::io::Error| Error::from_io(&error, "cannot read the password");
    std::io::stdin().read_line(&mut password).map_err(failed)?;
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Error::new(ErrorKind::InvalidInput, "give the password as one line on standard input"));
    }
    println!("{}", Users::line(name, role, password)?);
    Ok(())
}
