//! Runs what is above the parts of a query on all nodes, where rows of several of them have to meet: joins by
//! other keys than those of the tables, and aggregates of many groups.
//!
//! A query is planned as one of a single node whose tables are its parts ([`crate::gather`]). The crate
//! `datafusion-distributed` cuts that plan into stages, each of which runs as tasks on several nodes, and
//! runs them; nothing outside of this module and [`crate::codec`] names it. What is here is how tasks find
//! nodes, and how plans and rows reach them (docs/decisions/0030).
//!
//! | module | does |
//! |---|---|
//! | `plan` | decides whether a query runs in stages, and checks them |
//! | `planner` | does so for what DataFusion runs as a whole, as the writers of files |
//! | `broadcast` | sends small sides of joins to all tasks |
//! | `room` | looks for room for these |
//! | `leaf` | which tasks read a table, and how |
//! | `route` | the nodes that tasks run on |
//! | `channel` | asks other nodes for tasks and their rows |
//! | `worker` | runs the tasks of a node |
//! | `measure` | what tasks count, and tell |
//! | `rows` | rows as they travel between tasks |
//! | `exec` | runs all of it, or the query without stages if it fails |
//! | `head` | keeps what runs above the stages within its memory |
//! | `sample` | tells whether nodes share rows out alike |
//! | `setting` | whether to do so |
//! | `worth` | estimates what a query costs in stages, and without them |

mod broadcast;
mod channel;
mod exec;
mod head;
mod leaf;
mod measure;
mod plan;
mod planner;
mod room;
mod route;
mod rows;
mod sample;
mod setting;
mod worker;
mod worth;

pub use plan::in_stages;
pub use planner::over_nodes;
pub use setting::InStages;
pub use worker::Stages;
