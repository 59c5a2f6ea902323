#!/usr/bin/env bash
# Installs what the build, the tests, the demo and the benches need. Does nothing, quickly, when all
# of it is there; touches the system only for a command that is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

system_packages() {
    local packages=()
    command -v cc >/dev/null || packages+=(gcc libc6-dev)
    command -v c++ >/dev/null || packages+=(g++)
    command -v openssl >/dev/null || packages+=(openssl)
    command -v nc.openbsd >/dev/null || packages+=(netcat-openbsd)
    command -v git >/dev/null || packages+=(git)
    # The shell's own kill is no program that a test can start.
    type -P kill >/dev/null || packages+=(procps)
    # Tests of the library for C do without these, and say so.
    command -v cmake >/dev/null || packages+=(cmake)
    command -v pkg-config >/dev/null || packages+=(pkg-config)
    command -v "${PYTHON:-python3}" >/dev/null || packages+=(python3)
    "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
    install_packages "${packages[@]}"
}

check_rust() {
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    command -v cargo >/dev/null || fail "no cargo; install Rust $wanted or newer with rustup"
    found=$(rustc --version | cut -d' ' -f2)
    if [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -1) != "$wanted" ]]; then
        fail "rustc is $found, but Hypostyle needs $wanted or newer; run: rustup update stable"
    fi
}

# .cargo/config.toml compiles for x86-64-v3, so that even build scripts would die elsewhere.
check_processor() {
    if [[ $(uname -m) == x86_64 ]] && ! grep -qw avx2 /proc/cpuinfo; then
        fail "this processor has no AVX2; remove the target-cpu flag from .cargo/config.toml to build for it"
    fi
}

check_python() {
    local python=${PYTHON:-python3}
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        fail "$("$python" --version) is too old; set PYTHON to Python 3.11 or newer"
}

mkdir -p "$HYPOSTYLE_CACHE"
check_processor
system_packages
check_rust
check_python
python_environment "$VENV" scripts/requirements.txt
