//! ON DELETE and ON UPDATE of foreign keys, which change the rows that refer to deleted rows or
//! changed keys.

use crate::session::Parameters;
use crate::statement::constraint::{referring, restricted, with_view_of};
use crate::statement::given_rows::{given_rows, positions_and};
use crate::statement::target::{ChangedRows, Target, value_or_default};
use crate::statement::writer::Writer;
use arrow::array::{RecordBatch, UInt64Array};
use datafusion::sql::sqlparser::ast::{Expr, SelectItem};
use hypostyle_catalog::given::Given;
use hypostyle_cluster::change::own_and_published;
use hypostyle_error::column_name::POSITION;
use hypostyle_sql::build;
use hypostyle_storage::{
    Catalog, ConstraintEntry, ConstraintRule, ReferentialAction, TableEntry, Transaction,
};
use hypostyle_types::{ColumnId, Error, Result, TableId};
use roaring::RoaringTreemap;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// The changes that a statement makes to the rows of a table.
#[derive(Default)]
pub(super) struct Modification {
    pub deleted: RoaringTreemap,
    /// Positions of rows, and what they become, in the engine's types.
    pub updated: Vec<(UInt64Array, RecordBatch)>,
    /// The columns in which these may have other values than before.
    pub assigned: BTreeSet<ColumnId>,
    pub inserted: Vec<RecordBatch>,
}

impl Modification {
    /// Returns the rows that the statement leaves.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.inserted.iter().chain(self.updated.iter().map(|(_, rows)| rows)).cloned().collect()
    }

    /// Runs the work; `proceed` may end it with its error.
    fn stage(&self, writer: &mut Transaction, id: TableId, proceed: impl Fn() -> Result<()>) -> Result<()> {
        let updated = self.updated.iter().flat_map(|(positions, _)| positions.values().iter().copied());
        writer.delete(id, &self.deleted)?;
        writer.delete_updated(id, &updated.collect(), &self.assigned)?;
        self.inserted.iter().try_for_each(|rows| {
            proceed()?;
            writer.append(id, rows)
        })?;
        self.updated.iter().try_for_each(|(_, rows)| {
            proceed()?;
            writer.append_updated(id, rows)
        })
    }

    fn assigns(&self, columns: &[ColumnId]) -> bool {
        !self.updated.is_empty() && columns.iter().any(|column| self.assigned.contains(column))
    }
}

/// A foreign key that says what becomes of its rows when those go that they refer to.
struct Reference {
    table: TableId,
    constraint: ConstraintEntry,
    columns: Vec<ColumnId>,
    referred: Vec<ColumnId>,
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
}

impl Reference {
    fn acts_on_deleted(&self, modification: &Modification) -> bool {
        acts(self.on_delete) && !modification.deleted.is_empty()
    }

    fn acts_on_updated(&self, modification: &Modification) -> bool {
        acts(self.on_update) && modification.assigns(&self.referred)
    }
}

/// The action for rows that have some keys.
struct Following {
    reference: Arc<Reference>,
    action: ReferentialAction,
    /// The columns of an old key, and behind them those of the new one.
    keys: Vec<RecordBatch>,
}

/// Says whether an action changes rows. For NO ACTION the check at the end of a statement is
/// enough.
fn acts(action: ReferentialAction) -> bool {
    action != ReferentialAction::NoAction
}

/// Returns the foreign keys that refer to a table and do something.
fn references(catalog: &Catalog, id: TableId) -> Vec<Arc<Reference>> {
    let reference = |(table, constraint): (&TableEntry, &ConstraintEntry)| match &constraint.rule {
        ConstraintRule::ForeignKey { columns, referred, on_delete, on_update, .. }
            if acts(*on_delete) || acts(*on_update) =>
        {
            Some(Arc::new(Reference {
                table: table.id,
                constraint: constraint.clone(),
                columns: columns.clone(),
                referred: referred.clone(),
                on_delete: *on_delete,
                on_update: *on_update,
            }))
        }
        _ => None,
    };
    referring(catalog, id).filter_map(reference).collect()
}

fn places(table: &TableEntry, columns: &[ColumnId]) -> Vec<usize> {
    let place = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
    columns.iter().filter_map(place).collect()
}

fn old(place: usize) -> String {
    format!("old_{place}")
}

fn new(place: usize) -> String {
    format!("new_{place}")
}

impl Writer<'_> {
    /// Changes rows of a table, and those that refer to them.
    pub(super) fn modify(
        &self,
        writer: &mut Transaction,
        id: TableId,
        modification: &Modification,
    ) -> Result<()> {
        let mut following = VecDeque::from(self.stage(writer, id, modification)?);
        // The rows that are found depend on all earlier steps: each step is staged before the next.
        while let Some(next) = following.pop_front() {
            self.queries.proceed()?;
            // Those of tables of the cluster are there until the statement is published.
            self.scope.note_deleted(&self.checks.cluster.deleted_in_cluster());
            let modification = self.follow(writer, &next)?;
            following.extend(self.stage(writer, next.reference.table, &modification)?);
        }
        Ok(())
    }

    /// Stages changes of a table; what follows from them.
    fn stage(
        &self,
        writer: &mut Transaction,
        id: TableId,
        modification: &Modification,
    ) -> Result<Vec<Following>> {
        let of_cluster = self.checks.cluster.cluster_table_of(writer, id);
        if let Some(table) = of_cluster {
            self.checks.cluster.check_found(table)?;
        }
        let mut references = references(writer.catalog(), id);
        references.retain(|reference| {
            reference.acts_on_deleted(modification) || reference.acts_on_updated(modification)
        });
        let mut following = Vec::new();
        for reference in references {
            following.extend(with_view_of(self.scope, writer, |writer, snapshot| {
                let database = self.scope.name_of(writer.database())?;
                let data = snapshot.table_by_id(id);
                let data = data.ok_or_else(|| Error::internal("a table that is changed is missing"))?;
                self.keys_that_change(
                    &Target::new(self.scope, &database, snapshot, data, "p"),
                    &reference,
                    modification,
                )
            })?);
        }
        // This runs before another action removes the rows that restrict this one.
        following.sort_by_key(|following: &Following| following.action != ReferentialAction::Restrict);
        match of_cluster {
            Some(table) => self.stage_in_cluster(writer, (id, table), modification)?,
            None => modification.stage(writer, id, || self.queries.proceed())?,
        }
        Ok(following)
    }

    /// Stages changes of a table of the cluster: published rows are deleted when they are published, and the
    /// transaction's own at once.
    fn stage_in_cluster(
        &self,
        writer: &mut Transaction,
        (id, table): (TableId, TableId),
        modification: &Modification,
    ) -> Result<()> {
        let updated = modification.updated.iter().flat_map(|(places, _)| places.values().iter().copied());
        let (own_updated, updated) = own_and_published(updated.collect());
        let (own_deleted, mut deleted) = own_and_published(modification.deleted.clone());
        deleted |= updated;
        if !deleted.is_empty() && referring(writer.catalog(), id).next().is_some() {
            writer.note_taken(id, !modification.deleted.is_empty(), &modification.assigned);
        }
        self.checks.cluster.run.lock().cluster.delete(table, deleted);
        if !own_deleted.is_empty() {
            writer.delete(id, &own_deleted)?;
        }
        if !own_updated.is_empty() {
            writer.delete_updated(id, &own_updated, &modification.assigned)?;
        }
        let entry = writer.catalog().table_by_id(id);
        let mut constraints = entry.into_iter().flat_map(|entry| &entry.constraints);
        let has_new_keys = constraints.any(|constraint| modification.assigns(constraint.rule.columns()));
        modification.inserted.iter().try_for_each(|rows| {
            self.queries.proceed()?;
            writer.append(id, rows)
        })?;
        modification.updated.iter().try_for_each(|(_, rows)| {
            self.queries.proceed()?;
            // The others have the keys that they had.
            if has_new_keys { writer.append(id, rows) } else { writer.append_updated(id, rows) }
        })
    }

    /// Returns the keys that are deleted or updated, as far as the reference does something about
    /// it.
    fn keys_that_change(
        &self,
        target: &Target,
        reference: &Arc<Reference>,
        modification: &Modification,
    ) -> Result<Vec<Following>> {
        let table = target.data.entry();
        let key = places(table, &reference.referred);
        let value_of = |place: &usize| target.column_of_row(&table.columns[*place].name);
        let olds = key.iter().enumerate();
        let olds: Vec<SelectItem> =
            olds.map(|(place, of)| build::item_named(value_of(of), &old(place))).collect();
        let from = |changed: &Given| {
            let place = build::equal(target.position(), build::column_of("d", POSITION));
            vec![build::joined(target.source(), changed.factor(Some(build::name("d"))), place)]
        };
        let following = |action, keys| Following { reference: reference.clone(), action, keys };
        let mut found = Vec::new();
        if reference.acts_on_deleted(modification) {
            let positions: UInt64Array = modification.deleted.iter().map(Some).collect();
            let changed = given_rows(self.scope, "changed", vec![positions_and(positions, Vec::new())?])?;
            let query = build::select_where(olds.clone(), from(&changed), None);
            let keys = self.queries.rows_of_query(query)?;
            found.push(following(reference.on_delete, keys));
        }
        if reference.acts_on_updated(modification) {
            let rows = modification.updated.iter().map(|(positions, rows)| {
                let columns = key.iter().enumerate();
                let columns = columns.map(|(place, column)| (new(place), rows.column(*column).clone()));
                positions_and(positions.clone(), columns.collect())
            });
            let changed = given_rows(self.scope, "changed", rows.collect::<Result<_>>()?)?;
            let news: Vec<Expr> = (0..key.len()).map(|place| build::column_of("d", &new(place))).collect();
            let differ = key.iter().zip(news.clone());
            let differ = build::any_of(differ.map(|(place, new)| build::differ(value_of(place), new)));
            let items = olds.into_iter().chain(news.into_iter().map(build::item)).collect();
            let query = build::select_where(items, from(&changed), differ);
            found.push(following(reference.on_update, self.queries.rows_of_query(query)?));
        }
        found.retain(|following| !following.keys.is_empty());
        Ok(found)
    }

    /// Returns what becomes of the rows that refer to keys which are no more.
    fn follow(&self, writer: &mut Transaction, following: &Following) -> Result<Modification> {
        with_view_of(self.scope, writer, |writer, snapshot| {
            let database = self.scope.name_of(writer.database())?;
            let Following { reference, action, .. } = following;
            let data = snapshot.table_by_id(reference.table);
            let data = data.ok_or_else(|| Error::internal("a table that refers to another is missing"))?;
            let target = Target::new(self.scope, &database, snapshot, data, "c");
            let table = data.entry();
            let key = places(table, &reference.columns);
            let is_update = following.keys.iter().any(|keys| keys.num_columns() > key.len());
            let same = key.iter().enumerate().map(|(number, place)| {
                let column = target.column_of_row(&table.columns[*place].name);
                build::equal(column, build::column_of("k", &old(number)))
            });
            let same = build::all_of(same).unwrap_or_else(|| build::truth(true));
            let keys = given_rows(self.scope, "keys", following.keys.clone())?;
            let from = build::joined(target.source(), keys.factor(Some(build::name("k"))), same);
            if *action == ReferentialAction::Restrict {
                let query = build::select_where(vec![build::every_column_of("c")], vec![from], None);
                return self.queries.first_row(build::limited(query, 1))?.map_or_else(
                    || Ok(Modification::default()),
                    |row| Err(restricted(table, &reference.constraint, &row, is_update)),
                );
            }
            let deletes = *action == ReferentialAction::Cascade && !is_update;
            let mut values: Vec<Expr> = target.names().map(|name| target.column_of_row(name)).collect();
            for (number, place) in key.iter().enumerate() {
                values[*place] = match action {
                    ReferentialAction::SetNull => build::null(),
                    ReferentialAction::SetDefault => value_or_default(&target, *place, None)?,
                    _ => build::column_of("k", &new(number)),
                };
            }
            let mut items = vec![build::item_named(target.position(), POSITION)];
            if !deletes {
                let named = values.into_iter().zip(target.names());
                items.extend(named.map(|(value, name)| build::item_named(value, name)));
            }
            let query = build::select_where(items, vec![from], None);
            let ChangedRows { positions, places, rows, .. } =
                self.changed_rows(query, &Parameters::None, !deletes)?;
            if deletes {
                return Ok(Modification { deleted: positions, ..Modification::default() });
            }
            let updated = places.into_iter().zip(self.as_rows_of(&target, rows)?).collect();
            let assigned = target.assigned_with_generated(key.iter().copied());
            Ok(Modification { updated, assigned, ..Modification::default() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::constraint::constrain;
    use crate::statement::test_queries::{Alone, numbers, table_of_numbers};

    /// Makes two tables of one row each, of which the second refers to the first.
    fn tables(transaction: &mut Transaction, on_delete: ReferentialAction) -> (TableId, TableId) {
        let mut key = Vec::new();
        let parent = table_of_numbers(transaction, "p", &["a"], |table| {
            key = vec![table.columns[0].id];
            let rule = ConstraintRule::PrimaryKey { columns: key.clone() };
            constrain(table, ConstraintEntry::new("p_pkey", rule));
        });
        let child = table_of_numbers(transaction, "c", &["p"], |table| {
            let rule = ConstraintRule::ForeignKey {
                columns: vec![table.columns[0].id],
                table: parent,
                referred: key,
                on_delete,
                on_update: ReferentialAction::NoAction,
            };
            constrain(table, ConstraintEntry::new("c_p_fkey", rule));
        });
        transaction.append(parent, &numbers(&[("a", &[1])], &[])).unwrap();
        transaction.append(child, &numbers(&[("p", &[1])], &[])).unwrap();
        (parent, child)
    }

    fn rows_of(transaction: &mut Transaction, id: TableId) -> u64 {
        transaction.snapshot().unwrap().table_by_id(id).unwrap().rows()
    }

    fn first_row() -> Modification {
        Modification { deleted: RoaringTreemap::from_iter([0_u64]), ..Modification::default() }
    }

    #[test]
    fn rows_follow_those_that_they_refer_to() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let (parent, child) = tables(&mut transaction, ReferentialAction::Cascade);
        let place = positions_and(UInt64Array::from(vec![0]), Vec::new()).unwrap();
        alone.find([numbers(&[("old_0", &[1])], &[]), place]);
        alone.writer().modify(&mut transaction, parent, &first_row()).unwrap();
        assert_eq!((rows_of(&mut transaction, parent), rows_of(&mut transaction, child)), (0, 0));
        assert_eq!(alone.asked().len(), 2);
    }

    #[test]
    fn rows_keep_those_that_they_refer_to() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let (parent, _) = tables(&mut transaction, ReferentialAction::Restrict);
        alone.find([numbers(&[("old_0", &[1])], &[]), numbers(&[("p", &[1])], &[])]);
        let error = alone.writer().modify(&mut transaction, parent, &first_row()).unwrap_err();
        assert_eq!(
            (error.sqlstate(), error.message()),
            (
                "23001",
                "constraint \"c_p_fkey\" of table \"c\" is violated by (p = 1): ON DELETE RESTRICT keeps the row that \
                 it refers to"
            )
        );
    }

    #[test]
    fn nobody_is_asked_where_nothing_follows() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let (parent, _) = tables(&mut transaction, ReferentialAction::NoAction);
        alone.writer().modify(&mut transaction, parent, &first_row()).unwrap();
        assert_eq!(rows_of(&mut transaction, parent), 0);
        assert!(alone.asked().is_empty());
    }
}
