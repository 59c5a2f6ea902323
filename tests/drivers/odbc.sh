#!/usr/bin/env bash
# PostgreSQL's ODBC driver, through unixODBC's isql.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/odbc.ini" <<INI
[check]
Driver = $(find /usr/lib -name psqlodbcw.so | head -1)
Servername = $PGHOST
Port = $PGPORT
Database = $PGDATABASE
Username = $PGUSER
INI
cat >"$work/odbc.sql" <<SQL
CREATE TABLE odbc (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10,2))
INSERT INTO odbc VALUES (1, 'one', 1.25), (2, NULL, NULL)
SELECT * FROM odbc ORDER BY id
SELECT nothing FROM odbc
help odbc
SQL
ODBCSYSINI=$work ODBCINI=$work/odbc.ini isql -b -v check <"$work/odbc.sql" >"$work/odbc.out"
# The values, a NULL, what went wrong with its SQLSTATE, and the columns that SQLColumns tells.
for line in '1  *| one  *| 1.25' '2  *|   *|   *|' '\[42703\]' 'SQLRowCount returns 2' 'numeric'; do
    grep -q "$line" "$work/odbc.out" || { echo "no \"$line\" in what ODBC gives"; cat "$work/odbc.out"; exit 1; }
done
version=$(dpkg-query -W -f '${Version}' odbc-postgresql 2>/dev/null | sed 's/^[0-9]*://; s/-.*//' || echo -)
printf 'CLIENT\tpsqlODBC\t%s\tvalues, NULL, errors, SQLColumns\n' "$version"
