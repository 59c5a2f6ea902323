//! What a SELECT computes beside lists that it unnests. DataFusion plans it beneath the lists,
//! beside the columns that it is computed of, and takes its name for one of several where it is
//! that of such a column: `SELECT unnest(a), upper(t.b) AS b FROM t`.

use crate::build;
use crate::identifier::fold;
use crate::walk::{expressions, walk_mut};
use sqlparser::ast::{
    Expr, Function, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, Value,
    VisitorMut,
};
use std::ops::ControlFlow;

/// What columns are called beneath the names that they are given, before a number.
const BENEATH: char = '\u{2063}';

/// Gives what is computed its name in a query around the one that unnests; whether there is any.
pub fn name_around(statement: &mut Statement) -> bool {
    let mut naming = Naming { changed: false };
    let _done = walk_mut(statement, &mut naming);
    naming.changed
}

struct Naming {
    changed: bool,
}

impl VisitorMut for Naming {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(body) = named_around(query) {
            *query.body = body;
            self.changed = true;
        }
        ControlFlow::Continue(())
    }
}

/// The body of a query that names what another one computes.
fn named_around(query: &Query) -> Option<SetExpr> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let names = select.projection.iter().map(name_of).collect::<Option<Vec<_>>>()?;
    if !unnests(select) || !query.order_by.as_ref().is_none_or(|order| is_of_names(order, &names)) {
        return None;
    }
    let mut inner = select.clone();
    let mut items = Vec::with_capacity(names.len());
    for (number, (item, alias)) in inner.projection.iter_mut().zip(names).enumerate() {
        let beneath = Ident::with_quote('"', format!("{BENEATH}{number}"));
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: beneath.clone() };
        }
        items.push(SelectItem::ExprWithAlias { expr: Expr::Identifier(beneath), alias });
    }
    let unnested = build::derived(build::query(SetExpr::Select(inner)), Ident::new("unnested"));
    Some(*build::select(items, vec![unnested]).body)
}

/// The name of an item's column; `None` for those of several.
fn name_of(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        SelectItem::UnnamedExpr(expr) => Some(Ident::with_quote('"', expr.to_string())),
        _ => None,
    }
}

fn unnests(select: &Select) -> bool {
    let found = expressions(&select.projection, &mut |expr| match expr {
        Expr::Function(Function { name, .. }) if name.to_string().eq_ignore_ascii_case("unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    select.distinct.is_none() && found.is_break()
}

/// Whether rows are sorted by nothing but columns of the result.
fn is_of_names(order: &OrderBy, names: &[Ident]) -> bool {
    let OrderByKind::Expressions(keys) = &order.kind else { return false };
    keys.iter().all(|key| match &key.expr {
        Expr::Identifier(name) => names.iter().any(|known| fold(known) == fold(name)),
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => false,
    })
}
