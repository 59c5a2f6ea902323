//! Writers that have begun before they are there: who publishes what a statement has written has the table's
//! next writer begin in the same catalog. If that comes soon, it needs no catalog of its own to begin, and a
//! statement is one catalog that a majority stores, not two.
//!
//! A token has one writer: it is taken before anything is written with it, and counts only as long as it is
//! the table's last one, in the term in which it was published. So all is as if the writer had begun the
//! moment before.
//!
//! But to begin also finds out whether this node still coordinates. Who has begun long ago, or has left
//! a replica behind, does not know that: such a writer begins anew, or asks a majority before it publishes.

use hypostyle_placement::catalog::Catalog;
use hypostyle_placement::{Term, Token};
use hypostyle_sync::Mutex;
use hypostyle_types::TableId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a writer counts that has begun before. Another coordinator takes longer to come, unless somebody
/// says PROMOTE.
const FRESH: Duration = Duration::from_secs(1);

/// The tokens of writers that have begun, and are not there yet.
#[derive(Debug, Default)]
pub(crate) struct Ahead(Mutex<Writers>);

#[derive(Debug, Default)]
struct Writers {
    begun: BTreeMap<TableId, Begun>,
    /// When those before were forgotten.
    forgotten: Option<Instant>,
}

#[derive(Debug)]
struct Begun {
    term: Term,
    token: Token,
    since: Instant,
}

impl Ahead {
    /// Notes that the next writer of a table has begun in a catalog, which is stored since some time.
    pub fn note(&self, table: TableId, catalog: &Catalog, since: Instant) {
        let mut writers = self.0.lock();
        if let Some(token) = catalog.table(table).map(|table| table.token)
            && writers.forgotten.is_none_or(|forgotten| forgotten < since)
        {
            writers.begun.insert(table, Begun { term: catalog.term, token, since });
        }
    }

    /// Forgets all writers, since nobody knows any more whether this node coordinates: those who come begin
    /// anew, which finds it out.
    pub fn forget(&self) {
        let mut writers = self.0.lock();
        writers.begun.clear();
        writers.forgotten = Some(Instant::now());
    }

    /// Takes the next writer's token, and says whether it may write with it by a catalog.
    pub fn take(&self, table: TableId, catalog: &Catalog) -> bool {
        let begun = self.0.lock().begun.remove(&table);
        begun.is_some_and(|Begun { term, token, since }| {
            let last = catalog.table(table).map(|table| table.token);
            (catalog.term, last) == (term, Some(token)) && since.elapsed() < FRESH
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hypostyle_placement::NodeId;
    use hypostyle_placement::catalog::{Change, NewTable, Node, NodeState};
    use hypostyle_placement::partition::Partitioning;
    use uuid::Uuid;

    #[test]
    fn a_token_is_taken_once_while_it_is_the_last_one() {
        let own = NodeId(Uuid::from_u128(1));
        let (name, address) = ("n1".to_string(), "h1:1".to_string());
        let node = Node { id: own, name, address, state: NodeState::Active };
        let table = NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 1 }, 1);
        let made = Change::CreateTable { table, nodes: vec![vec![own]] };
        let catalog = Catalog::new(Uuid::from_u128(9), node).unwrap().apply(&made).unwrap();
        let id = catalog.tables[0].id;
        let begin = Change::Begin { table: id, statement: None };
        let begun = catalog.apply(&begin).unwrap();
        let (ahead, now) = (Ahead::default(), Instant::now());
        assert!(!ahead.take(id, &begun), "nobody has begun");
        ahead.note(id, &begun, now);
        assert!(ahead.take(id, &begun) && !ahead.take(id, &begun), "it is one writer's");
        let term = Term(begun.term.0 + 1);
        let again = begun.apply(&begin).unwrap();
        let promoted = begun.apply(&Change::Promote { coordinator: own, term }).unwrap();
        for (what, other) in [("another writer", &again), ("another term", &promoted), ("before", &catalog)] {
            ahead.note(id, &begun, now);
            assert!(!ahead.take(id, other), "{what}");
            assert!(!ahead.take(id, &begun), "{what}: it is taken");
        }
        ahead.note(id, &begun, now.checked_sub(FRESH).unwrap());
        assert!(!ahead.take(id, &begun), "it was long ago");
        ahead.note(TableId(7), &begun, now);
        assert!(ahead.0.lock().begun.is_empty(), "there is no such table");
        ahead.note(id, &begun, now);
        ahead.forget();
        assert!(!ahead.take(id, &begun), "it is forgotten");
        ahead.note(id, &begun, now);
        assert!(!ahead.take(id, &begun), "it has begun before that");
        ahead.note(id, &begun, Instant::now() + FRESH);
        assert!(ahead.take(id, &begun), "it has begun since");
    }
}
