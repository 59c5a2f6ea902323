//! Constraints: their declarations in CREATE and ALTER TABLE, and the queries that find the rows
//! that break them.
//!
//! A statement's new rows are checked once they are staged, against all rows that its transaction
//! sees. Rows that it has only updated are checked for the keys that were assigned. The commit
//! compares their keys with those that others have committed meanwhile.

use crate::session::transaction::Deferrals;
use crate::session::{Parameters, Session};
use crate::statement::completion::mentions;
use crate::statement::dialect::parse;
use crate::statement::key_lookup::{Shown, none_refers, shown_by_index};
use crate::statement::refusal::refuse;
use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::sql::sqlparser::ast::{
    self as sql, CheckConstraint, ColumnOption, ColumnOptionDef, ConstraintCharacteristics,
    ConstraintReferenceMatchKind, DeferrableInitial, Expr, ForeignKeyConstraint, Ident, IndexColumn,
    IndexOption, IndexType, NullsDistinctOption, ObjectName, PrimaryKeyConstraint, TableConstraint,
    UniqueConstraint,
};
use hypostyle_catalog::given::{Given, Relation};
use hypostyle_catalog::scope::Name;
use hypostyle_error::column_name::POSITION;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::identifier::quoted;
use hypostyle_storage::{
    Catalog, Changed, ColumnEntry, ConstraintEntry, ConstraintRule, Deferral, ReferentialAction, Snapshot,
    TableEntry, Transaction, unknown_column,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result, TableId};
use std::sync::Arc;

/// A constraint as it is written: with names of columns and tables.
#[derive(Clone, Debug)]
pub(super) struct Declared {
    pub name: Option<String>,
    pub rule: DeclaredRule,
}

#[derive(Clone, Debug)]
pub(super) enum DeclaredRule {
    PrimaryKey(Vec<String>),
    Unique(Vec<String>),
    Check(String),
    ForeignKey {
        columns: Vec<String>,
        table: ObjectName,
        referred: Vec<String>,
        on_delete: ReferentialAction,
        on_update: ReferentialAction,
        deferral: Deferral,
    },
}

fn key_columns(columns: &[IndexColumn]) -> Result<Vec<String>> {
    let name = |column: &IndexColumn| match &column.column.expr {
        Expr::Identifier(name) if *column == IndexColumn::from(name.clone()) => Ok(fold(name)),
        Expr::Identifier(_) => Err(Error::unsupported(format!("a key with {column} is not supported"))),
        other => {
            Err(Error::unsupported(format!("a key of the expression {other} is not supported; name columns")))
        }
    };
    columns.iter().map(name).collect()
}

fn names(identifiers: &[Ident]) -> Vec<String> {
    identifiers.iter().map(fold).collect()
}

fn action(action: Option<sql::ReferentialAction>) -> ReferentialAction {
    match action {
        None | Some(sql::ReferentialAction::NoAction) => ReferentialAction::NoAction,
        Some(sql::ReferentialAction::Restrict) => ReferentialAction::Restrict,
        Some(sql::ReferentialAction::Cascade) => ReferentialAction::Cascade,
        Some(sql::ReferentialAction::SetNull) => ReferentialAction::SetNull,
        Some(sql::ReferentialAction::SetDefault) => ReferentialAction::SetDefault,
    }
}

const NOT_ENFORCED: &str = "a constraint that is NOT ENFORCED";

/// Returns when a constraint is checked.
fn deferral(characteristics: Option<&ConstraintCharacteristics>) -> Result<Deferral> {
    let Some(ConstraintCharacteristics { deferrable, initially, enforced }) = characteristics else {
        return Ok(Deferral::Never);
    };
    refuse(*enforced == Some(false), NOT_ENFORCED)?;
    match (*deferrable, *initially) {
        (Some(false), Some(DeferrableInitial::Deferred)) => {
            Err(Error::new(ErrorKind::Syntax, "a constraint that is INITIALLY DEFERRED is DEFERRABLE"))
        }
        (_, Some(DeferrableInitial::Deferred)) => Ok(Deferral::AtFirst),
        (Some(true), _) => Ok(Deferral::Possible),
        _ => Ok(Deferral::Never),
    }
}

/// Refuses a key that is not checked after each statement: plans take it for granted.
fn refuse_deferral(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    let refused = deferral(characteristics)? != Deferral::Never;
    refuse(refused, "a PRIMARY KEY or UNIQUE constraint that is DEFERRABLE")
}

/// Refuses what is said of the index of a key.
fn refuse_index(name: Option<&Ident>, index_type: Option<&IndexType>, options: &[IndexOption]) -> Result<()> {
    refuse(name.is_some() || index_type.is_some() || !options.is_empty(), "a key with options of an index")
}

impl DeclaredRule {
    fn primary_key(columns: Vec<String>, key: &PrimaryKeyConstraint) -> Result<Self> {
        refuse_index(key.index_name.as_ref(), key.index_type.as_ref(), &key.index_options)?;
        refuse_deferral(key.characteristics.as_ref())?;
        Ok(Self::PrimaryKey(columns))
    }

    fn unique(columns: Vec<String>, key: &UniqueConstraint) -> Result<Self> {
        refuse(key.nulls_distinct == NullsDistinctOption::NotDistinct, "UNIQUE NULLS NOT DISTINCT")?;
        refuse_index(key.index_name.as_ref(), key.index_type.as_ref(), &key.index_options)?;
        refuse_deferral(key.characteristics.as_ref())?;
        Ok(Self::Unique(columns))
    }

    fn check(check: &CheckConstraint) -> Result<Self> {
        refuse(check.enforced == Some(false), NOT_ENFORCED)?;
        Ok(Self::Check(check.expr.to_string()))
    }

    fn foreign_key(columns: Vec<String>, key: &ForeignKeyConstraint) -> Result<Self> {
        let simple = matches!(key.match_kind, None | Some(ConstraintReferenceMatchKind::Simple));
        refuse(!simple, "a foreign key with MATCH FULL or PARTIAL")?;
        refuse_index(key.index_name.as_ref(), None, &[])?;
        Ok(Self::ForeignKey {
            columns,
            table: key.foreign_table.clone(),
            referred: names(&key.referred_columns),
            on_delete: action(key.on_delete),
            on_update: action(key.on_update),
            deferral: deferral(key.characteristics.as_ref())?,
        })
    }
}

impl Declared {
    /// Returns a constraint of a table.
    pub fn of_table(constraint: &TableConstraint) -> Result<Self> {
        let (name, rule) = match constraint {
            TableConstraint::PrimaryKey(key) => {
                (&key.name, DeclaredRule::primary_key(key_columns(&key.columns)?, key)?)
            }
            TableConstraint::Unique(key) => {
                (&key.name, DeclaredRule::unique(key_columns(&key.columns)?, key)?)
            }
            TableConstraint::Check(check) => (&check.name, DeclaredRule::check(check)?),
            TableConstraint::ForeignKey(key) => {
                (&key.name, DeclaredRule::foreign_key(names(&key.columns), key)?)
            }
            other => return Err(Error::unsupported(format!("{other} is not supported"))),
        };
        Ok(Self { name: name.as_ref().map(fold), rule })
    }

    /// Returns a constraint of a column; `None` for an option that is none.
    pub fn of_column(column: &str, option: &ColumnOptionDef) -> Result<Option<Self>> {
        let column = vec![column.to_string()];
        let rule = match &option.option {
            ColumnOption::PrimaryKey(key) => DeclaredRule::primary_key(column, key)?,
            ColumnOption::Unique(key) => DeclaredRule::unique(column, key)?,
            ColumnOption::Check(check) => DeclaredRule::check(check)?,
            ColumnOption::ForeignKey(key) => DeclaredRule::foreign_key(column, key)?,
            _ => return Ok(None),
        };
        Ok(Some(Self { name: option.name.as_ref().map(fold), rule }))
    }

    /// Returns the constraint of a table, once the table is there.
    pub fn resolve(
        &self,
        session: &Session,
        table: &TableEntry,
        writer: &Transaction,
    ) -> Result<ConstraintEntry> {
        let (rule, suffix) = match &self.rule {
            DeclaredRule::PrimaryKey(columns) => {
                if table
                    .constraints
                    .iter()
                    .any(|other| matches!(other.rule, ConstraintRule::PrimaryKey { .. }))
                {
                    return Err(Error::new(
                        ErrorKind::AlreadyExists,
                        format!("table \"{}\" has a primary key already", table.name),
                    )
                    .with_sqlstate("42P16"));
                }
                (ConstraintRule::PrimaryKey { columns: key_ids(table, columns)? }, "pkey".to_string())
            }
            DeclaredRule::Unique(columns) => (
                ConstraintRule::Unique { columns: key_ids(table, columns)? },
                format!("{}_key", columns.join("_")),
            ),
            DeclaredRule::Check(sql) => (ConstraintRule::Check { sql: sql.clone() }, "check".to_string()),
            DeclaredRule::ForeignKey { columns, table: other, referred, on_delete, on_update, .. } => {
                let database = session.scope.name_of(writer.database())?;
                let (schema, name) = session.resolve_within(&database, other)?;
                let other =
                    match (table.schema.as_str(), table.name.as_str()) == (schema.as_str(), name.as_str()) {
                        true => table,
                        false => writer
                            .catalog()
                            .table(&schema, &name)
                            .ok_or_else(|| hypostyle_storage::unknown_table(writer.catalog(), &name))?,
                    };
                let suffix = format!("{}_fkey", columns.join("_"));
                let referred = key_referred(other, referred, columns.len())?;
                let columns = ids(table, columns)?;
                check_types(table, &columns, other, &referred)?;
                refuse_given_values(table, &columns, *on_delete, *on_update)?;
                let (on_delete, on_update) = (*on_delete, *on_update);
                let rule =
                    ConstraintRule::ForeignKey { columns, table: other.id, referred, on_delete, on_update };
                (rule, suffix)
            }
        };
        let taken = |name: &str| table.constraints.iter().any(|other| other.name == name);
        let name = self.name.clone().unwrap_or_else(|| {
            let first = format!("{}_{suffix}", table.name);
            let others = (1..).map(|number| format!("{first}{number}"));
            std::iter::once(first.clone()).chain(others).find(|name| !taken(name)).unwrap_or(first)
        });
        let deferral = match &self.rule {
            DeclaredRule::ForeignKey { deferral, .. } => *deferral,
            _ => Deferral::Never,
        };
        Ok(ConstraintEntry { deferral, ..ConstraintEntry::new(name, rule) })
    }
}

/// Returns the key that so many columns refer to: the columns named, or else the first key.
fn key_referred(table: &TableEntry, named: &[String], count: usize) -> Result<Vec<ColumnId>> {
    let mut keys = table.constraints.iter().filter_map(|constraint| constraint.rule.key());
    let referred = match named.is_empty() {
        false => ids(table, named)?,
        true => keys.clone().next().unwrap_or_default().to_vec(),
    };
    if keys.any(|key| key == referred) && referred.len() == count {
        return Ok(referred);
    }
    Err(Error::invalid_input(format!(
        "a foreign key refers to the columns of a PRIMARY KEY or UNIQUE constraint, as many as it has; \
         \"{}\" has no such key",
        table.name
    ))
    .with_sqlstate("42830"))
}

/// Checks that columns can be compared with those that they refer to.
fn check_types(
    table: &TableEntry,
    columns: &[ColumnId],
    other: &TableEntry,
    referred: &[ColumnId],
) -> Result<()> {
    for (own, theirs) in columns.iter().zip(referred) {
        let (Some(own), Some(theirs)) = (table.column_by_id(*own), other.column_by_id(*theirs)) else {
            continue;
        };
        if !are_comparable(&own.logical_type, &theirs.logical_type) {
            return Err(Error::invalid_input(format!(
                "column \"{}\" is {}, and refers to column \"{}\" of \"{}\", which is {}: give both the same type",
                own.name, own.logical_type, theirs.name, other.name, theirs.logical_type
            ))
            .with_sqlstate("42804"));
        }
    }
    Ok(())
}

/// Refuses actions that would give a generated column values.
fn refuse_given_values(
    table: &TableEntry,
    columns: &[ColumnId],
    on_delete: ReferentialAction,
    on_update: ReferentialAction,
) -> Result<()> {
    let is_generated = |id| table.column_by_id(id).is_some_and(|column| column.generated.is_some());
    let keeps = |action| matches!(action, ReferentialAction::NoAction | ReferentialAction::Restrict);
    let gives = !keeps(on_update) || !keeps(on_delete) && on_delete != ReferentialAction::Cascade;
    match gives && columns.iter().any(|id| is_generated(*id)) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Syntax,
            "a foreign key with a generated column cannot be given values by ON UPDATE or ON DELETE",
        )),
    }
}

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

/// Returns the columns of a key, whose values can be compared.
fn key_ids(table: &TableEntry, columns: &[String]) -> Result<Vec<ColumnId>> {
    let map =
        columns.iter().filter_map(|name| table.column(name)).find(|column| has_map(&column.logical_type));
    if let Some(column) = map {
        let message =
            format!("column \"{}\" is {}, which a key cannot have", column.name, column.logical_type);
        return Err(Error::unsupported(message));
    }
    ids(table, columns)
}

/// Says whether a foreign key may compare values of two types: of one type, numbers, or times of
/// which both have a zone or none.
pub(super) fn are_comparable(one: &LogicalType, other: &LogicalType) -> bool {
    let is_number = |of: &LogicalType| of.arrow_type().is_numeric();
    match (one, other) {
        (LogicalType::Timestamp { time_zone: one, .. }, LogicalType::Timestamp { time_zone: other, .. }) => {
            one.is_some() == other.is_some()
        }
        (LogicalType::Duration { .. }, LogicalType::Duration { .. }) => true,
        _ => one == other || is_number(one) && is_number(other),
    }
}

fn has_map(of: &LogicalType) -> bool {
    match of {
        LogicalType::Map { .. } => true,
        LogicalType::List { element } | LogicalType::Array { element, .. } => has_map(element),
        LogicalType::Struct { fields } => fields.iter().any(|field| has_map(&field.logical_type)),
        _ => false,
    }
}

fn ids(table: &TableEntry, columns: &[String]) -> Result<Vec<ColumnId>> {
    let id = |name: &String| Ok(table.column(name).ok_or_else(|| unknown_column(table, name))?.id);
    columns.iter().map(id).collect()
}

/// Returns the quoted names of columns.
fn column_names(table: &TableEntry, ids: &[ColumnId]) -> Vec<String> {
    ids.iter().filter_map(|id| table.column_by_id(*id)).map(|column| quoted(&column.name)).collect()
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
        false => array_value_to_string(values, 0).unwrap_or_default(),
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

/// Names of the rows that are checked, and of those that they are compared with: no column is
/// called so.
const NEW: &str = "__new";
const OLD: &str = "__old";

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

/// Says whether rows may refer to a key by a constraint which is no more.
fn may_strand(changed: &Changed, rule: &ConstraintRule) -> bool {
    matches!(rule, ConstraintRule::ForeignKey { referred, .. } if changed.takes(referred))
}

/// Makes any change of the tables a conflict: all of their rows are checked, not only new ones.
fn guard(writer: &mut Transaction, id: TableId, constraint: &ConstraintEntry) {
    // A table that this transaction has created has no such rows.
    if writer.base().table_by_id(id).is_none() {
        return;
    }
    writer.guard(id);
    if let ConstraintRule::ForeignKey { table, .. } = &constraint.rule {
        writer.guard(*table);
    }
}

fn equal(one: &str, ours: &[String], other: &str, theirs: &[String]) -> String {
    let pairs = ours.iter().zip(theirs).map(|(our, their)| format!("{one}.{our} = {other}.{their}"));
    pairs.collect::<Vec<_>>().join(" AND ")
}

impl Session {
    /// Declares constraints, and checks the rows that are there.
    pub(super) fn add_constraints(
        &self,
        writer: &mut Transaction,
        id: TableId,
        declared: &[Declared],
    ) -> Result<()> {
        for constraint in declared {
            let Some(table) = writer.catalog().table_by_id(id).cloned() else {
                return Err(Error::internal("a table that is being altered is missing"));
            };
            let entry = constraint.resolve(self, &table, writer)?;
            if let ConstraintRule::Check { sql } = &entry.rule {
                self.check_condition(&table, &entry.name, sql)?;
            }
            let key = match &entry.rule {
                ConstraintRule::PrimaryKey { columns } => columns.clone(),
                _ => Vec::new(),
            };
            let in_key = |column: &&ColumnEntry| key.contains(&column.id);
            // The values may still be NULL.
            self.with_view_of(writer, |session, writer, _| {
                let database = session.scope.name_of(writer.database())?;
                let mut nullable = table.columns.iter().filter(in_key).filter(|column| column.nullable);
                nullable.try_for_each(|column| session.check_not_null(&database, &table, &column.name))
            })?;
            writer.alter_table(id, |table| {
                for column in table.columns.iter_mut().filter(|column| in_key(&&**column)) {
                    column.nullable = false;
                }
                table.constraints.push(entry);
                Ok(())
            })?;
        }
        self.with_view_of(writer, |session, writer, snapshot| {
            let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
            let added = table.entry().constraints.len() - declared.len();
            for constraint in &table.entry().constraints[added..] {
                guard(writer, id, constraint);
                session.check_new(writer, snapshot, id, constraint, None, true)?;
            }
            Ok(())
        })
    }

    /// Gives queries the rows of a table from a position on, with their positions.
    fn rows_from(&self, database: &str, table: &TableEntry, first: u64) -> Given {
        let table = Name::new(database, &table.schema, &table.name);
        self.scope.give(Relation::Positions { table, first })
    }

    pub(super) fn check_not_null(&self, database: &str, table: &TableEntry, column: &str) -> Result<()> {
        let rows = self.rows_from(database, table, 0);
        let sql = format!("SELECT * FROM {rows} AS {NEW} WHERE {NEW}.{} IS NULL LIMIT 1", quoted(column));
        let Some(row) = self.first_row(&sql)? else { return Ok(()) };
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

    /// Runs queries that see what a transaction has staged.
    pub(super) fn with_view_of<T>(
        &self,
        writer: &mut Transaction,
        run: impl FnOnce(&Self, &mut Transaction, &Arc<Snapshot>) -> Result<T>,
    ) -> Result<T> {
        let (snapshot, name) = (writer.snapshot()?, self.scope.name_of(writer.database())?);
        let before = self.scope.replace(&name, snapshot.clone())?;
        let result = run(self, writer, &snapshot);
        self.scope.replace(&name, before)?;
        result
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
                checks.extend(own.map(|constraint| (*id, constraint.clone(), Some(first))));
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
        self.with_view_of(writer, |session, writer, snapshot| {
            checks.into_iter().try_for_each(|(id, constraint, first)| {
                let proceed = || session.check_interrupt();
                let is_kept =
                    first.is_none() && none_refers(snapshot, id, &constraint.rule, &changed, &proceed)?;
                match is_kept {
                    true => Ok(()),
                    false => session.check_new(writer, snapshot, id, &constraint, first, true),
                }
            })
        })
    }

    /// Checks what constraints say of a column, all of whose values are new.
    pub(super) fn check_column(&self, writer: &mut Transaction, id: TableId, column: ColumnId) -> Result<()> {
        self.with_view_of(writer, |session, writer, snapshot| {
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
                    session.check_new(writer, snapshot, entry.id, constraint, None, true)?;
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
        let first = |condition: &str| -> Result<Option<(u64, String)>> {
            let sql = format!("SELECT * FROM {rows} AS {NEW} WHERE {condition} LIMIT 1");
            let numbered = |row: RecordBatch| {
                let number = row.column(row.num_columns() - 1).as_primitive::<UInt64Type>().value(0);
                (number, shown(table, &row, |_| true))
            };
            Ok(self.first_row(&sql)?.map(numbered))
        };
        for column in table.columns.iter().filter(|column| !column.nullable) {
            if let Some((number, _)) = first(&format!("{} IS NULL", quoted(&column.name)))? {
                let (name, table) = (&column.name, &table.name);
                let message =
                    format!("column \"{name}\" of table \"{table}\" is NOT NULL, but row {number} is NULL");
                return Err(Error::new(ErrorKind::Constraint, message).with_sqlstate("23502"));
            }
        }
        for constraint in &table.constraints {
            if let ConstraintRule::Check { sql } = &constraint.rule
                && let Some((number, row)) = first(&format!("NOT ({sql})"))?
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
        writer: &Transaction,
        snapshot: &Snapshot,
        id: TableId,
        constraint: &ConstraintEntry,
        first: Option<u64>,
        of_statement: bool,
    ) -> Result<()> {
        let Some(table) = snapshot.table_by_id(id) else { return Ok(()) };
        let proceed = || self.check_interrupt();
        let shown = match first {
            Some(first) => shown_by_index(writer, snapshot, table, &constraint.rule, first, &proceed)?,
            None => Shown::Nothing,
        };
        let rows = match shown {
            Shown::Kept => return Ok(()),
            Shown::KeptBefore(compared) => NewRows { first, of_statement, compared: Some(compared) },
            Shown::Nothing => NewRows { first, of_statement, compared: None },
        };
        self.check_by_query(writer, snapshot, table.entry(), constraint, rows)
    }

    fn check_by_query(
        &self,
        writer: &Transaction,
        snapshot: &Snapshot,
        table: &TableEntry,
        constraint: &ConstraintEntry,
        NewRows { first, of_statement, compared }: NewRows,
    ) -> Result<()> {
        let database = self.scope.name_of(writer.database())?;
        let new = self.rows_from(&database, table, first.unwrap_or(0));
        let all;
        let (columns, sql, sqlstate, why, how) = match &constraint.rule {
            ConstraintRule::Check { sql } => (
                Vec::new(),
                format!("SELECT * FROM {new} AS {NEW} WHERE NOT ({sql}) LIMIT 1"),
                "23514",
                CONDITION_FALSE.to_string(),
                None,
            ),
            ConstraintRule::PrimaryKey { columns } | ConstraintRule::Unique { columns } => {
                let key = column_names(table, columns);
                all = self.rows_from(&database, table, compared.unwrap_or(0));
                let sql = format!(
                    "SELECT {NEW}.* FROM {new} AS {NEW} JOIN {all} AS {OLD} ON {} WHERE {OLD}.{position} < {NEW}.{position} LIMIT 1",
                    equal(NEW, &key, OLD, &key),
                    position = quoted(POSITION),
                );
                let (why, how) = ("a row with that key exists".to_string(), "already exists".to_string());
                (columns.clone(), sql, "23505", why, Some(how))
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
                let given: Vec<String> =
                    ours.iter().map(|column| format!("{NEW}.{column} IS NOT NULL")).collect();
                all = self.rows_from(&database, other, 0);
                let sql = format!(
                    "SELECT {NEW}.* FROM {new} AS {NEW} WHERE {} AND NOT EXISTS (SELECT 1 FROM {all} AS {OLD} WHERE {}) LIMIT 1",
                    given.join(" AND "),
                    equal(OLD, &theirs, NEW, &ours),
                );
                let why = format!("table \"{}\" has no row with that key", other.name);
                let how = format!("is not present in table \"{}\"", other.name);
                (columns.clone(), sql, "23503", why, Some(how))
            }
        };
        let Some(row) = self.first_row(&sql)? else { return Ok(()) };
        let position = row.column(row.num_columns() - 1).as_primitive::<UInt64Type>().value(0);
        let shown = shown(table, &row, |column| columns.is_empty() || columns.contains(&column));
        let which = match first {
            Some(first) if of_statement => format!("row {} of the new rows, ", position - first),
            _ => String::new(),
        };
        let error = broken(constraint, table, &which, &shown, &why).with_sqlstate(sqlstate);
        Err(match how {
            Some(how) => error.with_detail(key_detail(table, &row, &columns, &how)),
            None => error,
        })
    }

    /// Returns the first row that a query gives.
    pub(super) fn first_row(&self, sql: &str) -> Result<Option<RecordBatch>> {
        let (_, batches) = self.collect_rows(self.query(parse(sql)?, &Parameters::None)?)?;
        Ok(batches.into_iter().find(|batch| batch.num_rows() > 0).map(|batch| batch.slice(0, 1)))
    }
}
