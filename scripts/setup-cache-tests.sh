#!/usr/bin/env bash
# Installs the public tests for HTTP caches, http-cache-tests from npm, into a directory of its own below the
# target directory.
#
#   scripts/setup-cache-tests.sh [--brief]      --brief prints nothing when they are installed
#
# These tests are independent of this project's interpretation of RFC 9111. Without them the test of
# conformance prints SKIPPED. Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=0.4.5
home=$target/cache-tests
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: http-cache-tests $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: http-cache-tests $version is missing: scripts/setup-cache-tests.sh"
    exit 0
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "setup: node and npm are missing: the public tests for HTTP caches are skipped"
    exit 0
fi
echo "setup: installing http-cache-tests $version"
rm -rf "$home"
mkdir -p "$home"
if npm install --silent --no-save --no-audit --no-fund --ignore-scripts --prefix "$home" \
    "http-cache-tests@$version" </dev/null; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: http-cache-tests could not be installed (it needs npm, and its registry):" \
        "the test of conformance is skipped"
fi
