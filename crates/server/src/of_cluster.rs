//! What a server that is a node of a cluster tells Prometheus of it, and what the node may do to its clients.

use crate::server::Server;
use hypostyle::Database;
use hypostyle::cluster::door::Door;
use hypostyle::cluster::measure::PeerMeasure;
use hypostyle::cluster::node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use std::sync::{Arc, Weak};

/// A server as what lets clients in, for as long as it is there: the node of its database knows it.
struct OfServer(Weak<Server>);

impl Door for OfServer {
    fn close(&self) {
        if let Some(server) = self.0.upgrade().filter(|server| !server.is_draining()) {
            tracing::info!("draining");
            server.drain();
        }
    }

    fn clients(&self) -> usize {
        self.0.upgrade().map_or(0, |server| server.clients())
    }
}

impl Server {
    /// Returns what the node of the database lets clients in by.
    pub fn door(self: &Arc<Self>) -> Arc<dyn Door> {
        Arc::new(OfServer(Arc::downgrade(self)))
    }
}

/// The cluster that a database is part of, if it is a node.
pub(crate) struct OfCluster(pub Database);

impl fmt::Debug for OfCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfCluster").finish_non_exhaustive()
    }
}

impl Collector for OfCluster {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(node) = self.0.node() else { return Ok(()) };
        let mut text = Text(encoder);
        text.node(&node)?;
        text.peers(&node.peer_measures())
    }
}

/// Writes metrics whose names begin with the cluster.
struct Text<'a>(DescriptorEncoder<'a>);

/// A value, and what tells it from others of the same metric.
type Labelled<'a, V> = (Vec<(&'static str, &'a str)>, V);

impl Text<'_> {
    /// Writes a metric with its values, of which each has labels.
    fn all<V: EncodeMetric>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        kind: MetricType,
        values: Vec<Labelled<'_, V>>,
    ) -> fmt::Result {
        let name = format!("cluster_{name}");
        let mut metric = self.0.encode_descriptor(&name, help, unit, kind)?;
        for (labels, value) in values {
            value.encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let name = format!("cluster_{name}");
        ConstGauge::new(value).encode(self.0.encode_descriptor(&name, help, None, MetricType::Gauge)?)
    }

    fn node(&mut self, node: &Node) -> fmt::Result {
        if let Some(measure) = node.measure() {
            self.gauge("epoch", "Number of the catalog that the node reads", measure.epoch.0)?;
            self.gauge("term", "Term of the coordinator that published it", measure.term.0)?;
            self.gauge("coordinates", "Whether the node coordinates", u64::from(measure.coordinates))?;
            self.gauge("replicas", "Replicas of fragments on the node", measure.replicas)?;
            self.gauge("replicas_behind", "Replicas on the node not in sync", measure.replicas_behind)?;
        }
        let served = node.served.counts().into_iter();
        let served = served.map(|(kind, count)| (vec![("request", kind)], ConstCounter::new(count)));
        self.all("served", "Requests of other nodes", None, MetricType::Counter, served.collect())
    }

    fn peers(&mut self, peers: &[PeerMeasure]) -> fmt::Result {
        self.counts("peer_requests", "Requests to another node", peers, |peer| peer.requests)?;
        let failures = peers.iter().flat_map(|peer| {
            [("unreachable", peer.unreachable), ("other", peer.failed)].map(|(reason, count)| {
                (vec![("peer", peer.peer.as_str()), ("reason", reason)], ConstCounter::new(count))
            })
        });
        let help = "Requests to another node that failed";
        self.all("peer_failures", help, None, MetricType::Counter, failures.collect())?;
        let help = "Bytes of frames sent to another node, before TLS";
        self.counts("peer_bytes_sent", help, peers, |peer| peer.bytes_sent)?;
        let help = "Bytes of frames received from another node, before TLS";
        self.counts("peer_bytes_received", help, peers, |peer| peer.bytes_received)?;
        self.counts("peer_rows_received", "Rows from another node", peers, |peer| peer.rows_received)?;
        let waits = peers.iter().map(|peer| (of(peer), ConstCounter::new(peer.waited.as_secs_f64())));
        let help = "Time that threads have waited for another node";
        self.all("peer_wait", help, Some(&Unit::Seconds), MetricType::Counter, waits.collect())?;
        let idle = peers.iter().map(|peer| (of(peer), ConstGauge::new(peer.idle_connections)));
        let help = "Open connections to another node that wait for a request";
        self.all("peer_idle_connections", help, None, MetricType::Gauge, idle.collect())?;
        let reachable = peers.iter().filter_map(|peer| {
            peer.reachable.map(|reachable| (of(peer), ConstGauge::new(u64::from(reachable))))
        });
        let help = "Whether another node could be reached the last time";
        self.all("peer_reachable", help, None, MetricType::Gauge, reachable.collect())
    }

    fn counts(
        &mut self,
        name: &str,
        help: &str,
        peers: &[PeerMeasure],
        count: fn(&PeerMeasure) -> u64,
    ) -> fmt::Result {
        let counts = peers.iter().map(|peer| (of(peer), ConstCounter::new(count(peer))));
        self.all(name, help, None, MetricType::Counter, counts.collect())
    }
}

/// Returns the label of a node.
fn of(peer: &PeerMeasure) -> Vec<(&'static str, &str)> {
    vec![("peer", &peer.peer)]
}
