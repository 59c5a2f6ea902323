//! Values of sequences, taken from the log.

use super::Database;
use crate::sequence::unknown_sequence;
use crate::snapshot::Snapshot;
use hypostyle_format::{Catalog, Change, SequenceEntry, SequenceState};
use hypostyle_types::{Error, Result};

impl Database {
    /// Gives out values of a sequence, by its definition as committed or as only the transaction
    /// has it whose snapshot is `seen`.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` when there are not so many values; `ReadOnly`, `DiskFull`,
    /// `Io`.
    pub fn next_values(&self, seen: &Snapshot, schema: &str, name: &str, count: u64) -> Result<Vec<i64>> {
        self.change_state(seen, schema, name, |sequence| sequence.take(count))
    }

    /// Has a sequence go on from a state.
    ///
    /// # Errors
    /// As [`Self::next_values`]; `InvalidInput` for a value that the sequence has not.
    pub fn set_sequence(
        &self,
        seen: &Snapshot,
        schema: &str,
        name: &str,
        state: SequenceState,
    ) -> Result<()> {
        self.change_state(seen, schema, name, |sequence| {
            if !(sequence.min..=sequence.max).contains(&state.last) {
                return Err(Error::invalid_input(format!(
                    "{} is not between the bounds {} and {} of sequence \"{name}\"",
                    state.last, sequence.min, sequence.max
                ))
                .with_sqlstate("22003"));
            }
            sequence.state = state;
            Ok(())
        })
    }

    fn change_state<T>(
        &self,
        seen: &Snapshot,
        schema: &str,
        name: &str,
        change: impl FnOnce(&mut SequenceEntry) -> Result<T>,
    ) -> Result<T> {
        self.check_writable()?;
        let mut sequence = sequence_of(seen.catalog(), schema, name)?;
        if let Some(own) = seen.own_sequences().get(schema, name) {
            let mut state = own.lock();
            sequence.state = *state;
            let value = change(&mut sequence)?;
            *state = sequence.state;
            return Ok(value);
        }
        let mut value = None;
        self.log_change(|catalog| {
            let mut sequence = sequence_of(catalog, schema, name)?;
            value = Some(change(&mut sequence)?);
            let (schema, name, state) = (sequence.schema, sequence.name, sequence.state);
            Ok(Change::AdvanceSequence { schema, name, state })
        })?;
        value.ok_or_else(|| Error::internal("a sequence was not advanced"))
    }
}

fn sequence_of(catalog: &Catalog, schema: &str, name: &str) -> Result<SequenceEntry> {
    catalog.sequence(schema, name).cloned().ok_or_else(|| unknown_sequence(catalog, name))
}
