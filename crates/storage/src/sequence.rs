//! Sequences: values that are given out once, whatever becomes of the transaction that asked.
//!
//! An advance is a change in the log, written before the commit that uses its values: the log's order makes it durable
//! with them. A sequence that a transaction has made or begun anew is its own until the commit.

use crate::database::Database;
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use hypostyle_format::{Catalog, Change, SequenceEntry, SequenceState};
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// States by schema and name of the sequences that only a transaction knows so.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnSequences(BTreeMap<(String, String), Arc<Mutex<SequenceState>>>);

impl OwnSequences {
    fn get(&self, schema: &str, name: &str) -> Option<&Arc<Mutex<SequenceState>>> {
        self.0.get(&(schema.to_string(), name.to_string()))
    }

    fn put(&mut self, schema: &str, name: &str, state: SequenceState) {
        self.0.insert((schema.into(), name.into()), Arc::new(Mutex::new(state)));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The states, for those that the catalog has.
    pub fn changes(&self, catalog: &Catalog) -> Vec<Change> {
        let kept = self.0.iter().filter(|((schema, name), _)| catalog.sequence(schema, name).is_some());
        kept.map(|((schema, name), state)| Change::AdvanceSequence {
            schema: schema.clone(),
            name: name.clone(),
            state: *state.lock(),
        })
        .collect()
    }
}

/// The error for a sequence that does not exist.
pub fn unknown_sequence(catalog: &Catalog, name: &str) -> Error {
    let known = catalog.sequences.iter().map(|sequence| sequence.name.as_str());
    Error::new(ErrorKind::UnknownName, format!("no sequence \"{name}\"{}", did_you_mean(name, known)))
}

fn sequence_of(catalog: &Catalog, schema: &str, name: &str) -> Result<SequenceEntry> {
    catalog.sequence(schema, name).cloned().ok_or_else(|| unknown_sequence(catalog, name))
}

impl Database {
    /// Gives out values of a sequence, by its definition as committed or as only the transaction has it whose snapshot
    /// is `seen`.
    ///
    /// # Errors
    /// `UnknownName`; `InvalidInput` when there are not so many values; `ReadOnly`, `DiskFull`, `Io`.
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

impl Transaction {
    pub fn create_sequence(&mut self, sequence: SequenceEntry) -> Result<()> {
        let (schema, name, state) = (sequence.schema.clone(), sequence.name.clone(), sequence.state);
        self.change(Change::CreateSequence { sequence })?;
        self.own_sequences().put(&schema, &name, state);
        Ok(())
    }

    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<()> {
        self.change(Change::DropSequence { schema: schema.into(), name: name.into() })
    }

    /// Gives a sequence another definition. Where it is, others decide, too; with `restart`, it goes on from there.
    pub fn alter_sequence(&mut self, sequence: SequenceEntry, restart: Option<i64>) -> Result<()> {
        let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
        self.change(Change::AlterSequence { sequence })?;
        if let Some(last) = restart {
            self.own_sequences().put(&schema, &name, SequenceState { last, is_called: false });
        }
        Ok(())
    }
}
