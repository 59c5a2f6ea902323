//! What the catalog says of a column's nodes, checked before anything relies on it (format.md §3, §5).
//!
//! The catalog's decoder knows no Arrow layout. After this check the nodes are as many as the type
//! has, parents and children agree in length, what cannot be NULL has no NULLs, every block has its
//! record, and no length overflows when it is turned into bytes or bits.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]

use super::layout::{Buffers, Node, arrow_type_at_rest, nodes, sealed_blocks};
use crate::names::{Role, file_name};
use arrow_schema::DataType;
use hypostyle_format::{BLOCK_RECORD_BYTES, ColumnEntry, Encoding, NodeEntry, TableEntry};
use hypostyle_types::{BLOCK_ROWS, Error, LogicalType, Result};
use std::collections::HashMap;

/// Elements of a node: more than the largest file holds, and small enough to multiply by the width
/// of every number.
const ELEMENTS_MAX: u64 = 1 << 44;

/// # Errors
/// `Corrupt` naming the column whose nodes are not those of its type.
pub(crate) fn check_shape(table: &TableEntry) -> Result<()> {
    for column in &table.columns {
        if !fits(column) {
            return Err(Error::corrupt(format!(
                "column \"{}\" of table \"{}\" has files that its type {} cannot have",
                column.name, table.name, column.logical_type
            )));
        }
    }
    Ok(())
}

fn fits(column: &ColumnEntry) -> bool {
    if !has_layout(&column.logical_type) {
        return false;
    }
    let layout = nodes(&arrow_type_at_rest(&column.logical_type, column.generation.encoding));
    let entries = &column.generation.nodes;
    layout.len() == entries.len()
        && layout.iter().zip(entries).all(|(shape, entry)| node_fits(shape, entry, &layout, entries))
}

fn node_fits(shape: &Node, entry: &NodeEntry, layout: &[Node], entries: &[NodeEntry]) -> bool {
    let tail_rows = entry.length % BLOCK_ROWS;
    let tail_fits = match &entry.tail {
        Some(tail) => tail_rows > 0 && u64::from(tail.elements) == tail_rows,
        None => tail_rows == 0,
    };
    let children_fit = shape.children.iter().all(|child| {
        let found = entries[*child].length;
        match &shape.data_type {
            DataType::Struct(_) => found == entry.length,
            DataType::FixedSizeList(_, length) => entry.length.checked_mul(*length as u64) == Some(found),
            // Neither an entry nor its key is NULL.
            DataType::Map(..) => {
                let key = layout[*child].children.first();
                entries[*child].nulls == 0 && key.is_some_and(|key| entries[*key].nulls == 0)
            }
            _ => true,
        }
    });
    let width_fits = match &shape.data_type {
        DataType::FixedSizeBinary(bytes) => {
            entry.length.checked_mul(*bytes as u64).is_some_and(|bytes| i64::try_from(bytes).is_ok())
        }
        _ => true,
    };
    // Heaps are as long as an i64 offset can say.
    let offset_fits = |bytes: u64| i64::try_from(bytes).is_ok();
    entry.length.max(entry.dictionary_length) <= ELEMENTS_MAX
        && offset_fits(entry.heap_bytes)
        && offset_fits(entry.dictionary_heap_bytes)
        && entry.nulls <= entry.length
        && tail_fits
        && children_fit
        && width_fits
}

/// No length within the type is negative.
fn has_layout(logical_type: &LogicalType) -> bool {
    match logical_type {
        LogicalType::FixedBinary { bytes } => *bytes >= 0,
        LogicalType::List { element } => has_layout(element),
        LogicalType::Array { element, length } => *length >= 0 && has_layout(element),
        LogicalType::Struct { fields } => fields.iter().all(|field| has_layout(&field.logical_type)),
        LogicalType::Map { key, value } => has_layout(key) && has_layout(value),
        _ => true,
    }
}

/// The files that a table's columns are made of and their committed lengths in bytes, by name.
pub(crate) fn committed_files(table: &TableEntry) -> HashMap<String, u64> {
    table.columns.iter().flat_map(committed_files_of_column).collect()
}

/// The files of one column, in an order that does not depend on its number.
pub(crate) fn committed_files_of_column(column: &ColumnEntry) -> Vec<(String, u64)> {
    let generation = &column.generation;
    let layout = nodes(&arrow_type_at_rest(&column.logical_type, generation.encoding));
    let mut files = Vec::new();
    for (number, (node, entry)) in layout.iter().zip(&generation.nodes).enumerate() {
        for (role, bytes) in committed_roles(node, entry, generation.encoding) {
            files.push((file_name(column.id, generation.number, number, role), bytes));
        }
    }
    files
}

/// A node without elements is as good as without files: its next writer makes them anew.
pub(super) fn committed_roles(node: &Node, entry: &NodeEntry, encoding: Encoding) -> Vec<(Role, u64)> {
    let length = entry.length;
    if length == 0 {
        return Vec::new();
    }
    let mut roles = match &node.buffers {
        Buffers::None => vec![],
        Buffers::Fixed { width, .. } => vec![(Role::Values, length * *width as u64)],
        Buffers::Bitmap => vec![(Role::Values, length.div_ceil(8))],
        Buffers::Variable => vec![(Role::Offsets, (length + 1) * 8), (Role::Heap, entry.heap_bytes)],
        Buffers::Offsets { width } => vec![(Role::Offsets, (length + 1) * *width as u64)],
    };
    if entry.validity {
        roles.push((Role::Validity, length.div_ceil(8)));
    }
    if encoding.is_dictionary() {
        roles.push((Role::DictionaryOffsets, (entry.dictionary_length + 1) * 8));
        roles.push((Role::DictionaryHeap, entry.dictionary_heap_bytes));
    }
    if length >= BLOCK_ROWS {
        roles.push((Role::Blocks, sealed_blocks(length) * BLOCK_RECORD_BYTES as u64));
    }
    roles
}
