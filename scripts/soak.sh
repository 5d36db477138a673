#!/usr/bin/env bash
# Runs the model of sharing with fresh seeds: random histories of several visitors on the real cache. A
# finding is printed with its seed and the shortest history that shows it.
#
#   scripts/soak.sh                         runs for an hour
#   SECONDS_TO_RUN=60 scripts/soak.sh       runs for this number of seconds
#
# Exit codes: 0 no fault was found, 1 a fault was found.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

export SECONDS_TO_RUN=${SECONDS_TO_RUN:-3600}
cargo test -p touchstone-accelerator --test sharing -- --ignored --nocapture soak
