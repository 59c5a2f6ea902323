//! INSERT … ON CONFLICT and MERGE: queries that sort rows into those to insert, to update and to
//! delete.

use crate::session::{Outcome, Parameters, Session};
use crate::statement::constraint::LISTED_KEYS_MAX;
use crate::statement::dialect::parse;
use crate::statement::referential::Modification;
use crate::statement::refusal::refuse_output;
use crate::statement::returning::Returning;
use crate::statement::target::{ChangedRows, Target, value_or_default};
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
    OnConflict, OnConflictAction, OutputClause, TableFactor,
};
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_error::column_name::POSITION;
use hypostyle_error::{counted, from_datafusion};
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::merge_actions::Action;
use hypostyle_storage::ColumnEntry;
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

impl Session {
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
            let within = self.within(target, incoming, &proposed, &columns)?;
            Ok(Key { columns, within })
        });
        let keys = keys.collect::<Result<Vec<Key>>>()?;
        self.check_proposed(target.data.entry(), incoming)?;
        match &conflict.action {
            OnConflictAction::DoNothing => self.new_keys(target, incoming, &keys),
            OnConflictAction::DoUpdate(update) => {
                self.update_conflicts(target, incoming, &keys, update, parameters)
            }
        }
    }

    /// Returns what rows of a table of the cluster meet, too, that have a key of the incoming rows, so that
    /// its nodes need not send all keys.
    fn within(
        &self,
        target: &Target,
        incoming: &Given,
        rows: &[RecordBatch],
        key: &[String],
    ) -> Result<String> {
        if !target.is_of_cluster {
            return Ok(String::new());
        }
        let columns = target.columns();
        let named = columns.iter().map(|column| (column, quoted(&column.name)));
        let of_key: Vec<(&ColumnEntry, String)> = named.filter(|(_, name)| key.contains(name)).collect();
        let values = |column: &ColumnEntry| -> Result<Vec<ScalarValue>> {
            let place = columns.iter().position(|other| other.id == column.id).unwrap_or_default();
            let mut values = Vec::new();
            for rows in rows {
                for row in 0..rows.num_rows() {
                    let value = ScalarValue::try_from_array(rows.column(place), row);
                    values.push(value.map_err(from_datafusion)?);
                }
            }
            Ok(values)
        };
        let (alias, count) = (quoted(&target.alias), count_rows(rows));
        let conditions =
            self.conditions_of_keys(&alias, (incoming, count), &of_key, LISTED_KEYS_MAX, values)?;
        let conditions = conditions.unwrap_or_else(|| vec!["false".into()]);
        Ok(conditions.iter().map(|condition| format!(" AND {condition}")).collect())
    }

    /// Returns the first row of each key that is new.
    fn new_keys(&self, target: &Target, incoming: &Given, keys: &[Key]) -> Result<Changes> {
        if keys.len() > 1 {
            return self.new_of_several_keys(target, incoming, keys);
        }
        let columns: Vec<String> = target.names().map(|name| format!("{ROW}.{name}")).collect();
        let mut numbers = Vec::new();
        let mut conditions = vec!["true".to_string()];
        for (key, place) in keys.iter().zip(0..) {
            let place = quoted(&format!("__place{place}"));
            numbers.push(format!(
                ", row_number() OVER (PARTITION BY {} ORDER BY {}) AS {place}",
                key.columns.join(", "),
                quoted(NUMBER)
            ));
            let unknown: Vec<String> =
                key.columns.iter().map(|column| format!("OR {ROW}.{column} IS NULL")).collect();
            conditions.push(format!("({ROW}.{place} = 1 {})", unknown.join(" ")));
            conditions.push(format!(
                "NOT EXISTS (SELECT 1 FROM {} WHERE {})",
                target.source(),
                matches(target, key, ROW)
            ));
        }
        let sql = format!(
            "SELECT {} FROM (SELECT *{} FROM {incoming}) AS {ROW} WHERE {}",
            columns.join(", "),
            numbers.concat(),
            conditions.join(" AND ")
        );
        let rows = self.rows_for(target, &sql, &Parameters::None)?;
        let count = count_rows(&rows);
        Ok(Changes { modification: Modification { inserted: rows, ..Modification::default() }, count })
    }

    /// Returns the same of several keys, row by row: one that is not taken stands in the way of
    /// none.
    fn new_of_several_keys(&self, target: &Target, incoming: &Given, keys: &[Key]) -> Result<Changes> {
        let columns: Vec<String> = target.names().map(|name| format!("{ROW}.{name}")).collect();
        let free = keys.iter().map(|key| {
            format!("NOT EXISTS (SELECT 1 FROM {} WHERE {})", target.source(), matches(target, key, ROW))
        });
        let sql = format!(
            "SELECT {} FROM {incoming} AS {ROW} WHERE {} ORDER BY {ROW}.{}",
            columns.join(", "),
            free.collect::<Vec<_>>().join(" AND "),
            quoted(NUMBER)
        );
        let rows = self.rows_for(target, &sql, &Parameters::None)?;
        let names: Vec<String> = target.names().collect();
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
        let known: Vec<String> = key.columns.iter().map(|column| format!("{column} IS NOT NULL")).collect();
        let twice = format!(
            "SELECT 1 FROM {incoming} WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1",
            known.join(" AND "),
            key.columns.join(", ")
        );
        let (_, twice) = self.collect_rows(self.query(parse(&twice)?, &Parameters::None)?)?;
        if count_rows(&twice) > 0 {
            return Err(changed_twice("two of the new rows have the same key"));
        }
        let mut changes = self.new_keys(target, incoming, keys)?;
        let condition =
            update.selection.as_ref().map(|selection| format!(" WHERE {selection}")).unwrap_or_default();
        let assigned = self.assigned(target, &update.assignments)?;
        let sql = format!(
            "SELECT {} AS {}{} FROM {} JOIN {incoming} AS excluded ON {}{condition}",
            target.position(),
            quoted(POSITION),
            assigned.values,
            target.source(),
            matches(target, key, "excluded"),
        );
        let changed = self.changed_rows(&sql, parameters, true)?;
        changes.count += changed.positions.len();
        changes.modification.updated = self.updated_rows(target, &assigned, changed)?;
        changes.modification.assigned = assigned.columns(target);
        Ok(changes)
    }

    /// Runs MERGE. RETURNING gives the target's columns of the inserted and updated rows, and of
    /// the deleted rows as they were.
    pub(super) fn merge(&self, mut merge: Merge, parameters: &Parameters) -> Result<Outcome> {
        let returning = match merge.output.take() {
            Some(OutputClause::Returning { select_items, .. }) => Some(Returning::of_target(select_items)),
            other => refuse_output(other.as_ref()).map(|()| None)?,
        };
        let target = self.target_of(&merge.table)?;
        let given = self.given_source(&merge.source, merge.clauses.len(), parameters)?;
        if let Some((source, _)) = &given {
            merge.source = source.clone();
        }
        let (changes, deleted) = self.sort_source(&merge, &target, parameters, returning.is_some())?;
        self.write_returning(&target, returning, parameters, |writer| {
            self.modify(writer, target.id, &changes.modification)?;
            let rows = changes.modification.rows().into_iter().chain(deleted);
            Ok((rows.collect(), changes.count))
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
            TableFactor::Table { name, args: None, sample: None, .. } if self.table_of(name).is_some() => {
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
        let (schema, batches) = match self.query(parse(&format!("SELECT * FROM {source}"))?, parameters)? {
            Outcome::Stored(_) => return Ok(None),
            rows => self.collect_rows(rows)?,
        };
        let table = MemTable::try_new(schema, vec![batches]).map_err(from_datafusion)?;
        let given = self.scope.give(Relation::Rows { role: "source", rows: Arc::new(table) });
        Ok(Some((given.factor(Some(alias)), given)))
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
        let mut earlier: Vec<(MergeClauseKind, String)> = Vec::new();
        for clause in &merge.clauses {
            let kind = match clause.clause_kind {
                MergeClauseKind::NotMatchedByTarget => MergeClauseKind::NotMatched,
                other => other,
            };
            // The first clause that fits a row decides.
            let mut conditions: Vec<String> = earlier
                .iter()
                .filter(|(other, _)| *other == kind)
                .map(|(_, condition)| format!("NOT coalesce({condition}, false)"))
                .collect();
            let own =
                clause.predicate.as_ref().map_or("true".to_string(), |predicate| format!("({predicate})"));
            conditions.push(own.clone());
            earlier.push((kind, own));
            if Action::of(&clause.action) == Action::Nothing {
                continue;
            }
            let condition = conditions.join(" AND ");
            match self.merge_clause(merge, target, (clause, kind), &condition, parameters, keeps)? {
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
        condition: &str,
        parameters: &Parameters,
        keeps: bool,
    ) -> Result<Clause> {
        let (source, on) = (&merge.source, &merge.on);
        let from = match kind {
            MergeClauseKind::Matched => {
                format!("{} JOIN {source} ON {on} WHERE {condition}", target.source())
            }
            MergeClauseKind::NotMatchedBySource => {
                format!("{} LEFT ANTI JOIN {source} ON {on} WHERE {condition}", target.source())
            }
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                format!("{source} LEFT ANTI JOIN {} ON {on} WHERE {condition}", target.source())
            }
        };
        let inserts = kind == MergeClauseKind::NotMatched;
        let rows_of = |values: String| {
            self.rows_for(target, &format!("SELECT {values} FROM {from}"), parameters).map(Clause::Inserts)
        };
        match Action::of(&clause.action) {
            Action::InsertDefaults if inserts => rows_of(given_values(target, &[], &[])?),
            Action::Insert(insert) if inserts => {
                let MergeInsertKind::Values(values) = &insert.kind else {
                    return Err(Error::unsupported("INSERT ROW is not supported; list the values"));
                };
                refuse_predicate(insert.insert_predicate.as_ref())?;
                match values.rows.as_slice() {
                    [row] => {
                        let values = inserted_values(target, &insert.columns, row)?;
                        self.check_values(row.as_slice())?;
                        rows_of(values)
                    }
                    _ => Err(Error::new(ErrorKind::Syntax, "MERGE inserts one row of VALUES for each row")),
                }
            }
            Action::Update(update) if !inserts => {
                refuse_predicate(update.update_predicate.as_ref().or(update.delete_predicate.as_ref()))?;
                let assigned = self.assigned(target, &update.assignments)?;
                let (position, name) = (target.position(), quoted(POSITION));
                let sql = format!("SELECT {position} AS {name}{} FROM {from}", assigned.values);
                let changed = self.changed_rows(&sql, parameters, true)?;
                let (positions, found) = (changed.positions.clone(), changed.found);
                let updated = self.updated_rows(target, &assigned, changed)?;
                let assigned = assigned.columns(target);
                Ok(Clause::Updates { updated, positions, assigned, found })
            }
            Action::Delete if !inserts => {
                let columns = if keeps { target.own_columns() } else { String::new() };
                let sql = format!("SELECT {}{columns} FROM {from}", target.position());
                Ok(Clause::Deletes(self.changed_rows(&sql, parameters, keeps)?))
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
    fn rows_for(&self, target: &Target, sql: &str, parameters: &Parameters) -> Result<Vec<RecordBatch>> {
        let (_, batches) = self.collect_rows(self.query(parse(sql)?, parameters)?)?;
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

fn changed_twice(why: &str) -> Error {
    Error::invalid_input(format!("a row would be changed twice: {why}")).with_sqlstate("21000")
}

/// Returns the quoted columns of the keys that a conflict is about.
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
            let table = target.data.entry();
            let meant = |name: &Ident| {
                let name = fold(name);
                table.column_meant(&name).map_or(name, |column| column.name.clone())
            };
            let mut wanted: Vec<String> = columns.iter().map(meant).collect();
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
    Ok(chosen.iter().map(|key| key.iter().map(|column| quoted(column)).collect()).collect())
}

/// A key that a conflict is about.
struct Key {
    /// Its quoted columns.
    columns: Vec<String>,
    /// More conditions that all rows of the target meet which have a key of the incoming rows.
    within: String,
}

/// Returns the condition that the target's row has the key of another.
fn matches(target: &Target, key: &Key, other: &str) -> String {
    let alias = quoted(&target.alias);
    let pairs = key.columns.iter().map(|column| format!("{alias}.{column} = {other}.{column}"));
    pairs.collect::<Vec<_>>().join(" AND ") + &key.within
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

fn inserted_values(target: &Target, columns: &[ObjectName], row: &[Expr]) -> Result<String> {
    let places: Vec<usize> = match columns.is_empty() {
        true => (0..target.names().count()).collect(),
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

/// Returns a row with values at some places, and defaults at the others.
fn given_values(target: &Target, places: &[usize], row: &[Expr]) -> Result<String> {
    let values = (0..target.names().count()).map(|column| {
        let given = places.iter().position(|place| *place == column).map(|place| &row[place]);
        value_or_default(target, column, given)
    });
    Ok(with_names(target, values.collect::<Result<_>>()?))
}

fn with_names(target: &Target, values: Vec<String>) -> String {
    let named = values.iter().zip(target.names()).map(|(value, name)| format!("{value} AS {name}"));
    named.collect::<Vec<_>>().join(", ")
}
