//! `information_schema` (ISO/IEC 9075-11), with the relations and columns of PostgreSQL 15.
//! Relations that have content are built from the session's databases on request; the others are
//! empty.
//!
//! A few columns are added behind PostgreSQL's: comments, types as this database writes them, and
//! DataFusion's description of functions.

mod constraints;
mod functions;
mod privileges;
mod relations;

use crate::pg_catalog::rows::{Row, batch, row};
use crate::pg_catalog::settings::Settings;
use crate::pg_catalog::standard::{standard_relation, standard_relations};
use crate::scope::Scope;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::TableType;
use hypostyle_error::external;
use hypostyle_pgtypes::types::shown;
use hypostyle_types::{LogicalType, TimeUnit};
use std::sync::Arc;

/// DataFusion's settings, which SHOW reads.
const SETTINGS: &str = "df_settings";

/// Bytes that PostgreSQL says a text without a length may have.
const TEXT_BYTES_MAX: i64 = 1 << 30;

#[derive(Debug)]
pub struct InformationSchema {
    inner: InformationSchemaProvider,
    scope: Arc<Scope>,
    databases: Arc<dyn CatalogProviderList>,
}

fn yes(is_so: bool) -> &'static str {
    if is_so { "YES" } else { "NO" }
}

/// Returns what the standard's relations say of a type, wherever they do.
fn of_type(database: &str, identifier: &str, logical_type: &LogicalType) -> Row {
    let shown = shown(logical_type);
    let (data_type, name) = match shown.is_array {
        true => ("ARRAY", format!("_{}", shown.scalar.name)),
        false => (shown.scalar.sql, shown.scalar.name.to_string()),
    };
    let mut row = row! {
        data_type: data_type, udt_catalog: database, udt_schema: "pg_catalog", udt_name: name,
        dtd_identifier: identifier,
    };
    if shown.is_array {
        return row;
    }
    match shown.scalar.category {
        'S' => row.extend(row! { character_octet_length: TEXT_BYTES_MAX }),
        'N' => row.extend(numeric(logical_type, shown.scalar.bytes)),
        'D' | 'T' => row.extend(row! { datetime_precision: datetime_precision(logical_type) }),
        _ => {}
    }
    row
}

/// Returns precision, its radix and the scale of a numeric type that PostgreSQL shows with this
/// number of bytes.
fn numeric(logical_type: &LogicalType, bytes: i16) -> Row {
    let (precision, radix, scale): (i64, i64, Option<i64>) = match logical_type {
        LogicalType::Float => (24, 2, None),
        LogicalType::Double => (53, 2, None),
        LogicalType::Decimal { precision, scale } => (i64::from(*precision), 10, Some(i64::from(*scale))),
        LogicalType::UBigInt => (20, 10, Some(0)),
        _ => (i64::from(bytes) * 8, 2, Some(0)),
    };
    let mut row = row! { numeric_precision: precision, numeric_precision_radix: radix };
    if let Some(scale) = scale {
        row.extend(row! { numeric_scale: scale });
    }
    row
}

/// Digits of a second.
fn datetime_precision(logical_type: &LogicalType) -> i64 {
    match logical_type {
        LogicalType::Timestamp { unit, .. } | LogicalType::Duration { unit } => match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        },
        LogicalType::Date => 0,
        LogicalType::Interval => 9,
        _ => 6,
    }
}

impl InformationSchema {
    pub fn new(scope: Arc<Scope>, databases: Arc<dyn CatalogProviderList>) -> Self {
        Self { inner: InformationSchemaProvider::new(databases.clone()), scope, databases }
    }

    /// Returns the session's user, who owns everything.
    fn user(&self) -> Result<String> {
        let settings = self.scope.state()?.config().get_extension::<Settings>().unwrap_or_default();
        Ok(settings.user())
    }

    async fn rows(&self, name: &str) -> Result<Vec<Row>> {
        Ok(match name {
            "information_schema_catalog_name" => vec![row! { catalog_name: self.scope.current().0 }],
            "enabled_roles" => vec![row! { role_name: self.user()? }],
            "character_sets" => self.character_sets(),
            "schemata" => self.schemata()?,
            "tables" => self.tables(),
            "views" => self.views(),
            "columns" => self.columns().await?,
            "element_types" => self.element_types(),
            "sequences" => self.sequences(),
            "table_constraints" => self.table_constraints(),
            "check_constraints" => self.check_constraints(),
            "referential_constraints" => self.referential_constraints(),
            "key_column_usage" => self.key_column_usage(),
            "constraint_column_usage" => self.constraint_column_usage(),
            "constraint_table_usage" => self.constraint_table_usage(),
            "table_privileges" | "role_table_grants" => self.table_privileges()?,
            "column_privileges" | "role_column_grants" => self.column_privileges().await?,
            "routines" => self.routines().await?,
            "parameters" => self.parameters().await?,
            _ => Vec::new(),
        })
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let standard = standard_relations().iter().map(|relation| relation.name.to_string());
        standard.chain([SETTINGS.to_string()]).collect()
    }

    fn table_exist(&self, name: &str) -> bool {
        name == SETTINGS || standard_relation(name).is_some()
    }

    async fn table_type(&self, _: &str) -> Result<Option<TableType>> {
        Ok(Some(TableType::View))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(relation) = standard_relation(name) else {
            return if name == SETTINGS { self.inner.table(name).await } else { Ok(None) };
        };
        let batch = batch(relation, &self.rows(name).await?).map_err(external)?;
        Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
    }
}
