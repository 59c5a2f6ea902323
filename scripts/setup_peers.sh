#!/usr/bin/env bash
# Installs the peers of `make bench-protocol`: PostgreSQL, a copy of it with our extension, MariaDB, and Python
# environments with the clients of these and with DuckDB's Quack. Does nothing but build the extension, quickly,
# when all of them are there. The bench does without clients that cannot be installed, and says so.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh
. scripts/install.sh
. scripts/postgres.sh

# The version of the system's server: bookworm has 15, and the records name it.
server_version() {
    compgen -G '/usr/lib/postgresql/*/bin/postgres' | cut -d/ -f5 | sort -V | tail -1
}

system_packages() {
    local packages=() version
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || install_packages postgresql
    version=$(server_version)
    command -v psql >/dev/null || packages+=(postgresql-client)
    [[ -f /usr/include/postgresql/$version/server/postgres.h ]] || packages+=("postgresql-server-dev-$version")
    [[ -x /usr/sbin/mariadbd ]] || packages+=(mariadb-server)
    [[ $(ldconfig -p) == *libmariadb.so.3* ]] || packages+=(libmariadb3)
    install_packages "${packages[@]}"
}

# The bench's own server, with the extension as this clone builds it.
postgres_with_extension() {
    local version copy pg_config
    version=$(server_version)
    copy=$HYPOSTYLE_CACHE/postgresql-$version
    pg_config=/usr/lib/postgresql/$version/bin/pg_config
    rm -rf "$HYPOSTYLE_CACHE"/postgresql-[0-9]*
    copy_server "$pg_config" "$copy"
    cargo build --locked --release -p hypostyle-postgres-encoder
    install_extension "$pg_config" "$copy" "$CARGO_TARGET_DIR/release/libhypostyle_postgres_encoder.a"
}

mkdir -p "$HYPOSTYLE_CACHE"
system_packages
postgres_with_extension
for name in peers quack; do
    python_environment "$HYPOSTYLE_CACHE/venv-$name" "scripts/requirements-$name.txt" ||
        printf 'skipped: what scripts/requirements-%s.txt names cannot be installed; the bench says what is missing\n' "$name"
done
