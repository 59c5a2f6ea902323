//! Changes to the columns of a table.

use crate::statement::completion::mentions;
use crate::statement::constraint::with_view_of;
use crate::statement::ddl::{DeclaredColumn, identity};
use crate::statement::declared_constraint::are_comparable;
use crate::statement::definer::Definer;
use crate::statement::expression::rename_in;
use crate::statement::sequence::{Clauses, release, sequence_of_column};
use crate::statement::target::Target;
use datafusion::sql::sqlparser::ast::{AlterColumnOperation, DataType, Expr, Ident};
use hypostyle_error::from_datafusion;
use hypostyle_expr::time_zone::cast_within;
use hypostyle_expr::types::logical_type;
use hypostyle_sql::identifier::fold;
use hypostyle_storage::{
    Catalog, ColumnEntry, ConstraintEntry, ConstraintRule, Identity, NewColumn, SequenceEntry, SequenceOwner,
    TableEntry, Transaction, unknown_column,
};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, TableId};
use std::sync::Arc;

impl Definer<'_> {
    /// Renames a column, also in the expressions of its table, and in views.
    pub(super) fn rename_column(
        &self,
        writer: &mut Transaction,
        target: &Target,
        old: &str,
        new: &str,
    ) -> Result<()> {
        let views = self.views_that_name(writer, target, old, new)?;
        self.alter_column(writer, target, old, |column| {
            column.name = new.into();
            Ok(())
        })?;
        let mut renamed = table_of(writer, target)?;
        for generated in renamed.columns.iter_mut().filter_map(|column| column.generated.as_mut()) {
            *generated = rename_in(generated, old, new)?;
        }
        for constraint in &mut renamed.constraints {
            if let ConstraintRule::Check { sql } = &mut constraint.rule {
                *sql = rename_in(sql, old, new)?;
            }
        }
        self.compiler.check_columns(&new_columns_of(&renamed))?;
        for constraint in &renamed.constraints {
            if let ConstraintRule::Check { sql } = &constraint.rule {
                self.compiler.check_condition(&renamed, &constraint.name, sql)?;
            }
        }
        writer.alter_table(target.id, |table| {
            (table.columns, table.constraints) = (renamed.columns, renamed.constraints);
            Ok(())
        })?;
        self.rename_in_views(writer, target, views)
    }

    pub(super) fn alter_column(
        &self,
        writer: &mut Transaction,
        target: &Target,
        name: &str,
        change: impl FnOnce(&mut ColumnEntry) -> Result<()>,
    ) -> Result<()> {
        writer.alter_table(target.id, |table| {
            let unknown = unknown_column(table, name);
            let column = table.columns.iter_mut().find(|column| column.name == name).ok_or(unknown)?;
            change(column)
        })
    }

    pub(super) fn alter_column_by(
        &self,
        writer: &mut Transaction,
        target: &Target,
        column: &Ident,
        operation: &AlterColumnOperation,
    ) -> Result<()> {
        let name = fold(column);
        let before = table_of(writer, target)?;
        let old = before.column(&name).ok_or_else(|| unknown_column(&before, &name))?;
        match operation {
            AlterColumnOperation::SetNotNull => {
                self.checks.looks_at_rows(writer, target.id)?;
                with_view_of(self.scope, writer, |_, _| {
                    self.checks.check_not_null(&target.database, &before, &name)
                })?;
                self.alter_column(writer, target, &name, |column| {
                    column.nullable = false;
                    Ok(())
                })
            }
            AlterColumnOperation::DropNotNull if old.identity.is_some() => Err(Error::new(
                ErrorKind::Syntax,
                format!(
                    "column \"{name}\" of table \"{}\" is an identity column, which has no NULLs",
                    before.name
                ),
            )),
            AlterColumnOperation::DropNotNull => {
                refuse_nulls_in_key(&before, old)?;
                self.alter_column(writer, target, &name, |column| {
                    column.nullable = true;
                    Ok(())
                })
            }
            AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault
                if old.generated.is_some() || old.identity.is_some() =>
            {
                Err(Error::new(
                    ErrorKind::Syntax,
                    format!("column \"{name}\" of table \"{}\" makes its own values", before.name),
                ))
            }
            AlterColumnOperation::AddGenerated { generated_as, sequence_options } => {
                let how = generated_as.as_ref().map_or(Identity::Always, identity);
                let clauses = Clauses::of_identity(sequence_options.as_deref())?;
                self.add_identity(writer, &before, old, how, &clauses)
            }
            AlterColumnOperation::SetDefault { value } => {
                let default = value.to_string();
                self.compiler.check_default(&name, &old.logical_type, &default)?;
                self.alter_column(writer, target, &name, |column| {
                    column.default = Some(default);
                    Ok(())
                })
            }
            AlterColumnOperation::DropDefault => self.alter_column(writer, target, &name, |column| {
                column.default = None;
                Ok(())
            }),
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                self.convert_column(writer, &before, old, data_type, using.as_ref())
            }
        }
    }

    /// Gives a column another type, and casts its values to it, or computes them by USING.
    fn convert_column(
        &self,
        writer: &mut Transaction,
        table: &TableEntry,
        old: &ColumnEntry,
        data_type: &DataType,
        using: Option<&Expr>,
    ) -> Result<()> {
        let name = &old.name;
        refuse_change(table, name, "given another type")?;
        if old.generated.is_some() {
            return Err(Error::unsupported(format!(
                "the type of the generated column \"{name}\" cannot be changed; drop it, and add it anew"
            )));
        }
        let new_type = logical_type(data_type)?;
        check_keys(writer.catalog(), table, old, &new_type)?;
        self.check_conversion(writer, (table, old), &new_type, using.is_some())?;
        let wanted = new_type.arrow_field(name, true);
        let using = using
            .map(|expr| self.compiler.filling_from(table, old, &new_type, &expr.to_string()))
            .transpose()?;
        let zone = self.compiler.time_zone();
        writer.convert_column(table.id, name, new_type, |piece| {
            self.queries.proceed()?;
            let computed = using.as_ref().map(|using| using.values_from(piece)).transpose()?;
            cast_within(computed.as_ref().unwrap_or(piece), &wanted, &zone).map_err(|error| {
                from_datafusion(error.into()).context(format!("column \"{name}\" cannot become {data_type}"))
            })
        })?;
        // Values that differed may have become equal.
        self.checks.check_column(writer, table.id, old.id)
    }

    /// Adds a column, whose values in the rows that are there are computed for each of them.
    pub(super) fn add_column(
        &self,
        writer: &mut Transaction,
        id: TableId,
        declared: DeclaredColumn,
    ) -> Result<()> {
        let DeclaredColumn { mut column, constraints, sequence } = declared;
        let table = writer.catalog().table_by_id(id).cloned();
        let table = table.ok_or_else(|| Error::internal("a table that is being altered is missing"))?;
        if table.column(&column.name).is_some() {
            // Expressions of other columns could mean either.
            let message = format!("table \"{}\" has two columns \"{}\"", table.name, column.name);
            return Err(Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42701"));
        }
        let mut columns = new_columns_of(&table);
        columns.push(column.clone());
        self.compiler.check_columns(&columns)?;
        if let Some(clauses) = sequence {
            let name = (table.schema.as_str(), table.name.as_str());
            let mut sequence = sequence_of_column(writer.catalog(), name, &mut column, &clauses)?;
            sequence.owner = Some(SequenceOwner { table: id, column: table.next_column_id });
            writer.create_sequence(sequence)?;
        }
        with_view_of(self.scope, writer, |writer, snapshot| {
            let database = self.scope.name_of(writer.database())?;
            let filling = self.compiler.filling_of_new(&database, snapshot.catalog(), &table, &column)?;
            writer.add_column(id, column, filling.reads_rows(), |rows| {
                self.queries.proceed()?;
                filling.values(rows)
            })
        })?;
        self.add_constraints(writer, id, &constraints)
    }

    /// Makes a column an identity. A sequence that it owns already it keeps: so it is in an export.
    fn add_identity(
        &self,
        writer: &mut Transaction,
        table: &TableEntry,
        column: &ColumnEntry,
        how: Identity,
        clauses: &Clauses,
    ) -> Result<()> {
        if column.nullable
            || column.default.is_some()
            || column.identity.is_some()
            || column.generated.is_some()
        {
            return Err(Error::invalid_input(format!(
                "column \"{}\" of table \"{}\" cannot be an identity: it must be NOT NULL, without a default",
                column.name, table.name
            ))
            .with_sqlstate("55000"));
        }
        if writer.catalog().sequence_of(table.id, column.id).is_none() {
            let owner = Some(SequenceOwner { table: table.id, column: column.id });
            let mut new = NewColumn::new(&column.name, column.logical_type.clone(), false);
            new.identity = Some(how);
            let name = (table.schema.as_str(), table.name.as_str());
            let sequence = sequence_of_column(writer.catalog(), name, &mut new, clauses)?;
            writer.create_sequence(SequenceEntry { owner, ..sequence })?;
        }
        writer.alter_table(table.id, |table| {
            for found in table.columns.iter_mut().filter(|found| found.id == column.id) {
                found.identity = Some(how);
            }
            Ok(())
        })
    }
}

/// Drops a column and the constraints that it is in; with CASCADE also the foreign keys that refer
/// to it, and the columns that are generated from it.
///
/// # Errors
/// `Constraint` when there are such, without `cascade`; `InvalidInput` for the only column.
pub(super) fn drop_column(
    writer: &mut Transaction,
    table: &TableEntry,
    name: &str,
    cascade: bool,
) -> Result<()> {
    let Some(column) = table.column(name).map(|column| column.id) else {
        return Err(unknown_column(table, name));
    };
    let refers = |constraint: &ConstraintEntry| match &constraint.rule {
        ConstraintRule::ForeignKey { table: to, referred, .. } => {
            *to == table.id && referred.contains(&column)
        }
        _ => false,
    };
    let referring = |other: &&Arc<TableEntry>| other.constraints.iter().any(refers);
    let referring: Vec<_> = writer.catalog().tables.iter().filter(referring).cloned().collect();
    let uses = |other: &&ColumnEntry| other.generated.as_ref().is_some_and(|sql| mentions(sql, name));
    if !cascade {
        if let Some(other) = referring.first() {
            return Err(Error::new(
                ErrorKind::Constraint,
                format!(
                    "column \"{name}\" is referred to by table \"{}\"; drop its constraint first, or use CASCADE",
                    other.name
                ),
            )
            .with_sqlstate("2BP01"));
        }
        refuse_change(table, name, "dropped")?;
    }
    for other in referring {
        writer.alter_table(other.id, |other| {
            other.constraints.retain(|constraint| !refers(constraint));
            Ok(())
        })?;
    }
    for generated in table.columns.iter().filter(uses) {
        drop_column(writer, table, &generated.name, cascade)?;
    }
    let owned: Vec<_> = writer.catalog().owned_sequences(table.id).cloned().collect();
    let goes = |sequence: &&SequenceEntry| sequence.owner.is_some_and(|owner| owner.column == column);
    for sequence in owned.iter().filter(goes) {
        release(writer, sequence, cascade, |user, used_by| user == table.id && used_by == column)?;
    }
    writer.alter_table(table.id, |table| {
        if table.columns.len() == 1 {
            return Err(Error::invalid_input("the only column of a table cannot be dropped"));
        }
        table.columns.retain(|kept| kept.id != column);
        table.indexes.retain(|kept| !kept.columns.contains(&column));
        table.constraints.retain(|kept| match &kept.rule {
            ConstraintRule::Check { sql } => !mentions(sql, name),
            rule => !rule.columns().contains(&column),
        });
        Ok(())
    })
}

fn in_use(column: &str, what: &str, user: &str) -> Error {
    Error::new(
        ErrorKind::Constraint,
        format!("column \"{column}\" cannot be {what}: {user} uses it; drop that first"),
    )
    .with_sqlstate("2BP01")
}

/// Refuses to change a column that others are generated from.
fn refuse_change(table: &TableEntry, column: &str, what: &str) -> Result<()> {
    let uses = |other: &&ColumnEntry| other.generated.as_ref().is_some_and(|sql| mentions(sql, column));
    match table.columns.iter().find(uses) {
        Some(other) => Err(in_use(column, what, &format!("the generated column \"{}\"", other.name))),
        None => Ok(()),
    }
}

/// Returns the columns of a table as far as generated columns depend on them.
fn new_columns_of(table: &TableEntry) -> Vec<NewColumn> {
    let column = |column: &ColumnEntry| NewColumn {
        generated: column.generated.clone(),
        ..NewColumn::new(&column.name, column.logical_type.clone(), column.nullable)
    };
    table.columns.iter().map(column).collect()
}

/// Refuses NULLs in a column of the primary key.
fn refuse_nulls_in_key(table: &TableEntry, column: &ColumnEntry) -> Result<()> {
    let in_key = table.constraints.iter().find(|constraint| match &constraint.rule {
        ConstraintRule::PrimaryKey { columns } => columns.contains(&column.id),
        _ => false,
    });
    let Some(key) = in_key else { return Ok(()) };
    Err(Error::invalid_input(format!(
        "column \"{}\" is in the primary key \"{}\", which has no NULLs",
        column.name, key.name
    ))
    .with_sqlstate("42P16"))
}

/// Refuses a type in which a foreign key would compare its values with those of another kind.
fn check_keys(catalog: &Catalog, table: &TableEntry, column: &ColumnEntry, new: &LogicalType) -> Result<()> {
    let all = catalog
        .tables
        .iter()
        .flat_map(|other| other.constraints.iter().map(move |constraint| (other.as_ref(), constraint)));
    for (other, constraint) in all {
        let ConstraintRule::ForeignKey { columns, table: to, referred, .. } = &constraint.rule else {
            continue;
        };
        let Some(target) = catalog.table_by_id(*to) else { continue };
        for (own, theirs) in columns.iter().zip(referred) {
            let opposite = match () {
                () if other.id == table.id && *own == column.id => target.column_by_id(*theirs),
                () if *to == table.id && *theirs == column.id => other.column_by_id(*own),
                () => None,
            };
            let Some(opposite) = opposite.filter(|opposite| opposite.id != column.id || *to != other.id)
            else {
                continue;
            };
            if !are_comparable(&opposite.logical_type, new) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "column \"{}\" is in the foreign key \"{}\" of table \"{}\", whose other column \"{}\" is {}, not {new}: \
                         drop that first",
                        column.name, constraint.name, other.name, opposite.name, opposite.logical_type
                    ),
                )
                .with_sqlstate("42804"));
            }
        }
    }
    Ok(())
}

pub(super) fn table_of(writer: &Transaction, target: &Target) -> Result<TableEntry> {
    let found = writer.catalog().table_by_id(target.id);
    found.map(|table| table.as_ref().clone()).ok_or_else(|| Error::internal("an altered table is missing"))
}
