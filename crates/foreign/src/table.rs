//! A table of another system's database as a DataFusion table provider.

use crate::attached::AttachedDatabase;
use crate::filter::condition;
use crate::reading::Reading;
use crate::relation::{Name, Relation};
use crate::scan::ForeignScanExec;
use crate::server::Wanted;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use std::sync::Arc;

/// Pages that one connection reads at least, where several read a table: 16 MiB.
const PAGES_MIN: u64 = 2048;

/// Connections that read one table.
const CONNECTIONS_MAX: u64 = 8;

/// A table or view in the snapshot of a statement.
#[derive(Clone, Debug)]
pub struct ForeignTable {
    reading: Arc<Reading>,
    relation: Arc<Relation>,
}

impl ForeignTable {
    /// Returns a table or view of an attached database as the running statement sees it; `None` if
    /// there is none of that name.
    ///
    /// # Errors
    /// Those of the server.
    pub fn find(
        attached: &AttachedDatabase,
        name: &Name,
        wanted: &Wanted,
    ) -> hypostyle_types::Result<Option<Self>> {
        let reading = attached.reading(wanted)?;
        let relation = reading.relation(name, wanted)?;
        Ok(relation.map(|relation| Self { reading, relation }))
    }

    /// Returns the server's estimate of the rows, if it has one.
    pub fn rows(&self) -> Option<u64> {
        self.relation.rows.map(|rows| rows as u64)
    }

    /// Returns the pages that each connection reads, from one page on to another.
    fn ranges(&self, connections: u64) -> Vec<(Option<u64>, Option<u64>)> {
        let pages = self.relation.pages;
        let count = (pages / PAGES_MIN).min(CONNECTIONS_MAX).min(connections).max(1);
        let cut = |number: u64| (1..count).contains(&number).then_some(pages * number / count);
        // The last one goes on to the end, wherever that is by then.
        (0..count).map(|number| (cut(number), cut(number + 1))).collect()
    }
}

#[async_trait]
impl TableProvider for ForeignTable {
    fn schema(&self) -> SchemaRef {
        self.relation.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match condition(filter, &self.relation.columns) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = || (0..self.relation.schema.fields().len()).collect::<Vec<usize>>();
        let (mut conditions, mut others) = (Vec::new(), Vec::new());
        for filter in filters {
            match condition(filter, &self.relation.columns) {
                Some(sql) => conditions.push(sql),
                None => others.push(filter.clone()),
            }
        }
        let (reading, relation) = (self.reading.clone(), self.relation.as_ref());
        let ranges = |connections: usize| self.ranges(connections as u64);
        let Some(others) = conjunction(others) else {
            let columns = projection.cloned().unwrap_or_else(all);
            // A few rows come soonest from one connection.
            let ranges = ranges(if limit.is_some() { 1 } else { state.config().target_partitions() });
            let scan = ForeignScanExec::try_new(reading, relation, &columns, &conditions, limit, &ranges)?;
            return Ok(Arc::new(scan));
        };
        // A later rule has made something else of a filter that the server was to apply.
        let schema = DFSchema::try_from(self.relation.schema.as_ref().clone())?;
        let predicate = state.create_physical_expr(others, &schema)?;
        let ranges = ranges(state.config().target_partitions());
        let scan = ForeignScanExec::try_new(reading, relation, &all(), &conditions, None, &ranges)?;
        let filter = FilterExecBuilder::new(predicate, Arc::new(scan));
        Ok(Arc::new(filter.apply_projection(projection.cloned())?.build()?))
    }
}
