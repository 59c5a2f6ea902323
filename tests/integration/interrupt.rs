//! Interrupts and the poll hook.

use hypostyle::{Database, ErrorKind, OpenOptions, Poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LONG: &str =
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE a + b = 3";

#[test]
fn an_interrupt_stops_the_query_and_the_connection_goes_on() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let other = connection.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        other.interrupt();
    });
    let result = connection.execute(LONG).and_then(|result| result.row_count());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
    thread.join().unwrap();
    assert_eq!(connection.execute("SELECT 1").unwrap().row_count().unwrap(), 1);
}

#[test]
fn the_poll_hook_runs_while_waiting_and_may_interrupt() {
    let connection = Database::in_memory(OpenOptions::default()).unwrap().connect().unwrap();
    let polls = Arc::new(AtomicU64::new(0));
    let counted = polls.clone();
    connection.set_poll(Some(Arc::new(move |_| {
        if counted.fetch_add(1, Ordering::Relaxed) < 3 { Poll::Continue } else { Poll::Interrupt }
    })));
    let result = connection.execute(LONG).and_then(|result| result.row_count());
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(polls.load(Ordering::Relaxed) >= 4);
}
