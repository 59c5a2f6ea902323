//! A cluster of nodes in one process: the same rows as from one database, whatever is where.

use crate::tpch::sorted_rows;
use arrow::record_batch::RecordBatchIterator;
use hypostyle::cluster::message::{self, Request};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::{Answer, Peers, RowReader};
use hypostyle::{AppendOptions, Connection, Database, Error, ErrorKind, OpenOptions, Result, tpch};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

/// Connections between the nodes of one process.
#[derive(Default)]
struct Wires {
    nodes: Mutex<HashMap<String, Weak<Node>>>,
    /// Nodes that nobody reaches.
    cut: Mutex<HashSet<String>>,
}

impl Peers for Wires {
    fn call(
        &self,
        node: &hypostyle::cluster::Member,
        request: &Request,
        rows: Option<RowReader>,
    ) -> Result<Answer> {
        let unreachable = || Error::new(ErrorKind::Connection, format!("{} is not there", node.address));
        if self.cut.lock().unwrap().contains(&node.address) {
            return Err(unreachable());
        }
        let peer = self.nodes.lock().unwrap().get(&node.address).and_then(Weak::upgrade).ok_or_else(unreachable)?;
        let request = message::decode(&message::encode(request)?)?;
        Ok(match peer.serve(request, rows)? {
            Answer::Reply(reply) => Answer::Reply(message::decode(&message::encode(&reply)?)?),
            rows => rows,
        })
    }
}

/// Nodes of one process.
struct Cluster {
    wires: Arc<Wires>,
    databases: Vec<Database>,
    nodes: Vec<Arc<Node>>,
}

impl Cluster {
    fn new(count: usize) -> Self {
        let wires = Arc::new(Wires::default());
        let (mut databases, mut nodes) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let database = Database::in_memory(OpenOptions { threads: Some(2), ..OpenOptions::default() }).unwrap();
            let address = format!("h{number}:1");
            let node = database.join_cluster(&format!("n{number}"), &address, wires.clone()).unwrap();
            wires.nodes.lock().unwrap().insert(address, Arc::downgrade(&node));
            databases.push(database);
            nodes.push(node);
        }
        nodes[0].found_cluster().unwrap();
        let cluster = Self { wires, databases, nodes };
        for number in 2..=count {
            cluster.on(0).execute(&format!("ALTER CLUSTER ADD NODE n{number} ADDRESS 'h{number}:1'")).unwrap();
        }
        cluster
    }

    fn on(&self, node: usize) -> Connection {
        self.databases[node].connect().unwrap()
    }

    fn cut(&self, node: usize) {
        self.wires.cut.lock().unwrap().insert(self.nodes[node].address().into());
    }

    fn mend(&self, node: usize) {
        self.wires.cut.lock().unwrap().remove(self.nodes[node].address());
    }
}

/// Copies the rows of a table.
fn copy(from: &Connection, to: &Connection, table: &str) {
    let batches = from.execute(&format!("SELECT * FROM {table}")).unwrap().record_batches().unwrap();
    let schema = batches[0].schema();
    let data = Box::new(RecordBatchIterator::new(batches.into_iter().map(Ok), schema));
    to.append(table, data, AppendOptions::default()).unwrap();
}

/// Makes a table of the cluster with the columns of one that is not.
fn like(from: &Connection, to: &Connection, table: &str, distribution: &str) {
    let columns = from.execute(&format!("SELECT * FROM {table} LIMIT 0")).unwrap();
    let columns = columns.columns().iter().map(|column| format!("{} {}", column.name, column.logical_type));
    let columns = columns.collect::<Vec<_>>().join(", ");
    to.execute(&format!("CREATE TABLE {table} ({columns}) {distribution}")).unwrap();
    copy(from, to, table);
}

#[test]
fn the_star_schema_has_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL ssb_generate(sf => 0.02)").unwrap();
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    for table in ["date", "supplier", "customer", "part"] {
        like(&one, &coordinator, table, "REPLICATED");
    }
    like(&one, &coordinator, "lineorder", "PARTITION BY HASH (lo_orderkey) INTO 6 FRAGMENTS REPLICAS 2");
    let check = |node: usize| {
        let connection = cluster.on(node);
        for (name, sql) in tpch::ssb::QUERIES {
            assert_eq!(sorted_rows(&connection, sql).unwrap(), sorted_rows(&one, sql).unwrap(), "{name} on node {}", node + 1);
        }
    };
    (0..3).for_each(check);
    cluster.cut(1);
    check(0);
    check(2);
    cluster.mend(1);
    cluster.nodes[0].look_after();
    check(1);
}

#[test]
fn all_of_tpch_has_the_rows_of_one_node() {
    let one = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    one.execute("CALL tpch_generate(sf => 0.01)").unwrap();
    let cluster = Cluster::new(3);
    let coordinator = cluster.on(0);
    for table in ["region", "nation", "supplier", "customer"] {
        like(&one, &coordinator, table, "REPLICATED");
    }
    like(&one, &coordinator, "part", "PARTITION BY ROUND ROBIN INTO 5 FRAGMENTS");
    like(&one, &coordinator, "partsupp", "PARTITION BY RANGE (ps_suppkey) (VALUES LESS THAN (10), VALUES LESS THAN (11), VALUES LESS THAN (MAXVALUE)) REPLICAS 3");
    like(&one, &coordinator, "orders", "PARTITION BY HASH (o_orderkey) INTO 7 FRAGMENTS REPLICAS 2");
    like(&one, &coordinator, "lineitem", "PARTITION BY HASH (l_orderkey) INTO 7 FRAGMENTS REPLICAS 2");
    for node in 0..3 {
        let connection = cluster.on(node);
        for number in 1..=22 {
            let sql = tpch::query(number).unwrap();
            let found = sorted_rows(&connection, sql);
            assert_eq!(found.as_ref().map_err(Error::message), sorted_rows(&one, sql).as_ref().map_err(Error::message), "query {number} on node {}", node + 1);
        }
    }
}
