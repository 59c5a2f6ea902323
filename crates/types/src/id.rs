//! Newtypes for the numbers that name things, so that they cannot be mixed up.

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
            /// The next number in order. The last one follows itself: only a forged catalog has it, and what
            /// would get it again is there already.
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }
    };
}

id!(
    /// A table for ever: never used again after DROP.
    TableId, u64
);
id!(
    /// A column of a table for ever: never used again after DROP COLUMN.
    ColumnId, u32
);
id!(
    /// One set of files of a column; a re-encoding or compaction makes the next.
    Generation, u32
);
id!(
    /// A node of a column's type tree, in preorder; the root is 0.
    NodeIndex, u16
);
id!(
    /// A published state of the catalog; each commit makes the next.
    Version, u64
);
