#!/usr/bin/env bash
# Installs a JDK, Maven and a C compiler for the JDBC driver, from Debian, and fetches what Maven needs from its
# registry into Maven's own folder. `setup_java.sh peers` installs also PostgreSQL, which bench/jdbc.py measures
# beside it. Does nothing, quickly, when all of it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

packages=()
command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v mvn >/dev/null || packages+=(maven)
command -v "${CC:-cc}" >/dev/null || packages+=(gcc libc6-dev)
if [[ ${1:-} == peers ]]; then
    compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || packages+=(postgresql)
    command -v psql >/dev/null || packages+=(postgresql-client)
fi
install_packages "${packages[@]}"

# A mark for each state of the POMs, so that Maven, which takes seconds, is asked once.
state=$(find bindings/java -name pom.xml -not -path '*/target/*' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
mark=${XDG_CACHE_HOME:-$HOME/.cache}/hypostyle/maven/$state
[[ -f $mark ]] && exit 0
# A test that needs no library runs, because Maven fetches what runs tests only then.
mvn -q -B -f bindings/java/pom.xml test jar:jar -Dtest=AddressTest -Dsurefire.failIfNoSpecifiedTests=false ||
    fail "Maven cannot fetch what the driver is built with"
mkdir -p "$(dirname "$mark")"
touch "$mark"
