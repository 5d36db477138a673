#!/usr/bin/env bash
# Runs the model of sharing with fresh seeds: random histories of several visitors on the real cache. A
# finding is printed with its seed and the shortest history that shows it.
#
#   scripts/soak.sh                         runs for an hour
#   SECONDS_TO_RUN=60 scripts/soak.sh       runs for so many seconds
#
# Exit codes: 0 nothing was found, 1 something was.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

export SECONDS_TO_RUN=${SECONDS_TO_RUN:-3600}
cargo test -p touchstone-accelerator --test sharing -- --ignored --nocapture soak
