"""arrow-odbc, isql and R's RODBC, each at its own work."""

import os
import shutil
import subprocess

import arrow_odbc
import duckdb
import pyarrow as pa
import pytest
from conftest import passes


@pytest.fixture
def source(tmp_path, file_database):
    """Write a data source; return its name and the environment in which it is found."""
    place = tmp_path / "odbc.ini"
    place.write_text(f"[shop]\nDriver=Hypostyle\nDatabase={file_database}\nThreads=2\n")
    return "shop", {**os.environ, "ODBCINI": str(place)}


def test_arrow_odbc(file_database):
    target = f"Driver=Hypostyle;Database={file_database}"
    table = duckdb.sql(
        "SELECT i::INTEGER AS id, i * 10000000000 AS large, i / 8 AS real, "
        "CASE WHEN i % 3 = 0 THEN NULL ELSE 'text ' || i END AS text, (i / 4)::DECIMAL(12, 2) AS money, "
        "DATE '2020-01-01' + (i % 1000)::INTEGER AS day FROM range(20000) AS t (i)"
    ).arrow()
    table = table if isinstance(table, pa.Table) else table.read_all()
    shape = "id INTEGER, large BIGINT, real DOUBLE, text VARCHAR, money DECIMAL(12, 2), day DATE"
    connection = arrow_odbc.connect(target)
    connection.read_arrow_batches(query=f"CREATE TABLE arrows ({shape})")
    connection.insert_into_table(reader=table.to_reader(3000), chunk_size=3000, table="arrows")
    reader = arrow_odbc.read_arrow_batches_from_odbc(
        query="SELECT * FROM arrows ORDER BY id", connection_string=target, batch_size=7000
    )
    found = pa.Table.from_batches(list(reader))
    assert found.num_rows == 20000
    assert found.cast(table.schema).equals(table)


def test_isql(source):
    name, environment = source
    statements = (
        "create table t (a integer, b varchar)\ninsert into t values (1, 'one'), (2, null)\n"
        "select * from t\nselect c from t\nhelp t\n"
    )
    done = subprocess.run(
        ["isql", "-b", "-v", "-d,", name],
        input=statements,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1,one\n2,\n" in done.stdout
    assert 'no column "c"' in done.stdout + done.stderr
    assert ",main,t,a,4,INTEGER," in done.stdout


R_PROGRAM = """
library(RODBC)
con <- odbcConnect("shop")
stopifnot(con >= 0)
sqlSave(con, data.frame(id = 1:500, x = (1:500) / 8, name = paste("row", 1:500)), "rows", rownames = FALSE)
found <- sqlQuery(con, "SELECT * FROM rows ORDER BY id", stringsAsFactors = FALSE)
stopifnot(identical(dim(found), c(500L, 3L)), all(found$id == 1:500), all(found$x == (1:500) / 8))
stopifnot(all(found$name == paste("row", 1:500)))
stopifnot("rows" %in% sqlTables(con, tableType = "TABLE")$TABLE_NAME)
stopifnot(identical(sqlColumns(con, "rows")$COLUMN_NAME, c("id", "x", "name")))
stopifnot(any(grepl("42S02", sqlQuery(con, "SELECT * FROM missing"))))
sqlQuery(con, "CREATE TABLE days (d DATE, t TIMESTAMP, n DECIMAL(9, 2))")
sqlQuery(con, "INSERT INTO days VALUES (DATE '2020-02-29', TIMESTAMP '2020-02-29 01:02:03', 1.25)")
sqlQuery(con, "INSERT INTO days VALUES (NULL, NULL, NULL)")
days <- sqlQuery(con, "SELECT * FROM days")
stopifnot(days$d[1] == as.Date("2020-02-29"), is.na(days$d[2]), days$n[1] == 1.25)
odbcSetAutoCommit(con, FALSE)
sqlQuery(con, "DELETE FROM rows")
odbcEndTran(con, FALSE)
stopifnot(sqlQuery(con, "SELECT count(*) AS n FROM rows")$n == 500)
odbcEndTran(con, TRUE)
odbcClose(con)
cat("all of it\\n")
"""


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="there is no R")
def test_rodbc(source, tmp_path):
    program = tmp_path / "rows.R"
    program.write_text(R_PROGRAM)
    assert passes(["Rscript", program], env=source[1]).endswith("all of it\n")
