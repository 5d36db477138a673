#!/usr/bin/env python3
"""Measures every kind of work on this build and on the other servers that are installed; prints one table.

    scripts/bench.py TOUCHSTONE [--works NAME,...] [--sut NAME=PATH ...] [--runs N] [--json FILE]

Each work is a run of `touchstone bench`: all systems with its capabilities take turns on the same processor,
with the same load. The table has the processor time of a request of each server, counted by the kernel over
all processes of the server, and the ratio of ours to theirs: below 1.00 touchstone needs less. The time of an
origin behind a proxy or a cache has its own column; it is part of neither the server's time nor the ratio.
--sut names another executable of a system, for example nginx=/opt/nginx/sbin/nginx; its directory is also
searched first for the other systems and origins, so that nginx-proxy uses the same executable. A system that
cannot do a work, for example because its build has no HTTP/3, is left out with the reason. --list names the
works. The reports of the runs are kept in results/.
"""

import argparse
import json
import os
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


def searched_first(paths):
    """The environment in which the directories of the named executables are searched first."""
    directories = [str(Path(path).absolute().parent) for path in paths.values()]
    path = os.environ.get("PATH", os.defpath)
    return {**os.environ, "PATH": os.pathsep.join([*dict.fromkeys(directories), path])}


def installed(program, environment):
    """The installed systems with their titles, from `touchstone systems`, which runs each for its version."""
    ended = subprocess.run([program, "systems", "--json"], capture_output=True, text=True, env=environment)
    systems = json.loads(ended.stdout)["systems"]
    return {system["name"]: system["title"] for system in systems if system["installed"]}


def measure(program, name, there, paths, environment, runs, scratch):
    """Runs a work. Returns the result, or None; the compared part; and the systems that could not be started,
    with the reasons (without a result also the reason of that, under an empty name)."""
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
    chosen = [one for one in systems if one in there]
    refused = {}
    while True:
        attempt = f"-{len(refused)}" if refused else ""
        output = Path("results") / f"{time.strftime('%Y%m%dT%H%M%S')}-{name}{attempt}"
        named = [f"{one}={paths[one]}" if one in paths else one for one in chosen]
        command = [program, "bench", str(suite), "--quick", "--sut", ",".join(named), "--clients", clients]
        command += ["--runs", str(runs), "--output", str(output), "--progress", "plain"]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment)
        path = output / "result.json"
        if path.exists():
            return json.loads(path.read_text()), part, refused
        said = [line for line in ended.stderr.splitlines() if line.startswith("touchstone bench: ")]
        reason = said[-1].removeprefix("touchstone bench: ") if said else "it printed nothing"
        # A system that does not start does not keep the others from being measured.
        named_in = [one for one in chosen if there[one] in reason and not one.startswith("touchstone")]
        if not named_in:
            return None, part, {**refused, "": reason}
        culprit = max(named_in, key=lambda one: len(there[one]))
        chosen.remove(culprit)
        refused[culprit] = reason


def figures(result, part):
    """For each system: its processor time a request at the most clients, that of its origin if it has one,
    both in microseconds, and p99 at the least clients."""
    found = {}
    for system in result["systems"]:
        mixes = [mix for mix in system["mixes"] if part is None or mix.get("interface") == part]
        if not mixes:
            continue
        most = max(mix["clients"] for mix in mixes)
        least = min(mix["clients"] for mix in mixes)
        counted = [mix for mix in mixes if mix["clients"] == most and cpu_us(mix) is not None]
        if not counted:
            continue
        origins = [origin_us(system, mix) for mix in counted]
        own = median(cpu_us(mix) - (origin or 0) for mix, origin in zip(counted, origins))
        found[system["name"]] = {
            "cpu_us": own,
            "origin_us": median(origins) if None not in origins else None,
            "p99_us": median(mix["latency"]["p99_us"] for mix in mixes if mix["clients"] == least),
        }
    return found


def cpu_us(mix):
    """The processor time a request of all processes of a system, those of its origin included."""
    return mix["server"]["cpu_us_per_request"] if mix.get("server") and mix["requests"] else None


def origin_us(system, mix):
    """The processor time a request of the origin behind a system; None if it has none."""
    if not system.get("origin"):
        return None
    same = [use for use in system["origin"]["mixes"] if (use["mix"], use["run"]) == (mix["name"], mix["run"])]
    return same[0]["cpu_us_per_request"] if same else None


def left_out(result, part, found):
    """The systems without figures, with the reasons."""
    for system in result["systems"]:
        if system["name"] in found:
            continue
        reasons = [one["reason"] for one in system["skipped"] if one["interface"] in ("", part)]
        if not reasons and any(part is None or mix.get("interface") == part for mix in system["mixes"]):
            reasons = ["it answered no request at the most clients"]
        if reasons:
            yield system["name"], reasons[0]


def print_rows(name, result, part, refused):
    """Prints the rows of a work; returns its figures."""
    found = figures(result, part)
    ours = [row["cpu_us"] for system, row in found.items() if system.startswith("touchstone")]
    own = ours[0] if ours else None
    for system, row in found.items():
        cost, origin = row["cpu_us"], row["origin_us"]
        ratio = f"{own / cost:.2f}" if own is not None and cost > 0 else "-"
        ratio = "" if system.startswith("touchstone") else ratio
        origin = "" if origin is None else f"{origin:.2f}"
        p99 = row["p99_us"]
        print(f"{name:<15}{system:<24}{cost:>15.2f}{ratio:>13}{origin:>11}{p99:>20.0f}", flush=True)
    for system, reason in [*left_out(result, part, found), *refused.items()]:
        print(f"{name:<15}{system:<24}left out: {reason}", flush=True)
    return found


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
    missing = [path for path in paths.values() if not os.access(path, os.X_OK)]
    if missing:
        parser.error(f"--sut: {missing[0] or 'NAME alone'} is not the path of an executable file (NAME=PATH)")
    environment = searched_first(paths)
    there = installed(options.program, environment)
    there.update({name: there.get(name, name) for name in paths})
    rows = {}
    print(
        f"{'work':<15}{'server':<24}{'CPU us/request':>15}{'ours/theirs':>13}{'its origin':>11}"
        f"{'p99 us, least load':>20}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        for name in works:
            measured = measure(options.program, name, there, paths, environment, options.runs, scratch)
            result, part, refused = measured
            if result is None:
                print(f"{name:<15}not measured: {refused.pop('')}")
                continue
            rows[name] = print_rows(name, result, part, refused)
    if options.json:
        Path(options.json).write_text(json.dumps(rows, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
