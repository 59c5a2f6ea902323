//! Values for the placeholders of a statement.

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

/// Values for the placeholders of a statement.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    #[default]
    None,
    /// Values for `?` and `$1`.
    Positional(Vec<ScalarValue>),
    /// Values for `$name`.
    Named(Vec<(String, ScalarValue)>),
}

impl Parameters {
    /// Returns a UUID as a value of a statement: in plans UUIDs are text.
    pub fn uuid(bytes: [u8; 16]) -> ScalarValue {
        ScalarValue::Utf8(Some(uuid::Uuid::from_bytes(bytes).hyphenated().to_string()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::None => true,
            Self::Positional(values) => values.is_empty(),
            Self::Named(values) => values.is_empty(),
        }
    }
}
