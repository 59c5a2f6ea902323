//! Sequences: numbers that are given out once (format.md §5).

use hypostyle_types::{ColumnId, Error, Result, TableId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceEntry {
    pub schema: String,
    pub name: String,
    /// The step from one value to the next; never zero.
    pub increment: i64,
    pub min: i64,
    pub max: i64,
    pub start: i64,
    /// Says whether the sequence starts again after its last value.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cycle: bool,
    /// The column with which the sequence is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<SequenceOwner>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    pub state: SequenceState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceOwner {
    pub table: TableId,
    pub column: ColumnId,
}

/// The state of a sequence: the last value, and whether it was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SequenceState {
    pub last: i64,
    /// Says whether `last` has been given out; if not, it is the next value.
    pub is_called: bool,
}

impl SequenceEntry {
    /// Takes the next `count` values.
    ///
    /// # Errors
    /// `InvalidInput` when there are not so many values left.
    pub fn take(&mut self, count: u64) -> Result<Vec<i64>> {
        (0..count)
            .map(|_| {
                let last = self.next()?;
                self.state = SequenceState { last, is_called: true };
                Ok(last)
            })
            .collect()
    }

    fn next(&self) -> Result<i64> {
        let last = self.state.last;
        let next = if self.state.is_called { last.checked_add(self.increment) } else { Some(last) };
        let (first, end, which) = match self.increment > 0 {
            true => (self.min, self.max, "maximum"),
            false => (self.max, self.min, "minimum"),
        };
        match next.filter(|next| (self.min..=self.max).contains(next)) {
            Some(next) => Ok(next),
            None if self.cycle => Ok(first),
            None => Err(Error::invalid_input(format!(
                "sequence \"{}\" has reached its {which} value, {end}",
                self.name
            ))
            .with_sqlstate("2200H")),
        }
    }

    pub(crate) fn validate(&self) -> Result<()> {
        // The state may be outside the bounds: others may have advanced it while the bounds were
        // altered.
        if self.increment == 0 || !(self.min..=self.max).contains(&self.start) {
            return Err(Error::corrupt(format!("sequence \"{}\" has no values", self.name)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(increment: i64, start: i64, cycle: bool) -> SequenceEntry {
        SequenceEntry {
            schema: "main".into(),
            name: "s".into(),
            increment,
            min: 1,
            max: 5,
            start,
            cycle,
            owner: None,
            comment: None,
            state: SequenceState { last: start, is_called: false },
        }
    }

    #[test]
    fn values_end_or_begin_anew() {
        let mut up = sequence(2, 1, false);
        assert_eq!(up.take(3).unwrap(), [1, 3, 5]);
        assert_eq!(up.take(1).unwrap_err().sqlstate(), "2200H");
        assert_eq!(sequence(-2, 5, true).take(4).unwrap(), [5, 3, 1, 5]);
        let mut widest = SequenceEntry { max: i64::MAX, ..sequence(3, 1, true) };
        widest.state = SequenceState { last: i64::MAX, is_called: true };
        assert_eq!(widest.take(2).unwrap(), [1, 4]);
    }
}
