//! Tables as DataFusion sees them: providers, scans, statistics and pruning.

mod deal;
mod exec;
mod filter;
pub mod in_order;
pub mod kept_order;
mod provider;
mod pruning;
mod statistics;
mod view;

pub use exec::{PlainScan, ScanExec, for_result};
pub use filter::is_comparison;
pub use provider::{StoredTable, is_same_table};
pub(crate) use statistics::{End, scalar, table_statistics};
pub use view::{engine_array, engine_field, engine_type};
