//! Parquet files as a table. DataFusion scans them, in parallel and with the statistics that hold;
//! the footers and the bytes that it reads are checked here.

use crate::chunk::VALUES_MAX;
use crate::damage::unless_damaged;
use crate::file_column::{fields, is_hollow, merged};
use crate::float_bounds::FloatFilters;
use crate::nested::leaves;
use crate::parquet_footer::Footer;
use crate::parquet_reader::Readers;
use crate::parquet_source::OrderedFiles;
use crate::room::Room;
use crate::uuid_column::{converter, has_bytes};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics, not_impl_err};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::parquet::transform_schema_to_view;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path as StorePath;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_error::{external, from_datafusion};
use hypostyle_expr::nan::{is_of_floats, one_nan};
use hypostyle_expr::said::in_plans;
use std::path::PathBuf;
use std::sync::Arc;

/// The columns that the directories of files are, and the values of each file.
#[derive(Debug, Default)]
pub struct Partitions {
    pub fields: Vec<FieldRef>,
    pub values: Vec<Vec<ScalarValue>>,
}

/// A table over Parquet files, in the order in which they are named.
#[derive(Debug)]
pub struct ParquetTable {
    /// Their state when the table was opened.
    footers: Vec<Footer>,
    values: Vec<Vec<ScalarValue>>,
    /// The columns of the files, without those that are directories, and the directories.
    source: TableSchema,
    schema: SchemaRef,
}

impl ParquetTable {
    /// Opens files, whose columns are brought together by their names. A directory says more than a
    /// column of its name.
    ///
    /// # Errors
    /// `NotFound`, `Io`; `InvalidInput` for files that are damaged, or do not fit each other.
    pub fn open(files: &[PathBuf], partitions: Partitions) -> hypostyle_types::Result<Self> {
        let Partitions { fields: directories, mut values } = partitions;
        values.resize(files.len(), Vec::new());
        let footers =
            files.iter().map(|file| Footer::read(file)).collect::<hypostyle_types::Result<Vec<_>>>()?;
        let is_own = |field: &Field| !directories.iter().any(|of| of.name() == field.name());
        let columns = footers.iter().map(|footer| {
            let own = fields(footer.fields()).into_iter().filter(is_own).collect();
            (footer.path.as_path(), own)
        });
        let columns: Vec<_> = columns.collect();
        // The reader makes views of texts without copying them.
        let own = Arc::new(transform_schema_to_view(&merged(&columns)?));
        let source = TableSchema::builder(own).with_table_partition_cols(directories).build();
        let all = source.table_schema().fields().iter().map(|field| in_plans(field));
        let schema = Arc::new(Schema::new(all.collect::<Vec<_>>()));
        Ok(Self { footers, values, source, schema })
    }

    /// Returns a file with what the planner may know of it.
    fn partitioned(
        &self,
        footer: Footer,
        values: Vec<ScalarValue>,
        filters: &FloatFilters,
    ) -> Result<PartitionedFile> {
        let path = std::path::absolute(&footer.path)?;
        let modified = footer.modified().map_or_else(Default::default, Into::into);
        let meta = ObjectMeta {
            location: StorePath::from_absolute_path(&path)?,
            last_modified: modified,
            size: footer.length(),
            e_tag: None,
            version: None,
        };
        let found = || self.statistics(&footer).map_err(from_datafusion);
        let statistics = unless_damaged(&footer.path, "Parquet", found).map_err(external)?;
        let access = filters.access(&footer);
        let file = PartitionedFile::new_from_meta(meta)
            .with_partition_values(values)
            .with_statistics(Arc::new(if access.is_some() { statistics.to_inexact() } else { statistics }))
            .with_extension(footer);
        Ok(match access {
            Some(access) => file.with_extension(access),
            None => file,
        })
    }

    /// Returns what holds for all rows of a file. Writers leave NaN out of the bounds of floats,
    /// and DataFusion takes bounds that are missing for those of rows that are all NULL.
    fn statistics(&self, footer: &Footer) -> Result<Statistics> {
        let own = self.source.file_schema();
        let mut found = DFParquetMetadata::statistics_from_parquet_metadata(&footer.metadata, own)?;
        let bounds = footer.bounds();
        for (column, field) in found.column_statistics.iter_mut().zip(own.fields()) {
            // What the file lacks is NULL in all rows.
            let has_bounds = bounds.get(field.name().as_str()).is_none_or(|found| {
                let wanted = field.data_type();
                found.is_some_and(|of| of == wanted || of.is_string() && wanted.is_string())
            });
            if is_of_floats(field.data_type()) || !has_bounds {
                column.min_value = Precision::Absent;
                column.max_value = Precision::Absent;
            }
        }
        Ok(found)
    }

    /// Returns how many rows a batch has, if these are fewer than in other tables: it has many columns.
    fn batch_rows(&self, projection: Option<&Vec<usize>>, session: &dyn Session) -> Option<usize> {
        let fields = self.schema.fields();
        let width = match projection {
            Some(places) => places.iter().map(|place| leaves(&fields[*place..=*place])).sum::<usize>().max(1),
            None => leaves(fields),
        };
        let rows = (VALUES_MAX / width).max(1);
        (rows < session.config().batch_size()).then_some(rows)
    }

    /// Returns the columns to read, floats with one NaN, and UUIDs as text.
    fn projected(&self, projection: Option<&Vec<usize>>, session: &dyn Session) -> Result<ProjectionExprs> {
        let source = self.source.table_schema();
        let all: Vec<usize> = (0..source.fields().len()).collect();
        let places = projection.unwrap_or(&all);
        let options = Arc::new(session.config_options().clone());
        let items = places.iter().map(|place| {
            let field = source.field(*place);
            if is_hollow(field.data_type()) {
                return not_impl_err!(
                    "the column \"{}\" of a Parquet file: it is a structure without fields; select others",
                    field.name()
                );
            }
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), *place));
            let made_by = match () {
                () if is_of_floats(field.data_type()) => Some(one_nan()),
                () if has_bytes(field) => Some(converter(false)),
                () => None,
            };
            let expr: Arc<dyn PhysicalExpr> = match made_by {
                Some(function) => {
                    let options = Arc::clone(&options);
                    Arc::new(ScalarFunctionExpr::try_new(function, vec![column], source, options)?)
                }
                None => column,
            };
            Ok(ProjectionExpr { expr, alias: field.name().clone() })
        });
        Ok(ProjectionExprs::new(items.collect::<Result<Vec<_>>>()?))
    }
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let filters = FloatFilters::of(filters, self.source.file_schema());
        let files = self.footers.iter().zip(&self.values).map(|(known, values)| {
            let footer = known.again().map_err(external)?;
            self.partitioned(footer, values.clone(), &filters)
        });
        let files = files.collect::<Result<Vec<_>>>()?;
        let all = files.iter().filter_map(|file| file.statistics.as_deref());
        let statistics = Statistics::try_merge_iter(all, self.source.table_schema())?;
        let pool = &session.runtime_env().memory_pool;
        let (room, whole) = (Room::of(pool), Room::whole(pool));
        let mut options = TableParquetOptions::default();
        // They are believed without a check, and know other equal values than SQL does: 0 and -0.
        options.global.bloom_filter_on_read = false;
        let source = ParquetSource::new(self.source.clone())
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(Arc::new(Readers { room, whole }));
        let projected = source.try_pushdown_projection(&self.projected(projection, session)?)?;
        let source = projected
            .ok_or_else(|| DataFusionError::Internal("Parquet files are not read by columns".to_string()))?;
        let count = session.config().target_partitions().max(1);
        let each = files.len().div_ceil(count).max(1);
        let groups = files.chunks(each).map(|files| FileGroup::new(files.to_vec())).collect();
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_limit(limit)
            .with_preserve_order(true)
            .with_batch_size(self.batch_rows(projection, session))
            .build();
        Ok(DataSourceExec::from_data_source(OrderedFiles(Arc::new(config))))
    }
}
