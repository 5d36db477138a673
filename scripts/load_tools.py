"""What the parts of compare-load-tools.py share: running a tool on its processor, figures and tables."""

import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys

from common import CACHE

FILES = pathlib.Path(__file__).resolve().parent / "load-tools"
CLIENTS = 64
STALL_AT, STALL, STALL_RUN = 4, 2, 10


class NotMeasured(Exception):
    """A table cannot be made: a tool failed, or a server is not installed."""


def extend_path():
    """Adds the directories in which the setup installs tools to PATH, as environment.sh does."""
    home = pathlib.Path.home()
    go = os.environ.get("GOBIN") or os.environ.get("GOPATH", str(home / "go")).split(":")[0] + "/bin"
    more = ["/usr/local/sbin", "/usr/sbin", "/usr/local/go/bin", go, str(CACHE / "bin")]
    os.environ["PATH"] = ":".join([os.environ.get("PATH", ""), *more])


def run(command, core, seconds, text=None, environment=None):
    """The output of a tool on its processor, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        ended = subprocess.run(
            ["taskset", "-c", str(core), *map(str, command)], input=text, capture_output=True, text=True,
            check=False, timeout=seconds * 6 + 60, env=os.environ | (environment or {}),
        )
    except subprocess.TimeoutExpired as late:
        raise NotMeasured(f"{command[0]} did not end within {late.timeout} s") from late
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Exit codes of tools for thresholds and errors are ignored: only the figures are used.
    if not ended.stdout.strip():
        raise NotMeasured(f"{' '.join(map(str, command[:3]))}: {ended.stderr.strip()[:400]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.stdout, used


def installed(tools):
    """The installed ones of {name: (how to install it, program or file)}; the others are reported."""
    there = {"touchstone load"}
    for name, (advice, path) in tools.items():
        if path.exists() if isinstance(path, pathlib.Path) else shutil.which(path):
            there.add(name)
        else:
            print(f"compare-load-tools: {name} is not installed ({advice}): it is omitted", flush=True)
    return there


def omit(options, name, reason):
    """Goes on without a tool that failed; without the program under test nothing can be compared."""
    if name == "touchstone load":
        raise reason
    print(f"compare-load-tools: {name} failed and is omitted: {reason}", file=sys.stderr, flush=True)
    options.tools.discard(name)


def median(rows, key):
    """The median of the rows that have this figure."""
    known = [row[key] for row in rows if row.get(key) is not None]
    return statistics.median(known) if known else None


def medians(rows):
    """The median of each figure."""
    return {key: median(rows, key) for key in rows[0]}


def written(value, form="{:,.0f}"):
    return "" if value is None else form.format(value)


def three(value):
    """Three significant digits."""
    return "" if value is None else f"{float(f'{value:.3g}'):,g}"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
