//! What a statement gives.

use super::Session;
use crate::advisory;
use crate::advisory::{Locks, SessionLocks};
use crate::planner::Planners;
use crate::statement::{Attempt, Explicit, Prepared, Remembered};
use ::hypostyle_files as file;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::config::ConfigOptions;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{Future, FutureExt, StreamExt};
use hypostyle_catalog::databases::{Databases, SEARCH, TableResolver};
use hypostyle_catalog::origin::Origin;
use hypostyle_catalog::pg_catalog::settings::Settings;
use hypostyle_catalog::primary_key::key_of;
use hypostyle_catalog::scope::{Named, OWN_DATABASE, Scope, TEMPORARY};
use hypostyle_catalog::sequence::Sequences;
use hypostyle_error::from_datafusion;
use hypostyle_exec::counters::Counters;
use hypostyle_exec::memory::{Held, QueryPool};
use hypostyle_exec::pieces::InPieces;
use hypostyle_exec::pushdown::physical_rules;
use hypostyle_exec::scan::in_order::InOrder;
use hypostyle_exec::spill::SpillFiles;
use hypostyle_exec::transfer::{SessionTransfer, Transfer};
use hypostyle_exec::yielding::Yielding;
use hypostyle_expr::chain::Chains;
use hypostyle_expr::function::Clock;
use hypostyle_expr::meter::{Ledger, Meter};
use hypostyle_expr::types::TypeNames;
use hypostyle_expr::{
    aggregate, amplifier, any_equal, builtin, function, interval, json_path, operand, ranking, text_function,
    time_zone, truth,
};
use hypostyle_plan::group_keys::PrimaryKeys;
use hypostyle_plan::json_alias::Unaliased;
use hypostyle_plan::{common_table as shared, rules};
use hypostyle_storage::{Budget, ColumnData, Database, Patience, Patient, SCHEMA_MAIN, Snapshot, Verify};
use hypostyle_types::Identity;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;

/// Stored columns as a result: nothing was computed, nothing is copied.
#[derive(Debug)]
pub struct StoredResult {
    /// The result's names, with the columns behind them.
    pub columns: Vec<(String, Arc<ColumnData>)>,
    pub offset: u64,
    pub rows: u64,
    /// Keeps the columns' files.
    pub snapshot: Arc<Snapshot>,
}

/// The outcome of a statement.
pub enum Outcome {
    Stored(StoredResult),
    Stream { schema: SchemaRef, stream: SendableRecordBatchStream },
    Batches { schema: SchemaRef, batches: Vec<RecordBatch> },
    Done { rows_affected: Option<u64> },
}

impl Outcome {
    /// Returns one batch as a whole result.
    pub(crate) fn batch(batch: RecordBatch) -> Self {
        Self::Batches { schema: batch.schema(), batches: vec![batch] }
    }
}

impl Session {
    /// Returns the SQL types of a result's columns, as (name, type, nullable).
    pub fn describe(outcome: &Outcome) -> Result<Vec<(String, LogicalType, bool)>> {
        match outcome {
            Outcome::Stored(stored) => Ok(stored
                .columns
                .iter()
                .map(|(name, column)| {
                    (name.clone(), column.entry().logical_type.clone(), column.entry().nullable)
                })
                .collect()),
            Outcome::Stream { schema, .. } | Outcome::Batches { schema, .. } => schema
                .fields()
                .iter()
                .map(|field| Ok((field.name().clone(), LogicalType::from_arrow(field)?, field.is_nullable())))
                .collect(),
            Outcome::Done { .. } => Ok(Vec::new()),
        }
    }
}

impl StoredResult {
    /// Returns the Arrow schema of the columns at rest.
    pub fn schema(&self) -> SchemaRef {
        let fields: Vec<_> =
            self.columns.iter().map(|(name, column)| column.field().with_name(name)).collect();
        Arc::new(Schema::new(fields))
    }

    /// Verifies columns before they are handed out unread: now, or soon, according to the
    /// database's options. `proceed` is called before each block that is verified.
    ///
    /// # Errors
    /// `Corrupt` with the column and the block; the errors of `proceed`.
    pub fn hand_out(&self, columns: Range<usize>, mut proceed: impl FnMut() -> Result<()>) -> Result<()> {
        let rows = self.offset..self.offset + self.rows;
        self.columns[columns]
            .iter()
            .try_for_each(|(_, column)| self.snapshot.hand_out(column, rows.clone(), &mut proceed))
    }

    /// Checks the checksums and the structure of rows of the result, for those who read them here:
    /// a mapping is handed over unread.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        (0..self.columns.len()).try_for_each(|column| self.verify_column(column, rows.clone()))
    }

    /// Verifies one column as [`Self::verify_rows`] does.
    ///
    /// # Errors
    /// `Corrupt`, naming the column and the block.
    pub fn verify_column(&self, column: usize, rows: Range<u64>) -> Result<()> {
        let rows = self.offset + rows.start..self.offset + rows.end.min(self.rows);
        self.columns[column].1.verify_rows(rows)
    }
}
