#!/usr/bin/env bash
# Installs unixODBC, and what the tests of the ODBC driver need besides: R's RODBC from Debian, pyodbc and
# arrow-odbc in a Python environment of their own. `setup_odbc.sh peers` installs the drivers and the servers
# that bench/odbc.py measures beside ours instead; `setup_odbc.sh tools` adds what only `make test-drivers` tries:
# turbodbc, which is compiled, and LibreOffice Base. Does nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

packages=()
command -v isql >/dev/null || packages+=(unixodbc)
[[ -f /usr/include/sqlext.h ]] || packages+=(unixodbc-dev)
command -v odbcinst >/dev/null || packages+=(odbcinst)
if [[ ${1:-} == peers ]]; then
    driver_is_there() { compgen -G "/usr/lib/*/odbc/$1" >/dev/null; }
    driver_is_there psqlodbcw.so || packages+=(odbc-postgresql)
    driver_is_there libmaodbc.so || packages+=(odbc-mariadb)
    driver_is_there libsqlite3odbc.so || packages+=(libsqliteodbc)
    command -v mariadbd >/dev/null || [[ -x /usr/sbin/mariadbd ]] || packages+=(mariadb-server)
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || packages+=(postgresql)
    command -v psql >/dev/null || packages+=(postgresql-client)
    install_packages "${packages[@]}"
    exit 0
fi
command -v R >/dev/null || packages+=(r-base-core)
[[ -d /usr/lib/R/site-library/RODBC || -d /usr/local/lib/R/site-library/RODBC ]] || packages+=(r-cran-rodbc)
command -v valgrind >/dev/null || packages+=(valgrind)
if [[ ${1:-} == tools ]]; then
    office=()
    command -v soffice >/dev/null || office+=(libreoffice-base-nogui libreoffice-core-nogui)
    /usr/bin/python3 -c 'import uno' 2>/dev/null || office+=(python3-uno)
    # What they recommend, Writer and Java, is larger than they are.
    ((${#office[@]} == 0)) || install_packages --no-install-recommends "${office[@]}"
    [[ -f /usr/include/boost/variant.hpp ]] || packages+=(libboost-dev)
fi
install_packages "${packages[@]}"
python_environment "$HYPOSTYLE_CACHE/odbc" scripts/requirements-odbc.txt

# Later versions of turbodbc need simdutf, which Debian 12 lacks. Without pyarrow, whose headers it does not know, it
# leaves its part for Arrow out; so it is compiled beside what it needs alone.
turbodbc=4.9.0
add_turbodbc() {
    local python=$HYPOSTYLE_CACHE/odbc/bin/python place=$HYPOSTYLE_CACHE/turbodbc
    "$python" -c 'import turbodbc' 2>/dev/null && return
    "${PYTHON:-python3}" -m venv --clear "$place"
    "$place/bin/pip" install --quiet --disable-pip-version-check 'setuptools<70' wheel 'pybind11<3' 'numpy<2.3'
    "$place/bin/pip" wheel --quiet --no-build-isolation --no-deps --wheel-dir "$place" "turbodbc==$turbodbc"
    "$python" -m pip install --quiet --disable-pip-version-check 'numpy<2.3' "$place"/turbodbc-*.whl
}
[[ ${1:-} != tools ]] || add_turbodbc
