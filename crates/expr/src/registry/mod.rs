//! The one list of functions: sessions register it, and functions in the plans of other nodes are
//! looked up in it.

#[cfg(test)]
mod samples;
mod table;
#[cfg(test)]
mod tests;

use crate::function::Clock;
use crate::meter::Meter;
use crate::portable::{Functions, Table};
use crate::{
    aggregate, amplifier, any_equal, builtin, function, json, operand, overlaps, percentile, ranking,
    row_numbers, text_function, time_zone,
};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;
use table::TABLE;

/// Registers all functions that belong to no session, and those that only take the memory or the
/// clock of one. Later ones wrap earlier ones, and those that the context has already.
pub fn register_all(context: &SessionContext, meter: &Arc<Meter>, clock: &Arc<Clock>) {
    for function in aggregate::functions() {
        context.register_udaf(function);
    }
    for function in percentile::functions() {
        context.register_udaf(function);
    }
    for function in operand::functions() {
        context.register_udf(function);
    }
    context.register_udf(overlaps::function());
    context.register_udf(time_zone::function());
    function::register(context, clock);
    text_function::register(context);
    ranking::register(context);
    row_numbers::register(context);
    json::register(context);
    builtin::register(context, meter);
    any_equal::register(context);
    // This wraps what the others have registered.
    amplifier::register(context, meter);
}

/// Returns the functions that plans of a session with such settings, or for one, may call. Those that
/// are decoded take the memory of a meter's statement. `further` tables have the types of the crates
/// above.
///
/// # Errors
/// Those of DataFusion, if it does not take a function.
pub fn functions(
    config: &ConfigOptions,
    meter: &Arc<Meter>,
    further: &[&'static Table],
) -> Result<Functions> {
    let context = SessionContext::new_with_config(SessionConfig::from(config.clone()));
    register_all(&context, meter, &Arc::default());
    Functions::new(context, meter, std::iter::once(&TABLE).chain(further.iter().copied()).collect())
}
