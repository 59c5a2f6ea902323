//! Expressions. Their names and subqueries are bound here: each becomes a column of its own, DataFusion's
//! planner plans the rest over a schema of these, and what was bound takes the columns' places.

use crate::expression::aliased_calls;
use crate::query::frame::{Frame, Relation};
use crate::query::parts::Item;
use crate::query::refusal::{refused, unknown};
use crate::query::scope::{Named, Scope, Tables};
use crate::query::{subquery, window};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::{find_aggregate_exprs, find_window_exprs};
use datafusion::logical_expr::{Expr, ExprSchemable, lit, when};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr as SqlExpr, ExprWithAlias, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    LambdaFunction, ObjectName, OneOrManyWithParens, Value, VisitorMut, WindowSpec, WindowType,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_error::with_nearest_function;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::{checked, done, walk_mut};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// What names in an expression mean.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub scope: &'a Scope<'a>,
    /// Items that may be named where no column of the rows has the name.
    pub items: &'a [Item],
    /// Whether columns of the queries around go before these.
    pub around_first: bool,
    /// The windows that WINDOW names.
    pub windows: &'a [(String, WindowSpec)],
}

/// What a name means.
pub struct Found {
    /// What it is in its own frame.
    pub own: Expr,
    pub field: FieldRef,
    /// The number of that frame, from the inside out.
    pub depth: usize,
    /// How many parts of the name it takes. The others are fields.
    pub parts: usize,
    /// What a column of it is called.
    pub name: String,
}

impl<'a> Names<'a> {
    /// Names that mean columns alone.
    pub fn of(scope: &'a Scope<'a>) -> Self {
        Self { scope, items: &[], around_first: true, windows: &[] }
    }

    /// Returns what a name means.
    ///
    /// # Errors
    /// `UnknownName` (42703) for nothing, and `Syntax` (42702) for one of several.
    pub fn find(&self, name: &[Ident]) -> Result<Found> {
        let found = self.found(name)?;
        self.scope.has_named(found.depth);
        Ok(found)
    }

    fn found(&self, name: &[Ident]) -> Result<Found> {
        if let Some(named) = self.scope.qualified(name)? {
            return Ok(Found::of(named));
        }
        if let Some(found) = self.alone(name)? {
            return Ok(found);
        }
        if let [relation] = name
            && let Some(found) = self.whole_row(relation)?
        {
            return Ok(found);
        }
        Err(self.scope.unknown(name, self.items.iter().map(|item| item.name.clone())))
    }

    /// Returns what the first part of a name means by itself, the others being fields.
    fn alone(&self, name: &[Ident]) -> Result<Option<Found>> {
        let Some((first, fields)) = name.split_first() else { return Ok(None) };
        let mut items = (!self.around_first).then_some(first);
        for (depth, frame) in self.scope.frames() {
            if depth > 0
                && let Some(name) = items.take()
                && let Some(found) = self.item(name)?
            {
                return Ok(Some(found));
            }
            if let Some(seen) = self.scope.alone_in(frame, first)?
                && (fields.is_empty() || has_fields(seen.field.data_type()))
            {
                return Ok(Some(Found::of(Named { seen, depth, parts: 1 })));
            }
        }
        self.item(first)
    }

    /// Returns the item of a name.
    fn item(&self, name: &Ident) -> Result<Option<Found>> {
        let folded = fold(name);
        let mut named = self.items.iter().filter(|item| item.name == folded);
        // What gives another value each time cannot stand in two places of one list.
        let item = named.next().filter(|item| !(self.around_first && item.expr.is_volatile()));
        let Some(item) = item else { return Ok(None) };
        if named.any(|other| other.expr != item.expr) {
            let message = format!("\"{folded}\" is the name of several items of SELECT");
            return Err(refused("42702", message));
        }
        self.scope.tables.count_parts(&item.expr, &folded)?;
        let empty = DFSchema::empty();
        let schema = self.scope.frame().map_or(&empty, |frame| frame.plan.schema().as_ref());
        let (_, field) = item.expr.to_field(schema)?;
        Ok(Some(Found { own: item.expr.clone(), field, depth: 0, parts: 1, name: folded }))
    }

    /// Returns the row of the nearest relation of a name.
    fn whole_row(&self, name: &Ident) -> Result<Option<Found>> {
        for (depth, frame) in self.scope.frames() {
            if let Some(relation) = frame.relations_called(std::slice::from_ref(name)).next()
                && let Some(own) = row_of(self.scope.tables.state, relation)?
            {
                let (_, field) = own.to_field(frame.plan.schema())?;
                return Ok(Some(Found { own, field, depth, parts: 1, name: fold(name) }));
            }
        }
        Ok(None)
    }

    /// Returns what was found as the place of these names has it.
    fn seen(&self, found: &Found) -> Result<Expr> {
        match self.scope.frame_at(found.depth) {
            Some(frame) if found.depth > 0 => frame.outer(found.own.clone()),
            _ => Ok(found.own.clone()),
        }
    }
}

impl Found {
    fn of(named: Named) -> Self {
        let Named { seen, depth, parts } = named;
        Self { own: seen.expr, field: seen.field, depth, parts, name: seen.name }
    }
}

/// Says whether a value may have fields.
fn has_fields(of: &DataType) -> bool {
    matches!(of, DataType::Struct(_) | DataType::Map(..) | DataType::Null)
}

/// Returns a relation's row: the structure of its columns, or the value of a function. It is NULL in rows
/// that a join adds.
fn row_of(state: &SessionState, relation: &Relation) -> Result<Option<Expr>> {
    let row = match relation.columns.as_slice() {
        [] => return Ok(None),
        [only] if relation.is_function => return Ok(Some(only.expr.clone())),
        columns => {
            let fields = columns.iter().flat_map(|seen| [lit(seen.name.as_str()), seen.expr.clone()]);
            call(state, "named_struct", fields.collect())?
        }
    };
    if !relation.may_be_added {
        return Ok(Some(row));
    }
    let are_null = relation.columns.iter().map(|seen| seen.expr.clone().is_null()).reduce(Expr::and);
    let row = match are_null {
        Some(are_null) => when(Expr::Not(Box::new(are_null)), row).end()?,
        None => row,
    };
    Ok(Some(row))
}

/// Returns a call of a function of the session.
///
/// # Errors
/// `UnknownName` where there is none.
pub fn call(state: &SessionState, name: &str, arguments: Vec<Expr>) -> Result<Expr> {
    let function = state.scalar_functions().get(name);
    let function = function.ok_or_else(|| unknown("42883", format!("no function \"{name}\""), name))?;
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(function.clone(), arguments)))
}

/// Returns a field of a structure.
///
/// # Errors
/// Those of [`call`].
pub fn field_of(state: &SessionState, structure: Expr, field: &str) -> Result<Expr> {
    call(state, "get_field", vec![structure, lit(field)])
}

/// Binds an expression.
///
/// # Errors
/// Those of its names, its subqueries and of DataFusion's planner.
pub fn bind(expr: &SqlExpr, names: &Names<'_>) -> Result<Expr> {
    bind_named(expr, names).map(|(bound, _)| bound)
}

/// Binds an expression, and returns what a column is called that it is.
///
/// # Errors
/// Those of [`bind`].
pub fn bind_named(expr: &SqlExpr, names: &Names<'_>) -> Result<(Expr, Option<String>)> {
    if let Some(name) = name_in(expr)
        && !name[0].value.starts_with('@')
    {
        let found = names.find(name)?;
        if found.parts == name.len() {
            return Ok((names.seen(&found)?, Some(found.name)));
        }
    }
    let state = names.scope.tables.state;
    let mut tree = expr.clone();
    aliased_calls::rewrite_in(&mut tree, state);
    let mut slots = Slots { names, found: Vec::new(), lambdas: Vec::new() };
    checked(walk_mut(&mut tree, &mut slots))?;
    let schema = slots.schema()?;
    let planned = state
        .create_logical_expr_from_sql_expr(ExprWithAlias { expr: tree, alias: None }, &schema)
        .map_err(|error| with_nearest_function(error, functions(state)))?;
    let planned = subquery::with_aggregates_around(planned, &slots)?;
    Ok((slots.filled(planned, 0)?, None))
}

/// Binds a condition, in which there are neither aggregates nor windows.
///
/// # Errors
/// Those of [`bind`]; `Syntax` (42803, 42P20) for an aggregate or a window.
pub fn condition(expr: &SqlExpr, names: &Names<'_>, clause: &str) -> Result<Expr> {
    let bound = bind(expr, names)?;
    let exprs = std::slice::from_ref(&bound);
    if !find_window_exprs(exprs).is_empty() {
        let message = format!(
            "a window function cannot be in {clause}; filter by it with QUALIFY, or in a query around it"
        );
        return Err(refused("42P20", message));
    }
    if !find_aggregate_exprs(exprs).is_empty() {
        let message = format!(
            "aggregates are not allowed in {clause}; write HAVING, or compute them in a subquery in FROM"
        );
        return Err(refused("42803", message));
    }
    Ok(bound)
}

/// Returns the parts of what is a name alone, in any parentheses.
pub fn name_in(expr: &SqlExpr) -> Option<&[Ident]> {
    match expr {
        SqlExpr::Nested(inner) => name_in(inner),
        SqlExpr::Identifier(name) => Some(std::slice::from_ref(name)),
        SqlExpr::CompoundIdentifier(parts) if !parts.is_empty() => Some(parts),
        _ => None,
    }
}

/// Returns the names of all functions of a session.
fn functions(state: &SessionState) -> impl Iterator<Item = &str> {
    (state.scalar_functions().keys())
        .chain(state.higher_order_functions().keys())
        .chain(state.aggregate_functions().keys())
        .chain(state.window_functions().keys())
        .map(String::as_str)
}

/// A name or a subquery that has been bound.
pub struct Slot {
    /// What stands for it: the name of a column of its own.
    name: String,
    pub own: Expr,
    field: FieldRef,
    /// The number of its frame, from the inside out; that of a subquery is the one it stands in.
    depth: usize,
    /// The number of the nearest frame whose columns it is of; that of a subquery is of those that it names.
    pub nearest: Option<usize>,
}

/// Binds the names and subqueries of an expression.
pub struct Slots<'a> {
    pub names: &'a Names<'a>,
    found: Vec<Slot>,
    /// The parameters of the lambdas around, and what stands for them: DataFusion takes one for a column of
    /// its name.
    lambdas: Vec<Vec<(String, String)>>,
}

impl VisitorMut for Slots<'_> {
    type Break = DataFusionError;

    fn pre_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<DataFusionError> {
        done(self.visit(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<DataFusionError> {
        if matches!(expr, SqlExpr::Lambda(_)) {
            self.lambdas.pop();
        }
        ControlFlow::Continue(())
    }
}

impl Slots<'_> {
    /// Puts a column in the place of a name or a subquery. What is within others is visited next.
    fn visit(&mut self, expr: &mut SqlExpr) -> Result<()> {
        match expr {
            SqlExpr::Lambda(lambda) => {
                let parameters = told_apart(lambda, self.names.scope.tables);
                self.lambdas.push(parameters);
            }
            SqlExpr::Identifier(name) if self.is_bound(name) => self.name_parameter(name),
            SqlExpr::Identifier(name) => {
                let name = [name.clone()];
                *expr = self.name(&name, Vec::new())?;
            }
            SqlExpr::CompoundIdentifier(name) if name.first().is_some_and(|first| self.is_bound(first)) => {
                self.name_parameter(&mut name[0]);
            }
            SqlExpr::CompoundIdentifier(name) => {
                let name = std::mem::take(name);
                *expr = self.name(&name, Vec::new())?;
            }
            SqlExpr::CompoundFieldAccess { .. } => self.visit_access(expr)?,
            SqlExpr::Function(function) => {
                if let FunctionArguments::Subquery(query) = &function.args
                    && function.name.to_string().eq_ignore_ascii_case("array")
                {
                    let bind = || subquery::array(query, self.names);
                    let ((array, field), nearest) = self.names.scope.nearest_named(bind)?;
                    *expr = self.bound_near("array", array, field, nearest);
                    return Ok(());
                }
                if let Some(over) = &mut function.over {
                    *over = WindowType::WindowSpec(window::spec_of(over, self.names.windows)?);
                }
                self.visit_rows(&mut function.args)?;
            }
            _ => {
                let bind = || subquery::bind(expr, self.names);
                if let (Some((bound, field)), nearest) = self.names.scope.nearest_named(bind)? {
                    *expr = self.bound_near("subquery", bound, field, nearest);
                }
            }
        }
        Ok(())
    }

    /// Says whether a name is no column's: a variable, a parameter of a lambda, or one that stands for what
    /// has been bound.
    fn is_bound(&self, name: &Ident) -> bool {
        let is_variable = name.value.starts_with('@') && name.quote_style.is_none();
        let is_slot = name.value.contains(ONE_OF) && self.found.iter().any(|slot| slot.name == name.value);
        is_variable || is_slot || self.parameter(name).is_some()
    }

    /// Returns what stands for the parameter of a lambda that has a name, or that it is.
    fn parameter(&self, name: &Ident) -> Option<&String> {
        let folded = fold(name);
        let mut parameters = self.lambdas.iter().rev().flatten();
        parameters.find(|(own, other)| *own == folded || *other == folded).map(|(_, other)| other)
    }

    fn name_parameter(&self, name: &mut Ident) {
        if let Some(other) = self.parameter(name) {
            *name = Ident::with_quote('"', other);
        }
    }

    /// Returns the column that stands for a name, and its fields.
    fn name(&mut self, name: &[Ident], access: Vec<AccessExpr>) -> Result<SqlExpr> {
        let Found { own, field, depth, parts, name: shown } = self.names.find(name)?;
        let fields = name[parts..].iter().map(|field| AccessExpr::Dot(text(&fold(field))));
        let access_chain: Vec<AccessExpr> = fields.chain(access).collect();
        let root = self.bound(&shown, own, field, depth);
        Ok(match access_chain.is_empty() {
            true => root,
            false => SqlExpr::CompoundFieldAccess { root: Box::new(root), access_chain },
        })
    }

    /// Binds the name before fields and elements. Fields are named by texts, which are no columns.
    fn visit_access(&mut self, expr: &mut SqlExpr) -> Result<()> {
        let SqlExpr::CompoundFieldAccess { root, access_chain } = expr else { return Ok(()) };
        if let Some(name) = name_in(root)
            && !self.is_bound(&name[0])
        {
            let mut name = name.to_vec();
            let fields = access_chain.iter().map_while(|access| match access {
                AccessExpr::Dot(SqlExpr::Identifier(field)) => Some(field.clone()),
                _ => None,
            });
            let fields: Vec<Ident> = fields.collect();
            let rest = access_chain.split_off(fields.len());
            name.extend(fields);
            *expr = self.name(&name, rest)?;
        }
        if let SqlExpr::CompoundFieldAccess { access_chain, .. } = expr {
            for access in access_chain {
                if let AccessExpr::Dot(SqlExpr::Identifier(field)) = access {
                    *access = AccessExpr::Dot(text(&fold(field)));
                }
            }
        }
        Ok(())
    }

    /// Puts whole rows in the place of `t.*` among the arguments of a function.
    fn visit_rows(&mut self, arguments: &mut FunctionArguments) -> Result<()> {
        let FunctionArguments::List(list) = arguments else { return Ok(()) };
        for argument in &mut list.args {
            let FunctionArg::Unnamed(argument) = argument else { continue };
            let FunctionArgExpr::QualifiedWildcard(relation) = &*argument else { continue };
            let row = self.names.whole_row(&last_part(relation)?)?;
            let Found { own, field, depth, name, .. } = row.ok_or_else(|| no_relation(relation))?;
            *argument = FunctionArgExpr::Expr(self.bound(&name, own, field, depth));
        }
        Ok(())
    }

    /// Returns the column that stands for what has been bound.
    fn bound(&mut self, shown: &str, own: Expr, field: FieldRef, depth: usize) -> SqlExpr {
        self.slot(shown, own, field, (depth, Some(depth)))
    }

    /// Returns the one of a subquery.
    fn bound_near(&mut self, shown: &str, own: Expr, field: FieldRef, nearest: Option<usize>) -> SqlExpr {
        self.slot(shown, own, field, (0, nearest))
    }

    fn slot(
        &mut self,
        shown: &str,
        own: Expr,
        field: FieldRef,
        (depth, nearest): (usize, Option<usize>),
    ) -> SqlExpr {
        let name = format!("{shown}{ONE_OF}{}", self.found.len());
        self.found.push(Slot { name: name.clone(), own, field, depth, nearest });
        SqlExpr::Identifier(Ident::with_quote('"', name))
    }

    /// The columns that stand for what has been bound.
    fn schema(&self) -> Result<DFSchema> {
        let field = |slot: &Slot| {
            let field = slot.field.as_ref().clone().with_name(&slot.name);
            (None, FieldRef::new(field))
        };
        DFSchema::new_with_metadata(self.found.iter().map(field).collect(), HashMap::new())
    }

    /// Returns what stands behind a column of an expression as it is planned.
    pub fn slot_of(&self, expr: &Expr) -> Option<&Slot> {
        let Expr::Column(column) = expr else { return None };
        let (_, number) = column.name.rsplit_once(ONE_OF)?;
        let slot = self.found.get(number.parse::<usize>().ok()?)?;
        (slot.name == column.name).then_some(slot)
    }

    /// Returns an expression with what was bound in its places, as the frame of a depth sees it.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn filled(&self, planned: Expr, depth: usize) -> Result<Expr> {
        let filled = planned.transform_down(|expr| {
            let Some(slot) = self.slot_of(&expr) else { return Ok(Transformed::no(expr)) };
            let bound = match self.frame(slot.depth) {
                Some(frame) if slot.depth > depth => frame.outer(slot.own.clone())?,
                _ => slot.own.clone(),
            };
            Ok(Transformed::new(bound, true, TreeNodeRecursion::Jump))
        });
        filled.data()
    }

    pub fn frame(&self, depth: usize) -> Option<&Frame> {
        self.names.scope.frame_at(depth)
    }
}

/// Gives the parameters of a lambda names of their own. Returns both names of each.
fn told_apart(lambda: &mut LambdaFunction, tables: &Tables<'_>) -> Vec<(String, String)> {
    let parameters = match &mut lambda.params {
        OneOrManyWithParens::One(one) => std::slice::from_mut(one),
        OneOrManyWithParens::Many(several) => several.as_mut_slice(),
    };
    let named = parameters.iter_mut().map(|parameter| {
        let own = fold(&parameter.name);
        let other = tables.new_parameter(&own);
        parameter.name = Ident::with_quote('"', &other);
        (own, other)
    });
    named.collect()
}

fn text(text: &str) -> SqlExpr {
    SqlExpr::value(Value::SingleQuotedString(text.to_string()))
}

/// Returns the last part of a name.
///
/// # Errors
/// That of a relation that is not there.
pub fn last_part(name: &ObjectName) -> Result<Ident> {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.cloned().ok_or_else(|| no_relation(name))
}

/// The error that no relation of FROM has a name.
pub fn no_relation(name: &ObjectName) -> DataFusionError {
    let shown = name.to_string();
    let message = format!("{shown}.*: neither a relation of FROM nor a column is called {shown}");
    unknown("42P01", message, &shown)
}

/// Returns the value of a literal that is a whole number, as it is written.
pub fn number_in(expr: &SqlExpr) -> Option<&str> {
    match expr {
        SqlExpr::Value(value) => match &value.value {
            Value::Number(number, _) if number.bytes().all(|digit| digit.is_ascii_digit()) => Some(number),
            _ => None,
        },
        _ => None,
    }
}
