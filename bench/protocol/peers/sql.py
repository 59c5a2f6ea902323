"""Common parts of the SQL databases among the peers: tables from an Arrow schema."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from protocol.data import Table

KINDS = {
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float64(): "double precision",
    pa.date32(): "date",
}


def create_table(table: Table) -> str:
    """Return the statement that creates this table; a string column is as wide as its longest
    string.
    """
    rows = table.read()
    columns = []
    for field in table.schema:
        if pa.types.is_string(field.type):
            length = pc.max(pc.utf8_length(rows.column(field.name))).as_py() or 1
            kind = f"varchar({length})"
        elif pa.types.is_decimal(field.type):
            kind = f"decimal({field.type.precision}, {field.type.scale})"
        else:
            kind = KINDS[field.type]
        columns.append(f"{field.name} {kind}{'' if field.nullable else ' NOT NULL'}")
    return f"CREATE TABLE {table.name} ({', '.join(columns)})"
