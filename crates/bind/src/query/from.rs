//! FROM: relations, their aliases, LATERAL, functions and lists. Each becomes a frame; `join` puts them
//! together.

use crate::from::function_tables::name_of;
use crate::group::group_keys::PrimaryKeys;
use crate::query::expression::{self, Names, field_of};
use crate::query::frame::{Frame, Relation, Seen};
use crate::query::parts::{Parts, told_apart};
use crate::query::refusal::{refused, unsupported};
use crate::query::rows::{Rows, named};
use crate::query::scope::Scope;
use crate::query::{join, unnest};
use arrow::datatypes::DataType;
use datafusion::catalog::TableFunctionArgs as GivenArguments;
use datafusion::common::{Column, DFSchema, Diagnostic, Span, Spans, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Unnest;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Subquery};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, FunctionArg, FunctionArgExpr, ObjectName, ObjectNamePart, TableAlias,
    TableFactor, TableFunctionArgs, TableWithJoins,
};
use hypostyle_error::external;
use hypostyle_error::missing_table::of_missing_table;
use hypostyle_error::type_name::type_name;
use hypostyle_plan::unnest::references;
use hypostyle_sql::build;
use hypostyle_sql::identifier::{fold, parts_of};
use std::sync::Arc;

/// Binds FROM. Without one there is one row.
///
/// # Errors
/// `UnknownName` (42P01) for a relation that is not there; those of what it has.
pub fn bind(from: &[TableWithJoins], scope: &Scope<'_>) -> Result<Frame> {
    let mut all = from.iter();
    let Some(first) = all.next() else { return Frame::empty() };
    let mut left = joined(first, scope, None)?;
    for tables in all {
        let right = {
            let beside = scope.over(&left);
            joined(tables, scope, Some(&beside))?
        };
        left = join::cross(left, right)?;
    }
    Ok(left)
}

/// Binds tables that are joined. What is LATERAL sees those `beside`.
fn joined(tables: &TableWithJoins, scope: &Scope<'_>, beside: Option<&Scope<'_>>) -> Result<Frame> {
    let mut left = factor(&tables.relation, scope, beside)?;
    for join in &tables.joins {
        left = join::bind(left, join, scope, beside)?;
    }
    Ok(left)
}

/// Binds one of the relations of FROM.
///
/// # Errors
/// Those of [`bind`]; `Unsupported` for relations of other databases.
pub fn factor(factor: &TableFactor, scope: &Scope<'_>, beside: Option<&Scope<'_>>) -> Result<Frame> {
    let around = beside.unwrap_or(scope);
    match factor {
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            Err(unsupported("a sample in this place"))
        }
        TableFactor::Table { name, alias, args: None, .. } => table(name, alias.as_ref(), scope),
        TableFactor::Table { with_ordinality: true, .. }
        | TableFactor::Function { with_ordinality: true, .. } => {
            Err(unsupported("WITH ORDINALITY of this function"))
        }
        TableFactor::Table { name, alias, args: Some(TableFunctionArgs { args, .. }), .. }
        | TableFactor::Function { name, args, alias, .. } => {
            let Rows { plan, names } = function(factor, name, args, around)?;
            let plan = lateral_in(plan, scope, around);
            called(Rows { plan, names }, alias.as_ref(), &last(name)?, scope)
        }
        TableFactor::Derived { lateral, subquery, alias, .. } => {
            let around = if *lateral { around } else { scope };
            let Rows { plan, names } = around.rows(subquery)?;
            let plan = if *lateral { lateral_in(plan, scope, around) } else { plan };
            relation(Rows { plan, names }, alias.as_ref(), None, scope)
        }
        TableFactor::UNNEST { alias, array_exprs, with_offset: false, with_ordinality: false, .. } => {
            let Rows { plan, names } = lists(array_exprs, around)?;
            let plan = lateral_in(plan, scope, around);
            called(Rows { plan, names }, alias.as_ref(), "unnest", scope)
        }
        TableFactor::NestedJoin { table_with_joins, alias } => {
            let frame = joined(table_with_joins, scope, beside)?;
            match alias {
                Some(alias) => together(frame, alias, scope),
                None => Ok(frame),
            }
        }
        _ => Err(unsupported("this kind of relation in FROM")),
    }
}

/// Binds a table, a view, or a query that WITH names.
fn table(name: &ObjectName, alias: Option<&TableAlias>, scope: &Scope<'_>) -> Result<Frame> {
    let parts = parts_of(name).map_err(external)?;
    if let [name] = parts.as_slice()
        && let Some(rows) = scope.definition(name)
    {
        let mut frame = relation(rows.clone(), alias, Some(name), scope)?;
        if alias.is_none() {
            // It is told from tables of that name, which stand in a schema.
            frame.relations.iter_mut().for_each(|of| of.name = vec![String::new(), name.clone()]);
        }
        return Ok(frame);
    }
    let reference = match parts.as_slice() {
        [table] => TableReference::bare(table.as_str()),
        [schema, table] => TableReference::partial(schema.as_str(), table.as_str()),
        [database, schema, table] => TableReference::full(database.as_str(), schema.as_str(), table.as_str()),
        _ => return Err(unsupported(format!("the name {name}"))),
    };
    let source = scope.tables.source(reference.clone()).ok_or_else(|| missing(name, &parts))?;
    let plan = LogicalPlanBuilder::scan(reference.clone(), source, None)?.build()?;
    let key = key_of(&plan, scope);
    // DataFusion takes a name with a schema for that of any table without one.
    let is_ambiguous = || match &reference {
        TableReference::Bare { table } => scope.is_taken(table),
        TableReference::Partial { table, .. } | TableReference::Full { table, .. } => {
            scope.tables.has_several(table) || scope.is_taken(table)
        }
    };
    let plan = match alias.is_none() && is_ambiguous() {
        true => {
            let name = TableReference::bare(scope.tables.new_name(reference.table()));
            LogicalPlanBuilder::from(plan).alias(name)?.build()?
        }
        false => plan,
    };
    let names = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    let rows = Rows { plan, names };
    let mut frame = match alias {
        Some(_) => relation(rows, alias, None, scope)?,
        None => {
            let catalog = &scope.tables.state.config_options().catalog;
            let full = reference.resolve(&catalog.default_catalog, &catalog.default_schema);
            let name = [full.catalog, full.schema, full.table].map(|part| part.to_string());
            frame_of(rows, name.to_vec())
        }
    };
    for relation in &mut frame.relations {
        let columns = key.iter().filter_map(|place| relation.columns.get(*place));
        relation.key = columns.filter_map(|seen| seen.expr.try_as_col().cloned()).collect();
    }
    Ok(frame)
}

/// Returns the places of the columns of a table's primary key.
fn key_of(plan: &LogicalPlan, scope: &Scope<'_>) -> Vec<usize> {
    let LogicalPlan::TableScan(scan) = plan else { return Vec::new() };
    let keys = scope.tables.state.config().get_extension::<PrimaryKeys>();
    keys.and_then(|keys| keys.0(scan)).unwrap_or_default()
}

/// The error that a relation is not there, at its place.
fn missing(name: &ObjectName, parts: &[String]) -> DataFusionError {
    let message = format!("no table or view \"{}\"", parts.join("."));
    let place = match name.0.first() {
        Some(ObjectNamePart::Identifier(name)) => Span::try_from_sqlparser_span(name.span),
        _ => None,
    };
    let error = DataFusionError::Plan(message.clone());
    let error = match place {
        Some(place) => error.with_diagnostic(Diagnostic::new_error(message, Some(place))),
        None => error,
    };
    of_missing_table(error, parts.join("."))
}

/// Returns the frame of rows whose columns have the relation's name in the plan.
fn frame_of(rows: Rows, name: Vec<String>) -> Frame {
    let Rows { plan, names } = rows;
    let columns = names.into_iter().zip(plan.schema().iter()).map(|(name, (relation, field))| {
        let expr = Expr::Column(Column::new(relation.cloned(), field.name()));
        Seen { name, expr, field: field.clone() }
    });
    let relation = Relation { name, columns: columns.collect(), ..Relation::default() };
    Frame::of(plan, relation)
}

/// Returns the frame of rows under an alias, or else under a name of their own; without either nothing can
/// stand before the names of their columns.
fn relation(rows: Rows, alias: Option<&TableAlias>, own: Option<&str>, scope: &Scope<'_>) -> Result<Frame> {
    let (rows, name) = match alias {
        Some(alias) => (named(rows, alias)?, Some(fold(&alias.name))),
        None => (rows, own.map(str::to_string)),
    };
    let in_plan = match &name {
        Some(name) if scope.is_taken(name) => scope.tables.new_name(name),
        Some(name) => name.clone(),
        None => scope.tables.new_name("derived"),
    };
    let in_plan = TableReference::bare(in_plan);
    let has_name = match &rows.plan {
        LogicalPlan::SubqueryAlias(alias) => alias.alias == in_plan,
        LogicalPlan::TableScan(scan) => scan.table_name == in_plan,
        _ => false,
    };
    let Rows { plan, names } = rows;
    let plan = if has_name { plan } else { LogicalPlanBuilder::from(plan).alias(in_plan)?.build()? };
    Ok(frame_of(Rows { plan, names }, name.into_iter().collect()))
}

/// Returns the frame of what a function gives, under an alias or the function's name.
fn called(rows: Rows, alias: Option<&TableAlias>, own: &str, scope: &Scope<'_>) -> Result<Frame> {
    // Two calls of one function may stand beside each other.
    let mut frame = relation(rows, alias, None, scope)?;
    for relation in &mut frame.relations {
        relation.is_function = true;
        if alias.is_none() {
            relation.name = vec![own.to_string()];
        }
    }
    Ok(frame)
}

/// Returns joined tables as one relation, which has the columns of all of them. The plan has them under its
/// name, too: those of the tables may mean others around.
fn together(frame: Frame, alias: &TableAlias, scope: &Scope<'_>) -> Result<Frame> {
    let may_be_added = frame.relations.iter().any(|relation| relation.may_be_added);
    let names: Vec<String> = frame.columns.iter().map(|seen| seen.name.clone()).collect();
    let items = told_apart(frame.columns.into_iter().map(|seen| (seen.name, seen.expr)));
    let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(frame.plan))?);
    let mut together = relation(Rows { plan, names }, Some(alias), None, scope)?;
    together.relations.iter_mut().for_each(|relation| relation.may_be_added = may_be_added);
    Ok(together)
}

/// Returns a plan as a node of its own where it depends on rows beside it.
fn lateral_in(plan: LogicalPlan, scope: &Scope<'_>, around: &Scope<'_>) -> LogicalPlan {
    let beside = around.frames().count().saturating_sub(scope.frames().count());
    let depends = |frame: &Frame| !references(&plan, frame.plan.schema()).is_empty();
    let is_dependent =
        !plan.all_out_ref_exprs().is_empty() || around.frames().take(beside).any(|(_, frame)| depends(frame));
    if is_dependent { lateral(plan) } else { plan }
}

/// Returns a plan as one that is evaluated for each row beside it.
pub fn lateral(plan: LogicalPlan) -> LogicalPlan {
    let outer_ref_columns = plan.all_out_ref_exprs();
    LogicalPlan::Subquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() })
}

fn last(name: &ObjectName) -> Result<String> {
    parts_of(name).map(|mut parts| parts.pop().unwrap_or_default()).map_err(external)
}

/// Binds a call of a function that gives rows. Its arguments are values.
fn function(
    factor: &TableFactor,
    name: &ObjectName,
    arguments: &[FunctionArg],
    around: &Scope<'_>,
) -> Result<Rows> {
    let state = around.tables.state;
    let name = last(name)?;
    let function = state.table_functions().get(name.as_str());
    let function =
        function.ok_or_else(|| DataFusionError::Plan(format!("table function '{name}' not found")))?;
    let empty = Frame::empty()?;
    let inner = around.over(&empty);
    let context = SimplifyContext::builder()
        .with_config_options(state.config_options().clone())
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let mut given = Vec::with_capacity(arguments.len());
    for expr in arguments.iter().map(written).collect::<Result<Vec<_>>>()?.iter().flatten() {
        let bound = expression::condition(expr, &Names::of(&inner), "FROM")?;
        given.push(simplifier.simplify(simplifier.coerce(bound, &DFSchema::empty())?)?);
    }
    let provider = function.create_table_provider_with_args(GivenArguments::new(&given, state))?;
    let in_plan = TableReference::bare(name_of(&text_of(factor)));
    let plan = LogicalPlanBuilder::scan(in_plan, provider_as_source(provider), None)?.build()?;
    let names = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
    Ok(Rows { plan, names })
}

/// Returns an argument as the values that a function in FROM takes for it: one that has a name is that name
/// and its value, which may be a word.
fn written(argument: &FunctionArg) -> Result<Vec<SqlExpr>> {
    let (name, value) = match argument {
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }
        | FunctionArg::ExprNamed {
            name: SqlExpr::Identifier(name), arg: FunctionArgExpr::Expr(value), ..
        } => (name, value),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => match expr {
            SqlExpr::BinaryOp { left, op: BinaryOperator::Eq, right } => match left.as_ref() {
                SqlExpr::Identifier(name) => (name, right.as_ref()),
                _ => return Ok(vec![expr.clone()]),
            },
            expr => return Ok(vec![expr.clone()]),
        },
        other => return Err(unsupported(format!("the argument {other} of a function in FROM"))),
    };
    let value = match value {
        SqlExpr::Identifier(word) => build::text(&word.value),
        value => value.clone(),
    };
    Ok(vec![build::text(&name.value), value])
}

/// Returns a call as it is written, without its alias.
fn text_of(factor: &TableFactor) -> String {
    let mut call = factor.clone();
    if let TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } = &mut call {
        *alias = None;
    }
    let text = call.to_string();
    text.strip_prefix("LATERAL ").map_or_else(|| text.clone(), str::to_string)
}

/// Binds lists in the place of a relation: their elements beside each other. A structure is its fields.
fn lists(exprs: &[SqlExpr], around: &Scope<'_>) -> Result<Rows> {
    let empty = Frame::empty()?;
    let inner = around.over(&empty);
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for expr in exprs {
        let bound = expression::condition(expr, &Names::of(&inner), "FROM")?;
        match bound.get_type(empty.plan.schema())? {
            DataType::Struct(fields) => {
                for field in &fields {
                    names.push(field.name().clone());
                    values.push(field_of(around.tables.state, bound.clone(), field.name())?);
                }
            }
            DataType::Null => {
                let list = DataType::new_list(DataType::Int32, true);
                names.push("unnest".to_string());
                values.push(Expr::Unnest(Unnest::new(bound.cast_to(&list, empty.plan.schema())?)));
            }
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                names.push("unnest".to_string());
                values.push(Expr::Unnest(Unnest::new(bound)));
            }
            other => {
                let message = format!("UNNEST takes a list or a structure, not a {}", type_name(&other));
                return Err(refused("42883", message));
            }
        }
    }
    let (plan, values) = unnest::among_keys(empty.plan.clone(), values, &mut Parts::default())?;
    let items = told_apart(names.iter().cloned().zip(values));
    let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?);
    Ok(Rows { plan, names })
}
