#!/usr/bin/env bash
# Fetches MaxMind's test files for GeoIP, which are in the source of its Python package, into the target
# directory.
#
#   scripts/setup-geoip.sh [--brief]      --brief prints nothing when they are installed
#
# Without them the tests of GeoIP print SKIPPED. Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=2.6.2
home=$target/geoip
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: MaxMind's test files are installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: MaxMind's test files are missing: scripts/setup-geoip.sh"
    exit 0
fi
echo "setup: fetching MaxMind's test files"
rm -rf "$home"
mkdir -p "$home"
if python3 -m venv "$home/venv" </dev/null &&
    "$home/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: \
        --dest "$home" "maxminddb==$version" </dev/null &&
    tar -xzf "$home/maxminddb-$version.tar.gz" -C "$home" --strip-components=1 \
        "maxminddb-$version/tests/data"; then
    rm -rf "$home/venv" "$home/maxminddb-$version.tar.gz"
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: MaxMind's test files could not be fetched (they need python3-venv and pypi.org):" \
        "GeoIP is not tested"
fi
