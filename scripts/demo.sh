#!/usr/bin/env bash
# Builds, then runs the short form of the WebBench 1.1 static suite against `touchstone serve`, against nginx where
# it is installed, and against the limit of this machine's kernel; one report shows all of them.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

systems=touchstone,nginx,limit
if ! command -v nginx >/dev/null; then
    echo "demo: nginx is not installed, so it is left out (apt-get install nginx)"
    systems=touchstone,limit
fi
cargo build --release --locked -p touchstone
exec "$target/release/touchstone" bench webbench-1.1-static --quick --sut "$systems" "$@"
