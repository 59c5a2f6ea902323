//! What is between the nodes of a cluster: each node is reached by the others at a proxy, which forwards
//! what is sent, holds it back as if it were lost, or resets connections.

use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// How often somebody who waits looks whether a link is there again.
const INTERVAL: Duration = Duration::from_millis(10);

/// The links between nodes. Clients that are no nodes do not use them.
pub struct Links {
    network: Arc<Network>,
    proxies: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

struct Network {
    /// The processes of the nodes, by which the one that connects is known.
    processes: Vec<AtomicU32>,
    /// Where the nodes listen.
    nodes: Vec<SocketAddr>,
    /// Whether bytes of one node to another one are lost.
    silent: Vec<Vec<AtomicBool>>,
    /// Whether connections between two nodes are reset.
    down: Vec<Vec<AtomicBool>>,
    pairs: Mutex<Vec<Arc<Pair>>>,
    is_over: AtomicBool,
}

/// A connection of one node to another one: its two halves before and behind the proxy.
struct Pair {
    from: usize,
    to: usize,
    before: TcpStream,
    behind: TcpStream,
    is_reset: AtomicBool,
}

impl Links {
    /// Forwards from listeners to nodes.
    pub fn start(proxies: Vec<TcpListener>, nodes: Vec<SocketAddr>) -> Self {
        let flags = || nodes.iter().map(|_| nodes.iter().map(|_| AtomicBool::new(false)).collect()).collect();
        let network = Arc::new(Network {
            processes: nodes.iter().map(|_| AtomicU32::new(0)).collect(),
            silent: flags(),
            down: flags(),
            nodes,
            pairs: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let addresses = proxies.iter().map(|proxy| proxy.local_addr().unwrap()).collect();
        let serve = |(node, proxy)| {
            let network = network.clone();
            spawn(move || network.serve(node, &proxy))
        };
        let threads = proxies.into_iter().enumerate().map(serve).collect();
        Self { network, proxies: addresses, threads }
    }

    /// Says which process a node is.
    pub fn know(&self, node: usize, process: u32) {
        self.network.processes[node].store(process, Ordering::SeqCst);
    }

    /// Loses all that one node sends to another one, the first packets of new connections among it, until
    /// it is told otherwise.
    pub fn lose(&self, from: usize, to: usize, is_lost: bool) {
        self.network.silent[from][to].store(is_lost, Ordering::SeqCst);
    }

    /// Resets the connections between two nodes, and new ones until it is told otherwise.
    pub fn cut(&self, one: usize, other: usize, is_cut: bool) {
        self.network.down[one][other].store(is_cut, Ordering::SeqCst);
        self.network.down[other][one].store(is_cut, Ordering::SeqCst);
        if is_cut {
            self.network.reset(|pair| [(one, other), (other, one)].contains(&(pair.from, pair.to)));
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.network.is_over.store(true, Ordering::SeqCst);
        self.network.reset(|_| true);
        for (proxy, thread) in self.proxies.iter().zip(self.threads.drain(..)) {
            // Ends its wait for the next connection.
            drop(TcpStream::connect(proxy));
            let _panicked = thread.join();
        }
    }
}

impl Network {
    /// Accepts the connections to one node.
    fn serve(self: &Arc<Self>, to: usize, proxy: &TcpListener) {
        while let Ok((before, peer)) = proxy.accept() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            let network = self.clone();
            let at = proxy.local_addr().unwrap();
            spawn(move || match network.find_node(peer, at) {
                Some(from) => network.link(from, to, before),
                // Its process has ended meanwhile.
                None => reset(&before),
            });
        }
    }

    fn link(&self, from: usize, to: usize, before: TcpStream) {
        self.wait(from, to, &AtomicBool::new(false));
        let behind = match self.down[from][to].load(Ordering::SeqCst) {
            true => None,
            false => TcpStream::connect(self.nodes[to]).ok(),
        };
        let Some(behind) = behind else { return reset(&before) };
        for half in [&before, &behind] {
            half.set_nodelay(true).unwrap();
            half.set_write_timeout(Some(INTERVAL)).unwrap();
        }
        let pair = Arc::new(Pair { from, to, before, behind, is_reset: AtomicBool::new(false) });
        self.pairs.lock().unwrap().push(pair.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| self.forward(&pair, (from, &pair.before), (to, &pair.behind)));
            self.forward(&pair, (to, &pair.behind), (from, &pair.before));
        });
        self.pairs.lock().unwrap().retain(|other| !Arc::ptr_eq(other, &pair));
    }

    /// Brings bytes in one direction, until they end.
    fn forward(
        &self,
        pair: &Pair,
        (from, mut source): (usize, &TcpStream),
        (to, mut target): (usize, &TcpStream),
    ) {
        let mut buffer = vec![0; 1 << 16];
        loop {
            self.wait(from, to, &pair.is_reset);
            let read = source.read(&mut buffer);
            // What was under way is lost, too, and comes when the link is there again.
            self.wait(from, to, &pair.is_reset);
            let mut bytes = match read {
                _ if pair.is_reset.load(Ordering::SeqCst) => return,
                Ok(0) => return drop(target.shutdown(Shutdown::Write)),
                Ok(count) => &buffer[..count],
                Err(_) => return pair.reset(),
            };
            while !bytes.is_empty() && !pair.is_reset.load(Ordering::SeqCst) {
                match target.write(bytes) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(error) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind()) => {}
                    Err(_) => return pair.reset(),
                }
            }
        }
    }

    /// Waits for as long as what one node sends to another one is lost.
    fn wait(&self, from: usize, to: usize, is_reset: &AtomicBool) {
        let is_over = || self.is_over.load(Ordering::SeqCst) || is_reset.load(Ordering::SeqCst);
        while self.silent[from][to].load(Ordering::SeqCst) && !is_over() {
            sleep(INTERVAL);
        }
    }

    fn reset(&self, is_meant: impl Fn(&Pair) -> bool) {
        self.pairs.lock().unwrap().iter().filter(|pair| is_meant(pair)).for_each(|pair| pair.reset());
    }

    /// Returns the node that has the other end of a connection. The system's lists are not read all at
    /// once: what is missing now may be there the next time.
    fn find_node(&self, peer: SocketAddr, proxy: SocketAddr) -> Option<usize> {
        (0..20).find_map(|_| {
            let node = self.node_at(peer, proxy);
            if node.is_none() {
                sleep(INTERVAL);
            }
            node
        })
    }

    fn node_at(&self, peer: SocketAddr, proxy: SocketAddr) -> Option<usize> {
        let (SocketAddr::V4(peer), SocketAddr::V4(proxy)) = (peer, proxy) else { return None };
        let socket = format!("socket:[{}]", inode(peer, proxy)?);
        let has_it = |process: &AtomicU32| {
            let files = std::fs::read_dir(format!("/proc/{}/fd", process.load(Ordering::SeqCst)));
            files.into_iter().flatten().flatten().any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == socket.as_str())
            })
        };
        self.processes.iter().position(has_it)
    }
}

impl Pair {
    /// Has both ends reset once the threads that forward have let go of them.
    fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        for half in [&self.before, &self.behind] {
            reset(half);
        }
    }
}

/// Has a connection reset when it is closed, and ends the wait for its bytes.
fn reset(half: &TcpStream) {
    let _closed = set_socket_linger(half, Some(Duration::ZERO));
    let _closed = half.shutdown(Shutdown::Read);
}

/// Returns the number that the system has given the socket at one end of a connection. Connections to
/// several places may begin at the same address.
fn inode(from: SocketAddrV4, to: SocketAddrV4) -> Option<u64> {
    let known = |address: SocketAddrV4| {
        format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
    };
    let (from, to) = (known(from), known(to));
    let sockets = std::fs::read_to_string("/proc/net/tcp").ok()?;
    let mut fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found = fields.find(|fields| fields.get(1..3) == Some(&[from.as_str(), to.as_str()]))?;
    found.get(9)?.parse().ok().filter(|inode| *inode != 0)
}
