//! Distributions of fragments: even, minimal, the same everywhere, and never without a replica.

use crate::common::{cluster, id, ids, node};
use hypostyle_placement::catalog::{Catalog, Change, NewTable, NodeState};
use hypostyle_placement::layout::{
    Bytes, Layout, Step, arrange, bring_back, compact, complete, drain, drop_node, place, place_table,
    rebalance, repair,
};
use hypostyle_placement::partition::Partitioning;
use hypostyle_placement::{FragmentId, NodeId};
use hypostyle_types::{ErrorKind, TableId};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn counts(layout: &Layout, nodes: &[NodeId], takes: usize) -> Vec<usize> {
    let count = |node: &NodeId| layout.iter().filter(|kept| kept[..takes].contains(node)).count();
    nodes.iter().map(count).collect()
}

fn spread(counts: &[usize]) -> usize {
    counts.iter().max().unwrap() - counts.iter().min().unwrap()
}

/// Checks what every distribution promises.
fn check(layout: &Layout, replicas: usize, nodes: &[NodeId]) {
    for kept in layout {
        assert_eq!(kept.len(), replicas);
        assert_eq!(kept.iter().collect::<BTreeSet<_>>().len(), replicas, "two replicas on a node");
        assert!(kept.iter().all(|node| nodes.contains(node)));
    }
    assert!(spread(&counts(layout, nodes, replicas)) <= 1, "replicas: {layout:?}");
    assert!(spread(&counts(layout, nodes, 1)) <= 1, "preferred replicas: {layout:?}");
}

/// Counts the copies that a new distribution needs.
fn copies(before: &Layout, after: &Layout) -> usize {
    let new =
        |(old, new): (&Vec<NodeId>, &Vec<NodeId>)| new.iter().filter(|node| !old.contains(node)).count();
    before.iter().zip(after).map(new).sum()
}

/// Returns the fewest copies after which the nodes are even: each needs a share, and what it lacks
/// has to be copied to it. The larger shares go to the nodes that have most.
fn fewest(before: &Layout, replicas: usize, nodes: &[NodeId]) -> usize {
    let mut loads: Vec<usize> =
        nodes.iter().map(|node| before.iter().filter(|kept| kept.contains(node)).count()).collect();
    loads.sort_by(|a, b| b.cmp(a));
    let total = before.len() * replicas;
    let share = |place: usize| total / nodes.len() + usize::from(place < total % nodes.len());
    loads.iter().enumerate().map(|(place, load)| share(place).saturating_sub(*load)).sum()
}

proptest! {
    #[test]
    fn new_fragments_are_spread_evenly(
        fragments in 1_usize..80, nodes in 1_usize..12, replicas in 1_usize..5,
        loads in prop::collection::vec(0_usize..9, 12),
    ) {
        prop_assume!(replicas <= nodes);
        let loads: BTreeMap<_, _> = (0..nodes).map(|number| (id(number), loads[number])).collect();
        let layout = place(fragments, replicas, &ids(nodes), &loads).unwrap();
        check(&layout, replicas, &ids(nodes));
        prop_assert_eq!(&layout, &place(fragments, replicas, &ids(nodes), &loads).unwrap());
    }

    #[test]
    fn nodes_that_come_and_go_move_as_little_as_can_be(
        fragments in 1_usize..60, before in 1_usize..10, replicas in 1_usize..4,
        stays in prop::collection::vec(any::<bool>(), 10), new in 0_usize..4,
    ) {
        prop_assume!(replicas <= before);
        let old = place(fragments, replicas, &ids(before), &BTreeMap::new()).unwrap();
        let nodes: Vec<_> =
            (0..before).filter(|&number| stays[number]).chain(20..20 + new).map(id).collect();
        prop_assume!(replicas <= nodes.len());
        let layout = arrange(&old, replicas, &nodes, &BTreeMap::new()).unwrap();
        check(&layout, replicas, &nodes);
        prop_assert_eq!(copies(&old, &layout), fewest(&old, replicas, &nodes));
        // Once even, nothing moves.
        prop_assert_eq!(copies(&layout, &arrange(&layout, replicas, &nodes, &BTreeMap::new()).unwrap()), 0);
        // Without levelling, only what is lost is copied.
        let lost: usize = old.iter().flatten().filter(|node| !nodes.contains(node)).count();
        prop_assert_eq!(copies(&old, &complete(&old, replicas, &nodes, &BTreeMap::new()).unwrap()), lost);
    }

    #[test]
    fn any_distribution_becomes_even(
        old in prop::collection::vec(prop::collection::btree_set(0_usize..7, 0..7), 1..40),
        replicas in 1_usize..5,
    ) {
        let old: Layout = old.into_iter().map(|kept| kept.into_iter().map(id).collect()).collect();
        check(&arrange(&old, replicas, &ids(7), &BTreeMap::new()).unwrap(), replicas, &ids(7));
    }
}

#[test]
fn the_queries_of_a_lost_node_go_to_all_others() {
    let layout = place(40, 2, &ids(5), &BTreeMap::new()).unwrap();
    let of_first = layout.iter().filter(|kept| kept.contains(&id(0)));
    let others: BTreeSet<_> = of_first.flatten().filter(|node| **node != id(0)).collect();
    assert_eq!(others.len(), 4);
}

fn create(catalog: &Catalog, name: &str, partitioning: Partitioning, replicas: u32) -> Catalog {
    catalog
        .apply(&place_table(catalog, NewTable::new("main", name, partitioning, replicas)).unwrap())
        .unwrap()
}

/// Takes the steps of a plan, as if all rows were copied.
fn take(mut catalog: Catalog, steps: &[Step]) -> Catalog {
    for step in steps {
        catalog = match *step {
            Step::Copy { fragment, to, .. } => {
                let catalog = catalog.apply(&Change::AddReplica(fragment, to)).unwrap();
                join(catalog, fragment, to)
            }
            Step::CatchUp { fragment, to, .. } => join(catalog, fragment, to),
            Step::Prefer { fragment, node } => catalog.apply(&Change::Prefer(fragment, node)).unwrap(),
            Step::Drop { fragment, node } => catalog.apply(&Change::DropReplica(fragment, node)).unwrap(),
        };
    }
    catalog
}

fn join(catalog: Catalog, fragment: FragmentId, node: NodeId) -> Catalog {
    use hypostyle_placement::catalog::Copied;
    let catalog = catalog.apply(&Change::RestartReplica(fragment, node)).unwrap();
    let catalog = catalog.apply(&Change::Begin { table: fragment.table, statement: None }).unwrap();
    let replica = catalog.replica(fragment, node).unwrap().clone();
    let rows = catalog.fragment(fragment).unwrap().rows;
    let change = Change::Copied(Copied {
        fragment,
        node,
        life: replica.life,
        base: replica.positions,
        positions: replica.positions + rows - replica.rows,
        rows,
        join: Some(catalog.table(fragment.table).unwrap().token),
    });
    catalog.apply(&change).unwrap()
}

fn layout_of(catalog: &Catalog, table: u64) -> Layout {
    let fragments = &catalog.table(TableId(table)).unwrap().fragments;
    fragments.iter().map(|f| f.replicas.iter().map(|replica| replica.node).collect()).collect()
}

fn tables(nodes: usize) -> Catalog {
    let catalog = create(&cluster(nodes), "fact", Partitioning::RoundRobin { fragments: 12 }, 2);
    create(&catalog, "dimension", Partitioning::Replicated, 1)
}

#[test]
fn a_new_node_gets_its_share() {
    let catalog = tables(3).apply(&Change::AddNode(node(3))).unwrap();
    let dimension = FragmentId { table: TableId(2), number: 0 };
    assert_eq!(repair(&catalog).unwrap(), [Step::Copy { fragment: dimension, from: id(0), to: id(3) }]);
    let steps = rebalance(&catalog, None, &Bytes::new()).unwrap();
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Copy { .. })).count(), 6 + 1);
    let catalog = take(catalog, &steps);
    check(&layout_of(&catalog, 1), 2, &ids(4));
    assert_eq!(layout_of(&catalog, 2)[0].len(), 4);
    assert_eq!(rebalance(&catalog, None, &Bytes::new()).unwrap(), []);
    assert_eq!(
        rebalance(&catalog, Some(TableId(7)), &Bytes::new()).unwrap_err().kind(),
        ErrorKind::UnknownName
    );
}

#[test]
fn a_drained_node_can_be_dropped() {
    let catalog = tables(4);
    let refused = catalog.apply(&Change::RemoveNode { node: id(2), force: false }).unwrap_err();
    assert_eq!((refused.kind(), refused.sqlstate()), (ErrorKind::Constraint, "55006"));
    let catalog = catalog.apply(&Change::SetNodeState { node: id(2), state: NodeState::Draining }).unwrap();
    let (steps, change) = drop_node(&catalog, id(2), false).unwrap();
    let catalog = take(catalog, &steps).apply(&change).unwrap();
    assert!(catalog.node(id(2)).is_none());
    check(
        &take(catalog.clone(), &rebalance(&catalog, None, &Bytes::new()).unwrap()).to_layout(),
        2,
        &[id(0), id(1), id(3)],
    );
}

trait ToLayout {
    fn to_layout(&self) -> Layout;
}

impl ToLayout for Catalog {
    fn to_layout(&self) -> Layout {
        layout_of(self, 1)
    }
}

#[test]
fn too_few_nodes_are_refused() {
    let catalog = cluster(2);
    let round_robin = Partitioning::RoundRobin { fragments: 4 };
    let error = place_table(&catalog, NewTable::new("main", "t", round_robin.clone(), 3)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("2 nodes are active"), "{}", error.message());
    assert!(place_table(&catalog, NewTable::new("main", "t", round_robin.clone(), 0)).is_err());
    let catalog = create(&catalog, "t", round_robin, 2);
    assert_eq!(drain(&catalog, id(1)).unwrap_err().kind(), ErrorKind::InvalidInput);
    let alone = create(&cluster(1), "d", Partitioning::Replicated, 1);
    assert_eq!(drain(&alone, id(0)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(drop_node(&alone, id(0), true).unwrap_err().sqlstate(), "55006");
}

#[test]
fn a_lost_node_is_replaced_and_may_come_back() {
    let lost = tables(3).apply(&Change::SetNodeState { node: id(1), state: NodeState::Lost }).unwrap();
    let fact = lost.table(TableId(1)).unwrap();
    assert!(fact.fragments.iter().all(|f| f.in_sync().all(|replica| replica.node != id(1))));
    // Replaced.
    let repaired = take(lost.clone(), &repair(&lost).unwrap());
    assert!(layout_of(&repaired, 1).iter().all(|kept| kept.len() == 2 && !kept.contains(&id(1))));
    let (steps, change) = drop_node(&repaired, id(1), false).unwrap();
    assert_eq!(steps, []);
    assert_eq!(repaired.apply(&change).unwrap().nodes.len(), 2);
    // Back.
    let back = lost.apply(&Change::SetNodeState { node: id(1), state: NodeState::Active }).unwrap();
    let steps = repair(&back).unwrap();
    let is_catch_up = |step: &Step| matches!(step, Step::CatchUp { to, .. } if *to == id(1));
    assert!(steps.iter().filter(|step| !matches!(step, Step::Prefer { .. })).all(is_catch_up));
    let back = take(back, &steps);
    assert!(back.tables.iter().flat_map(|t| &t.fragments).all(|f| f.replicas.iter().all(|r| r.in_sync)));
}

#[test]
fn the_last_replica_is_given_up_only_by_force() {
    let catalog = create(&cluster(2), "t", Partitioning::RoundRobin { fragments: 2 }, 1);
    let catalog = catalog.apply(&Change::SetNodeState { node: id(1), state: NodeState::Lost }).unwrap();
    let error = drop_node(&catalog, id(1), false).unwrap_err();
    assert!(error.message().contains("the last replica"), "{}", error.message());
    assert_eq!(rebalance(&catalog, None, &Bytes::new()).unwrap_err().sqlstate(), "58030");
    assert_eq!(repair(&catalog).unwrap(), []);
    let (_, change) = drop_node(&catalog, id(1), true).unwrap();
    let catalog = catalog.apply(&change).unwrap();
    let lost: Vec<bool> = catalog.tables[0].fragments.iter().map(|fragment| fragment.lost).collect();
    assert_eq!(lost.iter().filter(|lost| **lost).count(), 1);
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
}

/// Returns a cluster with a table of one fragment, whose replicas have so many positions.
fn with_positions(nodes: usize, replicas: u32, rows: u64, positions: &[u64]) -> Catalog {
    let table = NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 1 }, replicas);
    let mut catalog = cluster(nodes);
    catalog = catalog.apply(&place_table(&catalog, table).unwrap()).unwrap();
    let fragment = &mut catalog.tables[0].fragments[0];
    fragment.rows = rows;
    for (replica, positions) in fragment.replicas.iter_mut().zip(positions) {
        (replica.rows, replica.positions) = (rows, *positions);
    }
    catalog.check().unwrap();
    catalog
}

#[test]
fn replicas_of_deleted_rows_are_copied_anew() {
    const MANY: u64 = 200_000;
    let steps = |catalog: &Catalog| compact(catalog, &|_| true);
    let id = FragmentId { table: TableId(1), number: 0 };
    for (rows, positions) in [(10, 60_000), (MANY, MANY + 100_000), (MANY, MANY)] {
        let steps = steps(&with_positions(3, 2, rows, &[positions; 2]));
        assert!(steps.is_empty(), "{rows} of {positions}: {steps:?}");
    }
    // Three nodes, two replicas: the free node has one for a while.
    let catalog = with_positions(3, 2, 10, &[MANY, 10]);
    let nodes: Vec<NodeId> = catalog.tables[0].fragments[0].replicas.iter().map(|of| of.node).collect();
    let free = ids(3).into_iter().find(|node| !nodes.contains(node)).unwrap();
    let copy = |from, to| Step::Copy { fragment: id, from, to };
    let drop = |node| Step::Drop { fragment: id, node };
    let (node, prefer) = (nodes[0], Step::Prefer { fragment: id, node: nodes[0] });
    let expected = [copy(node, free), drop(node), copy(free, node), drop(free), prefer];
    assert_eq!(steps(&catalog), expected);
    assert!(compact(&catalog, &|other| other != free).is_empty(), "nobody has room");
    assert!(compact(&catalog, &|other| other != nodes[1]).is_empty(), "a replica may be needed");
    assert!(steps(&with_positions(2, 2, 10, &[MANY; 2])).is_empty(), "one replica would be left");
    // Of three replicas, two are left.
    let catalog = with_positions(3, 3, 10, &[10, MANY, MANY]);
    let nodes: Vec<NodeId> = catalog.tables[0].fragments[0].replicas.iter().map(|of| of.node).collect();
    assert_eq!(steps(&catalog), [drop(nodes[1]), copy(nodes[0], nodes[1])]);
    let mut more = with_positions(3, 3, 10, &[MANY, 10, 10]);
    more.tables[0].replicas = 2;
    let first = more.tables[0].fragments[0].replicas[0].node;
    assert_eq!(steps(&more), [drop(first)], "it has one replica too many");
    let mut behind = catalog.clone();
    behind.tables[0].fragments[0].replicas[2].in_sync = false;
    assert!(steps(&behind).is_empty());
}

#[test]
fn an_only_replica_is_copied_anew_elsewhere_and_comes_back() {
    const MANY: u64 = 100_000;
    let id = FragmentId { table: TableId(1), number: 0 };
    let catalog = with_positions(2, 1, 10, &[MANY]);
    let home = catalog.tables[0].fragments[0].replicas[0].node;
    let other = ids(2).into_iter().find(|node| *node != home).unwrap();
    let copy = |from, to| Step::Copy { fragment: id, from, to };
    let drop = |node| Step::Drop { fragment: id, node };
    let steps = compact(&catalog, &|_| true);
    assert_eq!(steps, [copy(home, other), drop(home)], "those who read what was before find it");
    assert!(bring_back(&catalog, id, home, other).is_empty(), "it is there");
    let both = after(catalog.clone(), &steps[..1]);
    assert_eq!(bring_back(&both, id, home, other), [drop(other)]);
    let mut behind = both.clone();
    behind.tables[0].fragments[0].replicas.iter_mut().find(|replica| replica.node == home).unwrap().in_sync =
        false;
    let catch_up = Step::CatchUp { fragment: id, from: other, to: home };
    assert_eq!(bring_back(&behind, id, home, other), [catch_up, drop(other)]);
    let away = after(catalog, &steps);
    assert_eq!(bring_back(&away, id, home, other), [copy(other, home), drop(other)]);
    let state = |state| away.apply(&Change::SetNodeState { node: home, state });
    assert!(bring_back(&state(NodeState::Draining).unwrap(), id, home, other).is_empty());
    assert!(bring_back(&away, FragmentId { number: 7, ..id }, home, other).is_empty());
}

/// Returns a table that has these rows in its fragments, of which the first ones are on the first nodes.
fn with_rows(nodes: usize, replicas: u32, rows: &[u64]) -> Catalog {
    let partitioning = Partitioning::RoundRobin { fragments: u32::try_from(rows.len()).unwrap() };
    let table = NewTable::new("main", "t", partitioning, replicas);
    let mut catalog = cluster(nodes);
    catalog = catalog.apply(&place_table(&catalog, table).unwrap()).unwrap();
    for (fragment, rows) in catalog.tables[0].fragments.iter_mut().zip(rows) {
        fragment.rows = *rows;
        for replica in &mut fragment.replicas {
            (replica.rows, replica.positions) = (*rows, *rows);
        }
    }
    catalog.check().unwrap();
    catalog
}

/// Returns the catalog after steps, whose copies have all rows at once.
fn after(mut catalog: Catalog, steps: &[Step]) -> Catalog {
    for step in steps {
        let fragment = &mut catalog.tables[0].fragments[step.fragment().number as usize];
        match step {
            Step::Copy { to, .. } => {
                let copied = fragment.replicas[0].clone();
                fragment.replicas.push(hypostyle_placement::catalog::Replica { node: *to, ..copied });
            }
            Step::Drop { node, .. } => fragment.replicas.retain(|replica| replica.node != *node),
            Step::Prefer { node, .. } => {
                let place = fragment.replicas.iter().position(|replica| replica.node == *node).unwrap();
                fragment.replicas[..=place].rotate_right(1);
            }
            Step::CatchUp { .. } => panic!("all replicas are in sync"),
        }
    }
    catalog.check().unwrap();
    catalog
}

/// Returns the most and the fewest rows of a node.
fn rows_of_nodes(catalog: &Catalog, nodes: &[NodeId]) -> (u64, u64) {
    let rows = |node: &NodeId| -> u64 {
        let fragments = catalog.tables[0].fragments.iter();
        fragments.filter(|fragment| fragment.replica(*node).is_some()).map(|fragment| fragment.rows).sum()
    };
    (nodes.iter().map(rows).max().unwrap(), nodes.iter().map(rows).min().unwrap())
}

proptest! {
    #[test]
    fn nodes_have_about_as_many_rows(
        nodes in 1_usize..7, replicas in 1_usize..4,
        rows in prop::collection::vec(prop_oneof![0_u64..1000, 0_u64..1_000_000, 0_u64..50_000_000], 1..40),
    ) {
        prop_assume!(replicas <= nodes);
        let catalog = with_rows(nodes, u32::try_from(replicas).unwrap(), &rows);
        let all = ids(nodes);
        let even = after(catalog.clone(), &rebalance(&catalog, None, &Bytes::new()).unwrap());
        check(&layout_of(&even, 1), replicas, &all);
        let (before, now) = (rows_of_nodes(&catalog, &all), rows_of_nodes(&even, &all));
        prop_assert!(now.0 - now.1 <= before.0 - before.1, "{before:?} {now:?}");
        prop_assert_eq!(rebalance(&even, None, &Bytes::new()).unwrap(), [], "nothing is left to be done");
    }
}

#[test]
fn fragments_of_wide_rows_are_spread() {
    // As many rows in each fragment, and much wider ones in those of one node.
    let catalog = with_rows(2, 1, &[100_000; 4]);
    let first = layout_of(&catalog, 1)[0][0];
    let replicas = |of: &Catalog| -> Vec<(FragmentId, NodeId)> {
        of.tables[0].numbered().map(|(id, fragment)| (id, fragment.replicas[0].node)).collect()
    };
    let wide: BTreeSet<FragmentId> =
        replicas(&catalog).into_iter().filter(|(_, node)| *node == first).map(|(id, _)| id).collect();
    let bytes = |of: &Catalog| -> Bytes {
        let told = |(id, node): (FragmentId, NodeId)| {
            ((id, node), if wide.contains(&id) { 500_000_000 } else { 1_000_000 })
        };
        replicas(of).into_iter().map(told).collect()
    };
    assert!(rebalance(&catalog, None, &Bytes::new()).unwrap().is_empty(), "nobody has told their bytes");
    let even = after(catalog.clone(), &rebalance(&catalog, None, &bytes(&catalog)).unwrap());
    let on_first = replicas(&even).into_iter().filter(|(id, node)| *node == first && wide.contains(id));
    assert_eq!((wide.len(), on_first.count()), (2, 1));
    assert_eq!(rebalance(&even, None, &bytes(&even)).unwrap(), [], "nothing is left to be done");
    // One that nobody has told weighs as much as the others of as many rows.
    let mut some = bytes(&catalog);
    some.retain(|(id, _), _| wide.contains(id));
    assert!(rebalance(&catalog, None, &some).unwrap().is_empty());
    // Rows that nobody sees do not weigh.
    let mut wasteful = catalog.clone();
    for fragment in &mut wasteful.tables[0].fragments {
        let of_first = fragment.replicas[0].node == first;
        fragment.replicas[0].positions = if of_first { 50_000_000 } else { 100_000 };
    }
    assert!(rebalance(&wasteful, None, &bytes(&wasteful)).unwrap().is_empty());
}

#[test]
fn large_fragments_are_spread() {
    let large = 10_000_000;
    for small in [0, 7, large - 70_000] {
        let catalog = with_rows(2, 1, &[small; 4]);
        let first = layout_of(&catalog, 1)[0].clone();
        let on_first: Vec<bool> = layout_of(&catalog, 1).iter().map(|kept| *kept == first).collect();
        let rows: Vec<u64> = on_first.iter().map(|is| if *is { large } else { small }).collect();
        let catalog = with_rows(2, 1, &rows);
        let steps = rebalance(&catalog, None, &Bytes::new()).unwrap();
        let even = after(catalog, &steps);
        assert_eq!(
            steps.len(),
            if small == large - 70_000 { 0 } else { 4 },
            "one exchange, or none: {small}"
        );
        let (most, fewest) = rows_of_nodes(&even, &ids(2));
        assert!(most - fewest <= 140_000, "{most} {fewest}");
    }
    assert!(
        rebalance(&with_rows(3, 2, &[5, 60_000, 9, 0, 0, 0]), None, &Bytes::new()).unwrap().is_empty(),
        "too few to care"
    );
}
