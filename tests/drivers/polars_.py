"""Polars with PostgreSQL's ADBC driver, and with connectorx."""

import datetime
import importlib.metadata

import polars
from check import URL, done, same

frame = polars.DataFrame(
    {
        "id": [1, 2, 3],
        "name": ["a", None, "c"],
        "price": [0.5, 1.5, None],
        "day": [datetime.date(2024, 1, day) for day in (1, 2, 3)],
    }
)
same("written", frame.write_database("polars_rows", URL, engine="adbc", if_table_exists="replace"), 3)
same("appended", frame.write_database("polars_rows", URL, engine="adbc", if_table_exists="append"), 3)
for engine in ("adbc", "connectorx"):
    read = polars.read_database_uri("SELECT * FROM polars_rows ORDER BY id", URL, engine=engine)
    same(
        f"schema with {engine}",
        list(read.schema.values()),
        [polars.Int64, polars.String, polars.Float64, polars.Date],
    )
    same(f"rows with {engine}", read.unique(maintain_order=True).rows(), frame.rows())
parts = polars.read_database_uri(
    "SELECT * FROM polars_rows", URL, engine="connectorx", partition_on="id", partition_num=2
)
same("partitions", parts.height, 6)
total = polars.read_database_uri("SELECT sum(price) AS s, count(*) AS n FROM polars_rows", URL, engine="adbc")
same("total", total.rows(), [(4.0, 6)])
versions = f"{polars.__version__} (connectorx {importlib.metadata.version('connectorx')})"
done("Polars", versions, "write_database and read_database_uri with ADBC, connectorx with partitions")
