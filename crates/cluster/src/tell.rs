//! What a coordinator tells one node: catalogs by what differs from the last one that the node has taken.

use crate::heard::Kept;
use crate::message::{Reply, Request, StoreDifference};
use crate::node::Node;
use crate::peers::{self, is_unreachable, unexpected};
use hypostyle_placement::NodeId;
use hypostyle_placement::catalog::{Catalog, Node as Member};
use hypostyle_placement::term::{Answer, Ask};
use hypostyle_types::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a node gets whole catalogs that has not understood what differs: it may run an earlier release.
const WHOLE: Duration = Duration::from_secs(10);

/// What one node has been told.
#[derive(Default)]
pub(crate) struct Told {
    /// The last message by which the node has stored a catalog.
    taken: Option<Arc<Ask<Catalog>>>,
    /// The time at which it may understand differences again.
    whole_until: Option<Instant>,
}

impl Told {
    /// Returns a message to store a catalog by what differs from the last one that the node has taken.
    fn difference(&self, ask: &Ask<Catalog>) -> Option<StoreDifference> {
        if self.whole_until.is_some_and(|end| Instant::now() < end) {
            return None;
        }
        match (self.taken.as_deref()?, ask) {
            (Ask::Store { stored: before, .. }, Ask::Store { owner, stored }) => {
                StoreDifference::between(*owner, before, stored)
            }
            _ => None,
        }
    }

    /// Notes what the node has answered.
    fn note(&mut self, ask: &Arc<Ask<Catalog>>, answer: Option<&Answer<Catalog>>) {
        if let (Ask::Store { .. }, Some(Answer::Accepted { .. })) = (&**ask, answer) {
            self.taken = Some(ask.clone());
        }
    }
}

impl Node {
    /// Notes what a node keeps, by its answer to a coordinator's message.
    pub(crate) fn hear(&self, node: NodeId, answer: Option<&Answer<Catalog>>) {
        let kept = match answer {
            Some(Answer::Promised { term, .. } | Answer::Refused { term }) => {
                Kept { promised: *term, stored: None }
            }
            Some(Answer::Accepted { term, epoch, .. }) => {
                Kept { promised: *term, stored: Some((*term, *epoch)) }
            }
            None => return,
        };
        self.heard.note(node, kept);
    }

    /// Brings a node a coordinator's message, and returns its answer, if the message needs one.
    ///
    /// # Errors
    /// Those of the node, or of reaching it.
    pub(crate) fn tell(
        &self,
        member: &Member,
        ask: &Arc<Ask<Catalog>>,
        told: &mut Told,
    ) -> Result<Option<Answer<Catalog>>> {
        if let Some(difference) = told.difference(ask) {
            let request = Request::Store(Box::new(difference));
            match self.call(member, request, None).and_then(peers::Answer::reply) {
                Ok(Reply::Answer(answer)) => {
                    told.note(ask, answer.as_deref());
                    return Ok(answer.map(|answer| *answer));
                }
                // It has begun anew, or has another catalog of a later coordinator.
                Ok(_) => {}
                Err(error) if is_unreachable(&error) => return Err(error),
                Err(error) => {
                    tracing::debug!(node = member.name, %error, "a node gets whole catalogs for a while");
                    told.whole_until = Some(Instant::now() + WHOLE);
                }
            }
        }
        let request = Request::Ask(Box::new((**ask).clone()));
        match self.call(member, request, None)?.reply()? {
            Reply::Answer(answer) => {
                told.note(ask, answer.as_deref());
                Ok(answer.map(|answer| *answer))
            }
            _ => Err(unexpected("a message")),
        }
    }
}
