#!/usr/bin/env bash
# Checks the ODBC driver against the built library: programs in C through unixODBC and without it, also under
# AddressSanitizer, then pyodbc, arrow-odbc, isql and R's RODBC. With the word `tools` it tries turbodbc and LibreOffice
# Base instead, which are large. Installs nothing; fails when something is missing, and when a test is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

python=${HYPOSTYLE_ODBC_PYTHON:-$HYPOSTYLE_CACHE/odbc/bin/python}
[[ -f /usr/include/sqlext.h && -x $python ]] || fail "unixODBC or the Python environment is missing; run: scripts/setup_odbc.sh"
built=$CARGO_TARGET_DIR/release
[[ -f $built/libhypostyle_c.so && -x $built/hypostyle ]] || fail "the library or the program is not built yet; run: make build"

# As `make install` lays it out, but in place.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/prefix/lib" "$work/prefix/include" "$work/home"
ln -s "$built/libhypostyle_c.so" "$work/prefix/lib/libhypostyle.so.1"
ln -s libhypostyle.so.1 "$work/prefix/lib/libhypostyle.so"
cp bindings/c/include/hypostyle.h "$work/prefix/include"
export HOME=$work/home ODBCSYSINI=$work
PREFIX=$work/prefix scripts/install_odbc.sh install
export HYPOSTYLE_PREFIX=$work/prefix HYPOSTYLE_PROGRAM=$built/hypostyle TZ=Asia/Kathmandu

tests=(bindings/odbc/tests --ignore=bindings/odbc/tests/tools)
[[ ${1:-} != tools ]] || tests=(bindings/odbc/tests/tools)
"$python" -m pytest -q -p no:cacheprovider "${tests[@]}" | tee "$work/log"
! grep -qE '[0-9]+ skipped' "$work/log" || fail "tests were skipped"
passed=$(grep -oE '[0-9]+ passed' "$work/log" | tail -1)
printf '%s, 0 failed in %ds\n' "${passed:-0 passed}" "$SECONDS"
