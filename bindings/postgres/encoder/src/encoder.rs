//! Rows into frames: a chunk is encoded when it is full, and its frames wait until they are taken.

use crate::buffer::check_memory;
use crate::layout::{Array, Field, Options, Room};
use crate::node::Node;
use crate::numeric::Misfit;
use crate::schema::Columns;
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions};
use hypostyle_types::{Error, Result};
use hypostyle_wire::{
    CHUNK_BYTES, CHUNK_BYTES_MAX, ChunkHeader, Codec, Done, Encoded, EncodedFrame, FRAME_HEADER_BYTES,
    FrameHeader, FrameType, Full, OnLink, Place, ResultHeader, StreamEncoder, Times, Transaction, UNKNOWN,
};
use std::collections::VecDeque;
use std::ffi::CStr;
use std::time::{Duration, Instant};

/// The number of the query in all frames: a connection of PostgreSQL has one at a time.
const QUERY: u32 = 1;

/// Rows of a block that packs best, and the most rows of a chunk.
const BLOCK: usize = 1024;
const ROWS_MAX: usize = 1 << 20;

/// The shortest frame that every receiver accepts.
const FRAME_BYTES_MIN: u32 = 1 << 20;

/// Where the number of a chunk is in its body: behind the query and the place.
const NUMBER_AT: usize = 5;

/// A frame that was longer is not kept as room for the next one.
const KEPT_BYTES_MAX: usize = 4 << 20;

/// What is sent next.
enum Outgoing {
    Whole(Vec<u8>),
    Pieces(EncodedFrame),
}

/// Takes rows in columns, and gives frames.
pub(crate) struct Encoder {
    stream: StreamEncoder,
    nodes: Vec<Node>,
    /// What C sees of the nodes. It is freed with the encoder.
    arrays: *mut [Array],
    columns: Vec<usize>,
    room: Room,
    frame_bytes: usize,
    outgoing: VecDeque<Outgoing>,
    /// The frame that was taken last.
    frame: Vec<u8>,
    /// Chunks of which is not known yet how they were sent.
    untold: Vec<Encoded>,
    started: Instant,
    execute: Option<Duration>,
    encoded: Instant,
    told: Instant,
    was_blocked: bool,
    send: Duration,
}

impl Drop for Encoder {
    fn drop(&mut self) {
        // SAFETY: it was made by `Box::into_raw`, and C has been told that it is gone with the encoder.
        drop(unsafe { Box::from_raw(self.arrays) });
    }
}

impl Encoder {
    /// # Safety
    /// The pointers of fields and options are valid for as much as these say.
    pub unsafe fn open(fields: &[Field], options: &Options) -> Result<Self> {
        // SAFETY: as the caller's.
        let Columns { schema, nodes, columns } = unsafe { Columns::read(fields)? };
        let codec = match options.codec.is_null() {
            true => Codec::Auto,
            // SAFETY: a zero ends the name.
            false => unsafe { CStr::from_ptr(options.codec) }
                .to_str()
                .map_err(|_| Error::invalid_input("the codec is not a name"))?
                .parse()?,
        };
        let header = ResultHeader { query: QUERY, is_query: true, rows: None, bytes: None, schema };
        let outgoing = VecDeque::from([Outgoing::Whole(header.frame())]);
        let stream = StreamEncoder::new(QUERY, header.schema, options.codecs | 1, codec, 1)
            .on_this_machine(options.is_local);
        let arrays: Box<[Array]> = nodes.iter().map(Node::empty).collect();
        let now = Instant::now();
        let mut encoder = Self {
            stream,
            nodes,
            arrays: Box::into_raw(arrays),
            columns,
            room: Room::default(),
            frame_bytes: options.frame_bytes.max(FRAME_BYTES_MIN) as usize,
            outgoing,
            frame: Vec::new(),
            untold: Vec::new(),
            started: now,
            execute: None,
            encoded: now,
            told: now,
            was_blocked: false,
            send: Duration::ZERO,
        };
        encoder.room = encoder.room_for(options.chunk_bytes);
        Ok(encoder)
    }

    fn room_for(&self, chunk_bytes: u32) -> Room {
        let bytes = match chunk_bytes {
            0 => CHUNK_BYTES,
            some => some.min(CHUNK_BYTES_MAX),
        } as usize;
        let row_bytes = self.columns.iter().map(|column| self.row_bytes(*column)).sum::<usize>();
        let rows = (bytes / row_bytes.max(1)).clamp(1, ROWS_MAX);
        // Whole blocks pack better than a cut one.
        let rows = if rows > BLOCK { rows / BLOCK * BLOCK } else { rows };
        Room { row_bytes, rows, bytes }
    }

    fn row_bytes(&self, index: usize) -> usize {
        let node = &self.nodes[index];
        let members = match node.shape {
            crate::node::Shape::Struct => node.members.as_slice(),
            _ => &[],
        };
        node.row_bytes() + members.iter().map(|member| self.row_bytes(*member)).sum::<usize>()
    }

    pub fn room(&self) -> Room {
        self.room
    }

    pub fn arrays(&self) -> *mut Array {
        self.arrays.cast()
    }

    /// The array of a node, as C has written it.
    fn array(&mut self, index: usize) -> Result<(&mut Node, *mut Array)> {
        let node = self.nodes.get_mut(index).ok_or_else(|| Error::internal("there is no such field"))?;
        // SAFETY: there is an array for each node.
        Ok((node, unsafe { self.arrays.cast::<Array>().add(index) }))
    }

    /// Makes room in a field's array.
    pub fn reserve(&mut self, index: usize, elements: usize, bytes: usize) -> Result<()> {
        if self.execute.is_none() {
            self.execute = Some(self.started.elapsed());
        }
        if bytes > self.frame_bytes {
            return Err(self.too_long(bytes));
        }
        let (node, array) = self.array(index)?;
        // SAFETY: C does not look at the array meanwhile.
        node.reserve(unsafe { &mut *array }, elements, bytes)
    }

    fn too_long(&self, bytes: usize) -> Error {
        let most = self.frame_bytes;
        Error::invalid_input(format!(
            "a row of {bytes} bytes or more is longer than the {most} that the receiver accepts in a frame"
        ))
        .with_sqlstate("54000")
    }

    /// Writes a number where a field's next value is.
    pub fn decimal(&mut self, index: usize, bytes: &[u8]) -> Result<(), Misfit> {
        let (node, array) = self.array(index).map_err(|_| Misfit::Damaged)?;
        // SAFETY: C has made room, and does not look at the array meanwhile.
        unsafe { node.put_decimal(&*array, bytes) }
    }

    /// Encodes the rows that are there, if any are.
    pub fn flush(&mut self, rows: usize) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let columns = self.columns.clone();
        let columns = columns.into_iter().map(|column| self.finish(column)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.stream.schema().clone(), columns, &options)
            .map_err(|error| Error::internal(format!("the rows are no batch: {error}")))?;
        let last = rows - 1;
        // A long row at the end of others goes alone, so that only a row can be too long for a frame.
        if last > 0 && batch.columns().iter().map(bytes_of).sum::<usize>() > 4 * self.room.bytes {
            self.encode(batch.slice(0, last))?;
            return self.encode(batch.slice(last, 1));
        }
        self.encode(batch)
    }

    /// Takes the array of a node, with what is within it.
    fn finish(&mut self, index: usize) -> Result<ArrayRef> {
        let members = self.nodes[index].members.clone();
        let members = members.into_iter().map(|member| Ok(self.finish(member)?.to_data()));
        let members = members.collect::<Result<Vec<_>>>()?;
        let (node, array) = self.array(index)?;
        // SAFETY: C has written the array as the header says, and does not look at it meanwhile.
        unsafe { node.finish(&mut *array, members) }
    }

    fn encode(&mut self, batch: RecordBatch) -> Result<()> {
        let bytes = batch.columns().iter().map(bytes_of).sum::<usize>();
        let rows = batch.num_rows();
        if rows == 1 && bytes > self.frame_bytes {
            return Err(self.too_long(bytes));
        }
        check_memory(2 * bytes + (1 << 20))?;
        let encoded = self.stream.plan(batch)?.encode()?;
        if let Some(frame) = encoded.frames.iter().find(|frame| frame.body_bytes() > self.frame_bytes) {
            return Err(self.too_long(frame.body_bytes() / rows.max(1)));
        }
        self.outgoing.extend(encoded.frames.iter().cloned().map(Outgoing::Pieces));
        self.untold.push(encoded);
        self.encoded = Instant::now();
        Ok(())
    }

    /// Returns the next frame, if there is one.
    pub fn frame(&mut self) -> Result<Option<&[u8]>> {
        let Some(next) = self.outgoing.pop_front() else {
            return Ok(None);
        };
        match next {
            Outgoing::Whole(frame) => self.frame = frame,
            Outgoing::Pieces(frame) => {
                let length = FRAME_HEADER_BYTES + frame.body_bytes();
                if self.frame.capacity() > KEPT_BYTES_MAX {
                    self.frame = Vec::new();
                }
                self.frame.clear();
                check_memory(length)?;
                self.frame.reserve_exact(length);
                frame.buffers().iter().for_each(|piece| self.frame.extend_from_slice(piece));
            }
        }
        Ok(Some(&self.frame))
    }

    /// Takes note that the frames that were taken have been sent, and whether that had to wait; `None`
    /// where they wait to be sent.
    pub fn told(&mut self, blocked: Option<bool>) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.told);
        let bytes: usize = self.untold.iter().map(Encoded::body_bytes).sum();
        // The socket's buffer was full at both ends of the time: what has left it is what came meanwhile.
        let full = match blocked == Some(true) && self.was_blocked {
            true => Full { bytes: bytes as u64, time: elapsed },
            false => Full::default(),
        };
        let mut on_link = blocked.map(|_| OnLink { elapsed, full });
        for encoded in self.untold.drain(..) {
            self.stream.sent(&encoded, on_link.take());
        }
        self.send += now.duration_since(self.encoded.max(self.told));
        self.was_blocked = blocked == Some(true);
        self.told = now;
    }

    /// Leaves the frames that are there to another process, which sends them. Returns their bytes before
    /// codecs.
    pub fn pass(&mut self) -> u64 {
        let raw = self.untold.iter().map(|encoded| encoded.raw_bytes).sum::<u64>();
        self.told(None);
        raw
    }

    /// Takes a chunk that the encoder of another process has made of the same columns, without
    /// dictionaries, as the next one here. `raw` are its bytes before codecs. Returns its rows.
    pub fn relay(&mut self, frame: &[u8], raw: u64) -> Result<u64> {
        let unfit = || Error::internal("what another process has encoded is no chunk of this result");
        check_memory(frame.len())?;
        let mut frame = frame.to_vec();
        let (header, body) = frame.split_first_chunk_mut::<FRAME_HEADER_BYTES>().ok_or_else(unfit)?;
        let header = FrameHeader::decode(header, u32::MAX)?;
        let is_whole = usize::try_from(header.length) == Ok(body.len());
        if header.frame_type != FrameType::Chunk || !is_whole {
            return Err(unfit());
        }
        let (chunk, _) = ChunkHeader::decode(body)?;
        if chunk.query != QUERY || chunk.place != Place::Frame {
            return Err(unfit());
        }
        let number = self.stream.adopt(chunk.rows, chunk.checksum, raw, body.len() as u64);
        let place = body.get_mut(NUMBER_AT..NUMBER_AT + size_of::<u64>()).ok_or_else(unfit)?;
        place.copy_from_slice(&number.to_le_bytes());
        self.outgoing.push_back(Outgoing::Whole(frame));
        if self.execute.is_none() {
            self.execute = Some(self.started.elapsed());
        }
        self.encoded = Instant::now();
        Ok(chunk.rows)
    }

    /// Adds the last frame. `affected` rows were written, unless that is unknown.
    pub fn end(&mut self, affected: u64, in_transaction: bool) {
        self.told(None);
        let end = self.stream.end();
        let done = Done {
            query: QUERY,
            rows: end.rows,
            checksum: end.checksum,
            affected: (affected != UNKNOWN).then_some(affected),
            transaction: if in_transaction { Transaction::Open } else { Transaction::None },
            times: Times {
                execute: self.execute.unwrap_or_else(|| self.started.elapsed()),
                encode: end.encode,
                send: self.send,
                wait: Duration::ZERO,
            },
            raw: end.raw,
            sent: end.sent,
            chosen: end.chosen,
        };
        self.outgoing.push_back(Outgoing::Whole(done.frame()));
    }
}

/// The bytes of an array's rows in memory.
fn bytes_of(array: &ArrayRef) -> usize {
    array.to_data().get_slice_memory_size().unwrap_or(0)
}
