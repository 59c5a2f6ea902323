//! Position pipelines: operators that pass positions of rows on instead of values.
//!
//! A rule ([`Positions`]) puts one operator in the place of an aggregate and all joins, filters
//! and projections below it. The operator runs a *flow*: workers take morsels of the largest
//! table's rows, filter them, find the positions of their partners in other tables, and fold values
//! that are read at these positions into the states of groups (PosDB: late materialization; the
//! kernels are `hypostyle-position`'s). Keys of other tables are found by indexes that queries
//! leave behind, or by tables that are made for the query.
//!
//! Whatever a pipeline cannot do is done by the operators that it stands for: a type without a
//! kernel, statistics that were not exact, memory that does not suffice, an expression that fails,
//! whose error is theirs to tell.

mod aggregate;
mod build;
mod chunk;
mod codes;
mod condition;
mod emission;
mod evaluate;
mod execution;
mod extremes;
mod filtered;
mod first;
mod flow;
mod fold;
mod function;
mod gathered;
mod group;
mod held;
mod imprint;
mod index;
mod indexed;
mod mark;
mod measure;
mod modest;
mod number;
mod parts;
mod pipeline;
mod ready;
mod reference;
mod restrict;
mod rows;
mod rule;
mod run;
mod segment;
mod sets;
mod share;
mod shared;
mod sink;
mod sort;
mod stop;
mod table;
mod verify;
mod window;
mod window_rule;

pub use parts::PartsExec;
pub use rule::Positions;

use hypostyle_expr::setting::Choice;
use std::fmt;
use std::str::FromStr;

/// Whether position pipelines run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// DataFusion's operators do all the work.
    Off,
    /// Pipelines run where they can.
    #[default]
    On,
    /// Both run, and a difference is an error: for tests.
    Verify,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Verify => "verify",
        })
    }
}

impl FromStr for Mode {
    type Err = hypostyle_types::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.to_ascii_lowercase().as_str() {
            "off" | "false" => Ok(Self::Off),
            "on" | "true" => Ok(Self::On),
            "verify" => Ok(Self::Verify),
            _ => Err(hypostyle_types::Error::invalid_input(format!(
                "position_pipelines is off, on or verify, not '{text}'"
            ))),
        }
    }
}

impl Choice for Mode {
    const PREFIX: &'static str = "hypostyle";
    const NAME: &'static str = "position_pipelines";
    const DESCRIPTION: &'static str = "Whether position pipelines run: off, on or verify";
}
