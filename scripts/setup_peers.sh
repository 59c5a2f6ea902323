#!/usr/bin/env bash
# Installs the peers of `make bench-protocol`: PostgreSQL, MariaDB, and Python environments with the
# clients of these and with DuckDB's Quack. Does nothing, quickly, when all of them are there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

system_packages() {
    local packages=()
    [[ -x /usr/lib/postgresql/15/bin/postgres ]] || packages+=(postgresql-15)
    command -v psql >/dev/null || packages+=(postgresql-client-15)
    [[ -x /usr/sbin/mariadbd ]] || packages+=(mariadb-server)
    ldconfig -p | grep -q 'libmariadb\.so\.3' || packages+=(libmariadb3)
    install_packages "${packages[@]}"
}

mkdir -p "$HYPOSTYLE_CACHE"
system_packages
python_environment "$HYPOSTYLE_CACHE/venv-peers" scripts/requirements-peers.txt
python_environment "$HYPOSTYLE_CACHE/venv-quack" scripts/requirements-quack.txt
