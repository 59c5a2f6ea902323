#!/usr/bin/env bash
# Runs every test, the quickest first, and ends with one line that counts them.
# Fails when a test fails, a stage does not build, or no test ran.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed_stages=()

stage() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee -a "$log" || status=1
    printf '== %s: %s after %d s\n' "$name" "$( ((status)) && echo FAILED || echo ok)" $((SECONDS - start))
    ((status)) && failed_stages+=("$name")
    return $status
}

# Says whether there is a Go that builds the package: some systems have an older one.
has_go() {
    local found
    found=$(go env GOVERSION 2>/dev/null)
    [[ $(printf '1.24\n%s\n' "${found#go}" | sort -V | head -1) == 1.24 ]]
}

r_package() {
    scripts/setup_r.sh && scripts/test_r.sh
}

jdbc_driver() {
    scripts/setup_java.sh && scripts/test_java.sh
}

odbc_driver() {
    scripts/setup_odbc.sh && scripts/test_odbc.sh
}

postgres_extension() {
    scripts/setup_postgres.sh && scripts/test_postgres.sh
}

# Optimising our crates for the package and the library, too, would double the time.
export CHECKED=1
# For the Python package's tests of PostgreSQL's protocol; built with the server's tests.
export HYPOSTYLE_PGWIRE=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/pgwire

stage "scripts" "$VENV/bin/python" -m pytest -q -p no:cacheprovider scripts
# All at once, so that one feature set is resolved and DataFusion is the build that all else uses.
stage "Rust" cargo test --config scripts/checked.toml --locked --no-fail-fast --release --workspace --exclude hypostyle-python
stage "wheel" scripts/wheel.sh &&
    stage "Python package" "$VENV/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist loadfile bindings/python/tests
stage "PostgreSQL" postgres_extension
stage "report" "$VENV/bin/python" -m pytest -q -p no:cacheprovider bench/tests
if stage "shared library" scripts/adbc.sh; then
    stage "ADBC" "$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/adbc/tests
    stage "C and C++" "$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/c/tests
    stage "R" r_package
    stage "Java" jdbc_driver
    stage "ODBC" odbc_driver
    if has_go; then
        stage "Go" scripts/test_go.sh
    else
        printf '\n== Go: skipped, there is no go (1.24 or later), which not every system has packages of\n'
    fi
fi

printf '\n'
((${#failed_stages[@]})) && printf 'failed: %s\n' "${failed_stages[@]}"
python3 scripts/count_tests.py "$log" && ((${#failed_stages[@]} == 0))
