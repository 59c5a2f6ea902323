# Sourced by what builds, from the clone's own directory: env.sh, and the build directory made this
# clone's. Cargo goes by modification times, so after a build of another clone it would take that
# clone's crates for this one's: the crates of this clone are built anew.
. scripts/env.sh

if [[ $(cat "$CARGO_TARGET_DIR/.clone" 2>/dev/null) != "$(pwd -P)" ]]; then
    mkdir -p "$CARGO_TARGET_DIR"
    git ls-files -z '*.rs' '*.toml' ':!replacements' | xargs -0 touch
    pwd -P >"$CARGO_TARGET_DIR/.clone"
fi

# A crate below DataFusion that is ours gets the time of its last commit, the same one in each clone: newer files would
# have all of DataFusion built anew.
if git diff --quiet HEAD -- replacements 2>/dev/null; then
    git ls-files -z replacements | xargs -0 touch -d "@$(git log -1 --format=%ct -- replacements)"
fi
