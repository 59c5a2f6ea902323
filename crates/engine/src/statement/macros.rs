//! CREATE MACRO and DROP MACRO. A macro is the session's: the catalog has no place for one. What is defined
//! with a macro, as a view, keeps the expression that it stands for.

use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session, may_lock};
use crate::statement::dialect::{as_statement, cast};
use crate::statement::planned_parameters::literal;
use crate::statement::refusal::missing;
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    DropFunction, Ident, MacroArg, MacroDefinition, ObjectName, ObjectNamePart, Query,
};
use hypostyle_error::from_datafusion;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::Statement as SqlStatement;
use hypostyle_sql::build;
use hypostyle_sql::defined_macros::{Macro, PARTS_MAX, name_of_variable};
use hypostyle_sql::identifier::fold;
use hypostyle_sql::kind::has_in_name;
use hypostyle_sql::macros::MACROS;
use hypostyle_types::{Error, ErrorKind, LogicalType, Result};

/// The function that gives the text of its statement.
const CURRENT_QUERY: &str = "current_query";

/// Macros of a session.
const MACROS_MAX: usize = 200;

/// Refuses a macro that is to be stored.
pub(super) fn refuse_stored(is_temporary: bool) -> Result<()> {
    match is_temporary {
        true => Ok(()),
        false => Err(Error::unsupported(
            "a database stores no macros and functions; write CREATE TEMP MACRO, which is of this session",
        )),
    }
}

/// Returns a name that has neither a schema nor a database before it.
fn own_name(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => Some(fold(name)),
        _ => None,
    }
}

impl Session {
    pub(super) fn create_macro(
        &self,
        name: &ObjectName,
        or_replace: bool,
        arguments: Vec<MacroArg>,
        definition: MacroDefinition,
    ) -> Result<Outcome> {
        let Some(name) = own_name(name) else {
            return Err(Error::unsupported("a macro is of the session, and of no schema"));
        };
        let exists = |what: &str| {
            let message = format!("{what} \"{name}\" already exists");
            Err(Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42723"))
        };
        if self.has_function(&name) {
            return exists("the function");
        }
        let takes_locks = may_lock(&definition.to_string())
            || arguments.iter().any(|argument| may_lock(&argument.to_string()));
        if takes_locks {
            // Whether a statement may wait for a lock is seen in its text.
            return Err(Error::unsupported(
                "a macro that takes advisory locks is not supported; write their functions in the statement",
            ));
        }
        let new = Macro::new(arguments, definition)?;
        let mut macros = self.macros.lock();
        if macros.contains_key(&name) && !or_replace {
            return exists("the macro");
        }
        if macros.len() >= MACROS_MAX && !macros.contains_key(&name) {
            return Err(Error::unsupported(format!("a session has {MACROS_MAX} macros at most; drop one")));
        }
        macros.insert(name, new);
        // What was read before may have called a function of this name that there was not.
        *self.remembered.lock() = Default::default();
        Ok(DONE)
    }

    /// Runs SET VARIABLE: the value is computed now, and stands where it is asked for.
    pub(super) fn set_variable(&self, name: &str, query: Query) -> Result<Outcome> {
        let outcome = self.query(as_statement(query), &Parameters::None)?;
        let (schema, batches) = self.collect_rows(outcome)?;
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
        let mut macros = self.macros.lock();
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
    pub(super) fn reset_variable(&self, name: &str) -> Result<Outcome> {
        self.macros.lock().remove(&name_of_variable(name));
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

    pub(super) fn drop_macro(&self, name: &str, if_exists: bool) -> Result<Outcome> {
        let mut macros = self.macros.lock();
        match macros.remove(name).is_some() || if_exists {
            true => Ok(DONE),
            false => Err(missing("macro", name, macros.keys().map(String::as_str)).with_sqlstate("42883")),
        }
    }

    /// Runs DROP FUNCTION, which drops macros.
    pub(super) fn drop_functions(&self, drop: &DropFunction) -> Result<Outcome> {
        if self.drop_attempt(drop) {
            return Ok(DONE);
        }
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
        let mut macros = self.macros.lock();
        let is_there = |own: &Option<String>| own.as_ref().is_some_and(|own| macros.contains_key(own));
        if let Some((written, own)) = names.iter().find(|(_, own)| !is_there(own))
            && !drop.if_exists
        {
            let known = macros.keys().map(String::as_str);
            let name = own.as_ref().unwrap_or(written);
            return Err(missing("function", name, known).with_sqlstate("42883"));
        }
        macros.retain(|name, _| names.iter().all(|(_, own)| own.as_ref() != Some(name)));
        Ok(DONE)
    }

    /// Writes what the calls of macros in a statement stand for, and says whether there are some. The text of
    /// the statement is one of them.
    pub(super) fn expand_macros(&self, sql: &str, statement: &mut SqlStatement) -> Result<bool> {
        let macros = self.macros.lock();
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
    pub(super) fn parts_of_macros(&self) -> usize {
        if self.macros.lock().is_empty() { 0 } else { PARTS_MAX }
    }
}
