//! SQL over Hypostyle's storage: the DataFusion side.
//!
//! The path of a statement: `statement` parses it and runs what DataFusion does not (DDL, INSERT,
//! COPY, settings); `scope` says what names mean; `catalog` shows DataFusion the tables of the snapshots; `scan` hands it arrays
//! over the mapped column files; `session` ties them to a runtime and to memory. A query that only
//! names stored columns is not run at all: its result is the columns themselves ([`StoredResult`]).

mod advisory;
mod aggregate;
mod amplifier;
mod any_equal;
mod arithmetic;
mod builtin;
mod cast;
mod catalog;
mod chain;
mod comparison;
mod culprit;
mod dependencies;
mod error;
mod expansion;
mod field;
mod file;
mod filters;
mod function;
mod identity;
mod in_order;
mod information_schema;
mod interval;
mod interval_part;
mod interval_text;
mod json_path;
mod lateral;
mod levels;
mod memory;
mod message;
mod meter;
mod multiset;
mod null_keys;
mod on;
mod operand;
mod operator;
mod origin;
mod pattern;
mod pg_catalog;
mod pieces;
mod planner;
mod pushdown;
mod quantified;
mod ranking;
mod repeated;
mod rules;
mod scalar;
mod scan;
mod scope;
mod sequence;
mod session;
mod shared;
mod shift;
mod shifted;
mod sizes;
mod sliding;
mod spill;
mod statement;
mod text_function;
mod text_list;
mod time_zone;
pub mod tpch;
mod transfer;
mod truth;
mod unaliased;
mod unnest;
mod value_keys;
mod values;
mod walk;
mod wrapped;
mod yielding;

pub use cast::interval_texts;
pub use catalog::{ExternalTable, TableResolver, TakeMemory};
pub use error::from_datafusion;
pub use identity::{Identity, Privileges};
pub use memory::Held;
pub use session::{
    Engine, EngineOptions, Outcome, Parameters, Poll, PollHook, Progress, Rows, Session, SettingCheck,
    StoredResult,
};
pub use statement::{
    Described, DescribedColumn, Gives, parse_bytes, split_statements, statement_is_complete, system_memory,
};
pub use transfer::{Transfer, TransferTrial};

/// What PostgreSQL's protocol and its clients take for granted.
pub mod postgres {
    pub use crate::origin::Origin;
    pub use crate::pg_catalog::rows::VECTOR;
    pub use crate::pg_catalog::settings::{Settings, server_version, version};
    pub use crate::pg_catalog::types::*;
    pub use crate::statement::told_name;
    pub use crate::text_list::split_elements;
    pub use crate::time_zone::of_texts;
}
