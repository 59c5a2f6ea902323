//! The changes of a cluster's catalog, as the node makes them that coordinates it.

use super::leader::{Leader, Progress};
use super::message::{After, Answer, Ask};
use super::voter::Voter;
use crate::catalog::{Catalog, Change};
use crate::id::{NodeId, Term};
use hypostyle_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;

/// The most changes that are stored together.
pub const CHANGES_MAX: usize = 64;

/// A change that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// What a coordinator has its node do.
#[derive(Debug)]
pub enum Output {
    /// Send this to all nodes of the catalog, and again after some time without a majority.
    Send(Ask<Catalog>),
    /// The change is published. The catalog is the one that it has made.
    Committed(Ticket, Box<Catalog>),
    /// The change does not fit, or this node does not coordinate any more. Nothing was changed.
    Refused(Ticket, Error),
    /// Another node coordinates, and nobody knows yet whether it has found the change.
    Unknown(Ticket),
    /// Another node coordinates, in this term. Stop.
    Deposed(Term),
}

/// A node that coordinates a cluster, or wants to. Changes are stored in the order in which they
/// are submitted; those that wait meanwhile are stored together.
#[derive(Clone, Debug)]
pub struct Coordinator {
    owner: NodeId,
    leader: Leader<Catalog>,
    waiting: VecDeque<(Ticket, Change)>,
    /// The changes that are being stored, with the catalogs that they have made.
    proposed: Vec<(Ticket, Catalog)>,
    next: u64,
    is_announced: bool,
    is_deposed: bool,
}

impl Coordinator {
    /// Wants to coordinate ([`Leader::promote`]): `voter` is stored before the message is sent. If the
    /// majority knows a coordinator that it may not follow, changes are refused.
    ///
    /// # Errors
    /// `Conflict` if the node has no catalog yet.
    pub fn promote(owner: NodeId, after: After, voter: &mut Voter<Catalog>) -> Result<(Self, Ask<Catalog>)> {
        let (leader, ask) = Leader::promote(owner, after, voter)?;
        let coordinator = Self {
            owner,
            leader,
            waiting: VecDeque::new(),
            proposed: Vec::new(),
            next: 0,
            is_announced: false,
            is_deposed: false,
        };
        Ok((coordinator, ask))
    }

    /// Submits a change.
    pub fn submit(&mut self, change: Change) -> (Ticket, Vec<Output>) {
        let ticket = self.queue(change);
        (ticket, self.go_on())
    }

    /// Submits several changes, which are stored together.
    pub fn submit_all(&mut self, changes: Vec<Change>) -> (Vec<Ticket>, Vec<Output>) {
        let tickets = changes.into_iter().map(|change| self.queue(change)).collect();
        (tickets, self.go_on())
    }

    fn queue(&mut self, change: Change) -> Ticket {
        let ticket = Ticket(self.next);
        self.next = self.next.saturating_add(1);
        self.waiting.push_back((ticket, change));
        ticket
    }

    fn go_on(&mut self) -> Vec<Output> {
        if self.is_deposed { self.stop() } else { self.propose() }
    }

    /// Returns the message that no majority has answered yet.
    pub fn waiting(&self) -> Option<Ask<Catalog>> {
        self.leader.waiting()
    }

    /// Returns the last catalog that this coordinator has published, if it has one.
    pub fn catalog(&self) -> Option<&Catalog> {
        self.leader.latest().filter(|_| self.is_announced)
    }

    /// Takes the answer of a node.
    pub fn receive(&mut self, from: NodeId, answer: &Answer<Catalog>) -> Vec<Output> {
        match self.leader.receive(from, answer) {
            Progress::None => Vec::new(),
            Progress::Elected(_) => self.propose(),
            Progress::Published(_, ask) => {
                self.is_announced = true;
                let made = std::mem::take(&mut self.proposed).into_iter();
                let committed = made.map(|(ticket, catalog)| Output::Committed(ticket, Box::new(catalog)));
                let mut outputs: Vec<Output> = [Output::Send(ask)].into_iter().chain(committed).collect();
                outputs.extend(self.propose());
                outputs
            }
            Progress::Deposed(term) => {
                let mut outputs = vec![Output::Deposed(term)];
                outputs.extend(self.stop());
                outputs
            }
        }
    }

    /// Gives up all changes, because this node does not coordinate any more.
    fn stop(&mut self) -> Vec<Output> {
        self.is_deposed = true;
        let refused = |ticket| {
            let message = "another node coordinates the cluster by now: send the statement there";
            Output::Refused(ticket, Error::new(ErrorKind::Conflict, message).with_sqlstate("25006"))
        };
        let proposed = self.proposed.drain(..).map(|(ticket, _)| Output::Unknown(ticket));
        let waiting = self.waiting.drain(..).map(|(ticket, _)| refused(ticket));
        proposed.chain(waiting).collect()
    }

    /// Has the waiting changes stored, if no others are. The first thing that a coordinator stores
    /// is that it is one: whatever the one before has left is published with it.
    fn propose(&mut self) -> Vec<Output> {
        let Some(base) = self.leader.base() else { return Vec::new() };
        let (mut catalog, mut outputs) = (base.clone(), Vec::new());
        if !self.is_announced {
            let promotion = Change::Promote { coordinator: self.owner, term: self.leader.term() };
            match catalog.apply(&promotion) {
                Ok(next) => catalog = next,
                // It was removed from the cluster, for example.
                Err(_) => return self.stop(),
            }
        }
        // Majorities of the nodes before and after have to meet. So nodes come and go one after the other,
        // and not before it is known that this one coordinates.
        let (mut count, mut changes_nodes) = (0, !self.is_announced);
        while count < CHANGES_MAX
            && let Some((ticket, change)) =
                self.waiting.pop_front_if(|(_, change)| !(changes_nodes && change.changes_nodes()))
        {
            count += 1;
            match catalog.apply(&change) {
                Ok(next) => {
                    changes_nodes |= change.changes_nodes();
                    catalog = next.clone();
                    self.proposed.push((ticket, next));
                }
                Err(error) => outputs.push(Output::Refused(ticket, error)),
            }
        }
        if catalog.epoch > base.epoch {
            outputs.extend(self.leader.propose(catalog).ok().map(Output::Send));
        }
        outputs
    }
}
