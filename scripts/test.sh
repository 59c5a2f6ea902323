#!/usr/bin/env bash
# Runs every test, and ends with one line that counts them.
# Fails when a test fails, a stage does not build, or no test ran.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
lane=first

stage() {
    local name=$1 start=$SECONDS status=0
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee -a "$work/$lane.log" || status=1
    printf '== %s: %s after %d s\n' "$name" "$( ((status)) && echo FAILED || echo ok)" $((SECONDS - start))
    ((status)) && printf '%s\n' "$name" >>"$work/failed"
    return $status
}

# Prints the first stage that no lane has taken yet, and takes it.
take() {
    flock "$work" sh -c 'head -1 "$1" && sed -i 1d "$1"' take "$work/stages"
}

# Runs stages that are left, one after the other, beside another lane. What a stage prints comes in one piece,
# at its end.
run_lane() {
    while lane=$(take) && [[ -n $lane ]]; do
        "$lane" >"$work/printed-of-$lane" 2>&1
        flock "$work" cat "$work/printed-of-$lane"
    done
}

# What the stages of the lanes need. Nearly all of it waits for the network, while the compiler works.
install() {
    local status=0 command
    for command in setup_postgres.sh setup_r.sh setup_java.sh setup_odbc.sh 'setup_report.sh browser'; do
        # Split into the script and its argument.
        scripts/$command || { printf '%s failed\n' "$command" && status=1; }
    done
    return $status
}

installed() {
    cat "$work/installed"
    return "$install_status"
}

# Says whether there is a Go that builds the package: some systems have an older one.
has_go() {
    local found
    found=$(go env GOVERSION 2>/dev/null)
    [[ $(printf '1.24\n%s\n' "${found#go}" | sort -V | head -1) == 1.24 ]]
}

in_python() {
    "$VENV/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

cargo_test() {
    cargo test --config scripts/checked.toml --locked --no-fail-fast --release "$@"
}

# Runs what writes and syncs much in directories that lie in memory, if there is room for them: that takes a
# fifth of the time, and loses nothing, since faults are injected above the file system and what a crash
# leaves is made of what was recorded.
in_memory() {
    local room
    room=$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1)
    if ((${room:-0} >= 4)); then
        TMPDIR=/dev/shm "$@"
    else
        "$@"
    fi
}

# Measures what takes a minute, and fails on a wrong answer, a missing section or broken HTML. The data and
# records are its own, so that none of these builds is among the records that a user measures.
smallest_report() (
    export HYPOSTYLE_CACHE=$work/smallest-report
    cd bench && "$VENV/bin/python" -m report --run smoke --output "$HYPOSTYLE_CACHE/pages"
)

# All at once, so that one feature set is resolved and DataFusion is the build that all else uses. `cargo test`
# leaves out the program of the benches.
build() {
    cargo_test --workspace --exclude hypostyle-python --no-run &&
        cargo build --config scripts/checked.toml --locked --release --workspace --exclude hypostyle-python --all-targets
}

# What the lanes run, the longest first. Each lane takes the next stage when it has ended one, so that both
# end at about the same time, however long the stages take on a machine.
stages=(
    test_integration test_crates test_python test_r test_postgres test_odbc test_java test_smallest_report test_adbc
    test_go test_c test_report test_demo
)

test_integration() { stage "integration" in_memory cargo_test --package hypostyle-tests; }
test_crates() { stage "Rust" in_memory cargo_test --workspace --exclude hypostyle-python --exclude hypostyle-tests; }
test_python() { stage "Python package" in_memory in_python -n 2 --dist loadfile bindings/python/tests; }
test_r() { stage "R" scripts/test_r.sh; }
test_postgres() { stage "PostgreSQL" scripts/test_postgres.sh; }
test_odbc() { stage "ODBC" scripts/test_odbc.sh; }
test_java() { stage "Java" scripts/test_java.sh; }
test_adbc() { stage "ADBC" in_python bindings/adbc/tests; }
test_c() { stage "C and C++" in_python bindings/c/tests; }
test_report() { stage "report" in_python bench/tests; }
test_smallest_report() { stage "smallest report" smallest_report; }
test_demo() { stage "demo" env HYPOSTYLE_CACHE="$work/demo" "$VENV/bin/python" scripts/demo.py --sf 0.01; }
test_go() {
    if has_go; then
        stage "Go" scripts/test_go.sh
    else
        printf '\n== Go: skipped, there is no go (1.24 or later), which not every system has packages of\n'
    fi
}

# Optimising our crates for the package and the library, too, would double the time.
export CHECKED=1
# For the Python package's tests of PostgreSQL's protocol; built with the server's tests.
export HYPOSTYLE_PGWIRE=${CARGO_TARGET_DIR:-$PWD/target}/release/examples/pgwire

install >"$work/installed" 2>&1 &
installing=$!
stage "scripts" in_python scripts
if stage "build" build && stage "wheel" scripts/wheel.sh && stage "shared library" scripts/adbc.sh; then
    wait "$installing"
    install_status=$?
    stage "installed" installed
    printf '%s\n' "${stages[@]}" >"$work/stages"
    run_lane &
    lanes=($!)
    run_lane &
    lanes+=($!)
    wait "${lanes[@]}"
fi

printf '\n'
[[ -s $work/failed ]] && sed 's/^/failed: /' "$work/failed"
cat "$work"/*.log >"$work/all"
python3 scripts/count_tests.py "$work/all" && [[ ! -s $work/failed ]]
