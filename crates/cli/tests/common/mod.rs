//! What the tests of several files share.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports from here on are tried. The system gives connections others, which begin at 32768: one of these
/// could be taken by a client before the server of a test listens there.
const FIRST: u16 = 20_000;

/// How many there are.
const COUNT: u16 = 12_000;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// Returns listeners at ports that follow each other. The ports are free once these are dropped.
pub fn ports(count: u16) -> Vec<TcpListener> {
    // Test processes that run at the same time begin at different places.
    let own = std::process::id() as u16 % 100 * 120;
    loop {
        let first = FIRST + own.wrapping_add(NEXT.fetch_add(count, Ordering::Relaxed)) % COUNT;
        let listeners: Vec<TcpListener> =
            (first..first + count).map_while(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
        if listeners.len() == usize::from(count) {
            return listeners;
        }
    }
}
