//! `information_schema`: DataFusion's, but for `tables` and `columns`, which tell comments, our SQL types and defaults,
//! `views`, which has those that cannot be planned, too, and `sequences` (ISO/IEC 9075-11).

use crate::catalog::Databases;
use crate::scope::Scope;
use arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::{CatalogProviderList, MemTable, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::TableType;
use hypostyle_storage::{Identity, SequenceEntry};
use hypostyle_types::{LogicalType, TimeUnit};
use std::sync::Arc;

pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";
const SEQUENCES: &str = "sequences";

#[derive(Debug)]
pub(crate) struct InformationSchema {
    inner: InformationSchemaProvider,
    scope: Arc<Scope>,
    databases: Arc<Databases>,
}

/// One row of `information_schema.columns`.
struct Row {
    database: String,
    schema: String,
    table: String,
    column: String,
    position: u64,
    default: Option<String>,
    identity: Option<Identity>,
    generated: Option<String>,
    nullable: bool,
    data_type: LogicalType,
    comment: Option<String>,
}

/// One row of `information_schema.tables` or `views`.
struct Relation {
    database: String,
    schema: String,
    name: String,
    /// Of a view.
    sql: Option<String>,
    comment: Option<String>,
}

fn text_of<T>(rows: &[T], value: fn(&T) -> Option<&str>) -> ArrayRef {
    Arc::new(rows.iter().map(value).collect::<StringArray>())
}

fn in_memory<const COLUMNS: usize>(columns: [(&str, ArrayRef); COLUMNS]) -> Result<MemTable> {
    let columns = columns.into_iter().map(|(name, array)| (name, array, true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    MemTable::try_new(batch.schema(), vec![vec![batch]])
}

impl InformationSchema {
    pub fn new(scope: Arc<Scope>) -> Self {
        let databases = Arc::new(Databases(scope.clone()));
        Self { inner: InformationSchemaProvider::new(databases.clone()), scope, databases }
    }

    async fn rows(&self) -> Result<Vec<Row>> {
        let databases = self.scope.databases.read().clone();
        let mut rows = Vec::new();
        for named in &databases {
            let catalog = named.snapshot.catalog();
            for table in &catalog.tables {
                for (column, position) in table.columns.iter().zip(1..) {
                    rows.push(Row {
                        database: named.name.clone(),
                        schema: table.schema.clone(),
                        table: table.name.clone(),
                        column: column.name.clone(),
                        position,
                        default: column.default.clone(),
                        identity: column.identity,
                        generated: column.generated.clone(),
                        nullable: column.nullable,
                        data_type: column.logical_type.clone(),
                        comment: column.comment.clone(),
                    });
                }
            }
            for view in &catalog.views {
                let schema = self.databases.catalog(&named.name).and_then(|names| names.schema(&view.schema));
                let Some(schema) = schema else { continue };
                // A view over what is no longer there has no columns to tell.
                let Ok(Some(provider)) = schema.table(&view.name).await else { continue };
                for (field, position) in provider.schema().fields().iter().zip(1..) {
                    rows.push(Row {
                        database: named.name.clone(),
                        schema: view.schema.clone(),
                        table: view.name.clone(),
                        column: field.name().clone(),
                        position,
                        default: None,
                        identity: None,
                        generated: None,
                        nullable: field.is_nullable(),
                        data_type: LogicalType::from_arrow(field)
                            .map_err(|error| DataFusionError::External(Box::new(error)))?,
                        comment: None,
                    });
                }
            }
        }
        Ok(rows)
    }

    /// The tables and views that there are, but for those of this schema.
    fn relations(&self) -> Vec<Relation> {
        let mut relations = Vec::new();
        for named in self.scope.databases.read().iter() {
            let catalog = named.snapshot.catalog();
            relations.extend(catalog.tables.iter().map(|table| Relation {
                database: named.name.clone(),
                schema: table.schema.clone(),
                name: table.name.clone(),
                sql: None,
                comment: table.comment.clone(),
            }));
            relations.extend(catalog.views.iter().map(|view| Relation {
                database: named.name.clone(),
                schema: view.schema.clone(),
                name: view.name.clone(),
                sql: Some(view.sql.clone()),
                comment: view.comment.clone(),
            }));
        }
        relations
    }

    fn tables(&self) -> Result<MemTable> {
        let mut relations = self.relations();
        for database in self.databases.catalog_names() {
            relations.extend(self.table_names().into_iter().map(|name| Relation {
                database: database.clone(),
                schema: INFORMATION_SCHEMA.into(),
                name,
                sql: Some(String::new()),
                comment: None,
            }));
        }
        let kind = |row: &Relation| Some(if row.sql.is_some() { "VIEW" } else { "BASE TABLE" });
        in_memory([
            ("table_catalog", text_of(&relations, |row| Some(&row.database))),
            ("table_schema", text_of(&relations, |row| Some(&row.schema))),
            ("table_name", text_of(&relations, |row| Some(&row.name))),
            ("table_type", text_of(&relations, kind)),
            ("table_comment", text_of(&relations, |row| row.comment.as_deref())),
        ])
    }

    fn views(&self) -> Result<MemTable> {
        let mut views = self.relations();
        views.retain(|relation| relation.sql.is_some());
        in_memory([
            ("table_catalog", text_of(&views, |row| Some(&row.database))),
            ("table_schema", text_of(&views, |row| Some(&row.schema))),
            ("table_name", text_of(&views, |row| Some(&row.name))),
            ("definition", text_of(&views, |row| row.sql.as_deref())),
        ])
    }

    fn sequences(&self) -> Result<MemTable> {
        let databases = self.scope.databases.read().clone();
        let mut sequences: Vec<(&String, &SequenceEntry)> = Vec::new();
        for named in &databases {
            sequences.extend(named.snapshot.catalog().sequences.iter().map(|entry| (&named.name, entry)));
        }
        let text = |value: fn(&SequenceEntry) -> String| -> ArrayRef {
            Arc::new(StringArray::from_iter_values(sequences.iter().map(|(_, sequence)| value(sequence))))
        };
        let number = |value: fn(&SequenceEntry) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(sequences.iter().map(|(_, sequence)| value(sequence))))
        };
        let database = StringArray::from_iter_values(sequences.iter().map(|(database, _)| database));
        let columns: [(&str, ArrayRef); 9] = [
            ("sequence_catalog", Arc::new(database)),
            ("sequence_schema", text(|sequence| sequence.schema.clone())),
            ("sequence_name", text(|sequence| sequence.name.clone())),
            ("data_type", text(|_| LogicalType::BigInt.to_string())),
            ("start_value", number(|sequence| sequence.start)),
            ("minimum_value", number(|sequence| sequence.min)),
            ("maximum_value", number(|sequence| sequence.max)),
            ("increment", number(|sequence| sequence.increment)),
            ("cycle_option", text(|sequence| if sequence.cycle { "YES" } else { "NO" }.to_string())),
        ];
        let batch = RecordBatch::try_from_iter(columns)?;
        MemTable::try_new(batch.schema(), vec![vec![batch]])
    }

    async fn columns(&self) -> Result<MemTable> {
        let rows = self.rows().await?;
        let text = |value: fn(&Row) -> Option<String>| -> ArrayRef {
            Arc::new(rows.iter().map(value).collect::<StringArray>())
        };
        let number = |value: fn(&Row) -> Option<u64>| -> ArrayRef {
            Arc::new(rows.iter().map(value).collect::<UInt64Array>())
        };
        in_memory([
            ("table_catalog", text(|row| Some(row.database.clone()))),
            ("table_schema", text(|row| Some(row.schema.clone()))),
            ("table_name", text(|row| Some(row.table.clone()))),
            ("column_name", text(|row| Some(row.column.clone()))),
            ("ordinal_position", number(|row| Some(row.position))),
            ("column_default", text(|row| row.default.clone())),
            ("is_nullable", text(|row| yes(row.nullable))),
            ("data_type", text(|row| Some(row.data_type.to_string()))),
            ("character_maximum_length", number(|_| None)),
            ("numeric_precision", number(|row| numeric(&row.data_type).map(|(precision, _, _)| precision))),
            ("numeric_precision_radix", number(|row| numeric(&row.data_type).map(|(_, radix, _)| radix))),
            ("numeric_scale", number(|row| numeric(&row.data_type).and_then(|(_, _, scale)| scale))),
            ("datetime_precision", number(|row| datetime_precision(&row.data_type))),
            ("is_identity", text(|row| yes(row.identity.is_some()))),
            ("identity_generation", text(|row| row.identity.map(generation))),
            (
                "is_generated",
                text(|row| Some(if row.generated.is_some() { "ALWAYS" } else { "NEVER" }.to_string())),
            ),
            ("generation_expression", text(|row| row.generated.clone())),
            ("column_comment", text(|row| row.comment.clone())),
        ])
    }
}

fn yes(is_so: bool) -> Option<String> {
    Some(if is_so { "YES" } else { "NO" }.to_string())
}

fn generation(identity: Identity) -> String {
    match identity {
        Identity::Always => "ALWAYS".into(),
        Identity::ByDefault => "BY DEFAULT".into(),
    }
}

/// Precision, its radix and the scale of a numeric type.
fn numeric(logical_type: &LogicalType) -> Option<(u64, u64, Option<u64>)> {
    let integer = |bits| Some((bits, 2, Some(0)));
    match logical_type {
        LogicalType::TinyInt | LogicalType::UTinyInt => integer(8),
        LogicalType::SmallInt | LogicalType::USmallInt => integer(16),
        LogicalType::Integer | LogicalType::UInteger => integer(32),
        LogicalType::BigInt | LogicalType::UBigInt => integer(64),
        LogicalType::Float => Some((24, 2, None)),
        LogicalType::Double => Some((53, 2, None)),
        LogicalType::Decimal { precision, scale } => {
            Some((u64::from(*precision), 10, u64::try_from(*scale).ok()))
        }
        _ => None,
    }
}

/// Digits of a second.
fn datetime_precision(logical_type: &LogicalType) -> Option<u64> {
    match logical_type {
        LogicalType::Date => Some(0),
        LogicalType::Time => Some(6),
        LogicalType::Timestamp { unit, .. } | LogicalType::Duration { unit } => Some(match unit {
            TimeUnit::Second => 0,
            TimeUnit::Millisecond => 3,
            TimeUnit::Microsecond => 6,
            TimeUnit::Nanosecond => 9,
        }),
        LogicalType::Interval => Some(9),
        _ => None,
    }
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        self.inner.table_names().into_iter().chain([SEQUENCES.to_string()]).collect()
    }

    fn table_exist(&self, name: &str) -> bool {
        name == SEQUENCES || self.inner.table_exist(name)
    }

    async fn table_type(&self, _: &str) -> Result<Option<TableType>> {
        Ok(Some(TableType::View))
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name {
            "columns" => Ok(Some(Arc::new(self.columns().await?))),
            "tables" => Ok(Some(Arc::new(self.tables()?))),
            "views" => Ok(Some(Arc::new(self.views()?))),
            SEQUENCES => Ok(Some(Arc::new(self.sequences()?))),
            other => self.inner.table(other).await,
        }
    }
}
