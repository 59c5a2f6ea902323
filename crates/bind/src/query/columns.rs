//! COLUMNS(…) in an item of SELECT: the item stands for one for each column.

use crate::query::expression::{self, Names};
use crate::query::frame::{Frame, Seen};
use crate::query::refusal::{refused, unsupported};
use crate::query::scope::Scope;
use crate::query::star;
use crate::select::named_columns::{Condition, Wanted, columns_in, for_each_column};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, SelectItem, Value, WildcardAdditionalOptions};
use hypostyle_error::external;
use hypostyle_error::type_name::type_name;
use hypostyle_sql::identifier::fold;
use hypostyle_sql::walk::expressions_mut;
use std::ops::ControlFlow;

/// Returns the items that one stands for; `None` for an item without COLUMNS(…).
///
/// # Errors
/// `UnknownName` (42703) for a column that is not there, or none at all; those of the condition.
pub fn written_out(item: &SelectItem, names: &Names<'_>) -> Result<Option<Vec<SelectItem>>> {
    let Some(wanted) = columns_in(item) else { return Ok(None) };
    let options = match &wanted {
        // What REPLACE gives is put there with the column.
        Wanted::Wildcard(options) => {
            WildcardAdditionalOptions { opt_replace: None, ..options.as_ref().clone() }
        }
        _ => WildcardAdditionalOptions::default(),
    };
    let columns: &[Seen] = match names.scope.frame() {
        Some(frame) => &frame.columns,
        None => &[],
    };
    let shown: Vec<String> =
        star::shown(columns, &options, names)?.into_iter().map(|item| item.name).collect();
    let shown: Vec<&String> = shown.iter().collect();
    let chosen = match &wanted {
        Wanted::Meant(condition) => chosen_by(condition, &shown, names.scope)?,
        _ => Vec::new(),
    };
    for_each_column(item, &wanted, &shown, &chosen).map(Some).map_err(external)
}

/// Returns the names for which a condition holds.
fn chosen_by(condition: &Condition, names: &[&String], scope: &Scope<'_>) -> Result<Vec<String>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let empty = Frame::empty()?;
    let outermost = Scope::new(scope.tables);
    let inner = outermost.over(&empty);
    let holds = names.iter().enumerate().map(|(place, name)| {
        let bound = expression::bind(&with_name(condition, name), &Names::of(&inner))?;
        Ok::<_, DataFusionError>(bound.alias(format!("c{place}")))
    });
    let holds = holds.collect::<Result<Vec<Expr>>>()?;
    let plan = LogicalPlanBuilder::from(empty.plan.clone()).project(holds)?.build()?;
    let plan = scope.tables.state.optimize(&plan)?;
    let LogicalPlan::Projection(projection) = &plan else { return Err(depends()) };
    let mut chosen = Vec::new();
    for (name, holds) in names.iter().zip(&projection.expr) {
        match holds.clone().unalias() {
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => chosen.push((*name).clone()),
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {}
            Expr::Literal(other, _) => {
                let of = type_name(&other.data_type());
                return Err(refused(
                    "42804",
                    format!("the condition in COLUMNS(…) is of type {of}, not BOOLEAN"),
                ));
            }
            _ => return Err(depends()),
        }
    }
    Ok(chosen)
}

fn depends() -> DataFusionError {
    unsupported("COLUMNS(…) of a condition that depends on more than the names of columns")
}

/// Returns a condition of the name of a column.
fn with_name(condition: &Condition, name: &str) -> SqlExpr {
    let (parameter, body) = condition;
    let mut body = body.clone();
    let _done = expressions_mut(&mut body, &mut |expr| {
        if matches!(&*expr, SqlExpr::Identifier(found) if fold(found) == fold(parameter)) {
            *expr = SqlExpr::value(Value::SingleQuotedString(name.to_string()));
        }
        ControlFlow::<()>::Continue(())
    });
    body
}
