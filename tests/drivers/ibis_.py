"""Ibis: tables from frames, expressions, metadata, temporary tables, raw SQL."""

import decimal

import ibis
import pandas
from check import DATABASE, HOST, PORT, USER, done, same

connection = ibis.postgres.connect(host=HOST, port=PORT, user=USER, password="", database=DATABASE)
connection.raw_sql("DROP TABLE IF EXISTS ibis_orders").close()

orders = pandas.DataFrame(
    {
        "id": [1, 2, 3, 4],
        "customer": ["ann", "bob", "ann", None],
        "price": [1.5, 2.5, 4.0, 8.0],
        "day": pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-02-01", "2024-02-29"]),
    }
)
schema = ibis.schema({"id": "int64", "customer": "string", "price": "float64", "day": "timestamp"})
table = connection.create_table("ibis_orders", orders, schema=schema)
same("tables", "ibis_orders" in connection.list_tables(), True)
same("schema", table.schema().names, ("id", "customer", "price", "day"))
same(
    "types",
    [str(table.schema()[name]) for name in ("id", "customer", "price")],
    ["int64", "string", "float64"],
)
same("count", table.count().execute(), 4)

grouped = table.group_by("customer").aggregate(total=table.price.sum(), n=table.count()).order_by("customer")
same("grouped", grouped.execute()["total"].tolist(), [5.5, 2.5, 8.0])
same("filtered", table.filter(table.price > ibis.literal(2)).id.execute().tolist(), [2, 3, 4])
joined = table.join(table.view(), "customer").count().execute()
same("joined", joined, 5)
months = table.mutate(month=table.day.month()).group_by("month").aggregate(n=ibis._.count()).order_by("month")
same("months", months.execute()["n"].tolist(), [2, 2])
window = table.mutate(rank=ibis.row_number().over(order_by=table.price.desc())).order_by("id")
same("window", window.execute()["rank"].tolist(), [3, 2, 1, 0])

connection.insert("ibis_orders", orders.assign(id=orders.id + 4))
same("inserted", table.count().execute(), 8)
view = connection.create_view("ibis_view", table.filter(table.id <= 2))
same("view", view.count().execute(), 2)
temporary = connection.create_table("ibis_temporary", schema=ibis.schema({"a": "int32"}), temp=True)
same("temporary", temporary.count().execute(), 0)
found = connection.sql("SELECT DECIMAL '1.25' AS d, DATE '2024-02-29' AS day").execute()
same("sql", [found.d[0], found.day[0]], [decimal.Decimal("1.25"), pandas.Timestamp(2024, 2, 29)])
arrow = table.order_by("id").to_pyarrow()
same("arrow", (arrow.num_rows, arrow.column("id")[7].as_py()), (8, 8))
connection.drop_view("ibis_view")
connection.drop_table("ibis_orders")
same("dropped", "ibis_orders" in connection.list_tables(), False)
done(
    "Ibis",
    ibis.__version__,
    "create_table from pandas, insert, aggregates, joins, windows, views, temporary tables, Arrow",
)
