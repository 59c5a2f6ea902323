//! What is true of every catalog. It is checked when bytes are read, and after each change.

use super::entry::{CATALOG_FORMAT, Catalog, Counter, Fragment, Layout, NodeState, STATEMENTS_KEPT, Table};
use crate::id::Epoch;
use crate::partition::Partitioning;
use hypostyle_types::{Error, ErrorKind, NAME_BYTES_MAX, Result};
use std::collections::BTreeSet;
use std::fmt::Display;

/// The largest number of nodes of a cluster, and of a fragment's replicas.
pub const NODES_MAX: u32 = 1024;

/// The longest address: a host name of 253 characters, a colon and a port.
const ADDRESS_BYTES_MAX: usize = 259;

fn refuse(what: impl Display) -> Result<()> {
    Err(Error::invalid_input(what.to_string()))
}

impl Catalog {
    /// Checks that the catalog does not contradict itself.
    ///
    /// # Errors
    /// `InvalidInput` or `AlreadyExists`, naming the first contradiction.
    pub fn check(&self) -> Result<()> {
        if self.format != CATALOG_FORMAT {
            return refuse(format_args!("format {} instead of {CATALOG_FORMAT}", self.format));
        }
        self.check_nodes()?;
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for table in &self.tables {
            if !names.insert((&table.schema, &table.name)) {
                let message = format!("there is a table \"{}\".\"{}\" already", table.schema, table.name);
                return Err(Error::new(ErrorKind::AlreadyExists, message));
            }
            if !ids.insert(table.id) || table.id >= self.next_table_id {
                return refuse(format_args!("the number {} of table \"{}\" is taken", table.id, table.name));
            }
            self.check_table(table).map_err(|error| {
                error.context(format_args!("table \"{}\".\"{}\"", table.schema, table.name))
            })?;
        }
        Ok(())
    }

    fn check_nodes(&self) -> Result<()> {
        if self.nodes.len() > NODES_MAX as usize {
            return refuse(format_args!("a cluster has at most {NODES_MAX} nodes"));
        }
        let (mut ids, mut names, mut addresses) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for node in &self.nodes {
            check_name("node", &node.name)?;
            let has_port = node.address.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            if !has_port || node.address.len() > ADDRESS_BYTES_MAX {
                return refuse(format_args!(
                    "the address '{}' of node \"{}\" is not host:port",
                    node.address.chars().take(60).collect::<String>(),
                    node.name
                ));
            }
            let is_new = ids.insert(node.id) && names.insert(&node.name) && addresses.insert(&node.address);
            if !is_new {
                let message = format!(
                    "another node has the identity, the name or the address of node \"{}\" ({}, '{}')",
                    node.name, node.id, node.address
                );
                return Err(Error::new(ErrorKind::AlreadyExists, message).with_sqlstate("42710"));
            }
        }
        match self.node(self.coordinator) {
            Some(node) if node.state != NodeState::Lost => Ok(()),
            _ => refuse(format_args!("the coordinator {} is no node that is there", self.coordinator)),
        }
    }

    fn check_table(&self, table: &Table) -> Result<()> {
        check_name("schema", &table.schema)?;
        check_name("table", &table.name)?;
        table.partitioning.check()?;
        let fragments = usize::try_from(table.partitioning.fragments());
        if fragments != Ok(table.fragments.len()) {
            return refuse(format_args!(
                "it is partitioned into {} fragments and has {}",
                table.partitioning.fragments(),
                table.fragments.len()
            ));
        }
        let is_counted = table.partitioning != Partitioning::Replicated || table.replicas == 1;
        if !(1..=NODES_MAX).contains(&table.replicas) || !is_counted {
            return refuse(format_args!("{} replicas", table.replicas));
        }
        check_layout(&table.layout, self.epoch)?;
        if let Some(other) = table.refers.iter().find(|id| **id == table.id || self.table(**id).is_none()) {
            return refuse(format_args!("it refers to table {other}"));
        }
        if let Some(owner) = table.additions.owner
            && (owner.table == table.id || self.table(owner.table).is_none())
        {
            return refuse(format_args!("it goes with a column of table {}", owner.table));
        }
        let mut counted = BTreeSet::new();
        let is_out_of_place =
            |counter: &&Counter| counter.since > self.epoch || !counted.insert(counter.column);
        if let Some(counter) = table.counters.iter().find(is_out_of_place) {
            return refuse(format_args!("column {} counts since epoch {}", counter.column, counter.since));
        }
        let mut rows = 0_u64;
        for (number, fragment) in table.fragments.iter().enumerate() {
            self.check_fragment(fragment)
                .map_err(|error| error.context(format_args!("fragment {number}")))?;
            rows = match rows.checked_add(fragment.rows) {
                Some(rows) => rows,
                None => return refuse("more rows than can be counted"),
            };
        }
        check_finished(table)
    }

    fn check_fragment(&self, fragment: &Fragment) -> Result<()> {
        let mut nodes = BTreeSet::new();
        for replica in &fragment.replicas {
            let node = replica.node;
            if self.node(node).is_none() {
                return refuse(format_args!("a replica is on the unknown node {node}"));
            }
            if !nodes.insert(node) {
                return refuse(format_args!("two replicas are on node {node}"));
            }
            if replica.life.0 == 0 || replica.life.0 > self.epoch.0 {
                return refuse(format_args!(
                    "the replica on node {node} lives since epoch {}, and this is epoch {}",
                    replica.life, self.epoch
                ));
            }
            let has_too_many = replica.rows > fragment.rows || replica.rows > replica.positions;
            if has_too_many || (replica.in_sync && replica.rows != fragment.rows) {
                return refuse(format_args!(
                    "the replica on node {node} has {} of {} rows in {} positions",
                    replica.rows, fragment.rows, replica.positions
                ));
            }
        }
        if fragment.in_sync().next().is_some() == fragment.lost {
            let no = if fragment.lost { "a" } else { "no" };
            return refuse(format_args!("{no} replica is in sync, and lost is {}", fragment.lost));
        }
        Ok(())
    }
}

fn check_layout(layout: &Layout, epoch: Epoch) -> Result<()> {
    if layout.altered > epoch {
        return refuse(format_args!("it was altered in epoch {}, and this is epoch {epoch}", layout.altered));
    }
    let mut numbers = BTreeSet::new();
    for column in &layout.columns {
        let earlier = column.conversions.iter().map(|conversion| conversion.from);
        for number in earlier.chain([column.number]) {
            if number >= layout.next || !numbers.insert(number) {
                return refuse(format_args!("the number {number} of a column is taken"));
            }
        }
    }
    Ok(())
}

fn check_finished(table: &Table) -> Result<()> {
    if table.finished.len() > STATEMENTS_KEPT {
        return refuse(format_args!("it keeps {} statements", table.finished.len()));
    }
    let mut statements = BTreeSet::new();
    let mut before = None;
    for finished in &table.finished {
        let ascends = before < Some(finished.token) && finished.token <= table.token;
        if !statements.insert(finished.statement) || !ascends {
            return refuse(format_args!("statement {} is out of place", finished.statement));
        }
        before = Some(finished.token);
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<()> {
    let is_usable = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains('\0');
    if !is_usable {
        return refuse(format_args!(
            "the name of a {what} has 1 to {NAME_BYTES_MAX} bytes, none of them zero: '{}'",
            name.chars().take(60).collect::<String>()
        ));
    }
    Ok(())
}
