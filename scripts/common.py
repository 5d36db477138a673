"""Functions and constants that the Python scripts share."""

import os
import pathlib
import socket
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# The target directory of cargo, in which the setup installs the tools of a checkout.
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
# The directory in which the setup installs tools that all checkouts share.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "touchstone"


def free_port():
    """An unused TCP port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def missing(*lines):
    """Prints the missing requirements of the script, and exits with their exit code."""
    name = f"{pathlib.Path(sys.argv[0]).stem}: "
    print(name + ("\n" + " " * len(name)).join(lines), file=sys.stderr)
    sys.exit(3)
