//! Hash joins by position.
//!
//! One side is collected: its distinct keys are numbered, and each number has the positions of its
//! rows. Rows of the other side find the number of their key, and from there all kinds of joins:
//! the partners of each row as pairs of positions, or only whether there is one. NULL equals
//! nothing, or NULL alone (IS NOT DISTINCT FROM).
//!
//! A table that is larger than the cache costs a miss for each row: share both sides out by a
//! [`partition`](crate::partition), and join part by part, with a table for each.

use crate::key::{KeySet, KeyType};
use crate::value::check_comparable;
use crate::{Column, Error, NO_POSITION, Result, Rows};
use arrow_array::BooleanArray;
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;

const KERNEL: &str = "join";

/// Collects the rows of one side of a join.
pub struct JoinBuilder {
    set: KeySet,
    types: Vec<DataType>,
    /// The numbers of the rows' keys, and their positions.
    ids: Vec<u32>,
    positions: Vec<u32>,
    nulls_equal: bool,
    has_null: bool,
    is_empty: bool,
}

impl JoinBuilder {
    /// Makes a builder for keys of some types, with NULLs that equal each other or nothing.
    pub fn new(types: &[DataType], nulls_equal: bool) -> Result<Self> {
        let keys: Vec<KeyType> = types
            .iter()
            .map(|data_type| KeyType { data_type: data_type.clone(), with_null: nulls_equal })
            .collect();
        Ok(Self {
            set: KeySet::new(KERNEL, &keys)?,
            types: types.to_vec(),
            ids: Vec::new(),
            positions: Vec::new(),
            nulls_equal,
            has_null: false,
            is_empty: true,
        })
    }

    /// Returns the bytes that the table of so many rows takes at most, while it is made, without
    /// the bytes of strings, which are those of the rows' own.
    pub fn bytes_for(&self, rows: usize) -> usize {
        // The number and the position of each row, twice, and where the positions of each key
        // begin.
        self.set.bytes_for(rows) + rows * 20
    }

    /// Makes room for rows before they come.
    pub fn reserve(&mut self, rows: usize) {
        self.set.reserve(rows);
        self.ids.reserve(rows);
        self.positions.reserve(rows);
    }

    /// Adds rows: a column for each key, and the positions by which the join names the rows.
    pub fn push(&mut self, keys: &[Column<'_>], positions: Rows<'_>) -> Result<()> {
        check(&self.types, keys, positions.len())?;
        let mut ids = Vec::new();
        self.is_empty &= positions.is_empty();
        match if self.nulls_equal { None } else { valid(keys) } {
            None => {
                self.set.insert(keys, &mut ids)?;
                self.positions.extend(positions.iter());
            }
            Some(valid) => {
                self.has_null = true;
                // Rows that equal nothing are not collected.
                let kept: Vec<usize> = valid.valid_indices().collect();
                let rows: Vec<Vec<u32>> = keys.iter().map(|key| picked(key.rows, &kept)).collect();
                let keys: Vec<Column<'_>> = keys
                    .iter()
                    .zip(&rows)
                    .map(|(key, rows)| Column { array: key.array, rows: Rows::List(rows) })
                    .collect();
                self.set.insert(&keys, &mut ids)?;
                self.positions.extend(picked(positions, &kept));
            }
        }
        self.ids.extend_from_slice(&ids);
        match u32::try_from(self.positions.len()) {
            Ok(rows) if rows < NO_POSITION => Ok(()),
            _ => Err(Error::TooMany("the rows of a join's side")),
        }
    }

    /// Makes the table. Takes time in proportion to the rows.
    pub fn finish(self) -> JoinTable {
        let keys = self.set.len();
        let Self { set, types, ids, positions, nulls_equal, has_null, is_empty } = self;
        if keys == positions.len() {
            // Numbers are given in the order of rows, so that the first row has the first one.
            return JoinTable { set, types, starts: None, positions, nulls_equal, has_null, is_empty };
        }
        let mut starts = vec![0_u32; keys + 1];
        ids.iter().for_each(|id| starts[*id as usize + 1] += 1);
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut by_key = vec![0; positions.len()];
        for (id, position) in ids.iter().zip(&positions) {
            let next = &mut next[*id as usize];
            by_key[*next as usize] = *position;
            *next += 1;
        }
        let (starts, positions) = (Some(starts), by_key);
        JoinTable { set, types, starts, positions, nulls_equal, has_null, is_empty }
    }
}

fn picked(rows: Rows<'_>, places: &[usize]) -> Vec<u32> {
    match rows {
        Rows::Range(start, _) => places.iter().map(|place| start + *place as u32).collect(),
        Rows::List(positions) => places.iter().map(|place| positions[*place]).collect(),
    }
}

fn check(types: &[DataType], keys: &[Column<'_>], rows: usize) -> Result<()> {
    if keys.len() != types.len() || keys.is_empty() {
        return Err(Error::Inputs { kernel: KERNEL, reason: "there is not one column for each key" });
    }
    for (key, data_type) in keys.iter().zip(types) {
        check_comparable(key.array.data_type(), data_type)?;
        key.rows.check(key.array.len())?;
        if key.rows.len() != rows {
            return Err(Error::Inputs {
                kernel: KERNEL,
                reason: "the columns have different numbers of rows",
            });
        }
    }
    Ok(())
}

/// Returns which places have no NULL among their keys; `None` where that is so for all.
fn valid(keys: &[Column<'_>]) -> Option<NullBuffer> {
    let valid = keys.iter().fold(None, |valid, key| {
        let Some(nulls) = key.array.logical_nulls().filter(|nulls| nulls.null_count() > 0) else {
            return valid;
        };
        let own = NullBuffer::from_iter(key.rows.iter().map(|row| nulls.is_valid(row as usize)));
        NullBuffer::union(valid.as_ref(), Some(&own))
    });
    valid.filter(|valid| valid.null_count() > 0)
}

/// The rows of one side of a join by their keys. Many threads may probe it at once.
pub struct JoinTable {
    set: KeySet,
    types: Vec<DataType>,
    /// Where the positions of each key begin, and where those of the last one end; `None` where
    /// each key has one row.
    starts: Option<Vec<u32>>,
    /// The positions of the first key, then those of the next; of one key in the order of the rows.
    positions: Vec<u32>,
    nulls_equal: bool,
    has_null: bool,
    is_empty: bool,
}

impl JoinTable {
    /// Returns whether no two rows have one key, so that each row of the other side has one partner
    /// at most.
    pub fn is_unique(&self) -> bool {
        self.starts.is_none()
    }

    /// Returns how many distinct keys there are, without NULL where that equals nothing.
    pub fn keys(&self) -> usize {
        self.set.len()
    }

    /// Returns the bytes that the table takes.
    pub fn bytes(&self) -> usize {
        let starts = self.starts.as_ref().map_or(0, Vec::capacity);
        self.set.bytes() + (starts + self.positions.capacity()) * 4
    }

    /// Finds the keys of some rows of the other side. Takes time in proportion to the rows.
    pub fn probe(&self, keys: &[Column<'_>]) -> Result<Probe<'_>> {
        check(&self.types, keys, keys.first().map_or(0, |key| key.rows.len()))?;
        let mut ids = Vec::new();
        self.set.find(keys, &mut ids)?;
        let valid = if self.nulls_equal { None } else { valid(keys) };
        if let Some(valid) = &valid {
            for (id, valid) in ids.iter_mut().zip(valid) {
                if !valid {
                    *id = NO_POSITION;
                }
            }
        }
        Ok(Probe { table: self, ids, valid, place: 0, partner: 0 })
    }

    fn partners(&self, id: u32) -> &[u32] {
        let id = id as usize;
        match &self.starts {
            None => &self.positions[id..id + 1],
            Some(starts) => &self.positions[starts[id] as usize..starts[id + 1] as usize],
        }
    }
}

/// Pairs of rows that a join puts together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pairs {
    /// The places of rows among those that were probed, ascending.
    pub places: Vec<u32>,
    /// The position of each one's partner, or [`NO_POSITION`] in an outer join.
    pub partners: Vec<u32>,
}

/// What a join has found for the rows of a chunk.
pub struct Probe<'a> {
    table: &'a JoinTable,
    /// The number of each row's key, or [`NO_POSITION`].
    ids: Vec<u32>,
    valid: Option<NullBuffer>,
    /// The row and the partner of it that are the next pair.
    place: usize,
    partner: usize,
}

impl Probe<'_> {
    /// Replaces `pairs` by the next pairs, at most `limit` of them, and returns whether there may
    /// be more. In an `outer` join a row without a partner has [`NO_POSITION`] as its only one.
    ///
    /// Takes time in proportion to the pairs and to the rows without a partner.
    pub fn next_pairs(&mut self, outer: bool, limit: usize, pairs: &mut Pairs) -> bool {
        pairs.places.clear();
        pairs.partners.clear();
        if self.table.is_unique() {
            return self.next_single_pairs(outer, limit, pairs);
        }
        while let Some(id) = self.ids.get(self.place) {
            let room = limit - pairs.places.len();
            if room == 0 {
                return true;
            }
            let partners = match *id {
                NO_POSITION if outer => &[NO_POSITION],
                NO_POSITION => [].as_slice(),
                id => &self.table.partners(id)[self.partner..],
            };
            let taken = &partners[..partners.len().min(room)];
            pairs.places.extend(std::iter::repeat_n(self.place as u32, taken.len()));
            pairs.partners.extend_from_slice(taken);
            if taken.len() < partners.len() {
                self.partner += taken.len();
                return true;
            }
            (self.place, self.partner) = (self.place + 1, 0);
        }
        false
    }

    /// Adds the next pairs of a table of which each row has one partner at most.
    fn next_single_pairs(&mut self, outer: bool, limit: usize, pairs: &mut Pairs) -> bool {
        let start = self.place;
        let end = self.ids.len().min(start.saturating_add(limit));
        let ids = &self.ids[start..end];
        let positions = &self.table.positions;
        let partner = |id: &u32| positions.get(*id as usize).copied().unwrap_or(NO_POSITION);
        self.place = end;
        if outer {
            pairs.places.extend(start as u32..end as u32);
            pairs.partners.extend(ids.iter().map(partner));
            return end < self.ids.len();
        }
        // Each row writes a pair, and those without a partner let the next row overwrite theirs.
        pairs.places.resize(ids.len() + 1, 0);
        pairs.partners.resize(ids.len() + 1, 0);
        let mut next = 0;
        for (place, id) in ids.iter().enumerate() {
            pairs.places[next] = (start + place) as u32;
            pairs.partners[next] = partner(id);
            next += usize::from(*id != NO_POSITION);
        }
        pairs.places.truncate(next);
        pairs.partners.truncate(next);
        end < self.ids.len()
    }

    /// Returns the partner of each row, or [`NO_POSITION`]; of a table that is not unique the first
    /// one.
    pub fn first_partners(&self) -> Vec<u32> {
        let first = |id: &u32| if *id == NO_POSITION { *id } else { self.table.partners(*id)[0] };
        self.ids.iter().map(first).collect()
    }

    /// Returns a byte for each row: 1 if it has a partner. A semi join selects these rows, an anti
    /// join the others, NULLs among them.
    pub fn mask(&self, anti: bool) -> Vec<u8> {
        self.ids.iter().map(|id| u8::from((*id != NO_POSITION) != anti)).collect()
    }

    /// Returns what `key IN (the collected rows)` is for each row: true, false, or NULL where NULLs
    /// leave it open. Fails where there are several keys, of which some may be NULL and some not.
    pub fn marks(&self) -> Result<BooleanArray> {
        if self.table.types.len() != 1 && (self.valid.is_some() || self.table.has_null) {
            return Err(Error::Inputs { kernel: KERNEL, reason: "marks of several keys have no NULLs" });
        }
        let found = BooleanBuffer::collect_bool(self.ids.len(), |place| self.ids[place] != NO_POSITION);
        let nulls = match (self.table.is_empty, self.table.has_null) {
            // Nothing is in an empty set, not even what is unknown.
            (true, _) => None,
            (false, true) => Some(NullBuffer::new(found.clone())),
            (false, false) => self.valid.clone(),
        };
        Ok(BooleanArray::new(found, nulls))
    }
}

#[cfg(test)]
mod tests;
