"""A database in a program: tables from frames, transactions, and results that are mappings of
columns.
"""

import tempfile
from pathlib import Path

import hypostyle

with tempfile.TemporaryDirectory() as directory:
    path = Path(directory) / "shop.hypo"
    with hypostyle.connect(path) as con:
        con.append("sales", {"city": ["Rome", "Oslo", "Rome"], "amount": [12.5, 7.0, 30.0]}, create=True)

        # A transaction takes effect as a whole or not at all.
        with con.transaction():
            con.execute("update sales set amount = amount * 2 where city = ?", ["Oslo"])

        print(con.sql("select city, sum(amount) as amount from sales group by city order by city").fetchall())

        # A variable of the program is a table.
        prices = {"city": ["Rome", "Oslo"], "tax": [0.22, 0.25]}
        taxed = con.sql("select city, amount * tax as tax from sales join prices using (city) order by tax")
        print([round(tax, 2) for _, tax in taxed.fetchall()])

    # Committed data is there, for this process and for any other.
    with hypostyle.connect(path, read_only=True) as con:
        print(con.sql("select count(*) from sales").fetchall())
