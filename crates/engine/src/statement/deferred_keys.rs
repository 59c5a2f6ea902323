//! Foreign keys that are checked when their transaction commits: DEFERRABLE and SET CONSTRAINTS.

use crate::session::outcome::DONE;
use crate::session::transaction::Explicit;
use crate::session::{Outcome, Session};
use crate::statement::constraint::{Checks, with_view_of};
use hypostyle_catalog::scope::Scope;
use hypostyle_sql::statement::SetConstraints;
use hypostyle_storage::Deferral;
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};

impl Session {
    /// Runs SET CONSTRAINTS: constraints that become immediate are checked now.
    pub(super) fn set_constraints(&self, set: SetConstraints) -> Result<Outcome> {
        let SetConstraints { names, deferred } = set;
        for name in names.iter().flatten() {
            check_deferrable(&self.scope, name)?;
        }
        let Some(mut explicit) = self.transaction.lock().take() else {
            // The transaction is over with this statement.
            return Ok(DONE);
        };
        match names {
            None => {
                explicit.deferrals.named.clear();
                explicit.deferrals.all = Some(deferred);
            }
            Some(names) => explicit.deferrals.named.extend(names.into_iter().map(|name| (name, deferred))),
        }
        let checked = match deferred {
            true => Ok(()),
            false => self
                .in_cluster()
                .with_changes_of(&mut explicit, |explicit| self.checks().check_deferred(explicit, false)),
        };
        *self.transaction.lock() = Some(explicit);
        checked.map(|()| DONE)
    }
}

impl Checks<'_> {
    /// Checks what a transaction has put off: all of it, or what it does not defer any more.
    ///
    /// # Errors
    /// `Constraint`, naming the constraint and a row.
    pub(super) fn check_deferred(&self, explicit: &mut Explicit, all: bool) -> Result<()> {
        let pending = std::mem::take(&mut explicit.deferrals.pending);
        for ((database, id, name), first) in pending {
            let Some(transaction) = explicit.part(&database) else { continue };
            let table = transaction.catalog().table_by_id(id).cloned();
            let constraint = table
                .as_ref()
                .and_then(|table| table.constraints.iter().find(|constraint| constraint.name == name));
            // The constraint may have been dropped.
            let Some(constraint) = constraint else { continue };
            if !all && explicit.deferrals.is_deferred(constraint) {
                explicit.deferrals.pending.insert((database, id, name), first);
                continue;
            }
            let Some(transaction) = explicit.part(&database) else { continue };
            with_view_of(self.scope, transaction, |writer, snapshot| {
                self.check_new(writer, snapshot, id, constraint, first, false)
            })?;
        }
        Ok(())
    }
}

fn check_deferrable(scope: &Scope, name: &str) -> Result<()> {
    let snapshot = scope.current_database()?.snapshot;
    let all = || snapshot.catalog().tables.iter().flat_map(|table| &table.constraints);
    let mut having = all().filter(|constraint| constraint.name == name).peekable();
    if having.peek().is_none() {
        let suggestion = did_you_mean(name, all().map(|constraint| constraint.name.as_str()));
        let message = format!("constraint \"{name}\" does not exist{suggestion}");
        return Err(Error::new(ErrorKind::UnknownName, message).with_sqlstate("42704"));
    }
    match having.any(|constraint| constraint.deferral != Deferral::Never) {
        true => Ok(()),
        false => {
            Err(Error::invalid_input(format!("constraint \"{name}\" is not deferrable"))
                .with_sqlstate("42809"))
        }
    }
}
