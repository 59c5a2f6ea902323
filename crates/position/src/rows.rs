//! Which rows of a column a kernel reads.

use crate::{Error, NO_POSITION, Result};
use arrow_array::Array;
use std::iter;
use std::ops::Range;

/// Rows of a table, in the order in which a kernel reads them.
#[derive(Clone, Copy, Debug)]
pub enum Rows<'a> {
    /// All positions from the first up to, and without, the second.
    Range(u32, u32),
    /// The positions of a list, in any order; a position may be there more than once.
    List(&'a [u32]),
}

/// Positions of a list that are looked at together, to tell whether they follow each other.
const RUN: usize = 32;

/// Returns how many positions at the beginning of a list follow each other, in blocks of [`RUN`].
fn following(list: &[u32]) -> usize {
    let (blocks, _) = list.as_chunks::<RUN>();
    let is_next = |(number, block): &(usize, &[u32; RUN])| {
        let start = list[0].wrapping_add((number * RUN) as u32);
        let ends = block[RUN - 1] == start.wrapping_add(RUN as u32 - 1);
        // Without an early end, this is done by vector instructions.
        ends && block
            .iter()
            .zip(0..)
            .fold(true, |next, (at, place)| next & (*at == start.wrapping_add(place)))
    };
    blocks.iter().enumerate().take_while(is_next).count() * RUN
}

impl<'a> Rows<'a> {
    /// Returns all rows of a column, or an error if they are more than positions can name.
    pub fn all(array: &dyn Array) -> Result<Self> {
        match u32::try_from(array.len()) {
            Ok(rows) if rows < NO_POSITION => Ok(Rows::Range(0, rows)),
            _ => Err(Error::TooMany("the rows of a column")),
        }
    }

    /// Returns how many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Rows::Range(start, end) => end.saturating_sub(*start) as usize,
            Rows::List(positions) => positions.len(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the positions, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        let (range, list) = match *self {
            Rows::Range(start, end) => (start..end, [].as_slice()),
            Rows::List(positions) => (0..0, positions),
        };
        range.chain(list.iter().copied())
    }

    /// Returns the position at a place, which must be less than `len()`.
    #[inline]
    pub fn at(&self, place: u32) -> u32 {
        match self {
            Rows::Range(start, _) => start + place,
            Rows::List(positions) => positions[place as usize],
        }
    }

    /// Returns the positions at some places, each of which must be less than `len()`.
    pub fn pick(&self, places: &[u32]) -> Vec<u32> {
        match self {
            Rows::Range(start, _) => places.iter().map(|place| start + place).collect(),
            Rows::List(positions) => places.iter().map(|place| positions[*place as usize]).collect(),
        }
    }

    /// Returns a part of the rows: those at the places of a range, which must lie within
    /// `0..len()`.
    pub fn part(&self, places: Range<usize>) -> Self {
        match *self {
            Rows::Range(start, _) => Rows::Range(start + places.start as u32, start + places.end as u32),
            Rows::List(positions) => Rows::List(&positions[places]),
        }
    }

    /// Returns the rows in pieces, one after the other: many positions of a list that follow each other
    /// are a range.
    pub fn runs(&self) -> impl Iterator<Item = Self> + use<'a> {
        let (range, mut list) = match *self {
            Rows::Range(..) => (Some(*self), [].as_slice()),
            Rows::List(positions) => (None, positions),
        };
        let of_list = iter::from_fn(move || {
            let start = *list.first()?;
            let (piece, len) = match following(list) {
                0 => {
                    let blocks = list.chunks(RUN).skip(1).take_while(|block| following(block) == 0);
                    let len = list.len().min(RUN * (1 + blocks.count()));
                    (Rows::List(&list[..len]), len)
                }
                len => (Rows::Range(start, start.wrapping_add(len as u32)), len),
            };
            list = &list[len..];
            Some(piece)
        });
        range.into_iter().chain(of_list)
    }

    /// Fails if a position lies behind the rows of a column, or a range ends before it begins.
    pub fn check(&self, rows: usize) -> Result<()> {
        if let Rows::Range(start, end) = self
            && start > end
        {
            return Err(Error::Inputs { kernel: "rows", reason: "a range ends before it begins" });
        }
        let last = match *self {
            Rows::Range(start, end) if start < end => end - 1,
            Rows::List(positions) if !positions.is_empty() => {
                positions.iter().fold(0, |last, position| last.max(*position))
            }
            _ => return Ok(()),
        };
        match (last as usize) < rows {
            true => Ok(()),
            false => Err(Error::PositionOutOfRange { position: last, rows }),
        }
    }
}

/// A column, and the rows of it that are meant.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    /// The values, of which row 0 is at position 0.
    pub array: &'a dyn Array,
    /// The rows that are read.
    pub rows: Rows<'a>,
}

impl<'a> Column<'a> {
    /// Returns some rows of a column, or an error if it does not have them.
    pub fn new(array: &'a dyn Array, rows: Rows<'a>) -> Result<Self> {
        rows.check(array.len())?;
        Ok(Self { array, rows })
    }

    /// Returns all rows of a column, or an error if they are more than positions can name.
    pub fn all(array: &'a dyn Array) -> Result<Self> {
        Ok(Self { array, rows: Rows::all(array)? })
    }
}

/// Fails unless all columns have as many rows, and returns how many.
pub(crate) fn common_rows(kernel: &'static str, columns: &[Column<'_>]) -> Result<usize> {
    let rows = columns.first().map_or(0, |column| column.rows.len());
    for column in columns {
        column.rows.check(column.array.len())?;
        if column.rows.len() != rows {
            return Err(Error::Inputs { kernel, reason: "the columns have different numbers of rows" });
        }
    }
    Ok(rows)
}

/// Calls a function with the place and the value of each row.
#[inline(always)]
pub(crate) fn for_each<T: Copy>(values: &[T], rows: Rows<'_>, mut function: impl FnMut(usize, T)) {
    match rows {
        Rows::Range(start, end) => {
            for (place, value) in values[start as usize..end as usize].iter().enumerate() {
                function(place, *value);
            }
        }
        Rows::List(positions) => {
            for (place, position) in positions.iter().enumerate() {
                function(place, values[*position as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Int32Array;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_the_rows(parts in prop::collection::vec((0..1_000_u32, 1..200_u32), 0..8), start in 0..9_u32) {
            let list: Vec<u32> = parts.iter().flat_map(|(from, len)| *from..from + len).collect();
            let pieces: Vec<_> = Rows::List(&list).runs().collect();
            prop_assert_eq!(pieces.iter().flat_map(Rows::iter).collect::<Vec<_>>(), list.clone());
            let listed = |piece: &&Rows<'_>| matches!(piece, Rows::List(_));
            let most = RUN * (2 * parts.len() + 1);
            prop_assert!(pieces.iter().filter(listed).map(Rows::len).sum::<usize>() <= most);
            let range: Vec<_> = Rows::Range(start, 9).runs().collect();
            prop_assert!(matches!(range.as_slice(), [Rows::Range(from, 9)] if *from == start));
        }
    }

    #[test]
    fn rows_are_counted_cut_and_checked() {
        let range = Rows::Range(3, 7);
        assert_eq!((range.len(), range.iter().collect::<Vec<_>>()), (4, vec![3, 4, 5, 6]));
        assert_eq!(range.part(1..3).iter().collect::<Vec<_>>(), [4, 5]);
        let list = Rows::List(&[9, 2, 2]);
        assert_eq!(list.part(1..3).iter().collect::<Vec<_>>(), [2, 2]);
        assert!(list.check(10).is_ok() && list.check(9).is_err());
        assert!(range.check(7).is_ok() && range.check(6).is_err());
        assert!(Rows::Range(5, 5).check(0).is_ok() && Rows::List(&[]).check(0).is_ok());
        assert!(Rows::Range(5, 5).is_empty() && Rows::Range(5, 4).check(9).is_err());
    }

    #[test]
    fn columns_need_their_rows() {
        let array = Int32Array::from(vec![1, 2]);
        assert!(Column::new(&array, Rows::List(&[2])).is_err());
        assert_eq!(Column::all(&array).unwrap().rows.len(), 2);
        let (one, two) = (Rows::Range(0, 1), Rows::Range(0, 2));
        let columns = [one, two].map(|rows| Column { array: &array, rows });
        assert!(common_rows("a test", &columns).is_err());
    }
}
