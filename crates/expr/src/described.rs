//! Functions as tables have them: their names, their arguments, what they give, and what computes it.

use crate::arguments::Arguments;
use std::fmt::{Debug, Formatter};

/// A function as it is written down. `K` are the kinds of its arguments, `G` says what it gives, and `B`
/// computes it.
pub(crate) struct Described<K: 'static, G, B> {
    /// The first one is its own; the others mean the same.
    pub names: &'static [&'static str],
    pub arguments: Arguments<K>,
    pub gives: G,
    pub body: B,
}

impl<K: 'static, G: Copy, B: Copy> Described<K, G, B> {
    pub const fn new(names: &'static [&'static str], kinds: &'static [K], gives: G, body: B) -> Self {
        Self { names, arguments: Arguments::new(kinds), gives, body }
    }

    /// Returns the function, of whose last arguments so many may be left out.
    pub const fn optional(self, optional: usize) -> Self {
        let Self { names, arguments, gives, body } = self;
        Self { names, arguments: arguments.optional(optional), gives, body }
    }

    /// Returns the function, which may have more arguments of the last kind.
    pub const fn more(self) -> Self {
        let Self { names, arguments, gives, body } = self;
        Self { names, arguments: arguments.more(), gives, body }
    }

    /// Returns the function, which does not exist for other arguments: an error of these is 42883, not 22023.
    pub const fn or_undefined(self) -> Self {
        let Self { names, arguments, gives, body } = self;
        Self { names, arguments: arguments.or_undefined(), gives, body }
    }

    /// Returns its other names.
    pub fn aliases(&self) -> Vec<String> {
        self.names[1..].iter().map(ToString::to_string).collect()
    }
}

impl<K: 'static, G, B> Debug for Described<K, G, B> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.names[0])
    }
}

/// The methods of `ScalarUDFImpl` that are the same of each function that is `described`, and keeps its
/// `aliases` and its `signature`.
macro_rules! as_described {
    () => {
        fn name(&self) -> &str {
            self.described.names[0]
        }

        fn aliases(&self) -> &[String] {
            &self.aliases
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            &self.signature
        }

        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::error::Result<Vec<arrow::datatypes::DataType>> {
            self.described.arguments.coerced(self.described.names[0], types)
        }
    };
}

pub(crate) use as_described;
