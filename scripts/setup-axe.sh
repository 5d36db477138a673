#!/usr/bin/env bash
# Installs the accessibility checker of the tests, axe-core, below the target directory.
#
#   scripts/setup-axe.sh [--brief]      --brief prints nothing when it is installed
#
# It is one script that Chromium runs in a page. Without it (or without Chromium) the test of the report's
# accessibility prints SKIPPED. Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=4.14.1
home=$target/axe
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: axe-core $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: axe-core $version is missing: scripts/setup-axe.sh"
    exit 0
fi
if ! command -v npm >/dev/null; then
    echo "setup: npm is missing: the report's accessibility is not tested"
    exit 0
fi
echo "setup: installing axe-core $version"
rm -rf "$home"
mkdir -p "$home"
if npm install --prefix "$home" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
    "axe-core@$version" </dev/null; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: axe-core could not be installed (it needs npm and registry.npmjs.org):" \
        "the report's accessibility is not tested"
fi
