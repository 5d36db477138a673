#!/usr/bin/env bash
# Installs the HTTP Observatory of MDN, whose rules the tests use, into the target directory.
#
#   scripts/setup-observatory.sh [--brief]      --brief prints nothing when it is installed
#
# Its own program, which node runs, checks a site of the tests. Without it that test prints SKIPPED.
# Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=1.4.8
home=$target/observatory
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: the HTTP Observatory $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: the HTTP Observatory $version is missing: scripts/setup-observatory.sh"
    exit 0
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "setup: node and npm are missing: the fields for browsers are not judged by its rules"
    exit 0
fi
echo "setup: installing the HTTP Observatory $version"
rm -rf "$home"
mkdir -p "$home"
if npm install --prefix "$home" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
    "@mdn/mdn-http-observatory@$version" </dev/null; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: the HTTP Observatory could not be installed (it needs npm and registry.npmjs.org):" \
        "the fields for browsers are not judged by its rules"
fi
