//! The one list of functions: sessions register it, and functions in the plans of other nodes are
//! looked up in it.

use crate::function::Clock;
use crate::meter::Meter;
use crate::{
    aggregate, amplifier, any_equal, builtin, function, json_path, operand, overlaps, ranking, text_function,
    time_zone,
};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Registers all functions that belong to no session, and those that only take the memory or the
/// clock of one. Later ones wrap earlier ones, and those that the context has already.
///
/// # Errors
/// Those of DataFusion, if it does not take the functions of JSON.
pub fn register_all(context: &mut SessionContext, meter: &Arc<Meter>, clock: &Arc<Clock>) -> Result<()> {
    datafusion_functions_json::register_all(context)?;
    for function in aggregate::functions() {
        context.register_udaf(function);
    }
    context.register_udf(operand::function());
    context.register_udf(overlaps::function());
    context.register_udf(time_zone::function());
    function::register(context, clock);
    text_function::register(context);
    ranking::register(context);
    json_path::register(context);
    builtin::register(context, meter);
    any_equal::register(context);
    // This wraps what the others have registered.
    amplifier::register(context, meter);
    Ok(())
}
