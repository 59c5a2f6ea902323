//! SET LOCAL: a setting that is another one until its transaction ends.

use crate::session::transaction::{Before, LocalSetting};
use crate::session::{Outcome, Session};
use crate::statement::settings::{
    Setter, parts_of_setting, reset_datafusion, set_datafusion, set_search_path,
};
use datafusion::sql::parser::ResetStatement;
use datafusion::sql::sqlparser::ast::{ContextModifier, Expr, ObjectName, Set, Value};
use hypostyle_catalog::pg_catalog::settings::Configured;
use hypostyle_sql::gate::with_room;
use hypostyle_types::{Error, ErrorKind, Result};

/// What the names of DataFusion's settings begin with.
const OF_DATAFUSION: &str = "datafusion.";

impl Session {
    /// Sets a setting to a value as SET and SET LOCAL do, or resets it as RESET does.
    ///
    /// # Errors
    /// Those of SET and RESET.
    pub fn change_setting(&self, name: &str, value: Option<&str>, is_local: bool) -> Result<()> {
        let statement = if value.is_some() { "SET" } else { "RESET" };
        let change = || {
            let variable = ObjectName::from(parts_of_setting(name));
            let Some(value) = value else { return self.setter().reset(ResetStatement::Variable(variable)) };
            let values = vec![Expr::value(Value::SingleQuotedString(value.to_string()))];
            let scope = is_local.then_some(ContextModifier::Local);
            self.setter().set(Set::SingleAssignment { scope, hivevar: false, variable, values })
        };
        let run = || {
            let _running = self.enter();
            self.setter().take_configured()?;
            self.run.lock().begin(&format!("{statement} {name}"));
            self.forget_state(true);
            let changed = self.in_transaction(statement, change);
            if !self.is_in_transaction() {
                self.locks.end_transaction();
            }
            self.forget_state(true);
            changed.map(drop)
        };
        self.meter.charge(|| with_room(name, 0, run))
    }
}

impl Setter<'_> {
    /// Runs SET: for the session, or for the open transaction.
    pub(super) fn set(&self, set: Set) -> Result<Outcome> {
        let (name, is_local) = match &set {
            Set::SingleAssignment { scope, variable, .. } => {
                (variable.to_string().to_ascii_lowercase(), *scope == Some(ContextModifier::Local))
            }
            Set::SetTimeZone { local, .. } => ("timezone".to_string(), *local),
            _ => return self.set_for_session(set),
        };
        if !is_local {
            let done = self.set_for_session(set)?;
            self.keep(&name)?;
            return Ok(done);
        }
        if !self.is_in_transaction() {
            return Err(Error::new(
                ErrorKind::TransactionState,
                format!(
                    "SET LOCAL {name} ends with its transaction, and none is open; write BEGIN, or SET {name}"
                ),
            )
            .with_sqlstate("25P01"));
        }
        let before = self.value_of(&name)?;
        let set = match set {
            Set::SingleAssignment { hivevar, variable, values, .. } => {
                Set::SingleAssignment { scope: None, hivevar, variable, values }
            }
            other => other,
        };
        let done = self.set_for_session(set)?;
        if let Some(explicit) = self.transaction.lock().as_mut() {
            explicit.local_settings.push(LocalSetting { name, before });
        }
        Ok(done)
    }

    /// Has a setting of the session's stay what it is when the transaction ends, though SET LOCAL has
    /// set it before.
    pub(super) fn keep(&self, name: &str) -> Result<()> {
        let is_it = |local: &LocalSetting| local.name == name;
        let is_local = match self.transaction.lock().as_ref() {
            Some(explicit) => explicit.local_settings.iter().any(is_it),
            None => false,
        };
        if !is_local {
            return Ok(());
        }
        let now = self.value_of(name)?;
        if let Some(explicit) = self.transaction.lock().as_mut() {
            for local in explicit.local_settings.iter_mut().filter(|local| is_it(local)) {
                local.before = now.clone();
            }
        }
        Ok(())
    }

    /// Does what `set_config` has asked for in a query before.
    pub(super) fn take_configured(&self) -> Result<()> {
        // The session of PostgreSQL's protocol does it itself.
        if self.settings.is_wire() {
            return Ok(());
        }
        let configured = self.settings.take_configured();
        let is_failed = self.transaction.lock().as_ref().is_some_and(|explicit| explicit.aborted.is_some());
        if is_failed {
            self.settings.undo(configured);
            return Ok(());
        }
        for Configured { name, before, is_local } in configured {
            let local = LocalSetting { name: name.clone(), before: Before::Value(before) };
            if is_local && !self.is_in_transaction() {
                self.take_back(vec![local])?;
                continue;
            }
            self.set_configured(&name, &self.settings.get(&name).unwrap_or_default())?;
            if let Some(explicit) = self.transaction.lock().as_mut().filter(|_| is_local) {
                explicit.local_settings.push(local);
            }
            self.forget_state();
        }
        Ok(())
    }

    /// Has a setting of PostgreSQL's have its effect, if it is one of the engine's, too.
    fn set_configured(&self, name: &str, value: &str) -> Result<()> {
        match name {
            "timezone" => self.set_own(name, value).map(drop),
            "search_path" => set_search_path(self.scope, self.settings, value).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns what a setting of the session is.
    ///
    /// # Errors
    /// `Unsupported` for one that is everybody's; `UnknownName`.
    fn value_of(&self, name: &str) -> Result<Before> {
        if matches!(name, "search_path" | "schema") {
            return Ok(Before::SearchPath(self.scope.path(), self.settings.get("search_path")));
        }
        if let Some(value) = self.added(name) {
            return Ok(Before::Value(Some(value)));
        }
        if super::settings::is_of_session(name) {
            return Ok(Before::Value(self.own_setting(name)));
        }
        let config = self.context.copied_config();
        match config.options().entries().into_iter().find(|entry| entry.key == name) {
            Some(entry) => Ok(Before::Value(entry.value)),
            None if self.own_setting(name).is_some() => Err(Error::unsupported(format!(
                "{name} is everybody's, and cannot be set for one transaction; write SET {name}"
            ))),
            None => Err(super::settings::unknown(name)),
        }
    }

    /// Gives settings the values that they had before SET LOCAL.
    pub(super) fn take_back(&self, settings: Vec<LocalSetting>) -> Result<()> {
        let is_any = !settings.is_empty();
        for LocalSetting { name, before } in settings.into_iter().rev() {
            match before {
                Before::SearchPath(path, written) => {
                    self.scope.set_path(path);
                    self.settings.force("search_path", &written.unwrap_or_default());
                }
                Before::Value(Some(value)) if name.starts_with(OF_DATAFUSION) => {
                    set_datafusion(self.queries, &name, &value)?;
                }
                Before::Value(None) if name.starts_with(OF_DATAFUSION) => {
                    reset_datafusion(self.queries, &name)?;
                }
                Before::Value(None) => self.settings.reset(&name)?,
                Before::Value(Some(value)) => {
                    if let Some(setting) = self.added.write().get_mut(name.as_str()) {
                        setting.value = value;
                        continue;
                    }
                    if super::settings::is_of_session(&name) {
                        self.set_own(&name, &value)?;
                        continue;
                    }
                    self.settings.force(&name, &value);
                    self.set_configured(&name, &value)?;
                }
            }
        }
        if is_any {
            self.forget_state();
        }
        Ok(())
    }

    /// Forgets what was made with the settings of before.
    fn forget_state(&self) {
        *self.spare.lock() = None;
        self.remembered.lock().forget_results();
    }
}
