//! CREATE MACRO and DROP MACRO. A macro is the session's, if it is TEMP, or else the database's: then its
//! definition is stored as text. What is defined with a macro, as a view, keeps the expression that it stands
//! for, and so does another macro.

use crate::session::outcome::DONE;
use crate::session::statement_cache::Remembered;
use crate::session::{Outcome, Parameters, Session, may_lock};
use crate::statement::databases::InDatabases;
use crate::statement::dialect::{cast, parse};
use crate::statement::planned_parameters::literal;
use crate::statement::refusal::missing;
use datafusion::common::ScalarValue;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    DropFunction, Ident, MacroArg, MacroDefinition, ObjectName, ObjectNamePart, Query, Statement,
};
use hypostyle_error::from_datafusion;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::Statement as SqlStatement;
use hypostyle_sql::build;
use hypostyle_sql::defined_macros::{Macro, Macros, PARTS_MAX, is_if_missing, name_of_variable};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::kind::has_in_name;
use hypostyle_sql::macros::MACROS;
use hypostyle_storage::MacroEntry;
use hypostyle_sync::Mutex;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};
use std::sync::Arc;

/// The function that gives the text of its statement.
const CURRENT_QUERY: &str = "current_query";

/// Macros of a session, and of a database.
const MACROS_MAX: usize = 200;

/// What is done where there is a macro of the name.
#[derive(Clone, Copy)]
enum Known {
    IsRefused,
    IsReplaced,
    Stays,
}

/// Reads the text of a macro.
fn read_stored(entry: &MacroEntry) -> Result<Macro> {
    if let DfStatement::Statement(statement) = parse(&entry.sql)?
        && let Statement::CreateMacro { args, definition, .. } = *statement
    {
        return Macro::new(args.unwrap_or_default(), definition);
    }
    Err(Error::corrupt(format!("the macro \"{}\" is no CREATE MACRO", entry.name)))
}

fn exists(what: &str, name: &str) -> Error {
    let message = format!("the {what} \"{name}\" already exists");
    Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42723")
}

/// Returns a name that has neither a schema nor a database before it.
fn own_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(fold(name)),
        _ => None,
    }
}

/// The macros and variables of a session, and the macros of its database.
pub(super) struct KeptMacros<'a> {
    pub own: &'a Mutex<Macros>,
    /// Those of the database, with what they were read from.
    pub stored: &'a Mutex<(Vec<MacroEntry>, Arc<Macros>)>,
    /// The statements that may call them.
    pub remembered: &'a Mutex<Remembered>,
    /// Has the functions whose names macros cannot have.
    pub context: &'a SessionContext,
    pub databases: InDatabases<'a>,
}

impl Session {
    pub(super) fn kept_macros(&self) -> KeptMacros<'_> {
        KeptMacros {
            own: &self.macros,
            stored: &self.stored_macros,
            remembered: &self.remembered,
            context: &self.context,
            databases: InDatabases { scope: &self.scope, transactions: self },
        }
    }
}

impl KeptMacros<'_> {
    pub fn create_macro(
        &self,
        name: &ObjectName,
        or_replace: bool,
        temporary: bool,
        arguments: Vec<MacroArg>,
        definition: MacroDefinition,
    ) -> Result<Outcome> {
        let (known, name) = match name.0.as_slice() {
            [ObjectNamePart::Identifier(mark), ObjectNamePart::Identifier(name)] if is_if_missing(mark) => {
                (Known::Stays, Some(fold(name)))
            }
            _ if or_replace => (Known::IsReplaced, own_name(name)),
            _ => (Known::IsRefused, own_name(name)),
        };
        let Some(name) = name else {
            return Err(Error::unsupported("a macro is of the session or of the database, and of no schema"));
        };
        if self.has_function(&name) {
            return Err(exists("function", &name));
        }
        let takes_locks = may_lock(&definition.to_string())
            || arguments.iter().any(|argument| may_lock(&argument.to_string()));
        if takes_locks {
            // Whether a statement may wait for a lock is seen in its text.
            return Err(Error::unsupported(
                "a macro that takes advisory locks is not supported; write their functions in the statement",
            ));
        }
        // The database keeps its text.
        let written = Statement::CreateMacro {
            or_replace: false,
            temporary: false,
            name: build::name(&name).into(),
            args: Some(arguments.clone()),
            definition: definition.clone(),
        };
        let new = Macro::new(arguments, definition)?;
        match temporary {
            true => self.keep_macro(name, known, new),
            false => self.store_macro(MacroEntry { name, sql: written.to_string() }, known),
        }
    }

    /// Makes a macro of the session.
    fn keep_macro(&self, name: String, known: Known, new: Macro) -> Result<Outcome> {
        let mut macros = self.own.lock();
        match (macros.contains_key(&name), known) {
            (true, Known::Stays) => return Ok(DONE),
            (true, Known::IsRefused) => return Err(exists("macro", &name)),
            (false, _) if macros.len() >= MACROS_MAX => {
                return Err(Error::unsupported(format!(
                    "a session has {MACROS_MAX} macros at most; drop one"
                )));
            }
            _ => {}
        }
        macros.insert(name, new);
        // What was read before may have called a function of this name that there was not.
        *self.remembered.lock() = Default::default();
        Ok(DONE)
    }

    /// Makes a macro of the database.
    fn store_macro(&self, new: MacroEntry, known: Known) -> Result<Outcome> {
        // What is read again later must be read now.
        read_stored(&new)?;
        let database = self.databases.scope.current_database()?.name;
        self.databases.write(&database, |writer| {
            match (writer.catalog().macro_named(&new.name).is_some(), known) {
                (true, Known::Stays) => return Ok(()),
                (true, Known::IsRefused) => return Err(exists("macro", &new.name)),
                (true, Known::IsReplaced) => writer.drop_macro(&new.name)?,
                (false, _) if writer.catalog().macros.len() >= MACROS_MAX => {
                    return Err(Error::unsupported(format!(
                        "a database has {MACROS_MAX} macros at most; drop one"
                    )));
                }
                (false, _) => {}
            }
            writer.create_macro(new)
        })?;
        *self.remembered.lock() = Default::default();
        Ok(DONE)
    }

    /// Returns the macros of the database, as the statement sees it.
    fn stored_macros(&self) -> Arc<Macros> {
        if !self.databases.scope.has_macros() {
            return Arc::default();
        }
        // A database of another system has none.
        let Ok(named) = self.databases.scope.current_database() else { return Arc::default() };
        let entries = &named.snapshot.catalog().macros;
        let mut stored = self.stored.lock();
        if stored.0 != *entries {
            // One that cannot be read any more is a function that there is not.
            let read = |entry: &MacroEntry| Some((entry.name.clone(), read_stored(entry).ok()?));
            let macros: Macros = entries.iter().filter_map(read).collect();
            *stored = (entries.clone(), Arc::new(macros));
        }
        stored.1.clone()
    }

    /// Runs SET VARIABLE: the value is computed now, and stands where it is asked for.
    pub fn set_variable(&self, name: &str, query: Query) -> Result<Outcome> {
        let (schema, batches) = self.databases.transactions.rows(query, &Parameters::None)?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let (Some(field), Some(row)) = (schema.fields().first(), row) else {
            return Err(Error::internal("the value of a variable is one row"));
        };
        let value = ScalarValue::try_from_array(row.column(0), 0).map_err(from_datafusion)?;
        let written = literal(&value).ok_or_else(|| {
            Error::unsupported(format!(
                "a variable of type {} is not supported",
                type_name(field.data_type())
            ))
        })?;
        let written = match LogicalType::from_arrow(field) {
            Ok(of) if !field.data_type().is_null() => cast(written, &of)?,
            _ => written,
        };
        let argument = MacroArg { name: Ident::new("name"), default_expr: None };
        let new = Macro::new(vec![argument], MacroDefinition::Expr(written))?;
        let name = name_of_variable(name);
        let mut macros = self.own.lock();
        if macros.len() >= MACROS_MAX && !macros.contains_key(&name) {
            return Err(Error::unsupported(format!(
                "a session has {MACROS_MAX} macros and variables at most; RESET VARIABLE takes one away"
            )));
        }
        macros.insert(name, new);
        // What was read before may have asked for it.
        *self.remembered.lock() = Default::default();
        Ok(DONE)
    }

    /// Runs RESET VARIABLE.
    pub fn reset_variable(&self, name: &str) -> Result<Outcome> {
        self.own.lock().remove(&name_of_variable(name));
        *self.remembered.lock() = Default::default();
        Ok(DONE)
    }

    fn has_function(&self, name: &str) -> bool {
        let state = self.context.state_ref();
        let state = state.read();
        MACROS.iter().any(|(known, ..)| *known == name)
            || state.scalar_functions().contains_key(name)
            || state.higher_order_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
    }

    pub fn drop_macro(&self, name: &str, if_exists: bool) -> Result<Outcome> {
        if self.own.lock().remove(name).is_some() {
            return Ok(DONE);
        }
        let stored = self.stored_macros();
        if self.has_stored_macro(name) {
            self.drop_stored(&[name])?;
        } else if !if_exists {
            let macros = self.own.lock();
            let known = macros.keys().chain(stored.keys()).map(String::as_str);
            return Err(missing("macro", name, known).with_sqlstate("42883"));
        }
        Ok(DONE)
    }

    fn has_stored_macro(&self, name: &str) -> bool {
        let database = self.databases.scope.current_database();
        database.is_ok_and(|named| named.snapshot.catalog().macro_named(name).is_some())
    }

    fn drop_stored(&self, names: &[&str]) -> Result<()> {
        let database = self.databases.scope.current_database()?.name;
        self.databases.write(&database, |writer| names.iter().try_for_each(|name| writer.drop_macro(name)))
    }

    /// Runs DROP FUNCTION, which drops macros.
    pub fn drop_functions(&self, drop: &DropFunction) -> Result<Outcome> {
        let names: Vec<(String, Option<String>)> = drop
            .func_desc
            .iter()
            .map(|function| (function.name.to_string(), own_name(&function.name)))
            .collect();
        if let Some(name) =
            names.iter().filter_map(|(_, own)| own.as_ref()).find(|own| self.has_function(own))
        {
            let message = format!("the function \"{name}\" is built in, and cannot be dropped");
            return Err(Error::invalid_input(message).with_sqlstate("2BP01"));
        }
        let is_own = |own: &String| self.own.lock().contains_key(own);
        let is_there =
            |own: &Option<String>| own.as_ref().is_some_and(|own| is_own(own) || self.has_stored_macro(own));
        if let Some((written, own)) = names.iter().find(|(_, own)| !is_there(own))
            && !drop.if_exists
        {
            let (macros, stored) = (self.own.lock(), self.stored_macros());
            let known = macros.keys().chain(stored.keys()).map(String::as_str);
            let name = own.as_ref().unwrap_or(written);
            return Err(missing("function", name, known).with_sqlstate("42883"));
        }
        let mut names: Vec<&String> = names.iter().filter_map(|(_, own)| own.as_ref()).collect();
        names.sort();
        names.dedup();
        let (own, stored): (Vec<&String>, Vec<&String>) = names.into_iter().partition(|own| is_own(own));
        let stored: Vec<&str> =
            stored.into_iter().map(String::as_str).filter(|name| self.has_stored_macro(name)).collect();
        if !stored.is_empty() {
            self.drop_stored(&stored)?;
        }
        self.own.lock().retain(|name, _| !own.contains(&name));
        Ok(DONE)
    }

    /// Writes what the calls of macros in a statement stand for, and says whether there are some. The text of
    /// the statement is one of them.
    pub fn expand(&self, sql: &str, statement: &mut SqlStatement) -> Result<bool> {
        let is_expanded = self.expand_own(sql, statement)?;
        // The session's go first.
        let stored = self.stored_macros();
        let is_stored = !stored.is_empty() && statement.expand(&stored)?;
        Ok(is_expanded || is_stored)
    }

    fn expand_own(&self, sql: &str, statement: &mut SqlStatement) -> Result<bool> {
        let macros = self.own.lock();
        if has_in_name(sql, CURRENT_QUERY) {
            let mut all = macros.clone();
            // A text that is too long for a macro is none: another name may have this one in it.
            if let Ok(text) = Macro::new(Vec::new(), MacroDefinition::Expr(build::text(sql.trim()))) {
                all.entry(CURRENT_QUERY.to_string()).or_insert(text);
            }
            return statement.expand(&all);
        }
        if macros.is_empty() { Ok(false) } else { statement.expand(&macros) }
    }

    /// Returns how many parts a statement may have that its text does not.
    pub fn parts(&self) -> usize {
        let own = if self.own.lock().is_empty() { 0 } else { PARTS_MAX };
        own + if self.databases.scope.has_macros() { PARTS_MAX } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::test_queries::Alone;

    struct Kept {
        alone: Alone,
        own: Mutex<Macros>,
        stored: Mutex<(Vec<MacroEntry>, Arc<Macros>)>,
        remembered: Mutex<Remembered>,
        context: SessionContext,
    }

    impl Kept {
        fn new() -> Self {
            Self {
                alone: Alone::new(),
                own: Mutex::default(),
                stored: Mutex::default(),
                remembered: Mutex::default(),
                context: SessionContext::new(),
            }
        }

        fn macros(&self) -> KeptMacros<'_> {
            KeptMacros {
                own: &self.own,
                stored: &self.stored,
                remembered: &self.remembered,
                context: &self.context,
                databases: InDatabases { scope: &self.alone.scope, transactions: &self.alone },
            }
        }

        fn create(&self, sql: &str, is_of_session: bool) -> Result<Outcome> {
            let DfStatement::Statement(statement) = parse(sql)? else { panic!("{sql}") };
            let Statement::CreateMacro { or_replace, name, args, definition, .. } = *statement else {
                panic!("{sql}")
            };
            self.macros().create_macro(&name, or_replace, is_of_session, args.unwrap_or_default(), definition)
        }

        fn is_stored(&self, name: &str) -> bool {
            let snapshot = self.alone.scope.current_database().unwrap().snapshot;
            snapshot.catalog().macro_named(name).is_some()
        }
    }

    #[test]
    fn a_macro_is_of_the_session_or_of_the_database() {
        let kept = Kept::new();
        kept.create("CREATE MACRO more(a) AS a + 1", true).unwrap();
        assert!(kept.own.lock().contains_key("more") && !kept.is_stored("more"));
        kept.create("CREATE MACRO less(a) AS a - 1", false).unwrap();
        assert!(!kept.own.lock().contains_key("less") && kept.is_stored("less"));
        for name in ["more", "less"] {
            kept.macros().drop_macro(name, false).unwrap();
        }
        assert!(kept.own.lock().is_empty() && !kept.is_stored("less"));
    }

    #[test]
    fn one_that_is_there_is_replaced_if_that_is_asked() {
        let kept = Kept::new();
        for is_of_session in [true, false] {
            kept.create("CREATE MACRO more(a) AS a + 1", is_of_session).unwrap();
            let refused = kept.create("CREATE MACRO more(a) AS a + 2", is_of_session).err().unwrap();
            assert_eq!((refused.kind(), refused.sqlstate()), (ErrorKind::AlreadyExists, "42723"));
            kept.create("CREATE OR REPLACE MACRO more(a) AS a + 2", is_of_session).unwrap();
        }
    }

    #[test]
    fn names_of_functions_and_of_none_are_errors() {
        let kept = Kept::new();
        for is_of_session in [true, false] {
            let refused = kept.create("CREATE MACRO abs(a) AS a", is_of_session).err().unwrap();
            assert_eq!(refused.sqlstate(), "42723");
        }
        let missing = kept.macros().drop_macro("nothing", false).err().unwrap();
        assert_eq!(missing.sqlstate(), "42883");
        assert!(kept.macros().drop_macro("nothing", true).is_ok());
    }
}
