#!/usr/bin/env bash
# Fetches Keycloak, from Maven Central, into the user's cache: the OpenID provider of the tests of
# logins.
#
#   scripts/setup-keycloak.sh [--brief]      --brief prints nothing when it is installed
#
# It is in ${XDG_CACHE_HOME:-~/.cache}/touchstone, outside any checkout, and is used from there, with its data
# in memory. It runs on Java from 17 on. Without either the tests print SKIPPED. Environment: SETUP_INSTALL=no
# checks and never fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/fetch-archive.sh
. scripts/fetch-archive.sh

version=26.7.3
sha256=77657f30b7e90d70f727712ce1c967f430fd6a5e9f458d32d8c6df0635345f47
name=keycloak-quarkus-dist
url=https://repo1.maven.org/maven2/org/keycloak/$name/$version/$name-$version.tar.gz
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/keycloak-$version

fetch_archive Keycloak "$version" "$url" "$sha256" "$home" bin/kc.sh "${1:-}" || exit 0
command -v java >/dev/null || exit 0
# A start with --optimized uses the existing build, and changes nothing below this directory.
if [ ! -e "$home/built-for-tests" ]; then
    "$home/bin/kc.sh" build --db=dev-mem >/dev/null 2>&1 || {
        echo "setup: Keycloak could not be built; it needs Java 17 or later"
        exit 0
    }
    touch "$home/built-for-tests"
fi
mkdir -p "$cache/bin"
ln -sfn "$home/bin/kc.sh" "$cache/bin/kc.sh"
