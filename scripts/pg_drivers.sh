#!/usr/bin/env bash
# Runs PostgreSQL's programs, and clients and tools for PostgreSQL, against a server that is started
# for them. tests/drivers has one file for each of them. Installs missing programs, and fetches the
# clients from their registries; this takes some minutes, most of them the first time. CLIENTS
# limits it to some clients: CLIENTS="pgx dbt" scripts/pg_drivers.sh. Ends with a table, which also
# lists clients that could not be fetched. Fails if a client fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh
. scripts/install.sh

cache=${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle/drivers
work=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
reference_port=$((port + 1))
mkdir -p "$cache"

packages=()
command -v isql >/dev/null || packages+=(unixodbc)
find /usr/lib -name psqlodbcw.so | grep -q . || packages+=(odbc-postgresql)
command -v psql >/dev/null || packages+=(postgresql-client)
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || packages+=(postgresql)
command -v java >/dev/null || packages+=(default-jdk-headless)
command -v mvn >/dev/null || packages+=(maven)
command -v npm >/dev/null || packages+=(npm)
command -v go >/dev/null || packages+=(golang-go)
install_packages "${packages[@]}"

program=${HYPOSTYLE_PGWIRE:-$CARGO_TARGET_DIR/release/examples/pgwire}
[[ -n ${HYPOSTYLE_PGWIRE:-} ]] || cargo build --locked --release -q -p hypostyle-server --example pgwire

# A PostgreSQL to compare with, of a user who is not root.
start_reference() {
    local bin as=()
    bin=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -1)")
    mkdir "$work/postgres"
    if ((EUID == 0)); then
        chmod 755 "$work"
        chown nobody "$work/postgres"
        as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
    fi
    (
        cd "$work/postgres"
        "${as[@]}" "$bin/initdb" -D data -U ada -A trust --no-sync -E UTF8 --locale=C
        "${as[@]}" "$bin/pg_ctl" -w -D data -l log -o "-p $reference_port -k $work/postgres -c fsync=off" start
    ) >"$work/reference.log" 2>&1 || return 1
    psql -X -q -h 127.0.0.1 -p "$reference_port" -U ada postgres -c 'CREATE DATABASE hypostyle'
    export PG_REFERENCE="host=127.0.0.1 port=$reference_port user=ada dbname=hypostyle"
}

stop() {
    [[ -z ${server:-} ]] || kill "$server" 2>/dev/null || true
    [[ ! -f $work/postgres/data/postmaster.pid ]] || kill "$(head -1 "$work/postgres/data/postmaster.pid")" 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT

"$program" "127.0.0.1:$port" >"$work/server.log" &
server=$!
until grep -qs : "$work/server.log"; do sleep 0.1; done
start_reference || echo "no PostgreSQL to compare with: $(tail -1 "$work/reference.log")"
export PGHOST=127.0.0.1 PGPORT=$port PGUSER=ada PGDATABASE=hypostyle PGSSLMODE=disable

# What a client is, how it is fetched (once for several), and how it is run.
# Ibis 12 writes DROP VIEW without a name with later versions of sqlglot.
python_packages=(
    'ibis-framework[postgres]' 'sqlglot<28' numpy packaging Django pgcli SQLAlchemy psycopg adbc-driver-postgresql pyarrow polars connectorx pandas
)
fetch_python() {
    [[ -x $cache/python/bin/python ]] || python3 -m venv "$cache/python"
    "$cache/python/bin/pip" install --quiet --disable-pip-version-check "${python_packages[@]}"
}
# Later versions of dbt fetch a program of their own from elsewhere when they are installed.
fetch_dbt() {
    [[ -x $cache/dbt/bin/python ]] || python3 -m venv "$cache/dbt"
    "$cache/dbt/bin/pip" install --quiet --disable-pip-version-check 'dbt-core>=1.9,<1.10' dbt-postgres
}
fetch_node() {
    mkdir -p "$cache/node"
    [[ -f $cache/node/package.json ]] || echo '{"private": true}' >"$cache/node/package.json"
    npm --prefix "$cache/node" install --silent --no-audit --no-fund pg knex kysely sequelize typeorm reflect-metadata
}
fetch_go() {
    mkdir -p "$cache/go"
    cp tests/drivers/go/main.go tests/drivers/go/go.mod "$cache/go"
    (cd "$cache/go" && go get github.com/jackc/pgx/v5@latest github.com/lib/pq@latest && go mod tidy && go build -o drivers .)
}
jdbc=42.7.4
fetch_jdbc() {
    [[ -f $cache/postgresql-$jdbc.jar ]] ||
        mvn -q dependency:copy -Dartifact=org.postgresql:postgresql:$jdbc -DoutputDirectory="$cache"
}
fetch_nothing() { :; }

run_python() { "$cache/python/bin/python" "tests/drivers/$1.py" "${@:2}"; }
run_node() { NODE_PATH=$cache/node/node_modules node "tests/drivers/$1.js"; }
run_go() { "$cache/go/drivers" "$1"; }
run_dbt() { DBT=$cache/dbt/bin/dbt tests/drivers/dbt.sh; }
run_shell() { "tests/drivers/$1.sh"; }
run_jdbc() {
    java -cp "$cache/postgresql-$jdbc.jar" tests/drivers/Check.java "jdbc:postgresql://127.0.0.1:$port/hypostyle?user=ada"
    printf 'CLIENT\tJDBC\t%s\tmetadata, batches, fetch sizes, types in text and binary, COPY, cancelling\n' "$jdbc"
}

# client, what fetches it, and what runs it.
clients=(
    "psql nothing shell psql" "pgbench nothing shell pgbench" "pg_dump nothing shell pg_dump" "odbc nothing shell odbc" "jdbc jdbc jdbc"
    "sqlalchemy python python sqlalchemy_" "pandas python python pandas_" "pgcli python python pgcli_" "ibis python python ibis_"
    "django python python django_" "adbc python python adbc_" "polars python python polars_" "dbt dbt dbt"
    "pg node node pg" "knex node node knex" "kysely node node kysely" "sequelize node node sequelize" "typeorm node node typeorm"
    "pgx go go pgx" "pq go go pq"
    "metabase python python metadata metabase" "powerbi python python metadata powerbi" "grafana python python metadata grafana"
    "dbeaver python python metadata dbeaver" "datagrip python python metadata datagrip" "others python python metadata others"
    "catalogs python python catalogs"
)

# Runs one client, and adds its line to the table.
run_client() {
    local client=$1 fetch=$2 run=$3 log=$work/$1.log
    echo "== $client"
    if [[ ! -f $work/fetched.$fetch ]]; then
        if "fetch_$fetch" >"$work/fetch.$fetch.log" 2>&1; then echo yes >"$work/fetched.$fetch"; else echo no >"$work/fetched.$fetch"; fi
    fi
    if [[ $(<"$work/fetched.$fetch") == no ]]; then
        tail -3 "$work/fetch.$fetch.log"
        printf '%s\t-\t-\tNOT FETCHED\n' "$client" >>"$work/table"
    elif [[ $client == catalogs && -z ${PG_REFERENCE:-} ]]; then
        printf '%s\t-\t-\tNOT RUN: no PostgreSQL to compare with\n' "$client" >>"$work/table"
    elif "run_$run" "${@:4}" >"$log" 2>&1 && grep -q '^CLIENT' "$log"; then
        sed -n 's/^CLIENT\t\(.*\)/\1\tok/p' "$log" >>"$work/table"
    else
        tail -40 "$log"
        printf '%s\t-\t-\tFAILED\n' "$client" >>"$work/table"
    fi
}

# The server prints that it listens. Each client gets the database that the one before it has left.
: >"$work/table"
for client in "${clients[@]}"; do
    read -ra words <<<"$client"
    [[ -n ${CLIENTS:-} && " $CLIENTS " != *" ${words[0]} "* ]] || run_client "${words[@]}"
done

echo
{
    printf 'client\tversion\twhat was done\tresult\n'
    cat "$work/table"
} | column -t -s $'\t'
! grep -q 'FAILED$' "$work/table"
