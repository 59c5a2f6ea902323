//! Indexes as bytes: back as they were, and an error for any other bytes.

use crate::common::{TYPES, Type, array, values};
use arrow_array::ArrayRef;
use arrow_buffer::{Buffer, MutableBuffer};
use hypostyle_index::{
    Content, Covered, Imprint, Index, JoinIndex, KeyIndex, KeyLookup, OrderIndex, ReverseIndex, Stored,
    Visible,
};
use hypostyle_types::{ColumnId, ErrorKind, Generation, TableId};
use proptest::prelude::*;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3Default;

fn covered(table: u64, rows: u32) -> Covered {
    let content = |column| Content {
        column: ColumnId(column),
        generation: Generation(column + 1),
        dictionary: 3,
        checksum: u64::from(column) << 40 | 5,
    };
    Covered { table: TableId(table), rows, columns: vec![content(4)] }
}

/// Every kind of index over a column, as it would be stored.
fn every_index(values: &[Option<i64>], of: Type) -> Vec<Stored> {
    let column = [array(values, of)];
    let key = Arc::new(KeyIndex::build(&column, 7).unwrap());
    let lookup = KeyLookup::new(key.clone(), &column).unwrap();
    let join = JoinIndex::build(&lookup, &column).unwrap();
    let indexes = [
        Index::Key(key),
        Index::Key(Arc::new(KeyIndex::build_hash(&column, 8).unwrap())),
        Index::Reverse(Arc::new(ReverseIndex::build(&join))),
        Index::Join(Arc::new(join)),
        Index::Imprint(Arc::new(Imprint::build(&column[0]).unwrap())),
        Index::Order(Arc::new(OrderIndex::build(&column[0]).unwrap())),
    ];
    let rows = values.len() as u32;
    let stored = |index: Index| {
        let is_join = matches!(index, Index::Join(_) | Index::Reverse(_));
        Stored { index, covered: covered(9, rows), referenced: is_join.then(|| covered(8, rows)) }
    };
    indexes.into_iter().map(stored).collect()
}

fn bytes_of(stored: &Stored) -> Vec<u8> {
    let encoded = stored.encode();
    let mut bytes = vec![0; encoded.length() as usize];
    for (start, piece) in encoded.pieces() {
        bytes[start as usize..][..piece.len()].copy_from_slice(piece);
    }
    bytes
}

/// Puts bytes where a mapping has them: at a multiple of the alignment.
fn buffer(bytes: &[u8]) -> Buffer {
    let mut buffer = MutableBuffer::new(bytes.len());
    buffer.extend_from_slice(bytes);
    buffer.into()
}

fn is_same(one: &Index, other: &Index) -> bool {
    match (one, other) {
        (Index::Key(one), Index::Key(other)) => one == other,
        (Index::Join(one), Index::Join(other)) => one == other,
        (Index::Reverse(one), Index::Reverse(other)) => one == other,
        (Index::Imprint(one), Index::Imprint(other)) => one == other,
        (Index::Order(one), Index::Order(other)) => one == other,
        _ => false,
    }
}

/// Some indexes of each kind, none of them large.
fn samples() -> Vec<Stored> {
    let shapes: [&[Option<i64>]; 4] = [
        &[Some(3), Some(4), Some(5)],
        &[Some(-3), Some(9), Some(40)],
        &[Some(7), Some(2), None, Some(7)],
        &[],
    ];
    shapes.into_iter().flat_map(|values| every_index(values, Type::Int64)).collect()
}

proptest! {
    #[test]
    fn an_index_comes_back_as_it_was(values in values(), of in prop::sample::select(TYPES.to_vec())) {
        for stored in every_index(&values, of) {
            let back = Stored::decode(&buffer(&bytes_of(&stored))).unwrap();
            prop_assert!(is_same(&back.index, &stored.index));
            prop_assert_eq!(back.covered, stored.covered);
            prop_assert_eq!(back.referenced, stored.referenced);
        }
    }

    /// Numbers that a hostile file may have, under a checksum that is right.
    #[test]
    fn what_is_read_of_forged_bytes_leads_nowhere_else(
        sample in 0..24_usize,
        changes in prop::collection::vec((prop::num::usize::ANY, prop_oneof![0..4_u8, Just(255), Just(128), any::<u8>()]), 1..4),
        cut in prop::option::weighted(0.2, 0..200_usize),
    ) {
        let mut bytes = bytes_of(&samples()[sample]);
        for (place, value) in changes {
            let place = place % bytes.len();
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(bytes.len().saturating_sub(cut));
        }
        forge(&mut bytes);
        if let Ok(stored) = Stored::decode(&buffer(&bytes)) {
            use_it(&stored);
        }
    }
}

/// Makes the checksum right.
fn forge(bytes: &mut [u8]) {
    if bytes.len() >= 80 {
        let mut hash = Xxh3Default::new();
        hash.update(&bytes[..72]);
        hash.update(&bytes[80..]);
        bytes[72..80].copy_from_slice(&hash.digest().to_le_bytes());
    }
}

/// Reads all of an index, whose columns may be of any length.
fn use_it(stored: &Stored) {
    // Who opens a file compares these with the rows that there are.
    let rows = stored.index.rows();
    let referred = stored.referenced.as_ref().map_or(0, |covered| covered.rows);
    if rows.max(referred) > 1000 {
        return;
    }
    let column: ArrayRef = array(&vec![Some(7); rows as usize], Type::Int64);
    let visible = Visible::before(rows);
    let (mut found, mut places) = (Vec::new(), Vec::new());
    match &stored.index {
        Index::Key(index) => {
            if let Ok(lookup) = KeyLookup::new(index.clone(), std::slice::from_ref(&column)) {
                let keys = array(&[Some(i64::MIN), Some(3), Some(7), Some(i64::MAX)], Type::Int64);
                lookup.find(&[keys], &visible, &mut found).unwrap();
            }
        }
        Index::Imprint(index) => drop(index.may_have(3, rows)),
        Index::Order(index) => {
            if let Ok(lookup) = hypostyle_index::OrderLookup::new(index.clone(), &column) {
                let all = std::ops::Bound::Unbounded;
                lookup.range(all, all, &visible, &mut found).unwrap();
            }
        }
        Index::Join(_) | Index::Reverse(_) => {
            let key = Arc::new(KeyIndex::build(std::slice::from_ref(&column.slice(0, 0)), 1).unwrap());
            let keys = KeyLookup::new(key, std::slice::from_ref(&column)).unwrap();
            let join = match &stored.index {
                Index::Join(index) => index.clone(),
                _ => Arc::new(JoinIndex::build(&keys, std::slice::from_ref(&column)).unwrap()),
            };
            let reverse = match &stored.index {
                Index::Reverse(index) => index.clone(),
                _ => Arc::new(ReverseIndex::build(&join)),
            };
            let lookup = hypostyle_index::JoinLookup::new(join, &[vec![column.clone()]], keys).unwrap();
            let keys = lookup.keys();
            if let Some(reverse) = hypostyle_index::ReverseLookup::new(reverse, keys, &Visible::before(0)) {
                let referenced: Vec<u32> = (0..1000).collect();
                reverse.expand(&referenced, &visible, &mut places, &mut found).unwrap();
            }
        }
    }
    assert!(found.iter().all(|row| *row < rows || *row == hypostyle_index::NO_ROW));
}

#[test]
fn every_byte_that_changes_is_found() {
    for stored in samples() {
        let bytes = bytes_of(&stored);
        assert!(bytes.len() < 1000);
        for place in 0..bytes.len() {
            for bit in [1, 0x80, 0xFF] {
                let mut changed = bytes.clone();
                changed[place] ^= bit;
                let error = Stored::decode(&buffer(&changed)).unwrap_err();
                let kinds = [ErrorKind::Corrupt, ErrorKind::Version];
                assert!(kinds.contains(&error.kind()), "byte {place}: {error}");
            }
        }
        for length in 0..bytes.len() {
            assert!(Stored::decode(&buffer(&bytes[..length])).is_err(), "{length} bytes");
        }
        assert!(Stored::decode(&buffer(&[bytes.clone(), vec![0]].concat())).is_err());
        Stored::decode(&buffer(&bytes)).unwrap();
    }
}

#[test]
fn bytes_that_do_not_lie_as_numbers_do_are_an_error() {
    let stored = &samples()[6];
    let shifted = buffer(&[vec![0], bytes_of(stored)].concat()).slice(1);
    match Stored::decode(&shifted) {
        Ok(back) => assert!(back.index.bytes() == 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt),
    }
}
