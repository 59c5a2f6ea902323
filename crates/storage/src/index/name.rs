//! Which index: over which columns, and how its file is called (format.md §10).

use hypostyle_format::{Catalog, DeclaredIndex, IndexEntry, TableEntry};
use hypostyle_types::{ColumnId, Generation, TableId};

/// The directory that has one for each table with indexes.
pub(crate) const INDEXES: &str = "indexes";

/// An index of so many columns is no use, and its name would be too long for a file.
const COLUMNS_MAX: usize = 8;

/// What stands behind the name of a file that is being written.
const TEMPORARY: &str = ".new";

/// An index that a table may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IndexSpec {
    pub table: TableId,
    pub columns: Vec<ColumnId>,
    pub kind: IndexKind,
}

/// What an index finds (see the crate `hypostyle-index`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// The row of a unique key.
    Key,
    /// The row of another table that each row refers to.
    Join(ReferredKey),
    /// The rows that refer to each row of another table.
    Reverse(ReferredKey),
    /// The runs of rows that may have a value.
    Imprint,
    /// Rows in the order of the column.
    Order,
}

/// A key of another table, which the columns of an index refer to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReferredKey {
    pub table: TableId,
    pub columns: Vec<ColumnId>,
}

impl IndexSpec {
    /// Returns the index of a table's key.
    pub fn key(table: TableId, columns: &[ColumnId]) -> Self {
        Self { table, columns: columns.to_vec(), kind: IndexKind::Key }
    }

    /// Returns what a table's definition asks for.
    pub fn declared(table: TableId, index: &IndexEntry) -> Self {
        let kind = match index.kind {
            DeclaredIndex::Key => IndexKind::Key,
            DeclaredIndex::Order => IndexKind::Order,
        };
        Self { table, columns: index.columns.clone(), kind }
    }

    /// Tells whether the definition of its table asks for it.
    pub fn is_declared_by(&self, table: &TableEntry) -> bool {
        table.indexes.iter().any(|index| Self::declared(table.id, index) == *self)
    }

    /// Tells whether it is the index of a PRIMARY KEY or UNIQUE constraint of its table.
    pub(super) fn is_of_constraint(&self, table: &TableEntry) -> bool {
        let mut keys = table.constraints.iter().filter_map(|constraint| constraint.rule.key());
        self.kind == IndexKind::Key && keys.any(|key| key == self.columns)
    }

    /// Returns the key index that a join or reverse index needs.
    pub(super) fn referred(&self) -> Option<Self> {
        match &self.kind {
            IndexKind::Join(key) | IndexKind::Reverse(key) => Some(Self::key(key.table, &key.columns)),
            IndexKind::Key | IndexKind::Imprint | IndexKind::Order => None,
        }
    }

    /// Tells whether an index can have these columns: as many as its kind has, each once.
    fn is_sound(&self) -> bool {
        let has_sound = |columns: &[ColumnId]| {
            let repeats = columns.iter().enumerate().any(|(place, column)| columns[..place].contains(column));
            (1..=COLUMNS_MAX).contains(&columns.len()) && !repeats
        };
        has_sound(&self.columns)
            && match &self.kind {
                IndexKind::Key => true,
                IndexKind::Join(key) | IndexKind::Reverse(key) => {
                    has_sound(&key.columns) && key.columns.len() == self.columns.len()
                }
                IndexKind::Imprint | IndexKind::Order => self.columns.len() == 1,
            }
    }
}

impl IndexKind {
    /// Returns the word that stands for the kind in a file's name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Join(_) => "join",
            Self::Reverse(_) => "reverse",
            Self::Imprint => "imprint",
            Self::Order => "order",
        }
    }
}

/// An index over certain generations of its columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub spec: IndexSpec,
    pub generations: Vec<Generation>,
    /// Those of the key that is referred to.
    pub referred: Vec<Generation>,
}

impl Identity {
    /// Returns the index over the generations that a catalog has; `None` where it lacks a column,
    /// or no index can be as specified.
    pub fn of(spec: &IndexSpec, catalog: &Catalog) -> Option<Self> {
        if !spec.is_sound() {
            return None;
        }
        Some(Self {
            spec: spec.clone(),
            generations: generations(catalog, spec.table, &spec.columns)?,
            referred: match spec.referred() {
                Some(key) => generations(catalog, key.table, &key.columns)?,
                None => Vec::new(),
            },
        })
    }

    /// Tells whether the columns have these generations in a catalog.
    pub fn is_current(&self, catalog: &Catalog) -> bool {
        let current = |table, columns: &[_]| generations(catalog, table, columns);
        let referred = match self.spec.referred() {
            Some(key) => current(key.table, &key.columns),
            None => Some(Vec::new()),
        };
        current(self.spec.table, &self.spec.columns).as_ref() == Some(&self.generations)
            && referred.as_ref() == Some(&self.referred)
    }

    /// Tells whether a generation of a column is among its own.
    pub fn has(&self, table: TableId, column: ColumnId, generation: Generation) -> bool {
        let pairs = |columns: &[ColumnId], generations: &[Generation]| {
            columns.iter().zip(generations).any(|pair| pair == (&column, &generation))
        };
        let of_referred =
            self.spec.referred().is_some_and(|key| key.table == table && pairs(&key.columns, &self.referred));
        of_referred || (self.spec.table == table && pairs(&self.spec.columns, &self.generations))
    }

    /// Returns the name of its file in the directory of its table.
    pub fn file_name(&self) -> String {
        let own = format!(
            "{}-{}-{}",
            self.spec.kind.name(),
            list(self.spec.columns.iter()),
            list(self.generations.iter())
        );
        match self.spec.referred() {
            Some(key) => {
                format!("{own}-{}-{}-{}", key.table, list(key.columns.iter()), list(self.referred.iter()))
            }
            None => own,
        }
    }

    /// Returns the path of its file.
    pub fn path(&self) -> String {
        format!("{}/{}", index_directory(self.spec.table), self.file_name())
    }

    /// Returns the index whose file has a name that [`Self::file_name`] gives.
    pub fn parse(table: TableId, name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let kind = parts.next()?;
        let columns = numbers(parts.next()?)?.into_iter().map(ColumnId).collect();
        let generations = numbers(parts.next()?)?.into_iter().map(Generation).collect();
        let mut key = || {
            let table = TableId(parts.next()?.parse().ok()?);
            let columns = numbers(parts.next()?)?.into_iter().map(ColumnId).collect();
            let generations = numbers(parts.next()?)?.into_iter().map(Generation).collect();
            Some((ReferredKey { table, columns }, generations))
        };
        let (kind, referred) = match kind {
            "key" => (IndexKind::Key, Vec::new()),
            "imprint" => (IndexKind::Imprint, Vec::new()),
            "order" => (IndexKind::Order, Vec::new()),
            "join" => key().map(|(key, generations)| (IndexKind::Join(key), generations))?,
            "reverse" => key().map(|(key, generations)| (IndexKind::Reverse(key), generations))?,
            _ => return None,
        };
        let found = Self { spec: IndexSpec { table, columns, kind }, generations, referred };
        (found.spec.is_sound() && found.file_name() == name).then_some(found)
    }
}

fn generations(catalog: &Catalog, table: TableId, columns: &[ColumnId]) -> Option<Vec<Generation>> {
    let table = catalog.table_by_id(table)?;
    columns.iter().map(|column| Some(table.column_by_id(*column)?.generation.number)).collect()
}

fn list(numbers: impl Iterator<Item = impl ToString>) -> String {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join("_")
}

fn numbers(list: &str) -> Option<Vec<u32>> {
    list.split('_').map(|number| number.parse().ok()).collect()
}

/// The directory of a table's indexes.
pub(crate) fn index_directory(table: TableId) -> String {
    format!("{INDEXES}/{table}")
}

/// Returns the name that a file has while it is written.
pub(super) fn temporary(path: &str) -> String {
    format!("{path}{TEMPORARY}")
}

/// Tells whether a name is that of a file in the directory of a table's indexes, finished or not.
pub(crate) fn is_index_file(name: &str) -> bool {
    Identity::parse(TableId(0), name.strip_suffix(TEMPORARY).unwrap_or(name)).is_some()
}

/// Tells whether a name is that of a file that is being written, or was never finished.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.ends_with(TEMPORARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_no_others_are_known() {
        let key = ReferredKey { table: TableId(7), columns: vec![ColumnId(0), ColumnId(5)] };
        let columns = vec![ColumnId(12), ColumnId(3)];
        for (kind, name) in [
            (IndexKind::Key, "key-12_3-0_9"),
            (IndexKind::Join(key.clone()), "join-12_3-0_9-7-0_5-1_2"),
            (IndexKind::Reverse(key), "reverse-12_3-0_9-7-0_5-1_2"),
        ] {
            let spec = IndexSpec { table: TableId(4), columns: columns.clone(), kind };
            let referred = spec.referred().map_or(Vec::new(), |_| vec![Generation(1), Generation(2)]);
            let identity = Identity { spec, generations: vec![Generation(0), Generation(9)], referred };
            assert_eq!(identity.file_name(), name);
            assert_eq!(Identity::parse(TableId(4), name).as_ref(), Some(&identity));
            assert!(is_index_file(name) && is_index_file(&format!("{name}.new")));
            assert!(identity.has(TableId(4), ColumnId(3), Generation(9)));
            assert!(!identity.has(TableId(4), ColumnId(3), Generation(0)));
            assert_eq!(identity.has(TableId(7), ColumnId(5), Generation(2)), name != "key-12_3-0_9");
        }
        assert!(is_index_file("order-1-0") && is_index_file("imprint-1-0"));
        for name in [
            "key",
            "key-1",
            "key-01-0",
            "key-+1-0",
            "key-1-0-",
            "key--",
            "key-1_1-0_0",
            "order-1_2-0_0",
            "join-1-0",
            "join-1-0-7-1_2-0_0",
            "keys-1-0",
            "key-1-0.old",
            "key-1_2_3_4_5_6_7_8_9-0_0_0_0_0_0_0_0_0",
            "",
        ] {
            assert!(!is_index_file(name), "{name}");
        }
    }
}
