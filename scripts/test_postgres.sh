#!/usr/bin/env bash
# Builds the extension for PostgreSQL, installs it where pg_config says, and tests it and the client against
# a server that has it.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

libraries=$(pg_config --pkglibdir)
if [[ ! -w $libraries ]]; then
    printf 'skipped: the extension cannot be installed in %s by this user\n' "$libraries"
    exit 0
fi
# The features of the workspace, so that nothing is built twice.
options=(--config scripts/checked.toml --locked --release --workspace --exclude hypostyle-python)
cargo test "${options[@]}" --no-run --test postgres_server --example frames
encoder=$(ls -t "$CARGO_TARGET_DIR"/release/deps/libhypostyle_postgres_encoder-*.a | head -1)
make -C bindings/postgres CARGO=: ENCODER="$encoder" install
"$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/postgres/tests
HYPOSTYLE_POSTGRES_EXTENSION=1 cargo test "${options[@]}" --test postgres_server
