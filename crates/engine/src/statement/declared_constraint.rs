//! Constraints as CREATE and ALTER TABLE write them: with names, which the table then gives a meaning.

use crate::statement::names::Names;
use crate::statement::refusal::{refuse, refuse_other_kind};
use datafusion::sql::sqlparser::ast::{
    self as sql, CheckConstraint, ColumnOption, ColumnOptionDef, ConstraintCharacteristics,
    ConstraintReferenceMatchKind, DeferrableInitial, Expr, ForeignKeyConstraint, Ident, IndexColumn,
    IndexOption, IndexType, NullsDistinctOption, ObjectName, PrimaryKeyConstraint, TableConstraint,
    UniqueConstraint,
};
use hypostyle_placement::partition::{KeyColumn, Partitioning};
use hypostyle_sql::identifier::fold;
use hypostyle_storage::{
    ConstraintEntry, ConstraintRule, Deferral, ReferentialAction, TableEntry, Transaction, unknown_column,
};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, Result};
use std::collections::HashSet;

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
    let columns: Vec<String> = columns.iter().map(name).collect::<Result<_>>()?;
    let mut seen = HashSet::new();
    match columns.iter().find(|column| !seen.insert(column.as_str())) {
        Some(twice) => {
            let message = format!("column \"{twice}\" is twice in the columns of a key");
            Err(Error::new(ErrorKind::Syntax, message).with_sqlstate("42701"))
        }
        None => Ok(columns),
    }
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
        names: Names<'_>,
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
                let database = names.scope.name_of(writer.database())?;
                let (schema, name) = names.resolve_within(&database, other)?;
                refuse_other_kind(writer.catalog(), &schema, &name, "a table")?;
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

/// Returns the columns of a key, whose values can be compared.
fn key_ids(table: &TableEntry, columns: &[String]) -> Result<Vec<ColumnId>> {
    let map =
        columns.iter().filter_map(|name| table.column(name)).find(|column| column.logical_type.has_map());
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

fn ids(table: &TableEntry, columns: &[String]) -> Result<Vec<ColumnId>> {
    let id = |name: &String| Ok(table.column(name).ok_or_else(|| unknown_column(table, name))?.id);
    columns.iter().map(id).collect()
}

/// Checks that rows with equal keys are in one fragment, where they are found; `columns` are the names of
/// those of the table.
///
/// # Errors
/// `Unsupported` for a key without a column of the partition key.
pub(super) fn check_keys(declared: &[Declared], columns: &[&str], partitioning: &Partitioning) -> Result<()> {
    let name = |key: &KeyColumn| columns.get(key.column.0 as usize).map(|name| (*name).to_string());
    let partition: Vec<String> = partitioning.columns().iter().filter_map(name).collect();
    let is_together = |key: &Vec<String>| match partitioning {
        Partitioning::Replicated => true,
        Partitioning::RoundRobin { .. } => false,
        Partitioning::Hash { .. } | Partitioning::Range { .. } => {
            partition.iter().all(|column| key.contains(column))
        }
    };
    let keys = declared.iter().filter_map(|declared| match &declared.rule {
        DeclaredRule::PrimaryKey(key) | DeclaredRule::Unique(key) => Some(key),
        DeclaredRule::Check(_) | DeclaredRule::ForeignKey { .. } => None,
    });
    let Some(key) = keys.into_iter().find(|key| !is_together(key)) else { return Ok(()) };
    let needed = match partitioning {
        Partitioning::RoundRobin { .. } => "partition the table by hash or range of some of them".to_string(),
        _ => format!("it has to contain the partition key ({})", partition.join(", ")),
    };
    Err(Error::unsupported(format!(
        "a PRIMARY KEY or UNIQUE ({}) of this table of the cluster is not supported, as rows with equal values are in \
         several fragments: {needed}, or make it REPLICATED",
        key.join(", ")
    )))
}
