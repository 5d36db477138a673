#!/usr/bin/env bash
# Builds the program, then runs SPICE in its short form: every interface of `touchstone serve` against its
# static files, beside nginx and Apache httpd with the interfaces that they share, Granian for those of
# Python, the accelerator in front of that Apache, and the limit of this machine's kernel. Three runs of each
# mix, so that the report has intervals and a useful peak; in all under six minutes on two cores. It writes
# one report, whose first screen states which server, which interface, how many users, the first bottleneck
# and what to change. Options are passed to `touchstone bench`, for example --live 8089 to watch it in a
# browser.
#
#   PROFILE=release scripts/demo.sh  another build profile of the root Cargo.toml than `fast`
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

systems=touchstone
# program | the systems that need it | the command that installs it
while IFS='|' read -r program needed_by installed_by; do
    if command -v "$program" >/dev/null; then
        systems+=,$needed_by
    else
        echo "demo: $program is not installed, so $needed_by is omitted ($installed_by)"
    fi
done <<'END'
nginx|nginx|install nginx
apache2|apache,touchstone-accelerator|install apache2
granian|granian,granian-asgi|scripts/setup-python-servers.sh
END
profile=${PROFILE:-fast}
cargo build --profile "$profile" --locked -p touchstone
# Servlets need Java; without it they are omitted, and the report states this.
scripts/java.sh --brief || [ $? = 3 ]

results=results/$(date --utc +%Y%m%dT%H%M%SZ)-demo
failed=0
"$target/$profile/touchstone" bench spice --quick --runs 3 --clients 8,32 \
    --length 1600ms --ramp-up 300ms --ramp-down 100ms \
    --sut "$systems,limit" --output "$results" "$@" || failed=$?

echo
[ ! -e "$results/report.html" ] || echo "demo: the report is $PWD/$results/report.html"
exit "$failed"
