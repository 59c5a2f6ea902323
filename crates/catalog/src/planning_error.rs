//! The error of a statement that cannot be planned.

use datafusion::error::DataFusionError;
use hypostyle_error::from_datafusion;
use hypostyle_error::missing_table::missing_table;
use hypostyle_storage::{Snapshot, unknown_table};
use hypostyle_types::{Error, Mark};

/// Returns the error for a statement that cannot be planned; a missing table gets a suggestion.
pub fn planning_error(error: DataFusionError, snapshot: &Snapshot) -> Error {
    let unknown = missing_table(&error).map(|name| unknown_table(snapshot.catalog(), name));
    let error = from_datafusion(error);
    match unknown {
        Some(unknown) => {
            let place = error.mark().and_then(|mark| mark.line_and_column);
            let word = unknown.mark().and_then(|mark| mark.word.clone());
            unknown.marked(Mark { word, line_and_column: place })
        }
        None => error,
    }
}
