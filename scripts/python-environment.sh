# shellcheck shell=bash
# Sourced by the scripts that install Python packages from PyPI. The Python of the
# machine is not changed: packages are installed into their own environment (venv).

# make_python_environment WHAT DIRECTORY --brief|"" PACKAGE==VERSION...
#
# Creates the environment with these packages, unless exactly these are installed in it. WHAT is their name in
# messages; --brief prints nothing if they are installed already. If they could not be installed, it fails
# with a message. Environment: SETUP_INSTALL=no checks and never installs.
make_python_environment() {
    local what=$1 directory=$2 brief=$3 python=/usr/bin/python3
    shift 3
    local marker=$directory/installed-by-touchstone
    if [ "$(cat "$marker" 2>/dev/null)" = "$*" ]; then
        [ "$brief" = --brief ] || echo "setup: $what: installed"
        return 0
    fi
    if [ "${SETUP_INSTALL:-yes}" = no ]; then
        echo "setup: $what: missing (${0##*/} installs it)"
        return 1
    fi
    [ -x $python ] || python=$(command -v python3) || {
        echo "setup: $what: python3 is missing (install python3 python3-venv)"
        return 1
    }
    echo "setup: installing $what"
    mkdir -p "$(dirname "$directory")"
    rm -rf "$directory"
    if "$python" -m venv "$directory" &&
        "$directory/bin/pip" install --quiet --disable-pip-version-check --timeout 30 "$@"; then
        printf '%s\n' "$*" >"$marker"
    else
        rm -rf "$directory"
        echo "setup: $what: could not be installed (it needs python3 with venv, and pypi.org)"
        return 1
    fi
}
