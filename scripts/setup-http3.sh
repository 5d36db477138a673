#!/usr/bin/env bash
# Installs the HTTP/3 client of the tests, aioquic, into a Python environment of its own below the target
# directory.
#
#   scripts/setup-http3.sh [--brief]      --brief prints nothing when it is installed
#
# curl rarely supports HTTP/3, and a client of the same library as the server would share its mistakes.
# Without it the tests of HTTP/3 print SKIPPED. Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=1.7.2
home=$target/aioquic
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: aioquic $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: aioquic $version is missing: scripts/setup-http3.sh"
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "setup: python3 is missing: the tests of HTTP/3 are skipped"
    exit 0
fi
echo "setup: installing aioquic $version"
rm -rf "$home"
mkdir -p "$target"
if python3 -m venv "$home" &&
    "$home/bin/pip" install --quiet --disable-pip-version-check --timeout 30 "aioquic==$version"; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: aioquic could not be installed (it needs python3 with venv, and pypi.org):" \
        "the tests of HTTP/3 are skipped"
fi
