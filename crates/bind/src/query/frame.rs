//! The rows that FROM gives, and which of their columns a name means.

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::Ident;
use hypostyle_sql::identifier::fold;
use std::cell::{Cell, RefCell};

/// A column as names find it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub name: String,
    /// What it is, over the plan: one that USING merges is computed.
    pub expr: Expr,
    pub field: FieldRef,
}

/// A relation of FROM.
#[derive(Debug, Default)]
pub struct Relation {
    /// Its name, behind those of its schema and its database, which may be written before it.
    pub name: Vec<String>,
    pub columns: Vec<Seen>,
    /// The columns of its primary key.
    pub key: Vec<Column>,
    /// It is what a function gives: the row of one column is the column's value.
    pub is_function: bool,
    /// A join may add rows in which it has no values.
    pub may_be_added: bool,
}

/// The rows that clauses of a SELECT are about.
#[derive(Debug)]
pub struct Frame {
    pub plan: LogicalPlan,
    /// The columns that `*` gives, in order, and that names without a relation mean.
    pub columns: Vec<Seen>,
    pub relations: Vec<Relation>,
    /// Whether there are groups, so that subqueries may have aggregates of these rows.
    pub may_group: Cell<bool>,
    /// The aggregates of these rows that subqueries have, each with the name of its column.
    pub aggregates: RefCell<Vec<(Expr, String)>>,
}

/// What a name means among some columns.
pub enum Meant<'a> {
    Nothing,
    Column(&'a Seen),
    /// Columns of several relations.
    Several,
    /// Columns that differ from the name, and from each other, in capitals.
    Alike,
}

impl Frame {
    pub fn new(plan: LogicalPlan, columns: Vec<Seen>, relations: Vec<Relation>) -> Self {
        let (may_group, aggregates) = (Cell::new(false), RefCell::default());
        Self { plan, columns, relations, may_group, aggregates }
    }

    /// The one row of a SELECT without FROM.
    ///
    /// # Errors
    /// Those of DataFusion.
    pub fn empty() -> Result<Self> {
        Ok(Self::new(LogicalPlanBuilder::empty(true).build()?, Vec::new(), Vec::new()))
    }

    /// The rows of one relation.
    pub fn of(plan: LogicalPlan, relation: Relation) -> Self {
        Self::new(plan, relation.columns.clone(), vec![relation])
    }

    /// Returns what a name means with no relation before it.
    pub fn column(&self, name: &Ident) -> Meant<'_> {
        match meant(&self.columns, name) {
            Meant::Nothing => self.series(name).map_or(Meant::Nothing, Meant::Column),
            found => found,
        }
    }

    /// Returns the column of a name that a join has merged of several.
    pub fn merged(&self, name: &Ident) -> Option<&Seen> {
        let Meant::Column(merged) = meant(&self.columns, name) else { return None };
        let has = |relation: &&Relation| relation.columns.iter().any(|seen| seen.name == merged.name);
        (self.relations.iter().filter(has).count() > 1).then_some(merged)
    }

    /// Returns the column of the only series there is, which was called `value` before it had a name of its
    /// own.
    fn series(&self, name: &Ident) -> Option<&Seen> {
        if name.quote_style.is_some() || fold(name) != "value" {
            return None;
        }
        let is_series = |relation: &&Relation| match relation.name.last() {
            Some(name) => relation.is_function && (name == "range" || name == "generate_series"),
            None => false,
        };
        let mut all = self.relations.iter().filter(is_series);
        match (all.next(), all.next()) {
            (Some(only), None) => only.columns.first(),
            _ => None,
        }
    }

    /// Returns the relations of a name, which may have those of a schema and a database before it.
    pub fn relations_called<'a>(&'a self, name: &'a [Ident]) -> impl Iterator<Item = &'a Relation> {
        let is_called = move |relation: &&Relation| {
            let mut parts = relation.name.iter().rev().zip(name.iter().rev());
            !name.is_empty()
                && name.len() <= relation.name.len()
                && parts.all(|(own, part)| *own == fold(part))
        };
        self.relations.iter().filter(is_called)
    }

    /// Returns an expression of these rows as a query within names it.
    ///
    /// # Errors
    /// Those of DataFusion, for a column that is none of these rows.
    pub fn outer(&self, expr: Expr) -> Result<Expr> {
        let schema = self.plan.schema();
        let outer = expr.transform(|expr| match expr {
            Expr::Column(column) => {
                let (_, field) = schema.qualified_field_from_column(&column)?;
                let field = field.clone();
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        });
        outer.data()
    }

    /// Returns the columns that there are, by the names of their relations, for errors.
    pub fn known(&self) -> Vec<Column> {
        if self.relations.is_empty() {
            return self.columns.iter().map(|seen| Column::new_unqualified(&seen.name)).collect();
        }
        let of_relation = |relation: &Relation| {
            let name = relation.name.last().map(|name| TableReference::bare(name.as_str()));
            let columns = relation.columns.iter();
            columns.map(|seen| Column::new(name.clone(), &seen.name)).collect::<Vec<_>>()
        };
        self.relations.iter().flat_map(of_relation).collect()
    }

    /// Returns what a column of the plan is called, with its relation.
    pub fn written(&self, column: &Column) -> String {
        let is_it = |seen: &&Seen| matches!(&seen.expr, Expr::Column(own) if own == column);
        let found = self.relations.iter().find_map(|relation| {
            let seen = relation.columns.iter().find(is_it)?;
            Some(match relation.name.last() {
                Some(name) => format!("{name}.{}", seen.name),
                None => seen.name.clone(),
            })
        });
        found.unwrap_or_else(|| column.name.clone())
    }

    /// Says that a join may add rows without values of these.
    pub fn may_be_added(&mut self) {
        self.relations.iter_mut().for_each(|relation| relation.may_be_added = true);
    }
}

/// Returns the column that a name means: the one that is so in lower case, or else the one that is written
/// so, or else the only one that differs in capitals alone. In quotes it is the one that is written so.
pub fn meant<'a>(columns: &'a [Seen], name: &Ident) -> Meant<'a> {
    let folded = fold(name);
    let found = one_of(columns.iter().filter(|seen| seen.name == folded));
    if name.quote_style.is_some() || !matches!(found, Meant::Nothing) {
        return found;
    }
    let found = one_of(columns.iter().filter(|seen| seen.name == name.value));
    if !matches!(found, Meant::Nothing) {
        return found;
    }
    let is_alike = |seen: &&Seen| seen.name.to_lowercase() == folded;
    match one_of(columns.iter().filter(is_alike)) {
        Meant::Several => {
            let mut alike = columns.iter().filter(is_alike).map(|seen| &seen.name);
            let first = alike.next();
            if alike.all(|name| Some(name) == first) { Meant::Several } else { Meant::Alike }
        }
        found => found,
    }
}

fn one_of<'a>(mut found: impl Iterator<Item = &'a Seen>) -> Meant<'a> {
    match (found.next(), found.next()) {
        (None, _) => Meant::Nothing,
        (Some(only), None) => Meant::Column(only),
        _ => Meant::Several,
    }
}
