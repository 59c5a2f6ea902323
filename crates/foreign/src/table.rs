//! A table of another system's database as a DataFusion table provider.

use crate::attached::AttachedDatabase;
use crate::connections::{ForeignConnections, Lease};
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
use hypostyle_expr::setting::Setting;
use std::sync::Arc;

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

    /// Takes the connections of a scan; one if only a few rows are wanted, which come soonest so.
    fn lease(&self, state: &dyn Session, is_limited: bool) -> Lease {
        let most = Setting::<ForeignConnections>::of(state.config_options()).copied().unwrap_or_default();
        let threads = if is_limited { 1 } else { state.config().target_partitions() };
        self.reading.lease(&self.relation, self.relation.connections().min(threads), most)
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
        let Some(others) = conjunction(others) else {
            let columns = projection.cloned().unwrap_or_else(all);
            let lease = self.lease(state, limit.is_some());
            let scan = ForeignScanExec::try_new(reading, relation, &columns, &conditions, limit, lease)?;
            return Ok(Arc::new(scan));
        };
        // A later rule has made something else of a filter that the server was to apply.
        let schema = DFSchema::try_from(self.relation.schema.as_ref().clone())?;
        let predicate = state.create_physical_expr(others, &schema)?;
        let lease = self.lease(state, false);
        let scan = ForeignScanExec::try_new(reading, relation, &all(), &conditions, None, lease)?;
        let filter = FilterExecBuilder::new(predicate, Arc::new(scan));
        Ok(Arc::new(filter.apply_projection(projection.cloned())?.build()?))
    }
}
