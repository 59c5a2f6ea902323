#!/usr/bin/env bash
# Checks the JDBC driver against the built library: compiles it without warnings, and runs its tests on each Java of this
# machine, 17 or later. Asks no network; scripts/setup_java.sh has fetched what Maven needs. Fails when something is
# missing, and when a test is skipped. A PostgreSQL server runs beside (scripts/with_postgres.sh). MODULES limits it
# (driver), HYPOSTYLE_PREFIX uses an installation.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

command -v mvn >/dev/null && command -v javac >/dev/null || fail "no JDK or no Maven; run: scripts/setup_java.sh"
if [[ -n ${HYPOSTYLE_PREFIX:-} ]]; then
    library=$HYPOSTYLE_PREFIX/lib/libhypostyle.so.1 program=$HYPOSTYLE_PREFIX/bin/hypostyle
else
    library=$CARGO_TARGET_DIR/release/libhypostyle_c.so program=$CARGO_TARGET_DIR/release/hypostyle
fi
[[ -f $library && -x $program ]] || fail "the library or the program is not built yet; run: make build"
export TZ=Asia/Kathmandu
# Maven itself runs for seconds, in which what its JVM optimises is not used often enough. The tests have a
# JVM of their own, with its usual options.
export MAVEN_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC ${MAVEN_OPTS:-}"

# Prints a java of each version, 17 or later, the one of the path first.
javas() {
    local java version seen=" "
    for java in "$(readlink -f "$(command -v java)")" /usr/lib/jvm/*/bin/java; do
        [[ -x $java ]] || continue
        version=$("$java" -XshowSettings:properties -version 2>&1 | sed -n 's/ *java.specification.version = //p')
        [[ $version =~ ^[0-9]+$ ]] && ((version >= 17)) && [[ $seen != *" $version "* ]] || continue
        seen+="$version "
        printf '%s %s\n' "$version" "$java"
    done
}

# Adds an attribute of all suites' reports.
sum() {
    find bindings/java -path '*/surefire-reports/*.xml' -exec grep -ho "<testsuite .*" {} + |
        grep -o " $1=\"[0-9]*\"" | tr -dc '0-9\n' | awk '{ sum += $1 } END { print sum + 0 }'
}

passed=0
while read -r version java; do
    find bindings/java -name surefire-reports -exec rm -rf {} +
    printf 'Java %s: %s\n' "$version" "$java"
    options=()
    ((version < 24)) || options+=(-Dtest.options=--enable-native-access=ALL-UNNAMED)
    scripts/with_postgres.sh mvn -q -B -o -f bindings/java/pom.xml -pl "${MODULES:-driver}" -am test "-Dtest.java=$java" "-Dhypostyle.library=$library" \
        "-Dhypostyle.program=$program" "${options[@]}" || fail "tests have failed on Java $version"
    skipped=$(sum skipped)
    ((skipped == 0)) || fail "$skipped tests were skipped on Java $version"
    passed=$((passed + $(sum tests)))
done < <(javas)
((passed > 0)) || fail "no test ran: no Java 17 or later was found"
printf '%d passed, 0 failed in %ds\n' "$passed" "$SECONDS"
