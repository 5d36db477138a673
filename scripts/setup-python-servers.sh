#!/usr/bin/env bash
# Installs the servers for Python applications that are measured beside this one, from PyPI, into a Python
# environment in the user's cache: Granian, uvicorn and gunicorn, with the packages that serve files for the
# last two, and Hypercorn, which supports HTTP/3 with aioquic and is tested with the rules of HTTP.
#
#   scripts/setup-python-servers.sh [--brief]      --brief prints nothing when they are installed
#
# It is in ${XDG_CACHE_HOME:-~/.cache}/touchstone, outside any checkout. Its Python is Debian's if there is
# one: uWSGI and mod_wsgi use that, too, so that all are measured with the same. Environment: SETUP_INSTALL=no
# checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/python-environment.sh
. scripts/python-environment.sh

cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/touchstone
home=$cache/python-servers

make_python_environment "the servers for Python" "$home" "${1:-}" \
    granian==2.8.7 uvicorn==0.54.0 uvloop==0.23.0 httptools==0.9.0 gunicorn==27.0.1 \
    whitenoise==6.12.0 starlette==1.10.0 hypercorn==0.18.0 aioquic==1.7.2 || exit 0
# The other scripts have this directory in their PATH, so that the bench finds them.
mkdir -p "$cache/bin"
for server in granian uvicorn gunicorn hypercorn; do
    ln -sfn "$home/bin/$server" "$cache/bin/$server"
done
