#!/usr/bin/env bash
# Checks all dependencies against deny.toml with cargo-deny, which is compiled the first time:
# minutes. Advisories come from a git repository. If it cannot be reached, the script says so and
# checks the rest.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

cargo deny --version >/dev/null 2>&1 || cargo install --locked --quiet cargo-deny
cargo deny --locked check --hide-inclusion-graph licenses bans sources
if cargo deny --locked fetch db >/dev/null 2>&1; then
    cargo deny --locked check --disable-fetch advisories
else
    printf 'advisories: skipped: their database cannot be reached\n'
fi
