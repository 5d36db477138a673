#!/usr/bin/env bash
# Builds an OpenTelemetry Collector of a few parts, for the tests of telemetry, below the target directory.
# Its source names the modules: crates/touchstone/tests/collector.
#
#   scripts/setup-collector.sh [--brief]      --brief prints nothing when it is built
#
# Without it those tests print SKIPPED. Environment: SETUP_INSTALL=no checks and never builds.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

source=crates/touchstone/tests/collector
home=$target/collector
marker=$home/built-$(cat $source/go.mod $source/main.go | sha256sum | cut -c1-16)

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: the collector is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: the collector is missing: scripts/setup-collector.sh"
    exit 0
fi
if ! command -v go >/dev/null; then
    echo "setup: Go is missing (https://go.dev/dl): the tests of a collector are skipped"
    exit 0
fi
echo "setup: building an OpenTelemetry Collector"
rm -rf "$home"
mkdir -p "$home"
if (cd $source && go build -trimpath -ldflags '-s -w' -o "$home/collector" .) </dev/null; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: the collector could not be built (it needs Go and its module proxy):" \
        "the tests of a collector are skipped"
fi
