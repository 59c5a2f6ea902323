//! Functions in plans that are sent to other nodes of a cluster ([`hypostyle_expr::portable`]).

use super::advisory::AdvisoryFunction;
use datafusion::config::ConfigOptions;
use hypostyle_error::from_datafusion;
use hypostyle_expr::meter::Meter;
use hypostyle_expr::portable::{Entry, Functions, Table};
use hypostyle_expr::registry;
use hypostyle_files::uuid_column::Converter;
use hypostyle_types::Result;
use std::sync::Arc;

/// The types of functions of this crate.
static TABLE: Table = Table {
    scalars: &[
        Entry::refused::<AdvisoryFunction>("it is about the sessions of one engine"),
        Entry::refused::<Converter>("files are written by the node of the statement"),
    ],
    ..Table::EMPTY
};

/// The tables of the crates above the one that encodes functions.
const TABLES: [&Table; 3] = [&hypostyle_plan::portable::TABLE, &hypostyle_catalog::portable::TABLE, &TABLE];

/// Returns the functions that plans of a session, or for one, may call, by its settings; those that
/// are decoded take the memory of its statements.
///
/// # Errors
/// `Internal` if DataFusion takes a function of ours no more.
pub(crate) fn functions(config: &ConfigOptions, meter: &Arc<Meter>) -> Result<Functions> {
    registry::functions(config, meter, &TABLES).map_err(from_datafusion)
}
