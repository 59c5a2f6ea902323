"""UUIDs and JSON, and what has some within it, through every form of a query: the value, the type of the
result, typeof(), and what to_json() makes of it.
"""

import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import hypostyle
import pytest

ONE, OTHER = uuid.UUID(int=1 << 100 | 7), uuid.UUID("ffffffff-eeee-4ddd-8ccc-bbbbbbbbbbbb")


@dataclass(frozen=True)
class Kind:
    """A type: two values of it in SQL and in Python, and whether they are compared."""

    sql: str
    texts: tuple[str, str]
    values: tuple[Any, Any]
    compared: bool = True


KINDS = {
    kind.sql: kind
    for kind in [
        Kind("UUID", (f"'{ONE}'::UUID", f"'{OTHER}'::UUID"), (ONE, OTHER)),
        Kind("JSON", ("""'{"a":1}'::JSON""", "'[2]'::JSON"), ('{"a":1}', "[2]")),
        Kind("UUID[]", (f"['{ONE}'::UUID, NULL]", f"['{OTHER}'::UUID]"), ([ONE, None], [OTHER])),
        Kind("JSON[]", ("['1'::JSON, NULL]", """['"x"'::JSON]"""), (["1", None], ['"x"'])),
        Kind(
            "STRUCT(u UUID, j JSON)",
            (f"{{'u': '{ONE}'::UUID, 'j': '1'::JSON}}", f"{{'u': '{OTHER}'::UUID, 'j': '[]'::JSON}}"),
            ({"u": ONE, "j": "1"}, {"u": OTHER, "j": "[]"}),
        ),
        Kind(
            "MAP(VARCHAR, JSON)",
            ("MAP {'k': '1'::JSON}", "MAP {'l': '[]'::JSON}"),
            ({"k": "1"}, {"l": "[]"}),
            compared=False,
        ),
    ]
}


@dataclass(frozen=True)
class Form:
    """A query for one value, in which `v` and `w` are two values of a type. `gives` makes its value of them,
    and `of` its type of theirs.
    """

    sql: str
    gives: Callable[[Any, Any], Any] = lambda v, w: v
    of: str = "{}"
    compared: bool = False
    """It compares values."""


def listed(sql: str, gives: Callable[[Any, Any], Any] = lambda v, w: [v, w], **more: Any) -> Form:
    """Return a form that gives a list."""
    return Form(sql, gives, "{}[]", **more)


# Expressions over the first row of a table, whose columns v and w are values of the type, and n is 1.
EXPRESSIONS = {
    "column": Form("v"),
    "case": Form("CASE WHEN n = 1 THEN v ELSE w END"),
    "case without else": Form("CASE WHEN n = 1 THEN v END"),
    "case of null": Form("CASE WHEN n = 2 THEN NULL ELSE v END"),
    "simple case": Form("CASE n WHEN 1 THEN v WHEN 2 THEN w END"),
    "case in case": Form("CASE WHEN n = 1 THEN CASE WHEN n = 1 THEN v ELSE w END ELSE w END"),
    "coalesce": Form("coalesce(NULL, v, w)"),
    "coalesce of case": Form("coalesce(CASE WHEN n = 2 THEN w END, v)"),
    "ifnull": Form("ifnull(v, w)"),
    "if": Form("if(n = 1, v, w)"),
    "nullif": Form("nullif(v, w)", compared=True),
    "greatest": Form("greatest(v, v)", compared=True),
    "least": Form("least(v, v)", compared=True),
    "list": listed("[v, w]"),
    "list with null": listed("[v, NULL]", lambda v, w: [v, None]),
    "array": listed("ARRAY[v, w]"),
    "list_value": listed("list_value(v, w)"),
    "element": Form("[v, w][1]"),
    "list_extract": Form("list_extract([v, w], 2)", lambda v, w: w),
    "list_first": Form("list_first([v, w])"),
    "list_last": Form("list_last([v, w])", lambda v, w: w),
    "list_any_value": Form("list_any_value([NULL, v])"),
    "slice": listed("[v, w, v][2:3]", lambda v, w: [w, v]),
    "list_concat": listed("list_concat([v], [w])"),
    "concatenated": listed("[v] || [w]"),
    "list_append": listed("list_append([v], w)"),
    "list_prepend": listed("list_prepend(v, [w])"),
    "list_reverse": listed("list_reverse([v, w])", lambda v, w: [w, v]),
    "list_distinct": listed("list_distinct([v, v])", lambda v, w: [v], compared=True),
    "list_where": listed("list_where([v, w], [false, true])", lambda v, w: [w]),
    "list_select": listed("list_select([v, w], [2, 1])", lambda v, w: [w, v]),
    "list_filter": listed("list_filter([v, w], x -> true)"),
    "list_transform": listed("list_transform([v, w], x -> x)"),
    "list_transform to lists": Form("list_transform([v, w], x -> [x])", lambda v, w: [[v], [w]], "{}[][]"),
    "list_transform of a column": listed("list_transform([1, 2], x -> v)", lambda v, w: [v, v]),
    "list_sort": listed("list_sort([v, v])", lambda v, w: [v, v], compared=True),
    "list_max": Form("list_max([v, v])", compared=True),
    "flatten": listed("flatten([[v], [w]])"),
    "array_repeat": listed("array_repeat(v, 2)", lambda v, w: [v, v]),
    "list of lists": Form("[[v], [w]]", lambda v, w: [[v], [w]], "{}[][]"),
    "structure": Form("{'a': v}", lambda v, w: {"a": v}, "STRUCT(a {})"),
    "struct_pack": Form(
        "struct_pack(a := v, b := 1)", lambda v, w: {"a": v, "b": 1}, "STRUCT(a {}, b BIGINT)"
    ),
    "structure in a list": Form("[{'a': v}]", lambda v, w: [{"a": v}], "STRUCT(a {})[]"),
    "field": Form("({'a': v, 'b': 1}).a"),
    "struct_extract": Form("struct_extract({'a': v}, 'a')"),
    "field of an element": Form("([{'a': v}])[1].a"),
    "map": Form("map(['k'], [v])", lambda v, w: {"k": v}, "MAP(VARCHAR, {})"),
    "map literal": Form("MAP {'k': v}", lambda v, w: {"k": v}, "MAP(VARCHAR, {})"),
    "value of a map": Form("map(['k'], [v])['k']"),
    "map_values": listed("map_values(map(['k'], [v]))", lambda v, w: [v]),
    "map_entries": Form(
        "map_entries(map(['k'], [v]))",
        lambda v, w: [{"key": "k", "value": v}],
        "STRUCT(key VARCHAR, value {})[]",
    ),
    "subquery": Form("(SELECT v)"),
    "subquery of a table": Form("(SELECT s.v FROM t AS s WHERE s.n = 1)"),
    "correlated subquery": Form("(SELECT s.v FROM t AS s WHERE s.n = t.n)"),
    "array of a subquery": listed("ARRAY(SELECT s.v FROM t AS s WHERE s.n = 1)", lambda v, w: [v]),
    "first_value over": Form("first_value(v) OVER (ORDER BY n)"),
    "lag over": Form("lag(w, 1, v) OVER (ORDER BY n)"),
    "lead over": Form("lead(v, 0) OVER (ORDER BY n)"),
    "nth_value over": Form("nth_value(v, 1) OVER (ORDER BY n)"),
    "last_value over": Form("last_value(v) OVER (PARTITION BY n)"),
    "max over": Form("max(v) OVER (PARTITION BY n)", compared=True),
    "array_agg over": listed("array_agg(v) OVER (PARTITION BY n)", lambda v, w: [v]),
}

# Queries for one column x, over a table t of two rows: (1, v, w) and (2, w, v).
QUERIES = {
    "union all": Form("SELECT v AS x FROM t WHERE n = 1 UNION ALL SELECT w FROM t WHERE n = 3"),
    "union": Form("SELECT v AS x FROM t WHERE n = 1 UNION SELECT v FROM t WHERE n = 1", compared=True),
    "union with null": Form(
        "SELECT * FROM (SELECT NULL AS x UNION ALL SELECT v FROM t WHERE n = 1) WHERE x IS NOT NULL"
    ),
    "union with null at its end": Form(
        "SELECT * FROM (SELECT v AS x FROM t WHERE n = 1 UNION ALL SELECT NULL) WHERE x IS NOT NULL"
    ),
    "union by name": Form(
        "SELECT v AS x FROM t WHERE n = 1 UNION ALL BY NAME SELECT w AS x FROM t WHERE n = 3"
    ),
    "intersect": Form("SELECT v AS x FROM t WHERE n = 1 INTERSECT SELECT w FROM t", compared=True),
    "except": Form("SELECT v AS x FROM t WHERE n = 1 EXCEPT SELECT w FROM t WHERE n = 1", compared=True),
    "values": Form("SELECT * FROM (VALUES ({v}), (NULL)) AS q (x) WHERE x IS NOT NULL"),
    "values of expressions": Form("VALUES (coalesce(NULL, {v}))"),
    "cte": Form("WITH c AS (SELECT coalesce(v, w) AS x FROM t WHERE n = 1) SELECT x FROM c"),
    "recursive cte": Form(
        "WITH RECURSIVE r (x, i) AS (SELECT v, 1 FROM t WHERE n = 1 "
        "UNION ALL SELECT x, i + 1 FROM r WHERE i < 3) SELECT x FROM r WHERE i = 3"
    ),
    "recursive cte of an expression": Form(
        "WITH RECURSIVE r (x, i) AS (SELECT coalesce(v, w), 1 FROM t WHERE n = 1 "
        "UNION ALL SELECT coalesce(x, NULL), i + 1 FROM r WHERE i < 3) SELECT x FROM r WHERE i = 3"
    ),
    "in a subquery": Form(
        "SELECT v AS x FROM t WHERE v IN (SELECT s.w FROM t AS s WHERE s.n = 2)", compared=True
    ),
    "equal": Form("SELECT v AS x FROM t WHERE v = {v}", compared=True),
    "lateral": Form("SELECT l.x FROM t, LATERAL (SELECT coalesce(t.v, t.w) AS x) AS l WHERE t.n = 1"),
    "lateral of an expression": Form(
        "SELECT l.x FROM (SELECT n, coalesce(v, w) AS c FROM t) AS q, LATERAL (SELECT q.c AS x) AS l "
        "WHERE q.n = 1"
    ),
    "correlated": Form(
        "SELECT (SELECT q.c FROM t AS s WHERE s.n = q.n) AS x "
        "FROM (SELECT n, coalesce(v, w) AS c FROM t) AS q WHERE q.n = 1"
    ),
    "group by": Form("SELECT v AS x FROM t WHERE n = 1 GROUP BY v", compared=True),
    "group by an expression": Form(
        "SELECT coalesce(v, w) AS x FROM t WHERE n = 1 GROUP BY coalesce(v, w)", compared=True
    ),
    "grouping sets": Form(
        "SELECT * FROM (SELECT v AS x FROM t WHERE n = 1 GROUP BY GROUPING SETS ((v), ())) "
        "WHERE x IS NOT NULL",
        compared=True,
    ),
    "distinct": Form("SELECT DISTINCT v AS x FROM t WHERE n = 1", compared=True),
    "distinct on": Form("SELECT DISTINCT ON (n) v AS x FROM t WHERE n = 1 ORDER BY n"),
    "min": Form("SELECT min(v) AS x FROM t WHERE n = 1", compared=True),
    "max": Form("SELECT max(v) AS x FROM t WHERE n = 1", compared=True),
    "any_value": Form("SELECT any_value(v) AS x FROM t WHERE n = 1"),
    "first": Form("SELECT first(v ORDER BY n) AS x FROM t"),
    "last": Form("SELECT last(v ORDER BY n) AS x FROM t", lambda v, w: w),
    "mode": Form("SELECT mode(v) AS x FROM t WHERE n = 1", compared=True),
    "arg_max": Form("SELECT arg_max(v, n) AS x FROM t", lambda v, w: w),
    "arg_min": Form("SELECT arg_min(v, n) AS x FROM t"),
    "filtered": Form("SELECT any_value(v) FILTER (WHERE n = 1) AS x FROM t"),
    "aggregate of case": Form("SELECT max(CASE WHEN n = 1 THEN v END) AS x FROM t", compared=True),
    "having": Form("SELECT max(v) AS x FROM t WHERE n = 1 HAVING max(v) IS NOT NULL", compared=True),
    "by group": Form("SELECT max(v) AS x FROM t GROUP BY n ORDER BY n LIMIT 1", compared=True),
    "array_agg": listed("SELECT array_agg(v ORDER BY n) AS x FROM t"),
    "list of all": listed("SELECT list(v) AS x FROM t WHERE n = 1", lambda v, w: [v]),
    "array_agg distinct": listed(
        "SELECT array_agg(DISTINCT v) AS x FROM t WHERE n = 1", lambda v, w: [v], compared=True
    ),
    "unnest": Form("SELECT unnest([v]) AS x FROM t WHERE n = 1"),
    "unnest in from": Form("SELECT u.x FROM t, unnest([t.v]) AS u (x) WHERE n = 1"),
    "unnest of an aggregate": Form("SELECT unnest(array_agg(v)) AS x FROM t WHERE n = 1"),
    "unnest of structures": Form("SELECT x FROM (SELECT unnest({'a': v}) FROM t WHERE n = 1) AS q (x)"),
    "order by": Form("SELECT v AS x FROM t ORDER BY n LIMIT 1"),
    "order by itself": Form(
        "SELECT x FROM (SELECT coalesce(v, w) AS x FROM t WHERE n = 1) ORDER BY x", compared=True
    ),
    "join": Form("SELECT a.v AS x FROM t AS a JOIN t AS b ON a.v = b.w WHERE a.n = 1", compared=True),
    "left join": Form("SELECT b.v AS x FROM t AS a LEFT JOIN t AS b ON a.n = b.n WHERE a.n = 1"),
    "full join using": Form(
        "SELECT x FROM (SELECT v AS x FROM t WHERE n = 1) AS a "
        "FULL JOIN (SELECT w AS x FROM t WHERE n = 2) AS b USING (x)",
        compared=True,
    ),
    "window over a group": Form(
        "SELECT first_value(max(v)) OVER () AS x FROM t WHERE n = 1 GROUP BY n", compared=True
    ),
    "qualified": Form("SELECT v AS x FROM t QUALIFY row_number() OVER (ORDER BY n) = 1"),
}


def query_of(form: Form) -> Form:
    """Return the query for the first row's value of an expression. A window function sees all rows."""
    sql = f"SELECT x FROM (SELECT n, {form.sql} AS x FROM t) WHERE n = 1"
    return replace(form, sql=sql if " OVER " in form.sql else f"SELECT {form.sql} AS x FROM t WHERE n = 1")


FORMS = {name: query_of(form) for name, form in EXPRESSIONS.items()} | QUERIES
CASES = [
    pytest.param(kind, form, id=f"{kind.sql}-{name}")
    for kind in KINDS.values()
    for name, form in FORMS.items()
    if kind.compared or not form.compared
]


def plain(value: Any) -> Any:
    """Return a value with dicts for maps."""
    if isinstance(value, list):
        if value and all(isinstance(pair, tuple) for pair in value):
            return {key: plain(part) for key, part in value}
        return [plain(part) for part in value]
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def as_json(value: Any) -> Any:
    """Return what to_json() gives of a value, read: texts of it are JSON where its type says JSON."""
    if isinstance(value, list):
        return [as_json(part) for part in value]
    if isinstance(value, dict):
        return {key: as_json(part) for key, part in value.items()}
    if isinstance(value, str):
        # "k" is a key of an entry that map_entries() gives, and no JSON.
        return value if value == "k" else json.loads(value)
    return str(value) if isinstance(value, uuid.UUID) else value


@pytest.fixture(scope="module")
def tables():
    """A connection, and the schema of the table of each type."""
    with hypostyle.connect() as con:
        for place, kind in enumerate(KINDS.values()):
            v, w = kind.texts
            con.sql(f"CREATE SCHEMA s{place}")
            con.sql(f"CREATE TABLE s{place}.t (n INTEGER, v {kind.sql}, w {kind.sql})")
            con.sql(f"INSERT INTO s{place}.t VALUES (1, {v}, {w}), (2, {w}, {v})")
        yield con, {kind.sql: f"s{place}" for place, kind in enumerate(KINDS.values())}


def check(con, sql, kind, form):
    """Look at the only value of a query, and at what is said of it."""
    wanted = form.of.format(kind.sql)
    value = form.gives(*kind.values)
    result = con.sql(sql)
    assert (result.types, [plain(row[0]) for row in result.fetchall()]) == ([wanted], [value])
    told = con.sql(f"SELECT typeof(x), to_json(x)::VARCHAR FROM ({sql}) AS q (x)").fetchall()
    assert [(of, json.loads(text)) for of, text in told] == [(wanted, as_json(value))]


@pytest.mark.parametrize(("kind", "form"), CASES)
def test_a_value_stays_of_its_type(tables, kind, form):
    con, schemas = tables
    con.sql(f"SET search_path = '{schemas[kind.sql]}'")
    sql = form.sql.replace("{v}", kind.texts[0]).replace("{w}", kind.texts[1])
    check(con, sql, kind, form)


# Forms of which all values that a statement stores, or gives back, are looked at.
STORED = ["case", "element", "list", "structure", "field", "value of a map", "list_transform", "lag over"]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_stored_value_is_of_its_type(tables, kind, name):
    con, schemas = tables
    form = FORMS[name]
    con.sql(f"SET search_path = '{schemas[kind.sql]}'")
    con.sql("DROP TABLE IF EXISTS made")
    wanted, value, query = form.of.format(kind.sql), form.gives(*kind.values), form.sql
    for statement in ["CREATE VIEW made AS", "CREATE TABLE made AS", "CREATE MATERIALIZED VIEW made AS"]:
        con.sql(f"{statement} {query}")
        check(con, "SELECT x FROM made", kind, form)
        con.sql(statement.replace("CREATE", "DROP").removesuffix(" AS"))
    con.sql(f"CREATE TABLE made (x {wanted})")
    returned = con.sql(f"INSERT INTO made {query} RETURNING x")
    assert (returned.types, [plain(row[0]) for row in returned.fetchall()]) == ([wanted], [value])
    con.sql(f"UPDATE made SET x = ({query})")
    check(con, "SELECT x FROM made", kind, form)
    con.sql("DROP TABLE made")


@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_copied_value_is_of_its_type(tables, tmp_path, kind, form):
    con, schemas = tables
    con.sql(f"SET search_path = '{schemas[kind.sql]}'")
    path = tmp_path / f"t.{form}"
    con.sql(f"COPY (SELECT CASE WHEN n = 1 THEN v ELSE w END AS x, [v] AS l FROM t WHERE n = 1) TO '{path}'")
    check(con, f"SELECT x FROM '{path}'", kind, Form(""))
    check(con, f"SELECT l[1] AS x FROM '{path}'", kind, Form(""))


# Where a parameter stands, and the types of a UUID there.
PARAMETERS = {
    "alone": ("SELECT $1", "UUID", ONE),
    "coalesce": ("SELECT coalesce(NULL, $1)", "UUID", ONE),
    "case": ("SELECT CASE WHEN n = 1 THEN $1 END FROM s0.t WHERE n = 1", "UUID", ONE),
    "list": ("SELECT [$1, v] FROM s0.t WHERE n = 1", "UUID[]", [ONE, ONE]),
    "structure": ("SELECT {'a': $1}", "STRUCT(a UUID)", {"a": ONE}),
    "aggregate": ("SELECT max($1) FROM s0.t", "UUID", ONE),
    "union": ("SELECT $1 UNION SELECT v FROM s0.t WHERE n = 1", "UUID", ONE),
}


@pytest.mark.parametrize("place", PARAMETERS)
@pytest.mark.parametrize("given", ["uuid", "text"])
def test_a_parameter_is_of_its_type(tables, place, given):
    con, _ = tables
    sql, wanted, value = PARAMETERS[place]
    if given == "text":
        # A text is of the type of what it stands beside.
        if "v" not in sql:
            sql = sql.replace("$1", "$1::UUID")
        result = con.sql(sql, [str(ONE)])
    else:
        result = con.sql(sql, [ONE])
    assert (result.types, [plain(row[0]) for row in result.fetchall()]) == ([wanted], [value])


def test_a_text_beside_a_uuid_is_one(tables):
    con, _ = tables
    for sql in ["coalesce(v, '{}')", "CASE WHEN n = 2 THEN '{}' ELSE v END", "[v, '{}'][1]"]:
        result = con.sql(f"SELECT {sql.format(str(OTHER).upper())} FROM s0.t WHERE n = 1")
        assert (result.types, result.fetchall()) == (["UUID"], [(ONE,)])
    # A value that is not chosen is not read.
    with pytest.raises(hypostyle.DataError, match="not a UUID"):
        con.sql("SELECT coalesce(NULL::UUID, 'none', v) FROM s0.t").fetchall()


def test_texts_stay_texts(tables):
    con, _ = tables
    for sql in [
        "SELECT v::VARCHAR FROM s0.t",
        "SELECT CASE WHEN n = 1 THEN v::VARCHAR ELSE w::VARCHAR END FROM s1.t",
        "SELECT coalesce(v::VARCHAR, 'none') FROM s0.t",
        "SELECT v::VARCHAR FROM s0.t UNION ALL SELECT 'none'",
        "SELECT max(v::VARCHAR) FROM s1.t",
        "SELECT [v::VARCHAR][1] FROM s1.t",
    ]:
        result = con.sql(sql)
        assert result.types == ["VARCHAR"], sql
        assert all(isinstance(row[0], str) for row in result.fetchall()), sql
