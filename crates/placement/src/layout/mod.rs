//! Which nodes have which fragments, and the steps from one distribution to another.

mod balance;
mod plan;
mod weight;

pub use balance::{Layout, arrange, complete, place, primaries};
pub use plan::{Step, bring_back, compact, drain, drop_node, place_table, rebalance, repair};
pub use weight::Bytes;
