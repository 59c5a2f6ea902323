//! The native half of the Python package `hypostyle`.
//!
//! It moves values between Arrow arrays and Python: rows of Python objects, NumPy buffers, and the
//! Arrow PyCapsule interface. The classes, names and defaults that users see are in the Python
//! half, beside this.
//!
//! Every call that can take time detaches from the interpreter. Conversions of many rows run in
//! parallel.

mod capsule;
mod column;
mod connection;
mod error;
mod export;
mod inherited;
mod input;
mod poll;
mod result;
mod server;
mod table;
mod turns;

use pyo3::prelude::*;

/// Limits statements by the memory that this module has allocated.
#[global_allocator]
static ALLOCATOR: hypostyle_memory::Counting = hypostyle_memory::Counting;

#[pymodule]
mod _native {
    use super::*;
    #[pymodule_export]
    use crate::column::Column;
    #[pymodule_export]
    use crate::connection::{Connection, connect};
    #[pymodule_export]
    use crate::export::buffer::WritableBuffer;
    #[pymodule_export]
    use crate::input::{
        column_from_arrow, column_from_codes, column_from_numpy, column_from_objects, column_from_strings,
    };
    #[pymodule_export]
    use crate::result::QueryResult;
    #[pymodule_export]
    use crate::server::Server;
    #[pymodule_export]
    use crate::table::Table;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
