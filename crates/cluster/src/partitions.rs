//! Finds the partitions of a query: parts of its rows that are read by themselves, with tickets
//! ([`hypostyle_placement::ticket`]).

use crate::distribute::parted;
use crate::gather::{Placing, Share};
use crate::node::Node;
use crate::table::PartitionedTable;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use hypostyle_error::external;
use hypostyle_exec::scan::StoredTable;
use hypostyle_expr::portable::Functions;
use hypostyle_placement::NodeId;
use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::ticket::{Rows, TableRows};
use hypostyle_types::TableId;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What the rows of a query depend on.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// The tables of the cluster that it reads.
    pub tables: BTreeSet<TableId>,
    /// Whether they depend on something else: on other tables, on the time, on functions that only this
    /// node has.
    pub others: bool,
}

/// Returns what the rows of a query depend on, by its plan before it is optimized.
///
/// # Errors
/// Those of a walk over a plan.
pub fn reads(plan: &LogicalPlan, functions: &Functions) -> Result<Reads> {
    let mut found = Reads::default();
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::TableScan(scan) => {
                let provider = source_as_provider(&scan.source)?;
                let partitioned = provider.downcast_ref::<PartitionedTable>().map(PartitionedTable::id);
                let replicated = provider.downcast_ref::<StoredTable>().and_then(StoredTable::replicated);
                match partitioned.or(replicated) {
                    Some(id) => _ = found.tables.insert(id),
                    None => found.others = true,
                }
            }
            // What it stands for is not known.
            LogicalPlan::Extension(_) => found.others = true,
            _ => {}
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found.others |= !is_fixed(part, functions);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

/// Says whether an expression has one value for the same rows, on each node and at any time.
fn is_fixed(part: &Expr, functions: &Functions) -> bool {
    match part {
        Expr::ScalarFunction(ScalarFunction { func, .. }) => {
            func.signature().volatility == Volatility::Immutable && functions.encode(func.as_ref()).is_ok()
        }
        Expr::ScalarVariable(..) | Expr::Placeholder(_) => false,
        _ => true,
    }
}

/// A part of a query's rows.
#[derive(Debug)]
pub struct Partition {
    /// The node that has most of them; `None` if none is better than the others.
    pub node: Option<NodeId>,
    /// What is read for them.
    pub rows: Rows,
}

/// Returns the partitions of a query that reads these tables of the cluster and nothing else, by its
/// optimized plan: one for each node that has fragments, if its rows are those over each fragment together;
/// otherwise one with all rows.
///
/// # Errors
/// `Io` (58030) if no node has a fragment; those of DataFusion.
pub fn partitions(
    plan: &LogicalPlan,
    tables: &BTreeSet<TableId>,
    (node, catalog): (&Arc<Node>, &Arc<Catalog>),
    state: &SessionState,
) -> Result<Vec<Partition>> {
    let apart: BTreeSet<TableId> = parted(plan, state)?.unwrap_or_default().into_iter().collect();
    let with_rows = catalog.tables.iter().filter(|table| apart.contains(&table.id));
    let with_rows = with_rows.flat_map(|table| table.numbered()).filter(|(_, fragment)| fragment.rows > 0);
    let with_rows: BTreeSet<u32> = with_rows.map(|(id, _)| id.number).collect();
    let whole = |node: Option<NodeId>, numbers: Option<&BTreeSet<u32>>| {
        let read = catalog.tables.iter().filter(|table| tables.contains(&table.id));
        let read = read.map(|table| TableRows::of(table, numbers.filter(|_| apart.contains(&table.id))));
        let member = catalog.node(node.unwrap_or(catalog.coordinator));
        Partition {
            node,
            rows: Rows {
                cluster: catalog.cluster,
                epoch: catalog.epoch,
                address: member.map_or_else(String::new, |member| member.address.clone()),
                tables: read.collect(),
            },
        }
    };
    if with_rows.is_empty() {
        return Ok(vec![whole(None, None)]);
    }
    let placing = Placing::new(node.clone(), catalog.clone(), apart.iter().copied().collect());
    let numbers: Vec<u32> = with_rows.into_iter().collect();
    let shares = placing.share(&numbers, &BTreeSet::new()).map_err(external)?;
    let partition = |share: Share| {
        let numbers: BTreeSet<u32> = share.fragments.into_iter().collect();
        whole(Some(share.node), Some(&numbers))
    };
    Ok(shares.into_iter().map(partition).collect())
}
