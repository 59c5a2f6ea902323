//! Joins: ON, and USING and NATURAL, which merge columns (ISO/IEC 9075-2, 7.10).

use crate::query::expression::{self, Names, call};
use crate::query::frame::{Frame, Meant, Relation, Seen, meant};
use crate::query::from;
use crate::query::refusal::{refused, unsupported};
use crate::query::scope::Scope;
use datafusion::common::{JoinConstraint as Constraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::utils::can_hash;
use datafusion::logical_expr::{EmptyRelation, Expr, ExprSchemable, Join, LogicalPlan};
use datafusion::sql::sqlparser::ast::{Ident, Join as SqlJoin, JoinConstraint, JoinOperator, ObjectName};
use hypostyle_error::{ambiguous_column, external, no_column};
use hypostyle_plan::unnest::{references, references_beside};
use hypostyle_sql::identifier::fold;
use std::sync::Arc;

/// What joins rows: equal values, and a condition.
#[derive(Default)]
struct By {
    on: Vec<(Expr, Expr)>,
    filter: Option<Expr>,
}

/// Returns all pairs of rows.
///
/// # Errors
/// `Syntax` (42712) for relations of one name.
pub fn cross(mut left: Frame, mut right: Frame) -> Result<Frame> {
    let both = side_by_side(&mut left, &mut right)?;
    joined((left.plan, right.plan), both, JoinType::Inner, By::default())
}

/// Binds a join with the relations to its left.
///
/// # Errors
/// Those of the relation and the condition; `Syntax` (42712) for relations of one name.
pub fn bind(mut left: Frame, join: &SqlJoin, scope: &Scope<'_>, around: Option<&Scope<'_>>) -> Result<Frame> {
    let (kind, constraint) = kind_of(&join.join_operator)?;
    let mut right = {
        let lateral = around.unwrap_or(scope).over(&left);
        from::factor(&join.relation, scope, Some(&lateral))?
    };
    if matches!(kind, JoinType::Right | JoinType::Full)
        && !references(&right.plan, left.plan.schema()).is_empty()
    {
        return Err(unsupported("LATERAL that depends on the left side of a RIGHT or FULL JOIN"));
    }
    let merged = match constraint {
        JoinConstraint::Using(columns) => columns.iter().map(column_name).collect::<Result<Vec<_>>>()?,
        JoinConstraint::Natural => common(&left, &right),
        JoinConstraint::On(_) | JoinConstraint::None => Vec::new(),
    };
    let using = match merged.is_empty() {
        true => None,
        false => Some(using(&left, &right, &merged, kind, scope)?),
    };
    if matches!(kind, JoinType::Left | JoinType::Full) {
        right.may_be_added();
    }
    if matches!(kind, JoinType::Right | JoinType::Full) {
        left.may_be_added();
    }
    let (columns, relations) = (left.columns.len(), left.relations.len());
    let mut both = side_by_side(&mut left, &mut right)?;
    let by = match (constraint, using) {
        (_, Some((columns, by))) => {
            both.columns = columns;
            by
        }
        (JoinConstraint::On(condition), None) => {
            let inner = scope.over(&both);
            By { on: Vec::new(), filter: Some(expression::condition(condition, &Names::of(&inner), "ON")?) }
        }
        (_, None) => By::default(),
    };
    if matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
        // Only whether there are rows of the right side is told.
        if merged.is_empty() {
            both.columns.truncate(columns);
        }
        both.relations.truncate(relations);
    }
    joined((left.plan, right.plan), both, kind, by)
}

/// Returns the kind of a join, and what it joins by.
fn kind_of(operator: &JoinOperator) -> Result<(JoinType, &JoinConstraint)> {
    use JoinOperator::{
        Anti, CrossApply, CrossJoin, FullOuter, Inner, Join, Left, LeftAnti, LeftOuter, LeftSemi, OuterApply,
        Right, RightOuter, Semi, StraightJoin,
    };
    Ok(match operator {
        Join(by) | Inner(by) | CrossJoin(by) | StraightJoin(by) => (JoinType::Inner, by),
        Left(by) | LeftOuter(by) => (JoinType::Left, by),
        Right(by) | RightOuter(by) => (JoinType::Right, by),
        FullOuter(by) => (JoinType::Full, by),
        Semi(by) | LeftSemi(by) => (JoinType::LeftSemi, by),
        Anti(by) | LeftAnti(by) => (JoinType::LeftAnti, by),
        CrossApply => (JoinType::Inner, &JoinConstraint::None),
        OuterApply => (JoinType::Left, &JoinConstraint::None),
        _ => return Err(unsupported("this kind of join")),
    })
}

/// Returns the relations and columns of two sides as those of one frame, without its rows.
fn side_by_side(left: &mut Frame, right: &mut Frame) -> Result<Frame> {
    // Two calls of one function may stand beside each other, and two tables of one name in different schemas.
    let is_alike = |one: &Relation, other: &Relation| {
        let are_called_alike = match one.name.len().min(other.name.len()) {
            1 => one.name.last() == other.name.last(),
            _ => one.name == other.name,
        };
        are_called_alike && !(one.is_function && other.is_function)
    };
    let is_called = |relation: &&Relation| {
        !relation.name.is_empty() && left.relations.iter().any(|other| is_alike(relation, other))
    };
    if let Some(name) = right.relations.iter().find(is_called).and_then(|relation| relation.name.last()) {
        let message = format!("the relation \"{name}\" is there twice; give one an alias");
        return Err(refused("42712", message));
    }
    let schema = left.plan.schema().join(right.plan.schema())?;
    let rows = EmptyRelation { produce_one_row: false, schema: Arc::new(schema) };
    let mut columns = std::mem::take(&mut left.columns);
    columns.append(&mut right.columns);
    let mut relations = std::mem::take(&mut left.relations);
    relations.append(&mut right.relations);
    Ok(Frame::new(LogicalPlan::EmptyRelation(rows), columns, relations))
}

/// Joins the rows of two sides.
fn joined(sides: (LogicalPlan, LogicalPlan), both: Frame, kind: JoinType, by: By) -> Result<Frame> {
    let (left, right) = sides;
    let right = marked(right, &left);
    let (left, right) = (Arc::new(left), Arc::new(right));
    let equality = NullEquality::NullEqualsNothing;
    let join = Join::try_new(left, right, by.on, by.filter, kind, Constraint::On, equality, false)?;
    Ok(Frame { plan: LogicalPlan::Join(join), ..both })
}

/// Returns the right side of a join as a node of its own, where it depends on the left one and not only what
/// is LATERAL within it does.
fn marked(right: LogicalPlan, left: &LogicalPlan) -> LogicalPlan {
    let is_within = |of: &LogicalPlan| match of {
        LogicalPlan::SubqueryAlias(alias) => matches!(alias.input.as_ref(), LogicalPlan::Subquery(_)),
        LogicalPlan::Subquery(_) => true,
        _ => false,
    };
    let all = references(&right, left.schema()).len();
    match is_within(&right) || references_beside(&right, left.schema()).len() == all {
        true => right,
        false => from::lateral(right),
    }
}

fn column_name(name: &ObjectName) -> Result<Ident> {
    match name.0.as_slice() {
        [part] => part.as_ident().cloned().ok_or_else(|| unsupported(format!("{name} in USING"))),
        _ => Err(refused("42601", format!("USING takes names of columns alone, not {name}"))),
    }
}

/// Returns the names that columns of both sides have, in the order of the left side.
fn common(left: &Frame, right: &Frame) -> Vec<Ident> {
    let mut names: Vec<&String> = Vec::new();
    for seen in &left.columns {
        if right.columns.iter().any(|other| other.name == seen.name) && !names.contains(&&seen.name) {
            names.push(&seen.name);
        }
    }
    names.into_iter().map(|name| Ident::with_quote('"', name)).collect()
}

/// Returns the columns of a join that merges some, those first, and what it joins by.
fn using(
    left: &Frame,
    right: &Frame,
    names: &[Ident],
    kind: JoinType,
    scope: &Scope<'_>,
) -> Result<(Vec<Seen>, By)> {
    let (mut columns, mut by) = (Vec::new(), By::default());
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    for name in names {
        let (one, other) = (place_of(left, name)?, place_of(right, name)?);
        of_left.push(one);
        of_right.push(other);
        let (one, other) = (&left.columns[one], &right.columns[other]);
        if can_hash(one.field.data_type()) && can_hash(other.field.data_type()) {
            by.on.push((one.expr.clone(), other.expr.clone()));
        } else {
            let equal = one.expr.clone().eq(other.expr.clone());
            by.filter = Some(match by.filter.take() {
                Some(filter) => filter.and(equal),
                None => equal,
            });
        }
        columns.push(merged((left, one), (right, other), kind, scope)?);
    }
    let others = |frame: &Frame, merged: &[usize]| {
        let all = frame.columns.iter().enumerate().filter(|(place, _)| !merged.contains(place));
        all.map(|(_, seen)| seen.clone()).collect::<Vec<_>>()
    };
    columns.extend(others(left, &of_left));
    if !matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
        columns.extend(others(right, &of_right));
    }
    Ok((columns, by))
}

/// Returns the column that two are together: the left value if there is one, and else the right one.
fn merged(
    (left, one): (&Frame, &Seen),
    (right, other): (&Frame, &Seen),
    kind: JoinType,
    scope: &Scope<'_>,
) -> Result<Seen> {
    Ok(match kind {
        JoinType::Right => Seen { name: one.name.clone(), ..other.clone() },
        JoinType::Full => {
            let expr = call(scope.tables.state, "coalesce", vec![one.expr.clone(), other.expr.clone()])?;
            let schema = left.plan.schema().join(right.plan.schema())?;
            let field = expr.to_field(&schema).map_or_else(|_| one.field.clone(), |(_, field)| field);
            Seen { name: one.name.clone(), expr, field }
        }
        _ => one.clone(),
    })
}

/// Returns the place of the only column of a side that a name means.
fn place_of(side: &Frame, name: &Ident) -> Result<usize> {
    let found = match meant(&side.columns, name) {
        Meant::Column(found) => side.columns.iter().position(|seen| std::ptr::eq(seen, found)),
        Meant::Several => return Err(external(ambiguous_column(&fold(name), name.span))),
        Meant::Nothing | Meant::Alike => None,
    };
    found.ok_or_else(|| external(no_column(&fold(name), None, name.span, side.known())))
}
