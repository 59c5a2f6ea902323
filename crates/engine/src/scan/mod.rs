//! Tables as DataFusion sees them: providers, scans, statistics and pruning.

mod exec;
mod filter;
mod provider;
mod pruning;
mod statistics;
mod view;

pub(crate) use exec::{ScanExec, for_result};
pub(crate) use filter::is_comparison;
pub(crate) use provider::{POSITION, StoredTable};
pub(crate) use view::{engine_array, engine_field, engine_type};
