#!/usr/bin/env bash
# Builds, then runs two suites in their short forms, with `touchstone serve`, nginx where it is installed, and the limit of
# this machine's kernel: the static files of WebBench 1.1, and SPICE, which holds every interface that a server has against
# its static files. Each leaves a report; where they are is said at the end. Options go to both runs of `touchstone bench`.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

systems=touchstone,nginx,limit
if ! command -v nginx >/dev/null; then
    echo "demo: nginx is not installed, so it is left out (apt-get install nginx)"
    systems=touchstone,limit
fi
cargo build --release --locked -p touchstone
# Its servlets take Java; where that is missing they are left out, and the report says so.
scripts/java.sh --brief || [ $? = 3 ]

results=results/$(date --utc +%Y%m%dT%H%M%SZ)-demo
failed=0
for suite in webbench-1.1-static spice; do
    # One suite that fails does not hide the other; what it measured is in its report.
    "$target/release/touchstone" bench "$suite" --quick --sut "$systems" --output "$results/$suite" "$@" || failed=$?
done

echo
echo "demo: which server, with files of all sizes:    $PWD/$results/webbench-1.1-static/report.html"
echo "demo: which interface, and what each one costs: $PWD/$results/spice/report.html"
exit "$failed"
