#!/usr/bin/env bash
# Fetches the sources of the test kit of Jakarta Servlet 6.1 into the user's cache, for `make tck`: the
# repository jakartaee/servlet, from Debian's source package jakarta-servlet-api. Maven Central does
# not have the kit.
#
#   scripts/setup-servlet-tck.sh [--brief]      --brief prints nothing when they are installed
#
# They are in servlet-tck-6.1.0 below ${XDG_CACHE_HOME:-~/.cache}/touchstone. This needs apt-get and a
# network.
#
# Exit codes: 0 they are installed, 1 they could not be fetched, 3 apt-get is missing.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=6.1.0
# Of jakarta-servlet-api_6.1.0.orig.tar.xz, in every release of Debian that has it.
sha256=c9c3b599d3b433cd958b164d36e916e6ed2ccae6945eb0078f3f62c4645f9692
home=${XDG_CACHE_HOME:-$HOME/.cache}/touchstone/servlet-tck-$version

main() {
    if [ -f "$home/tck/pom.xml" ]; then
        [ "${1:-}" = --brief ] || echo "setup: the servlet test kit $version is installed"
        return 0
    fi
    command -v apt-get >/dev/null || return 3
    echo "setup: fetching the servlet test kit $version" >&2
    mkdir -p "$(dirname "$home")"
    beside=$(mktemp -d "$(dirname "$home")/fetching.XXXXXX")
    trap 'rm -rf "$beside"' EXIT
    fetch "$beside"
    echo "$sha256  $beside/jakarta-servlet-api_$version.orig.tar.xz" | sha256sum --check --quiet
    tar -xJf "$beside/jakarta-servlet-api_$version.orig.tar.xz" -C "$beside"
    # Unpacked beside it and renamed, so that the directory is complete or missing.
    mv -T "$beside/jakarta-servlet-api-$version" "$home" 2>/dev/null || [ -f "$home/tck/pom.xml" ]
}

# The archive of the sources, from the release that has this version, with separate lists: the machine's
# package lists do not change.
fetch() {
    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    echo "deb-src $(mirror) trixie main" >"$1/sources.list"
    local options=(-o "Dir::Etc::SourceList=$1/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$1/lists" -o "Dir::Cache=$1/cache" -o APT::Sandbox::User=root -qq)
    (
        cd "$1"
        apt-get "${options[@]}" update
        apt-get "${options[@]}" source --download-only --tar-only jakarta-servlet-api
    ) >&2
}

# The mirror of Debian that this machine uses.
mirror() {
    local found
    # shellcheck disable=SC2016  # the words are apt-get's
    found=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        sed -n 's|^Debian ||p' | grep -v security | head -n 1 || true)
    echo "${found:-http://deb.debian.org/debian}"
}

main "$@"
