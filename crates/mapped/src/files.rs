//! The files of a column.

use hypostyle_io::File;

/// A buffer of a column: the first bytes of a file, which is left out where there are none.
#[derive(Clone, Debug)]
pub struct BufferFile {
    pub file: Option<File>,
    pub length: u64,
}

/// The buffers of one node of a column, in the order of the Arrow columnar format.
#[derive(Clone, Debug)]
pub struct NodeFiles {
    pub elements: u64,
    pub nulls: u64,
    pub validity: Option<BufferFile>,
    /// `values`, or offsets and heap, or offsets, or none.
    pub buffers: Vec<BufferFile>,
    pub dictionary: Option<DictionaryFiles>,
}

/// The values that the codes of a column stand for.
#[derive(Clone, Debug)]
pub struct DictionaryFiles {
    pub values: u64,
    pub offsets: BufferFile,
    pub heap: BufferFile,
}
