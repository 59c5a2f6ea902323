//! Tickets: the parts of a query's rows, each of which is read by itself, anywhere and later
//! (docs/cluster.md, "Partitions for other engines").
//!
//! A ticket says what the query is, and which rows of the cluster's tables there are for it: those of
//! some fragments, in the state that was published when the tickets were made. So the rows of a ticket
//! do not depend on how they are planned, where, or when. All tickets of a query together are its rows in
//! that state, because each row of the query is of the fragments of one number.

use crate::catalog::{Catalog, Fragment, Replica, Table};
use crate::id::{Epoch, FragmentId, NodeId};
use hypostyle_types::{Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt::Display;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

/// How the text of a ticket begins, before its version.
const NAME: &str = "HYPOSTYLE-PARTITION";

/// The version of tickets that this release writes and reads.
const VERSION: u32 = 1;

/// A part of a query's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ticket {
    /// The query.
    pub sql: String,
    /// A hash of what the query means: its plan, before it is optimized.
    pub meaning: u64,
    /// Settings of the session that decide about rows.
    pub settings: Vec<(String, String)>,
    /// Where it is read.
    pub place: Place,
}

/// Where the rows of a ticket are read, and in which state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A database that is no node of a cluster, in its state of then.
    Database,
    /// The node that has made it, in its state of then: the query reads what is on this node only.
    Node {
        /// The cluster.
        cluster: Uuid,
        /// The node.
        node: NodeId,
        /// Where it listens.
        address: String,
    },
    /// Any node of the cluster, in one state.
    Cluster(Rows),
}

/// Rows of a cluster in one of its states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// The cluster.
    pub cluster: Uuid,
    /// The number of the state.
    pub epoch: Epoch,
    /// Where the node listens that has most of the rows: it is the best one to ask.
    pub address: String,
    /// What there is of each table that the query reads.
    pub tables: Vec<TableRows>,
}

/// The rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableRows {
    /// The table.
    pub table: TableId,
    /// The epoch in which it was altered the last time.
    pub altered: Epoch,
    /// The fragments that have rows. All others count as empty.
    pub fragments: Vec<FragmentRows>,
}

/// The rows of a fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentRows {
    /// Its number.
    pub number: u32,
    /// How many there are.
    pub rows: u64,
    /// The replicas that had them, the preferred one first.
    pub replicas: Vec<Replica>,
}

impl TableRows {
    /// Returns what a catalog has of a table: of all fragments, or of those with some numbers.
    pub fn of(table: &Table, numbers: Option<&BTreeSet<u32>>) -> Self {
        let is_wanted = |id: &FragmentId| numbers.is_none_or(|numbers| numbers.contains(&id.number));
        let fragments = table.numbered().filter(|(id, fragment)| is_wanted(id) && fragment.rows > 0);
        let fragments = fragments.map(|(id, fragment)| FragmentRows {
            number: id.number,
            rows: fragment.rows,
            replicas: if fragment.lost { Vec::new() } else { fragment.in_sync().cloned().collect() },
        });
        Self { table: table.id, altered: table.layout.altered, fragments: fragments.collect() }
    }
}

impl Ticket {
    /// Returns the text of the ticket.
    ///
    /// # Errors
    /// `Internal`: no ticket causes it.
    pub fn encode(&self) -> Result<String> {
        let body = serde_json::to_string(self)
            .map_err(|error| Error::new(ErrorKind::Internal, format!("a partition of a query: {error}")))?;
        Ok(format!("{NAME} {VERSION} {:016x}\n{body}", xxh3_64(body.as_bytes())))
    }

    /// Reads the text of a ticket.
    ///
    /// # Errors
    /// `Version` if a newer release wrote it; `InvalidInput` (22023) if it is none, or not all of one.
    pub fn decode(text: &str) -> Result<Self> {
        let none = |what: &str| {
            Error::invalid_input(format!("this is no partition of a query: {what}")).with_sqlstate("22023")
        };
        let (head, body) = text.split_once('\n').unwrap_or((text, ""));
        let words: Vec<&str> = head.split(' ').collect();
        let [NAME, version, checksum] = words.as_slice() else {
            return Err(none(&format!("it does not begin with {NAME}, a version and a checksum")));
        };
        let version: u32 = version.parse().map_err(|_| none("its version is no number"))?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::Version,
                format!(
                    "the partition of a query has version {version}, and this release reads version {VERSION}: read it \
                     with the release that has made it"
                ),
            ));
        }
        if u64::from_str_radix(checksum, 16) != Ok(xxh3_64(body.as_bytes())) {
            return Err(none("it is cut off, or changed"));
        }
        serde_json::from_str(body).map_err(|error| none(&error.to_string()))
    }

    /// Returns the hash of the text of a plan.
    pub fn meaning_of(plan: &str) -> u64 {
        xxh3_64(plan.as_bytes())
    }
}

impl Rows {
    /// Checks that a ticket is for a cluster.
    ///
    /// # Errors
    /// `InvalidInput` (22023) if it is of another one.
    pub fn check_cluster(cluster: Uuid, now: &Catalog) -> Result<()> {
        match cluster == now.cluster {
            true => Ok(()),
            false => Err(Error::invalid_input(format!(
                "the partition is of cluster {cluster}, and this node is of cluster {}",
                now.cluster
            ))
            .with_sqlstate("22023")),
        }
    }

    /// Returns the catalog that has these rows and no others, of one of the same state or a later one. Rows
    /// that were never published cannot be in it.
    ///
    /// # Errors
    /// `NotFound` (72000) if they are not there any more: a table was dropped or altered, or all replicas
    /// of a fragment were moved. `InvalidInput` (22023) if a table or a fragment is named twice.
    pub fn catalog(&self, now: &Catalog) -> Result<Catalog> {
        Self::check_cluster(self.cluster, now)?;
        // Each stands for all fragments of its table, however short the ticket is.
        let mut named = BTreeSet::new();
        if let Some(twice) = self.tables.iter().find(|rows| !named.insert(rows.table)) {
            return Err(named_twice(format_args!("table {}", twice.table)));
        }
        let tables = self.tables.iter().map(|rows| self.table(rows, now)).collect::<Result<_>>()?;
        Ok(Catalog { epoch: self.epoch, tables, ..now.clone() })
    }

    fn table(&self, rows: &TableRows, now: &Catalog) -> Result<Table> {
        let gone = |what: String| {
            let message = format!(
                "the snapshot of epoch {} is gone: {what}; make the partitions of the query again",
                self.epoch
            );
            Error::new(ErrorKind::NotFound, message).with_sqlstate("72000")
        };
        let table = now.table(rows.table);
        let table = table.ok_or_else(|| gone(format!("table {} was dropped", rows.table)))?;
        if table.layout.altered != rows.altered {
            return Err(gone(format!("table \"{}\" was altered", table.name)));
        }
        let mut fragments: Vec<Fragment> = table.fragments.iter().map(emptied).collect();
        let mut named = BTreeSet::new();
        for part in &rows.fragments {
            if !named.insert(part.number) {
                return Err(named_twice(format_args!(
                    "fragment {} of table \"{}\"",
                    part.number, table.name
                )));
            }
            let place = usize::try_from(part.number).ok();
            let place = place.and_then(|place| fragments.get_mut(place));
            let (place, known) = place
                .zip(table.fragment(part.number))
                .ok_or_else(|| gone(format!("table \"{}\" has no fragment {}", table.name, part.number)))?;
            // So many rows there have never been: others count on that they can be added up.
            let is_possible = |replica: &Replica| replica.rows == part.rows && part.rows <= known.rows_ever();
            let is_kept = |replica: &&Replica| {
                known.replica(replica.node).is_some_and(|own| {
                    own.life == replica.life && own.positions >= replica.positions && replica.in_sync
                }) && is_possible(replica)
            };
            place.rows = part.rows;
            place.replicas = part.replicas.iter().filter(is_kept).cloned().collect();
            if place.replicas.is_empty() {
                let (name, number) = (&table.name, part.number);
                return Err(gone(format!("fragment {number} of table \"{name}\" was moved to other nodes")));
            }
        }
        Ok(Table { fragments, ..table.clone() })
    }
}

fn named_twice(what: impl Display) -> Error {
    Error::invalid_input(format!("the partition names {what} twice")).with_sqlstate("22023")
}

/// Returns a fragment without rows, on the nodes that have it.
fn emptied(fragment: &Fragment) -> Fragment {
    let empty = |replica: &Replica| Replica { positions: 0, rows: 0, ..replica.clone() };
    Fragment { rows: 0, replicas: fragment.replicas.iter().map(empty).collect(), ..fragment.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Change, NewTable, Node, NodeState};
    use crate::id::Life;
    use crate::partition::Partitioning;

    const NODE: NodeId = NodeId(Uuid::from_u128(1));
    const OTHER: NodeId = NodeId(Uuid::from_u128(2));

    /// Makes a catalog with a table of three fragments, of which the last one is empty.
    fn catalog() -> Catalog {
        let node = |id, name: &str| Node {
            id,
            name: name.into(),
            address: format!("{name}:1"),
            state: NodeState::Active,
        };
        let mut catalog = Catalog::new(Uuid::from_u128(9), node(NODE, "n1")).unwrap();
        catalog.nodes.push(node(OTHER, "n2"));
        let table = NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 3 }, 2);
        let nodes = vec![vec![NODE, OTHER]; 3];
        let mut catalog = catalog.apply(&Change::CreateTable { table, nodes }).unwrap();
        for (number, fragment) in catalog.tables[0].fragments.iter_mut().enumerate().take(2) {
            fragment.rows = 10 + number as u64;
            for replica in &mut fragment.replicas {
                (replica.positions, replica.rows) = (20, fragment.rows);
            }
        }
        catalog
    }

    fn rows(catalog: &Catalog, numbers: &[u32]) -> Rows {
        let numbers = numbers.iter().copied().collect();
        Rows {
            cluster: catalog.cluster,
            epoch: catalog.epoch,
            address: "n1:1".into(),
            tables: catalog.tables.iter().map(|table| TableRows::of(table, Some(&numbers))).collect(),
        }
    }

    fn ticket() -> Ticket {
        Ticket {
            sql: "SELECT 'é''\n' FROM t".into(),
            meaning: Ticket::meaning_of("TableScan: t"),
            settings: vec![("timezone".into(), "UTC".into())],
            place: Place::Cluster(rows(&catalog(), &[0, 1])),
        }
    }

    #[test]
    fn a_ticket_is_read_as_it_was_written() {
        for place in [
            Place::Database,
            Place::Node { cluster: Uuid::from_u128(9), node: NODE, address: "n1:1".into() },
            ticket().place,
        ] {
            let ticket = Ticket { place, ..ticket() };
            assert_eq!(Ticket::decode(&ticket.encode().unwrap()).unwrap(), ticket);
        }
    }

    #[test]
    fn what_is_no_whole_ticket_is_refused() {
        let text = ticket().encode().unwrap();
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            assert_eq!(Ticket::decode(&text[..end]).unwrap_err().sqlstate(), "22023", "{end}");
        }
        for other in [format!("{text} "), text.replace("UTC", "UTD"), "x".into(), format!("{NAME} x 0\n{{}}")]
        {
            assert_eq!(Ticket::decode(&other).unwrap_err().sqlstate(), "22023", "{other}");
        }
        let later = text.replacen(" 1 ", " 2 ", 1);
        assert_eq!(Ticket::decode(&later).unwrap_err().kind(), ErrorKind::Version);
    }

    #[test]
    fn each_ticket_has_rows_of_its_own_and_all_have_all() {
        let now = catalog();
        let of = |numbers: &[u32]| -> Vec<u64> {
            let catalog = rows(&now, numbers).catalog(&now).unwrap();
            catalog.tables[0].fragments.iter().map(|fragment| fragment.rows).collect()
        };
        assert_eq!(of(&[0]), [10, 0, 0]);
        assert_eq!(of(&[1, 2]), [0, 11, 0]);
        assert_eq!(of(&[0, 1, 2]), [10, 11, 0]);
        // Nodes are asked for what is empty, too: some have it.
        let catalog = rows(&now, &[0]).catalog(&now).unwrap();
        assert!(catalog.tables[0].fragments.iter().all(|fragment| fragment.replicas.len() == 2));
        assert!(catalog.tables[0].fragments[1].replicas.iter().all(|replica| replica.positions == 0));
    }

    #[test]
    fn rows_of_later_states_are_not_seen_and_what_is_gone_is_said() {
        let then = catalog();
        let part = rows(&then, &[0]);
        let mut now = then.clone();
        now.epoch = Epoch(then.epoch.0 + 5);
        now.tables[0].fragments[0].rows = 90;
        for replica in &mut now.tables[0].fragments[0].replicas {
            (replica.positions, replica.rows) = (200, 90);
        }
        let seen = part.catalog(&now).unwrap();
        assert_eq!((seen.epoch, seen.tables[0].fragments[0].rows), (then.epoch, 10));
        assert_eq!(seen.tables[0].fragments[0].replicas[0].positions, 20);

        // One replica was moved away: the other one is read.
        let mut moved = now.clone();
        moved.tables[0].fragments[0].replicas[0].life = Life(now.epoch.0);
        let seen = part.catalog(&moved).unwrap();
        assert_eq!(seen.tables[0].fragments[0].replicas.len(), 1);
        assert_eq!(seen.tables[0].fragments[0].replicas[0].node, OTHER);

        let gone = |now: &Catalog| {
            let error = part.catalog(now).unwrap_err();
            (error.kind(), error.sqlstate().to_string())
        };
        moved.tables[0].fragments[0].replicas[1].life = Life(now.epoch.0);
        assert_eq!(gone(&moved), (ErrorKind::NotFound, "72000".into()));
        let mut altered = now.clone();
        altered.tables[0].layout.altered = now.epoch;
        assert_eq!(gone(&altered), (ErrorKind::NotFound, "72000".into()));
        let mut dropped = now.clone();
        dropped.tables.clear();
        assert_eq!(gone(&dropped), (ErrorKind::NotFound, "72000".into()));
        let other = Catalog { cluster: Uuid::from_u128(8), ..now };
        assert_eq!(gone(&other), (ErrorKind::InvalidInput, "22023".into()));
    }

    #[test]
    fn positions_that_were_never_published_are_refused() {
        let now = catalog();
        let mut part = rows(&now, &[0]);
        for replica in &mut part.tables[0].fragments[0].replicas {
            (replica.positions, replica.rows) = (21, 11);
        }
        assert_eq!(part.catalog(&now).unwrap_err().sqlstate(), "72000");
    }

    #[test]
    fn numbers_of_rows_that_cannot_be_are_refused() {
        let now = catalog();
        for (of_fragment, of_replica) in [(u64::MAX, u64::MAX), (11, 11), (0, 10), (10, 0), (9, 10)] {
            let mut part = rows(&now, &[0, 1]);
            let fragment = &mut part.tables[0].fragments[0];
            fragment.rows = of_fragment;
            for replica in &mut fragment.replicas {
                replica.rows = of_replica;
            }
            let error = part.catalog(&now).unwrap_err();
            assert_eq!(error.sqlstate(), "72000", "{of_fragment} and {of_replica}: {error}");
        }
        // All of them can be added up.
        assert_eq!(rows(&now, &[0, 1]).catalog(&now).unwrap().tables[0].rows(), 21);
    }

    #[test]
    fn what_is_named_twice_is_refused() {
        let now = catalog();
        let mut part = rows(&now, &[0]);
        let again = part.tables[0].clone();
        part.tables.push(again);
        assert_eq!(part.catalog(&now).unwrap_err().sqlstate(), "22023");
        let mut part = rows(&now, &[0]);
        let again = part.tables[0].fragments[0].clone();
        part.tables[0].fragments.push(again);
        assert_eq!(part.catalog(&now).unwrap_err().sqlstate(), "22023");
    }
}
