#!/usr/bin/env bash
# Installs what only the report of the papers needs: MonetDBLite and MonetDB's engine with an environment of
# their own, PostgreSQL's client for R, and Chromium, in which a test looks at the page. `setup_report.sh browser`
# installs Chromium alone. Does nothing, quickly, when all of them are there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/env.sh
. scripts/install.sh

packages=()
command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
    packages+=(chromium fonts-dejavu-core)
if [[ ${1:-} == browser ]]; then
    (install_packages "${packages[@]}") ||
        printf 'skipped: Chromium cannot be installed: no test looks at the page of the report\n'
    exit 0
fi
command -v taskset >/dev/null || packages+=(util-linux)
[[ -d /usr/lib/R/site-library/RPostgreSQL || ! -d /usr/lib/R ]] || packages+=(r-cran-rpostgresql)
install_packages "${packages[@]}"

# Unpacks the wheel of a package, for an interpreter and a platform that need not be this one's.
unpacked() {
    local package=$1 version=$2 interpreter=$3 abi=$4 platform=$5 place=$HYPOSTYLE_CACHE/monetdb/$1 wheel
    [[ -f $place/.version && $(<"$place/.version") == "$version" ]] && return 0
    wheel=$(mktemp -d)
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
        --python-version "$interpreter" --implementation cp --abi "$abi" --platform "$platform" \
        --dest "$wheel" "$package==$version"
    rm -rf "$place"
    mkdir -p "$place"
    "$python" -m zipfile -e "$wheel"/*.whl "$place"
    rm -rf "$wheel"
    printf '%s\n' "$version" >"$place/.version"
}

# There are no others of these two, and no sources that build: the bench says what it does without.
if [[ $(uname -m) != x86_64 ]]; then
    printf 'skipped: MonetDBLite and MonetDB have packages for x86-64 only\n'
    exit 0
fi
mkdir -p "$HYPOSTYLE_CACHE"
python_environment "$HYPOSTYLE_CACHE/venv-monetdb" scripts/requirements-monetdb.txt
python=$HYPOSTYLE_CACHE/venv-monetdb/bin/python
unpacked monetdblite 0.6.4 37 cp37m manylinux1_x86_64
unpacked monetdbe 0.11 310 cp310 manylinux2014_x86_64
