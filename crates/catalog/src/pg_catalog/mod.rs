//! `pg_catalog`, which PostgreSQL's programs query about a database (docs/pgwire.md).
//!
//! Its relations are those of PostgreSQL 15. Relations that have content are built from the
//! session's catalogs on request; the others are empty. Syntax of the programs that DataFusion does
//! not know is rewritten before planning.

mod column_type;
mod definition;
pub(crate) mod function;
mod keywords;
mod objects;
mod order;
mod rewrite;
mod rights;
pub mod rows;
pub mod settings;
pub mod standard;
mod tables;
pub(crate) mod type_lists;
pub(crate) mod type_of;
mod type_rows;

use crate::scope::{Scope, TEMPORARY};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
pub use column_type::{Origin, catalog_column, primary_key};
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use datafusion::prelude::SessionContext;
pub use definition::quote as quote_name;
pub use function::gives_name;
use hypostyle_types::LogicalType;
use objects::{Objects, What};
pub use objects::{attribute_number, tables_from};
pub use order::in_order;
pub use rewrite::rewrite;
use rows::{SystemRelation, batch, system_relation, system_relations};
use settings::Settings;
use std::sync::{Arc, OnceLock};
use tables::{Source, ViewColumns};

pub const PG_CATALOG: &str = "pg_catalog";

/// Registers the functions of `pg_catalog`.
pub fn register(context: &SessionContext, scope: &Arc<Scope>, settings: &Arc<Settings>) {
    function::register(context, scope, settings);
    keywords::register(context);
    type_lists::register(context);
    type_of::register(context);
}

/// Says whether there is a relation of that name, which needs no schema in front of it.
pub fn has_relation(name: &str) -> bool {
    name.starts_with("pg_") && system_relation(name).is_some()
}

/// The schema.
#[derive(Debug)]
pub struct PgCatalog {
    scope: Arc<Scope>,
    databases: Arc<dyn CatalogProviderList>,
}

impl PgCatalog {
    pub fn new(scope: Arc<Scope>, databases: Arc<dyn CatalogProviderList>) -> Self {
        Self { scope, databases }
    }

    /// Returns the columns of all views that can be planned.
    async fn view_columns(&self, objects: &Objects) -> ViewColumns {
        let mut columns = ViewColumns::new();
        for relation in &objects.relations {
            let What::View(view) = &relation.what else { continue };
            let database = if relation.temporary { TEMPORARY.to_string() } else { self.scope.current().0 };
            let schema = self.databases.catalog(&database).and_then(|database| database.schema(&view.schema));
            let Some(schema) = schema else { continue };
            let Ok(Some(provider)) = schema.table(&view.name).await else { continue };
            let schema = provider.schema();
            let described = schema.fields().iter().map(|field| {
                let logical_type = LogicalType::from_arrow(field).unwrap_or(LogicalType::Varchar);
                (field.name().clone(), logical_type)
            });
            columns.push((relation.oid, described.collect()));
        }
        columns
    }
}

/// Returns what a relation says of the relations of the system, and of types, which is made once.
fn system_batch(relation: &SystemRelation) -> hypostyle_types::Result<Option<RecordBatch>> {
    static CLASSES: OnceLock<RecordBatch> = OnceLock::new();
    static ATTRIBUTES: OnceLock<RecordBatch> = OnceLock::new();
    static TYPES: OnceLock<RecordBatch> = OnceLock::new();
    let made = match relation.name {
        "pg_class" => &CLASSES,
        "pg_attribute" => &ATTRIBUTES,
        "pg_type" => &TYPES,
        _ => return Ok(None),
    };
    if let Some(known) = made.get() {
        return Ok(Some(known.clone()));
    }
    let known = batch(relation, &tables::system_rows(relation.name))?;
    Ok(Some(made.get_or_init(|| known).clone()))
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        system_relations().iter().map(|relation| relation.name.to_string()).collect()
    }

    fn table_exist(&self, name: &str) -> bool {
        system_relation(name).is_some()
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let of = |is_view| if is_view { TableType::View } else { TableType::Base };
        Ok(system_relation(name).map(|relation| of(relation.is_view)))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(relation) = system_relation(name) else { return Ok(None) };
        let external = |error: hypostyle_types::Error| DataFusionError::External(Box::new(error));
        let rows = match tables::is_empty(name) {
            true => Vec::new(),
            false => {
                let objects = Objects::of(&self.scope).map_err(external)?;
                let views = match name {
                    "pg_attribute" | "pg_class" => self.view_columns(&objects).await,
                    _ => ViewColumns::new(),
                };
                let state = self.scope.state()?;
                let functions: Vec<String> = match name {
                    "pg_proc" => state
                        .scalar_functions()
                        .keys()
                        .chain(state.aggregate_functions().keys())
                        .cloned()
                        .collect(),
                    _ => Vec::new(),
                };
                let settings = state.config().get_extension::<Settings>().unwrap_or_default();
                let source = Source {
                    scope: &self.scope,
                    objects: &objects,
                    settings: &settings,
                    views: &views,
                    functions: &functions,
                };
                tables::rows(name, &source).map_err(external)?
            }
        };
        let mut batches = vec![batch(relation, &rows).map_err(external)?];
        batches.extend(system_batch(relation).map_err(external)?);
        Ok(Some(Arc::new(MemTable::try_new(batches[0].schema(), vec![batches])?)))
    }
}
