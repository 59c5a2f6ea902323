//! Statements that the planner refuses for their names, which mean something all the same: columns
//! of one name beside each other, names that are the columns' but for capitals, names that the same
//! SELECT has given, columns that the keys of GROUP BY decide, those that an alias does not name, and
//! relations, whose rows are meant.

use crate::from::{alias_columns, whole_rows};
use crate::group::{group_keys, outer_aggregates};
use crate::scope::{Scope, change_select, first_select};
use arrow::datatypes::FieldRef;
use datafusion::common::{DFSchema, DFSchemaRef, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder, Volatility};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SelectItem, Statement, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use hypostyle_error::column_name::{ONE_OF, unmarked_name};
use hypostyle_error::culprit::{Culprit, Unknown, culprit};
use hypostyle_error::may_be_of_names;
use hypostyle_sql::beside_lists;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::join_using::merged_value;
use hypostyle_sql::references::names_in;
use hypostyle_sql::set_branches;
use hypostyle_sql::walk::{expressions, expressions_mut, walk_mut};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The number of times that a statement is planned again: for each SELECT of it that is repaired,
/// and each kind of repair.
const TRIES: usize = 200;

/// How many repairs ask queries, one within another. What is within a query has been repaired before it is
/// asked, as far as it can be; without an end, each level of what cannot be would double the queries.
const REPAIRS_MAX: usize = 2;

/// The number of repairs that are around. The session's configuration has it, as an extension.
struct RepairsAround(usize);

/// A statement that may be mended, as it was planned last.
pub struct Repair {
    statement: DfStatement,
    tries: usize,
    /// Says whether columns of one name were told apart.
    pub is_apart: bool,
    /// Whether the keys of GROUP BY were completed.
    is_grouped: bool,
}

impl Repair {
    pub fn new(statement: DfStatement) -> Self {
        Self { statement, tries: 0, is_apart: false, is_grouped: false }
    }

    /// Returns the same of a statement whose keys of GROUP BY have been completed.
    pub fn of_grouped(statement: DfStatement) -> Self {
        Self { is_grouped: true, ..Self::new(statement) }
    }

    pub fn statement(&self) -> DfStatement {
        self.statement.clone()
    }

    /// Returns the statement in another form, which may be planned where this one was refused.
    pub async fn mended(&mut self, scope: Scope<'_>, error: &DataFusionError) -> Option<DfStatement> {
        self.tries += 1;
        let statement = inner_of(&mut self.statement).filter(|_| self.tries <= TRIES)?;
        let changed = match culprit(error) {
            Some(Culprit::Unknown(unknown)) => {
                mend(scope.state, statement, &unknown) || whole_rows::write(scope, statement, &unknown).await
            }
            // The statement tells which of these it may be.
            Some(Culprit::Ambiguous) => tell_once(&mut self.is_apart, scope, statement).await,
            None if may_be_of_names(error) => {
                alias_columns::complete(scope, statement).await
                    || tell_once(&mut self.is_apart, scope, statement).await
            }
            None => false,
        };
        if changed {
            // What names mean now may be decided by keys.
            self.complete_groups(scope).await;
        }
        changed.then(|| self.statement.clone())
    }

    /// Completes the keys of each GROUP BY beside which others than these are named, as the statement is
    /// written.
    pub async fn complete_groups(&mut self, scope: Scope<'_>) {
        if let Some(statement) = inner_of(&mut self.statement)
            && group_keys::is_needed(scope.state, statement)
        {
            group_keys::complete(scope, statement).await;
        }
    }

    /// Returns the statement with aggregates in subqueries that are of the query around computed there.
    pub fn over_groups(&self, state: &SessionState) -> Option<DfStatement> {
        if !outer_aggregates::may_be_in(state, written(&self.statement)?) {
            return None;
        }
        let mut statement = self.statement.clone();
        let changed = outer_aggregates::moved_out(state, inner_of(&mut statement)?);
        changed.then_some(statement)
    }

    /// The statement with all the keys in GROUP BY that those in it decide, also for what only subqueries
    /// name.
    pub async fn grouped(&mut self, scope: Scope<'_>) -> Option<DfStatement> {
        let statement = inner_of(&mut self.statement).filter(|_| !self.is_grouped)?;
        self.is_grouped = true;
        group_keys::complete(scope, statement).await.then(|| self.statement.clone())
    }
}

/// Says whether a statement may be repaired: it is asked by few repairs, one within another.
pub fn may_repair(state: &SessionState) -> bool {
    repairs_around(state) < REPAIRS_MAX
}

fn repairs_around(state: &SessionState) -> usize {
    state.config().get_extension::<RepairsAround>().map_or(0, |around| around.0)
}

/// Returns the state for a repair, as of a planner that says where in the text a name stands.
pub fn repairing(state: &SessionState) -> SessionState {
    let around = RepairsAround(repairs_around(state) + 1);
    let mut state = state.clone();
    state.config_mut().options_mut().sql_parser.collect_spans = true;
    state.config_mut().set_extension(Arc::new(around));
    state
}

fn written(statement: &DfStatement) -> Option<&Statement> {
    match statement {
        DfStatement::Statement(statement) => Some(statement),
        DfStatement::Explain(explain) => written(&explain.statement),
        _ => None,
    }
}

fn inner_of(statement: &mut DfStatement) -> Option<&mut Statement> {
    match statement {
        DfStatement::Statement(statement) => Some(statement),
        DfStatement::Explain(explain) => inner_of(&mut explain.statement),
        _ => None,
    }
}

/// Returns a plan whose columns have their own names, also where others have the same.
pub fn with_own_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_marks = |schema: &DFSchema| schema.fields().iter().any(|field| field.name().contains(ONE_OF));
    if !has_marks(plan.schema()) {
        return Ok(plan);
    }
    let columns = plan.schema().columns().into_iter().enumerate();
    // Equal names may stand beside each other only in different tables.
    let columns: Vec<PlanExpr> = columns
        .map(|(place, column)| {
            let name = unmarked_name(&column.name).to_string();
            PlanExpr::Column(column).alias_qualified(Some(TableReference::bare(place.to_string())), name)
        })
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Tells columns of one name apart, unless that has been done; whether there are any.
async fn tell_once(is_apart: &mut bool, scope: Scope<'_>, statement: &mut Statement) -> bool {
    if std::mem::replace(is_apart, true) {
        return false;
    }
    let has_branches = set_branches::name_computed(statement);
    tell_apart(scope, statement).await || has_branches || beside_lists::name_around(statement)
}

/// Gives columns of one SELECT that have the same name names of their own.
async fn tell_apart(scope: Scope<'_>, statement: &mut Statement) -> bool {
    let (mut done, mut changed) = (0, false);
    loop {
        let mut number = 0;
        let found = first_select(statement, |select, context| {
            number += 1;
            let wanted = number > done && may_be_twice(&select.projection);
            let query = |item: &SelectItem| {
                is_wildcard(item).then(|| context.query(vec![item.clone()], select.from.clone()))
            };
            wanted.then(|| (number, select.projection.iter().map(query).collect::<Vec<_>>()))
        });
        let Some((number, queries)) = found else { return changed };
        done = number;
        let mut columns = Vec::with_capacity(queries.len());
        for query in queries {
            columns.push(match query {
                Some(query) => scope.schema_of(query).await.ok(),
                None => None,
            });
        }
        let is_changed = change_select(statement, number, |select| write_apart(select, &columns));
        changed |= is_changed.unwrap_or_default();
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

fn may_be_twice(items: &[SelectItem]) -> bool {
    let mut seen = HashSet::new();
    items.len() > 1
        && (items.iter().any(is_wildcard) || !items.iter().filter_map(name_of).all(|name| seen.insert(name)))
}

/// Returns the name that a column of the result has.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(fold(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(fold),
        SelectItem::UnnamedExpr(expr) => Some(expr.to_string().to_lowercase()),
        _ => None,
    }
}

/// Writes the columns of a SELECT with names that differ, and says whether some did not. Each item that is a
/// wildcard comes with its columns.
fn write_apart(select: &mut Select, columns: &[Option<DFSchemaRef>]) -> bool {
    let mut items = Vec::with_capacity(select.projection.len());
    for (item, columns) in select.projection.iter().zip(columns) {
        match columns {
            Some(columns) => items.extend(written_out(item, columns)),
            None => items.push(item.clone()),
        }
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in items.iter().filter_map(name_of) {
        *counts.entry(name).or_default() += 1;
    }
    counts.retain(|_, count| *count > 1);
    for (number, item) in items.iter_mut().enumerate() {
        let Some(name) = name_of(item).filter(|name| counts.contains_key(name)) else { continue };
        let expr = match &*item {
            SelectItem::ExprWithAlias { expr, .. } | SelectItem::UnnamedExpr(expr) => expr.clone(),
            _ => continue,
        };
        let alias = Ident::with_quote('"', format!("{name}{ONE_OF}{number}"));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    let is_changed = !counts.is_empty();
    if is_changed {
        select.projection = items;
    }
    is_changed
}

/// Returns the items that a wildcard stands for.
pub fn written_out(wildcard: &SelectItem, columns: &DFSchema) -> Vec<SelectItem> {
    let options = match wildcard {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => options,
        _ => return vec![wildcard.clone()],
    };
    let item = |(table, field): (Option<&TableReference>, &FieldRef)| {
        let name = Ident::with_quote('"', field.name());
        if let Some(expr) = replacement(options, field.name()) {
            return SelectItem::ExprWithAlias { expr, alias: name };
        }
        let Some(table) = table else { return SelectItem::UnnamedExpr(Expr::Identifier(name)) };
        let parts = [table.catalog(), table.schema(), Some(table.table())];
        let parts = parts.into_iter().flatten().map(|part| Ident::with_quote('"', part));
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts.chain([name]).collect()))
    };
    columns.iter().map(item).collect()
}

/// Returns what REPLACE gives in the place of a column.
fn replacement(options: &WildcardAdditionalOptions, column: &str) -> Option<Expr> {
    let items = &options.opt_replace.as_ref()?.items;
    items.iter().find(|item| fold(&item.column_name) == column).map(|item| item.expr.clone())
}

/// Writes the name that the planner does not know as the one that is meant, and others beside it
/// that are alike.
fn mend(state: &SessionState, statement: &mut Statement, unknown: &Unknown) -> bool {
    let mut mending = Mending { state, unknown, anywhere: false, changed: false };
    let _done = walk_mut(statement, &mut mending);
    if !mending.changed {
        // Names in a rewritten statement have no place in the text.
        mending.anywhere = true;
        let _done = walk_mut(statement, &mut mending);
    }
    mending.changed || mend_merged(state, statement, unknown)
}

/// Writes a column that USING merges in a query around as what it stands for.
fn mend_merged(state: &SessionState, statement: &mut Statement, unknown: &Unknown) -> bool {
    let mut merging = Merging(Mending { state, unknown, anywhere: false, changed: false });
    walk_mut(statement, &mut merging).is_break()
}

struct Merging<'a>(Mending<'a>);

impl VisitorMut for Merging<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let Some(value) = merged_value(&select.from, &self.0.unknown.name) else {
            return ControlFlow::Continue(());
        };
        let mut changed = false;
        let _done = expressions_mut(select, &mut |expr| {
            if matches!(expr, Expr::Identifier(name) if self.0.is_unknown(name)) {
                *expr = value.clone();
                changed = true;
            }
            ControlFlow::<()>::Continue(())
        });
        if changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Mending<'a> {
    state: &'a SessionState,
    unknown: &'a Unknown,
    /// Says whether a name is taken for the unknown one wherever it stands.
    anywhere: bool,
    changed: bool,
}

impl Mending<'_> {
    fn is_unknown(&self, name: &Ident) -> bool {
        let at = |one: Location| (one.line, one.column);
        let is_there = || match self.unknown.span {
            Some(span) => {
                let (start, end) = (at(name.span.start), at(name.span.end));
                (span.start.line, span.start.column) <= start && end <= (span.end.line, span.end.column)
            }
            None => false,
        };
        name.quote_style.is_none() && fold(name) == self.unknown.name && (self.anywhere || is_there())
    }

    fn end(&mut self, changed: bool) -> ControlFlow<()> {
        self.changed |= changed;
        if changed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl VisitorMut for Mending<'_> {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut has = false;
        own_names(select, &mut |name, _| {
            has |= self.is_unknown(name);
            None
        });
        let changed = has && {
            let mut changed = false;
            own_names(select, &mut |name, table| {
                let spelled = self.unknown.spelled(name, table);
                changed |= spelled.is_some();
                spelled.map(Expr::Identifier)
            });
            changed || self.given_here(select)
        };
        self.end(changed)
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut changed = false;
        if let Some(order) = &mut query.order_by {
            names_in(order, &mut |name, table| {
                let spelled = self.unknown.spelled(name, table).filter(|_| self.is_unknown(name));
                changed |= spelled.is_some();
                spelled.map(Expr::Identifier)
            });
        }
        self.end(changed)
    }
}

impl Mending<'_> {
    /// Puts the expression of an earlier item in the place of the name that the item gives it (as
    /// DuckDB has it).
    fn given_here(&self, select: &mut Select) -> bool {
        let gives = |item: &SelectItem| match item {
            SelectItem::ExprWithAlias { expr, alias } if fold(alias) == self.unknown.name => {
                Some(expr.clone())
            }
            _ => None,
        };
        let found =
            select.projection.iter().enumerate().find_map(|(place, item)| Some((place, gives(item)?)));
        let Some((place, expr)) = found.filter(|(_, expr)| !is_volatile(self.state, expr)) else {
            return false;
        };
        let mut changed = false;
        let mut replace = |name: &Ident, table: Option<&Ident>| {
            let meant = table.is_none() && self.is_unknown(name);
            changed |= meant;
            meant.then(|| Expr::Nested(Box::new(expr.clone())))
        };
        for item in &mut select.projection[place + 1..] {
            // A name alone keeps its own name.
            if let SelectItem::UnnamedExpr(expr @ Expr::Identifier(_)) = item {
                let (expr, alias) = (expr.clone(), Ident::with_quote('"', self.unknown.name.as_str()));
                let is_it = matches!(&expr, Expr::Identifier(name) if self.is_unknown(name));
                if is_it {
                    *item = SelectItem::ExprWithAlias { expr, alias };
                }
            }
            names_in(item, &mut replace);
        }
        for filter in [&mut select.selection, &mut select.having, &mut select.qualify].into_iter().flatten() {
            names_in(filter, &mut replace);
        }
        if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
            names_in(keys, &mut replace);
        }
        changed
    }
}

/// Says whether a call within an expression gives another value each time: what stands for it cannot be
/// written twice.
fn is_volatile(state: &SessionState, expr: &Expr) -> bool {
    let gives_another = |part: &ObjectNamePart| {
        let function = part.as_ident().and_then(|name| state.scalar_functions().get(&fold(name)));
        function.is_some_and(|function| function.signature().volatility == Volatility::Volatile)
    };
    let found = expressions(expr, &mut |expr| match expr {
        Expr::Function(function) if function.name.0.last().is_some_and(gives_another) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Goes through the names of columns in a SELECT, but not those in its subqueries, and takes others
/// in their place.
fn own_names(select: &mut Select, each: &mut impl FnMut(&Ident, Option<&Ident>) -> Option<Expr>) {
    names_in(select, each);
    let joins = select.from.iter_mut().flat_map(|tables: &mut TableWithJoins| &mut tables.joins);
    for join in joins {
        let columns = match &mut join.join_operator {
            JoinOperator::Join(JoinConstraint::Using(columns))
            | JoinOperator::Inner(JoinConstraint::Using(columns))
            | JoinOperator::Left(JoinConstraint::Using(columns))
            | JoinOperator::LeftOuter(JoinConstraint::Using(columns))
            | JoinOperator::Right(JoinConstraint::Using(columns))
            | JoinOperator::RightOuter(JoinConstraint::Using(columns))
            | JoinOperator::FullOuter(JoinConstraint::Using(columns))
            | JoinOperator::LeftSemi(JoinConstraint::Using(columns))
            | JoinOperator::LeftAnti(JoinConstraint::Using(columns)) => columns,
            _ => continue,
        };
        for ObjectName(parts) in columns {
            if let [ObjectNamePart::Identifier(name)] = parts.as_mut_slice()
                && let Some(Expr::Identifier(other)) = each(name, None)
            {
                *name = other;
            }
        }
    }
}
