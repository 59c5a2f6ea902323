//! `hypostyle-bench relay` is a link of a given rate and round trip, on one machine and without
//! privileges.
//!
//! Every party of `bench/protocol` is measured through the same relay. It simulates two hosts and a
//! router between them, with one queue for each direction:
//!
//! ```text
//! client ── reader ─▶ link: rate and queue ─▶ delay ── writer ─▶ server
//! client ◀─ writer ── delay ◀─ link: rate and queue ◀─ reader ── server
//! ```
//!
//! * The rate counts payload bytes. All connections share the link of a direction, first come,
//!   first served, unless each has its own: that simulates a network that limits flows.
//! * A piece arrives half a round trip after its last byte has left the link.
//! * A link's queue holds one bandwidth-delay product, but at least `LINK_QUEUE_BYTES_MIN`. While
//!   it is full nobody reads from the senders. They feel back pressure where a router would drop,
//!   so nothing is lost. A receiver that stops reading stops its own connection, not the others.
//! * Round trips are what applications see. The time that this machine takes anyway to pass a byte
//!   through the relay is measured at the start and subtracted.
//! * A connection costs one round trip. Otherwise TCP ends at the relay. Its slow start is not part
//!   of the link, and a sender's own kernel buffer (up to 4 MB, `net.ipv4.tcp_wmem`) fills at the
//!   speed of memory, for all parties.
//!
//! The first line on standard output is `listening HOST:PORT`. Each connection that has ended
//! prints another line with the bytes to the server and to the client: `carried 123 456789`. The
//! relay ends when its standard input does, so it cannot outlive the process that started it.

use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, thread};

use clap::Args;
use tokio::net::TcpSocket;

/// The queue of a small router: 2 ms at 1 Gbit/s, 21 ms at 100 Mbit/s.
const LINK_QUEUE_BYTES_MIN: f64 = 262_144.0;
/// The buffers of the relay's own sockets. Larger buffers would be one more queue, before the link.
/// Smaller ones starve TCP on loopback, whose segments have 64 KiB.
const SOCKET_BUFFER_BYTES: u32 = 128 << 10;
/// The time of a piece: the link carries a piece in this time, so that nothing waits for long
/// behind one.
const PIECE_SECONDS: f64 = 0.000_25;
const PIECE_BYTES_MIN: usize = 4 << 10;
const PIECE_BYTES_MAX: usize = 64 << 10;
const CALIBRATION_ROUNDS: usize = 101;
/// The longest round trip of the calibration: enough to put a thread to sleep, which is most of
/// what is calibrated.
const CALIBRATION_ROUND_TRIP_MAX: Duration = Duration::from_micros(300);

#[derive(Args)]
pub struct Arguments {
    /// Address for clients; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// Address of the server
    #[arg(long, value_name = "HOST:PORT")]
    to: String,
    /// What the link carries in each direction
    #[arg(long, value_name = "BITS_PER_SECOND")]
    rate: f64,
    /// Time for the smallest message to go there and back
    #[arg(long, value_name = "SECONDS")]
    round_trip: f64,
    /// Give each connection a link of its own
    #[arg(long)]
    per_connection: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    if !(arguments.rate.is_finite() && arguments.rate > 0.0) {
        return Err(format!("a rate of {} bits per second; it has to be above 0", arguments.rate).into());
    }
    sleep_exactly();
    let round_trip = Duration::try_from_secs_f64(arguments.round_trip)?;
    let network = Arc::new(Network::calibrated(arguments.rate / 8.0, round_trip)?);
    let listener = TcpListener::bind(&arguments.listen)?;
    say(&format!("listening {}", listener.local_addr()?));
    let (to, per_connection) = (arguments.to.clone(), arguments.per_connection);
    thread::spawn(move || accept(&listener, &to, &network, per_connection));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn accept(listener: &TcpListener, to: &str, network: &Arc<Network>, per_connection: bool) {
    for client in listener.incoming().flatten() {
        let network = if per_connection { Arc::new(network.another()) } else { network.clone() };
        let to = to.to_owned();
        thread::spawn(move || {
            thread::sleep(network.round_trip);
            match TcpStream::connect(&to).and_then(|server| carry(&client, &server, &network)) {
                Ok((up, down)) => say(&format!("carried {up} {down}")),
                Err(error) => eprintln!("relay to {to}: {error}"),
            }
        });
    }
}

/// Both directions between two hosts.
struct Network {
    round_trip: Duration,
    delay: Duration,
    up: Link,
    down: Link,
    piece_bytes: usize,
    /// The bytes that may be on the way to one receiver.
    pipe_bytes_max: usize,
}

impl Network {
    /// Returns a network that passes bytes as fast as this machine can, after `delay` each way.
    fn new(bytes_per_second: f64, round_trip: Duration, delay: Duration) -> Self {
        let product = bytes_per_second * round_trip.as_secs_f64();
        let queue_bytes = product.max(LINK_QUEUE_BYTES_MIN);
        let link = || Link::new(bytes_per_second, queue_bytes);
        Self {
            round_trip,
            delay,
            up: link(),
            down: link(),
            piece_bytes: ((bytes_per_second * PIECE_SECONDS) as usize)
                .clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX),
            pipe_bytes_max: (product + queue_bytes) as usize,
        }
    }

    /// Returns the same network with links of its own.
    fn another(&self) -> Self {
        Self::new(self.up.bytes_per_second, self.round_trip, self.delay)
    }

    fn calibrated(bytes_per_second: f64, round_trip: Duration) -> io::Result<Self> {
        let probe = round_trip.min(CALIBRATION_ROUND_TRIP_MAX);
        let measured = measure_round_trip(&Arc::new(Self::new(bytes_per_second, probe, probe / 2)))?;
        let machine = measured.saturating_sub(probe);
        Ok(Self::new(bytes_per_second, round_trip, round_trip.saturating_sub(machine) / 2))
    }
}

/// A wire that takes one byte after the other, with a queue before it.
struct Link {
    bytes_per_second: f64,
    /// The time that a full queue takes to drain.
    queue: Duration,
    /// The time at which all accepted bytes have left.
    free_at: Mutex<Instant>,
}

impl Link {
    fn new(bytes_per_second: f64, queue_bytes: f64) -> Self {
        let queue = Duration::from_secs_f64(queue_bytes / bytes_per_second);
        Self { bytes_per_second, queue, free_at: Mutex::new(Instant::now()) }
    }

    /// Waits until the queue has room. If it is full, it waits for half of it, to wake up less
    /// often.
    fn wait_for_room(&self) {
        loop {
            let backlog = lock(&self.free_at).saturating_duration_since(Instant::now());
            if backlog < self.queue {
                return;
            }
            thread::sleep(backlog - self.queue / 2);
        }
    }

    /// Returns the time at which the last of these bytes, accepted now, has left.
    fn send(&self, bytes: usize) -> Instant {
        let mut free_at = lock(&self.free_at);
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        *free_at = (*free_at).max(Instant::now()) + takes;
        *free_at
    }
}

/// The bytes on the way to one receiver, each piece with the time when it is due.
struct Pipe {
    content: Mutex<Content>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct Content {
    /// The pieces; an empty piece is the end.
    pieces: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Says that the receiver has gone.
    broken: bool,
}

impl Pipe {
    fn new(bytes_max: usize) -> Self {
        Self { content: Mutex::default(), changed: Condvar::new(), bytes_max }
    }

    /// Waits while the pipe is full. Returns false when nobody receives any more.
    fn push(&self, due: Instant, piece: Vec<u8>) -> bool {
        let full = |content: &mut Content| content.bytes >= self.bytes_max && !content.broken;
        let mut content =
            self.changed.wait_while(lock(&self.content), full).unwrap_or_else(PoisonError::into_inner);
        content.bytes += piece.len();
        content.pieces.push_back((due, piece));
        self.changed.notify_all();
        !content.broken
    }

    fn pop(&self) -> (Instant, Vec<u8>) {
        let mut content = lock(&self.content);
        loop {
            if let Some((due, piece)) = content.pieces.pop_front() {
                content.bytes -= piece.len();
                self.changed.notify_all();
                return (due, piece);
            }
            content = self.changed.wait(content).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn break_off(&self) {
        lock(&self.content).broken = true;
        self.changed.notify_all();
    }
}

/// Carries one connection until both directions have ended. Returns the bytes to the server and to
/// the client.
fn carry(client: &TcpStream, server: &TcpStream, network: &Network) -> io::Result<(u64, u64)> {
    for stream in [client, server] {
        stream.set_nodelay(true)?;
        // The options belong to the socket, whichever descriptor sets them.
        let socket = TcpSocket::from_std_stream(stream.try_clone()?);
        socket.set_recv_buffer_size(SOCKET_BUFFER_BYTES)?;
        socket.set_send_buffer_size(SOCKET_BUFFER_BYTES)?;
    }
    let (to_server, to_client) = (Pipe::new(network.pipe_bytes_max), Pipe::new(network.pipe_bytes_max));
    Ok(thread::scope(|scope| {
        scope.spawn(|| deliver(&to_server, server));
        scope.spawn(|| deliver(&to_client, client));
        let down = scope.spawn(|| collect(server, &network.down, network, &to_client));
        let up = collect(client, &network.up, network, &to_server);
        (up, down.join().unwrap_or(0))
    }))
}

/// Reads the bytes of `from` as the link has room for them. Returns their number.
fn collect(mut from: &TcpStream, link: &Link, network: &Network, pipe: &Pipe) -> u64 {
    let mut bytes = 0;
    loop {
        link.wait_for_room();
        let mut piece = vec![0; network.piece_bytes];
        // A connection that was reset ends here like one that was closed.
        let length = from.read(&mut piece).unwrap_or(0);
        piece.truncate(length);
        bytes += length as u64;
        if !pipe.push(link.send(length) + network.delay, piece) || length == 0 {
            return bytes;
        }
    }
}

/// Writes each piece when it is due. At the end, or when the receiver has gone, it closes this
/// direction.
fn deliver(pipe: &Pipe, mut to: &TcpStream) {
    loop {
        let (due, piece) = pipe.pop();
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if piece.is_empty() || to.write_all(&piece).is_err() {
            pipe.break_off();
            // It fails when the other side has closed already.
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
    }
}

/// Returns the median time of one byte through this network to an echo and back.
fn measure_round_trip(network: &Arc<Network>) -> io::Result<Duration> {
    let (near, far) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let mut client = TcpStream::connect(near.local_addr()?)?;
    let server = TcpStream::connect(far.local_addr()?)?;
    let (accepted, echo) = (near.accept()?.0, far.accept()?.0);
    client.set_nodelay(true)?;
    echo.set_nodelay(true)?;
    let network = network.clone();
    let relay = thread::spawn(move || carry(&accepted, &server, &network));
    let echo = thread::spawn(move || {
        let mut byte = [0];
        while (&echo).read(&mut byte)? == 1 {
            (&echo).write_all(&byte)?;
        }
        io::Result::Ok(())
    });
    let mut rounds = Vec::with_capacity(CALIBRATION_ROUNDS);
    for _ in 0..CALIBRATION_ROUNDS {
        let start = Instant::now();
        client.write_all(&[0])?;
        client.read_exact(&mut [0])?;
        rounds.push(start.elapsed());
    }
    drop(client);
    echo.join().map_err(|_| io::Error::other("the echo panicked"))??;
    relay.join().map_err(|_| io::Error::other("the relay panicked"))??;
    rounds.sort_unstable();
    Ok(rounds[CALIBRATION_ROUNDS / 2])
}

/// Asks Linux not to round this process's sleeps up by 50 µs. If it does not comply, calibration
/// makes up for that.
fn sleep_exactly() {
    let _ = fs::write("/proc/self/timerslack_ns", "1");
}

/// Prints a line. The process that started the relay may not read any more.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a server behind a relay. Returns the address for clients.
    fn behind_relay(network: Network, serve: fn(TcpStream)) -> String {
        let (near, far) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
        let (near, far) = (near.unwrap(), far.unwrap());
        let (address, to) = (near.local_addr().unwrap().to_string(), far.local_addr().unwrap().to_string());
        thread::spawn(move || accept(&near, &to, &Arc::new(network), false));
        thread::spawn(move || {
            for stream in far.incoming() {
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        address
    }

    fn echo(stream: TcpStream) {
        io::copy(&mut &stream, &mut &stream).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
    }

    fn never_read(stream: TcpStream) {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    }

    fn there_and_back(address: &str, bytes: &[u8]) {
        let stream = TcpStream::connect(address).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                (&stream).write_all(bytes).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
            });
            let mut returned = Vec::new();
            (&stream).read_to_end(&mut returned).unwrap();
            assert!(returned == bytes, "{} bytes came back of {}", returned.len(), bytes.len());
        });
    }

    #[test]
    fn connections_share_the_rate() {
        let network = Network::calibrated(10e6, Duration::from_millis(1)).unwrap();
        let address = behind_relay(network, echo);
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
        let start = Instant::now();
        thread::scope(|scope| {
            scope.spawn(|| there_and_back(&address, &bytes));
            scope.spawn(|| there_and_back(&address, &bytes));
        });
        let seconds = start.elapsed().as_secs_f64();
        assert!((0.19..1.0).contains(&seconds), "2 MB took {seconds} s at 10 MB/s");
    }

    #[test]
    fn a_message_takes_a_round_trip() {
        let address = behind_relay(Network::calibrated(1e9, Duration::from_millis(40)).unwrap(), echo);
        let mut stream = TcpStream::connect(address).unwrap();
        for expected in [0.078..0.5, 0.038..0.4] {
            let start = Instant::now();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            let seconds = start.elapsed().as_secs_f64();
            assert!(expected.contains(&seconds), "{seconds} s; the first one has to connect, too");
        }
    }

    #[test]
    fn a_receiver_that_does_not_read_stops_the_sender() {
        let address = behind_relay(Network::new(1e9, Duration::ZERO, Duration::ZERO), never_read);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let piece = vec![0; 1 << 20];
        let written = (0..100).take_while(|_| stream.write_all(&piece).is_ok()).count();
        assert!(written < 64, "{written} MiB went into the relay, and nobody read them");
    }
}
