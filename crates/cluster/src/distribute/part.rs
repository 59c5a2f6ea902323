//! Says whether a part of a plan may run on the nodes, and over which fragments.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, WindowFunctionDefinition};
use hypostyle_expr::portable::Functions;
use hypostyle_placement::catalog::{Catalog, Table};
use hypostyle_placement::partition::Partitioning;
use hypostyle_types::TableId;

/// Says where a part of a plan may run.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Any node, with the same rows: it reads replicated tables only.
    Anywhere,
    /// The nodes with the fragments of partitioned tables, each giving some of its rows.
    Parted(Parting),
    /// The node that was asked.
    Here,
}

/// The fragments that a part's rows are spread over.
#[derive(Clone, Debug)]
pub(super) struct Parting {
    /// The tables, whose fragments of equal numbers belong together.
    pub tables: Vec<TableId>,
    /// The columns of the part that say which fragment a row is of: behind a join by the keys of two tables,
    /// those of either do. Nothing where the part lacks them.
    pub keys: Vec<Vec<Column>>,
}

impl Parting {
    /// Says whether rows that are equal in some columns are of one fragment.
    pub fn is_within(&self, columns: &[Expr]) -> bool {
        let is_among =
            |key: &Column| columns.iter().any(|column| matches!(column, Expr::Column(own) if own == key));
        self.keys.iter().any(|keys| keys.iter().all(is_among))
    }

    /// The same where only some columns are left, which may have other names.
    pub fn shown(&self, items: &[Expr], columns: &[Column]) -> Self {
        self.with(&|key: &Column| {
            let is_key = |item: &Expr| match item {
                Expr::Column(column) => column == key,
                Expr::Alias(alias) => matches!(alias.expr.as_ref(), Expr::Column(column) if column == key),
                _ => false,
            };
            items.iter().position(is_key).and_then(|place| columns.get(place)).cloned()
        })
    }

    /// The same under the names that the columns have in another place.
    pub fn renamed(&self, before: &[Column], after: &[Column]) -> Self {
        self.with(&|key: &Column| {
            before.iter().position(|column| column == key).and_then(|place| after.get(place)).cloned()
        })
    }

    /// The same with the names that columns have now; those of which one has none are no keys any more.
    fn with(&self, name: &dyn Fn(&Column) -> Option<Column>) -> Self {
        let renamed = |keys: &Vec<Column>| keys.iter().map(name).collect::<Option<Vec<Column>>>();
        Self { tables: self.tables.clone(), keys: self.keys.iter().filter_map(renamed).collect() }
    }
}

/// Says whether an expression has the same value wherever it is computed, and can be sent.
pub(super) fn travels(expr: &Expr, functions: &Functions) -> bool {
    let mut travels = true;
    let _never_fails = expr.apply(|part| {
        let may = match part {
            Expr::ScalarFunction(ScalarFunction { func, .. }) => functions.encode(func.as_ref()).is_ok(),
            Expr::AggregateFunction(AggregateFunction { func, .. }) => {
                functions.encode(func.as_ref()).is_ok()
            }
            Expr::WindowFunction(call) => is_portable(call, functions),
            Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::ScalarVariable(..)
            | Expr::Placeholder(_) => false,
            _ => true,
        };
        travels &= may && !part.is_volatile_node();
        Ok(if travels { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    travels
}

fn is_portable(call: &WindowFunction, functions: &Functions) -> bool {
    // Messages do not tell these of windows.
    if call.params.filter.is_some() || call.params.null_treatment.is_some() {
        return false;
    }
    match &call.fun {
        WindowFunctionDefinition::WindowUDF(function) => functions.encode(function.as_ref()).is_ok(),
        WindowFunctionDefinition::AggregateUDF(function) => functions.encode(function.as_ref()).is_ok(),
    }
}

/// Returns where the join of two parts may run.
pub(super) fn joined(
    join: &Join,
    left: &Place,
    right: &Place,
    (catalog, functions): (&Catalog, &Functions),
) -> Place {
    let exprs = join.on.iter().flat_map(|(left, right)| [left, right]).chain(&join.filter);
    if !exprs.into_iter().all(|expr| travels(expr, functions)) {
        return Place::Here;
    }
    match (left, right) {
        (Place::Anywhere, Place::Anywhere) => Place::Anywhere,
        // Each row of the fragments meets all rows of the other side.
        (Place::Parted(parting), Place::Anywhere) if keeps_left(join.join_type) => {
            Place::Parted(parting.clone())
        }
        (Place::Anywhere, Place::Parted(parting)) if keeps_right(join.join_type) => {
            Place::Parted(parting.clone())
        }
        (Place::Parted(one), Place::Parted(other)) => {
            together(join, one, other, catalog).map_or(Place::Here, Place::Parted)
        }
        _ => Place::Here,
    }
}

/// Says whether a join gives rows for rows of the left side only: none for the right side alone.
fn keeps_left(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
    )
}

fn keeps_right(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    )
}

/// Returns the fragments of a join whose rows find all their partners in the fragments of equal
/// numbers.
fn together(join: &Join, left: &Parting, right: &Parting, catalog: &Catalog) -> Option<Parting> {
    let is_mark = matches!(join.join_type, JoinType::LeftMark | JoinType::RightMark);
    if join.null_aware || is_mark {
        return None;
    }
    let is_joined = |(one, other): (&Column, &Column)| {
        join.on.iter().any(|(left, right)| {
            matches!((left, right), (Expr::Column(left), Expr::Column(right)) if left == one && right == other)
        })
    };
    let are_joined = |left: &Vec<Column>, right: &Vec<Column>| {
        left.len() == right.len() && left.iter().zip(right).all(is_joined)
    };
    let are_alike = |id: &TableId| {
        let (first, other) = (catalog.table(*left.tables.first()?)?, catalog.table(*id)?);
        are_placed_alike(first, other).then_some(())
    };
    if !left.keys.iter().any(|own| right.keys.iter().any(|other| are_joined(own, other)))
        || right.tables.iter().any(|id| are_alike(id).is_none())
    {
        return None;
    }
    let keys = match join.join_type {
        // The rows that are left have the same values on both sides.
        JoinType::Inner => left.keys.iter().chain(&right.keys).cloned().collect(),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => left.keys.clone(),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => right.keys.clone(),
        _ => Vec::new(),
    };
    let mut tables = left.tables.clone();
    tables.extend(right.tables.iter().filter(|id| !left.tables.contains(id)));
    Some(Parting { tables, keys })
}

/// Says whether equal keys of two tables are in fragments of equal numbers, of which some node has both.
fn are_placed_alike(one: &Table, other: &Table) -> bool {
    if one.id == other.id {
        return true;
    }
    one.partitioning.divides_like(&other.partitioning)
        && one.fragments.iter().zip(&other.fragments).all(|(one, other)| {
            let mut nodes = one.in_sync().map(|replica| replica.node);
            nodes.any(|node| other.replica(node).is_some_and(|replica| replica.in_sync))
        })
}

/// Returns the columns of a table's scan that are its partition key.
pub(super) fn keys_of(table: &Table, names: &[String], scan: &LogicalPlan) -> Option<Vec<Column>> {
    let Partitioning::Hash { columns, .. } = &table.partitioning else { return None };
    let shown = scan.schema().columns();
    let key = |column: &hypostyle_placement::partition::KeyColumn| {
        let name = names.get(column.column.0 as usize)?;
        shown.iter().find(|shown| shown.name == *name).cloned()
    };
    columns.iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::col;

    fn column(name: &str) -> Column {
        Column::from_name(name)
    }

    fn parting(keys: &[&[&str]]) -> Parting {
        let keys = keys.iter().map(|key| key.iter().map(|name| column(name)).collect());
        Parting { tables: vec![TableId(1)], keys: keys.collect() }
    }

    #[test]
    fn keys_of_either_side_say_where_rows_are() {
        let both = parting(&[&["a", "b"], &["x", "y"]]);
        assert!(both.is_within(&[col("x"), col("c"), col("y")]));
        assert!(both.is_within(&[col("b"), col("a")]));
        assert!(!both.is_within(&[col("a"), col("y")]));
        assert!(!parting(&[]).is_within(&[col("a")]));
        // Where some columns of one are left out, those of the other one are left.
        let shown = both.shown(&[col("x"), col("a"), col("y").alias("z")], &["x", "a", "z"].map(column));
        assert_eq!(shown.keys, parting(&[&["x", "z"]]).keys);
        let renamed = both.renamed(&["a", "b", "x"].map(column), &["c", "d", "e"].map(column));
        assert_eq!(renamed.keys, parting(&[&["c", "d"]]).keys);
        assert!(both.shown(&[col("a")], &[column("a")]).keys.is_empty());
    }
}
