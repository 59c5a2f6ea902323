# Sourced by test_postgres.sh and setup_peers.sh: copies of PostgreSQL servers that have the extension. The
# servers themselves stay as they are, and nobody needs rights to write there.

# Copies a server's programs, libraries and files below a directory, under the same names: they find each other
# wherever they are. What else it consists of follows.
copy_server() {
    local pg_config=$1 root=$2 parts=()
    shift 2
    mapfile -t parts < <("$pg_config" --bindir --pkglibdir --sharedir)
    mkdir -p "$root"
    cp -r --parents "${parts[@]}" "$@" "$root"
    # A server does not run as root, and the original may be in root's home.
    chmod -R a+rX "$root"
}

# Builds the C half of the extension over a static library of the Rust half, and installs it in a copy. The
# sources are copied, too: objects for another version have the same names.
install_extension() {
    local pg_config=$1 root=$2 encoder=$3 sources
    sources=$(mktemp -d)
    cp -r bindings/postgres/. "$sources"
    make -s -C "$sources" CARGO=: PG_CONFIG="$pg_config" ENCODER="$encoder" DESTDIR="$root" install
    rm -rf "$sources"
}
