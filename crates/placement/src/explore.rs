//! A model checker: visits every state that can be reached, the nearest first.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::rc::Rc;
use xxhash_rust::xxh3::Xxh3;

/// A state of a model.
pub(crate) trait Model: Clone + Hash {
    /// What can happen.
    type Event: Clone + Debug;
    /// Returns what can happen next, and what is then.
    fn next(&self) -> Vec<(Self::Event, Self)>;
    /// Says what is wrong with the state, if something is.
    fn violation(&self) -> Option<String>;
    /// Tells whether all is done that should be: a model that never gets there shows nothing.
    fn is_done(&self) -> bool;
}

/// What an exploration has found.
#[derive(Debug)]
pub(crate) struct Found<E> {
    /// The different states.
    pub(crate) states: usize,
    /// The steps from one to another.
    pub(crate) steps: usize,
    /// The states in which all is done.
    pub(crate) done: usize,
    /// The first violation, and the events that lead to it: no fewer do.
    pub(crate) violation: Option<(String, Vec<E>)>,
}

/// Returns what tells states apart: a hash of 128 bits. Two of a million states look alike once in
/// 10²⁶ runs.
fn identity(state: &impl Hash) -> u128 {
    struct Wide(Xxh3);
    impl Hasher for Wide {
        fn finish(&self) -> u64 {
            self.0.digest()
        }
        fn write(&mut self, bytes: &[u8]) {
            self.0.update(bytes);
        }
    }
    let mut hasher = Wide(Xxh3::new());
    state.hash(&mut hasher);
    hasher.0.digest128()
}

/// A part of a state that successors share until they change it. It is hashed once.
#[derive(Clone)]
pub(crate) struct Part<T> {
    value: Rc<T>,
    identity: u128,
}

impl<T: Hash + Clone> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { identity: identity(&value), value: Rc::new(value) }
    }

    /// Changes the part.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(Rc::make_mut(&mut self.value));
        self.identity = identity(&*self.value);
        result
    }
}

impl<T> Deref for Part<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Hash for Part<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.identity.hash(hasher);
    }
}

/// Visits all states until one is wrong. There may not be more than `limit`.
pub(crate) fn explore<M: Model>(start: M, limit: usize) -> Found<M::Event> {
    let mut seen = HashSet::from([identity(&start)]);
    // Each state's predecessor and event, by which the way to a violation is told.
    let mut history: Vec<(usize, Option<M::Event>)> = vec![(0, None)];
    let mut queue = VecDeque::from([(0, start)]);
    let mut found = Found { states: 1, steps: 0, done: 0, violation: None };
    while let Some((number, state)) = queue.pop_front() {
        found.done += usize::from(state.is_done());
        if let Some(violation) = state.violation() {
            found.violation = Some((violation, way_to(&history, number)));
            break;
        }
        for (event, next) in state.next() {
            found.steps += 1;
            if seen.insert(identity(&next)) {
                assert!(seen.len() <= limit, "more than {limit} states: the model has no bounds");
                queue.push_back((history.len(), next));
                history.push((number, Some(event)));
            }
        }
    }
    found.states = seen.len();
    found
}

fn way_to<E: Clone>(history: &[(usize, Option<E>)], mut number: usize) -> Vec<E> {
    let mut way = Vec::new();
    while let (before, Some(event)) = &history[number] {
        way.push(event.clone());
        number = *before;
    }
    way.reverse();
    way
}
