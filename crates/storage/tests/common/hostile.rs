//! What a hostile author of a database can do and damage cannot: bytes with right checksums
//! (format.md §4, §5). It is written after the format's description, without the code under test.

use arrow_schema::DataType;
use hypostyle_format::{BLOCK_RECORD_BYTES, BlockRecord, Catalog, ColumnEntry, Encoding, TableEntry};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const BLOCK: u64 = 65_536;

/// The newest checkpoint of a database that nobody has open.
pub fn catalog(database: &Path) -> (PathBuf, Catalog) {
    let names = fs::read_dir(database).unwrap().map(|entry| entry.unwrap().path());
    let is_catalog = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with("catalog-");
    let path = names.filter(is_catalog).max().unwrap();
    let catalog = Catalog::decode_checkpoint(&fs::read(&path).unwrap()).unwrap();
    (path, catalog)
}

/// Makes all checksums of column files those of their bytes as they are now, and `nulls` also the
/// numbers of NULLs.
pub fn seal(database: &Path, nulls: bool) {
    let (path, mut catalog) = catalog(database);
    for table in &mut catalog.tables {
        let table = Arc::make_mut(table);
        let id = table.id;
        for column in &mut table.columns {
            let directory = database.join(format!("columns/{id}"));
            seal_column(&directory, column, nulls);
        }
    }
    fs::write(path, catalog.encode_checkpoint().unwrap()).unwrap();
}

/// Changes the definition of the first table, and seals the catalog again.
pub fn with_table(database: &Path, change: impl FnOnce(&mut TableEntry)) {
    let (path, mut catalog) = catalog(database);
    change(Arc::make_mut(&mut catalog.tables[0]));
    fs::write(path, catalog.encode_checkpoint().unwrap()).unwrap();
}

fn types_of(data_type: &DataType, types: &mut Vec<DataType>) {
    types.push(data_type.clone());
    match data_type {
        DataType::LargeList(child) | DataType::FixedSizeList(child, _) | DataType::Map(child, _) => {
            types_of(child.data_type(), types);
        }
        DataType::Struct(fields) => fields.iter().for_each(|field| types_of(field.data_type(), types)),
        _ => {}
    }
}

fn seal_column(directory: &Path, column: &mut ColumnEntry, count_nulls: bool) {
    let mut types = Vec::new();
    types_of(&column.logical_type.arrow_type(), &mut types);
    let (id, generation) = (column.id, &mut column.generation);
    let is_plain = generation.encoding == Encoding::Plain;
    for (number, node) in generation.nodes.iter_mut().enumerate() {
        let place = |role: &str| directory.join(format!("{id}-{}-{number}.{role}", generation.number));
        let read = |role: &str| fs::read(place(role)).unwrap_or_default();
        if node.length == 0 {
            continue;
        }
        let is_bitmap = is_plain && types[number] == DataType::Boolean;
        let (validity, values, offsets, heap) =
            (read("validity"), read("values"), read("offsets"), read("heap"));
        let mut records = read("blocks");
        let mut all_nulls = 0;
        for block in 0..node.length.div_ceil(BLOCK) {
            let (from, to) = (block * BLOCK, node.length.min((block + 1) * BLOCK));
            let place = block as usize * BLOCK_RECORD_BYTES;
            let mut record = match &node.tail {
                Some(tail) if to - from < BLOCK => *tail,
                _ => records
                    .get(place..place + BLOCK_RECORD_BYTES)
                    .map_or_else(BlockRecord::default, |bytes| {
                        BlockRecord::decode(bytes).unwrap_or_default()
                    }),
            };
            let valid = if node.validity { bits(&validity, from, to) } else { Vec::new() };
            if count_nulls && node.validity {
                let set: u32 = valid.iter().map(|byte| byte.count_ones()).sum();
                record.nulls = (to - from) as u32 - set;
            }
            all_nulls += u64::from(record.nulls);
            let width = |bytes: &[u8], elements: u64| bytes.len() as u64 / elements;
            let (own, own_heap) = if is_bitmap {
                (bits(&values, from, to), Vec::new())
            } else if !offsets.is_empty() {
                let width = width(&offsets, node.length + 1);
                let own = range(&offsets, from * width, (to + 1) * width);
                let ends = own.first_chunk::<8>().zip(own.last_chunk::<8>());
                let own_heap = match (&types[number], ends) {
                    (DataType::LargeUtf8 | DataType::LargeBinary, Some((first, last))) => {
                        range(&heap, u64::from_le_bytes(*first), u64::from_le_bytes(*last))
                    }
                    _ => Vec::new(),
                };
                (own, own_heap)
            } else {
                let width = width(&values, node.length);
                (range(&values, from * width, to * width), Vec::new())
            };
            let digests = [&valid, &own, &own_heap].map(|bytes| xxh3_64(bytes).to_le_bytes());
            record.checksum = xxh3_64(digests.as_flattened());
            match &mut node.tail {
                Some(tail) if to - from < BLOCK => *tail = record,
                _ => {
                    records.resize(records.len().max(place + BLOCK_RECORD_BYTES), 0);
                    records[place..place + BLOCK_RECORD_BYTES].copy_from_slice(&record.encode());
                }
            }
        }
        node.nulls = all_nulls;
        if !records.is_empty() {
            fs::write(place("blocks"), records).unwrap();
        }
        if !is_plain {
            let dictionary = [read("dictionary_offsets"), read("dictionary_heap")].concat();
            node.dictionary_checksum = xxh3_64(&dictionary);
        }
    }
}

/// Bits from one byte to another, without those past the end.
fn bits(bytes: &[u8], from: u64, to: u64) -> Vec<u8> {
    let mut bits = range(bytes, from / 8, to.div_ceil(8));
    if let (Some(last), rest @ 1..) = (bits.last_mut(), to % 8) {
        *last &= (1 << rest) - 1;
    }
    bits
}

/// What there is of a range.
fn range(bytes: &[u8], from: u64, to: u64) -> Vec<u8> {
    let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    bytes.get(place(from)..place(to)).unwrap_or_default().to_vec()
}
