"""Transactions: ADBC's rules for autocommit, isolation, conflicts."""

import pytest
from adbc_driver_manager import AdbcStatusCode, Error

PREFIX = "adbc.connection.transaction.isolation."


@pytest.fixture
def account(run):
    run("create table account (id integer primary key, balance integer)")
    run("insert into account values (1, 100), (2, 100)")


def balance(run, on, account=1):
    return run(f"select balance from account where id = {account}", on=on)[0][0]


def test_autocommit_is_on_at_first(con, connect, run):
    assert con.adbc_connection.get_option("adbc.connection.autocommit") == "true"
    run("create table t (a integer)")
    assert run("select * from t", on=connect()) == []
    for end in [con.adbc_connection.commit, con.adbc_connection.rollback]:
        with pytest.raises(Error, match="autocommit is on") as error:
            end()
        assert error.value.status_code == AdbcStatusCode.INVALID_STATE


@pytest.mark.usefixtures("account")
def test_commit_and_rollback(connect, run):
    one, other = connect(autocommit=False), connect()
    assert one.adbc_connection.get_option("adbc.connection.autocommit") == "false"
    run("update account set balance = 50 where id = 1", on=one)
    assert (balance(run, one), balance(run, other)) == (50, 100)
    one.rollback()
    assert balance(run, one) == 100
    run("update account set balance = 60 where id = 1", on=one)
    one.commit()
    assert balance(run, other) == 60
    # Ending without a transaction is no error.
    one.commit()
    one.rollback()


@pytest.mark.usefixtures("account")
def test_turning_autocommit_on_commits(connect, run):
    one, other = connect(autocommit=False), connect()
    run("delete from account", on=one)
    one.adbc_connection.set_autocommit(True)
    assert run("select * from account", on=other) == []
    run("insert into account values (3, 1)", on=one)
    assert balance(run, other, 3) == 1


@pytest.mark.usefixtures("account")
def test_a_transaction_begins_with_its_first_statement(connect, run):
    reader, writer = connect(autocommit=False), connect()
    run("update account set balance = 1 where id = 1", on=writer)
    assert balance(run, reader) == 1
    run("update account set balance = 2 where id = 1", on=writer)
    assert balance(run, reader) == 1
    reader.rollback()
    assert balance(run, reader) == 2


@pytest.mark.usefixtures("account")
def test_the_second_committer_of_a_row_gets_a_conflict(connect, run):
    one, other = connect(autocommit=False), connect(autocommit=False)
    run("update account set balance = 1 where id = 1", on=one)
    run("update account set balance = 2 where id = 1", on=other)
    one.commit()
    with pytest.raises(Error, match='"account"') as error:
        other.commit()
    assert error.value.sqlstate == "40001"
    # The transaction is over, and the next one can begin.
    assert balance(run, other) == 1
    run("update account set balance = 2 where id = 1", on=other)
    other.commit()
    assert balance(run, one) == 2


@pytest.mark.usefixtures("account")
def test_an_error_aborts_until_rollback(connect, run):
    con = connect(autocommit=False)
    run("delete from account where id = 1", on=con)
    with pytest.raises(Error) as error:
        run("insert into account values (2, 5)", on=con)
    assert error.value.status_code == AdbcStatusCode.INTEGRITY
    with pytest.raises(Error) as error:
        run("select 1", on=con)
    assert (error.value.status_code, error.value.sqlstate) == (AdbcStatusCode.INVALID_STATE, "25P02")
    con.rollback()
    assert balance(run, con) == 100


@pytest.mark.usefixtures("account")
def test_what_is_open_at_the_end_is_rolled_back(connect, run):
    con = connect(autocommit=False)
    run("delete from account", on=con)
    con.close()
    assert run("select count(*) from account", on=connect()) == [(2,)]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("autocommit", [True, False])
def test_read_only_connections(connect, run, autocommit):
    con = connect(autocommit=autocommit)
    con.adbc_connection.set_options(**{"adbc.connection.readonly": "true"})
    assert con.adbc_connection.get_option("adbc.connection.readonly") == "true"
    assert balance(run, con) == 100
    with pytest.raises(Error, match="read-only") as error:
        run("delete from account", on=con)
    assert error.value.sqlstate == "25006"
    if not autocommit:
        con.rollback()
    with con.cursor() as cursor:
        # A result outlives the transaction that it is read in.
        cursor.execute("select value from generate_series(1, 100000)")
        assert len(cursor.fetchall()) == 100_000
    if not autocommit:
        with pytest.raises(Error, match="open") as error:
            con.adbc_connection.set_options(**{"adbc.connection.readonly": "false"})
        con.rollback()
    con.adbc_connection.set_options(**{"adbc.connection.readonly": "false"})
    run("delete from account", on=con)


def test_isolation_levels(con):
    option = "adbc.connection.transaction.isolation_level"
    for level in ["default", "read_committed", "repeatable_read", "snapshot"]:
        con.adbc_connection.set_options(**{option: PREFIX + level})
    assert con.adbc_connection.get_option(option) == PREFIX + "snapshot"
    for level, status in [
        ("serializable", AdbcStatusCode.NOT_IMPLEMENTED),
        ("linearizable", AdbcStatusCode.NOT_IMPLEMENTED),
        ("chaos", AdbcStatusCode.INVALID_ARGUMENT),
    ]:
        with pytest.raises(Error, match=level) as error:
            con.adbc_connection.set_options(**{option: PREFIX + level})
        assert error.value.status_code == status
