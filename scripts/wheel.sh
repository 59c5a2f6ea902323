#!/usr/bin/env bash
# Builds the Python wheel with the artefacts of `cargo build --release` and installs it into the
# environment; skipped while nothing that goes into it has changed since the last time.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

wheels="$CARGO_TARGET_DIR/wheels"
stamp="$VENV/.wheel-of"

unchanged() {
    [[ -f $stamp && $(<"$stamp") == "$PWD" ]] || return 1
    # Directories count: a removed file shows in nothing else.
    [[ -z $(find .cargo Cargo.toml Cargo.lock crates bindings/python -newer "$stamp" \
        -not -path '*/tests*' -not -path '*/__pycache__*' -print -quit) ]]
}

unchanged && exit 0
mkdir -p "$wheels"
rm -f "$wheels"/hypostyle-*.whl "$stamp"
started=$(mktemp)
trap 'rm -f "$started"' EXIT
"$VENV/bin/maturin" build --release --locked --manifest-path bindings/python/Cargo.toml \
    --interpreter "$VENV/bin/python" --out "$wheels"
"$VENV/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/hypostyle-*.whl
printf '%s\n' "$PWD" >"$stamp"
# A source saved during the build must count as newer than what was built.
touch --reference="$started" "$stamp"
