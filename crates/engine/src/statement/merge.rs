//! INSERT … ON CONFLICT and MERGE: queries that sort rows into those to insert, to update and to
//! delete.

use crate::session::{Outcome, Parameters};
use crate::statement::given_rows::given_table;
use crate::statement::partners::most_listed;
use crate::statement::referential::Modification;
use crate::statement::refusal::{refuse_output, unknown_constraint};
use crate::statement::returning::Returning;
use crate::statement::target::{ChangedRows, Target, value_or_default};
use crate::statement::versions::{Did, with_versions};
use crate::statement::writer::{Dml, Writer};
use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::row::{RowConverter, SortField};
use datafusion::catalog::MemTable;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ConflictTarget, DoUpdate, Expr, Ident, Merge, MergeClause, MergeClauseKind, MergeInsertKind, ObjectName,
    OnConflict, OnConflictAction, OutputClause, Query, SelectItem, TableFactor,
};
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_error::{counted, from_datafusion};
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::merge_actions::Action;
use hypostyle_sql::{build, selected};
use hypostyle_storage::{ColumnEntry, unknown_column};
use hypostyle_types::{ColumnId, Error, ErrorKind, Result};
use roaring::RoaringTreemap;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The number of each row that INSERT … ON CONFLICT brings.
const NUMBER: &str = "__number";

/// The name of one of these rows in queries; no column has it.
const ROW: &str = "__row";

/// The action of one clause of MERGE.
enum Clause {
    Inserts(Vec<RecordBatch>),
    Deletes(ChangedRows),
    Updates {
        updated: Vec<(UInt64Array, RecordBatch)>,
        positions: RoaringTreemap,
        assigned: BTreeSet<ColumnId>,
        found: u64,
    },
}

/// The changes of a table's rows, and their number.
#[derive(Default)]
pub(super) struct Changes {
    pub modification: Modification,
    pub count: u64,
}

fn count_rows(rows: &[RecordBatch]) -> u64 {
    rows.iter().map(|rows| rows.num_rows() as u64).sum()
}

impl Dml<'_> {
    /// Runs MERGE. RETURNING gives the target's columns of the inserted and updated rows, and of
    /// the deleted rows as they were.
    pub(super) fn merge(&self, mut merge: Merge, parameters: &Parameters) -> Result<Outcome> {
        refuse_unreachable(&merge.clauses)?;
        let items = match merge.output.take() {
            Some(OutputClause::Returning { select_items, .. }) => Some(select_items),
            other => refuse_output(other.as_ref()).map(|()| None)?,
        };
        let target = self.databases.names().target_of(&merge.table)?;
        let returning = items.map(|items| Returning::of_target(&target, items));
        let given = self.given_source(&merge.source, merge.clauses.len(), parameters)?;
        if let Some((source, _)) = &given {
            merge.source = source.clone();
        }
        let others = [build::alone(merge.source.clone())];
        let on = self.writer.narrowed(&target, &others, Some(merge.on.as_ref().clone()))?;
        *merge.on = on.unwrap_or_else(|| build::truth(true));
        let (changes, deleted) = self.writer.sort_source(&merge, &target, parameters, returning.is_some())?;
        let has_versions = returning.as_ref().is_some_and(Returning::has_versions);
        self.write_returning(&target, returning, parameters, |writer| {
            self.writer.modify(writer, target.id, &changes.modification)?;
            if !has_versions {
                let rows = changes.modification.rows().into_iter().chain(deleted);
                return Ok((rows.collect(), changes.count));
            }
            let mut rows = self.writer.versions_of(&target, &changes.modification)?;
            for deleted in &deleted {
                rows.push(with_versions(&target, deleted, Did::Delete)?);
            }
            Ok((rows, changes.count))
        })
    }

    /// Computes the rows of a source once, so that it has the same rows for every clause; `None` for
    /// stored columns and for a single clause.
    fn given_source(
        &self,
        source: &TableFactor,
        clauses: usize,
        parameters: &Parameters,
    ) -> Result<Option<(TableFactor, Given)>> {
        let alias = match source {
            _ if clauses < 2 => None,
            TableFactor::Table { name, args: None, sample: None, .. }
                if self.databases.names().table_of(name).is_some() =>
            {
                None
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. } => Some(alias.name.clone()),
            TableFactor::Table { name, .. } => match name.0.as_slice() {
                [name] => name.as_ident().cloned(),
                _ => None,
            },
            _ => None,
        };
        let Some(alias) = alias else { return Ok(None) };
        let query = selected::query(vec![build::every_column()], vec![build::alone(source.clone())], None)?;
        let (schema, batches) = match self.queries.start(query, parameters)? {
            Outcome::Stored(_) => return Ok(None),
            rows => self.queries.collected(rows)?,
        };
        let given = given_table(self.databases.scope, "source", schema, batches)?;
        Ok(Some((given.factor(Some(alias)), given)))
    }
}

impl Writer<'_> {
    /// Sorts incoming rows by whether a row with their key exists.
    pub(super) fn on_conflict(
        &self,
        target: &Target,
        conflict: &OnConflict,
        rows: Vec<RecordBatch>,
        parameters: &Parameters,
    ) -> Result<Changes> {
        let proposed = rows.clone();
        let incoming = &self.scope.give(Relation::Rows { role: "incoming", rows: Arc::new(numbered(rows)?) });
        let keys = keys(target, conflict)?.into_iter();
        let keys = keys.map(|columns| {
            let within = self.key_conditions(target, incoming, &proposed, &columns)?;
            Ok(Key { columns, within })
        });
        let keys = keys.collect::<Result<Vec<Key>>>()?;
        self.checks.check_proposed(target.data.entry(), incoming)?;
        match &conflict.action {
            OnConflictAction::DoNothing => self.new_keys(target, incoming, &keys),
            OnConflictAction::DoUpdate(update) => {
                self.update_conflicts(target, incoming, &keys, update, parameters)
            }
        }
    }

    /// Returns what rows of a table of the cluster meet, too, that have a key of the incoming rows, so that
    /// its nodes need not send all keys.
    fn key_conditions(
        &self,
        target: &Target,
        incoming: &Given,
        rows: &[RecordBatch],
        key: &[String],
    ) -> Result<Vec<Expr>> {
        if !target.is_of_cluster {
            return Ok(Vec::new());
        }
        let columns = target.columns();
        let of_key = columns.iter().filter(|column| key.contains(&column.name));
        let of_key: Vec<(&ColumnEntry, String)> =
            of_key.map(|column| (column, column.name.clone())).collect();
        let place_of =
            |column: &ColumnEntry| columns.iter().position(|other| other.id == column.id).unwrap_or_default();
        let bytes_of = |column: &ColumnEntry| -> usize {
            rows.iter().map(|rows| rows.column(place_of(column)).get_array_memory_size()).sum()
        };
        let most = most_listed(of_key.iter().map(|&(column, _)| bytes_of(column)).sum());
        let values = |column: &ColumnEntry| -> Result<Vec<ScalarValue>> {
            let place = place_of(column);
            let mut values = Vec::new();
            for rows in rows {
                for row in 0..rows.num_rows() {
                    let value = ScalarValue::try_from_array(rows.column(place), row);
                    values.push(value.map_err(from_datafusion)?);
                }
            }
            Ok(values)
        };
        let others = (incoming, count_rows(rows));
        let conditions = self.checks.conditions_of_keys(&target.alias, others, &of_key, most, values)?;
        Ok(conditions.unwrap_or_else(|| vec![build::truth(false)]))
    }

    /// Returns the first row of each key that is new.
    fn new_keys(&self, target: &Target, incoming: &Given, keys: &[Key]) -> Result<Changes> {
        if keys.len() > 1 {
            return self.new_of_several_keys(target, incoming, keys);
        }
        let mut items = vec![build::every_column()];
        let mut conditions = Vec::new();
        for (key, place) in keys.iter().zip(0..) {
            let place = format!("__place{place}");
            let number = build::row_number(key.named(), vec![build::column(NUMBER)]);
            items.push(build::item_named(number, &place));
            let first = build::equal(build::column_of(ROW, &place), build::number(1));
            let unknown = key.columns.iter().map(|column| build::is_null(build::column_of(ROW, column)));
            conditions.extend(build::any_of(std::iter::once(first).chain(unknown)));
            conditions.push(is_free(target, key));
        }
        let numbered = build::select(items, vec![incoming.factor(None)]);
        let from = build::alone(build::derived(numbered, build::name(ROW)));
        let query = build::select_where(row_of(target), vec![from], build::all_of(conditions));
        let rows = self.rows_for(target, query, &Parameters::None)?;
        let count = count_rows(&rows);
        Ok(Changes { modification: Modification { inserted: rows, ..Modification::default() }, count })
    }

    /// Returns the same of several keys, row by row: one that is not taken stands in the way of
    /// none.
    fn new_of_several_keys(&self, target: &Target, incoming: &Given, keys: &[Key]) -> Result<Changes> {
        let free = build::all_of(keys.iter().map(|key| is_free(target, key)));
        let from = build::alone(incoming.factor(Some(build::name(ROW))));
        let query = build::select_where(row_of(target), vec![from], free);
        let query = build::ordered(query, vec![build::column_of(ROW, NUMBER)]);
        let rows = self.rows_for(target, query, &Parameters::None)?;
        let names: Vec<String> = target.names().map(String::from).collect();
        let keys: Vec<Vec<String>> = keys.iter().map(|key| key.columns.clone()).collect();
        let inserted = first_of_keys(&names, &keys, &rows).map_err(|error| from_datafusion(error.into()))?;
        let count = count_rows(&inserted);
        Ok(Changes { modification: Modification { inserted, ..Modification::default() }, count })
    }

    fn update_conflicts(
        &self,
        target: &Target,
        incoming: &Given,
        keys: &[Key],
        update: &DoUpdate,
        parameters: &Parameters,
    ) -> Result<Changes> {
        let [key] = keys else {
            return Err(Error::new(
                ErrorKind::Syntax,
                "ON CONFLICT DO UPDATE needs a conflict target: (columns)",
            ));
        };
        let twice = build::repeated_key(incoming.factor(None), key.named());
        let (_, twice) = self.queries.rows(twice, &Parameters::None)?;
        if count_rows(&twice) > 0 {
            return Err(changed_twice("two of the new rows have the same key"));
        }
        let mut changes = self.new_keys(target, incoming, keys)?;
        let assigned = self.assigned(target, &update.assignments)?;
        let excluded = incoming.factor(Some(build::name("excluded")));
        let from = build::joined(target.source(), excluded, matches(target, key, "excluded"));
        let query = selected::query(assigned.items(target), vec![from], update.selection.clone())?;
        let changed = self.changed_rows(query, parameters, true)?;
        changes.count += changed.positions.len();
        changes.modification.updated = self.updated_rows(target, &assigned, changed)?;
        changes.modification.assigned = assigned.columns(target);
        Ok(changes)
    }

    /// Returns what becomes of the target's rows, and, if they are kept, those that are deleted.
    fn sort_source(
        &self,
        merge: &Merge,
        target: &Target,
        parameters: &Parameters,
        keeps: bool,
    ) -> Result<(Changes, Vec<RecordBatch>)> {
        let mut changes = Changes::default();
        let mut deleted = Vec::new();
        let mut changed = RoaringTreemap::new();
        let mut matched = 0;
        let mut earlier: Vec<(MergeClauseKind, Expr)> = Vec::new();
        for clause in &merge.clauses {
            let kind = kind_of(clause);
            // The first clause that fits a row decides.
            let mut conditions: Vec<Expr> = earlier
                .iter()
                .filter(|(other, _)| *other == kind)
                .map(|(_, condition)| build::not(build::coalesce(condition.clone(), build::truth(false))))
                .collect();
            let own = clause.predicate.clone().unwrap_or_else(|| build::truth(true));
            conditions.push(own.clone());
            earlier.push((kind, own));
            if Action::new(&clause.action) == Action::Nothing {
                continue;
            }
            let condition = build::all_of(conditions);
            match self.merge_clause(merge, target, (clause, kind), condition, parameters, keeps)? {
                Clause::Inserts(rows) => {
                    changes.count += count_rows(&rows);
                    changes.modification.inserted.extend(rows);
                }
                Clause::Deletes(ChangedRows { positions, rows, found, .. }) => {
                    deleted.extend(rows);
                    matched += found;
                    changes.count += positions.len();
                    changed |= &positions;
                    changes.modification.deleted |= positions;
                }
                Clause::Updates { updated, positions, assigned, found } => {
                    changes.modification.assigned.extend(assigned);
                    matched += found;
                    changes.count += positions.len();
                    changed |= positions;
                    changes.modification.updated.extend(updated);
                }
            }
        }
        if matched != changed.len() {
            return Err(changed_twice("two rows of the source match the same row of the target"));
        }
        Ok((changes, deleted))
    }

    /// Returns the rows that one clause inserts, or those that it changes, with their new values;
    /// of those that it deletes the old ones, if they are kept.
    fn merge_clause(
        &self,
        merge: &Merge,
        target: &Target,
        (clause, kind): (&MergeClause, MergeClauseKind),
        condition: Option<Expr>,
        parameters: &Parameters,
        keeps: bool,
    ) -> Result<Clause> {
        let (source, on) = (merge.source.clone(), merge.on.as_ref().clone());
        let from = match kind {
            MergeClauseKind::Matched => build::joined(target.source(), source, on),
            MergeClauseKind::NotMatchedBySource => build::without_partner(target.source(), source, on),
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                build::without_partner(source, target.source(), on)
            }
        };
        let inserts = kind == MergeClauseKind::NotMatched;
        let found = |items: Vec<SelectItem>| selected::query(items, vec![from], condition);
        match Action::new(&clause.action) {
            Action::InsertDefaults if inserts => {
                let query = found(given_values(target, &[], &[])?)?;
                self.rows_for(target, query, parameters).map(Clause::Inserts)
            }
            Action::Insert(insert) if inserts => {
                let MergeInsertKind::Values(values) = &insert.kind else {
                    return Err(Error::unsupported("INSERT ROW is not supported; list the values"));
                };
                refuse_predicate(insert.insert_predicate.as_ref())?;
                match values.rows.as_slice() {
                    [row] => {
                        let values = inserted_values(target, &insert.columns, row)?;
                        self.compiler.check_values(row.as_slice())?;
                        self.rows_for(target, found(values)?, parameters).map(Clause::Inserts)
                    }
                    _ => Err(Error::new(ErrorKind::Syntax, "MERGE inserts one row of VALUES for each row")),
                }
            }
            Action::Update(update) if !inserts => {
                refuse_predicate(update.update_predicate.as_ref().or(update.delete_predicate.as_ref()))?;
                let assigned = self.assigned(target, &update.assignments)?;
                let changed = self.changed_rows(found(assigned.items(target))?, parameters, true)?;
                let (positions, found) = (changed.positions.clone(), changed.found);
                let updated = self.updated_rows(target, &assigned, changed)?;
                let assigned = assigned.columns(target);
                Ok(Clause::Updates { updated, positions, assigned, found })
            }
            Action::Delete if !inserts => {
                let mut items = vec![build::item(target.position())];
                if keeps {
                    items.extend(target.own_columns());
                }
                Ok(Clause::Deletes(self.changed_rows(found(items)?, parameters, keeps)?))
            }
            _ => Err(Error::new(
                ErrorKind::Syntax,
                format!(
                    "WHEN {kind} THEN {}: rows that are matched are updated or deleted, others inserted",
                    clause.action
                ),
            )),
        }
    }

    /// Returns the rows that a query gives, as rows of a table.
    fn rows_for(&self, target: &Target, query: Query, parameters: &Parameters) -> Result<Vec<RecordBatch>> {
        let (_, batches) = self.queries.rows(query, parameters)?;
        self.as_rows_of(target, batches)
    }
}

/// Returns the rows whose key, without NULLs, no earlier row that was taken has.
fn first_of_keys(
    names: &[String],
    keys: &[Vec<String>],
    rows: &[RecordBatch],
) -> std::result::Result<Vec<RecordBatch>, ArrowError> {
    let Some(first) = rows.first() else { return Ok(Vec::new()) };
    let places = |key: &Vec<String>| -> Vec<usize> {
        key.iter().filter_map(|column| names.iter().position(|name| name == column)).collect()
    };
    let mut known = Vec::with_capacity(keys.len());
    for places in keys.iter().map(places) {
        let types = places.iter().map(|place| SortField::new(first.column(*place).data_type().clone()));
        known.push((RowConverter::new(types.collect())?, places, HashSet::new()));
    }
    let mut taken = Vec::with_capacity(rows.len());
    for batch in rows {
        let mut encoded = Vec::with_capacity(known.len());
        for (converter, places, _) in &known {
            let columns: Vec<ArrayRef> = places.iter().map(|place| batch.column(*place).clone()).collect();
            let rows = converter.convert_columns(&columns)?;
            encoded.push((rows, move |row| columns.iter().any(|column| column.is_null(row))));
        }
        let mask: BooleanArray = (0..batch.num_rows())
            .map(|row| {
                let of_key = encoded.iter().zip(&mut known);
                let own: Vec<_> = of_key
                    .filter(|((_, has_null), _)| !has_null(row))
                    .map(|((rows, _), (_, _, found))| (rows.row(row).as_ref().to_vec(), found))
                    .collect();
                let is_new = own.iter().all(|(key, found)| !found.contains(key));
                if is_new {
                    for (key, found) in own {
                        found.insert(key);
                    }
                }
                Some(is_new)
            })
            .collect();
        taken.push(filter_record_batch(batch, &mask)?);
    }
    Ok(taken)
}

fn kind_of(clause: &MergeClause) -> MergeClauseKind {
    match clause.clause_kind {
        MergeClauseKind::NotMatchedByTarget => MergeClauseKind::NotMatched,
        other => other,
    }
}

/// Refuses a clause behind one of its kind that has no condition: it would never be carried out.
fn refuse_unreachable(clauses: &[MergeClause]) -> Result<()> {
    let mut decided: Vec<MergeClauseKind> = Vec::new();
    for clause in clauses {
        let kind = kind_of(clause);
        if decided.contains(&kind) {
            let message = "a WHEN clause behind one of its kind without a condition is never carried out";
            return Err(Error::new(ErrorKind::Syntax, message));
        }
        if clause.predicate.is_none() {
            decided.push(kind);
        }
    }
    Ok(())
}

fn changed_twice(why: &str) -> Error {
    Error::invalid_input(format!("a row would be changed twice: {why}")).with_sqlstate("21000")
}

/// Returns the columns of the keys that a conflict is about.
fn keys(target: &Target, conflict: &OnConflict) -> Result<Vec<Vec<String>>> {
    let entry = target.data.entry();
    let names = |columns: &[hypostyle_types::ColumnId]| -> Vec<String> {
        columns.iter().filter_map(|id| entry.column_by_id(*id)).map(|column| column.name.clone()).collect()
    };
    let all = entry
        .constraints
        .iter()
        .filter_map(|constraint| Some((&constraint.name, names(constraint.rule.key()?))));
    let chosen: Vec<Vec<String>> = match &conflict.conflict_target {
        None => all.map(|(_, key)| key).collect(),
        Some(ConflictTarget::Columns(columns)) => {
            let meant = |name: &Ident| -> Result<String> {
                let name = fold(name);
                let column = entry.column_meant(&name).ok_or_else(|| unknown_column(entry, &name))?;
                Ok(column.name.clone())
            };
            let mut wanted = columns.iter().map(meant).collect::<Result<Vec<String>>>()?;
            wanted.sort();
            let same = |key: &Vec<String>| {
                let mut key = key.clone();
                key.sort();
                key == wanted
            };
            all.map(|(_, key)| key).filter(same).collect()
        }
        Some(ConflictTarget::OnConstraint(name)) => {
            let wanted = last_of(name)?;
            if entry.constraints.iter().all(|constraint| constraint.name != wanted) {
                return Err(unknown_constraint(entry, &wanted));
            }
            all.filter(|(name, _)| **name == wanted).map(|(_, key)| key).collect()
        }
    };
    let any = conflict.conflict_target.is_none() && matches!(conflict.action, OnConflictAction::DoNothing);
    if chosen.is_empty() && !any {
        return Err(Error::invalid_input(format!(
            "table \"{}\" has no PRIMARY KEY or UNIQUE constraint that matches the ON CONFLICT target",
            target.name
        ))
        .with_sqlstate("42P10"));
    }
    Ok(chosen)
}

/// A key that a conflict is about.
struct Key {
    columns: Vec<String>,
    /// More conditions that all rows of the target meet which have a key of the incoming rows.
    within: Vec<Expr>,
}

impl Key {
    /// Returns its columns by their names alone.
    fn named(&self) -> Vec<Expr> {
        self.columns.iter().map(|column| build::column(column)).collect()
    }
}

/// Returns the condition that the target's row has the key of another.
fn matches(target: &Target, key: &Key, other: &str) -> Expr {
    let same = key
        .columns
        .iter()
        .map(|column| build::equal(target.column_of_row(column), build::column_of(other, column)));
    build::all_of(same.chain(key.within.iter().cloned())).unwrap_or_else(|| build::truth(true))
}

/// Returns the condition that no row of the target has the key of an incoming one.
fn is_free(target: &Target, key: &Key) -> Expr {
    let from = vec![build::alone(target.source())];
    let condition = matches(target, key, ROW);
    build::not_exists(build::select_where(vec![build::item(build::number(1))], from, Some(condition)))
}

/// Returns the columns of an incoming row, as items of SELECT.
fn row_of(target: &Target) -> Vec<SelectItem> {
    target.names().map(|name| build::item(build::column_of(ROW, name))).collect()
}

fn numbered(rows: Vec<RecordBatch>) -> Result<MemTable> {
    let Some(first) = rows.first() else {
        return Err(Error::internal("an INSERT without a batch"));
    };
    let mut fields: Vec<Field> = first.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new(NUMBER, DataType::UInt64, false));
    let schema = Arc::new(Schema::new(fields));
    let mut start = 0;
    let mut batches = Vec::new();
    for batch in rows {
        let end = start + batch.num_rows() as u64;
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_iter_values(start..end)) as ArrayRef);
        start = end;
        batches.push(
            RecordBatch::try_new(schema.clone(), columns).map_err(|error| from_datafusion(error.into()))?,
        );
    }
    MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)
}

fn refuse_predicate(predicate: Option<&Expr>) -> Result<()> {
    match predicate {
        None => Ok(()),
        Some(_) => Err(Error::unsupported(
            "WHERE within a clause of MERGE is not supported; write WHEN … AND condition THEN",
        )),
    }
}

fn inserted_values(target: &Target, columns: &[ObjectName], row: &[Expr]) -> Result<Vec<SelectItem>> {
    let places: Vec<usize> = match columns.is_empty() {
        // The first columns get values, as of INSERT.
        true => (0..target.names().count()).take(row.len()).collect(),
        false => target.given_columns(columns)?,
    };
    if places.len() != row.len() {
        return Err(Error::new(
            ErrorKind::Syntax,
            format!("{}, but {}", counted(places.len(), "column"), counted(row.len(), "value")),
        ));
    }
    given_values(target, &places, row)
}

/// Returns a row with values at some places, and defaults at the others, as items of SELECT.
fn given_values(target: &Target, places: &[usize], row: &[Expr]) -> Result<Vec<SelectItem>> {
    let item = |(column, name): (usize, &str)| {
        let given = places.iter().position(|place| *place == column).map(|place| &row[place]);
        Ok(build::item_named(value_or_default(target, column, given)?, name))
    };
    target.names().enumerate().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::constraint::constrain;
    use crate::statement::test_queries::{Alone, numbers, table_of_numbers};
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;
    use hypostyle_catalog::scope::OWN_DATABASE;
    use hypostyle_storage::{ConstraintEntry, ConstraintRule};

    /// Returns a table (a, b), of which so many columns are keys, as INSERT … ON CONFLICT writes to it.
    fn target(alone: &Alone, keys: usize) -> Target {
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], |table| {
            for place in 0..keys {
                let columns = vec![table.columns[place].id];
                let rule = ConstraintRule::Unique { columns };
                constrain(table, ConstraintEntry::new(format!("key{place}"), rule));
            }
        });
        let snapshot = transaction.snapshot().unwrap();
        Target::new(&alone.scope, OWN_DATABASE, &snapshot, snapshot.table_by_id(id).unwrap(), "t")
    }

    fn conflict(target: Option<ConflictTarget>, action: OnConflictAction) -> OnConflict {
        OnConflict { conflict_target: target, action }
    }

    fn do_update() -> OnConflictAction {
        OnConflictAction::DoUpdate(DoUpdate { assignments: Vec::new(), selection: None })
    }

    fn on_conflict(alone: &Alone, target: &Target, conflict: &OnConflict) -> Result<Changes> {
        let rows = vec![numbers(&[("a", &[1]), ("b", &[1])], &[])];
        alone.writer().on_conflict(target, conflict, rows, &Parameters::None)
    }

    #[test]
    fn rows_whose_key_is_free_are_inserted() {
        let alone = Alone::new();
        let target = target(&alone, 1);
        alone.find([numbers(&[("a", &[1, 2]), ("b", &[5, 6])], &[])]);
        let changes = on_conflict(&alone, &target, &conflict(None, OnConflictAction::DoNothing)).unwrap();
        assert_eq!(changes.count, 2);
        assert!(changes.modification.deleted.is_empty() && changes.modification.updated.is_empty());
        let asked = alone.asked();
        assert!(asked.len() == 1 && asked[0].contains("NOT EXISTS"), "{asked:?}");
    }

    #[test]
    fn a_row_that_is_not_taken_stands_in_the_way_of_none() {
        let alone = Alone::new();
        let target = target(&alone, 2);
        // The second has the first one's a, the third the second one's b.
        alone.find([numbers(&[("a", &[1, 1, 2, 3]), ("b", &[1, 2, 2, 2])], &[])]);
        let changes = on_conflict(&alone, &target, &conflict(None, OnConflictAction::DoNothing)).unwrap();
        assert_eq!(changes.count, 2);
        let [rows] = changes.modification.inserted.as_slice() else { panic!("not one batch") };
        assert_eq!(rows.column(0).as_primitive::<Int32Type>().values().to_vec(), [1, 2]);
    }

    #[test]
    fn no_row_is_updated_twice() {
        let alone = Alone::new();
        let target = target(&alone, 1);
        alone.find([numbers(&[("a", &[1])], &[])]);
        let error = on_conflict(&alone, &target, &conflict(None, do_update())).err().unwrap();
        assert_eq!(
            (error.sqlstate(), error.message()),
            ("21000", "a row would be changed twice: two of the new rows have the same key")
        );
    }

    #[test]
    fn a_conflict_is_about_a_key() {
        let alone = Alone::new();
        let (one, two) = (target(&alone, 1), target(&alone, 2));
        let of_b = Some(ConflictTarget::Columns(vec![Ident::new("b")]));
        let error = on_conflict(&alone, &one, &conflict(of_b, do_update())).err().unwrap();
        assert_eq!(
            (error.sqlstate(), error.message()),
            (
                "42P10",
                "table \"t\" has no PRIMARY KEY or UNIQUE constraint that matches the ON CONFLICT target"
            )
        );
        let error = on_conflict(&alone, &two, &conflict(None, do_update())).err().unwrap();
        assert_eq!(error.message(), "ON CONFLICT DO UPDATE needs a conflict target: (columns)");
        assert!(alone.asked().is_empty());
    }
}
