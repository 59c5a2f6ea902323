#!/usr/bin/env bash
# Installs R and the packages that the R package's tests need, from Debian. Does nothing, quickly, when
# all of them are there.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/install.sh

packages=()
command -v R >/dev/null || packages+=(r-base-core r-base-dev)
command -v pkg-config >/dev/null || packages+=(pkg-config)
for package in bit64 blob data.table DBI DBItest dbplyr dplyr hms knitr lubridate markdown RPostgreSQL \
    RSQLite survey testthat; do
    [[ -d /usr/lib/R/site-library/$package || -d /usr/local/lib/R/site-library/$package ]] ||
        packages+=("r-cran-${package,,}")
done
install_packages "${packages[@]}"
