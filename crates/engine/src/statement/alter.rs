//! ALTER TABLE, COMMENT ON and VACUUM.

use crate::session::cluster::of_node;
use crate::session::outcome::DONE;
use crate::session::{Outcome, Session};
use crate::statement::alter_column::{drop_column, table_of};
use crate::statement::constraint::referring;
use crate::statement::ddl::{check_schema, new_column};
use crate::statement::declared_constraint::Declared;
use crate::statement::definer::{Ddl, Definer};
use crate::statement::materialized::refuse_alteration;
use crate::statement::names::Names;
use crate::statement::refusal::{missing, refuse, refuse_other_kind, unknown_constraint};
use crate::statement::target::Target;
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, CommentObject, DropBehavior, ObjectName, RenameTableNameKind,
};
use hypostyle_catalog::scope::{Name, Named};
use hypostyle_cluster::node::SCHEMA as NODE_SCHEMA;
use hypostyle_sql::identifier::quoted;
use hypostyle_sql::identifier::{fold, last_of, parts_of};
use hypostyle_sql::statement::ConstraintComment;
use hypostyle_storage::{
    ConstraintEntry, ConstraintRule, TableEntry, Transaction, unknown_column, unknown_sequence,
};
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// Times that a compaction is tried again at once when others have written meanwhile.
const ATTEMPTS: usize = 5;

impl Session {
    /// Writes tables anew without their deleted rows, and gives the space back. Counts those rows.
    pub(super) fn vacuum(&self, table: Option<&ObjectName>) -> Result<Outcome> {
        self.identity.privileges.check_write()?;
        self.refuse_in_transaction("VACUUM")?;
        let only = table.map(|name| self.names().target(name, None)).transpose()?;
        let Named { database, snapshot, .. } = match &only {
            Some(target) => self.scope.database(&target.database)?,
            None => self.scope.current_database()?,
        };
        if only.as_ref().is_some_and(|target| target.schema == NODE_SCHEMA) {
            return Err(of_node());
        }
        let only = only.map(|target| target.id);
        // Readers of a cluster find rows by their positions, which stay.
        let all = snapshot.tables().filter(|table| table.entry().schema != NODE_SCHEMA);
        let all = all.map(|table| table.entry().id);
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
        self.ddl().rebuild_declared(&compacted, &ids)?;
        Ok(Outcome::Done { rows_affected: Some(removed) })
    }
}

impl Ddl<'_> {
    pub(super) fn comment_constraint(&self, given: ConstraintComment) -> Result<Outcome> {
        let ConstraintComment { constraint: name, table, comment } = given;
        self.databases.names().check_schema_of(&table)?;
        let target = self.databases.names().target(&table, None)?;
        self.databases.write(&target.database, |writer| {
            writer.alter_table(target.id, |table| {
                let unknown = unknown_constraint(table, &name);
                let mut constraints = table.constraints.iter_mut();
                constraints.find(|constraint| constraint.name == name).ok_or(unknown)?.comment = comment;
                Ok(())
            })?;
            Ok(DONE)
        })
    }

    pub(super) fn alter_table(&self, mut alter: AlterTable) -> Result<Outcome> {
        let AlterTable { on_cluster, location, table_type, .. } = &alter;
        let option = on_cluster.is_some() || location.is_some() || table_type.is_some();
        refuse(option, "ALTER TABLE with ON CLUSTER, LOCATION or a kind of table")?;
        if alter.if_exists
            && self.databases.names().table_data(&self.databases.names().resolve(&alter.name)?).is_none()
        {
            return Ok(DONE);
        }
        self.databases.names().check_schema_of(&alter.name)?;
        if let [AlterTableOperation::RenameTable { table_name }] = alter.operations.as_slice()
            && let RenameTableNameKind::To(name) | RenameTableNameKind::As(name) = table_name
            && self.rename_view(&alter.name, name)?
        {
            return Ok(DONE);
        }
        let target = self.databases.names().target(&alter.name, None)?;
        refuse_alteration(target.data.entry(), &alter.operations)?;
        self.databases.names().name_schemas_of_sequences(&target.database, &mut alter.operations);
        self.databases.write(&target.database, |writer| {
            let operations = alter.operations.iter();
            operations
                .map(|operation| self.definer.alter(writer, &target, operation))
                .collect::<Result<Vec<()>>>()?;
            Ok(DONE)
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
                let Name { database, name, .. } = self.databases.names().scope_of_schema(&parts_of(name)?)?;
                return self.databases.write(&database, |writer| {
                    check_schema(writer.catalog(), &name)?;
                    writer.comment(&name, None, comment)?;
                    Ok(DONE)
                });
            }
            (CommentObject::View | CommentObject::Sequence, _) => {
                self.databases.names().check_schema_of(name)?;
                let Name { database, schema, name } = self.databases.names().resolve(name)?;
                return self.databases.write(&database, |writer| {
                    let catalog = writer.catalog();
                    if object == CommentObject::View {
                        refuse_other_kind(catalog, &schema, &name, "a view")?;
                        if catalog.view(&schema, &name).is_none() {
                            let known = catalog.views.iter().map(|view| view.name.as_str());
                            return Err(missing("view", &name, known));
                        }
                    } else {
                        refuse_other_kind(catalog, &schema, &name, "a sequence")?;
                        if catalog.sequence(&schema, &name).is_none() {
                            return Err(unknown_sequence(catalog, &name));
                        }
                    }
                    writer.comment(&schema, Some(&name), comment)?;
                    Ok(DONE)
                });
            }
            (other, _) => return Err(Error::unsupported(format!("COMMENT ON {other} is not supported"))),
        };
        self.databases.names().check_schema_of(&table)?;
        let target = self.databases.names().target(&table, None)?;
        self.databases.write(&target.database, |writer| {
            match &column {
                Some(column) => self.definer.alter_column(writer, &target, column, |column| {
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
}

impl Definer<'_> {
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
                let new = self.names().renamed(&target.database, &before, name)?;
                let views = self.views_over(writer, target, &new)?;
                writer.alter_table(id, |table| {
                    table.name = new;
                    Ok(())
                })?;
                self.rename_in_views(writer, target, views)
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
}

impl Names<'_> {
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
