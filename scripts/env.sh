# Sourced by the other scripts: the places outside the clone that builds and scratch data live in.
# They outlast a clone, so that DataFusion, half an hour of compiling, is built once per machine.
export HYPOSTYLE_CACHE="${HYPOSTYLE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HYPOSTYLE_CACHE/target}"
export VENV="${VENV:-$HYPOSTYLE_CACHE/venv}"
