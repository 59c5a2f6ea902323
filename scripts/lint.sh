#!/usr/bin/env bash
# Checks formatting and lints of all Rust and Python code.
#
# Clippy runs as the compiler of our own crates inside `cargo build`, not as `cargo clippy`: the
# latter would check all of DataFusion first, another quarter of an hour, because `check` and
# `build` share no artefacts.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

ruff=("$VENV/bin/ruff")
python_code=(scripts bench bindings/python bindings/adbc bindings/c bindings/odbc bindings/postgres tests/drivers examples)

cargo fmt --all --check
cargo fmt --manifest-path fuzz/Cargo.toml --check
"${ruff[@]}" format --quiet --config scripts/ruff.toml --check "${python_code[@]}"
"${ruff[@]}" check --quiet --config scripts/ruff.toml "${python_code[@]}"

# Licences and sources; `make deny` has all of deny.toml checked.
"$VENV/bin/python" scripts/dependencies.py check

# Whoever only asks a server links no query engine.
if cargo tree --locked -p hypostyle-client -e normal --prefix none | grep -E '^(datafusion|hypostyle-engine|hypostyle-storage)'; then
    echo "hypostyle-client depends on what is above" >&2
    exit 1
fi

built_by_clippy=${RUSTC_WORKSPACE_WRAPPER:-}
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=-Dwarnings
cargo build --config scripts/checked.toml --locked --release --keep-going --workspace --exclude hypostyle-python --all-targets
cargo check --locked --manifest-path fuzz/Cargo.toml --bins
# In .ci/run the tests had the wheel built so already. Otherwise as scripts/wheel.sh does, so that
# PyO3 is configured, and so compiled, once for both.
if [[ -z $built_by_clippy ]]; then
    wheel=$(mktemp -d)
    trap 'rm -rf "$wheel"' EXIT
    "$VENV/bin/maturin" build --quiet --release --locked --config "$PWD/scripts/checked.toml" \
        --manifest-path bindings/python/Cargo.toml --interpreter "$VENV/bin/python" --out "$wheel"
fi
