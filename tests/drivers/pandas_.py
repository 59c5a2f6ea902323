"""pandas over SQLAlchemy."""

import pandas
import sqlalchemy
from check import URL, done, same

engine = sqlalchemy.create_engine(URL.replace("postgresql:", "postgresql+psycopg:"))
frame = pandas.DataFrame(
    {"id": [1, 2, 3], "name": ["a", None, "c"], "day": pandas.date_range("2024-01-01", periods=3)}
)
same("written", frame.to_sql("pandas_rows", engine, index=False, if_exists="replace") in (3, -1), True)
frame.to_sql("pandas_rows", engine, index=False, if_exists="append", method="multi")
same("read", pandas.read_sql_table("pandas_rows", engine).shape, (6, 3))
query = sqlalchemy.text("SELECT * FROM pandas_rows WHERE id = :id")
same(
    "query", pandas.read_sql(query, engine, params={"id": 2}, parse_dates=["day"]).day.dt.day.tolist(), [2, 2]
)
with engine.begin() as connection:
    connection.execute(sqlalchemy.text("DROP TABLE pandas_rows"))
done("pandas", pandas.__version__, "to_sql, read_sql_table, read_sql with parameters")
