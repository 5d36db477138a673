#!/usr/bin/env bash
# Fetches the newest releases of the other servers to measure against, beside the packages of the system, and
# prints the options for scripts/bench.py:
#
#   scripts/newest-rivals.sh [NAME ...]               nginx, haproxy, lighttpd, apache, caddy; default: all
#   scripts/bench.sh $(scripts/newest-rivals.sh)
#
# The packages come from Debian's unstable release (sid), from the mirror that the system's own apt sources
# name, and are unpacked with all libraries that they need into ~/.cache/touchstone/rivals. They are not
# installed: no package of the system changes, and nothing is started. Their executables are changed to load
# these libraries, the C library included, so that they run on an older system too. Caddy is built from the Go
# module proxy if Go is installed. It needs no root.
#
# Environment: RIVALS_RELEASE=sid another release of Debian.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
export LC_ALL=C

home=${XDG_CACHE_HOME:-$HOME/.cache}/touchstone/rivals
release=${RIVALS_RELEASE:-sid}
root=$home/root
bin=$home/bin

# name | package | executable in it
packaged() {
    cat <<'END'
nginx|nginx|usr/sbin/nginx
haproxy|haproxy|usr/sbin/haproxy
lighttpd|lighttpd|usr/sbin/lighttpd
apache|apache2-bin|usr/sbin/apache2
caddy|caddy|usr/bin/caddy
END
}

# Packages that only the scripts of installations need, and not a server that runs.
skipped='adduser|base-passwd|debconf|init-system-helpers|login.defs|lsb-base|passwd|perl|perl-base|systemd'
skipped="$skipped|perl-modules-.*|libperl.*|sysvinit-utils"

say() { echo "newest-rivals: $*" >&2; }

fail() {
    say "$*"
    exit 1
}

main() {
    local names=() name
    case ${1:-} in
        -h | --help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"; return 0 ;;
    esac
    for name in "${@:-}"; do
        [ -n "$name" ] || continue
        packaged | grep -q "^$name|" ||
            fail "there is no $name here; known: $(packaged | cut -d'|' -f1 | xargs)"
        names+=("$name")
    done
    [ ${#names[@]} -gt 0 ] || mapfile -t names < <(packaged | cut -d'|' -f1)
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || fail "it needs apt-get and dpkg-deb"

    # Caddy comes from Go where there is Go.
    local of_debian=() of_go=()
    for name in "${names[@]}"; do
        if [ "$name" = caddy ] && command -v go >/dev/null; then
            of_go+=("$name")
        else
            of_debian+=("$name")
        fi
    done
    mkdir -p "$home" "$bin"
    if [ ${#of_debian[@]} -gt 0 ]; then
        fetch_packages "${of_debian[@]}"
        unpack
        for name in "${of_debian[@]}"; do
            install_packaged "$name"
        done
    fi
    [ ${#of_go[@]} = 0 ] || install_caddy
    print_options "${names[@]}"
}

executable_of() { packaged | sed -n "s/^$1|[^|]*|//p"; }

package_of() { packaged | sed -n "s/^$1|\([^|]*\)|.*/\1/p"; }

# --- packages -------------------------------------------------------------------------------------------

# The address of the Debian archive from which this system installs its own packages.
mirror() {
    # shellcheck disable=SC2016  # names of apt
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
        awk '($1 == "Debian" || $1 !~ /^[A-Z]/) && $2 ~ /\/debian(\/|$)/ { print $2; exit }'
}

# apt with its own configuration and state; of the system's configuration it keeps the way to the archive.
private_apt() { APT_CONFIG=$home/apt/apt.conf "$@"; }

configure_apt() {
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg mirror
    mirror=$(mirror)
    [ -n "$mirror" ] || fail "the apt sources of this system name no archive of Debian"
    [ -e $keyring ] || fail "$keyring is missing (install debian-archive-keyring)"
    say "the release $release of $mirror"
    mkdir -p "$home/apt/parts" "$home/apt/lists/partial" "$home/apt/cache/archives/partial"
    : >"$home/apt/status"
    echo "deb [signed-by=$keyring] $mirror $release main" >"$home/apt/sources.list"
    {
        apt-config dump |
            grep -E '^Acquire::(http|https|Retries|Check-Valid-Until|Check-Date)(::[^ ]+)? "' || true
        cat <<END
Dir::Etc::main "/dev/null";
Dir::Etc::parts "$home/apt/parts";
Dir::Etc::sourcelist "$home/apt/sources.list";
Dir::Etc::sourceparts "$home/apt/parts";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "$home/apt/parts";
Dir::State "$home/apt";
Dir::State::lists "$home/apt/lists";
Dir::State::status "$home/apt/status";
Dir::Cache "$home/apt/cache";
APT::Sandbox::User "$(id -un)";
APT::Install-Recommends "false";
Acquire::Languages "none";
END
    } >"$home/apt/apt.conf"
}

fetch_packages() {
    local packages=(patchelf) name
    configure_apt
    for name in "$@"; do
        packages+=("$(package_of "$name")")
    done
    private_apt apt-get -qq update >&2 || fail "the lists of $release could not be fetched"
    # Without any installed package, every library is fetched too, from the C library on.
    rm -f "$home"/apt/cache/archives/*.deb
    private_apt apt-get -qq -y --download-only install "${packages[@]}" >&2 </dev/null ||
        fail "the packages could not be fetched: ${packages[*]}"
}

# Unpacks all packages beside the old ones and puts them in their place.
unpack() {
    local package
    rm -rf "$root.new"
    mkdir -p "$root.new"
    for package in "$home"/apt/cache/archives/*.deb; do
        basename "$package" | grep -qE "^($skipped)_" || dpkg-deb -x "$package" "$root.new"
    done
    rm -rf "$root"
    mv "$root.new" "$root"
    # What is not named now is gone; a Caddy of Go is not from a package.
    find "$bin" -mindepth 1 ! -name caddy -delete
    [ ! -L "$bin/caddy" ] || rm "$bin/caddy"
    # Other packages are only in the way.
    rm -f "$home"/apt/cache/archives/*.deb
}

# Lets an executable load its libraries from here. It stays one process with its own name, unlike one that is
# started through the dynamic loader.
use_own_libraries() {
    local loader libraries
    loader=$(find "$root" -name 'ld-linux*.so*' | sort | head -1)
    libraries=$(dirname "$(find "$root" -name libc.so.6 | sort | head -1)")
    # RPATH and not RUNPATH: it holds for the libraries of the libraries too.
    "$loader" --library-path "$libraries" "$root/usr/bin/patchelf" \
        --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$1"
}

install_packaged() {
    local name=$1 executable
    executable=$root/$(executable_of "$name")
    [ -x "$executable" ] || fail "$(package_of "$name") of $release has no $(executable_of "$name")"
    # A static executable, as of Go, loads nothing.
    if LC_ALL=C grep -q 'ld-linux' "$executable"; then use_own_libraries "$executable"; fi
    rm -f "$bin/$(basename "$executable")"
    if [ "$name" = lighttpd ]; then
        # Its modules are where the package is unpacked. After exec the process is lighttpd itself.
        printf '#!/bin/sh\nexec "%s" -m "%s" "$@"\n' "$executable" "$root/usr/lib/lighttpd" >"$bin/lighttpd"
        chmod 755 "$bin/lighttpd"
    else
        ln -s "$executable" "$bin/$(basename "$executable")"
    fi
}

# --- Go -------------------------------------------------------------------------------------------------

install_caddy() {
    local module=github.com/caddyserver/caddy/v2 version
    version=$(go list -m -f '{{.Version}}' $module@latest) || fail "the Go module proxy does not answer"
    say "building Caddy $version"
    rm -f "$bin/caddy"
    # As a main module it does not know its own version.
    GOBIN=$bin go install -ldflags "-X $module.CustomVersion=$version" "$module/cmd/caddy@$version" \
        >&2 </dev/null || fail "Caddy could not be built (without Go, the package of $release is used)"
}

# --- the end --------------------------------------------------------------------------------------------

version_of() {
    local text
    case $1 in
        caddy) text=$("$2" version) || return ;;
        *) text=$("$2" -v 2>&1) || return ;;
    esac
    printf '%s\n' "${text%%$'\n'*}"
}

print_options() {
    local name path version options=()
    for name in "$@"; do
        path=$bin/$(basename "$(executable_of "$name")")
        version=$(version_of "$name" "$path") || fail "$path does not run"
        say "$name: $version"
        options+=("$name=$path")
    done
    say "measure them with: make bench SUT='${options[*]}'"
    printf -- '--sut %s\n' "${options[@]}" | xargs
}

main "$@"
