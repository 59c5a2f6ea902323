#!/usr/bin/env bash
# Upgrades the nodes of a cluster one after the other, while clients write and read: from the program of an
# earlier commit (FROM, the one before by default), built in a folder of its own, to that of the build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

from=$(git rev-parse --verify "${FROM:-HEAD^}^{commit}")
work=$(mktemp -d)
leave() {
    git worktree remove --force "$work/source" 2>/dev/null || true
    rm -rf "$work"
}
trap leave EXIT

git worktree add --quiet --detach "$work/source" "$from"
(cd "$work/source" && CARGO_TARGET_DIR=$HYPOSTYLE_CACHE/earlier cargo build --locked --release -p hypostyle-cli)
"$VENV/bin/python" scripts/upgrade.py "$HYPOSTYLE_CACHE/earlier/release/hypostyle" \
    "$CARGO_TARGET_DIR/release/hypostyle" "$work/cluster"
printf 'upgraded from %s\n' "$from"
