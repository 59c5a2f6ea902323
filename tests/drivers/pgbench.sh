#!/usr/bin/env bash
# pgbench: its tables (-i), its own transactions, and statements in its three modes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
pgbench=$(command -v pgbench || find /usr/lib/postgresql -name pgbench | head -1)
"$pgbench" -i -s 1 -q >"$work/init" 2>&1 || { cat "$work/init"; exit 1; }
[[ $(psql -X -At -c 'SELECT count(*) FROM pgbench_accounts') == 100000 ]]
printf '%s\n' '\set aid random(1, 100000)' 'SELECT abalance FROM pgbench_accounts WHERE aid = :aid;' >"$work/select.sql"
run() {
    "$pgbench" -n "$@" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
    grep -q 'number of failed transactions: 0 ' "$work/out" || { cat "$work/out"; exit 1; }
}
for mode in simple extended prepared; do
    run -M "$mode" -f "$work/select.sql" -c 2 -T 2
done
run -M prepared -t 20
[[ $(psql -X -At -c 'SELECT count(*) FROM pgbench_history') == 20 ]]
printf 'CLIENT\tpgbench\t%s\t%s\n' "$("$pgbench" --version | grep -oE '[0-9.]+' | head -1)" '-i, its transactions, SELECT in simple, extended and prepared mode'
