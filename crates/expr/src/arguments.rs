//! The arguments that a function takes, as it is written down in a table.

use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_types::Error;

/// What an argument has to be.
pub(crate) trait ArgumentKind: Copy + 'static {
    /// Whatever it is.
    const ANY: Self;

    /// Returns the type that a value of a type becomes; `None` where it is of another kind.
    fn coerced(self, of: &DataType) -> Option<DataType>;

    /// Returns what an argument of the kind is called.
    fn described(self) -> &'static str;
}

/// The kinds of a function's arguments.
pub(crate) struct Arguments<K: 'static> {
    /// The last one is that of all further arguments, if there may be `more`.
    kinds: &'static [K],
    /// The number of last arguments that may be left out.
    optional: usize,
    more: bool,
}

impl<K: 'static> Arguments<K> {
    pub const fn new(kinds: &'static [K]) -> Self {
        Self { kinds, optional: 0, more: false }
    }

    pub const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    pub const fn more(self) -> Self {
        Self { more: true, ..self }
    }
}

impl<K: ArgumentKind> Arguments<K> {
    /// Returns the types that the arguments of a call become.
    ///
    /// # Errors
    /// 22023 for too few or too many, and for one of another kind.
    pub fn coerced(&self, name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
        let Self { kinds, optional, more } = *self;
        if types.len() + optional < kinds.len() || (types.len() > kinds.len() && !more) {
            let wanted: Vec<&str> = kinds.iter().map(|kind| kind.described()).collect();
            return Err(refused(format!("{name}() takes {}", wanted.join(", "))));
        }
        let coerced = types.iter().enumerate().map(|(place, of)| {
            let kind = kinds.get(place).or(kinds.last()).copied().unwrap_or(K::ANY);
            kind.coerced(of).ok_or_else(|| {
                let (place, wanted) = (place + 1, kind.described());
                refused(format!("{name}(): argument {place} is {wanted}, not {}", type_name(of)))
            })
        });
        coerced.collect()
    }
}

/// Returns an error of who called a function.
pub(crate) fn refused(message: impl Into<String>) -> DataFusionError {
    external(Error::invalid_input(message.into()).with_sqlstate("22023"))
}
