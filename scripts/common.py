"""What the scripts in Python have in common."""

import pathlib
import socket
import sys


def free_port():
    """A TCP port of 127.0.0.1 that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def missing(what):
    """Says what the script takes and does not find, and ends it with the exit code for that."""
    print(f"{pathlib.Path(sys.argv[0]).stem}: {what}", file=sys.stderr)
    sys.exit(3)
