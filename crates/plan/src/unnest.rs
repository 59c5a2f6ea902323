//! Correlated subqueries that DataFusion does not unnest, and LATERAL items of FROM, as joins
//! (Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015).
//!
//! A subquery depends on some columns of the rows around it. It is evaluated for the distinct
//! values of these columns, the *domain*, all at once. The domain is joined into the subquery,
//! above the deepest part that does not refer to it, and from there its columns pass through every
//! operator. The result is joined to the rows around by these columns.
//!
//! Whether DataFusion can make a join of a subquery is known by its shape (`subquery_shape`), so that
//! its good plans stay. Each query is planned in one form (`subquery_form`).

use crate::computed_once::{computed_apart, is_computed_once};
use crate::outer_references::{is_dependent, is_lateral};
use crate::subquery_guards::{Guards, is_at_risk, truth_of_row, value_of_row};
use crate::subquery_shape::{casts_a_key, is_odd_anti, is_odd_test, seeks_subquery, tested};
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, NullEquality, ScalarValue, Spans};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::functions_aggregate::count::count;
use datafusion::functions_aggregate::min_max::max;
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, Sort as SortKey};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_binary_owned, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, DistinctOn, EmptyRelation, Expr, ExprFunctionExt, ExprSchemable,
    FetchType, Filter, Join, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
    SkipType, Sort, Subquery, SubqueryAlias, Unnest, Values, Window, binary_expr, lit, when,
};
use hypostyle_error::complexity::too_complex;
use hypostyle_expr::nested_type::element;
use hypostyle_expr::walk::{any_node, contains, keys_mut, named};
use hypostyle_expr::wanted::check_wanted;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use crate::outer_references::{references, references_beside};
pub use crate::single_value::single_value;

/// Says whether a plan has subqueries in its expressions, or in FROM such as depend on the tables
/// beside them.
pub(crate) fn has_subqueries(plan: &LogicalPlan) -> bool {
    plan.exists(|node| Ok(is_lateral(node) || node.expressions().iter().any(has_subquery))).unwrap_or(false)
}

/// Returns the plan with joins in the place of correlated subqueries, and of those whose truth is a
/// value.
///
/// # Errors
/// `NotImplemented` for a subquery that depends on the rows around it in a way that is not
/// supported.
pub(crate) fn unnest(state: &SessionState, plan: LogicalPlan, extent: Extent) -> Result<LogicalPlan> {
    Unnesting { state, extent, made: 0 }.plan(plan)
}

/// Subqueries that DataFusion may have within each other: it looks at the innermost one twice as
/// often with each level.
const NESTED_MAX: usize = 5;

/// Says whether more subqueries are within each other than DataFusion can have.
pub(crate) fn nests_deep(plan: &LogicalPlan) -> bool {
    fn depth(plan: &LogicalPlan) -> usize {
        let mut most = 0;
        let _never_fails = plan.apply(|node| {
            node.apply_subqueries(|subquery| {
                let inner = subquery.inputs().into_iter().map(depth).max();
                most = most.max(inner.unwrap_or(0) + 1);
                Ok(TreeNodeRecursion::Continue)
            })
        });
        most
    }
    depth(plan) > NESTED_MAX
}

/// Returns the plan in which subqueries that are deep within others, and depend on nothing around
/// them, are planned by themselves.
///
/// # Errors
/// Those of DataFusion's analyzer.
pub(crate) fn nested_apart(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    apart_below(state, plan, &mut 0)
}

/// Returns [`nested_apart`], with how many levels remain in `depth`.
fn apart_below(state: &SessionState, plan: LogicalPlan, depth: &mut usize) -> Result<LogicalPlan> {
    check_wanted()?;
    let plan = plan.map_subqueries(|node| {
        let LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans }) = node else {
            return Ok(Transformed::no(node));
        };
        let mut inner = 0;
        let mut subquery = apart_below(state, Arc::unwrap_or_clone(subquery), &mut inner)?;
        if inner + 1 >= NESTED_MAX && !is_dependent(&subquery) {
            subquery = computed_apart(state, subquery)?;
            inner = 0;
        }
        *depth = (*depth).max(inner + 1);
        let subquery = Arc::new(subquery);
        Ok(Transformed::yes(LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans })))
    })?;
    Ok(plan.data.map_children(|child| apart_below(state, child, depth).map(Transformed::yes))?.data)
}

/// The subqueries that are unnested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Only subqueries that DataFusion does not turn into semi joins and anti joins.
    Needed,
    All,
}

/// Says whether subqueries of a subquery refer to columns of a schema: they become outer joins within
/// it, and DataFusion would take conditions out of these.
fn is_named_within(subquery: &LogicalPlan, schema: &DFSchema) -> bool {
    any_node(subquery, |node| {
        let mut found = false;
        let visited = node.apply_subqueries(|inner| {
            found |= !references(inner, schema).is_empty();
            Ok(TreeNodeRecursion::Continue)
        });
        found || visited.is_err()
    })
}

pub fn has_subquery(expr: &Expr) -> bool {
    contains(expr, |expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_)))
}

/// The prefix of the names of columns that are created here.
const OUTER: &str = "__outer_";

/// Joins that the subqueries of one statement may become.
const MADE_MAX: usize = 1000;

struct Unnesting<'a> {
    state: &'a SessionState,
    extent: Extent,
    /// The columns that it makes have names of their own.
    made: usize,
}

/// The rows around a subquery, and the columns of theirs that it refers to.
struct Outer {
    rows: Arc<LogicalPlan>,
    columns: Vec<Column>,
    /// Says whether the domain is the rows themselves, as often as they occur.
    each: bool,
    /// What is true of the rows that the subquery is computed for, if there are others.
    guard: Option<Expr>,
}

impl Outer {
    /// Intervals that are equal are not the same, and so they are told apart by their texts.
    fn new(rows: Arc<LogicalPlan>, mut columns: Vec<Column>) -> Self {
        let texts: Vec<Column> = columns.iter().map(text_of).collect();
        columns.extend(texts.into_iter().filter(|text| rows.schema().has_column(text)));
        Self { rows, columns, each: false, guard: None }
    }

    /// Returns those of the rows for which a condition is true.
    fn guarded(self, condition: Option<Expr>) -> Self {
        let Some(condition) = condition else { return self };
        match Filter::try_new(condition.clone(), self.rows.clone()) {
            Ok(guarded) => {
                Self { rows: Arc::new(LogicalPlan::Filter(guarded)), guard: Some(condition), ..self }
            }
            // Its type is no BOOLEAN yet.
            Err(_) => self,
        }
    }

    /// Returns a column of the domain. It is NULL for rows without the guard: conditions of the subquery may
    /// go below it, and are looked at before the guard there. CASE would forget what a field says of a type.
    fn value(&self, column: &Column) -> Expr {
        let value = Expr::Column(column.clone());
        let field = self.rows.schema().field_from_column(column);
        let says_nothing = field.is_ok_and(|field| field.metadata().is_empty());
        match &self.guard {
            Some(guard) if says_nothing => {
                Expr::Case(Case::new(None, vec![(Box::new(guard.clone()), Box::new(value))], None))
            }
            _ => value,
        }
    }
}

/// The column for the text of an interval.
fn text_of(column: &Column) -> Column {
    Column::new_unqualified(format!("{OUTER}text_{}", column.flat_name()))
}

/// Returns rows with the texts of intervals that subqueries refer to.
fn with_texts<'a>(
    rows: Arc<LogicalPlan>,
    subqueries: impl IntoIterator<Item = &'a LogicalPlan>,
) -> Result<Arc<LogicalPlan>> {
    let schema = rows.schema();
    let has_intervals = |column: &Column| {
        schema.field_from_column(column).is_ok_and(|field| holds_intervals(field.data_type()))
    };
    let referred = subqueries.into_iter().flat_map(|subquery| references(subquery, schema));
    let intervals: BTreeSet<Column> = referred.filter(has_intervals).collect();
    if intervals.is_empty() {
        return Ok(rows);
    }
    let columns = schema.columns().into_iter().map(Expr::Column);
    let texts = intervals.into_iter().map(|column| {
        let name = text_of(&column).name;
        Ok(Expr::Column(column).cast_to(&DataType::Utf8, schema)?.alias(name))
    });
    let items = columns.map(Ok).chain(texts).collect::<Result<_>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(items, rows)?)))
}

/// Says whether a type is that of intervals, or of what they are in.
fn holds_intervals(of: &DataType) -> bool {
    match of {
        DataType::Interval(_) => true,
        DataType::Struct(fields) => fields.iter().any(|field| holds_intervals(field.data_type())),
        other => element(other).is_some_and(|field| holds_intervals(field.data_type())),
    }
}

/// Rows, and a plan of them with the columns that subqueries in their expressions have become.
struct Widened {
    rows: Arc<LogicalPlan>,
    plan: Arc<LogicalPlan>,
}

/// A part of a subquery for all of the domain: its own columns, then those of the domain.
struct Pushed {
    plan: LogicalPlan,
    domain: Vec<Column>,
}

impl Unnesting<'_> {
    /// Unnests a plan from the outside in: the columns that an inner subquery refers to are then
    /// columns around it.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        self.check()?;
        let plan = match plan {
            LogicalPlan::Projection(projection) if projection.expr.iter().any(has_subquery) => {
                self.projection(projection)?
            }
            LogicalPlan::Filter(filter) if has_subquery(&filter.predicate) => self.filter(filter)?,
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate)?,
            LogicalPlan::Sort(sort) => self.sort(sort)?,
            LogicalPlan::Join(join) => self.lateral(join)?,
            other => other,
        };
        let plan = plan.map_subqueries(|subquery| self.plan(subquery).map(Transformed::yes))?.data;
        Ok(plan.map_children(|child| self.plan(child).map(Transformed::yes))?.data)
    }

    fn projection(&mut self, projection: Projection) -> Result<LogicalPlan> {
        let preserver = NamePreserver::new_for_projection();
        let names: Vec<_> = projection.expr.iter().map(|expr| preserver.save(expr)).collect();
        let Some((input, items)) =
            self.values(&projection.input, projection.expr.clone(), &Guards::default())?
        else {
            return Ok(LogicalPlan::Projection(projection));
        };
        let items = items.into_iter().zip(names).map(|(item, name)| name.restore(item)).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(items, input)?))
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let preserver = NamePreserver::new_for_projection();
        let mut exprs: Vec<Expr> = aggregate.group_expr.iter().chain(&aggregate.aggr_expr).cloned().collect();
        let keys = exprs.iter_mut().flat_map(keys_mut);
        let names: Vec<_> = keys.map(|key| preserver.save(key)).collect();
        let Some((input, mut groups)) = self.values(&aggregate.input, exprs, &Guards::default())? else {
            return Ok(LogicalPlan::Aggregate(aggregate));
        };
        for (key, name) in groups.iter_mut().flat_map(keys_mut).zip(names) {
            *key = name.restore(std::mem::take(key));
        }
        let aggregates = groups.split_off(aggregate.group_expr.len());
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, groups, aggregates)?))
    }

    fn sort(&mut self, sort: Sort) -> Result<LogicalPlan> {
        let keys = sort.expr.iter().map(|key| key.expr.clone()).collect();
        let Some((input, keys)) = self.values(&sort.input, keys, &Guards::default())? else {
            return Ok(LogicalPlan::Sort(sort));
        };
        let schema = sort.input.schema().clone();
        let expr = keys.into_iter().zip(sort.expr).map(|(expr, key)| SortKey { expr, ..key }).collect();
        ordered(LogicalPlan::Sort(Sort { expr, input, fetch: sort.fetch }), &schema, &[])
    }

    fn filter(&mut self, filter: Filter) -> Result<LogicalPlan> {
        // DataFusion turns these into semi joins and anti joins.
        let extent = self.extent;
        let is_join = |condition: &Expr| match tested(condition) {
            _ if extent == Extent::All => false,
            (Expr::Exists(exists), _) => {
                let subquery = &exists.subquery.subquery;
                !is_odd_test(subquery, true) && !is_named_within(subquery, filter.input.schema())
            }
            (Expr::InSubquery(test), denied) => {
                let subquery = &test.subquery.subquery;
                !is_odd_anti(test, denied, filter.input.schema())
                    && !is_odd_test(subquery, false)
                    && !seeks_subquery(test)
                    && !casts_a_key(test, filter.input.schema())
                    && !is_named_within(subquery, filter.input.schema())
            }
            _ => false,
        };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let mut guards = Guards::default();
        conditions.iter().for_each(|condition| guards.add(condition.clone()));
        let (mut kept, others): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(is_join);
        let rows = filter.input.clone();
        let Some((input, others)) = self.values(&rows, others, &guards)? else {
            return Ok(LogicalPlan::Filter(filter));
        };
        kept.extend(others);
        let Some(predicate) = conjunction(kept) else {
            return Err(DataFusionError::Internal("a filter without a condition".into()));
        };
        let filtered = LogicalPlan::Filter(Filter::try_new(predicate, input)?);
        ordered(filtered, rows.schema(), &[])
    }

    /// Expressions over rows with columns in the place of subqueries, and the rows with these
    /// columns; `None` when there is nothing to do. The expressions are needed where the guards are true.
    fn values(
        &mut self,
        rows: &Arc<LogicalPlan>,
        exprs: Vec<Expr>,
        guards: &Guards,
    ) -> Result<Option<(Arc<LogicalPlan>, Vec<Expr>)>> {
        if !exprs.iter().any(has_subquery) {
            return Ok(None);
        }
        let mut subqueries = Vec::new();
        for expr in &exprs {
            expr.apply(|expr| {
                if let Expr::ScalarSubquery(subquery)
                | Expr::Exists(Exists { subquery, .. })
                | Expr::InSubquery(InSubquery { subquery, .. }) = expr
                {
                    subqueries.push(subquery.subquery.as_ref());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        let rows = with_texts(self.steady(rows)?, subqueries)?;
        let mut widened = Widened { plan: rows.clone(), rows };
        let mut changed = false;
        let mut values = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let value = self.guarded(&mut widened, expr, guards)?;
            changed |= value.transformed;
            values.push(value.data);
        }
        Ok(changed.then_some((widened.plan, values)))
    }

    /// Returns an expression with columns in the place of subqueries; those that may fail have values for the
    /// rows that get to them.
    fn guarded(&mut self, widened: &mut Widened, expr: Expr, guards: &Guards) -> Result<Transformed<Expr>> {
        let is_at_risk = is_at_risk(&expr);
        expr.transform_down(|part| match part {
            Expr::Case(case) if is_at_risk => self.case(widened, case, guards),
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) if is_at_risk => {
                self.connected(widened, split_binary_owned(part, op), op, guards)
            }
            part => self.value(widened, part, guards),
        })
    }

    fn case(&mut self, widened: &mut Widened, case: Case, guards: &Guards) -> Result<Transformed<Expr>> {
        let (mut guards, mut changed) = (guards.clone(), false);
        let mut part = |unnesting: &mut Self, expr: Expr, guards: &Guards| -> Result<Box<Expr>> {
            let value = unnesting.guarded(widened, expr, guards)?;
            changed |= value.transformed;
            Ok(Box::new(value.data))
        };
        let compared = case.expr.as_deref().cloned();
        let expr = case.expr.map(|expr| part(self, *expr, &guards)).transpose()?;
        let mut when_then_expr = Vec::with_capacity(case.when_then_expr.len());
        for (when, then) in case.when_then_expr {
            let condition = match &compared {
                Some(compared) => compared.clone().eq(when.as_ref().clone()),
                None => when.as_ref().clone(),
            };
            let when = part(self, *when, &guards)?;
            let mut chosen = guards.clone();
            chosen.add(condition.clone());
            when_then_expr.push((when, part(self, *then, &chosen)?));
            guards.add(condition.is_not_true());
        }
        let else_expr = case.else_expr.map(|expr| part(self, *expr, &guards)).transpose()?;
        let case = Expr::Case(Case { expr, when_then_expr, else_expr });
        Ok(Transformed::new(case, changed, TreeNodeRecursion::Jump))
    }

    /// Returns AND or OR of operands, each of which guards those behind it.
    fn connected(
        &mut self,
        widened: &mut Widened,
        operands: Vec<Expr>,
        op: Operator,
        guards: &Guards,
    ) -> Result<Transformed<Expr>> {
        let (mut guards, mut changed) = (guards.clone(), false);
        let mut values = Vec::with_capacity(operands.len());
        for operand in operands {
            let value = self.guarded(widened, operand.clone(), &guards)?;
            changed |= value.transformed;
            values.push(value.data);
            guards.add(match op {
                Operator::And => operand.is_not_false(),
                _ => operand.is_not_true(),
            });
        }
        let all = values.into_iter().reduce(|left, right| binary_expr(left, op, right));
        let all = all.ok_or_else(|| DataFusionError::Internal(format!("{op} of nothing")))?;
        Ok(Transformed::new(all, changed, TreeNodeRecursion::Jump))
    }

    fn value(&mut self, widened: &mut Widened, expr: Expr, guards: &Guards) -> Result<Transformed<Expr>> {
        let value = match expr {
            Expr::ScalarSubquery(subquery) => {
                let columns = references(&subquery.subquery, widened.rows.schema());
                if columns.is_empty() {
                    return Ok(Transformed::new(
                        Expr::ScalarSubquery(subquery),
                        false,
                        TreeNodeRecursion::Jump,
                    ));
                }
                match value_of_row(&subquery.subquery, widened.rows.schema())? {
                    Some(value) => value,
                    None => {
                        let guard = guards.condition(&subquery.subquery, true);
                        let outer = Outer::new(widened.rows.clone(), columns).guarded(guard);
                        self.scalar(&outer, &mut widened.plan, &subquery.subquery)?
                    }
                }
            }
            Expr::Exists(exists) => self.exists(widened, exists, guards)?,
            Expr::InSubquery(subquery) => {
                let test = membership(&widened.rows, subquery, guards)?;
                test.transform_down(|expr| self.value(widened, expr, guards))?.data
            }
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
    }

    fn scalar(&mut self, outer: &Outer, plan: &mut Arc<LogicalPlan>, subquery: &LogicalPlan) -> Result<Expr> {
        let Pushed { plan: pushed, domain } = self.push(subquery, outer)?;
        let value = Expr::Column(Column::from(pushed.schema().qualified_field(0)));
        let result = match gives_one_row(subquery) {
            true => pushed,
            false => {
                let single = single_value(value.clone());
                let groups = domain.iter().cloned().map(Expr::Column).collect();
                LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(pushed), groups, vec![single])?)
            }
        };
        let value = match result.schema().fields().len() {
            // The aggregate's own column is the last.
            columns if matches!(result, LogicalPlan::Aggregate(_)) => {
                Expr::Column(Column::from(result.schema().qualified_field(columns - 1)))
            }
            _ => value,
        };
        self.join(outer, plan, result, &domain, value)
    }

    fn exists(&mut self, widened: &mut Widened, exists: Exists, guards: &Guards) -> Result<Expr> {
        let Exists { subquery, negated } = exists;
        let columns = references(&subquery.subquery, widened.rows.schema());
        if columns.is_empty() {
            let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
                .limit(0, Some(1))?
                .aggregate(Vec::<Expr>::new(), [count(lit(1))])?
                .build()?;
            let number = Expr::ScalarSubquery(Subquery {
                subquery: Arc::new(rows),
                outer_ref_columns: Vec::new(),
                spans: Spans::new(),
            });
            return Ok(if negated { number.eq(lit(0_i64)) } else { number.gt(lit(0_i64)) });
        }
        if let Some(truth) = truth_of_row(&subquery.subquery, widened.rows.schema())? {
            return Ok(if negated { Expr::Not(Box::new(truth)) } else { truth });
        }
        let guard = guards.condition(&subquery.subquery, false);
        let outer = Outer::new(widened.rows.clone(), columns).guarded(guard);
        let Pushed { plan: pushed, domain } = self.push(&subquery.subquery, &outer)?;
        let found =
            Projection::try_new(domain.iter().cloned().map(Expr::Column).collect(), Arc::new(pushed))?;
        let found = LogicalPlan::Distinct(Distinct::All(Arc::new(LogicalPlan::Projection(found))));
        let mark = self.join(&outer, &mut widened.plan, found, &domain, lit(true))?;
        Ok(if negated { mark.is_null() } else { mark.is_not_null() })
    }

    /// Joins what a subquery gives to the rows around it; the column with its value, NULL where it
    /// gives no row.
    fn join(
        &mut self,
        outer: &Outer,
        plan: &mut Arc<LogicalPlan>,
        result: LogicalPlan,
        domain: &[Column],
        value: Expr,
    ) -> Result<Expr> {
        let names = self.names(domain.len() + 1);
        let columns = domain.iter().cloned().map(Expr::Column).chain([value]);
        let items = columns.zip(&names).map(|(column, name)| column.alias(&name.name)).collect();
        let result = LogicalPlan::Projection(Projection::try_new(items, Arc::new(result))?);
        let (value, domain) = names.split_last().ok_or_else(no_columns)?;
        *plan = Arc::new(join_by_domain(plan, result, JoinType::Left, &outer.columns, domain)?);
        Ok(Expr::Column(value.clone()))
    }

    fn names(&mut self, count: usize) -> Vec<Column> {
        self.made += 1;
        (0..count).map(|index| Column::new_unqualified(format!("{OUTER}{}_{index}", self.made))).collect()
    }

    /// Returns rows that depend on nothing beside them any more, so that what still does is of a
    /// subquery that they are joined into.
    fn without_lateral(&mut self, rows: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        match any_node(rows, is_lateral) {
            true => Ok(Arc::new(self.plan(rows.as_ref().clone())?)),
            false => Ok(rows.clone()),
        }
    }

    /// Returns rows that are the same wherever they are read. Those that a domain has been joined
    /// to are computed once, too: the plan would be twice as large for each.
    fn steady(&mut self, rows: &Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let of_domain = |node: &LogicalPlan| match node {
            LogicalPlan::Join(join) => {
                join.schema.fields().iter().any(|field| field.name().starts_with(OUTER))
            }
            _ => false,
        };
        let rows = self.without_lateral(rows)?;
        if !may_differ(&rows) && !any_node(&rows, of_domain) {
            return Ok(rows);
        }
        let plan = self.plan(rows.as_ref().clone())?;
        Ok(Arc::new(computed_apart(self.state, plan)?))
    }

    /// Returns a join whose right side depends on the rows of the left one (ISO/IEC 9075-2, 7.6,
    /// LATERAL).
    fn lateral(&mut self, join: Join) -> Result<LogicalPlan> {
        let columns = references_beside(&join.right, join.left.schema());
        if columns.is_empty() {
            return Ok(LogicalPlan::Join(join));
        }
        let conditions = join.on.iter().map(|(one, other)| one.clone().eq(other.clone()));
        let condition = conjunction(conditions.chain(join.filter.clone()));
        if join.join_type == JoinType::Inner && is_of_each_row(&join.right) {
            let rows = self.without_lateral(&join.left)?;
            let outer = Outer { columns: rows.schema().columns(), rows, each: true, guard: None };
            let Pushed { plan, domain } = self.push(&join.right, &outer)?;
            let left = outer.columns.iter().zip(domain).map(|(column, given)| {
                Expr::Column(given).alias_qualified(column.relation.clone(), column.name.clone())
            });
            let right = join.right.schema().columns().into_iter().map(Expr::Column);
            let items = left.chain(right).collect();
            let joined = LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?);
            return match condition {
                Some(condition) => Ok(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(joined))?)),
                None => Ok(joined),
            };
        }
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            let message = format!("what is LATERAL beside a {} JOIN", join.join_type);
            return Err(DataFusionError::NotImplemented(message.to_uppercase()));
        }
        let rows = with_texts(self.steady(&join.left)?, [join.right.as_ref()])?;
        let outer = Outer::new(rows, columns);
        let Pushed { plan, domain } = self.push(&join.right, &outer)?;
        // These are no join keys: DataFusion would also turn the condition into keys, for which
        // NULLs were then equal.
        let conditions = outer.columns.iter().zip(&domain).map(|(one, other)| same(one, other));
        let joined = LogicalPlanBuilder::from(outer.rows.as_ref().clone())
            .join_on(plan, join.join_type, conditions.chain(condition))?
            .build()?;
        ordered(joined, &join.schema, &[])
    }

    /// Returns the distinct values of the outer columns, under names of their own; or each row. The
    /// rows around are read once more for this.
    fn domain(&mut self, outer: &Outer) -> Result<(LogicalPlan, Vec<Column>)> {
        let names = self.names(outer.columns.len());
        let items = outer.columns.iter().zip(&names);
        let items = items.map(|(column, name)| outer.value(column).alias(&name.name)).collect();
        let values = LogicalPlan::Projection(Projection::try_new(items, outer.rows.clone())?);
        match outer.each {
            true => Ok((values, names)),
            false => Ok((LogicalPlan::Distinct(Distinct::All(Arc::new(values))), names)),
        }
    }

    /// # Errors
    /// When nobody waits for the plan any more; `Syntax` (54001) when it grows without end.
    fn check(&self) -> Result<()> {
        check_wanted()?;
        if self.made > MADE_MAX {
            let message = "its correlated subqueries come to too many joins; use WITH, or tables in between";
            return Err(DataFusionError::External(Box::new(too_complex(message))));
        }
        Ok(())
    }

    fn push(&mut self, plan: &LogicalPlan, outer: &Outer) -> Result<Pushed> {
        self.check()?;
        if references(plan, outer.rows.schema()).is_empty() {
            let (values, domain) = self.domain(outer)?;
            let plan = match plan {
                // This is one row without columns.
                LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema })
                    if schema.fields().is_empty() =>
                {
                    values
                }
                plan => LogicalPlanBuilder::from(plan.clone()).cross_join(values)?.build()?,
            };
            return Ok(Pushed { plan, domain });
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let Pushed { plan, domain } = self.push(&projection.input, outer)?;
                let preserver = NamePreserver::new_for_projection();
                let mut items = Vec::new();
                for item in &projection.expr {
                    let name = preserver.save(item);
                    items.push(name.restore(bind(item.clone(), outer, &domain, &[plan.schema()])?));
                }
                items.extend(domain.iter().cloned().map(Expr::Column));
                let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(plan))?);
                Ok(Pushed { plan, domain })
            }
            LogicalPlan::Filter(filter) => {
                let Pushed { plan, domain } = self.push(&filter.input, outer)?;
                let predicate = bind(filter.predicate.clone(), outer, &domain, &[plan.schema()])?;
                Ok(Pushed { plan: LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(plan))?), domain })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Pushed { plan, domain } = self.push(&alias.input, outer)?;
                let domain = domain
                    .into_iter()
                    .map(|column| Column::new(Some(alias.alias.clone()), column.name))
                    .collect();
                let plan = SubqueryAlias::try_new(Arc::new(plan), alias.alias.clone())?;
                Ok(Pushed { plan: LogicalPlan::SubqueryAlias(plan), domain })
            }
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Pushed { plan, domain } = self.push(input, outer)?;
                Ok(Pushed { plan: LogicalPlan::Distinct(Distinct::All(Arc::new(plan))), domain })
            }
            LogicalPlan::Distinct(Distinct::On(on)) => self.push_distinct_on(on, outer),
            LogicalPlan::Values(values) => self.push(&one_by_one(values)?, outer),
            LogicalPlan::Subquery(subquery) => {
                let Pushed { plan, domain } = self.push(&subquery.subquery, outer)?;
                // The table may depend on tables beside it, too.
                let plan = match is_dependent(&plan) {
                    false => plan,
                    true => LogicalPlan::Subquery(Subquery {
                        outer_ref_columns: plan.all_out_ref_exprs(),
                        subquery: Arc::new(plan),
                        spans: subquery.spans.clone(),
                    }),
                };
                Ok(Pushed { plan, domain })
            }
            LogicalPlan::Unnest(unnest) => {
                let Pushed { plan, domain } = self.push(&unnest.input, outer)?;
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let plan = LogicalPlan::Unnest(Unnest::try_new(Arc::new(plan), columns, options)?);
                Ok(Pushed { plan, domain })
            }
            LogicalPlan::Aggregate(aggregate) => self.push_aggregate(aggregate, outer),
            LogicalPlan::Window(window) => self.push_window(window, outer),
            LogicalPlan::Join(join) => self.push_join(join, outer),
            LogicalPlan::Union(union) => {
                let mut parts = Vec::new();
                for input in &union.inputs {
                    let pushed = self.push(input, outer)?;
                    parts.push(ordered(pushed.plan, input.schema(), &pushed.domain)?);
                }
                let mut parts = parts.into_iter();
                let first = parts.next().ok_or_else(no_columns)?;
                let plan =
                    parts.try_fold(LogicalPlanBuilder::from(first), LogicalPlanBuilder::union)?.build()?;
                let own = union.schema.fields().len();
                let domain = (own..plan.schema().fields().len())
                    .map(|place| Column::from(plan.schema().qualified_field(place)))
                    .collect();
                Ok(Pushed { plan, domain })
            }
            // Without a limit, an order has no effect on a subquery.
            LogicalPlan::Sort(sort) => match sort.fetch {
                None => self.push(&sort.input, outer),
                Some(fetch) => self.push_limit(&sort.input, &sort.expr, 0, Some(fetch), outer),
            },
            LogicalPlan::Limit(limit) => self.push_limited(limit, outer),
            other => Err(unsupported(&format!("{}", other.display()))),
        }
    }

    fn push_aggregate(&mut self, aggregate: &Aggregate, outer: &Outer) -> Result<Pushed> {
        let Pushed { plan, domain } = self.push(&aggregate.input, outer)?;
        let preserver = NamePreserver::new_for_projection();
        let bound = |expr: &Expr| {
            let name = preserver.save(expr);
            Ok(name.restore(bind(expr.clone(), outer, &domain, &[plan.schema()])?))
        };
        if aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_))) {
            return Err(unsupported("grouping sets"));
        }
        let mut groups = aggregate.group_expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
        groups.extend(domain.iter().cloned().map(Expr::Column));
        let aggregates = aggregate.aggr_expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, aggregates)?);
        if !aggregate.group_expr.is_empty() {
            return Ok(Pushed { plan: ordered(grouped, &aggregate.schema, &domain)?, domain });
        }
        // Without GROUP BY there is also a row if there are no input rows.
        let (values, all) = self.domain(outer)?;
        let joined = join_by_domain(&Arc::new(values), grouped, JoinType::Left, &all, &domain)?;
        let mut items = Vec::new();
        for (place, expr) in aggregate.aggr_expr.iter().enumerate() {
            let (qualifier, field) = aggregate.schema.qualified_field(place);
            let column = Expr::Column(Column::from((qualifier, field)));
            let of_no_rows = match expr.clone().unalias_nested().data {
                Expr::AggregateFunction(function) => function.func.default_value(field.data_type())?,
                _ => ScalarValue::Null,
            };
            items.push(match of_no_rows.is_null() {
                true => column,
                false => when(column.clone().is_null(), Expr::Literal(of_no_rows, None))
                    .otherwise(column)?
                    .alias_qualified(qualifier.cloned(), field.name()),
            });
        }
        items.extend(all.iter().cloned().map(Expr::Column));
        let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(joined))?);
        Ok(Pushed { plan, domain: all })
    }

    /// The windows of each value of the domain are apart.
    fn push_window(&mut self, window: &Window, outer: &Outer) -> Result<Pushed> {
        let Pushed { plan, domain } = self.push(&window.input, outer)?;
        let (own, all) = (window.input.schema().fields().len(), plan.schema().fields().len());
        let mut calls = Vec::with_capacity(window.window_expr.len());
        for call in &window.window_expr {
            let call = bind(call.clone().unalias_nested().data, outer, &domain, &[plan.schema()])?;
            let Expr::WindowFunction(mut call) = call else { return Err(unsupported("such a window")) };
            call.params.partition_by.extend(domain.iter().cloned().map(Expr::Column));
            calls.push(Expr::WindowFunction(call));
        }
        let numbered = Window::try_new(calls, Arc::new(plan))?;
        let mut items: Vec<Expr> = Vec::with_capacity(window.schema.fields().len() + domain.len());
        for (place, (qualifier, field)) in window.schema.iter().enumerate() {
            let place = if place < own { place } else { all + place - own };
            let column = Expr::Column(Column::from(numbered.schema.qualified_field(place)));
            items.push(column.alias_qualified(qualifier.cloned(), field.name()));
        }
        items.extend(domain.iter().cloned().map(Expr::Column));
        let plan =
            LogicalPlan::Projection(Projection::try_new(items, Arc::new(LogicalPlan::Window(numbered)))?);
        Ok(Pushed { plan, domain })
    }

    fn push_join(&mut self, join: &Join, outer: &Outer) -> Result<Pushed> {
        let schema = outer.rows.schema();
        let refers = |plan: &LogicalPlan| !references(plan, schema).is_empty();
        let (left, right) = (refers(&join.left), refers(&join.right));
        let preserved = match join.join_type {
            JoinType::Inner => None,
            // INTERSECT and EXCEPT are joins of these kinds.
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => Some(true),
            JoinType::Right => Some(false),
            other => return Err(unsupported(&format!("a {other} join"))),
        };
        // The side that keeps all of its rows must have the domain; the other one only where it
        // refers to it.
        let left = left || preserved == Some(true) || !right && preserved.is_none();
        let right = right || preserved == Some(false);
        let side = |unnesting: &mut Self, plan: &Arc<LogicalPlan>, wanted: bool| match wanted {
            true => unnesting.push(plan, outer).map(|pushed| (pushed.plan, pushed.domain)),
            false => Ok((plan.as_ref().clone(), Vec::new())),
        };
        let (left_plan, left_domain) = side(self, &join.left, left)?;
        let (right_plan, right_domain) = side(self, &join.right, right)?;
        let domain = match preserved {
            Some(false) => right_domain.clone(),
            _ if left => left_domain.clone(),
            _ => right_domain.clone(),
        };
        let schemas = [left_plan.schema().clone(), right_plan.schema().clone()];
        let schemas: Vec<&DFSchema> = schemas.iter().map(|schema| schema.as_ref()).collect();
        if join.null_equality == NullEquality::NullEqualsNull {
            // What is the same of the domain is an equality of this kind, too.
            let shared = left_domain.iter().zip(&right_domain).filter(|_| left && right);
            let shared = shared.map(|(one, other)| [one, other].map(|column| Expr::Column(column.clone())));
            let on = join.on.iter().cloned().chain(shared.map(|[one, other]| (one, other))).collect();
            let filter = join.filter.clone().map(|filter| bind(filter, outer, &domain, &schemas));
            let joined = Join::try_new(
                Arc::new(left_plan),
                Arc::new(right_plan),
                on,
                filter.transpose()?,
                join.join_type,
                join.join_constraint,
                join.null_equality,
                join.null_aware,
            )?;
            return Ok(Pushed { plan: ordered(LogicalPlan::Join(joined), &join.schema, &domain)?, domain });
        }
        let mut conditions = Vec::new();
        for (one, other) in &join.on {
            conditions.push(one.clone().eq(other.clone()));
        }
        conditions.extend(join.filter.clone());
        let mut conditions = conditions
            .into_iter()
            .map(|condition| bind(condition, outer, &domain, &schemas))
            .collect::<Result<Vec<_>>>()?;
        if left && right {
            conditions.extend(left_domain.iter().zip(&right_domain).map(|(one, other)| same(one, other)));
        }
        let joined =
            LogicalPlanBuilder::from(left_plan).join_on(right_plan, join.join_type, conditions)?.build()?;
        Ok(Pushed { plan: ordered(joined, &join.schema, &domain)?, domain })
    }

    fn push_limited(&mut self, limit: &Limit, outer: &Outer) -> Result<Pushed> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Err(unsupported("a LIMIT that is not a number"));
        };
        match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                self.push_limit(&sort.input, &sort.expr, skip, fetch, outer)
            }
            input => match limited_at_order(input, limit)? {
                Some(plan) => self.push(&plan, outer),
                None => self.push_limit(input, &[], skip, fetch, outer),
            },
        }
    }

    /// Returns the first row of each key for each value of the domain.
    fn push_distinct_on(&mut self, on: &DistinctOn, outer: &Outer) -> Result<Pushed> {
        let Pushed { plan, domain } = self.push(&on.input, outer)?;
        let bound = |expr: &Expr| bind(expr.clone(), outer, &domain, &[plan.schema()]);
        let keys = on.on_expr.iter().map(bound).collect::<Result<Vec<_>>>()?;
        let partition = domain.iter().cloned().map(Expr::Column).chain(keys).collect();
        let order = on.sort_expr.iter().flatten();
        let order = order.map(|sort| Ok(SortKey { expr: bound(&sort.expr)?, ..sort.clone() }));
        let order = order.collect::<Result<Vec<_>>>()?;
        let preserver = NamePreserver::new_for_projection();
        let items = on.select_expr.iter().map(|expr| Ok(preserver.save(expr).restore(bound(expr)?)));
        let mut items = items.collect::<Result<Vec<_>>>()?;
        items.extend(domain.iter().cloned().map(Expr::Column));
        let (numbered, place) = numbered(plan, partition, order)?;
        let chosen = LogicalPlan::Filter(Filter::try_new(place.eq(lit(1_u64)), Arc::new(numbered))?);
        let plan = LogicalPlan::Projection(Projection::try_new(items, Arc::new(chosen))?);
        Ok(Pushed { plan, domain })
    }

    /// Returns the first rows for each value of the domain.
    fn push_limit(
        &mut self,
        input: &LogicalPlan,
        order: &[SortKey],
        skip: usize,
        fetch: Option<usize>,
        outer: &Outer,
    ) -> Result<Pushed> {
        let Pushed { plan, domain } = self.push(input, outer)?;
        let order = order
            .iter()
            .map(|sort| {
                let expr = bind(sort.expr.clone(), outer, &domain, &[plan.schema()])?;
                Ok(SortKey { expr, ..sort.clone() })
            })
            .collect::<Result<Vec<_>>>()?;
        let partition = domain.iter().cloned().map(Expr::Column).collect();
        let (numbered, place) = numbered(plan, partition, order)?;
        let mut condition = place.clone().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            condition = condition.and(place.lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let chosen = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(numbered))?);
        Ok(Pushed { plan: ordered(chosen, input.schema(), &domain)?, domain })
    }
}

/// Returns a plan with the number of each row in its partition, from 1 on, and that number.
fn numbered(plan: LogicalPlan, partition: Vec<Expr>, order: Vec<SortKey>) -> Result<(LogicalPlan, Expr)> {
    let mut number = row_number().partition_by(partition);
    if !order.is_empty() {
        number = number.order_by(order);
    }
    let numbered = LogicalPlanBuilder::from(plan).window([number.build()?])?.build()?;
    let last = numbered.schema().fields().len() - 1;
    let place = Expr::Column(Column::from(numbered.schema().qualified_field(last)));
    Ok((numbered, place))
}

/// Returns a plan with a limit moved to the order below it, through what keeps rows and their order: a
/// projection leaves out what rows are sorted by. `None` where there is no order.
fn limited_at_order(plan: &LogicalPlan, limit: &Limit) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            Ok(Some(LogicalPlan::Limit(Limit { input: Arc::new(plan.clone()), ..limit.clone() })))
        }
        // Its keys order the rows, too, and are not among its columns.
        LogicalPlan::Distinct(Distinct::On(_)) => Err(unsupported("DISTINCT ON with LIMIT")),
        LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            let [input] = plan.inputs()[..] else { return Ok(None) };
            let Some(input) = limited_at_order(input, limit)? else { return Ok(None) };
            plan.with_new_exprs(plan.expressions(), vec![input]).map(Some)
        }
        _ => Ok(None),
    }
}

fn unsupported(what: &str) -> DataFusionError {
    DataFusionError::NotImplemented(format!("a correlated subquery: {what}"))
}

/// Says whether a plan makes its rows of one row, each by itself.
fn is_of_each_row(plan: &LogicalPlan) -> bool {
    let is_one = match plan {
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Subquery(_)
        | LogicalPlan::Unnest(_) => !plan.expressions().iter().any(has_subquery),
        _ => false,
    };
    is_one && plan.inputs().into_iter().all(is_of_each_row)
}

/// Returns the rows of VALUES, each of a query of its own.
fn one_by_one(values: &Values) -> Result<LogicalPlan> {
    let row = |exprs: &Vec<Expr>| {
        let named = exprs.iter().zip(values.schema.fields()).map(|(expr, field)| {
            Ok(expr.clone().cast_to(field.data_type(), &DFSchema::empty())?.alias(field.name()))
        });
        LogicalPlanBuilder::empty(true).project(named.collect::<Result<Vec<_>>>()?)
    };
    let mut rows = values.values.iter().map(row);
    let first = rows.next().ok_or_else(no_columns)??;
    rows.try_fold(first, |all, row| all.union(row?.build()?))?.build()
}

/// Says whether a plan that is run twice may give different rows.
fn may_differ(plan: &LogicalPlan) -> bool {
    let differs = |node: &LogicalPlan| match node {
        LogicalPlan::Limit(_) | LogicalPlan::Distinct(Distinct::On(_)) | LogicalPlan::Window(_) => true,
        LogicalPlan::Sort(sort) => sort.fetch.is_some(),
        other => other.expressions().iter().any(Expr::is_volatile),
    };
    let mut found = false;
    let visited = plan.apply(|node| {
        if is_computed_once(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        found |= differs(node);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || visited.is_err()
}

fn no_columns() -> DataFusionError {
    DataFusionError::Internal("a subquery is unnested without columns".into())
}

/// Returns the columns of a schema, then those of the domain.
fn ordered(plan: LogicalPlan, schema: &DFSchema, domain: &[Column]) -> Result<LogicalPlan> {
    let own = schema.iter().map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))));
    let columns = own.chain(domain.iter().cloned().map(Expr::Column)).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// Returns the condition that two columns have the same value, or are both NULL.
fn same(one: &Column, other: &Column) -> Expr {
    let [one, other] = [one, other].map(|column| Expr::Column(column.clone()));
    binary_expr(one, Operator::IsNotDistinctFrom, other)
}

fn join_by_domain(
    left: &Arc<LogicalPlan>,
    right: LogicalPlan,
    join_type: JoinType,
    one: &[Column],
    other: &[Column],
) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(left.as_ref().clone())
        .join_detailed(right, join_type, (one.to_vec(), other.to_vec()), None, NullEquality::NullEqualsNull)?
        .build()
}

/// Says whether a subquery without a row limit of its own gives at most one row.
fn gives_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
                || gives_one_row(&limit.input)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_) => plan.inputs().iter().all(|input| gives_one_row(input)),
        _ => false,
    }
}

/// The column that is found, where what is sought has subqueries.
const GIVEN: &str = "__given";

/// Returns `x IN (subquery)` in terms of EXISTS: it is NULL where nothing is found and something is
/// unknown. A subquery that has others within it stands there once, as the plan would be several times
/// as large with each level.
fn membership(rows: &LogicalPlan, subquery: InSubquery, guards: &Guards) -> Result<Expr> {
    let InSubquery { expr, subquery: Subquery { subquery, outer_ref_columns, spans }, negated } = subquery;
    let sought = expr.clone().transform(|expr| match expr {
        Expr::Column(column) => {
            let field = rows.schema().field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    let sought = sought?.data;
    let mut subquery = subquery;
    if has_subquery(&sought) {
        // Columns of what is found would be taken for those of the rows around that it names.
        let value = Expr::Column(Column::from(subquery.schema().qualified_field(0))).alias(GIVEN);
        let named = LogicalPlanBuilder::from(subquery.as_ref().clone()).project([value])?.build()?;
        subquery = Arc::new(named);
    }
    let given = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
    if has_subqueries(&subquery) {
        let is_equal = given.eq(sought);
        let verdict =
            when(is_equal.clone(), lit(2_i64)).when(is_equal.is_null(), lit(1_i64)).otherwise(lit(0_i64))?;
        let greatest = LogicalPlanBuilder::from(subquery.as_ref().clone())
            .aggregate(Vec::<Expr>::new(), [max(verdict)])?
            .build()?;
        let subquery = Subquery { subquery: Arc::new(greatest), outer_ref_columns, spans };
        let verdict = Box::new(Expr::ScalarSubquery(subquery));
        let cases = [(2_i64, Some(true)), (1, None)];
        let cases =
            cases.map(|(number, truth)| (Box::new(lit(number)), Box::new(lit(ScalarValue::Boolean(truth)))));
        let test = Expr::Case(Case::new(Some(verdict), cases.to_vec(), Some(Box::new(lit(false)))));
        return Ok(if negated { Expr::Not(Box::new(test)) } else { test });
    }
    let exists = |condition: Option<Expr>| {
        let rows = LogicalPlanBuilder::from(subquery.as_ref().clone());
        let rows = match condition {
            Some(condition) => rows.filter(condition)?,
            None => rows,
        };
        let (outer_ref_columns, spans) = (outer_ref_columns.clone(), spans.clone());
        let subquery = Subquery { subquery: Arc::new(rows.build()?), outer_ref_columns, spans };
        Ok::<_, DataFusionError>(Expr::Exists(Exists { subquery, negated: false }))
    };
    let found = exists(Some(given.clone().eq(sought)))?;
    let is_null = guards.value(*expr).is_null();
    let unknown = exists(Some(given.is_null()))?.or(is_null.and(exists(None)?));
    let test = when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?;
    Ok(if negated { Expr::Not(Box::new(test)) } else { test })
}

/// Returns an expression of a subquery with the columns of the domain in the place of outer ones.
/// `around` has the columns that subqueries in it may refer to.
fn bind(expr: Expr, outer: &Outer, domain: &[Column], around: &[&DFSchema]) -> Result<Expr> {
    bind_below(expr, outer, domain, None, around)
}

/// Returns [`bind`], for subqueries of the subquery, too: the columns of the domain are outer
/// columns there, and schemas that are `nearer` go before the outer one.
fn bind_below(
    expr: Expr,
    outer: &Outer,
    domain: &[Column],
    nearer: Option<&[&DFSchema]>,
    around: &[&DFSchema],
) -> Result<Expr> {
    let place = |column: &Column| {
        let is_nearer = nearer.unwrap_or_default().iter().any(|schema| schema.has_column(column));
        outer.columns.iter().position(|found| found == column).filter(|_| !is_nearer)
    };
    let bound = expr.transform_down(|expr| {
        Ok(Transformed::yes(match expr {
            Expr::OuterReferenceColumn(field, column) => match (place(&column), nearer) {
                (Some(place), None) => Expr::Column(domain[place].clone()),
                (Some(place), Some(_)) => Expr::OuterReferenceColumn(field, domain[place].clone()),
                (None, _) => Expr::OuterReferenceColumn(field, column),
            },
            Expr::ScalarSubquery(subquery) => {
                Expr::ScalarSubquery(bind_within(subquery, outer, domain, around)?)
            }
            Expr::Exists(Exists { subquery, negated }) => {
                Expr::Exists(Exists { subquery: bind_within(subquery, outer, domain, around)?, negated })
            }
            Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                let subquery = bind_within(subquery, outer, domain, around)?;
                Expr::InSubquery(InSubquery { expr, subquery, negated })
            }
            other => return Ok(Transformed::no(other)),
        }))
    });
    Ok(bound?.data)
}

fn bind_within(
    subquery: Subquery,
    outer: &Outer,
    domain: &[Column],
    nearer: &[&DFSchema],
) -> Result<Subquery> {
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    let plan = subquery.as_ref().clone().transform_down(|node| {
        check_wanted()?;
        let inputs: Vec<_> = node.inputs().iter().map(|input| input.schema().clone()).collect();
        let around: Vec<&DFSchema> =
            nearer.iter().copied().chain(inputs.iter().map(|schema| schema.as_ref())).collect();
        // What is around the node knows its columns by their names so far.
        let preserver = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            named(&preserver, expr, &mut |expr| {
                bind_below(expr, outer, domain, Some(nearer), &around).map(Transformed::yes)
            })
        })
    })?;
    let rename = |column| bind_below(column, outer, domain, Some(nearer), nearer);
    let outer_ref_columns = outer_ref_columns.into_iter().map(rename).collect::<Result<_>>()?;
    Ok(Subquery { subquery: Arc::new(plan.data), outer_ref_columns, spans })
}
