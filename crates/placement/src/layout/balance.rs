//! Distributes the replicas of one table's fragments over nodes. Everything here is decided by the
//! arguments alone: every node finds the same.

use crate::id::NodeId;
use hypostyle_types::{Error, ErrorKind, Result};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

/// The nodes of each fragment, the preferred one first.
pub type Layout = Vec<Vec<NodeId>>;

/// Returns a distribution of new fragments over nodes. No two replicas of a fragment are on one
/// node. The numbers of replicas of any two nodes differ by at most 1, and so do those of preferred
/// ones. `loads` are the replicas of other tables that the nodes have, which decide between equals.
///
/// # Errors
/// `InvalidInput` if there are fewer nodes than replicas.
pub fn place(
    fragments: usize,
    replicas: usize,
    nodes: &[NodeId],
    loads: &BTreeMap<NodeId, usize>,
) -> Result<Layout> {
    arrange(&vec![Vec::new(); fragments], replicas, nodes, loads)
}

/// Returns the distribution that is reached from another one with the fewest copies, and has what
/// [`place`] promises. Replicas on nodes that are not among `nodes` are given up.
///
/// # Errors
/// `InvalidInput` if there are fewer nodes than replicas.
pub fn arrange(
    current: &[Vec<NodeId>],
    replicas: usize,
    nodes: &[NodeId],
    loads: &BTreeMap<NodeId, usize>,
) -> Result<Layout> {
    let mut balance = Balance::filled(current, replicas, nodes, loads)?;
    balance.level();
    Ok(balance.finish())
}

/// Returns the distribution in which each fragment has the right number of replicas, and none has
/// moved that is on one of the nodes. It need not be even.
///
/// # Errors
/// `InvalidInput` if there are fewer nodes than replicas.
pub fn complete(
    current: &[Vec<NodeId>],
    replicas: usize,
    nodes: &[NodeId],
    loads: &BTreeMap<NodeId, usize>,
) -> Result<Layout> {
    Ok(Balance::filled(current, replicas, nodes, loads)?.finish())
}

fn check(replicas: usize, nodes: &[NodeId]) -> Result<()> {
    if replicas == 0 || replicas > nodes.len() {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!(
                "{replicas} replicas of each fragment are asked for, and {} nodes are active: add nodes, or ask for \
                 1 to {} replicas",
                nodes.len(),
                nodes.len()
            ),
        )
        .with_sqlstate("22023"));
    }
    Ok(())
}

struct Balance<'a> {
    layout: Layout,
    /// The replicas that are there already.
    current: &'a [Vec<NodeId>],
    nodes: &'a [NodeId],
    others: &'a BTreeMap<NodeId, usize>,
    /// The replicas of this table, by node.
    loads: BTreeMap<NodeId, usize>,
    /// The fragments that two nodes share, by the nodes.
    pairs: BTreeMap<(NodeId, NodeId), usize>,
}

impl<'a> Balance<'a> {
    /// Returns the distribution in which each fragment has the right number of replicas, and none has
    /// moved that is on one of the nodes.
    fn filled(
        current: &'a [Vec<NodeId>],
        replicas: usize,
        nodes: &'a [NodeId],
        loads: &'a BTreeMap<NodeId, usize>,
    ) -> Result<Self> {
        check(replicas, nodes)?;
        let mut balance = Self::new(current, nodes, loads);
        balance.fill(replicas);
        balance.trim(replicas);
        Ok(balance)
    }

    /// Returns the layout, with the preferred replicas in front.
    fn finish(self) -> Layout {
        let mut layout = self.layout;
        primaries(&mut layout, self.nodes);
        layout
    }

    fn new(current: &'a [Vec<NodeId>], nodes: &'a [NodeId], others: &'a BTreeMap<NodeId, usize>) -> Self {
        let layout = vec![Vec::new(); current.len()];
        let mut balance =
            Self { layout, current, nodes, others, loads: BTreeMap::new(), pairs: BTreeMap::new() };
        for (number, kept) in current.iter().enumerate() {
            for &node in kept.iter().filter(|node| nodes.contains(node)) {
                balance.add(number, node);
            }
        }
        balance
    }

    fn load(&self, node: NodeId) -> usize {
        self.loads.get(&node).copied().unwrap_or(0)
    }

    /// What else a node has, which decides between nodes that have equally much of this table.
    fn other(&self, node: NodeId) -> usize {
        self.others.get(&node).copied().unwrap_or(0)
    }

    /// Returns how many fragments have replicas on both nodes. A lost node's queries go to the
    /// nodes that share fragments with it: to all of them, if every node shares some with every
    /// other.
    fn shared(&self, a: NodeId, b: NodeId) -> usize {
        self.pairs.get(&(a.min(b), a.max(b))).copied().unwrap_or(0)
    }

    /// Returns the node that a further replica of a fragment goes to.
    fn emptiest(&self, kept: &[NodeId]) -> Option<NodeId> {
        self.nodes.iter().copied().filter(|node| !kept.contains(node)).min_by_key(|&node| {
            let shared: usize = kept.iter().map(|&other| self.shared(node, other)).sum();
            (self.load(node), shared, self.other(node))
        })
    }

    /// Adds the replicas that are missing.
    fn fill(&mut self, replicas: usize) {
        for number in 0..self.layout.len() {
            loop {
                let kept = self.layout.get(number).cloned().unwrap_or_default();
                let Some(node) = self.emptiest(&kept).filter(|_| kept.len() < replicas) else { break };
                self.add(number, node);
            }
        }
    }

    /// Takes away the replicas that are too many, from the fullest nodes.
    fn trim(&mut self, replicas: usize) {
        for number in 0..self.layout.len() {
            loop {
                let kept = self.layout.get(number).cloned().unwrap_or_default();
                let fullest = kept.iter().copied().max_by_key(|&node| (self.load(node), self.other(node)));
                let Some(node) = fullest.filter(|_| kept.len() > replicas) else { break };
                self.remove(number, node);
            }
        }
    }

    /// Makes the nodes even: no two differ by more than 1. Replicas that are not there yet are
    /// passed on first, which costs nothing. Then some are moved from the fullest node to the
    /// emptiest; each of these moves takes one from a node that has too many, which has to give one
    /// in any plan.
    fn level(&mut self) {
        while self.pass_on() || self.move_one() {}
    }

    /// Moves a replica from the fullest node to the emptiest, if they differ by more than 1. There
    /// is always one to move: the fuller node has a fragment that the other has not.
    fn move_one(&mut self) -> bool {
        let key = |&node: &NodeId| (self.load(node), self.other(node));
        let full = self.nodes.iter().copied().rev().max_by_key(key);
        let empty = self.nodes.iter().copied().min_by_key(key);
        let (Some(full), Some(empty)) = (full, empty) else { return false };
        if self.load(full) <= self.load(empty) + 1 {
            return false;
        }
        let movable = |kept: &&Vec<NodeId>| kept.contains(&full) && !kept.contains(&empty);
        let candidates = self.layout.iter().enumerate().filter(|(_, kept)| movable(kept));
        let best = candidates.min_by_key(|(number, kept)| {
            let others = kept.iter().filter(|&&node| node != full);
            let shared: usize = others.map(|&node| self.shared(node, empty)).sum();
            // One that was there costs nothing.
            (!self.is_there(*number, empty), shared)
        });
        let Some((number, _)) = best else { return false };
        self.remove(number, full);
        self.add(number, empty);
        true
    }

    /// Passes a replica that is not there yet from a node to one that has less, over others if need
    /// be: each of these passes one on, too.
    fn pass_on(&mut self) -> bool {
        let mut nodes = self.nodes.to_vec();
        nodes.sort_by_key(|&node| (Reverse(self.load(node)), node));
        for from in nodes {
            if let Some(chain) = self.chain(from) {
                for (number, giver, taker) in chain {
                    self.remove(number, giver);
                    self.add(number, taker);
                }
                return true;
            }
        }
        false
    }

    /// Returns the shortest chain of fragments along which a node can pass one on, the last first.
    fn chain(&self, from: NodeId) -> Option<Vec<(usize, NodeId, NodeId)>> {
        // How each node was reached: the fragment that it gets, and from whom.
        let mut reached: BTreeMap<NodeId, (usize, NodeId)> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(giver) = queue.pop_front() {
            if self.load(giver) + 1 < self.load(from) {
                let mut chain = Vec::new();
                let mut taker = giver;
                while let Some(&(number, before)) = reached.get(&taker).filter(|_| taker != from) {
                    chain.push((number, before, taker));
                    taker = before;
                }
                return Some(chain);
            }
            for (number, kept) in self.layout.iter().enumerate() {
                if !kept.contains(&giver) || self.is_there(number, giver) {
                    continue;
                }
                for &taker in self.nodes.iter().filter(|&node| *node != from && !kept.contains(node)) {
                    if let Entry::Vacant(place) = reached.entry(taker) {
                        place.insert((number, giver));
                        queue.push_back(taker);
                    }
                }
            }
        }
        None
    }

    fn is_there(&self, number: usize, node: NodeId) -> bool {
        self.current.get(number).is_some_and(|kept| kept.contains(&node))
    }

    fn add(&mut self, number: usize, node: NodeId) {
        if let Some(kept) = self.layout.get_mut(number) {
            for &other in kept.iter() {
                *self.pairs.entry((node.min(other), node.max(other))).or_default() += 1;
            }
            kept.push(node);
            *self.loads.entry(node).or_default() += 1;
        }
    }

    fn remove(&mut self, number: usize, node: NodeId) {
        let Some(kept) = self.layout.get_mut(number) else { return };
        kept.retain(|&other| other != node);
        let less = |count: &mut usize| *count = count.saturating_sub(1);
        self.loads.entry(node).and_modify(less);
        for &other in kept.iter() {
            self.pairs.entry((node.min(other), node.max(other))).and_modify(less);
        }
    }
}

/// Puts the preferred node of each fragment first, so that the nodes' numbers of preferred
/// fragments differ by as little as they can. It copies nothing. As long as two nodes differ by
/// more than 1, it looks for a chain of fragments along which one can be passed on, as in a flow of
/// least cost; with balanced replicas there is one.
pub fn primaries(layout: &mut [Vec<NodeId>], nodes: &[NodeId]) {
    loop {
        let mut counts: BTreeMap<NodeId, usize> = nodes.iter().map(|&node| (node, 0)).collect();
        for node in layout.iter().filter_map(|kept| kept.first()) {
            *counts.entry(*node).or_default() += 1;
        }
        let mut full: Vec<(usize, NodeId)> = counts.iter().map(|(&node, &count)| (count, node)).collect();
        full.sort_by(|a, b| b.cmp(a));
        let passed = full.iter().any(|&(count, node)| {
            let is_poor = |other: NodeId| counts.get(&other).is_some_and(|&own| own + 1 < count);
            pass_on(layout, node, &is_poor)
        });
        if !passed {
            return;
        }
    }
}

/// Passes the first place of fragments on, from a node to one that is poor, along the shortest
/// chain.
fn pass_on(layout: &mut [Vec<NodeId>], from: NodeId, is_poor: &dyn Fn(NodeId) -> bool) -> bool {
    // How each node was reached: the fragment whose first place it gets.
    let mut reached: BTreeMap<NodeId, (usize, NodeId)> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(giver) = queue.pop_front() {
        if is_poor(giver) {
            let mut taker = giver;
            while let Some(&(number, before)) = reached.get(&taker).filter(|_| taker != from) {
                if let Some(kept) = layout.get_mut(number) {
                    kept.retain(|&node| node != taker);
                    kept.insert(0, taker);
                }
                taker = before;
            }
            return true;
        }
        let owned = layout.iter().enumerate().filter(|(_, kept)| kept.first() == Some(&giver));
        for (number, kept) in owned {
            for &node in kept.iter().skip(1) {
                if node != from && !reached.contains_key(&node) {
                    reached.insert(node, (number, giver));
                    queue.push_back(node);
                }
            }
        }
    }
    false
}
