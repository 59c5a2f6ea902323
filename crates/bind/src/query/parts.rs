//! The expressions of a SELECT that stand behind its groups, and how they become columns.

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Alias;
use hypostyle_error::column_name::ONE_OF;
use std::collections::HashSet;

/// An item of SELECT.
#[derive(Clone, Debug)]
pub struct Item {
    pub name: String,
    pub expr: Expr,
}

/// A key of ORDER BY.
#[derive(Debug)]
pub struct Key {
    pub by: By,
    pub ascending: bool,
    pub nulls_first: bool,
}

/// What a key is.
#[derive(Debug)]
pub enum By {
    /// The item at a place.
    Item(usize),
    Expr(Expr),
}

/// The expressions of a SELECT that stand behind its groups.
#[derive(Debug, Default)]
pub struct Parts {
    pub items: Vec<Item>,
    pub having: Option<Expr>,
    pub qualify: Option<Expr>,
    /// The keys of DISTINCT ON.
    pub on: Vec<Expr>,
    pub order: Vec<Key>,
}

impl Parts {
    pub fn each(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.order.iter().filter_map(|key| match &key.by {
            By::Expr(expr) => Some(expr),
            By::Item(_) => None,
        });
        let items = self.items.iter().map(|item| &item.expr);
        items.chain(&self.having).chain(&self.qualify).chain(&self.on).chain(keys)
    }

    /// Puts others in the place of all expressions.
    ///
    /// # Errors
    /// Those of the function.
    pub fn map(&mut self, mut other: impl FnMut(Expr) -> Result<Expr>) -> Result<()> {
        let keys = self.order.iter_mut().filter_map(|key| match &mut key.by {
            By::Expr(expr) => Some(expr),
            By::Item(_) => None,
        });
        let items = self.items.iter_mut().map(|item| &mut item.expr);
        let all = items.chain(&mut self.having).chain(&mut self.qualify).chain(&mut self.on).chain(keys);
        for expr in all {
            *expr = other(std::mem::take(expr))?;
        }
        Ok(())
    }
}

/// Returns expressions as columns of names that differ. One that is a column of its name stays this column.
pub fn told_apart(items: impl IntoIterator<Item = (String, Expr)>) -> Vec<Expr> {
    let mut taken = HashSet::new();
    let told = items.into_iter().enumerate().map(|(place, (name, expr))| {
        let own = match taken.insert(name.clone()) {
            true => name,
            false => format!("{name}{ONE_OF}{place}"),
        };
        match expr {
            Expr::Column(column) if column.name == own => Expr::Column(column),
            // The name by which a function was called is none that the column has.
            Expr::Alias(Alias { expr, relation: None, metadata: None, .. }) => expr.alias(own),
            other => other.alias(own),
        }
    });
    told.collect()
}

/// Returns the column that such an expression is in the plan that has it.
pub fn column_of(told: &Expr) -> Column {
    match told {
        Expr::Column(column) => column.clone(),
        Expr::Alias(alias) => Column::new(alias.relation.clone(), &alias.name),
        other => Column::new_unqualified(other.schema_name().to_string()),
    }
}

/// Returns an expression with others in the place of some, the largest first.
///
/// # Errors
/// Those of DataFusion.
pub fn replaced(expr: Expr, pairs: &[(Expr, Expr)]) -> Result<Expr> {
    if pairs.is_empty() {
        return Ok(expr);
    }
    let replaced = expr.transform_down(|part| match pairs.iter().find(|(of, _)| *of == part) {
        Some((_, other)) => Ok(Transformed::new(other.clone(), true, TreeNodeRecursion::Jump)),
        None => Ok(Transformed::no(part)),
    });
    replaced.data()
}

/// Says whether an expression is a literal, which is the same wherever it stands.
pub fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..))
}
