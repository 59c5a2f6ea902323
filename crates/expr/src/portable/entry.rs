//! Types of functions, and how functions of each type are told to other nodes.

use crate::portable::{Decoder, Functions, Kind, malformed};
use datafusion::error::Result;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use hypostyle_error::external;
use hypostyle_types::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::any::{Any, type_name};

/// A type of functions that are told by their parameters.
pub trait Portable: Any + Sized {
    type Function: Kind + From<Self>;

    /// The name of the type in encodings. No other type may have it.
    const TAG: &'static str;

    type Parameters: Serialize + DeserializeOwned;

    /// # Errors
    /// `Unsupported` if a parameter cannot be told, as a function that is refused.
    fn parameters(&self, functions: &Functions) -> Result<Self::Parameters>;

    /// # Errors
    /// Parameters that no function of the type has.
    fn from_parameters(parameters: Self::Parameters, decoder: &Decoder<'_>) -> Result<Self>;
}

/// Implements [`Portable`] for a type of functions, scalar ones unless something else is said. Either
/// they have parameters that are serialized as they are, in the order in which `new` takes them, or
/// they have none and the type has a default.
#[macro_export]
macro_rules! impl_portable {
    ($type:ty, $tag:literal) => {
        $crate::impl_portable!(datafusion::logical_expr::ScalarUDF: $type, $tag);
    };
    ($function:ty: $type:ty, $tag:literal) => {
        $crate::impl_portable!(@ $function, $type, $tag, (), |_: &$type| (), |()| <$type>::default());
    };
    ($type:ty, $tag:literal, $($field:ident: $of:ty),+) => {
        $crate::impl_portable!(
            @ datafusion::logical_expr::ScalarUDF, $type, $tag, ($($of,)+),
            |function: &$type| ($(function.$field.clone(),)+),
            |($($field,)+): ($($of,)+)| <$type>::new($($field),+)
        );
    };
    (@ $function:ty, $type:ty, $tag:literal, $parameters:ty, $tell:expr, $make:expr) => {
        impl $crate::portable::Portable for $type {
            type Function = $function;

            const TAG: &'static str = $tag;

            type Parameters = $parameters;

            fn parameters(
                &self,
                _: &$crate::portable::Functions,
            ) -> datafusion::error::Result<Self::Parameters> {
                Ok($tell(self))
            }

            fn from_parameters(
                parameters: Self::Parameters,
                _: &$crate::portable::Decoder<'_>,
            ) -> datafusion::error::Result<Self> {
                Ok($make(parameters))
            }
        }
    };
}

/// A type of functions, and how they are told.
pub struct Entry<K> {
    type_name: fn() -> &'static str,
    is: fn(&dyn Any) -> bool,
    pub(super) way: Way<K>,
}

/// How functions of a type are told.
pub(super) enum Way<K> {
    /// Their names tell them, because sessions register all functions of the type that there are.
    Registered,
    /// Their parameters tell them.
    Made {
        tag: &'static str,
        encode: fn(&dyn Any, &Functions) -> Result<Value>,
        decode: fn(Value, &Decoder<'_>) -> Result<K>,
    },
    /// They stay on their node, for this reason.
    Refused(&'static str),
}

impl<K: Kind> Entry<K> {
    /// Functions of the type are told by their parameters.
    pub const fn made<F: Portable<Function = K>>() -> Self {
        Self::of::<F>(Way::Made { tag: F::TAG, encode: encode::<F>, decode: decode::<F> })
    }

    /// Sessions register all functions of the type, and they are told by their names.
    pub const fn registered<F: Any>() -> Self
    where
        K: From<F>,
    {
        Self::of::<F>(Way::Registered)
    }

    /// Functions of the type stay on their node. The reason ends a sentence.
    pub const fn refused<F: Any>(reason: &'static str) -> Self
    where
        K: From<F>,
    {
        Self::of::<F>(Way::Refused(reason))
    }

    const fn of<F: Any>(way: Way<K>) -> Self {
        Self { type_name: type_name::<F>, is: |function| function.is::<F>(), way }
    }

    /// Says whether a function is of the type.
    pub(super) fn is_of(&self, function: &K) -> bool {
        (self.is)(function.implementation())
    }

    /// Returns the name of the type in encodings, if it has one.
    pub(crate) fn tag(&self) -> Option<&'static str> {
        match self.way {
            Way::Made { tag, .. } => Some(tag),
            _ => None,
        }
    }

    /// Returns the path of the type.
    fn type_name(&self) -> &'static str {
        (self.type_name)()
    }
}

fn encode<F: Portable>(function: &dyn Any, functions: &Functions) -> Result<Value> {
    let function = function.downcast_ref::<F>();
    let function = function.ok_or_else(|| external(Error::internal("a function is of another type")))?;
    let parameters = serde_json::to_value(function.parameters(functions)?);
    parameters.map_err(|error| external(Error::internal(format!("{}: {error}", F::TAG))))
}

fn decode<F: Portable>(parameters: Value, decoder: &Decoder<'_>) -> Result<F::Function> {
    let parameters = serde_json::from_value(parameters);
    let parameters = parameters.map_err(|error| malformed(format!("{}: {error}", F::TAG)))?;
    Ok(F::from_parameters(parameters, decoder)?.into())
}

/// The types of functions of one crate.
pub struct Table {
    pub scalars: &'static [Entry<ScalarUDF>],
    pub aggregates: &'static [Entry<AggregateUDF>],
    pub windows: &'static [Entry<WindowUDF>],
    pub higher_orders: &'static [Entry<HigherOrderUDF>],
}

impl Table {
    pub const EMPTY: Self = Self { scalars: &[], aggregates: &[], windows: &[], higher_orders: &[] };

    /// Returns the paths of all types in the table.
    pub(super) fn type_names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.scalars.iter().map(Entry::type_name).collect();
        names.extend(self.aggregates.iter().map(Entry::type_name));
        names.extend(self.windows.iter().map(Entry::type_name));
        names.extend(self.higher_orders.iter().map(Entry::type_name));
        names
    }
}
