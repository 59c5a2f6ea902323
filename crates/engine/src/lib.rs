//! Sessions and statements: SQL over Hypostyle's storage.
//!
//! The path of a statement: `session` ties it to a runtime and to memory, and keeps what outlives
//! it; `statement`, of which `session` names nothing, parses it with `hypostyle-sql` and runs what
//! DataFusion does not (DDL, INSERT, COPY, settings). `hypostyle-catalog` says which tables there
//! are, `hypostyle-bind` makes the plan, and `hypostyle-plan` rewrites it; `hypostyle-exec` hands
//! DataFusion arrays over the mapped column files. A query that only names stored columns is not
//! run at all: its result is the columns themselves ([`StoredResult`]).

#![forbid(unsafe_code)]

mod planner;
#[cfg(test)]
mod sent_functions;
mod session;
mod statement;

pub use hypostyle_catalog::kept::Meaning;
pub use hypostyle_catalog::scope::{ExternalTable, TableResolver, TakeMemory};
pub use hypostyle_error::from_datafusion;
pub use hypostyle_exec::memory::Held;
pub use hypostyle_exec::transfer::{Transfer, TransferTrial};
pub use hypostyle_expr::cast::{interval_texts, texts_of_far_years};
pub use hypostyle_foreign as foreign;
pub use hypostyle_sql::split::{split_statements, statement_is_complete};
pub use hypostyle_sql::{identifier, kind, lexer};
pub use hypostyle_tpch as tpch;
pub use hypostyle_types::{Identity, Privileges};
pub use session::{
    CallAnswer, Calls, Described, DescribedColumn, Engine, EngineOptions, Gives, Outcome, Parameters, Poll,
    PollHook, Progress, Rows, Session, SettingCheck, StoredPieces, StoredResult,
};
pub use statement::{is_own_setting, parse_bytes, system_memory};

/// Features that PostgreSQL's protocol and its clients rely on.
pub mod postgres {
    pub use hypostyle_catalog::pg_catalog::Origin;
    pub use hypostyle_catalog::pg_catalog::rows::VECTOR;
    pub use hypostyle_catalog::pg_catalog::settings::{Configured, Settings, server_version, version};
    pub use hypostyle_expr::json::{elements, members, normalised, unquoted};
    pub use hypostyle_expr::time_zone::of_texts;
    pub use hypostyle_pgtypes::types::*;
    pub use hypostyle_sql::names::told_name;
    pub use hypostyle_sql::text_list::{is_array_of_arrays, split_elements};
}
