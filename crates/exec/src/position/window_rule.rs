//! Puts pipelines in the place of sorts and window functions.

use super::Mode;
use super::condition::is_kernel_type;
use super::first::FirstRows;
use super::flow::{Compiled, Expression, Flow, Universe, is_infallible, substitute};
use super::function::Function;
use super::modest::are_modest;
use super::pipeline::PipelineExec;
use super::rule::Positions;
use super::sink::Pipeline;
use super::sort::Sorted;
use super::window::{WindowColumn, Windowed};
use arrow::compute::SortOptions;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_expr_common::sort_expr::PhysicalSortExpr;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

/// Window functions of a plan and what they read.
pub(super) struct Window<'a> {
    /// The operator, or a projection of its columns.
    plan: &'a Arc<dyn ExecutionPlan>,
    window: &'a Arc<dyn ExecutionPlan>,
    input: &'a Arc<dyn ExecutionPlan>,
    functions: &'a [Arc<dyn WindowExpr>],
    /// The columns of the projection, among those of the operator.
    projected: Option<Vec<usize>>,
}

/// Returns the window functions of an operator, which may be below a projection of columns.
pub(super) fn window_of(plan: &Arc<dyn ExecutionPlan>) -> Option<Window<'_>> {
    let (window, projected) = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let columns = projection.expr().iter();
            let columns = columns.map(|item| Some(item.expr.downcast_ref::<Column>()?.index()));
            (projection.input(), Some(columns.collect::<Option<Vec<_>>>()?))
        }
        None => (plan, None),
    };
    let (input, functions) = if let Some(window) = window.downcast_ref::<WindowAggExec>() {
        (window.input(), window.window_expr())
    } else {
        let window = window.downcast_ref::<BoundedWindowAggExec>()?;
        (window.input(), window.window_expr())
    };
    Some(Window { plan, window, input, functions, projected })
}

impl Positions {
    /// Returns the pipeline of a sort.
    pub(super) fn sort(
        &self,
        sort: &SortExec,
        plan: &Arc<dyn ExecutionPlan>,
        mode: Mode,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut universe = Universe::default();
        let Some(Compiled { mut flow, outputs }) = compiled(&mut universe, sort.input())? else {
            return Ok(None);
        };
        // The first rows of another operator's are found as they come, without collecting all.
        if sort.preserve_partitioning() || sort.fetch().is_some() && universe.is_input(&flow) {
            return Ok(None);
        }
        let Some(keys) = keys_of(sort.expr(), &outputs, &universe)? else { return Ok(None) };
        let read: Vec<Expression> = keys.iter().map(|(key, _)| key).chain(&outputs).cloned().collect();
        if !are_modest(&flow, &read, &universe.schema()) {
            return Ok(None);
        }
        let replaced = self.above_inputs(&mut universe, &mut flow, plan, mode)?;
        let sorted = Sorted {
            universe: Arc::new(universe),
            flow,
            keys,
            limit: sort.fetch(),
            outputs,
            order: sort.expr().clone(),
            schema: plan.schema(),
        };
        let name = sorted.name();
        Ok(Some(self.pipeline(name, Arc::new(sorted), replaced, mode)))
    }

    /// Returns the pipeline of window functions.
    pub(super) fn window(
        &self,
        found: &Window<'_>,
        mode: Mode,
        is_limited: bool,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let mut universe = Universe::default();
        let Some((mut windowed, _)) = self.windowed(found, &mut universe)? else { return Ok(None) };
        if is_limited && windowed.partition_by.is_empty() && windowed.order_by.is_empty() {
            return Ok(None);
        }
        let mut replaced = self.above_inputs(&mut universe, &mut windowed.flow, found.window, mode)?;
        if found.projected.is_some() {
            replaced = above(found.plan, replaced)?;
        }
        windowed.universe = Arc::new(universe);
        Ok(Some(self.pipeline("PosWindowExec", Arc::new(windowed), replaced, mode)))
    }

    /// Returns window functions over the flow below them, and the columns of its rows.
    fn windowed(
        &self,
        Window { plan, input, functions, projected, .. }: &Window<'_>,
        universe: &mut Universe,
    ) -> Result<Option<(Windowed, Vec<Expression>)>> {
        let Some(first) = functions.first() else { return Ok(None) };
        let (partition_by, order_by) = (first.partition_by(), first.order_by());
        let is_other = |function: &Arc<dyn WindowExpr>| {
            function.partition_by() != partition_by || function.order_by() != order_by
        };
        if functions.iter().any(is_other) {
            return Ok(None);
        }
        let Some(Compiled { flow, outputs }) = compiled(universe, input)? else { return Ok(None) };
        let ascending =
            |key: &Arc<dyn PhysicalExpr>| PhysicalSortExpr::new(key.clone(), SortOptions::default());
        let partition_by: Vec<PhysicalSortExpr> = partition_by.iter().map(ascending).collect();
        let Some(partition_by) = keys_of(&partition_by, &outputs, universe)? else { return Ok(None) };
        let Some(order_by) = keys_of(order_by, &outputs, universe)? else { return Ok(None) };
        let mut understood = Vec::with_capacity(functions.len());
        for function in *functions {
            let Some(function) = Function::of(function, &outputs, universe)? else { return Ok(None) };
            understood.push(function);
        }
        let rows = outputs.iter().cloned().map(WindowColumn::Row);
        let all: Vec<WindowColumn> = rows.chain((0..understood.len()).map(WindowColumn::Function)).collect();
        let columns = match projected {
            Some(places) => places.iter().filter_map(|place| all.get(*place).cloned()).collect(),
            None => all,
        };
        let windowed = Windowed {
            universe: Arc::default(),
            flow,
            partition_by: partition_by.into_iter().map(|(key, _)| key).collect(),
            order_by,
            functions: understood,
            columns,
            schema: plan.schema(),
        };
        let modest = are_modest(&windowed.flow, &windowed.outputs(), &universe.schema());
        Ok(modest.then_some((windowed, outputs)))
    }

    /// Returns the pipeline of a filter that keeps the first row of each partition.
    pub(super) fn first_rows(
        &self,
        filter: &FilterExec,
        plan: &Arc<dyn ExecutionPlan>,
        mode: Mode,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(number) = first_number(filter.predicate()) else { return Ok(None) };
        let Some(window) = window_of(filter.input()) else { return Ok(None) };
        let mut universe = Universe::default();
        let Some((mut windowed, outputs)) = self.windowed(&window, &mut universe)? else { return Ok(None) };
        let is_number = matches!(windowed.columns.get(number), Some(WindowColumn::Function(0)));
        let [Function::RowNumber] = windowed.functions.as_slice() else { return Ok(None) };
        let schema = universe.schema();
        if !is_number
            || filter.fetch().is_some()
            || universe.is_input(&windowed.flow)
            || windowed.flow.row_slots().len() > 1
            || !windowed.order_by.iter().all(|(key, _)| key.is::<Column>())
            || !outputs.iter().all(|output| is_infallible(output, &schema))
        {
            return Ok(None);
        }
        self.rewrite_inputs(&mut universe, &mut windowed.flow, mode)?;
        let columns = match filter.projection() {
            Some(places) => places.iter().filter_map(|place| windowed.columns.get(*place).cloned()).collect(),
            None => windowed.columns,
        };
        let first = FirstRows {
            universe: Arc::new(universe),
            flow: windowed.flow,
            partition_by: windowed.partition_by,
            order_by: windowed.order_by,
            columns,
            schema: plan.schema(),
        };
        Ok(Some(self.pipeline("PosWindowExec", Arc::new(first), plan.clone(), mode)))
    }

    /// Puts pipelines into the inputs of a flow, and returns the operator that it stands for; that
    /// reads the same input, if there is no other flow below it.
    fn above_inputs(
        &self,
        universe: &mut Universe,
        flow: &mut Flow,
        plan: &Arc<dyn ExecutionPlan>,
        mode: Mode,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.rewrite_inputs(universe, flow, mode)?;
        match universe.inputs.as_slice() {
            [input] if universe.is_input(flow) => above(plan, input.clone()),
            _ => Ok(plan.clone()),
        }
    }

    fn pipeline(
        &self,
        name: &'static str,
        pipeline: Arc<dyn Pipeline>,
        replaced: Arc<dyn ExecutionPlan>,
        mode: Mode,
    ) -> Arc<dyn ExecutionPlan> {
        Arc::new(PipelineExec::new(name, pipeline, replaced, self, mode))
    }
}

/// Returns the column of which a condition says that it is at most 1, or that it is 1.
fn first_number(predicate: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let condition = predicate.downcast_ref::<BinaryExpr>()?;
    let column = condition.left().downcast_ref::<Column>()?;
    let constant = condition.right().downcast_ref::<Literal>()?.value();
    let ScalarValue::Int64(Some(number)) = constant else { return None };
    match (condition.op(), number) {
        (Operator::Eq | Operator::LtEq, 1) | (Operator::Lt, 2) => Some(column.index()),
        _ => None,
    }
}

/// Returns an operator with another input.
pub(super) fn above(
    plan: &Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let changed = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.clone().replace_children(vec![input], changed)
}

/// Returns the flow below an operator. Rows that come from elsewhere may be computed twice, and so
/// must be the same both times.
fn compiled(universe: &mut Universe, input: &Arc<dyn ExecutionPlan>) -> Result<Option<Compiled>> {
    let compiled = universe.compile_side(input)?;
    for input in &universe.inputs {
        if !is_stable(input)? {
            return Ok(None);
        }
    }
    // Rows of several runs are in no order.
    Ok((universe.runs() == Some(1)).then_some(compiled))
}

/// Tells whether a plan ends, and gives the same rows whenever it runs.
fn is_stable(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut stable = !plan.boundedness().is_unbounded();
    plan.apply(|node| {
        node.apply_expressions(&mut |expression| {
            stable = stable && !is_volatile(expression);
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if stable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(stable)
}

/// Returns sort keys over numbered columns; `None` if kernels do not sort by one.
fn keys_of(
    keys: &[PhysicalSortExpr],
    columns: &[Expression],
    universe: &Universe,
) -> Result<Option<Vec<(Expression, SortOptions)>>> {
    let schema = universe.schema();
    let mut found = Vec::with_capacity(keys.len());
    for PhysicalSortExpr { expr, options } in keys {
        let key = substitute(expr, columns)?;
        if is_volatile(&key) || !is_kernel_type(&key.data_type(&schema)?) {
            return Ok(None);
        }
        found.push((key, *options));
    }
    Ok(Some(found))
}
