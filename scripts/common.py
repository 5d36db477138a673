"""What the scripts in Python have in common."""

import os
import pathlib
import socket
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
# Where cargo builds, and where the setup installs the tools of a checkout.
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TOP / "target"))
# Where the setup puts what all checkouts share.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "touchstone"


def free_port():
    """A TCP port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def missing(*lines):
    """Says what the script takes and does not find, and ends it with the exit code for that."""
    name = f"{pathlib.Path(sys.argv[0]).stem}: "
    print(name + ("\n" + " " * len(name)).join(lines), file=sys.stderr)
    sys.exit(3)
