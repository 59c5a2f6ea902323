//! Connections that have not said who they are: few, of one peer and of all together, and the
//! oldest goes when there are too many.

use hypostyle_sync::Mutex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::Notify;

/// The most at a time and for each protocol, beside those that have said who they are: also of
/// clients who come back to their session.
const ARRIVING_MAX: usize = 256;

/// Those of one peer, so that there is room for others.
const ARRIVING_OF_PEER_MAX: usize = 192;

/// Given up, and not gone yet.
const GIVEN_UP_MAX: usize = 256;

/// Bits of an IPv6 address that one owner has at least to himself.
const NETWORK_BITS: u32 = 64;

/// Who is counted together: a machine, or a network of somebody who may choose among addresses; a
/// user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    Address(IpAddr),
    User(Option<u32>),
}

impl Peer {
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !(u128::MAX >> NETWORK_BITS)))
            }
            other => other,
        })
    }
}

/// Connections that have not said who they are, the oldest first.
#[derive(Default)]
pub(crate) struct Arrivals(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    last: u64,
    connections: Vec<(u64, Peer, Arc<GivenUp>)>,
    given_up: usize,
}

#[derive(Default)]
struct GivenUp {
    is_so: AtomicBool,
    signal: Notify,
}

impl Arrivals {
    /// One more, for which another one may be given up; `None` when too many of those are not gone yet.
    pub fn begin(&self, peer: Peer) -> Option<Arrival> {
        let mut waiting = self.0.lock();
        if waiting.given_up >= GIVEN_UP_MAX {
            return None;
        }
        let of_peer = waiting.connections.iter().filter(|(_, other, _)| *other == peer).count();
        if of_peer >= ARRIVING_OF_PEER_MAX {
            waiting.give_up(peer);
        } else if waiting.connections.len() >= ARRIVING_MAX
            && let Some(most) = waiting.peer_with_most()
        {
            waiting.give_up(most);
        }
        waiting.last += 1;
        let (number, given_up) = (waiting.last, Arc::<GivenUp>::default());
        waiting.connections.push((number, peer, given_up.clone()));
        drop(waiting);
        Some(Arrival { arrivals: self.0.clone(), number, peer, given_up })
    }
}

impl Waiting {
    fn peer_with_most(&self) -> Option<Peer> {
        let mut counts: HashMap<Peer, usize> = HashMap::new();
        for (_, peer, _) in &self.connections {
            *counts.entry(*peer).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(peer, _)| peer)
    }

    /// Has the oldest of a peer end.
    fn give_up(&mut self, peer: Peer) {
        let Some(oldest) = self.connections.iter().position(|(_, other, _)| *other == peer) else { return };
        let (_, _, given_up) = self.connections.remove(oldest);
        given_up.is_so.store(true, Ordering::Release);
        given_up.signal.notify_one();
        self.given_up += 1;
    }
}

/// Given back when the connection has said who it is, or is gone.
pub(crate) struct Arrival {
    arrivals: Arc<Mutex<Waiting>>,
    number: u64,
    pub peer: Peer,
    given_up: Arc<GivenUp>,
}

impl Arrival {
    /// Whether it has to go, because others have come since.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_so.load(Ordering::Acquire)
    }

    /// Waits for that.
    pub async fn given_up(&self) {
        while !self.is_given_up() {
            self.given_up.signal.notified().await;
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut waiting = self.arrivals.lock();
        match waiting.connections.iter().position(|(number, ..)| *number == self.number) {
            Some(place) => drop(waiting.connections.remove(place)),
            None => waiting.given_up -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(number: u32) -> Peer {
        Peer::of_address(Ipv4Addr::from_bits(number).into())
    }

    #[test]
    fn one_peer_does_not_keep_others_out() {
        let arrivals = Arrivals::default();
        let mut silent: Vec<_> = (0..300).map(|_| arrivals.begin(peer(1)).unwrap()).collect();
        let gone = silent.iter().take_while(|arrival| arrival.is_given_up()).count();
        assert_eq!(gone, 300 - ARRIVING_OF_PEER_MAX);
        silent.retain(|arrival| !arrival.is_given_up());
        let others: Vec<_> =
            (2..ARRIVING_MAX as u32).map(|number| arrivals.begin(peer(number)).unwrap()).collect();
        assert!(others.iter().all(|arrival| !arrival.is_given_up()));
        assert!(silent.iter().filter(|arrival| !arrival.is_given_up()).count() < ARRIVING_OF_PEER_MAX);
        // Those that do not go keep new ones out, and no more than that.
        while let Some(arrival) = arrivals.begin(peer(1)) {
            silent.push(arrival);
            assert!(silent.len() < 1000);
        }
        drop(silent);
        assert!(arrivals.begin(peer(1)).is_some());
        drop(others);
        let waiting = arrivals.0.lock();
        assert_eq!((waiting.connections.len(), waiting.given_up), (0, 0));
    }

    #[test]
    fn a_network_is_one_peer() {
        let of = |text: &str| Peer::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
