//! Appends to one column: chooses and changes its encoding, and feeds its nodes.

use super::dictionary::{Dictionary, encoding_for, narrow, pays};
use super::files::GenerationFiles;
use super::layout::{BoundsKind, arrow_type_at_rest, node_count, nodes};
use super::node_writer::NodeWriter;
use super::reader::{ColumnData, read_generation, verify_dictionary, verify_generation};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, Int32Array};
use arrow_cast::cast;
use arrow_schema::DataType;
use hypostyle_format::{ColumnEntry, Encoding, GenerationEntry, NodeEntry};
use hypostyle_types::{BLOCK_ROWS, Error, LogicalType, Result};
use std::sync::Arc;

/// Rows that are looked at before an empty column gets its encoding.
const SAMPLE_ROWS: usize = BLOCK_ROWS as usize;

pub(crate) struct ColumnWriter {
    name: String,
    logical_type: LogicalType,
    state: State,
}

enum State {
    /// An empty column that may become a dictionary: rows wait until there are enough to decide.
    Undecided {
        files: Arc<GenerationFiles>,
        rows: usize,
        waiting: Vec<ArrayRef>,
    },
    Plain(PlainWriter),
    Dictionary(Box<DictionaryWriter>),
}

/// The nodes of a plainly encoded column.
struct PlainWriter {
    files: Arc<GenerationFiles>,
    nodes: Vec<NodeWriter>,
    children: Vec<Vec<usize>>,
}

struct DictionaryWriter {
    files: Arc<GenerationFiles>,
    encoding: Encoding,
    dictionary: Dictionary,
    codes: NodeWriter,
    committed: NodeEntry,
    /// The block (plus one) whose bounds already have the string, for each code.
    seen_in_block: Vec<u64>,
}

impl ColumnWriter {
    /// # Errors
    /// `Corrupt` naming the column when what rows are put behind is damaged.
    pub fn open(entry: &ColumnEntry, files: Arc<GenerationFiles>) -> Result<Self> {
        let (name, logical_type) = (entry.name.clone(), entry.logical_type.clone());
        let state = State::open(&logical_type, &entry.generation, files);
        let state = state.map_err(|error| in_column(&name, error))?;
        Ok(Self { name, logical_type, state })
    }

    /// A writer into new files, which has the other column's dictionary from the beginning.
    pub fn like(other: &ColumnData, files: Arc<GenerationFiles>) -> Result<Self> {
        let entry = other.entry();
        if !entry.generation.encoding.is_dictionary() {
            let nodes = vec![NodeEntry::default(); node_count(&entry.logical_type)];
            let number = files.generation;
            let generation = GenerationEntry { number, encoding: Encoding::Plain, nodes };
            return Self::open(&ColumnEntry { generation, ..entry.clone() }, files);
        }
        other.verify_dictionary_once()?;
        let array = other.array()?;
        let dictionary = Dictionary::of(array.as_any_dictionary().values().as_string::<i64>());
        let writer = DictionaryWriter::new(files, entry.generation.encoding, dictionary)?;
        let (name, logical_type) = (entry.name.clone(), entry.logical_type.clone());
        Ok(Self { name, logical_type, state: State::Dictionary(Box::new(writer)) })
    }

    /// Appends an array of the column's Arrow type, or a dictionary array of strings.
    pub fn append(&mut self, array: &ArrayRef) -> Result<()> {
        match &mut self.state {
            State::Undecided { rows, waiting, .. } => {
                *rows += array.len();
                waiting.push(array.clone());
                if *rows >= SAMPLE_ROWS { self.decide() } else { Ok(()) }
            }
            State::Plain(plain) => plain.append(&plain_strings(array)?),
            State::Dictionary(dictionary) => {
                let codes = dictionary.dictionary.encode(array)?;
                self.append_codes(codes)
            }
        }
    }

    fn decide(&mut self) -> Result<()> {
        let State::Undecided { files, waiting, .. } = &mut self.state else { return Ok(()) };
        let (files, waiting) = (files.clone(), std::mem::take(waiting));
        let mut dictionary = Dictionary::new();
        let mut rows = 0;
        let mut encoded = Vec::new();
        for array in &waiting {
            // A large array is judged by its beginning.
            let sample = array.slice(0, array.len().min(SAMPLE_ROWS));
            rows += sample.len() as u64;
            encoded.push(dictionary.encode(&sample)?);
        }
        if pays(dictionary.len(), rows) {
            let encoding = encoding_for(dictionary.len());
            self.state = State::Dictionary(Box::new(DictionaryWriter::new(files, encoding, dictionary)?));
            for (array, codes) in waiting.iter().zip(encoded) {
                let sampled = codes.len();
                self.append_codes(codes)?;
                self.append(&array.slice(sampled, array.len() - sampled))?;
            }
        } else {
            let empty = vec![NodeEntry::default(); nodes(&self.logical_type.arrow_type()).len()];
            self.state = State::Plain(PlainWriter::open(&self.logical_type, files, &empty)?);
            waiting.iter().try_for_each(|array| self.append(array))?;
        }
        Ok(())
    }

    fn append_codes(&mut self, codes: Int32Array) -> Result<()> {
        let State::Dictionary(dictionary) = &mut self.state else {
            return Err(Error::internal("codes for a column without a dictionary"));
        };
        let distinct = dictionary.dictionary.len();
        let rows = dictionary.codes.length() + codes.len() as u64;
        if encoding_for(distinct) == dictionary.encoding
            || (encoding_for(distinct) as u8) < (dictionary.encoding as u8)
        {
            return dictionary.append(&codes);
        }
        if pays(distinct, rows) {
            dictionary.widen(&self.logical_type).map_err(|error| in_column(&self.name, error))?;
            return dictionary.append(&codes);
        }
        let strings = dictionary.strings(&codes)?;
        let plain = dictionary.decode(&self.logical_type).map_err(|error| in_column(&self.name, error))?;
        self.state = State::Plain(plain);
        self.append(&strings)
    }

    /// Writes what is pending and gives the column's new state. Not yet durable.
    pub fn finish(&mut self) -> Result<GenerationEntry> {
        self.decide()?;
        match &mut self.state {
            State::Plain(plain) => plain.finish(),
            State::Dictionary(dictionary) => dictionary.finish(),
            State::Undecided { .. } => Err(Error::internal("a column without an encoding")),
        }
    }

    /// Makes the finished column durable.
    pub fn sync(&self) -> Result<()> {
        match &self.state {
            State::Plain(plain) => plain.nodes.iter().try_for_each(NodeWriter::sync),
            State::Dictionary(dictionary) => dictionary.codes.sync(),
            State::Undecided { .. } => Ok(()),
        }
    }
}

impl State {
    fn open(
        logical_type: &LogicalType,
        generation: &GenerationEntry,
        files: Arc<GenerationFiles>,
    ) -> Result<Self> {
        let empty = generation.nodes.iter().all(|node| node.length == 0);
        Ok(if empty && logical_type.may_have_dictionary() {
            Self::Undecided { files, rows: 0, waiting: Vec::new() }
        } else if generation.encoding.is_dictionary() {
            Self::Dictionary(Box::new(DictionaryWriter::resume(logical_type, generation, files)?))
        } else {
            Self::Plain(PlainWriter::open(logical_type, files, &generation.nodes)?)
        })
    }
}

impl PlainWriter {
    fn open(logical_type: &LogicalType, files: Arc<GenerationFiles>, entries: &[NodeEntry]) -> Result<Self> {
        let layout = nodes(&logical_type.arrow_type());
        if layout.len() != entries.len() {
            return Err(Error::corrupt(format!("a {logical_type} column has {} nodes", entries.len())));
        }
        let mut writers = Vec::with_capacity(layout.len());
        for (index, node) in layout.iter().enumerate() {
            writers.push(NodeWriter::open(&files, index, node, entries)?);
        }
        Ok(Self { files, nodes: writers, children: layout.into_iter().map(|node| node.children).collect() })
    }

    fn append(&mut self, array: &ArrayRef) -> Result<()> {
        self.append_node(0, array)
    }

    fn append_node(&mut self, node: usize, array: &ArrayRef) -> Result<()> {
        self.nodes[node].append(array)?;
        let child = |position: usize| self.children[node].get(position).copied();
        match array.data_type() {
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                let (start, end) =
                    (list.value_offsets()[0] as usize, list.value_offsets()[list.len()] as usize);
                if let Some(child) = child(0) {
                    self.append_node(child, &list.values().slice(start, end - start))?;
                }
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let (start, end) = (map.value_offsets()[0] as usize, map.value_offsets()[map.len()] as usize);
                if let Some(child) = child(0) {
                    let entries: ArrayRef = Arc::new(map.entries().slice(start, end - start));
                    self.append_node(child, &entries)?;
                }
            }
            DataType::FixedSizeList(_, length) => {
                let list = array.as_fixed_size_list();
                let (start, count) = (list.value_offset(0) as usize, list.len() * *length as usize);
                if let Some(child) = child(0) {
                    self.append_node(child, &list.values().slice(start, count))?;
                }
            }
            DataType::Struct(_) => {
                for (position, column) in array.as_struct().columns().iter().enumerate() {
                    if let Some(child) = self.children[node].get(position).copied() {
                        self.append_node(child, column)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<GenerationEntry> {
        let nodes = self.nodes.iter_mut().map(NodeWriter::finish).collect::<Result<_>>()?;
        Ok(GenerationEntry { number: self.files.generation, encoding: Encoding::Plain, nodes })
    }
}

impl DictionaryWriter {
    fn new(files: Arc<GenerationFiles>, encoding: Encoding, dictionary: Dictionary) -> Result<Self> {
        Self::open(files, encoding, dictionary, NodeEntry::default())
    }

    fn open(
        files: Arc<GenerationFiles>,
        encoding: Encoding,
        dictionary: Dictionary,
        committed: NodeEntry,
    ) -> Result<Self> {
        let layout = nodes(&arrow_type_at_rest(&LogicalType::Varchar, encoding));
        let mut codes = NodeWriter::open(&files, 0, &layout[0], std::slice::from_ref(&committed))?;
        codes.use_bounds(BoundsKind::Bytes, &committed);
        Ok(Self { files, encoding, dictionary, codes, committed, seen_in_block: Vec::new() })
    }

    fn resume(
        logical_type: &LogicalType,
        generation: &GenerationEntry,
        files: Arc<GenerationFiles>,
    ) -> Result<Self> {
        verify_dictionary(&files, &generation.nodes[0])?;
        let array = read_generation(&files, logical_type, generation, false)?;
        let values = array.as_any_dictionary().values();
        let dictionary = Dictionary::of(values.as_string::<i64>());
        Self::open(files, generation.encoding, dictionary, generation.nodes[0].clone())
    }

    fn append(&mut self, codes: &Int32Array) -> Result<()> {
        if codes.is_empty() {
            return Ok(());
        }
        self.codes.prepare()?;
        self.seen_in_block.resize(self.dictionary.len(), 0);
        let mut done = 0;
        while done < codes.len() {
            let block = self.codes.length() / BLOCK_ROWS + 1;
            let room = (block * BLOCK_ROWS - self.codes.length()) as usize;
            let piece = codes.slice(done, room.min(codes.len() - done));
            for code in piece.iter().flatten() {
                let seen = &mut self.seen_in_block[code as usize];
                if *seen != block {
                    *seen = block;
                    self.codes.bounds_mut().add_bytes(self.dictionary.value(code));
                }
            }
            self.codes.append(&narrow(&piece, self.encoding))?;
            done += piece.len();
        }
        Ok(())
    }

    /// The strings behind codes.
    fn strings(&self, codes: &Int32Array) -> Result<ArrayRef> {
        let strings: arrow_array::LargeStringArray = codes
            .iter()
            .map(|code| code.map(|code| std::str::from_utf8(self.dictionary.value(code))).transpose())
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| Error::corrupt(format!("a dictionary value is not UTF-8: {error}")))?;
        Ok(Arc::new(strings))
    }

    /// All rows so far, as they stand in the files.
    fn rows(&mut self, logical_type: &LogicalType) -> Result<ArrayRef> {
        let written = self.finish()?;
        // They are read to be written with checksums of their own.
        verify_generation(&self.files, logical_type, &written)?;
        read_generation(&self.files, logical_type, &written, false)
    }

    fn next_files(&self) -> Arc<GenerationFiles> {
        let files = &self.files;
        GenerationFiles::new(files.store.clone(), files.table, files.column, files.generation.next())
    }

    /// Moves all rows to a generation whose codes are wide enough.
    fn widen(&mut self, logical_type: &LogicalType) -> Result<()> {
        let rows = self.rows(logical_type)?;
        let keys = cast(rows.as_any_dictionary().keys(), &DataType::Int32)
            .map_err(|error| Error::internal(format!("cannot widen codes: {error}")))?;
        let dictionary = std::mem::replace(&mut self.dictionary, Dictionary::new());
        let encoding = encoding_for(dictionary.len());
        let mut wider = Self::new(self.next_files(), encoding, dictionary)?;
        wider.append(keys.as_primitive())?;
        self.abandon();
        *self = wider;
        Ok(())
    }

    /// Moves all rows to a plain generation.
    fn decode(&mut self, logical_type: &LogicalType) -> Result<PlainWriter> {
        let rows = self.rows(logical_type)?;
        let empty = vec![NodeEntry::default(); nodes(&logical_type.arrow_type()).len()];
        let mut plain = PlainWriter::open(logical_type, self.next_files(), &empty)?;
        for start in (0..rows.len()).step_by(SAMPLE_ROWS) {
            let piece = rows.slice(start, SAMPLE_ROWS.min(rows.len() - start));
            plain.append(&plain_strings(&piece)?)?;
        }
        self.abandon();
        Ok(plain)
    }

    /// A generation that never was committed leaves at once; a committed one when the commit is made.
    fn abandon(&self) {
        if self.committed.length == 0
            && let Err(error) = self.files.remove()
        {
            tracing::warn!(%error, "the files of an unused column generation stay behind");
        }
    }

    fn finish(&mut self) -> Result<GenerationEntry> {
        let mut node = self.codes.finish()?;
        self.dictionary.write(&self.files, &self.committed, &mut node)?;
        Ok(GenerationEntry { number: self.files.generation, encoding: self.encoding, nodes: vec![node] })
    }
}

fn in_column(name: &str, error: Error) -> Error {
    error.context(format_args!("column \"{name}\""))
}

/// A dictionary array as plain strings; anything else as it is.
fn plain_strings(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, _) => cast(array, &DataType::LargeUtf8)
            .map_err(|error| Error::internal(format!("cannot decode a dictionary: {error}"))),
        _ => Ok(array.clone()),
    }
}
