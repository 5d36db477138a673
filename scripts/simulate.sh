#!/usr/bin/env bash
# Runs the simulator: the protocol engines, the accelerator with its disk, and the fleet.
#
#   scripts/simulate.sh                          10,000 seeds over all parts, from 1 on
#   SEED=4711 PART=disk scripts/simulate.sh      one run, repeated exactly; a fault is printed with its trace
#   SEEDS=1000000 scripts/simulate.sh            this number of seeds, from SEED on
#   SECONDS_TO_RUN=28800 scripts/simulate.sh     eight hours, from a new seed on
#   PROFILE=fast scripts/simulate.sh             with this build profile (default: dev)
#
# Exit codes: 0 no fault was found, 1 a fault was found, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

arguments=(--threads "${THREADS:-$(nproc)}")
[ -z "${PART:-}" ] || arguments+=(--part "$PART")
[ -z "${SEED:-}" ] || arguments+=(--seed "$SEED")
[ -z "${SEEDS:-}" ] || arguments+=(--seeds "$SEEDS")
if [ -n "${SECONDS_TO_RUN:-}" ]; then
    [ -n "${SEED:-}" ] || arguments+=(--seed "$(date +%s)000000")
    [ -n "${SEEDS:-}" ] || arguments+=(--seeds 1000000000000)
    arguments+=(--seconds "$SECONDS_TO_RUN")
fi
exec cargo run --quiet --locked --profile "${PROFILE:-dev}" -p touchstone-simulation -- "${arguments[@]}"
