//! Appends arrays to the files of one node and keeps its block records.

use super::bounds::BoundsBuilder;
use super::checksum::{BlockHash, damaged_block, update_with_bits, update_with_file};
use super::files::GenerationFiles;
use super::layout::{BoundsKind, Buffers, Node, sealed_blocks};
use crate::names::Role;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use hypostyle_format::{BLOCK_RECORD_BYTES, BlockRecord, NodeEntry};
use hypostyle_io::File;
use hypostyle_types::{BLOCK_ROWS, Error, Result};
use std::sync::Arc;

/// A bitmap being appended to; the last byte, shared with committed rows, is kept here.
struct BitmapWriter {
    file: File,
    bits: u64,
    last_byte: u8,
}

impl BitmapWriter {
    fn open(file: File, bits: u64) -> Result<Self> {
        let mut last = [0];
        if !bits.is_multiple_of(8) {
            file.read_at(bits / 8, &mut last)?;
            // An append that was abandoned has left bits behind the committed ones.
            last[0] &= (1 << (bits % 8)) - 1;
        }
        Ok(Self { file, bits, last_byte: last[0] })
    }

    /// Appends bits and gives the whole bytes from the one the first new bit fell into.
    fn append(&mut self, new: &BooleanBuffer) -> Result<BooleanBuffer> {
        let shared = (self.bits % 8) as usize;
        let mut builder = BooleanBufferBuilder::new(shared + new.len());
        builder.append_packed_range(0..shared, &[self.last_byte]);
        builder.append_buffer(new);
        let all = builder.finish();
        self.file.write_at(self.bits / 8, all.values())?;
        self.bits += new.len() as u64;
        self.last_byte = match self.bits % 8 {
            0 => 0,
            rest => all.values()[all.len() / 8] & ((1 << rest) - 1),
        };
        Ok(all)
    }
}

pub(crate) struct NodeWriter {
    files: Arc<GenerationFiles>,
    node: usize,
    buffers: Buffers,
    bounds_kind: BoundsKind,
    length: u64,
    nulls: u64,
    /// The last offset: bytes of the heap, or elements of the only child.
    heap_bytes: u64,
    validity: Option<BitmapWriter>,
    bitmap: Option<BitmapWriter>,
    /// `values` or `offsets`.
    values: Option<File>,
    heap: Option<File>,
    /// Whether `length` elements exist that another run wrote.
    existed: bool,
    block: BlockHash,
    block_nulls: u32,
    bounds: BoundsBuilder,
    sealed: Vec<BlockRecord>,
    sealed_before: u64,
}

impl NodeWriter {
    /// # Errors
    /// `Corrupt` when the block that the next element falls into is not what `entries`, of all nodes, say.
    pub fn open(
        files: &Arc<GenerationFiles>,
        node: usize,
        layout: &Node,
        entries: &[NodeEntry],
    ) -> Result<Self> {
        let entry = &entries[node];
        let heap_bytes = match (&layout.buffers, layout.children.first()) {
            (Buffers::Offsets { .. }, Some(child)) => entries[*child].length,
            _ => entry.heap_bytes,
        };
        let mut writer = Self {
            files: files.clone(),
            node,
            buffers: layout.buffers.clone(),
            bounds_kind: layout.bounds,
            length: entry.length,
            nulls: entry.nulls,
            heap_bytes,
            validity: None,
            bitmap: None,
            values: None,
            heap: None,
            existed: entry.length > 0,
            block: BlockHash::new(),
            block_nulls: 0,
            bounds: BoundsBuilder::new(layout.bounds),
            sealed: Vec::new(),
            sealed_before: sealed_blocks(entry.length),
        };
        if entry.validity {
            writer.validity =
                Some(BitmapWriter::open(files.open_to_append(node, Role::Validity)?, entry.length)?);
        }
        if writer.existed {
            writer.open_files(false)?;
            writer.resume_block(entry)?;
        }
        Ok(writer)
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    pub fn bounds_mut(&mut self) -> &mut BoundsBuilder {
        &mut self.bounds
    }

    /// Gathers bounds of another kind than the node's own; for the strings behind codes.
    pub fn use_bounds(&mut self, kind: BoundsKind, entry: &NodeEntry) {
        self.bounds_kind = kind;
        self.bounds = match &entry.tail {
            Some(record) => BoundsBuilder::resume(kind, record),
            None => BoundsBuilder::new(kind),
        };
    }

    fn open_files(&mut self, create: bool) -> Result<()> {
        let file = |role| match create {
            true => self.files.create_to_append(self.node, role),
            false => self.files.open_to_append(self.node, role),
        };
        match &self.buffers {
            Buffers::None => {}
            Buffers::Fixed { .. } => self.values = Some(file(Role::Values)?),
            Buffers::Bitmap => self.bitmap = Some(BitmapWriter::open(file(Role::Values)?, self.length)?),
            Buffers::Variable => {
                self.values = Some(file(Role::Offsets)?);
                self.heap = Some(file(Role::Heap)?);
            }
            Buffers::Offsets { .. } => self.values = Some(file(Role::Offsets)?),
        }
        if create && let Some(width) = self.offset_width() {
            self.values_file()?.write_at(0, &vec![0; width])?;
        }
        Ok(())
    }

    fn offset_width(&self) -> Option<usize> {
        match self.buffers {
            Buffers::Variable => Some(8),
            Buffers::Offsets { width } => Some(width),
            _ => None,
        }
    }

    fn values_file(&self) -> Result<&File> {
        self.values.as_ref().ok_or_else(|| Error::internal("a node without its values file"))
    }

    /// Rows already in the block that the next element falls into.
    fn block_rows(&self) -> u64 {
        self.length % BLOCK_ROWS
    }

    /// Feeds the unsealed block's committed bytes to the checksum again, which must be the recorded
    /// one: the next one would be right for damaged bytes.
    fn resume_block(&mut self, entry: &NodeEntry) -> Result<()> {
        let rows = self.block_rows();
        if rows == 0 {
            self.start_block();
            return Ok(());
        }
        let start = self.length - rows;
        let read = |file: &File, from: u64, to: u64| -> Result<Vec<u8>> {
            let mut bytes = vec![0; (to - from) as usize];
            file.read_at(from, &mut bytes)?;
            Ok(bytes)
        };
        // The last byte of a bitmap is fed when it is complete.
        if let Some(bitmap) = &self.validity {
            self.block.validity.update(&read(&bitmap.file, start / 8, self.length / 8)?);
        }
        if let Some(bitmap) = &self.bitmap {
            self.block.values.update(&read(&bitmap.file, start / 8, self.length / 8)?);
        }
        match self.buffers {
            Buffers::Fixed { width, .. } => {
                let width = width as u64;
                let bytes = read(self.values_file()?, start * width, self.length * width)?;
                self.block.values.update(&bytes);
            }
            Buffers::Variable | Buffers::Offsets { .. } => {
                let width = self.offset_width().unwrap_or_default();
                let bytes =
                    read(self.values_file()?, start * width as u64, (self.length + 1) * width as u64)?;
                self.block.values.update(&bytes);
                if let Some(heap) = &self.heap {
                    let mut first = [0; 8];
                    first.copy_from_slice(&bytes[..8]);
                    let first = u64::from_le_bytes(first);
                    if first > self.heap_bytes {
                        return Err(Error::corrupt(format!(
                            "\"{}\" has an offset past its heap",
                            heap.name()
                        )));
                    }
                    update_with_file(&mut self.block.heap, heap, first..self.heap_bytes)?;
                }
            }
            Buffers::None | Buffers::Bitmap => {}
        }
        let damaged = || damaged_block(start / BLOCK_ROWS, start..self.length);
        let record = entry.tail.as_ref().ok_or_else(damaged)?;
        if self.record().checksum != record.checksum {
            return Err(damaged());
        }
        self.bounds = BoundsBuilder::resume(self.bounds_kind, record);
        self.block_nulls = record.nulls;
        Ok(())
    }

    fn start_block(&mut self) {
        self.block = BlockHash::new();
        self.block_nulls = 0;
        self.bounds = BoundsBuilder::new(self.bounds_kind);
        if let Some(width) = self.offset_width() {
            self.block.values.update(&self.heap_bytes.to_le_bytes()[..width]);
        }
    }

    /// The block's record as of now.
    fn record(&self) -> BlockRecord {
        let mut hash = self.block.clone();
        for (bitmap, hash) in [(&self.validity, &mut hash.validity), (&self.bitmap, &mut hash.values)] {
            if let Some(bitmap) = bitmap
                && !bitmap.bits.is_multiple_of(8)
            {
                hash.update(&[bitmap.last_byte]);
            }
        }
        let mut record = BlockRecord {
            checksum: hash.checksum(),
            elements: self.block_rows() as u32,
            nulls: self.block_nulls,
            ..BlockRecord::default()
        };
        self.bounds.fill(&mut record);
        record
    }

    /// Makes the files of a node that had none; before bounds are added from outside.
    pub fn prepare(&mut self) -> Result<()> {
        if !self.existed {
            self.existed = true;
            self.open_files(true)?;
            self.start_block();
        }
        Ok(())
    }

    /// Appends all elements; children are the caller's.
    pub fn append(&mut self, array: &ArrayRef) -> Result<()> {
        if array.is_empty() {
            return Ok(());
        }
        self.prepare()?;
        let mut done = 0;
        while done < array.len() {
            let room = (BLOCK_ROWS - self.block_rows()) as usize;
            let piece = array.slice(done, room.min(array.len() - done));
            self.append_piece(&piece)?;
            done += piece.len();
        }
        Ok(())
    }

    /// Appends elements that fall into one block.
    fn append_piece(&mut self, piece: &ArrayRef) -> Result<()> {
        let data = piece.to_data();
        let (offset, length) = (data.offset(), data.len());
        self.append_validity(piece)?;
        match self.buffers.clone() {
            Buffers::None => {}
            Buffers::Fixed { width, missing } => {
                let bytes = &data.buffers()[0].as_slice()[offset * width..(offset + length) * width];
                self.append_fixed(bytes, piece.nulls(), width, &missing)?;
            }
            Buffers::Bitmap => {
                let bits = BooleanBuffer::new(data.buffers()[0].clone(), offset, length);
                let bits = match piece.nulls() {
                    Some(nulls) => &bits & nulls.inner(),
                    None => bits,
                };
                if let Some(bitmap) = &mut self.bitmap {
                    let before = bitmap.bits;
                    let bytes = bitmap.append(&bits)?;
                    feed_whole_bytes(&mut self.block.values, before, &bytes);
                }
            }
            Buffers::Variable => {
                let offsets = &data.buffers()[0].typed_data::<i64>()[offset..=offset + length];
                let heap = &data.buffers()[1].as_slice()[offsets[0] as usize..offsets[length] as usize];
                self.write_offsets(offsets.iter().copied(), self.heap_bytes as i64)?;
                if let Some(file) = &self.heap {
                    file.write_at(self.heap_bytes, heap)?;
                }
                self.block.heap.update(heap);
                self.heap_bytes += heap.len() as u64;
            }
            Buffers::Offsets { width } => {
                let buffer = &data.buffers()[0];
                let offsets: Vec<i64> = if width == 8 {
                    buffer.typed_data::<i64>()[offset..=offset + length].to_vec()
                } else {
                    let narrow = &buffer.typed_data::<i32>()[offset..=offset + length];
                    narrow.iter().map(|offset| i64::from(*offset)).collect()
                };
                self.append_offsets(offsets, width)?;
            }
        }
        self.bounds.add(piece);
        self.length += length as u64;
        if self.block_rows() == 0 {
            let mut record = self.record();
            record.elements = BLOCK_ROWS as u32;
            self.sealed.push(record);
            self.start_block();
        }
        Ok(())
    }

    /// Appends values of one width, with one that is always the same under each NULL.
    fn append_fixed(
        &mut self,
        values: &[u8],
        nulls: Option<&NullBuffer>,
        width: usize,
        missing: &[u8],
    ) -> Result<()> {
        let position = self.length * width as u64;
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return self.write_values(position, values);
        };
        let mut filled = values.to_vec();
        for null in (!nulls.inner()).set_indices() {
            filled[null * width..(null + 1) * width].copy_from_slice(missing);
        }
        self.write_values(position, &filled)
    }

    /// Appends lists by their offsets into the child, each of one width.
    ///
    /// # Errors
    /// `InvalidInput` when the child has more elements than such offsets count.
    fn append_offsets(&mut self, offsets: Vec<i64>, width: usize) -> Result<()> {
        let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return Ok(()) };
        let base = self.heap_bytes as i64;
        let end = base + last - first;
        if width == 4 && end > i64::from(i32::MAX) {
            return Err(Error::invalid_input(format!(
                "a MAP column holds at most {} entries in all its rows",
                i32::MAX
            )));
        }
        self.write_offsets(offsets.into_iter(), base)?;
        self.heap_bytes = end as u64;
        Ok(())
    }

    fn write_values(&mut self, position: u64, bytes: &[u8]) -> Result<()> {
        self.block.values.update(bytes);
        self.values_file()?.write_at(position, bytes)
    }

    /// Writes the ends of elements whose offsets start at the first of `offsets`, moved to `base`.
    fn write_offsets(&mut self, mut offsets: impl Iterator<Item = i64>, base: i64) -> Result<()> {
        let Some(first) = offsets.next() else { return Ok(()) };
        let shift = base - first;
        let position = self.length + 1;
        if self.offset_width() == Some(8) {
            let bytes: Vec<u8> = offsets.flat_map(|offset| (offset + shift).to_le_bytes()).collect();
            self.write_values(position * 8, &bytes)
        } else {
            // The caller has checked that every offset fits.
            let bytes: Vec<u8> = offsets.flat_map(|offset| ((offset + shift) as i32).to_le_bytes()).collect();
            self.write_values(position * 4, &bytes)
        }
    }

    fn append_validity(&mut self, piece: &ArrayRef) -> Result<()> {
        let nulls = piece.null_count();
        if nulls > 0 && self.validity.is_none() {
            let mut bitmap = BitmapWriter::open(self.files.create_to_append(self.node, Role::Validity)?, 0)?;
            let mut before = self.length;
            while before > 0 {
                let bits = before.min(1 << 23) as usize;
                bitmap.append(&BooleanBuffer::new_set(bits))?;
                before -= bits as u64;
            }
            let in_block = self.block_rows() as usize;
            self.block.validity.update(&vec![0xFF; in_block / 8]);
            self.validity = Some(bitmap);
        }
        if let Some(bitmap) = &mut self.validity {
            let bits = match piece.nulls() {
                Some(nulls) => nulls.inner().clone(),
                None => BooleanBuffer::new_set(piece.len()),
            };
            let before = bitmap.bits;
            let bytes = bitmap.append(&bits)?;
            feed_whole_bytes(&mut self.block.validity, before, &bytes);
        }
        self.nulls += nulls as u64;
        self.block_nulls += nulls as u32;
        Ok(())
    }

    /// Writes the block records and gives the node's committed state.
    pub fn finish(&mut self) -> Result<NodeEntry> {
        if !self.sealed.is_empty() {
            let file = match self.sealed_before {
                0 => self.files.create(self.node, Role::Blocks)?,
                _ => self.files.open(self.node, Role::Blocks)?,
            };
            let bytes: Vec<u8> = self.sealed.iter().flat_map(BlockRecord::encode).collect();
            file.write_at(self.sealed_before * BLOCK_RECORD_BYTES as u64, &bytes)?;
            file.sync()?;
        }
        Ok(NodeEntry {
            length: self.length,
            validity: self.validity.is_some(),
            nulls: self.nulls,
            heap_bytes: if self.buffers == Buffers::Variable { self.heap_bytes } else { 0 },
            tail: (self.block_rows() > 0).then(|| self.record()),
            ..NodeEntry::default()
        })
    }

    /// Makes the buffers durable.
    pub fn sync(&self) -> Result<()> {
        let bitmaps = [&self.validity, &self.bitmap].into_iter().flatten().map(|bitmap| &bitmap.file);
        bitmaps.chain([&self.values, &self.heap].into_iter().flatten()).try_for_each(File::sync)
    }
}

/// Feeds a hash the bytes that a bitmap append completed: `all` starts at the byte of bit `before`.
fn feed_whole_bytes(hash: &mut xxhash_rust::xxh3::Xxh3Default, before: u64, all: &BooleanBuffer) {
    debug_assert!(all.len() as u64 >= before % 8);
    update_with_bits(hash, all.values(), all.len() / 8 * 8);
}
