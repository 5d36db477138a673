#!/usr/bin/env bash
# Measures the speed of this build: the limit of this machine's kernel, then the short suite on this server.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

cargo build --release --locked -p touchstone
"$target/release/touchstone" limit
exec "$target/release/touchstone" bench webbench-1.1-static --quick --sut touchstone,limit "$@"
