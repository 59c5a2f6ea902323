#!/usr/bin/env bash
# Runs the tests of code with `unsafe` under AddressSanitizer, and of code that maps nothing under
# Miri. With `coverage` it measures instead which lines the tests below DataFusion reach. It says
# which checks it skips because a tool is missing.
#   scripts/sanitize.sh [address|memcheck|miri|postgres|coverage]...     all but coverage when none is named
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

host=$(rustc -vV | sed -n 's/^host: //p')
below_datafusion=(types format io storage wire transport client)
# Tests that start this binary as another process, or need a machine to themselves, are of little
# use here.
long=(--skip a_killed_ --skip a_full_disk_ --skip a_refused_allocation_ --skip no_number_in_a_directory_)
failed=()
skipped=()

skip() {
    printf '== %s: skipped: %s\n' "$1" "$2"
    skipped+=("$1")
}

run() {
    local name=$1 start=$SECONDS status=0
    shift
    "$@" || status=1
    printf '== %s: %s after %d s\n' "$name" "$( ((status)) && echo FAILED || echo ok)" $((SECONDS - start))
    ((status)) && failed+=("$name")
    return 0
}

packages() {
    printf -- '-p hypostyle-%s ' "$@"
}

# Leaks are looked for, too: a test that ends has given everything back.
address() {
    rustc +nightly --version >/dev/null 2>&1 || { skip address "there is no nightly compiler"; return; }
    run address env RUSTFLAGS="-Zsanitizer=address -C target-cpu=x86-64-v3" ASAN_OPTIONS=detect_leaks=1 \
        CARGO_TARGET_DIR="$CARGO_TARGET_DIR/address" cargo +nightly test --locked --no-fail-fast --target "$host" \
        $(packages io storage wire transport client) --lib --tests -- "${long[@]}"
}

# Valgrind also knows what is read without having been written.
memcheck() {
    local variable
    command -v valgrind >/dev/null || { skip memcheck "there is no valgrind"; return; }
    variable=CARGO_TARGET_$(tr a-z- A-Z_ <<<"$host")_RUNNER
    run memcheck env "$variable=valgrind -q --error-exitcode=9 --leak-check=no" \
        cargo test --locked --no-fail-fast $(packages io storage transport) --lib -- --test-threads 1
}

miri() {
    cargo +nightly miri --version >/dev/null 2>&1 || { skip miri "the nightly compiler has no component miri"; return; }
    # Neither files nor processes: what is left is arithmetic on bytes.
    run miri env MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=4 CARGO_TARGET_DIR="$CARGO_TARGET_DIR/miri" \
        cargo +nightly miri test --locked $(packages types format wire) --lib
}

# The extension, in a server.
postgres() {
    run postgres scripts/sanitize_postgres.sh
}

# From the compiler's llvm-tools, or else from the system, in the compiler's version.
llvm_tool() {
    local name=$1 major tool
    major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    for tool in "$(rustc --print sysroot)/lib/rustlib/$host/bin/$name" "$(command -v "$name-$major")" \
        "/usr/lib/llvm-$major/bin/$name"; do
        [[ -x $tool ]] && { printf '%s\n' "$tool"; return; }
    done
    return 1
}

coverage() {
    local profdata cov directory="$CARGO_TARGET_DIR/coverage" objects=() binary
    if ! profdata=$(llvm_tool llvm-profdata) || ! cov=$(llvm_tool llvm-cov); then
        skip coverage "there are no LLVM tools of the compiler's version: rustup component add llvm-tools"
        return
    fi
    rm -rf "$directory/profiles"
    export CARGO_TARGET_DIR="$directory" RUSTFLAGS="-C instrument-coverage -C target-cpu=x86-64-v3"
    export LLVM_PROFILE_FILE="$directory/profiles/%p-%m.profraw"
    run coverage cargo test --locked --no-fail-fast $(packages "${below_datafusion[@]}") --lib --tests
    "$profdata" merge --sparse --output "$directory/all.profdata" "$directory"/profiles/*.profraw || return
    while read -r binary; do
        objects+=(--object "$binary")
    done < <(cargo test --locked --no-run --message-format json $(packages "${below_datafusion[@]}") --lib --tests \
        2>/dev/null | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p')
    "$cov" report --instr-profile "$directory/all.profdata" "${objects[@]}" \
        --ignore-filename-regex '/(registry|rustc|tests)/' | tee "$directory/report.txt" | tail -1
    printf 'lines by file: %s\n' "$directory/report.txt"
}

(($#)) || set -- address memcheck miri postgres
for name in "$@"; do
    printf '\n== %s\n' "$name"
    case $name in
        address | memcheck | miri | postgres | coverage) "$name" ;;
        *) printf 'usage: scripts/sanitize.sh [address|memcheck|miri|postgres|coverage]...\n' >&2 && exit 2 ;;
    esac
done
((${#skipped[@]})) && printf 'skipped: %s\n' "${skipped[*]}"
((${#failed[@]})) && printf 'failed: %s\n' "${failed[*]}"
((${#failed[@]} == 0))
