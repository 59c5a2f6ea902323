#!/usr/bin/env bash
# Installs what `make build` has built below PREFIX (~/.local), or removes it: the program, its
# debug information beside it, man page, completions, the Python package, the library for C, and the driver for
# unixODBC where that is.
# Compiles nothing but the driver, which takes seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

python=${PYTHON:-python3}
prefix=${PREFIX:-$HOME/.local}
root=${DESTDIR:-}$prefix
built=$CARGO_TARGET_DIR/release/hypostyle

# Where a Python finds packages below the prefix. gdb and backtraces find debug information by its
# link.
packages() {
    "$python" - "$prefix" <<'END'
import site
import sys

prefix = sys.argv[1]
known = [path for path in [*sys.path, site.getusersitepackages()] if path.endswith("-packages")]
default = f"{prefix}/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
print(next((path for path in known if path.startswith(f"{prefix}/")), default))
END
}

uninstall() {
    rm -f "$root"/bin/hypostyle "$root"/bin/.debug/hypostyle.debug "$root"/share/man/man1/hypostyle.1 \
        "$root"/share/bash-completion/completions/hypostyle "$root"/share/zsh/site-functions/_hypostyle \
        "$root"/share/fish/vendor_completions.d/hypostyle.fish
    rm -rf "$root"/share/hypostyle "${DESTDIR:-}$(packages)"/hypostyle "${DESTDIR:-}$(packages)"/hypostyle-*.dist-info
}

program() {
    local new
    new=$(mktemp -d)
    trap 'rm -rf "$new"' RETURN
    objcopy --only-keep-debug --compress-debug-sections "$built" "$new/hypostyle.debug"
    (cd "$new" && objcopy --strip-all --add-gnu-debuglink=hypostyle.debug "$built" hypostyle)
    install -D -m 755 -t "$root/bin" "$new/hypostyle"
    install -D -m 644 -t "$root/bin/.debug" "$new/hypostyle.debug"
}

# A wheel is a zip file with the content of the directory; others can install it where they want it.
package() {
    local wheel=$1 place=${DESTDIR:-}$2
    rm -rf "$place"/hypostyle "$place"/hypostyle-*.dist-info "$root"/share/hypostyle
    mkdir -p "$place"
    "$python" -m zipfile -e "$wheel" "$place"
    install -D -m 644 -t "$root/share/hypostyle" "$wheel"
}

size() {
    du --dereference --apparent-size -BM "$1" | cut -f1
}

case ${1:-} in
    uninstall)
        uninstall
        scripts/install_library.sh uninstall
        scripts/install_odbc.sh uninstall
        ;;
    install)
        wheels=("$CARGO_TARGET_DIR"/wheels/hypostyle-*.whl)
        [[ -x $built && -f ${wheels[0]} ]] || fail "nothing is built yet; run: make build"
        command -v objcopy >/dev/null || fail "no objcopy; install binutils"
        place=$(packages)
        program
        "$python" scripts/shell_files.py "$root/bin/hypostyle" "$root"
        package "${wheels[0]}" "$place"
        scripts/install_library.sh install
        scripts/install_odbc.sh install
        echo "hypostyle is $root/bin/hypostyle: $(size "$root/bin/hypostyle"), of $(size "$built") with" \
            "the debug information that is in $root/bin/.debug now ($(size "$root/bin/.debug/hypostyle.debug"))"
        echo "import hypostyle finds $place/hypostyle; for other environments: pip install" \
            "$prefix/share/hypostyle/$(basename "${wheels[0]}")"
        [[ :$PATH: == *":$prefix/bin:"* ]] || echo "add $prefix/bin to PATH: export PATH=\"$prefix/bin:\$PATH\""
        "$python" -c 'import sys; sys.exit(sys.argv[1] not in sys.path)' "$place" ||
            echo "$python does not look there; a new shell may, else: export PYTHONPATH=\"$place\""
        ;;
    *) fail "install or uninstall" ;;
esac
