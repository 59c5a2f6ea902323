#!/usr/bin/env bash
# Builds the Python wheel with the artefacts of `cargo build --release` and installs it into the
# environment; skipped while nothing that goes into it has changed since the last time. With CHECKED
# set, for tests, our crates are built as scripts/checked.toml says.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

wheels="$CARGO_TARGET_DIR/wheels"
stamp="$VENV/.wheel-of"
kind="$PWD ${CHECKED:+checked}"
options=(${CHECKED:+--config "$PWD/scripts/checked.toml"})

unchanged() {
    [[ -f $stamp && $(<"$stamp") == "$kind" ]] || return 1
    # Directories count: a removed file shows in nothing else.
    [[ -z $(find .cargo Cargo.toml Cargo.lock scripts/checked.toml crates bindings/python -newer "$stamp" \
        -not -path '*/tests*' -not -path '*/__pycache__*' -print -quit) ]]
}

unchanged && exit 0
mkdir -p "$wheels"
rm -f "$wheels"/hypostyle-*.whl "$stamp"
started=$(mktemp)
trap 'rm -f "$started"' EXIT
"$VENV/bin/maturin" build --release --locked "${options[@]}" --manifest-path bindings/python/Cargo.toml \
    --interpreter "$VENV/bin/python" --out "$wheels"
"$VENV/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall "$wheels"/hypostyle-*.whl
printf '%s\n' "$kind" >"$stamp"
# A source saved during the build must count as newer than what was built.
touch --reference="$started" "$stamp"
