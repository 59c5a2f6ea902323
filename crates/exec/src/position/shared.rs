//! Sides of joins that the runs of one pipeline share. A node of a cluster runs it over each of its
//! fragments, and all of them are joined with the same rows of other tables.

use super::flow::{Flow, Join, Source, Universe};
use super::stop::Stopped;
use hypostyle_sync::Mutex;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Sides that are collected once for several runs.
#[derive(Debug)]
pub(super) struct SharedSides<T>(Mutex<Vec<Arc<Side<T>>>>);

impl<T> Default for SharedSides<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Debug)]
struct Side<T> {
    universe: Arc<Universe>,
    join: Join,
    /// Keys are read in the type of plans.
    seen: bool,
    built: OnceCell<Arc<T>>,
}

impl<T> Side<T> {
    /// Says whether a join of another run, whose slots and columns are those of this one, collects the
    /// same rows by the same keys.
    fn is_of(&self, universe: &Universe, join: &Join, seen: bool) -> bool {
        let are_same = |slot: &usize| match (self.universe.sources.get(*slot), universe.sources.get(*slot)) {
            (Some(Source::Table(one)), Some(Source::Table(other))) => {
                Arc::ptr_eq(&one.table, &other.table) && one.ranges == other.ranges
            }
            _ => false,
        };
        self.seen == seen && self.join == *join && slots(&join.build).iter().all(are_same)
    }
}

impl<T> SharedSides<T> {
    /// Returns a join's side, which is made only once.
    pub async fn side<F: Future<Output = Stopped<T>>>(
        &self,
        universe: &Arc<Universe>,
        join: &Join,
        seen: bool,
        make: impl FnOnce() -> F,
    ) -> Stopped<Arc<T>> {
        let side = {
            let mut sides = self.0.lock();
            let known = sides.iter().find(|side| side.is_of(universe, join, seen)).cloned();
            known.unwrap_or_else(|| {
                let (universe, join, built) = (universe.clone(), join.clone(), OnceCell::new());
                let side = Arc::new(Side { universe, join, seen, built });
                sides.push(side.clone());
                side
            })
        };
        side.built.get_or_try_init(|| async { make().await.map(Arc::new) }).await.cloned()
    }
}

/// Returns the slots of all tables that a side reads.
fn slots(flow: &Flow) -> Vec<usize> {
    let mut found = vec![flow.slot];
    found.extend(flow.joins().flat_map(|join| slots(&join.build)));
    found.extend(flow.marks.iter().flat_map(|mark| slots(&mark.other)));
    found
}
