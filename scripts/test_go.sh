#!/usr/bin/env bash
# Checks the Go package against the built library: format, vet, tests with the race detector, and the
# examples, also with a PostgreSQL. Installs nothing; fails when something is missing, and when a test is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

command -v go >/dev/null || fail "no go; install Go 1.24 or later"
command -v "${CC:-cc}" >/dev/null || fail "no C compiler, which cgo needs"
[[ $(go env CGO_ENABLED) == 1 ]] || fail "cgo is off; set CGO_ENABLED=1"
built=$CARGO_TARGET_DIR/release
[[ -f $built/libhypostyle_c.so && -x $built/hypostyle ]] || fail "the library or the program is not built yet; run: make build"

# As `make install` lays it out, but in place.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lib"
ln -s "$built/libhypostyle_c.so" "$work/lib/libhypostyle.so.1"
ln -s libhypostyle.so.1 "$work/lib/libhypostyle.so"
export CGO_CFLAGS="-O2 -Wall -Werror -I$PWD/bindings/c/include" CGO_LDFLAGS="-L$work/lib -Wl,-rpath,$work/lib"
export HYPOSTYLE_PROGRAM=$built/hypostyle TZ=Asia/Kathmandu

cd bindings/go
unformatted=$(gofmt -l .)
[[ -z $unformatted ]] || fail "not as gofmt writes it: $unformatted"
go vet ./... || fail "go vet has found errors"
../../scripts/with_postgres.sh go test -race -count=1 -timeout 20m -v ./... | tee "$work/log" | grep -E '^(---|ok|FAIL|panic|WARNING|#)|_test\.go' || true
passed=$(grep -cE '^ *--- PASS' "$work/log" || true)
failed=$(grep -cE '^ *--- FAIL|^FAIL\s' "$work/log" || true)
! grep -E '^ *--- SKIP' "$work/log" || fail "tests were skipped"
((failed == 0 && passed > 0)) || fail "$passed tests passed, $failed failed"
grep -q '^ok ' "$work/log" || fail "the tests did not end"

for example in examples/*/; do
    shown=$(cd "$work" && go -C "$OLDPWD" run "./$example") || fail "$example fails"
    diff -u "$example/expected.txt" <(printf '%s\n' "$shown") || fail "$example shows something else"
    passed=$((passed + 1))
done
printf '%d passed, 0 failed in %ds\n' "$passed" "$SECONDS"
