//! Runs queries for rows by values of columns without a plan ([`KeyedQuery`]).
//!
//! The first runs of a text go the way of every query. What the second gave is compared with what is found
//! here, and only where that is the same, later ones are answered here, as long as the table is defined as it
//! was and no setting changes.

use crate::session::keyed_query::{KeyedQuery, asked_by_keys};
use crate::session::statement_cache::{Other, Parsed};
use crate::session::{Outcome, Parameters, Waits};
use crate::statement::key_lookup::{Found, Indexes, rows_by_key};
use crate::statement::planner::Planner;
use crate::statement::short_plan::{SHORT_ROWS_MAX, filtered_scan};
use crate::statement::start::task_context;
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::collect;
use hypostyle_error::from_datafusion;
use hypostyle_exec::scan::{StoredTable, for_result};
use hypostyle_types::Result;
use std::collections::HashMap;
use std::sync::Arc;

/// More rows than these are not compared, to see whether they are found here.
const COMPARED_ROWS_MAX: usize = 1024;

impl<W: Waits> Planner<'_, W> {
    /// Returns a query that has given these rows as one that finds them without a plan, if it does; or as one
    /// that does not, not to be tried again.
    pub(super) fn as_keyed(
        &self,
        other: &Other,
        parameters: &Parameters,
        outcome: &Outcome,
    ) -> Option<Parsed> {
        let Outcome::Batches { schema, batches, rows_affected: None } = outcome else { return None };
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if !other.may_be_keyed || rows == 0 || rows > COMPARED_ROWS_MAX {
            return None;
        }
        let asked = asked_by_keys(&other.statement)?;
        let (table, _) = self.names().table_of(asked.table)?;
        let origins = self.run.lock().origins.clone();
        let query = KeyedQuery::new(asked, &table, schema, &origins)?;
        let is_same = match self.keyed_rows(&query, parameters) {
            Ok(None) => return None,
            Ok(Some(Outcome::Batches { batches: found, .. })) => {
                let (found, planned) = (concat_batches(schema, &found), concat_batches(schema, batches));
                found.is_ok_and(|found| planned.is_ok_and(|planned| found == planned))
            }
            _ => false,
        };
        Some(match is_same {
            true => Parsed::Keyed(other.clone(), Arc::new(query)),
            false => Parsed::Other(Other { may_be_keyed: false, ..other.clone() }),
        })
    }

    /// Returns the rows of a query; `None` where it has to be planned.
    pub(super) fn keyed_rows(&self, query: &KeyedQuery, parameters: &Parameters) -> Result<Option<Outcome>> {
        let Parameters::Positional(values) = parameters else { return Ok(None) };
        let Some((table, snapshot)) = self.names().table_of(&query.table) else { return Ok(None) };
        let table = StoredTable::new(table, snapshot, HashMap::new());
        let columns = table.schema();
        let Some(conditions) = query.conditions(table.data(), &columns, values) else { return Ok(None) };
        let found = match rows_by_key(&table, &conditions, Indexes::Wished, &|| Ok(()))? {
            Found::Rows(ranges) => Some(ranges),
            Found::Later => return Ok(None),
            Found::Nothing => None,
        };
        let filters = conditions.into_iter().map(|(place, value)| {
            let column = Arc::new(Column::new(columns.field(place).name(), place));
            let equal = BinaryExpr::new(column, Operator::Eq, Arc::new(Literal::new(value)));
            Arc::new(equal) as Arc<dyn PhysicalExpr>
        });
        let scan = filtered_scan(&table, query.places.clone(), filters.collect(), found, SHORT_ROWS_MAX);
        let Some((scan, _)) = scan.map_err(from_datafusion)? else { return Ok(None) };
        let scan = for_result(scan).map_err(from_datafusion)?;
        let types = scan.schema();
        let state = self.take_state();
        let context = task_context(&state);
        *self.spare.lock() = Some(state);
        let read =
            self.waits.wait_here(async move { collect(scan, context).await.map_err(from_datafusion) })?;
        Ok(query.rows(&types, &read).map(|batches| {
            self.run.lock().origins.clone_from(&query.origins);
            Outcome::Batches { schema: query.schema.clone(), batches, rows_affected: None }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{Engine, EngineOptions, Session, test_options};
    use arrow::datatypes::SchemaRef;
    use arrow::util::pretty::pretty_format_batches;
    use datafusion::common::ScalarValue;
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;

    const TABLE: &str = "CREATE TABLE t (a BIGINT PRIMARY KEY, b INTEGER, c TEXT, d DOUBLE PRECISION, e DATE,
        f DECIMAL(9, 2), g UUID, h JSON, \"I\" BOOLEAN)";
    const ROWS: &str = "INSERT INTO t SELECT i, i % 7, 'text ' || i % 9, i / 4.0 - 1,
        DATE '2020-01-01' + (i % 5)::INTEGER, i, NULL::UUID, '{}'::JSON, i % 2 = 0
        FROM generate_series(0, 99) AS s(i)";

    const QUERIES: [&str; 13] = [
        "SELECT b FROM t WHERE a = ?",
        "SELECT x.c, a, b AS q, a FROM t AS x WHERE $1 = x.a AND x.\"I\" = (a = a)",
        "SELECT \"I\", f, e, d, g, h, c FROM t x WHERE ?::BIGINT = x.a",
        "SELECT c, a FROM t WHERE c = ?",
        "SELECT a FROM t WHERE b = $1 AND b = $1",
        "SELECT a FROM t WHERE e = ?",
        "SELECT a FROM t WHERE d = ?",
        "SELECT a FROM t WHERE f = ?",
        "SELECT a FROM t WHERE h = ?",
        "SELECT a FROM t WHERE \"I\" = ?",
        "SELECT b FROM t WHERE a = ?::BIGINT",
        "SELECT b, a FROM t WHERE CAST($1 AS INTEGER) = a",
        "SELECT a FROM t WHERE b = $1::int8",
    ];

    const CHANGES: [&str; 19] = [
        "SELECT 1",
        "INSERT INTO t (a, b, c) VALUES (101, 2, 'text 2')",
        "UPDATE t SET b = 5, c = NULL WHERE a = 2",
        "DELETE FROM t WHERE a = 4",
        "CHECKPOINT",
        "ALTER TABLE t RENAME COLUMN b TO z",
        "ALTER TABLE t ADD COLUMN b TEXT DEFAULT '2'",
        "BEGIN; SAVEPOINT s",
        "INSERT INTO t (a) VALUES (4); SAVEPOINT s",
        "DELETE FROM t WHERE a = 5; SAVEPOINT s",
        "ROLLBACK",
        "SET TimeZone = 'Europe/Berlin'",
        "CREATE TEMPORARY TABLE t AS SELECT 2::BIGINT AS a, 'temporary' AS b, 2 AS c",
        "DROP TABLE t",
        "DROP TABLE t",
        "CREATE VIEW t AS SELECT 2 AS a, 3 AS b",
        "DROP VIEW t",
        TABLE,
        ROWS,
    ];

    fn session() -> Arc<Session> {
        let options = EngineOptions { threads: 1, memory_limit: 1 << 28, ..test_options::OPTIONS };
        let engine = Engine::new(Database::in_memory().unwrap(), options).unwrap();
        Session::new(engine, Identity::default()).unwrap()
    }

    /// Returns the columns and the rows of a query, or its error.
    fn shown(session: &Session, sql: &str, parameters: &Parameters) -> (Option<SchemaRef>, String) {
        let outcome = session.execute(sql, parameters);
        match outcome.and_then(|outcome| session.collect_rows(outcome)) {
            Ok((schema, batches)) => (Some(schema), pretty_format_batches(&batches).unwrap().to_string()),
            Err(error) => {
                // What fails within a transaction ends it otherwise.
                let _outside = session.execute("ROLLBACK TO SAVEPOINT s", &Parameters::None);
                (None, error.sqlstate().to_string())
            }
        }
    }

    fn is_known(session: &Session, sql: &str) -> bool {
        matches!(session.remembered.lock().get(sql), Some(Parsed::Keyed(..)))
    }

    #[test]
    fn rows_that_are_found_without_a_plan_are_those_of_a_plan() {
        let session = session();
        let run =
            |sql: &str| drop(session.execute(sql, &Parameters::None).and_then(|of| session.collect_rows(of)));
        for sql in [TABLE, ROWS] {
            drop(session.execute(sql, &Parameters::None).unwrap());
        }
        let values = [
            ScalarValue::from(2i64),
            ScalarValue::from(4i64),
            ScalarValue::from(5i32),
            ScalarValue::from(101i64),
            ScalarValue::from(1i64 << 40),
            ScalarValue::Null,
            ScalarValue::Int64(None),
            ScalarValue::from("2"),
            ScalarValue::from("text 2"),
            ScalarValue::from(0.0),
            ScalarValue::from(-0.0),
            ScalarValue::from(2.0),
            ScalarValue::Date32(Some(18263)),
            ScalarValue::Decimal128(Some(200), 9, 2),
            ScalarValue::Decimal128(Some(20), 9, 1),
            ScalarValue::from(true),
        ];
        for change in CHANGES {
            run(change);
            for sql in QUERIES {
                // What has parameters with names is planned each time.
                let named = sql.replace('?', "$v").replace("$1", "$v");
                for value in values.iter().chain(&values[..2]) {
                    let by_name = Parameters::Named(vec![("v".into(), value.clone())]);
                    let found = shown(&session, sql, &Parameters::Positional(vec![value.clone()]));
                    assert_eq!(found, shown(&session, &named, &by_name), "{sql}, {value:?} after {change}");
                }
            }
            assert!(!is_known(&session, QUERIES[1]) && !is_known(&session, QUERIES[6]), "{change}");
        }
        let known: Vec<usize> =
            (0..QUERIES.len()).filter(|place| is_known(&session, QUERIES[*place])).collect();
        assert_eq!(known, [0, 2, 3, 4, 5, 7, 9, 10, 11, 12]);
    }

    #[test]
    fn a_key_is_found_by_its_index() {
        let session = session();
        let run = |sql: &str| drop(session.execute(sql, &Parameters::None).unwrap());
        run("CREATE TABLE t (a BIGINT PRIMARY KEY, b BIGINT)");
        run("INSERT INTO t SELECT i, -i FROM generate_series(0, 299999) AS s(i)");
        run("CHECKPOINT");
        let sql = "SELECT b FROM t WHERE a = ?";
        let of = |key: i64| Parameters::Positional(vec![ScalarValue::from(key)]);
        for value in 0..20i64 {
            let (_, rows) = shown(&session, sql, &of(value * 10_007));
            assert!(rows.contains(&format!("| {} ", -value * 10_007)), "{rows}");
        }
        assert!(is_known(&session, sql));
        assert!(shown(&session, sql, &of(300_000)).1.ends_with("++\n++"));
    }
}
