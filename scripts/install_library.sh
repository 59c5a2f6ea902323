#!/usr/bin/env bash
# Installs the shared library for C, C++ and ADBC below PREFIX (~/.local), or removes it: library,
# headers, and what pkg-config and CMake find it by. Compiles nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

prefix=${PREFIX:-$HOME/.local}
root=${DESTDIR:-}$prefix
built=$CARGO_TARGET_DIR/release/libhypostyle_c.so

# Programs that were linked with one library run with a later one that has the same number.
soname=libhypostyle.so.1

uninstall() {
    rm -f "$root"/lib/{libhypostyle.so,"$soname"} "$root"/lib/pkgconfig/hypostyle.pc "$root"/include/hypostyle.{h,hpp}
    rm -rf "$root"/lib/cmake/hypostyle
}

# Fills in the places between @.
filled() {
    local version
    version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
    mkdir -p "$(dirname "$2")"
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" "$1" >"$2"
}

case ${1:-} in
    uninstall) uninstall ;;
    install)
        [[ -f $built ]] || fail "the library is not built yet; run: make build"
        command -v objcopy >/dev/null || fail "no objcopy; install binutils"
        mkdir -p "$root/lib"
        # A program that has the old library mapped keeps it.
        rm -f "$root/lib/$soname"
        objcopy --strip-all "$built" "$root/lib/$soname"
        ln -sf "$soname" "$root/lib/libhypostyle.so"
        install -D -m 644 -t "$root/include" bindings/c/include/hypostyle.h bindings/c/include/hypostyle.hpp
        filled bindings/c/hypostyle.pc.in "$root/lib/pkgconfig/hypostyle.pc"
        filled bindings/c/cmake/hypostyle-config.cmake "$root/lib/cmake/hypostyle/hypostyle-config.cmake"
        filled bindings/c/cmake/hypostyle-config-version.cmake "$root/lib/cmake/hypostyle/hypostyle-config-version.cmake"
        echo "libhypostyle is $root/lib/$soname, with hypostyle.h and hypostyle.hpp in $root/include"
        ;;
    *) fail "install or uninstall" ;;
esac
