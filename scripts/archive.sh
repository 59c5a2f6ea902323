#!/usr/bin/env bash
# Writes what an archive with a DOI keeps of a commit: `archive.sh DIRECTORY`. The sources as git has them, the
# records of the benches, the report, and the versions of the system's packages that were there; all with their sums.
# A dirty tree is refused, because nobody could get it back.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

place=${1:-archive}
[[ -z $(git status --porcelain) ]] || fail "there are uncommitted changes: an archive is of a commit"
commit=$(git rev-parse HEAD)
name=hypostyle-${commit:0:12}
mkdir -p "$place"
place=$(cd "$place" && pwd)
# What is there of another commit would be among the sums of this one.
for other in "$place"/hypostyle-*.tar.gz; do
    [[ ! -e $other || $other == "$place/$name.tar.gz" ]] || fail "$place has another commit: $(basename "$other")"
done
git archive --format=tar --prefix="$name/" HEAD | gzip -n >"$place/$name.tar.gz"
(cd bench && python3 -m report --output "$place/report")
if command -v dpkg-query >/dev/null; then
    dpkg-query -W -f '${Package} ${Version}\n' >"$place/system-packages.txt"
fi
(
    cd "$place"
    find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS
)
printf 'commit %s is in %s; to publish it, deposit the folder where a DOI is given, for instance at zenodo.org\n' \
    "$commit" "$place"
