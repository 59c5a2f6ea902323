//! What a server tells of itself over HTTP: its metrics, and whether it is well and ready.

use crate::accept::next_connection;
use crate::arrivals::Peer;
use crate::server::Server;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hypostyle_types::{Error, ErrorKind, Result};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// A connection that says nothing for so long is closed.
const SILENCE_TIME: Duration = Duration::from_secs(5);

/// The database is asked no more often.
const HEALTH_TIME: Duration = Duration::from_secs(1);

const TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `GET /metrics`, `/health`, `/ready` and `/in-sync` until the server stops.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener) {
    loop {
        let (stream, peer) = next_connection(&listener).await;
        let Some(arrival) = server.arrive(&server.http_arriving, Peer::of_address(peer.ip())) else {
            continue;
        };
        let server = server.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(answer(server, &request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .header_read_timeout(SILENCE_TIME)
                .serve_connection(TokioIo::new(stream), service);
            // A client that breaks off is no matter of ours; one of many of its address goes when
            // others come.
            tokio::select! {
                _broken = connection => {}
                () = arrival.given_up() => {}
            }
        });
    }
}

async fn answer(server: Arc<Server>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => (StatusCode::OK, TEXT, server.metrics.text()),
        (&Method::GET, "/health") => told(health(server).await),
        (&Method::GET, "/ready") => told(ready(server).await),
        (&Method::GET, "/in-sync") => told(in_sync(server).await),
        (_, "/metrics" | "/health" | "/ready" | "/in-sync") => {
            (StatusCode::METHOD_NOT_ALLOWED, "text/plain", "GET only\n".into())
        }
        _ => {
            let known = "there are /metrics, /health, /ready and /in-sync\n";
            (StatusCode::NOT_FOUND, "text/plain", known.into())
        }
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    response
}

/// Returns the answer to a question that is yes, or why not.
fn told(found: Result<()>) -> (StatusCode, &'static str, String) {
    match found {
        Ok(()) => (StatusCode::OK, "text/plain", "ok\n".into()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("{error}\n")),
    }
}

/// Says whether clients may be sent here: the server lets them in, the database answers, and a node of a
/// cluster is part of it, and is to stay.
async fn ready(server: Arc<Server>) -> Result<()> {
    if server.is_draining() {
        return Err(Error::new(ErrorKind::Closed, "the server lets no new clients in").with_sqlstate("57P03"));
    }
    health(server.clone()).await?;
    server.database.node().map_or(Ok(()), |node| node.check_ready())
}

/// Says whether the next node may be ended: this one is ready, and all its replicas are in sync. A node that
/// was away asks the others, and waits for a second if they are not there. Whoever asks meanwhile waits with
/// it.
async fn in_sync(server: Arc<Server>) -> Result<()> {
    ready(server.clone()).await?;
    let asking = server.clone();
    let check = move || asking.database.node().map_or(Ok(()), |node| node.check_in_sync());
    server.in_sync.answer(Duration::ZERO, check).await
}

/// Whether the database answers; where it has to wait for a disk, nothing else of the server does. A session
/// is opened to find that out, which costs more than it takes to ask.
async fn health(server: Arc<Server>) -> Result<()> {
    if server.is_stopping() {
        return Err(Error::internal("the server is stopping"));
    }
    let asking = server.clone();
    let answers = move || asking.database.connect()?.execute("SELECT 1").map(drop);
    server.health.answer(HEALTH_TIME, answers).await
}
