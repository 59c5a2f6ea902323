"""pgcli: the queries for its completions, and its special commands."""

import pgcli
from check import DATABASE, HOST, PORT, USER, done, same
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial

executor = PGExecute(database=DATABASE, user=USER, password="", host=HOST, port=str(PORT), dsn=None)


def run(sql: str) -> list:
    """Return the rows of the last result; raise its error."""
    rows = []
    for _, found, _, _, _, is_ok, _ in executor.run(sql, PGSpecial()):
        same(sql, is_ok, True)
        rows = list(found) if found else rows
    return rows


run("CREATE TABLE pgcli_parent (id INTEGER PRIMARY KEY, name VARCHAR)")
run("CREATE TABLE pgcli_child (id INTEGER, parent INTEGER REFERENCES pgcli_parent)")
run("INSERT INTO pgcli_parent VALUES (1, 'a')")
same("rows", run("SELECT * FROM pgcli_parent"), [(1, "a")])
same("schemata", "main" in executor.schemata(), True)
same("search path", "main" in executor.search_path(), True)
same("tables", {"pgcli_parent", "pgcli_child"} <= {name for _, name in executor.tables()}, True)
columns = [column for column in executor.table_columns() if column[1] == "pgcli_parent"]
same("columns", [column[2] for column in columns], ["id", "name"])
keys = [tuple(key) for key in executor.foreignkeys()]
same("foreign keys", [key for key in keys if "pgcli_child" in key] != [], True)
for ask in (
    executor.views,
    executor.view_columns,
    executor.databases,
    executor.functions,
    executor.datatypes,
):
    list(ask())
for command in (
    "\\d",
    "\\d pgcli_child",
    "\\dt",
    "\\dt+",
    "\\dn",
    "\\dv",
    "\\di",
    "\\ds",
    "\\df",
    "\\du",
    "\\l",
    "\\dT",
):
    run(command)
run("DROP TABLE pgcli_child")
run("DROP TABLE pgcli_parent")
done(
    "pgcli",
    pgcli.__version__,
    "queries, completions (tables, columns, keys, functions, types), special commands",
)
