#!/usr/bin/env bash
# psql: its commands that show tables, with what they show of a table with everything.
set -euo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
# Runs a command, which must show each of the patterns and no error.
shows() {
    psql -X -v ON_ERROR_STOP=1 -c "$1" >"$out" 2>&1 || { echo "$1 failed"; cat "$out"; exit 1; }
    ! grep -q ERROR "$out" || { echo "$1 failed"; cat "$out"; exit 1; }
    for pattern in "${@:2}"; do
        grep -Eq -- "$pattern" "$out" || { echo "$1 does not show $pattern"; cat "$out"; exit 1; }
    done
}
psql -X -q -v ON_ERROR_STOP=1 <<SQL
CREATE TABLE psql_parent (id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE);
CREATE TABLE psql_child (id BIGINT GENERATED ALWAYS AS IDENTITY, parent INTEGER DEFAULT 7 REFERENCES psql_parent ON DELETE CASCADE, CHECK (parent > 0));
CREATE VIEW psql_grown AS SELECT * FROM psql_parent;
COMMENT ON COLUMN psql_child.parent IS 'whose it is';
SQL
for command in '\d' '\dt+' '\dv' '\dn' '\dn+' '\di' '\df' '\l' '\l+' '\du' '\ds' '\dT' '\dp' '\dD' '\dx' '\db' '\dC' '\do' '\dc' '\dew' '\dy' '\drds' '\ddp' '\dO' '\dL' '\dRp' '\dS pg_class'; do
    shows "$command"
done
shows '\d' 'psql_child +\| table +\| ada' 'psql_grown +\| view'
shows '\d psql_parent' 'id +\| integer +\| +\| not null' '"psql_parent_pkey" PRIMARY KEY' 'UNIQUE' 'Referenced by:' \
    'TABLE "psql_child" CONSTRAINT "psql_child_parent_fkey"'
shows '\d psql_child' 'id +\| bigint +\|.*generated always as identity' 'parent +\| integer .* 7' \
    'FOREIGN KEY \(parent\) REFERENCES psql_parent\(id\) ON DELETE CASCADE' 'CHECK \('
shows '\d+ psql_child' 'whose it is'
shows '\d+ psql_grown' 'SELECT'
shows '\d pg_class' 'relname +\| name' 'relkind +\| "char"' 'reloptions +\| text\[\]'
shows '\dt' 'psql_parent +\| table'
shows '\l' 'hypostyle'
shows '\du' 'ada'
printf '1\ta\n2\tb\n' >"$out"
psql -X -q -v ON_ERROR_STOP=1 -c "\\copy psql_parent FROM '$out'"
[[ $(psql -X -At -c 'SELECT count(*) FROM psql_parent') == 2 ]]
printf 'CLIENT\tpsql\t%s\t%s\n' "$(psql --version | grep -oE '[0-9.]+' | head -1)" '\d and its family, \copy'
