"""Constructs of SQL, repeated so often that they may hurt: nested, in rows, as lists, and by a
number.

Kinds of nesting are also mixed with each other, so that a counter which one of them resets is
found.
"""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

# The repetitions and bytes of a statement; a longer text is cut at whole repetitions.
TIMES_MAX = 1_000_000
TEXT_BYTES_MAX = 2 << 20

# Texts around an expression.
EXPRESSIONS = [
    ("(", ")"),
    ("((1), ", ")"),
    ("-", ""),
    ("- ", ""),
    ("+", ""),
    ("~", ""),
    ("@", ""),
    ("NOT ", ""),
    ("!", ""),
    ("CAST(", " AS INT)"),
    ("TRY_CAST(", " AS INT)"),
    ("CONVERT(", ", INT)"),
    ("ARRAY[", "]"),
    ("[", "]"),
    ("ROW(", ")"),
    ("STRUCT(", ")"),
    ("{'a': ", "}"),
    ("MAP {'a': ", "}"),
    ("MAP([1], [", "])"),
    ("CASE WHEN true THEN ", " END"),
    ("CASE ", " WHEN 1 THEN 1 END"),
    ("CASE WHEN ", " THEN 1 END"),
    ("CASE WHEN 1 = 1 THEN 1 ELSE ", " END"),
    ("coalesce(", ", 1)"),
    ("coalesce(1, ", ")"),
    ("nullif(", ", 1)"),
    ("greatest(1, ", ")"),
    ("abs(", ")"),
    ("upper(", ")"),
    ("round(", ", 1)"),
    ("EXTRACT(year FROM ", ")"),
    ("POSITION('a' IN ", ")"),
    ("POSITION(", " IN 'a')"),
    ("SUBSTRING(", " FROM 1)"),
    ("SUBSTRING('abc' FROM ", ")"),
    ("TRIM(", ")"),
    ("TRIM(BOTH 'a' FROM ", ")"),
    ("OVERLAY(", " PLACING 'a' FROM 1)"),
    ("CEIL(", ")"),
    ("FLOOR(", " TO DAY)"),
    ("INTERVAL ", ""),
    ("DATE ", ""),
    ("TIMESTAMP ", ""),
    ("PRIOR ", ""),
    ("EXISTS (SELECT ", ")"),
    ("NOT EXISTS (SELECT ", ")"),
    ("(SELECT ", ")"),
    ("ARRAY(SELECT ", ")"),
    ("1 IN (SELECT ", ")"),
    ("1 IN (", ")"),
    ("1 = ANY (SELECT ", ")"),
    ("1 = ALL (ARRAY[", "])"),
    ("1 + ", ""),
    ("2 ^ ", ""),
    ("true AND NOT ", ""),
    ("1 BETWEEN 0 AND ", ""),
    ("'a' LIKE ", ""),
    ("x -> ", ""),
    ("list_transform([1], x -> ", ")"),
    ("sum(", ")"),
    ("sum(", ") OVER ()"),
    ("row_number() OVER (ORDER BY ", ")"),
    ("sum(1) FILTER (WHERE ", ")"),
    ("GROUPING(", ")"),
    ("", "::INT"),
    ("", "::VARCHAR"),
    ("", " IS NULL"),
    ("", " IS NOT TRUE"),
    ("", " IS DISTINCT FROM 1"),
    ("", " ISNULL"),
    ("", "!"),
    ("", ' COLLATE "C"'),
    ("", " AT TIME ZONE 'UTC'"),
    ("", "[1]"),
    ("", "[1:2]"),
    ("", ".a"),
    ("", " BETWEEN 1 AND 2"),
    ("", " IN (1)"),
    ("", " LIKE 'a' ESCAPE 'b'"),
    ("", " OVERLAPS (1, 2)"),
]

# Texts between two operands.
OPERATORS = [
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "|",
    "&",
    "#",
    "<<",
    ">>",
    "^",
    "**",
    "=",
    "<>",
    "!=",
    "<",
    ">",
    "<=",
    ">=",
    "==",
    "<=>",
    "~",
    "~*",
    "!~",
    "!~*",
    "~~",
    "~~*",
    "!~~",
    "->",
    "->>",
    "#>",
    "#>>",
    "@>",
    "<@",
    "?",
    "?|",
    "?&",
    "@@",
    "@?",
    "&&",
    "-|-",
    "^@",
    "<->",
    "=>",
    ":=",
    "::",
    "..",
    "//",
    "AND",
    "OR",
    "XOR",
    "DIV",
    "MOD",
    "LIKE",
    "ILIKE",
    "REGEXP",
    "RLIKE",
    "GLOB",
    "COLLATE",
    "OVERLAPS",
    "IS",
    "IN",
    "NOT LIKE",
    "SIMILAR TO",
    "NOT SIMILAR TO",
    "NOT REGEXP",
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "AT TIME ZONE",
    "MEMBER OF",
    "OPERATOR(pg_catalog.+)",
    "OPERATOR(+)",
    "BETWEEN 1 AND",
    "= ANY",
    "NOT IN",
]
OPERANDS = [
    "1",
    "'a'",
    "'{}'",
    "NULL",
    "true",
    "[1]",
    "i",
    "(1)",
    "1.5",
    "DATE '2024-01-01'",
    "INTERVAL '1 day'",
]

# Texts around a type.
TYPES = [
    ("STRUCT(a ", ")"),
    ("STRUCT<a ", ">"),
    ("STRUCT<a: ", ">"),
    ("ROW(a ", ")"),
    ("ARRAY<", ">"),
    ("Array(", ")"),
    ("LIST(", ")"),
    ("MAP(INT, ", ")"),
    ("MAP<INT, ", ">"),
    ("UNION(a ", ")"),
    ("Nullable(", ")"),
    ("LowCardinality(", ")"),
    ("Tuple(", ")"),
    ("Nested(a ", ")"),
    ("SETOF ", ""),
    ("", "[]"),
    ("", "[3]"),
    ("", " ARRAY"),
]

# Texts around a query, and around a statement.
QUERIES = [
    ("(", ")"),
    ("SELECT * FROM (", ") AS q"),
    ("SELECT * FROM (", ")"),
    ("SELECT (", ") AS i"),
    ("SELECT 1 AS i WHERE EXISTS (", ")"),
    ("SELECT 1 AS i WHERE 1 IN (", ")"),
    ("SELECT * FROM few, LATERAL (", ") AS q"),
    ("WITH q AS (", ") SELECT * FROM q"),
    ("WITH q AS MATERIALIZED (", ") SELECT * FROM q"),
    ("WITH RECURSIVE q AS (", ") SELECT * FROM q"),
    ("WITH q AS (SELECT 1) ", ""),
    ("SELECT 1 AS i UNION ALL (", ")"),
    ("SELECT 1 AS i UNION ", ""),
    ("SELECT 1 AS i EXCEPT (", ")"),
    ("(", ") LIMIT 1"),
    ("(", ") ORDER BY 1"),
    ("FROM (", ")"),
]
STATEMENTS = [
    ("EXPLAIN ", ""),
    ("EXPLAIN ANALYZE ", ""),
    ("EXPLAIN VERBOSE ", ""),
    ("EXPLAIN (FORMAT JSON) ", ""),
    ("DESCRIBE ", ""),
    ("SUMMARIZE ", ""),
    ("PREPARE p AS ", ""),
    ("CREATE VIEW v AS ", ""),
    ("CREATE TABLE t AS ", ""),
    ("COPY (", ") TO STDOUT"),
    ("DECLARE c CURSOR FOR ", ""),
    ("BEGIN; ", ""),
    ("", ";"),
    (";", ""),
    ("/*", "*/"),
    ("-- a\n", ""),
]

# Texts that may be repeated after the start of a query: `{}` is the number of the repetition.
ROWS = [
    ("SELECT 1", ", 1"),
    ("SELECT 1", " AS a{}, 1"),
    ("SELECT *", ", *"),
    ("SELECT 1 FROM few", ", few AS f{}"),
    ("SELECT count(*) FROM few", ", few AS f{}"),
    ("SELECT count(*) FROM few", " JOIN few AS f{} USING (i)"),
    ("SELECT count(*) FROM few", " NATURAL JOIN few AS f{}"),
    ("SELECT count(*) FROM few", " LEFT JOIN few AS f{} ON f{}.i = few.i"),
    ("SELECT count(*) FROM few", " FULL JOIN few AS f{} ON f{}.i < few.i"),
    ("SELECT 1 FROM few", " CROSS JOIN (VALUES (1)) AS f{}"),
    ("SELECT 1 FROM few", ", LATERAL (SELECT few.i) AS f{}"),
    ("SELECT 1 FROM few", ", unnest([1, 2]) AS f{}"),
    ("SELECT count(*) FROM range(10) AS r", ", range(10) AS f{}"),
    ("SELECT * FROM few", " UNPIVOT (v FOR n IN (i))"),
    ("SELECT * FROM few", " PIVOT (sum(i) FOR t IN ('a'))"),
    ("SELECT * FROM few", " TABLESAMPLE (1)"),
    ("SELECT * FROM few", " MATCH_RECOGNIZE (PATTERN (a) DEFINE a AS true)"),
    ("SELECT * FROM few", " AS f{}"),
    ("SELECT 1 FROM few WHERE true", " AND i = {}"),
    ("SELECT 1 FROM few WHERE false", " OR i = {} AND t = 'a'"),
    ("SELECT 1 FROM few WHERE true", " AND i IN (SELECT i FROM few)"),
    ("SELECT 1 FROM few WHERE true", " AND EXISTS (SELECT 1 FROM few AS f WHERE f.i = few.i)"),
    ("SELECT 1 FROM few WHERE i IN (0", ", {}"),
    ("SELECT 1 FROM few WHERE t IN ('a'", ", 'a{}'"),
    ("SELECT 1 FROM few GROUP BY 1", ", i + {}"),
    ("SELECT 1 FROM few GROUP BY GROUPING SETS ((i)", ", (i, t)"),
    ("SELECT 1 FROM few GROUP BY i", ", CUBE (i, t)"),
    ("SELECT 1 FROM few GROUP BY i", ", ROLLUP (i, t)"),
    ("SELECT 1 FROM few ORDER BY 1", ", i + {}"),
    ("SELECT 1 FROM few", " ORDER BY 1"),
    ("SELECT 1", " UNION ALL SELECT {}"),
    ("SELECT 1", " UNION SELECT {}"),
    ("SELECT 1", " INTERSECT SELECT {}"),
    ("SELECT 1", " EXCEPT SELECT {}"),
    ("VALUES (1)", ", ({})"),
    ("VALUES (1)", ", ({}), (NULL), ('a')"),
    ("SELECT coalesce(NULL", ", {})"),
    ("SELECT 1 FROM few WINDOW w0 AS ()", ", w{} AS (ORDER BY i)"),
    ("WITH a AS (SELECT 1)", ", a{} AS (SELECT 1)"),
    ("SELECT a", ".a"),
    ("SELECT * FROM a", ".a"),
    ("SELECT 'a'", " 'a'"),
    ("SELECT 'a'", "\n'a'"),
    ("SELECT 1", ";SELECT 1"),
    ("SELECT ", "("),
    ("SELECT ", ")"),
    ("SELECT ", "["),
    ("SELECT ", "{"),
    ("SELECT 1 ", "/*"),
    ("SELECT CASE", " WHEN i = {} THEN 1"),
    ("SELECT", " DISTINCT"),
    ("SELECT ", "$$"),
    ("SELECT ", "'"),
    ("SELECT ", '"'),
    ("SELECT 1 FROM few QUALIFY true", " AND row_number() OVER (ORDER BY i) > {}"),
]

# Lists of many items: the text before, an item, the text between items, the text behind.
LISTS = [
    ("SELECT ", "i", ", ", " FROM few"),
    ("SELECT ", "i AS a{}", ", ", " FROM few"),
    ("SELECT ", "sum(i + {})", ", ", " FROM few"),
    ("SELECT ", "sum(i) OVER (ORDER BY i + {})", ", ", " FROM few"),
    ("SELECT ", "count(DISTINCT i + {})", ", ", " FROM few"),
    ("SELECT coalesce(", "NULL", ", ", ")"),
    ("SELECT concat(", "'a'", ", ", ")"),
    ("SELECT greatest(", "{}", ", ", ")"),
    ("SELECT [", "{}", ", ", "]"),
    ("SELECT {{", "'a{}': {}", ", ", "}}"),
    ("SELECT MAP {{", "'a{}': {}", ", ", "}}"),
    ("SELECT struct(", "{}", ", ", ")"),
    ("SELECT (", "{}", ", ", ") = (1, 2)"),
    ("SELECT CASE i ", "WHEN {} THEN {}", " ", " END FROM few"),
    ("VALUES (", "{}", ", ", ")"),
    ("VALUES ", "({}, 'a')", ", ", ""),
    ("SELECT 1 IN (", "{}", ", ", ")"),
    ("SELECT count(*) FROM few GROUP BY CUBE (", "i + {}", ", ", ")"),
    ("SELECT count(*) FROM few GROUP BY ROLLUP (", "i + {}", ", ", ")"),
    ("SELECT count(*) FROM few GROUP BY GROUPING SETS (", "(i + {})", ", ", ")"),
    ("SELECT ", "'{{}}'", " -> ", ""),
    ("SELECT ", "i", " = ", " FROM few"),
    ("SELECT CAST(NULL AS STRUCT(", "a{} INT", ", ", "))"),
    ("SELECT no_such_function(", "1", ", ", ")"),
    ("SELECT * EXCLUDE (", "a{}", ", ", ") FROM few"),
    ("SELECT * REPLACE (", "i + {} AS i", ", ", ") FROM few"),
    ("SELECT 1 AS i ORDER BY ", "i NULLS FIRST", ", ", ""),
    ("", "SELECT {}", "; ", ""),
    ("", "SELECT {}", " UNION ALL ", ""),
    ("", "(SELECT {})", " INTERSECT ", ""),
    ("WITH ", "a{} AS (SELECT {})", ", ", " SELECT 1"),
]


def _doubling(times: int) -> str:
    """Return a query in which each step names the one before twice, which is exponential if it is
    expanded.
    """
    steps = ["a0 AS (SELECT 1 AS x)"]
    steps += [f"a{n} AS (SELECT l.x + r.x AS x FROM a{n - 1} AS l, a{n - 1} AS r)" for n in range(1, times)]
    return f"WITH {', '.join(steps)} SELECT count(*) FROM a{times - 1}" if times > 0 else "SELECT 1"


def _columns_doubling(times: int) -> str:
    query = "SELECT 1 AS x"
    for _ in range(times):
        query = f"SELECT x + x AS x FROM ({query})"
    return query


# Their length is given by the number.
SIZED: list[tuple[str, Callable[[int], str]]] = [
    ("string", lambda n: f"SELECT '{'x' * n}'"),
    ("string of quotes", lambda n: f"SELECT '{chr(39) * 2 * n}'"),
    ("escapes", lambda n: "SELECT E'" + r"\n" * n + "'"),
    ("unicode escapes", lambda n: "SELECT U&'" + r"\0041" * n + "'"),
    ("dollar quotes", lambda n: f"SELECT ${'a' * n}$x${'a' * n}$"),
    ("unicode", lambda n: f"SELECT '{'é𝄞' * n}'"),
    ("hexadecimal", lambda n: f"SELECT X'{'ff' * n}'"),
    ("bits", lambda n: f"SELECT B'{'10' * n}'"),
    ("identifier", lambda n: f'SELECT "{"x" * n}"'),
    ("alias", lambda n: f'SELECT 1 AS "{"x" * n}"'),
    ("function's name", lambda n: f"SELECT {'f' * n}(1)"),
    ("digits", lambda n: f"SELECT {'9' * n}"),
    ("decimals", lambda n: f"SELECT 0.{'1' * n}"),
    ("exponent", lambda n: f"SELECT 1e{'9' * n}"),
    ("hexadecimal number", lambda n: f"SELECT 0x{'f' * n}"),
    ("blanks", lambda n: f"SELECT{' ' * n}1"),
    ("comment", lambda n: f"SELECT 1 -- {'x' * n}"),
    ("parameter", lambda n: f"SELECT ${'9' * min(n, 30)}"),
    ("like", lambda n: f"SELECT '{'a' * n}' LIKE '{'%a' * n}b'"),
    ("similar", lambda n: f"SELECT '{'a' * n}' SIMILAR TO '{'(a|b)*' * n}c'"),
    ("regular expression", lambda n: f"SELECT regexp_like('{'a' * min(n, 30)}', '{'(' * n}a{')*' * n}')"),
    ("json", lambda n: f"SELECT '{'[' * n}{']' * n}'::JSON"),
    ("json path", lambda n: f"SELECT '{'[' * n}{']' * n}' -> 0"),
    ("list from text", lambda n: f"SELECT '{'[' * n}{']' * n}'::INT[]"),
    ("time zone", lambda n: f"SELECT TIMESTAMP '2024-01-01' AT TIME ZONE '{'x' * n}'"),
    ("interval", lambda n: f"SELECT INTERVAL '{'1 day ' * n}'"),
    ("format", lambda n: f"SELECT to_char(now(), '{'%Y' * n}')"),
    ("doubling", lambda n: _doubling(min(n, 3000))),
    ("doubling columns", lambda n: _columns_doubling(min(n, 3000))),
    ("self join", lambda n: "SELECT count(*) FROM few" + " JOIN few AS f USING (i)" * min(n, 3000)),
]

# Much work from a short text: `{}` is a number.
AMPLIFIED = Path(__file__).with_name("amplified.sql").read_text().splitlines()[1:]
AMOUNTS = [0, -1, 10, 1000, 100_000, 10_000_000, 300_000_000, 1_000_000_000, 2**31, 2**62, 2**63 - 1]


@dataclass(frozen=True)
class Construct:
    """A construct of SQL that can be repeated.

    Attributes:
        name: its name in reports.
        text: a function that returns its statement, with so many repetitions.
        bytes_each: the bytes that one repetition adds.
    """

    name: str
    text: Callable[[int], str]
    bytes_each: int = 1

    def repeated(self, times: int) -> str:
        return self.text(max(1, min(times, TEXT_BYTES_MAX // max(1, self.bytes_each))))


def constructs() -> list[Construct]:
    """Return each construct by itself, and each that is given by a number."""
    found = [
        *(_nested("expression", around, "SELECT {} FROM few", "i") for around in EXPRESSIONS),
        *(_nested("condition", around, "SELECT 1 FROM few WHERE {}", "true") for around in EXPRESSIONS),
        *(_nested("type", around, "SELECT CAST(NULL AS {})", "INT") for around in TYPES),
        *(_nested("query", around, "{}", "SELECT 1 AS i") for around in QUERIES),
        *(_nested("statement", around, "{}", "SELECT 1") for around in STATEMENTS),
        *(
            _nested("joins", around, "SELECT 1 FROM {}", "few")
            for around in [("(", " JOIN few ON true)"), ("(", ")")]
        ),
    ]
    for number, operator in enumerate(OPERATORS):
        for operand in dict.fromkeys((OPERANDS[number % len(OPERANDS)], "1", "'a'")):
            found.append(_infix(operator, operand))
    found += [
        Construct(f"row: {start}{piece}", _row(start, piece), len(piece) + piece.count("{}") * 4)
        for start, piece in ROWS
    ]
    found += [
        Construct(f"list: {parts[0]}{parts[1]}", _list(*parts), len(parts[1] + parts[2]) + 6)
        for parts in LISTS
    ]
    found += [Construct(f"sized: {name}", text, 8) for name, text in SIZED]
    return found


def statements(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield names of constructs and statements of them without end: first single ones, then
    mixed.
    """
    alone = constructs()
    while True:
        rng.shuffle(alone)
        amplified = rng.sample(AMPLIFIED, len(AMPLIFIED))
        for number, construct in enumerate(alone):
            yield construct.name, construct.repeated(_times(rng))
            if number % 3 == 0:
                yield _mixed(rng)
            if number % 4 == 0:
                template = amplified[number // 4 % len(amplified)]
                yield template, _amplified(rng, template)


def _times(rng: random.Random) -> int:
    """Return a number of repetitions; all magnitudes are equally likely."""
    return round(math.exp(rng.uniform(0, math.log(TIMES_MAX))))


def _nested(kind: str, around: tuple[str, str], frame: str, core: str) -> Construct:
    before, after = around
    head, tail = frame.split("{}")
    return Construct(
        f"{kind}: {before}…{after}",
        lambda times: f"{head}{before * times}{core}{after * times}{tail}",
        len(before + after),
    )


def _infix(operator: str, operand: str) -> Construct:
    piece = f" {operator} {operand}"
    return Construct(
        f"operator: {operand}{piece}", lambda times: f"SELECT {operand}{piece * times} FROM few", len(piece)
    )


def _row(start: str, piece: str) -> Callable[[int], str]:
    return lambda times: start + "".join(piece.replace("{}", str(number)) for number in range(times))


def _list(start: str, item: str, between: str, end: str) -> Callable[[int], str]:
    start, end = start.replace("{{", "{").replace("}}", "}"), end.replace("{{", "{").replace("}}", "}")

    def text(times: int) -> str:
        items = (item.replace("{{}}", "\0").replace("{}", str(n)).replace("\0", "{}") for n in range(times))
        return start + between.join(items) + end

    return text


def _mixed(rng: random.Random) -> tuple[str, str]:
    """Return several kinds of nesting in turns, so that none of them is deep alone."""
    kind, frame, core, arounds = rng.choice(
        [
            ("expressions", "SELECT {} FROM few", "i", EXPRESSIONS),
            ("types", "SELECT CAST(NULL AS {})", "INT", TYPES),
            ("queries", "{}", "SELECT 1 AS i", QUERIES),
            ("statements", "{}", "SELECT 1 AS i", STATEMENTS + QUERIES),
        ]
    )
    chosen = rng.choices(arounds, k=rng.randrange(2, 6))
    each = sum(len(before + after) for before, after in chosen)
    times = max(1, min(_times(rng), TEXT_BYTES_MAX // each))
    before = "".join(before for before, _ in chosen)
    after = "".join(after for _, after in reversed(chosen))
    head, tail = frame.split("{}")
    return f"mixed {kind}: {before}…{after}", f"{head}{before * times}{core}{after * times}{tail}"


def _amplified(rng: random.Random, template: str) -> str:
    amount, numbers = rng.choice(AMOUNTS), []
    for _ in range(template.replace("{{{}}}", "{}").count("{}")):
        numbers.append(amount if rng.random() < 0.8 else rng.choice(AMOUNTS))
    return template.format(*numbers)
