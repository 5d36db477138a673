#!/usr/bin/env bash
# Installs other load tools for `make load-tools`: k6, vegeta and ghz with Go, where Go puts programs, and
# Gatling from Maven Central, into the user's cache.
#
#   scripts/setup-load-tools.sh [--brief]      --brief prints nothing about installed tools
#
# A tool that cannot be installed is named with the reason, and the comparison goes on without it.
# Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"

brief=${1:-}
gatling=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone/gatling
pom=scripts/load-tools/pom.xml

# program | Go module and version
go_tools() {
    cat <<'END'
k6|go.k6.io/k6@v1.8.1
vegeta|github.com/tsenart/vegeta/v12@v12.13.0
ghz|github.com/bojand/ghz/cmd/ghz@v0.93.0
END
}

# Prints it unless --brief.
say() {
    [ "$brief" = --brief ] || echo "setup: $1"
}

install_go_tool() {
    local tool=$1 module=$2
    if command -v "$tool" >/dev/null; then
        say "$tool is installed"
    elif [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: $tool is missing: scripts/setup-load-tools.sh"
    elif ! command -v go >/dev/null; then
        echo "setup: $tool is not installed: Go is missing (https://go.dev/dl)"
    else
        echo "setup: installing $tool"
        go install "$module" </dev/null || echo "setup: $tool could not be installed"
    fi
}

install_gatling() {
    local marker
    marker=$gatling/installed-$(sha256sum $pom | cut -c1-16)
    if [ -e "$marker" ]; then
        say "Gatling is installed"
    elif [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: Gatling is missing: scripts/setup-load-tools.sh"
    elif ! command -v mvn >/dev/null || ! command -v javac >/dev/null; then
        echo "setup: Gatling is not installed: it needs Maven and a JDK (install maven default-jdk-headless)"
    else
        echo "setup: installing Gatling"
        rm -rf "$gatling"
        if mvn -q -B -f $pom dependency:copy-dependencies -DoutputDirectory="$gatling/lib" </dev/null; then
            touch "$marker"
        else
            rm -rf "$gatling"
            echo "setup: Gatling could not be installed"
        fi
    fi
}

while IFS='|' read -r tool module; do
    install_go_tool "$tool" "$module"
done < <(go_tools)
install_gatling
