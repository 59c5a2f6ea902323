//! Windows: those that WINDOW names, those that begin as others (ISO/IEC 9075-2, 7.15), and their functions,
//! which are computed behind HAVING. QUALIFY filters by these.

use crate::query::parts::{Parts, replaced};
use crate::query::refusal::{refused, unknown};
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::utils::find_window_exprs;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{
    Ident, NamedWindowDefinition, NamedWindowExpr, WindowSpec, WindowType,
};
use hypostyle_error::column_name::ONE_OF;
use hypostyle_sql::identifier::fold;
use std::collections::HashSet;

/// Returns the windows that WINDOW names, each written out.
///
/// # Errors
/// `Syntax` (42P20) for a name that is there twice, and those of [`spec_of`].
pub fn named(definitions: &[NamedWindowDefinition]) -> Result<Vec<(String, WindowSpec)>> {
    let mut named: Vec<(String, WindowSpec)> = Vec::with_capacity(definitions.len());
    for NamedWindowDefinition(name, window) in definitions {
        let name = fold(name);
        if named.iter().any(|(known, _)| *known == name) {
            return Err(refused("42P20", format!("the window \"{name}\" is defined twice")));
        }
        let spec = match window {
            NamedWindowExpr::NamedWindow(other) => called(other, &named)?.clone(),
            NamedWindowExpr::WindowSpec(spec) => written_out(spec, &named)?,
        };
        named.push((name, spec));
    }
    Ok(named)
}

/// Returns a window written out.
///
/// # Errors
/// `UnknownName` (42704) for a name that no window has, and `Syntax` (42P20) for a window that begins as
/// another and has what that one has.
pub fn spec_of(window: &WindowType, named: &[(String, WindowSpec)]) -> Result<WindowSpec> {
    match window {
        WindowType::NamedWindow(name) => called(name, named).cloned(),
        WindowType::WindowSpec(spec) => written_out(spec, named),
    }
}

fn called<'a>(name: &Ident, named: &'a [(String, WindowSpec)]) -> Result<&'a WindowSpec> {
    let name = fold(name);
    let found = named.iter().find(|(known, _)| *known == name);
    found.map(|(_, spec)| spec).ok_or_else(|| unknown("42704", format!("no window \"{name}\""), &name))
}

fn written_out(spec: &WindowSpec, named: &[(String, WindowSpec)]) -> Result<WindowSpec> {
    let Some(name) = &spec.window_name else { return Ok(spec.clone()) };
    let base = called(name, named)?;
    let has = match () {
        () if !spec.partition_by.is_empty() => "PARTITION BY",
        () if !spec.order_by.is_empty() && !base.order_by.is_empty() => "ORDER BY",
        () if base.window_frame.is_some() => "a frame",
        () => {
            let order_by = if base.order_by.is_empty() { &spec.order_by } else { &base.order_by };
            return Ok(WindowSpec {
                window_name: None,
                partition_by: base.partition_by.clone(),
                order_by: order_by.clone(),
                window_frame: spec.window_frame.clone(),
            });
        }
    };
    let message = format!("a window that begins as \"{}\" cannot have {has} of its own", fold(name));
    Err(refused("42P20", message))
}

/// Computes the window functions of a SELECT, which become columns in its parts.
///
/// # Errors
/// `Syntax` (42601) for QUALIFY without any; those of DataFusion.
pub fn bind(plan: LogicalPlan, parts: &mut Parts) -> Result<LogicalPlan> {
    let found = find_window_exprs(parts.each());
    if found.is_empty() {
        return match parts.qualify {
            Some(_) => Err(refused("42601", "QUALIFY filters by window functions, and there are none")),
            None => Ok(plan),
        };
    }
    // DataFusion calls some alike that differ, as those of values that are cast.
    let mut taken = HashSet::new();
    let (plain, alike): (Vec<Expr>, Vec<Expr>) = found.into_iter().partition(|window| {
        let name = window.schema_name().to_string();
        !plan.schema().has_column_with_unqualified_name(&name) && taken.insert(name)
    });
    let mut pairs = Vec::with_capacity(plain.len() + alike.len());
    for window in &plain {
        let column = Column::from_name(window.schema_name().to_string());
        pairs.push((window.clone(), Expr::Column(column)));
    }
    let mut plan = match plain.is_empty() {
        true => plan,
        false => LogicalPlanBuilder::window_plan(plan, plain)?,
    };
    for (number, window) in alike.into_iter().enumerate() {
        let name = format!("{}{ONE_OF}{number}", window.schema_name());
        plan = LogicalPlanBuilder::from(plan).window([window.clone().alias(&name)])?.build()?;
        pairs.push((window, Expr::Column(Column::from_name(name))));
    }
    parts.map(|expr| replaced(expr, &pairs))?;
    Ok(plan)
}
