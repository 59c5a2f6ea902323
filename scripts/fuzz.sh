#!/usr/bin/env bash
# Fuzzes the code that parses bytes, and a server with statements, each target for FUZZ_SECONDS
# (30). Findings stay under fuzz/artifacts; cargo-fuzz, or `python -m statements --replay`, runs
# them again. Needs a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/build_env.sh

rustc +nightly --version >/dev/null 2>&1 || {
    printf 'fuzz: there is no nightly compiler; run: rustup toolchain install nightly\n' >&2
    exit 1
}
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-fuzz

corpus="$HYPOSTYLE_CACHE/fuzz"
mkdir -p "$corpus"/{superblock,block,log,database,columns,attachments,frame,message,chunk,dictionary,scram,files,transport,channel,catalog}
cp tests/golden/format-v1/HYPOSTYLE "$corpus/superblock/golden"
for name in format-v1 format-v1-transactions format-v1-sequences; do
    for file in tests/golden/$name/{log,catalog}-*; do
        cp "$file" "$corpus/log/$name-${file##*/}"
    done
done
HYPOSTYLE_FUZZ_SEEDS="$corpus" cargo test --locked --quiet -p hypostyle-wire --test all write_fuzz_seeds -- --ignored
HYPOSTYLE_FUZZ_SEEDS="$corpus" cargo test --locked --quiet -p hypostyle-placement --test all write_fuzz_seeds -- --ignored

printf '\n== what PostgreSQL'"'"'s clients send\n'
FUZZ_SECONDS="${FUZZ_SECONDS:-30}" cargo test --release --locked --quiet -p hypostyle-server fuzz::

printf '\n== statements of a reader\n'
cargo build --release --locked --quiet -p hypostyle-cli
(cd bindings/python/tests && "$VENV/bin/python" -m statements --program "$CARGO_TARGET_DIR/release/hypostyle" \
    --seconds "${FUZZ_SECONDS:-30}" --findings "$OLDPWD/fuzz/artifacts/statements")

export CARGO_TARGET_DIR="$CARGO_TARGET_DIR/fuzz"
for target in superblock block log database columns attachments frame message chunk dictionary scram files transport channel catalog; do
    printf '\n== %s\n' "$target"
    cargo +nightly fuzz run "$target" "$corpus/$target" -- -max_total_time="${FUZZ_SECONDS:-30}" -timeout=10 -rss_limit_mb=2048
done
