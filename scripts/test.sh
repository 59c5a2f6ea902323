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

below_datafusion=(-p hypostyle-types -p hypostyle-format -p hypostyle-memory -p hypostyle-position -p hypostyle-io -p hypostyle-index
    -p hypostyle-placement -p hypostyle-storage -p hypostyle-wire -p hypostyle-transport -p hypostyle-client)
# Together, so that one feature set is resolved and DataFusion is the build that all else uses.
above_datafusion=(-p hypostyle-error -p hypostyle-sql -p hypostyle-expr -p hypostyle-exec -p hypostyle-plan -p hypostyle-files
    -p hypostyle-catalog -p hypostyle-tpch -p hypostyle-cluster -p hypostyle-engine -p hypostyle -p hypostyle-server -p hypostyle-cli
    -p hypostyle-tests -p hypostyle-bench -p hypostyle-adbc)
# For the Python package's tests of PostgreSQL's protocol; built with the server's tests.
export HYPOSTYLE_PGWIRE=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/pgwire

stage "scripts" "$VENV/bin/python" -m pytest -q -p no:cacheprovider scripts
stage "storage and below" cargo test --locked --no-fail-fast "${below_datafusion[@]}"
stage "engine and above" cargo test --locked --no-fail-fast --release "${above_datafusion[@]}"
stage "wheel" scripts/wheel.sh &&
    stage "Python package" "$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/python/tests
stage "ADBC driver" scripts/adbc.sh &&
    stage "ADBC" "$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/adbc/tests

printf '\n'
((${#failed_stages[@]})) && printf 'failed: %s\n' "${failed_stages[@]}"
python3 scripts/count_tests.py "$log" && ((${#failed_stages[@]} == 0))
