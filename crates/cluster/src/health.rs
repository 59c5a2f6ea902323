//! What the node that coordinates knows of the others, and of what it has copied anew.

use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::layout::{self, Step};
use hypostyle_placement::{FragmentId, NodeId};
use hypostyle_types::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// The fragments that are copied at the same time.
pub(crate) const COPIES_AT_ONCE: usize = 4;

/// So many times as long as replicas were copied anew, none is: who reads and writes has the nodes and the
/// network meanwhile.
const REST_TIMES: u32 = 3;

/// The replicas that were copied anew, since a coordinator began.
#[derive(Debug, Default)]
pub(crate) struct Compacted {
    of_fragments: BTreeMap<FragmentId, Copied>,
    /// None is copied before.
    rests_until: Option<Instant>,
}

/// How a replica of a fragment was copied anew.
#[derive(Clone, Copy, Debug)]
struct Copied {
    when: Instant,
    /// The nodes from and to which the only replica was moved, if it is to come back.
    moved: Option<(NodeId, NodeId)>,
}

impl Compacted {
    /// Says whether none is copied now.
    pub fn rests(&self) -> bool {
        self.rests_until.is_some_and(|until| until > Instant::now())
    }

    /// Says whether replicas are to come back.
    pub fn has_moved(&self) -> bool {
        self.of_fragments.values().any(|copied| copied.moved.is_some())
    }

    /// Returns the next steps, of no more fragments than are copied at the same time: of those that are to
    /// come back, some time after they have moved, and of others, some time after they were copied the last
    /// time.
    pub fn plan(
        &mut self,
        catalog: &Catalog,
        is_there: &dyn Fn(NodeId) -> bool,
        pause: Duration,
    ) -> BTreeMap<FragmentId, Vec<Step>> {
        let mut steps = BTreeMap::<FragmentId, Vec<Step>>::new();
        let is_over = |copied: &Copied| copied.when.elapsed() >= pause;
        self.of_fragments.retain(|id, copied| {
            let Some((from, to)) = copied.moved.filter(|_| is_over(copied)) else { return !is_over(copied) };
            let back = layout::bring_back(catalog, *id, from, to);
            let is_to_come = !back.is_empty();
            if is_to_come && is_there(from) && is_there(to) {
                steps.insert(*id, back);
            }
            is_to_come
        });
        let returning: BTreeSet<FragmentId> = steps.keys().copied().collect();
        for step in layout::compact(catalog, is_there) {
            let id = step.fragment();
            if !self.of_fragments.contains_key(&id) {
                steps.entry(id).or_default().push(step);
            }
        }
        // Those that are to come back are needed where they were.
        let is_later = |id: &FragmentId| !returning.contains(id);
        let mut order: Vec<FragmentId> = steps.keys().copied().collect();
        order.sort_by_key(|id| (is_later(id), *id));
        let first: BTreeSet<FragmentId> = order.into_iter().take(COPIES_AT_ONCE).collect();
        steps.retain(|id, _| first.contains(id));
        steps
    }

    /// Notes that steps were taken, or failed, since some time.
    pub fn note(&mut self, steps: &BTreeMap<FragmentId, Vec<Step>>, since: Instant, is_done: bool) {
        // A copy may take longer than the pause behind it.
        let when = Instant::now();
        self.rests_until = Some(when + REST_TIMES * (when - since));
        for (id, steps) in steps {
            let moved = match steps.as_slice() {
                [Step::Copy { from, to, .. }, Step::Drop { node, .. }] if from == node => Some((*from, *to)),
                _ => None,
            };
            let before = self.of_fragments.get(id).and_then(|copied| copied.moved);
            let moved = match before {
                // It has come back, or is still to come.
                Some(before) => (!is_done).then_some(before),
                None => moved,
            };
            self.of_fragments.insert(*id, Copied { when, moved });
        }
    }
}

/// How a node was when it was looked after.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether it has answered.
    pub is_reachable: bool,
    /// When it was found not to answer, if it has not since.
    pub away_since: Option<Instant>,
    /// Why it was not brought up to date.
    pub problem: Option<String>,
    /// How many clients it has had, if it has told that.
    pub clients: Option<u64>,
}

impl Health {
    /// Notes that a node has answered, or why it has not.
    pub(crate) fn note(&mut self, clients: Result<Option<u64>, &Error>) {
        self.clients = clients.ok().flatten();
        match clients.err() {
            None if self.is_reachable => {}
            None => *self = Self { is_reachable: true, clients: self.clients, ..Self::default() },
            Some(error) => {
                self.is_reachable = false;
                self.away_since.get_or_insert_with(Instant::now);
                self.problem = Some(error.to_string());
            }
        }
    }
}
