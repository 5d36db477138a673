#!/usr/bin/env bash
# Fetches Eclipse Jetty, as Maven Central has it, into a cache of the user's: a system under test, for files and servlets.
#
#   scripts/setup-jetty.sh [--brief]      --brief says nothing when it is there
#
# It lies in ${XDG_CACHE_HOME:-~/.cache}/touchstone, beside no checkout, and is used from there; nothing in it is changed. The
# bench finds it by the script touchstone-jetty beside it. It runs on any Java from 17 on. Environment: SETUP_INSTALL=no looks
# and never fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=12.1.12
sha256=eec07131a682bcbfbb0411232932a72196b58f187412862962af07adebb777bc
url=https://repo1.maven.org/maven2/org/eclipse/jetty/jetty-home/$version/jetty-home-$version.tar.gz
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/jetty-home-$version

# The other scripts have this directory in their PATH, so that the bench finds it. Its version is asked for without a Java.
write_launcher() {
    mkdir -p "$cache/bin"
    cat >"$cache/bin/touchstone-jetty.new" <<END
#!/bin/sh
# Written by scripts/setup-jetty.sh: starts Jetty with the arguments of its start.jar.
[ "\${1:-}" != --version ] || { echo "jetty $version"; exit 0; }
exec java -jar "$home/start.jar" jetty.home="$home" "\$@"
END
    chmod 755 "$cache/bin/touchstone-jetty.new"
    mv "$cache/bin/touchstone-jetty.new" "$cache/bin/touchstone-jetty"
}

if [ -e "$home/start.jar" ]; then
    write_launcher
    [ "${1:-}" = --brief ] || echo "setup: Jetty $version is there"
    exit 0
fi
[ "${SETUP_INSTALL:-yes}" != no ] || { echo "setup: Jetty $version is missing: scripts/setup-jetty.sh"; exit 0; }
if ! command -v java >/dev/null; then
    echo "setup: java is missing: Jetty is left out (install default-jre-headless)"
    exit 0
fi
# A failure is remembered: only `make setup` and CI try again.
failed=$target/setup-jetty-failed
[ "${1:-}" != --brief ] || [ "${CI:-}" = true ] || [ ! -e "$failed" ] || exit 0
rm -f "$failed"
echo "setup: fetching Jetty $version"
mkdir -p "$cache"
beside=$(mktemp -d "$cache/fetching.XXXXXX")
trap 'rm -rf "$beside"' EXIT
# Unpacked beside and renamed, so that whoever looks finds all of it or nothing.
if curl --silent --show-error --fail --location --max-time 300 --retry 2 --output "$beside/jetty.tar.gz" "$url" &&
    echo "$sha256  $beside/jetty.tar.gz" | sha256sum --check --quiet &&
    tar -xzf "$beside/jetty.tar.gz" -C "$beside" &&
    { mv -T "$beside/jetty-home-$version" "$home" 2>/dev/null || [ -e "$home/start.jar" ]; }; then
    write_launcher
else
    mkdir -p "$target" && touch "$failed"
    echo "setup: Jetty could not be fetched from $url: it is left out"
fi
