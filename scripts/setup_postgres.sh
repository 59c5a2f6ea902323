#!/usr/bin/env bash
# Installs what the extension for PostgreSQL is built and tested with: the system's server with its headers,
# pgAudit, pgbouncer, and an environment of Python with servers of other versions. Does nothing, quickly, when
# all of it is there. The tests do without the other versions: a line says so where they cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

# Each release of the system has a version of its own, of which the other packages have the number.
compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || install_packages postgresql
version=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | cut -d/ -f5 | sort -V | tail -1)
packages=()
# The client's package has pg_config's makefiles, too, and no headers.
compgen -G '/usr/include/postgresql/*/server/postgres.h' >/dev/null ||
    packages+=("postgresql-server-dev-$version")
command -v pgbouncer >/dev/null || packages+=(pgbouncer)
compgen -G '/usr/lib/postgresql/*/lib/pgaudit.so' >/dev/null || packages+=("postgresql-$version-pgaudit")
install_packages "${packages[@]}"
python_environment "$HYPOSTYLE_CACHE/postgres-servers" scripts/requirements-postgres.txt ||
    printf 'skipped: PostgreSQL 16 and 18, which scripts/requirements-postgres.txt names, cannot be installed\n'
