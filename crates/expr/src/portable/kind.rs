//! The kinds of functions, which DataFusion keeps apart.

use crate::portable::{Entry, Table};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use std::any::Any;
use std::sync::Arc;

/// A kind of functions.
pub trait Kind: PartialEq + Sized + 'static {
    /// What messages call a function of the kind.
    const NOUN: &'static str;

    fn name(&self) -> &str;

    /// Returns the value that implements the function.
    fn implementation(&self) -> &dyn Any;

    /// # Errors
    /// DataFusion's, if there is no such function.
    fn named(registry: &dyn FunctionRegistry, name: &str) -> Result<Arc<Self>>;

    fn entries(table: &'static Table) -> &'static [Entry<Self>];

    /// Returns the function for rows that come, or do not come, in the order that makes it cheap;
    /// `None` for a function to which this makes no difference.
    fn over_order(&self, _is_met: bool) -> Option<Self> {
        None
    }
}

macro_rules! kind {
    ($function:ty, $noun:literal, $named:ident, $entries:ident $(, $over_order:expr)?) => {
        impl Kind for $function {
            const NOUN: &'static str = $noun;

            fn name(&self) -> &str {
                self.name()
            }

            fn implementation(&self) -> &dyn Any {
                self.inner().as_ref()
            }

            fn named(registry: &dyn FunctionRegistry, name: &str) -> Result<Arc<Self>> {
                registry.$named(name)
            }

            fn entries(table: &'static Table) -> &'static [Entry<Self>] {
                table.$entries
            }

            $(fn over_order(&self, is_met: bool) -> Option<Self> {
                $over_order(self, is_met)
            })?
        }
    };
}

kind!(ScalarUDF, "function", udf, scalars);
kind!(AggregateUDF, "aggregate function", udaf, aggregates, over_order);
kind!(WindowUDF, "window function", udwf, windows);
kind!(HigherOrderUDF, "higher-order function", higher_order_function, higher_orders);

fn over_order(function: &AggregateUDF, is_met: bool) -> Option<AggregateUDF> {
    // An error means that the function does not implement it.
    function.clone().with_beneficial_ordering(is_met).ok().flatten()
}
