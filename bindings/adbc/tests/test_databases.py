"""Opening: options, users, several databases at once, and the manifest."""

import subprocess
import sys

import pytest
from adbc_driver_manager import AdbcConnection, AdbcDatabase, AdbcStatusCode, Error, dbapi
from conftest import DRIVER, TARGET, listening, served


def connect(uri, **options):
    return dbapi.connect(driver=DRIVER, db_kwargs={"uri": uri, **options}, autocommit=True)


def rows(con, sql):
    with con.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchall()


def refused(status, match, **options):
    with pytest.raises(Error, match=match) as error:
        AdbcDatabase(driver=DRIVER, **options)
    assert error.value.status_code == status


def test_a_database_stays(tmp_path):
    path = str(tmp_path / "shop.hypo")
    with connect(path) as con:
        rows(con, "create table t as select 1 as a")
    with connect(path) as con:
        assert rows(con, "select * from t") == [(1,)]


def test_two_databases_at_once(tmp_path):
    with connect(str(tmp_path / "one")) as one, connect(":memory:") as two, connect(":memory:") as three:
        for number, con in enumerate([one, two, three]):
            rows(con, f"create table t as select {number} as a")
        assert [rows(con, "select a from t") for con in [one, two, three]] == [[(0,)], [(1,)], [(2,)]]


def test_one_directory_twice(tmp_path):
    path = str(tmp_path / "shop.hypo")
    with connect(path) as one, connect(path) as other:
        rows(one, "create table t as select 1 as a")
        assert rows(other, "select * from t") == [(1,)]
        rows(other, "insert into t values (2)")
        assert rows(one, "select count(*) from t") == [(2,)]


def test_without_a_place_it_is_in_memory():
    with AdbcDatabase(driver=DRIVER) as database, AdbcConnection(database):
        pass


def test_options(tmp_path):
    path = tmp_path / "shop.hypo"
    options = {
        "hypostyle.threads": "1",
        "hypostyle.memory_limit": "100MB",
        "hypostyle.temp_directory": str(tmp_path),
        "hypostyle.allow_network_filesystem": "true",
        "hypostyle.verify": "always",
    }
    with connect(str(path), **options) as con:
        assert rows(con, "show threads") == [("threads", "1")]
        assert rows(con, "show memory_limit") == [("memory_limit", "100MB")]
        assert rows(con, "show temp_directory") == [("temp_directory", str(tmp_path))]
        assert con.adbc_database.get_option("hypostyle.threads") == "1"
        assert con.adbc_database.get_option("uri") == str(path)
        with pytest.raises(Error) as error:
            con.adbc_database.get_option("password")
        assert error.value.status_code == AdbcStatusCode.NOT_FOUND
        with pytest.raises(Error, match="before"):
            con.adbc_database.set_options(**{"hypostyle.threads": "2"})
        with pytest.raises(Error, match="no option"):
            con.adbc_database.set_options(nothing="2")
    with pytest.raises(Error, match="auto, always or never"):
        connect(str(path), **{"hypostyle.verify": "sometimes"})
    with connect(str(path), **{"hypostyle.read_only": "true"}) as con:
        with pytest.raises(Error) as error:
            rows(con, "create table t (a integer)")
        assert error.value.sqlstate == "25006"


def test_options_are_checked(tmp_path):
    path = str(tmp_path / "x")
    invalid, unknown = AdbcStatusCode.INVALID_ARGUMENT, AdbcStatusCode.NOT_IMPLEMENTED
    refused(unknown, 'hypostyle.thread".*hypostyle.threads', uri=path, **{"hypostyle.thread": "1"})
    refused(invalid, "hypostyle.threads.*many", uri=path, **{"hypostyle.threads": "many"})
    refused(invalid, "hypostyle.memory_limit.*parsecs", uri=path, **{"hypostyle.memory_limit": "4 parsecs"})
    refused(invalid, "hypostyle.read_only.*maybe", uri=path, **{"hypostyle.read_only": "maybe"})
    refused(invalid, "username", uri=path, username="ada")
    refused(invalid, "hypostyle.threads", uri="hypostyle://localhost/", **{"hypostyle.threads": "1"})
    refused(invalid, "mysql", uri="mysql://localhost/")
    refused(invalid, "no host", uri="hypostyle://")
    refused(
        AdbcStatusCode.NOT_FOUND, "nowhere", uri=str(tmp_path / "nowhere"), **{"hypostyle.read_only": "true"}
    )
    (tmp_path / "file").write_text("not a database")
    with pytest.raises(Error, match="file"):
        AdbcDatabase(driver=DRIVER, uri=str(tmp_path / "file"))
    assert not (tmp_path / "x").exists()
    with AdbcDatabase(driver=DRIVER) as database, pytest.raises(Error, match=r"no\.such"):
        AdbcConnection(database, **{"no.such": "1"})


@pytest.fixture
def users(tmp_path):
    """Start a server with users; return its port."""
    file = tmp_path / "users"
    line = subprocess.run(
        [str(TARGET / "hypostyle"), "user", "ada", "--role", "read"],
        input="secret\n",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    file.write_text(line)
    with served(":memory:", "--listen", "127.0.0.1:0", "--users", str(file)) as server:
        yield listening(server, r"127\.0\.0\.1:([1-9]\d*)")[1]


def test_users(users):
    with connect(f"hypostyle://127.0.0.1:{users}/", username="ada", password="secret") as con:
        assert rows(con, "select 1") == [(1,)]
        with pytest.raises(Error) as error:
            rows(con, "create table t (a integer)")
        assert error.value.status_code == AdbcStatusCode.UNAUTHORIZED
    with connect(f"hypostyle://ada:secret@127.0.0.1:{users}/") as con:
        assert rows(con, "select 1") == [(1,)]
    for options in [{"username": "ada", "password": "wrong"}, {"username": "eve", "password": "secret"}]:
        with pytest.raises(Error) as error:
            connect(f"hypostyle://127.0.0.1:{users}/", **options)
        assert error.value.status_code == AdbcStatusCode.UNAUTHENTICATED
        assert "secret" not in str(error.value)


def test_the_manifest(tmp_path):
    """scripts/adbc.sh has installed it into the environment that the tests run in."""
    with dbapi.connect(driver="hypostyle", db_kwargs={"uri": str(tmp_path / "shop.hypo")}) as con:
        assert rows(con, "select 1") == [(1,)]


def test_the_scheme_of_an_address_names_the_driver(tmp_path):
    with served(":memory:", "--listen", "127.0.0.1:0") as server:
        port = listening(server, r"127\.0\.0\.1:([1-9]\d*)")[1]
        with dbapi.connect(uri=f"hypostyle://127.0.0.1:{port}/") as con:
            assert rows(con, "select 1") == [(1,)]


def test_programs_end_with_everything_open(tmp_path):
    """Check that at the end of a process nothing waits for the driver's threads."""
    program = f"""
from adbc_driver_manager import dbapi
con = dbapi.connect(driver={DRIVER!r}, db_kwargs={{"uri": {str(tmp_path / "x")!r}}})
cursor = con.cursor()
cursor.execute("select value from generate_series(1, 1000000000)")
print(cursor.fetchone(), flush=True)
import os; os._exit(0)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ended.stdout.strip() == "(1,)"


MALFORMED = [
    "hypostyle://ada:*@h/",
    "hypostyle://*@h/",
    "hypostyle://ada:1?*@h/",
    "hypostyle://ada:1/*@h/",
    "hypostyle://h/*",
    "hypostyle://h/?password=*&streams=99",
    "hypostyle://h/?password=a&s3cr",
    "hypostyle:ada:*@h/",
    "hypostyle+unix://ada:*@/run/socket",
    "postgresql://ada:*@h/db",
    "postgresql://h/db?password=*",
    "postgresql://ada:s3cr?x=1@h/db",
    "mysql://ada:*@h/db",
]


@pytest.mark.parametrize("uri", MALFORMED)
@pytest.mark.parametrize("options", [{}, {"hypostyle.threads": "1"}], ids=["alone", "with threads"])
def test_errors_show_no_password(uri, options):
    with pytest.raises(Error) as error:
        AdbcDatabase(driver=DRIVER, uri=uri.replace("*", "s3cr:t%@/#?x"), **options)
    assert not [part for part in ("s3cr", "t%", "#?") if part in str(error.value)]
