//! The arguments that a function takes, as it is written down in a table.

use crate::nested_type::element;
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

    /// Says whether arguments of the kind are of one type, so that a NULL without a type has that of another.
    fn is_of_one_type(self) -> bool {
        false
    }
}

/// The kinds that functions of all tables have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Common {
    Any,
    Text,
    Integer,
    Boolean,
    List,
}

impl Common {
    /// Returns the type that a value of a type becomes, `text` or its own for a text; `None` where it is of
    /// another kind. NULL is of each.
    pub fn coerced(self, of: &DataType, text: Option<DataType>) -> Option<DataType> {
        let is_of_kind = of.is_null()
            || match self {
                Self::Any => true,
                Self::Text => of.is_string(),
                Self::Integer => of.is_integer(),
                Self::Boolean => *of == DataType::Boolean,
                Self::List => element(of).is_some(),
            };
        is_of_kind.then(|| match self {
            Self::Any | Self::List => of.clone(),
            Self::Text => text.unwrap_or_else(|| of.clone()),
            Self::Integer => DataType::Int64,
            Self::Boolean => DataType::Boolean,
        })
    }
}

/// The kinds of a function's arguments.
pub(crate) struct Arguments<K: 'static> {
    /// The last one is that of all further arguments, if there may be `more`.
    kinds: &'static [K],
    /// The number of last arguments that may be left out.
    optional: usize,
    more: bool,
    /// The SQLSTATE of an error about other arguments.
    sqlstate: &'static str,
}

impl<K: 'static> Arguments<K> {
    pub const fn new(kinds: &'static [K]) -> Self {
        Self { kinds, optional: 0, more: false, sqlstate: "22023" }
    }

    pub const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    pub const fn more(self) -> Self {
        Self { more: true, ..self }
    }

    pub const fn or_undefined(self) -> Self {
        Self { sqlstate: "42883", ..self }
    }
}

impl<K: ArgumentKind> Arguments<K> {
    /// Returns the types that the arguments of a call become.
    ///
    /// # Errors
    /// 22023, or 42883, for too few or too many, and for one of another kind.
    pub fn coerced(&self, name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
        let Self { kinds, optional, more, sqlstate } = *self;
        let refused = |message: String| external(Error::invalid_input(message).with_sqlstate(sqlstate));
        if types.len() + optional < kinds.len() || (types.len() > kinds.len() && !more) {
            let wanted: Vec<&str> = kinds.iter().map(|kind| kind.described()).collect();
            return Err(refused(format!("{name}() takes {}", wanted.join(", "))));
        }
        let kind_of = |place: usize| kinds.get(place).or(kinds.last()).copied().unwrap_or(K::ANY);
        let mut known = types.iter().enumerate().filter(|(_, of)| !of.is_null());
        let typed = known.find(|(place, _)| kind_of(*place).is_of_one_type()).map(|(_, of)| of);
        let coerced = types.iter().enumerate().map(|(place, of)| {
            let kind = kind_of(place);
            let of = match typed {
                Some(typed) if of.is_null() && kind.is_of_one_type() => typed,
                _ => of,
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_types_or_become_those_of_one() {
        use DataType::{Boolean, Int8, Int64, LargeUtf8, Null, Utf8};
        let list = DataType::new_list(Int8, true);
        for (kind, of, text, found) in [
            (Common::Any, &Int8, None, Some(Int8)),
            (Common::Text, &LargeUtf8, None, Some(LargeUtf8)),
            (Common::Text, &LargeUtf8, Some(Utf8), Some(Utf8)),
            (Common::Text, &Null, None, Some(Null)),
            (Common::Text, &Null, Some(Utf8), Some(Utf8)),
            (Common::Text, &Int8, Some(Utf8), None),
            (Common::Integer, &Int8, None, Some(Int64)),
            (Common::Integer, &LargeUtf8, None, None),
            (Common::Boolean, &Null, None, Some(Boolean)),
            (Common::Boolean, &Int8, None, None),
            (Common::List, &list, None, Some(list.clone())),
            (Common::List, &Null, None, Some(Null)),
            (Common::List, &Utf8, None, None),
        ] {
            assert_eq!(kind.coerced(of, text), found, "{kind:?} {of}");
        }
    }
}
