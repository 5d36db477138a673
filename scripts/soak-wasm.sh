#!/usr/bin/env bash
# Runs a server with hostile WebAssembly components under load, and a file and a good component beside them: a
# component that loops, traps, floods, or requests memory or forbidden addresses may only affect its own
# requests.
#
#   scripts/soak-wasm.sh                       runs for half an hour, with a release build
#   SECONDS_TO_RUN=60 scripts/soak-wasm.sh     runs for this number of seconds (at least 60)
#   TOUCHSTONE=PROGRAM scripts/soak-wasm.sh    with a program that was built before, with its feature wasm
#   HOSTILE_RATE=20                            hostile requests a second (the default)
#
# It prints the memory of the server, and the p99 of the good requests without and with the hostile ones. Exit
# codes: 0 no limit was exceeded, 1 memory grew by more than 16 MiB, a good request failed, the server ended,
# or the p99 of a file or of the good component was more than twice that of the quiet server.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

seconds=${SECONDS_TO_RUN:-1800}
quiet_seconds=20
hostile_rate=${HOSTILE_RATE:-20}
good_rate=200
most_growth_kib=$((16 * 1024))
place=$(mktemp -d)
server=

main() {
    if [ "$seconds" -lt 60 ]; then
        echo "soak-wasm: SECONDS_TO_RUN must be at least 60" >&2
        exit 2
    fi
    if [ -z "${TOUCHSTONE:-}" ]; then
        cargo build --release --locked -p touchstone --features wasm
        TOUCHSTONE=$target/release/touchstone
    fi
    trap 'end' EXIT
    start_server
    echo "soak-wasm: $quiet_seconds s quiet"
    load_good "$quiet_seconds" quiet
    wait "${loads[@]}"
    echo "soak-wasm: $seconds s with $hostile_rate hostile requests a second"
    load_good "$seconds" hostile
    "$TOUCHSTONE" load "http://127.0.0.1:$hostile/" --urls "$place/hostile.txt" --rate "$hostile_rate" \
        --clients 40 --duration "${seconds}s" --json \
        >"$place/hostile-itself.json" 2>"$place/hostile-itself.err" &
    loads+=($!)
    sample_memory
    # The hostile answers are errors, so the exit code of their load has no meaning.
    wait "${loads[@]}" || true
    judge
}

end() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$place"
}

start_server() {
    local component=$PWD/crates/touchstone/tests/wasm/behaviours.wasm path
    mkdir -p "$place/root/files"
    head -c 6250 /dev/zero | tr '\0' x >"$place/root/files/page.txt"
    read -r good hostile < <(free_ports)
    cat >"$place/touchstone.toml" <<CONFIG
[server]
control_socket = "off"

[error_log]
path = "$place/error.log"

[[site]]
listen = ["127.0.0.1:$good"]
root = "$place/root"

[[site.route]]
path = "/files/"

[[site.route]]
wasm = { component = "$component", compiled = "$place/compiled" }

[[site]]
listen = ["127.0.0.1:$hostile"]
root = "$place/root"

[[site.route]]
[site.route.wasm]
component = "$component"
compiled = "$place/compiled"
computing_timeout = "200ms"
answer_timeout = "2s"
memory = "32MiB"
body_size = "1MiB"
concurrency = 100
CONFIG
    for path in trap trap-in-body trap-in-long-body loop memory endless inject short resources recurse \
        silent "ask/http/127.0.0.1:9/"; do
        echo "http://127.0.0.1:$hostile/$path"
    done >"$place/hostile.txt"
    "$TOUCHSTONE" serve --config "$place/touchstone.toml" 2>"$place/server.err" &
    server=$!
    for _ in $(seq 300); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$hostile") 2>/dev/null; then return; fi
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$place/server.err" "$place/error.log" >&2 || true
    echo "soak-wasm: the server does not listen" >&2
    exit 1
}

free_ports() {
    python3 -c 'import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets: each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))'
}

# load_good SECONDS NAME: starts the loads of a file and of the good component.
load_good() {
    local of path
    loads=()
    for of in file component; do
        if [ $of = file ]; then path=files/page.txt; else path=page; fi
        "$TOUCHSTONE" load "http://127.0.0.1:$good/$path" --rate "$good_rate" --clients 16 \
            --duration "${1}s" --expect-size 6250 --json >"$place/$2-$of.json" 2>"$place/$2-$of.err" &
        loads+=($!)
    done
}

sample_memory() {
    local end=$((SECONDS + seconds))
    : >"$place/memory"
    while [ $SECONDS -lt $end ] && kill -0 "$server" 2>/dev/null; do
        awk '/^VmRSS/ { print $2 }' "/proc/$server/status" >>"$place/memory" 2>/dev/null || true
        sleep 2
    done
}

judge() {
    if ! kill -0 "$server" 2>/dev/null; then
        tail -n 20 "$place/error.log" >&2
        echo "soak-wasm: the server has ended" >&2
        exit 1
    fi
    python3 - "$place" "$most_growth_kib" <<'JUDGE'
import json, sys
place, most_growth = sys.argv[1], int(sys.argv[2])
read = lambda name: json.load(open(f"{place}/{name}.json"))
failed = False
memory = [int(line) for line in open(f"{place}/memory")]
tenth = max(len(memory) // 10, 1)
mean = lambda values: sum(values) / len(values)
# The first tenth fills pools and caches.
before, after = mean(memory[tenth:2 * tenth] or memory), mean(memory[-tenth:])
growth = after - before
print(f"memory: {before:,.0f} KiB after the first tenth, {after:,.0f} KiB at the end, {growth:+,.0f} KiB; "
      f"most {max(memory):,} KiB; {len(memory)} samples")
failed |= growth > most_growth
for of in ["file", "component"]:
    quiet, loud = read(f"quiet-{of}"), read(f"hostile-{of}")
    p99 = [each["latency_us"]["p99"] for each in (quiet, loud)]
    errors = loud["errors"]
    print(f"{of}: p99 {p99[0]:.0f} us quiet, {p99[1]:.0f} us beside hostile ones, x {p99[1] / p99[0]:.2f}; "
          f"{loud['requests']:,} answers, {errors} errors")
    failed |= errors > 0 or p99[1] > 2 * p99[0]
hostile = read("hostile-itself")
print(f"hostile: {hostile['requests']:,} valid answers, errors {hostile['errors_by_kind']}")
print("soak-wasm:", "FAILED" if failed else "all held")
sys.exit(1 if failed else 0)
JUDGE
}

main
