# Sourced by the other scripts: the directories outside the clone for builds and scratch data. They
# outlast a clone, so that DataFusion, a quarter of an hour of compiling, is built once per machine.
# What builds sources build_env.sh, which begins with this.
export HYPOSTYLE_CACHE="${HYPOSTYLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HYPOSTYLE_CACHE/target}"
export VENV="${VENV:-$HYPOSTYLE_CACHE/venv}"
