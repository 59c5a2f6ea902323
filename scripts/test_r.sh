#!/usr/bin/env bash
# Checks the R package against the built library: its C code, help pages with their examples, vignette
# and tests. Fails when R CMD check finds more than notes.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
built=$CARGO_TARGET_DIR/release
[[ -f $built/libhypostyle_c.so ]] || fail "the library is not built yet; run: make build"

# As `make install` lays it out, but in place.
mkdir -p "$work/home/include" "$work/home/lib" "$work/library"
cp bindings/c/include/hypostyle.h "$work/home/include"
ln -s "$built/libhypostyle_c.so" "$work/home/lib/libhypostyle.so.1"
ln -s libhypostyle.so.1 "$work/home/lib/libhypostyle.so"
export HYPOSTYLE_HOME=$work/home R_LIBS=$work/library TZ=UTC
[[ ! -x $built/hypostyle ]] || export HYPOSTYLE_PROGRAM=$built/hypostyle

cp -r bindings/r "$work/hypostyle"
# This runs the vignette, which the check would do twice more.
(cd "$work" && R CMD build hypostyle) || fail "the R package cannot be built"
_R_CHECK_FORCE_SUGGESTS_=false scripts/with_postgres.sh R CMD check --no-manual --no-vignettes --output="$work" \
    "$work"/hypostyle_*.tar.gz || {
    cat "$work"/hypostyle.Rcheck/tests/*.fail 2>/dev/null
    fail "R CMD check has found errors"
}
cat "$work"/hypostyle.Rcheck/tests/testthat.Rout
! grep -E '(WARNING|ERROR)$' "$work/hypostyle.Rcheck/00check.log" || fail "R CMD check has found warnings"
