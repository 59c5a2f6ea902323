"""PostgreSQL's ADBC driver: typed results, ingestion, parameters, transactions, metadata."""

import datetime
import decimal
import importlib.metadata

import adbc_driver_postgresql.dbapi as postgres
import pyarrow
from check import URL, done, same

connection = postgres.connect(URL)
cursor = connection.cursor()
cursor.execute(
    "SELECT 1::bigint AS a, 'x' AS b, 2.5::double precision AS c, true AS d, DATE '2024-02-29' AS e"
)
table = cursor.fetch_arrow_table()
same(
    "types", [str(field.type) for field in table.schema], ["int64", "string", "double", "bool", "date32[day]"]
)
same("values", list(table.to_pylist()[0].values()), [1, "x", 2.5, True, datetime.date(2024, 2, 29)])

cursor.execute("DROP TABLE IF EXISTS adbc_rows")
rows = pyarrow.table(
    {
        "id": pyarrow.array([1, 2, 3], pyarrow.int64()),
        "name": pyarrow.array(["a", None, "c"]),
        "price": pyarrow.array([0.5, 1.5, None], pyarrow.float64()),
        "at": pyarrow.array([datetime.datetime(2024, 1, 1, 2, 3, 4)] * 3, pyarrow.timestamp("us")),
    }
)
same("ingested", cursor.adbc_ingest("adbc_rows", rows, mode="create"), 3)
same("appended", cursor.adbc_ingest("adbc_rows", rows, mode="append"), 3)
connection.commit()
cursor.execute("SELECT * FROM adbc_rows ORDER BY id LIMIT 1")
same("row", cursor.fetchone(), (1, "a", 0.5, datetime.datetime(2024, 1, 1, 2, 3, 4)))
cursor.execute("SELECT count(*) FROM adbc_rows WHERE id > $1", (1,))
same("parameter", cursor.fetchone()[0], 4)
cursor.execute("SELECT sum(price)::numeric(10,2) FROM adbc_rows")
same("numeric", decimal.Decimal(cursor.fetchone()[0]), decimal.Decimal("4.00"))
cursor.execute("SELECT array_agg(id ORDER BY id) FROM adbc_rows")
same("array", cursor.fetchone()[0], [1, 1, 2, 2, 3, 3])
cursor.execute("DELETE FROM adbc_rows")
connection.rollback()
cursor.execute("SELECT count(*) FROM adbc_rows")
same("rolled back", cursor.fetchone()[0], 6)
same("table schema", connection.adbc_get_table_schema("adbc_rows").names, ["id", "name", "price", "at"])
same("table types", "table" in connection.adbc_get_table_types(), True)
objects = connection.adbc_get_objects(depth="all", table_name_filter="adbc_rows").read_all().to_pylist()
schemas = [schema for catalog in objects for schema in catalog["catalog_db_schemas"] or []]
tables = [table for schema in schemas for table in schema["db_schema_tables"] or []]
same(
    "objects",
    [[c["column_name"] for c in table["table_columns"]] for table in tables],
    [["id", "name", "price", "at"]],
)
cursor.execute("DROP TABLE adbc_rows")
connection.commit()
cursor.close()
connection.close()
version = importlib.metadata.version("adbc-driver-postgresql")
done("ADBC PostgreSQL driver", version, "typed results, bulk ingestion, parameters, rollback, metadata")
