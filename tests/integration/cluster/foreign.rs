//! A database at a node's address that is not that node: nothing is asked of it, and it answers nothing.

use super::{Cluster, backup, on_each};
use crate::served::{Served, Setup};
use crate::server::{certificate, client_certificate, users};
use crate::tpch::sorted_rows;
use arrow::record_batch::RecordBatchReader;
use hypostyle::cluster::Member;
use hypostyle::cluster::backup::Backup;
use hypostyle::cluster::message::{self, Addressed, Piece, Reply, Request, StoreDifference, Task};
use hypostyle::cluster::node::Node;
use hypostyle::cluster::peers::Peers;
use hypostyle::node::{self, Calls, Session};
use hypostyle::{Database, ErrorKind, OpenOptions, Result};
use hypostyle_node::{Certificates, RemotePeers};
use hypostyle_placement::append::{self, Source};
use hypostyle_placement::catalog::{Catalog, NodeState};
use hypostyle_placement::term::{Ask, Stored};
use hypostyle_placement::{Epoch, Life, NodeId, StatementId, Term, Token};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

const READ: &str = "SELECT count(*), sum(v), min(v), max(v) FROM ev";

fn fill(cluster: &Cluster, value: i64) {
    let coordinator = cluster.on(0);
    coordinator
        .execute("CREATE TABLE ev (id BIGINT, v BIGINT) PARTITION BY HASH (id) INTO 6 FRAGMENTS REPLICAS 2")
        .unwrap();
    coordinator
        .execute(&format!("INSERT INTO ev SELECT x, {value} FROM generate_series(1, 600) AS r (x)"))
        .unwrap();
}

/// Returns each request that there is, for a replica of a fragment.
fn requests(catalog: &Catalog, node: NodeId, directory: &str) -> Vec<Request> {
    let table = &catalog.tables[0];
    let (fragment, replica) =
        table.numbered().find_map(|(id, entry)| Some((id, entry.replica(node)?))).unwrap();
    let piece = Piece::of(table, fragment, replica);
    let (term, epoch, owner) = (Term(catalog.term.0 + 50), catalog.epoch, catalog.coordinator);
    let stored = Stored { term, epoch: Epoch(epoch.0 + 50), content: catalog.clone() };
    let told =
        StoreDifference::between(owner, &Stored { term: catalog.term, epoch, ..stored.clone() }, &stored);
    let append = append::Request {
        term,
        fragment,
        node,
        life: Life(replica.life.0 + 50),
        token: Token(99),
        base: 0,
        rows: 0,
        deletes: 0,
        source: Source::Statement(StatementId(Uuid::new_v4())),
    };
    let task = Task {
        plan: Vec::new(),
        epoch,
        parts: vec![vec![piece]],
        replicated: Vec::new(),
        settings: Vec::new(),
    };
    let (id, directory) = (Uuid::new_v4(), directory.to_string());
    vec![
        Request::Identify,
        Request::Missed(owner),
        Request::TakeOver,
        Request::Drain,
        Request::Ask(Box::new(Ask::Promise { term, owner, known: None })),
        Request::Ask(Box::new(Ask::Store { owner, stored })),
        Request::Store(Box::new(told.unwrap())),
        Request::Ask(Box::new(Ask::Publish { term: catalog.term, epoch })),
        Request::Catalog { after: Epoch(0) },
        Request::Append { request: append, altered: Epoch(0) },
        Request::AppendAll { requests: vec![append], altered: Epoch(0) },
        Request::Update { requests: vec![append], altered: Epoch(0), columns: vec![0] },
        Request::Read { piece, first: 0 },
        Request::Have(vec![piece]),
        Request::Weigh { table: None },
        Request::Run(Box::new(task)),
        Request::Backup(Backup::Prepare { directory: directory.clone() }),
        Request::Backup(Backup::Keep { id, term: catalog.term, epoch }),
        Request::Backup(Backup::Write { id, directory }),
        Request::Backup(Backup::Forget { id }),
    ]
}

/// Puts a node in the place of the second node of a cluster, which has 600 rows of 1.
fn check_replaced(cluster: &Cluster, other: &Arc<Node>, what: &str) {
    let place = |node: &Arc<Node>| {
        cluster.wires.nodes.lock().unwrap().insert("h2:1".into(), Arc::downgrade(node));
    };
    place(other);
    let catalog = cluster.nodes[0].catalog().unwrap();
    let second = cluster.nodes[1].id();
    let member = catalog.node(second).unwrap().clone();
    let known = |node: &Node| node.catalog().map(|catalog| (catalog.cluster, catalog.epoch, catalog.term));
    let (before, tables) = (known(other), other.database().snapshot().unwrap().version());
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().join("backup").display().to_string();
    for request in requests(&catalog, second, &directory) {
        let asked = Addressed::new(catalog.cluster, &member, request);
        let text = format!("{what}: {asked:?}");
        let error = other.answer(asked, None).err().unwrap_or_else(|| panic!("{text}"));
        assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Conflict, "55000"), "{text}: {error}");
    }
    assert_eq!(known(other), before, "{what}");
    assert_eq!(other.database().snapshot().unwrap().version(), tables, "{what}: it has written something");
    for node in [0, 2] {
        let connection = cluster.on(node);
        for _ in 0..3 {
            assert_eq!(sorted_rows(&connection, READ).unwrap(), ["600|600|1|1"], "{what}, node {node}");
        }
    }
    // Writes go to the other replicas.
    let coordinator = cluster.on(0);
    coordinator.execute("INSERT INTO ev SELECT x, 1 FROM generate_series(601, 660) AS r (x)").unwrap();
    coordinator.execute("DELETE FROM ev WHERE id > 600").unwrap();
    for node in [0, 2] {
        assert_eq!(sorted_rows(&cluster.on(node), READ).unwrap(), ["600|600|1|1"], "{what}, node {node}");
    }
    cluster.nodes[0].look_after();
    let health = cluster.nodes[0].health().remove(&second).unwrap();
    assert!(health.problem.is_some(), "{what}: nobody is told");
    place(&cluster.nodes[1]);
    cluster.nodes[0].look_after();
    cluster.nodes[0].look_after();
    assert_eq!(on_each(cluster, READ), vec![vec!["600|600|1|1"]; 3], "{what}");
}

#[test]
fn nobody_is_believed_for_an_address() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = backup::new_on_disk(directory.path());
    let foreign = Cluster::new(3);
    fill(&cluster, 1);
    fill(&foreign, 1000);
    // Its terms are higher.
    for _ in 0..3 {
        foreign.nodes[0].promote().unwrap();
    }
    check_replaced(&cluster, &foreign.nodes[1], "a node of another cluster");
    assert_eq!(on_each(&foreign, READ), vec![vec!["600|600000|1000|1000"]; 3]);
    check_replaced(&cluster, &cluster.nodes[2], "another node of the cluster");
    let copied = directory.path().join("copied");
    cluster.on(2).execute(&format!("BACKUP DATABASE TO '{}'", copied.display())).unwrap();
    let options = || OpenOptions { threads: Some(2), ..OpenOptions::default() };
    let copy = Database::open(&copied, options()).unwrap();
    let copy = copy.join_cluster("n2", "h2:1", cluster.wires.clone()).unwrap();
    check_replaced(&cluster, &copy, "a copy of another node");
    let new = Database::in_memory(options()).unwrap();
    let new = new.join_cluster("n2", "h2:1", cluster.wires.clone()).unwrap();
    check_replaced_by_new(&cluster, &new);
}

/// One that is no part of a cluster, and could be added to one under an identity of its own.
fn check_replaced_by_new(cluster: &Cluster, new: &Arc<Node>) {
    check_replaced(cluster, new, "a new database");
    let catalog = cluster.nodes[0].catalog().unwrap();
    let member = Member { id: new.id(), ..catalog.nodes[1].clone() };
    let is_about_catalogs = |request: &Request| matches!(request, Request::Identify | Request::Ask(_));
    let requests = requests(&catalog, cluster.nodes[1].id(), "").into_iter();
    for request in requests.filter(|request| !is_about_catalogs(request)) {
        let error = new.answer(Addressed::new(catalog.cluster, &member, request), None).err().unwrap();
        assert_eq!(error.sqlstate(), "55000", "{error}");
        assert!(error.message().contains("not part of a cluster yet"), "{error}");
    }
}

/// Says that it is some node, whoever asks for whom.
struct Liar {
    identity: Reply,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Calls for Liar {
    fn call(
        &self,
        _: &Session,
        request: &[u8],
        _: Option<Box<dyn RecordBatchReader + Send>>,
    ) -> Result<node::CallAnswer> {
        let request = message::decode_addressed(request)?.request;
        let done = Reply::BackedUp;
        let reply = if matches!(request, Request::Identify) { &self.identity } else { &done };
        let answer = message::encode(reply).map(node::CallAnswer::Reply);
        self.asked.lock().unwrap().push(request);
        answer
    }
}

#[test]
fn who_asks_looks_who_answers() {
    let (cluster, own) = (Uuid::new_v4(), NodeId(Uuid::new_v4()));
    let other = Uuid::new_v4();
    for (says, cluster_of, is_meant) in [
        (own, Some(cluster), true),
        (own, None, true),
        (own, Some(other), false),
        (NodeId(other), Some(cluster), false),
    ] {
        let asked = Arc::<Mutex<Vec<Request>>>::default();
        let (epoch, term) = (Epoch(1), Term(1));
        let identity = Reply::Identity {
            node: says,
            cluster: cluster_of,
            epoch,
            term,
            promised: term,
            stored: None,
            run: None,
            clients: None,
        };
        let served = Served::new(Setup { users: Some(users()), ..Setup::default() });
        served.database.set_calls(Arc::new(Liar { identity, asked: asked.clone() })).unwrap();
        let peers = RemotePeers::new("node", Some("n".into()), None);
        let (name, address) = ("n2".to_string(), served.tcp.to_string());
        let member = Member { id: own, name, address, state: NodeState::Active };
        let request = || Addressed::new(cluster, &member, Request::Backup(Backup::Forget { id: other }));
        for _ in 0..2 {
            let answer = peers.call(&member, &request(), None);
            match answer {
                Ok(_) => assert!(is_meant),
                Err(error) => assert_eq!((error.sqlstate(), is_meant), ("55000", false), "{error}"),
            }
        }
        let asked = asked.lock().unwrap();
        let others = asked.iter().filter(|request| !matches!(request, Request::Identify)).count();
        // A connection that is used again leads to whom it has led.
        assert_eq!((others, asked.len()), if is_meant { (2, 3) } else { (0, 2) }, "{asked:?}");
    }
}

#[test]
fn a_node_that_does_not_say_whom_it_means_gets_no_answer() {
    let (served, nodes) = super::metrics::nodes(1);
    let connection = served[0].connect(&format!("hypostyle://node:n@{}/", served[0].tcp), true).unwrap();
    let read = r#"{"read":{"piece":{"fragment":{"table":1,"number":0},"positions":0,"rows":0,"altered":0},"first":0}}"#;
    for request in [r#""identify""#, read] {
        let error = connection.call(request.as_bytes(), None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Version, "{error}");
        assert!(error.message().contains("upgrade all nodes"), "{error}");
    }
    let error = connection.call(b"[]", None).err().unwrap();
    assert_eq!(error.sqlstate(), "08P01", "{error}");
    let asked = Addressed::to_anybody(Uuid::new_v4());
    connection.call(&message::encode(&asked).unwrap(), None).map(drop).unwrap();
    assert!(nodes[0].catalog().is_some());
}

#[test]
fn nodes_show_the_certificates_that_they_have_to() {
    let (authority, own, key) = client_certificate();
    let directory = tempfile::tempdir().unwrap();
    let [own, key] = [("own.crt", own), ("own.key", key)].map(|(name, text)| {
        std::fs::write(directory.path().join(name), text).unwrap();
        directory.path().join(name)
    });
    for (password, suffices) in [(None, false), (Some("secret"), false), (Some("secret"), true)] {
        let served = Served::new(Setup {
            certificate: Some(certificate()),
            node_authority: Some(authority.clone()),
            users: Some(users()),
            ..Setup::default()
        });
        if let Some(password) = password {
            served.admit_nodes(&[password, "before"], suffices);
        }
        let address = served.tcp.to_string();
        let nobody = Arc::new(RemotePeers::new("cluster", None, None));
        let node = served.database.join_cluster("n1", &address, nobody).unwrap();
        let member = Member { id: node.id(), name: "n1".into(), address, state: NodeState::Active };
        let of_server = |name: &str| served.directory.path().join(name);
        let ask = |password: Option<&str>, certificate, key| {
            let files = Certificates { certificate, key, authorities: of_server("server.crt") };
            let peers = RemotePeers::new("cluster", password.map(String::from), Some(files));
            peers.call(&member, &Addressed::to_anybody(Uuid::new_v4()), None).map(drop)
        };
        ask(password, own.clone(), key.clone()).unwrap();
        // One that others have signed, and a password that nobody has.
        for password in [password, None] {
            ask(password, of_server("server.crt"), of_server("server.key")).unwrap_err();
        }
        if password.is_some() {
            ask(Some("before"), own.clone(), key.clone()).unwrap();
            ask(Some("other"), own.clone(), key.clone()).unwrap_err();
            // One that has no password yet, or has given it up.
            assert_eq!(ask(None, own.clone(), key.clone()).is_ok(), suffices);
        }
        // Another node has a password, and this one may have none.
        let files =
            Certificates { certificate: own.clone(), key: key.clone(), authorities: of_server("server.crt") };
        for by_certificate in [false, true] {
            let peers = RemotePeers::new("cluster", Some("secret".into()), Some(files.clone()));
            let peers = peers.by_certificate(by_certificate);
            let answer = peers.call(&member, &Addressed::to_anybody(Uuid::new_v4()), None);
            assert_eq!(answer.is_ok(), password.is_some() || by_certificate);
        }
        let connect = |user: &str| {
            let authorities = of_server("server.crt");
            let address = format!("hypostyle://{user}@{}/?tls_ca={}", served.tcp, authorities.display());
            served.connect(&address, true)
        };
        // Who is no node shows none, or the one that he has for other servers.
        assert_eq!(sorted_rows(&connect("rita:r").unwrap(), "SELECT 1").unwrap(), ["1"]);
        let [authorities, certificate, key] =
            ["server.crt", "server.crt", "server.key"].map(|name| of_server(name).display().to_string());
        let shown = format!("?tls_ca={authorities}&tls_cert={certificate}&tls_key={key}");
        let shows = served.connect(&format!("hypostyle://rita:r@{}/{shown}", served.tcp), true).unwrap();
        assert_eq!(sorted_rows(&shows, "SELECT 1").unwrap(), ["1"]);
        let error = connect("node:n").err().unwrap();
        assert_eq!(error.sqlstate(), "28000", "{error}");
        assert!(error.message().contains("have to show certificates"), "{error}");
        if let Some(password) = password {
            assert_eq!(connect(&format!("cluster:{password}")).err().unwrap().sqlstate(), "28000");
        }
    }
}
