//! A server that does what a test says.

// Some tests need only a part of it.
#![allow(dead_code)]

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use hypostyle_client::{Address, Connection, Options};
use hypostyle_transport::{Frame, Socket, Transport};
use hypostyle_types::{Error, ErrorKind, Result};
use hypostyle_wire::{
    COMPRESSIONS, Capabilities, ChunkHeader, Codec, Done, FRAME_BYTES_MAX, Failure, FrameHeader, FrameType,
    Hello, Place, Received, ResultHeader, Role, StreamEncoder, Transaction, Welcome, Writer,
    canonical_schema,
};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

pub const SESSION: u64 = 5;

pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _gone = std::fs::remove_file(path);
        }
    }
}

impl Listener {
    pub fn tcp() -> Self {
        Self::Tcp(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn unix() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("hypostyle-{}-{number}.sock", std::process::id()));
        Self::Unix(UnixListener::bind(&path).unwrap(), path)
    }

    pub fn address(&self) -> String {
        match self {
            Self::Tcp(listener) => format!("hypostyle://{}/", listener.local_addr().unwrap()),
            Self::Unix(_, path) => format!("hypostyle+unix://{}", path.display()),
        }
    }

    pub fn accept(&self) -> Peer {
        let socket = match self {
            Self::Tcp(listener) => Socket::tcp(listener.accept().unwrap().0).unwrap(),
            Self::Unix(listener, _) => Socket::Unix(listener.accept().unwrap().0),
        };
        Peer(Transport::new(socket))
    }

    /// Serves connections as `script` says, and returns an address to connect to.
    pub fn serve<T: Send + 'static>(
        self,
        script: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> (String, JoinHandle<T>) {
        (self.address(), thread::spawn(move || script(&self)))
    }
}

pub fn connect(address: &str) -> Result<Connection> {
    Connection::open(&Address::parse(address).unwrap(), Options::default())
}

/// The server's end of a connection.
pub struct Peer(pub Transport);

fn patient() -> impl FnMut() -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    move || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(Error::internal("the client says nothing")),
    }
}

impl Peer {
    pub fn hello(&mut self) -> Hello {
        self.0.receive_preface(&mut patient()).unwrap();
        Hello::decode(&self.receive(FrameType::Hello).body).unwrap()
    }

    /// Accepts the client without asking for a password.
    pub fn welcome(self, capabilities: Capabilities) -> Self {
        self.welcome_with(|offered| offered.both(capabilities))
    }

    /// Accepts the client as a node of a cluster.
    pub fn welcome_node(self) -> Self {
        self.welcome_as(Role::Cluster, |offered| offered.both(Capabilities::CLUSTER))
    }

    /// Accepts the client with capabilities that are computed from those that it has offered.
    pub fn welcome_with(self, capabilities: impl Fn(Capabilities) -> Capabilities) -> Self {
        self.welcome_as(Role::Admin, capabilities)
    }

    fn welcome_as(mut self, role: Role, capabilities: impl Fn(Capabilities) -> Capabilities) -> Self {
        let hello = self.hello();
        let welcome = Welcome {
            version: 1,
            capabilities: capabilities(hello.capabilities),
            frame_bytes_max: FRAME_BYTES_MAX,
            server: "test".into(),
            session: SESSION,
            key: vec![1; 16],
            role,
            last: Vec::new(),
        };
        self.send(&welcome.frame());
        self.0.set_body_bytes_max(FRAME_BYTES_MAX);
        self
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.send(bytes, &mut patient()).unwrap();
    }

    pub fn next(&mut self) -> Result<Frame> {
        self.0.receive(&mut patient())
    }

    pub fn receive(&mut self, frame_type: FrameType) -> Frame {
        let frame = self.next().unwrap();
        assert_eq!(frame.frame_type, frame_type);
        frame
    }

    /// Returns the frames that the client sends until it is gone.
    pub fn rest(&mut self) -> Vec<FrameType> {
        std::iter::from_fn(|| self.next().ok().map(|frame| frame.frame_type)).collect()
    }

    pub fn fail(&mut self, query: u32, sqlstate: &str, fatal: bool) {
        let kind = if sqlstate == "57014" { ErrorKind::Interrupted } else { ErrorKind::Busy };
        let error = Error::new(kind, "of the test").with_sqlstate(sqlstate);
        self.send(&Failure { query, error, fatal, transaction: Transaction::None }.frame());
    }

    /// Answers a statement with no rows.
    pub fn done(&mut self, query: u32) {
        let schema = Arc::new(arrow_schema::Schema::empty());
        self.send(&ResultHeader { query, is_query: false, rows: None, bytes: None, schema }.frame());
        let checksum = hypostyle_wire::stream_checksum([]);
        self.send(&Done { query, checksum, ..Done::default() }.frame());
    }

    /// Sends the beginning of a result: its header and one chunk.
    pub fn begin_rows(&mut self, query: u32) {
        let mut encoder = self.header(query, None);
        self.chunk(&mut encoder);
    }

    /// Sends the header of a result, and returns the encoder for its chunks.
    pub fn header(&mut self, query: u32, rows: Option<u64>) -> StreamEncoder {
        let (schema, _) = self::rows();
        self.send(&ResultHeader { query, is_query: true, rows, bytes: None, schema: schema.clone() }.frame());
        StreamEncoder::new(query, schema, COMPRESSIONS, Codec::None, 1)
    }

    /// Sends a chunk with the thousand rows of [`rows`].
    pub fn chunk(&mut self, encoder: &mut StreamEncoder) {
        let encoded = encoder.plan(rows().1).unwrap().encode().unwrap();
        encoder.sent(&encoded, None);
        for frame in &encoded.frames {
            let length = frame.body_bytes() as u32;
            self.send(&FrameHeader { length, frame_type: frame.frame_type, descriptors: 0 }.encode());
            self.send(&frame.head);
            frame.payload.iter().for_each(|piece| self.send(piece));
        }
    }

    /// Sends the end of a result's rows.
    pub fn end_rows(&mut self, query: u32, encoder: &StreamEncoder) {
        let end = encoder.end();
        self.send(&Done { query, rows: end.rows, checksum: end.checksum, ..Done::default() }.frame());
    }

    /// Sends a chunk whose memory file was announced and is missing. A process without free
    /// descriptors gets this from the kernel.
    pub fn missing_file(&mut self, query: u32, number: u64) {
        let mut body = Writer::default();
        let (place, head) = (Place::MemoryFile, Vec::new());
        ChunkHeader { query, place, number, rows: 9, checksum: 0, skip: 0, head }.write(&mut body);
        let (length, frame_type) = (body.length() as u32, FrameType::Chunk);
        self.send(&FrameHeader { length, frame_type, descriptors: 1 }.encode());
        self.send(&body.finish());
    }

    /// Resumes a session of which the client has some bytes, and returns how many it has sent.
    pub fn go_on(&mut self, received: u64) -> u64 {
        self.send(&Received(received).frame());
        Received::decode(&self.receive(FrameType::Received).body).unwrap().0
    }
}

/// Returns rows of one column.
pub fn rows() -> (arrow_schema::SchemaRef, RecordBatch) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let batch = RecordBatch::try_from_iter([("a", column)]).unwrap();
    (canonical_schema(&batch.schema()).unwrap(), batch)
}
