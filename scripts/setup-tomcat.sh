#!/usr/bin/env bash
# Fetches Apache Tomcat, from Maven Central, into the user's cache: the servlet container of the
# tests of AJP, and of the systems under test with servlets.
#
#   scripts/setup-tomcat.sh [--brief]      --brief prints nothing when it is installed
#
# It is in ${XDG_CACHE_HOME:-~/.cache}/touchstone, outside any checkout, and is used from there without
# changes. It runs on any Java from 17 on. Without either the tests print SKIPPED. Environment:
# SETUP_INSTALL=no checks and never fetches.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/fetch-archive.sh
. scripts/fetch-archive.sh

version=11.0.25
sha256=071ae2c6213e3c02c58b8581113b7887a96ef2756439b3c5be36fa6aec350090
url=https://repo1.maven.org/maven2/org/apache/tomcat/tomcat/$version/tomcat-$version.tar.gz
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/apache-tomcat-$version

fetch_archive Tomcat "$version" "$url" "$sha256" "$home" bin/bootstrap.jar "${1:-}" || exit 0
# The other scripts have this directory in their PATH, so that the bench finds it.
mkdir -p "$cache/bin"
ln -sfn "$home/bin/catalina.sh" "$cache/bin/catalina.sh"
