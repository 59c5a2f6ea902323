//! The types of functions of this crate, which all stay on their node.

use crate::pg_catalog::function::CatalogFunction;
use crate::pg_catalog::type_lists::TypesOut;
use crate::pg_catalog::type_of::TypeOf;
use crate::sequence::SequenceFunction;
use hypostyle_expr::portable::{Entry, Table};

pub static TABLE: Table = Table {
    scalars: &[
        Entry::refused::<CatalogFunction>("it reads the catalogs and the settings of its session"),
        Entry::refused::<SequenceFunction>("it takes values of its session"),
        Entry::refused::<TypesOut>("it is of pg_catalog, which each session reads where it is"),
        Entry::refused::<TypeOf>("it is of pg_catalog, which each session reads where it is"),
    ],
    ..Table::EMPTY
};
