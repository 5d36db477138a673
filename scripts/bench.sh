#!/usr/bin/env bash
# Measures the speed of this build: the limit of this machine's kernel, then every kind of work beside the
# other servers that are installed. Arguments go to scripts/bench.py: --works, --sut NAME=PATH, --runs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

cargo build --release --locked --features touchstone/wasm -p touchstone
"$target/release/touchstone" limit
exec scripts/bench.py "$target/release/touchstone" "$@"
