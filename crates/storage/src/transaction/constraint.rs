//! The keys of constraints that a transaction has touched, compared with those of others.
//!
//! Each side has checked its rows against what it saw. What is left is to read the keys that it has
//! touched, and those that others have touched since; `conflict` tells which of them do not go
//! together.

use super::conflict::{
    CHANGED, Kind, RowsBetween, Touched, conflict, is_broken_by_both, live, no_more, sorted,
};
use super::keys::{Form, keys_of};
use super::staged::{Staged, StagedTable};
use crate::rows::{Rows, positions_before};
use crate::snapshot::Snapshot;
use crate::table::TableData;
use arrow_array::UInt64Array;
use arrow_select::take::take;
use hypostyle_format::{Catalog, ConstraintRule, TableEntry};
use hypostyle_io::Store;
use hypostyle_types::{ColumnId, Error, LogicalType, Result, TableId, Version};
use std::cell::OnceCell;
use std::sync::Arc;

/// More rows than this are not compared by their keys: any change of the table is then a conflict.
const ROWS_MAX: u64 = 1 << 20;

/// More rows than this are compared before the commit lock is taken, so that others need not wait.
const ROWS_UNDER_LOCK: u64 = 4096;

/// How many rows are worth a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effort {
    /// So few that others can wait for it.
    Short,
    Long,
}

/// Columns of a table that have keys, and how their values are compared.
#[derive(Clone, Debug)]
struct KeyColumns {
    table: TableId,
    columns: Vec<ColumnId>,
    forms: Vec<Form>,
}

/// A constraint between rows.
struct Rule {
    name: String,
    kind: Kind,
    /// What has the key, or refers to it.
    own: KeyColumns,
    /// What a foreign key refers to.
    referred: Option<KeyColumns>,
    /// What the transaction has done.
    touched: OnceCell<Touched>,
}

/// A table that has changed between two versions.
struct TableChange<'a> {
    before: &'a TableData,
    now: &'a TableData,
    /// The earlier version.
    version: Version,
}

/// The keys that a transaction has touched, to be compared with those of others.
pub(super) struct OwnKeys<'a> {
    base: &'a Snapshot,
    staged: &'a Staged,
    store: &'a Arc<Store>,
    rules: Vec<Rule>,
}

impl<'a> OwnKeys<'a> {
    pub fn new(staged: &'a Staged, base: &'a Snapshot, store: &'a Arc<Store>) -> Self {
        let catalog = staged.catalog.as_ref();
        let all = catalog.tables.iter();
        let all = all.flat_map(|table| table.constraints.iter().map(move |constraint| (table, constraint)));
        let concerned = all.filter(|(table, constraint)| {
            let of_other = match &constraint.rule {
                ConstraintRule::ForeignKey { table, .. } => staged.tables.contains_key(table),
                _ => false,
            };
            of_other || staged.tables.contains_key(&table.id)
        });
        let rules = concerned
            .filter_map(|(table, constraint)| rule_of(catalog, table, &constraint.name, &constraint.rule));
        Self { base, staged, store, rules: rules.collect() }
    }

    /// Compares with what others have committed between two versions; all before the earlier one
    /// must have been compared already. False when that takes more than the effort.
    ///
    /// # Errors
    /// `Conflict`, naming the table and the constraint; those of reading rows.
    pub fn compare(&self, before: &Snapshot, now: &Snapshot, effort: Effort) -> Result<bool> {
        if before.version() == now.version() {
            return Ok(true);
        }
        for rule in &self.rules {
            let is_compared = match rule.kind {
                Kind::Unique => self.compare_unique(rule, before, now, effort)?,
                Kind::Reference => self.compare_reference(rule, before, now, effort)?,
            };
            if !is_compared {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compare_unique(&self, rule: &Rule, before: &Snapshot, now: &Snapshot, effort: Effort) -> Result<bool> {
        let own = self.staged.tables.get(&rule.own.table);
        let Some(own) = own.filter(|own| own.own_rows() > 0) else { return Ok(true) };
        let Some(change) = TableChange::of(rule.own.table, before, now) else { return Ok(true) };
        if !is_worth(self.rows_to_hash(rule, own.own_rows()) + change.rows_added(), &change, effort)? {
            return Ok(false);
        }
        self.check_added(
            rule,
            &change,
            "had a row of the same key inserted or updated by a transaction that committed first",
        )?;
        Ok(true)
    }

    fn compare_reference(
        &self,
        rule: &Rule,
        before: &Snapshot,
        now: &Snapshot,
        effort: Effort,
    ) -> Result<bool> {
        let Some(referred) = &rule.referred else { return Ok(true) };
        let refers = self.staged.tables.get(&rule.own.table).filter(|own| own.own_rows() > 0);
        let removes = self.staged.tables.get(&referred.table).filter(|own| !own.deleted.is_empty());
        let own_rows = refers.map_or(0, StagedTable::own_rows) + removes.map_or(0, |own| own.deleted.len());
        let removed = refers.and_then(|_| TableChange::of(referred.table, before, now));
        let removed = removed.filter(|change| change.before.deleted() != change.now.deleted());
        let added = removes.and_then(|_| TableChange::of(rule.own.table, before, now));
        let others = removed.iter().chain(&added).map(|change| change.rows_added() + change.rows_removed());
        let rows = self.rows_to_hash(rule, own_rows) + others.sum::<u64>();
        for change in removed.iter().chain(&added) {
            if !is_worth(rows, change, effort)? {
                return Ok(false);
            }
        }
        if let Some(change) = removed {
            let between = change.rows()?;
            let gone = self.keys_at(change.now, referred, &between.removed())?;
            let removed = no_more(gone, self.keys_at(change.now, referred, &between.added())?);
            let others = Touched { added: Vec::new(), removed };
            self.check(rule, &change, &others, "lost a row that new ones refer to")?;
        }
        if let Some(change) = added {
            self.check_added(rule, &change, "was given a row that refers to a deleted one")?;
        }
        Ok(true)
    }

    /// Compares with the rows that others have added to the table that has the key or refers to it.
    fn check_added(&self, rule: &Rule, change: &TableChange<'_>, why: &str) -> Result<()> {
        let added = sorted(self.keys_at(change.now, &rule.own, &change.rows()?.added())?);
        self.check(rule, change, &Touched { added, removed: Vec::new() }, why)
    }

    fn check(&self, rule: &Rule, change: &TableChange<'_>, others: &Touched, why: &str) -> Result<()> {
        match is_broken_by_both(self.touched(rule)?, others, rule.kind) {
            true => Err(conflict(change.name(), &format!("{why} (constraint \"{}\")", rule.name))),
            false => Ok(()),
        }
    }

    fn rows_to_hash(&self, rule: &Rule, rows: u64) -> u64 {
        if rule.touched.get().is_some() { 0 } else { rows }
    }

    /// What the transaction has done to the keys of a constraint; found out once.
    fn touched<'r>(&self, rule: &'r Rule) -> Result<&'r Touched> {
        if let Some(touched) = rule.touched.get() {
            return Ok(touched);
        }
        let removed = match &rule.referred {
            Some(referred) => no_more(self.own_removed(referred)?, self.own_added(referred)?),
            None => Vec::new(),
        };
        let touched = Touched { added: sorted(self.own_added(&rule.own)?), removed };
        Ok(rule.touched.get_or_init(|| touched))
    }

    /// The keys of own rows.
    fn own_added(&self, key: &KeyColumns) -> Result<Vec<u64>> {
        let Some(staged) = self.staged.tables.get(&key.table) else { return Ok(Vec::new()) };
        let start = self.base.table_by_id(key.table).map_or(0, |before| before.positions());
        let mut keys = Vec::new();
        let mut first = start;
        if let Some(in_files) = &staged.in_files {
            let stored = in_files.before + in_files.absorbed;
            let positions = live(start..start + in_files.rows, &staged.deleted);
            let positions =
                UInt64Array::from_iter_values(positions.map(|position| position - start + stored));
            let data = TableData::new(self.store, &in_files.entry, &Rows::default(), None);
            keys.extend(self.keys_at(&data, key, &positions)?);
            first += in_files.rows;
        }
        if staged.rows.rows() > 0 {
            let entry = self.staged.catalog.table_by_id(key.table);
            let entry = entry.ok_or_else(|| Error::internal("rows of an unknown table are staged"))?;
            let places = places(entry, key)?;
            for batch in staged.rows.batches() {
                let positions = live(first..first + batch.num_rows() as u64, &staged.deleted);
                let rows = UInt64Array::from_iter_values(positions.map(|position| position - first));
                let columns = places.iter().map(|place| take(batch.column(*place), &rows, None));
                let columns = columns.collect::<Result<Vec<_>, _>>();
                let columns =
                    columns.map_err(|error| Error::internal(format!("cannot read keys: {error}")))?;
                keys.extend(keys_of(&columns, &key.forms));
                first += batch.num_rows() as u64;
            }
        }
        Ok(keys)
    }

    /// The keys of rows of others that are deleted or updated.
    fn own_removed(&self, key: &KeyColumns) -> Result<Vec<u64>> {
        let staged = self.staged.tables.get(&key.table);
        let (Some(staged), Some(before)) = (staged, self.base.table_by_id(key.table)) else {
            return Ok(Vec::new());
        };
        let deleted = positions_before(&staged.deleted, before.positions());
        self.keys_at(before, key, &UInt64Array::from_iter_values(deleted.iter()))
    }

    fn keys_at(&self, table: &TableData, key: &KeyColumns, positions: &UInt64Array) -> Result<Vec<u64>> {
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let columns = table.rows_at(&places(table.entry(), key)?, positions, 1)?;
        Ok(keys_of(&columns, &key.forms))
    }
}

fn places(table: &TableEntry, key: &KeyColumns) -> Result<Vec<usize>> {
    let place = |id: &ColumnId| {
        let place = table.columns.iter().position(|column| column.id == *id);
        // Declared by this transaction.
        place.ok_or_else(|| conflict(&table.name, CHANGED))
    };
    key.columns.iter().map(place).collect()
}

/// The rule of a constraint that compares rows with others; `None` for any other.
fn rule_of(catalog: &Catalog, table: &TableEntry, name: &str, rule: &ConstraintRule) -> Option<Rule> {
    let (kind, own, referred) = match rule {
        ConstraintRule::Check { .. } => return None,
        ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
            let forms = vec![Form::Same; columns.len()];
            (Kind::Unique, KeyColumns { table: table.id, columns: columns.clone(), forms }, None)
        }
        ConstraintRule::ForeignKey { columns, table: other, referred, .. } => {
            let types = |table: &TableEntry, columns: &[ColumnId]| -> Option<Vec<LogicalType>> {
                columns.iter().map(|id| Some(table.column_by_id(*id)?.logical_type.clone())).collect()
            };
            let (ours, theirs) = (types(table, columns)?, types(catalog.table_by_id(*other)?, referred)?);
            let forms: Vec<Form> =
                ours.iter().zip(&theirs).map(|(our, their)| Form::of(our, their)).collect();
            let key = |table, columns: &[ColumnId]| KeyColumns {
                table,
                columns: columns.to_vec(),
                forms: forms.clone(),
            };
            (Kind::Reference, key(table.id, columns), Some(key(*other, referred)))
        }
    };
    Some(Rule { name: name.into(), kind, own, referred, touched: OnceCell::new() })
}

impl<'a> TableChange<'a> {
    /// `None` for a table that has not changed, or is not in both versions.
    fn of(id: TableId, before: &'a Snapshot, now: &'a Snapshot) -> Option<Self> {
        let version = before.version();
        let (before, now) = (before.table_by_id(id)?, now.table_by_id(id)?);
        (!now.is_unchanged_since(before, version)).then_some(Self { before, now, version })
    }

    fn name(&self) -> &str {
        &self.before.entry().name
    }

    /// How many rows have come, and more if some of them are deleted.
    fn rows_added(&self) -> u64 {
        self.now.positions().saturating_sub(self.before.positions())
    }

    fn rows_removed(&self) -> u64 {
        self.now.deleted().len().saturating_sub(self.before.deleted().len())
    }

    /// # Errors
    /// `Conflict` when it is not known which rows those are.
    fn rows(&self) -> Result<RowsBetween<'a>> {
        let rows = self.now.beyond_files();
        if rows.moved > self.version {
            return Err(conflict(self.name(), "was altered or compacted"));
        }
        let shifts = match rows.shifts.since(self.version) {
            Some(shifts) => shifts,
            // No others change their positions.
            None if self.before.beyond_files().tail.rows() == 0 => &[],
            None => return Err(conflict(self.name(), "had rows moved")),
        };
        Ok(RowsBetween::new(
            (self.before.positions(), self.before.deleted()),
            shifts,
            (self.now.positions(), self.now.deleted()),
        ))
    }
}

/// Whether so many rows are compared with this effort.
///
/// # Errors
/// `Conflict` when they are too many for any.
fn is_worth(rows: u64, change: &TableChange<'_>, effort: Effort) -> Result<bool> {
    if rows > ROWS_MAX {
        return Err(conflict(change.name(), CHANGED));
    }
    Ok(effort == Effort::Long || rows <= ROWS_UNDER_LOCK)
}
