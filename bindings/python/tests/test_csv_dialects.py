"""Random CSV files in the dialects of Python's own writer are read back as they were written.

The content of a file is known, so a lost row, or two rows that become one, are noticed. Files whose
quotes are text are written by hand, and DuckDB reads them too.
"""

from __future__ import annotations

import csv
import datetime
import io
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import hypostyle
import pytest
from campaigns import fixed_seeds

Rows = list[list[str]]

# All characters with a meaning in a file, and some letters.
ALPHABET = 'ab ""\',;|\t\n\r\\é7'


def text(chance: random.Random, alphabet: str) -> str:
    return "".join(chance.choice(alphabet) for _ in range(chance.choice((0, 1, 1, 2, 3, 8))))


def tables(count: int, alphabet: str = ALPHABET) -> Iterator[tuple[random.Random, list[str], Rows]]:
    """Yield so many random tables for each seed, with a random generator."""
    for seed in fixed_seeds():
        chance = random.Random(seed)
        for _ in range(count):
            yield chance, *table(chance, alphabet)


def table(chance: random.Random, alphabet: str) -> tuple[list[str], Rows]:
    columns = chance.randint(1, 5)
    names = [f"column_{index}" for index in range(columns)]
    rows = [[text(chance, alphabet) for _ in range(columns)] for _ in range(chance.choice((1, 3, 50, 400)))]
    return names, rows


def read(path: Path, options: str = "") -> Rows:
    """Return all values as text; NULL, which an empty value is, is the empty text."""
    with hypostyle.connect() as con:
        sql = f"select * from read_csv('{path}', all_varchar => true, header => true{options})"
        return [[value or "" for value in row] for row in con.sql(sql).fetchall()]


DIALECTS = [
    {},
    {"delimiter": ";"},
    {"delimiter": "\t", "lineterminator": "\n"},
    {"delimiter": "|", "quoting": csv.QUOTE_ALL},
    {"quoting": csv.QUOTE_NONNUMERIC, "lineterminator": "\n"},
    {"quotechar": "'", "quoting": csv.QUOTE_ALL},
    {"doublequote": False, "escapechar": "\\", "quoting": csv.QUOTE_ALL},
]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
def test_what_python_writes_reads_back(tmp_path: Path, dialect: dict[str, object]) -> None:
    path = tmp_path / "file.csv"
    # Python itself does not quote a carriage return that is not part of its line end.
    alphabet = ALPHABET.replace("\r", "") if dialect.get("lineterminator") == "\n" else ALPHABET
    for _, names, rows in tables(8, alphabet):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, **dialect)
            writer.writerow(names)
            writer.writerows(rows)
        quote, escape = dialect.get("quotechar", '"'), dialect.get("escapechar")
        delimiter = dialect.get("delimiter", ",")
        options = f", delim => '{delimiter}', quote => '{str(quote).replace(chr(39), chr(39) * 2)}'"
        options += f", escape => '{escape}'" if escape else ""
        assert read(path, options) == rows


def test_delimiters_and_quotes_are_detected(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    delimiters = ",;\t|"
    plain = "".join(character for character in ALPHABET if character not in delimiters)
    for chance, names, rows in tables(20, plain + "D"):
        delimiter = chance.choice(delimiters)
        rows = [[value.replace("D", delimiter) for value in row] for row in rows]
        quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter, quoting=quoting).writerows([names, *rows])
        assert read(path) == rows


def test_quotes_that_are_text_lose_no_rows(tmp_path: Path) -> None:
    """Values have no delimiter and no line end, as written by a program that does not know
    quotes.
    """
    path = tmp_path / "file.tsv"
    differing = 0
    for chance, names, rows in tables(60, 'abc ""xyz'):
        # An empty line is no record, so a lone column has no empty values.
        rows = [row if len(row) > 1 or row[0] else ["x"] for row in rows]
        delimiter = chance.choice(",\t;")
        lines = [delimiter.join(row) + "\n" for row in [names, *rows]]
        path.write_text("".join(lines))
        options = f", delim => '{delimiter}'"
        strict = io.StringIO("".join(lines))
        try:
            quoted: Rows | None = list(csv.reader(strict, delimiter=delimiter, strict=True))[1:]
        except csv.Error:
            quoted = None
        if quoted is not None and any(len(row) != len(names) for row in quoted):
            quoted = None
        got = read(path, options)
        # Where the quotes could be quotes, they are.
        assert got == (rows if quoted is None else quoted)
        differing += quoted is None
        assert read(path, f"{options}, quote => ''") == rows
    assert differing > 0


def test_duckdb_reads_a_file_of_bare_quotes_alike(tmp_path: Path) -> None:
    path = tmp_path / "file.tsv"
    lines = ["id\ttitle"]
    for index in range(4000):
        title = {3: '"Open', 500: 'say "hi" to', 501: '"quoted" title', 777: '"', 3999: '"end'}.get(
            index, "plain"
        )
        lines.append(f"{index}\t{title}")
    path.write_text("\n".join(lines) + "\n")
    with hypostyle.connect() as con:
        ours = con.sql(f"select * from read_csv('{path}')").fetchall()
    assert ours == duckdb.sql(f"select * from read_csv('{path}', quote = '')").fetchall()
    assert len(ours) == 4000


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        # The header is quoted, so quotes are quotes in this file.
        (['"a","b"', '"1","x"', '"2","y"z"', '"3","w"'], 3),
        # With quotes as text, records would have different numbers of values.
        (["a,b", '1,"x,y"', '2,"z"w', '3,"v"'], 3),
        (["a,b", '1,"x,y"', '2,"z', "3,w"], 3),
        # This is the header itself.
        (['a,"b', '1,2"x', "3,4,5"], 1),
    ],
)
def test_what_no_dialect_explains_is_an_error_with_its_line(
    tmp_path: Path, lines: list[str], line: int
) -> None:
    path = tmp_path / "file.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(hypostyle.Error, match=rf"line {line} |the header "):
        read(path)
    with hypostyle.connect() as con:
        con.execute("create table t (a varchar, b varchar)")
        with pytest.raises(hypostyle.Error, match=rf"line {line} |the header |columns"):
            con.execute(f"copy t from '{path}'")
        assert con.sql("select count(*) from t").fetchone() == (0,)


def test_bad_quotes_after_the_sample_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    rows = [f"{index},plain" for index in range(400_000)]
    rows[390_000] = '390000,"open'
    rows[390_010] = '390010,a "b"'
    path.write_text("\n".join(["id,title", *rows]) + "\n")
    with pytest.raises(hypostyle.Error, match="line 390002 has a quoted value that goes on"):
        read(path)
    with hypostyle.connect() as con:
        sql = f"select count(*) from read_csv('{path}', ignore_errors => true)"
        assert con.sql(sql).fetchone() == (400_000 - 11,)
        assert con.sql(f"select count(*) from read_csv('{path}', quote => '')").fetchone() == (400_000,)


def messy(chance: random.Random) -> str:
    """Return a file as programs and people write them, with dates in one of several forms."""
    delimiter = chance.choice(",;\t|")
    quote = chance.choice(("", '"', '"'))
    form = chance.choice(("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d"))
    all_kinds = ("integer", "number", "date", "time", "text", "truth")
    kinds = [chance.choice(all_kinds) for _ in range(chance.randint(2, 5))]
    # Days above the twelfth tell days from months.
    day = datetime.date(2024, 1, 13)

    def value(kind: str, row: int) -> str:
        if row > 0 and chance.random() < 0.1:
            return ""
        match kind:
            case "integer":
                return str(chance.choice((0, 7, -12, 123456789012)))
            case "number":
                return str(chance.choice((0.5, -12.25, 1e9)))
            case "date":
                return (day + datetime.timedelta(days=31 * row)).strftime(form) if row else day.strftime(form)
            case "time":
                return chance.choice(("10:11:12", "00:00:00", "23:59:59"))
            case "truth":
                return chance.choice(("true", "false"))
            case _:
                text = chance.choice(("Ann", "Bob Lee", "Zoë", "x-y"))
                return f"{quote}{text}{quote}"

    lines = [[f"{kind}_{index}" for index, kind in enumerate(kinds)]]
    lines += [[value(kind, row) for kind in kinds] for row in range(chance.choice((3, 20, 200)))]
    end = chance.choice(("\n", "\r\n"))
    return "".join(delimiter.join(line) + end for line in lines)


def test_messy_files_are_read_as_duckdb_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "messy.csv"
    for seed in fixed_seeds():
        chance = random.Random(seed)
        for _ in range(40):
            text = messy(chance)
            path.write_text(text, newline="", encoding="utf-8")
            with hypostyle.connect() as con:
                ours = con.sql(f"select * from read_csv('{path}')").fetchall()
            theirs = duckdb.sql(f"select * from read_csv('{path}')").fetchall()
            assert ours == theirs, (seed, text)
