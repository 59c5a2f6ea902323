//! The names of a database directory (format.md §1). Only what has one of them is ever removed.

use hypostyle_types::{ColumnId, Error, ErrorKind, Generation, TableId, Version};
use uuid::Uuid;

/// The superblock; with it, a database exists.
pub(crate) const SUPERBLOCK: &str = "HYPOSTYLE";

/// What the processes that have the database open tell each other.
pub(crate) const SHARED: &str = "shared";

/// Tells whether this machine has written the directory.
pub(crate) const ORIGIN: &str = "origin";

/// Tells that nobody but BACKUP has written to the directory: the checksum of the catalog and the
/// log as they were left.
pub(crate) const MARKER: &str = "backup";

/// What is not complete has this behind its name.
const TEMPORARY: &str = ".new";

/// The catalog of a checkpoint.
pub(crate) fn catalog_name(version: Version) -> String {
    format!("catalog-{:020}", version.0)
}

/// The log of a checkpoint.
pub(crate) fn log_name(version: Version) -> String {
    format!("log-{:020}", version.0)
}

/// Where the deleted rows of a checkpoint are.
pub(crate) fn deleted_file_name(table: TableId, version: Version) -> String {
    format!("columns/{table}/deleted-{:020}", version.0)
}

/// The directory of a table's columns.
pub(crate) fn table_directory(table: TableId) -> String {
    format!("columns/{table}")
}

/// What a file of a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Validity,
    Values,
    Offsets,
    Heap,
    DictionaryOffsets,
    DictionaryHeap,
    Blocks,
}

impl Role {
    const ALL: [Self; 7] = [
        Self::Validity,
        Self::Values,
        Self::Offsets,
        Self::Heap,
        Self::DictionaryOffsets,
        Self::DictionaryHeap,
        Self::Blocks,
    ];

    fn suffix(self) -> &'static str {
        match self {
            Self::Validity => "validity",
            Self::Values => "values",
            Self::Offsets => "offsets",
            Self::Heap => "heap",
            Self::DictionaryOffsets => "dictionary_offsets",
            Self::DictionaryHeap => "dictionary_heap",
            Self::Blocks => "blocks",
        }
    }
}

/// The name of a file within the table's directory.
pub(crate) fn file_name(column: ColumnId, generation: Generation, node: usize, role: Role) -> String {
    format!("{column}-{generation}-{node}.{}", role.suffix())
}

/// Whose file has a name that [`file_name`] gives.
pub(crate) fn parse_file_name(name: &str) -> Option<(ColumnId, Generation)> {
    let (numbers, suffix) = name.split_once('.')?;
    let role = Role::ALL.into_iter().find(|role| role.suffix() == suffix)?;
    let mut numbers = numbers.split('-');
    let (column, generation, node) = (numbers.next()?, numbers.next()?, numbers.next()?);
    let (column, generation) = (ColumnId(column.parse().ok()?), Generation(generation.parse().ok()?));
    (file_name(column, generation, node.parse().ok()?, role) == name).then_some((column, generation))
}

/// The version of a checkpoint by the name of its catalog.
pub(crate) fn version_of_catalog(name: &str) -> Option<Version> {
    version_behind("catalog-", name).filter(|version| catalog_name(*version) == name)
}

/// The version of a checkpoint by the name of its log.
pub(crate) fn version_of_log(name: &str) -> Option<Version> {
    version_behind("log-", name).filter(|version| log_name(*version) == name)
}

/// Whether something is an unfinished file of the database's own directory.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(TEMPORARY).is_some_and(|name| {
        [SUPERBLOCK, MARKER, ORIGIN].contains(&name) || version_of_catalog(name).is_some()
    })
}

/// The table by the name of its directory in `columns/`.
pub(crate) fn table_of_directory(name: &str) -> Option<TableId> {
    name.parse().ok().map(TableId).filter(|id| id.to_string() == name)
}

/// Whether a name is that of a file in the directory of a table, finished or not.
pub(crate) fn is_table_file(name: &str) -> bool {
    let is_deleted_file = |name: &str| {
        version_behind("deleted-", name).is_some_and(|version| format!("deleted-{:020}", version.0) == name)
    };
    parse_file_name(name).is_some() || is_deleted_file(name.strip_suffix(TEMPORARY).unwrap_or(name))
}

/// Whether a name is that of a file in `readers/`, finished or not.
pub(crate) fn is_reader(name: &str) -> bool {
    let parts = name.strip_suffix(TEMPORARY).unwrap_or(name).split_once('-');
    parts.is_some_and(|(process, id)| {
        let is_id = Uuid::try_parse(id).is_ok_and(|parsed| parsed.simple().to_string() == id);
        process.parse::<u32>().is_ok_and(|parsed| parsed.to_string() == process) && is_id
    })
}

fn version_behind(prefix: &str, name: &str) -> Option<Version> {
    name.strip_prefix(prefix)?.parse().ok().map(Version)
}

/// The error for a file that is missing although nobody may have removed it.
pub(crate) fn lost(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::corrupt(format!("{}; restore it from a backup", error.message())),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_format_are_known_and_no_others() {
        assert_eq!(version_of_catalog("catalog-00000000000000000012"), Some(Version(12)));
        assert_eq!(version_of_log("log-00000000000000000012"), Some(Version(12)));
        for name in ["catalog-12", "catalog-+0000000000000000012", "catalog-", "log-0", "log-x", "log"] {
            assert_eq!((version_of_catalog(name), version_of_log(name)), (None, None), "{name}");
        }
        for name in ["HYPOSTYLE.new", "backup.new", "catalog-00000000000000000012.new"] {
            assert!(is_unfinished(name), "{name}");
        }
        for name in ["shared.new", "mine.new", "catalog-12.new", "HYPOSTYLE", ".new"] {
            assert!(!is_unfinished(name), "{name}");
        }
        assert_eq!(table_of_directory("17"), Some(TableId(17)));
        for name in ["017", "+17", "17 ", "x", ""] {
            assert_eq!(table_of_directory(name), None, "{name}");
        }
        let deleted = "deleted-00000000000000000012";
        for name in ["0-0-0.values", "3-1-2.dictionary_heap", deleted, &format!("{deleted}.new")] {
            assert!(is_table_file(name), "{name}");
        }
        for name in ["0-0-0.txt", "0-0.values", "00-0-0.values", "0-0-0-0.values", "deleted-12", "notes"] {
            assert!(!is_table_file(name), "{name}");
        }
        let id = "0123456789abcdef0123456789abcdef";
        for name in [format!("1-{id}"), format!("4194304-{id}.new")] {
            assert!(is_reader(&name), "{name}");
        }
        for name in [id, "1-2", "x", &format!("-1-{id}"), &format!("01-{id}"), &format!("1-{}", &id[1..])] {
            assert!(!is_reader(name), "{name}");
        }
    }
}
