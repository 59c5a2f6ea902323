//! PREPARE, EXECUTE and DEALLOCATE. The statement is kept and not its plan, which would go on
//! reading the tables as they were.

use crate::session::kept::Prepared;
use crate::session::outcome::DONE;
use crate::session::{Outcome, Parameters, Session};
use crate::statement::parameters::placeholders;
use crate::statement::queries::Queries;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{DataType, Expr, Ident, ObjectName, Statement};
use hypostyle_error::{from_datafusion, wrong_parameters};
use hypostyle_exec::memory::for_kept;
use hypostyle_expr::time_zone::cast_within;
use hypostyle_expr::types::logical_type;
use hypostyle_sql::common_table::writes_within;
use hypostyle_sql::identifier::{fold, last_of};
use hypostyle_sql::{build, selected};
use hypostyle_types::{Error, ErrorKind, Result, did_you_mean};
use std::collections::HashMap;
use std::sync::Arc;

impl Session {
    pub(super) fn prepare(
        &self,
        name: &Ident,
        types: &[DataType],
        statement: Box<Statement>,
    ) -> Result<Outcome> {
        let name = fold(name);
        if self.prepared.lock().contains_key(&name) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a prepared statement \"{name}\" already; DEALLOCATE it first"),
            )
            .with_sqlstate("42P05"));
        }
        let pool = self.context.runtime_env().memory_pool.clone();
        let memory = Arc::new(for_kept("a prepared statement", &statement.to_string(), &pool)?);
        let types = types.iter().map(logical_type).collect::<Result<_>>()?;
        if let Statement::Query(query) = statement.as_ref()
            && !writes_within(query)
        {
            // The text is kept for errors.
            let prepare = Statement::Prepare {
                name: Ident::with_quote('"', name.as_str()),
                data_types: Vec::new(),
                statement: statement.clone(),
            };
            let plan = self.planner().plan(DfStatement::Statement(Box::new(prepare)), &Parameters::None)?;
            debug_assert!(matches!(plan, LogicalPlan::Statement(_)));
        }
        self.prepared.lock().insert(name, Prepared { statement, types, _memory: memory });
        Ok(DONE)
    }

    pub(super) fn execute_prepared(&self, name: &ObjectName, arguments: &[Expr]) -> Result<Outcome> {
        let name = last_of(name)?;
        let Prepared { statement, types, .. } = known(&self.prepared.lock(), &name)?.clone();
        let mut values = constants(self, arguments)?;
        let zone = self.compiler().time_zone();
        for ((value, logical_type), number) in values.iter_mut().zip(&types).zip(1..) {
            let to = logical_type.arrow_field("", true);
            let cast = value.to_array().and_then(|value| Ok(cast_within(&value, &to, &zone)?));
            let cast = cast.and_then(|value| ScalarValue::try_from_array(&value, 0));
            *value = cast.map_err(|error| {
                from_datafusion(error).context(format!("parameter {number} of \"{name}\" is {logical_type}"))
            })?;
        }
        let parameters = types.len().max(placeholders(&statement));
        if values.len() < types.len() || values.len() > parameters {
            let statement = format!("the prepared statement \"{name}\"");
            return Err(wrong_parameters(&statement, parameters, values.len()));
        }
        self.execute_parsed(DfStatement::Statement(statement), &Parameters::Positional(values))
    }
}

/// Runs DEALLOCATE.
pub(super) fn deallocate(prepared: &mut HashMap<String, Prepared>, name: &Ident) -> Result<Outcome> {
    if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") {
        prepared.clear();
        return Ok(DONE);
    }
    let name = fold(name);
    known(prepared, &name)?;
    prepared.remove(&name);
    Ok(DONE)
}

fn known<'a>(prepared: &'a HashMap<String, Prepared>, name: &str) -> Result<&'a Prepared> {
    prepared.get(name).ok_or_else(|| {
        let suggestion = did_you_mean(name, prepared.keys().map(String::as_str));
        Error::new(ErrorKind::UnknownName, format!("no prepared statement \"{name}\"{suggestion}"))
            .with_sqlstate("26000")
    })
}

/// Returns the values of expressions without columns.
fn constants(queries: &dyn Queries, expressions: &[Expr]) -> Result<Vec<ScalarValue>> {
    if expressions.is_empty() {
        return Ok(Vec::new());
    }
    let items = expressions.iter().zip(1..);
    let items = items.map(|(value, number)| build::item_named(value.clone(), &format!("c{number}")));
    let constants = selected::query(items.collect(), Vec::new(), None)?;
    let (_, batches) = queries.rows(constants, &Parameters::None)?;
    match batches.iter().find(|batch| batch.num_rows() == 1) {
        Some(row) => row
            .columns()
            .iter()
            .map(|value| ScalarValue::try_from_array(value, 0).map_err(from_datafusion))
            .collect(),
        None => Err(Error::internal("constants are one row")),
    }
}
