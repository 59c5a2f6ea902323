"""psycopg and SQLAlchemy against a server; `HYPOSTYLE_PGWIRE` names a program that gets an
address.
"""

import base64
import datetime
import decimal
import hashlib
import hmac
import os
import subprocess
import threading
import uuid

import pytest

psycopg = pytest.importorskip("psycopg")
json_types = pytest.importorskip("psycopg.types.json")
sqlalchemy = pytest.importorskip("sqlalchemy")

PROGRAM = os.environ.get("HYPOSTYLE_PGWIRE")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="HYPOSTYLE_PGWIRE is not set")


@pytest.fixture(scope="module")
def port():
    server = subprocess.Popen([PROGRAM, "127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
    try:
        yield int(server.stdout.readline().rsplit(":", 1)[1])
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@pytest.fixture
def pg(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ada") as connection:
        yield connection


VALUES = [
    True,
    7,
    2**40,
    1.5,
    decimal.Decimal("12.340"),
    "text",
    b"\x00\xff",
    datetime.date(2024, 2, 29),
    datetime.time(1, 2, 3, 4),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6),
    datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC),
    datetime.timedelta(days=1, seconds=2),
    [1, 2, 3],
]


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_values_come_back(pg, value, binary):
    cursor = pg.cursor(binary=binary)
    mark = "%b" if binary else "%t"
    assert cursor.execute(f"SELECT {mark} AS v", [value]).fetchone() == (value,)


@pytest.mark.parametrize("binary", [False, True])
def test_columns_of_all_types(pg, binary):
    pg.execute(
        "CREATE TABLE kinds (b BOOLEAN, s SMALLINT, i INTEGER, l BIGINT, f DOUBLE, n DECIMAL(12,3), "
        "v VARCHAR, y BLOB, d DATE, t TIME, ts TIMESTAMP, tz TIMESTAMPTZ, iv INTERVAL, u UUID, j JSON, "
        "a INTEGER[], st STRUCT(x INTEGER, y VARCHAR))"
    )
    row = (
        True,
        1,
        2,
        3,
        4.5,
        decimal.Decimal("1.250"),
        "x",
        b"\x01",
        datetime.date(2024, 1, 1),
        datetime.time(1, 2),
        datetime.datetime(2024, 1, 1),
        datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        datetime.timedelta(hours=1),
        uuid.UUID(int=5),
        {"k": [1]},
        [1, None],
    )
    with pg.cursor().copy(
        "COPY kinds (b, s, i, l, f, n, v, y, d, t, ts, tz, iv, u, j, a) FROM STDIN"
    ) as copy:
        copy.write_row((*row[:14], '{"k": [1]}', row[15]))
    cursor = pg.cursor(binary=binary)
    found = cursor.execute("SELECT b, s, i, l, f, n, v, y, d, t, ts, tz, iv, u, j, a FROM kinds").fetchone()
    assert found == row
    pg.rollback()


def test_server_side_binding_and_pipeline(pg):
    pg.execute("CREATE TABLE p (a INT, b VARCHAR)")
    with pg.pipeline():
        for number in range(10):
            pg.execute("INSERT INTO p VALUES (%s, %s)", [number, str(number)])
        cursor = pg.execute("SELECT count(*) FROM p WHERE b <> %s", ["3"])
    assert cursor.fetchone() == (9,)
    assert pg.execute("UPDATE p SET b = %s WHERE a = %s", ["z", 4]).rowcount == 1
    assert pg.execute("DELETE FROM p WHERE a = ANY(%s)", [[1, 2]]).rowcount == 2
    assert pg.execute("INSERT INTO p VALUES (%s, %s) RETURNING a", [77, None]).fetchone() == (77,)
    pg.rollback()


def test_named_cursor(pg):
    with pg.cursor("c") as cursor:
        cursor.execute("SELECT value FROM generate_series(1, 1000)")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        assert len(cursor.fetchall()) == 997


def test_a_cursor_ends_with_the_savepoint_that_it_was_declared_after(pg):
    for name, before in [("early", "SELECT 1"), ("middle", "SAVEPOINT one"), ("late", "SAVEPOINT two")]:
        pg.execute(before)
        pg.execute(f"DECLARE {name} CURSOR FOR SELECT value FROM generate_series(1, 5)")
    pg.execute("RELEASE SAVEPOINT two")
    with pytest.raises(psycopg.errors.DivisionByZero):
        pg.execute("SELECT 1 / 0")
    pg.execute("ROLLBACK TO SAVEPOINT one")
    assert pg.execute("FETCH 2 FROM early").fetchall() == [(1,), (2,)]
    pg.execute("DECLARE late CURSOR FOR SELECT 7")
    assert pg.execute("FETCH ALL FROM late").fetchall() == [(7,)]
    with pytest.raises(psycopg.errors.InvalidCursorName):
        pg.execute("FETCH 1 FROM middle")
    pg.execute("ROLLBACK TO SAVEPOINT one")
    assert pg.execute("FETCH 9 FROM early").fetchall() == [(3,), (4,), (5,)]
    pg.rollback()


def test_a_released_savepoint_is_not_returned_to(pg):
    pg.execute("SAVEPOINT a")
    pg.execute("SET LOCAL timezone = 'asia/TOKYO'")
    pg.execute("SAVEPOINT a")
    pg.execute("RELEASE a")
    assert pg.execute("SHOW timezone").fetchone() == ("Asia/Tokyo",)
    pg.execute("ROLLBACK TO a")
    assert pg.execute("SHOW timezone").fetchone() == ("UTC",)
    pg.rollback()


def test_time_zones_have_any_case(pg):
    for sql in ["SET TIME ZONE 'europe/BERLIN'", "SET timezone TO 'EUROPE/berlin'"]:
        pg.execute(sql)
        assert pg.execute("SELECT '2024-07-01 12:00+00'::timestamptz::text").fetchone() == (
            "2024-07-01 14:00:00+02",
        )
        assert pg.info.parameter_status("TimeZone") == "Europe/Berlin"
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        pg.execute("SET TIME ZONE 'nowhere'")
    pg.rollback()


@pytest.mark.parametrize("binary", [False, True])
def test_arrays_of_documents(pg, binary):
    documents = [{"a": 1}, [1, "x"], 7, None]
    pg.execute("CREATE TABLE papers (j JSON[])")
    array = "ARRAY['{\"a\": 1}'::json, '[1, \"x\"]'::json, '7'::json, NULL]"
    pg.execute(f"INSERT INTO papers SELECT {array}")
    cursor = pg.cursor(binary=binary)
    assert cursor.execute("SELECT j FROM papers").fetchone() == (documents,)
    assert cursor.description[0].type_code == 199
    wrapped = [json_types.Json(document) for document in documents[:3]]
    cursor.execute("INSERT INTO papers VALUES (%s)", [wrapped])
    assert cursor.execute("SELECT count(*) FROM papers WHERE len(j) = 3").fetchone() == (1,)
    with pg.cursor().copy("COPY papers TO STDOUT") as copy:
        lines = b"".join(copy)
    with pg.cursor().copy("COPY papers FROM STDIN") as copy:
        copy.write(lines)
    assert cursor.execute("SELECT j FROM papers WHERE len(j) = 4").fetchall() == [(documents,)] * 2
    pg.rollback()


def test_copy_out(pg):
    pg.execute("CREATE TABLE c AS SELECT value AS a, 'x' AS b FROM generate_series(1, 3)")
    with pg.cursor().copy("COPY c TO STDOUT") as copy:
        assert sorted(copy.rows()) == [("1", "x"), ("2", "x"), ("3", "x")]
    pg.rollback()


def test_errors_and_transactions(pg):
    with pytest.raises(psycopg.errors.UndefinedColumn):
        pg.execute("SELECT nothing")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        pg.execute("SELECT 1")
    pg.rollback()
    pg.execute("CREATE TABLE k (a INT PRIMARY KEY)")
    pg.execute("INSERT INTO k VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation), pg.transaction():
        pg.execute("INSERT INTO k VALUES (1)")
    assert pg.execute("SELECT count(*) FROM k").fetchone() == (1,)
    pg.rollback()


@pytest.fixture
def engine(port):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://ada@127.0.0.1:{port}/")
    with engine.begin() as connection:
        for sql in (
            "CREATE SCHEMA IF NOT EXISTS other",
            "CREATE TABLE IF NOT EXISTS parent (id INTEGER PRIMARY KEY, code VARCHAR NOT NULL UNIQUE, "
            "CHECK (id > 0))",
            "CREATE TABLE IF NOT EXISTS child (id BIGINT GENERATED BY DEFAULT AS IDENTITY, "
            "parent INTEGER REFERENCES parent (id) ON DELETE CASCADE, price DECIMAL(10,2) DEFAULT 1.5, "
            "tags VARCHAR[])",
            "CREATE OR REPLACE VIEW parents AS SELECT id, code FROM parent",
            "COMMENT ON TABLE parent IS 'a parent'",
            "COMMENT ON COLUMN parent.code IS 'a code'",
            "CREATE SEQUENCE IF NOT EXISTS numbers",
        ):
            connection.exec_driver_sql(sql)
    yield engine
    engine.dispose()


def test_a_transaction_becomes_read_only_meanwhile(pg):
    pg.execute("CREATE TABLE turned (a INTEGER)")
    with pg.transaction():
        pg.execute("INSERT INTO turned VALUES (1)")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), pg.transaction():
        pg.execute("SET TRANSACTION READ ONLY")
        assert pg.execute("SELECT a FROM turned").fetchall() == [(1,)]
        pg.execute("INSERT INTO turned VALUES (2)")
    assert pg.execute("SELECT a FROM turned").fetchall() == [(1,)]


def test_merge_returns_rows(pg):
    pg.execute("CREATE TABLE merged (a INTEGER, b TEXT)")
    merge = """
        MERGE INTO merged AS t USING (VALUES (%s::INTEGER, %s::TEXT)) AS s (a, b) ON t.a = s.a
        WHEN MATCHED THEN UPDATE SET b = s.b
        WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)
        RETURNING a, upper(b) AS b
    """
    assert pg.execute(merge, [1, "x"]).fetchall() == [(1, "X")]
    assert pg.execute(merge, [1, "y"], prepare=True).fetchall() == [(1, "Y")]


def test_sqlalchemy_inspector(engine):
    inspector = sqlalchemy.inspect(engine)
    assert inspector.default_schema_name == "main"
    assert {"main", "other"} <= set(inspector.get_schema_names())
    assert {"child", "parent"} <= set(inspector.get_table_names())
    assert inspector.get_view_names() == ["parents"]
    assert "SELECT id, code FROM parent" in inspector.get_view_definition("parents")
    assert "numbers" in inspector.get_sequence_names()
    columns = {column["name"]: column for column in inspector.get_columns("child")}
    assert isinstance(columns["id"]["type"], sqlalchemy.BIGINT)
    assert columns["id"]["identity"]["always"] is False
    assert isinstance(columns["price"]["type"], sqlalchemy.NUMERIC)
    assert (columns["price"]["type"].precision, columns["price"]["type"].scale) == (10, 2)
    assert columns["price"]["default"] == "1.5"
    assert isinstance(columns["tags"]["type"], sqlalchemy.ARRAY)
    parent = {column["name"]: column for column in inspector.get_columns("parent")}
    assert parent["code"]["nullable"] is False
    assert parent["code"]["comment"] == "a code"
    assert inspector.get_pk_constraint("parent")["constrained_columns"] == ["id"]
    (key,) = inspector.get_foreign_keys("child")
    assert (key["constrained_columns"], key["referred_table"], key["referred_columns"]) == (
        ["parent"],
        "parent",
        ["id"],
    )
    assert key["options"] == {"ondelete": "CASCADE"}
    (unique,) = inspector.get_unique_constraints("parent")
    assert unique["column_names"] == ["code"]
    (check,) = inspector.get_check_constraints("parent")
    assert "id > 0" in check["sqltext"]
    assert inspector.get_table_comment("parent")["text"] == "a parent"
    assert [index["column_names"] for index in inspector.get_indexes("parent")] == [["code"]]


def test_sqlalchemy_reflects_and_writes(engine):
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(
        "written",
        metadata,
        sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True, autoincrement=False),
        sqlalchemy.Column("name", sqlalchemy.String),
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(table.insert(), [{"id": 1, "name": "a"}, {"id": 2, "name": None}])
        assert connection.execute(sqlalchemy.select(table).order_by(table.c.id)).all() == [
            (1, "a"),
            (2, None),
        ]
    reflected = sqlalchemy.MetaData()
    reflected.reflect(engine)
    assert {"written", "parent", "child"} <= set(reflected.tables)
    metadata.drop_all(engine)


def verifier(password):
    """Return a password as PostgreSQL keeps it."""
    salt, iterations = os.urandom(16), 4096
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    key, server = (hmac.digest(salted, part, "sha256") for part in (b"Client Key", b"Server Key"))
    salt, stored, server = (
        base64.b64encode(part).decode() for part in (salt, hashlib.sha256(key).digest(), server)
    )
    return f"SCRAM-SHA-256${iterations}:{salt}${stored}:{server}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Return the port of a server with users and a certificate, and the certificate."""
    directory = tmp_path_factory.mktemp("guarded")
    users, certificate, key = directory / "users", directory / "server.crt", directory / "server.key"
    users.write_text(f"rita read {verifier('r')}\nwill write {verifier('w')}\n")
    request = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    request += ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate]
    subprocess.run(request, check=True, capture_output=True)
    command = [PROGRAM, "127.0.0.1:0", "", users, certificate, key]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield int(server.stdout.readline().rsplit(":", 1)[1]), certificate
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def login(guarded, more):
    port, certificate = guarded
    return psycopg.connect(
        f"host=localhost hostaddr=127.0.0.1 port={port} sslmode=verify-full sslrootcert={certificate} {more}",
        autocommit=True,
    )


def test_users_prove_who_they_are_and_do_what_their_role_may(guarded):
    with login(guarded, "user=will password=w require_auth=scram-sha-256") as writer:
        assert writer.pgconn.ssl_in_use
        writer.execute("CREATE TABLE guarded (a INTEGER)")
        writer.execute("INSERT INTO guarded VALUES (1)")
    with login(guarded, "user=rita password=r") as reader:
        assert reader.execute("SELECT * FROM guarded").fetchall() == [(1,)]
        for sql in ("INSERT INTO guarded VALUES (2)", "ATTACH '/tmp/x' AS x", "SELECT * FROM '/etc/passwd'"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(sql)
        with (
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            reader.cursor().copy("COPY guarded FROM STDIN") as copy,
        ):
            copy.write("2\n")


@pytest.mark.parametrize("who", ["user=will password=r", "user=nobody password=w", "user=will"])
def test_nobody_gets_in_without_the_password(guarded, who):
    with pytest.raises(psycopg.OperationalError, match="password"):
        login(guarded, who)


def test_nobody_speaks_in_the_clear_where_there_is_a_certificate(guarded):
    with pytest.raises(psycopg.OperationalError, match="this server wants TLS"):
        psycopg.connect(f"host=127.0.0.1 port={guarded[0]} user=will password=w sslmode=disable")


def test_a_cancelled_statement_leaves_the_session_alive(pg):
    threading.Timer(0.5, pg.cancel).start()
    with pytest.raises(psycopg.errors.QueryCanceled):
        pg.execute("SELECT count(*) FROM generate_series(1, 100000000000) s(i) WHERE i % 7 = -1")
    pg.rollback()
    assert pg.execute("SELECT 1").fetchone() == (1,)


def test_a_statement_that_takes_too_long_says_so(pg):
    pg.autocommit = True
    pg.execute("SET statement_timeout = '200ms'")
    endless = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b"
    for _ in range(2):
        with pytest.raises(
            psycopg.errors.QueryCanceled, match="canceling statement due to statement timeout"
        ):
            pg.execute(endless)
    pg.execute("SET statement_timeout = 0")
    threading.Timer(0.5, pg.cancel).start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="canceling statement due to user request"):
        pg.execute(endless)
    assert pg.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("options", ["", "(FORMAT csv)", "(FORMAT binary)"])
def test_copy_in_and_out_of_all_formats(pg, options):
    columns = {
        "i": ("INTEGER", "int4", 7),
        "n": ("DECIMAL(12, 3)", "numeric", decimal.Decimal("-1.250")),
        "v": ("VARCHAR", "text", 'a\tb"\\N\n'),
        "d": ("DATE", "date", datetime.date(1999, 12, 31)),
        "ts": ("TIMESTAMP", "timestamp", datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),
        "u": ("UUID", "uuid", uuid.UUID(int=7)),
        "y": ("BLOB", "bytea", b"\x00\xff"),
    }
    definition = ", ".join(f"{name} {kind}" for name, (kind, _, _) in columns.items())
    pg.execute("DROP TABLE IF EXISTS copied")
    pg.execute(f"CREATE TABLE copied ({definition})")
    types = [name for _, name, _ in columns.values()]
    row = tuple(value for _, _, value in columns.values())
    nothing = (None,) * len(row)
    cursor = pg.cursor()
    if options == "(FORMAT csv)":
        # psycopg writes no CSV, so the output of the server is sent back.
        pg.execute("INSERT INTO copied VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
        pg.execute("INSERT INTO copied (i) VALUES (NULL)")
        with cursor.copy("COPY copied TO STDOUT (FORMAT csv)") as copy:
            text = b"".join(copy)
        pg.execute("DELETE FROM copied")
        with cursor.copy("COPY copied FROM STDIN (FORMAT csv)") as copy:
            copy.write(text)
    else:
        with cursor.copy(f"COPY copied FROM STDIN {options}") as copy:
            copy.set_types(types)
            copy.write_row(row)
            copy.write_row(nothing)
        with cursor.copy(f"COPY copied TO STDOUT {options}") as copy:
            copy.set_types(types)
            assert sorted(copy.rows(), key=lambda found: found[0] is None) == [row, nothing]
    assert pg.execute("SELECT * FROM copied ORDER BY i NULLS LAST").fetchall() == [row, nothing]


def test_copied_text_that_is_no_text_is_refused(pg):
    pg.execute("CREATE TABLE IF NOT EXISTS texts (v VARCHAR)")
    with (
        pytest.raises(psycopg.errors.CharacterNotInRepertoire),
        pg.cursor().copy("COPY texts FROM STDIN") as copy,
    ):
        copy.write("a\\xff\n")
    pg.rollback()


def test_infinity_is_refused(pg):
    for kind, bits, infinite in (
        ("date", 32, -(2**31)),
        ("date", 32, 2**31 - 1),
        ("timestamp", 64, -(2**63)),
        ("timestamp", 64, 2**63 - 1),
    ):
        raw = infinite.to_bytes(bits // 8, "big", signed=True)
        with pytest.raises(psycopg.errors.FeatureNotSupported, match="no infinite dates"):
            result = pg.pgconn.exec_params(
                f"SELECT $1::{kind}".encode(), [raw], [psycopg.adapters.types[kind].oid], [1]
            )
            raise psycopg.errors.error_from_result(result)
        pg.rollback()


def test_a_header_that_must_match_is_compared(pg):
    pg.execute("CREATE TABLE headed (a INTEGER, b INTEGER)")
    pg.commit()
    copy_in = "COPY headed FROM STDIN (FORMAT csv, HEADER match)"
    with (
        pytest.raises(
            psycopg.errors.BadCopyFileFormat, match="the header has the columns b, a, and not a, b"
        ),
        pg.cursor().copy(copy_in) as copy,
    ):
        copy.write("b,a\n1,2\n")
    pg.rollback()
    with pg.cursor().copy(copy_in) as copy:
        copy.write("a,b\n1,2\n")
    assert pg.execute("SELECT * FROM headed").fetchall() == [(1, 2)]
    pg.execute("DROP TABLE headed")


def test_literals_of_the_client_side(port):
    """psycopg writes these values into the text of the statement."""
    address = f"host=127.0.0.1 port={port} user=ada"
    key = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    with psycopg.connect(address, cursor_factory=psycopg.ClientCursor) as pg:
        pg.execute("CREATE TABLE by_client (u UUID, b BLOB)")
        pg.execute("INSERT INTO by_client VALUES (%s, %s)", (key, b"\0\xff"))
        assert pg.execute("SELECT * FROM by_client WHERE u = %s", (key,)).fetchall() == [(key, b"\0\xff")]
        pg.execute("DROP TABLE by_client")


def test_execute_tells_what_its_statement_did(port):
    address = f"host=127.0.0.1 port={port} user=ada"
    with psycopg.connect(address, autocommit=True) as pg:
        pg.execute("CREATE TABLE by_name (i INTEGER)")
        pg.execute(
            "PREPARE put AS INSERT INTO by_name SELECT i FROM generate_series(1, 9) AS g (i) WHERE i <= $1"
        )
        pg.execute('PREPARE "Get" (INTEGER) AS SELECT * FROM by_name WHERE i > $1')
        pg.execute("PREPARE change AS UPDATE by_name SET i = i + 10 WHERE i < $1")
        for sql, told in (
            ("EXECUTE put(5)", "INSERT 0 5"),
            ('EXECUTE "Get"(2)', "SELECT 3"),
            ("EXECUTE change(3)", "UPDATE 2"),
        ):
            cursor = pg.execute(sql)
            assert (cursor.statusmessage, cursor.rowcount) == (told, int(told.rsplit(" ", 1)[1]))
        pg.execute("DROP TABLE by_name")


def test_lists_of_parameters_without_a_type(pg):
    pg.execute("create table lists_p (s text, u uuid, b bytea, n int)")
    known = uuid.UUID("0e3b1a52-6a2b-4c7e-9d5f-0a1b2c3d4e5f")
    pg.execute("insert into lists_p values (%s, %s, %s, %s)", ("x", known, b"\x01", 7))
    for column, value in [("s", "x"), ("u", known), ("b", b"\x01"), ("n", 7)]:
        for cast in ["%s", "%b", "%t"]:
            found = pg.execute(
                f"select count(*) from lists_p where {column} = any({cast})", ([value],)
            ).fetchone()
            assert found == (1,), (column, cast)
            none = pg.execute(
                f"select count(*) from lists_p where {column} <> all({cast})", ([value],)
            ).fetchone()
            assert none == (0,), (column, cast)
    # One list that is named twice, as the names of schemas are, which may mean `public`.
    for query in [
        "select count(*) from lists_p where s = any(%(names)s) or s = any(%(names)s)",
        "select count(*) from lists_p where s = any(%(names)s) and not s <> all(%(names)s)",
        "select count(*) from pg_catalog.pg_namespace where nspname = any(%(names)s)",
        "select count(*) from information_schema.schemata where schema_name = any(%(names)s)",
    ]:
        assert pg.execute(query, {"names": ["x", "public"]}).fetchone() == (1,), query
    assert pg.execute("select %s::text[]", (["a,b", 'c"d', None],)).fetchone() == (["a,b", 'c"d', None],)
    assert pg.execute("select coalesce(%s::int[], array[9])", (None,)).fetchone() == ([9],)


def test_lists_of_decimals_keep_their_digits(pg):
    pg.execute("create table numeric_lists (d decimal(10, 2), l decimal(10, 2)[])")
    row = (decimal.Decimal("2.25"), [decimal.Decimal("1.50"), None, decimal.Decimal("2.25")])
    pg.execute("insert into numeric_lists values (%s, %s)", row)
    for cast in ["%s", "%b", "%t"]:
        found = pg.execute(
            f"select d, l from numeric_lists where d = any({cast})",
            ([decimal.Decimal("1.5"), decimal.Decimal("2.250")],),
        )
        assert found.fetchall() == [row], cast
    pg.execute("drop table numeric_lists")


def test_types_of_parameters_are_told_by_casts(pg):
    statement = "select $1::int, n from (values (1), (2)) v (n) where n = any ($2) limit $3"
    pg.pgconn.prepare(b"told", statement.encode())
    told = pg.pgconn.describe_prepared(b"told")
    assert [told.param_type(place) for place in range(told.nparams)] == [23, 1016, 20]


@pytest.mark.parametrize("rest", ["where a > 1", "nonsense", "(format csv)"])
def test_nothing_may_follow_the_options_of_copy(pg, rest):
    pg.execute("create table if not exists copied_p (a int)")
    with (
        pytest.raises(psycopg.errors.SyntaxError),
        pg.cursor().copy(f"copy copied_p from stdin (format csv) {rest}") as copy,
    ):
        copy.write("1\n")


def test_a_binary_copy_refuses_what_does_not_fit(pg):
    pg.execute("create table narrow_p (a tinyint, u uinteger, b binary(3), t timestamp_ns)")
    pg.commit()
    good = [3, 1, b"abc", None]
    late = datetime.datetime(3000, 1, 1)
    for place, value in [(0, 300), (1, -1), (2, b"abcdef"), (3, late)]:
        row = [*good[:place], value, *good[place + 1 :]]
        with (
            pytest.raises(psycopg.DataError),
            pg.cursor().copy("copy narrow_p from stdin (format binary)") as copy,
        ):
            copy.set_types(["int2", "int8", "bytea", "timestamp"])
            copy.write_row(row)
        pg.rollback()
    assert pg.execute("select count(*) from narrow_p").fetchone() == (0,)


def copied(pg, sql):
    with pg.cursor().copy(sql) as copy:
        return [bytes(block) for block in copy]


def test_rows_on_their_way_can_be_stopped(pg):
    pg.execute("create table many_p as select value as i from generate_series(1, 20000000)")
    pg.commit()
    for before, undo in [
        ("select 1", "select 1"),
        ("set statement_timeout = '200ms'", "reset statement_timeout"),
    ]:
        pg.execute(before)
        pg.commit()
        stop = threading.Timer(0.2, pg.cancel) if before == undo else None
        if stop:
            stop.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            copied(pg, "copy (select i from many_p) to stdout")
        pg.rollback()
        pg.execute(undo)
        pg.commit()
    pg.execute("drop table many_p")
    pg.commit()


def test_what_was_before_does_not_stop_a_fetch(pg):
    pg.execute("set statement_timeout = '1s'")
    pg.execute("declare c cursor for select random() as r from generate_series(1, 1000000) order by r")
    pg.cancel()
    threading.Event().wait(1.2)
    assert len(pg.execute("fetch 10 from c").fetchall()) == 10
    pg.rollback()


def test_transactions_may_be_read_only_unless_they_say_else(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ada", autocommit=True) as pg:
        pg.execute("create table kept_p (i int)")
        pg.execute("create sequence kept_s")
        pg.execute("set default_transaction_read_only = on")
        for sql in ["insert into kept_p values (1)", "select nextval('kept_s')", "drop table kept_p"]:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                pg.execute(sql)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            pg.execute("select 1; insert into kept_p values (1)", prepare=False)
        assert pg.execute("select count(*) from kept_p").fetchone() == (0,)
        pg.execute("begin read write")
        pg.execute("insert into kept_p values (2)")
        pg.execute("commit")
        assert pg.execute("select count(*) from kept_p").fetchone() == (1,)


def test_only_queries_are_copied_and_have_cursors(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ada", autocommit=True) as pg:
        pg.execute("create table left_p as select 1 as i")
        with pytest.raises(psycopg.DataError, match="needs a query that has rows"):
            copied(pg, "copy (delete from left_p) to stdout")
        with pytest.raises(psycopg.errors.SyntaxError, match="a cursor is for a query"):
            pg.execute("declare c cursor with hold for delete from left_p")
        assert pg.execute("select count(*) from left_p").fetchone() == (1,)
        assert copied(pg, "copy (delete from left_p returning i) to stdout") == [b"1\n"]
        pg.execute("declare d cursor with hold for values (1), (2)")
        assert pg.execute("fetch all from d").fetchall() == [(1,), (2,)]


def test_explain_has_parameters(pg):
    statement = "explain select * from (values (1)) v (n) where n = $1"
    pg.pgconn.prepare(b"why", statement.encode())
    told = pg.pgconn.describe_prepared(b"why")
    assert (told.nparams, told.nfields) == (1, 2)
    assert "Int64(2)" in pg.execute(statement.replace("$1", "%s"), [2]).fetchall()[0][1]


def test_a_setting_of_an_implicit_transaction_ends_with_it(port):
    with psycopg.connect(f"host=127.0.0.1 port={port} user=ada", autocommit=True) as pg:
        cursor = pg.execute("create table local_p (i int); set local timezone = 'Asia/Tokyo'; show timezone")
        assert [cursor.nextset(), cursor.nextset(), cursor.fetchone()] == [True, True, ("Asia/Tokyo",)]
        assert pg.execute("show timezone").fetchone() == ("UTC",)


def test_a_local_setting_ends_with_its_savepoint(pg):
    def shown():
        return pg.execute("select timestamptz '2026-07-01 10:00:00+00'").pgresult.get_value(0, 0)

    # Otherwise the transaction below would be a savepoint in that of the first SET.
    pg.autocommit = True
    pg.execute("set timezone = 'UTC'")
    with pg.transaction():
        pg.execute("set local timezone = 'Asia/Tokyo'")
        pg.execute("savepoint a")
        pg.execute("set local timezone = 'Europe/Berlin'")
        assert shown() == b"2026-07-01 12:00:00+02"
        pg.execute("rollback to savepoint a")
        assert shown() == b"2026-07-01 19:00:00+09"
        pg.execute("select set_config('timezone', 'America/Denver', true)")
        assert shown() == b"2026-07-01 04:00:00-06"
    assert shown() == b"2026-07-01 10:00:00+00"
    pg.execute("select set_config('timezone', 'Asia/Tokyo', false)")
    assert shown() == b"2026-07-01 19:00:00+09"
    pg.execute("set timezone = 'UTC'")


def test_moments_before_there_were_zones(pg):
    pg.execute("set timezone = 'Europe/Berlin'")
    shown = pg.execute(
        "select ts::text, '' || ts from (values (timestamptz '1850-01-01 00:00:00+00')) v (ts)"
    )
    assert shown.fetchone() == ("1850-01-01 00:53:28+00:53:28",) * 2
    raw = pg.execute("select timestamptz '1850-01-01 00:00:00+00'").pgresult.get_value(0, 0)
    assert raw == b"1850-01-01 00:53:28+00:53:28"


def test_times_without_a_zone_are_of_the_session(pg):
    pg.execute("set timezone = 'Europe/Berlin'")
    pg.execute("create table zoned (n int, z timestamptz)")
    with pg.cursor().copy("copy zoned from stdin") as copy:
        copy.write("1\t2020-01-01 00:00\n2\t2020-01-01 00:00:00+00\n")
    pg.execute("insert into zoned values (3, '2020-01-01 00:00'), (4, %s)", ["2020-01-01 00:00"])
    pg.execute("insert into zoned values (5, %s)", [datetime.datetime(2020, 1, 1)])
    berlin, utc = "2020-01-01 00:00:00+01", "2020-01-01 01:00:00+01"
    shown = pg.execute("select n, z::text from zoned order by n").fetchall()
    assert shown == [(1, berlin), (2, utc), (3, berlin), (4, berlin), (5, berlin)]
    found = pg.execute("select count(*) from zoned where z = %s", ["2020-01-01 00:00"]).fetchone()
    assert found == (4,)
    pg.execute("drop table zoned")


@pytest.mark.parametrize("prepare", [False, True])
def test_parameters_of_table_functions(pg, prepare):
    for sql, values, rows in [
        ("select * from generate_series(1, %s)", [3], [1, 2, 3]),
        ("select * from unnest(%s::text[])", [["a", None]], ["a", None]),
        ("select unnest(%s::int[])", [[1, 2]], [1, 2]),
        (
            "select * from generate_series(%s::date, %s::date, interval '1 day')",
            ["2020-01-01", "2020-01-02"],
            [datetime.datetime(2020, 1, day) for day in (1, 2)],
        ),
        ("select %s || %s", ["a", "b"], ["ab"]),
    ]:
        assert [row[0] for row in pg.execute(sql, values, prepare=prepare)] == rows


@pytest.mark.parametrize("prepare", [False, True])
@pytest.mark.parametrize("kind", [psycopg.types.json.Json, psycopg.types.json.Jsonb])
def test_json_stays_json(pg, kind, prepare):
    given = kind({"a": 1})
    for sql, value in [
        ("json_build_object('x', %s)", {"x": {"a": 1}}),
        ("jsonb_build_object('x', %s)", {"x": {"a": 1}}),
        ("json_build_array(%s)", [{"a": 1}]),
        ("json_agg(%s)", [{"a": 1}]),
        ("row_to_json(row(1, %s))", {"f1": 1, "f2": {"a": 1}}),
        ("to_json(%s)", {"a": 1}),
        ("coalesce(%s, '{}'::json)", {"a": 1}),
        ("""'{"b":2}'::jsonb || %s""", {"a": 1, "b": 2}),
        ("""'{"a":1,"b":2}'::jsonb @> %s""", True),
        ("(%s) ->> 'a'", "1"),
        ("%s::text", '{"a": 1}'),
    ]:
        assert pg.execute(f"select {sql}", [given], prepare=prepare).fetchone() == (value,), sql
    pg.execute("create temp table js (id int, t text, j json)")
    pg.execute("insert into js values (1, %s, %s)", [given, given], prepare=prepare)
    pg.execute("update js set j = %s where j ->> 'a' = '1'", [kind([None])], prepare=prepare)
    assert pg.execute("select * from js").fetchone() == (1, '{"a": 1}', [None])
    pg.execute("update js set j = %s", [None], prepare=prepare)
    assert pg.execute("select j from js").fetchone() == (None,)
