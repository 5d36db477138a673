#!/usr/bin/env bash
# Installs another implementation of gRPC, grpcio, for the tests of calls that pass through the server, into a
# Python environment of its own below the target directory.
#
#   scripts/setup-grpc.sh [--brief]      --brief prints nothing when it is installed
#
# Without it the test of gRPC prints SKIPPED. Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=1.85.1
home=$target/grpcio
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: grpcio $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: grpcio $version is missing: scripts/setup-grpc.sh"
    exit 0
fi
if ! command -v python3 >/dev/null; then
    echo "setup: python3 is missing: the test of gRPC is skipped"
    exit 0
fi
echo "setup: installing grpcio $version"
rm -rf "$home"
mkdir -p "$target"
if python3 -m venv "$home" &&
    "$home/bin/pip" install --quiet --disable-pip-version-check --timeout 30 --only-binary :all: \
        "grpcio==$version"; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: grpcio could not be installed (it needs python3 with venv, and pypi.org):" \
        "the test of gRPC is skipped"
fi
