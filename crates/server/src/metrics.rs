//! What a server counts, as Prometheus reads it.

use crate::of_cluster::OfCluster;
use hypostyle::Database;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    sessions_of_clients: Gauge,
    sessions_of_nodes: Gauge,
    pub accepted: Counter,
    pub refused: Counter,
    pub statements: Counter,
    pub errors: Counter,
    pub rows_sent: Counter,
    pub bytes_sent: Counter,
    pub rows_received: Counter,
    pub streams: Counter,
    pub resumed: Counter,
}

impl Metrics {
    pub fn new(database: Database) -> Self {
        let mut registry = Registry::with_prefix("hypostyle");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let accepted = counter("connections", "Connections accepted");
        let refused = counter("connections_refused", "Connections refused: too many, or not logged in");
        let statements = counter("statements", "Statements begun");
        let errors = counter("statement_errors", "Statements that failed");
        let rows_sent = counter("rows_sent", "Rows of results sent");
        let bytes_sent = counter("bytes_sent", "Bytes sent in our own protocol, descriptors not counted");
        let streams = counter("streams", "Further connections of sessions");
        let rows_received = counter("rows_received", "Rows appended by clients");
        let resumed = counter("sessions_resumed", "Broken connections after which the session went on");
        let sessions = Family::<[(&'static str, &'static str); 1], Gauge>::default();
        let of = |whose: &'static str| sessions.get_or_create_owned(&[("of", whose)]);
        let (sessions_of_clients, sessions_of_nodes) = (of("client"), of("node"));
        registry.register("sessions", "Sessions open now, of clients and of other nodes", sessions);
        registry.register_collector(Box::new(OfCluster(database)));
        Self {
            registry,
            sessions_of_clients,
            sessions_of_nodes,
            accepted,
            refused,
            statements,
            errors,
            rows_sent,
            bytes_sent,
            rows_received,
            streams,
            resumed,
        }
    }

    /// The sessions that are open now, of clients or of other nodes.
    pub fn sessions(&self, is_of_node: bool) -> &Gauge {
        if is_of_node { &self.sessions_of_nodes } else { &self.sessions_of_clients }
    }

    /// The OpenMetrics text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _written = prometheus_client::encoding::text::encode(&mut text, &self.registry);
        text
    }
}
