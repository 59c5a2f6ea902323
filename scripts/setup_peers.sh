#!/usr/bin/env bash
# Installs the peers of `make bench-protocol`: PostgreSQL, MariaDB, and Python environments with the clients of
# these and with DuckDB's Quack. Does nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

fail() {
    printf 'setup_peers: %s\n' "$*" >&2
    exit 1
}

system_packages() {
    local packages=()
    [[ -x /usr/lib/postgresql/15/bin/postgres ]] || packages+=(postgresql-15)
    command -v psql >/dev/null || packages+=(postgresql-client-15)
    [[ -x /usr/sbin/mariadbd ]] || packages+=(mariadb-server)
    ldconfig -p | grep -q 'libmariadb\.so\.3' || packages+=(libmariadb3)
    ((${#packages[@]})) || return 0

    command -v apt-get >/dev/null || fail "no apt-get here; install by hand, then run this again: ${packages[*]}"
    local as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "neither root nor sudo; run as root: apt-get install ${packages[*]}"
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}"
}

# Each is built anew when its list of packages changes.
environment() {
    local place=$HYPOSTYLE_CACHE/$1 packages=$2 python=${PYTHON:-python3} state
    state=$("$python" --version && sha256sum <"$packages")
    [[ -f $place/.built-for && $(<"$place/.built-for") == "$state" ]] && return 0

    "$python" -m venv --clear "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check --requirement "$packages"
    printf '%s\n' "$state" >"$place/.built-for"
}

mkdir -p "$HYPOSTYLE_CACHE"
system_packages
environment venv-peers scripts/requirements-peers.txt
environment venv-quack scripts/requirements-quack.txt
