#!/usr/bin/env bash
# The start of pg_dump: its queries about the server's relations, up to the locks, which are not
# supported here.
set -euo pipefail
out=$(mktemp)
trap 'rm -f "$out"' EXIT
program=/usr/lib/postgresql/15/bin/pg_dump
[[ -x $program ]] || program=pg_dump
psql -X -q -v ON_ERROR_STOP=1 -c 'CREATE TABLE IF NOT EXISTS dumped (id INTEGER PRIMARY KEY, name VARCHAR)'
"$program" --schema-only >"$out" 2>&1 || true
grep -q 'CREATE TABLE main.dumped' "$out" || grep -q 'LOCK TABLE' "$out" || { cat "$out"; exit 1; }
what='--schema-only'
grep -q 'CREATE TABLE main.dumped' "$out" || what='its start, until it locks tables'
printf 'CLIENT\tpg_dump\t%s\t%s\n' "$("$program" --version | grep -oE '[0-9.]+' | head -1)" "$what"
