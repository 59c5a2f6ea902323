"""Small tables of random rows, with many NULLs and many equal values."""

import random

# A type for each column; all tables have `id`, which is the key of all but the narrow ones.
COLUMNS = {
    "id": "integer",
    "i": "integer",
    "j": "integer",
    "b": "bigint",
    "f": "double",
    "d": "decimal",
    "s": "varchar",
    "q": "varchar",
    "o": "boolean",
    "e": "date",
    "p": "timestamp",
    "z": "timestamptz",
    "n": "interval",
    "l": "integer[]",
}
# The columns by name, the rows at most, and how many of ten values are NULL.
TABLES = {
    "t": (list(COLUMNS), 12, 2),
    "u": (list(COLUMNS), 8, 3),
    "nothing": (list(COLUMNS), 0, 0),
    "filled": (list(COLUMNS), 6, 0),
    "x": (["i", "s", "j"], 6, 2),
    "y": (["j", "i", "f"], 6, 3),
    "w": (["d", "s", "i"], 5, 2),
}
STRUCTS = ("r", 7, 2)
KEYED = ["t", "u", "nothing", "filled"]
NARROW = ["x", "y", "w"]
SQL_TYPES = {"double": "double precision", "decimal": "decimal(12, 3)"}

VALUES = {
    "integer": ["0", "1", "2", "3", "4", "5", "-1", "-2"],
    "bigint": ["0", "1", "3", "-7", "1099511627776", "-1099511627777"],
    "double": ["0", "1", "2.5", "-0.75", "3", "1024.125", "1e15"],
    "decimal": ["0", "1", "1.500", "-2.125", "3.333", "10.010"],
    "varchar": ["", "a", "b", "ab", "abc", "B", "a_c", "50%", "ä", "日本", " a ", "10"],
    "boolean": ["true", "false"],
    "date": ["2020-01-01", "2020-02-29", "1999-12-31", "2021-03-28", "1969-07-20"],
    "timestamp": [
        "2020-01-01 00:00:00",
        "2020-02-29 12:30:15.25",
        "2021-03-28 02:30:00",
        "2021-10-31 02:30:00",
        "1969-12-31 23:59:59.999999",
    ],
    "timestamptz": [
        "2020-01-01 00:00:00+00",
        "2021-03-28 01:00:00+00",
        "2021-10-31 00:30:00+00",
        "2021-10-31 01:30:00+00",
        "1999-12-31 22:15:00+00",
    ],
    "interval": ["1 day", "24 hours", "1 month", "30 days", "-1 year 2 days", "90 minutes", "0 days"],
}


def sql_type(type_: str) -> str:
    """Return the name of a type that all dialects know."""
    return SQL_TYPES.get(type_, type_)


def _value(rng: random.Random, type_: str) -> str:
    if type_ == "integer[]":
        elements = [rng.choice(["1", "2", "3", "null"]) for _ in range(rng.randrange(4))]
        return f"cast(array[{', '.join(elements)}] as integer[])"
    return f"cast('{rng.choice(VALUES[type_])}' as {sql_type(type_)})"


def definitions(rng: random.Random) -> list[str]:
    """Return statements that create the tables, in any dialect."""
    texts = []
    for name, (columns, most, nulls) in TABLES.items():
        described = ", ".join(
            f"{column} {sql_type(COLUMNS[column])}{' primary key' if column == 'id' else ''}"
            for column in columns
        )
        texts.append(f"create table {name} ({described})")
        rows = []
        for key in range(rng.randint(most // 2, most)):
            values = [
                str(key)
                if column == "id"
                else "null"
                if rng.randrange(10) < nulls
                else _value(rng, COLUMNS[column])
                for column in columns
            ]
            rows.append(f"({', '.join(values)})")
        if rows:
            texts.append(f"insert into {name} values {', '.join(rows)}")
    return texts


def structs(rng: random.Random) -> list[str]:
    """Return a table of structs and lists of them, which PostgreSQL lacks."""
    name, most, nulls = STRUCTS

    def some(value: str) -> str:
        return "null" if rng.randrange(10) < nulls else value

    def struct() -> str:
        return some(f"{{'a': {some(str(rng.randrange(3)))}, 'b': {some(rng.choice(['$x$', '$y$']))}}}")

    rows = []
    for key in range(most):
        lists = ", ".join(struct() for _ in range(rng.randrange(3)))
        texts = ", ".join(some(f"'{rng.choice('abc')}'") for _ in range(rng.randrange(4)))
        rows.append(f"({key}, {struct()}, {some(f'[{lists}]')}, {some(f'[{texts}]')})")
    text = ", ".join(rows).replace("$", "'")
    return [
        f"create table {name} (id integer primary key, c struct(a integer, b varchar), "
        "g struct(a integer, b varchar)[], m varchar[])",
        f"insert into {name} values {text}",
    ]
