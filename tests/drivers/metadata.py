"""Runs the statements of tools that are not installed here. Each statement of metadata/*.sql has
the columns that PostgreSQL gives it; those marked with `same` have PostgreSQL's rows, too.

A tool is the name of its file: `metadata.py metabase`. PG_REFERENCE is the address of a PostgreSQL.
"""

import os
import pathlib
import re
import sys

import psycopg
from check import DATABASE, HOST, PORT, USER, done

FOLDER = pathlib.Path(__file__).parent / "metadata"
TITLES = {
    "metabase": "Metabase",
    "powerbi": "Power BI",
    "grafana": "Grafana",
    "dbeaver": "DBeaver",
    "datagrip": "DataGrip",
}


def statements(path: pathlib.Path) -> list[tuple[str, str, bool]]:
    """Return the statements of a file with their setup, and whether their rows are PostgreSQL's."""
    found, name, is_same = [], "", False
    for part in re.split(r"(?<=;)\s*\n", path.read_text()):
        notes = re.findall(r"^-- (.*)$", part, re.MULTILINE)
        sql = re.sub(r"^--.*$", "", part, flags=re.MULTILINE).strip()
        if notes:
            name, is_same = notes[-1], notes[-1].endswith("; same")
        if sql:
            found.append((name.removesuffix("; same"), sql, is_same))
    return found


def run(connection: psycopg.Connection, sql: str) -> tuple[list[str], list[tuple]]:
    """Return the columns and rows of a statement."""
    cursor = connection.execute(sql)
    if cursor.description is None:
        return [], []
    return [column.name for column in cursor.description], cursor.fetchall()


def prepare(connection: psycopg.Connection, is_reference: bool) -> None:
    """Create the objects that the statements are about, if they are missing."""
    connection.autocommit = True
    if is_reference:
        connection.execute("CREATE SCHEMA IF NOT EXISTS main")
        connection.execute("SET search_path = main")
    connection.execute("SET TIME ZONE 'UTC'")
    known = connection.execute("SELECT count(*) FROM pg_class WHERE relname = 'meta_order'").fetchone()
    if known == (0,):
        for _, sql, _ in statements(FOLDER / "setup.sql"):
            connection.execute(sql)


tool = sys.argv[1]
server = psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE)
prepare(server, is_reference=False)
reference = psycopg.connect(os.environ["PG_REFERENCE"]) if os.environ.get("PG_REFERENCE") else None
if reference is not None:
    prepare(reference, is_reference=True)
failed = count = 0
for name, sql, is_same in statements(FOLDER / f"{tool}.sql"):
    count += 1
    expected = run(reference, sql) if reference is not None else None
    try:
        columns, rows = run(server, sql)
        if expected is not None and columns != expected[0]:
            raise AssertionError(f"columns {columns} in place of {expected[0]}")
        if expected is not None and is_same and rows != expected[1]:
            raise AssertionError(f"rows {rows} in place of {expected[1]}")
    except (psycopg.Error, AssertionError) as error:
        failed += 1
        print(f"{tool}: {name}: {error}\n{sql}\n", file=sys.stderr)
if failed:
    raise SystemExit(f"{tool}: {failed} of {count} statements failed")
beside = "beside PostgreSQL" if reference is not None else "without PostgreSQL to compare with"
done(TITLES.get(tool, "statements of others"), "-", f"{count} statements of its own, {beside}")
