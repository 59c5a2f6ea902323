//! Attached databases of other systems as catalogs that DataFusion plans against. Their servers know
//! what is in them, and are asked for one table at a time.

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::Result;
use hypostyle_error::external;
use hypostyle_expr::wanted::check_wanted;
use hypostyle_foreign::{AttachedDatabase, ForeignTable, Name, Wanted};
use std::sync::Arc;

/// A database of another system.
#[derive(Debug)]
pub struct ForeignCatalog(pub Arc<AttachedDatabase>);

impl CatalogProvider for ForeignCatalog {
    fn schema_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(ForeignSchema { attached: self.0.clone(), schema: name.to_string() }))
    }
}

#[derive(Debug)]
struct ForeignSchema {
    attached: Arc<AttachedDatabase>,
    schema: String,
}

impl ForeignSchema {
    /// Asks the server for a table or view, on the thread that plans: it ends where nobody waits for
    /// the plan any more.
    fn find(&self, name: &str) -> Result<Option<ForeignTable>> {
        check_wanted()?;
        let wanted: Wanted = Arc::new(|| check_wanted().is_ok());
        let name = Name { schema: self.schema.clone(), name: name.to_string() };
        ForeignTable::find(&self.attached, &name, &wanted).map_err(external)
    }
}

#[async_trait]
impl SchemaProvider for ForeignSchema {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn table_exist(&self, name: &str) -> bool {
        self.find(name).is_ok_and(|found| found.is_some())
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.find(name)?.map(|table| Arc::new(table) as Arc<dyn TableProvider>))
    }
}
