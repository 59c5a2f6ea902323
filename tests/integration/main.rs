//! The one test binary that links the engine.

mod backup;
mod bad_input;
mod completion;
mod interrupt;
mod memory;
mod no_file_is_forgotten;
mod pgwire;
mod pruning;
mod served;
mod server;
mod sql;
mod stored_results;
mod tpch;
mod vanish;
