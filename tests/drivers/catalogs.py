"""Compares pg_catalog and information_schema with PostgreSQL's: all columns, and every type.

PG_REFERENCE is the address of a PostgreSQL 15.
"""

import os

import psycopg
from check import DATABASE, HOST, PORT, USER, done, same

# The columns behind those of the standard.
ADDED = {
    "tables": ["table_comment"],
    "columns": ["column_type", "column_comment"],
    "views": ["definition"],
    "routines": ["function_type", "description", "syntax_example"],
    "parameters": ["is_variadic", "rid"],
}

# PostgreSQL's statistics have types of their own, which are texts here; they are empty.
COLUMNS = """
    SELECT n.nspname || '.' || c.relname AS relation, a.attname,
           CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, NULL)
                WHEN t.typname IN ('pg_ndistinct', 'pg_dependencies', 'pg_mcv_list', '_pg_statistic')
                THEN 'text'
                ELSE format_type(t.oid, NULL) END AS type
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
    WHERE n.nspname IN ('pg_catalog', 'information_schema') AND c.relkind IN ('r', 'v') AND a.attnum > 0
      AND substr(c.relname, 1, 4) <> '_pg_'
    ORDER BY n.nspname, c.relname, a.attnum"""

# The columns by which a client may read a type; owners and access lists are the database's own.
TYPES = """
    SELECT oid, typname, typlen, typbyval, typtype, typcategory, typispreferred, typisdefined, typdelim,
           typrelid, typsubscript::text, typelem, typarray, typinput::text, typoutput::text, typreceive::text,
           typsend::text, typmodin::text, typmodout::text, typanalyze::text, typalign, typstorage, typnotnull,
           typbasetype, typtypmod, typndims, typcollation, format_type(oid, NULL)
    FROM pg_type WHERE oid < 10000 ORDER BY oid"""

reference = psycopg.connect(os.environ["PG_REFERENCE"], autocommit=True)
server = psycopg.connect(host=HOST, port=PORT, user=USER, dbname=DATABASE, autocommit=True)


def relations(connection: psycopg.Connection) -> dict[str, list[tuple[str, str]]]:
    """Return the columns and types of each relation."""
    found: dict[str, list[tuple[str, str]]] = {}
    for relation, column, type_name in connection.execute(COLUMNS):
        found.setdefault(relation, []).append((column, type_name))
    return found


# Texts with a length are PostgreSQL's `yes_or_no`, whose length no client asks for.
expected, found = relations(reference), relations(server)
same("relations", sorted(found), sorted(expected))
for relation, columns in expected.items():
    own = found[relation]
    added = ADDED.get(relation.removeprefix("information_schema."), [])
    same(relation, own[: len(columns)], columns)
    same(f"added to {relation}", [name for name, _ in own[len(columns) :]], added)
    described = server.execute(f"SELECT * FROM {relation} LIMIT 0").description
    same(f"described {relation}", [column.name for column in described], [name for name, _ in own])

types = {row[0]: row for row in reference.execute(TYPES)}
count = 0
for row in server.execute(TYPES):
    same(f"type {row[1]}", row, types[row[0]])
    count += 1
version = reference.execute("SHOW server_version").fetchone()[0].split(" ")[0]
done("catalogs beside PostgreSQL", version, f"columns of {len(expected)} relations, {count} types")
