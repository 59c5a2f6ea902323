//! The way that a query takes from its plan to its rows. Those before it need no plan: a text that was
//! remembered with its values (`session::statement_cache`), and all rows of one table
//! (`Planner::whole_table`), which come as [`Route::Stored`] does.

use crate::session::Outcome;
use crate::statement::key_lookup::Indexes;
use crate::statement::short_plan::{Access, Direct, DirectPlan, direct_plan};
use crate::statement::stored_plan::{StoredPlan, stored_result};
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use hypostyle_error::column_name::unmarked_text;
use hypostyle_types::Result;
use std::sync::Arc;

/// The kind of the row of EXPLAIN that tells the route.
const ROUTE: &str = "route";

/// How a planned query comes to its rows.
pub(super) enum Route {
    /// They lie as they are asked for: nothing runs.
    Stored(StoredPlan),
    /// The plan that an earlier statement was optimized to gives them.
    Kept(Box<LogicalPlan>),
    /// A plan that is put together without the optimizer gives them, and runs to its end at once.
    Direct(DirectPlan),
    /// Such a plan gives them once the index of a key is built.
    Indexed,
    /// The optimizer and the planner make a plan that gives them.
    Planned,
}

impl Route {
    /// Chooses the route of a query with a result of this schema. The optimized plan may be known.
    ///
    /// # Errors
    /// Those of the analyzer: expressions whose types do not fit.
    pub fn choose(
        state: &SessionState,
        plan: &LogicalPlan,
        optimized: Option<LogicalPlan>,
        schema: &Schema,
        indexes: Indexes,
    ) -> Result<Self> {
        // Most queries for stored columns show it as they are written, and need no optimizing.
        if let Some(stored) = stored_result(plan, schema) {
            return Ok(Self::Stored(stored));
        }
        if let Some(optimized) = optimized {
            return Ok(Self::Kept(Box::new(optimized)));
        }
        Ok(match direct_plan(state, plan, indexes)? {
            Direct::Plan(direct) => Self::Direct(direct),
            Direct::Later => Self::Indexed,
            Direct::Nothing => Self::Planned,
        })
    }

    /// Says whether it takes less time than waking another thread.
    pub fn is_short(&self) -> bool {
        match self {
            Self::Stored(_) => true,
            Self::Direct(direct) => direct.is_short,
            Self::Kept(_) | Self::Indexed | Self::Planned => false,
        }
    }

    /// Returns what EXPLAIN says of it.
    pub fn text(&self) -> &'static str {
        match self {
            Self::Stored(_) => "stored columns",
            Self::Kept(_) => "kept plan",
            Self::Direct(DirectPlan { access: Access::Nothing, .. }) => "one row, not optimized",
            Self::Direct(DirectPlan { access: Access::Key, .. }) => "rows of a key, not optimized",
            Self::Direct(DirectPlan { access: Access::Scan, .. }) => "scan of few rows, not optimized",
            Self::Indexed => "rows of a key, once its index is built",
            Self::Planned => "planned",
        }
    }
}

/// Returns the rows of an EXPLAIN, with one more that tells the route.
pub(super) fn with_route(outcome: Outcome, text: &'static str) -> Outcome {
    let Outcome::Stream { schema, stream: rows } = outcome else { return outcome };
    let of_row = schema.clone();
    let row = stream::once(async move {
        let (kind, text) = (StringArray::from(vec![ROUTE]), StringArray::from(vec![text]));
        Ok(RecordBatch::try_new(of_row, vec![Arc::new(kind), Arc::new(text)])?)
    });
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows.chain(row)));
    Outcome::Stream { schema, stream }
}

/// Returns the rows of an EXPLAIN, in which names are those that are shown.
pub(super) fn with_shown_names(outcome: Outcome) -> Outcome {
    let Outcome::Stream { schema, stream: rows } = outcome else { return outcome };
    let rows = rows.map(|batch| shown(&batch?));
    let stream = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows));
    Outcome::Stream { schema, stream }
}

fn shown(batch: &RecordBatch) -> datafusion::error::Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        match column.as_string_opt::<i32>() {
            Some(texts) => {
                let texts = texts.iter().map(|text| text.map(unmarked_text));
                Arc::new(texts.collect::<StringArray>())
            }
            None => column.clone(),
        }
    });
    Ok(RecordBatch::try_new(batch.schema(), columns.collect())?)
}

#[cfg(test)]
mod tests {
    use crate::session::test_options::OPTIONS;
    use crate::session::{Engine, Outcome, Parameters, Session};
    use arrow::array::AsArray;
    use arrow::compute::cast;
    use arrow::datatypes::DataType;
    use hypostyle_error::column_name::ONE_OF;
    use hypostyle_storage::Database;
    use hypostyle_types::Identity;
    use std::sync::Arc;

    fn session() -> Arc<Session> {
        let session =
            Session::new(Engine::new(Database::in_memory().unwrap(), OPTIONS).unwrap(), Identity::default())
                .unwrap();
        for sql in ["CREATE TABLE t (a INT, b INT)", "INSERT INTO t VALUES (1, 10), (2, 20), (3, 30)"] {
            session.execute(sql, &Parameters::None).unwrap();
        }
        session
    }

    /// Returns the last row of EXPLAIN.
    fn last_row(session: &Session, sql: &str) -> [String; 2] {
        let outcome = session.execute(sql, &Parameters::None).unwrap();
        let (_, batches) = session.collect_rows(outcome).unwrap();
        let batch = batches.iter().rfind(|batch| batch.num_rows() > 0).unwrap();
        [0, 1].map(|column| {
            let texts = cast(batch.column(column), &DataType::Utf8).unwrap();
            texts.as_string::<i32>().value(batch.num_rows() - 1).to_string()
        })
    }

    #[test]
    fn explain_shows_names_as_they_are_written() {
        let session = session();
        let sql = "EXPLAIN SELECT b.a FROM t AS b WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.a = b.b)";
        let outcome = session.execute(sql, &Parameters::None).unwrap();
        let (_, batches) = session.collect_rows(outcome).unwrap();
        assert!(batches.iter().any(|batch| batch.num_rows() > 0));
        for column in batches.iter().flat_map(|batch| batch.columns()) {
            let texts = cast(column, &DataType::Utf8).unwrap();
            assert!(!texts.as_string::<i32>().iter().flatten().any(|text| text.contains(ONE_OF)));
        }
    }

    #[test]
    fn explain_tells_the_route_that_a_query_takes() {
        let session = session();
        for (sql, told, is_stored, is_computed) in [
            ("SELECT b AS x, a FROM t", "stored columns", true, false),
            ("SELECT a FROM t LIMIT 2", "stored columns", true, false),
            ("SELECT 1 + 2 AS c", "one row, not optimized", false, true),
            ("SELECT a + 1 FROM t WHERE b > 10", "scan of few rows, not optimized", false, true),
            ("SELECT a FROM t WHERE b = 20::INT", "scan of few rows, not optimized", false, true),
            ("SELECT a FROM t WHERE CAST(10 AS INT) < b", "scan of few rows, not optimized", false, true),
            ("SELECT b, count(*) FROM t GROUP BY b", "planned", false, false),
            ("SELECT a FROM t WHERE a IN (SELECT b FROM t)", "planned", false, false),
        ] {
            assert_eq!(last_row(&session, &format!("EXPLAIN {sql}")), ["route", told], "{sql}");
            assert_eq!(last_row(&session, &format!("EXPLAIN VERBOSE {sql}")), ["route", told], "{sql}");
            let outcome = session.execute(sql, &Parameters::None).unwrap();
            assert_eq!(matches!(outcome, Outcome::Stored(_)), is_stored, "{sql}");
            assert_eq!(matches!(outcome, Outcome::Batches { .. }), is_computed, "{sql}");
        }
    }

    #[test]
    fn the_route_is_that_of_the_query_of_a_statement() {
        let session = session();
        let sql = "EXPLAIN UPDATE t SET b = (SELECT max(b) FROM t) WHERE a = 2";
        assert_eq!(last_row(&session, sql), ["route", "planned"]);
        // EXPLAIN ANALYZE tells what has run.
        assert_eq!(last_row(&session, "EXPLAIN ANALYZE SELECT a FROM t WHERE b > 10")[0], "Total");
    }
}
