//! Functions and their parameters, from DataFusion's description of them.

use crate::information_schema::{InformationSchema, of_type, yes};
use crate::pg_catalog::PG_CATALOG;
use crate::pg_catalog::rows::{Row, row};
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::catalog::SchemaProvider;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use hypostyle_types::LogicalType;

/// Rows whose values are texts.
struct Texts(Vec<(RecordBatch, Vec<StringArray>)>);

impl Texts {
    fn new(batches: Vec<RecordBatch>) -> Result<Self> {
        let texts = |batch: &RecordBatch| -> Result<Vec<StringArray>> {
            let column = |array: &ArrayRef| Ok(StringArray::from(cast(array, &DataType::Utf8)?.to_data()));
            batch.columns().iter().map(column).collect()
        };
        let each = batches.into_iter().map(|batch| {
            let columns = texts(&batch)?;
            Ok((batch, columns))
        });
        Ok(Self(each.collect::<Result<_>>()?))
    }

    /// Returns what `row` makes of each row, which it is given the values of by their columns'
    /// names.
    fn rows(&self, row: impl Fn(&dyn Fn(&str) -> Option<String>) -> Row) -> Vec<Row> {
        let mut rows = Vec::new();
        for (batch, columns) in &self.0 {
            for place in 0..batch.num_rows() {
                let value = |name: &str| {
                    let column = &columns[batch.schema().index_of(name).ok()?];
                    column.is_valid(place).then(|| column.value(place).to_string())
                };
                rows.push(row(&value));
            }
        }
        rows
    }
}

/// Returns what is told of a type by its Arrow name, if we have it.
fn typed(database: &str, name: Option<String>) -> Row {
    let Some(name) = name else { return Row::new() };
    // This is DataFusion's name of any type of texts.
    let known = if name == "String" { Some(DataType::Utf8) } else { name.parse::<DataType>().ok() };
    match known.and_then(|of| LogicalType::from_arrow(&Field::new("", of, true)).ok()) {
        Some(known) => {
            let mut row = of_type(database, "", &known);
            row.retain(|(column, _)| {
                matches!(*column, "data_type" | "udt_catalog" | "udt_schema" | "udt_name")
            });
            row
        }
        None => row! { data_type: name },
    }
}

impl InformationSchema {
    /// Returns DataFusion's rows of a relation.
    async fn told(&self, relation: &str) -> Result<Texts> {
        let Some(provider) = self.inner.table(relation).await? else { return Texts::new(Vec::new()) };
        let state = self.scope.state()?;
        let plan = provider.scan(&state, None, &[], None).await?;
        Texts::new(collect(plan, state.task_ctx()).await?)
    }

    pub(super) async fn routines(&self) -> Result<Vec<Row>> {
        let (database, _) = self.scope.current();
        let told = self.told("routines").await?;
        Ok(told.rows(|value| {
            let name = value("routine_name").unwrap_or_default();
            let mut row = typed(&database, value("data_type"));
            row.retain(|(column, _)| !column.starts_with("udt_"));
            row.extend(row! {
                specific_catalog: database.as_str(), specific_schema: PG_CATALOG, specific_name: name.as_str(),
                routine_catalog: database.as_str(), routine_schema: PG_CATALOG, routine_name: name.as_str(),
                routine_type: "FUNCTION", routine_body: "EXTERNAL", external_language: "INTERNAL",
                parameter_style: "GENERAL", is_deterministic: yes(value("is_deterministic").as_deref() == Some("true")),
                sql_data_access: "MODIFIES", schema_level_routine: "YES", security_type: "INVOKER",
            });
            for (column, told) in [
                ("function_type", value("function_type")),
                ("description", value("description")),
                ("syntax_example", value("syntax_example")),
            ] {
                row.extend(told.map(|told| (column, told.into())));
            }
            row
        }))
    }

    pub(super) async fn parameters(&self) -> Result<Vec<Row>> {
        let (database, _) = self.scope.current();
        let told = self.told("parameters").await?;
        Ok(told.rows(|value| {
            let number = |name: &str| value(name).and_then(|text| text.parse::<i64>().ok()).unwrap_or(0);
            let mode = value("parameter_mode").unwrap_or_default();
            let mut row = typed(&database, value("data_type"));
            row.extend(row! {
                specific_catalog: database.as_str(), specific_schema: PG_CATALOG,
                specific_name: value("specific_name").unwrap_or_default(),
                ordinal_position: number("ordinal_position"), is_result: yes(mode == "OUT"), parameter_mode: mode,
                as_locator: "NO", is_variadic: value("is_variadic").as_deref() == Some("true"), rid: number("rid"),
            });
            for (column, told) in [
                ("parameter_name", value("parameter_name")),
                ("parameter_default", value("parameter_default")),
            ] {
                row.extend(told.map(|told| (column, told.into())));
            }
            row
        }))
    }
}
