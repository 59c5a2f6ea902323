//! Groups that are too many for one table: rows are first shared out by a hash of their keys.
//!
//! A table of groups that does not fit into the cache costs a miss for each row, and those of several
//! workers have most groups in common, so that putting them together costs as much again. Where a
//! worker finds many groups among few rows, all workers only note the positions of rows, by some
//! bits of a hash of their keys. Each part then has a table of its own, which one worker makes.

use super::chunk::Chunk;
use super::evaluate::Value;
use super::stop::Stopped;
use hypostyle_position::Selection;
use hypostyle_position::partition::{Partitioned, partition};
use std::sync::atomic::{AtomicU8, Ordering};

/// The groups of a worker, from which on they are many.
const MANY: usize = 1 << 17;

/// Groups are too many for one table if they have fewer rows than this each.
const ROWS_PER_GROUP: usize = 8;

/// The rows that come into one part, about.
const ROWS_PER_PART: u64 = 1 << 16;

/// What becomes of the rows of all workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// It is not known yet how many groups there are.
    Open,
    /// Each worker has one table of groups.
    Table,
    /// Rows are shared out.
    Parts,
}

/// The way that the first worker to know has chosen for all.
#[derive(Debug)]
pub(super) struct Choice(AtomicU8);

impl Choice {
    pub fn new(way: Way) -> Self {
        Self(AtomicU8::new(way as u8))
    }

    pub fn way(&self) -> Way {
        match self.0.load(Ordering::Relaxed) {
            way if way == Way::Table as u8 => Way::Table,
            way if way == Way::Parts as u8 => Way::Parts,
            _ => Way::Open,
        }
    }

    /// Chooses a way if so many groups of so many rows tell which is the better one, and nobody has.
    pub fn choose(&self, groups: usize, rows: usize) {
        let way = match rows < MANY * ROWS_PER_GROUP {
            true if groups < MANY => return,
            true => Way::Parts,
            false => Way::Table,
        };
        let _chosen =
            self.0.compare_exchange(Way::Open as u8, way as u8, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Positions of rows in several tables.
#[derive(Debug)]
pub(super) struct Noted {
    lists: Vec<(usize, Vec<u32>)>,
    pub rows: usize,
}

impl Noted {
    pub fn new(slots: &[usize]) -> Self {
        Self { lists: slots.iter().map(|slot| (*slot, Vec::new())).collect(), rows: 0 }
    }

    pub fn push(&mut self, chunk: &Chunk) {
        for (slot, list) in &mut self.lists {
            list.extend(chunk.positions(*slot).iter());
        }
        self.rows += chunk.rows;
    }

    pub fn bytes(&self) -> usize {
        self.lists.iter().map(|(_, list)| list.capacity() * 4).sum()
    }

    /// Returns the rows in chunks.
    pub fn chunks(&self, slots: usize, rows: usize) -> impl Iterator<Item = Chunk> {
        (0..self.rows).step_by(rows).map(move |start| {
            let end = self.rows.min(start + rows);
            let mut chunk = Chunk::new(slots, usize::MAX, Selection::Range(start as u32, end as u32));
            for (slot, list) in &self.lists {
                chunk.put(*slot, Selection::List(list[start..end].to_vec()));
            }
            chunk
        })
    }
}

/// Positions of rows by parts.
#[derive(Debug)]
pub(super) struct Parts {
    bits: u32,
    pub parts: Vec<Noted>,
}

impl Parts {
    /// Makes as many parts as the rows of a table are worth.
    pub fn new(slots: &[usize], rows: u64) -> Self {
        let bits = (rows / ROWS_PER_PART).max(1).ilog2().clamp(3, 10);
        Self { bits, parts: (0..1 << bits).map(|_| Noted::new(slots)).collect() }
    }

    /// Notes the rows of a chunk by their keys.
    pub fn push(&mut self, chunk: &Chunk, keys: &[Value<'_>]) -> Stopped<()> {
        let keys: Vec<_> = keys.iter().map(Value::column).collect();
        let found: Partitioned = partition(&keys, self.bits)?;
        let sorted = chunk.at(&found.order);
        for (part, noted) in self.parts.iter_mut().enumerate() {
            let places = found.part(part);
            for (slot, list) in &mut noted.lists {
                list.extend(sorted.positions(*slot).part(places.clone()).iter());
            }
            noted.rows += places.len();
        }
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Noted::bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_worker_to_know_chooses_for_all() {
        let choice = Choice::new(Way::Open);
        choice.choose(MANY - 1, MANY);
        assert_eq!(choice.way(), Way::Open);
        choice.choose(MANY, MANY * ROWS_PER_GROUP - 1);
        assert_eq!(choice.way(), Way::Parts);
        choice.choose(10, MANY * ROWS_PER_GROUP);
        assert_eq!(choice.way(), Way::Parts);
        let choice = Choice::new(Way::Open);
        choice.choose(MANY * 2, MANY * ROWS_PER_GROUP);
        assert_eq!(choice.way(), Way::Table);
    }

    #[test]
    fn rows_are_noted_once_and_in_one_part_for_each_key() {
        let keys = arrow::array::Int64Array::from_iter_values((0..20_000).map(|row| row % 701));
        let mut parts = Parts::new(&[0, 2], 1 << 20);
        for start in (0..20_000_u32).step_by(3_000) {
            let end = 20_000.min(start + 3_000);
            let mut chunk = Chunk::new(3, 0, Selection::Range(start, end));
            chunk.put(2, Selection::List((start..end).map(|row| row * 2).collect()));
            let key = Value::Own(std::sync::Arc::new(keys.slice(start as usize, (end - start) as usize)));
            parts.push(&chunk, &[key]).unwrap();
        }
        let mut part_of = std::collections::HashMap::new();
        let mut seen = vec![false; 20_000];
        for (part, noted) in parts.parts.iter().enumerate() {
            let mut rows = 0;
            for chunk in noted.chunks(3, 77) {
                rows += chunk.rows;
                assert!(chunk.positions(1).is_empty());
                for (own, other) in chunk.positions(0).iter().zip(chunk.positions(2).iter()) {
                    assert_eq!(other, 2 * own);
                    assert!(!std::mem::replace(&mut seen[own as usize], true));
                    assert_eq!(*part_of.entry(keys.value(own as usize)).or_insert(part), part);
                }
            }
            assert_eq!(rows, noted.rows);
        }
        assert!(seen.into_iter().all(|seen| seen));
        assert!(parts.parts.iter().filter(|part| part.rows > 0).count() > 4);
    }
}
