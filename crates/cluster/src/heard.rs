//! What other nodes have said that they keep, so that an old copy of one is noticed.

use hypostyle_placement::term::Place;
use hypostyle_placement::{NodeId, Term};
use hypostyle_sync::Mutex;
use std::collections::BTreeMap;

/// What a node has stored durably before it has answered anybody: neither ever goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// The last term in which it has promised to take messages. An earlier release does not tell it, which is
    /// 0: each node of a cluster has promised a later one.
    pub promised: Term,
    /// The place of the catalog that it has stored. An earlier release does not tell it.
    pub stored: Option<Place>,
}

impl Kept {
    /// Says whether who keeps this has forgotten some of what was heard of it before.
    pub fn forgets(self, heard: Self) -> bool {
        let is_earlier = |stored: Place| heard.stored.is_some_and(|heard| stored < heard);
        let is_told = self.promised > Term(0);
        (is_told && self.promised < heard.promised) || self.stored.is_some_and(is_earlier)
    }
}

/// The most that each node has said since this one began.
#[derive(Debug, Default)]
pub(crate) struct Heard(Mutex<BTreeMap<NodeId, Kept>>);

impl Heard {
    /// Returns what each node has said. Whoever compares an answer with it takes it before he asks: the node
    /// may keep more by the time that its answer comes.
    pub fn all(&self) -> BTreeMap<NodeId, Kept> {
        self.0.lock().clone()
    }

    /// Returns what a node has said.
    pub fn of(&self, node: NodeId) -> Kept {
        self.0.lock().get(&node).copied().unwrap_or_default()
    }

    /// Notes what a node says.
    pub fn note(&self, node: NodeId, kept: Kept) {
        let mut all = self.0.lock();
        let most = all.entry(node).or_default();
        most.promised = most.promised.max(kept.promised);
        most.stored = most.stored.max(kept.stored);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_placement::Epoch;
    use uuid::Uuid;

    #[test]
    fn who_keeps_less_than_it_has_said_has_forgotten_something() {
        let (node, heard) = (NodeId(Uuid::from_u128(1)), Heard::default());
        let kept = |promised, stored: Option<(u64, u64)>| Kept {
            promised: Term(promised),
            stored: stored.map(|(term, epoch)| (Term(term), Epoch(epoch))),
        };
        assert!(!kept(0, None).forgets(heard.of(node)), "nothing was heard of it");
        heard.note(node, kept(3, Some((2, 9))));
        heard.note(node, kept(2, Some((2, 11))));
        assert_eq!(heard.of(node), kept(3, Some((2, 11))));
        for (promised, stored, forgets) in [
            (3, Some((2, 11)), false),
            (4, Some((3, 1)), false),
            (2, Some((2, 11)), true),
            (3, Some((2, 10)), true),
            (4, Some((1, 50)), true),
            // Earlier releases.
            (3, None, false),
            (0, None, false),
        ] {
            assert_eq!(kept(promised, stored).forgets(heard.of(node)), forgets, "{promised}, {stored:?}");
        }
        assert_eq!(heard.all().len(), 1);
        assert!(!kept(0, None).forgets(heard.of(NodeId(Uuid::from_u128(2)))));
    }
}
