//! WITH: queries that others name, bound where they are defined; recursive ones; and those whose rows are
//! computed once.

use crate::query::refusal::{refused, unsupported};
use crate::query::rows::{Rows, named};
use crate::query::scope::{Definition, Scope};
use crate::query::set_operation;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::TableReference;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, SubqueryAlias, TableScan, TableSource,
};
use datafusion::sql::sqlparser::ast::{Cte, CteAsMaterialized, SetExpr, SetOperator, SetQuantifier, With};
use hypostyle_error::counted;
use hypostyle_expr::walk::{any_node, has_expression};
use hypostyle_plan::computed_once::read_often;
use hypostyle_sql::identifier::fold;
use std::any::Any;
use std::sync::Arc;

/// Returns the place of a query with the definitions of its WITH.
///
/// # Errors
/// `Syntax` (42712) for a name that is defined twice; those of the definitions.
pub fn defined<'b>(with: Option<&With>, scope: &'b Scope<'_>) -> Result<Scope<'b>> {
    let mut inner = scope.within();
    let Some(with) = with else { return Ok(inner) };
    let mut taken: Vec<String> = Vec::with_capacity(with.cte_tables.len());
    for table in &with.cte_tables {
        let name = fold(&table.alias.name);
        if taken.contains(&name) {
            return Err(refused("42712", format!("WITH query name \"{name}\" specified more than once")));
        }
        let rows = match with.recursive {
            true => recursive(table, &name, &inner)?,
            false => named(inner.rows(&table.query)?, &table.alias)?,
        };
        let plan = called(rows.plan, &name, table.materialized.as_ref())?;
        inner.define(Definition { name: name.clone(), rows: Rows { plan, names: rows.names } });
        taken.push(name);
    }
    Ok(inner)
}

/// Returns the plan of a definition, under its name. All that name it have one input, which is computed once
/// where it has to be: AS MATERIALIZED, or where it gives other rows each time.
fn called(plan: LogicalPlan, name: &str, materialized: Option<&CteAsMaterialized>) -> Result<LogicalPlan> {
    let is_volatile = any_node(&plan, |node| has_expression(node, Expr::is_volatile_node));
    let is_wanted = is_volatile || matches!(materialized, Some(CteAsMaterialized::Materialized));
    let plan = if is_wanted && !reads_step(&plan) { read_often(plan) } else { plan };
    SubqueryAlias::try_new(Arc::new(plan), TableReference::bare(name)).map(LogicalPlan::SubqueryAlias)
}

/// Says whether a plan reads what a step of a recursive query around it has given, and so other rows in each.
fn reads_step(plan: &LogicalPlan) -> bool {
    let is_own = |name: &str| {
        any_node(plan, |node| matches!(node, LogicalPlan::RecursiveQuery(query) if query.name == name))
    };
    any_node(
        plan,
        |node| matches!(node, LogicalPlan::TableScan(scan) if step_of(scan).is_some_and(|name| !is_own(&name))),
    )
}

/// Returns the name of the recursive query whose step a scan reads.
fn step_of(scan: &TableScan) -> Option<String> {
    let table = source_as_provider(&scan.source).ok()?;
    let table = (table.as_ref() as &dyn Any).downcast_ref::<CteWorkTable>()?;
    Some(table.name().to_string())
}

/// Binds a definition of WITH RECURSIVE, which need not be recursive.
fn recursive(table: &Cte, name: &str, scope: &Scope<'_>) -> Result<Rows> {
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, set_quantifier } =
        table.query.body.as_ref()
    else {
        return named(scope.rows(&table.query)?, &table.alias);
    };
    let own = defined(table.query.with.as_ref(), scope)?;
    let first = named(set_operation::bind(left, &own)?, &table.alias)?;
    let work = CteWorkTable::new(name, nullable(first.plan.schema().inner()));
    let source: Arc<dyn TableSource> = provider_as_source(Arc::new(work));
    let scan = LogicalPlanBuilder::scan(TableReference::bare(name), source.clone(), None)?.build()?;
    let mut inner = own.within();
    inner
        .define(Definition { name: name.to_string(), rows: Rows { plan: scan, names: first.names.clone() } });
    let step = set_operation::bind(right, &inner)?;
    let reads_it = |node: &LogicalPlan| matches!(node, LogicalPlan::TableScan(scan) if Arc::ptr_eq(&scan.source, &source));
    if !any_node(&step.plan, reads_it) {
        return named(scope.rows(&table.query)?, &table.alias);
    }
    if table.query.order_by.is_some() || table.query.limit_clause.is_some() || table.query.fetch.is_some() {
        return Err(unsupported(format!("ORDER BY or LIMIT in the recursive query \"{name}\"")));
    }
    let (columns, given) = (first.names.len(), step.names.len());
    if columns != given {
        let message = format!(
            "the recursive query \"{name}\" has {}, and its step gives {given}",
            counted(columns, "column")
        );
        return Err(refused("42601", message));
    }
    let is_distinct = match set_quantifier {
        SetQuantifier::All => false,
        SetQuantifier::None | SetQuantifier::Distinct => true,
        _ => return Err(refused("42601", "a recursive query is UNION or UNION ALL, not BY NAME")),
    };
    let plan = LogicalPlanBuilder::from(first.plan)
        .to_recursive_query(name.to_string(), step.plan, is_distinct)?
        .build()?;
    Ok(Rows { plan, names: first.names })
}

/// Returns the columns of a step, which may be NULL where those of the first part are not.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}
