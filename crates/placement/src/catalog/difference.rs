//! What differs between two catalogs of a cluster, so that nobody has to send or store all of the second
//! one to whoever has the first.

use super::entry::{Catalog, Counter, Finished, Fragment, Node, Table};
use crate::id::{Epoch, NodeId, Term, Token};
use hypostyle_types::{Error, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What makes one catalog of another. It says what is, not what was done: so releases need not agree on
/// what a [`super::Change`] does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    epoch: Epoch,
    term: Term,
    coordinator: NodeId,
    next_table_id: TableId,
    /// All nodes, if any of them is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nodes: Option<Vec<Node>>,
    /// The tables that are gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    dropped: Vec<TableId>,
    /// Tables that are new, behind the others, or defined otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    defined: Vec<Table>,
    /// Tables of which only some fragments, or statements, are others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    written: Vec<Written>,
}

/// What differs in a table that is defined as before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: TableId,
    token: Token,
    /// The fragments that are others, by their numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fragments: Vec<(u32, Fragment)>,
    /// How many of the earliest finished statements are kept no more.
    #[serde(default)]
    forgotten: usize,
    /// The statements that have finished since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    finished: Vec<Finished>,
    /// All columns that count, if any of them has given out values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counters: Option<Vec<Counter>>,
}

impl Difference {
    /// Returns what makes `after` of `before`; `None` if these are of several clusters or formats, or if
    /// the order of their tables differs, which no change does.
    pub fn between(before: &Catalog, after: &Catalog) -> Option<Self> {
        if (before.format, before.cluster) != (after.format, after.cluster) {
            return None;
        }
        let known: BTreeMap<TableId, &Table> = before.tables.iter().map(|table| (table.id, table)).collect();
        let kept: BTreeSet<TableId> = after.tables.iter().map(|table| table.id).collect();
        let stay = before.tables.iter().map(|table| table.id).filter(|id| kept.contains(id));
        let first = after.tables.iter().map(|table| table.id).take_while(|id| known.contains_key(id));
        let is_new = |table: &&Table| !known.contains_key(&table.id);
        let mut new = after.tables.iter().skip_while(|table| !is_new(table));
        if !stay.eq(first) || !new.all(|table| is_new(&table)) {
            return None;
        }
        let (mut defined, mut written) = (Vec::new(), Vec::new());
        for table in &after.tables {
            match known.get(&table.id) {
                Some(before) if is_defined_alike(before, table) => {
                    written.extend(Written::between(before, table));
                }
                Some(_) | None => defined.push(table.clone()),
            }
        }
        Some(Self {
            epoch: after.epoch,
            term: after.term,
            coordinator: after.coordinator,
            next_table_id: after.next_table_id,
            nodes: (before.nodes != after.nodes).then(|| after.nodes.clone()),
            dropped: known.into_keys().filter(|id| !kept.contains(id)).collect(),
            defined,
            written,
        })
    }
}

impl Written {
    fn between(before: &Table, after: &Table) -> Option<Self> {
        let fragments = (0..).zip(before.fragments.iter().zip(&after.fragments));
        let fragments = fragments.filter(|(_, (before, after))| before != after);
        let fragments: Vec<_> = fragments.map(|(number, (_, after))| (number, after.clone())).collect();
        let earliest = after.finished.first();
        let forgotten = before.finished.iter().position(|finished| Some(finished) == earliest);
        let forgotten = forgotten.unwrap_or(before.finished.len());
        let stay = before.finished.get(forgotten..).unwrap_or_default();
        let (forgotten, finished) = match after.finished.strip_prefix(stay) {
            Some(new) => (forgotten, new.to_vec()),
            None => (before.finished.len(), after.finished.clone()),
        };
        let counters = (before.counters != after.counters).then(|| after.counters.clone());
        let is_same = fragments.is_empty()
            && before.token == after.token
            && (forgotten, finished.is_empty(), counters.is_none()) == (0, true, true);
        let (id, token) = (after.id, after.token);
        (!is_same).then_some(Self { id, token, fragments, forgotten, finished, counters })
    }
}

/// Says whether tables differ in nothing but what statements write.
fn is_defined_alike(one: &Table, other: &Table) -> bool {
    (&one.schema, &one.name, &one.definition) == (&other.schema, &other.name, &other.definition)
        && (&one.additions, &one.layout, &one.partitioning, &one.refers)
            == (&other.additions, &other.layout, &other.partitioning, &other.refers)
        && (one.replicas, one.fragments.len()) == (other.replicas, other.fragments.len())
}

impl Catalog {
    /// Returns the catalog that a difference makes of this one.
    ///
    /// # Errors
    /// `Corrupt` if the difference is from another catalog. Who applies it has to know that it is not.
    pub fn with(mut self, difference: &Difference) -> Result<Self> {
        let other = |id: TableId| {
            Error::corrupt(format!("a change of the cluster's catalog is of another table {id}"))
        };
        (self.epoch, self.term) = (difference.epoch, difference.term);
        (self.coordinator, self.next_table_id) = (difference.coordinator, difference.next_table_id);
        if let Some(nodes) = &difference.nodes {
            self.nodes.clone_from(nodes);
        }
        let dropped: BTreeSet<TableId> = difference.dropped.iter().copied().collect();
        self.tables.retain(|table| !dropped.contains(&table.id));
        for table in &difference.defined {
            match self.tables.iter_mut().find(|known| known.id == table.id) {
                Some(known) => known.clone_from(table),
                None => self.tables.push(table.clone()),
            }
        }
        for written in &difference.written {
            let table = self.tables.iter_mut().find(|table| table.id == written.id);
            let table = table.ok_or_else(|| other(written.id))?;
            table.token = written.token;
            for (number, fragment) in &written.fragments {
                let place = usize::try_from(*number).ok().and_then(|number| table.fragments.get_mut(number));
                place.ok_or_else(|| other(written.id))?.clone_from(fragment);
            }
            if written.forgotten > table.finished.len() {
                return Err(other(written.id));
            }
            table.finished.drain(..written.forgotten);
            table.finished.extend(&written.finished);
            if let Some(counters) = &written.counters {
                table.counters.clone_from(counters);
            }
        }
        Ok(self)
    }
}
