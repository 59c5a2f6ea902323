//! A session that plans without physical rules. DataFusion would have a state of its own for this, in
//! which each function is registered anew for each statement.

use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, Session};
use datafusion::common::DFSchema;
use datafusion::common::config::TableOptions;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::registry::ExtensionTypeRegistryRef;
use datafusion::logical_expr::{AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

/// A session without physical rules; whoever looks for its state finds that of the statement.
pub(crate) struct Unoptimized<'a> {
    state: &'a SessionState,
    table_options: TableOptions,
}

impl<'a> Unoptimized<'a> {
    pub fn new(state: &'a SessionState) -> Self {
        Self { state, table_options: state.table_options().clone() }
    }
}

#[async_trait]
impl Session for Unoptimized<'_> {
    fn session_id(&self) -> &str {
        self.state.session_id()
    }

    fn config(&self) -> &SessionConfig {
        self.state.config()
    }

    fn catalog_list(&self) -> Arc<dyn CatalogProviderList> {
        self.state.catalog_list().clone()
    }

    fn query_planner(&self) -> Arc<dyn QueryPlanner + Send + Sync> {
        Session::query_planner(self.state)
    }

    async fn create_physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        self.query_planner().create_physical_plan(plan, self).await
    }

    fn create_physical_expr(&self, expr: Expr, schema: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
        self.state.create_physical_expr(expr, schema)
    }

    fn scalar_functions(&self) -> &HashMap<String, Arc<ScalarUDF>> {
        self.state.scalar_functions()
    }

    fn higher_order_functions(&self) -> &HashMap<String, Arc<HigherOrderUDF>> {
        Session::higher_order_functions(self.state)
    }

    fn aggregate_functions(&self) -> &HashMap<String, Arc<AggregateUDF>> {
        self.state.aggregate_functions()
    }

    fn window_functions(&self) -> &HashMap<String, Arc<WindowUDF>> {
        self.state.window_functions()
    }

    fn extension_type_registry(&self) -> &ExtensionTypeRegistryRef {
        Session::extension_type_registry(self.state)
    }

    fn runtime_env(&self) -> &Arc<RuntimeEnv> {
        self.state.runtime_env()
    }

    fn execution_props(&self) -> &ExecutionProps {
        self.state.execution_props()
    }

    fn as_any(&self) -> &dyn Any {
        self.state
    }

    fn table_options(&self) -> &TableOptions {
        &self.table_options
    }

    fn table_options_mut(&mut self) -> &mut TableOptions {
        &mut self.table_options
    }

    fn task_ctx(&self) -> Arc<TaskContext> {
        self.state.task_ctx()
    }
}
