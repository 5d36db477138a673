#!/usr/bin/env bash
# Installs the definitions of OTLP as OpenTelemetry publishes them, the Python package opentelemetry-proto,
# for the tests of live figures, into its own Python environment below the target directory.
#
#   scripts/setup-otlp.sh [--brief]      --brief prints nothing when it is installed
#
# Without it the test of live figures to OpenTelemetry prints SKIPPED. Environment: SETUP_INSTALL=no checks
# and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/python-environment.sh
. scripts/python-environment.sh

make_python_environment "opentelemetry-proto" "$target/opentelemetry-proto" "${1:-}" \
    opentelemetry-proto==1.45.2 || exit 0
