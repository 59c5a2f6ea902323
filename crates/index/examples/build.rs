//! Measures building indexes, looking up in them and reading them back: `cargo run --release -p
//! hypostyle-index --example build`. The tables are like TPC-H's at scale factor 1: 1.5 million
//! orders, whose keys ascend with gaps, and 6 million items that refer to them.
//!
//! Each line is the best of several runs on one thread, in milliseconds.

use arrow_array::{ArrayRef, Int32Array, Int64Array, LargeStringArray};
use arrow_buffer::{Buffer, MutableBuffer};
use hypostyle_index::{
    Content, Covered, Imprint, Index, JoinIndex, JoinLookup, KeyExtension, KeyIndex, KeyLookup, OrderIndex,
    ReverseIndex, Stored, Visible,
};
use hypostyle_types::{ColumnId, Generation, TableId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const ORDERS: i64 = 1_500_000;
const ITEMS: i64 = 6_000_000;
const RUNS: usize = 7;

/// Runs something several times; the shortest time in milliseconds, and what it has made.
fn measure<T>(what: &str, mut run: impl FnMut() -> T) -> T {
    let mut best = f64::INFINITY;
    let mut made = None;
    for _ in 0..RUNS {
        drop(made.take());
        let begin = Instant::now();
        made = Some(black_box(run()));
        best = best.min(begin.elapsed().as_secs_f64() * 1e3);
    }
    println!("{best:9.2} ms  {what}");
    made.expect("there is at least one run")
}

/// Eight keys, then a gap of 24.
fn order_key(row: i64) -> i64 {
    1 + row / 8 * 32 + row % 8
}

/// Rows in an order that visits all of them and none after its neighbour.
fn scattered(row: i64, rows: i64) -> i64 {
    row * 7_368_787 % rows
}

fn numbers(values: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn lookup_of(columns: &[ArrayRef]) -> KeyLookup {
    let index = KeyIndex::build(columns, 1).expect("columns of keys");
    KeyLookup::new(Arc::new(index), columns).expect("its own columns")
}

/// Looks up keys in an index, in the order of the rows that refer to it and scattered.
fn measure_lookups(kind: &str, keys: &KeyLookup, clustered: &[ArrayRef], scattered: &[ArrayRef]) {
    let visible = Visible::before(keys.rows());
    let mut found = Vec::with_capacity(ITEMS as usize);
    for (order, columns) in [("clustered", clustered), ("scattered", scattered)] {
        measure(&format!("look up 6 M keys, {kind}, {order}"), || {
            found.clear();
            keys.find(columns, &visible, &mut found).expect("keys of its type");
        });
    }
}

fn bytes_of(stored: &Stored) -> Buffer {
    let encoded = stored.encode();
    let mut bytes = MutableBuffer::from_len_zeroed(encoded.length() as usize);
    for (start, piece) in encoded.pieces() {
        bytes[start as usize..][..piece.len()].copy_from_slice(piece);
    }
    bytes.into()
}

fn measure_decoding(what: &str, index: Index, is_join: bool) {
    let covered = |rows| Covered {
        table: TableId(1),
        rows,
        columns: vec![Content { column: ColumnId(0), generation: Generation(0), dictionary: 0, checksum: 0 }],
    };
    let megabytes = index.bytes() as f64 / 1e6;
    let covered_rows = index.rows();
    let referenced = is_join.then(|| covered(ORDERS as u32));
    let bytes = bytes_of(&Stored { index, covered: covered(covered_rows), referenced });
    measure(&format!("read back {what}, {megabytes:.1} MB"), || Stored::decode(&bytes).expect("sound bytes"));
}

fn main() {
    let orders = [numbers((0..ORDERS).map(order_key))];
    let narrow: ArrayRef =
        Arc::new(Int32Array::from_iter_values((0..ORDERS).map(|row| order_key(row) as i32)));
    let customers = [numbers((0..ORDERS).map(|row| 1 + scattered(row, ORDERS)))];
    let sequence = [numbers(1..ORDERS + 1)];
    let texts: ArrayRef =
        Arc::new(LargeStringArray::from_iter_values((0..ORDERS).map(|row| format!("order #{row:09}"))));
    let clustered = |key: fn(i64) -> i64| [numbers((0..ITEMS).map(|row| key(row / 4)))];
    let any = |key: fn(i64) -> i64| [numbers((0..ITEMS).map(|row| key(scattered(row, ITEMS) / 4)))];
    let references = clustered(order_key);

    measure("build affine over 1.5 M", || KeyIndex::build(&sequence, 1));
    measure("build rank over 1.5 M", || KeyIndex::build(&orders, 1));
    measure("build rank over 1.5 M of 4 bytes", || KeyIndex::build(std::slice::from_ref(&narrow), 1));
    measure("build dense over 1.5 M", || KeyIndex::build(&customers, 1));
    let hash = measure("build hash over 1.5 M", || KeyIndex::build_hash(&orders, 1).expect("keys"));
    let text = measure("build hash over 1.5 M texts", || {
        KeyIndex::build(std::slice::from_ref(&texts), 1).expect("keys")
    });

    let rank = lookup_of(&orders);
    measure_lookups("affine", &lookup_of(&sequence), &clustered(|row| row + 1), &any(|row| row + 1));
    measure_lookups("rank", &rank, &references, &any(order_key));
    measure_lookups("dense", &lookup_of(&customers), &clustered(|row| row + 1), &any(|row| row + 1));
    let hashed = KeyLookup::new(Arc::new(hash.clone()), &orders).expect("its own columns");
    measure_lookups("hash", &hashed, &references, &any(order_key));
    let text_keys =
        KeyLookup::new(Arc::new(text.clone()), std::slice::from_ref(&texts)).expect("its own columns");
    let mut found = Vec::new();
    measure("look up 1.5 M texts, hash", || {
        found.clear();
        text_keys
            .find(std::slice::from_ref(&texts), &Visible::before(ORDERS as u32), &mut found)
            .expect("texts");
    });
    let rest = [numbers((ORDERS..ORDERS + 65_536).map(order_key))];
    measure("build the extension of 65,536 keys", || {
        KeyExtension::build(&rank, &[rest.to_vec()], 1).expect("keys")
    });

    let join = Arc::new(measure("build join of 6 M", || JoinIndex::build(&rank, &references).expect("keys")));
    let follow =
        JoinLookup::new(join.clone(), &[references.to_vec()], rank.clone()).expect("its own columns");
    let rows: Vec<u32> = (0..ITEMS as u32).collect();
    let mut found = Vec::with_capacity(ITEMS as usize);
    measure("follow 6 M rows", || {
        found.clear();
        follow.follow(&rows, &Visible::before(ORDERS as u32), &mut found).expect("rows");
    });
    let reverse = measure("build reverse of 6 M", || ReverseIndex::build(&join));
    let prices = numbers((0..ITEMS).map(|row| scattered(row, ITEMS)));
    let imprint = measure("build imprint over 6 M", || Imprint::build(&prices).expect("numbers"));
    let order = measure("build order over 6 M", || OrderIndex::build(&prices).expect("numbers"));

    measure_decoding("rank", Index::Key(rank.index().clone()), false);
    measure_decoding("hash", Index::Key(Arc::new(hash)), false);
    measure_decoding("hash of texts", Index::Key(Arc::new(text)), false);
    measure_decoding("join", Index::Join(join), true);
    measure_decoding("reverse", Index::Reverse(Arc::new(reverse)), true);
    measure_decoding("imprint", Index::Imprint(Arc::new(imprint)), false);
    measure_decoding("order", Index::Order(Arc::new(order)), false);
}
