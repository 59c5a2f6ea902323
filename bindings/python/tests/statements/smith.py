"""Random statements in the manner of SQLsmith.

Their types fit for the most part. They are about tables of all types, the catalogs, and all
functions that the server lists.
"""

import random
from collections.abc import Iterator

from .client import Client

# Two tables with the same columns, one for each type; one has few rows, the other many; and a view.
COLUMNS = {
    "i": "integer",
    "b": "bigint",
    "s": "smallint",
    "y": "tinyint",
    "u": "ubigint",
    "f": "double",
    "r": "float",
    "d": "decimal(15, 2)",
    "w": "decimal(60, 5)",
    "o": "boolean",
    "t": "varchar",
    "x": "blob",
    "e": "date",
    "h": "time",
    "p": "timestamp",
    "z": "timestamp with time zone",
    "n": "interval",
    "g": "uuid",
    "j": "json",
    "l": "integer[]",
    "m": "varchar[]",
    "c": "struct(a integer, b varchar)",
    "k": "map(varchar, integer)",
    "a": "integer[3]",
}
TABLES = ["few", "many", "looked_at"]
CATALOGS = [
    "information_schema.tables",
    "information_schema.columns",
    "information_schema.schemata",
    "information_schema.df_settings",
    "information_schema.routines",
    "information_schema.views",
    "pg_catalog.pg_class",
    "pg_catalog.pg_attribute",
    "pg_catalog.pg_type",
    "pg_catalog.pg_constraint",
    "pg_catalog.pg_proc",
    "pg_catalog.pg_namespace",
    "pg_catalog.pg_settings",
]


def schema() -> str:
    """Return the statements that create the tables; a third of their rows have NULLs."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    texts = []
    for table, rows in (("few", 10), ("many", 5000)):
        texts.append(f"CREATE TABLE {table} ({columns})")
        values = ", ".join(_values())
        texts.append(f"INSERT INTO {table} SELECT {values} FROM range(0, {rows}) AS r(x)")
        texts.append(f"INSERT INTO {table} (i) SELECT x FROM range(0, {rows // 2}) AS r(x)")
    texts.append("CREATE VIEW looked_at AS SELECT * FROM few WHERE i > 0")
    return "; ".join(texts)


def _values() -> list[str]:
    """Return an expression over `x` for each column."""
    number = {
        "tinyint": "(x % 50)",
        "smallint": "(x % 100)",
        "integer": "(x % 7 - 3)",
        "varchar": "('text ' || (x % 13)::varchar)",
        "blob": "('bytes ' || x::varchar)",
        "boolean": "(x % 2 = 0)",
        "date": "'2024-02-29'",
        "time": "'12:34:56'",
        "timestamp": "'2024-02-29 12:34:56'",
        "timestamp with time zone": "'2024-02-29 12:34:56+01'",
        "interval": "'1 day 2 hours'",
        "uuid": "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'",
        "json": """'{"a": [1, {"b": null}], "c": "x"}'""",
        "integer[]": "[1, NULL, 3]",
        "varchar[]": "['a', NULL, 'text']",
        "struct(a integer, b varchar)": "{'a': 1, 'b': 'x'}",
        "integer[3]": "[1, 2, 3]",
    }
    # There are no casts to maps.
    own = {"map(varchar, integer)": "MAP {'a': 1, 'b': 2}"}
    return [own.get(type_) or f"CAST({number.get(type_, 'x')} AS {type_})" for type_ in COLUMNS.values()]


NUMBERS = [
    "integer",
    "bigint",
    "smallint",
    "tinyint",
    "ubigint",
    "double",
    "float",
    "decimal(15, 2)",
    "decimal(60, 5)",
]
TIMES = ["date", "time", "timestamp", "timestamp with time zone", "interval"]
LITERALS = {
    "integer": ["0", "1", "-1", "7", "2147483647", "(-2147483648)"],
    "bigint": ["9223372036854775807", "(-9223372036854775808)", "4294967296"],
    "smallint": ["32767", "1"],
    "tinyint": ["127", "-128"],
    "ubigint": ["18446744073709551615", "0"],
    "double": ["1.5", "1e308", "-0.0", "'NaN'::double", "'Infinity'::double"],
    "float": ["1e38::float", "0::float"],
    "decimal(15, 2)": ["1.25", "9999999999999.99"],
    "decimal(60, 5)": ["1::decimal(60, 5)", "'9999999999999999999999999999999999999999.1'::decimal(60, 5)"],
    "boolean": ["true", "false"],
    "varchar": [
        "''",
        "'a'",
        "'%'",
        "'é𝄞'",
        "'2024-01-01'",
        "'12'",
        "'[1, 2]'",
        "repeat('ab', 100)",
        "'UTC'",
        "'year'",
    ],
    "blob": ["''::blob", "'abc'::blob"],
    "date": ["date '2024-02-29'", "date '0001-01-01'", "date '9999-12-31'"],
    "time": ["time '00:00:00'", "time '23:59:59.999999'"],
    "timestamp": ["timestamp '2024-02-29 12:00:00'", "timestamp '1677-09-21'", "now()::timestamp"],
    "timestamp with time zone": ["now()", "'2024-02-29 12:00:00+05'::timestamptz"],
    "interval": [
        "interval '1 day'",
        "interval '-3 months'",
        "interval '1 microsecond'",
        "interval '1000000 years'",
    ],
    "uuid": ["'6ba7b810-9dad-11d1-80b4-00c04fd430c8'::uuid", "uuid()"],
    "json": ["""'{"a": 1}'::json""", "'[]'::json", "'null'::json"],
    "integer[]": ["[1, 2]", "[]", "range(0, 10)"],
    "varchar[]": ["['a', NULL]", "string_to_array('a,b', ',')"],
    "struct(a integer, b varchar)": ["{'a': 1, 'b': 'x'}", "struct(1, 'x')"],
    "map(varchar, integer)": ["MAP {'a': 1}"],
    "integer[3]": ["[1, 2, 3]"],
}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
ARITHMETIC = ["+", "-", "*", "/", "%", "+", "-", "*", "&", "|", "<<"]
TEXTUAL = ["LIKE", "NOT LIKE", "ILIKE", "SIMILAR TO", "~", "~*", "!~"]
OTHERS = ["->", "->>", "@>", "<@", "?", "||", "#", "AT TIME ZONE"]
AGGREGATES = [
    "sum",
    "min",
    "max",
    "avg",
    "count",
    "array_agg",
    "string_agg",
    "median",
    "stddev",
    "bool_and",
    "first_value",
]
WINDOWS = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)"]
FRAMES = [
    "",
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING",
    "GROUPS BETWEEN CURRENT ROW AND 1 FOLLOWING",
    "ROWS BETWEEN 9223372036854775807 PRECEDING AND 0 FOLLOWING",
]
JOINS = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "NATURAL JOIN", "LEFT SEMI JOIN"]
SET_OPERATIONS = ["UNION", "UNION ALL", "INTERSECT", "EXCEPT"]
PARTS = ["year", "month", "day", "hour", "epoch", "dow", "week", "century", "nanosecond", "nonsense"]


def functions(client: Client) -> list[str]:
    """Return the names of all functions, as the server lists them."""
    return sorted({name for name in client.column("SELECT DISTINCT proname FROM pg_catalog.pg_proc") if name})


class Smith:
    """Generates statements from random numbers; the same ones from the same seed and functions."""

    def __init__(self, rng: random.Random, functions: list[str]) -> None:
        self._rng = rng
        self._functions = functions
        self._aliases = 0
        self._scope: list[str] = []
        self._queries: list[str] = []

    def statements(self) -> Iterator[tuple[str, str]]:
        """Yield kinds of statements, and statements, without end. Each function has its turn."""
        while True:
            for name in self._rng.sample(self._functions, len(self._functions)):
                yield f"function: {name}", self._call_alone(name)
                kind, sql = self._statement()
                yield kind, sql

    def _statement(self) -> tuple[str, str]:
        self._scope, self._queries, self._aliases = [], [], 0
        query = self._query(self._rng.choice([1, 1, 2, 3]))
        kind = self._rng.choices(["query", "explain", "analyze", "write", "other"], [80, 6, 4, 6, 4])[0]
        match kind:
            case "explain":
                return kind, f"EXPLAIN {self._rng.choice(['', 'VERBOSE '])}{query}"
            case "analyze":
                return kind, f"EXPLAIN ANALYZE {query}"
            case "write":
                return kind, self._write(query)
            case "other":
                return kind, self._other()
            case _:
                return kind, query

    def _call_alone(self, name: str) -> str:
        self._scope, self._queries = ["few"], []
        call = self._call(name, 1)
        if self._rng.random() < 0.2:
            call += f" OVER ({self._window()})"
        if self._rng.random() < 0.15:
            return f"SELECT * FROM {call}"
        return f"SELECT {call} FROM few"

    def _write(self, query: str) -> str:
        """Return a statement that is refused, because the user is a reader, but is planned up to
        there.
        """
        one = self._rng.choice
        return one(
            [
                f"INSERT INTO few (i) {query}",
                f"DELETE FROM few WHERE {self._condition(2)}",
                f"UPDATE few SET i = {self._value('integer', 2)} WHERE {self._condition(1)}",
                f"CREATE TABLE made AS {query}",
                f"CREATE VIEW seen AS {query}",
                f"MERGE INTO few USING ({query}) AS q ON {self._condition(1)} WHEN MATCHED THEN DELETE",
                f"COPY ({query}) TO STDOUT",
            ]
        )

    def _other(self) -> str:
        return self._rng.choice(
            [
                "SHOW TABLES",
                "SHOW ALL",
                "SHOW SESSIONS",
                "SHOW CLUSTER",
                "SHOW FRAGMENTS FROM few",
                "ALTER CLUSTER REBALANCE TABLE few",
                f"CREATE TABLE made PARTITION BY HASH (i) INTO 4 FRAGMENTS AS {self._query(1)}",
                "DESCRIBE many",
                "SUMMARIZE few",
                f"DESCRIBE {self._query(1)}",
                f"SUMMARIZE {self._query(1)}",
                f"PREPARE p AS {self._query(1)}",
                "EXECUTE p",
                "DEALLOCATE ALL",
                "BEGIN",
                "ROLLBACK",
                "COMMIT",
                f"DECLARE c CURSOR FOR {self._query(1)}",
                "FETCH 10 FROM c",
                f"SET timezone = {self._rng.choice(['UTC', 'nowhere', chr(39) + 'Asia/Kolkata' + chr(39)])}",
                "CHECK DATABASE",
                "SELECT * FROM 'no-such-file.csv'",
            ]
        )

    def _query(self, depth: int) -> str:
        rng = self._rng
        outer = len(self._scope)
        if depth > 0 and rng.random() < 0.12:
            name = self._alias()
            inner = self._query(depth - 1)
            self._queries.append(name)
            with_ = f"WITH {name} AS ({inner}) "
        elif depth > 0 and rng.random() < 0.04:
            limit = rng.choice([3, 1000])
            name = self._alias()
            step = f"SELECT i + 1 FROM {name} WHERE i < {limit}"
            with_ = f"WITH RECURSIVE {name} AS (SELECT 1 AS i UNION ALL {step}) "
            self._queries.append(name)
        else:
            with_ = ""
        query = with_ + self._select(depth)
        del self._scope[outer:]
        if depth > 0 and rng.random() < 0.15:
            query += f" {rng.choice(SET_OPERATIONS)} {self._select(depth - 1)}"
            del self._scope[outer:]
        if rng.random() < 0.3:
            query += f" ORDER BY {rng.choice(['1', '1 DESC NULLS FIRST', '1, 1', 'random()'])}"
        if rng.random() < 0.3:
            query += f" LIMIT {rng.choice([0, 1, 10, 2**62])}"
            query += f" OFFSET {rng.choice([0, 1, 2**62])}" if rng.random() < 0.3 else ""
        return query

    def _select(self, depth: int) -> str:
        rng = self._rng
        if rng.random() < 0.05:
            rows = ", ".join(f"({self._any(1)}, {self._any(1)})" for _ in range(rng.randrange(1, 4)))
            return f"VALUES {rows}"
        source = self._from(depth)
        where = f" WHERE {self._condition(depth)}" if rng.random() < 0.5 else ""
        if rng.random() < 0.25:
            keys = ", ".join(self._any(1) for _ in range(rng.randrange(1, 3)))
            grouping = rng.choice(["{}", "{}", "CUBE ({})", "ROLLUP ({})", "GROUPING SETS (({}), ())", "ALL"])
            having = f" HAVING {self._aggregate(1)} IS NOT NULL" if rng.random() < 0.3 else ""
            outputs = ", ".join([keys, self._aggregate(depth), self._aggregate(depth)])
            return f"SELECT {outputs} FROM {source}{where} GROUP BY {grouping.format(keys)}{having}"
        distinct = rng.choice(["", "", "", "", "", "DISTINCT ", "DISTINCT ON (1) "])
        outputs = ", ".join(self._output(depth) for _ in range(rng.randrange(1, 4)))
        return f"SELECT {distinct}{outputs} FROM {source}{where}"

    def _output(self, depth: int) -> str:
        rng = self._rng
        chosen = rng.random()
        if chosen < 0.05:
            return "*"
        if chosen < 0.15:
            return f"{self._windowed(depth)} OVER ({self._window()})"
        text = self._any(depth)
        return f"{text} AS {self._alias()}" if rng.random() < 0.2 else text

    def _from(self, depth: int) -> str:
        rng = self._rng
        source = self._relation(depth)
        for _ in range(rng.choices([0, 1, 2], [6, 3, 1])[0] if depth > 0 else 0):
            kind = rng.choice(JOINS)
            source += f" {kind} {self._relation(depth - 1)}"
            if kind in ("CROSS JOIN", "NATURAL JOIN"):
                continue
            source += rng.choice([" USING (i)", f" ON {self._condition(1)}", " ON true"])
        return source

    def _relation(self, depth: int) -> str:
        rng = self._rng
        alias = self._alias()
        chosen = rng.random()
        if chosen < 0.1:
            return f"{rng.choice(CATALOGS)} AS {alias}"
        if chosen < 0.25 and depth > 0:
            lateral = "LATERAL " if rng.random() < 0.2 else ""
            return f"{lateral}({self._query(depth - 1)}) AS {alias}"
        if chosen < 0.3:
            return f"range({rng.choice([0, 3, 1000])}) AS {alias}(i)"
        if chosen < 0.35:
            return f"unnest({self._value('integer[]', 1)}) AS {alias}(i)"
        name = rng.choice(self._queries) if self._queries and rng.random() < 0.3 else rng.choice(TABLES)
        if name in TABLES:
            self._scope.append(alias)
        return f"{name} AS {alias}"

    def _window(self) -> str:
        rng = self._rng
        text = f"PARTITION BY {self._any(0)} " if rng.random() < 0.4 else ""
        text += f"ORDER BY {self._any(0)} " if rng.random() < 0.7 else ""
        return text + (rng.choice(FRAMES) if rng.random() < 0.5 else "")

    def _windowed(self, depth: int) -> str:
        rng = self._rng
        if rng.random() < 0.4:
            return rng.choice(WINDOWS)
        if rng.random() < 0.3:
            name = rng.choice(["lag", "lead", "nth_value"])
            return f"{name}({self._any(depth)}, {rng.choice([0, 1, -1, 2**40])})"
        return self._aggregate(depth)

    def _aggregate(self, depth: int) -> str:
        rng = self._rng
        name = rng.choice(AGGREGATES)
        argument = self._value(rng.choice([*NUMBERS, "varchar", "boolean"]), max(0, depth - 1))
        distinct = "DISTINCT " if rng.random() < 0.2 else ""
        second = ", ','" if name == "string_agg" else ""
        order = f" ORDER BY {self._any(0)}" if rng.random() < 0.1 else ""
        filter_ = f" FILTER (WHERE {self._condition(0)})" if rng.random() < 0.15 else ""
        return f"{name}({distinct}{argument}{second}{order}){filter_}"

    def _condition(self, depth: int) -> str:
        return self._value("boolean", depth)

    def _any(self, depth: int) -> str:
        return self._value(self._rng.choice(list(COLUMNS.values())), depth)

    def _value(self, type_: str, depth: int) -> str:
        """Return an expression of a type, nearly always."""
        rng = self._rng
        if rng.random() < 0.01:
            type_ = rng.choice(list(COLUMNS.values()))
        if depth <= 0 or rng.random() < 0.35:
            return self._atom(type_)
        inner = depth - 1
        chosen = rng.random()
        if chosen < 0.08:
            return self._call(rng.choice(self._functions), inner)
        if chosen < 0.2:
            return f"{rng.choice(['CAST', 'TRY_CAST'])}({self._any(inner)} AS {type_})"
        if chosen < 0.42:
            other = f" ELSE {self._value(type_, inner)}" if rng.random() < 0.7 else ""
            return f"CASE WHEN {self._condition(inner)} THEN {self._value(type_, inner)}{other} END"
        if chosen < 0.47:
            return f"coalesce({self._value(type_, inner)}, {self._value(type_, inner)})"
        if chosen < 0.53:
            return f"({self._scalar(type_, inner)})"
        return self._own(type_, inner)

    def _scalar(self, type_: str, depth: int) -> str:
        before = len(self._scope)
        relation = self._relation(depth)
        where = f" WHERE {self._condition(depth)}" if self._rng.random() < 0.5 else ""
        value = self._value(type_, 0)
        del self._scope[before:]
        function = self._rng.choice(["max", "min", "any_value", ""])
        return f"SELECT {function}({value}) FROM {relation}{where} LIMIT 1"

    def _own(self, type_: str, depth: int) -> str:
        """Return an operator or a form that gives this type."""
        rng = self._rng
        value = self._value
        if type_ == "boolean":
            return self._truth(depth)
        if type_ in NUMBERS:
            other = type_ if rng.random() < 0.7 else rng.choice(NUMBERS)
            part = f"extract({rng.choice(PARTS)} FROM {value(rng.choice(TIMES), depth)})"
            arithmetic = f"({value(type_, depth)} {rng.choice(ARITHMETIC)} {value(other, depth)})"
            return rng.choice([arithmetic, arithmetic, f"(- {value(type_, depth)})", part])
        if type_ == "varchar":
            return rng.choice(
                [
                    f"({value('varchar', depth)} || {self._any(depth)})",
                    f"({value('json', depth)} ->> {value('varchar', 0)})",
                    f"substring({value('varchar', depth)} FROM {value('integer', 0)})",
                    f"({value('struct(a integer, b varchar)', depth)})['b']",
                    f"({self._any(depth)})::varchar",
                ]
            )
        if type_ in TIMES:
            other = rng.choice([*TIMES, "integer"])
            return f"({value(type_, depth)} {rng.choice(['+', '-', '*'])} {value(other, depth)})"
        if type_.endswith("]"):
            element = type_.partition("[")[0]
            return rng.choice(
                [
                    f"[{value(element, depth)}, {value(element, depth)}]",
                    f"({value(type_, depth)})[{value('integer', 0)}:{value('integer', 0)}]",
                    f"ARRAY({self._scalar(element, depth)})",
                    f"({value(type_, depth)} || {value(type_, depth)})",
                ]
            )
        if type_ == "json":
            return f"({value('json', depth)} -> {rng.choice([value('varchar', 0), value('integer', 0)])})"
        return f"({self._any(depth)} {rng.choice(OTHERS)} {self._any(depth)})"

    def _truth(self, depth: int) -> str:
        rng = self._rng
        value = self._value
        type_ = rng.choice(list(COLUMNS.values()))
        return rng.choice(
            [
                lambda: f"({value(type_, depth)} {rng.choice(COMPARISONS)} {value(type_, depth)})",
                lambda: f"({value(type_, depth)} {rng.choice(COMPARISONS)} {value(type_, depth)})",
                lambda: f"({self._condition(depth)} {rng.choice(['AND', 'OR'])} {self._condition(depth)})",
                lambda: f"(NOT {self._condition(depth)})",
                lambda: f"({value('varchar', depth)} {rng.choice(TEXTUAL)} {value('varchar', depth)})",
                lambda: f"({value(type_, depth)} IS {rng.choice(['', 'NOT '])}NULL)",
                lambda: f"({value(type_, depth)} BETWEEN {value(type_, 0)} AND {value(type_, depth)})",
                lambda: f"({value(type_, depth)} IN ({value(type_, 0)}, {value(type_, 0)}))",
                lambda: f"({value(type_, depth)} IN ({self._scalar(type_, depth)}))",
                lambda: f"EXISTS ({self._scalar(type_, depth)})",
                lambda: (
                    f"({value(type_, depth)} {rng.choice(COMPARISONS[:6])} "
                    f"{rng.choice(['ANY', 'ALL'])} ({self._scalar(type_, depth)}))"
                ),
                lambda: f"({value(type_, depth)} {rng.choice(OTHERS)} {self._any(depth)})",
            ]
        )()

    def _call(self, name: str, depth: int) -> str:
        rng = self._rng
        count = rng.choices([0, 1, 2, 3, 4, 7], [8, 35, 30, 17, 8, 2])[0]
        arguments = ", ".join(self._any(depth) for _ in range(count))
        return f'"{name}"({arguments})'

    def _atom(self, type_: str) -> str:
        rng = self._rng
        if rng.random() < 0.05:
            return "NULL"
        if self._scope and rng.random() < 0.6:
            name = rng.choice([name for name, found in COLUMNS.items() if found == type_])
            return f"{rng.choice(self._scope)}.{name}"
        return rng.choice(LITERALS[type_])

    def _alias(self) -> str:
        self._aliases += 1
        return f"q{self._aliases}"
