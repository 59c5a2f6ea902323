//! Where columns of a result come from: PostgreSQL's clients are told the table and the number of a
//! column that is one of a table's as it is, and of what comes from the catalogs of what type it is
//! there.

use crate::pg_catalog::{Origin, attribute_number, catalog_column, gives_name, tables_from};
use crate::scope::Scope;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::{AggregateFunction, Case, ScalarFunction};
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, TableScan, Union, Unnest};
use hypostyle_bind::select::declared::passed_on;
use hypostyle_exec::scan::StoredTable;
use hypostyle_pgtypes::types::by_oid;
use hypostyle_storage::{Snapshot, TableData};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the origins of a plan's columns. The plan is one as written: later ones have other
/// columns in between.
pub fn origins(plan: &LogicalPlan, scope: &Scope) -> Vec<Option<Origin>> {
    let mut search = Search { scope, types: HashMap::new() };
    (0..plan.schema().fields().len()).map(|place| search.origin(plan, place)).collect()
}

/// Returns those of a whole table.
pub fn origins_of_table(table: &TableData, snapshot: &Arc<Snapshot>, scope: &Scope) -> Vec<Option<Origin>> {
    (0..table.columns().len()).map(|place| of_table(table, snapshot, place, scope)).collect()
}

struct Search<'a> {
    scope: &'a Scope,
    /// The types of columns that something was computed of, by their nodes and places: it may name
    /// a column often.
    types: HashMap<(*const LogicalPlan, usize), Option<u32>>,
}

impl Search<'_> {
    fn origin(&mut self, mut plan: &LogicalPlan, mut place: usize) -> Option<Origin> {
        loop {
            (plan, place) = match plan {
                LogicalPlan::TableScan(scan) => return of_scan(scan, place, self.scope),
                LogicalPlan::Projection(projection) => {
                    return self.of_expression(projection.expr.get(place)?, &projection.input);
                }
                LogicalPlan::Aggregate(aggregate) => {
                    return self.of_expression(aggregated(aggregate, place)?, &aggregate.input);
                }
                LogicalPlan::Distinct(Distinct::On(distinct)) => {
                    return self.of_expression(distinct.select_expr.get(place)?, &distinct.input);
                }
                LogicalPlan::Union(union) => return self.of_union(union, place),
                LogicalPlan::Unnest(unnest) => return self.of_unnested(unnest, place),
                other => passed_on(other, place)?,
            };
            if place >= plan.schema().fields().len() {
                return None;
            }
        }
    }

    /// The origin of an expression: that of the column that it is, or what is known of its type.
    fn of_expression(&mut self, expr: &Expr, input: &LogicalPlan) -> Option<Origin> {
        match expr {
            Expr::Column(column) => self.origin(input, input.schema().maybe_index_of_column(column)?),
            Expr::Alias(alias) => self.of_expression(&alias.expr, input),
            computed => self.computed_type(computed, input).map(of_type),
        }
    }

    /// The type of a column or of what is computed, where it is one that the catalogs' columns have
    /// and values do not.
    fn type_of(&mut self, expr: &Expr, input: &LogicalPlan) -> Option<u32> {
        match expr {
            Expr::Column(column) => {
                let place = input.schema().maybe_index_of_column(column)?;
                if let Some(known) = self.types.get(&(std::ptr::from_ref(input), place)) {
                    return *known;
                }
                let found = self.origin(input, place).and_then(|origin| origin.type_oid);
                self.types.insert((std::ptr::from_ref(input), place), found);
                found
            }
            Expr::Alias(alias) => self.type_of(&alias.expr, input),
            computed => self.computed_type(computed, input),
        }
    }

    fn computed_type(&mut self, expr: &Expr, input: &LogicalPlan) -> Option<u32> {
        match expr {
            Expr::AggregateFunction(AggregateFunction { func, params }) => match func.name() {
                "array_agg" => array_of(self.type_of(params.args.first()?, input)?),
                "first_value" | "last_value" | "any_value" => self.type_of(params.args.first()?, input),
                _ => None,
            },
            Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
                "make_array" => array_of(self.common_type(args, input)?),
                "coalesce" | "greatest" | "least" => self.common_type(args, input),
                "nullif" => self.type_of(args.first()?, input),
                name => gives_name(name),
            },
            Expr::Case(Case { when_then_expr, else_expr, .. }) => {
                let results = when_then_expr.iter().map(|(_, result)| result).chain(else_expr);
                self.common_type(results.map(Box::as_ref), input)
            }
            Expr::ScalarSubquery(subquery) => self.origin(&subquery.subquery, 0)?.type_oid,
            _ => None,
        }
    }

    fn common_type<'a>(
        &mut self,
        exprs: impl IntoIterator<Item = &'a Expr>,
        input: &LogicalPlan,
    ) -> Option<u32> {
        let typed = exprs.into_iter().filter(|expr| !is_untyped(expr));
        common(typed.map(|expr| self.type_of(expr, input)))
    }

    /// Columns of a union are computed, also where they have one type.
    fn of_union(&mut self, union: &Union, place: usize) -> Option<Origin> {
        common(union.inputs.iter().map(|input| self.origin(input, place)?.type_oid)).map(of_type)
    }

    /// A column beside lists that are unnested, or an element of one.
    fn of_unnested(&mut self, unnest: &Unnest, place: usize) -> Option<Origin> {
        let from = *unnest.dependency_indices.get(place)?;
        let found = self.origin(&unnest.input, from)?;
        if !unnest.list_type_columns.iter().any(|(list, _)| *list == from) {
            return Some(found);
        }
        let (element, is_array) = by_oid(found.type_oid?)?;
        is_array.then(|| of_type(element.oid))
    }
}

/// The key or the aggregate that is in a place. With grouping sets, keys become NULL.
fn aggregated(aggregate: &Aggregate, place: usize) -> Option<&Expr> {
    let keys = aggregate.schema.fields().len().checked_sub(aggregate.aggr_expr.len())?;
    match place.checked_sub(keys) {
        Some(place) => aggregate.aggr_expr.get(place),
        None => aggregate.group_expr.get(place),
    }
}

fn of_type(type_oid: u32) -> Origin {
    Origin { table: 0, column: 0, type_oid: Some(type_oid) }
}

/// The type that all have, if it is one.
fn common(mut types: impl Iterator<Item = Option<u32>>) -> Option<u32> {
    let first = types.next()??;
    types.all(|other| other == Some(first)).then_some(first)
}

/// Says whether an expression takes the type of the others: NULL or an empty list.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.data_type().is_null(),
        Expr::ScalarFunction(ScalarFunction { func, args }) => func.name() == "make_array" && args.is_empty(),
        Expr::Alias(alias) => is_untyped(&alias.expr),
        _ => false,
    }
}

fn array_of(type_oid: u32) -> Option<u32> {
    let (element, is_array) = by_oid(type_oid)?;
    (!is_array && element.array != 0).then_some(element.array)
}

fn of_scan(scan: &TableScan, place: usize, scope: &Scope) -> Option<Origin> {
    let place = match &scan.projection {
        Some(projection) => *projection.get(place)?,
        None => place,
    };
    let provider = source_as_provider(&scan.source).ok()?;
    match (provider.as_ref() as &dyn std::any::Any).downcast_ref::<StoredTable>() {
        Some(table) => of_table(table.data(), table.snapshot(), place, scope),
        None => catalog_column(&scan.table_name, place),
    }
}

fn of_table(table: &TableData, snapshot: &Arc<Snapshot>, place: usize, scope: &Scope) -> Option<Origin> {
    let table_oid = tables_from(snapshot, scope)? + table.entry().id.0 as i64;
    let column = attribute_number(table.columns().get(place)?.entry().id);
    Some(Origin {
        table: u32::try_from(table_oid).ok()?,
        column: i16::try_from(column).ok()?,
        type_oid: None,
    })
}
