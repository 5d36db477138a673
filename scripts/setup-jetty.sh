#!/usr/bin/env bash
# Fetches Eclipse Jetty, from Maven Central, into the user's cache: a system under test, for files
# and servlets.
#
#   scripts/setup-jetty.sh [--brief]      --brief prints nothing when it is installed
#
# It is in ${XDG_CACHE_HOME:-~/.cache}/touchstone, outside any checkout, and is used from there without
# changes. The bench finds it by the script touchstone-jetty beside it. It runs on any Java from 17 on.
# Environment: SETUP_INSTALL=no checks and never fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/fetch-archive.sh
. scripts/fetch-archive.sh

version=12.1.12
sha256=eec07131a682bcbfbb0411232932a72196b58f187412862962af07adebb777bc
url=https://repo1.maven.org/maven2/org/eclipse/jetty/jetty-home/$version/jetty-home-$version.tar.gz
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/jetty-home-$version

fetch_archive Jetty "$version" "$url" "$sha256" "$home" start.jar "${1:-}" || exit 0
# The other scripts have this directory in their PATH, so that the bench finds it. Its version is read without
# a Java.
mkdir -p "$cache/bin"
cat >"$cache/bin/touchstone-jetty.new" <<END
#!/bin/sh
# Written by scripts/setup-jetty.sh: starts Jetty with the arguments of its start.jar.
[ "\${1:-}" != --version ] || { echo "jetty $version"; exit 0; }
exec java -jar "$home/start.jar" jetty.home="$home" "\$@"
END
chmod 755 "$cache/bin/touchstone-jetty.new"
mv "$cache/bin/touchstone-jetty.new" "$cache/bin/touchstone-jetty"
