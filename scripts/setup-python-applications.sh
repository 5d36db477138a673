#!/usr/bin/env bash
# Installs Python applications of other authors from PyPI, for the tests of the Python interface: Django,
# Wagtail, Channels, Flask, FastAPI, Starlette, Litestar and Dash, and the servers whose answers are the
# measure: gunicorn and uvicorn.
#
#   scripts/setup-python-applications.sh [--brief]      --brief prints nothing when they are installed
#
# They are in python-applications/ below the target directory. Without them the tests print SKIPPED.
# Environment: SETUP_INSTALL=no checks and never installs.
set -euo pipefail
# shellcheck source=scripts/environment.sh
. "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=scripts/python-environment.sh
. scripts/python-environment.sh

make_python_environment "applications in Python" "$target/python-applications" "${1:-}" \
    django==5.2.19 wagtail==8.0.1 flask==3.1.3 fastapi==0.165.0 python-multipart==0.0.34 dash==4.4.1 \
    litestar==2.25.0 channels==4.3.2 \
    gunicorn==27.0.1 uvicorn==0.54.0 uvloop==0.23.0 httptools==0.9.0 websockets==17.4 || exit 0
