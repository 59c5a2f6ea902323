//! INSERT: the rows of a query in the columns of a table. Values that have no query within them are left to
//! DataFusion's planner, which plans each in the type of its column.

use crate::planner::planned;
use crate::query::bind_query;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, TableSource, WriteOp,
};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Insert, ObjectName, Query, SetExpr, Statement, TableObject, Values, Visitor,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_error::missing_table::of_missing_table;
use hypostyle_error::{counted, external};
use hypostyle_sql::build;
use hypostyle_sql::identifier::{last_of, parts_of};
use hypostyle_sql::walk::walk;
use hypostyle_types::{Error, ErrorKind};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Binds an INSERT.
///
/// # Errors
/// Those of its query; `Syntax` (42601) for a query of other numbers of columns.
pub async fn bind(state: &SessionState, insert: Insert) -> Result<LogicalPlan> {
    let (TableObject::TableName(name), Some(source)) = (&insert.table, &insert.source) else {
        return planned(state, whole(insert)).await;
    };
    let values = values_alone(source);
    if values.is_some() && queries_in(source) == 1 {
        return planned(state, whole(insert)).await;
    }
    let table = reference_of(name)?;
    let target = table_of(state, table.clone()).await?;
    let columns = target.schema();
    let given = places(&insert.columns, &columns)?;
    let rows = match values {
        Some(values) => {
            let fields = given.iter().map(|place| columns.fields()[*place].clone()).collect();
            rows_of(state, source, values, fields).await?
        }
        None => bind_query(state, source).await?,
    };
    let input = in_columns(rows, target.as_ref(), &given)?;
    let write = WriteOp::Insert(InsertOp::Append);
    Ok(LogicalPlan::Dml(DmlStatement::new(table, target, write, Arc::new(input))))
}

fn whole(insert: Insert) -> DfStatement {
    DfStatement::Statement(Box::new(Statement::Insert(insert)))
}

/// Returns the VALUES that a query is, in no order and all of them.
fn values_alone(query: &Query) -> Option<&Values> {
    match query.body.as_ref() {
        SetExpr::Values(values)
            if query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none() =>
        {
            Some(values)
        }
        _ => None,
    }
}

/// Returns how many queries there are in one, with itself.
fn queries_in(query: &Query) -> usize {
    let mut queries = Queries(0);
    let _all = walk(query, &mut queries);
    queries.0
}

struct Queries(usize);

impl Visitor for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

fn reference_of(name: &ObjectName) -> Result<TableReference> {
    let parts = parts_of(name).map_err(external)?;
    match parts.as_slice() {
        [table] => Ok(TableReference::bare(table.as_str())),
        [schema, table] => Ok(TableReference::partial(schema.as_str(), table.as_str())),
        [database, schema, table] => {
            Ok(TableReference::full(database.as_str(), schema.as_str(), table.as_str()))
        }
        _ => Err(external(Error::unsupported(format!("the name {name} is not supported")))),
    }
}

async fn table_of(state: &SessionState, name: TableReference) -> Result<Arc<dyn TableSource>> {
    let schema = state.schema_for_ref(name.clone())?;
    match schema.table(name.table()).await? {
        Some(table) => Ok(provider_as_source(table)),
        None => {
            let name = name.to_string();
            Err(of_missing_table(DataFusionError::Plan(format!("no table \"{name}\"")), name))
        }
    }
}

/// Returns the places in a table of the columns that an INSERT names, or of all.
fn places(named: &[ObjectName], columns: &SchemaRef) -> Result<Vec<usize>> {
    if named.is_empty() {
        return Ok((0..columns.fields().len()).collect());
    }
    let mut places = Vec::with_capacity(named.len());
    for name in named {
        let name = last_of(name).map_err(external)?;
        let place = columns.fields().iter().position(|field| *field.name() == name);
        let (kind, sqlstate, message) = match place {
            Some(place) if !places.contains(&place) => {
                places.push(place);
                continue;
            }
            Some(_) => (ErrorKind::Syntax, "42701", format!("column \"{name}\" is named twice")),
            None => (ErrorKind::UnknownName, "42703", format!("no column \"{name}\"")),
        };
        return Err(external(Error::new(kind, message).with_sqlstate(sqlstate).about(&name)));
    }
    Ok(places)
}

/// Binds VALUES that have queries within them: they are the items of one SELECT, and then rows in the types
/// of the columns.
async fn rows_of(
    state: &SessionState,
    source: &Query,
    values: &Values,
    fields: Vec<FieldRef>,
) -> Result<LogicalPlan> {
    // Nobody names an item so.
    let named = |(number, value): (usize, _)| build::item_named(value, &format!("value{ONE_OF}{number}"));
    let all = values.rows.iter().flat_map(|row| row.content.iter().cloned());
    let select = build::select(all.enumerate().map(named).collect(), Vec::new());
    let select = Query { with: source.with.clone(), ..select };
    let exprs = match bind_query(state, &select).await? {
        LogicalPlan::Projection(Projection { expr, input, .. })
            if matches!(input.as_ref(), LogicalPlan::EmptyRelation(_)) =>
        {
            expr
        }
        _ => {
            let message = "aggregates and window functions are not allowed in VALUES";
            return Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42803")));
        }
    };
    let mut exprs = exprs.into_iter().map(Expr::unalias);
    let rows = values.rows.iter().map(|row| exprs.by_ref().take(row.content.len()).collect());
    let schema = DFSchema::from_unqualified_fields(fields.into(), HashMap::new())?;
    LogicalPlanBuilder::values_with_schema(rows.collect(), &Arc::new(schema))?.build()
}

/// Returns rows in all columns of a table, of which they have some. The others have their defaults.
fn in_columns(rows: LogicalPlan, table: &dyn TableSource, given: &[usize]) -> Result<LogicalPlan> {
    let width = rows.schema().fields().len();
    if width != given.len() {
        let (width, given) = (counted(width, "value"), counted(given.len(), "column"));
        let message = format!("INSERT has {width} for {given}");
        return Err(external(Error::new(ErrorKind::Syntax, message).with_sqlstate("42601")));
    }
    let columns = table.schema();
    let value_of = |(place, field): (usize, &FieldRef)| {
        let value = match given.iter().position(|given| *given == place) {
            Some(number) => Expr::Column(Column::from(rows.schema().qualified_field(number)))
                .cast_to(field.data_type(), rows.schema())?,
            None => {
                let default = table.get_column_default(field.name()).cloned();
                default
                    .unwrap_or(Expr::Literal(ScalarValue::Null, None))
                    .cast_to(field.data_type(), &DFSchema::empty())?
            }
        };
        Ok::<_, DataFusionError>(value.alias(field.name()))
    };
    let values = columns.fields().iter().enumerate().map(value_of).collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(values, Arc::new(rows))?))
}
