#!/usr/bin/env bash
# Writes what an archive with a DOI keeps of a commit: `archive.sh DIRECTORY`. The sources as git has them, with the
# records of the benches; the commits before it, without which a clone could not tell how old a record is; the
# report; the versions of the system's packages that were there; how all of it is used; and the sums of all files.
# A dirty tree is refused, because nobody could get it back.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

place=${1:-archive}
[[ -z $(git status --porcelain) ]] || fail "there are uncommitted changes: an archive is of a commit"
[[ $(git rev-parse --is-shallow-repository) == false ]] ||
    fail "this clone has no earlier commits; run: git fetch --unshallow"
commit=$(git rev-parse HEAD)
name=hypostyle-${commit:0:12}
mkdir -p "$place"
place=$(cd "$place" && pwd)
# What is there of another commit would be among the sums of this one.
for other in "$place"/hypostyle-*; do
    [[ ! -e $other || $other == "$place/$name".* ]] || fail "$place has another commit: $(basename "$other")"
done
git archive --format=tar --prefix="$name/" HEAD | gzip -n >"$place/$name.tar.gz"
git bundle create --quiet "$place/$name.bundle" HEAD
(cd bench && python3 -m report --output "$place/report")
if command -v dpkg-query >/dev/null; then
    dpkg-query -W -f '${Package} ${Version}\n' >"$place/system-packages.txt"
fi
cat >"$place/README.txt" <<END
Hypostyle, commit $commit

sha256sum -c SHA256SUMS            checks all files
git clone $name.bundle hypostyle
                                   the sources with all commits before; the tar.gz has this one alone
report/index.html                  the tables and figures of the papers, from the records in bench/results
system-packages.txt                the packages of the system that wrote this archive, if it was Debian's kind

In the clone, LICENSE and CITATION.cff say how it may be used and cited, and bench/report/README.md how the report is
made again: make report from the records, make report RUN=smoke, quick or full by measuring, with or without the image
of deploy/Containerfile.bench.
END
(
    cd "$place"
    find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >SHA256SUMS
)
printf 'commit %s is in %s; to publish it, deposit the folder where a DOI is given, for instance at zenodo.org\n' \
    "$commit" "$place"
