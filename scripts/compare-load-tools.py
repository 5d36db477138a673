#!/usr/bin/env python3
"""Compares `touchstone load` with other load tools on one server, and prints the tables of docs/load.md.

    scripts/compare-load-tools.py [--binary target/release/touchstone] [--seconds 4] [--rounds 3] [--write]
    scripts/compare-load-tools.py --parts closed,grpc --write

The server of the first parts is `touchstone serve` with one file, on the first processor; each tool runs
alone on the last one. The tools take turns in each round; a figure is the median of the rounds. The cost of a
tool is the processor time that the kernel counted for it, divided by its answers.

| part     | what is measured |
|----------|------------------|
| closed   | 64 clients as fast as the answers come: rate, processor time a request, p99 |
| open     | 2,000 requests a second: p50 and p99 |
| stall    | 500 requests a second to a server that stands still for 2 of 10 s: p50, p95, p99    |
| versions | HTTP/2 and HTTP/3 beside h2load, HTTP/3 also from Caddy |
| values   | sessions in which each request takes 0, 1 or 5 values from its answer |
| sockets  | 16 WebSockets with a server by the Python package websockets, each message answered, beside k6 |
| grpc     | unary calls and streams of a server by grpcio, closed and open, beside ghz and k6 |
| events   | server-sent events of uvicorn, beside Gatling; whole streams beside k6 and vegeta |
| streams  | gRPC, WebSockets and events whose server stands still for 2 of 10 s: p50, p95, p99 |

Tools that are not installed are omitted and reported: wrk and h2load (Debian packages wrk, nghttp2-client),
k6, vegeta, ghz and Gatling (scripts/setup-load-tools.sh), h2load with HTTP/3 (scripts/setup-h2load-http3.sh),
oha (cargo install oha). k6 has no server-sent events without an extension, and vegeta neither these nor
WebSockets nor gRPC. --write puts the tables of the measured parts into docs/load.md. All parts take about ten
minutes.

Exit codes: 0 measured, 1 a part could not be measured, 3 a requirement is missing.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from common import TOP, free_port, missing
from load_tool_streams import GATLING, events, grpc, sockets, stalled_streams
from load_tools import (
    CLIENTS, FILES, STALL, STALL_AT, STALL_RUN, NotMeasured, extend_path, installed, medians, omit, run,
    table, three, written,
)

PAGE = TOP / "docs/load.md"
RATE = 2000
STALL_RATE = 500
FILE_BYTES = 1024


class Server:
    """The server, with plain HTTP, and with TLS for HTTP/2 and HTTP/3."""

    def __init__(self, binary, scratch, core):
        root = scratch / "site"
        root.mkdir()
        values = {f"value{number}": f"{number:032x}" for number in range(5)}
        values["filling"] = "x" * (FILE_BYTES - len(json.dumps(values | {"filling": ""})))
        (root / "page.json").write_text(json.dumps(values))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-keyout", scratch / "key.pem", "-out", scratch / "cert.pem", "-days", "2",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            check=True, capture_output=True,
        )
        self.ports = [free_port(), free_port()]
        shared = ["--root", str(root), "--cores", "1"]
        secure = ["--cert", str(scratch / "cert.pem"), "--key", str(scratch / "key.pem"), "--http3"]
        self.processes = []
        for port, more in zip(self.ports, ([], secure)):
            command = ["taskset", "-c", str(core), binary, "serve", *shared, *more]
            command += ["--listen", f"127.0.0.1:{port}"]
            self.processes.append(
                subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            )
            self.wait(port)
        self.url = f"http://127.0.0.1:{self.ports[0]}/page.json"
        self.secure_url = f"https://127.0.0.1:{self.ports[1]}/page.json"

    def wait(self, port):
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        missing("the server does not start")

    def stand_still(self):
        time.sleep(STALL_AT)
        self.processes[0].send_signal(signal.SIGSTOP)
        time.sleep(STALL)
        self.processes[0].send_signal(signal.SIGCONT)

    def end(self):
        for process in self.processes:
            process.terminate()
            process.wait()


def milliseconds(text):
    """The seconds of a time of wrk and h2load: 1.23ms, 456us, 2s."""
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text.strip()).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]


def figures(rate, used, answers, p50, p95, p99):
    cost = used * 1e6 / answers if answers else None
    return {"rate": rate, "cost": cost, "p50": p50, "p95": p95, "p99": p99}


# Each tool: (server, core, seconds, rate or None, version) -> figures, or None if it does not support that.


def touchstone(options, server, core, seconds, rate, version="1.1"):
    command = [options.binary, "load", server.url, "--clients", str(CLIENTS)]
    command += ["--duration", f"{seconds}s", "--json"]
    if version != "1.1":
        command[2] = server.secure_url
        command += ["--insecure", {"2": "--http2", "3": "--http3"}[version], "--streams", "16"]
    if rate:
        command += ["--rate", str(rate)]
    text, used = run(command, core, seconds)
    load = json.loads(text)
    latency = load["latency_us"]
    answers = load["requests"]
    at = lambda name: latency[name] / 1000
    return figures(load["rate"], used, answers, at("p50"), at("p95"), at("p99"))


def wrk(options, server, core, seconds, rate, version="1.1"):
    if rate or version != "1.1":
        return None
    text, used = run(["wrk", "-t1", f"-c{CLIENTS}", f"-d{seconds}s", "--latency", server.url], core, seconds)
    answers = int(re.search(r"(\d+) requests in", text)[1])
    at = lambda percent: milliseconds(re.search(rf"\n\s+{percent}%\s+(\S+)", text)[1])
    return figures(answers / seconds, used, answers, at(50), None, at(99))


def h2load(options, server, core, seconds, rate, version="1.1"):
    if rate:
        return None
    program = "h2load-http3" if version == "3" or not shutil.which("h2load") else "h2load"
    if not shutil.which(program):
        return None
    command = [program, "-t1", "-D", str(seconds)]
    if version == "1.1":
        command += ["--h1", f"-c{CLIENTS}", server.url]
    else:
        command += [f"-c{CLIENTS // 16}", "-m16", server.secure_url]
        command += ["--alpn-list=h3"] if version == "3" else []
    text, used = run(command, core, seconds)
    answers = int(re.search(r"requests: \d+ total, \d+ started, (\d+) done", text)[1])
    mean = milliseconds(re.search(r"time for request:\s+\S+\s+\S+\s+(\S+)", text)[1])
    return figures(answers / seconds, used, answers, None, None, None) | {"mean": mean}


def vegeta(options, server, core, seconds, rate, version="1.1"):
    if version != "1.1":
        return None
    attack = ["vegeta", "attack", f"-duration={seconds}s", "-output=" + str(options.scratch / "vegeta.bin")]
    if rate:
        attack += [f"-rate={rate}/s", "-workers=50", f"-max-workers={CLIENTS}"]
    else:
        attack += ["-rate=0", f"-workers={CLIENTS}", f"-max-workers={CLIENTS}"]
    # The attack has no output.
    shell = f"{' '.join(attack)} && echo done"
    target, environment = f"GET {server.url}\n", {"GOMAXPROCS": "1"}
    _, used = run(["sh", "-c", shell], core, seconds, text=target, environment=environment)
    text, _ = run(["vegeta", "report", "-type=json", str(options.scratch / "vegeta.bin")], core, seconds)
    report = json.loads(text)
    at = lambda name: report["latencies"][name] / 1e6
    return figures(report["throughput"], used, report["requests"], at("50th"), at("95th"), at("99th"))


def k6(options, server, core, seconds, rate, version="1.1"):
    if version != "1.1":
        return None
    summary = options.scratch / "k6.json"
    environment = {
        "URL": server.url, "RATE": str(rate or 0), "SECONDS": str(seconds), "CLIENTS": str(CLIENTS),
        "GOMAXPROCS": "1", "K6_NO_USAGE_REPORT": "true",
    }
    command = ["k6", "run", f"--summary-export={summary}", FILES / "k6_http.js"]
    _, used = run(command, core, seconds, environment=environment)
    metrics = json.loads(summary.read_text())["metrics"]
    of = metrics["http_req_duration"]
    answers = metrics["http_reqs"]["count"]
    return figures(metrics["http_reqs"]["rate"], used, answers, of["med"], of["p(95)"], of["p(99)"])


def oha(options, server, core, seconds, rate, version="1.1"):
    if version == "3":
        return None
    command = ["oha", "--no-tui", "--output-format", "json", "-z", f"{seconds}s", "-c", str(CLIENTS)]
    if version == "2":
        command += ["--http2", "--insecure", "-c", str(CLIENTS // 16), "-p", "16"]
    if rate:
        command += ["-q", str(rate), "--latency-correction"]
    url = server.secure_url if version == "2" else server.url
    text, used = run([*command, url], core, seconds, environment={"TOKIO_WORKER_THREADS": "1"})
    report = json.loads(text)
    at = lambda name: report["latencyPercentiles"][name] * 1000
    rate_found = report["summary"]["requestsPerSec"]
    return figures(rate_found, used, rate_found * report["summary"]["total"], at("p50"), at("p95"), at("p99"))


TOOLS = {"touchstone load": touchstone, "wrk": wrk, "h2load": h2load, "oha": oha, "vegeta": vegeta, "k6": k6}


# How each tool is installed, and its program or a file of it.
INSTALLED = {
    "wrk": ("the package wrk", "wrk"),
    "h2load": ("the package nghttp2-client", "h2load"),
    "h2load with HTTP/3": ("scripts/setup-h2load-http3.sh", "h2load-http3"),
    "oha": ("cargo install oha", "oha"),
    "vegeta": ("scripts/setup-load-tools.sh", "vegeta"),
    "k6": ("scripts/setup-load-tools.sh", "k6"),
    "ghz": ("scripts/setup-load-tools.sh", "ghz"),
    "Gatling": ("scripts/setup-load-tools.sh", GATLING / "lib"),
}


def rounds(options, measure):
    """The median of each figure over the rounds, tool by tool; the tools take turns."""
    found = {}
    for _ in range(options.rounds):
        for name, tool in TOOLS.items():
            if name not in options.tools:
                continue
            try:
                if (one := measure(tool)) is not None:
                    found.setdefault(name, []).append(one)
            except NotMeasured as reason:
                omit(options, name, reason)
    return {name: medians(rows) for name, rows in found.items()}


def closed(options, server):
    found = rounds(options, lambda tool: tool(options, server, options.core, options.seconds, None))
    own = found["touchstone load"]["cost"]
    rows = []
    for name, of in found.items():
        ratio = f"{own / of['cost']:.2f}"
        rows.append([name, written(of["rate"]), three(of["cost"]), ratio, three(of["p50"]), three(of["p99"])])
    heads = ["64 clients", "requests/s", "CPU µs a request", "ours / theirs", "p50 ms", "p99 ms"]
    return table(heads, rows)


def open_load(options, server):
    found = rounds(options, lambda tool: tool(options, server, options.core, options.seconds, RATE))
    rows = [
        [name, written(of["rate"]), three(of["cost"]), three(of["p50"]), three(of["p95"]), three(of["p99"])]
        for name, of in found.items()
    ]
    heads = [f"{RATE:,} requests a second", "answered/s", "CPU µs a request", "p50 ms", "p95 ms", "p99 ms"]
    return table(heads, rows)


def stall(options, server):
    """The server is stopped for 2 of 10 s: a fifth of the requests wait for up to 2 s, evenly distributed."""
    def measure(tool):
        stopper = threading.Thread(target=server.stand_still)
        stopper.start()
        try:
            return tool(options, server, options.core, STALL_RUN, STALL_RATE)
        finally:
            stopper.join()
    kept, options.rounds = options.rounds, 1
    found = rounds(options, measure)
    options.rounds = kept
    # The slowest fifth is distributed evenly over 0 to 2 s, so 95 % arrive within 1.5 s, 99 % within 1.9 s.
    within = lambda percent: max(0.0, (STALL - (100 - percent) / 100 * STALL_RUN)) * 1000
    rows = [[name, three(of["p50"]), three(of["p95"]), three(of["p99"])] for name, of in found.items()]
    rows.append(["the truth", "below 1", three(within(95)), three(within(99))])
    what = f"{STALL_RATE} requests a second, {STALL} of {STALL_RUN} s without an answer"
    return table([what, "p50 ms", "p95 ms", "p99 ms"], rows)


class Caddy:
    """Caddy with the same file over HTTP/3."""

    def __init__(self, options, server):
        self.port = free_port()
        scratch = options.scratch
        file = scratch / "Caddyfile"
        file.write_text(
            "{\n admin off\n auto_https off\n default_sni localhost\n}\n"
            f"https://:{self.port} {{\n tls {scratch}/cert.pem {scratch}/key.pem\n"
            f" root * {scratch}/site\n file_server\n}}\n"
        )
        command = ["taskset", "-c", str(options.server_core), "caddy", "run", "--config", str(file)]
        environment = os.environ | {"GOMAXPROCS": "1", "XDG_CONFIG_HOME": str(scratch), "HOME": str(scratch)}
        self.process = subprocess.Popen(
            [*command, "--adapter", "caddyfile"], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server.wait(self.port)
        self.secure_url = f"https://127.0.0.1:{self.port}/page.json"
        self.url = None

    def end(self):
        self.process.terminate()
        self.process.wait()


def versions(options, server):
    rows = []

    def add(what, at, version):
        found = rounds(options, lambda tool: tool(options, at, options.core, options.seconds, None, version))
        own = found["touchstone load"]["cost"]
        for name, of in found.items():
            ratio = f"{own / of['cost']:.2f}"
            rows.append([f"{what}, {name}", written(of["rate"]), three(of["cost"]), ratio])

    add("HTTP/2", server, "2")
    add("HTTP/3", server, "3")
    if shutil.which("caddy"):
        caddy = Caddy(options, server)
        try:
            add("HTTP/3 from Caddy", caddy, "3")
        finally:
            caddy.end()
    heads = ["4 connections with 16 streams each", "requests/s", "CPU µs a request", "ours / theirs"]
    return table(heads, rows)


def values(options, server):
    """Each request of a session extracts this number of values from its answer, and sends the first back."""
    costs = {}
    for _ in range(options.rounds):
        for kind, count in [("json", 0), ("json", 1), ("json", 5), ("regex", 1), ("header", 1)]:
            source = {
                "json": lambda number: f"json $.value{number}",
                "regex": lambda number: rf'regex \"value{number}\": \"([0-9a-f]+)\"',
                "header": lambda number: "header ETag",
            }[kind]
            extract = ", ".join(f'v{number} = "{source(number)}"' for number in range(count))
            taken = f", extract = {{ {extract} }}" if count else ""
            first = f'{{ path = "/page.json"{taken} }}'
            query = "?${v0|query}" if count else "?" + "0" * 32
            later = f'{{ path = "/page.json{query}"{taken} }}'
            sessions = options.scratch / "sessions.toml"
            sessions.write_text(f'[[session]]\nname = "s"\nrequests = [{", ".join([first] + [later] * 9)}]\n')
            url = server.url.removesuffix("/page.json") + "/"
            command = [options.binary, "load", url, "--sessions", str(sessions), "--clients", str(CLIENTS)]
            command += ["--duration", f"{options.seconds}s", "--json"]
            text, used = run(command, options.core, options.seconds)
            load = json.loads(text)
            if load["errors"]:
                raise NotMeasured(load["error_reasons"])
            costs.setdefault((kind, count), []).append(used * 1e6 / load["requests"])
    found = {key: statistics.median(rows) for key, rows in costs.items()}
    plain = found[("json", 0)]
    name = lambda kind, count: {0: "none", 1: f"1 of {kind}", 5: f"5 of {kind}"}[count]
    rows = [[name(*key), three(cost), f"{cost / plain:.2f}"] for key, cost in found.items()]
    return table(["values taken from each answer of 1 KiB", "CPU µs a request", "of none"], rows)


PARTS = {"closed": closed, "open": open_load, "stall": stall, "versions": versions, "values": values,
         "sockets": sockets, "grpc": grpc, "events": events, "streams": stalled_streams}


def write(tables):
    """Replaces these tables of the page; each follows a comment with the name of its part."""
    text = PAGE.read_text()
    start, end = "<!-- tools:start -->", "<!-- tools:end -->"
    before, rest = text.split(start)
    block, after = rest.split(end)
    pieces = re.split(r"<!-- table: (\w+) -->", block)
    kept = {name: piece.strip() for name, piece in zip(pieces[1::2], pieces[2::2])} | tables
    inside = [f"<!-- table: {name} -->\n\n{kept[name]}" for name in PARTS if name in kept]
    PAGE.write_text(f"{before}{start}\n\n" + "\n\n".join(inside) + f"\n\n{end}{after}")


def measure(options, chosen):
    """The tables of these parts, and whether all could be made."""
    tables, complete = {}, True
    with tempfile.TemporaryDirectory() as directory:
        options.scratch = pathlib.Path(directory)
        options.scratch.chmod(0o755)
        server = Server(options.binary, options.scratch, options.server_core)
        try:
            for name in chosen:
                try:
                    tables[name] = PARTS[name](options, server)
                    print(tables[name] + "\n", flush=True)
                except NotMeasured as reason:
                    print(f"compare-load-tools: the part {name}: {reason}", file=sys.stderr, flush=True)
                    complete = False
        finally:
            server.end()
    return tables, complete


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--binary", default=str(TOP / "target/release/touchstone"))
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS), help="only these tables, separated by commas")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/load.md")
    options = parser.parse_args()
    chosen = options.parts.split(",")
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}")
    # The parts with streams have more loads, and are shorter.
    options.short = max(1, options.seconds - 1)
    extend_path()
    for program, package in (("taskset", "util-linux"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    if not pathlib.Path(options.binary).exists():
        missing(f"there is no {options.binary}: run 'make build', or name another with --binary")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        missing("it takes two processors: one for the server, and one for the tools")
    options.server_core, options.core, options.tools = cores[0], cores[-1], installed(INSTALLED)
    if "h2load with HTTP/3" in options.tools:
        options.tools.add("h2load")
    if (busy := os.getloadavg()[0]) > 1:
        print(f"compare-load-tools: the machine has other work (load average {busy:.1f}): rates and times are"
              " not those of a quiet machine", file=sys.stderr, flush=True)
    tables, complete = measure(options, chosen)
    if options.write:
        write(tables)
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
