"""What a user of LibreOffice Base does, through UNO: libreoffice_base.py PIPE DOCUMENT (a URL).

Makes a document for the data source `shop`, a table in it, rows by a prepared statement, a stored query, and
changes by the row set that forms and the table view use.
"""

import sys
import time

import uno
from com.sun.star.connection import NoConnectException
from com.sun.star.sdb.CommandType import QUERY, TABLE

START_SECONDS = 120


def office(pipe):
    """Wait for the office, and return its context."""
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
        except NoConnectException:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)


def same(found, wanted):
    if found != wanted:
        sys.exit(f"{found!r}, and not {wanted!r}")


def rows_of(rows, columns):
    """Read what is left of a result as tuples: 'i' an integer, 's' a text, 'd' a double, 'D' a date."""
    found = []
    while rows.next():
        row = []
        for number, kind in enumerate(columns, 1):
            if kind == "D":
                value = rows.getDate(number)
                value = (value.Year, value.Month, value.Day)
            else:
                value = {"i": rows.getInt, "s": rows.getString, "d": rows.getDouble}[kind](number)
            row.append(None if rows.wasNull() else value)
        found.append(tuple(row))
    return found


def main(pipe, document):
    context = office(pipe)
    manager = context.ServiceManager
    sources = manager.createInstanceWithContext("com.sun.star.sdb.DatabaseContext", context)
    made = sources.createInstance()
    made.URL = "sdbc:odbc:shop"
    made.DatabaseDocument.storeAsURL(document, ())
    source = sources.getByName(document)
    connection = source.getConnection("", "")

    same(connection.MetaData.getDatabaseProductName(), "Hypostyle")
    statement = connection.createStatement()
    statement.execute("CREATE TABLE stock (id INTEGER PRIMARY KEY, name VARCHAR, price DOUBLE, day DATE)")
    insert = connection.prepareStatement("INSERT INTO stock VALUES (?, ?, ?, ?)")
    for number, name, price in ((1, "chair", 12.5), (2, "table", 99.0), (3, None, 0.0)):
        insert.setInt(1, number)
        insert.setString(2, name) if name is not None else insert.setNull(2, 12)
        insert.setDouble(3, price)
        insert.setDate(4, uno.createUnoStruct("com.sun.star.util.Date", 29, 2, 2020))
        same(insert.executeUpdate(), 1)
    day = (2020, 2, 29)
    found = rows_of(statement.executeQuery("SELECT * FROM stock ORDER BY id"), "isdD")
    same(found, [(1, "chair", 12.5, day), (2, "table", 99.0, day), (3, None, 0.0, day)])

    connection.Tables.refresh()
    table = next(name for name in connection.Tables.ElementNames if name.split(".")[-1] == "stock")
    same(connection.Tables.getByName(table).Columns.ElementNames, ("id", "name", "price", "day"))

    definitions = source.QueryDefinitions
    dear = definitions.createInstance()
    dear.Command = "SELECT name, price FROM stock WHERE price > 10 ORDER BY price DESC"
    definitions.insertByName("dear", dear)
    same(
        rows_of(row_set(manager, context, connection, QUERY, "dear"), "sd"),
        [("table", 99.0), ("chair", 12.5)],
    )

    changing = row_set(manager, context, connection, TABLE, table)
    places = {}
    while changing.next():
        places[changing.getInt(1)] = changing.getRow()
    changing.absolute(places[2])
    changing.updateString(2, "desk")
    changing.updateRow()
    changing.absolute(places[3])
    changing.deleteRow()
    changing.moveToInsertRow()
    changing.updateInt(1, 4)
    changing.updateString(2, "shelf")
    changing.updateDouble(3, 8.0)
    changing.insertRow()
    changing.dispose()
    same(rows_of(statement.executeQuery("SELECT id, name FROM stock ORDER BY id"), "is")[1], (2, "desk"))
    connection.close()
    source.DatabaseDocument.close(True)
    print("all of it")


def row_set(manager, context, connection, kind, command):
    made = manager.createInstanceWithContext("com.sun.star.sdb.RowSet", context)
    made.ActiveConnection = connection
    made.CommandType = kind
    made.Command = command
    made.execute()
    return made


if __name__ == "__main__":
    main(*sys.argv[1:])
