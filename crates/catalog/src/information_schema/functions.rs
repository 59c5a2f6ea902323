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
use hypostyle_storage::SCHEMA_MAIN;
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

/// Returns the type of ours for one that DataFusion names; `None` for one that no column can have.
fn type_named(name: &str) -> Option<LogicalType> {
    let (word, details) = name.split_once('(').unwrap_or((name, ""));
    let details = details.strip_suffix(')').unwrap_or(details);
    let list_of = |element: &str| {
        let element = type_named(element.strip_prefix("non-null ").unwrap_or(element))?;
        Some(LogicalType::List { element: Box::new(element) })
    };
    Some(match word {
        "String" => LogicalType::Varchar,
        "Binary" | "FixedSizeBinary" => LogicalType::Blob,
        "Float16" => LogicalType::Float,
        "Date" => LogicalType::Date,
        "Time" => LogicalType::Time,
        "Timestamp" if details.contains(',') => LogicalType::timestamp_with_time_zone(),
        "Timestamp" => LogicalType::timestamp(),
        "Interval" | "Duration" => LogicalType::Interval,
        "Decimal" => {
            let (precision, scale) = details.split_once(',')?;
            LogicalType::decimal(precision.trim().parse().ok()?, scale.trim().parse().ok()?).ok()?
        }
        "List" => list_of(details)?,
        "FixedSizeList" => list_of(details.split_once(" x ")?.1)?,
        // They are told as one value.
        "Struct" | "Map" | "Union" => LogicalType::Json,
        _ => LogicalType::from_arrow(&Field::new("", name.parse().ok()?, true)).ok()?,
    })
}

/// Returns what is told of a type that DataFusion names.
fn typed(database: &str, name: Option<String>) -> Row {
    let Some(name) = name else { return Row::new() };
    match type_named(&name) {
        Some(known) => {
            let mut row = of_type(database, "", &known);
            row.retain(|(column, _)| {
                matches!(*column, "data_type" | "udt_catalog" | "udt_schema" | "udt_name")
            });
            row
        }
        None => row! { data_type: "anyelement" },
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
        let mut rows = told.rows(|value| {
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
        });
        // The macros of the database.
        let macros = self.scope.current_database().map(|named| named.snapshot.catalog().macros.clone());
        rows.extend(macros.unwrap_or_default().into_iter().map(|definition| {
            let name = definition.name.as_str();
            row! {
                specific_catalog: database.as_str(), specific_schema: SCHEMA_MAIN, specific_name: name,
                routine_catalog: database.as_str(), routine_schema: SCHEMA_MAIN, routine_name: name,
                routine_type: "FUNCTION", routine_body: "SQL", routine_definition: definition.sql.as_str(),
                external_language: "SQL",
                parameter_style: "GENERAL", is_deterministic: yes(false), sql_data_access: "MODIFIES",
                schema_level_routine: "YES", security_type: "INVOKER", function_type: "MACRO",
            }
        }));
        Ok(rows)
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

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::types::NativeType;

    #[test]
    fn every_type_that_datafusion_names_has_one_of_ours() {
        use hypostyle_types::LogicalType::*;
        let list = |element: LogicalType| List { element: Box::new(element) };
        let types = [Boolean, TinyInt, UBigInt, Float, Varchar, Blob, Date, Time, Interval];
        let others = [LogicalType::decimal(30, 7).unwrap(), LogicalType::timestamp(), list(list(Integer))];
        for of in types.into_iter().chain(others) {
            let name = NativeType::from(of.arrow_type()).to_string();
            assert_eq!(type_named(&name), Some(of), "{name}");
        }
        for (name, of) in [
            ("Timestamp(ns, \"+00:00\")", Some(LogicalType::timestamp_with_time_zone())),
            ("FixedSizeList(3 x non-null Float32)", Some(list(Float))),
            ("Struct(\"a\": Int64)", Some(Json)),
            ("List(Null)", Some(list(Varchar))),
            ("Decimal(5, -2)", None),
        ] {
            assert_eq!(type_named(name), of, "{name}");
        }
    }
}
