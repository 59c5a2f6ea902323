//! CALL: the tables of benchmarks.

mod cluster;

use crate::session::{Outcome, Session};
use crate::statement::new_columns;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments, Value,
};
use hypostyle_catalog::scope::OWN_DATABASE;
use hypostyle_error::from_datafusion;
use hypostyle_storage::SCHEMA_MAIN;
use hypostyle_tpch::Table;
use hypostyle_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// Makes the tables of a benchmark at a scale factor.
type Tables = fn(f64) -> Result<Vec<Table>>;

const PROCEDURES: [(&str, Tables); 2] =
    [("tpch_generate", hypostyle_tpch::tables), ("ssb_generate", hypostyle_tpch::ssb::tables)];

/// Returns the argument `sf`, or 1.
fn scale_factor(procedure: &str, arguments: &FunctionArguments) -> Result<f64> {
    let mut scale_factor = 1.0;
    let FunctionArguments::List(list) = arguments else { return Ok(scale_factor) };
    for argument in &list.args {
        let value = match argument {
            FunctionArg::Unnamed(value) => value,
            FunctionArg::Named {
                name,
                arg,
                operator:
                    FunctionArgOperator::RightArrow
                    | FunctionArgOperator::Equals
                    | FunctionArgOperator::Assignment
                    | FunctionArgOperator::Colon
                    | FunctionArgOperator::Value,
            } if name.value.eq_ignore_ascii_case("sf") => arg,
            other => {
                return Err(Error::invalid_input(format!("{procedure} has no argument {other}; it has sf")));
            }
        };
        let number = match value {
            FunctionArgExpr::Expr(Expr::Value(value)) => match &value.value {
                Value::Number(number, _) => number.parse::<f64>().ok(),
                _ => None,
            },
            _ => None,
        };
        scale_factor = number
            .ok_or_else(|| Error::invalid_input(format!("the scale factor must be a number, not {value}")))?;
    }
    Ok(scale_factor)
}

impl Session {
    /// Runs `CALL tpch_generate(sf => 1)` or `CALL ssb_generate(sf => 1)`: all tables of a benchmark,
    /// in one transaction, or table by table where the database is part of a cluster.
    pub(super) fn call(&self, function: &Function) -> Result<Outcome> {
        let name = function.name.to_string();
        let procedure = PROCEDURES.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        let (procedure, tables) = procedure.ok_or_else(|| {
            let known = PROCEDURES.map(|(known, _)| format!("{known}(sf => 1)")).join(" and ");
            Error::new(ErrorKind::UnknownName, format!("no procedure \"{name}\"; there is {known}"))
        })?;
        let tables = tables(scale_factor(procedure, &function.args)?)?;
        self.counters
            .total
            .store(tables.iter().map(|table| table.row_count_estimate).sum(), Ordering::Relaxed);
        let database = self.scope.current().0;
        if database == OWN_DATABASE
            && let Some((node, _)) = self.in_cluster().cluster()
        {
            return self.generate_in_cluster(&node, &tables);
        }
        let threads = self.engine.options().threads;
        self.write(&database, |writer| {
            let mut rows = 0;
            for table in tables {
                let id = writer.create_table(SCHEMA_MAIN, table.name, new_columns(&table.schema)?)?;
                for batch in table.read(threads)? {
                    let batch = batch.map_err(|error| from_datafusion(error.into()))?;
                    writer.append(id, &batch)?;
                    rows += batch.num_rows() as u64;
                    self.counters.done.store(rows, Ordering::Relaxed);
                    self.check_interrupt()?;
                }
            }
            Ok(Outcome::Done { rows_affected: Some(rows) })
        })
    }
}
