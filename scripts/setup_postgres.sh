#!/usr/bin/env bash
# Installs what the extension for PostgreSQL is built and tested with: a server, and its headers. Does
# nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

packages=()
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || packages+=(postgresql-15)
[[ -f $(pg_config --pgxs 2>/dev/null) ]] || packages+=(postgresql-server-dev-15)
install_packages "${packages[@]}"
