//! The catalog and its changes (format.md §5, §6).
//!
//! [`Catalog::apply`] is the only way a catalog changes: replaying a log and committing run the
//! same code, and both refuse a change that does not fit.

use crate::SCHEMA_MAIN;
use crate::block::{BlockRecord, hexadecimal};
use crate::sequence::{SequenceEntry, SequenceOwner, SequenceState};
use hypostyle_types::{
    ColumnId, Error, ErrorKind, Generation, LogicalType, NAME_BYTES_MAX, Result, TABLE_COLUMNS_MAX, TableId,
    Version,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    pub version: Version,
    pub next_table_id: TableId,
    pub schemas: Vec<SchemaEntry>,
    /// The tables, shared with earlier catalogs as long as they are the same.
    #[serde(with = "in_arcs")]
    pub tables: Vec<Arc<TableEntry>>,
    pub views: Vec<ViewEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sequences: Vec<SequenceEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub macros: Vec<MacroEntry>,
}

mod in_arcs {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::sync::Arc;

    pub fn serialize<T: Serialize, S: Serializer>(
        items: &[Arc<T>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(items.iter().map(Arc::as_ref))
    }

    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Vec<Arc<T>>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<T>::deserialize(deserializer)?.into_iter().map(Arc::new).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SchemaEntry {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl SchemaEntry {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), comment: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    pub id: TableId,
    pub schema: String,
    pub name: String,
    /// The rows in the column files, which is the length of every column's root node.
    pub rows: u64,
    pub next_column_id: ColumnId,
    pub columns: Vec<ColumnEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<ConstraintEntry>,
    /// The indexes that somebody has asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The query of a materialized view, whose rows the table has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<StoredQuery>,
    /// The deleted rows as of the checkpoint. Only a checkpoint has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedEntry>,
}

/// The query of a materialized view.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredQuery {
    /// The query's text, as it was written.
    pub sql: String,
    /// The schema in which its names without a schema are looked up.
    pub schema: String,
    /// Says whether the table has the rows that the query gave.
    pub populated: bool,
}

/// An index that was declared. What it finds is in files that may be missing (format.md §10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexEntry {
    /// The name, which no other index or key of its schema has.
    pub name: String,
    pub kind: DeclaredIndex,
    pub columns: Vec<ColumnId>,
}

/// What a declared index finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeclaredIndex {
    /// The rows with some values of the columns.
    Key,
    /// The rows in the order of the column.
    Order,
}

/// A rule that the rows of a table obey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConstraintEntry {
    /// The name, which is unique in its table.
    pub name: String,
    #[serde(flatten)]
    pub rule: ConstraintRule,
    #[serde(default, skip_serializing_if = "is_default")]
    pub deferral: Deferral,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl ConstraintEntry {
    /// Returns a constraint that is checked at the end of each statement.
    pub fn new(name: impl Into<String>, rule: ConstraintRule) -> Self {
        Self { name: name.into(), rule, deferral: Deferral::default(), comment: None }
    }
}

/// Says whether a constraint may be checked when its transaction commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    #[default]
    Never,
    /// It may, if the transaction says so.
    Possible,
    /// It is, unless the transaction says otherwise.
    AtFirst,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum ConstraintRule {
    PrimaryKey {
        columns: Vec<ColumnId>,
    },
    /// No two rows have the same key. NULLs are distinct.
    Unique {
        columns: Vec<ColumnId>,
    },
    /// The SQL text of a condition that is not false for any row.
    Check {
        sql: String,
    },
    /// The columns' values are those of a row of another table, or one of them is NULL.
    ForeignKey {
        columns: Vec<ColumnId>,
        table: TableId,
        referred: Vec<ColumnId>,
        #[serde(default, skip_serializing_if = "is_default")]
        on_delete: ReferentialAction,
        #[serde(default, skip_serializing_if = "is_default")]
        on_update: ReferentialAction,
    },
}

/// What happens to rows whose foreign key refers to a row that is deleted, or gets another key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReferentialAction {
    /// The rows stay, so that the statement fails.
    #[default]
    NoAction,
    /// The rows stay and the statement fails, as constraints are checked after each statement.
    Restrict,
    Cascade,
    SetNull,
    SetDefault,
}

impl Deferral {
    /// What the definition of a foreign key ends in that is checked so.
    pub fn sql(self) -> &'static str {
        match self {
            Self::Never => "",
            Self::Possible => " DEFERRABLE",
            Self::AtFirst => " DEFERRABLE INITIALLY DEFERRED",
        }
    }
}

impl ReferentialAction {
    /// Returns the action as SQL writes it.
    pub fn sql(self) -> &'static str {
        match self {
            Self::NoAction => "NO ACTION",
            Self::Restrict => "RESTRICT",
            Self::Cascade => "CASCADE",
            Self::SetNull => "SET NULL",
            Self::SetDefault => "SET DEFAULT",
        }
    }
}

impl ConstraintRule {
    /// Returns the table's own columns that the rule names.
    pub fn columns(&self) -> &[ColumnId] {
        match self {
            Self::PrimaryKey { columns } | Self::Unique { columns } | Self::ForeignKey { columns, .. } => {
                columns
            }
            Self::Check { .. } => &[],
        }
    }

    /// Returns the columns of a key.
    pub fn key(&self) -> Option<&[ColumnId]> {
        match self {
            Self::PrimaryKey { columns } | Self::Unique { columns } => Some(columns),
            _ => None,
        }
    }
}

/// The file with the positions of a table's deleted rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeletedEntry {
    /// The version in the file's name.
    pub version: Version,
    pub rows: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    pub id: ColumnId,
    pub name: String,
    #[serde(flatten)]
    pub logical_type: LogicalType,
    pub nullable: bool,
    /// The SQL text of the DEFAULT expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Says that values come from the sequence that the column owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// The SQL text of the expression over other columns that gives every value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generated: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    pub generation: GenerationEntry,
}

/// Says whether statements may give values of an identity column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Identity {
    Always,
    ByDefault,
}

/// One set of files of a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationEntry {
    pub number: Generation,
    pub encoding: Encoding,
    /// The nodes in preorder; as many as the type has.
    pub nodes: Vec<NodeEntry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    Plain,
    #[serde(rename = "dictionary_i8")]
    DictionaryI8,
    #[serde(rename = "dictionary_i16")]
    DictionaryI16,
    #[serde(rename = "dictionary_i32")]
    DictionaryI32,
}

impl Encoding {
    pub fn is_dictionary(self) -> bool {
        self != Self::Plain
    }
}

/// The committed lengths of a node's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeEntry {
    pub length: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub validity: bool,
    #[serde(skip_serializing_if = "is_default")]
    pub nulls: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub heap_bytes: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub dictionary_length: u64,
    #[serde(skip_serializing_if = "is_default")]
    pub dictionary_heap_bytes: u64,
    #[serde(skip_serializing_if = "is_default", with = "hexadecimal_u64")]
    pub dictionary_checksum: u64,
    #[serde(skip_serializing_if = "Option::is_none", with = "hexadecimal")]
    pub tail: Option<BlockRecord>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads and writes checksums as text: not every JSON reader keeps numbers beyond 2^53 exact.
mod hexadecimal_u64 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:016x}"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewEntry {
    pub schema: String,
    pub name: String,
    /// The query's text, as it was written.
    pub sql: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// A function that stands for an expression.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MacroEntry {
    /// The name, which no other macro of the database has.
    pub name: String,
    /// The text of the statement that defines it.
    pub sql: String,
}

/// The changes of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// A version that was known to be durable when this commit was written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub durable: Version,
    pub changes: Vec<Change>,
    /// The attachments of the changes that have `bytes`, in order.
    #[serde(skip)]
    pub attachments: Vec<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    CreateSchema(SchemaEntry),
    DropSchema(SchemaEntry),
    CreateTable {
        table: TableEntry,
    },
    DropTable {
        id: TableId,
    },
    /// Adds rows to the column files: first the first `absorbed` rows of the log, then new ones.
    Append {
        id: TableId,
        rows: u64,
        #[serde(default, skip_serializing_if = "is_default")]
        absorbed: u64,
        generations: Vec<ColumnGeneration>,
    },
    /// Adds rows to the log only. They are attached as a record batch message of the Arrow IPC
    /// format.
    Insert {
        id: TableId,
        rows: u64,
        bytes: u64,
    },
    /// Deletes the rows at some positions, which are attached as a 64-bit Roaring bitmap.
    Delete {
        id: TableId,
        rows: u64,
        bytes: u64,
    },
    /// Gives a table a new definition or new files.
    ReplaceTable {
        table: TableEntry,
        /// The rows that only the log had; the files now have all of them.
        #[serde(default, skip_serializing_if = "is_default")]
        absorbed: u64,
        /// Says that the files have only the rows that are not deleted.
        #[serde(default, skip_serializing_if = "is_default")]
        compacted: bool,
    },
    CreateView {
        view: ViewEntry,
    },
    DropView {
        schema: String,
        name: String,
    },
    CreateSequence {
        sequence: SequenceEntry,
    },
    /// Gives a sequence a new definition; its state stays.
    AlterSequence {
        sequence: SequenceEntry,
    },
    AdvanceSequence {
        schema: String,
        name: String,
        state: SequenceState,
    },
    DropSequence {
        schema: String,
        name: String,
    },
    CreateMacro {
        definition: MacroEntry,
    },
    DropMacro {
        name: String,
    },
    /// Sets the comment of a schema, or of a view or sequence in it. Tables have their comments in
    /// their definition.
    Comment {
        schema: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        comment: Option<String>,
    },
}

impl Change {
    /// Returns the bytes of the change's attachment.
    pub fn attachment_bytes(&self) -> Option<u64> {
        match self {
            Self::Insert { bytes, .. } | Self::Delete { bytes, .. } => Some(*bytes),
            _ => None,
        }
    }
}

/// The state of a column's files after an append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnGeneration {
    pub column: ColumnId,
    #[serde(flatten)]
    pub generation: GenerationEntry,
}

impl Default for Catalog {
    /// Returns the catalog of a new database.
    fn default() -> Self {
        Self {
            version: Version(0),
            next_table_id: TableId(1),
            schemas: vec![SchemaEntry::new(SCHEMA_MAIN)],
            tables: Vec::new(),
            views: Vec::new(),
            sequences: Vec::new(),
            macros: Vec::new(),
        }
    }
}

impl Catalog {
    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.iter().any(|schema| schema.name == name)
    }

    pub fn table(&self, schema: &str, name: &str) -> Option<&Arc<TableEntry>> {
        self.tables.iter().find(|table| table.schema == schema && table.name == name)
    }

    pub fn view(&self, schema: &str, name: &str) -> Option<&ViewEntry> {
        self.views.iter().find(|view| view.schema == schema && view.name == name)
    }

    pub fn sequence(&self, schema: &str, name: &str) -> Option<&SequenceEntry> {
        self.sequences.iter().find(|sequence| sequence.schema == schema && sequence.name == name)
    }

    pub fn macro_named(&self, name: &str) -> Option<&MacroEntry> {
        self.macros.iter().find(|entry| entry.name == name)
    }

    /// Returns the sequence that a column owns.
    pub fn sequence_of(&self, table: TableId, column: ColumnId) -> Option<&SequenceEntry> {
        let owner = Some(SequenceOwner { table, column });
        self.sequences.iter().find(|sequence| sequence.owner == owner)
    }

    /// Returns the sequences that are dropped with a table.
    pub fn owned_sequences(&self, table: TableId) -> impl Iterator<Item = &SequenceEntry> {
        self.sequences.iter().filter(move |sequence| sequence.owner.is_some_and(|owner| owner.table == table))
    }

    /// Applies a commit: its changes in order, and the next version.
    ///
    /// # Errors
    /// `Corrupt`, `AlreadyExists` or `UnknownName` when a change does not fit. The catalog is then
    /// partly changed and must be discarded.
    pub fn apply(&mut self, commit: &Commit) -> Result<()> {
        commit.changes.iter().try_for_each(|change| self.apply_change(change))?;
        self.version = self.version.next();
        Ok(())
    }

    /// Applies one change, and leaves the version as it is.
    pub fn apply_change(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::CreateSchema(schema) => {
                check_name(&schema.name)?;
                if self.has_schema(&schema.name) {
                    return Err(already_exists("schema", &schema.name));
                }
                self.schemas.push(schema.clone());
            }
            Change::DropSchema(schema) => {
                let uses = |name: &String| *name == schema.name;
                if self.tables.iter().any(|table| uses(&table.schema))
                    || self.views.iter().any(|view| uses(&view.schema))
                    || self.sequences.iter().any(|sequence| uses(&sequence.schema))
                {
                    return Err(Error::new(
                        ErrorKind::Constraint,
                        format!(
                            "schema \"{}\" is not empty; drop its tables, views and sequences first, or use CASCADE",
                            schema.name
                        ),
                    )
                    .with_sqlstate("2BP01"));
                }
                remove(&mut self.schemas, |entry| entry.name == schema.name, "schema", &schema.name)?;
            }
            Change::CreateTable { table } => {
                self.check_new_relation(&table.schema, &table.name)?;
                table.validate()?;
                if self.table_by_id(table.id).is_some() {
                    return Err(Error::corrupt(format!("table id {} is used twice", table.id)));
                }
                // Transactions do not commit in the order in which they take ids.
                self.next_table_id = self.next_table_id.max(table.id.next());
                self.tables.push(Arc::new(table.clone()));
            }
            Change::DropTable { id } => {
                remove(&mut self.tables, |table| table.id == *id, "table with id", &id.to_string())?;
                self.sequences.retain(|sequence| sequence.owner.is_none_or(|owner| owner.table != *id));
            }
            Change::Append { id, rows, generations, .. } => {
                let table = self.table_mut(*id)?;
                table.rows = *rows;
                for change in generations {
                    let Some(column) = table.columns.iter_mut().find(|column| column.id == change.column)
                    else {
                        return Err(Error::corrupt(format!(
                            "an append to the unknown column {}",
                            change.column
                        )));
                    };
                    column.generation = change.generation.clone();
                }
                table.validate()?;
            }
            // The rows belong to the storage, and the definition stays shared.
            Change::Insert { id, .. } | Change::Delete { id, .. } => {
                self.table_by_id(*id).ok_or_else(|| unknown_table(*id))?;
            }
            Change::ReplaceTable { table, .. } => {
                let old = self.table_mut(table.id)?;
                let same_name = old.schema == table.schema && old.name == table.name;
                if !same_name {
                    self.check_new_relation(&table.schema, &table.name)?;
                }
                table.validate()?;
                let old = self.table_mut(table.id)?;
                // Checkpoints say which file has the deleted rows.
                *old = TableEntry { deleted: old.deleted, ..table.clone() };
                self.sequences.retain(|sequence| {
                    sequence.owner.is_none_or(|owner| {
                        owner.table != table.id || table.column_by_id(owner.column).is_some()
                    })
                });
            }
            Change::CreateView { view } => {
                self.check_new_relation(&view.schema, &view.name)?;
                self.views.push(view.clone());
            }
            Change::DropView { schema, name } => {
                remove(&mut self.views, |view| view.schema == *schema && view.name == *name, "view", name)?;
            }
            Change::CreateSequence { sequence } => {
                self.check_new_relation(&sequence.schema, &sequence.name)?;
                sequence.validate()?;
                self.sequences.push(sequence.clone());
            }
            Change::AlterSequence { sequence } => {
                let old = self.sequence_mut(&sequence.schema, &sequence.name)?;
                *old = SequenceEntry { state: old.state, ..sequence.clone() };
            }
            Change::AdvanceSequence { schema, name, state } => {
                self.sequence_mut(schema, name)?.state = *state;
            }
            Change::DropSequence { schema, name } => {
                let is_it = |entry: &SequenceEntry| entry.schema == *schema && entry.name == *name;
                remove(&mut self.sequences, is_it, "sequence", name)?;
            }
            Change::CreateMacro { definition } => {
                check_name(&definition.name)?;
                if self.macro_named(&definition.name).is_some() {
                    return Err(already_exists("the macro", &definition.name).with_sqlstate("42723"));
                }
                self.macros.push(definition.clone());
            }
            Change::DropMacro { name } => {
                remove(&mut self.macros, |entry| entry.name == *name, "macro", name)?;
            }
            Change::Comment { schema, name, comment } => {
                *self.comment_mut(schema, name.as_deref())? = comment.clone();
            }
        }
        Ok(())
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableEntry>> {
        self.tables.iter().find(|table| table.id == id)
    }

    fn table_mut(&mut self, id: TableId) -> Result<&mut TableEntry> {
        let table = self.tables.iter_mut().find(|table| table.id == id);
        table.map(Arc::make_mut).ok_or_else(|| unknown_table(id))
    }

    fn sequence_mut(&mut self, schema: &str, name: &str) -> Result<&mut SequenceEntry> {
        let found = self.sequences.iter_mut().find(|entry| entry.schema == schema && entry.name == name);
        found.ok_or_else(|| Error::new(ErrorKind::UnknownName, format!("no sequence \"{name}\"")))
    }

    fn comment_mut(&mut self, schema: &str, name: Option<&str>) -> Result<&mut Option<String>> {
        let found = match name {
            None => {
                self.schemas.iter_mut().find(|entry| entry.name == schema).map(|entry| &mut entry.comment)
            }
            Some(name) => {
                let mut views = self.views.iter_mut();
                let mut sequences = self.sequences.iter_mut();
                let view = views.find(|entry| entry.schema == schema && entry.name == name);
                let sequence = sequences.find(|entry| entry.schema == schema && entry.name == name);
                view.map(|entry| &mut entry.comment).or(sequence.map(|entry| &mut entry.comment))
            }
        };
        found.ok_or_else(|| {
            let what = name.map_or_else(
                || format!("schema \"{schema}\""),
                |name| format!("view or sequence \"{name}\""),
            );
            Error::new(ErrorKind::UnknownName, format!("no {what}"))
        })
    }

    /// Checks the rules that a decoded catalog must obey.
    pub(crate) fn validate(&self) -> Result<()> {
        for table in &self.tables {
            table.validate()?;
            if table.id >= self.next_table_id || !self.has_schema(&table.schema) {
                return Err(Error::corrupt(format!("table \"{}\" does not fit its catalog", table.name)));
            }
        }
        self.sequences.iter().try_for_each(SequenceEntry::validate)
    }

    fn check_new_relation(&self, schema: &str, name: &str) -> Result<()> {
        check_name(name)?;
        if !self.has_schema(schema) {
            return Err(
                Error::new(ErrorKind::UnknownName, format!("no schema \"{schema}\"")).with_sqlstate("3F000")
            );
        }
        if self.table(schema, name).is_some() {
            return Err(already_exists("table", name));
        }
        if self.view(schema, name).is_some() {
            return Err(already_exists("view", name));
        }
        if self.sequence(schema, name).is_some() {
            return Err(already_exists("sequence", name));
        }
        Ok(())
    }
}

impl TableEntry {
    /// Says whether it is a materialized view that has no rows to be read yet.
    pub fn is_unpopulated(&self) -> bool {
        self.query.as_ref().is_some_and(|query| !query.populated)
    }

    pub fn column_by_id(&self, id: ColumnId) -> Option<&ColumnEntry> {
        self.columns.iter().find(|column| column.id == id)
    }

    pub fn column(&self, name: &str) -> Option<&ColumnEntry> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Returns the column that a statement means by a name, which is in lower case if it has no
    /// quotes. It is the column of that name, or else the only one that differs in upper and lower
    /// case alone.
    pub fn column_meant(&self, name: &str) -> Option<&ColumnEntry> {
        self.column(name).or_else(|| {
            let mut alike = self.columns.iter().filter(|column| column.name.to_lowercase() == name);
            alike.next().filter(|_| alike.next().is_none())
        })
    }

    fn validate(&self) -> Result<()> {
        check_name(&self.name)?;
        if self.columns.is_empty() || self.columns.len() > TABLE_COLUMNS_MAX {
            return Err(Error::invalid_input(format!(
                "table \"{}\" has {} columns; a table has 1 to {TABLE_COLUMNS_MAX}",
                self.name,
                self.columns.len()
            )));
        }
        let mut names = std::collections::HashSet::new();
        for constraint in &self.constraints {
            check_name(&constraint.name)?;
            let known = |id: &ColumnId| self.columns.iter().any(|column| column.id == *id);
            if !names.insert(&constraint.name) {
                return Err(already_exists("constraint", &constraint.name).with_sqlstate("42710"));
            }
            if !constraint.rule.columns().iter().all(known) {
                return Err(Error::corrupt(format!("constraint \"{}\" names no column", constraint.name)));
            }
        }
        for index in &self.indexes {
            check_name(&index.name)?;
            if !names.insert(&index.name) {
                return Err(already_exists("index", &index.name).with_sqlstate("42P07"));
            }
            let known = |id: &ColumnId| self.columns.iter().any(|column| column.id == *id);
            let fits = match index.kind {
                DeclaredIndex::Key => !index.columns.is_empty(),
                DeclaredIndex::Order => index.columns.len() == 1,
            };
            if !fits || !index.columns.iter().all(known) {
                return Err(Error::corrupt(format!("index \"{}\" does not fit its table", index.name)));
            }
        }
        names.clear();
        for column in &self.columns {
            check_name(&column.name)?;
            if !names.insert(&column.name) {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    format!("table \"{}\" has two columns \"{}\"", self.name, column.name),
                )
                .with_sqlstate("42701"));
            }
            let rows = column.generation.nodes.first().map(|root| root.length);
            let dictionary_misplaced =
                column.generation.encoding.is_dictionary() && !column.logical_type.may_have_dictionary();
            if rows != Some(self.rows) || column.id >= self.next_column_id || dictionary_misplaced {
                return Err(Error::corrupt(format!(
                    "column \"{}\" of table \"{}\" does not fit its table",
                    column.name, self.name
                )));
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(Error::invalid_input(format!(
            "{name:?} is not a usable name: names have 1 to {NAME_BYTES_MAX} bytes and no NUL"
        ))
        .with_sqlstate("42602"));
    }
    Ok(())
}

fn unknown_table(id: TableId) -> Error {
    Error::corrupt(format!("a change of the unknown table {id}"))
}

fn already_exists(what: &str, name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("{what} \"{name}\" already exists"))
}

fn remove<T>(entries: &mut Vec<T>, is_it: impl Fn(&T) -> bool, what: &str, name: &str) -> Result<()> {
    let before = entries.len();
    entries.retain(|entry| !is_it(entry));
    if entries.len() == before {
        return Err(Error::new(ErrorKind::UnknownName, format!("no {what} \"{name}\"")));
    }
    Ok(())
}
