//! ALTER TABLE, COMMENT ON and VACUUM.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Session};
use crate::statement::completion::mentions;
use crate::statement::constraint::{Declared, are_comparable, referring};
use crate::statement::ddl::{DeclaredColumn, check_schema, check_view, identity, new_column};
use crate::statement::dialect::parse;
use crate::statement::expression::rename_in;
use crate::statement::refusal::refuse;
use crate::statement::sequence::{Clauses, release, sequence_of_column};
use crate::statement::target::Target;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CommentObject, DataType, DropBehavior, Expr,
    Ident, ObjectName, RenameTableNameKind, Statement, VacuumStatement,
};
use datafusion::sql::sqlparser::tokenizer::{Span, Token};
use hypostyle_catalog::scope::{Name, Named};
use hypostyle_error::from_datafusion;
use hypostyle_expr::time_zone::cast_within;
use hypostyle_expr::types::logical_type;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::identifier::{fold, last_of, parts_of};
use hypostyle_sql::parse::tokens_of;
use hypostyle_storage::{
    Catalog, ColumnEntry, ConstraintEntry, ConstraintRule, Identity, NewColumn, SequenceEntry, SequenceOwner,
    TableEntry, Transaction, unknown_column, unknown_sequence,
};
use hypostyle_types::{Error, ErrorKind, LogicalType, Result, TableId, did_you_mean};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Times that a compaction is tried again at once when others have written meanwhile.
const ATTEMPTS: usize = 5;

/// COMMENT ON CONSTRAINT, which the parser does not know.
pub(super) struct ConstraintComment {
    constraint: String,
    table: ObjectName,
    comment: Option<String>,
}

impl ConstraintComment {
    /// Returns `None` for a comment on something else.
    pub fn of(sql: &str) -> Result<Option<Self>> {
        let tokens = tokens_of(sql);
        let mut words = tokens.iter().enumerate();
        let mut next = || words.find(|(_, token)| !matches!(token, Token::Whitespace(_)));
        let is = |token: Option<(usize, &Token)>, known: &str| matches!(token, Some((_, Token::Word(word))) if word.value.eq_ignore_ascii_case(known));
        if !is(next(), "COMMENT") || !is(next(), "ON") || !is(next(), "CONSTRAINT") {
            return Ok(None);
        }
        let (Some((_, Token::Word(name))), Some((on, _))) = (next(), next()) else { return Ok(None) };
        let name = Ident { value: name.value.clone(), quote_style: name.quote_style, span: Span::empty() };
        // The rest is the same as for a comment on the table.
        let rest: String = tokens[on + 1..].iter().map(ToString::to_string).collect();
        match parse(&format!("COMMENT ON TABLE {rest}"))? {
            DfStatement::Statement(statement) => match *statement {
                Statement::Comment { object_name: table, comment, .. } => {
                    Ok(Some(Self { constraint: fold(&name), table, comment }))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

impl Session {
    pub(super) fn comment_constraint(&self, given: ConstraintComment) -> Result<Outcome> {
        let ConstraintComment { constraint: name, table, comment } = given;
        let target = self.target(&table, None)?;
        self.write(&target.database, |writer| {
            writer.alter_table(target.id, |table| {
                let unknown = unknown_constraint(table, &name);
                let mut constraints = table.constraints.iter_mut();
                constraints.find(|constraint| constraint.name == name).ok_or(unknown)?.comment = comment;
                Ok(())
            })?;
            Ok(DONE)
        })
    }

    pub(super) fn alter_table(&self, alter: AlterTable) -> Result<Outcome> {
        let AlterTable { on_cluster, location, table_type, .. } = &alter;
        let option = on_cluster.is_some() || location.is_some() || table_type.is_some();
        refuse(option, "ALTER TABLE with ON CLUSTER, LOCATION or a kind of table")?;
        if alter.if_exists && self.table_data(&self.resolve(&alter.name)?).is_none() {
            return Ok(DONE);
        }
        if let [AlterTableOperation::RenameTable { table_name }] = alter.operations.as_slice()
            && let RenameTableNameKind::To(name) | RenameTableNameKind::As(name) = table_name
            && self.rename_view(&alter.name, name)?
        {
            return Ok(DONE);
        }
        let target = self.target(&alter.name, None)?;
        self.write(&target.database, |writer| {
            let operations = alter.operations.iter();
            operations
                .map(|operation| self.alter(writer, &target, operation))
                .collect::<Result<Vec<()>>>()?;
            Ok(DONE)
        })
    }

    fn alter(
        &self,
        writer: &mut Transaction,
        target: &Target,
        operation: &AlterTableOperation,
    ) -> Result<()> {
        let id = target.id;
        let table = || {
            let found = writer.catalog().table_by_id(id).cloned();
            found.ok_or_else(|| Error::internal("a table that is being altered is missing"))
        };
        match operation {
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position, .. } => {
                refuse(column_position.is_some(), "ADD COLUMN with FIRST or AFTER")?;
                let declared = new_column(column_def)?;
                if *if_not_exists && table()?.column(&declared.column.name).is_some() {
                    return Ok(());
                }
                self.add_column(writer, id, declared)
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                for name in column_names.iter().map(fold) {
                    let before = table_of(writer, target)?;
                    if before.column(&name).is_some() {
                        drop_column(writer, &before, &name, cascade)?;
                    } else if !if_exists {
                        return Err(unknown_column(&before, &name));
                    }
                }
                Ok(())
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                self.rename_column(writer, target, &fold(old_column_name), &fold(new_column_name))
            }
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => {
                let before = table()?;
                let new = self.renamed(&target.database, &before, name)?;
                writer.alter_table(id, |table| {
                    table.name = new;
                    Ok(())
                })
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column_by(writer, target, column_name, op)
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                refuse(*not_valid, "a constraint that is NOT VALID")?;
                self.add_constraints(writer, id, &[Declared::of_table(constraint)?])
            }
            AlterTableOperation::DropConstraint { if_exists, name, drop_behavior } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                let before = table()?;
                drop_constraint(writer, &before, &fold(name), *if_exists, cascade)
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let before = table()?;
                rename_constraint(writer, &before, &fold(old_name), &fold(new_name))
            }
            other => Err(Error::unsupported(format!("ALTER TABLE … {other} is not supported"))),
        }
    }

    /// Renames a column, also in the expressions of its table.
    fn rename_column(&self, writer: &mut Transaction, target: &Target, old: &str, new: &str) -> Result<()> {
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
        self.check_columns(&new_columns_of(&renamed))?;
        for constraint in &renamed.constraints {
            if let ConstraintRule::Check { sql } = &constraint.rule {
                self.check_condition(&renamed, &constraint.name, sql)?;
            }
        }
        writer.alter_table(target.id, |table| {
            (table.columns, table.constraints) = (renamed.columns, renamed.constraints);
            Ok(())
        })
    }

    /// Returns the name that RENAME TO gives a table.
    fn renamed(&self, database: &str, table: &TableEntry, name: &ObjectName) -> Result<String> {
        let parts = parts_of(name)?;
        if parts.len() > 1 {
            let new = self.scope.resolve(&parts, Some(database))?;
            if (new.database.as_str(), &new.schema) != (database, &table.schema) {
                let why =
                    format!("RENAME keeps a table in its schema: write RENAME TO {}", quoted(&new.name));
                return Err(Error::new(ErrorKind::Syntax, why));
            }
        }
        last_of(name)
    }

    fn alter_column(
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

    fn alter_column_by(
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
                self.with_view_of(writer, |session, _, _| {
                    session.check_not_null(&target.database, &before, &name)
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
                self.check_default(&name, &old.logical_type, &default)?;
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
        let wanted = new_type.arrow_field(name, true);
        let using =
            using.map(|expr| self.filling_from(table, old, &new_type, &expr.to_string())).transpose()?;
        let zone = self.time_zone();
        writer.convert_column(table.id, name, new_type, |piece| {
            self.check_interrupt()?;
            let computed = using.as_ref().map(|using| using.values_from(piece)).transpose()?;
            cast_within(computed.as_ref().unwrap_or(piece), &wanted, &zone).map_err(|error| {
                from_datafusion(error.into()).context(format!("column \"{name}\" cannot become {data_type}"))
            })
        })?;
        // Values that differed may have become equal.
        self.check_column(writer, table.id, old.id)
    }

    /// Adds a column, whose values in the rows that are there are computed for each of them.
    fn add_column(&self, writer: &mut Transaction, id: TableId, declared: DeclaredColumn) -> Result<()> {
        let DeclaredColumn { mut column, constraints, sequence } = declared;
        let table = writer.catalog().table_by_id(id).cloned();
        let table = table.ok_or_else(|| Error::internal("a table that is being altered is missing"))?;
        let mut columns = new_columns_of(&table);
        columns.push(column.clone());
        self.check_columns(&columns)?;
        if let Some(clauses) = sequence {
            let name = (table.schema.as_str(), table.name.as_str());
            let mut sequence = sequence_of_column(writer.catalog(), name, &mut column, &clauses)?;
            sequence.owner = Some(SequenceOwner { table: id, column: table.next_column_id });
            writer.create_sequence(sequence)?;
        }
        self.with_view_of(writer, |session, writer, snapshot| {
            let database = session.scope.name_of(writer.database())?;
            let filling = session.filling_of_new(&database, snapshot.catalog(), &table, &column)?;
            writer.add_column(id, column, filling.reads_rows(), |rows| {
                session.check_interrupt()?;
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

    pub(super) fn comment(
        &self,
        object: CommentObject,
        name: &ObjectName,
        comment: Option<String>,
    ) -> Result<Outcome> {
        let parts: Vec<String> = name.0.iter().map(ToString::to_string).collect();
        let (table, column) = match (object, parts.as_slice()) {
            (CommentObject::Table, _) => (name.clone(), None),
            (CommentObject::Column, [.., _, _]) => {
                let mut table = name.clone();
                let column = table.0.pop().and_then(|part| part.as_ident().map(fold));
                (table, column)
            }
            (CommentObject::Column, _) => {
                return Err(Error::new(ErrorKind::Syntax, "COMMENT ON COLUMN needs table.column"));
            }
            (CommentObject::Schema, _) => {
                let Name { database, name, .. } = self.scope_of_schema(&parts_of(name)?)?;
                return self.write(&database, |writer| {
                    check_schema(writer.catalog(), &name)?;
                    writer.comment(&name, None, comment)?;
                    Ok(DONE)
                });
            }
            (CommentObject::View | CommentObject::Sequence, _) => {
                let Name { database, schema, name } = self.resolve(name)?;
                return self.write(&database, |writer| {
                    let catalog = writer.catalog();
                    match object {
                        CommentObject::View => check_view(catalog, &schema, &name)?,
                        _ if catalog.sequence(&schema, &name).is_none() => {
                            return Err(unknown_sequence(catalog, &name));
                        }
                        _ => {}
                    }
                    writer.comment(&schema, Some(&name), comment)?;
                    Ok(DONE)
                });
            }
            (other, _) => return Err(Error::unsupported(format!("COMMENT ON {other} is not supported"))),
        };
        let target = self.target(&table, None)?;
        self.write(&target.database, |writer| {
            match &column {
                Some(column) => self.alter_column(writer, &target, column, |column| {
                    column.comment = comment;
                    Ok(())
                }),
                None => writer.alter_table(target.id, |table| {
                    table.comment = comment;
                    Ok(())
                }),
            }?;
            Ok(DONE)
        })
    }

    /// Writes tables anew without their deleted rows, and gives the space back. Counts those rows.
    pub(super) fn vacuum(&self, vacuum: &VacuumStatement) -> Result<Outcome> {
        let VacuumStatement { sort_only, delete_only, reindex, recluster, boost, .. } = *vacuum;
        let option = sort_only || delete_only || reindex || recluster || boost || vacuum.threshold.is_some();
        refuse(option, "VACUUM with another option than FULL")?;
        self.identity.privileges.check_write()?;
        self.refuse_in_transaction("VACUUM")?;
        let only = vacuum.table_name.as_ref().map(|name| self.target(name, None)).transpose()?;
        let Named { database, snapshot, .. } = match &only {
            Some(target) => self.scope.database(&target.database)?,
            None => self.scope.current_database()?,
        };
        let only = only.map(|target| target.id);
        let all = snapshot.tables().map(|table| table.entry().id);
        let ids: Vec<_> = all.filter(|id| only.is_none_or(|only| only == *id)).collect();
        let mut removed = 0;
        for id in ids.iter().copied() {
            for attempt in 1.. {
                self.check_interrupt()?;
                let mut writer = database.begin(self.engine.options().threads)?;
                let compacted = writer.compact(id, |done, total| {
                    self.counters.done.store(done, Ordering::Relaxed);
                    self.counters.total.store(total, Ordering::Relaxed);
                    self.check_interrupt()
                });
                match compacted.and_then(|count| writer.commit().map(|_| count)) {
                    Ok(count) => {
                        removed += count;
                        break;
                    }
                    Err(error) if error.kind() == ErrorKind::Conflict && attempt < ATTEMPTS => {}
                    Err(error) => return Err(error),
                }
            }
        }
        database.checkpoint()?;
        self.refresh()?;
        let compacted = database.snapshot()?;
        self.rebuild_declared(&compacted, &ids)?;
        Ok(Outcome::Done { rows_affected: Some(removed) })
    }
}

/// Drops a column and the constraints that it is in; with CASCADE also the foreign keys that refer
/// to it, and the columns that are generated from it.
///
/// # Errors
/// `Constraint` when there are such, without `cascade`; `InvalidInput` for the only column.
fn drop_column(writer: &mut Transaction, table: &TableEntry, name: &str, cascade: bool) -> Result<()> {
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

/// Drops the foreign keys that refer to a key, unless another constraint has the same one.
///
/// # Errors
/// `Constraint` when there are any, without `cascade`.
fn release_key(
    writer: &mut Transaction,
    table: &TableEntry,
    dropped: &ConstraintEntry,
    cascade: bool,
) -> Result<()> {
    let Some(key) = dropped.rule.key() else { return Ok(()) };
    let has_key = |other: &ConstraintEntry| other.name != dropped.name && other.rule.key() == Some(key);
    if table.constraints.iter().any(has_key) {
        return Ok(());
    }
    let catalog = writer.catalog().clone();
    for (other, constraint) in referring(&catalog, table.id) {
        let refers =
            matches!(&constraint.rule, ConstraintRule::ForeignKey { referred, .. } if referred == key);
        if !refers {
            continue;
        }
        if !cascade {
            return Err(Error::new(
                ErrorKind::Constraint,
                format!(
                    "constraint \"{}\" of table \"{}\" is needed by constraint \"{}\" of table \"{}\"; drop that \
                     first, or use CASCADE",
                    dropped.name, table.name, constraint.name, other.name
                ),
            )
            .with_sqlstate("2BP01"));
        }
        writer.alter_table(other.id, |other| {
            other.constraints.retain(|kept| kept.name != constraint.name);
            Ok(())
        })?;
    }
    Ok(())
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

fn drop_constraint(
    writer: &mut Transaction,
    before: &TableEntry,
    name: &str,
    if_exists: bool,
    cascade: bool,
) -> Result<()> {
    let Some(dropped) = before.constraints.iter().find(|constraint| constraint.name == name) else {
        return if if_exists { Ok(()) } else { Err(unknown_constraint(before, name)) };
    };
    release_key(writer, before, dropped, cascade)?;
    writer.alter_table(before.id, |table| {
        table.constraints.retain(|kept| kept.name != name);
        Ok(())
    })
}

fn rename_constraint(writer: &mut Transaction, before: &TableEntry, old: &str, new: &str) -> Result<()> {
    if !before.constraints.iter().any(|constraint| constraint.name == old) {
        return Err(unknown_constraint(before, old));
    }
    writer.alter_table(before.id, |table| {
        for constraint in table.constraints.iter_mut().filter(|constraint| constraint.name == old) {
            constraint.name = new.into();
        }
        Ok(())
    })
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

fn unknown_constraint(table: &TableEntry, name: &str) -> Error {
    let known = table.constraints.iter().map(|constraint| constraint.name.as_str());
    let suggestion = did_you_mean(name, known);
    let message = format!("table \"{}\" has no constraint \"{name}\"{suggestion}", table.name);
    Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704")
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

fn table_of(writer: &Transaction, target: &Target) -> Result<TableEntry> {
    let found = writer.catalog().table_by_id(target.id);
    found.map(|table| table.as_ref().clone()).ok_or_else(|| Error::internal("an altered table is missing"))
}
