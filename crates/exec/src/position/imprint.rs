//! Runs of rows that cannot pass, by the imprints of columns.

use super::execution::Execution;
use super::flow::Flow;
use super::index::{Compared, ROWS_MIN, Test, wish};
use super::stop::Stopped;
use arrow::buffer::BooleanBuffer;
use hypostyle_position::condition::Comparison;
use hypostyle_position::{Rows, Selection};
use hypostyle_storage::{IMPRINT_ROWS, IndexKind, IndexSpec, TableImprint};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// An imprint is wished for if at most one of so many runs has a row that passes; the runs are counted
/// where at most one of so many rows does.
const PASSED_SHARE: u64 = 64;
const RUNS_SHARE: u64 = 4;

/// The imprints that a flow's conditions may use.
#[derive(Debug, Default)]
pub(super) struct Imprints {
    /// Those that are not there.
    missing: Vec<IndexSpec>,
    /// The rows that were read without them, and the runs in which one has passed.
    rows: AtomicU64,
    runs: AtomicU64,
}

impl Imprints {
    /// Leaves runs out that no row passes of, according to the imprints that are there.
    pub fn leave_out(
        execution: &Execution,
        flow: &Flow,
        tests: &[Compared],
        morsels: &mut Vec<Range<u32>>,
    ) -> Self {
        let mut imprints = Self::default();
        let Some(source) = execution.universe().table(flow.slot) else { return imprints };
        let table = source.table.entry().id;
        let mut runs: Option<BooleanBuffer> = None;
        for test in tests {
            if matches!(test.test, Test::Constant(Comparison::NotEqual, _)) {
                continue;
            }
            match source.snapshot.imprint(&source.table, test.column) {
                Some(imprint) => {
                    if let Some(may_have) = test.runs(&imprint) {
                        runs = Some(match runs {
                            Some(runs) => &runs & &may_have,
                            None => may_have,
                        });
                    }
                }
                None => {
                    let spec = IndexSpec { table, columns: vec![test.column], kind: IndexKind::Imprint };
                    if !imprints.missing.contains(&spec) {
                        imprints.missing.push(spec);
                    }
                }
            }
        }
        if let Some(runs) = runs {
            *morsels = within(morsels, &runs);
        }
        imprints
    }

    /// Counts the rows of a morsel that have passed the conditions of the table.
    pub fn count(&self, morsel: &Range<u32>, passed: &Selection) {
        if self.missing.is_empty() {
            return;
        }
        let runs = match passed.rows() {
            Rows::List(list) if (list.len() as u64) * PASSED_SHARE <= morsel.len() as u64 => {
                let mut runs = list.iter().map(|row| row / IMPRINT_ROWS).collect::<Vec<_>>();
                runs.dedup();
                runs.len() as u64
            }
            rows if rows.is_empty() => 0,
            _ => u64::from((morsel.end - morsel.start).div_ceil(IMPRINT_ROWS)),
        };
        self.rows.fetch_add(morsel.len() as u64, Ordering::Relaxed);
        self.runs.fetch_add(runs, Ordering::Relaxed);
    }

    /// Wishes for the imprints that are missing, if rows have passed in few runs.
    pub fn wish(&self, execution: &Execution, slot: usize) -> Stopped<()> {
        let Some(source) = execution.universe().table(slot) else { return Ok(()) };
        let (rows, runs) = (self.rows.load(Ordering::Relaxed), self.runs.load(Ordering::Relaxed));
        if rows >= ROWS_MIN && runs * RUNS_SHARE <= rows / u64::from(IMPRINT_ROWS) {
            for spec in &self.missing {
                wish(execution, source, spec)?;
            }
        }
        Ok(())
    }
}

impl Compared {
    /// Tells for each run of rows whether one may pass; `None` where the imprint has other values.
    fn runs(&self, imprint: &TableImprint) -> Option<BooleanBuffer> {
        match &self.test {
            Test::OneOf(values) => imprint.may_have(values).ok(),
            Test::Constant(comparison, value) => {
                let (low, high) = match comparison {
                    Comparison::Equal => (Some(value), Some(value)),
                    Comparison::Greater | Comparison::GreaterOrEqual => (Some(value), None),
                    Comparison::Less | Comparison::LessOrEqual => (None, Some(value)),
                    Comparison::NotEqual => return None,
                };
                imprint.may_have_between(low, high).ok()
            }
        }
    }
}

/// Returns the parts of morsels that lie in runs that may pass. Rows behind the runs may.
fn within(morsels: &[Range<u32>], runs: &BooleanBuffer) -> Vec<Range<u32>> {
    let mut found: Vec<Range<u32>> = Vec::new();
    for morsel in morsels {
        let mut start = morsel.start;
        let mut open: Option<Range<u32>> = None;
        while start < morsel.end {
            let run = (start / IMPRINT_ROWS) as usize;
            let end = (start / IMPRINT_ROWS + 1).saturating_mul(IMPRINT_ROWS).min(morsel.end);
            if run >= runs.len() || runs.value(run) {
                open = Some(open.map_or(start..end, |open| open.start..end));
            } else {
                found.extend(open.take());
            }
            start = end;
        }
        found.extend(open);
    }
    found
}
