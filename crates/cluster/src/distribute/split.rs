//! Splits a plan into parts for the nodes and the rest.

use super::part::{Parting, Place, joined, keys_of, travels};
use super::{Gather, late};
use crate::gather::Expected;
use crate::node::Node;
use crate::table::PartitionedTable;
use arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, SkipType, Sort, TableScan,
};
use hypostyle_exec::scan::StoredTable;
use hypostyle_expr::portable::Functions;
use hypostyle_placement::catalog::{Catalog, Table};
use hypostyle_placement::partition::Partitioning;
use hypostyle_plan::eager_aggregates::{combined, combining, shown_as};
use hypostyle_plan::join_order::{Measures, groups_counted, rows_of};
use hypostyle_types::TableId;
use std::sync::Arc;

/// Nothing is estimated of tables with fewer rows: these are sooner sent.
const ESTIMATED_ROWS_MIN: u64 = 100_000;

pub(super) struct Splitter<'a> {
    pub node: Arc<Node>,
    pub catalog: Arc<Catalog>,
    pub functions: Arc<Functions>,
    pub state: &'a SessionState,
}

/// A part of a plan, and where it may run.
struct Placed {
    plan: LogicalPlan,
    place: Place,
}

impl Placed {
    fn here(plan: LogicalPlan) -> Self {
        Self { plan, place: Place::Here }
    }
}

impl Splitter<'_> {
    /// Returns a plan of which nothing but [`Gather`]s reads partitioned tables.
    pub fn whole(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let placed = self.split(plan)?;
        self.settled(placed)
    }

    /// Returns the tables of whose fragments each gives some of a plan's rows, if the plan is nothing but a
    /// part for the nodes.
    pub fn parted(&self, plan: LogicalPlan) -> Result<Option<Vec<TableId>>> {
        Ok(match self.split(plan)?.place {
            Place::Parted(parting) => Some(parting.tables),
            Place::Anywhere | Place::Here => None,
        })
    }

    fn travels(&self, expr: &Expr) -> bool {
        travels(expr, &self.functions)
    }

    /// Puts a [`Gather`] above a part for the nodes.
    fn settled(&self, placed: Placed) -> Result<LogicalPlan> {
        match placed.place {
            Place::Parted(parting) => self.gather(placed.plan, &parting, false),
            Place::Anywhere | Place::Here => Ok(placed.plan),
        }
    }

    pub fn gather(&self, plan: LogicalPlan, parting: &Parting, is_partial: bool) -> Result<LogicalPlan> {
        let expected = self.expected(&plan, parting);
        Gather::of(plan, parting.tables.clone(), is_partial, expected, (&self.node, &self.catalog))
    }

    /// Estimates the rows of a part, unless it has few.
    fn expected(&self, plan: &LogicalPlan, parting: &Parting) -> Option<Expected> {
        let tables = parting.tables.iter().filter_map(|id| self.catalog.table(*id));
        if tables.map(Table::rows).max()? < ESTIMATED_ROWS_MIN {
            return None;
        }
        let measures = self.state.config().get_extension::<Measures>()?;
        let grouped = grouped(plan);
        let rows = rows_of(grouped.map_or(plan, |aggregate| aggregate.input.as_ref()), &measures);
        let groups = grouped.and_then(|aggregate| groups_counted(aggregate, &measures));
        Some(Expected { rows, groups })
    }

    fn split(&self, plan: LogicalPlan) -> Result<Placed> {
        match plan {
            LogicalPlan::TableScan(scan) => self.scan(scan),
            LogicalPlan::EmptyRelation(_) | LogicalPlan::Values(_) => {
                let place = if plan.expressions().iter().all(|expr| self.travels(expr)) {
                    Place::Anywhere
                } else {
                    Place::Here
                };
                Ok(Placed { plan, place })
            }
            LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
                self.unary(plan)
            }
            LogicalPlan::Join(join) => {
                let (left, right) =
                    (Arc::unwrap_or_clone(join.left.clone()), Arc::unwrap_or_clone(join.right.clone()));
                let (left, right) = (self.split(left)?, self.split(right)?);
                let place = joined(&join, &left.place, &right.place, (&self.catalog, &self.functions));
                let (left, right) = match place {
                    Place::Here => (self.settled(left)?, self.settled(right)?),
                    _ => (left.plan, right.plan),
                };
                let plan = self.over(LogicalPlan::Join(join), vec![left, right])?;
                Ok(Placed { plan, place })
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Sort(sort) if sort.fetch.is_some() => self.first_in_order(sort),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Window(_) => self.window(plan),
            other => self.rest(other),
        }
    }

    /// Puts a node above new inputs; subqueries in its expressions are split by themselves.
    fn over(&self, plan: LogicalPlan, inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
        self.with_subqueries(plan.with_new_exprs(plan.expressions(), inputs)?)
    }

    /// Splits the subqueries in a node's expressions, each by itself.
    fn with_subqueries(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let split = |subquery: LogicalPlan| match subquery {
            LogicalPlan::Subquery(mut subquery) => {
                subquery.subquery = Arc::new(self.whole(Arc::unwrap_or_clone(subquery.subquery))?);
                Ok(Transformed::yes(LogicalPlan::Subquery(subquery)))
            }
            other => Ok(Transformed::no(other)),
        };
        plan.map_subqueries(split).data()
    }

    /// Splits the inputs of a node that runs where it was asked for.
    fn rest(&self, plan: LogicalPlan) -> Result<Placed> {
        let inputs = plan.inputs().into_iter().cloned();
        let inputs = inputs.map(|input| self.whole(input)).collect::<Result<Vec<_>>>()?;
        if inputs.is_empty() {
            return Ok(Placed::here(plan));
        }
        // Some nodes cannot be made anew of their expressions: their inputs are put in place.
        let mut inputs = inputs.into_iter();
        let plan =
            plan.map_children(|child| Ok(inputs.next().map_or(Transformed::no(child), Transformed::yes)))?;
        self.with_subqueries(plan.data).map(Placed::here)
    }

    fn scan(&self, scan: TableScan) -> Result<Placed> {
        let provider = source_as_provider(&scan.source)?;
        let plan = LogicalPlan::TableScan(scan);
        if !plan.expressions().iter().all(|expr| self.travels(expr)) {
            // What cannot travel is a hint to the scan only.
            return Ok(Placed::here(plan));
        }
        if let Some(table) = provider.downcast_ref::<PartitionedTable>() {
            let names: Vec<String> =
                provider.schema().fields().iter().map(|field| field.name().clone()).collect();
            let entry = self.catalog.table(table.id);
            if entry.is_some_and(|entry| entry.partitioning == Partitioning::Replicated) {
                // This node has no replica: others read theirs, and alone it is read from one of them.
                return Ok(Placed { plan, place: Place::Anywhere });
            }
            let keys = entry.and_then(|entry| keys_of(entry, &names, &plan)).into_iter().collect();
            let place = Place::Parted(Parting { tables: vec![table.id], keys });
            return Ok(Placed { plan, place });
        }
        let is_replicated =
            provider.downcast_ref::<StoredTable>().is_some_and(|table| table.replicated().is_some());
        let place = if is_replicated { Place::Anywhere } else { Place::Here };
        Ok(Placed { plan, place })
    }

    /// Splits a node that makes one row of one, or none.
    fn unary(&self, plan: LogicalPlan) -> Result<Placed> {
        let Some(input) = plan.inputs().first().map(|input| (*input).clone()) else { return self.rest(plan) };
        let before = input.schema().columns();
        if !plan.expressions().iter().all(|expr| self.travels(expr)) {
            return self.rest(plan);
        }
        let input = self.split(input)?;
        let plan = self.over(plan, vec![input.plan])?;
        let place = match (input.place, &plan) {
            (Place::Parted(parting), LogicalPlan::Projection(projection)) => {
                Place::Parted(parting.shown(&projection.expr, &plan.schema().columns()))
            }
            (Place::Parted(parting), LogicalPlan::SubqueryAlias(_)) => {
                Place::Parted(parting.renamed(&before, &plan.schema().columns()))
            }
            (place, _) => place,
        };
        Ok(Placed { plan, place })
    }

    fn aggregate(&self, aggregate: Aggregate) -> Result<Placed> {
        let travel = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).all(|expr| self.travels(expr));
        let input = self.split(Arc::unwrap_or_clone(aggregate.input.clone()))?;
        let (input, parting) = match (input.place, travel) {
            (Place::Parted(parting), true) => (input.plan, parting),
            (place, _) => {
                let is_anywhere = matches!(place, Place::Anywhere);
                // Nodes may add up floats in different orders.
                let is_float = |field: &Arc<Field>| field.data_type().is_floating();
                let has_one_result = aggregate.aggr_expr.iter().all(|call| combining(call).is_some())
                    && !aggregate.schema.fields().iter().any(is_float);
                let input = self.settled(Placed { plan: input.plan, place })?;
                let plan = self.over(LogicalPlan::Aggregate(aggregate), vec![input])?;
                let place =
                    if is_anywhere && travel && has_one_result { Place::Anywhere } else { Place::Here };
                return Ok(Placed { plan, place });
            }
        };
        let is_plain = !aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
        if is_plain && parting.is_within(&aggregate.group_expr) {
            let parting = parting.shown(&aggregate.group_expr, &aggregate.schema.columns());
            let plan = self.over(LogicalPlan::Aggregate(aggregate), vec![input])?;
            return Ok(Placed { plan, place: Place::Parted(parting) });
        }
        // `SELECT 1 FROM t HAVING true` has a row that nothing is computed for: a message about such an
        // aggregate does not tell its one grouping set.
        let has_columns = !aggregate.aggr_expr.is_empty()
            || aggregate.group_expr.iter().any(|key| !key.column_refs().is_empty());
        let calls: Option<Vec<_>> = aggregate.aggr_expr.iter().map(combining).collect();
        if let Some(calls) = calls.filter(|_| is_plain && has_columns) {
            return self.combine(&aggregate, input, &parting, &calls).map(Placed::here);
        }
        if has_columns && aggregate.aggr_expr.iter().all(has_state) {
            let plan = self.over(LogicalPlan::Aggregate(aggregate), vec![input])?;
            return self.gather(plan, &parting, true).map(Placed::here);
        }
        let input = self.gather(input, &parting, false)?;
        self.over(LogicalPlan::Aggregate(aggregate), vec![input]).map(Placed::here)
    }

    /// Aggregates the rows of each fragment by themselves, and combines the results.
    fn combine(
        &self,
        aggregate: &Aggregate,
        input: LogicalPlan,
        parting: &Parting,
        calls: &[&datafusion::logical_expr::expr::AggregateFunction],
    ) -> Result<LogicalPlan> {
        let part = LogicalPlanBuilder::from(input)
            .aggregate(aggregate.group_expr.clone(), aggregate.aggr_expr.clone())?
            .build()?;
        let named = part.schema().columns().into_iter().enumerate();
        let named = named.map(|(place, column)| Expr::Column(column).alias(format!("__part_{place}")));
        let named: Vec<Expr> = named.collect();
        let part = LogicalPlanBuilder::from(part).project(named)?.build()?;
        let columns: Vec<Column> = part.schema().columns();
        let (keys, results) = columns.split_at(aggregate.group_expr.len());
        let keys: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        let part = self.gather(part, parting, false)?;
        let whole = LogicalPlanBuilder::from(part).aggregate(keys, combined(results, calls))?.build()?;
        shown_as(aggregate, whole, calls)
    }

    /// Takes the first rows of each fragment, and of these the first ones.
    fn first_in_order(&self, sort: Sort) -> Result<Placed> {
        let travel = sort.expr.iter().all(|key| self.travels(&key.expr));
        let input = self.split(Arc::unwrap_or_clone(sort.input.clone()))?;
        let input = match (input.place, travel) {
            (Place::Parted(parting), true) => {
                if let Some(plan) = late::first_rows(&sort, &input.plan, &parting, self)? {
                    return Ok(Placed::here(plan));
                }
                let part = LogicalPlan::Sort(Sort { input: Arc::new(input.plan), ..sort.clone() });
                self.gather(part, &parting, false)?
            }
            (place, _) => self.settled(Placed { plan: input.plan, place })?,
        };
        self.over(LogicalPlan::Sort(sort), vec![input]).map(Placed::here)
    }

    fn limit(&self, limit: Limit) -> Result<Placed> {
        let (skip, fetch) = (limit.get_skip_type()?, limit.get_fetch_type()?);
        let input = self.split(Arc::unwrap_or_clone(limit.input.clone()))?;
        let input = match (input.place, skip, fetch) {
            (Place::Parted(parting), SkipType::Literal(skip), FetchType::Literal(Some(fetch))) => {
                let part = LogicalPlanBuilder::from(input.plan).limit(0, Some(skip.saturating_add(fetch)))?;
                self.gather(part.build()?, &parting, false)?
            }
            (Place::Here, SkipType::Literal(_), FetchType::Literal(_)) => {
                if let Some(plan) = late::limited(&input.plan, &limit)? {
                    return Ok(Placed::here(plan));
                }
                input.plan
            }
            (place, ..) => self.settled(Placed { plan: input.plan, place })?,
        };
        self.over(LogicalPlan::Limit(limit), vec![input]).map(Placed::here)
    }

    /// Computes windows where their partitions are.
    fn window(&self, plan: LogicalPlan) -> Result<Placed> {
        let LogicalPlan::Window(window) = &plan else { return self.rest(plan) };
        let input = self.split(window.input.as_ref().clone())?;
        let is_within = |parting: &Parting| {
            window.window_expr.iter().all(|call| {
                self.travels(call) && partitioned_by(call).is_some_and(|by| parting.is_within(by))
            })
        };
        match &input.place {
            Place::Parted(parting) if is_within(parting) => {
                let place = input.place.clone();
                let plan = self.over(plan, vec![input.plan])?;
                Ok(Placed { plan, place })
            }
            _ => {
                let input = self.settled(input)?;
                self.over(plan, vec![input]).map(Placed::here)
            }
        }
    }
}

/// Returns the uppermost aggregate of a part.
fn grouped(plan: &LogicalPlan) -> Option<&Aggregate> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        LogicalPlan::Projection(projection) => grouped(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => grouped(&alias.input),
        LogicalPlan::Filter(filter) => grouped(&filter.input),
        LogicalPlan::Sort(sort) => grouped(&sort.input),
        LogicalPlan::Limit(limit) => grouped(&limit.input),
        _ => None,
    }
}

/// Returns what the rows of a window function are partitioned by.
fn partitioned_by(call: &Expr) -> Option<&[Expr]> {
    match call {
        Expr::WindowFunction(call) => Some(&call.params.partition_by),
        Expr::Alias(alias) => partitioned_by(&alias.expr),
        _ => None,
    }
}

/// Says whether an aggregate has a state that does not depend on the order of rows.
fn has_state(call: &Expr) -> bool {
    // An optimized one keeps the name that it had.
    let call = match call {
        Expr::Alias(alias) => alias.expr.as_ref(),
        plain => plain,
    };
    let Expr::AggregateFunction(call) = call else { return false };
    let by_order = ["array_agg", "string_agg", "first_value", "last_value", "nth_value", "any_value"];
    call.params.order_by.is_empty()
        && call.params.null_treatment.is_none()
        && !by_order.contains(&call.func.name())
}
