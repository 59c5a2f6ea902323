//! Queries for some rows of one stored table, or of none, which need no optimizer: planning them
//! takes longer than running them.
//!
//! A projection over a filter over a scan is analysed like every plan, and then built here. The
//! filter goes into the scan, which reads the requested columns. DataFusion plans all other
//! queries, and scans of many rows. A query that is planned here is run to its end at once.

use crate::statement::key_lookup::{Found, Indexes, Proceed, rows_by_key, value_of_column};
use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::datasource::source_as_provider;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use hypostyle_error::{external, from_datafusion};
use hypostyle_exec::pieces::is_long;
use hypostyle_exec::scan::{ScanExec, StoredTable, is_comparison};
use hypostyle_expr::amplifier::calls_slow_function;
use hypostyle_expr::list_sets;
use hypostyle_expr::meter::Meter;
use hypostyle_types::{BLOCK_ROWS, Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// More rows than this are worth a plan, and more than these another thread.
const ROWS_MAX: u64 = 256 * 1024;
pub(super) const SHORT_ROWS_MAX: u64 = 2 * BLOCK_ROWS;

/// What is made of a query here.
pub(super) enum Direct {
    Plan(DirectPlan),
    /// A plan, once an index is built.
    Later,
    /// The query is another one.
    Nothing,
}

/// How a plan that is put together here comes to its rows.
pub(super) enum Access {
    /// It reads none: it is of one row.
    Nothing,
    /// The index of a key finds them.
    Key,
    /// It reads all rows that may be wanted.
    Scan,
}

/// A plan put together here.
pub(super) struct DirectPlan {
    pub plan: Arc<dyn ExecutionPlan>,
    pub access: Access,
    /// Says whether it takes less time than waking another thread, so that nobody would interrupt
    /// it.
    pub is_short: bool,
}

/// The parts of a plan of the right shape.
struct Parts<'a> {
    items: &'a [Expr],
    filter: Option<&'a Expr>,
    /// The schema of the whole table, as the expressions name it.
    input: &'a DFSchemaRef,
    scan: &'a LogicalPlan,
}

fn parts(plan: &LogicalPlan) -> Option<Parts<'_>> {
    let LogicalPlan::Projection(projection) = plan else { return None };
    let (filter, input) = match projection.input.as_ref() {
        LogicalPlan::Filter(filter) => (Some(&filter.predicate), filter.input.as_ref()),
        other => (None, other),
    };
    let mut scan = input;
    while let LogicalPlan::SubqueryAlias(alias) = scan {
        scan = alias.input.as_ref();
    }
    Some(Parts { items: &projection.expr, filter, input: input.schema(), scan })
}

fn stored_table(scan: &LogicalPlan) -> Option<Arc<dyn datafusion::catalog::TableProvider>> {
    let LogicalPlan::TableScan(scan) = scan else { return None };
    if scan.projection.is_some() || !scan.filters.is_empty() || scan.fetch.is_some() {
        return None;
    }
    let provider = source_as_provider(&scan.source).ok()?;
    (provider.as_ref() as &dyn std::any::Any).is::<StoredTable>().then_some(provider)
}

/// Says whether a scan is of a whole table, and not of the rows from a position on.
fn has_all_rows(scan: &LogicalPlan) -> bool {
    let provider = stored_table(scan);
    let table = provider.as_ref().map(|provider| provider.as_ref() as &dyn std::any::Any);
    table.and_then(|table| table.downcast_ref::<StoredTable>()).is_some_and(StoredTable::has_all_rows)
}

/// # Errors
/// `Interrupted` when something has asked for the statement to end.
fn check_not_interrupted(state: &SessionState) -> Result<()> {
    let meter = state.config().get_extension::<Meter>();
    match meter.is_some_and(|meter| meter.interrupted.load(Ordering::Acquire)) {
        true => Err(Error::new(ErrorKind::Interrupted, "the statement was interrupted")),
        false => Ok(()),
    }
}

/// Says whether a query has no FROM.
fn is_one_row(parts: &Parts<'_>) -> bool {
    parts.filter.is_none() && matches!(parts.scan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
}

fn one_row() -> Arc<dyn ExecutionPlan> {
    Arc::new(PlaceholderRowExec::new(Arc::new(Schema::empty())))
}

/// Says whether an expression is of one row alone.
fn is_of_a_row(expr: &Expr) -> bool {
    let mut simple = true;
    let context = SimplifyContext::default();
    // Some functions become others when they are simplified, and cannot be called before.
    let is_rewritten = |call: &ScalarFunction| {
        !matches!(call.func.simplify(call.args.clone(), &context), Ok(ExprSimplifyResult::Original(_)))
    };
    let visited = expr.apply(|expr| {
        // Only the optimizer computes values that are the same within a statement, such as now().
        let is_stable = matches!(expr, Expr::ScalarFunction(call)
            if call.func.signature().volatility == Volatility::Stable);
        simple &= !is_stable;
        simple &= !matches!(expr, Expr::ScalarFunction(call) if is_rewritten(call));
        simple &= !matches!(
            expr,
            Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::GroupingSet(_)
                | Expr::Placeholder(_)
                | Expr::OuterReferenceColumn(_, _)
                | Expr::Unnest(_)
        );
        Ok(if simple { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    simple && visited.is_ok()
}

fn calls_functions(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::ScalarFunction(_)))).is_ok_and(|calls| calls)
}

/// Says whether an expression has a part that each row would have a copy of: the optimizer knows
/// what to do.
fn repeats(expr: &Expr) -> bool {
    let is_repeated = |expr: &Expr| match expr {
        Expr::ScalarFunction(_) => expr.column_refs().is_empty(),
        Expr::Literal(value, _) => is_long(value),
        _ => false,
    };
    expr.exists(|expr| Ok(is_repeated(expr))).is_ok_and(|repeats| repeats)
}

/// Returns the physical plan of such a query, by indexes of these.
///
/// # Errors
/// Those of the analyzer: expressions whose types do not fit.
pub(super) fn direct_plan(state: &SessionState, plan: &LogicalPlan, indexes: Indexes) -> Result<Direct> {
    let shape = parts(plan).filter(|parts| is_one_row(parts) || stored_table(parts.scan).is_some());
    if !shape.is_some_and(|parts| parts.items.iter().chain(parts.filter).all(is_of_a_row)) {
        return Ok(Direct::Nothing);
    }
    let options = state.config_options();
    let analyzed =
        state.analyzer().execute_and_check(plan.clone(), options, |_, _| {}).map_err(from_datafusion)?;
    let Some(parts) = parts(&analyzed) else { return Ok(Direct::Nothing) };
    if is_one_row(&parts) {
        return project(state, &parts, parts.input, analyzed.schema().as_arrow(), one_row())
            .map(|plan| {
                let is_short = !parts.items.iter().any(calls_slow_function);
                Direct::Plan(DirectPlan { plan, access: Access::Nothing, is_short })
            })
            .map_err(from_datafusion);
    }
    let Some(provider) = stored_table(parts.scan) else { return Ok(Direct::Nothing) };
    let Some(table) = (provider.as_ref() as &dyn std::any::Any).downcast_ref::<StoredTable>() else {
        return Ok(Direct::Nothing);
    };
    plan_scan(state, &parts, table, analyzed.schema().as_arrow(), indexes).map_err(from_datafusion)
}

/// Returns a conjunct as the optimizer would simplify it: a column of integers that is compared
/// with a larger kind of integer is so without a cast.
fn simplified(state: &SessionState, filter: Expr, input: &DFSchemaRef) -> datafusion::error::Result<Expr> {
    if let Expr::BinaryExpr(binary) = &filter
        && matches!((binary.left.as_ref(), binary.right.as_ref()), (Expr::Column(_), Expr::Literal(..)))
    {
        return Ok(filter);
    }
    let context = SimplifyContext::builder()
        .with_schema(input.clone())
        .with_config_options(state.config_options().clone())
        .build();
    list_sets::simplified(&ExprSimplifier::new(context), filter)
}

/// Returns a comparison of a constant and a column with the constant on the right. The simplifier turns those
/// around that are written with a literal, before it finds out what other constants are, such as casts.
fn constant_last(filter: Expr) -> Expr {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_first = matches!((left.as_ref(), right.as_ref()), (Expr::Literal(..), Expr::Column(_)));
            match op.swap().filter(|_| is_first) {
                Some(op) => Expr::BinaryExpr(BinaryExpr { left: right, op, right: left }),
                None => Expr::BinaryExpr(BinaryExpr { left, op, right }),
            }
        }
        other => other,
    }
}

fn plan_scan(
    state: &SessionState,
    parts: &Parts<'_>,
    table: &StoredTable,
    names: &Schema,
    indexes: Indexes,
) -> datafusion::error::Result<Direct> {
    let (mut filters, mut conjuncts) = (Vec::new(), Vec::new());
    for filter in parts.filter.into_iter().flat_map(|filter| split_conjunction_owned(filter.clone())) {
        for filter in split_conjunction_owned(simplified(state, filter, parts.input)?) {
            let filter = constant_last(filter);
            filters.push(state.create_physical_expr(filter.clone(), parts.input)?);
            conjuncts.push(filter);
        }
    }
    // A condition without a column and a constant to compare may become simpler, or vanish, when it
    // is optimized.
    if !filters.iter().any(is_comparison) {
        return Ok(Direct::Nothing);
    }
    if parts.items.iter().any(repeats) {
        return Ok(Direct::Nothing);
    }
    let mut places = Vec::new();
    for item in parts.items {
        for column in item.column_refs() {
            places.push(parts.input.index_of_column(column)?);
        }
    }
    places.sort_unstable();
    places.dedup();
    let values: Vec<_> =
        conjuncts.iter().filter_map(|conjunct| value_of_column(conjunct, parts.input)).collect();
    let go_on: Proceed<'_> = &|| check_not_interrupted(state);
    let found = match has_all_rows(parts.scan) {
        true => rows_by_key(table, &values, indexes, go_on).map_err(external)?,
        false => Found::Nothing,
    };
    let found = match found {
        Found::Rows(ranges) => Some(ranges),
        Found::Later => return Ok(Direct::Later),
        Found::Nothing => None,
    };
    let access = if found.is_some() { Access::Key } else { Access::Scan };
    let scan = filtered_scan(table, places.clone(), filters, found, ROWS_MAX)?;
    let Some((scan, rows)) = scan else { return Ok(Direct::Nothing) };
    let fields = places.iter().map(|place| {
        let (qualifier, field) = parts.input.qualified_field(*place);
        (qualifier.cloned(), field.clone())
    });
    let read = DFSchema::new_with_metadata(fields.collect(), Default::default())?;
    // Functions can take any time.
    let is_short = rows <= SHORT_ROWS_MAX && !parts.items.iter().chain(parts.filter).any(calls_functions);
    project(state, parts, &read, names, scan).map(|plan| Direct::Plan(DirectPlan { plan, access, is_short }))
}

/// Returns a scan of the rows that pass all filters, among those that an index has found or all, and how many
/// it looks at; `None` where these are too many.
pub(super) fn filtered_scan(
    table: &StoredTable,
    places: Vec<usize>,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    found: Option<Vec<Range<u64>>>,
    rows_max: u64,
) -> datafusion::error::Result<Option<(Arc<dyn ExecutionPlan>, u64)>> {
    let Some(ranges) = found else { return table.filtered_scan(places, filters, rows_max) };
    let (data, snapshot, rows) = (table.data().clone(), table.snapshot().clone(), ranges.len() as u64);
    let scan = ScanExec::new(data, snapshot, &table.schema(), places, ranges, 1);
    Ok(Some((Arc::new(scan.filtered(&filters)?), rows)))
}

/// Returns the items of a query over the columns that they read.
fn project(
    state: &SessionState,
    parts: &Parts<'_>,
    read: &DFSchema,
    names: &Schema,
    input: Arc<dyn ExecutionPlan>,
) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
    let items = parts.items.iter().zip(names.fields()).map(|(item, field)| {
        Ok((state.create_physical_expr(item.clone().unalias(), read)?, field.name().clone()))
    });
    let items = items.collect::<datafusion::error::Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(items, input)?))
}
