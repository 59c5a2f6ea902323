//! UUIDs and JSON are texts whose fields say what they are. DataFusion forgets it where a value is
//! chosen from others: by CASE, `coalesce`, `min`, `lag` or a UNION with a NULL. It is said again here,
//! in each SELECT list.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Alias, Case, Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Projection, Union};
use hypostyle_types::LogicalType;
use std::collections::HashMap;
use std::sync::Arc;

type Metadata = HashMap<String, String>;

/// What a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Found {
    /// It is NULL, whatever it would be.
    Null,
    /// The field's type says all.
    Plain,
    Said(Metadata),
    /// The elements of a list are.
    Elements(Metadata),
}

impl Found {
    fn of(field: &Field) -> Self {
        match LogicalType::from_arrow(field) {
            _ if field.data_type().is_null() => Self::Null,
            Ok(LogicalType::Uuid | LogicalType::Json) if field.data_type().is_string() => {
                Self::Said(field.metadata().clone())
            }
            _ => Self::Plain,
        }
    }

    /// What is chosen from several values.
    fn of_all(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::Null, |found, one| match (found, one) {
            (Self::Null, one) => one,
            (found, one) if found == one || one == Self::Null => found,
            _ => Self::Plain,
        })
    }
}

/// Functions that give one of their arguments.
const CHOOSING: [&str; 5] = ["coalesce", "greatest", "ifnull", "least", "nvl"];

/// Functions, aggregates and window functions that give their first argument, or one of its values.
const OF_FIRST: [&str; 13] = [
    "any_value",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "max",
    "min",
    "mode",
    "nth_value",
    "nullif",
    "quantile_disc",
    "quantile_disc_desc",
    "random_value",
];

/// Returns a plan whose SELECT lists say of what types UUIDs and JSON are.
///
/// # Errors
/// Those of DataFusion, for a plan that is none.
pub fn said_again(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan.transform_up_with_subqueries(|plan| {
        let plan = match plan {
            LogicalPlan::Projection(projection) => in_projection(projection)?,
            LogicalPlan::Union(union) => in_union(union)?,
            other => Transformed::no(other),
        };
        Ok(plan)
    })?;
    match plan.transformed {
        true => recomputed(plan.data),
        false => Ok(plan.data),
    }
}

/// Computes the schemas of what is above anew.
fn recomputed(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?.data)
}

fn in_projection(projection: Projection) -> Result<Transformed<LogicalPlan>> {
    let schema = projection.input.schema();
    let mut expressions = Vec::with_capacity(projection.expr.len());
    let mut changed = false;
    for expr in &projection.expr {
        let is_said = matches!(expr, Expr::Column(_) | Expr::Literal(..) | Expr::Cast(_));
        let found = match is_said && !is_lost(expr, &projection.input) {
            true => Found::Plain,
            false => of_expr(expr, &projection.input),
        };
        let within = arguments_again(expr.clone(), &projection.input)?;
        let again = again(&within.data, found, schema)?;
        changed |= within.transformed || again.is_some();
        expressions.push(again.unwrap_or(within.data));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Projection(projection)));
    }
    let projection = Projection::try_new(expressions, projection.input)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Functions that take values of type JSON as what they are.
const OF_VALUES: [&str; 8] = [
    "json_build_array",
    "json_build_object",
    "json_object",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_object",
    "to_json",
    "to_jsonb",
];

/// Casts arguments of these functions that are JSON and do not say so.
fn arguments_again(expr: Expr, input: &LogicalPlan) -> Result<Transformed<Expr>> {
    if !matches!(expr, Expr::ScalarFunction(_) | Expr::Alias(_)) {
        return Ok(Transformed::no(expr));
    }
    let name = expr.qualified_name();
    let cast = expr.transform_up(|mut expr| {
        let mut changed = false;
        if let Expr::ScalarFunction(ScalarFunction { func, args }) = &mut expr
            && OF_VALUES.contains(&func.name())
        {
            for arg in args {
                let (Found::Said(metadata), false) = (of_expr(arg, input), is_plain(arg)) else { continue };
                let (_, field) = arg.to_field(input.schema())?;
                if Found::of(&field) == Found::Plain && field.data_type().is_string() {
                    let said = Field::new("", field.data_type().clone(), true).with_metadata(metadata);
                    *arg = Expr::Cast(Cast::new_from_field(Box::new(std::mem::take(arg)), Arc::new(said)));
                    changed = true;
                }
            }
        }
        Ok(Transformed::new_transformed(expr, changed))
    })?;
    if !cast.transformed || matches!(cast.data, Expr::Alias(_)) {
        return Ok(cast);
    }
    let (relation, name) = name;
    Ok(Transformed::yes(Expr::Alias(Alias::new(cast.data, relation, name))))
}

/// Says whether an expression's own field says all.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_))
}

/// Says whether a column's field may say less than is known of its values.
fn is_lost(expr: &Expr, input: &LogicalPlan) -> bool {
    matches!(expr, Expr::Column(_))
        && !matches!(input, LogicalPlan::TableScan(_) | LogicalPlan::Projection(_))
}

/// Returns an expression that says what its values are, if it does not yet.
fn again(expr: &Expr, found: Found, schema: &DFSchema) -> Result<Option<Expr>> {
    let named = |expr: Expr, metadata: Option<Metadata>| {
        let (relation, name) = match &expr {
            Expr::Alias(alias) => (alias.relation.clone(), alias.name.clone()),
            other => other.qualified_name(),
        };
        let expr = match expr {
            Expr::Alias(alias) => *alias.expr,
            other => other,
        };
        let metadata = metadata.map(FieldMetadata::from);
        Expr::Alias(Alias::new(expr, relation, name).with_metadata(metadata))
    };
    match found {
        Found::Said(metadata) => {
            let (_, field) = expr.to_field(schema)?;
            let is_else = Found::of(&field) != Found::Plain || !field.data_type().is_string();
            Ok((!is_else).then(|| named(expr.clone(), Some(metadata))))
        }
        Found::Elements(metadata) => {
            let (_, field) = expr.to_field(schema)?;
            let Some(list) = with_elements(&field, metadata) else { return Ok(None) };
            let own = match expr {
                Expr::Alias(alias) => alias.expr.as_ref().clone(),
                other => other.clone(),
            };
            let cast = Expr::Cast(Cast::new_from_field(Box::new(own), Arc::new(list)));
            let (relation, name) = expr.qualified_name();
            Ok(Some(Expr::Alias(Alias::new(cast, relation, name))))
        }
        Found::Null | Found::Plain => Ok(None),
    }
}

/// Returns the field of a list whose elements are said to be of a type, if they are not yet.
fn with_elements(list: &Field, metadata: Metadata) -> Option<Field> {
    let element = |of: &FieldRef| {
        let is_plain = of.data_type().is_string() && Found::of(of) == Found::Plain;
        is_plain.then(|| Arc::new(of.as_ref().clone().with_metadata(metadata)))
    };
    let data_type = match list.data_type() {
        DataType::List(of) => DataType::List(element(of)?),
        DataType::LargeList(of) => DataType::LargeList(element(of)?),
        _ => return None,
    };
    Some(Field::new("", data_type, true))
}

/// Casts the columns of a union's branches that are NULL, or that do not say what the others say.
fn in_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    if union.inputs.iter().any(|input| input.schema().fields().len() != columns) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut changed = false;
    let mut inputs = union.inputs.clone();
    for place in 0..columns {
        let all: Vec<Found> = inputs.iter().map(|input| of_column(input, place)).collect();
        let Found::Said(metadata) = Found::of_all(all.iter().cloned()) else { continue };
        for (input, found) in inputs.iter_mut().zip(all) {
            if found == Found::Null {
                *input = Arc::new(with_cast(input, place, &metadata)?);
                changed = true;
            }
        }
    }
    match changed {
        false => Ok(Transformed::no(LogicalPlan::Union(union))),
        true => Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))),
    }
}

/// Casts a column of a plan to a text of which metadata says what it is.
fn with_cast(input: &Arc<LogicalPlan>, place: usize, metadata: &Metadata) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().enumerate().map(|(own, column)| match own == place {
        false => Expr::Column(column),
        true => {
            let (relation, name) = (column.relation.clone(), column.name.clone());
            let field = Field::new("", DataType::Utf8View, true).with_metadata(metadata.clone());
            let cast = Cast::new_from_field(Box::new(Expr::Column(column)), Arc::new(field));
            Expr::Alias(Alias::new(Expr::Cast(cast), relation, name))
        }
    });
    Ok(LogicalPlan::Projection(Projection::try_new(columns.collect(), input.clone())?))
}

/// What a column of a plan is.
fn of_column(plan: &LogicalPlan, place: usize) -> Found {
    let Some(field) = plan.schema().fields().get(place) else { return Found::Plain };
    let found = Found::of(field);
    if found != Found::Plain {
        return found;
    }
    match plan {
        LogicalPlan::SubqueryAlias(of) => of_column(&of.input, place),
        LogicalPlan::Filter(of) => of_column(&of.input, place),
        LogicalPlan::Sort(of) => of_column(&of.input, place),
        LogicalPlan::Limit(of) => of_column(&of.input, place),
        LogicalPlan::Aggregate(of) => {
            let is_plain = !of.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
            let mut all = of.group_expr.iter().chain(&of.aggr_expr);
            all.nth(place).filter(|_| is_plain).map_or(Found::Plain, |expr| of_expr(expr, &of.input))
        }
        LogicalPlan::Window(of) => match place.checked_sub(of.input.schema().fields().len()) {
            None => of_column(&of.input, place),
            Some(place) => of.window_expr.get(place).map_or(Found::Plain, |expr| of_expr(expr, &of.input)),
        },
        _ => Found::Plain,
    }
}

/// What an expression over the columns of a plan gives.
fn of_expr(expr: &Expr, input: &LogicalPlan) -> Found {
    let first = |args: &[Expr]| args.first().map_or(Found::Plain, |expr| of_expr(expr, input));
    let by_name = |name: &str, args: &[Expr]| match name {
        "array_agg" => match first(args) {
            Found::Said(metadata) => Found::Elements(metadata),
            _ => Found::Plain,
        },
        name if OF_FIRST.contains(&name) => first(args),
        _ => Found::Plain,
    };
    match expr {
        Expr::Column(column) => place_of(column, input).map_or(Found::Plain, |place| of_column(input, place)),
        Expr::OuterReferenceColumn(field, _) => Found::of(field),
        Expr::Literal(value, _) if value.is_null() => Found::Null,
        Expr::Literal(_, None) => Found::Plain,
        Expr::Literal(value, Some(metadata)) => {
            Found::of(&Field::new("", value.data_type(), true).with_metadata(metadata.to_hashmap()))
        }
        Expr::Alias(alias) => of_expr(&alias.expr, input),
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => match Found::of(field) {
            Found::Plain if of_expr(expr, input) == Found::Null => Found::Null,
            found => found,
        },
        Expr::Case(Case { when_then_expr, else_expr, .. }) => {
            let results = when_then_expr.iter().map(|(_, result)| result).chain(else_expr);
            Found::of_all(results.map(|result| of_expr(result, input)))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            name if CHOOSING.contains(&name) => Found::of_all(args.iter().map(|expr| of_expr(expr, input))),
            "nullif" => first(args),
            _ => expr.to_field(input.schema()).map_or(Found::Plain, |(_, field)| Found::of(&field)),
        },
        Expr::AggregateFunction(call) => by_name(call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => by_name(call.fun.name(), &call.params.args),
        Expr::ScalarSubquery(subquery) => of_column(&subquery.subquery, 0),
        _ => Found::Plain,
    }
}

fn place_of(column: &Column, input: &LogicalPlan) -> Option<usize> {
    input.schema().maybe_index_of_column(column)
}
