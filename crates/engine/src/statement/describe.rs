//! DESCRIBE: the columns of a table, a view or a query, with their SQL types.

use super::query::stored_result;
use crate::error::from_datafusion;
use crate::session::{Outcome, Parameters, Session};
use arrow::array::{ArrayRef, StringArray};
use arrow::record_batch::RecordBatch;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement};
use hypostyle_types::{Error, LogicalType, Result};
use std::sync::Arc;

impl Session {
    /// The columns of what a query gives: name, type, whether NULL may be in it, and the default.
    pub(crate) fn describe_query(&self, query: Query, parameters: &Parameters) -> Result<Outcome> {
        let statement = Statement::Query(Box::new(query));
        let plan = self.plan(DfStatement::Statement(Box::new(statement)), parameters)?;
        let schema = plan.schema().as_arrow().clone();
        let context = self.session_context().clone();
        let optimized = self.wait(async move { context.state().optimize(&plan).map_err(from_datafusion) })?;
        let mut rows: Vec<[Option<String>; 4]> = Vec::new();
        let nullable = |nullable: bool| Some(if nullable { "YES" } else { "NO" }.to_string());
        match stored_result(&optimized, &schema) {
            Some(stored) => {
                for (name, index) in &stored.columns {
                    let entry = stored.table.columns()[*index].entry();
                    let logical_type = entry.logical_type.to_string();
                    rows.push([
                        Some(name.clone()),
                        Some(logical_type),
                        nullable(entry.nullable),
                        entry.default.clone(),
                    ]);
                }
            }
            None => {
                for field in schema.fields() {
                    let logical_type = LogicalType::from_arrow(field)?.to_string();
                    rows.push([
                        Some(field.name().clone()),
                        Some(logical_type),
                        nullable(field.is_nullable()),
                        None,
                    ]);
                }
            }
        }
        let column = |place: usize| -> ArrayRef {
            Arc::new(rows.iter().map(|row| row[place].as_deref()).collect::<StringArray>())
        };
        let names = ["column_name", "data_type", "is_nullable", "column_default"];
        let columns = names.into_iter().enumerate().map(|(place, name)| (name, column(place), place == 3));
        RecordBatch::try_from_iter_with_nullable(columns)
            .map(Outcome::batch)
            .map_err(|error| Error::internal(format!("cannot list columns: {error}")))
    }
}
