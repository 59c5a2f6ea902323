//! A replica: what it does with a request to append.

use super::message::{Outcome, Refusal, Reply, Request};
use crate::catalog::positions_of;
use crate::id::{Life, Term, Token};
use crate::rules::Rules;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a node stores about its replica of a fragment, in the transaction that writes the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplicaState {
    /// The life of the last request that was written.
    pub life: Life,
    /// The token of the last request that was written.
    pub token: Token,
    /// The positions of the node's table, deleted rows included.
    pub positions: u64,
    /// Says that a request of this life and token was written, and `positions` is what was
    /// answered.
    pub has_answered: bool,
}

/// What a replica does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Write this in one transaction, then answer.
    Write(Write),
    /// Answer at once.
    Answer(Reply),
}

/// One durable transaction of a node's database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The positions whose rows are deleted, if they are not yet: no publication has them.
    pub delete: Range<u64>,
    /// The number of rows that are appended behind all positions.
    pub rows: u64,
    /// The positions that were published. What is noted as deleted by later ones is forgotten.
    pub base: u64,
    /// The number of rows within `base` that are noted as deleted for readers of `next.positions` and
    /// more.
    pub deletes: u64,
    /// Says that one position more is made, of a row that nobody sees.
    pub is_filled: bool,
    /// What is stored about the replica.
    pub next: ReplicaState,
    /// The answer, once the transaction is durable.
    pub reply: Reply,
}

impl ReplicaState {
    /// Decides about a request. `term` is the highest term that the node has stored.
    pub fn receive(&self, request: &Request, term: Term) -> Decision {
        self.receive_by(Rules::ALL, request, term)
    }

    pub(crate) fn receive_by(&self, rules: Rules, request: &Request, term: Term) -> Decision {
        let answer = |outcome| Decision::Answer(reply(request, outcome));
        if let Some(refusal) = self.refuses(rules, request, term) {
            return answer(Outcome::Refused(refusal));
        }
        let is_repeated = self.has_answered && (request.life, request.token) == (self.life, self.token);
        if rules.repeat_answer && is_repeated {
            return answer(Outcome::Written { positions: self.positions });
        }
        if request.base > self.positions {
            return answer(Outcome::Refused(Refusal::Behind { positions: self.positions }));
        }
        let more = positions_of(request.rows, request.deletes);
        let Some(positions) = more.and_then(|more| self.positions.checked_add(more)) else {
            return answer(Outcome::Refused(Refusal::Failed));
        };
        Decision::Write(Write {
            delete: request.base..self.positions,
            rows: request.rows,
            base: request.base,
            deletes: request.deletes,
            is_filled: more > Some(request.rows),
            next: Self { life: request.life, token: request.token, positions, has_answered: true },
            reply: reply(request, Outcome::Written { positions }),
        })
    }

    /// Finds out whether somebody later was here.
    fn refuses(&self, rules: Rules, request: &Request, term: Term) -> Option<Refusal> {
        if rules.refuse_earlier && request.term < term {
            Some(Refusal::Term(term))
        } else if rules.refuse_earlier_life && request.life < self.life {
            Some(Refusal::Life(self.life))
        } else if rules.refuse_earlier && request.life == self.life && request.token < self.token {
            Some(Refusal::Token(self.token))
        } else {
            None
        }
    }
}

fn reply(request: &Request, outcome: Outcome) -> Reply {
    Reply {
        fragment: request.fragment,
        node: request.node,
        life: request.life,
        token: request.token,
        outcome,
    }
}
