//! Tables of symbols, which strings are codes of (protocol.md §11.4).

use fsst::Compressor;
use std::fmt;
use std::sync::Arc;

/// A table of symbols, which is good for more than the chunk that it was made from.
#[derive(Clone)]
pub(crate) struct Symbols(pub Arc<Compressor>);

impl fmt::Debug for Symbols {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} symbols", self.0.n_symbols())
    }
}
