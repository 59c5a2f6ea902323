//! Results as streams of record batches, which are computed or fetched on request.

use crate::cancel::locked;
use crate::error::from_database;
use adbc_core::error::Error;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use hypostyle::StatementRows;
use std::sync::{Arc, Mutex};

/// The reason why a stream has ended early: Arrow's streams have no field for a status and an
/// SQLSTATE.
#[derive(Clone, Default)]
pub struct Failure(Arc<Mutex<Option<Error>>>);

impl Failure {
    pub fn get(&self) -> Option<Error> {
        locked(&self.0).clone()
    }
}

/// The rows of an execution, with ADBC's errors.
pub struct Results {
    rows: StatementRows,
    failure: Failure,
}

impl Results {
    pub fn new(rows: StatementRows) -> Self {
        Self { rows, failure: Failure::default() }
    }

    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }
}

impl Iterator for Results {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rows.next_batch() {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                let error = from_database(error);
                *locked(&self.failure.0) = Some(error.clone());
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for Results {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
