//! Changes of definitions: schemas, tables, views, sequences and comments.

use super::Transaction;
use crate::column::node_count;
use hypostyle_format::{
    Change, ColumnEntry, Encoding, GenerationEntry, Identity, IndexEntry, MacroEntry, NodeEntry, SchemaEntry,
    SequenceEntry, SequenceState, TableEntry, ViewEntry,
};
use hypostyle_types::{ColumnId, Generation, LogicalType, Result, TableId};

/// A column of a table to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewColumn {
    pub name: String,
    pub logical_type: LogicalType,
    pub nullable: bool,
    /// SQL text.
    pub default: Option<String>,
    pub identity: Option<Identity>,
    /// SQL text.
    pub generated: Option<String>,
}

impl NewColumn {
    /// A column that is no more than its type.
    pub fn new(name: impl Into<String>, logical_type: LogicalType, nullable: bool) -> Self {
        Self { name: name.into(), logical_type, nullable, default: None, identity: None, generated: None }
    }
}

impl Transaction {
    fn change(&mut self, change: Change) -> Result<()> {
        self.database.check_writable()?;
        self.staged.define(&change)?;
        self.staged.changes.push(change);
        Ok(())
    }

    pub fn create_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::CreateSchema(SchemaEntry::new(name)))
    }

    pub fn drop_schema(&mut self, name: &str) -> Result<()> {
        self.change(Change::DropSchema(SchemaEntry::new(name)))
    }

    pub fn create_table(&mut self, schema: &str, name: &str, columns: Vec<NewColumn>) -> Result<TableId> {
        self.create(schema, name, columns, (None, Vec::new()))
    }

    /// Creates a table with a comment and indexes, whose columns are numbered in their order. To add these
    /// afterwards would write its files anew.
    pub fn create_described_table(
        &mut self,
        schema: &str,
        name: &str,
        columns: Vec<NewColumn>,
        (comment, indexes): (String, Vec<IndexEntry>),
    ) -> Result<TableId> {
        self.create(schema, name, columns, (Some(comment), indexes))
    }

    fn create(
        &mut self,
        schema: &str,
        name: &str,
        columns: Vec<NewColumn>,
        (comment, indexes): (Option<String>, Vec<IndexEntry>),
    ) -> Result<TableId> {
        self.database.check_writable()?;
        let (id, lock) = self.database.allocate_table(self.staged.catalog.next_table_id)?;
        self.created.push(id);
        self.locks.insert(id, lock);
        let columns = columns.into_iter().zip(0..);
        let columns: Vec<ColumnEntry> =
            columns.map(|(column, number)| new_column_entry(column, ColumnId(number))).collect();
        let next_column_id = ColumnId(columns.len() as u32);
        let (schema, name) = (schema.into(), name.into());
        let table = TableEntry {
            id,
            schema,
            name,
            rows: 0,
            next_column_id,
            columns,
            constraints: Vec::new(),
            indexes,
            comment,
            query: None,
            deleted: None,
        };
        self.change(Change::CreateTable { table })?;
        Ok(id)
    }

    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        self.writers.remove(&id);
        self.staged.tables.remove(&id);
        self.change(Change::DropTable { id })
    }

    /// Comments on a schema, or on a view or sequence of it; without a text, no more.
    pub fn comment(&mut self, schema: &str, name: Option<&str>, comment: Option<String>) -> Result<()> {
        self.change(Change::Comment { schema: schema.into(), name: name.map(Into::into), comment })
    }

    pub fn create_view(&mut self, view: ViewEntry) -> Result<()> {
        self.change(Change::CreateView { view })
    }

    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<()> {
        self.change(Change::DropView { schema: schema.into(), name: name.into() })
    }

    pub fn create_macro(&mut self, definition: MacroEntry) -> Result<()> {
        self.change(Change::CreateMacro { definition })
    }

    pub fn drop_macro(&mut self, name: &str) -> Result<()> {
        self.change(Change::DropMacro { name: name.into() })
    }

    pub fn create_sequence(&mut self, sequence: SequenceEntry) -> Result<()> {
        let (schema, name, state) = (sequence.schema.clone(), sequence.name.clone(), sequence.state);
        self.change(Change::CreateSequence { sequence })?;
        self.staged.sequences.put(&schema, &name, state);
        Ok(())
    }

    pub fn drop_sequence(&mut self, schema: &str, name: &str) -> Result<()> {
        self.change(Change::DropSequence { schema: schema.into(), name: name.into() })
    }

    /// Gives a sequence another definition. Where it is, others decide, too; with `restart`, it
    /// goes on from there.
    pub fn alter_sequence(&mut self, sequence: SequenceEntry, restart: Option<i64>) -> Result<()> {
        let (schema, name) = (sequence.schema.clone(), sequence.name.clone());
        self.change(Change::AlterSequence { sequence })?;
        if let Some(last) = restart {
            self.staged.sequences.put(&schema, &name, SequenceState { last, is_called: false });
        }
        Ok(())
    }
}

/// A column without rows.
pub(super) fn new_column_entry(column: NewColumn, id: ColumnId) -> ColumnEntry {
    ColumnEntry {
        id,
        name: column.name,
        generation: empty_generation(Generation(0), &column.logical_type),
        logical_type: column.logical_type,
        nullable: column.nullable,
        default: column.default,
        identity: column.identity,
        generated: column.generated,
        comment: None,
    }
}

/// Files of a column that has no rows yet.
pub(super) fn empty_generation(number: Generation, logical_type: &LogicalType) -> GenerationEntry {
    let nodes = vec![NodeEntry::default(); node_count(logical_type)];
    GenerationEntry { number, encoding: Encoding::Plain, nodes }
}
