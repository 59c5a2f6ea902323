"""Constraints under concurrency: threads of several processes try to break them, while another one
reads.
"""

import hypostyle
import pytest
from campaigns import WORKERS, in_a_fresh_process, place_of, seeds, work_and_watch

KEYS = 40
ACCOUNTS = 6
BALANCE = 100
TRANSFERS = 25
PARENTS = 30
CLAIMS = 20
CHANGES = 25
ATTEMPTS = 1000
COUNTERS = 5
COUNTS = 25


def settle(con, decide, statement, parameters) -> int:
    """Return the rows affected, again after conflicts; 0 when a constraint refuses them."""
    in_transaction = decide.random() < 0.5
    while True:
        try:
            if not in_transaction:
                return con.execute(statement, parameters).rows_affected
            with con.transaction():
                return con.execute(statement, parameters).rows_affected
        except hypostyle.ConstraintError as error:
            assert error.sqlstate.startswith("23")
            return 0
        except hypostyle.ConflictError as error:
            assert error.sqlstate == "40001"


def insert_all_keys(con, decide, worker):
    statement = "insert into claim values (?, ?)"
    return [key for key in range(KEYS) if settle(con, decide, statement, [key, worker])]


@pytest.mark.parametrize("key", ["primary key", "unique"])
def test_each_key_is_won_by_exactly_one(directory, key):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute(f"create table claim (k integer {key}, worker integer)")
        twice = "select count(*) - count(distinct k) from claim"
        won = work_and_watch(place, insert_all_keys, seed, twice, [(0,)])
        owners = sorted((key, worker) for worker, keys in enumerate(won) for key in keys)
        assert [key for key, _ in owners] == list(range(KEYS))
        assert in_a_fresh_process(place, "select k, worker from claim order by k") == [owners]


def transfer(con, decide, worker):
    """Return how many transfers were refused because an account had too little."""
    refused = 0
    for number in range(TRANSFERS):
        source, target = decide.sample(range(ACCOUNTS), 2)
        amount = decide.randrange(1, 2 * BALANCE)
        changes = [(-amount, source), (amount, target)]
        decide.shuffle(changes)

        def work(con, changes=changes, entry=(worker, number, source, target, amount)):
            for change in changes:
                con.execute("update account set balance = balance + ? where id = ?", change)
            con.execute("insert into journal values (?, ?, ?, ?, ?)", entry)

        try:
            con.run_transaction(work, attempts=ATTEMPTS)
        except hypostyle.ConstraintError:
            refused += 1
    return refused


@pytest.mark.parametrize("key", ["", "primary key"])
def test_transfers_keep_the_sum_and_no_balance_is_negative(directory, key):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute(f"create table account (id integer {key}, balance integer check (balance >= 0))")
            con.execute(
                "create table journal "
                "(worker integer, number integer, source integer, target integer, amount integer)"
            )
            con.executemany("insert into account values (?, ?)", [(id, BALANCE) for id in range(ACCOUNTS)])
        whole = "select sum(balance), min(balance) >= 0, count(*) from account"
        refused = sum(work_and_watch(place, transfer, seed, whole, [(ACCOUNTS * BALANCE, True, ACCOUNTS)]))
        balances, journal = in_a_fresh_process(
            place, "select id, balance from account order by id", "select source, target, amount from journal"
        )
        assert refused > 0
        assert len(journal) == WORKERS * TRANSFERS - refused > 0
        expected = dict.fromkeys(range(ACCOUNTS), BALANCE)
        for source, target, amount in journal:
            expected[source] -= amount
            expected[target] += amount
        assert balances == list(expected.items())
        assert min(expected.values()) >= 0


def delete_or_refer(con, decide, worker):
    """Return the parents that were deleted or got a child, among those that were tried."""
    if worker % 2 == 0:
        delete = "delete from parent where id = ?"
        return [id for id in range(PARENTS) if id % 3 and settle(con, decide, delete, [id])]
    insert = "insert into child values (?, ?)"
    return [id for id in range(PARENTS) if settle(con, decide, insert, [id, worker])]


@pytest.mark.parametrize("action", ["", "on delete cascade"])
def test_there_is_never_an_orphan(directory, action):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute("create table parent (id integer primary key)")
            con.execute(f"create table child (parent integer references parent {action}, worker integer)")
            con.append("parent", {"id": list(range(PARENTS))})
        orphans = (
            "select count(*) from child left join parent on parent.id = child.parent where parent.id is null"
        )
        done = work_and_watch(place, delete_or_refer, seed, orphans, [(0,)])
        deleted = sorted(id for worker in range(0, WORKERS, 2) for id in done[worker])
        referred = {(id, worker) for worker in range(1, WORKERS, 2) for id in done[worker]}
        parents, children = in_a_fresh_process(
            place, "select id from parent order by id", "select parent, worker from child"
        )
        left = sorted(set(range(PARENTS)) - set(deleted))
        assert len(deleted) == len(set(deleted))
        assert parents == [(id,) for id in left]
        assert sorted(children) == [(id, worker) for id in left for worker in range(1, WORKERS, 2)]
        if action:
            assert left == list(range(0, PARENTS, 3))
            assert referred >= set(children)
        else:
            assert referred == set(children)


def take_what_is_free(con, decide, worker):
    """Give its own rows free numbers, and take them away again."""
    given = 0
    for _ in range(CLAIMS):
        row, number = worker * 2 + decide.randrange(2), decide.randrange(WORKERS)

        def work(con, row=row, number=number):
            ((taken,),) = con.sql("select count(*) from seat where number = ?", [number]).fetchall()
            chosen = None if taken else number
            con.execute("update seat set number = ? where id = ?", [chosen, row])
            return chosen is not None

        given += con.run_transaction(work, attempts=ATTEMPTS)
    return given


def test_who_looks_before_an_update_never_makes_a_number_twice(directory):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute("create table seat (id integer, number integer unique)")
            con.executemany("insert into seat values (?, null)", [(id,) for id in range(2 * WORKERS)])
        twice = "select count(*), count(number) - count(distinct number) from seat"
        given = work_and_watch(place, take_what_is_free, seed, twice, [(2 * WORKERS, 0)])
        assert sum(given) > 0
        # This is a query that no constraint can answer from its own knowledge.
        numbers = in_a_fresh_process(place, "select number from seat where number is not null")[0]
        assert len(numbers) == len(set(numbers)) <= WORKERS


def test_two_updates_to_the_same_unique_number_exclude_each_other(directory):
    with hypostyle.connect(directory) as one, hypostyle.connect(directory) as other:
        one.execute("create table seat (id integer, number integer unique)")
        one.execute("insert into seat values (1, 1), (2, 2)")
        one.begin()
        other.begin()
        for con, id in ((one, 1), (other, 2)):
            assert con.sql("select count(*) from seat where number = 7").fetchone() == (0,)
            con.execute("update seat set number = 7 where id = ?", [id])
        one.commit()
        with pytest.raises(hypostyle.ConflictError, match='"seat"') as error:
            other.commit()
        assert error.value.sqlstate == "40001"
        with pytest.raises(hypostyle.ConstraintError, match="seat_number_key"):
            other.execute("update seat set number = 7 where id = 2")
    assert in_a_fresh_process(directory, "select id, number from seat order by id") == [[(1, 7), (2, 2)]]


@pytest.mark.parametrize(
    "question", ["select id, balance from account where id >= 0", "select * from account"]
)
def test_rows_that_are_not_fetched_yet_keep_their_files(directory, question):
    with hypostyle.connect(directory) as reader, hypostyle.connect(directory) as writer:
        writer.execute("create table account (id integer, balance integer)")
        writer.execute("insert into account values (1, 100), (2, 100)")
        writer.execute("checkpoint")
        result = reader.sql(question)
        for _ in range(2):
            writer.execute("update account set balance = 0")
            writer.execute("vacuum")
        assert sorted(result.fetchall()) == [(1, 100), (2, 100)]
        assert reader.sql("select sum(balance) from account").fetchone() == (0,)


UPSERTS = [
    "insert into counter as c values (?, 1) on conflict (k) do update set n = c.n + excluded.n",
    "merge into counter using (select ? as k) as s on counter.k = s.k "
    "when matched then update set n = n + 1 when not matched then insert values (s.k, 1)",
]


def count(con, decide, worker):
    """Return how often it has counted each key."""
    counted = dict.fromkeys(range(COUNTERS), 0)
    for _ in range(COUNTS):
        key, statement = decide.randrange(COUNTERS), decide.choice(UPSERTS)
        affected = con.run_transaction(
            lambda con, key=key, statement=statement: con.execute(statement, [key]).rows_affected,
            attempts=ATTEMPTS,
        )
        assert affected == 1
        counted[key] += 1
    return counted


def test_each_upsert_and_merge_counts_once(directory):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute("create table counter (k integer primary key, n integer not null)")
        twice = "select count(*) - count(distinct k) from counter"
        counted = work_and_watch(place, count, seed, twice, [(0,)])
        expected = [(key, sum(of[key] for of in counted)) for key in range(COUNTERS)]
        (found,) = in_a_fresh_process(place, "select k, n from counter order by k")
        assert found == [each for each in expected if each[1]]
        assert sum(n for _, n in found) == WORKERS * COUNTS


def change_own_rows(con, decide, worker):
    """Return the number of conflicts, though nobody else touches these keys."""
    conflicts = 0
    for number in range(CHANGES):
        own, neighbour = WORKERS * (number + 1) + worker, decide.randrange(WORKERS)
        try:
            with con.transaction():
                con.execute("update item set n = n + 1 where id = ?", [worker])
                con.execute("insert into item values (?, 0, ?)", [own, neighbour])
        except hypostyle.ConflictError:
            conflicts += 1
    return conflicts


def test_who_touches_different_keys_is_never_in_conflict(directory):
    for seed in seeds():
        place = place_of(directory, seed)
        with hypostyle.connect(place) as con:
            con.execute(
                "create table item (id integer primary key, n integer, neighbour integer references item)"
            )
            con.executemany("insert into item values (?, 0, null)", [(id,) for id in range(WORKERS)])
        twice = "select count(*) - count(distinct id) from item"
        assert work_and_watch(place, change_own_rows, seed, twice, [(0,)]) == [0] * WORKERS
        counters, whole = in_a_fresh_process(
            place,
            f"select n from item where id < {WORKERS}",
            "select count(*), sum(n) from item",
        )
        assert counters == [(CHANGES,)] * WORKERS
        assert whole == [(WORKERS * (CHANGES + 1), WORKERS * CHANGES)]
