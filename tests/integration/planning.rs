//! Statements of one client that take long to plan do not affect others. Each ends within a second
//! of being asked to, by any means, and queries of others run meanwhile.

use crate::backup::rows;
use crate::pgwire::{Client, shown};
use crate::served::{Served, until};
use hypostyle::{Connection, ErrorKind, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const TABLES: &str = "CREATE TABLE t (i INT NOT NULL, a INT, ts TIMESTAMP); INSERT INTO t VALUES (1, 1, '2020-01-01'), (2, 2, NULL);
    CREATE TABLE nn (k INT, wh INT NOT NULL); CREATE TABLE ids (id INT NOT NULL); CREATE TABLE ev (id INT NOT NULL, wh INT NOT NULL)";

/// A query that is too large to be planned by its caller.
const LARGER: &str = "SELECT count(*) FROM t x JOIN t y ON x.i = y.i";

/// The limit for operations that end at once, on a machine that has other work.
const SOON: Duration = Duration::from_secs(20);

/// Returns statements that take, or once took, long to plan.
fn statements() -> Vec<String> {
    let nested = |open: &str, close: &str, count: usize| {
        format!("SELECT {}1{}", open.repeat(count), close.repeat(count))
    };
    let row = |term: &str, operator: &str, count: usize| {
        format!("SELECT {} FROM t", vec![term; count].join(operator))
    };
    vec![
        "SELECT ids.id, EXISTS (SELECT 1 FROM ev WHERE n.wh <> ev.wh) FROM ids, LATERAL (SELECT (SELECT nn.wh FROM nn \
         WHERE nn.k = ids.id) AS wh) n"
            .into(),
        row("a", " + ", 1900),
        row("a", " - 1 * ", 900),
        row("i::TEXT", " || ", 600),
        format!("SELECT ts{} FROM t", " + INTERVAL '1 day'".repeat(390)),
        format!("SELECT ts{} FROM t", " + INTERVAL '1 day'".repeat(900)),
        format!("SELECT a = 1{} FROM t", " = true".repeat(390)),
        nested("(1 + ", ")", 900),
        nested("(SELECT ", ")", 32),
        nested("(SELECT max(i) + ", " FROM t)", 32),
        nested("(SELECT max(a) FROM t WHERE i = ", ")", 32),
        nested("(SELECT a FROM t WHERE i NOT IN (SELECT i + ", " FROM t) LIMIT 1)", 15),
        nested("(", ")", 1000),
        nested("(SELECT ", ")", 200),
        vec!["SELECT i, a FROM t"; 500].join(" UNION ALL "),
        vec!["SELECT i, a FROM t WHERE i IN (SELECT a FROM t)"; 200].join(" EXCEPT "),
    ]
}

/// Checks that other queries run while a client runs its statements, each of which is asked to end
/// by `ask`.
fn others_go_on(served: &Served, run: impl FnOnce()) {
    let ended = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..2)
        .map(|_| {
            let (connection, ended) = (served.connect_tcp().unwrap(), ended.clone());
            std::thread::spawn(move || {
                let mut count = 0;
                while count == 0 || !ended.load(Ordering::Relaxed) {
                    let started = Instant::now();
                    assert!(rows(&connection, "SELECT i FROM t WHERE i = 1").contains("| 1 "));
                    assert!(started.elapsed() < SOON, "a small query took {:?}", started.elapsed());
                    count += 1;
                }
            })
        })
        .collect();
    run();
    ended.store(true, Ordering::Relaxed);
    others.into_iter().for_each(|other| other.join().unwrap());
}

/// Checks that abandoned plans end: there is room for more plans of the same user.
fn is_free(connection: &Connection) {
    until("plans that were given up do not end", || match connection.execute(LARGER) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.sqlstate(), "53000");
            false
        }
    });
}

#[test]
fn what_takes_long_to_plan_ends_when_it_is_asked_to() {
    let served = Served::in_memory();
    let connection = served.connect_tcp().unwrap();
    connection.execute(TABLES).unwrap();
    others_go_on(&served, || {
        for sql in statements() {
            let asked = Arc::new(AtomicBool::new(false));
            let ask = asked.clone();
            connection.set_poll(Some(Arc::new(move |progress| match progress.elapsed.as_millis() > 200 {
                true => {
                    ask.store(true, Ordering::Relaxed);
                    Poll::Interrupt
                }
                false => Poll::Continue,
            })));
            let started = Instant::now();
            let answer = connection.execute(&sql).and_then(|result| result.row_count());
            assert!(started.elapsed() < SOON, "{} took {:?}", &sql[..60], started.elapsed());
            if let Err(error) = answer {
                let is_refused = matches!(error.sqlstate(), "54001" | "22003" | "0A000" | "42883");
                let is_interrupted = error.kind() == ErrorKind::Interrupted && asked.load(Ordering::Relaxed);
                assert!(is_refused || is_interrupted, "{error}: {}", &sql[..60]);
            }
            connection.set_poll(None);
            is_free(&connection);
        }
    });
}

#[test]
fn what_takes_long_to_plan_ends_by_a_timeout_of_postgres() {
    let served = Served::in_memory();
    served.database.connect().unwrap().execute(TABLES).unwrap();
    let mut client = Client::new(&served);
    client.query("SET statement_timeout = '200ms'");
    others_go_on(&served, || {
        for sql in statements() {
            let started = Instant::now();
            let answer = shown(&client.query(&sql));
            assert!(started.elapsed() < SOON, "{} took {:?}", &sql[..60], started.elapsed());
            let known = ["E57014", "E54001", "E22003", "E0A000", "E42883", "SELECT"];
            assert!(known.iter().any(|known| answer.contains(known)), "{answer}: {}", &sql[..60]);
        }
    });
    is_free(&served.database.connect().unwrap());
}

#[test]
fn what_takes_long_to_plan_ends_with_its_client_and_by_kill() {
    let served = Served::in_memory();
    let own = served.connect_tcp().unwrap();
    own.execute(TABLES).unwrap();
    others_go_on(&served, || {
        for sql in statements() {
            let victim = served.connect_tcp().unwrap();
            let id = victim.id();
            let running = std::thread::spawn(move || {
                let started = Instant::now();
                let _answer = victim.execute(&sql).and_then(|result| result.row_count());
                started.elapsed()
            });
            std::thread::sleep(Duration::from_millis(100));
            // A client that has its answer by then, and is gone, cannot be killed.
            let _gone = own.execute(&format!("KILL {id}"));
            assert!(running.join().unwrap() < SOON);
        }
    });
    for sql in statements() {
        let mut client = Client::new(&served);
        client.begin(&sql);
    }
    until("sessions of clients that are gone go on", || served.sessions() <= 1);
    is_free(&served.database.connect().unwrap());
}
