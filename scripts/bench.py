#!/usr/bin/env python3
"""Measures every kind of work on this build and on the other servers that are installed; prints one table.

    scripts/bench.py TOUCHSTONE [--works NAME,...] [--sut NAME=PATH ...] [--runs N] [--json FILE]

Each work is a run of `touchstone bench`: all systems with its capabilities take turns on the same processor,
with the same load. The table has the processor time of a request of each server, counted by the kernel over
all processes of the server, and the ratio of ours to theirs: below 1.00 touchstone needs less. --sut names
another executable of a system, for example nginx=/opt/nginx/sbin/nginx. --list names the works. The reports
of the runs are kept in results/.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

FILE_SERVERS = ["touchstone", "limit", "nginx", "h2o", "lighttpd", "apache", "caddy"]
SECURE = ["touchstone", "nginx", "h2o", "apache", "caddy"]
HTTP3 = ["touchstone", "nginx", "h2o", "caddy"]
CACHES = ["touchstone-accelerator", "nginx-cache", "haproxy-cache", "varnish", "trafficserver", "squid"]
PROXIES = ["touchstone-proxy", "haproxy", "nginx-proxy", "caddy-proxy"]
SERVLETS = ["touchstone", "tomcat", "jetty"]

# A file of one size: (HTTP version, TLS, connections kept, active requests on a connection, bytes).
PAGES = {
    "static": ("1.1", False, True, 1, 6250, FILE_SERVERS),
    "static-new": ("1.1", False, False, 1, 6250, FILE_SERVERS),
    "static-1MiB": ("1.1", False, True, 1, 1 << 20, FILE_SERVERS),
    "tls": ("1.1", True, True, 1, 6250, SECURE),
    "tls-1MiB": ("1.1", True, True, 1, 1 << 20, SECURE),
    "http2-64": ("2", True, True, 16, 64, SECURE),
    "http2": ("2", True, True, 16, 6250, SECURE),
    "http2-1MiB": ("2", True, True, 16, 1 << 20, SECURE),
    "http3-64": ("3", True, True, 32, 64, HTTP3),
    "http3": ("3", True, True, 16, 6250, HTTP3),
    "http3-1MiB": ("3", True, True, 16, 1 << 20, HTTP3),
    "proxy": ("1.1", False, True, 1, 6250, PROXIES),
}

# Suites that are built in, with the part of each that is compared (None: all of it).
SUITES = {
    "tls-full": ("tls-full", SECURE, None),
    "tls-resumed": ("tls-resumed", SECURE, None),
    "page-http2": ("page-2025", SECURE, None),
    "page-http3": ("page-2025-h3", HTTP3, None),
    "cache": ("accelerator-static", CACHES, None),
    "fastcgi": ("spice-fastcgi", ["touchstone", "nginx", "h2o", "apache", "lighttpd"], "fastcgi"),
    "cgi": ("spice-cgi", ["touchstone", "apache", "lighttpd"], "cgi"),
    "includes": ("spice-shtml", ["touchstone", "nginx", "apache", "lighttpd"], "shtml"),
    "servlet": ("spice-servlet", SERVLETS, "servlet-stream"),
    "servlet-writer": ("spice-servlet", SERVLETS, "servlet-writer"),
    "jsp": ("spice-jsp", SERVLETS, "jsp"),
    "wsgi": ("spice-wsgi", ["touchstone", "granian", "gunicorn", "uwsgi", "apache-wsgi"], "wsgi"),
    "asgi": ("spice-asgi", ["touchstone", "granian-asgi", "uvicorn", "hypercorn"], "asgi"),
}

PAGE = """\
name = "{name}"
title = "{title}"
description = "a file of {bytes} bytes"
source = "ours: a page of the size of SPICE, a small answer, and a large one"
mixes = [{{ clients = 1 }}, {{ clients = 64 }}]

[mix]
ramp_up_s = 0.5
length_s = 4
ramp_down_s = 0.5

[quick]
ramp_up_s = 0.5
length_s = 4
ramp_down_s = 0.5
mixes = [{{ clients = 1 }}, {{ clients = 64 }}]

[client]
use_keep_alives = {kept}
http_version = "{version}"
{more}receive_buffer_bytes = 65536
timeout_s = 30

[workload]
name = "PAGE"
content_seed = 1

[[workload.class]]
name = "PAGE"
weight_percent = 100
files = 1
file_bytes = {bytes}
"""


def page_suite(name, directory):
    version, secure, kept, streams, size, _ = PAGES[name]
    more = ""
    if secure:
        more += 'tls = true\ntls_version = "1.3"\n' if version == "1.1" else "tls = true\n"
    if streams > 1:
        more += f"streams = {streams}\n"
    path = Path(directory) / f"{name}.toml"
    path.write_text(
        PAGE.format(
            name=name,
            title=f"{size} bytes, HTTP/{version}{', TLS' if secure else ''}",
            bytes=size,
            kept="true" if kept else "false",
            version=version,
            more=more,
        )
    )
    return path


def installed(program):
    """The installed systems, from `touchstone systems`, which runs each to get its version."""
    text = subprocess.run([program, "systems"], capture_output=True, text=True).stdout
    is_there = lambda line: "not installed" not in line and "is missing" not in line
    return {line.split(" ")[0] for line in text.splitlines() if is_there(line)}


def measure(program, name, there, paths, runs, scratch):
    """Runs a work; returns the result and the compared part, or the reason why there is none."""
    clients = "1,64"
    if name in PAGES:
        suite, systems, part = page_suite(name, scratch), PAGES[name][5], None
        streams = PAGES[name][3]
        if streams > 1:
            clients = f"{streams},{streams * 8}"
    else:
        suite, systems, part = SUITES[name]
        if name.startswith("page-"):
            # Sixteen clients share a connection.
            clients = "16,128"
    chosen = [one for one in systems if one in paths or one in there]
    chosen = [f"{one}={paths[one]}" if one in paths else one for one in chosen]
    output = Path("results") / f"{time.strftime('%Y%m%dT%H%M%S')}-{name}"
    command = [program, "bench", str(suite), "--quick", "--sut", ",".join(chosen), "--clients", clients]
    command += ["--runs", str(runs), "--output", str(output), "--progress", "plain"]
    ended = subprocess.run(command, capture_output=True, text=True)
    path = output / "result.json"
    if not path.exists():
        return None, (ended.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    return json.loads(path.read_text()), part


def figures(result, part):
    """For each system: microseconds of processor time a request at the most clients, and p99 at the least."""
    found = {}
    for system in result["systems"]:
        mixes = [mix for mix in system["mixes"] if part is None or mix.get("interface") == part]
        if not mixes:
            continue
        most = max(mix["clients"] for mix in mixes)
        least = min(mix["clients"] for mix in mixes)
        costs = [cost for mix in mixes if mix["clients"] == most and (cost := cpu_us(mix)) is not None]
        p99s = [mix["latency"]["p99_us"] for mix in mixes if mix["clients"] == least]
        if costs:
            found[system["name"]] = (median(costs), median(p99s))
    return found


def cpu_us(mix):
    return mix["server"]["cpu_us_per_request"] if mix.get("server") and mix["requests"] else None


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("program", nargs="?", help="the program to measure")
    every = ",".join([*PAGES, *SUITES])
    parser.add_argument("--works", default=every, help="only these, separated by commas")
    parser.add_argument("--sut", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--list", action="store_true", help="print the names of the works")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*PAGES, *SUITES]))
        return 0
    if not options.program:
        parser.error("the program to measure is missing")
    works = options.works.split(",")
    unknown = [name for name in works if name not in PAGES and name not in SUITES]
    if unknown:
        parser.error(f"there is no work {unknown[0]} (--list names them)")
    paths = dict(one.partition("=")[::2] for one in options.sut)
    there = installed(options.program)
    rows = {}
    print(f"{'work':<15}{'server':<24}{'CPU us/request':>15}{'ours/theirs':>13}{'p99 us, least load':>20}")
    with tempfile.TemporaryDirectory() as scratch:
        for name in works:
            result, part = measure(options.program, name, there, paths, options.runs, scratch)
            if result is None:
                print(f"{name:<15}not measured: {part}")
                continue
            found = figures(result, part)
            rows[name] = found
            ours = [cost for system, (cost, _) in found.items() if system.startswith("touchstone")]
            own = ours[0] if ours else None
            for system, (cost, p99) in found.items():
                ratio = f"{own / cost:.2f}" if own is not None and cost else "-"
                ratio = "" if system.startswith("touchstone") else ratio
                print(f"{name:<15}{system:<24}{cost:>15.2f}{ratio:>13}{p99:>20.0f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
