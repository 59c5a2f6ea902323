"""Transactions from Python: the context manager, conflicts, and the helper that tries again."""

import threading

import hypostyle
import numpy as np
import pytest


@pytest.fixture
def account(con):
    con.execute("create table account (id integer primary key, balance integer)")
    con.execute("insert into account values (1, 100), (2, 100)")
    return con


def balances(con):
    return dict(con.sql("select * from account order by id").fetchall())


def test_a_block_commits_at_its_end(account):
    other = account.duplicate()
    with account.transaction() as con:
        con.execute("update account set balance = balance - 30 where id = 1")
        con.execute("update account set balance = balance + 30 where id = 2")
        assert balances(con) == {1: 70, 2: 130}
        assert balances(other) == {1: 100, 2: 100}
    assert balances(other) == {1: 70, 2: 130}
    assert not account.in_transaction


def test_a_block_that_raises_is_rolled_back(account):
    with pytest.raises(ZeroDivisionError), account.transaction():
        account.execute("delete from account")
        1 / 0  # noqa: B018
    assert balances(account) == {1: 100, 2: 100}


def test_an_error_aborts_until_rollback(account):
    account.begin()
    account.execute("delete from account where id = 1")
    with pytest.raises(hypostyle.ConstraintError, match=r"account_pkey.*id = 2"):
        account.execute("insert into account values (2, 5)")
    with pytest.raises(hypostyle.TransactionStateError, match="aborted") as error:
        account.sql("select 1")
    assert error.value.sqlstate == "25P02"
    account.rollback()
    assert balances(account) == {1: 100, 2: 100}


def test_only_conflicts_are_tried_again(account):
    tries = []

    def work(con):
        tries.append(con)
        with pytest.raises(hypostyle.ConstraintError):
            con.execute("insert into account values (1, 5)")
        con.execute("select 1")

    with pytest.raises(hypostyle.TransactionStateError, match="aborted"):
        account.run_transaction(work)
    assert len(tries) == 1


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "SAVEPOINT s"])
def test_ends_without_a_beginning_are_errors_of_the_state(account, end):
    with pytest.raises(hypostyle.TransactionStateError, match="no transaction is open") as error:
        account.execute(end)
    assert error.value.sqlstate == "25P01"
    account.begin()
    with pytest.raises(hypostyle.TransactionStateError, match="open already") as error:
        account.begin()
    assert error.value.sqlstate == "25001"
    account.rollback()


@pytest.mark.parametrize("fetch", [lambda result: result.fetchall(), lambda result: result.df()])
def test_an_error_while_rows_are_fetched_aborts_too(account, fetch):
    account.execute("insert into account values (3, 0)")
    account.begin()
    account.execute("update account set balance = balance + 1 where id = 1")
    with pytest.raises(hypostyle.Error, match=r"[Dd]ivi"):
        fetch(account.sql("select 1 / balance from account order by id"))
    with pytest.raises(hypostyle.TransactionStateError, match="aborted"):
        account.commit()
    assert balances(account) == {1: 100, 2: 100, 3: 0}


def test_an_error_of_rows_from_before_does_not_abort():
    con = hypostyle.connect()
    con.execute("create table t (a integer)")
    # It is not computed before the rows are read; a server would send them at once.
    before = con.sql("select 1 / value from generate_series(-1, 1) order by value")
    con.begin()
    con.execute("insert into t values (1)")
    with pytest.raises(hypostyle.Error, match="division by zero"):
        before.fetchall()
    con.commit()
    assert con.sql("select * from t").fetchall() == [(1,)]


@pytest.mark.parametrize(
    "change",
    [
        "drop table account",
        "alter table account drop constraint account_pkey",
        "alter table account drop column id",
    ],
)
def test_a_key_that_is_referred_to_meanwhile_stays(account, change):
    other = account.duplicate()
    account.begin()
    account.execute(change)
    other.execute("create table child (a integer references account)")
    with pytest.raises(hypostyle.ConflictError, match=r"child_a_fkey|account"):
        account.commit()
    with pytest.raises(hypostyle.ConstraintError):
        other.execute("insert into child values (7)")


def test_a_key_that_goes_meanwhile_cannot_be_referred_to(account):
    other = account.duplicate()
    account.begin()
    account.execute("create table child (a integer references account)")
    other.execute("alter table account drop constraint account_pkey")
    with pytest.raises(hypostyle.ConflictError):
        account.commit()


def test_keys_are_unique_whoever_inserts_them(account):
    other = account.duplicate()
    account.begin()
    account.execute("insert into account values (3, 0)")
    other.execute("insert into account values (3, 1)")
    with pytest.raises(hypostyle.ConflictError):
        account.commit()
    assert balances(other) == {1: 100, 2: 100, 3: 1}


def test_a_child_and_the_end_of_its_parent_exclude_each_other(account):
    other = account.duplicate()
    account.execute("create table child (a integer references account)")
    account.begin()
    account.execute("insert into child values (2)")
    other.execute("delete from account where id = 2")
    with pytest.raises(hypostyle.ConflictError):
        account.commit()
    assert account.sql("select count(*) from child").fetchall() == [(0,)]


def test_the_second_committer_of_a_row_gets_a_conflict(account):
    other = account.duplicate()
    account.begin()
    other.begin()
    account.execute("update account set balance = 1 where id = 1")
    other.execute("update account set balance = 2 where id = 1")
    account.commit()
    with pytest.raises(hypostyle.ConflictError, match='"account"') as error:
        other.commit()
    assert error.value.sqlstate == "40001"
    assert balances(other) == {1: 1, 2: 100}


def test_run_transaction_tries_again(account):
    increments = 20

    def work(con):
        (balance,) = con.sql("select balance from account where id = 1").fetchone()
        con.execute("update account set balance = ? where id = 1", [balance + 1])

    def run():
        con = account.duplicate()
        for _ in range(increments):
            con.run_transaction(work, attempts=1000)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert balances(account)[1] == 100 + 3 * increments


def test_appends_are_part_of_a_transaction(con):
    con.append("t", {"a": np.arange(10)}, create=True)
    with pytest.raises(RuntimeError), con.transaction():
        con.append("t", {"a": np.arange(200_000)})
        assert len(con.table("t")) == 200_010
        raise RuntimeError
    assert len(con.table("t")) == 10
    with con.transaction():
        con.append("t", {"a": np.arange(200_000)})
        con.append("u", {"b": ["x"]}, create=True)
    assert con.sql("select count(*), sum(a) from t").fetchone() == (200_010, 19_999_900_045)
    assert con.table("u").fetchall() == [("x",)]


def test_results_stay_as_they_were(con):
    con.append("t", {"a": np.arange(100_000)}, create=True)
    before = con.table("t").fetchnumpy()["a"]
    con.execute("delete from t where a % 2 = 0")
    after = con.table("t").fetchnumpy()["a"]
    con.execute("drop table t")
    assert before.sum() == 4_999_950_000
    assert after.sum() == 2_500_000_000
    after[:] = 0
    assert before[1] == 1


def test_a_read_only_transaction_keeps_its_snapshot(account):
    other = account.duplicate()
    with account.transaction(read_only=True):
        assert len(account.table("account")) == 2
        other.execute("insert into account values (3, 1)")
        assert len(account.table("account")) == 2
        with pytest.raises(hypostyle.Error, match="read-only"):
            account.execute("delete from account")
        account.rollback()
        account.begin()
    assert len(account.table("account")) == 3


def test_synchronous_is_a_setting(con):
    assert con.sql("pragma synchronous").fetchall() == [("synchronous", "full")]
    con.execute("pragma synchronous = normal")
    assert con.sql("show synchronous").fetchall() == [("synchronous", "normal")]
    with pytest.raises(hypostyle.DataError, match="full, normal or off"):
        con.execute("pragma synchronous = often")


@pytest.mark.parametrize("back_to", ["rollback", "rollback to savepoint s"])
def test_results_do_not_change_when_their_rows_are_rolled_back(con, back_to):
    """Rows of a large INSERT lie in the column files, where others write over them later."""

    def insert(what):
        con.execute(
            f"insert into t select value, '{what} number ' || value, '{what}', "
            "case value % 2 when 0 then value end from generate_series(1, 100000) as g (value)"
        )

    con.execute("create table t (a bigint, s varchar, k varchar, n decimal(9, 2))")
    con.execute("insert into t values (0, 'first', 'first', 0)")
    con.execute("checkpoint")
    con.begin()
    con.execute("savepoint s")
    insert("lost")
    query = "select a, s, k, n from t where a > 0 order by a"
    kept = [
        con.sql("select * from t where a > 0").arrow(),
        con.sql("select a, s, k, n, a + 1 from t").arrow().slice(1),
        con.sql("select s, k from t where a > 99990").arrow(),
    ]
    before = [table.to_pylist() for table in kept]
    running = con.sql("select a, s, k, n from t where a > 0")
    first = running.fetchmany(10)
    assert len(first) == 10
    con.execute(back_to)
    insert("kept")
    assert [table.to_pylist() for table in kept] == before
    # Rows that have not been read yet are gone.
    try:
        rest = running.fetchall()
    except hypostyle.TransactionStateError as error:
        assert error.sqlstate == "40000" and "rolled back" in str(error)
    else:
        assert all(row[2] == "lost" for row in rest)
    if con.in_transaction:
        con.rollback()
    else:
        assert {row[2] for row in con.sql(query).fetchall()} == {"kept"}
