//! Functions of PostgreSQL and DuckDB that DataFusion lacks. Each is computed from whole columns of
//! arguments.

mod age;
pub(crate) mod bins;
mod buckets;
mod bytes;
pub(crate) mod chance;
pub(crate) mod choice;
mod codes;
mod distance;
pub(crate) mod domain;
pub(crate) mod each;
pub(crate) mod element;
pub(crate) mod elements;
mod glob;
pub(crate) mod identifiers;
mod justify;
mod kept;
mod likeness;
mod list;
pub(crate) mod list_functions;
pub(crate) mod made;
mod maps;
mod matches;
pub(crate) mod moments;
mod number;
mod number_pattern;
pub(crate) mod of_list;
pub(crate) mod ordered;
pub(crate) mod overload;
pub(crate) mod reduce;
pub(crate) mod sleep;
mod special;
mod strftime;
mod strptime;
pub(crate) mod structure;
mod text;
mod time;
mod time_from_char;
mod time_pattern;
mod time_to_char;
mod to_char;
mod unicode;
mod written;

pub use elements::chooses_elements;
pub(crate) use matches::{LIKE_EACH, place_of};
pub use ordered::by_order;
pub use sleep::NAME as SLEEP;
pub use text::braces;
pub(crate) use written::Builtin;

use crate::meter::Meter;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use std::sync::Arc;
use written::{Described, function};

/// Returns the function of a zone's part, which the rewrites of plans know.
pub(crate) fn timezone_part() -> Option<ScalarUDF> {
    time::FUNCTIONS.iter().find(|described| described.names[0] == "timezone_part").map(function)
}

fn all() -> impl Iterator<Item = &'static Described> {
    let tables: [&'static [Described]; 20] = [
        age::FUNCTIONS,
        bins::FUNCTIONS,
        buckets::FUNCTIONS,
        bytes::FUNCTIONS,
        codes::FUNCTIONS,
        distance::FUNCTIONS,
        glob::FUNCTIONS,
        identifiers::FUNCTIONS,
        justify::FUNCTIONS,
        likeness::FUNCTIONS,
        list::FUNCTIONS,
        maps::FUNCTIONS,
        matches::FUNCTIONS,
        number::FUNCTIONS,
        special::FUNCTIONS,
        structure::FUNCTIONS,
        text::FUNCTIONS,
        time::FUNCTIONS,
        to_char::FUNCTIONS,
        unicode::FUNCTIONS,
    ];
    tables.into_iter().flatten()
}

/// Returns a function that is described, by its name.
pub(crate) fn described(name: &str) -> Option<Arc<ScalarUDF>> {
    all().find(|described| described.names[0] == name).map(|described| Arc::new(function(described)))
}

pub(crate) fn register(context: &SessionContext, meter: &Arc<Meter>) {
    time::note_start();
    for described in all() {
        context.register_udf(function(described));
    }
    list_functions::register(context);
    made::register(context);
    chance::register(context);
    choice::register(context);
    domain::register(context);
    each::register(context, meter);
    element::register(context);
    elements::register(context);
    identifiers::register(context);
    moments::register(context);
    ordered::register(context);
    of_list::register(context);
    // This takes what the ones above have registered.
    overload::register(context, described);
    reduce::register(context);
    sleep::register(context, meter);
    structure::register(context);
}
