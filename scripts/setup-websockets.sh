#!/usr/bin/env bash
# Installs another implementation of WebSockets, the Python package websockets, for the tests of the load
# engine, into a Python environment of its own below the target directory.
#
#   scripts/setup-websockets.sh [--brief]      --brief prints nothing when it is installed
#
# Without it the test of WebSockets with another server prints SKIPPED. Environment: SETUP_INSTALL=no checks
# and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/python-environment.sh
. scripts/python-environment.sh

make_python_environment "websockets" "$target/websockets" "${1:-}" websockets==17.4 || exit 0
