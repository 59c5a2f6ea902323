//! ALTER COLUMN for columns that compute their own values.

use crate::session::Outcome;
use crate::session::outcome::DONE;
use crate::statement::definer::Ddl;
use crate::statement::names::Names;
use crate::statement::sequence::{Clauses, release};
use crate::statement::target::Target;
use hypostyle_catalog::scope::Name;
use hypostyle_sql::statement::{AlterColumn, ColumnChange};
use hypostyle_storage::{ColumnEntry, Identity, unknown_column};
use hypostyle_types::{Error, Result};

/// Returns what a column is not that a change is for, and whether that is no error; `None` when it is.
fn refusal(change: &ColumnChange, column: &ColumnEntry) -> Option<(&'static str, bool)> {
    match change {
        ColumnChange::SetGenerated { .. } | ColumnChange::Sequence(_) => {
            column.identity.is_none().then_some(("an identity column", false))
        }
        ColumnChange::DropIdentity { if_exists } => {
            column.identity.is_none().then_some(("an identity column", *if_exists))
        }
        ColumnChange::DropExpression { if_exists } => {
            column.generated.is_none().then_some(("a generated column", *if_exists))
        }
    }
}

fn apply(change: &ColumnChange, column: &mut ColumnEntry) {
    match change {
        ColumnChange::SetGenerated { always: true } => column.identity = Some(Identity::Always),
        ColumnChange::SetGenerated { always: false } => column.identity = Some(Identity::ByDefault),
        ColumnChange::DropIdentity { .. } => column.identity = None,
        ColumnChange::DropExpression { .. } => column.generated = None,
        ColumnChange::Sequence(_) => {}
    }
}

impl Ddl<'_> {
    /// Runs ALTER COLUMN of a column that computes its own values.
    pub(super) fn alter_computed(&self, alter: &AlterColumn) -> Result<Outcome> {
        let clauses = match &alter.change {
            ColumnChange::Sequence(clauses) => Some(Clauses::read(clauses.as_ref().clone())?),
            _ => None,
        };
        if alter.if_exists
            && self.databases.names().table_data(&self.databases.names().resolve(&alter.table)?).is_none()
        {
            return Ok(DONE);
        }
        let target = self.databases.names().target(&alter.table, None)?;
        if let Some(clauses) = &clauses
            && target.is_of_cluster
            && let Some(sequence) = self.databases.names().sequence_of(&target, &alter.column)?
            && self.alter_in_cluster(&sequence, clauses)?
        {
            return Ok(DONE);
        }
        self.databases.write(&target.database, |writer| {
            let found = writer.catalog().table_by_id(target.id);
            let table = found.cloned().ok_or_else(|| Error::internal("an altered table is missing"))?;
            let column = table.column(&alter.column).ok_or_else(|| unknown_column(&table, &alter.column))?;
            match refusal(&alter.change, column) {
                None => {}
                Some((_, true)) => return Ok(DONE),
                Some((what, false)) => {
                    return Err(Error::invalid_input(format!(
                        "column \"{}\" of table \"{}\" is not {what}",
                        column.name, table.name
                    ))
                    .with_sqlstate("55000"));
                }
            }
            let sequence = writer.catalog().sequence_of(table.id, column.id).cloned();
            if let (Some(clauses), Some(sequence)) = (&clauses, &sequence) {
                return self
                    .definer
                    .change_sequence(&target.database, writer, sequence, clauses)
                    .map(|()| DONE);
            }
            let sequence = sequence.filter(|_| matches!(alter.change, ColumnChange::DropIdentity { .. }));
            if let Some(sequence) = &sequence {
                release(writer, sequence, false, |user, used_by| (user, used_by) == (table.id, column.id))?;
            }
            writer.alter_table(table.id, |table| {
                table.columns.iter_mut().filter(|other| other.id == column.id).for_each(|column| {
                    apply(&alter.change, column);
                });
                Ok(())
            })?;
            match sequence {
                Some(sequence) => writer.drop_sequence(&sequence.schema, &sequence.name).map(|()| DONE),
                None => Ok(DONE),
            }
        })
    }
}

impl Names<'_> {
    /// Returns the sequence of a column, if it has one of its own.
    fn sequence_of(&self, target: &Target, column: &str) -> Result<Option<Name>> {
        let snapshot = self.snapshot_of(&target.database)?;
        let definitions = snapshot.catalog();
        let found = definitions.table_by_id(target.id).and_then(|table| table.column(column));
        let sequence = found.and_then(|column| definitions.sequence_of(target.id, column.id));
        Ok(sequence.map(|sequence| Name::new(&target.database, &sequence.schema, &sequence.name)))
    }
}
