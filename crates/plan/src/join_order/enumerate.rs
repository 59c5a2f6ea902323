//! Orders of joins over a graph of relations: the cheapest of all that join only what is connected,
//! by dynamic programming over pairs of connected subgraphs (DPccp; Moerkotte and Neumann, VLDB
//! 2006), and for many relations a good one, by joining greedily what has the fewest rows.

/// A set of relations, by the bits of their numbers.
pub type Set = u64;

/// Relations up to which all orders are compared.
const EXHAUSTIVE_MAX: usize = 10;

/// An order of joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tree {
    Relation(usize),
    Join(Box<Self>, Box<Self>),
}

impl Tree {
    pub fn join(left: Self, right: Self) -> Self {
        Self::Join(Box::new(left), Box::new(right))
    }

    pub fn set(&self) -> Set {
        match self {
            Self::Relation(number) => 1 << number,
            Self::Join(left, right) => left.set() | right.set(),
        }
    }
}

/// What an order is judged by.
pub trait Costs {
    /// Returns the rows of the join of some relations.
    fn rows(&mut self, set: Set) -> f64;

    /// Returns what it costs to join two sets, without what each of them costs.
    fn join(&mut self, left: Set, right: Set) -> f64;
}

/// Returns the cost of an order.
pub fn cost(tree: &Tree, costs: &mut impl Costs) -> f64 {
    match tree {
        Tree::Relation(_) => 0.0,
        Tree::Join(left, right) => {
            let below = cost(left, costs) + cost(right, costs);
            below + costs.join(left.set(), right.set())
        }
    }
}

/// Returns an order for a connected graph, in which each relation has a set of neighbours. The same
/// graph has the same order each time.
pub fn best_order(neighbours: &[Set], costs: &mut impl Costs) -> Option<Tree> {
    match neighbours.len() {
        0 => None,
        count if count <= EXHAUSTIVE_MAX => exhaustive(neighbours, costs),
        _ => greedy(neighbours, costs),
    }
}

/// Says whether all relations are connected.
pub fn is_connected(neighbours: &[Set]) -> bool {
    let all = all_of(neighbours.len());
    let mut known: Set = all & 1;
    loop {
        let next = known | neighbours_of(neighbours, known);
        if next == known {
            return known == all;
        }
        known = next;
    }
}

fn all_of(count: usize) -> Set {
    if count >= 64 { Set::MAX } else { (1 << count) - 1 }
}

/// Returns the numbers of the relations of a set, in order.
pub fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let number = set.trailing_zeros() as usize;
        (set != 0).then(|| {
            set &= set - 1;
            number
        })
    })
}

fn neighbours_of(neighbours: &[Set], set: Set) -> Set {
    members(set).fold(0, |all, number| all | neighbours[number]) & !set
}

fn exhaustive(neighbours: &[Set], costs: &mut impl Costs) -> Option<Tree> {
    let all = all_of(neighbours.len());
    let mut best: Vec<Option<(f64, Tree)>> = vec![None; all as usize + 1];
    for number in 0..neighbours.len() {
        best[1 << number] = Some((0.0, Tree::Relation(number)));
    }
    let mut pairs = pairs(neighbours);
    // Each set is joined of sets that are complete.
    pairs.sort_by_key(|(one, other)| (one | other).count_ones());
    for (one, other) in pairs {
        let (Some((cost_one, _)), Some((cost_other, _))) = (&best[one as usize], &best[other as usize])
        else {
            continue;
        };
        let cost = cost_one + cost_other + costs.join(one, other);
        let place = (one | other) as usize;
        if best[place].as_ref().is_none_or(|(known, _)| cost < *known) {
            let (Some((_, one)), Some((_, other))) = (&best[one as usize], &best[other as usize]) else {
                continue;
            };
            best[place] = Some((cost, Tree::join(one.clone(), other.clone())));
        }
    }
    best.pop().flatten().map(|(_, tree)| tree)
}

/// Returns each pair of connected sets that have no relation in common and are neighbours, once.
fn pairs(neighbours: &[Set]) -> Vec<(Set, Set)> {
    let mut found = Vec::new();
    for first in (0..neighbours.len()).rev() {
        let start: Set = 1 << first;
        let mut sets = vec![start];
        grow(neighbours, start, relations_below(first) | start, &mut sets);
        for set in sets {
            complements(neighbours, set, &mut found);
        }
    }
    found
}

/// The relations with smaller numbers.
fn relations_below(number: usize) -> Set {
    (1 << number) - 1
}

/// Adds the connected sets that contain a set and nothing of what is left out but that.
fn grow(neighbours: &[Set], set: Set, left_out: Set, found: &mut Vec<Set>) {
    let around = neighbours_of(neighbours, set) & !left_out;
    for more in subsets(around) {
        found.push(set | more);
    }
    for more in subsets(around) {
        grow(neighbours, set | more, left_out | around, found);
    }
}

/// Adds the pairs of a connected set with those whose least relation comes after its own.
fn complements(neighbours: &[Set], set: Set, found: &mut Vec<(Set, Set)>) {
    let least = set.trailing_zeros() as usize;
    let left_out = relations_below(least) | (1 << least) | set;
    let around = neighbours_of(neighbours, set) & !left_out;
    for number in members(around).collect::<Vec<_>>().into_iter().rev() {
        let start: Set = 1 << number;
        let mut sets = vec![start];
        grow(neighbours, start, left_out | around & (relations_below(number) | start), &mut sets);
        found.extend(sets.into_iter().map(|other| (set, other)));
    }
}

/// The subsets of a set but for the empty one.
fn subsets(set: Set) -> impl Iterator<Item = Set> {
    let mut last: Set = 0;
    std::iter::from_fn(move || {
        last = last.wrapping_sub(set) & set;
        (last != 0).then_some(last)
    })
}

fn greedy(neighbours: &[Set], costs: &mut impl Costs) -> Option<Tree> {
    let mut parts: Vec<(Set, Tree)> =
        (0..neighbours.len()).map(|number| (1 << number, Tree::Relation(number))).collect();
    while parts.len() > 1 {
        let mut best: Option<(f64, usize, usize)> = None;
        for left in 0..parts.len() {
            let around = neighbours_of(neighbours, parts[left].0);
            for right in left + 1..parts.len() {
                if parts[right].0 & around == 0 {
                    continue;
                }
                let rows = costs.rows(parts[left].0 | parts[right].0);
                if best.is_none_or(|(fewest, ..)| rows < fewest) {
                    best = Some((rows, left, right));
                }
            }
        }
        let (_, left, right) = best?;
        let (set, other) = parts.remove(right);
        let (of, tree) = parts.remove(left);
        parts.insert(left, (of | set, Tree::join(tree, other)));
    }
    parts.pop().map(|(_, tree)| tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Numbers that look random and are the same each time.
    struct Random(u64);

    impl Random {
        fn number_below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn random_graph(random: &mut Random, count: usize) -> Vec<Set> {
        let mut neighbours = vec![0; count];
        let mut connect = |one: usize, other: usize| {
            if one != other {
                neighbours[one] |= 1 << other;
                neighbours[other] |= 1 << one;
            }
        };
        for number in 1..count {
            connect(number, random.number_below(number as u64) as usize);
        }
        for _ in 0..random.number_below(2 * count as u64) {
            connect(random.number_below(count as u64) as usize, random.number_below(count as u64) as usize);
        }
        neighbours
    }

    fn is_connected_set(neighbours: &[Set], set: Set) -> bool {
        let mut known = set & set.wrapping_neg();
        loop {
            let next = known | neighbours_of(neighbours, known) & set;
            if next == known {
                return known == set;
            }
            known = next;
        }
    }

    fn all_pairs(neighbours: &[Set]) -> BTreeSet<(Set, Set)> {
        let mut found = BTreeSet::new();
        for set in 1..=all_of(neighbours.len()) {
            for one in subsets(set) {
                let other = set & !one;
                if other != 0
                    && one.trailing_zeros() < other.trailing_zeros()
                    && is_connected_set(neighbours, one)
                    && is_connected_set(neighbours, other)
                    && neighbours_of(neighbours, one) & other != 0
                {
                    found.insert((one, other));
                }
            }
        }
        found
    }

    #[test]
    fn each_pair_of_connected_sets_is_found_once() {
        let mut random = Random(7);
        for round in 0..200 {
            let neighbours = random_graph(&mut random, 2 + round % 6);
            let found = pairs(&neighbours);
            let distinct: BTreeSet<(Set, Set)> = found
                .iter()
                .map(|(one, other)| match one.trailing_zeros() < other.trailing_zeros() {
                    true => (*one, *other),
                    false => (*other, *one),
                })
                .collect();
            assert_eq!(found.len(), distinct.len(), "{neighbours:?}");
            assert_eq!(distinct, all_pairs(&neighbours), "{neighbours:?}");
        }
    }

    /// Rows by relation, and a share of pairs by edge.
    struct Model {
        rows: Vec<f64>,
        neighbours: Vec<Set>,
    }

    impl Costs for Model {
        fn rows(&mut self, set: Set) -> f64 {
            let mut rows: f64 = members(set).map(|number| self.rows[number]).product();
            for one in members(set) {
                for other in members(self.neighbours[one] & set).filter(|other| *other > one) {
                    rows /= self.rows[one].max(self.rows[other]) / (1.0 + (one * other) as f64);
                }
            }
            rows
        }

        fn join(&mut self, left: Set, right: Set) -> f64 {
            self.rows(left | right) + self.rows(left).min(self.rows(right))
        }
    }

    fn cheapest(model: &mut Model, set: Set) -> Option<f64> {
        if set.count_ones() == 1 {
            return Some(0.0);
        }
        let mut best: Option<f64> = None;
        for one in subsets(set) {
            let other = set & !one;
            if other == 0 || neighbours_of(&model.neighbours, one) & other == 0 {
                continue;
            }
            if let (Some(left), Some(right)) = (cheapest(model, one), cheapest(model, other)) {
                let cost = left + right + model.join(one, other);
                best = Some(best.map_or(cost, |best: f64| best.min(cost)));
            }
        }
        best
    }

    fn joins_connected(neighbours: &[Set], tree: &Tree) -> bool {
        match tree {
            Tree::Relation(_) => true,
            Tree::Join(left, right) => {
                neighbours_of(neighbours, left.set()) & right.set() != 0
                    && joins_connected(neighbours, left)
                    && joins_connected(neighbours, right)
            }
        }
    }

    #[test]
    fn the_order_is_the_cheapest_of_all() {
        let mut random = Random(11);
        for round in 0..60 {
            let count = 2 + round % 5;
            let neighbours = random_graph(&mut random, count);
            let rows = (0..count).map(|_| 1.0 + random.number_below(100_000) as f64).collect();
            let mut model = Model { rows, neighbours: neighbours.clone() };
            let tree = best_order(&neighbours, &mut model).unwrap();
            let (found, least) = (cost(&tree, &mut model), cheapest(&mut model, tree.set()).unwrap());
            assert!((found - least).abs() <= 1e-9 * least, "{found} {least} {tree:?}");
            assert!(joins_connected(&neighbours, &tree), "{tree:?}");
            assert_eq!(tree.set(), all_of(count));
        }
    }

    #[test]
    fn many_relations_are_joined_along_edges() {
        let mut random = Random(13);
        for _ in 0..20 {
            let neighbours = random_graph(&mut random, 25);
            let rows = (0..25).map(|_| 1.0 + random.number_below(100_000) as f64).collect();
            let mut model = Model { rows, neighbours: neighbours.clone() };
            let tree = best_order(&neighbours, &mut model).unwrap();
            assert!(joins_connected(&neighbours, &tree), "{tree:?}");
            assert_eq!(tree.set(), all_of(25));
            assert_eq!(tree, best_order(&neighbours, &mut model).unwrap());
        }
    }

    #[test]
    fn what_is_apart_is_not_connected() {
        assert!(is_connected(&[0b10, 0b01]) && is_connected(&[0]));
        assert!(!is_connected(&[0b10, 0b01, 0]));
    }
}
