"""Each type with NULL, its extremes and long values, compared with what the server itself says of them."""

import decimal
import struct

import psycopg
import pytest

from cluster import Failed, copy, table

EPOCH = "(extract(epoch FROM v) * 1000000)::bigint"
LONG_TEXT = "(SELECT string_agg(md5(n::text), 'é') FROM generate_series(1, 5000) n)"
PRESSED = "repeat('ab', 200000)"

# Type, values, type on the wire, and what the server says of a value v that comes.
CASES = [
    ("boolean", ["true", "false"], "BOOLEAN", "v"),
    ("smallint", ["-32768", "32767", "0"], "SMALLINT", "v"),
    ("integer", ["-2147483648", "2147483647"], "INTEGER", "v"),
    ("bigint", ["-9223372036854775808", "9223372036854775807"], "BIGINT", "v"),
    ("oid", ["0", "4294967295"], "UINTEGER", "v::bigint"),
    (
        "real",
        ["'NaN'", "'-Infinity'", "'-0'", "3.4028235e38", "1e-45"],
        "FLOAT",
        "encode(float4send(v), 'hex')",
    ),
    (
        "double precision",
        ["'NaN'", "'Infinity'", "'-0'", "1.7976931348623157e308", "5e-324"],
        "DOUBLE",
        "encode(float8send(v), 'hex')",
    ),
    ("numeric(9,2)", ["-9999999.99", "9999999.99", "0", "0.01"], "DECIMAL(9,2)", "v::text"),
    ("numeric(18,6)", ["-999999999999.999999", "0.000001", "100000000"], "DECIMAL(18,6)", "v::text"),
    ("numeric(38,0)", ["-" + "9" * 38, "1" + "0" * 37], "DECIMAL(38,0)", "v::text"),
    ("numeric(38,37)", ["9." + "9" * 37, "-0." + "0" * 36 + "1"], "DECIMAL(38,37)", "v::text"),
    ("numeric(76,38)", ["-" + "9" * 38 + "." + "9" * 38, "0." + "0" * 37 + "1"], "DECIMAL(76,38)", "v::text"),
    ("numeric(3,-2)", ["99900", "-100", "0"], "DECIMAL(5,0)", "v::text"),
    ("numeric(3,5)", ["0.00999", "-0.00001"], "DECIMAL(5,5)", "v::text"),
    ("numeric(100,2)", ["9" * 98 + ".99"], "VARCHAR", "v::text"),
    ("numeric", ["1.50", "'NaN'", "'Infinity'", "1e-200", "1e200"], "VARCHAR", "v::text"),
    ("text", ["''", "'a'", "E'\\n\\u00e9\\U0001F600'", LONG_TEXT, PRESSED], "VARCHAR", "v"),
    ("varchar(10)", ["'short'", "''"], "VARCHAR", "v"),
    ("char(5)", ["'ab'", "''"], "VARCHAR", "v"),
    ("name", ["'pg_class'", "repeat('é', 31)"], "VARCHAR", "v"),
    (
        "bytea",
        ["''", "'\\x00ff'", f"convert_to({LONG_TEXT}, 'UTF8')", f"{PRESSED}::bytea"],
        "BLOB",
        "encode(v, 'hex')",
    ),
    (
        "date",
        ["'4713-01-01 BC'", "'5874897-12-31'", "'1969-12-31'", "'2000-02-29'"],
        "DATE",
        "v - date '1970-01-01'",
    ),
    ("time", ["'00:00'", "'23:59:59.999999'"], "TIME", EPOCH),
    (
        "timestamp",
        ["'4713-11-24 00:00:00 BC'", "'294247-01-10 04:00:54.7758'", "'1969-12-31 23:59:59.999999'"],
        "TIMESTAMP",
        EPOCH,
    ),
    (
        "timestamptz",
        ["'4713-11-25 00:00:00+00 BC'", "'2024-03-31 02:30:00+02'"],
        "TIMESTAMP WITH TIME ZONE",
        EPOCH,
    ),
    (
        "uuid",
        ["'00000000-0000-0000-0000-000000000000'", "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"],
        "UUID",
        "replace(v::text, '-', '')",
    ),
    ("json", ['\'{"a" : 1, "a":[null]}\'', f"to_json({PRESSED})"], "JSON", "v::text"),
    ("jsonb", ['\'{"b": 1, "a": 1e400}\'', f"to_jsonb({LONG_TEXT})", "'null'"], "JSON", "v::text"),
    ("mood", ["'sad'", "'glad'"], "VARCHAR DICTIONARY", "v::text"),
    ("many", ["'v0'", "'v299'"], "VARCHAR DICTIONARY", "v::text"),
    ("empty", [], "VARCHAR", "v::text"),
    ("price", ["1.5", "-99999.999"], "DECIMAL(8,3)", "v::text"),
    ("prices", ["'{1.5,NULL}'"], "DECIMAL(8,3)[]", "v::text[]"),
    (
        "int[]",
        ["'{}'", "'{1,NULL,3}'", "'[0:1]={7,8}'", "array(SELECT generate_series(1, 100000))"],
        "INTEGER[]",
        "to_json(v)",
    ),
    ("boolean[]", ["'{t,f,NULL}'"], "BOOLEAN[]", "to_json(v)"),
    ("text[]", ["'{}'", "'{\"\",NULL,é}'", f"ARRAY[{LONG_TEXT}, {PRESSED}]"], "VARCHAR[]", "to_json(v)"),
    ("numeric(10,2)[]", ["'{1,NULL,-99999999.99}'"], "DECIMAL(10,2)[]", "v::text[]"),
    ("mood[]", ["'{sad,NULL,glad}'"], "VARCHAR[]", "v::text[]"),
    (
        "date[]",
        ["'{2000-01-01,NULL}'"],
        "DATE[]",
        "(SELECT array_agg(e - date '1970-01-01') FROM unnest(v) e)",
    ),
    (
        "uuid[]",
        ["'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'"],
        "UUID[]",
        "(SELECT array_agg(replace(e::text, '-', '')) FROM unnest(v) e)",
    ),
    ("jsonb[]", ["ARRAY['{\"a\":[1]}'::jsonb, NULL]"], "JSON[]", "v::text[]"),
    (
        "pair",
        ["(1, 'x')", "(NULL, NULL)", f"(2, {LONG_TEXT})"],
        "STRUCT(x INTEGER, y VARCHAR)",
        "CASE WHEN v::text IS NOT NULL THEN json_build_array((v).x, (v).y) END",
    ),
    (
        "pair[]",
        ["ARRAY[ROW(1,'x')::pair, NULL, ROW(NULL,'')::pair]"],
        "STRUCT(x INTEGER, y VARCHAR)[]",
        "(SELECT json_agg(CASE WHEN v[i]::text IS NOT NULL THEN json_build_array((v[i]).x, (v[i]).y) END"
        " ORDER BY i) FROM generate_subscripts(v, 1) i)",
    ),
    ("int2vector", ["'1 2 3'", "''"], "SMALLINT[]", "to_json(v::int2[])"),
    ("timetz", ["'23:59:59.999999-15:59'"], "VARCHAR", "v::text"),
    ("inet", ["'::1/64'"], "VARCHAR", "v::text"),
    ("macaddr", ["'08:00:2b:01:02:03'"], "VARCHAR", "v::text"),
    ("bit varying", ["B'10101'", "B''"], "VARCHAR", "v::text"),
    ("money", ["-12.34"], "VARCHAR", "v::text"),
    ("point", ["'(1,2)'"], "VARCHAR", "v::text"),
    ("int4range", ["'[1,5)'", "'empty'"], "VARCHAR", "v::text"),
    ("int4multirange", ["'{[1,5),[7,9)}'"], "VARCHAR", "v::text"),
    ("tsvector", ["'a:1 b:2'"], "VARCHAR", "v::text"),
    ('"char"', ["'a'"], "VARCHAR", "v::text"),
    ("pg_lsn", ["'FF/1'"], "VARCHAR", "v::text"),
    ("regclass", ["'pg_class'"], "VARCHAR", "v::text"),
]

MADE = """
    CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
    ALTER TYPE mood ADD VALUE 'so-so' BEFORE 'ok';
    CREATE TYPE empty AS ENUM ();
    CREATE DOMAIN price AS numeric(8,3) CHECK (VALUE < 100000);
    CREATE DOMAIN prices AS price[];
    CREATE TYPE pair AS (dropped date, x integer, y text);
    ALTER TYPE pair DROP ATTRIBUTE dropped;
    CREATE DOMAIN pairs AS pair[] CHECK (cardinality(VALUE) < 9);
    CREATE DOMAIN couple AS pair CHECK ((VALUE).x > 0);
"""


@pytest.fixture(scope="module")
def typed(cluster):
    with cluster.connect() as connection:
        connection.execute("CREATE DATABASE typed")
    with cluster.connect(dbname="typed") as connection:
        connection.execute("CREATE EXTENSION hypostyle")
        connection.execute(MADE)
        labels = ", ".join(f"'v{number}'" for number in range(300))
        connection.execute(f"CREATE TYPE many AS ENUM ({labels})")
        yield connection


def plain(value):
    """A value as JSON has it."""
    return list(map(plain, value)) if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("storage", ["as it comes", "external"])
@pytest.mark.parametrize(("sql", "values", "wire", "said"), CASES, ids=[case[0] for case in CASES])
def test_a_type(typed, sql, values, wire, said, storage):
    with table(typed, "t", f"id serial, v {sql}"):
        if storage == "external":
            typlen = typed.execute(
                "SELECT attlen FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'v'"
            )
            if typlen.fetchone()[0] > 0 or sql == "int2vector":
                pytest.skip("its values are short")
            typed.execute("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
        for value in [*values, "NULL"]:
            typed.execute(f"INSERT INTO t (v) VALUES ({value})")
        came = copy(typed, "SELECT v FROM t ORDER BY id")
        expected = typed.execute(f"SELECT {said} FROM t ORDER BY id").fetchall()
        assert came.types == [wire]
        assert came.rows == [[plain(row[0])] for row in expected]
        assert came.rows[-1] == [None]
        # Many rows, so that buffers grow and chunks follow one another.
        if values:
            many = (
                "FROM t, generate_series(1, 300) n WHERE pg_column_size(v) < 2000 OR v IS NULL ORDER BY n, id"
            )
            came = copy(typed, f"SELECT v {many}", chunk_bytes=4096)
            expected = typed.execute(f"SELECT {said} {many}").fetchall()
            assert came.rows == [[plain(row[0])] for row in expected]


# A type of this name stands for PostGIS's, whose send function writes well-known binary.
GEOMETRY = """
CREATE TYPE geometry;
CREATE FUNCTION geometry_in(cstring) RETURNS geometry LANGUAGE internal IMMUTABLE STRICT AS 'byteain';
CREATE FUNCTION geometry_out(geometry) RETURNS cstring LANGUAGE internal IMMUTABLE STRICT AS 'byteaout';
CREATE FUNCTION geometry_recv(internal) RETURNS geometry LANGUAGE internal IMMUTABLE STRICT AS 'bytearecv';
CREATE FUNCTION geometry_send(geometry) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE TYPE geometry (
    INPUT = geometry_in, OUTPUT = geometry_out, RECEIVE = geometry_recv, SEND = geometry_send
);
"""


def test_geometries_come_in_their_binary_form(typed):
    typed.execute(GEOMETRY)
    try:
        came = copy(typed, "SELECT v FROM (VALUES ('\\x0102'::geometry), (NULL), ('\\x')) t(v)")
        assert came.types == ["BLOB"]
        assert came.rows == [["0102"], [None], [""]]
    finally:
        typed.execute("DROP TYPE geometry CASCADE")


def test_intervals(typed):
    values = [
        "'-178956970 years -8 months'",
        "'2147483647 days'",
        "'1 mon -1 day 0.000001'",
        "'-9223372036 s'",
    ]
    with table(typed, "t", "id serial, v interval"):
        for value in [*values, "NULL"]:
            typed.execute(f"INSERT INTO t (v) VALUES ({value})")
        came = copy(typed, "SELECT v FROM t ORDER BY id")
        sent = typed.execute("SELECT interval_send(v) FROM t ORDER BY id").fetchall()
        expected = []
        for (value,) in sent:
            if value is None:
                expected.append([None])
                continue
            microseconds, days, months = struct.unpack(">qii", value)
            expected.append([[months, days, microseconds * 1000]])
        assert came.types == ["INTERVAL"]
        assert came.rows == expected


@pytest.mark.parametrize(
    ("value", "sqlstate", "words", "hint"),
    [
        ("'NaN'::numeric(10,2)", "22003", "NaN", "text"),
        ("'infinity'::date", "22008", "infinite date", "nullif"),
        ("'-infinity'::date", "22008", "infinite date", "nullif"),
        ("'24:00'::time", "22008", "that of no day", "nullif"),
        ("'infinity'::timestamp", "22008", "infinite timestamp", "nullif"),
        ("'-infinity'::timestamptz", "22008", "infinite timestamp", "nullif"),
        ("'294247-01-11'::timestamp", "22008", "64 bits", "text"),
        ("'294276-12-31'::timestamptz", "22008", "64 bits", "text"),
        ("'2562048 hours'::interval", "22015", "nanoseconds", "justify_hours"),
        ("'{{1,2},{3,4}}'::int[]", "0A000", "dimensions", "to_json"),
        ("'{infinity}'::date[]", "22008", "infinite date", "nullif"),
    ],
)
def test_what_a_type_does_not_hold_is_an_error(typed, value, sqlstate, words, hint):
    with pytest.raises(Failed) as failed:
        copy(typed, f"SELECT 1 AS a, {value} AS wrong")
    assert failed.value.sqlstate == sqlstate
    assert '"wrong"' in failed.value.message and words in failed.value.message
    assert hint in failed.value.hint
    assert copy(typed, "SELECT 1").rows == [[1]]


@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_an_infinite_interval_is_an_error(typed, value):
    if typed.info.server_version < 170000:
        pytest.skip("all intervals end before version 17")
    with pytest.raises(Failed) as failed:
        copy(typed, f"SELECT '{value}'::interval AS wrong")
    assert failed.value.sqlstate == "22008" and '"wrong"' in failed.value.message
    assert "nullif" in failed.value.hint


def test_numerics_without_precision(typed):
    query = "SELECT v::numeric FROM (VALUES (1.25), (-3), (NULL)) t(v)"
    assert copy(typed, query).rows == [["1.25"], ["-3"], [None]]
    came = copy(typed, query, numeric="double")
    assert came.types == ["DOUBLE"]
    assert came.rows == [["3ff4000000000000"], ["c008000000000000"], [None]]
    came = copy(typed, query, numeric="decimal(20,4)")
    assert came.types == ["DECIMAL(20,4)"]
    assert came.rows == [["1.2500"], ["-3.0000"], [None]]
    with pytest.raises(Failed) as failed:
        copy(typed, query, numeric="decimal(20,1)")
    assert failed.value.sqlstate == "22003" and "1.25" in failed.value.message
    with pytest.raises(Failed) as failed:
        copy(typed, query, numeric="decimal(77,1)")
    assert (failed.value.sqlstate, failed.value.received) == ("22023", 0)


# What the query tells of a numeric. The table has a numeric(15,2), b numeric(4,3), i bigint and x numeric.
DIGITS = [
    ("sum(i)", "DECIMAL(38,0)"),
    ("sum(a)", "DECIMAL(34,2)"),
    ("sum(a * (1 - b))", "DECIMAL(39,5)"),
    ("sum(a) FILTER (WHERE i > 0)", "DECIMAL(34,2)"),
    ("max(a)", "DECIMAL(15,2)"),
    ("min(b)", "DECIMAL(4,3)"),
    ("round(avg(a), 2)", "DECIMAL(17,2)"),
    ("round(avg(i))", "DECIMAL(21,0)"),
    ("a + b", "DECIMAL(17,3)"),
    ("a - b", "DECIMAL(17,3)"),
    ("a * b", "DECIMAL(19,5)"),
    ("- a", "DECIMAL(15,2)"),
    ("abs(a)", "DECIMAL(15,2)"),
    ("a % b", "DECIMAL(4,3)"),
    ("div(a, b)", "DECIMAL(16,0)"),
    ("round(a / b, 1)", "DECIMAL(19,1)"),
    ("round(a, -2)", "DECIMAL(14,0)"),
    ("trunc(a)", "DECIMAL(13,0)"),
    ("ceil(b)", "DECIMAL(2,0)"),
    ("i::numeric", "DECIMAL(19,0)"),
    ("1.50", "DECIMAL(3,2)"),
    ("0.05 * i", "DECIMAL(21,2)"),
    ("coalesce(a, 0)", "DECIMAL(15,2)"),
    ("greatest(a, b)", "DECIMAL(16,3)"),
    ("CASE WHEN i > 0 THEN a ELSE 0.125 END", "DECIMAL(16,3)"),
    ("nullif(a * 2, 0)", "DECIMAL(16,2)"),
    ("(SELECT max(a) FROM digits)", "DECIMAL(15,2)"),
    ("sum(a) OVER ()", "DECIMAL(34,2)"),
    ("lag(a) OVER (ORDER BY i)", "DECIMAL(15,2)"),
    ("extract(year FROM d)", "DECIMAL(10,0)"),
    ("extract(second FROM d + time '01:02:03.456')", "DECIMAL(8,6)"),
    ("extract(epoch FROM d::timestamp)", "DECIMAL(22,6)"),
    ("avg(a)", "VARCHAR"),
    ("a / b", "VARCHAR"),
    ("sqrt(abs(a))", "VARCHAR"),
    ("x", "VARCHAR"),
    ("sum(x)", "VARCHAR"),
    ("sum(a * x)", "VARCHAR"),
    ("round(x, 2)", "VARCHAR"),
    ("i::float8::numeric", "VARCHAR"),
    ("a::numeric(20,1)", "DECIMAL(20,1)"),
    ("sum(a::numeric(60,2))", "VARCHAR"),
]

DIGITS_OF_QUERIES = [
    ("SELECT v FROM (SELECT sum(a) AS v FROM digits) q", "DECIMAL(34,2)"),
    ("SELECT v FROM summed", "DECIMAL(34,2)"),
    ("WITH w AS (SELECT a * b AS v FROM digits) SELECT max(v) AS v FROM w", "DECIMAL(19,5)"),
    ("SELECT a AS v FROM digits UNION ALL SELECT i FROM digits", "DECIMAL(21,2)"),
    ("SELECT a AS v FROM digits UNION ALL SELECT x FROM digits", "VARCHAR"),
    ("SELECT v FROM (VALUES (1.5), (22)) q(v)", "DECIMAL(3,1)"),
    ("SELECT a * b AS v FROM digits GROUP BY a * b", "DECIMAL(19,5)"),
    (
        "SELECT v FROM (SELECT sum(a) AS v FROM digits) p FULL JOIN (SELECT 0.5 AS v) q USING (v)",
        "DECIMAL(34,2)",
    ),
    ("SELECT q.v FROM digits t, LATERAL (SELECT t.a + 1 AS v) q", "DECIMAL(16,2)"),
    (
        "WITH RECURSIVE w(v) AS (SELECT 1.5 UNION ALL SELECT v * 2 FROM w WHERE v < 9) SELECT v FROM w",
        "VARCHAR",
    ),
]


@pytest.fixture(scope="module")
def digits(typed):
    columns = "a numeric(15,2), b numeric(4,3), i bigint, d date, x numeric"
    with table(typed, "digits", columns):
        typed.execute(
            "INSERT INTO digits VALUES (1.25, 0.5, 9223372036854775807, '2024-02-29', 1.5), "
            "(-9999999999999.99, 9.999, -1, NULL, NULL), (9999999999999.99, -9.999, 1, '4712-01-01 BC', 3), "
            "(0, 0.001, NULL, '5874897-12-31', 0)"
        )
        typed.execute("CREATE VIEW summed AS SELECT sum(a) AS v FROM digits")
        yield typed
        typed.execute("DROP VIEW summed")


@pytest.mark.parametrize(("value", "wire"), DIGITS)
def test_what_a_query_tells_of_its_numerics(digits, value, wire):
    query = f"SELECT {value} AS v FROM digits"
    if "::timestamp" in value or "d + time" in value:
        query += " WHERE d < '9999-01-01'"
    same_digits(digits, query, wire)


@pytest.mark.parametrize(("query", "wire"), DIGITS_OF_QUERIES)
def test_what_queries_tell_of_those_within(digits, query, wire):
    same_digits(digits, query, wire)


def same_digits(connection, query, wire):
    came = copy(connection, query, numeric="auto")
    assert came.types == [wire]
    expected = connection.execute(query).fetchall()
    assert len(came.rows) == len(expected)
    came, expected = (
        sorted(decimal.Decimal(value) for (value,) in rows if value is not None)
        for rows in (came.rows, expected)
    )
    assert came == expected


def test_queries_of_queries_are_looked_at_for_a_time(digits):
    query = "SELECT a AS v FROM digits"
    for _ in range(40):
        query = f"SELECT v + v AS v FROM ({query}) q OFFSET 0"
    assert copy(digits, query, numeric="auto").types == ["VARCHAR"]


def test_a_number_that_is_none_is_an_error_where_the_digits_are_known(digits):
    query = "SELECT sum(v) AS v FROM (VALUES ('NaN'::numeric(9,2))) q(v)"
    assert copy(digits, query).rows == [["NaN"]]
    with pytest.raises(Failed) as failed:
        copy(digits, query, numeric="auto")
    assert failed.value.sqlstate == "22003" and '"v"' in failed.value.message


def test_digits_are_told_without_running_a_query(digits):
    def told(query, types="{}"):
        return digits.execute("SELECT hypostyle_numerics(%s, %s::oid[])", [query, types]).fetchone()[0]

    modifier = lambda precision, scale: (precision << 16 | scale) + 4  # noqa: E731
    assert told("SELECT sum(a), 1, 2.5, avg(a) FROM digits") == [modifier(34, 2), -1, modifier(2, 1), -1]
    assert told("SELECT $1 * 2, $2::numeric", "{1700,20}") == [-1, modifier(19, 0)]
    assert told("SELECT") == []
    assert told("BEGIN") is None
    for query, types, sqlstate in [
        ("SELECT 1; SELECT 2", "{}", "22023"),
        ("", "{}", "22023"),
        ("SELECT 1", "{NULL}", "22023"),
        ("SELECT 1", "{{1},{2}}", "22023"),
        ("SELECT nosuch", "{}", "42703"),
        ("SELEC", "{}", "42601"),
    ]:
        with pytest.raises(psycopg.Error) as failed:
            told(query, types)
        assert failed.value.sqlstate == sqlstate, query


def test_the_last_timestamp(typed):
    last = "SELECT '294247-01-10 04:00:54.775807'::timestamp + interval '%s'"
    assert copy(typed, last % "0").rows == [[(1 << 63) - 1]]
    with pytest.raises(Failed) as failed:
        copy(typed, last % "1 microsecond")
    assert failed.value.sqlstate == "22008"


def test_rows_within_rows(typed):
    """Domains over lists of rows, rows of tables with columns that are gone or computed, and rows that were
    stored before their type had an attribute more."""
    listed = "ARRAY[ROW(1, 'a')::pair, NULL]::pairs AS l, ROW(2, NULL)::couple AS c, NULL::pairs AS n"
    came = copy(typed, f"SELECT {listed}")
    assert came.rows == [[[[1, "a"], None], [2, None], None]]
    with table(typed, "whole", "gone text, a int, doubled int GENERATED ALWAYS AS (a * 2) STORED, l pairs"):
        typed.execute("ALTER TABLE whole DROP gone")
        typed.execute("INSERT INTO whole (a, l) VALUES (1, '{\"(3,x)\"}'), (NULL, NULL)")
        typed.execute("ALTER TABLE whole ADD late int DEFAULT 7")
        came = copy(typed, "SELECT w, * FROM whole w ORDER BY a")
        row = [1, 2, [[3, "x"]], 7]
        assert came.rows == [[row, *row], [[None, None, None, 7], None, None, None, 7]]
    typed.execute("CREATE TYPE grown AS (x int)")
    with table(typed, "kept", "g grown, l grown[]"):
        typed.execute("INSERT INTO kept VALUES (ROW(1), ARRAY[ROW(2)::grown])")
        typed.execute("ALTER TYPE grown ADD ATTRIBUTE y text")
        typed.execute("INSERT INTO kept VALUES (ROW(3, 'z'), NULL)")
        assert copy(typed, "SELECT * FROM kept").rows == [[[1, None], [[2, None]]], [[3, "z"], None]]
    typed.execute("DROP TYPE grown")


def test_shapes_of_results(typed):
    assert copy(typed, "SELECT").rows == [[]]
    assert copy(typed, "SELECT FROM generate_series(1, 5)").rows == [[]] * 5
    came = copy(typed, "SELECT 1 AS a WHERE false")
    assert (came.columns, came.rows) == ([("a", "INTEGER")], [])
    columns = ", ".join(f"{number} AS c{number}" for number in range(1600))
    came = copy(typed, f"SELECT {columns} FROM generate_series(1, 500)")
    assert came.rows == [list(range(1600))] * 500
    came = copy(typed, "SELECT row(1, 'a') AS r, ARRAY[1, 2] || n AS l FROM generate_series(3, 4) n")
    assert came.rows == [["(1,a)", [1, 2, 3]], ["(1,a)", [1, 2, 4]]]


@pytest.mark.parametrize("codec", ["auto", "none", "light", "lz4", "zstd:3"])
def test_codecs(typed, codec):
    listed = "n, n * 0.5::float8 AS f, md5(n::text) AS t, (n % 7)::text AS s"
    query = f"SELECT {listed} FROM generate_series(1, 50000) n"
    came = copy(typed, query, codec=codec)
    expected = typed.execute(
        query.replace("n * 0.5::float8", "encode(float8send(n * 0.5), 'hex')")
    ).fetchall()
    assert came.rows == [list(row) for row in expected]
    compressions = {chosen[2] for chosen in came.end["chosen"]}
    if codec in ("none", "light"):
        assert compressions == {0}
    if codec == "none":
        assert {chosen[1] for chosen in came.end["chosen"]} == {0}
    came = copy(typed, query, codec=codec, codecs=0)
    assert {chosen[2] for chosen in came.end["chosen"]} == {0}


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII", "EUC_JP"])
def test_databases_in_other_encodings(cluster, encoding):
    with cluster.connect() as connection:
        connection.execute(
            f"CREATE DATABASE other TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        )
    try:
        with cluster.connect(dbname="other", client_encoding="UTF8") as connection:
            connection.execute("CREATE EXTENSION hypostyle")
            if encoding == "LATIN1":
                connection.execute("CREATE TYPE e AS ENUM ('é')")
                came = copy(
                    connection,
                    "SELECT 'é'::text AS ö, 'é'::e AS e, ARRAY['é'::e], '\"é\"'::json, repeat('é', 9999)",
                )
                assert came.columns[0][0] == "ö"
                assert came.rows == [["é", "é", ["é"], '"é"', "é" * 9999]]
            if encoding == "EUC_JP":
                assert copy(connection, "SELECT '日本'::text").rows == [["日本"]]
            if encoding == "SQL_ASCII":
                assert copy(connection, "SELECT 'é'::text").rows == [["é"]]
                with pytest.raises(Failed) as failed:
                    copy(connection, "SELECT E'\\xff'::text AS wrong")
                assert failed.value.sqlstate == "22021"
    finally:
        with cluster.connect() as connection:
            connection.execute("DROP DATABASE other")
