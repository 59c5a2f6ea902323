//! The types of functions of this crate, for plans that are sent to other nodes.

use crate::dependencies::Same;
use crate::kept_errors::Asked;
use crate::single_value::SingleValue;
use hypostyle_expr::portable::{Entry, Table};

pub static TABLE: Table = Table {
    scalars: &[Entry::made::<Asked>(), Entry::made::<Same>()],
    aggregates: &[Entry::made::<SingleValue>()],
    ..Table::EMPTY
};
