#!/usr/bin/env bash
# Installs Cloudflare's package for bots that sign their requests, web-bot-auth, below the target directory.
#
#   scripts/setup-web-bot-auth.sh [--brief]      --brief prints nothing when it is installed
#
# The tests of crawlers sign requests with it, by node. Without it these tests print SKIPPED. Environment:
# SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

version=0.1.3
home=$target/web-bot-auth
marker=$home/installed-$version

if [ -e "$marker" ]; then
    [ "${1:-}" = --brief ] || echo "setup: web-bot-auth $version is installed"
    exit 0
fi
if [ "${SETUP_INSTALL:-yes}" = no ]; then
    echo "setup: web-bot-auth $version is missing: scripts/setup-web-bot-auth.sh"
    exit 0
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    echo "setup: node and npm are missing: bots that sign their requests are not tested"
    exit 0
fi
echo "setup: installing web-bot-auth $version"
rm -rf "$home"
mkdir -p "$home"
if npm install --prefix "$home" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error \
    "web-bot-auth@$version" </dev/null; then
    touch "$marker"
else
    rm -rf "$home"
    echo "setup: web-bot-auth could not be installed (it needs npm and registry.npmjs.org):" \
        "bots that sign their requests are not tested"
fi
