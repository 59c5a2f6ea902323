#!/usr/bin/env bash
# Installs unixODBC, and what the tests of the ODBC driver need besides: R's RODBC from Debian, pyodbc and
# arrow-odbc in a Python environment of their own. Does nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

packages=()
command -v isql >/dev/null || packages+=(unixodbc)
[[ -f /usr/include/sqlext.h ]] || packages+=(unixodbc-dev)
command -v odbcinst >/dev/null || packages+=(odbcinst)
command -v R >/dev/null || packages+=(r-base-core)
[[ -d /usr/lib/R/site-library/RODBC || -d /usr/local/lib/R/site-library/RODBC ]] || packages+=(r-cran-rodbc)
command -v valgrind >/dev/null || packages+=(valgrind)
install_packages "${packages[@]}"
python_environment "$HYPOSTYLE_CACHE/odbc" scripts/requirements-odbc.txt
