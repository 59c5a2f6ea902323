//! Transactions: those of the client, and the implicit ones of statements that come together.

use super::perform::Performed;
use super::{Savepoint, Session};
use crate::pgwire::channel::Failure;
use crate::pgwire::command::{Command, Modes};
use crate::pgwire::prepared::{Portal, State};
use crate::pgwire::setting::Setting;
use crate::pgwire::words::Words;
use hypostyle_types::Result;

/// Says whether a statement sets something until its transaction ends.
fn is_for_transaction(command: &Command) -> bool {
    matches!(
        command,
        Command::Setting(Setting::Set { local: true, .. } | Setting::Transaction { session: false, .. })
    )
}

impl Session {
    /// Begins a transaction for a statement that may write, if it is one of `several`, or
    /// transactions are to be read only; and for one that sets something for those behind it.
    pub(super) fn begin_implicitly(&mut self, command: &Command, several: bool) -> Result<()> {
        let read_only = self.is_read_only();
        // A query may take values of sequences.
        let may_write = !command.reads() || read_only && matches!(command, Command::Run { .. });
        let is_needed = (several || read_only) && may_write || several && is_for_transaction(command);
        if is_needed && !self.connection.is_in_transaction() {
            self.connection.execute(if read_only { "START TRANSACTION READ ONLY" } else { "BEGIN" })?;
            self.implicit = true;
        }
        Ok(())
    }

    /// Whether transactions are that say nothing else.
    fn is_read_only(&self) -> bool {
        self.settings.get("default_transaction_read_only").is_some_and(|value| value == "on")
    }

    /// The end of what belongs together.
    pub(super) fn sync(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.implicit) && self.connection.is_in_transaction() {
            let aborted = self.connection.is_transaction_failed();
            let ended = self.connection.execute(if aborted { "ROLLBACK" } else { "COMMIT" });
            self.forget_portals(!aborted && ended.is_ok());
            if let Err(error) = ended.map(drop).and_then(|()| self.restore_local()) {
                self.report(&error, None);
            }
        }
        if !self.connection.is_in_transaction() {
            self.forget_portals(true);
        }
        self.tell_settings();
        self.ready()
    }

    /// Forgets the portals of a transaction that has ended; those WITH HOLD stay, unless it has
    /// declared them and was rolled back.
    fn forget_portals(&mut self, committed: bool) {
        self.portals.retain(|_, portal| portal.hold && (committed || !portal.is_new));
        self.portals.values_mut().for_each(|portal| portal.is_new = false);
    }

    pub(super) fn begin(&mut self, modes: &Modes) -> Result<Performed> {
        if std::mem::take(&mut self.implicit) {
            // It is the client's from now on.
        } else if self.connection.is_in_transaction() {
            self.warn("25001", "there is already a transaction in progress");
        } else {
            let by_default = self.is_read_only().then_some(true);
            let modes = Modes { read_only: modes.read_only.or(by_default), ..modes.clone() };
            self.connection.execute(&format!("START TRANSACTION{modes}"))?;
        }
        Ok(Performed::Complete("BEGIN".into()))
    }

    pub(super) fn end(&mut self, commit: bool, chain: bool) -> Result<Performed> {
        self.implicit = false;
        if !self.connection.is_in_transaction() {
            self.warn("25P01", "there is no transaction in progress");
            return Ok(Performed::Complete(if commit { "COMMIT" } else { "ROLLBACK" }.into()));
        }
        let commits = commit && !self.connection.is_transaction_failed();
        let word = if commits { "COMMIT" } else { "ROLLBACK" };
        let ended = self.connection.execute(&format!("{word}{}", if chain { " AND CHAIN" } else { "" }));
        self.forget_portals(commits && ended.is_ok());
        self.restore_local()?;
        ended?;
        Ok(Performed::Complete(word.into()))
    }

    /// Takes back what SET LOCAL has set.
    fn restore_local(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.restore_local_from(0)
    }

    fn restore_local_from(&mut self, first: usize) -> Result<()> {
        let local = self.local.split_off(first.min(self.local.len()));
        local.into_iter().rev().try_for_each(|(name, value)| self.set(&name, value.as_deref(), false))
    }

    /// Counts a portal that is made, and returns how many there were before it.
    pub(super) fn number_portal(&mut self) -> u64 {
        self.portals_made += 1;
        self.portals_made - 1
    }

    /// Notes a savepoint that a statement has set, or forgets one that it has released; or takes back what
    /// SET LOCAL has set, and closes the cursors that were opened, since the one that it has returned to.
    pub(super) fn follow_savepoint(&mut self, sql: &str) -> Result<()> {
        let mut words = Words::of(sql);
        if words.accept("SAVEPOINT") {
            let (local, portals) = (self.local.len(), self.portals_made);
            self.savepoints.push(Savepoint { name: words.name()?, local, portals });
            return Ok(());
        }
        let is_release = words.accept("RELEASE");
        if !is_release {
            words.accept_any(&["ROLLBACK", "ABORT"]);
            words.accept_any(&["WORK", "TRANSACTION"]);
            if !words.accept("TO") {
                return Ok(());
            }
        }
        words.accept("SAVEPOINT");
        let name = words.name()?;
        let Some(place) = self.savepoints.iter().rposition(|known| known.name == name) else { return Ok(()) };
        if is_release {
            self.savepoints.truncate(place);
            return Ok(());
        }
        self.savepoints.truncate(place + 1);
        let Savepoint { local, portals, .. } = self.savepoints[place];
        // A statement that is running is not a cursor of its own.
        let is_kept = |portal: &Portal| portal.number < portals || !matches!(portal.state, State::Open(_));
        self.portals.retain(|_, portal| is_kept(portal));
        self.restore_local_from(local)
    }
}
