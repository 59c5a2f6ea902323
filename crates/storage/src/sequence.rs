//! Sequences: values that are given out once, whatever becomes of the transaction that asked.
//!
//! An advance is a change in the log, written before the commit that uses its values: the log's
//! order makes it durable with them. A sequence that a transaction has made or begun anew is its
//! own until the commit.

use hypostyle_format::{Catalog, Change, SequenceState};
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, did_you_mean};
use std::collections::BTreeMap;
use std::sync::Arc;

/// States by schema and name of the sequences that only a transaction knows so.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnSequences(BTreeMap<(String, String), Arc<Mutex<SequenceState>>>);

impl OwnSequences {
    pub fn get(&self, schema: &str, name: &str) -> Option<&Arc<Mutex<SequenceState>>> {
        self.0.get(&(schema.to_string(), name.to_string()))
    }

    pub fn put(&mut self, schema: &str, name: &str, state: SequenceState) {
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
