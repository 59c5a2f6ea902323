//! Constraints: how a table gets them, and the queries that find the rows that break them.
//!
//! A statement's new rows are checked once they are staged, against all rows that its transaction
//! sees. Rows that it has only updated are checked for the keys that were assigned. The commit
//! compares their keys with those that others have committed meanwhile.

use crate::session::Session;
use crate::session::cluster::InCluster;
use crate::session::transaction::Deferrals;
use crate::statement::completion::mentions;
use crate::statement::given_rows::{given_rows, positions_and, published_rows, rows_from};
use crate::statement::key_lookup::{Shown, none_refers, shown_by_index, values_from};
use crate::statement::planned_parameters::literal;
use crate::statement::queries::Queries;
use crate::statement::refusal::refused_reference;
use crate::statement::violation::{
    GONE, KEY, NEW, OLD, called, columns_and_places, ends, first_that, first_with_partner, first_without_key,
    has_same_key, is_earlier, is_false, is_not_gone, lost_keys,
};
use arrow::array::{ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, Query};
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_catalog::scope::{Name, Scope};
use hypostyle_cluster::change::{Looked, Wanted};
use hypostyle_error::from_datafusion;
use hypostyle_expr::cast::texts_of_far_years;
use hypostyle_placement::catalog::Table;
use hypostyle_placement::partition::{KeyColumn, Kind};
use hypostyle_sql::build;
use hypostyle_storage::{
    Catalog, Changed, ColumnEntry, ConstraintEntry, ConstraintRule, Snapshot, TableData, TableEntry,
    Transaction,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use roaring::RoaringTreemap;
use std::sync::Arc;

/// The rows that are checked.
struct NewRows {
    /// The position of the first one; `None` for all rows.
    first: Option<u64>,
    of_statement: bool,
    /// The position of the first row that keys of theirs may also be those of.
    compared: Option<u64>,
}

/// Returns the foreign keys that refer to a table, with theirs.
pub(super) fn referring(
    catalog: &Catalog,
    id: TableId,
) -> impl Iterator<Item = (&TableEntry, &ConstraintEntry)> {
    let all = catalog.tables.iter().map(Arc::as_ref);
    let all = all.flat_map(|table| table.constraints.iter().map(move |constraint| (table, constraint)));
    all.filter(move |(_, constraint)| {
        matches!(constraint.rule, ConstraintRule::ForeignKey { table, .. } if table == id)
    })
}

fn columns_of<'a>(table: &'a TableEntry, ids: &[ColumnId]) -> Vec<&'a ColumnEntry> {
    ids.iter().filter_map(|id| table.column_by_id(*id)).collect()
}

fn column_names(table: &TableEntry, ids: &[ColumnId]) -> Vec<String> {
    columns_of(table, ids).into_iter().map(|column| column.name.clone()).collect()
}

/// Names and values of the first of some rows of a table.
fn shown(table: &TableEntry, rows: &RecordBatch, wanted: impl Fn(ColumnId) -> bool) -> String {
    let columns = table.columns.iter().zip(rows.columns()).filter(|(column, _)| wanted(column.id));
    let shown = columns.map(|(column, value)| format!("{} = {}", column.name, first_value(value)));
    shown.collect::<Vec<_>>().join(", ")
}

fn first_value(values: &ArrayRef) -> String {
    match values.is_null(0) {
        true => "NULL".into(),
        false => match texts_of_far_years(&values.slice(0, 1)) {
            Ok(Some(texts)) => texts.value(0).to_string(),
            _ => array_value_to_string(values, 0).unwrap_or_default(),
        },
    }
}

/// The key of the first row, as PostgreSQL tells which one is violated.
fn key_detail(table: &TableEntry, rows: &RecordBatch, key: &[ColumnId], how: &str) -> String {
    let place = |id: &ColumnId| table.columns.iter().position(|column| column.id == *id);
    let columns = key
        .iter()
        .filter_map(place)
        .map(|place| (table.columns[place].name.as_str(), first_value(rows.column(place))));
    let (names, values): (Vec<&str>, Vec<String>) = columns.unzip();
    format!("Key ({})=({}) {how}.", names.join(", "), values.join(", "))
}

/// The values of so many new keys are said to the nodes that look for them; of more, the least and the
/// greatest.
const LISTED_KEYS_MAX: u64 = 64;

/// So many keys that a statement takes away are said to the nodes at once, which look for rows that refer to
/// them: each time over all of their rows. For more than the second number, it costs less that the nodes say
/// which keys they have between the least and the greatest.
const LOST_KEYS_AT_ONCE: u64 = 4096;
const LOST_KEYS_MAX: u64 = 16 * LOST_KEYS_AT_ONCE;

const CONDITION_FALSE: &str = "the condition is false";

fn broken(constraint: &ConstraintEntry, table: &TableEntry, which: &str, row: &str, why: &str) -> Error {
    let (constraint, table) = (&constraint.name, &table.name);
    Error::new(
        ErrorKind::Constraint,
        format!("constraint \"{constraint}\" of table \"{table}\" is violated by {which}({row}): {why}"),
    )
}

/// Returns what a row says that refers by a RESTRICT to one which is to be deleted or to get
/// another key.
pub(super) fn restricted(
    table: &TableEntry,
    constraint: &ConstraintEntry,
    row: &RecordBatch,
    is_update: bool,
) -> Error {
    let columns = constraint.rule.columns();
    let row = shown(table, row, |column| columns.contains(&column));
    let why = match is_update {
        false => "ON DELETE RESTRICT keeps the row that it refers to",
        true => "ON UPDATE RESTRICT keeps the key that it refers to",
    };
    broken(constraint, table, "", &row, why).with_sqlstate("23001")
}

/// Says whether new rows may break a constraint of their table.
fn may_break(changed: &Changed, rule: &ConstraintRule) -> bool {
    match rule {
        // The result for an unchanged row may have changed with the time.
        ConstraintRule::Check { .. } => true,
        rule => changed.gives(rule.columns()),
    }
}

/// Returns the place of a constraint among those that a row may break: PostgreSQL tells the first one.
fn turn(rule: &ConstraintRule) -> u8 {
    match rule {
        ConstraintRule::Check { .. } => 0,
        ConstraintRule::PrimaryKey { .. } => 1,
        ConstraintRule::Unique { .. } => 2,
        ConstraintRule::ForeignKey { .. } => 3,
    }
}

/// Says whether rows may refer to a key by a constraint which is no more.
fn may_strand(changed: &Changed, rule: &ConstraintRule) -> bool {
    matches!(rule, ConstraintRule::ForeignKey { referred, .. } if changed.takes(referred))
}

/// What is said of a row that breaks a constraint.
struct Breach {
    columns: Vec<ColumnId>,
    sqlstate: &'static str,
    why: String,
    /// What the detail says of the key, if it is one of a key.
    how: Option<String>,
}

impl Breach {
    fn of_key(columns: &[ColumnId]) -> Self {
        let (why, how) = ("a row with that key exists".into(), Some("already exists".into()));
        Self { columns: columns.to_vec(), sqlstate: "23505", why, how }
    }

    fn of_reference(columns: &[ColumnId], other: &TableEntry) -> Self {
        let why = format!("table \"{}\" has no row with that key", other.name);
        let how = Some(format!("is not present in table \"{}\"", other.name));
        Self { columns: columns.to_vec(), sqlstate: "23503", why, how }
    }

    /// Returns the error for a row, whose last column is its position.
    fn error(
        self,
        table: &TableEntry,
        constraint: &ConstraintEntry,
        row: &RecordBatch,
        NewRows { first, of_statement, .. }: &NewRows,
    ) -> Error {
        let Self { columns, sqlstate, why, how } = self;
        let position = row.column(row.num_columns() - 1).as_primitive::<UInt64Type>().value(0);
        let shown = shown(table, row, |column| columns.is_empty() || columns.contains(&column));
        let which = match first {
            Some(first) if *of_statement => format!("row {} of the new rows, ", position - first + 1),
            _ => String::new(),
        };
        let error = broken(constraint, table, &which, &shown, &why).with_sqlstate(sqlstate);
        match how {
            Some(how) => error.with_detail(key_detail(table, row, &columns, &how)),
            None => error,
        }
    }
}

/// Makes any change of the tables a conflict: all of their rows are checked, not only new ones.
pub(super) fn guard(writer: &mut Transaction, id: TableId, constraint: &ConstraintEntry) {
    // A table that this transaction has created has no such rows.
    if writer.base().table_by_id(id).is_none() {
        return;
    }
    writer.guard(id);
    if let ConstraintRule::ForeignKey { table, .. } = &constraint.rule {
        writer.guard(*table);
    }
}

/// Gives a table a constraint, whose rows keep it.
pub(super) fn constrain(table: &mut TableEntry, entry: ConstraintEntry) {
    if let ConstraintRule::PrimaryKey { columns } = &entry.rule {
        for column in table.columns.iter_mut().filter(|column| columns.contains(&column.id)) {
            column.nullable = false;
        }
    }
    table.constraints.push(entry);
}

/// Says whether values of a kind are told to nodes one by one, and whether the least and the greatest are.
/// Others are not written exactly, or do not compare as they look: NaN, for example.
pub(super) fn told(kind: Kind) -> (bool, bool) {
    match kind {
        Kind::Exact | Kind::Date => (true, true),
        Kind::Text | Kind::Uuid => (true, false),
        Kind::Float
        | Kind::Boolean
        | Kind::Time
        | Kind::Timestamp
        | Kind::Instant
        | Kind::Duration
        | Kind::Bytes => (false, false),
    }
}

/// A query for rows, and what it reads.
struct Visible {
    query: Query,
    _given: Vec<Given>,
}

/// One side of a foreign key: a table, its number in the cluster, and the columns of the key.
type Side<'a> = (&'a TableData, TableId, &'a [ColumnId]);

impl Session {
    pub(super) fn checks(&self) -> Checks<'_> {
        Checks { queries: self, scope: &self.scope, cluster: self.in_cluster() }
    }
}

/// What finds the rows that break constraints, and which error they are: by queries, and by what is known of
/// tables of the cluster. It writes nothing.
#[derive(Clone, Copy)]
pub(super) struct Checks<'a> {
    pub queries: &'a dyn Queries,
    pub scope: &'a Arc<Scope>,
    pub cluster: InCluster<'a>,
}

impl Checks<'_> {
    /// Returns the table of the cluster whose rows a statement looks at that alters it, if it is one: those
    /// that are published. Nobody may add others until the statement is.
    ///
    /// # Errors
    /// `Unsupported` if the statement has given it other columns, which no row has yet; those of
    /// `InCluster::check_found`.
    pub(super) fn looks_at_rows(&self, writer: &Transaction, id: TableId) -> Result<Option<TableId>> {
        let Some(of_cluster) = self.cluster.cluster_table_of(writer, id) else { return Ok(None) };
        let (before, now) = (writer.base().catalog().table_by_id(id), writer.catalog().table_by_id(id));
        let is_same = before.zip(now).is_some_and(|(before, now)| {
            let columns = |table: &TableEntry| -> Vec<(String, bool, LogicalType)> {
                let all = table.columns.iter();
                all.map(|column| (column.name.clone(), column.nullable, column.logical_type.clone()))
                    .collect()
            };
            (&before.schema, &before.name) == (&now.schema, &now.name) && columns(before) == columns(now)
        });
        if !is_same {
            return Err(Error::unsupported(
                "a table of the cluster gets a constraint, NOT NULL or another type by a statement that has not changed its \
                 columns or its name: ALTER TABLE twice",
            ));
        }
        self.cluster.check_found(of_cluster)?;
        self.cluster.run.lock().cluster.note_free_keys(of_cluster);
        Ok(Some(of_cluster))
    }

    /// Checks that all published rows of a table of the cluster keep a constraint.
    ///
    /// # Errors
    /// `Constraint`, naming the constraint and a row.
    pub(super) fn check_published(
        &self,
        writer: &Transaction,
        (table, of_cluster): (&TableEntry, TableId),
        constraint: &ConstraintEntry,
    ) -> Result<()> {
        let rows = published_rows(self.scope, writer, table, None)?;
        let columns = match &constraint.rule {
            ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => columns,
            ConstraintRule::ForeignKey { columns, table: other, referred, .. } => {
                let other = writer.catalog().table_by_id(*other).cloned().ok_or_else(refused_reference)?;
                let of_other =
                    self.cluster.cluster_table_of(writer, other.id).ok_or_else(refused_reference)?;
                self.cluster.check_found(of_other)?;
                let looked = Looked { table: of_other, what: Wanted::Keys, together: false };
                self.cluster.run.lock().cluster.note_looked(of_cluster, looked);
                let (ours, theirs) = (column_names(table, columns), column_names(&other, referred));
                let keys = published_rows(self.scope, writer, &other, None)?;
                let query = first_without_key(called(&rows, NEW), &ours, called(&keys, KEY), &theirs);
                let Some(row) = self.queries.first_row(query)? else { return Ok(()) };
                let rows = NewRows { first: None, of_statement: true, compared: None };
                return Err(Breach::of_reference(columns, &other).error(table, constraint, &row, &rows));
            }
            ConstraintRule::Check { sql } => {
                let query = first_that(called(&rows, NEW), is_false(sql)?);
                let Some(row) = self.queries.first_row(query)? else { return Ok(()) };
                let shown = shown(table, &row, |_| true);
                return Err(broken(constraint, table, "", &shown, CONDITION_FALSE).with_sqlstate("23514"));
            }
        };
        let key = columns_of(table, columns).into_iter().map(|column| build::column(&column.name));
        let query = build::repeated_key(called(&rows, NEW), key.collect());
        let Some(row) = self.queries.first_row(query)? else { return Ok(()) };
        let names = columns.iter().filter_map(|id| table.column_by_id(*id)).map(|column| &column.name);
        let values = names.zip(row.columns()).map(|(name, value)| format!("{name} = {}", first_value(value)));
        let shown = values.collect::<Vec<_>>().join(", ");
        Err(broken(constraint, table, "", &shown, "several rows have that key").with_sqlstate("23505"))
    }

    pub(super) fn check_not_null(&self, database: &str, table: &TableEntry, column: &str) -> Result<()> {
        let rows = rows_from(self.scope, database, table, 0);
        let query = first_that(called(&rows, NEW), build::is_null(build::column_of(NEW, column)));
        let Some(row) = self.queries.first_row(query)? else { return Ok(()) };
        let shown = shown(table, &row, |_| true);
        Err(Error::new(
            ErrorKind::Constraint,
            format!(
                "column \"{column}\" of table \"{}\" cannot be NOT NULL: it has NULLs, as in ({shown})",
                table.name
            ),
        )
        .with_sqlstate("23502"))
    }

    /// Checks the constraints that a statement's changes may have broken.
    ///
    /// # Errors
    /// `Constraint`, naming the constraint, the row and its values.
    pub(super) fn check_constraints(
        &self,
        writer: &mut Transaction,
        mut deferrals: Option<&mut Deferrals>,
    ) -> Result<()> {
        let changed = writer.take_changed();
        let mut checks = Vec::new();
        for (id, changed) in &changed {
            if let (Some(first), Some(table)) = (changed.first_new, writer.catalog().table_by_id(*id)) {
                let own = table.constraints.iter().filter(|constraint| may_break(changed, &constraint.rule));
                let mut own: Vec<&ConstraintEntry> = own.collect();
                own.sort_by_key(|constraint| turn(&constraint.rule));
                checks.extend(own.into_iter().map(|constraint| (*id, constraint.clone(), Some(first))));
            }
            let others = referring(writer.catalog(), *id);
            let others = others.filter(|(_, constraint)| may_strand(changed, &constraint.rule));
            checks.extend(others.map(|(table, constraint)| (table.id, constraint.clone(), None)));
        }
        if let Some(deferrals) = &mut deferrals {
            let database = self.scope.name_of(writer.database())?;
            checks.retain(|(id, constraint, first)| {
                !deferrals.put_off(writer.catalog(), &database, *id, constraint, *first)
            });
        }
        if checks.is_empty() {
            return Ok(());
        }
        with_view_of(self.scope, writer, |writer, snapshot| {
            checks.into_iter().try_for_each(|(id, constraint, first)| {
                let proceed = || self.queries.proceed();
                // The node has no rows of tables of the cluster that show it.
                let is_kept = first.is_none()
                    && self.cluster.cluster_table_of(writer, id).is_none()
                    && none_refers(snapshot, id, &constraint.rule, &changed, &proceed)?;
                match is_kept {
                    true => Ok(()),
                    false => self.check_new(writer, snapshot, id, &constraint, first, true),
                }
            })
        })
    }

    /// Checks what constraints say of a column, all of whose values are new.
    pub(super) fn check_column(&self, writer: &mut Transaction, id: TableId, column: ColumnId) -> Result<()> {
        with_view_of(self.scope, writer, |writer, snapshot| {
            for table in snapshot.tables() {
                let entry = table.entry();
                let is_own = entry.id == id;
                let name = entry.column_by_id(column).map(|column| column.name.as_str());
                let concerned = |rule: &ConstraintRule| match rule {
                    ConstraintRule::Check { sql } => is_own && name.is_some_and(|name| mentions(sql, name)),
                    ConstraintRule::ForeignKey { table, referred, .. }
                        if *table == id && referred.contains(&column) =>
                    {
                        true
                    }
                    rule => is_own && rule.columns().contains(&column),
                };
                for constraint in entry.constraints.iter().filter(|constraint| concerned(&constraint.rule)) {
                    guard(writer, entry.id, constraint);
                    self.check_new(writer, snapshot, entry.id, constraint, None, true)?;
                }
            }
            Ok(())
        })
    }

    /// Checks what rows that may find theirs there already must be in any case: their conditions,
    /// and no NULLs where there are to be none. The last column of `rows` numbers them.
    ///
    /// # Errors
    /// `Constraint`, as [`Self::check_constraints`].
    pub(super) fn check_proposed(&self, table: &TableEntry, rows: &Given) -> Result<()> {
        let first = |condition: Expr| -> Result<Option<(u64, String)>> {
            let query = first_that(called(rows, NEW), condition);
            let numbered = |row: RecordBatch| {
                let before = row.column(row.num_columns() - 1).as_primitive::<UInt64Type>().value(0);
                (before + 1, shown(table, &row, |_| true))
            };
            Ok(self.queries.first_row(query)?.map(numbered))
        };
        for column in table.columns.iter().filter(|column| !column.nullable) {
            if let Some((number, _)) = first(build::is_null(build::column(&column.name)))? {
                let (name, table) = (&column.name, &table.name);
                let message =
                    format!("column \"{name}\" of table \"{table}\" is NOT NULL, but row {number} is NULL");
                return Err(Error::new(ErrorKind::Constraint, message).with_sqlstate("23502"));
            }
        }
        for constraint in &table.constraints {
            if let ConstraintRule::Check { sql } = &constraint.rule
                && let Some((number, row)) = first(is_false(sql)?)?
            {
                let which = format!("row {number} of the new rows, ");
                return Err(broken(constraint, table, &which, &row, CONDITION_FALSE).with_sqlstate("23514"));
            }
        }
        Ok(())
    }

    /// Checks the rows of a table from the position of the first new one on, or all. Those of one
    /// statement are counted.
    pub(super) fn check_new(
        &self,
        writer: &mut Transaction,
        snapshot: &Snapshot,
        id: TableId,
        constraint: &ConstraintEntry,
        first: Option<u64>,
        of_statement: bool,
    ) -> Result<()> {
        let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
        if let Some(of_cluster) = self.cluster.cluster_table_of(writer, id) {
            let rows = NewRows { first, of_statement, compared: None };
            if matches!(constraint.rule, ConstraintRule::ForeignKey { .. }) {
                return self.check_reference_in_cluster(
                    writer,
                    snapshot,
                    (table, of_cluster),
                    constraint,
                    &rows,
                );
            }
            // The node has none of its rows but new ones.
            if table.positions() <= first.unwrap_or(0) {
                return Ok(());
            }
            self.check_published_keys(writer, (table, of_cluster), constraint, &rows)?;
        }
        if table.positions() == 0 {
            return Ok(());
        }
        let proceed = || self.queries.proceed();
        let shown = match first {
            Some(first) => shown_by_index(writer, snapshot, table, &constraint.rule, first, &proceed)?,
            None => Shown::Nothing,
        };
        let rows = match shown {
            Shown::Kept => return Ok(()),
            Shown::KeptBefore(compared) => NewRows { first, of_statement, compared: Some(compared) },
            Shown::Nothing => NewRows { first, of_statement, compared: None },
        };
        self.check_by_query(writer, snapshot, table.entry(), constraint, &rows)
    }

    /// Gives queries the rows that a database has of a table, from a position on, with their positions: of
    /// one of the cluster those that the transaction has appended.
    fn own_rows_from(&self, writer: &Transaction, table: &TableEntry, first: u64) -> Result<Given> {
        let database = self.scope.name_of(writer.database())?;
        if self.cluster.cluster_table_of(writer, table.id).is_none() {
            return Ok(rows_from(self.scope, &database, table, first));
        }
        let table = Name::new(&database, &table.schema, &table.name);
        Ok(self.scope.give(Relation::Staged { table, first }))
    }

    /// Checks that no row of a table of the cluster has a key of the new rows, as far as they are
    /// published, but for those that the transaction deletes. If others add rows before the statement is
    /// published, it is refused then.
    fn check_published_keys(
        &self,
        writer: &Transaction,
        (table, of_cluster): (&TableData, TableId),
        constraint: &ConstraintEntry,
        rows: &NewRows,
    ) -> Result<()> {
        let (Some(key), first) = (constraint.rule.key(), rows.first.unwrap_or(0)) else { return Ok(()) };
        self.cluster.check_found(of_cluster)?;
        let deleted = self.cluster.run.lock().cluster.deleted_of(of_cluster);
        let seen = self.scope.catalog_of_cluster();
        let there = seen.as_ref().and_then(|seen| seen.table(of_cluster)).map(Table::rows);
        // After TRUNCATE, too, no row is left that has a key; a list of all would be as long as the table.
        if self.cluster.is_sent_again(of_cluster) || there == Some(deleted.len()) {
            self.cluster.run.lock().cluster.note_free_keys(of_cluster);
            return Ok(());
        }
        let entry = table.entry();
        let new = self.own_rows_from(writer, entry, first)?;
        let published = published_rows(self.scope, writer, entry, None)?;
        let of_key: Vec<(&ColumnEntry, String)> =
            columns_of(entry, key).into_iter().map(|column| (column, column.name.clone())).collect();
        let values = |column: &ColumnEntry| values_from(table, column.id, first);
        let count = table.positions() - first;
        let Some(mut conditions) =
            self.conditions_of_keys(OLD, (&new, count), &of_key, LISTED_KEYS_MAX, values)?
        else {
            return Ok(());
        };
        let columns = column_names(entry, key);
        let gone = self.gone(of_cluster)?;
        conditions.extend(gone.as_ref().map(|gone| is_not_gone(called(gone, GONE))));
        let (rows_new, rows_old) = (called(&new, NEW), called(&published, OLD));
        let is_same = has_same_key(NEW, &columns, OLD, &columns);
        let query = first_with_partner(rows_new, rows_old, is_same, conditions);
        self.cluster.run.lock().cluster.note_free_keys(of_cluster);
        match self.queries.first_row(query)? {
            Some(row) => Err(Breach::of_key(key).error(entry, constraint, &row, rows)),
            None => Ok(()),
        }
    }

    /// Gives queries the places of the rows that the transaction deletes of a table of the cluster, if there
    /// are any.
    fn gone(&self, of_cluster: TableId) -> Result<Option<Given>> {
        let deleted = self.cluster.run.lock().cluster.deleted_of(of_cluster);
        if deleted.is_empty() {
            return Ok(None);
        }
        let places = UInt64Array::from_iter_values(deleted.iter());
        given_rows(self.scope, "gone", vec![positions_and(places, Vec::new())?]).map(Some)
    }

    /// Gives queries the rows of a table of the cluster that meet some conditions, as the transaction sees
    /// them: published ones that it does not delete, and its own. Their places are the last column.
    fn seen_in_cluster(
        &self,
        writer: &Transaction,
        (table, of_cluster): (&TableData, TableId),
        columns: &[String],
        mut conditions: Vec<Expr>,
    ) -> Result<Visible> {
        let entry = table.entry();
        let (published, gone) = (published_rows(self.scope, writer, entry, None)?, self.gone(of_cluster)?);
        let own = (table.positions() > 0).then(|| self.own_rows_from(writer, entry, 0)).transpose()?;
        let of_own =
            own.as_ref().map(|own| columns_and_places(called(own, OLD), columns, conditions.clone()));
        conditions.extend(gone.as_ref().map(|gone| is_not_gone(called(gone, GONE))));
        let others = columns_and_places(called(&published, OLD), columns, conditions);
        let query = match of_own {
            Some(own) => build::union_all(others, own),
            None => others,
        };
        Ok(Visible { query, _given: [Some(published), own, gone].into_iter().flatten().collect() })
    }

    /// Checks a foreign key of a table of the cluster: that the keys are there to which new rows refer, or,
    /// if there are none, that no row refers to one that the transaction takes away. What others change
    /// since is compared when the statement is published.
    fn check_reference_in_cluster(
        &self,
        writer: &Transaction,
        snapshot: &Snapshot,
        (table, of_cluster): (&TableData, TableId),
        constraint: &ConstraintEntry,
        rows: &NewRows,
    ) -> Result<()> {
        let ConstraintRule::ForeignKey { columns, table: other, referred, .. } = &constraint.rule else {
            return Ok(());
        };
        let other = snapshot.table_by_id(*other).ok_or_else(refused_reference)?;
        let of_other =
            self.cluster.cluster_table_of(writer, other.entry().id).ok_or_else(refused_reference)?;
        let found = match rows.first {
            Some(first) => {
                self.without_key(writer, (table, of_cluster, columns), (other, of_other, referred), first)
            }
            None => {
                match self.left_behind(writer, (table, of_cluster, columns), (other, of_other, referred))? {
                    // Nothing but rows of the transaction refers to those that it has appended and deleted.
                    None if !other.deleted().is_empty() => {
                        self.without_key(writer, (table, of_cluster, columns), (other, of_other, referred), 0)
                    }
                    found => Ok(found),
                }
            }
        };
        match found? {
            Some(row) => {
                Err(Breach::of_reference(columns, other.entry()).error(table.entry(), constraint, &row, rows))
            }
            None => Ok(()),
        }
    }

    /// Returns a new row of a table of the cluster that refers to a key which is not there.
    fn without_key(
        &self,
        writer: &Transaction,
        (table, of_cluster, columns): Side<'_>,
        (other, of_other, referred): Side<'_>,
        first: u64,
    ) -> Result<Option<RecordBatch>> {
        self.cluster.check_found(of_other)?;
        let count = table.positions().saturating_sub(first);
        if count == 0 || self.cluster.is_sent_again(of_cluster) {
            return Ok(None);
        }
        let (ours, theirs) = (column_names(table.entry(), columns), column_names(other.entry(), referred));
        let new = self.own_rows_from(writer, table.entry(), first)?;
        let pairs: Vec<(&ColumnEntry, String)> =
            columns_of(table.entry(), columns).into_iter().zip(theirs.iter().cloned()).collect();
        let values = |column: &ColumnEntry| values_from(table, column.id, first);
        // Rows with a NULL refer to nothing.
        let Some(conditions) =
            self.conditions_of_keys(OLD, (&new, count), &pairs, LISTED_KEYS_MAX, values)?
        else {
            return Ok(None);
        };
        let Visible { query, _given } =
            self.seen_in_cluster(writer, (other, of_other), &theirs, conditions)?;
        let together = are_together(
            self.scope,
            (table.entry(), of_cluster, columns),
            (other.entry(), of_other, referred),
        );
        let looked = Looked { table: of_other, what: Wanted::Keys, together };
        self.cluster.run.lock().cluster.note_looked(of_cluster, looked);
        let there = build::derived(query, build::name(KEY));
        self.queries.first_row(first_without_key(called(&new, NEW), &ours, there, &theirs))
    }

    /// Returns a row of a table of the cluster that refers to a key which the transaction takes away from
    /// another one.
    fn left_behind(
        &self,
        writer: &Transaction,
        (table, of_cluster, columns): Side<'_>,
        (other, of_other, referred): Side<'_>,
    ) -> Result<Option<RecordBatch>> {
        let places = self.cluster.run.lock().cluster.deleted_of(of_other);
        if places.is_empty() {
            return Ok(None);
        }
        self.cluster.check_found(of_cluster)?;
        if self.cluster.is_sent_again(of_other) {
            return Ok(None);
        }
        let together = are_together(
            self.scope,
            (table.entry(), of_cluster, columns),
            (other.entry(), of_other, referred),
        );
        let looked = Looked { table: of_cluster, what: Wanted::References, together };
        self.cluster.run.lock().cluster.note_looked(of_other, looked);
        // What nodes cannot be told is looked for at once.
        let is_told = |column: &ColumnEntry| Kind::of(&column.logical_type).is_some_and(|kind| told(kind).0);
        let are_told = columns_of(other.entry(), referred).into_iter().any(is_told);
        let at_once = match are_told && places.len() <= LOST_KEYS_MAX {
            true => usize::try_from(LOST_KEYS_AT_ONCE).unwrap_or(usize::MAX),
            false => usize::MAX,
        };
        let mut places = places.into_iter();
        loop {
            let some: RoaringTreemap = places.by_ref().take(at_once).collect();
            if some.is_empty() {
                return Ok(None);
            }
            let row =
                self.refers_to(writer, (table, of_cluster, columns), (other, of_other, referred), some)?;
            if row.is_some() {
                return Ok(row);
            }
        }
    }

    /// Returns a row of a table of the cluster that refers to a key of the rows at some places of another
    /// one, which the transaction takes away.
    fn refers_to(
        &self,
        writer: &Transaction,
        (table, of_cluster, columns): Side<'_>,
        (other, _, referred): Side<'_>,
        places: RoaringTreemap,
    ) -> Result<Option<RecordBatch>> {
        let (ours, theirs) = (column_names(table.entry(), columns), column_names(other.entry(), referred));
        // No other published row has a key of theirs.
        let gone = published_rows(self.scope, writer, other.entry(), Some(places))?;
        let own = self.own_rows_from(writer, other.entry(), 0)?;
        let lost = self.queries.rows_of_query(lost_keys(called(&gone, OLD), called(&own, KEY), &theirs))?;
        let count: u64 = lost.iter().map(|rows| rows.num_rows() as u64).sum();
        if count == 0 {
            return Ok(None);
        }
        let keys = given_rows(self.scope, "keys", lost.clone())?;
        let of_key = columns_of(other.entry(), referred);
        let values = |column: &ColumnEntry| -> Result<Vec<ScalarValue>> {
            let place = of_key.iter().position(|of| of.id == column.id).unwrap_or_default();
            let all = lost.iter().flat_map(|rows| {
                let values = rows.column(place);
                (0..values.len()).map(move |row| ScalarValue::try_from_array(values, row))
            });
            all.map(|value| value.map_err(from_datafusion)).collect()
        };
        let pairs: Vec<(&ColumnEntry, String)> = of_key.iter().copied().zip(ours.iter().cloned()).collect();
        let most = LOST_KEYS_AT_ONCE;
        let Some(conditions) = self.conditions_of_keys(OLD, (&keys, count), &pairs, most, values)? else {
            return Ok(None);
        };
        let all: Vec<String> = table.entry().columns.iter().map(|column| column.name.clone()).collect();
        let Visible { query, _given } =
            self.seen_in_cluster(writer, (table, of_cluster), &all, conditions)?;
        let there = build::derived(query, build::name(NEW));
        let is_same = has_same_key(NEW, &ours, KEY, &theirs);
        self.queries.first_row(first_with_partner(there, called(&keys, KEY), is_same, Vec::new()))
    }

    /// Returns conditions that rows of a table of the cluster meet which have a key of so many other rows, so
    /// that few nodes are asked and blocks are left out; `None` if there can be no such row. The key is the
    /// columns of the other rows, each with the name that it has in the table; `values` gives those that one
    /// has in the other rows, of which at most so many are listed.
    pub(super) fn conditions_of_keys(
        &self,
        alias: &str,
        (others, count): (&Given, u64),
        key: &[(&ColumnEntry, String)],
        most_listed: u64,
        values: impl Fn(&ColumnEntry) -> Result<Vec<ScalarValue>>,
    ) -> Result<Option<Vec<Expr>>> {
        let mut conditions = Vec::new();
        let are_few = count <= most_listed;
        for (column, compared) in key {
            let Some(kind) = Kind::of(&column.logical_type) else { continue };
            let (is_listed, has_range) = told(kind);
            let mut found: Vec<ScalarValue> = if are_few && is_listed {
                values(column)?
            } else if has_range {
                let query = ends(others.factor(None), &column.name);
                let ends = self
                    .queries
                    .first_row(query)?
                    .ok_or_else(|| Error::internal("an aggregate without a row"))?;
                let end = |column: &ArrayRef| ScalarValue::try_from_array(column, 0).map_err(from_datafusion);
                ends.columns().iter().map(end).collect::<Result<_>>()?
            } else {
                continue;
            };
            found.retain(|value| !value.is_null());
            if found.is_empty() {
                return Ok(None);
            }
            let Some(literals) = found.iter().map(literal).collect::<Option<Vec<Expr>>>() else { continue };
            let compared = build::column_of(alias, compared);
            conditions.push(match literals.as_slice() {
                [low, high] if !(are_few && is_listed) => {
                    build::is_between(compared, low.clone(), high.clone())
                }
                _ => build::is_among(compared, literals),
            });
        }
        Ok(Some(conditions))
    }

    fn check_by_query(
        &self,
        writer: &Transaction,
        snapshot: &Snapshot,
        table: &TableEntry,
        constraint: &ConstraintEntry,
        rows: &NewRows,
    ) -> Result<()> {
        let given = self.own_rows_from(writer, table, rows.first.unwrap_or(0))?;
        let all;
        let new = called(&given, NEW);
        let (query, breach) = match &constraint.rule {
            ConstraintRule::Check { sql } => {
                let query = first_that(new, is_false(sql)?);
                let why = CONDITION_FALSE.to_string();
                (query, Breach { columns: Vec::new(), sqlstate: "23514", why, how: None })
            }
            ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
                let key = column_names(table, columns);
                all = self.own_rows_from(writer, table, rows.compared.unwrap_or(0))?;
                let is_same = has_same_key(NEW, &key, OLD, &key);
                let query = first_with_partner(new, called(&all, OLD), is_same, vec![is_earlier()]);
                (query, Breach::of_key(columns))
            }
            ConstraintRule::ForeignKey { columns, table: other, referred, .. } => {
                let Some(other) = snapshot.table_by_id(*other).map(|table| table.entry()) else {
                    return Err(Error::new(
                        ErrorKind::Constraint,
                        format!("table \"{}\" refers to the dropped table by constraint \"{}\"; drop that first, or use CASCADE", table.name, constraint.name),
                    )
                    .with_sqlstate("2BP01"));
                };
                let (ours, theirs) = (column_names(table, columns), column_names(other, referred));
                all = rows_from(self.scope, &self.scope.name_of(writer.database())?, other, 0);
                let query = first_without_key(new, &ours, called(&all, KEY), &theirs);
                (query, Breach::of_reference(columns, other))
            }
        };
        match self.queries.first_row(query)? {
            Some(row) => Err(breach.error(table, constraint, &row, rows)),
            None => Ok(()),
        }
    }
}

/// Runs queries that see what a transaction has staged.
pub(super) fn with_view_of<T>(
    scope: &Scope,
    writer: &mut Transaction,
    run: impl FnOnce(&mut Transaction, &Arc<Snapshot>) -> Result<T>,
) -> Result<T> {
    let (snapshot, name) = (writer.snapshot()?, scope.name_of(writer.database())?);
    let _shown = scope.show(&name, snapshot.clone())?;
    run(writer, &snapshot)
}

/// Says whether rows that a foreign key connects are in fragments of equal numbers.
fn are_together(
    scope: &Scope,
    (table, of_cluster, columns): (&TableEntry, TableId, &[ColumnId]),
    (other, of_other, referred): (&TableEntry, TableId, &[ColumnId]),
) -> bool {
    let catalog = scope.catalog_of_cluster();
    let partitioning = |id| Some(&catalog.as_ref()?.table(id)?.partitioning);
    let (Some(own), Some(theirs)) = (partitioning(of_cluster), partitioning(of_other)) else {
        return false;
    };
    let is_at = |table: &TableEntry, id: &ColumnId, key: &KeyColumn| {
        table.columns.get(key.column.0 as usize).is_some_and(|column| column.id == *id)
    };
    own.divides_like(theirs)
        && own.columns().iter().zip(theirs.columns()).all(|(own, their)| {
            let mut pairs = columns.iter().zip(referred);
            pairs.any(|(column, of_other)| is_at(table, column, own) && is_at(other, of_other, their))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::test_queries::{Alone, numbers, table_of_numbers};
    use hypostyle_storage::ReferentialAction;

    fn check(name: &str, sql: &str) -> ConstraintEntry {
        ConstraintEntry::new(name, ConstraintRule::Check { sql: sql.into() })
    }

    /// Gives a table a primary key, which is its first column, and behind that a condition.
    fn with_key_and_condition(table: &mut TableEntry) {
        let columns = vec![table.columns[0].id];
        constrain(table, ConstraintEntry::new("t_pkey", ConstraintRule::PrimaryKey { columns }));
        constrain(table, check("positive", "a > 0"));
    }

    #[test]
    fn the_condition_is_told_before_the_key() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], with_key_and_condition);
        transaction.append(id, &numbers(&[("a", &[0, 0]), ("b", &[5, 6])], &[])).unwrap();
        alone.find([numbers(&[("a", &[0]), ("b", &[5])], &[0])]);
        let error = alone.checks().check_constraints(&mut transaction, None).unwrap_err();
        assert_eq!(
            error.message(),
            "constraint \"positive\" of table \"t\" is violated by row 1 of the new rows, (a = 0, b = 5): the \
             condition is false"
        );
        assert_eq!((error.sqlstate(), error.detail()), ("23514", None));
        let asked = alone.asked();
        assert!(asked.len() == 1 && asked[0].contains("a > 0"), "{asked:?}");
    }

    #[test]
    fn a_key_that_is_there_twice_is_told() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], with_key_and_condition);
        transaction.append(id, &numbers(&[("a", &[1, 1]), ("b", &[5, 6])], &[])).unwrap();
        alone.find_nothing();
        alone.find([numbers(&[("a", &[1]), ("b", &[6])], &[1])]);
        let error = alone.checks().check_constraints(&mut transaction, None).unwrap_err();
        assert_eq!(
            error.message(),
            "constraint \"t_pkey\" of table \"t\" is violated by row 2 of the new rows, (a = 1): a row with that key \
             exists"
        );
        assert_eq!((error.sqlstate(), error.detail()), ("23505", Some("Key (a)=(1) already exists.")));
        let asked = alone.asked();
        assert!(asked[1].contains(r#""__new"."a" = "__old"."a""#), "{asked:?}");
    }

    #[test]
    fn rows_are_checked_once() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], with_key_and_condition);
        transaction.append(id, &numbers(&[("a", &[1, 2]), ("b", &[5, 6])], &[])).unwrap();
        alone.checks().check_constraints(&mut transaction, None).unwrap();
        let asked = alone.asked().len();
        assert!(asked > 0);
        alone.checks().check_constraints(&mut transaction, None).unwrap();
        assert_eq!(alone.asked().len(), asked);
    }

    #[test]
    fn a_key_that_goes_may_leave_rows_behind() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let mut key = Vec::new();
        let referred = table_of_numbers(&mut transaction, "p", &["a"], |table| {
            key = vec![table.columns[0].id];
            constrain(
                table,
                ConstraintEntry::new("p_pkey", ConstraintRule::PrimaryKey { columns: key.clone() }),
            );
        });
        let referring = table_of_numbers(&mut transaction, "c", &["p"], |table| {
            let rule = ConstraintRule::ForeignKey {
                columns: vec![table.columns[0].id],
                table: referred,
                referred: key.clone(),
                on_delete: ReferentialAction::NoAction,
                on_update: ReferentialAction::NoAction,
            };
            constrain(table, ConstraintEntry::new("c_p_fkey", rule));
        });
        transaction.append(referred, &numbers(&[("a", &[1, 2])], &[])).unwrap();
        transaction.append(referring, &numbers(&[("p", &[1])], &[])).unwrap();
        transaction.take_changed();
        transaction.delete(referred, &RoaringTreemap::from_iter([0_u64])).unwrap();
        alone.find([numbers(&[("p", &[1])], &[0])]);
        let error = alone.checks().check_constraints(&mut transaction, None).unwrap_err();
        assert_eq!(
            error.message(),
            "constraint \"c_p_fkey\" of table \"c\" is violated by (p = 1): table \"p\" has no row with that key"
        );
        let detail = Some("Key (p)=(1) is not present in table \"p\".");
        assert_eq!((error.sqlstate(), error.detail()), ("23503", detail));
    }

    #[test]
    fn rows_that_may_find_theirs_are_whole_in_any_case() {
        let alone = Alone::new();
        let mut transaction = alone.database.begin(1).unwrap();
        let id = table_of_numbers(&mut transaction, "t", &["a", "b"], with_key_and_condition);
        let table = transaction.catalog().table_by_id(id).unwrap();
        let rows = numbers(&[("a", &[1]), ("b", &[5])], &[0]);
        let proposed = given_rows(&alone.scope, "proposed", vec![rows.clone()]).unwrap();
        alone.checks().check_proposed(table, &proposed).unwrap();
        assert_eq!(alone.asked().len(), 2);
        alone.find([rows.clone()]);
        let error = alone.checks().check_proposed(table, &proposed).unwrap_err();
        let message = "column \"a\" of table \"t\" is NOT NULL, but row 1 is NULL";
        assert_eq!((error.sqlstate(), error.message()), ("23502", message));
        alone.find_nothing();
        alone.find([rows]);
        let error = alone.checks().check_proposed(table, &proposed).unwrap_err();
        let message = "constraint \"positive\" of table \"t\" is violated by row 1 of the new rows, (a = 1, b = 5): the \
                       condition is false";
        assert_eq!((error.sqlstate(), error.message()), ("23514", message));
    }
}
