# Sourced by the other scripts: the directories outside the clone for builds and scratch data. They
# outlast a clone, so that DataFusion, half an hour of compiling, is built once per machine.
export HYPOSTYLE_CACHE="${HYPOSTYLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HYPOSTYLE_CACHE/target}"
export VENV="${VENV:-$HYPOSTYLE_CACHE/venv}"

# Cargo goes by modification times, so after a build of another clone it would take that clone's
# crates for this one's: the crates of this clone are built anew.
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ $(cat "$CARGO_TARGET_DIR/.clone" 2>/dev/null) != "$clone" ]]; then
    mkdir -p "$CARGO_TARGET_DIR"
    (cd "$clone" && git ls-files -z '*.rs' '*.toml' | xargs -0 touch)
    printf '%s\n' "$clone" >"$CARGO_TARGET_DIR/.clone"
fi
unset clone
