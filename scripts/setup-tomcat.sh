#!/usr/bin/env bash
# Fetches Apache Tomcat, as Maven Central has it, into a cache of the user's: the servlet container of the tests of AJP, and
# of the systems under test with servlets.
#
#   scripts/setup-tomcat.sh [--brief]      --brief says nothing when it is there
#
# It lies in ${XDG_CACHE_HOME:-~/.cache}/touchstone, beside no checkout, and is used from there; nothing in it is changed.
# It runs on any Java from 17 on. Without either the tests say SKIPPED. Environment: SETUP_INSTALL=no looks and never
# fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=11.0.25
sha256=071ae2c6213e3c02c58b8581113b7887a96ef2756439b3c5be36fa6aec350090
url=https://repo1.maven.org/maven2/org/apache/tomcat/tomcat/$version/tomcat-$version.tar.gz
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/apache-tomcat-$version

# The other scripts have this directory in their PATH, so that the bench finds it.
link_script() {
    mkdir -p "$cache/bin"
    ln -sfn "$home/bin/catalina.sh" "$cache/bin/catalina.sh"
}

if [ -e "$home/bin/bootstrap.jar" ]; then
    link_script
    [ "${1:-}" = --brief ] || echo "setup: Tomcat $version is there"
    exit 0
fi
[ "${SETUP_INSTALL:-yes}" != no ] || { echo "setup: Tomcat $version is missing: scripts/setup-tomcat.sh"; exit 0; }
if ! command -v java >/dev/null; then
    echo "setup: java is missing: the tests with Tomcat are left out (install default-jre-headless)"
    exit 0
fi
# A failure is remembered: only `make setup` and CI try again.
failed=$target/setup-tomcat-failed
[ "${1:-}" != --brief ] || [ "${CI:-}" = true ] || [ ! -e "$failed" ] || exit 0
rm -f "$failed"
echo "setup: fetching Tomcat $version"
mkdir -p "$cache"
beside=$(mktemp -d "$cache/fetching.XXXXXX")
trap 'rm -rf "$beside"' EXIT
# Unpacked beside and renamed, so that whoever looks finds all of it or nothing.
if curl --silent --show-error --fail --location --max-time 300 --retry 2 --output "$beside/tomcat.tar.gz" "$url" &&
    echo "$sha256  $beside/tomcat.tar.gz" | sha256sum --check --quiet &&
    tar -xzf "$beside/tomcat.tar.gz" -C "$beside" &&
    { mv -T "$beside/apache-tomcat-$version" "$home" 2>/dev/null || [ -e "$home/bin/bootstrap.jar" ]; }; then
    link_script
else
    mkdir -p "$target" && touch "$failed"
    echo "setup: Tomcat could not be fetched from $url: its tests are left out"
fi
