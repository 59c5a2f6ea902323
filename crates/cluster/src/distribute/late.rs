//! Leaves wide columns out of the first rows in an order that the nodes send. They are fetched of the
//! rows that are left, by their places.

use super::part::Parting;
use super::split::Splitter;
use crate::fetch::{FetchExec, Fetching, Origin};
use crate::gather::Placing;
use crate::table::{Fragments, PartitionedTable};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    Expr, Extension, Limit, LogicalPlan, LogicalPlanBuilder, Sort, TableScan, TableScanBuilder,
    UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::physical_plan::ExecutionPlan;
use hypostyle_error::column_name::POSITION;
use hypostyle_placement::catalog::Catalog;
use hypostyle_types::TableId;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The most rows of which columns are fetched: they are collected first.
const ROWS_MAX: usize = 4096;

/// The fewest rows that are sent in vain, without which a second request is not worth it.
const SPARED_MIN: u64 = 16;

/// Returns a plan of the first rows in an order that fetches wide columns last; `None` if there are
/// none, or if that spares little.
pub(super) fn first_rows(
    sort: &Sort,
    input: &LogicalPlan,
    parting: &Parting,
    splitter: &Splitter<'_>,
) -> Result<Option<LogicalPlan>> {
    let ([table], Some(rows)) = (parting.tables.as_slice(), sort.fetch) else { return Ok(None) };
    let (node, catalog) = (splitter.node.clone(), splitter.catalog.clone());
    let placing = Placing::new(node, catalog, parting.tables.clone());
    if rows > ROWS_MAX || placing.rows_sent(rows as u64) < rows as u64 + SPARED_MIN {
        return Ok(None);
    }
    let keys = sort.expr.iter().flat_map(|key| key.expr.column_refs());
    let keys: HashSet<usize> = keys.filter_map(|key| input.schema().maybe_index_of_column(key)).collect();
    let (mut kept, mut origins) = (Vec::new(), Vec::new());
    for (place, column) in input.schema().columns().into_iter().enumerate() {
        match wide_column(input, &column, *table)? {
            Some(found) if !keys.contains(&place) => origins.push(Origin::Table(found)),
            _ => {
                origins.push(Origin::Sent(kept.len()));
                kept.push(Expr::Column(column));
            }
        }
    }
    if kept.len() == origins.len() {
        return Ok(None);
    }
    let Some((placed, table_schema)) = with_places(input, *table)? else { return Ok(None) };
    let Some(place) = only_place(&placed) else { return Ok(None) };
    kept.push(Expr::Column(place));
    let part = LogicalPlanBuilder::from(placed).project(kept)?.build()?;
    let sorted = |input| LogicalPlan::Sort(Sort { input: Arc::new(input), ..sort.clone() });
    let part = OptimizeProjections::new().rewrite(sorted(part), splitter.state)?.data;
    let input = sorted(splitter.gather(part, parting, false)?);
    let fetching = Arc::new(Fetching { placing, table: *table, table_schema, origins });
    Ok(Some(Fetch { input, schema: sort.input.schema().clone(), fetching }.into_plan()))
}

/// Puts a limit below the fetch of columns: those of rows that it leaves out are not fetched.
pub(super) fn limited(plan: &LogicalPlan, limit: &Limit) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Extension(extension) => {
            let Some(fetch) = extension.node.as_any().downcast_ref::<Fetch>() else { return Ok(None) };
            let input = LogicalPlan::Limit(Limit { input: Arc::new(fetch.input.clone()), ..limit.clone() });
            Ok(Some(Fetch { input, ..fetch.clone() }.into_plan()))
        }
        LogicalPlan::Projection(projection) => {
            let input = limited(&projection.input, limit)?;
            input.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose()
        }
        _ => Ok(None),
    }
}

/// Returns the column of a table that a column of a part is as it is stored, if it is a wide one.
fn wide_column(plan: &LogicalPlan, column: &Column, table: TableId) -> Result<Option<usize>> {
    let Some(place) = plan.schema().maybe_index_of_column(column) else { return Ok(None) };
    let below = |input: &LogicalPlan, column: Option<&Column>| match column {
        Some(column) => wide_column(input, column, table),
        None => Ok(None),
    };
    match plan {
        LogicalPlan::TableScan(scan) if scans(plan, table)? => {
            let stored = scan.source.schema();
            let found = stored.fields().find(&column.name).filter(|(_, field)| is_wide(field.data_type()));
            Ok(found.map(|(place, _)| place))
        }
        LogicalPlan::Filter(filter) => below(&filter.input, Some(column)),
        LogicalPlan::SubqueryAlias(alias) => below(&alias.input, alias.input.schema().columns().get(place)),
        LogicalPlan::Projection(projection) => {
            below(&projection.input, projection.expr.get(place).and_then(plain))
        }
        LogicalPlan::Join(join) => {
            let has = |side: &LogicalPlan| side.schema().has_column(column);
            match [&join.left, &join.right].into_iter().find(|side| has(side)) {
                Some(side) => below(side, Some(column)),
                None => Ok(None),
            }
        }
        _ => Ok(None),
    }
}

/// Returns the column that an expression is.
fn plain(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => plain(&alias.expr),
        _ => None,
    }
}

fn is_wide(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_wide(values),
        other => {
            other.is_nested()
                || other.is_string()
                || matches!(other, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        }
    }
}

/// Says whether a plan scans a table.
fn scans(plan: &LogicalPlan, table: TableId) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            found |= provider.downcast_ref::<PartitionedTable>().is_some_and(|own| own.id == table);
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Returns a part with the places of a table's rows in a column more, and all columns of the table;
/// `None` if the table is read twice or its rows are not told apart in the part.
fn with_places(plan: &LogicalPlan, table: TableId) -> Result<Option<(LogicalPlan, SchemaRef)>> {
    let passes_rows_on = matches!(
        plan,
        LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::Join(_)
    );
    match plan {
        LogicalPlan::TableScan(scan) => return scan_with_places(scan, table),
        _ if !passes_rows_on => return Ok(None),
        _ => {}
    }
    let (mut inputs, mut schema) = (Vec::new(), None);
    for input in plan.inputs() {
        if !scans(input, table)? {
            inputs.push(input.clone());
            continue;
        }
        let Some((input, of_table)) = with_places(input, table)? else { return Ok(None) };
        inputs.push(input);
        if schema.replace(of_table).is_some() {
            return Ok(None);
        }
    }
    let mut exprs = plan.expressions();
    if let (LogicalPlan::Projection(_), [input]) = (plan, inputs.as_slice()) {
        let Some(place) = only_place(input) else { return Ok(None) };
        exprs.push(Expr::Column(place));
    }
    let plan = plan.with_new_exprs(exprs, inputs)?;
    Ok(schema.map(|schema| (plan, schema)))
}

fn scan_with_places(scan: &TableScan, table: TableId) -> Result<Option<(LogicalPlan, SchemaRef)>> {
    let stored = scan.source.schema();
    // Statements that change rows have their places already.
    if stored.fields().iter().any(|field| field.name() == POSITION) {
        return Ok(None);
    }
    let place = Arc::new(Field::new(POSITION, DataType::UInt64, false));
    let fields = stored.fields().iter().cloned().chain([place]);
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), stored.metadata().clone()));
    let projection = scan.projection.clone().map(|mut projection| {
        projection.push(stored.fields().len());
        projection
    });
    let source = provider_as_source(Arc::new(Fragments::new(table, schema.clone())));
    let scan = TableScanBuilder::new(scan.table_name.clone(), source)
        .with_projection(projection)
        .with_filters(scan.filters.clone())
        .build()?;
    Ok(Some((LogicalPlan::TableScan(scan), schema)))
}

/// Returns the column of a part that has places, if there is one.
fn only_place(plan: &LogicalPlan) -> Option<Column> {
    let mut places = plan.schema().columns().into_iter().filter(|column| column.name == POSITION);
    places.next().filter(|_| places.next().is_none())
}

/// Fetches columns of the rows of its input.
#[derive(Clone, Debug)]
pub(super) struct Fetch {
    input: LogicalPlan,
    schema: DFSchemaRef,
    fetching: Arc<Fetching>,
}

impl Fetch {
    fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    fn identity(&self) -> (&LogicalPlan, TableId, &[Origin], *const Catalog) {
        let fetching = &self.fetching;
        (&self.input, fetching.table, &fetching.origins, Arc::as_ptr(&fetching.placing.catalog))
    }

    /// Returns the operator.
    ///
    /// # Errors
    /// `Internal` for several inputs.
    pub fn planned(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = inputs else { return Err(inputs_differ()) };
        let schema = self.schema.inner().clone();
        Ok(Arc::new(FetchExec::new(input.clone(), self.fetching.clone(), schema)))
    }
}

fn inputs_differ() -> DataFusionError {
    DataFusionError::Internal("columns are fetched of the rows of one input".into())
}

impl PartialEq for Fetch {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Fetch {}

impl Hash for Fetch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for Fetch {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Fetch {
    fn name(&self) -> &'static str {
        "Fetch"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fetch: table={}, columns=[{}]", self.fetching.placing.table_names(), self.fetching.names())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Self { input, ..self.clone() }),
            _ => Err(inputs_differ()),
        }
    }
}
