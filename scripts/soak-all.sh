#!/usr/bin/env bash
# Runs all parts of the server at the same time for a long time: files, TLS, HTTP/2 and HTTP/3, pages with
# directives, CGI, php-fpm, servlets that are replaced, an NSAPI plug-in, a proxy whose origins are stopped
# and started, the accelerator with a disk and a file system that are full, a reload every minute, an upgrade
# every ten, log rotation and new certificates, under load from the laboratory and from slow and broken
# clients. Every answer is compared with the expected one.
#
#   scripts/soak-all.sh                                eight hours
#   SECONDS_TO_RUN=600 scripts/soak-all.sh             ten minutes, with figures by minute (1800: by five)
#   PROFILE=release scripts/soak-all.sh                with this build profile (debug)
#   BINARY=/usr/bin/touchstone scripts/soak-all.sh     with an existing program, without a build
#   RATE=50 scripts/soak-all.sh                        requests a second of each kind of load (20)
#   PROGRAMS=DIRECTORY scripts/soak-all.sh             the output of `make programs` (in the target directory)
#
# The report is results/soak-DATE/report.md: memory, descriptors, threads and latency by quarter hour, and
# all wrong answers. A part whose tool is missing is omitted, and the report states this.
#
# Exit codes: 0 all answers were correct and no resource grew, 1 an answer was wrong or a resource grew.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

profile=${PROFILE:-debug}
binary=${BINARY:-$target/$profile/touchstone}
if [ -n "${BINARY:-}" ]; then
    [ -x "$binary" ] || { echo "soak-all: no program at $binary" >&2; exit 1; }
elif [ ! -x "$binary" ] || [ "${BUILD:-yes}" = yes ]; then
    case $profile in
        debug) cargo build --locked -p touchstone --features touchstone/wasm ;;
        *) cargo build --profile "$profile" --locked -p touchstone --features touchstone/wasm ;;
    esac
fi
# The plug-in and the application exist if `make programs` was run.
exec python3 scripts/soak-all.py --binary "$binary" --programs "${PROGRAMS:-$target/programs}" \
    --seconds "${SECONDS_TO_RUN:-28800}" --rate "${RATE:-20}" --results "${RESULTS:-results}"
