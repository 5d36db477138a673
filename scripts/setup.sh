#!/usr/bin/env bash
# Installs the tools of the build, the tests and the demo, or lists the missing ones and the command to
# install them.
#
#   scripts/setup.sh              installs the tools of the build, the tests and the demo
#   scripts/setup.sh --demo       installs the tools of the build and the demo; lists other servers to measure
#   scripts/setup.sh --rivals     also installs the other servers to measure against
#   scripts/setup.sh --brief      prints nothing if all is installed (other targets of the Makefile use it)
#
# If all is installed, it changes nothing. It fails only if a tool of the build is missing; without the other
# tools, tests print SKIPPED and the demo omits a server.
#
# Environment: SETUP_INSTALL=no never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
export LC_ALL=C

# need | commands, of which one is sufficient, or a file | Debian packages | purpose
# need: building (must be installed), demo (installed for the demo), offered (named by the demo), testing
# (installed for the tests, as are the two before), rival (installed with --rivals)
tools() {
    cat <<'END'
building|cc|gcc libc6-dev|linking
building|make|make|the Makefile
building|pkg-config|pkg-config|finding C libraries
building|/etc/ssl/certs/ca-certificates.crt|ca-certificates|fetching crates
testing|curl|curl|end-to-end tests
testing|openssl|openssl|end-to-end tests
offered|nginx|nginx|the demo's second server
offered|apache2|apache2|the oracle of pages with directives; a system under test
testing|wrk|wrk|comparing the load engine
testing|/usr/lib/python3/dist-packages/prometheus_client|python3-prometheus-client|reading the metrics
testing|php-fpm php-fpm8.2 /usr/sbin/php-fpm8.2|php-fpm|PHP
demo|/usr/include/fcgi_stdio.h|libfcgi-dev|FastCGI programs in C
testing|uwsgi|uwsgi-core uwsgi-plugin-python3|an SCGI server; a system under test
offered|javac|openjdk-17-jdk-headless|servlets
offered|mvn|maven|building the jars for servlets
testing|zsh|zsh|completions
testing|fish|fish|completions
testing|groff|groff-base|manual pages
testing|/usr/lib/python3/dist-packages/markdown|python3-markdown|the book as a site
testing|unzip|unzip|applications for the tests of servlets
testing|strace|strace|counting system calls
testing|rsyslogd|rsyslog|messages of syslog as another program reads them
testing|prometheus|prometheus|figures of a load while it runs
testing|systemd-socket-activate|systemd|tests of socket activation and of the units
testing|python3|python3 python3-venv|the HTTP/3 client of the tests, gRPC, WebSockets
testing|/usr/share/doc/libpython3.11|libpython3.11|Python applications
testing|/usr/lib/python3/dist-packages/uvloop|python3-uvloop|the event loop of applications in Python
testing|node|nodejs|the public tests for HTTP caches
testing|npm|npm|public tests for HTTP caches and fields for browsers, bots, the report's accessibility
testing|java|default-jre-headless|servlet containers
testing|minisign|minisign|signatures of certified results
testing|soffice libreoffice|libreoffice-calc|opening the workbook
testing|chromium chromium-browser google-chrome|chromium|looking at the report, and at applications
testing|/usr/sbin/sshd|openssh-server openssh-client|systems on another machine
testing|h2o|h2o|a system under test
testing|lighttpd|lighttpd|a system under test
testing|/usr/lib/apache2/modules/mod_wsgi.so|libapache2-mod-wsgi-py3|a system under test
testing|ip|iproute2|load machines in network namespaces
testing|nft|nftables|a network without UDP
testing|faketime|faketime|a clock that is set back
testing|slurmctld|slurm-wlm munge|load machines under Slurm
testing|varnishd|varnish|a system under test
testing|/usr/lib/postgresql|postgresql|a database behind a stream
testing|/usr/sbin/dovecot|dovecot-imapd|a mail server behind a stream
testing|/usr/sbin/dnsmasq|dnsmasq-base|DNS behind a stream
testing|dig|bind9-dnsutils|DNS behind a stream, and records of proofs
testing|/usr/sbin/knotd|knot|certificates by proofs in DNS
testing|/usr/sbin/named|bind9|certificates by proofs in DNS
testing|/usr/lib/nginx/modules/ngx_stream_module.so|libnginx-mod-stream|streams of nginx that are imported
testing|litmus|litmus|the test suite for WebDAV servers
testing|cadaver|cadaver|a client for WebDAV
testing|rclone|rclone|a client for WebDAV that keeps trees the same
testing|/usr/sbin/mount.davfs|davfs2|a WebDAV server that is mounted
rival|haproxy|haproxy|a system under test
testing|caddy|caddy|Caddyfiles that are imported; a system under test
rival|traffic_server|trafficserver|a system under test
rival|squid /usr/sbin/squid|squid|a system under test
testing|buildah|buildah|the container of the static program
rival|ab|apache2-utils|a load generator
rival|h2load|nghttp2-client|a load generator
END
}

# program | Go module and version | purpose
# They are installed if Go is installed; the Go of Debian 12 is too old.
go_programs() {
    cat <<'END'
pebble|github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.1|certificates by ACME
pebble-challtestsrv|github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.1|certificates by ACME
nats-server|github.com/nats-io/nats-server/v2@v2.15.2|the fleet's broker
oauth2-proxy|github.com/oauth2-proxy/oauth2-proxy/v7@v7.15.6|a server that decides which requests pass
END
}

main() {
    local brief=no rivals=no demo=no argument
    for argument in "$@"; do
        case $argument in
            --brief) brief=yes ;;
            --rivals) rivals=yes ;;
            --demo) demo=yes brief=yes ;;
            -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; return 0 ;;
            *) echo "setup: unknown argument $argument (see scripts/setup.sh --help)" >&2; return 2 ;;
        esac
    done

    local wanted="building demo offered testing"
    [ $rivals = no ] || wanted="$wanted rival"
    [ $demo = no ] || wanted="building demo"
    local before after
    before=$(missing "$wanted")
    if [ -n "$before" ] && [ "${SETUP_INSTALL:-yes}" != no ] && ! tried_in_vain $brief "$before"; then
        install_packages "$before"
    fi
    install_rust || true
    if [ $demo = yes ]; then
        finish_demo "$(missing "$wanted")"
        return
    fi
    install_go_programs $brief
    scripts/java.sh --brief || true
    if [ $brief = no ]; then scripts/setup-http3.sh; else scripts/setup-http3.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-grpc.sh; else scripts/setup-grpc.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-websockets.sh; else scripts/setup-websockets.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-collector.sh; else scripts/setup-collector.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-otlp.sh; else scripts/setup-otlp.sh --brief; fi || true
    if [ $brief = no ]; then
        scripts/setup-cache-tests.sh
    else
        scripts/setup-cache-tests.sh --brief
    fi || true
    if [ $brief = no ]; then scripts/setup-axe.sh; else scripts/setup-axe.sh --brief; fi || true
    if [ $brief = no ]; then
        scripts/setup-observatory.sh
    else
        scripts/setup-observatory.sh --brief
    fi || true
    if [ $brief = no ]; then
        scripts/setup-web-bot-auth.sh
    else
        scripts/setup-web-bot-auth.sh --brief
    fi || true
    if [ $brief = no ]; then scripts/setup-geoip.sh; else scripts/setup-geoip.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-keycloak.sh; else scripts/setup-keycloak.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-tomcat.sh; else scripts/setup-tomcat.sh --brief; fi || true
    if [ $brief = no ]; then
        scripts/setup-python-servers.sh
    else
        scripts/setup-python-servers.sh --brief
    fi || true
    if [ $brief = no ]; then
        scripts/setup-python-applications.sh
    else
        scripts/setup-python-applications.sh --brief
    fi || true
    if [ $brief = no ]; then scripts/setup-components.sh; else scripts/setup-components.sh --brief; fi || true
    if [ $rivals = yes ]; then scripts/setup-jetty.sh; fi || true
    if [ $rivals = yes ]; then scripts/setup-load-tools.sh --brief; fi || true
    if [ $rivals = yes ]; then scripts/setup-h2load-http3.sh --brief; fi || true
    if [ $brief = no ]; then scripts/setup-java.sh; else scripts/setup-java.sh --brief; fi || true
    after=$(missing "$wanted")
    remember_attempt "$after"

    if [ $brief = no ] || [ -n "$after" ] || [ "$before" != "$after" ] || ! rust_works; then
        print_table "$before"
        print_advice "$after" $rivals
    fi
    rust_works && [ -z "$(missing building)" ]
}

# The end of `setup.sh --demo`: prints which other servers could be measured, and whether the program can be
# built.
finish_demo() {
    local offered
    offered=$(missing offered)
    [ -z "$offered" ] ||
        echo "setup: the demo also measures nginx, Apache httpd and Java servlets where they are installed:" \
            "apt-get install ${offered% }"
    [ -z "$1" ] || print_advice "$1" yes
    rust_works && [ -z "$(missing building)" ]
}

# --- looking --------------------------------------------------------------------------------------------

# found "cc" | found "a b c" | found "/a/file": is one of them there?
found() {
    local candidate
    for candidate in $1; do
        case $candidate in
            /*) [ -e "$candidate" ] && return 0 ;;
            *) command -v "$candidate" >/dev/null && return 0 ;;
        esac
    done
    return 1
}

# The packages of the given needs whose tools are missing, one word each.
missing() {
    local need look packages purpose
    tools | while IFS='|' read -r need look packages purpose; do
        case " $1 " in *" $need "*) found "$look" || printf '%s ' "$packages" ;; esac
    done
}

# Whether the required Rust is installed, with the two components that `make lint` uses: through rustup the
# pinned version, otherwise that version or a later one.
rust_works() {
    local version
    if command -v rustup >/dev/null; then
        # Checked first, because rustc would fetch a missing toolchain.
        [ -n "${RUSTUP_TOOLCHAIN:-}" ] ||
            rustup toolchain list 2>/dev/null | grep -q "^$pinned_rust" || return 1
    fi
    version=$(rustc --version 2>/dev/null | cut -d' ' -f2) && [ -n "$version" ] || return 1
    [ "$(printf '%s\n%s\n' "$pinned_rust" "$version" | sort -V | head -n 1)" = "$pinned_rust" ] || return 1
    command -v cargo >/dev/null &&
        cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1
}

print_table() {
    local before=" $1 " need look packages purpose state
    printf '%-16s %-28s %-10s %s\n' tool for need state
    state=missing
    rust_works && state=found
    printf '%-16s %-28s %-10s %s\n' "rust $pinned_rust" building needed $state
    tools | while IFS='|' read -r need look packages purpose; do
        state=missing
        if found "$look"; then
            state=found
            case $before in *" ${packages%% *} "*) state=installed ;; esac
        fi
        case $need in building) need=needed ;; *) need=optional ;; esac
        case $look in /*) look=$packages ;; esac
        printf '%-16s %-28s %-10s %s\n' "${look%% *}" "$purpose" $need $state
    done
    go_programs | while IFS='|' read -r look packages purpose; do
        state=missing
        ! found "$look" || state=found
        printf '%-16s %-28s %-10s %s\n' "${look:0:16}" "$purpose" optional $state
    done
}

print_advice() {
    local absent=$1 rivals=$2
    if ! rust_works; then
        echo "Rust $pinned_rust with rustfmt and clippy is needed to build:" \
            "install rustup (https://rustup.rs), then"
        echo "  rustup toolchain install $pinned_rust --profile minimal" \
            "--component rustfmt --component clippy"
    fi
    if [ -n "$absent" ]; then
        if command -v apt-get >/dev/null; then
            echo "Install the missing packages: sudo apt-get install --no-install-recommends ${absent% }"
        else
            echo "This is not a Debian system: install the missing packages with its package manager."
            echo "Their names in Debian: ${absent% }"
        fi
    fi
    if [ -n "$(missing_go_programs)" ] && ! command -v go >/dev/null; then
        echo "With Go (https://go.dev/dl, 1.21 or later) these are installed as well:" \
            "$(missing_go_programs | cut -d'|' -f1 | xargs)"
    fi
    if [ "$rivals" = no ] && [ -n "$(missing rival)" ]; then
        echo "The other servers to measure against are installed with: make rivals"
    fi
}

# --- installing -----------------------------------------------------------------------------------------

# After a failure for the same packages only `make setup` tries again, not every `make test`.
tried_in_vain() {
    [ "$1" = yes ] && [ "${CI:-}" != true ] && [ "$(cat "$target/setup-missing" 2>/dev/null)" = "$2" ]
}

remember_attempt() {
    if [ -n "$1" ]; then
        mkdir -p "$target" && printf '%s\n' "$1" >"$target/setup-missing"
    else
        rm -f "$target/setup-missing"
    fi
}

# Runs a command as root: directly, or through sudo, which may prompt for the password only on a terminal.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
        sudo "$@"
    else
        return 1
    fi
}

apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@" </dev/null
}

# Installs packages; prints errors and continues, because most packages are optional.
install_packages() {
    command -v apt-get >/dev/null || return 0
    if ! as_root true; then
        echo "setup: not root and no sudo: no package is installed"
        return 0
    fi
    local package fresh=no
    keep_services_stopped
    # Package lists are fetched only if they are missing or too old.
    if ! compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
        apt_get update || true
        fresh=yes
    fi
    print_sizes "$1"
    # shellcheck disable=SC2086 # words are packages
    if ! apt_get install --no-install-recommends $1; then
        [ $fresh = yes ] || apt_get update || true
        for package in $1; do
            apt_get install --no-install-recommends "$package" ||
                echo "setup: $package could not be installed"
        done
    fi
    disable_new_services "$1"
    allow_services
}

# Prints the packages and their size before they are fetched.
print_sizes() {
    echo "setup: installing $1"
    # shellcheck disable=SC2086 # words are packages
    apt-get --assume-no --no-install-recommends install $1 2>/dev/null </dev/null |
        sed -n -e 's/^\([0-9]* upgraded, [0-9]* newly installed\).*/setup: \1/p' \
            -e 's/^Need to get/setup: to fetch:/p' -e 's/^After this operation, /setup: on disk: /p' || true
}

# Debian starts a server when its package is installed, and the server would use port 80. invoke-rc.d first
# runs /usr/sbin/policy-rc.d: during the installation there is one that always refuses (101).
policy=/usr/sbin/policy-rc.d
policy_is_ours=no
policy_kept=

keep_services_stopped() {
    if [ -x $policy ]; then
        local answer=0
        $policy nginx start >/dev/null 2>&1 </dev/null || answer=$?
        [ $answer != 101 ] || return 0
        policy_kept=$policy.kept-by-touchstone-setup
        as_root mv $policy $policy_kept
    fi
    trap allow_services EXIT
    policy_is_ours=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod 755 $policy
}

allow_services() {
    [ $policy_is_ours = yes ] || return 0
    policy_is_ours=no
    as_root rm -f $policy
    [ -z "$policy_kept" ] || as_root mv $policy_kept $policy
}

# A server that is installed only for measurements is also not started with the machine.
disable_new_services() {
    local service services=${1/varnish/varnish varnishncsa}
    services=${services/caddy/caddy caddy-api}
    services=${services/openssh-server/openssh-server ssh}
    services=${services/slurm-wlm/slurmctld slurmd}
    # Its service has a version in its name.
    case " $1 " in
        *" php-fpm "*)
            services+=" $(cd /lib/systemd/system 2>/dev/null && ls php*-fpm.service 2>/dev/null)" ;;
    esac
    for service in $services; do
        service=${service%.service}
        case $service in
            nginx | h2o | lighttpd | apache2 | varnish | varnishncsa | haproxy | caddy | caddy-api | ssh) ;;
            trafficserver | squid | slurmctld | slurmd | munge | php?*-fpm) ;;
            *) continue ;;
        esac
        [ -e "/lib/systemd/system/$service.service" ] || [ -e "/etc/init.d/$service" ] || continue
        if command -v systemctl >/dev/null; then
            as_root systemctl disable --quiet "$service" >/dev/null 2>&1 </dev/null || true
        elif command -v update-rc.d >/dev/null; then
            as_root update-rc.d "$service" disable >/dev/null 2>&1 </dev/null || true
        fi
        echo "setup: $service is installed for tests and measuring;" \
            "it is not started, now or with the machine"
    done
}

missing_go_programs() {
    local program module purpose
    go_programs | while IFS='|' read -r program module purpose; do
        found "$program" || printf '%s|%s\n' "$program" "$module"
    done
}

# A failure is recorded like that of packages: only `make setup` and CI try again.
install_go_programs() {
    local wanted program module failed=$target/setup-go-failed
    wanted=$(missing_go_programs)
    [ -n "$wanted" ] && [ "${SETUP_INSTALL:-yes}" != no ] && command -v go >/dev/null || return 0
    [ "$1" = no ] || [ "${CI:-}" = true ] || [ ! -e "$failed" ] || return 0
    rm -f "$failed"
    while IFS='|' read -r program module; do
        echo "setup: installing $program"
        if ! go install "$module" </dev/null; then
            echo "setup: $program could not be installed"
            mkdir -p "$target" && touch "$failed"
        fi
    done <<<"$wanted"
}

# Installs the pinned toolchain if it is missing and rustup is installed or in Debian.
install_rust() {
    rust_works && return 0
    [ "${SETUP_INSTALL:-yes}" != no ] || return 1
    if ! command -v rustup >/dev/null && command -v apt-cache >/dev/null &&
        apt-cache policy rustup | grep -q 'Candidate: [^(]'; then
        apt_get install --no-install-recommends rustup || true
    fi
    command -v rustup >/dev/null || return 1
    rustup toolchain install "$pinned_rust" --profile minimal --component rustfmt --component clippy \
        </dev/null
}

main "$@"
