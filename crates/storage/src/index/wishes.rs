//! What was wished for: indexes that queries missed, and those that somebody asked for.

use super::name::IndexSpec;
use hypostyle_format::Catalog;
use std::collections::{HashMap, HashSet};

/// What was wished for in this process.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    counts: HashMap<IndexSpec, u64>,
    /// Indexes that cannot be, or were found to be too large, with the rows that there were.
    refused: HashMap<IndexSpec, u64>,
    declared: HashSet<IndexSpec>,
}

impl Wishes {
    pub fn declare(&mut self, spec: &IndexSpec) {
        self.declared.insert(spec.clone());
    }

    pub fn is_declared(&self, spec: &IndexSpec) -> bool {
        self.declared.contains(spec)
    }

    pub fn forget(&mut self, spec: &IndexSpec) {
        self.counts.remove(spec);
        self.refused.remove(spec);
        self.declared.remove(spec);
    }

    /// Leaves the wishes for an index unheard until the table has twice as many rows.
    pub fn refuse(&mut self, spec: &IndexSpec, rows: u64) {
        self.refused.insert(spec.clone(), rows);
    }

    pub fn prune(&mut self, catalog: &Catalog) {
        let exists = |spec: &IndexSpec| catalog.table_by_id(spec.table).is_some();
        self.counts.retain(|spec, _| exists(spec));
        self.refused.retain(|spec, _| exists(spec));
        self.declared.retain(exists);
    }

    /// Counts one more; true when it is time to build an index over so many rows, of which so many
    /// wishes are needed.
    pub fn count(&mut self, spec: &IndexSpec, rows: u64, needed: u64) -> bool {
        let count = self.counts.entry(spec.clone()).or_default();
        *count += 1;
        let is_refused = self.refused.get(spec).is_some_and(|refused| rows / 2 < *refused);
        *count >= needed && !is_refused
    }

    /// Returns how many there were.
    pub fn of(&self, spec: &IndexSpec) -> u64 {
        self.counts.get(spec).copied().unwrap_or_default()
    }
}
