# Sourced by setup.sh and setup_*.sh: how system packages and Python environments are installed.

fail() {
    printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2
    exit 1
}

# Installs Debian packages; none is none.
install_packages() {
    (($#)) || return 0
    command -v apt-get >/dev/null || fail "no apt-get here; install by hand, then run this again: $*"
    local as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null || fail "neither root nor sudo; run as root: apt-get install $*"
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@"
}

# Makes a Python environment at a place, anew when its list of packages has changed.
python_environment() {
    local place=$1 packages=$2 python=${PYTHON:-python3} state
    state=$("$python" --version && sha256sum <"$packages")
    [[ -f $place/.built-for && $(<"$place/.built-for") == "$state" ]] && return 0

    "$python" -m venv --clear "$place" || return
    "$place/bin/pip" install --quiet --disable-pip-version-check --requirement "$packages" || return
    printf '%s\n' "$state" >"$place/.built-for"
}
