//! Plans the steps that ALTER CLUSTER takes.

use super::balance::{Layout, arrange, complete, place};
use super::weight::{Bytes, ROW_BYTES, weights};
use crate::catalog::{Catalog, Change, Fragment, NewTable, Replica, Table};
use crate::id::{FragmentId, NodeId};
use crate::partition::Partitioning;
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use std::collections::BTreeMap;

/// Two nodes exchange fragments if that moves so many bytes, and such a part of what each node should have.
const EXCHANGED_MIN: u64 = ROW_BYTES << 16;
const EXCHANGED_PART: u64 = 16;

/// The most exchanges of a table that are planned at once.
const EXCHANGES_MAX: usize = 256;

/// Fewer rows that nobody sees are not worth a copy of the others.
const WASTED_MIN: u64 = 1 << 16;

/// A step of a plan. Each leaves every fragment readable.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Copies a fragment to a node: [`Change::AddReplica`], its rows, and [`Change::Copied`].
    Copy {
        /// The fragment.
        fragment: FragmentId,
        /// A node that has it, whose replica is in sync.
        from: NodeId,
        /// The node that gets it.
        to: NodeId,
    },
    /// Catches up the replica of a node: [`Change::RestartReplica`], the missing rows, and
    /// [`Change::Copied`].
    CatchUp {
        /// The fragment.
        fragment: FragmentId,
        /// A node whose replica is in sync.
        from: NodeId,
        /// The node whose replica is not.
        to: NodeId,
    },
    /// Makes a node the preferred one of a fragment: [`Change::Prefer`].
    Prefer {
        /// The fragment.
        fragment: FragmentId,
        /// The node.
        node: NodeId,
    },
    /// Drops the replica of a node, once the copies before it are in sync and no reader has an
    /// epoch that needs it: [`Change::DropReplica`].
    Drop {
        /// The fragment.
        fragment: FragmentId,
        /// The node.
        node: NodeId,
    },
}

impl Step {
    /// Returns the fragment whose replicas change.
    pub fn fragment(&self) -> FragmentId {
        match self {
            Self::Copy { fragment, .. }
            | Self::CatchUp { fragment, .. }
            | Self::Prefer { fragment, .. }
            | Self::Drop { fragment, .. } => *fragment,
        }
    }

    /// Returns the node that gets rows, if one does.
    pub fn receiver(&self) -> Option<NodeId> {
        match self {
            Self::Copy { to, .. } | Self::CatchUp { to, .. } => Some(*to),
            Self::Prefer { .. } | Self::Drop { .. } => None,
        }
    }
}

/// Returns the change that creates a table with its fragments distributed over the active nodes.
///
/// # Errors
/// `InvalidInput` if there are fewer active nodes than replicas, or the partitioning cannot be.
pub fn place_table(catalog: &Catalog, table: NewTable) -> Result<Change> {
    let (partitioning, replicas) = (&table.partitioning, table.replicas);
    partitioning.check()?;
    let nodes = catalog.active_nodes();
    let layout = match *partitioning {
        Partitioning::Replicated => vec![nodes],
        _ => {
            let fragments = usize::try_from(partitioning.fragments()).unwrap_or(0);
            let wanted = usize::try_from(replicas).unwrap_or(usize::MAX);
            place(fragments, wanted, &nodes, &loads(catalog, None))?
        }
    };
    Ok(Change::CreateTable { table, nodes: layout })
}

/// Returns the steps after which all tables, or one, are distributed evenly over the active nodes: by the
/// numbers of fragments, and by their bytes, as nodes have told them, as far as exchanges of fragments make
/// these even.
///
/// # Errors
/// `UnknownName` if there is no such table, `InvalidInput` if there are fewer active nodes than
/// replicas, `Io` (58030) naming a fragment that no node has which is there.
pub fn rebalance(catalog: &Catalog, table: Option<TableId>, bytes: &Bytes) -> Result<Vec<Step>> {
    if let Some(id) = table.filter(|&id| catalog.table(id).is_none()) {
        return Err(Error::new(ErrorKind::UnknownName, format!("there is no table {id} in the cluster")));
    }
    let planner = Planner { evens: Some(bytes), target: arrange, ..Planner::new(catalog) };
    planner.plan(catalog.tables.iter().filter(|found| table.is_none_or(|id| found.id == id)))
}

/// Returns the steps after which a node has no replica. Other replicas stay where they are.
///
/// # Errors
/// Those of [`rebalance`], and `UnknownName` if there is no such node.
pub fn drain(catalog: &Catalog, node: NodeId) -> Result<Vec<Step>> {
    if catalog.node(node).is_none() {
        return Err(Error::new(ErrorKind::UnknownName, format!("there is no node {node}")));
    }
    let mut nodes = catalog.active_nodes();
    nodes.retain(|&other| other != node);
    let planner = Planner { nodes, ..Planner::new(catalog) };
    planner.plan(catalog.tables.iter().filter(|table| has_replica_on(table, node)))
}

/// Returns the steps after which each fragment has as many replicas as its table asks for, or as there are
/// active nodes, on these: after a node was lost or added, or came back. Fragments that no node has which is
/// there are left out.
///
/// # Errors
/// `InvalidInput` if no node is active.
pub fn repair(catalog: &Catalog) -> Result<Vec<Step>> {
    let planner = Planner { repairs: true, ..Planner::new(catalog) };
    planner.plan(catalog.tables.iter())
}

/// Returns the steps after which replicas have no rows any more that nobody sees, of those of which these are
/// more than half: one replica of each fragment is copied anew, in its place. A fragment of three replicas
/// has one less meanwhile; one of two first gets a replica more, on a node that is there. The only replica of
/// a fragment moves to such a node, so that those who read it find what was before; [`bring_back`] says how
/// it comes back.
pub fn compact(catalog: &Catalog, is_there: &dyn Fn(NodeId) -> bool) -> Vec<Step> {
    let active: Vec<NodeId> = catalog.active_nodes().into_iter().filter(|node| is_there(*node)).collect();
    let (loads, mut steps) = (loads(catalog, None), Vec::new());
    let fragments = catalog.tables.iter().flat_map(|table| table.numbered().map(move |of| (table, of)));
    for (table, (id, found)) in fragments {
        // As long as something else is to be done, all that there is may be needed.
        let is_in_order = |replica: &Replica| replica.in_sync && active.contains(&replica.node);
        let Some(wasteful) = found.replicas.iter().find(|replica| is_wasteful(replica)) else { continue };
        if !found.replicas.iter().all(is_in_order) {
            continue;
        }
        let node = wasteful.node;
        let other = found.replicas.iter().map(|replica| replica.node).find(|other| *other != node);
        let free = active.iter().copied().filter(|node| found.replica(*node).is_none());
        let free = free.min_by_key(|node| loads.get(node).copied().unwrap_or_default());
        let copy = |from, to| Step::Copy { fragment: id, from, to };
        let drop = |node| Step::Drop { fragment: id, node };
        let wanted = match table.partitioning {
            Partitioning::Replicated => usize::MAX,
            _ => usize::try_from(table.replicas).unwrap_or(usize::MAX),
        };
        match (other, free) {
            // An attempt before has not come to its end.
            _ if found.replicas.len() > wanted => steps.push(drop(node)),
            (Some(other), _) if found.replicas.len() > 2 => steps.extend([drop(node), copy(other, node)]),
            (Some(_), Some(free)) => {
                steps.extend([copy(node, free), drop(node), copy(free, node), drop(free)])
            }
            (None, Some(free)) => {
                steps.extend([copy(node, free), drop(node)]);
                continue;
            }
            (_, None) => continue,
        }
        let is_kept = found.replicas.len() <= wanted;
        if is_kept && found.replicas.first().is_some_and(|first| first.node == node) {
            steps.push(Step::Prefer { fragment: id, node });
        }
    }
    steps
}

/// Returns the steps by which the only replica of a fragment comes back to the node that [`compact`] has
/// moved it from, if it still is where that has moved it to.
pub fn bring_back(catalog: &Catalog, fragment: FragmentId, from: NodeId, to: NodeId) -> Vec<Step> {
    let found = catalog.fragment(fragment).filter(|_| catalog.active_nodes().contains(&from));
    let Some(found) = found.filter(|found| found.replica(to).is_some_and(|replica| replica.in_sync)) else {
        return Vec::new();
    };
    let leave = Step::Drop { fragment, node: to };
    match (found.replicas.len(), found.replica(from)) {
        (1, None) => vec![Step::Copy { fragment, from: to, to: from }, leave],
        // An attempt before has not come to its end.
        (2, Some(replica)) if replica.in_sync => vec![leave],
        (2, Some(_)) => vec![Step::CatchUp { fragment, from: to, to: from }, leave],
        _ => Vec::new(),
    }
}

fn is_wasteful(replica: &Replica) -> bool {
    let wasted = replica.positions.saturating_sub(replica.rows);
    wasted >= WASTED_MIN && wasted > replica.rows
}

/// Returns the steps before a node is removed, and the change that removes it. With `force` there
/// are no steps: the node's replicas are forgotten, and [`repair`] makes new ones from the others.
///
/// # Errors
/// Those of [`drain`]; `Constraint` (55006) if it is the coordinator, or if it is lost and has the
/// last replica in sync of a fragment, which only `force` gives up.
pub fn drop_node(catalog: &Catalog, node: NodeId, force: bool) -> Result<(Vec<Step>, Change)> {
    let change = Change::RemoveNode { node, force };
    if force || catalog.is_lost(node) || node == catalog.coordinator {
        // Refuses now what it would refuse in the end.
        catalog.apply(&change)?;
        return Ok((Vec::new(), change));
    }
    Ok((drain(catalog, node)?, change))
}

fn has_replica_on(table: &Table, node: NodeId) -> bool {
    table.fragments.iter().any(|fragment| fragment.replica(node).is_some())
}

/// Counts the replicas of each node, but for those of one table.
fn loads(catalog: &Catalog, except: Option<TableId>) -> BTreeMap<NodeId, usize> {
    let mut loads = BTreeMap::new();
    let tables = catalog.tables.iter().filter(|table| Some(table.id) != except);
    for replica in tables.flat_map(|table| &table.fragments).flat_map(|fragment| &fragment.replicas) {
        *loads.entry(replica.node).or_default() += 1;
    }
    loads
}

/// Finds the nodes that the fragments of a table should be on: [`arrange`] or [`complete`].
type Target = fn(&[Vec<NodeId>], usize, &[NodeId], &BTreeMap<NodeId, usize>) -> Result<Layout>;

struct Planner<'a> {
    catalog: &'a Catalog,
    /// The nodes that may have replicas in the end.
    nodes: Vec<NodeId>,
    target: Target,
    /// It does what it can: with as many replicas as there can be, and without fragments that nobody has.
    repairs: bool,
    /// Nodes exchange fragments, so that they have as many bytes as others, as far as these are known.
    evens: Option<&'a Bytes>,
}

impl<'c> Planner<'c> {
    /// Returns what leaves replicas where they are, as far as it can.
    fn new(catalog: &'c Catalog) -> Self {
        let nodes = catalog.active_nodes();
        Self { catalog, nodes, target: complete, repairs: false, evens: None }
    }

    fn plan<'a>(&self, tables: impl Iterator<Item = &'a Table>) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        for table in tables {
            let mut plan = || {
                let wanted = self.wanted(table)?;
                table.numbered().zip(&wanted).try_for_each(|((id, fragment), nodes)| {
                    self.fragment_steps(id, fragment, nodes, &mut steps)
                })
            };
            plan().map_err(|error: Error| {
                error.context(format_args!("table \"{}\".\"{}\"", table.schema, table.name))
            })?;
        }
        Ok(steps)
    }

    /// Returns the nodes that the fragments of a table should be on.
    fn wanted(&self, table: &Table) -> Result<Layout> {
        let nodes_of = |fragment: &Fragment| fragment.replicas.iter().map(|replica| replica.node).collect();
        let current: Layout = table.fragments.iter().map(nodes_of).collect();
        let others = loads(self.catalog, Some(table.id));
        let replicas = match table.partitioning {
            // At least one, so that the last node is not emptied.
            Partitioning::Replicated => self.nodes.len().max(1),
            _ => usize::try_from(table.replicas).unwrap_or(usize::MAX),
        };
        let replicas = if self.repairs { replicas.min(self.nodes.len().max(1)) } else { replicas };
        let mut wanted = (self.target)(&current, replicas, &self.nodes, &others)?;
        // Rows are spread evenly by a hash, and fragments of tables that are joined stay together.
        if let Some(bytes) = self.evens.filter(|_| !matches!(table.partitioning, Partitioning::Hash { .. })) {
            even_out(&mut wanted, &weights(table, bytes), &self.nodes);
        }
        Ok(wanted)
    }

    fn fragment_steps(
        &self,
        id: FragmentId,
        fragment: &Fragment,
        wanted: &[NodeId],
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let Some(source) = fragment.in_sync().find(|replica| !self.catalog.is_lost(replica.node)) else {
            return if self.repairs { Ok(()) } else { Err(unreadable(self.catalog, id, fragment)) };
        };
        let from = source.node;
        // The replicas as they will be, in their order.
        let mut nodes: Vec<NodeId> = fragment.replicas.iter().map(|replica| replica.node).collect();
        for &to in wanted {
            match fragment.replica(to) {
                Some(replica) if replica.in_sync => {}
                Some(_) => steps.push(Step::CatchUp { fragment: id, from, to }),
                None => {
                    nodes.push(to);
                    steps.push(Step::Copy { fragment: id, from, to });
                }
            }
        }
        for node in nodes.iter().copied().filter(|node| !wanted.contains(node)) {
            steps.push(Step::Drop { fragment: id, node });
        }
        nodes.retain(|node| wanted.contains(node));
        if let Some(&first) = wanted.first().filter(|first| nodes.first() != Some(first)) {
            steps.push(Step::Prefer { fragment: id, node: first });
        }
        Ok(())
    }
}

/// Has nodes exchange fragments until none has much more weight than another, as far as that makes them so.
/// How many fragments each of them has, and prefers, stays as it is.
fn even_out(layout: &mut [Vec<NodeId>], weights: &[u64], nodes: &[NodeId]) {
    let of_fragments = |kept: &Vec<NodeId>, weight: &u64| weight.saturating_mul(kept.len() as u64);
    let all = layout
        .iter()
        .zip(weights)
        .fold(0_u64, |all, (kept, weight)| all.saturating_add(of_fragments(kept, weight)));
    let share = all.checked_div(nodes.len() as u64).unwrap_or_default();
    let least = (share / EXCHANGED_PART).max(EXCHANGED_MIN);
    for _ in 0..EXCHANGES_MAX {
        let mut loads: BTreeMap<NodeId, u64> = nodes.iter().map(|node| (*node, 0)).collect();
        for (node, weight) in
            layout.iter().zip(weights).flat_map(|(kept, weight)| kept.iter().map(move |node| (node, weight)))
        {
            if let Some(load) = loads.get_mut(node) {
                *load = load.saturating_add(*weight);
            }
        }
        let heaviest = loads.iter().max_by_key(|(node, load)| (**load, **node));
        let lightest = loads.iter().min_by_key(|(node, load)| (**load, **node));
        let Some(((&heavy, most), (&light, fewest))) = heaviest.zip(lightest) else { return };
        let exchange = best_exchange(layout, weights, (heavy, light), (least, most - fewest));
        let Some([given, taken]) = exchange else { return };
        for ((fragment, place), node) in [(given, light), (taken, heavy)] {
            if let Some(kept) = layout.get_mut(fragment).and_then(|kept| kept.get_mut(place)) {
                *kept = node;
            }
        }
    }
}

/// A fragment, and the place of a node among those that have it.
type Kept = (usize, usize);

/// Returns the fragment that one node gives another, and the one that it takes, so that the difference of
/// their weights becomes as small as it can; `None` if no exchange is worth it.
fn best_exchange(
    layout: &[Vec<NodeId>],
    weights: &[u64],
    (heavy, light): (NodeId, NodeId),
    (least, difference): (u64, u64),
) -> Option<[Kept; 2]> {
    // The fragments that one node has and the other has not.
    let of_one = |one: NodeId, other: NodeId| -> Vec<(Kept, u64)> {
        let fragments = layout.iter().zip(weights).enumerate();
        let found = fragments.filter_map(|(fragment, (kept, weight))| {
            let place = kept.iter().position(|node| *node == one)?;
            (!kept.contains(&other)).then_some(((fragment, place), *weight))
        });
        found.collect()
    };
    let (heavies, lights) = (of_one(heavy, light), of_one(light, heavy));
    let mut best: Option<(u64, [Kept; 2])> = None;
    for &(given, more) in &heavies {
        for &(taken, fewer) in &lights {
            let moved = more.saturating_sub(fewer);
            let are_alike = (given.1 == 0) == (taken.1 == 0);
            if !are_alike || moved < least || moved >= difference {
                continue;
            }
            let left = difference.abs_diff(moved.saturating_mul(2));
            if best.is_none_or(|(before, _)| left < before) {
                best = Some((left, [given, taken]));
            }
        }
    }
    best.map(|(_, exchange)| exchange)
}

fn unreadable(catalog: &Catalog, id: FragmentId, fragment: &Fragment) -> Error {
    let name = |replica: &Replica| {
        catalog.node(replica.node).map_or_else(|| replica.node.to_string(), |node| node.name.clone())
    };
    let names: Vec<String> = fragment.replicas.iter().map(name).collect();
    Error::new(
        ErrorKind::Io,
        format!("{id} is on no node that is there; its replicas are on: {}", names.join(", ")),
    )
}
