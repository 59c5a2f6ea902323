//! Single appends and rounds of catching up, with what replicas may answer.

use crate::common::{cluster, id};
use hypostyle_placement::append::{
    Append, CatchUp, Decision, Effect, Outcome, Part, Refusal, ReplicaState, Reply, Request, Source,
};
use hypostyle_placement::catalog::{Catalog, Change, NewTable};
use hypostyle_placement::layout::place_table;
use hypostyle_placement::partition::Partitioning;
use hypostyle_placement::{FragmentId, Life, StatementId, Term, Token};
use hypostyle_types::{Error, ErrorKind, TableId};
use std::collections::BTreeMap;
use uuid::Uuid;

const TABLE: TableId = TableId(1);
const STATEMENT: StatementId = StatementId(Uuid::from_u128(5));

/// Returns a cluster with a table of two fragments, both on both nodes.
fn table() -> Catalog {
    let catalog = cluster(2);
    let create =
        place_table(&catalog, NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 2 }, 2))
            .unwrap();
    catalog.apply(&create).unwrap()
}

/// Begins an append of rows to the two fragments.
fn begin(catalog: &Catalog, rows: [u64; 2]) -> (Append, Catalog, Vec<Request>) {
    let rows = BTreeMap::from([(0, Part::of_rows(rows[0])), (1, Part::of_rows(rows[1]))]);
    let (append, effect) = Append::begin(catalog, TABLE, STATEMENT, rows).unwrap();
    let (mut append, Effect::Commit(change)) = (append.unwrap(), effect) else { panic!("it has begun") };
    let catalog = catalog.apply(&change).unwrap();
    let effects = append.begun(Ok(&catalog));
    let requests = append.waiting();
    assert_eq!(effects.len(), requests.len());
    (append, catalog, requests)
}

fn reply(request: &Request, outcome: Outcome) -> Reply {
    let &Request { fragment, node, life, token, .. } = request;
    Reply { fragment, node, life, token, outcome }
}

fn written(request: &Request) -> Reply {
    reply(request, Outcome::Written { positions: request.base + request.rows })
}

fn finished(effects: Vec<Effect>) -> Result<u64, Error> {
    match effects.into_iter().next() {
        Some(Effect::Finish(result)) => result,
        other => panic!("{other:?}"),
    }
}

fn publication(effects: Vec<Effect>) -> Change {
    match effects.into_iter().next() {
        Some(Effect::Commit(change)) => change,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_append_goes_to_all_replicas_and_is_repeated_by_its_result() {
    let (mut append, catalog, requests) = begin(&table(), [3, 2]);
    assert_eq!(requests.len(), 4);
    for request in &requests[..3] {
        assert!(append.receive(&written(request)).is_empty());
        assert!(append.receive(&written(request)).is_empty(), "a repeated answer changes nothing");
    }
    assert_eq!(append.waiting(), requests[3..]);
    let change = publication(append.receive(&written(&requests[3])));
    let catalog = catalog.apply(&change).unwrap();
    assert_eq!(finished(append.published(Ok(&catalog))).unwrap(), 5);
    assert_eq!(catalog.table(TABLE).unwrap().rows(), 5);
    let (again, effect) =
        Append::begin(&catalog, TABLE, STATEMENT, BTreeMap::from([(0, Part::of_rows(3))])).unwrap();
    assert!(again.is_none());
    assert_eq!(finished(vec![effect]).unwrap(), 5);
}

#[test]
fn fragments_without_rows_are_not_asked() {
    let (_, _, requests) = begin(&table(), [0, 2]);
    assert!(requests.iter().all(|request| request.fragment.number == 1) && requests.len() == 2);
    // Nothing at all is a statement, too.
    let rows = BTreeMap::new();
    let (append, effect) = Append::begin(&table(), TABLE, STATEMENT, rows).unwrap();
    let catalog = table().apply(&publication(vec![effect])).unwrap();
    let mut append = append.unwrap();
    let catalog = catalog.apply(&publication(append.begun(Ok(&catalog)))).unwrap();
    assert_eq!(finished(append.published(Ok(&catalog))).unwrap(), 0);
    assert!(catalog.table(TABLE).unwrap().finished(STATEMENT).is_some());
}

#[test]
fn replicas_that_fail_leave_the_set_in_sync() {
    for refusal in [Refusal::Failed, Refusal::Behind { positions: 0 }, Refusal::Life(Life(9))] {
        let (mut append, catalog, requests) = begin(&table(), [1, 1]);
        append.receive(&reply(&requests[0], Outcome::Refused(refusal)));
        append.receive(&written(&requests[1]));
        append.receive(&written(&requests[2]));
        let change = publication(append.give_up(requests[3].node, None));
        let catalog = catalog.apply(&change).unwrap();
        for failed in [&requests[0], &requests[3]] {
            let replica = catalog.replica(failed.fragment, failed.node).unwrap();
            assert!(!replica.in_sync && replica.rows == 0);
        }
    }
    let (mut append, catalog, requests) = begin(&table(), [1, 0]);
    append.receive(&reply(&requests[0], Outcome::Refused(Refusal::Failed)));
    let error = finished(append.give_up(requests[1].node, Some(0))).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Io, "58030"));
    assert!(append.waiting().is_empty() && append.receive(&written(&requests[1])).is_empty());
    assert!(catalog.table(TABLE).unwrap().fragments.iter().all(|f| f.in_sync().count() == 2));
}

#[test]
fn a_writer_that_is_overtaken_ends() {
    for refusal in [Refusal::Token(Token(9)), Refusal::Term(Term(9))] {
        let (mut append, _, requests) = begin(&table(), [1, 1]);
        let error = finished(append.receive(&reply(&requests[0], Outcome::Refused(refusal)))).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict);
    }
    let (mut append, ..) = begin(&table(), [1, 1]);
    assert_eq!(finished(append.unknown()).unwrap_err().sqlstate(), "08007");
    let gone = table().apply(&Change::DropTable(TABLE)).unwrap();
    let none = Append::begin(&gone, TABLE, STATEMENT, BTreeMap::new()).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::UnknownName);
    let (append, _) = Append::begin(&table(), TABLE, STATEMENT, BTreeMap::new()).unwrap();
    assert_eq!(finished(append.unwrap().begun(Ok(&gone))).unwrap_err().kind(), ErrorKind::Conflict);
    let absent =
        Append::begin(&table(), TABLE, STATEMENT, BTreeMap::from([(2, Part::of_rows(1))])).unwrap_err();
    assert_eq!(absent.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_lost_fragment_gets_no_rows() {
    let catalog = cluster(2);
    let create =
        place_table(&catalog, NewTable::new("main", "t", Partitioning::RoundRobin { fragments: 2 }, 1))
            .unwrap();
    let catalog = catalog.apply(&create).unwrap();
    let lost = catalog.apply(&Change::RemoveNode { node: id(1), force: true }).unwrap();
    let number = lost.table(TABLE).unwrap().fragments.iter().position(|fragment| fragment.lost).unwrap();
    let rows = |number: usize| BTreeMap::from([(u32::try_from(number).unwrap(), Part::of_rows(1))]);
    let error = Append::begin(&lost, TABLE, STATEMENT, rows(number)).unwrap_err();
    assert_eq!(error.sqlstate(), "58030");
    assert!(Append::begin(&lost, TABLE, STATEMENT, rows(1 - number)).is_ok());
}

fn request() -> Request {
    Request {
        term: Term(2),
        fragment: FragmentId { table: TABLE, number: 0 },
        node: id(0),
        life: Life(4),
        token: Token(7),
        base: 10,
        rows: 3,
        deletes: 0,
        source: Source::Statement(STATEMENT),
    }
}

#[test]
fn a_replica_decides_by_term_life_and_token() {
    let state = ReplicaState { life: Life(4), token: Token(6), positions: 12, has_answered: true };
    let Decision::Write(write) = state.receive(&request(), Term(2)) else { panic!("nobody later is known") };
    assert_eq!((write.delete, write.rows, write.next.positions), (10..12, 3, 15));
    assert_eq!(write.reply.outcome, Outcome::Written { positions: 15 });
    // Again, also when something was written behind it.
    assert_eq!(write.next.receive(&request(), Term(2)), Decision::Answer(write.reply));
    let outcome = |request: Request, term| match state.receive(&request, Term(term)) {
        Decision::Answer(reply) => reply.outcome,
        Decision::Write(write) => write.reply.outcome,
    };
    let refused = |refusal| Outcome::Refused(refusal);
    assert_eq!(outcome(request(), 3), refused(Refusal::Term(Term(3))));
    assert_eq!(outcome(Request { life: Life(3), ..request() }, 2), refused(Refusal::Life(Life(4))));
    assert_eq!(outcome(Request { token: Token(5), ..request() }, 2), refused(Refusal::Token(Token(6))));
    assert_eq!(outcome(Request { base: 13, ..request() }, 2), refused(Refusal::Behind { positions: 12 }));
    assert_eq!(outcome(Request { rows: u64::MAX, ..request() }, 2), refused(Refusal::Failed));
    // A later life may begin with any token.
    let reborn = Request { life: Life(5), token: Token(1), ..request() };
    assert_eq!(outcome(reborn, 1), Outcome::Written { positions: 15 });
}

#[test]
fn a_round_copies_what_is_missing() {
    let (mut append, catalog, requests) = begin(&table(), [3, 0]);
    append.receive(&written(&requests[0]));
    let catalog = catalog.apply(&publication(append.give_up(requests[1].node, None))).unwrap();
    let (fragment, behind) = (requests[1].fragment, requests[1].node);
    let in_sync = CatchUp::begin(&catalog, fragment, requests[0].node, true).unwrap_err();
    assert_eq!(in_sync.kind(), ErrorKind::InvalidInput);
    let (mut round, effect) = CatchUp::begin(&catalog, fragment, behind, true).unwrap();
    let catalog = catalog.apply(&publication(vec![effect])).unwrap();
    let catalog = catalog.apply(&publication(round.committed(Ok(&catalog)))).unwrap();
    round.committed(Ok(&catalog));
    let request = round.waiting().unwrap();
    assert_eq!((request.rows, request.base, request.life), (3, 0, Life(catalog.epoch.0 - 1)));
    let (node, life) = (requests[0].node, requests[0].life);
    let source = Source::Replica { node, life, first: 0, positions: 3 };
    assert_eq!(request.source, source);
    assert!(round.receive(&written(&requests[1])).is_empty(), "the answer of the append comes late");
    let catalog = catalog.apply(&publication(round.receive(&written(&request)))).unwrap();
    assert_eq!(finished(round.committed(Ok(&catalog))).unwrap(), 3);
    assert!(catalog.replica(fragment, behind).unwrap().in_sync);
}

#[test]
fn two_rounds_never_share_a_life() {
    let (mut append, catalog, requests) = begin(&table(), [3, 0]);
    append.receive(&written(&requests[0]));
    let catalog = catalog.apply(&publication(append.give_up(requests[1].node, None))).unwrap();
    let (fragment, behind) = (requests[1].fragment, requests[1].node);
    let (mut one, effect) = CatchUp::begin(&catalog, fragment, behind, true).unwrap();
    let first = catalog.apply(&publication(vec![effect])).unwrap();
    let begins = publication(one.committed(Ok(&first)));
    // Another round begins between the two changes of the first.
    let (mut other, effect) = CatchUp::begin(&first, fragment, behind, false).unwrap();
    let second = first.apply(&publication(vec![effect])).unwrap();
    other.committed(Ok(&second));
    let third = second.apply(&begins).unwrap();
    assert_eq!(finished(one.committed(Ok(&third))).unwrap_err().kind(), ErrorKind::Conflict);
    let request = other.waiting().unwrap();
    let third = third.apply(&publication(other.receive(&written(&request)))).unwrap();
    assert_eq!(third.replica(fragment, behind).unwrap().rows, 3);
}

/// Begins to delete a row of the first fragment, of which so many were deleted when it was found.
fn begin_delete(catalog: &Catalog, seen: u64) -> (Append, Catalog, Vec<Effect>) {
    let parts = BTreeMap::from([(0, Part { deletes: 1, seen, ..Part::default() })]);
    let statement = StatementId(Uuid::from_u128(100 + u128::from(catalog.epoch.0)));
    let (append, effect) = Append::begin(catalog, TABLE, statement, parts).unwrap();
    let (mut append, Effect::Commit(change)) = (append.unwrap(), effect) else { panic!("it has begun") };
    let catalog = catalog.apply(&change).unwrap();
    let effects = append.begun(Ok(&catalog));
    (append, catalog, effects)
}

#[test]
fn rows_are_deleted_by_their_places() {
    let (mut append, catalog, requests) = begin(&table(), [3, 0]);
    append.receive(&written(&requests[0]));
    let catalog = catalog.apply(&publication(append.give_up(requests[1].node, None))).unwrap();
    let behind = requests[1].node;
    let (mut delete, catalog, effects) = begin_delete(&catalog, 0);
    let [request] = delete.waiting()[..] else { panic!("{effects:?}") };
    assert_eq!((request.base, request.rows, request.deletes), (3, 0, 1));
    // Readers of the three positions still see the row, so that there must be a fourth one.
    let state = ReplicaState { positions: 3, ..ReplicaState::default() };
    let Decision::Write(write) = state.receive(&request, catalog.term) else { panic!("it is written") };
    assert_eq!((write.base, write.deletes, write.is_filled, write.next.positions), (3, 1, true, 4));
    let short = delete.clone().receive(&reply(&request, Outcome::Written { positions: 3 }));
    assert_eq!(catalog.apply(&publication(short)).unwrap_err().kind(), ErrorKind::InvalidInput);
    let life = catalog.replica(request.fragment, behind).unwrap().life;
    let next = catalog.apply(&publication(delete.receive(&write.reply))).unwrap();
    let fragment = next.fragment(request.fragment).unwrap();
    assert_eq!((fragment.rows, fragment.deleted), (2, 1));
    assert_eq!(fragment.replica(request.node).map(|r| (r.positions, r.rows, r.in_sync)), Some((4, 2, true)));
    // The other replica may have had the row: it is copied anew, by nobody who has begun before.
    let reborn = fragment.replica(behind).unwrap();
    assert_eq!((reborn.positions, reborn.rows, reborn.in_sync), (0, 0, false));
    assert!(reborn.life > life);
    // Places that were found before are those of other rows now.
    let (_, _, effects) = begin_delete(&next, 0);
    assert_eq!(finished(effects).unwrap_err().kind(), ErrorKind::Conflict);
    let (mut last, begun, _) = begin_delete(&next, 1);
    let [request] = last.waiting()[..] else { panic!("one replica is in sync") };
    let mut change = publication(last.receive(&reply(&request, Outcome::Written { positions: 5 })));
    assert_eq!(begun.apply(&change).unwrap().fragment(request.fragment).unwrap().rows, 1);
    if let Change::Publish(publication) = &mut change {
        publication.fragments[0].deletes = 3;
    }
    assert_eq!(begun.apply(&change).unwrap_err().kind(), ErrorKind::InvalidInput);
}

/// Begins to add a row with a key to the first fragment, which had so many rows when none with the key was
/// found there.
fn begin_with_key(catalog: &Catalog, free: u64, statement: u128) -> (Append, Catalog, Vec<Effect>) {
    let parts = BTreeMap::from([(0, Part { rows: 1, free: Some(free), ..Part::default() })]);
    let statement = StatementId(Uuid::from_u128(statement));
    let (append, effect) = Append::begin(catalog, TABLE, statement, parts).unwrap();
    let (mut append, Effect::Commit(change)) = (append.unwrap(), effect) else { panic!("it has begun") };
    let catalog = catalog.apply(&change).unwrap();
    let effects = append.begun(Ok(&catalog));
    (append, catalog, effects)
}

#[test]
fn keys_are_free_as_long_as_nobody_adds_rows() {
    let catalog = table();
    let (mut one, catalog, _) = begin_with_key(&catalog, 0, 200);
    let mut effects = Vec::new();
    for request in one.waiting() {
        effects = one.receive(&written(&request));
    }
    let catalog = catalog.apply(&publication(effects)).unwrap();
    // Another statement has looked for its key before.
    let (_, _, effects) = begin_with_key(&catalog, 0, 201);
    assert_eq!(finished(effects).unwrap_err().kind(), ErrorKind::Conflict);
    let (other, catalog, _) = begin_with_key(&catalog, 1, 202);
    assert!(!other.waiting().is_empty());
    // A row that is deleted meanwhile is in nobody's way.
    let (mut delete, catalog, _) = begin_delete(&catalog, 0);
    let mut effects = Vec::new();
    for request in delete.waiting() {
        let Decision::Write(write) =
            ReplicaState { positions: 1, ..ReplicaState::default() }.receive(&request, catalog.term)
        else {
            panic!("it is written")
        };
        effects = delete.receive(&write.reply);
    }
    let catalog = catalog.apply(&publication(effects)).unwrap();
    assert_eq!(catalog.fragment(FragmentId { table: TABLE, number: 0 }).unwrap().rows, 0);
    let (last, ..) = begin_with_key(&catalog, 1, 203);
    assert!(!last.waiting().is_empty());
}
