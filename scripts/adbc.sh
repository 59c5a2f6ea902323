#!/usr/bin/env bash
# Builds the shared library, for C and ADBC, and installs the manifest by which ADBC's driver managers
# find it by name: into the environment of the tests, or with --user into the user's configuration.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

case "${1:-}" in
    "") manifests=$VENV/etc/adbc/drivers ;;
    --user) manifests=${XDG_CONFIG_HOME:-$HOME/.config}/adbc/drivers ;;
    *)
        printf 'usage: scripts/adbc.sh [--user]\n' >&2
        exit 2
        ;;
esac

case $(uname -m) in
    x86_64) platform=linux_amd64 ;;
    aarch64) platform=linux_arm64 ;;
    *)
        printf 'adbc: no name for the processor %s in manifests\n' "$(uname -m)" >&2
        exit 1
        ;;
esac

# For tests, CHECKED builds as they do.
cargo build ${CHECKED:+--config scripts/checked.toml} --locked --release -p hypostyle-c
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
mkdir -p "$manifests"
sed -e "s|@VERSION@|$version|" -e "s|@PLATFORM@|$platform|" \
    -e "s|@LIBRARY@|$CARGO_TARGET_DIR/release/libhypostyle_c.so|" \
    bindings/adbc/hypostyle.toml >"$manifests/hypostyle.toml"
printf 'adbc: %s\n' "$manifests/hypostyle.toml"
