//! A column of a snapshot: its array as a mapping, its synopses, its verification.
//!
//! The `unsafe` of this crate is here and in `views`: assembling an Arrow array from mapped files without
//! looking at every value, which is what makes a result cost O(columns) instead of O(rows).

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use super::bounds::BlockSynopsis;
use super::checksum::{BlockHash, damaged_block, flawed_block, update_with_bits};
use super::files::GenerationFiles;
use super::layout::{BoundsKind, Buffers, Node, arrow_type_at_rest, nodes, sealed_blocks};
use super::shape::committed_roles;
use super::structure::{BlockBytes, check_block, check_dictionary, hash_heap};
use crate::names::Role;
use arrow_array::{ArrayRef, make_array, new_empty_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field};
use hypostyle_format::{BLOCK_RECORD_BYTES, BlockRecord, ColumnEntry, Encoding, GenerationEntry, NodeEntry};
use hypostyle_io::Mapping;
use hypostyle_mapped::{BufferFile, DictionaryFiles, NodeFiles};
use hypostyle_types::{BLOCK_ROWS, Error, ErrorKind, LogicalType, Result, to_usize};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::Xxh3Default;

/// A column as one snapshot sees it.
#[derive(Debug)]
pub struct ColumnData {
    entry: ColumnEntry,
    pub(crate) files: Arc<GenerationFiles>,
    /// The array that scans share; made at first use.
    shared: OnceLock<ArrayRef>,
    synopses: OnceLock<Vec<BlockSynopsis>>,
    layout: OnceLock<Vec<Node>>,
    /// One bit for each block of each node: in this process its checksum has matched, and its
    /// structure was sound.
    verified: Vec<Vec<AtomicU64>>,
    dictionary_verified: AtomicBool,
    /// The NULLs of each node are as many as its records say.
    counted: AtomicBool,
    /// Damage was found in what had been handed out: nothing is handed out any more that was not
    /// verified before.
    suspect: AtomicBool,
}

impl ColumnData {
    pub(crate) fn new(entry: ColumnEntry, files: Arc<GenerationFiles>) -> Self {
        let words = |node: &NodeEntry| node.length.div_ceil(BLOCK_ROWS).div_ceil(64);
        let bits = |node| (0..words(node)).map(|_| AtomicU64::new(0)).collect();
        let verified = entry.generation.nodes.iter().map(bits).collect();
        Self {
            entry,
            files,
            shared: OnceLock::new(),
            synopses: OnceLock::new(),
            layout: OnceLock::new(),
            verified,
            dictionary_verified: AtomicBool::new(false),
            counted: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
        }
    }

    /// A later state of the same generation, which remembers what was verified of the full blocks:
    /// they never change.
    pub(crate) fn grown(before: &Self, entry: ColumnEntry) -> Self {
        let grown = Self::new(entry, before.files.clone());
        let old_nodes = &before.entry.generation.nodes;
        for (number, (old, new)) in before.verified.iter().zip(&grown.verified).enumerate() {
            let sealed = sealed_blocks(old_nodes[number].length);
            for (word, (old, new)) in old.iter().zip(new).enumerate() {
                let first = 64 * word as u64;
                let kept = match sealed.saturating_sub(first) {
                    64.. => u64::MAX,
                    blocks => (1 << blocks) - 1,
                };
                new.store(old.load(Ordering::Acquire) & kept, Ordering::Release);
            }
        }
        let suspect = before.suspect.load(Ordering::Acquire);
        grown.suspect.store(suspect, Ordering::Release);
        grown
    }

    pub fn entry(&self) -> &ColumnEntry {
        &self.entry
    }

    pub fn rows(&self) -> u64 {
        self.entry.generation.nodes[0].length
    }

    pub fn null_count(&self) -> u64 {
        self.entry.generation.nodes[0].nulls
    }

    /// Distinct values, where a dictionary counts them.
    pub fn distinct_count(&self) -> Option<u64> {
        let generation = &self.entry.generation;
        generation.encoding.is_dictionary().then(|| generation.nodes[0].dictionary_length)
    }

    /// The Arrow field of this column at rest.
    pub fn field(&self) -> Field {
        let data_type = arrow_type_at_rest(&self.entry.logical_type, self.entry.generation.encoding);
        self.entry.logical_type.mark(Field::new(&self.entry.name, data_type, self.entry.nullable))
    }

    /// All rows as one array over read-only mappings, shared by all who ask: O(1) in the rows.
    /// Nobody has looked at its values: who reads some verifies their rows first, and who hands it
    /// out asks [`Snapshot::hand_out`].
    ///
    /// [`Snapshot::hand_out`]: crate::Snapshot::hand_out
    ///
    /// # Errors
    /// `Corrupt` when a file is shorter than the catalog promises, also when it has become so since
    /// it was mapped, or its offsets leave it.
    pub fn array(&self) -> Result<ArrayRef> {
        if let Some(array) = self.shared.get() {
            self.check_lengths()?;
            return Ok(array.clone());
        }
        let array = self.read(false)?;
        Ok(self.shared.get_or_init(|| array).clone())
    }

    /// [`Self::array`] over private copy-on-write mappings of its own: the caller may write
    /// into its buffers and nobody else sees it. O(1) in the rows.
    pub fn private_array(&self) -> Result<ArrayRef> {
        self.read(true)
    }

    fn read(&self, private: bool) -> Result<ArrayRef> {
        read_generation(&self.files, &self.entry.logical_type, &self.entry.generation, private)
            .map_err(|error| self.name(error))
    }

    /// Looks whether all files are still as long as they were when they were mapped: reading past
    /// the end of one that was cut from outside would end the process.
    fn check_lengths(&self) -> Result<()> {
        if self.files.store.path().is_none() {
            return Ok(());
        }
        let nodes = self.layout().iter().zip(&self.entry.generation.nodes).enumerate();
        for (number, (shape, entry)) in nodes {
            for (role, length) in committed_roles(shape, entry, self.entry.generation.encoding) {
                if role == Role::Blocks || length == 0 {
                    continue;
                }
                match self.files.open_named(number, role) {
                    Ok(file) => file.check_length(length).map_err(|error| self.name(error))?,
                    // Of a file that was removed since, what is mapped stays.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(self.name(error)),
                }
            }
        }
        Ok(())
    }

    /// Whether all of its files have their names still: a version that nobody reads may lose them.
    pub(crate) fn has_files(&self) -> bool {
        let nodes = self.layout().iter().zip(&self.entry.generation.nodes).enumerate();
        let mut roles = nodes.flat_map(|(number, (shape, entry))| {
            let roles = committed_roles(shape, entry, self.entry.generation.encoding);
            roles.into_iter().map(move |(role, _)| (number, role))
        });
        roles.all(|(number, role)| self.files.open_named(number, role).is_ok())
    }

    /// The files that [`Self::array`] maps, in the preorder of the column's nodes, for handing them
    /// to others.
    pub fn files(&self) -> Result<Vec<NodeFiles>> {
        let nodes = self.layout().iter().zip(&self.entry.generation.nodes).enumerate();
        nodes.map(|(number, (shape, entry))| node_files(&self.files, number, shape, entry)).collect()
    }

    /// Bytes of the buffers of all rows.
    pub fn bytes(&self) -> u64 {
        let nodes = self.layout().iter().zip(&self.entry.generation.nodes);
        nodes
            .map(|(shape, entry)| {
                let mask = if entry.validity { entry.length.div_ceil(8) } else { 0 };
                let dictionary = entry.dictionary_length * 8 + entry.dictionary_heap_bytes;
                mask + dictionary
                    + match &shape.buffers {
                        Buffers::None => 0,
                        Buffers::Fixed { width, .. } => entry.length * *width as u64,
                        Buffers::Bitmap => entry.length.div_ceil(8),
                        Buffers::Variable => entry.length * 8 + entry.heap_bytes,
                        Buffers::Offsets { width } => entry.length * *width as u64,
                    }
            })
            .sum()
    }

    fn bounds_kind(&self) -> BoundsKind {
        match self.entry.generation.encoding {
            Encoding::Plain => self.layout()[0].bounds,
            _ => BoundsKind::Bytes,
        }
    }

    /// What is known of each block, in order.
    pub fn synopses(&self) -> Result<&[BlockSynopsis]> {
        if let Some(synopses) = self.synopses.get() {
            return Ok(synopses);
        }
        let kind = self.bounds_kind();
        let records = read_records(&self.files, 0, &self.entry.generation.nodes[0])?;
        let synopses = records.iter().map(|record| BlockSynopsis::read(kind, record)).collect();
        Ok(self.synopses.get_or_init(|| synopses))
    }

    pub(super) fn layout(&self) -> &[Node] {
        self.layout.get_or_init(|| {
            nodes(&arrow_type_at_rest(&self.entry.logical_type, self.entry.generation.encoding))
        })
    }

    /// Checks the checksums and the structure of all that these rows are made of: their blocks, the
    /// blocks of the elements within them, and the dictionary. Each is read once in this process.
    ///
    /// # Errors
    /// `Corrupt` naming the column and the block.
    pub fn verify_rows(&self, rows: Range<u64>) -> Result<()> {
        self.verify_rows_unless(rows, &mut || Ok(()))
    }

    /// [`Self::verify_rows`], which asks before each block whether to go on.
    ///
    /// # Errors
    /// `Corrupt` naming the column and the block; those of `proceed`.
    pub(crate) fn verify_rows_unless(
        &self,
        rows: Range<u64>,
        proceed: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        if !self.is_on_disk() || rows.is_empty() {
            return Ok(());
        }
        let verified = self.each_block(0, rows, &mut |node, block, is_verified| {
            if !is_verified {
                proceed()?;
                self.verify_block(node, block)?;
                let bit = 1 << (block % 64);
                self.verified[node][(block / 64) as usize].fetch_or(bit, Ordering::AcqRel);
            }
            Ok(true)
        });
        verified.and_then(|_| self.verify_dictionary_once())
    }

    /// Whether [`Self::verify_rows`] would read nothing.
    pub(crate) fn is_verified(&self, rows: Range<u64>) -> Result<bool> {
        if !self.is_on_disk() || rows.is_empty() {
            return Ok(true);
        }
        let dictionary = !self.entry.generation.encoding.is_dictionary()
            || self.dictionary_verified.load(Ordering::Acquire);
        Ok(dictionary && self.each_block(0, rows, &mut |_, _, is_verified| Ok(is_verified))?)
    }

    /// Checks that the NULLs of each node are as many as its records say: who is handed all rows is
    /// told their number.
    ///
    /// # Errors
    /// `Corrupt` naming the column.
    pub(crate) fn verify_counts(&self) -> Result<()> {
        if !self.is_on_disk() || self.counted.load(Ordering::Acquire) {
            return Ok(());
        }
        for (number, entry) in self.entry.generation.nodes.iter().enumerate() {
            let records = read_records(&self.files, number, entry).map_err(|error| self.name(error))?;
            if records.iter().map(|record| u64::from(record.nulls)).sum::<u64>() != entry.nulls {
                let error = Error::corrupt("it has another number of NULLs than its blocks say");
                return Err(self.name(error));
            }
        }
        self.counted.store(true, Ordering::Release);
        Ok(())
    }

    fn is_on_disk(&self) -> bool {
        self.files.store.path().is_some()
    }

    /// Whether damage was found in it after it was handed out.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Acquire)
    }

    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::Release);
    }

    /// Whether it has elements beside its rows.
    pub(crate) fn is_nested(&self) -> bool {
        self.layout().len() > 1
    }

    /// Checks the dictionary, if there is one, for those who read it before any row.
    ///
    /// # Errors
    /// `Corrupt` naming the column.
    pub fn verify_dictionary_once(&self) -> Result<()> {
        let has_dictionary = self.is_on_disk() && self.entry.generation.encoding.is_dictionary();
        if has_dictionary && !self.dictionary_verified.load(Ordering::Acquire) {
            self.verify_dictionary(&self.entry.generation.nodes[0])?;
            self.dictionary_verified.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Calls back for each block that some elements are made of, those of their children after
    /// their own, with whether it is verified; until that returns false, which is then returned.
    fn each_block(
        &self,
        node: usize,
        elements: Range<u64>,
        each: &mut dyn FnMut(usize, u64, bool) -> Result<bool>,
    ) -> Result<bool> {
        if elements.is_empty() {
            return Ok(true);
        }
        for block in elements.start / BLOCK_ROWS..elements.end.div_ceil(BLOCK_ROWS) {
            let Some(word) = self.verified[node].get((block / 64) as usize) else { break };
            let is_verified = word.load(Ordering::Acquire) & 1 << (block % 64) != 0;
            if !each(node, block, is_verified)? {
                return Ok(false);
            }
        }
        let layout = self.layout();
        let shape = &layout[node];
        for child in &shape.children {
            let all = 0..self.entry.generation.nodes[*child].length;
            let within = match (&shape.buffers, &shape.data_type) {
                (Buffers::Offsets { width }, _) if !has_offsets(layout, *child) => {
                    self.offset(node, *width, elements.start)?..self.offset(node, *width, elements.end)?
                }
                (_, DataType::FixedSizeList(_, length)) if !has_offsets(layout, *child) => {
                    let length = *length as u64;
                    elements.start * length..elements.end * length
                }
                (_, DataType::Struct(_)) => elements.clone(),
                // Who reads some lists may go through the elements of all.
                _ => all,
            };
            if !self.each_block(*child, within, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where an element of a list or map begins among the child's elements.
    fn offset(&self, node: usize, width: usize, element: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.files.open(node, Role::Offsets)?.read_at(element * width as u64, &mut bytes[..width])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Calls back for every block of every node, with the rows of the column that it has, and the
    /// error if it is damaged; until that returns false, which is then returned.
    pub(crate) fn check(&self, mut report: impl FnMut(usize, u64, u64, Result<()>) -> bool) -> bool {
        let mut is_sound = true;
        for (node, entry) in self.entry.generation.nodes.iter().enumerate() {
            for block in 0..entry.length.div_ceil(BLOCK_ROWS) {
                let rows = if node == 0 { BLOCK_ROWS.min(entry.length - block * BLOCK_ROWS) } else { 0 };
                let verified = self.verify_block(node, block);
                is_sound &= verified.is_ok();
                if !report(node, block, rows, verified) {
                    return false;
                }
            }
            let has_dictionary = self.entry.generation.encoding.is_dictionary();
            if has_dictionary && !report(node, 0, 0, self.verify_dictionary(entry)) {
                return false;
            }
        }
        match self.verify_counts() {
            // Records that cannot be read have been reported with their blocks.
            Err(error) if is_sound => report(0, 0, 0, Err(error)),
            _ => true,
        }
    }

    fn verify_block(&self, node: usize, block: u64) -> Result<()> {
        verify_block(&self.files, self.layout(), &self.entry.generation.nodes, node, block)
            .map_err(|error| self.name(error))
    }

    /// Whether a copy of a column has the first rows of this one, by what both have recorded of its
    /// full blocks. What may have grown since, the last block and the dictionary, is compared with
    /// the same rows of this column.
    pub(crate) fn begins_with(&self, copy: &ColumnEntry, files: &GenerationFiles) -> Result<bool> {
        let (own, copied) = (&self.entry.generation, &copy.generation);
        let same_layout = self.entry.logical_type == copy.logical_type
            && own.encoding == copied.encoding
            && own.nodes.len() == copied.nodes.len();
        if !same_layout {
            return Ok(false);
        }
        for node in 0..own.nodes.len() {
            match self.node_begins_with(node, &copied.nodes[node], files) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // Offsets that do not fit the copy's heap, or records that are not there.
                Err(error) if [ErrorKind::Corrupt, ErrorKind::NotFound].contains(&error.kind()) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn node_begins_with(&self, node: usize, copy: &NodeEntry, files: &GenerationFiles) -> Result<bool> {
        let own = &self.entry.generation.nodes[node];
        let fits = copy.length <= own.length
            && copy.validity <= own.validity
            && copy.heap_bytes <= own.heap_bytes
            && copy.dictionary_length <= own.dictionary_length
            && copy.dictionary_heap_bytes <= own.dictionary_heap_bytes;
        if !fits || read_records(&self.files, node, copy)? != read_records(files, node, copy)? {
            return Ok(false);
        }
        if copy == own {
            return Ok(true);
        }
        if let Some(tail) = &copy.tail {
            let last_block = sealed_blocks(copy.length) * BLOCK_ROWS..copy.length;
            let (_, here) = read_block(&self.files, node, &self.layout()[node], copy, last_block)?;
            if here.hash.checksum() != tail.checksum {
                return Ok(false);
            }
        }
        if copy.length > 0 && self.entry.generation.encoding.is_dictionary() {
            self.verify_dictionary(copy)?;
        }
        Ok(true)
    }

    /// A checksum of the first rows and the first values of the dictionary (format.md §10): of the
    /// checksums of full blocks, which are looked up, and of the rest, which is read. `None` when
    /// there are fewer, or the column has elements beside its rows.
    pub(crate) fn content(&self, rows: u64, dictionary: u64) -> Result<Option<u64>> {
        let own = &self.entry.generation.nodes[0];
        if self.is_nested() || rows > own.length || dictionary > own.dictionary_length {
            return Ok(None);
        }
        let mut hash = Xxh3Default::new();
        hash.update(&rows.to_le_bytes());
        let sealed = sealed_blocks(rows);
        let records = read_records(&self.files, 0, own).map_err(|error| self.name(error))?;
        for record in &records[..to_usize(sealed)] {
            hash.update(&record.checksum.to_le_bytes());
        }
        let rest = sealed * BLOCK_ROWS..rows;
        if !rest.is_empty() {
            let read = read_block(&self.files, 0, &self.layout()[0], own, rest.clone());
            let (bytes, mut read) = read.map_err(|error| self.name(error))?;
            let bits = to_usize(rest.end - rest.start);
            if bytes.validity.is_some_and(|validity| count_set_bits(&validity, bits) == bits) {
                // The bitmap may have come later, with the first NULL.
                read.hash.validity.reset();
            }
            hash.update(&read.hash.checksum().to_le_bytes());
        }
        if dictionary > 0 {
            let offsets = map(&self.files, 0, Role::DictionaryOffsets, (dictionary + 1) * 8, false)?;
            let end = offsets.typed_data::<i64>()[to_usize(dictionary)];
            let end = u64::try_from(end).ok().filter(|end| *end <= own.dictionary_heap_bytes);
            let end = end.ok_or_else(|| self.name(Error::corrupt("an offset leaves the dictionary")))?;
            hash.update(&offsets);
            hash.update(&map(&self.files, 0, Role::DictionaryHeap, end, false)?);
        }
        Ok(Some(hash.digest()))
    }

    fn verify_dictionary(&self, entry: &NodeEntry) -> Result<()> {
        verify_dictionary(&self.files, entry).map_err(|error| self.name(error))
    }

    fn name(&self, error: Error) -> Error {
        error.context(format_args!("column \"{}\"", self.entry.name))
    }
}

/// Checks all that a generation is made of.
///
/// # Errors
/// `Corrupt` naming the block.
pub(crate) fn verify_generation(
    files: &GenerationFiles,
    logical_type: &LogicalType,
    generation: &GenerationEntry,
) -> Result<()> {
    let layout = nodes(&arrow_type_at_rest(logical_type, generation.encoding));
    for (node, entry) in generation.nodes.iter().enumerate().take(layout.len()) {
        for block in 0..entry.length.div_ceil(BLOCK_ROWS) {
            verify_block(files, &layout, &generation.nodes, node, block)?;
        }
        if generation.encoding.is_dictionary() {
            verify_dictionary(files, entry)?;
        }
    }
    Ok(())
}

/// Checks the checksum and the structure of a block.
fn verify_block(
    files: &GenerationFiles,
    layout: &[Node],
    entries: &[NodeEntry],
    node: usize,
    block: u64,
) -> Result<()> {
    let (shape, entry) = (&layout[node], &entries[node]);
    let rows = block * BLOCK_ROWS..((block + 1) * BLOCK_ROWS).min(entry.length);
    let record = match &entry.tail {
        Some(tail) if block == sealed_blocks(entry.length) => *tail,
        _ => {
            let mut bytes = [0; BLOCK_RECORD_BYTES];
            let file = files.open(node, Role::Blocks)?;
            file.read_at(block * BLOCK_RECORD_BYTES as u64, &mut bytes)?;
            BlockRecord::decode(&bytes)?
        }
    };
    let (bytes, mut read) = read_block(files, node, shape, entry, rows.clone())?;
    let mut is_sound = read.hash.checksum() == record.checksum;
    if !is_sound && record.nulls == 0 && bytes.validity.as_ref().is_some_and(|bits| is_all_set(bits)) {
        // Sealed before the node had its first NULL, and with it the bitmap.
        read.hash.validity.reset();
        is_sound = read.hash.checksum() == record.checksum;
    }
    if !is_sound {
        return Err(damaged_block(block, rows));
    }
    let child_elements = shape.children.first().map_or(0, |child| entries[*child].length);
    let count = to_usize(rows.end - rows.start);
    check_block(shape, entry, child_elements, &record, count, &bytes)
        .and(read.text)
        .map_err(|flaw| flawed_block(block, rows, flaw))
}

/// Counts the first bits that are set.
fn count_set_bits(bytes: &[u8], bits: usize) -> usize {
    BooleanBuffer::new(Buffer::from(bytes), 0, bits).count_set_bits()
}

/// Whether all bits of a sealed block are set.
fn is_all_set(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0xFF)
}

/// Whether a node, or one below it, has offsets.
fn has_offsets(layout: &[Node], node: usize) -> bool {
    let shape = &layout[node];
    matches!(shape.buffers, Buffers::Variable | Buffers::Offsets { .. })
        || shape.children.iter().any(|child| has_offsets(layout, *child))
}

pub(crate) fn verify_dictionary(files: &GenerationFiles, entry: &NodeEntry) -> Result<()> {
    let mut hash = Xxh3Default::new();
    let offsets = map(files, 0, Role::DictionaryOffsets, (entry.dictionary_length + 1) * 8, false)?;
    let heap = map(files, 0, Role::DictionaryHeap, entry.dictionary_heap_bytes, false)?;
    hash.update(&offsets);
    hash.update(&heap);
    if hash.digest() != entry.dictionary_checksum {
        return Err(Error::corrupt(
            "its dictionary is damaged: its checksum does not match; restore it from a backup",
        ));
    }
    check_dictionary(&offsets, &heap).map_err(|flaw| {
        Error::corrupt(format!("its dictionary is damaged: {flaw}; restore it from a backup"))
    })
}

fn map(files: &GenerationFiles, node: usize, role: Role, length: u64, private: bool) -> Result<Buffer> {
    if length == 0 {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    let file = files.open(node, role)?;
    let mapping: Mapping = if private { file.map_private(length)? } else { file.map(length)? };
    Ok(Buffer::from(bytes::Bytes::from_owner(mapping)))
}

fn read_records(files: &GenerationFiles, node: usize, entry: &NodeEntry) -> Result<Vec<BlockRecord>> {
    let mut records = Vec::new();
    let sealed = sealed_blocks(entry.length);
    if sealed > 0 {
        let end = sealed.saturating_mul(BLOCK_RECORD_BYTES as u64);
        let bytes = files.open(node, Role::Blocks)?.read(0..end)?;
        for record in bytes.chunks(BLOCK_RECORD_BYTES) {
            let record = BlockRecord::decode(record)?;
            if u64::from(record.elements) != BLOCK_ROWS {
                return Err(Error::corrupt("a full block's record tells of another number of elements"));
            }
            records.push(record);
        }
    }
    records.extend(entry.tail);
    Ok(records)
}

/// What reading a block has given beside its bytes.
struct ReadBlock {
    hash: BlockHash,
    /// What is wrong with the text in its heap.
    text: std::result::Result<(), &'static str>,
}

/// A node's elements, as the files have them now.
fn read_block(
    files: &GenerationFiles,
    node: usize,
    layout: &Node,
    entry: &NodeEntry,
    elements: Range<u64>,
) -> Result<(BlockBytes, ReadBlock)> {
    let mut read_so_far = ReadBlock { hash: BlockHash::new(), text: Ok(()) };
    let hash = &mut read_so_far.hash;
    let (from, to) = (elements.start, elements.end);
    let read = |role, start: u64, end: u64| -> Result<Vec<u8>> { files.open(node, role)?.read(start..end) };
    let bits = to_usize(to - from);
    let mut bytes = BlockBytes { validity: None, values: Vec::new(), heap: 0..0 };
    if entry.validity {
        let validity = read(Role::Validity, from / 8, to.div_ceil(8))?;
        update_with_bits(&mut hash.validity, &validity, bits);
        bytes.validity = Some(validity);
    }
    match &layout.buffers {
        Buffers::None => {}
        Buffers::Fixed { width, .. } => {
            let width = *width as u64;
            bytes.values = read(Role::Values, from * width, to * width)?;
            hash.values.update(&bytes.values);
        }
        Buffers::Bitmap => {
            bytes.values = read(Role::Values, from / 8, to.div_ceil(8))?;
            update_with_bits(&mut hash.values, &bytes.values, bits);
        }
        Buffers::Offsets { width } => {
            let width = *width as u64;
            bytes.values = read(Role::Offsets, from * width, (to + 1) * width)?;
            hash.values.update(&bytes.values);
        }
        Buffers::Variable => {
            bytes.values = read(Role::Offsets, from * 8, (to + 1) * 8)?;
            hash.values.update(&bytes.values);
            let offset = |at: usize| {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes.values[at..at + 8]);
                u64::from_le_bytes(word)
            };
            let (start, end) = (offset(0), offset(bytes.values.len() - 8));
            if start > end || end > entry.heap_bytes {
                return Err(Error::corrupt(format!("element {from}: an offset leaves the heap")));
            }
            bytes.heap = start..end;
            let heap = files.open(node, Role::Heap)?;
            let text = (layout.data_type == DataType::LargeUtf8).then_some(bytes.values.as_slice());
            read_so_far.text = hash_heap(&mut hash.heap, &heap, bytes.heap.clone(), text)?;
        }
    }
    Ok((bytes, read_so_far))
}

/// All rows of a generation as one array.
pub(crate) fn read_generation(
    files: &GenerationFiles,
    logical_type: &LogicalType,
    generation: &GenerationEntry,
    private: bool,
) -> Result<ArrayRef> {
    let data_type = arrow_type_at_rest(logical_type, generation.encoding);
    let layout = nodes(&data_type);
    if layout.len() != generation.nodes.len() {
        return Err(Error::corrupt(format!("a {logical_type} column has {} nodes", generation.nodes.len())));
    }
    if generation.nodes[0].length == 0 {
        return Ok(new_empty_array(&data_type));
    }
    let data = read_node(files, &layout, &generation.nodes, 0, private)?;
    Ok(make_array(data))
}

fn read_node(
    files: &GenerationFiles,
    layout: &[Node],
    entries: &[NodeEntry],
    node: usize,
    private: bool,
) -> Result<ArrayData> {
    let (shape, entry) = (&layout[node], &entries[node]);
    let length = entry.length;
    if length == 0 {
        return Ok(ArrayData::new_empty(&shape.data_type));
    }
    let file = |role, bytes| map(files, node, role, bytes, private);
    let mut builder = ArrayDataBuilder::new(shape.data_type.clone()).len(to_usize(length));
    if entry.validity {
        let bits = BooleanBuffer::new(file(Role::Validity, length.div_ceil(8))?, 0, to_usize(length));
        // SAFETY: the count is what the writer counted while it wrote these very bits; another one
        // is found by `verify_counts` and with the blocks, and misleads but reads no foreign
        // memory.
        let nulls = unsafe { NullBuffer::new_unchecked(bits, to_usize(entry.nulls)) };
        builder = builder.nulls(Some(nulls));
    }
    match &shape.buffers {
        Buffers::None => {}
        Buffers::Fixed { width, .. } => {
            builder = builder.add_buffer(file(Role::Values, length * *width as u64)?);
        }
        Buffers::Bitmap => builder = builder.add_buffer(file(Role::Values, length.div_ceil(8))?),
        Buffers::Variable => {
            let offsets = file(Role::Offsets, (length + 1) * 8)?;
            check_last_offset(i128::from(offsets.typed_data::<i64>()[to_usize(length)]), entry.heap_bytes)?;
            builder = builder.add_buffer(offsets).add_buffer(file(Role::Heap, entry.heap_bytes)?);
        }
        Buffers::Offsets { width } => {
            let offsets = file(Role::Offsets, (length + 1) * *width as u64)?;
            let last = match width {
                8 => i128::from(offsets.typed_data::<i64>()[to_usize(length)]),
                _ => i128::from(offsets.typed_data::<i32>()[to_usize(length)]),
            };
            check_last_offset(last, shape.children.first().map_or(0, |child| entries[*child].length))?;
            builder = builder.add_buffer(offsets);
        }
    }
    for child in &shape.children {
        builder = builder.add_child_data(read_node(files, layout, entries, *child, private)?);
    }
    if let DataType::Dictionary(_, value) = &shape.data_type {
        let offsets = file(Role::DictionaryOffsets, (entry.dictionary_length + 1) * 8)?;
        let last = offsets.typed_data::<i64>()[to_usize(entry.dictionary_length)];
        check_last_offset(i128::from(last), entry.dictionary_heap_bytes)?;
        let values = ArrayDataBuilder::new(value.as_ref().clone())
            .len(to_usize(entry.dictionary_length))
            .add_buffer(offsets)
            .add_buffer(file(Role::DictionaryHeap, entry.dictionary_heap_bytes)?);
        // SAFETY: as below.
        builder = builder.add_child_data(unsafe { values.build_unchecked() });
    }
    // SAFETY: the buffers have the lengths that the type demands, by construction from one layout
    // and by the length check of every mapping, and start on a page, so they are aligned. That offsets
    // ascend, text is UTF-8 and codes number dictionary values is looked at before anybody reads them
    // (`verify_rows`), or, of what this machine has written itself, believed of the writer until a thread has
    // looked (docs/decisions/0011).
    Ok(unsafe { builder.build_unchecked() })
}

/// Returns the files of a node as [`ColumnData::files`] does.
pub(super) fn node_files(
    files: &GenerationFiles,
    number: usize,
    shape: &Node,
    entry: &NodeEntry,
) -> Result<NodeFiles> {
    let buffer = |role, length| -> Result<BufferFile> {
        let file = if length > 0 { Some(files.open(number, role)?) } else { None };
        file.as_ref().map_or(Ok(()), |file| file.check_length(length))?;
        Ok(BufferFile { file, length })
    };
    let (length, offsets) = (entry.length, |width: u64| (entry.length + 1) * width);
    let buffers = match &shape.buffers {
        Buffers::None => Vec::new(),
        Buffers::Fixed { width, .. } => vec![buffer(Role::Values, length * *width as u64)?],
        Buffers::Bitmap => vec![buffer(Role::Values, length.div_ceil(8))?],
        Buffers::Variable => {
            vec![buffer(Role::Offsets, offsets(8))?, buffer(Role::Heap, entry.heap_bytes)?]
        }
        Buffers::Offsets { width } => vec![buffer(Role::Offsets, offsets(*width as u64))?],
    };
    let dictionary = match &shape.data_type {
        DataType::Dictionary(..) => Some(DictionaryFiles {
            values: entry.dictionary_length,
            offsets: buffer(Role::DictionaryOffsets, (entry.dictionary_length + 1) * 8)?,
            heap: buffer(Role::DictionaryHeap, entry.dictionary_heap_bytes)?,
        }),
        _ => None,
    };
    let validity = match entry.validity {
        true => Some(buffer(Role::Validity, length.div_ceil(8))?),
        false => None,
    };
    Ok(NodeFiles { elements: length, nulls: entry.nulls, validity, buffers, dictionary })
}

/// Returns what a node of no elements has where it has no files.
pub(super) fn files_of_none(buffers: &Buffers) -> NodeFiles {
    let count = match buffers {
        Buffers::None => 0,
        Buffers::Variable => 2,
        Buffers::Fixed { .. } | Buffers::Bitmap | Buffers::Offsets { .. } => 1,
    };
    let none = BufferFile { file: None, length: 0 };
    NodeFiles { elements: 0, nulls: 0, validity: None, buffers: vec![none; count], dictionary: None }
}

fn check_last_offset(last: i128, end: u64) -> Result<()> {
    if last != i128::from(end) {
        return Err(Error::corrupt(format!("the last offset is {last} where {end} must be")));
    }
    Ok(())
}
