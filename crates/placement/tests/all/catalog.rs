//! Catalogs: their bytes, what is refused of them, and their changes by compare-and-set.

use crate::common::{cluster, id, ids, node};
use hypostyle_placement::catalog::{
    Additions, Altered, Appended, Catalog, Change, Column, Conversion, Copied, Difference, Found, Index,
    NewTable, NodeState, Owner, Publication, Referred, Restarted, STATEMENTS_KEPT, Table, Written,
};
use hypostyle_placement::partition::{KeyColumn, Kind, Partitioning, Value};
use hypostyle_placement::{Epoch, FragmentId, Life, StatementId, Term, Token};
use hypostyle_types::{ColumnId, Error, ErrorKind, LogicalType, TableId};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use uuid::Uuid;

const TABLE: TableId = TableId(1);
const FIRST: FragmentId = FragmentId { table: TABLE, number: 0 };

fn create(name: &str, partitioning: Partitioning, replicas: u32, nodes: usize) -> Change {
    let nodes = vec![ids(nodes); partitioning.fragments() as usize];
    Change::CreateTable { table: NewTable::new("main", name, partitioning, replicas), nodes }
}

/// Returns the alteration of a table that gives it other columns alone.
fn altered_to(table: &Table, columns: Vec<Column>) -> Altered {
    Altered {
        table: table.id,
        since: Epoch(0),
        name: table.name.clone(),
        definition: table.definition.clone(),
        additions: Box::default(),
        partitioning: table.partitioning.clone(),
        columns,
        rows: None,
        refers: Vec::new(),
        referring: Vec::new(),
        found: Vec::new(),
    }
}

/// Returns a cluster of two nodes with tables of all kinds.
fn whole() -> Catalog {
    let column = |column, kind| KeyColumn { column: ColumnId(column), kind };
    let bounds = vec![Value::Text("b".into()), Value::Text("ä".into())];
    let hash =
        Partitioning::Hash { columns: vec![column(1, Kind::Exact), column(2, Kind::Uuid)], fragments: 2 };
    let range = Partitioning::Range { column: column(1, Kind::Text), bounds, max_value: true };
    let changes = [
        create("hashed", hash, 2, 2),
        create("ranged", range, 1, 1),
        create("turns", Partitioning::RoundRobin { fragments: 3 }, 2, 2),
        create("everywhere", Partitioning::Replicated, 1, 2),
        Change::Begin { table: TABLE, statement: Some(statement(1)) },
    ];
    changes.iter().fold(cluster(2), |catalog, change| catalog.apply(change).unwrap())
}

#[test]
#[ignore = "writes seeds for fuzzing"]
fn write_fuzz_seeds() {
    let directory = std::path::PathBuf::from(std::env::var_os("HYPOSTYLE_FUZZ_SEEDS").expect("where to"));
    std::fs::write(directory.join("catalog/whole"), whole().encode().unwrap()).unwrap();
}

fn statement(number: u128) -> StatementId {
    StatementId(Uuid::from_u128(number))
}

fn written(number: usize, base: u64, positions: Option<u64>) -> Written {
    Written { node: id(number), life: Life(3), base, positions }
}

/// Returns the publication of a statement that appends rows to the first fragment.
fn publication(token: u64, number: u128, rows: u64, replicas: Vec<Written>) -> Change {
    let fragments = vec![Appended { number: 0, rows, deletes: 0, replicas }];
    Change::Publish(Publication {
        table: TABLE,
        token: Token(token),
        statement: statement(number),
        fragments,
        found: Vec::new(),
        restarts: Vec::new(),
    })
}

fn refused(result: Result<Catalog, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[test]
fn bytes_come_back_equal() {
    let catalog = whole();
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
    assert_eq!(catalog.epoch, Epoch(7));
    assert_eq!(catalog.table_named("main", "turns").unwrap().id, TableId(3));
    assert_eq!(catalog.node_named("n1").unwrap().id, id(1));
    assert!(catalog.node_named("n2").unwrap_err().message().contains("did you mean"));
}

/// Changes one place of a catalog's bytes.
fn decode_with(pointer: &str, value: Json) -> ErrorKind {
    let mut json: Json = serde_json::from_slice(&whole().encode().unwrap()).unwrap();
    *json.pointer_mut(pointer).unwrap_or_else(|| panic!("there is no {pointer}")) = value;
    refused(Catalog::decode(&serde_json::to_vec(&json).unwrap()))
}

#[test]
fn contradictions_are_refused() {
    let twice = |pointer: &str| {
        let json: Json = serde_json::from_slice(&whole().encode().unwrap()).unwrap();
        let list = json.pointer(pointer).unwrap().as_array().unwrap();
        decode_with(pointer, list.iter().chain(list.first()).cloned().collect())
    };
    assert_eq!(decode_with("/format", json!(2)), ErrorKind::Version);
    for list in ["/nodes", "/tables", "/tables/0/fragments", "/tables/0/fragments/0/replicas"] {
        assert_eq!(twice(list), ErrorKind::Corrupt, "{list}");
    }
    let unknown = json!(Uuid::from_u128(1000));
    for (pointer, value) in [
        ("/coordinator", unknown.clone()),
        ("/nodes/0/state", json!("lost")),
        ("/nodes/0/state", json!("asleep")),
        ("/nodes/0/name", json!("")),
        ("/nodes/0/name", json!("n1")),
        ("/nodes/0/name", json!("x".repeat(256))),
        ("/nodes/0/address", json!("host1:4953")),
        ("/nodes/0/address", json!("host")),
        ("/nodes/0/address", json!("host:0")),
        ("/nodes/0/address", json!("host:70000")),
        ("/next_table_id", json!(4)),
        ("/epoch", json!(2)),
        ("/epoch", json!(-1)),
        ("/tables/1/name", json!("hashed")),
        ("/tables/1/schema", json!("")),
        ("/tables/1/id", json!(1)),
        ("/tables/0/replicas", json!(0)),
        ("/tables/3/replicas", json!(2)),
        ("/tables/0/partitioning/fragments", json!(0)),
        ("/tables/0/partitioning/fragments", json!(3)),
        ("/tables/0/partitioning/fragments", json!(u32::MAX)),
        ("/tables/0/partitioning/columns", json!([])),
        ("/tables/0/partitioning/columns/0/column", json!(2)),
        ("/tables/1/partitioning/bounds/0", json!({"text": "ä"})),
        ("/tables/1/partitioning/bounds/0", json!({"integer": "1"})),
        ("/tables/1/partitioning/max_value", json!(false)),
        ("/tables/0/fragments/0/rows", json!(1)),
        ("/tables/0/fragments/0/lost", json!(true)),
        ("/tables/0/fragments/0/replicas", json!([])),
        ("/tables/0/fragments/0/replicas/0/node", unknown),
        ("/tables/0/fragments/0/replicas/0/life", json!(0)),
        ("/tables/0/fragments/0/replicas/0/life", json!(8)),
        ("/tables/0/fragments/0/replicas/0/rows", json!(1)),
        ("/tables/1/fragments/0/replicas/0/in_sync", json!(false)),
    ] {
        let pointer_to_add = pointer.ends_with("/lost");
        if pointer_to_add {
            let mut json: Json = serde_json::from_slice(&whole().encode().unwrap()).unwrap();
            json.pointer_mut("/tables/0/fragments/0").unwrap()["lost"] = value;
            assert_eq!(refused(Catalog::decode(&serde_json::to_vec(&json).unwrap())), ErrorKind::Corrupt);
        } else {
            assert_eq!(decode_with(pointer, value.clone()), ErrorKind::Corrupt, "{pointer} = {value}");
        }
    }
}

#[test]
fn finished_statements_are_in_order() {
    let mut catalog = whole();
    catalog =
        catalog.apply(&publication(1, 1, 2, vec![written(0, 0, Some(2)), written(1, 0, Some(5))])).unwrap();
    let mut json: Json = serde_json::from_slice(&catalog.encode().unwrap()).unwrap();
    let finished = json.pointer("/tables/0/finished/0").unwrap().clone();
    let mut later = finished.clone();
    later["token"] = json!(2);
    later["statement"] = json!(Uuid::from_u128(7));
    for list in [json!([finished, finished]), json!([finished, later])] {
        json.pointer_mut("/tables/0").unwrap()["finished"] = list;
        assert_eq!(refused(Catalog::decode(&serde_json::to_vec(&json).unwrap())), ErrorKind::Corrupt);
    }
}

proptest! {
    #[test]
    fn damaged_bytes_are_an_error_or_a_catalog(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = whole().encode().unwrap();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(catalog) = Catalog::decode(&bytes) {
            catalog.check().unwrap();
        }
    }

    #[test]
    fn numbers_at_their_ends_are_an_error_or_a_catalog(
        place in any::<prop::sample::Index>(), number in prop::sample::select(vec![0, 1, u64::MAX - 1, u64::MAX]),
        token in 0_u64..3, rows in prop::sample::select(vec![0, 1, u64::MAX]),
    ) {
        let text = String::from_utf8(whole().encode().unwrap()).unwrap();
        let starts: Vec<usize> = text.match_indices(':').map(|(at, _)| at + 1).collect();
        let start = starts[place.index(starts.len())];
        let length = text[start..].find(|c: char| !c.is_ascii_digit()).unwrap();
        prop_assume!(length > 0);
        let text = format!("{}{number}{}", &text[..start], &text[start + length..]);
        if let Ok(catalog) = Catalog::decode(text.as_bytes()) {
            for change in [
                publication(token, 2, rows, vec![written(0, 0, Some(rows)), written(1, 0, None)]),
                Change::Begin { table: TABLE, statement: None },
                create("new", Partitioning::Replicated, 1, 2),
                Change::AddNode(node(2)),
            ] {
                if let Ok(next) = catalog.apply(&change) {
                    next.check().unwrap();
                }
            }
        }
    }
}

#[test]
fn an_append_is_published_once_and_by_its_writer() {
    let both = |positions| vec![written(0, 0, Some(positions)), written(1, 0, Some(positions))];
    let begun = whole();
    let catalog = begun.apply(&publication(1, 1, 2, both(2))).unwrap();
    let table = catalog.table(TABLE).unwrap();
    assert_eq!((table.rows(), table.finished(statement(1)).unwrap().rows), (2, 2));
    // The token is the first writer's still, but the positions have changed.
    assert_eq!(refused(catalog.apply(&publication(1, 1, 2, both(2)))), ErrorKind::Conflict);
    assert_eq!(refused(catalog.apply(&publication(1, 2, 2, both(2)))), ErrorKind::Conflict);
    let again = Change::Begin { table: TABLE, statement: Some(statement(1)) };
    assert_eq!(refused(catalog.apply(&again)), ErrorKind::Conflict);
    // Another writer has begun.
    let overtaken = begun.apply(&Change::Begin { table: TABLE, statement: Some(statement(2)) }).unwrap();
    assert_eq!(refused(overtaken.apply(&publication(1, 1, 2, both(2)))), ErrorKind::Conflict);
    // Not the replicas that the append began with.
    for replicas in [vec![written(0, 0, Some(2))], vec![written(0, 0, Some(2)), written(1, 1, Some(2))]] {
        assert_eq!(refused(begun.apply(&publication(1, 1, 2, replicas))), ErrorKind::Conflict);
    }
    let nobody = vec![written(0, 0, None), written(1, 0, None)];
    assert_eq!(begun.apply(&publication(1, 1, 2, nobody)).unwrap_err().sqlstate(), "58030");
    assert_eq!(refused(begun.apply(&publication(1, 1, 3, both(2)))), ErrorKind::InvalidInput);
}

#[test]
fn a_replica_that_failed_copies_what_it_lacks() {
    let catalog =
        whole().apply(&publication(1, 1, 2, vec![written(0, 0, Some(4)), written(1, 0, None)])).unwrap();
    let replica = catalog.replica(FIRST, id(1)).unwrap();
    assert!(!replica.in_sync && replica.rows == 0);
    for change in [Change::RestartReplica(FIRST, id(0)), Change::DropReplica(FIRST, id(0))] {
        assert_eq!(catalog.apply(&change).unwrap_err().sqlstate(), "55006");
    }
    let catalog = catalog.apply(&Change::RestartReplica(FIRST, id(1))).unwrap();
    let life = Life(catalog.epoch.0);
    let copied = Copied { fragment: FIRST, node: id(1), life, base: 0, positions: 1, rows: 1, join: None };
    let half = catalog.apply(&Change::Copied(copied)).unwrap();
    assert!(!half.replica(FIRST, id(1)).unwrap().in_sync);
    let rest = Copied { base: 1, positions: 2, rows: 2, join: Some(Token(1)), ..copied };
    for wrong in [
        Copied { life: Life(3), ..rest },
        Copied { base: 0, ..rest },
        Copied { rows: 1, ..rest },
        Copied { join: Some(Token(0)), ..rest },
    ] {
        assert_eq!(refused(half.apply(&Change::Copied(wrong))), ErrorKind::Conflict, "{wrong:?}");
    }
    let whole = half.apply(&Change::Copied(rest)).unwrap();
    assert!(whole.replica(FIRST, id(1)).unwrap().in_sync);
    assert_eq!(refused(whole.apply(&Change::Copied(rest))), ErrorKind::Conflict);
}

#[test]
fn a_table_keeps_its_last_statements() {
    let mut catalog = whole();
    for number in 1..=u64::try_from(STATEMENTS_KEPT).unwrap() + 5 {
        let base = number - 1;
        let replicas = vec![written(0, base, Some(number)), written(1, base, Some(number))];
        catalog = catalog.apply(&publication(number, number.into(), 1, replicas)).unwrap();
        catalog = catalog.apply(&Change::Begin { table: TABLE, statement: None }).unwrap();
    }
    let table = catalog.table(TABLE).unwrap();
    assert_eq!(table.finished.len(), STATEMENTS_KEPT);
    assert!(table.finished(statement(5)).is_none() && table.finished(statement(6)).is_some());
}

#[test]
fn other_changes_fit_or_are_refused() {
    let catalog = whole();
    assert_eq!(refused(catalog.apply_at(Epoch(6), &Change::DropTable(TABLE))), ErrorKind::Conflict);
    assert!(catalog.apply_at(Epoch(7), &Change::DropTable(TABLE)).unwrap().table(TABLE).is_none());
    for (change, kind) in [
        (Change::AddNode(node(1)), ErrorKind::AlreadyExists),
        (Change::MoveNode { node: id(1), address: "host1".into() }, ErrorKind::InvalidInput),
        (Change::MoveNode { node: id(5), address: "host5:4953".into() }, ErrorKind::UnknownName),
        (create("hashed", Partitioning::Replicated, 1, 2), ErrorKind::AlreadyExists),
        (create("new", Partitioning::RoundRobin { fragments: 5000 }, 1, 1), ErrorKind::InvalidInput),
        (create("new", Partitioning::Replicated, 1, 3), ErrorKind::InvalidInput),
        (Change::DropTable(TableId(9)), ErrorKind::UnknownName),
        (Change::AddReplica(FIRST, id(1)), ErrorKind::InvalidInput),
        (Change::AddReplica(FIRST, id(5)), ErrorKind::Conflict),
        (Change::Prefer(FIRST, id(5)), ErrorKind::UnknownName),
        (Change::DropReplica(FragmentId { table: TABLE, number: 9 }, id(0)), ErrorKind::UnknownName),
        (Change::RemoveNode { node: id(0), force: true }, ErrorKind::Constraint),
        (Change::SetNodeState { node: id(0), state: NodeState::Lost }, ErrorKind::InvalidInput),
        (Change::Promote { coordinator: id(1), term: Term(1) }, ErrorKind::Conflict),
        (Change::Promote { coordinator: id(5), term: Term(2) }, ErrorKind::InvalidInput),
    ] {
        assert_eq!(refused(catalog.apply(&change)), kind, "{change:?}");
    }
    let exchanged = catalog.apply(&Change::MoveNode { node: id(1), address: "host0:4953".into() }).unwrap();
    let addresses: Vec<&str> = exchanged.nodes.iter().map(|node| node.address.as_str()).collect();
    assert_eq!(addresses, ["host1:4953", "host0:4953"]);
    let promoted = catalog.apply(&Change::Promote { coordinator: id(1), term: Term(4) }).unwrap();
    assert_eq!((promoted.coordinator, promoted.term), (id(1), Term(4)));
    let preferred = catalog.apply(&Change::Prefer(FIRST, id(1))).unwrap();
    assert_eq!(preferred.fragment(FIRST).unwrap().replicas[0].node, id(1));
}

/// Returns the catalog that a difference makes of another one, after it has travelled.
fn made_of(before: &Catalog, after: &Catalog) -> (Catalog, usize) {
    let bytes = serde_json::to_vec(&Difference::between(before, after).unwrap()).unwrap();
    let difference: Difference = serde_json::from_slice(&bytes).unwrap();
    (before.clone().with(&difference).unwrap(), bytes.len())
}

#[test]
fn a_difference_makes_a_catalog_of_any_before() {
    let mut catalogs = vec![cluster(2), whole()];
    let table = whole().tables[0].clone();
    let index = Index { name: "i".into(), columns: vec!["a".into()], ordered: true };
    let additions =
        Additions { indexes: vec![index], comment: Some("of all".into()), ..Additions::default() };
    assert!(Additions::default().is_empty() && additions.bytes() == 8);
    let altered = Altered {
        name: "other".into(),
        definition: "CREATE TABLE other (a BIGINT)".into(),
        additions: Box::new(additions),
        ..altered_to(&table, vec![Column::new(0)])
    };
    let turns = Partitioning::RoundRobin { fragments: 4096 };
    let changes = [
        Change::Begin { table: TableId(3), statement: Some(statement(2)) },
        publication(1, 1, 5, vec![written(0, 0, Some(5)), written(1, 0, None)]),
        Change::Count { table: TABLE, column: 0, after: None, count: 256 },
        Change::Count { table: TABLE, column: 1, after: None, count: 8 },
        Change::AlterTable(altered),
        Change::Count { table: TABLE, column: 0, after: Some(9), count: 0 },
        Change::DropTable(TableId(2)),
        create("many", turns, 2, 2),
        Change::AddNode(node(2)),
        Change::MoveNode { node: id(2), address: "elsewhere:4953".into() },
        Change::RestartReplica(FIRST, id(1)),
        Change::DropReplica(FIRST, id(1)),
        Change::SetNodeState { node: id(1), state: NodeState::Draining },
        Change::Promote { coordinator: id(1), term: Term(7) },
        Change::DropTable(TABLE),
    ];
    for change in changes {
        let next = catalogs.last().unwrap().apply(&change);
        catalogs.push(next.unwrap_or_else(|error| panic!("{change:?}: {error}")));
    }
    for (number, before) in catalogs.iter().enumerate() {
        for after in &catalogs[number..] {
            assert_eq!(made_of(before, after).0, *after, "{} to {}", before.epoch, after.epoch);
        }
    }
    let (first, last) = (catalogs.first().unwrap(), catalogs.last().unwrap());
    assert_eq!(made_of(last, first).0, *first, "without tables, there is a way back");
}

#[test]
fn a_difference_is_as_large_as_what_was_changed() {
    let large = whole().apply(&create("many", Partitioning::RoundRobin { fragments: 4096 }, 2, 2)).unwrap();
    let begun = large.apply(&Change::Begin { table: TABLE, statement: None }).unwrap();
    assert!(made_of(&large, &begun).1 < 500);
    let replicas = vec![written(0, 0, Some(1)), written(1, 0, Some(1))];
    let published = begun.apply(&publication(2, 9, 1, replicas)).unwrap();
    assert!(made_of(&begun, &published).1 < 1500);
    assert!(large.encode().unwrap().len() > 1 << 19);
}

#[test]
fn differences_keep_the_last_statements() {
    let mut catalog = whole();
    let first = catalog.clone();
    for number in 0..STATEMENTS_KEPT as u64 + 9 {
        let before = catalog.clone();
        let begin = Change::Begin { table: TABLE, statement: None };
        let replicas = vec![written(0, number, Some(number + 1)), written(1, number, Some(number + 1))];
        catalog = catalog.apply(&begin).unwrap();
        let publication = publication(number + 2, 100 + u128::from(number), 1, replicas);
        catalog = catalog.apply(&publication).unwrap();
        for base in [&before, &first] {
            assert_eq!(made_of(base, &catalog).0, catalog, "{number}");
        }
    }
}

#[test]
fn differences_of_other_catalogs_are_refused() {
    let (small, large) = (cluster(2), whole());
    let begun = large.apply(&Change::Begin { table: TABLE, statement: None }).unwrap();
    let difference = Difference::between(&large, &begun).unwrap();
    assert_eq!(refused(small.clone().with(&difference)), ErrorKind::Corrupt);
    let other = Catalog { cluster: Uuid::from_u128(1), ..small.clone() };
    assert_eq!(Difference::between(&small, &other), None);
    let mut turned = large.clone();
    turned.tables.rotate_left(1);
    assert_eq!(Difference::between(&large, &turned), None, "tables have an order");
}

#[test]
fn values_are_taken_once() {
    let count = |catalog: &Catalog, after: Option<u64>, count: u64| {
        catalog.apply(&Change::Count { table: TABLE, column: 1, after, count })
    };
    let last = |catalog: &Catalog| catalog.table(TABLE).unwrap().counter(1).unwrap();
    let one = count(&whole(), None, 256).unwrap();
    let two = count(&one, None, 3).unwrap();
    assert_eq!((last(&one).last, last(&two).last), (256, 259));
    assert_eq!(last(&two).since, one.epoch);
    assert_eq!(two.table(TABLE).unwrap().counter(0), None);
    let set = count(&two, Some(1000), 0).unwrap();
    assert_eq!((last(&set).last, last(&set).since), (1000, set.epoch));
    assert_eq!(refused(count(&set, Some(u64::MAX), 1)), ErrorKind::InvalidInput);
    assert_eq!(Catalog::decode(&set.encode().unwrap()).unwrap(), set);
    let mut twice = set.clone();
    twice.tables[0].counters.push(last(&set));
    assert!(twice.check().is_err());
}

#[test]
fn a_sequence_goes_with_its_column() {
    let (before, sequence) = (whole(), TableId(5));
    let owner = |number| Some(Owner { table: TABLE, column: number });
    let made = |owner| {
        let additions = Additions { start: Some(5), owner, ..Additions::default() };
        let table = NewTable::new("main", "s", Partitioning::Replicated, 1).with_additions(additions);
        Change::CreateTable { table, nodes: vec![ids(2)] }
    };
    let catalog = before.apply(&made(owner(1))).unwrap();
    let counter = catalog.table(sequence).unwrap().counter(0).unwrap();
    assert_eq!((counter.last, counter.since), (4, catalog.epoch));
    assert_eq!(made_of(&before, &catalog).0, catalog);
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
    let owner_in = |catalog: &Catalog| catalog.table(sequence).map(|table| table.additions.owner);
    let altered = |columns: Vec<Column>| {
        let altered = altered_to(catalog.table(TABLE).unwrap(), columns);
        catalog.apply(&Change::AlterTable(altered)).unwrap()
    };
    // It stays with a column that is given another type, and goes with one that is dropped, or its table.
    let conversions = vec![Conversion { from: 1, to: LogicalType::Integer }];
    let converted = altered(vec![Column::new(0), Column { conversions, ..Column::new(3) }]);
    assert_eq!(owner_in(&converted), Some(owner(3)));
    let dropped = altered(vec![Column::new(0)]);
    assert_eq!(owner_in(&dropped), None);
    assert_eq!(owner_in(&catalog.apply(&Change::DropTable(TABLE)).unwrap()), None);
    assert_eq!(owner_in(&catalog.apply(&Change::DropTable(TableId(3))).unwrap()), Some(owner(1)));
    let own = |catalog: &Catalog, owner| catalog.apply(&Change::Own { sequence, owner });
    let free = own(&catalog, None).unwrap();
    assert_eq!(owner_in(&free.apply(&Change::DropTable(TABLE)).unwrap()), Some(None));
    let other = own(&free, Some(Owner { table: TableId(3), column: 0 })).unwrap();
    assert_eq!(owner_in(&other.apply(&Change::DropTable(TableId(3))).unwrap()), None);
    // There has to be the column.
    assert_eq!(refused(dropped.apply(&made(owner(1)))), ErrorKind::Conflict);
    for missing in [Owner { table: sequence, column: 0 }, Owner { table: TableId(9), column: 0 }] {
        assert_eq!(refused(own(&free, Some(missing))), ErrorKind::Conflict);
    }
    let mut wrong = catalog.clone();
    wrong.tables[4].additions.owner = Some(Owner { table: TableId(9), column: 0 });
    assert!(wrong.check().is_err());
}

#[test]
fn columns_count_anew_with_what_a_statement_does_to_rows() {
    let begun = whole().apply(&Change::Count { table: TABLE, column: 1, after: None, count: 256 }).unwrap();
    let Change::Publish(mut publication) =
        publication(1, 1, 5, vec![written(0, 0, Some(5)), written(1, 0, Some(5))])
    else {
        panic!("a publication");
    };
    let of = |table, last| Restarted { table, column: 1, last };
    publication.restarts = vec![of(TABLE, 0), of(TableId(3), 9)];
    let published = begun.apply(&Change::Publish(publication.clone())).unwrap();
    let counter =
        |table| published.table(table).unwrap().counter(1).map(|counter| (counter.last, counter.since));
    assert_eq!(counter(TABLE), Some((0, published.epoch)));
    assert_eq!(counter(TableId(3)), Some((9, published.epoch)));
    assert_eq!(made_of(&begun, &published).0, published);
    // Without rows, too; but not if one of them is gone, or if the statement is published already.
    publication.fragments.clear();
    assert!(begun.apply(&Change::Publish(publication.clone())).is_ok());
    assert_eq!(refused(published.apply(&Change::Publish(publication.clone()))), ErrorKind::Conflict);
    publication.restarts = vec![of(TableId(9), 0)];
    assert_eq!(refused(begun.apply(&Change::Publish(publication))), ErrorKind::UnknownName);
}

#[test]
fn appends_to_several_tables_are_published_together() {
    let begun = whole().apply(&Change::Begin { table: TableId(3), statement: Some(statement(1)) }).unwrap();
    let replicas = || vec![written(0, 0, Some(1)), written(1, 0, Some(1))];
    let one = match publication(1, 1, 1, replicas()) {
        Change::Publish(one) => one,
        other => panic!("{other:?}"),
    };
    let mut other = Publication { table: TableId(3), ..one.clone() };
    for replica in &mut other.fragments[0].replicas {
        replica.life = Life(5);
    }
    let both = begun.apply(&Change::PublishAll(vec![one.clone(), other.clone()])).unwrap();
    let rows = |catalog: &Catalog, table| catalog.table(table).unwrap().rows();
    assert_eq!((rows(&both, TABLE), rows(&both, TableId(3))), (1, 1));
    assert!([TABLE, TableId(3)].iter().all(|id| both.table(*id).unwrap().finished(statement(1)).is_some()));
    // Another writer of the second table has begun.
    let overtaken = begun.apply(&Change::Begin { table: TableId(3), statement: None }).unwrap();
    assert_eq!(refused(overtaken.apply(&Change::PublishAll(vec![one, other]))), ErrorKind::Conflict);
}

#[test]
fn an_alteration_that_has_looked_at_rows_is_refused_when_there_are_more() {
    let catalog = whole();
    let table = catalog.tables[0].clone();
    let altered = |rows: &[u64]| {
        Change::AlterTable(Altered {
            definition: "CREATE TABLE hashed (a BIGINT CHECK (a > 0))".into(),
            rows: Some(rows.to_vec()),
            ..altered_to(&table, vec![Column::new(0)])
        })
    };
    assert!(catalog.apply(&altered(&[0, 0])).is_ok());
    let replicas = vec![written(0, 0, Some(5)), written(1, 0, Some(5))];
    let more = catalog.apply(&publication(1, 1, 5, replicas)).unwrap();
    assert_eq!(refused(more.apply(&altered(&[0, 0]))), ErrorKind::Conflict);
    assert!(more.apply(&altered(&[5, 0])).is_ok());
    assert_eq!(refused(more.apply(&altered(&[5]))), ErrorKind::Conflict);
}

#[test]
fn a_column_of_another_type_has_a_number_of_its_own() {
    let catalog = whole();
    let table = catalog.tables[0].clone();
    let altered = |columns: Vec<Column>| {
        catalog.apply(&Change::AlterTable(Altered {
            definition: "CREATE TABLE hashed (a BIGINT, b VARCHAR)".into(),
            ..altered_to(&table, columns)
        }))
    };
    let converted = |number: u32, from: u32| Column {
        conversions: vec![Conversion { from, to: LogicalType::Varchar }],
        ..Column::new(number)
    };
    let next = altered(vec![Column::new(0), converted(2, 1)]).unwrap();
    assert_eq!(Catalog::decode(&next.encode().unwrap()).unwrap(), next);
    let difference = Difference::between(&catalog, &next).unwrap();
    assert_eq!(catalog.clone().with(&difference).unwrap(), next);
    for (number, from) in [(2, 0), (2, 2), (1, 2)] {
        let error = altered(vec![Column::new(0), converted(number, from)]).unwrap_err();
        assert!(error.message().contains("is taken"), "{number} from {from}: {error}");
    }
}

/// Returns a catalog whose first table has a foreign key to the last one.
fn referring() -> Catalog {
    let (catalog, everywhere) = (whole(), TableId(4));
    let table = NewTable::new("main", "child", Partitioning::RoundRobin { fragments: 1 }, 1);
    let refers = vec![Referred { table: everywhere, altered: Epoch(0) }];
    let child = Change::CreateTable { table: table.referring_to(refers), nodes: vec![ids(1)] };
    let catalog = catalog.apply(&child).unwrap();
    assert_eq!(catalog.table(CHILD).unwrap().refers, [everywhere]);
    assert_eq!(Catalog::decode(&catalog.encode().unwrap()).unwrap(), catalog);
    catalog
}

const CHILD: TableId = TableId(5);

/// Returns the change by which a statement appends rows to a table of one fragment, or deletes some.
fn change_of(catalog: &Catalog, table: TableId, (rows, deletes): (u64, u64), found: Vec<Found>) -> Change {
    let of = catalog.table(table).unwrap();
    let replicas = of.fragments[0].in_sync().map(|replica| Written {
        node: replica.node,
        life: replica.life,
        base: replica.positions,
        positions: Some(replica.positions + rows.max(1)),
    });
    let fragments = vec![Appended { number: 0, rows, deletes, replicas: replicas.collect() }];
    let statement = statement(u128::from(catalog.epoch.0) + 100);
    let restarts = Vec::new();
    Change::Publish(Publication { table, token: of.token, statement, fragments, found, restarts })
}

fn begun(catalog: &Catalog, table: TableId) -> Catalog {
    catalog.apply(&Change::Begin { table, statement: None }).unwrap()
}

#[test]
fn tables_that_others_refer_to_stay() {
    let (catalog, parent) = (referring(), TableId(4));
    let error = catalog.apply(&Change::DropTable(parent)).unwrap_err();
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::Constraint, "2BP01"));
    let altered = |referring: Vec<TableId>| {
        Change::AlterTable(Altered {
            definition: "CREATE TABLE everywhere (a BIGINT, b BIGINT)".into(),
            referring,
            ..altered_to(catalog.table(parent).unwrap(), vec![Column::new(0)])
        })
    };
    // Whoever has not seen the other table may have given the names away by which it is defined.
    assert_eq!(refused(catalog.apply(&altered(Vec::new()))), ErrorKind::Conflict);
    let catalog = catalog.apply(&altered(vec![CHILD])).unwrap();
    let refers = vec![Referred { table: parent, altered: Epoch(0) }];
    let table = NewTable::new("main", "other", Partitioning::RoundRobin { fragments: 1 }, 1);
    let other = Change::CreateTable { table: table.referring_to(refers), nodes: vec![ids(1)] };
    assert_eq!(refused(catalog.apply(&other)), ErrorKind::Conflict, "it was altered");
    let alone = catalog.apply(&Change::DropTable(CHILD)).unwrap();
    assert!(alone.apply(&Change::DropTable(parent)).is_ok());
    let mut dangling = catalog.clone();
    dangling.tables.retain(|table| table.id != parent);
    assert!(dangling.check().is_err());
}

#[test]
fn a_key_does_not_go_while_rows_that_refer_to_it_come() {
    let parent = TableId(4);
    let both = begun(&begun(&referring(), parent), CHILD);
    let filled = both.apply(&change_of(&both, parent, (3, 0), Vec::new())).unwrap();
    let begun = begun(&filled, parent);
    let found = |rows: &[u64], deleted: &[u64], table| {
        vec![Found { rows: rows.to_vec(), deleted: deleted.to_vec(), ..Found::nothing(table) }]
    };
    let child = change_of(&begun, CHILD, (1, 0), found(&[], &[0], parent));
    let delete = change_of(&begun, parent, (0, 1), found(&[0], &[], CHILD));
    // Each alone, but not one after the other.
    let (with_child, without_key) = (begun.apply(&child).unwrap(), begun.apply(&delete).unwrap());
    assert_eq!(refused(with_child.apply(&delete)), ErrorKind::Conflict);
    assert_eq!(refused(without_key.apply(&child)), ErrorKind::Conflict);
    // Keys that come are in nobody's way, and neither are rows that do not take keys away.
    let more = begun.apply(&change_of(&begun, parent, (2, 0), Vec::new())).unwrap();
    assert!(more.apply(&child).is_ok());
    let updated = change_of(&with_child, parent, (1, 1), vec![Found::nothing(CHILD)]);
    assert!(with_child.apply(&updated).is_ok());
    // A statement that deletes rows knows which tables refer to them.
    let blind = change_of(&begun, parent, (0, 1), Vec::new());
    assert_eq!(refused(begun.apply(&blind)), ErrorKind::Conflict);
    // One that has locked rows of these need not know it.
    let locked = vec![Found { deleted: vec![0], fragments: vec![0], ..Found::nothing(CHILD) }];
    assert_eq!(refused(begun.apply(&change_of(&begun, parent, (0, 1), locked))), ErrorKind::Conflict);
}

#[test]
fn what_a_transaction_does_itself_is_not_in_its_way() {
    let parent = TableId(4);
    let both = begun(&begun(&referring(), parent), CHILD);
    let filled = both.apply(&change_of(&both, parent, (3, 0), Vec::new())).unwrap();
    let begun = begun(&filled, parent);
    let of_child = vec![Found { deleted: vec![0], ..Found::nothing(parent) }];
    let of_parent = vec![Found { rows: vec![0], ..Found::nothing(CHILD) }];
    let publications: Vec<Publication> =
        [change_of(&begun, parent, (0, 1), of_parent), change_of(&begun, CHILD, (1, 0), of_child)]
            .into_iter()
            .map(|change| match change {
                Change::Publish(publication) => publication,
                other => panic!("{other:?}"),
            })
            .collect();
    let all = begun.apply(&Change::PublishAll(publications.clone())).unwrap();
    let rows = |table| all.table(table).unwrap().rows();
    assert_eq!((rows(parent), rows(CHILD)), (2, 1));
    let other = begun.apply(&change_of(&begun, CHILD, (1, 0), Vec::new())).unwrap();
    assert_eq!(refused(other.apply(&Change::PublishAll(publications))), ErrorKind::Conflict);
}

#[test]
fn other_fragments_of_tables_that_are_placed_together_may_change() {
    let begun = begun(&whole(), TABLE);
    let found = |deleted: [u64; 3], together| {
        vec![Found { deleted: deleted.to_vec(), together, ..Found::nothing(TableId(3)) }]
    };
    // The statement changes the first fragment.
    let change = |found| change_of(&begun, TABLE, (1, 0), found);
    assert!(begun.apply(&change(found([0, 0, 0], false))).is_ok());
    assert!(begun.apply(&change(found([0, 0, 0], true))).is_ok());
    assert_eq!(refused(begun.apply(&change(found([0, 4, 0], false)))), ErrorKind::Conflict);
    assert!(begun.apply(&change(found([0, 4, 0], true))).is_ok());
    assert_eq!(refused(begun.apply(&change(found([4, 0, 0], true)))), ErrorKind::Conflict);
    let short = vec![Found { deleted: vec![0], together: true, ..Found::nothing(TableId(3)) }];
    assert_eq!(refused(begun.apply(&change(short))), ErrorKind::Conflict);
    // Rows of some fragments are locked, or of all.
    let locked = |fragments: &[u32]| {
        let fragments = fragments.to_vec();
        vec![Found { deleted: vec![0, 4, 0], fragments, ..Found::nothing(TableId(3)) }]
    };
    assert!(begun.apply(&change(locked(&[0, 2]))).is_ok());
    for fragments in [&[0, 1][..], &[]] {
        assert_eq!(refused(begun.apply(&change(locked(fragments)))), ErrorKind::Conflict);
    }
}
