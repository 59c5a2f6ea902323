#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own, which ends with it: with_postgres.sh COMMAND…
# HYPOSTYLE_POSTGRES is the address of a database of the server, HYPOSTYLE_POSTGRES_COLUMNS that of one that
# has our extension, where it is installed.
set -euo pipefail

programs=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -1 || true)
programs=$(dirname "${programs:-$(command -v initdb || true)}")
if [[ ! -x $programs/postgres ]]; then
    printf 'with_postgres: there is no PostgreSQL server; run scripts/setup_postgres.sh\n' >&2
    exit 69
fi

# A server refuses to run as root.
as=()
((EUID)) || as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
home=$(mktemp -d /tmp/hypg.XXXXXX)
server=
end() {
    # This mode does not wait for clients.
    [[ -z $server ]] || kill -INT "$server" 2>/dev/null || true
    wait
    rm -rf "$home"
}
trap end EXIT
((EUID)) || chown nobody:nogroup "$home"

# The directory that this was called from may be closed to the other user.
(cd "$home" && "${as[@]}" "$programs/initdb" -D data -U test -A trust -N -E UTF8 --locale=C --lc-ctype=C.UTF-8 >/dev/null)
(
    cd "$home"
    exec "${as[@]}" "$programs/postgres" -D data -c listen_addresses= -c unix_socket_directories="$home" \
        -c fsync=off -c jit=off -c timezone=UTC -c log_min_messages=fatal
) </dev/null >"$home/log" 2>&1 &
server=$!
for ((tries = 0; ; tries++)); do
    "$programs/pg_isready" -q -h "$home" -U test && break
    if ((tries == 600)) || ! kill -0 "$server" 2>/dev/null; then
        cat "$home/log" >&2
        exit 1
    fi
    sleep 0.1
done

export HYPOSTYLE_POSTGRES="postgresql://test@/postgres?host=$home"
unset HYPOSTYLE_POSTGRES_COLUMNS
psql=("$programs/psql" -qX -h "$home" -U test -v ON_ERROR_STOP=1)
if [[ -n $("${psql[@]}" -At postgres -c "SELECT 1 FROM pg_available_extensions WHERE name = 'hypostyle'") ]]; then
    "${psql[@]}" postgres -c 'CREATE DATABASE columns' >/dev/null
    "${psql[@]}" columns -c 'CREATE EXTENSION hypostyle' >/dev/null
    export HYPOSTYLE_POSTGRES_COLUMNS="postgresql://test@/columns?host=$home"
fi
"$@"
