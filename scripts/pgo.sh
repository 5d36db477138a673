#!/usr/bin/env bash
# Builds the program with profile-guided optimisation: an instrumented build serves and loads representative
# work, and the compiler then arranges the program by what ran and how often.
#
#   scripts/pgo.sh           all steps
#   scripts/pgo.sh profile   builds the instrumented program, trains it, and merges its profile
#   scripts/pgo.sh train     trains the instrumented program that exists, and merges its profile
#   scripts/pgo.sh build     builds the optimised program with the profile that exists
#
# Environment: PROFILE, the build profile (release); FEATURES, features of the program (none), for example
# wasm; SECONDS_EACH, the length of each load of the training (3).
#
# The program is in pgo/ below the target directory, with its symbols in touchstone.debug beside it.
# `scripts/package.sh --program FILE` packages it. Exit code 3: a tool is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

profile=${PROFILE:-release}
seconds=${SECONDS_EACH:-3}
directory=$target/pgo
raw=$directory/raw
triple=$(rustc -vV | sed -n 's/^host: //p')
built=$directory/build/$triple/$profile/touchstone
instrumented=$directory/instrumented

main() {
    find_profdata
    mkdir -p "$directory"
    case "${1:-}" in
        '') build_instrumented; train; build_optimised ;;
        profile) build_instrumented; train ;;
        train) train ;;
        build) build_optimised ;;
        *) echo "pgo: unknown argument $1" >&2; return 2 ;;
    esac
}

# The llvm-profdata that reads the profiles of this compiler.
find_profdata() {
    profdata=$(rustc --print sysroot)/lib/rustlib/$triple/bin/llvm-profdata
    [ ! -x "$profdata" ] || return 0
    local wanted
    wanted=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
    for profdata in "llvm-profdata-$wanted" llvm-profdata; do
        if "$profdata" --version 2>/dev/null | grep -q "LLVM version $wanted\."; then return 0; fi
    done
    echo "pgo: llvm-profdata of LLVM $wanted is missing: rustup component add llvm-tools" >&2
    return 3
}

# build NAME FLAGS...: builds the program with additional flags of the compiler. They apply to the program
# only, not to build scripts and macros, because the target is named.
build() {
    local separator=$'\x1f' flags=${CARGO_ENCODED_RUSTFLAGS:-} flag
    [ -n "$flags" ] || flags=${RUSTFLAGS:+${RUSTFLAGS// /$separator}}
    for flag in "$@"; do flags+=${flags:+$separator}$flag; done
    CARGO_ENCODED_RUSTFLAGS=$flags cargo build --profile "$profile" --locked -p touchstone \
        --target "$triple" --target-dir "$directory/build" ${FEATURES:+--features "$FEATURES"}
}

# The names of functions in the profile depend on the settings of the build profile, and thus both builds have
# the same ones. Only link-time optimisation is turned off: it takes long, and instrumentation precedes it.
build_instrumented() {
    echo "pgo: building the instrumented program"
    build "-Cprofile-generate=$raw" -Clinker-plugin-lto=off -Clto=off
    cp "$built" "$instrumented"
}

build_optimised() {
    local merged
    merged=$(find "$directory" -maxdepth 1 -name '*.profdata' -print -quit)
    [ -n "$merged" ] || { echo "pgo: there is no profile: scripts/pgo.sh profile" >&2; return 1; }
    echo "pgo: building the optimised program with $merged"
    build "-Cprofile-use=$merged"
    rm -f "$directory/touchstone"
    cp "$built" "$directory/touchstone"
    scripts/split-debug.sh "$directory/touchstone"
    echo "pgo: $directory/touchstone ($(stat -c %s "$directory/touchstone") bytes)"
}

# --- training -------------------------------------------------------------------------------------------

scratch=
servers=()

end() {
    stop_servers
    [ -z "$scratch" ] || rm -rf "$scratch"
}

stop_servers() {
    local server
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    for server in "${servers[@]}"; do wait "$server" || true; done
    servers=()
}

# start ARGUMENTS...: starts a server; its first URL is in $url.
start() {
    local waited log=$scratch/log/${#servers[@]}
    "$instrumented" "$@" >"$log" 2>&1 </dev/null &
    servers+=($!)
    for ((waited = 0; waited < 300; waited++)); do
        url=$(sed -n 's/.*listening on \(https\{0,1\}:[^ ,"]*\).*/\1/p' "$log" | head -n 1)
        [ -z "$url" ] || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    echo "pgo: 'touchstone $*' does not start:" >&2
    cat "$log" >&2
    return 1
}

# load URL OPTIONS...: the load engine is trained as well.
load() {
    echo "pgo: load $*"
    # An error is shown, but training goes on: the other work is as useful.
    "$instrumented" load "$@" --duration "${seconds}s" --json >"$scratch/log/load" 2>&1 ||
        { echo "pgo: this load has failed:" >&2; tail -n 3 "$scratch/log/load" >&2; }
}

# suite NAME CLIENTS: a suite of the laboratory. One that needs what is not installed here is only named.
suite() {
    echo "pgo: suite $1"
    "$instrumented" bench "$1" --quick --clients "$2" --length "${seconds}s" --ramp-up 300ms \
        --ramp-down 100ms --progress plain --output "$scratch/$1" >"$scratch/log/$1" 2>&1 ||
        { echo "pgo: this suite was not carried out:" >&2; tail -n 1 "$scratch/log/$1" >&2; }
}

train() {
    if ! [ -x "$instrumented" ]; then
        echo "pgo: there is no instrumented program: scripts/pgo.sh profile" >&2
        return 1
    fi
    rm -rf "$raw"
    mkdir -p "$raw"
    # The server may run as another user than the load engine, and both add to the same file.
    chmod 1777 "$raw"
    umask 000
    export LLVM_PROFILE_FILE="$raw/%m.profraw"
    scratch=$(mktemp -d)
    trap end EXIT
    mkdir "$scratch/log"
    make_site "$scratch/site"
    train_files
    train_tls
    train_origins
    scripts/java.sh --brief || [ $? = 3 ]
    local interface
    for interface in shtml cgi fastcgi nsapi-c servlet jsp wsgi asgi; do suite "spice-$interface" 1,16; done
    if [[ ${FEATURES:-} = *wasm* ]]; then suite spice-wasm 1,16; fi
    suite api-json 16
    suite page-2025 16,64
    suite page-2025-h3 16
    suite tls-full 16
    merge
}

merge() {
    local merged=$directory/merged
    "$profdata" merge --output "$merged" "$raw"
    # Cargo builds again only if the name changes.
    rm -f "$directory"/*.profdata
    mv "$merged" "$directory/$(sha256sum "$merged" | cut -c 1-16).profdata"
}

# Files of 64 bytes to 1 MiB, a page with directives, and the list of their weights.
make_site() {
    mkdir "$1"
    local number
    for ((number = 0; number < 30; number++)); do
        head -c $((64 << number % 11)) /dev/zero | tr '\0' x >"$1/file$number.html"
        echo "$((30 - number)) /file$number.html"
    done >"$1/urls"
    head -c 6250 /dev/zero | tr '\0' x >"$1/page.html"
    head -c 1048576 /dev/zero | tr '\0' x >"$1/large.html"
    { echo '<!--#echo var="DATE_LOCAL" -->'; cat "$1/page.html"; } >"$1/page.shtml"
    printf '40 /page.html\n2 /missing.html\n' >>"$1/urls"
    chmod -R a+rX "$1"
}

train_files() {
    local urls=$scratch/site/urls
    start serve --root "$scratch/site" --listen 127.0.0.1:0 --cores 1 --access-log "$scratch/log/access"
    load "$url/page.html" --clients 64
    load "$url/page.html" --clients 64 --new-connections
    load "$url/" --urls "$urls" --expect-status 200,404 --clients 32
    load "$url/" --urls "$urls" --expect-status 200,404 --clients 32 --new-connections --http1.0
    load "$url/page.html" --clients 64 --pipeline 8
    load "$url/page.html" --clients 64 --streams 16 --http2
    load "$url/page.shtml" --clients 32
    load "$url/large.html" --clients 8
    load "$url/page.html" --clients 16 --header 'Accept-Encoding: br, gzip'
    load "$url/page.html" --clients 16 --header 'Range: bytes=100-999'
    load "$url/page.html" --clients 16 --header 'If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT' \
        --expect-status 304
    stop_servers
}

train_tls() {
    local urls=$scratch/site/urls tls=(--insecure)
    start serve --root "$scratch/site" --listen 127.0.0.1:0 --cores 1 --development-certificate --http3
    load "$url/page.html" "${tls[@]}" --clients 64
    load "$url/page.html" "${tls[@]}" --clients 32 --new-connections
    load "$url/page.html" "${tls[@]}" --clients 32 --new-connections --resumption-share 0 --tls 1.2
    load "$url/" "${tls[@]}" --urls "$urls" --expect-status 200,404 --clients 32
    load "$url/page.html" "${tls[@]}" --clients 128 --streams 16 --http2
    load "$url/" "${tls[@]}" --urls "$urls" --expect-status 200,404 --clients 128 --streams 16 --http2
    load "$url/page.html" "${tls[@]}" --clients 64 --streams 16 --http3
    load "$url/" "${tls[@]}" --urls "$urls" --expect-status 200,404 --clients 64 --streams 16 --http3
    load "$url/large.html" "${tls[@]}" --clients 8
    load "$url/large.html" "${tls[@]}" --clients 8 --streams 4 --http3
    stop_servers
}

# The accelerator and the proxy, before a server of files.
train_origins() {
    local urls=$scratch/site/urls origin
    start serve --root "$scratch/site" --listen 127.0.0.1:0 --cores 1
    origin=$url
    start accelerate --origin "$origin" --listen 127.0.0.1:0 --cores 1
    load "$url/page.html" --clients 64
    load "$url/" --urls "$urls" --expect-status 200,404 --clients 32
    load "$url/page.html" --clients 32 --new-connections
    cat >"$scratch/proxy.toml" <<END
[server]
cores = 1

[[site]]
listen = ["127.0.0.1:0"]

[[site.route]]
path = "/"
proxy = { to = "$origin" }
END
    start serve --config "$scratch/proxy.toml"
    load "$url/page.html" --clients 64
    load "$url/" --urls "$urls" --expect-status 200,404 --clients 32
    load "$url/page.html" --clients 32 --new-connections
    load "$url/large.html" --clients 8
    stop_servers
}

main "$@"
