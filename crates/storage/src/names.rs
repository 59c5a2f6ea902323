//! The names of a database directory (format.md §1). Only what has one of them is ever removed.

use crate::backup::MARKER;
use crate::column::parse_file_name;
use crate::database::{SUPERBLOCK, catalog_name, log_name};
use crate::origin::ORIGIN;
use hypostyle_types::{TableId, Version};
use uuid::Uuid;

/// What is not complete has this behind its name.
const TEMPORARY: &str = ".new";

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
