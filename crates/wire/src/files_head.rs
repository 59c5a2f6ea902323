//! The head of a chunk that lies in the files of stored columns (protocol.md §10.5, place 2).

use crate::cursor::Writer;

/// A piece of a file whose descriptor comes with the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSlice {
    /// Its index among the frame's.
    pub descriptor: u16,
    pub offset: u64,
    pub length: u64,
}

/// Names the buffers of stored columns, in the schema's order; [`crate::StreamDecoder::stored_chunk`] reads it.
///
/// A column is one array; the children of a list, an array or a struct follow it.
#[derive(Clone, Debug, Default)]
pub struct FilesHead {
    head: Writer,
}

impl FilesHead {
    fn slice(&mut self, slice: FileSlice) -> &mut Self {
        self.head.u16(slice.descriptor).u64(slice.offset).u64(slice.length);
        self
    }

    fn array(&mut self, encoding: u8, mask: Option<FileSlice>) -> &mut Self {
        self.head.u8(encoding).u8(u8::from(mask.is_some()));
        match mask {
            Some(mask) => self.slice(mask),
            None => self,
        }
    }

    /// Values of fixed width, bits, or codes; `mask` where there are NULLs.
    pub fn values(&mut self, mask: Option<FileSlice>, values: FileSlice) -> &mut Self {
        self.array(crate::integers::PLAIN, mask).slice(values)
    }

    pub fn text(&mut self, mask: Option<FileSlice>, offsets: FileSlice, bytes: FileSlice) -> &mut Self {
        self.array(crate::text::OFFSETS, mask).slice(offsets).slice(bytes)
    }

    /// A list or map; its elements come next.
    pub fn list(&mut self, mask: Option<FileSlice>, offsets: FileSlice) -> &mut Self {
        self.array(crate::text::OFFSETS, mask).slice(offsets)
    }

    /// An array of one length, or a struct; its children come next.
    pub fn parent(&mut self, mask: Option<FileSlice>) -> &mut Self {
        self.array(crate::integers::PLAIN, mask)
    }

    /// A column all of which is NULL.
    pub fn nothing(&mut self) -> &mut Self {
        self.head.u8(crate::integers::PLAIN).u8(2);
        self
    }

    /// The codes of a dictionary's column come after its values, which come next.
    pub fn dictionary(&mut self, values: u32) -> &mut Self {
        self.head.u32(values);
        self
    }

    pub fn finish(self) -> Vec<u8> {
        self.head.finish()
    }
}
