//! The encoder as C uses it: rows go in through the buffers, and frames come out that a client decodes.

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal64Type, Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use arrow_buffer::Buffer;
use hypostyle_postgres_encoder::*;
use hypostyle_wire::{Done, FRAME_HEADER_BYTES, FrameHeader, FrameType, ResultHeader, StreamDecoder};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{CStr, CString, c_char};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is allocated.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// Tests that count memory run alone.
static ALONE: Mutex<()> = Mutex::new(());

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BIGINT: u8 = 5;
const DECIMAL: u8 = 12;
const VARCHAR: u8 = 13;
const LIST: u8 = 24;
const STRUCT: u8 = 26;
const DICTIONARY: u8 = 28;

/// A field of a name that lives as long as the program.
fn field(name: &'static str, kind: u8, members: u32) -> Field {
    Field {
        name: name.as_ptr().cast(),
        name_length: name.len(),
        labels: std::ptr::null(),
        label_count: 0,
        members,
        kind,
        precision: 15,
        scale: 2,
    }
}

fn options() -> Options {
    Options {
        codec: std::ptr::null(),
        codecs: hypostyle_encoder_codecs(),
        chunk_bytes: 0,
        frame_bytes: 16 << 20,
        is_local: false,
    }
}

fn message(failure: &Failure) -> (String, String) {
    // SAFETY: a zero ends both.
    let text = |text: *const c_char| unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_string();
    (text(failure.sqlstate.as_ptr()), text(failure.message.as_ptr()))
}

/// The batches, the end, and the types of the frames behind the first.
type Stream = (Vec<RecordBatch>, Done, Vec<FrameType>);

/// What C does.
struct Copy {
    handle: *mut Handle,
    arrays: *mut Array,
    room: Room,
    failure: Failure,
    rows: usize,
    sent: Vec<Vec<u8>>,
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is freed once.
        unsafe { hypostyle_encoder_free(self.handle) };
    }
}

impl Copy {
    fn open(fields: &[Field], options: &Options) -> Result<Self, (String, String)> {
        let mut copy = Self {
            handle: std::ptr::null_mut(),
            arrays: std::ptr::null_mut(),
            room: Room::default(),
            failure: Failure { sqlstate: [0; 6], message: [0; 512] },
            rows: 0,
            sent: Vec::new(),
        };
        // SAFETY: all pointers are those of values here.
        let opened = unsafe {
            hypostyle_encoder_open(
                fields.as_ptr(),
                fields.len(),
                options,
                &raw mut copy.handle,
                &raw mut copy.arrays,
                &raw mut copy.room,
                &raw mut copy.failure,
            )
        };
        if opened { Ok(copy) } else { Err(message(&copy.failure)) }
    }

    fn done(&self, is_done: bool) -> Result<(), (String, String)> {
        if is_done { Ok(()) } else { Err(message(&self.failure)) }
    }

    /// The array with room for another element.
    fn place(&mut self, field: usize, bytes: usize) -> Result<&mut Array, (String, String)> {
        // SAFETY: there is such a field.
        let array = unsafe { &*self.arrays.add(field) };
        if array.length >= array.capacity || bytes > array.bytes_capacity - array.bytes_length {
            // SAFETY: the encoder is open.
            let done =
                unsafe { hypostyle_encoder_reserve(self.handle, field, 1, bytes, &raw mut self.failure) };
            self.done(done)?;
        }
        // SAFETY: as above.
        Ok(unsafe { &mut *self.arrays.add(field) })
    }

    fn value(&mut self, field: usize, bytes: &[u8]) -> Result<(), (String, String)> {
        let array = self.place(field, 0)?;
        assert_eq!(bytes.len(), array.width);
        // SAFETY: there is room.
        unsafe {
            array
                .values
                .add(array.length * array.width)
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        array.length += 1;
        Ok(())
    }

    fn end(array: &mut Array, end: usize) {
        // SAFETY: there is room for one more end than elements.
        unsafe { array.values.cast::<i64>().add(array.length + 1).write(end as i64) };
        array.length += 1;
    }

    fn text(&mut self, field: usize, text: &[u8]) -> Result<(), (String, String)> {
        let array = self.place(field, text.len())?;
        // SAFETY: there is room.
        unsafe { array.bytes.add(array.bytes_length).copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        array.bytes_length += text.len();
        Self::end(array, array.bytes_length);
        Ok(())
    }

    fn list(&mut self, field: usize, end: usize) -> Result<(), (String, String)> {
        Self::end(self.place(field, 0)?, end);
        Ok(())
    }

    /// A NULL, but for the values below it.
    fn null(&mut self, field: usize, has_ends: bool, fill: u8) -> Result<(), (String, String)> {
        let array = self.place(field, 0)?;
        // SAFETY: there is room.
        unsafe {
            *array.validity.add(array.length / 8) &= !(1 << (array.length % 8));
            if has_ends {
                let end = *array.values.cast::<i64>().add(array.length);
                Self::end(array, end as usize);
            } else {
                array.values.add(array.length * array.width).write_bytes(fill, array.width);
                array.length += 1;
            }
        }
        array.nulls += 1;
        Ok(())
    }

    fn take(&mut self) -> Result<(), (String, String)> {
        loop {
            let (mut data, mut length) = (std::ptr::null(), 0);
            // SAFETY: the encoder is open, and the frame is copied before the next call.
            let frame = unsafe {
                let done = hypostyle_encoder_frame(
                    self.handle,
                    &raw mut data,
                    &raw mut length,
                    &raw mut self.failure,
                );
                self.done(done)?;
                if length == 0 {
                    return Ok(());
                }
                std::slice::from_raw_parts(data, length).to_vec()
            };
            self.sent.push(frame);
        }
    }

    fn flush(&mut self, waited: bool) -> Result<(), (String, String)> {
        // SAFETY: the encoder is open.
        let done = unsafe { hypostyle_encoder_flush(self.handle, self.rows, &raw mut self.failure) };
        self.done(done)?;
        self.rows = 0;
        self.take()?;
        // SAFETY: as above.
        let done = unsafe { hypostyle_encoder_told(self.handle, waited, &raw mut self.failure) };
        self.done(done)
    }

    /// Ends the stream and decodes it.
    fn finish(mut self) -> Result<Stream, (String, String)> {
        self.flush(false)?;
        // SAFETY: the encoder is open.
        let done = unsafe { hypostyle_encoder_end(self.handle, u64::MAX, true, &raw mut self.failure) };
        self.done(done)?;
        self.take()?;
        let mut frames = self.sent.iter().map(|frame| {
            let (header, body) = frame.split_first_chunk::<FRAME_HEADER_BYTES>().unwrap();
            let header = FrameHeader::decode(header, u32::MAX).unwrap();
            assert_eq!(header.length as usize, body.len());
            (header.frame_type, body)
        });
        let (frame_type, body) = frames.next().unwrap();
        assert_eq!(frame_type, FrameType::Result);
        let schema = ResultHeader::decode(body).unwrap().schema;
        let (mut decoder, mut batches, mut types) = (StreamDecoder::new(1, schema), Vec::new(), Vec::new());
        for (frame_type, body) in frames {
            types.push(frame_type);
            match frame_type {
                FrameType::Dictionary => decoder.dictionary(Buffer::from(body)).unwrap(),
                FrameType::Chunk => {
                    batches.push(decoder.chunk(Buffer::from(body)).unwrap().decode().unwrap())
                }
                _ => {
                    let done = Done::decode(body).unwrap();
                    decoder.end(done.rows, done.checksum).unwrap();
                    return Ok((batches, done, types));
                }
            }
        }
        panic!("there is no end")
    }
}

#[test]
fn numbers_and_texts_come_back() {
    let _alone = ALONE.lock();
    let fields = [field("a", BIGINT, 0), field("é", VARCHAR, 0), field("d", DECIMAL, 0)];
    let mut copy = Copy::open(&fields, &options()).unwrap();
    for row in 0..10_000_i64 {
        match row % 7 {
            3 => copy.null(0, false, 0).unwrap(),
            _ => copy.value(0, &row.to_ne_bytes()).unwrap(),
        }
        match row % 5 {
            4 => copy.null(1, true, 0).unwrap(),
            _ => copy.text(1, format!("text {row}").as_bytes()).unwrap(),
        }
        // 12 to the power of ten thousand times 0: the number 12, short.
        copy.place(2, 0).unwrap();
        let numeric = [0x8000_u16.to_ne_bytes(), 12_u16.to_ne_bytes()].concat();
        // SAFETY: there is room.
        unsafe {
            assert_eq!(hypostyle_encoder_decimal(copy.handle, 2, numeric.as_ptr(), numeric.len()), 0);
            (*copy.arrays.add(2)).length += 1;
        }
        copy.rows += 1;
        if copy.rows == 3_333 {
            copy.flush(row % 2 == 0).unwrap();
        }
    }
    let (batches, done, _) = copy.finish().unwrap();
    assert_eq!((done.rows, batches.len()), (10_000, 4));
    assert_eq!(batches[0].schema().field(1).name(), "é");
    let mut row = 0_i64;
    for batch in batches {
        for at in 0..batch.num_rows() {
            let (number, text) = (batch.column(0), batch.column(1));
            assert_eq!(number.is_null(at), row % 7 == 3);
            if row % 7 != 3 {
                assert_eq!(number.as_primitive::<Int64Type>().value(at), row);
            }
            assert_eq!(text.is_null(at), row % 5 == 4);
            if row % 5 != 4 {
                assert_eq!(text.as_string::<i64>().value(at), format!("text {row}"));
            }
            assert_eq!(batch.column(2).as_primitive::<Decimal64Type>().value(at), 1200);
            row += 1;
        }
    }
}

#[test]
fn chunks_of_other_encoders_are_relayed() {
    let _alone = ALONE.lock();
    let fields = [field("a", BIGINT, 0), field("t", VARCHAR, 0)];
    let mut leader = Copy::open(&fields, &options()).unwrap();
    let mut expected = 0;
    for worker in 0..3_i64 {
        let mut copy = Copy::open(&fields, &options()).unwrap();
        for chunk in 0..2_i64 {
            for row in 0..1_000_i64 {
                let value = worker * 10_000 + chunk * 1_000 + row;
                copy.value(0, &value.to_ne_bytes()).unwrap();
                copy.text(1, format!("text {value}").as_bytes()).unwrap();
                copy.rows += 1;
                expected += value;
            }
            let mut bytes = 0;
            // SAFETY: the encoder is open.
            unsafe {
                assert!(hypostyle_encoder_flush(copy.handle, copy.rows, &raw mut copy.failure));
                assert!(hypostyle_encoder_pass(copy.handle, &raw mut bytes, &raw mut copy.failure));
            }
            copy.rows = 0;
            copy.take().unwrap();
            assert!(bytes > 8_000);
            // The first frame of each encoder describes the columns, and is the leader's own.
            let chunk = copy.sent.pop().unwrap();
            let mut rows = 0;
            // SAFETY: as above.
            let relayed = unsafe {
                hypostyle_encoder_relay(
                    leader.handle,
                    chunk.as_ptr(),
                    chunk.len(),
                    bytes,
                    &raw mut rows,
                    &raw mut leader.failure,
                )
            };
            leader.done(relayed).unwrap();
            assert_eq!(rows, 1_000);
            leader.take().unwrap();
        }
    }
    let (batches, done, types) = leader.finish().unwrap();
    assert_eq!((done.rows, batches.len(), types.len()), (6_000, 6, 7));
    let sum = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    assert_eq!(sum.sum::<i64>(), expected);
    assert!(done.raw > 6 * 8_000);
}

#[test]
fn what_is_relayed_must_be_a_chunk() {
    let _alone = ALONE.lock();
    let fields = [field("a", BIGINT, 0)];
    let mut other = Copy::open(&fields, &options()).unwrap();
    other.value(0, &7_i64.to_ne_bytes()).unwrap();
    other.rows = 1;
    other.flush(false).unwrap();
    let chunk = other.sent.pop().unwrap();
    let result = other.sent.pop().unwrap();
    let mut damaged = vec![Vec::new(), result, [chunk.as_slice(), &[0]].concat()];
    damaged.extend((0..chunk.len().min(40)).map(|length| chunk[..length].to_vec()));
    for frame in damaged {
        let mut copy = Copy::open(&fields, &options()).unwrap();
        let mut rows = 0;
        // SAFETY: the encoder is open.
        let relayed = unsafe {
            hypostyle_encoder_relay(
                copy.handle,
                frame.as_ptr(),
                frame.len(),
                8,
                &raw mut rows,
                &raw mut copy.failure,
            )
        };
        assert!(copy.done(relayed).is_err(), "{frame:?}");
    }
}

#[test]
fn a_dictionary_is_sent_once() {
    let _alone = ALONE.lock();
    let labels = [c"red", c"green"].map(CStr::as_ptr);
    let column = Field { labels: labels.as_ptr(), label_count: 2, ..field("e", DICTIONARY, 0) };
    let mut copy = Copy::open(&[column], &options()).unwrap();
    for _ in 0..2 {
        for code in [0_i8, 1, 0] {
            copy.value(0, &code.to_ne_bytes()).unwrap();
        }
        copy.null(0, false, 0xff).unwrap();
        copy.rows = 4;
        copy.flush(false).unwrap();
    }
    let (batches, _, types) = copy.finish().unwrap();
    assert_eq!(types, [FrameType::Dictionary, FrameType::Chunk, FrameType::Chunk, FrameType::Done]);
    for batch in batches {
        let dictionary = batch.column(0).as_any_dictionary();
        assert_eq!((dictionary.null_count(), dictionary.is_null(3)), (1, true));
        let keys = dictionary.normalized_keys();
        let text = |row: usize| dictionary.values().as_string::<i64>().value(keys[row]).to_string();
        assert_eq!([text(0), text(1), text(2)], ["red", "green", "red"]);
    }
}

#[test]
fn lists_of_structs_come_back() {
    let _alone = ALONE.lock();
    let fields = [
        field("l", LIST, 1),
        field("item", STRUCT, 2),
        field("x", 4, 0),
        field("y", VARCHAR, 0),
        field("k", LIST, 1),
        field("item", VARCHAR, 0),
    ];
    let mut copy = Copy::open(&fields, &options()).unwrap();
    let mut elements = 0;
    for row in 0..500_usize {
        for element in 0..row % 4 {
            copy.value(2, &(row as i32).to_ne_bytes()).unwrap();
            copy.text(3, "y".repeat(element).as_bytes()).unwrap();
            copy.place(1, 0).unwrap().length += 1;
            elements += 1;
        }
        copy.list(0, elements).unwrap();
        copy.null(4, true, 0).unwrap();
        copy.rows += 1;
    }
    let (batches, ..) = copy.finish().unwrap();
    let lists = batches[0].column(0).as_list::<i64>();
    for row in 0..500 {
        let list = lists.value(row);
        assert_eq!(list.len(), row % 4);
        let list = list.as_struct();
        assert!(list.column(0).as_primitive::<Int32Type>().values().iter().all(|x| *x == row as i32));
        assert!((0..list.len()).all(|index| list.column(1).as_string::<i64>().value(index).len() == index));
    }
    assert_eq!(batches[0].column(1).null_count(), 500);
}

#[test]
fn rows_without_columns_are_counted() {
    let _alone = ALONE.lock();
    let mut copy = Copy::open(&[], &options()).unwrap();
    copy.rows = 42;
    let (batches, done, _) = copy.finish().unwrap();
    assert_eq!((done.rows, batches[0].num_rows()), (42, 42));
    let (batches, done, types) = Copy::open(&[], &options()).unwrap().finish().unwrap();
    assert_eq!((done.rows, batches.len(), types), (0, 0, vec![FrameType::Done]));
}

#[test]
fn a_long_row_goes_alone_and_a_longer_one_is_refused() {
    let _alone = ALONE.lock();
    let fields = [field("t", VARCHAR, 0), field("u", VARCHAR, 0)];
    let mut copy = Copy::open(&fields, &options()).unwrap();
    for length in [1, 2, 15 << 20] {
        copy.text(0, &vec![b'a'; length]).unwrap();
        copy.text(1, b"").unwrap();
        copy.rows += 1;
    }
    let (batches, ..) = copy.finish().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 1]);
    let mut copy = Copy::open(&fields, &options()).unwrap();
    let (state, text) = copy.text(0, &vec![b'a'; 17 << 20]).unwrap_err();
    assert_eq!(state, "54000");
    assert!(text.contains("17825792") && text.contains("16777216"), "{text}");
    copy.text(0, &vec![b'a'; 9 << 20]).unwrap();
    copy.text(1, &vec![b'a'; 9 << 20]).unwrap();
    copy.rows = 1;
    assert_eq!(copy.flush(false).unwrap_err().0, "54000");
}

#[test]
fn what_cannot_be_sent_is_an_error() {
    let _alone = ALONE.lock();
    let codec = CString::new("gzip").unwrap();
    let error = Copy::open(&[], &Options { codec: codec.as_ptr(), ..options() }).err().unwrap();
    assert_eq!(error.0, "22000");
    let error = Copy::open(&[field("a", 99, 0)], &options()).err().unwrap();
    assert_eq!(error.0, "XX000");
    let deep: Vec<Field> = (0..40).map(|_| field("l", LIST, 1)).chain([field("a", BIGINT, 0)]).collect();
    assert_eq!(Copy::open(&deep, &options()).err().unwrap().0, "0A000");
    assert_eq!(Copy::open(&deep[..3], &options()).err().unwrap().0, "XX000");
    let mut copy = Copy::open(&[field("t", VARCHAR, 0)], &options()).unwrap();
    copy.text(0, b"\xff").unwrap();
    copy.rows = 1;
    let (state, text) = copy.flush(false).unwrap_err();
    assert_eq!(state, "22021");
    assert!(text.contains("\"t\""), "{text}");
    let mut copy = Copy::open(&[field("a", BIGINT, 0)], &options()).unwrap();
    copy.place(0, 0).unwrap().length = 1 << 40;
    copy.rows = 1;
    assert_eq!(copy.flush(false).unwrap_err().0, "XX000");
}

/// Most columns of a table, long enough for several chunks.
#[test]
fn memory_is_bounded_at_1600_columns() {
    let _alone = ALONE.lock();
    for kind in [BIGINT, VARCHAR, 1] {
        let fields: Vec<Field> = (0..1600).map(|_| field("c", kind, 0)).collect();
        let before = NOW.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let mut copy = Copy::open(&fields, &options()).unwrap();
        let (mut chunks, mut bytes) = (0, 0);
        while chunks < 12 {
            for column in 0..1600 {
                match kind {
                    BIGINT => copy.value(column, &(copy.rows as i64 * 7919).to_ne_bytes()).unwrap(),
                    VARCHAR => copy.text(column, b"some text").unwrap(),
                    _ => copy.value(column, &[1]).unwrap(),
                }
            }
            copy.rows += 1;
            bytes += copy.room.row_bytes + if kind == VARCHAR { 1600 * 9 } else { 0 };
            if copy.rows == copy.room.rows || bytes >= copy.room.bytes {
                copy.flush(chunks % 2 == 0).unwrap();
                copy.sent.clear();
                (chunks, bytes) = (chunks + 1, 0);
            }
        }
        let most = MOST.load(Ordering::Relaxed) - before;
        println!("1600 columns of type {kind}: {} KiB at most", most >> 10);
        assert!(most < 24 << 20, "{kind}: {most}");
    }
}
