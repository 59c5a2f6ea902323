#!/usr/bin/env bash
# PostgreSQL's JDBC and ODBC drivers, psql and pgbench against a server, which is started for them. Installs what is missing,
# and fetches the JDBC driver with Maven; about 30 s, most of it the first fetch.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

here=$PWD
version=42.7.4
packages=()
command -v isql >/dev/null || packages+=(unixodbc)
find /usr/lib -name psqlodbcw.so | grep -q . || packages+=(odbc-postgresql)
command -v psql >/dev/null || packages+=(postgresql-client)
command -v pgbench >/dev/null || [[ -x /usr/lib/postgresql/15/bin/pgbench ]] || packages+=(postgresql-15)
command -v java >/dev/null || packages+=(default-jdk-headless)
command -v mvn >/dev/null || packages+=(maven)
install_packages "${packages[@]}"
cargo build --locked --release -q -p hypostyle-server --example pgwire
program=$CARGO_TARGET_DIR/release/examples/pgwire
drivers=${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle/drivers
work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))

"$program" "127.0.0.1:$port" > "$work/server.log" &
server=$!
trap 'kill $server 2> /dev/null || true; rm -rf "$work"' EXIT
until grep -q : "$work/server.log"; do sleep 0.1; done

echo "== JDBC"
mkdir -p "$drivers"
[ -f "$drivers/postgresql-$version.jar" ] ||
    mvn -q dependency:copy -Dartifact=org.postgresql:postgresql:$version -DoutputDirectory="$drivers"
java -cp "$drivers/postgresql-$version.jar" "$here/tests/drivers/Check.java" \
    "jdbc:postgresql://127.0.0.1:$port/hypostyle?user=ada"

echo "== ODBC"
driver=$(find /usr/lib -name psqlodbcw.so | head -1)
cat > "$work/odbc.ini" <<INI
[check]
Driver = $driver
Servername = 127.0.0.1
Port = $port
Database = hypostyle
Username = ada
INI
cat > "$work/odbc.sql" <<SQL
CREATE TABLE odbc (id INTEGER PRIMARY KEY, name VARCHAR, price DECIMAL(10,2))
INSERT INTO odbc VALUES (1, 'one', 1.25), (2, NULL, NULL)
SELECT * FROM odbc ORDER BY id
SELECT nothing FROM odbc
help odbc
SQL
ODBCSYSINI=$work ODBCINI=$work/odbc.ini isql -b -v check < "$work/odbc.sql" | tee "$work/odbc.out"
# The values, a NULL, what went wrong with its SQLSTATE, and the columns that SQLColumns tells.
for line in '1  *| one  *| 1.25' '2  *|   *|   *|' '\[42703\]' 'SQLRowCount returns 2' 'numeric'; do
    grep -q "$line" "$work/odbc.out" || { echo "no \"$line\" in what ODBC gives"; exit 1; }
done

echo "== psql"
connection="host=127.0.0.1 port=$port user=ada"
# Runs a command, which must show each of the patterns and no error.
shows() {
    psql -X -v ON_ERROR_STOP=1 "$connection" -c "$1" > "$work/psql.out" 2>&1 || { echo "$1 failed"; cat "$work/psql.out"; exit 1; }
    ! grep -q ERROR "$work/psql.out" || { echo "$1 failed"; cat "$work/psql.out"; exit 1; }
    for pattern in "${@:2}"; do
        grep -Eq -- "$pattern" "$work/psql.out" || { echo "$1 does not show $pattern"; cat "$work/psql.out"; exit 1; }
    done
}
for command in '\d' '\d odbc' '\d+ odbc' '\dt+' '\dv' '\dn' '\di' '\df' '\l' '\du' '\ds' '\dT'; do
    shows "$command"
done

# What they show of a table with everything; each line of it, as a pattern.
psql -X -q "$connection" <<SQL
CREATE TABLE parent (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE);
CREATE TABLE child (id BIGINT GENERATED ALWAYS AS IDENTITY, parent INTEGER DEFAULT 7 REFERENCES parent ON DELETE CASCADE, CHECK (parent > 0));
CREATE VIEW grown AS SELECT * FROM parent;
COMMENT ON COLUMN child.parent IS 'whose it is';
SQL
shows '\d' 'child +\| table +\| ada' 'grown +\| view'
shows '\d parent' 'id +\| integer +\| +\| not null' '"parent_pkey" PRIMARY KEY' 'UNIQUE' 'Referenced by:' 'TABLE "child" CONSTRAINT "child_parent_fkey"'
shows '\d child' 'id +\| bigint +\|.*generated always as identity' 'parent +\| integer .* 7' \
    'FOREIGN KEY \(parent\) REFERENCES parent\(id\) ON DELETE CASCADE' 'CHECK \('
shows '\d+ child' 'whose it is'
shows '\d+ grown' 'SELECT'
shows '\dt' 'parent +\| table'
shows '\l' 'hypostyle'
shows '\du' 'ada'

echo "== pgbench"
pgbench=$(command -v pgbench || find /usr/lib/postgresql -name pgbench | head -1)
psql -X -q "$connection" -c "CREATE TABLE accounts AS SELECT value AS aid, 0 AS abalance FROM generate_series(1, 1000)"
printf '%s\n' '\set aid random(1, 1000)' 'SELECT abalance FROM accounts WHERE aid = :aid;' > "$work/select.sql"
for mode in simple extended prepared; do
    "$pgbench" -h 127.0.0.1 -p "$port" -U ada -n -M $mode -f "$work/select.sql" -c 2 -T 2 hypostyle > "$work/pgbench.out" 2>&1
    grep -E '^tps|failed transactions' "$work/pgbench.out"
    grep -q 'number of failed transactions: 0 ' "$work/pgbench.out"
done
