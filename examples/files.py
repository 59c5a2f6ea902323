"""Files are tables: CSV in, a query over it, Parquet out."""

import tempfile
from pathlib import Path

import hypostyle

with tempfile.TemporaryDirectory() as directory:
    source, target = Path(directory) / "sales.csv", Path(directory) / "sums.parquet"
    source.write_text("city,day,amount\nRome,2026-01-31,12.50\nOslo,2026-02-01,7.00\nRome,2026-02-02,30.00\n")

    with hypostyle.connect() as con:
        sums = f"select city, sum(amount) as amount from '{source}' group by city order by city"
        con.execute(f"copy ({sums}) to '{target}'")
        print(con.sql(f"select * from '{target}'").fetchall())
