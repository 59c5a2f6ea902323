#!/usr/bin/env bash
# Builds the ODBC driver against the library for C that is installed below PREFIX (~/.local), puts it beside
# it, and registers it with unixODBC; or takes it away. Takes seconds.
#
# The driver is registered in odbcinst.ini of ODBCSYSINI if that is set, else in the user's ~/.odbcinst.ini,
# for which nobody has to be root. With DESTDIR nothing is registered: share/hypostyle/odbcinst.ini is what a
# package gives to `odbcinst -i -d -f`.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

prefix=${PREFIX:-$HOME/.local}
root=${DESTDIR:-}$prefix
registry=${ODBCSYSINI:+$ODBCSYSINI/odbcinst.ini}
registry=${registry:-$HOME/.odbcinst.ini}

# Prints the registry without our section.
others() {
    [[ ! -f $registry ]] || awk '/^[ \t]*\[/ { ours = tolower($0) ~ /^[ \t]*\[hypostyle\]/ } !ours' "$registry"
}

# The driver manager locks each statement; a cancel passes.
section() {
    printf '[Hypostyle]\nDescription=Hypostyle\nDriver=%s\nThreading=1\n' "$prefix/lib/libhypostyleodbc.so"
}

rewrite() {
    local new
    new=$(mktemp "$registry.XXXXXX")
    { others; [[ $1 != with ]] || section; } >"$new"
    chmod 644 "$new"
    if [[ -s $new || $1 == with ]]; then mv "$new" "$registry"; else rm -f "$new" "$registry"; fi
}

uninstall() {
    rm -f "$root"/lib/libhypostyleodbc.so "$root"/share/hypostyle/odbcinst.ini
    [[ -n ${DESTDIR:-} || ! -f $registry ]] || rewrite without
}

build() {
    local work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    make --quiet --jobs=2 --directory bindings/odbc BUILD="$work" HYPOSTYLE_CFLAGS="-I$root/include" \
        HYPOSTYLE_LIBS="-L$root/lib -lhypostyle"
    rm -f "$root/lib/libhypostyleodbc.so"
    install -D --strip -m 755 -t "$root/lib" "$work/libhypostyleodbc.so"
}

has_headers() {
    echo '#include <odbcinst.h>' | "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

case ${1:-} in
    uninstall) uninstall ;;
    install)
        if ! has_headers; then
            echo "the ODBC driver is left out: install unixodbc-dev and a C compiler, then run this again"
            exit 0
        fi
        [[ -f $root/include/hypostyle.h ]] || fail "the library for C is not installed yet; run: make install"
        build
        install -d "$root/share/hypostyle"
        section >"$root/share/hypostyle/odbcinst.ini"
        [[ -n ${DESTDIR:-} ]] || rewrite with
        echo "the ODBC driver is $root/lib/libhypostyleodbc.so," \
            "$([[ -n ${DESTDIR:-} ]] && echo "not registered" || echo "registered as Hypostyle in $registry")"
        ;;
    *) fail "install or uninstall" ;;
esac
