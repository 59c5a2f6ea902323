//! `EXPLAIN (FORMAT JSON, …)`, as PostgreSQL's programs write it. They read the plan from one
//! column of one row.

use crate::session::outcome::DescribedColumn;
use crate::session::{Outcome, Parameters, Session};
use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::format::{ExplainFormat, ExplainStatementOptions};
use datafusion::sql::parser::{ExplainStatement, Statement as DfStatement};
use hypostyle_sql::statement::ExplainOptions;
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;
use std::time::Instant;

/// The column that PostgreSQL gives.
const COLUMN: &str = "QUERY PLAN";

/// Returns the columns of an EXPLAIN with options.
pub(super) fn columns_of(options: ExplainOptions) -> Vec<DescribedColumn> {
    match options.json {
        true => vec![(COLUMN.into(), LogicalType::Json, false)],
        false => columns_of_plans(),
    }
}

impl Session {
    pub(super) fn explain_with(
        &self,
        options: ExplainOptions,
        explained: &DfStatement,
        parameters: &Parameters,
    ) -> Result<Outcome> {
        let ExplainOptions { analyze, verbose, json } = options;
        let explain = |options| {
            let statement = Box::new(explained.clone());
            self.explain(ExplainStatement { options, statement }, parameters)
        };
        let as_text = ExplainStatementOptions { analyze, verbose, ..Default::default() };
        if !json {
            return explain(as_text);
        }
        let format = Some(ExplainFormat::PostgresJSON);
        let plan = explain(ExplainStatementOptions { format, ..Default::default() })?;
        let mut plan = plan_of(self.collect_rows(plan)?)?;
        if analyze {
            let since = Instant::now();
            let analyzed = explain(as_text)?;
            self.finish(analyzed)?;
            let milliseconds = since.elapsed().as_secs_f64() * 1e3;
            for query in plan.as_array_mut().into_iter().flatten() {
                query["Execution Time"] = milliseconds.into();
            }
        }
        let field = LogicalType::Json.arrow_field(COLUMN, false);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![plan.to_string()]));
        let column = cast(&texts, field.data_type()).map_err(|error| cannot(&error))?;
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]);
        batch.map(Outcome::batch).map_err(|error| cannot(&error))
    }
}

/// Returns the columns of an EXPLAIN without options.
pub(super) fn columns_of_plans() -> Vec<DescribedColumn> {
    ["plan_type", "plan"].map(|name| (name.to_string(), LogicalType::Varchar, false)).into()
}

fn cannot(why: &dyn std::fmt::Display) -> Error {
    Error::internal(format!("cannot show a plan as JSON: {why}"))
}

/// Returns the plan of an EXPLAIN's rows, which are its kind and its text.
fn plan_of((_, batches): (Arc<Schema>, Vec<RecordBatch>)) -> Result<serde_json::Value> {
    let batch = batches.iter().find(|batch| batch.num_rows() > 0 && batch.num_columns() == 2);
    let batch = batch.ok_or_else(|| cannot(&"there is none"))?;
    let texts = cast(batch.column(1), &DataType::Utf8).map_err(|error| cannot(&error))?;
    serde_json::from_str(texts.as_string::<i32>().value(0)).map_err(|error| cannot(&error))
}
