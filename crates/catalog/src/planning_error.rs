//! The error of a statement that cannot be planned.

use crate::scope::SEARCH;
use datafusion::error::DataFusionError;
use hypostyle_error::from_datafusion;
use hypostyle_storage::{Snapshot, unknown_table};
use hypostyle_types::{Error, Mark};

/// Returns the error for a statement that cannot be planned; a missing table gets a suggestion.
pub fn planning_error(error: DataFusionError, snapshot: &Snapshot) -> Error {
    let error = from_datafusion(error);
    match missing_table(error.message()) {
        Some(name) => {
            let unknown = unknown_table(snapshot.catalog(), name);
            let place = error.mark().and_then(|mark| mark.line_and_column);
            let word = unknown.mark().and_then(|mark| mark.word.clone());
            unknown.marked(Mark { word, line_and_column: place })
        }
        None => error,
    }
}

/// Returns the table in DataFusion's words for one that is not there:
/// `table 'catalog.schema.name' not found`.
fn missing_table(message: &str) -> Option<&str> {
    let name = message.strip_prefix("table '")?.strip_suffix("' not found")?;
    Some(without_search(without_search(name)))
}

/// Returns a name without the catalog or schema that DataFusion has put in front.
fn without_search(name: &str) -> &str {
    let first = name.split_once('.').filter(|(first, _)| *first == SEARCH);
    first.map_or(name, |(_, rest)| rest)
}
