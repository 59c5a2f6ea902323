//! Types for the numbers that identify things of a cluster, so that they cannot be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// Returns the next number; `None` after the last one, which only a forged catalog has.
            pub fn next(self) -> Option<Self> {
                self.0.checked_add(1).map(Self)
            }
        }
    };
}

number!(
    /// Numbers the published states of a cluster's catalog; each change makes the next one.
    Epoch
);
number!(
    /// Numbers the coordinators of a cluster, one after the other. Nodes refuse those before.
    Term
);
number!(
    /// Numbers the writers of a table, one after the other. Replicas refuse those before.
    Token
);
number!(
    /// Numbers the lives of a replica: the epoch in which it was made, or began to catch up.
    Life
);

macro_rules! unique {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unique!(
    /// Identifies a node for ever: the UUID in the superblock of its database.
    NodeId
);
unique!(
    /// Identifies a statement for ever, so that it can be repeated.
    StatementId
);

/// The place of a fragment in a cluster: its table, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentId {
    /// The table.
    pub table: hypostyle_types::TableId,
    /// The number of the fragment, from 0.
    pub number: u32,
}

impl fmt::Display for FragmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fragment {} of table {}", self.number, self.table)
    }
}
