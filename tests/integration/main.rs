//! The one test binary that links the engine.

/// Limits statements by the memory that the process has allocated, as in the programs.
#[global_allocator]
static ALLOCATOR: hypostyle_memory::Counting = hypostyle_memory::Counting;

mod alone;
mod appender;
mod backup;
mod bad_input;
mod calls;
mod cluster;
mod common_subplans;
mod completion;
mod complexity;
mod conflict;
mod examples;
mod exhaustion;
mod first_groups;
mod functions;
mod given_types;
mod indexes_in_plans;
mod interrupt;
mod interval_signs;
mod join_order;
mod kept_plans;
mod keys;
mod large_sides;
mod locks;
mod memory;
mod merged_groups;
mod messages;
mod no_file_is_forgotten;
mod parked;
mod pgwire;
mod planning;
mod prepared;
mod pruning;
mod row_order;
mod rules;
mod same_rows;
mod served;
mod server;
mod sources;
mod sql;
mod stored_results;
mod tpch;
mod travel;
mod vanish;
mod width;
