//! ALTER TABLE, COMMENT ON and VACUUM.

use super::constraint::Declared;
use super::ddl::{fold, last_of, new_column};
use super::sequence::release;
use super::types::logical_type;
use super::write::Target;
use super::{parse, quoted};
use crate::error::from_datafusion;
use crate::scope::Named;
use crate::session::{Outcome, Parameters, Session};
use arrow::array::{ArrayRef, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, CommentObject, DropBehavior, Ident, ObjectName,
    RenameTableNameKind,
};
use hypostyle_storage::{
    ColumnEntry, ConstraintRule, NewColumn, SequenceEntry, TableEntry, Transaction, unknown_column,
};
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};

/// Times that a compaction is tried again when others have written meanwhile.
const ATTEMPTS: usize = 5;

const DONE: Outcome = Outcome::Done { rows_affected: None };

impl Session {
    pub(super) fn alter_table(&self, alter: AlterTable) -> Result<Outcome> {
        if alter.if_exists && self.table_data(&self.resolve(&alter.name)?).is_none() {
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
            AlterTableOperation::AddColumn { if_not_exists, column_def, .. } => {
                let (column, declared) = new_column(column_def)?;
                if *if_not_exists && table()?.column(&column.name).is_some() {
                    return Ok(());
                }
                let value = self.default_value(&column)?;
                writer.add_column(id, column, &value)?;
                self.add_constraints(writer, id, &declared)
            }
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let cascade = *drop_behavior == Some(DropBehavior::Cascade);
                let catalog = writer.catalog().clone();
                for name in column_names.iter().map(fold) {
                    let before = table_of(writer, target)?;
                    let Some(column) = before.column(&name).map(|column| column.id) else {
                        if *if_exists {
                            continue;
                        }
                        return Err(unknown_column(&before, &name));
                    };
                    let referring = catalog.tables.iter().find(|other| {
                        other.constraints.iter().any(|constraint| match &constraint.rule {
                            ConstraintRule::ForeignKey { table, referred, .. } => {
                                *table == id && referred.contains(&column)
                            }
                            _ => false,
                        })
                    });
                    if let Some(other) = referring {
                        return Err(Error::new(
                            ErrorKind::Constraint,
                            format!(
                                "column \"{name}\" is referred to by table \"{}\"; drop its constraint first",
                                other.name
                            ),
                        )
                        .with_sqlstate("2BP01"));
                    }
                    let owned: Vec<_> = writer.catalog().owned_sequences(id).cloned().collect();
                    let goes = |sequence: &&SequenceEntry| {
                        sequence.owner.is_some_and(|owner| owner.column == column)
                    };
                    for sequence in owned.iter().filter(goes) {
                        release(writer, sequence, cascade, |user, used_by| user == id && used_by == column)?;
                    }
                    writer.alter_table(id, |table| {
                        if table.columns.len() == 1 {
                            return Err(Error::invalid_input("the only column of a table cannot be dropped"));
                        }
                        table.columns.retain(|kept| kept.id != column);
                        table.constraints.retain(|kept| !kept.rule.columns().contains(&column));
                        Ok(())
                    })?;
                }
                Ok(())
            }
            AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                let (old, new) = (fold(old_column_name), fold(new_column_name));
                self.alter_column(writer, target, &old, |column| {
                    column.name = new;
                    Ok(())
                })
            }
            AlterTableOperation::RenameTable {
                table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
            } => {
                let new = last_of(name)?;
                writer.alter_table(id, |table| {
                    table.name = new;
                    Ok(())
                })
            }
            AlterTableOperation::AlterColumn { column_name, op } => {
                self.alter_column_by(writer, target, column_name, op)
            }
            AlterTableOperation::AddConstraint { constraint, .. } => {
                self.add_constraints(writer, id, &[Declared::of_table(constraint)?])
            }
            AlterTableOperation::DropConstraint { if_exists, name, .. } => {
                let name = fold(name);
                let before = table()?;
                if !before.constraints.iter().any(|constraint| constraint.name == name) {
                    if *if_exists {
                        return Ok(());
                    }
                    let known = before.constraints.iter().map(|constraint| constraint.name.as_str());
                    return Err(Error::new(
                        ErrorKind::UnknownName,
                        format!(
                            "table \"{}\" has no constraint \"{name}\"{}",
                            before.name,
                            did_you_mean(&name, known)
                        ),
                    )
                    .with_sqlstate("42704"));
                }
                writer.alter_table(id, |table| {
                    table.constraints.retain(|kept| kept.name != name);
                    Ok(())
                })
            }
            AlterTableOperation::RenameConstraint { old_name, new_name } => {
                let (old, new) = (fold(old_name), fold(new_name));
                writer.alter_table(id, |table| {
                    for constraint in table.constraints.iter_mut().filter(|constraint| constraint.name == old)
                    {
                        constraint.name.clone_from(&new);
                    }
                    Ok(())
                })
            }
            other => Err(Error::unsupported(format!("ALTER TABLE … {other} is not supported"))),
        }
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
                self.check_not_null(&target.database, &before, &name)?;
                self.alter_column(writer, target, &name, |column| {
                    column.nullable = false;
                    Ok(())
                })
            }
            AlterColumnOperation::DropNotNull => {
                let in_key = before.constraints.iter().find(|constraint| match &constraint.rule {
                    ConstraintRule::PrimaryKey { columns } => columns.contains(&old.id),
                    _ => false,
                });
                if let Some(key) = in_key {
                    return Err(Error::invalid_input(format!(
                        "column \"{name}\" is in the primary key \"{}\", which has no NULLs",
                        key.name
                    ))
                    .with_sqlstate("42P16"));
                }
                self.alter_column(writer, target, &name, |column| {
                    column.nullable = true;
                    Ok(())
                })
            }
            AlterColumnOperation::SetDefault { value } => {
                self.alter_column(writer, target, &name, |column| {
                    column.default = Some(value.to_string());
                    Ok(())
                })
            }
            AlterColumnOperation::DropDefault => self.alter_column(writer, target, &name, |column| {
                column.default = None;
                Ok(())
            }),
            AlterColumnOperation::SetDataType { using: Some(using), .. } => Err(Error::unsupported(format!(
                "USING {using} is not supported: UPDATE a new column instead"
            ))),
            AlterColumnOperation::SetDataType { data_type, using: None, .. } => {
                let definition = NewColumn {
                    name: name.clone(),
                    logical_type: logical_type(data_type)?,
                    nullable: old.nullable,
                    default: old.default.clone(),
                };
                let wanted = definition.logical_type.arrow_type();
                let options = CastOptions { safe: false, ..CastOptions::default() };
                writer.convert_column(target.id, &name, definition, |piece| {
                    cast_with_options(piece, &wanted, &options).map_err(|error| {
                        Error::invalid_input(format!(
                            "column \"{name}\" cannot become {data_type}: {}",
                            from_datafusion(error.into()).message()
                        ))
                    })
                })
            }
            other => Err(Error::unsupported(format!("ALTER COLUMN … {other} is not supported"))),
        }
    }

    /// One row with the default of a new column.
    fn default_value(&self, column: &NewColumn) -> Result<ArrayRef> {
        let Some(default) = &column.default else {
            return Ok(new_null_array(&column.logical_type.arrow_type(), 1));
        };
        let sql = format!("SELECT {default} AS {}", quoted(&column.name));
        let (_, batches) = self.collect_rows(self.query(parse(&sql)?, &Parameters::None)?)?;
        let value = batches.iter().find(|batch| batch.num_rows() == 1).map(|batch| batch.column(0).clone());
        let value = value.ok_or_else(|| Error::internal("a default is one value"))?;
        cast_with_options(
            &value,
            &column.logical_type.arrow_type(),
            &CastOptions { safe: false, ..CastOptions::default() },
        )
        .map_err(|error| {
            Error::invalid_input(format!(
                "the default of column \"{}\" does not fit its type: {}",
                column.name,
                from_datafusion(error.into()).message()
            ))
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
    pub(super) fn vacuum(&self, table: Option<&ObjectName>) -> Result<Outcome> {
        self.refuse_in_transaction("VACUUM")?;
        let only = table.map(|name| self.target(name, None)).transpose()?;
        let Named { database, snapshot, .. } = match &only {
            Some(target) => self.scope.database(&target.database)?,
            None => self.scope.current_database()?,
        };
        let only = only.map(|target| target.id);
        let ids: Vec<_> = snapshot.tables().map(|table| table.entry().id).collect();
        let mut removed = 0;
        for id in ids.into_iter().filter(|id| only.is_none_or(|only| only == *id)) {
            for attempt in 1.. {
                self.check_interrupt()?;
                let mut writer = database.begin(self.engine.options().threads)?;
                match writer.compact(id).and_then(|count| writer.commit().map(|_| count)) {
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
        Ok(Outcome::Done { rows_affected: Some(removed) })
    }
}

fn table_of(writer: &Transaction, target: &Target) -> Result<TableEntry> {
    let found = writer.catalog().table_by_id(target.id);
    found.map(|table| table.as_ref().clone()).ok_or_else(|| Error::internal("an altered table is missing"))
}
