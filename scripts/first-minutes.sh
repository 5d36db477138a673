#!/usr/bin/env bash
# Measures the duration of the first steps on a clean Debian: runs the commands of
# docs/first-minutes.md in a root that debootstrap has just created, and prints each line with its time.
#
#   scripts/first-minutes.sh PROGRAM [wordpress] [accelerate] [demo]
#
# PROGRAM is a Debian package of `make package`, or a program (of `make build` or `make static`), for the
# parts `wordpress` (a WordPress with TLS of a private CA) and `accelerate` (an application behind the
# cache). `demo` builds this tree and runs `make demo` in the clean root; with PROGRAM `-` it is the only part
# that can be run. Without parts all of them are run.
#
# It needs root and debootstrap (apt-get install debootstrap), and a connection to Debian's archive; `demo`
# also one to static.rust-lang.org and crates.io. MIRROR and SUITE name another archive or version of Debian,
# WORK another directory than a temporary one, which must have 3 GB (15 GB for `demo`).
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

mirror=${MIRROR:-http://deb.debian.org/debian}
suite=${SUITE:-bookworm}
host=blog.example.org
port=18443

main() {
    [ $# -gt 0 ] || { sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; return 2; }
    local program=$1 part
    shift
    [ $# -gt 0 ] || set -- wordpress accelerate demo
    for part in "$@"; do
        case $part in
            wordpress | accelerate)
                [ -f "$program" ] || { echo "first-minutes: no file $program" >&2; return 2; } ;;
            demo) ;;
            *) echo "first-minutes: unknown part $part" >&2; return 2 ;;
        esac
    done
    [ "$(id -u)" = 0 ] || { echo "first-minutes: only root can use chroot" >&2; return 2; }
    command -v debootstrap >/dev/null ||
        { echo "first-minutes: install debootstrap" >&2; return 2; }
    # Mounts and processes of the clean root end with this namespace.
    if [ -z "${FIRST_MINUTES_INSIDE:-}" ]; then
        FIRST_MINUTES_INSIDE=yes exec unshare --mount --pid --fork --kill-child \
            "${BASH_SOURCE[0]}" "$program" "$@"
    fi
    mount --make-rprivate /
    work=${WORK:-$(mktemp -d /var/tmp/first-minutes-XXXXXX)}
    mkdir -p "$work"
    trap 'finish' EXIT
    for part in "$@"; do
        fresh_root "$part"
        echo
        echo "== $part"
        began=$SECONDS
        "$part" "$program"
        echo "== $part: $(minutes $((SECONDS - began))) in all, $typed lines typed"
    done
}

finish() {
    local at
    for at in "$work"/*/proc; do umount "$at" 2>/dev/null || true; done
    [ -n "${WORK:-}" ] || rm -rf --one-file-system "$work"
}

# A root with Debian's smallest system, as in a container. Its creation is not timed.
fresh_root() {
    typed=0
    root=$work/$1
    rm -rf --one-file-system "$root"
    echo "first-minutes: creating a clean $suite (not timed)"
    debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 ||
        { tail -n 5 "$work/debootstrap.log" >&2; return 1; }
    mount -t proc proc "$root/proc"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    # As in containers: packages start no services.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
}

# Prints a command line, runs it in the clean root, and measures its time.
type_in() {
    local from=$SECONDS status=0
    typed=$((typed + 1))
    printf '$ %s\n' "$1"
    run_in "$1" >"$work/output" 2>&1 || status=$?
    tail -n "${2:-3}" "$work/output" | sed 's/^/    /'
    printf '    (%s)\n' "$(minutes $((SECONDS - from)))"
    [ $status = 0 ] || { echo "first-minutes: the line failed with exit code $status" >&2; exit 1; }
}

run_in() {
    chroot "$root" /usr/bin/env -i HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/root/.cargo/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        bash -c "cd /root && $1"
}

minutes() { printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); }

# Copies the program onto the machine; the transfer (scp, a download) is not measured.
install_program() {
    case $1 in
        *.deb)
            cp "$1" "$root/root/touchstone.deb"
            type_in 'apt-get install --yes --no-install-recommends ./touchstone.deb' ;;
        *)
            cp "$1" "$root/root/touchstone"
            type_in 'install -m 755 touchstone /usr/bin/touchstone' ;;
    esac
}

wordpress() {
    type_in 'apt-get update && apt-get install --yes --no-install-recommends wordpress \
    wordpress-theme-twentytwentythree php-fpm php-mysql mariadb-server curl openssl'
    install_program "$1"
    type_in 'service mariadb start'
    type_in "mariadb -e \"CREATE DATABASE wordpress; GRANT ALL ON wordpress.* TO wordpress@localhost \
IDENTIFIED BY 'trial'\""
    type_in "cat >/etc/wordpress/config-$host.php <<'END'
<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'wordpress');
define('DB_PASSWORD', 'trial');
define('DB_HOST', 'localhost');
define('WP_CONTENT_DIR', '/var/lib/wordpress/wp-content');
END"
    type_in "openssl req -x509 -newkey rsa:2048 -nodes -days 365 -subj '/CN=Our authority' \
-keyout ca.key -out ca.pem" 1
    type_in "openssl req -newkey rsa:2048 -nodes -subj '/CN=$host' -keyout blog.key -out blog.csr" 1
    type_in "openssl x509 -req -in blog.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 90 \
-extfile <(echo subjectAltName=DNS:$host) -out site.pem && cat site.pem ca.pem >blog.pem" 1
    type_in "touchstone init --yes --kind php --root /usr/share/wordpress --php managed --host $host \
--tls files --cert blog.pem --key blog.key --listen 127.0.0.1:$port"
    type_in 'touchstone check --config touchstone.toml'
    serve 'touchstone serve --config touchstone.toml'
    local curl="curl --silent --show-error --cacert ca.pem --resolve $host:$port:127.0.0.1"
    type_in "$curl -d 'weblog_title=Trial&user_name=ann&admin_password=long-enough-1&pw_weak=1\
&admin_password2=long-enough-1&admin_email=ann@example.org' \
'https://$host:$port/wp-admin/install.php?step=2' | grep -o '<h1>Success!</h1>'"
    type_in "$curl https://$host:$port/ | grep -o '<title>[^<]*</title>'"
    type_in 'touchstone stop --config touchstone.toml'
    run_in 'service mariadb stop' >/dev/null 2>&1 || true
}

accelerate() {
    type_in 'apt-get update && apt-get install --yes --no-install-recommends python3 curl'
    install_program "$1"
    # An application that needs half a second for a page.
    cat >"$root/root/application.py" <<'END'
import http.server, time

class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        time.sleep(0.5)
        body = b"a page that takes half a second\n"
        self.send_response(200)
        self.send_header("Cache-Control", "max-age=60")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", 13000), Page).serve_forever()
END
    run_in 'exec python3 application.py' >/dev/null 2>&1 &
    serve 'touchstone accelerate --origin http://127.0.0.1:13000 --listen 127.0.0.1:18080'
    type_in "curl -s -o /dev/null -w '%{http_code} %{time_total}\n' http://127.0.0.1:18080/"
    type_in "curl -s -o /dev/null -w '%{http_code} %{time_total}\n' http://127.0.0.1:18080/"
    type_in 'touchstone load http://127.0.0.1:18080/ --clients 8 --duration 2s' 12
    kill %% 2>/dev/null || true
}

demo() {
    # From a fresh clone: the files of this tree in git, and no files that were built here.
    mkdir "$root/root/touchstone"
    git -C "$top" archive --format=tar HEAD | tar -x -C "$root/root/touchstone"
    type_in 'apt-get update && apt-get install --yes --no-install-recommends make curl ca-certificates'
    # The line of https://rustup.rs is `curl https://sh.rustup.rs | sh`; this is the program that it fetches.
    type_in "curl --silent --show-error --fail -o rustup-init \
https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init && chmod +x rustup-init \
&& ./rustup-init -y --profile minimal --default-toolchain $pinned_rust"
    type_in 'cd touchstone && make demo' 8
    type_in 'ls -l touchstone/results/*/report.html'
}

# Starts a server, and waits until it listens.
serve() {
    local from=$SECONDS waited
    typed=$((typed + 1))
    printf '$ %s &\n' "$1"
    run_in "exec $1" >"$work/server" 2>&1 </dev/null &
    for ((waited = 0; waited < 300; waited++)); do
        if grep -q 'listening on' "$work/server"; then
            grep 'listening on' "$work/server" | sed 's/^/    /'
            printf '    (%s)\n' "$(minutes $((SECONDS - from)))"
            return 0
        fi
        kill -0 $! 2>/dev/null || break
        sleep 0.1
    done
    sed 's/^/    /' "$work/server"
    echo "first-minutes: the server does not listen" >&2
    exit 1
}

main "$@"
