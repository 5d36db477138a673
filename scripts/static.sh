#!/usr/bin/env bash
# Builds the statically linked program for serving, accelerating and loading, and tests it without other
# files: chroot makes a directory with the program and a few files the root. Only /proc and /dev/null of the
# machine are available, as in every container.
#
#   scripts/static.sh                   builds and tests it
#   scripts/static.sh --check PROGRAM   tests an existing program
#
# The program is in x86_64-unknown-linux-musl/PROFILE/touchstone below the target directory (PROFILE of
# the environment; `release` by default), with its symbols in touchstone.debug beside it. docs/static.md
# describes its functions and limits. Exit code 3: it cannot be tested here, because mount namespaces are not
# available.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

triple=$(uname -m)-unknown-linux-musl
profile=${PROFILE:-release}
# The maximum size of the released program: a larger one contains debug information, which has its own file.
most_bytes=46000000

main() {
    case "${1:-}" in
        '') build; check "$target/$triple/$profile/touchstone" ;;
        --check) check "${2:?--check needs a program}" ;;
        *) echo "static: unknown argument $1" >&2; return 2 ;;
    esac
}

build() {
    if ! command -v musl-gcc >/dev/null; then
        echo "static: the C compiler for musl is missing: apt-get install musl-tools" >&2
        return 1
    fi
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ]; then
        echo "static: installing Rust's library for $triple"
        rustup target add "$triple" || {
            echo "static: Rust's library for $triple is missing: rustup target add $triple" >&2
            return 1
        }
    fi
    cargo build --profile "$profile" --locked -p touchstone --target "$triple"
    scripts/split-debug.sh "$target/$triple/$profile/touchstone"
}

# --- trying ---------------------------------------------------------------------------------------------

root=
servers=()

end() {
    local server
    for server in "${servers[@]}"; do
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    done
    [ -n "$root" ] || return 0
    umount -l "$root/proc" "$root/dev/null" || true
    rm -rf --one-file-system "$root"
}

fail() {
    echo "static: $*" >&2
    [ ! -s "$root.log" ] || sed 's/^/static:   /' "$root.log" >&2
    exit 1
}

# Runs the program in the empty root.
inside() {
    chroot "$root" /touchstone "$@"
}

# start NAME ARGUMENTS...: starts a server in the empty root; its first URL is in $url.
start() {
    local name=$1 waited
    shift
    inside "$@" >"$root/log/$name.out" 2>"$root/log/$name" </dev/null &
    servers+=($!)
    for ((waited = 0; waited < 300; waited++)); do
        url=$(sed -n 's/.*listening on \(https\{0,1\}:[^ ,"]*\).*/\1/p' "$root/log/$name" | head -n 1)
        [ -z "$url" ] || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    cp "$root/log/$name" "$root.log"
    fail "'touchstone $*' does not start in an empty root"
}

check() {
    local program=$1 bytes expected=home answer key
    [ -f "$program" ] || { echo "static: there is no program $program (make static)" >&2; return 1; }
    if readelf --program-headers "$program" | grep -q INTERP; then fail "$program needs a dynamic linker"; fi
    if readelf --dynamic "$program" | grep -q NEEDED; then fail "$program needs shared libraries"; fi
    bytes=$(stat -c %s "$program")
    if readelf --sections "$program" | grep -q '\.gnu_debuglink' && [ "$bytes" -gt "$most_bytes" ]; then
        fail "$program has $bytes bytes, more than $most_bytes"
    fi
    if [ -z "${STATIC_NAMESPACE:-}" ]; then
        local namespaces=(--mount)
        [ "$(id -u)" = 0 ] || namespaces+=(--user --map-root-user)
        if ! unshare "${namespaces[@]}" true 2>/dev/null; then
            echo "static: it cannot be tested: mount namespaces need root or user namespaces" >&2
            return 3
        fi
        STATIC_NAMESPACE=yes exec unshare "${namespaces[@]}" "$0" --check "$program"
    fi

    root=$(mktemp -d)
    trap end EXIT
    mkdir "$root/site" "$root/log" "$root/proc" "$root/dev"
    : >"$root/dev/null"
    mount --rbind /proc "$root/proc"
    mount --bind /dev/null "$root/dev/null"
    cp "$program" "$root/touchstone"
    echo $expected >"$root/site/index.html"
    make_certificates "$root"
    [ "$(inside --version | cut -d' ' -f1)" = touchstone ] || fail "--version"

    # Files, over TLS, in HTTP/1.1 and HTTP/2.
    start serve serve --root /site --listen 127.0.0.1:0 --cert /tls.pem --key /tls.key --access-log off
    local served=$url
    for version in --http1.1 --http2; do
        answer=$(curl -sS --noproxy '*' --cacert "$root/ca.pem" $version "$served/" || true)
        [ "$answer" = $expected ] || fail "files over TLS ($version): '$answer'"
    done

    # A configuration, with an origin whose TLS is verified, a reload, and the cache before it.
    write_configuration "$served"
    inside check --config /site.toml >"$root.log" 2>&1 || fail "a configuration is refused"
    start proxy serve --config /site.toml
    for expected_cache in miss hit; do
        curl -sS --noproxy '*' -D "$root/log/head" -o "$root/log/body" "$url/" || true
        [ "$(cat "$root/log/body")" = $expected ] || fail "the accelerator answers '$(cat "$root/log/body")'"
        case "$expected_cache $(grep -i '^cache-status' "$root/log/head")" in
            "miss "*miss* | "miss "*fwd=* | "hit "*hit*) ;;
            *) fail "the accelerator did not say '$expected_cache': $(cat "$root/log/head")" ;;
        esac
    done
    inside reload --config /site.toml >"$root.log" 2>&1 || fail "reload"
    inside status --config /site.toml >"$root.log" 2>&1 || fail "status"

    # The short form of the accelerator, and the load engine over TLS.
    start plain serve --root /site --listen 127.0.0.1:0 --access-log off
    start accelerate accelerate --origin "$url" --listen 127.0.0.1:0
    [ "$(curl -sS --noproxy '*' "$url/")" = $expected ] || fail "accelerate"
    inside load "$served/" --ca /ca.pem --http2 --clients 2 --requests 200 --json \
        >"$root/log/load" 2>"$root.log" || fail "load"
    grep -q '"errors": *0\b' "$root/log/load" || fail "load has errors: $(head -c 600 "$root/log/load")"

    # Keys that need a dynamic linker are refused, with an alternative.
    for key in "servlet = { app = '/app.war' }" "python = { app = 'app:application' }" \
        "nsapi = { obj_conf = '/obj.conf' }"; do
        printf '[[site]]\nlisten = ["127.0.0.1:0"]\nroot = "/site"\n[[site.route]]\npath = "/a/"\n%s\n' \
            "$key" >"$root/refused.toml"
        if inside check --config /refused.toml >"$root.log" 2>&1; then fail "not refused: $key"; fi
        grep -q "refused.toml:6:.*'${key%% *}': this program is linked statically and cannot load" \
            "$root.log" || fail "refused without a reason: $key"
    done
    inside stop --config /site.toml >"$root.log" 2>&1 || fail "stop"
    check_container $expected
    rm -f "$root.log"
    echo "static: $program ($bytes bytes) serves, accelerates and loads without other files"
}

# Builds packaging/Containerfile.static without a network and runs it, where buildah is installed.
check_container() {
    if ! command -v buildah >/dev/null || [ "$(id -u)" != 0 ]; then
        echo "static: the container is not tested (install buildah, and run as root)"
        return 0
    fi
    mkdir "$root/context" "$root/store"
    cp "$root/touchstone" "$root/context/"
    local store=(buildah --root "$root/store/images" --runroot "$root/store/run" --storage-driver vfs)
    "${store[@]}" build --isolation chroot -f packaging/Containerfile.static -t trial "$root/context" \
        >"$root.log" 2>&1 || fail "the container is not built"
    local container waited
    container=$("${store[@]}" from --pull-never trial)
    # As the user of the image, with the command of the image except for the port.
    "${store[@]}" run --isolation chroot --volume "$root/site:/srv/www:ro" "$container" -- \
        /touchstone serve --root /srv/www --listen 127.0.0.1:0 >"$root/log/container" 2>&1 </dev/null &
    servers+=($!)
    url=
    for ((waited = 0; waited < 300 && ${#url} == 0; waited++)); do
        sleep 0.1
        url=$(sed -n 's/.*listening on \(http:[^ ,"]*\).*/\1/p' "$root/log/container" | head -n 1)
    done
    cp "$root/log/container" "$root.log"
    [ "$(curl -sS --noproxy '*' "$url/")" = "$1" ] || fail "the container does not serve"
    end_container
    "${store[@]}" rm --all >/dev/null && "${store[@]}" rmi --all --force >/dev/null
    echo "static: packaging/Containerfile.static is built and serves"
}

# Ends the server in the container: it is a child of buildah's.
end_container() {
    local buildah=${servers[-1]} child
    for child in $(descendants "$buildah"); do kill "$child" 2>/dev/null || true; done
    wait "$buildah" 2>/dev/null || true
    unset 'servers[-1]'
}

descendants() {
    local child
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        descendants "$child"
        echo "$child"
    done
}

# An authority, and a certificate of it for localhost and 127.0.0.1.
make_certificates() {
    (
        cd "$1"
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "/CN=trial" \
            -keyout ca.key -out ca.pem
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=localhost" \
            -keyout tls.key -out tls.csr
        printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >names
        openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
            -out tls.pem
    ) >"$1.log" 2>&1 || fail "openssl"
    rm -f "$1/ca.key" "$1/tls.csr" "$1/names" "$1/ca.srl"
}

write_configuration() {
    cat >"$root/site.toml" <<END
[server]
control_socket = "/control.sock"

[[site]]
listen = ["127.0.0.1:0"]
root = "/site"

[[site.route]]
path = "/"
cache = { default_freshness = "1m" }

[site.route.proxy]
to = "$1"

[site.route.proxy.tls]
authorities = "/ca.pem"
END
}

main "$@"
