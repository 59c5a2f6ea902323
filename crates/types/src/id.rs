//! Types for the numbers that identify things, so that they cannot be mixed up.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl $name {
            /// Returns the next number in order. The last number follows itself. Only a forged
            /// catalog has it, and its number is then taken already.
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    };
}

id!(
    /// Identifies a table for ever: never used again after DROP.
    TableId, u64
);
id!(
    /// Identifies a column of a table for ever: never used again after DROP COLUMN.
    ColumnId, u32
);
id!(
    /// Identifies one set of files of a column; a re-encoding or compaction creates the next.
    Generation, u32
);
id!(
    /// Identifies a node of a column's type tree, in preorder; the root is 0.
    NodeIndex, u16
);
id!(
    /// Identifies a published state of the catalog; each commit creates the next.
    Version, u64
);
