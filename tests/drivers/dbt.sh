#!/usr/bin/env bash
# dbt: seeds, views, tables and an incremental model twice, tests, and the catalog of its docs. DBT
# names the program.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r dbt/. "$work"
cd "$work"
export DBT_PROFILES_DIR=$work DO_NOT_TRACK=1
dbt=${DBT:-dbt}
for command in "debug" "seed" "run" "run" "seed --full-refresh" "run --full-refresh" "test" "docs generate"; do
    # shellcheck disable=SC2086
    "$dbt" --no-use-colors --quiet $command > dbt.log 2>&1 || { echo "dbt $command"; cat dbt.log logs/dbt.log | tail -60; exit 1; }
done
grep -q '"totals"' target/catalog.json || { echo "no table in the catalog of dbt's docs"; exit 1; }
version=$("$dbt" --version 2>/dev/null | sed -n 's/^ *- installed: *\([0-9.]*\).*/\1/p' | head -1)
printf 'CLIENT\tdbt\t%s\tseed, views, tables, incremental models, tests, docs with comments\n' "$version"
