#!/usr/bin/env python3
"""Compares `touchstone load` with other load tools on one server, and prints the tables of docs/load.md.

    scripts/compare-load-tools.py [--binary target/release/touchstone] [--seconds 5] [--rounds 3] [--write]
    scripts/compare-load-tools.py --parts closed,open

The server is `touchstone serve` with one file, on the first processor; each tool runs alone on the last one.
The tools take turns in each round; a figure is the median of the rounds. The cost of a tool is the processor
time that the kernel counted for it, divided by its answers.

| part     | what is measured |
|----------|------------------|
| closed   | 64 clients as fast as the answers come: rate, processor time a request, p99 |
| open     | 2,000 requests a second: p50 and p99 |
| stall    | 500 requests a second to a server that stands still for 2 of 10 s: p50, p95, p99    |
| versions | HTTP/2 and HTTP/3 beside h2load |
| values   | sessions in which each request takes 0, 1 or 5 values from its answer |
| sockets  | 16 WebSockets with a server by the Python package websockets, each message answered, beside k6 |

Tools that are not installed are omitted and reported: wrk and h2load (Debian packages wrk, nghttp2-client),
k6 and vegeta (scripts/setup.sh --rivals, with Go), oha (cargo install oha). --write puts the tables into
docs/load.md.

Exit codes: 0 measured, 1 a tool failed, 3 a requirement is missing.
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from common import TARGET, TOP, free_port, missing

PAGE = TOP / "docs/load.md"
CLIENTS = 64
RATE = 2000
STALL_RATE = 500
STALL_AT, STALL, STALL_RUN = 4, 2, 10
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


def run(command, core, seconds, text=None, environment=None):
    """The output of a tool on its processor, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(
        ["taskset", "-c", str(core), *command], input=text, capture_output=True, text=True, check=False,
        timeout=seconds * 6 + 60, env=os.environ | (environment or {}),
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Exit codes of tools for thresholds and errors are ignored: only the figures are used.
    if not ended.stdout.strip():
        print(f"{' '.join(command[:3])}: {ended.stderr.strip()[:400]}", file=sys.stderr)
        sys.exit(1)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return ended.stdout, used


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
    if version == "3" and "h3" not in run(["h2load", "--help"], core, 1)[0]:
        return None
    command = ["h2load", "-t1", "-D", str(seconds)]
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


K6 = """\
import http from 'k6/http';
const rate = Number(__ENV.RATE), seconds = __ENV.SECONDS + 's', clients = Number(__ENV.CLIENTS);
export const options = {
  discardResponseBodies: true,
  summaryTrendStats: ['med', 'p(95)', 'p(99)', 'count'],
  scenarios: {
    load: rate > 0
      ? { executor: 'constant-arrival-rate', rate: rate, timeUnit: '1s', duration: seconds,
          preAllocatedVUs: clients, maxVUs: clients }
      : { executor: 'constant-vus', vus: clients, duration: seconds },
  },
};
export default function () { http.get(__ENV.URL); }
"""


def k6(options, server, core, seconds, rate, version="1.1"):
    if version != "1.1":
        return None
    script, summary = options.scratch / "load.js", options.scratch / "k6.json"
    script.write_text(K6)
    environment = {
        "URL": server.url, "RATE": str(rate or 0), "SECONDS": str(seconds), "CLIENTS": str(CLIENTS),
        "GOMAXPROCS": "1", "K6_NO_USAGE_REPORT": "true",
    }
    command = ["k6", "run", f"--summary-export={summary}", str(script)]
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


def installed():
    there = {}
    for name, tool in TOOLS.items():
        if name == "touchstone load" or shutil.which(name):
            there[name] = tool
        else:
            print(f"compare-load-tools: {name} is not installed: it is omitted", file=sys.stderr)
    return there


def written(value, form="{:,.0f}"):
    return "" if value is None else form.format(value)


def three(value):
    """Three significant digits."""
    return "" if value is None else f"{float(f'{value:.3g}'):,g}"


def rounds(options, measure):
    """The median of each figure over the rounds, tool by tool; the tools take turns."""
    found = {}
    for _ in range(options.rounds):
        for name, tool in options.tools.items():
            if (one := measure(tool)) is not None:
                found.setdefault(name, []).append(one)
    def median(rows, key):
        known = [row[key] for row in rows if row.get(key) is not None]
        return statistics.median(known) if known else None

    keys = ["rate", "cost", "p50", "p95", "p99", "mean"]
    return {name: {key: median(rows, key) for key in keys} for name, rows in found.items()}


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


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


def versions(options, server):
    rows = []
    for version in ("2", "3"):
        found = rounds(
            options, lambda tool: tool(options, server, options.core, options.seconds, None, version)
        )
        own = found["touchstone load"]["cost"]
        for name, of in found.items():
            ratio = f"{own / of['cost']:.2f}"
            rows.append([f"HTTP/{version}, {name}", written(of["rate"]), three(of["cost"]), ratio])
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
                print(f"compare-load-tools: {load['error_reasons']}", file=sys.stderr)
                sys.exit(1)
            costs.setdefault((kind, count), []).append(used * 1e6 / load["requests"])
    found = {key: statistics.median(rows) for key, rows in costs.items()}
    plain = found[("json", 0)]
    name = lambda kind, count: {0: "none", 1: f"1 of {kind}", 5: f"5 of {kind}"}[count]
    rows = [[name(*key), three(cost), f"{cost / plain:.2f}"] for key, cost in found.items()]
    return table(["values taken from each answer of 1 KiB", "CPU µs a request", "of none"], rows)


ECHO = """\
import asyncio, sys
from websockets.asyncio.server import serve

async def echo(socket):
    async for message in socket:
        await socket.send(message)

async def main():
    async with serve(echo, "127.0.0.1", int(sys.argv[1]), compression=None):
        await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""

K6_SOCKETS = """\
import ws from 'k6/ws';
import { Trend } from 'k6/metrics';
const answer = new Trend('answer', true);
export const options = {
  vus: Number(__ENV.CLIENTS), duration: __ENV.SECONDS + 's', summaryTrendStats: ['med', 'p(99)', 'count'],
};
export default function () {
  ws.connect(__ENV.URL, {}, (socket) => {
    let sent = 0;
    const send = () => { sent = Date.now(); socket.send('hello'); };
    socket.on('open', send);
    socket.on('message', () => { answer.add(Date.now() - sent); send(); });
    socket.setTimeout(() => socket.close(), Number(__ENV.SECONDS) * 1000);
  });
}
"""
SOCKETS = 16


def sockets(options, server):
    """Each client sends the next message after the answer to the last one; CPU is that of the tool."""
    python = TARGET / "websockets/bin/python"
    if not python.exists():
        missing("there is no WebSocket server: run scripts/setup-websockets.sh")
    port = free_port()
    echo = subprocess.Popen(["taskset", "-c", str(options.server_core), python, "-c", ECHO, str(port)],
                            stderr=subprocess.DEVNULL)
    url, seconds = f"ws://127.0.0.1:{port}/", options.seconds
    try:
        server.wait(port)
        found = {}
        for _ in range(options.rounds):
            command = [options.binary, "load", url, "--body", "hello", "--sends", "all", "--json"]
            command += ["--clients", str(SOCKETS), "--duration", f"{seconds}s"]
            text, used = run(command, options.core, seconds)
            load = json.loads(text)
            count = load["messages"]["count"]
            answer = load["websockets"]["answer_us"]
            row = [count / seconds, used * 1e6 / count, answer["p50"] / 1000, answer["p99"] / 1000]
            found.setdefault("touchstone load", []).append(row)
            if "k6" not in options.tools:
                continue
            script, summary = options.scratch / "sockets.js", options.scratch / "sockets.json"
            script.write_text(K6_SOCKETS)
            environment = {"URL": url, "SECONDS": str(seconds), "CLIENTS": str(SOCKETS), "GOMAXPROCS": "1"}
            command = ["k6", "run", f"--summary-export={summary}", str(script)]
            _, used = run(command, options.core, seconds, environment=environment)
            of = json.loads(summary.read_text())["metrics"]["answer"]
            # k6 scripts have only whole milliseconds.
            row = [of["count"] / seconds, used * 1e6 / of["count"], None, None]
            found.setdefault("k6", []).append(row)
    finally:
        echo.terminate()
        echo.wait()

    def median(rows, place):
        known = [row[place] for row in rows if row[place] is not None]
        return statistics.median(known) if known else None

    own = median(found["touchstone load"], 1)
    rows = []
    for name, of in found.items():
        rate, cost, p50, p99 = [median(of, place) for place in range(4)]
        rows.append([name, written(rate), three(cost), f"{own / cost:.2f}", three(p50), three(p99)])
    heads = ["messages/s", "CPU µs a message", "ours / theirs", "p50 ms", "p99 ms"]
    return table([f"{SOCKETS} WebSockets", *heads], rows)


PARTS = {"closed": closed, "open": open_load, "stall": stall, "versions": versions, "values": values,
         "sockets": sockets}


def write(tables):
    text = PAGE.read_text()
    start, end = "<!-- tools:start -->", "<!-- tools:end -->"
    before, rest = text.split(start)
    _, after = rest.split(end)
    PAGE.write_text(f"{before}{start}\n\n" + "\n\n".join(tables) + f"\n\n{end}{after}")


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--binary", default=str(TOP / "target/release/touchstone"))
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--write", action="store_true", help="put the tables into docs/load.md")
    options = parser.parse_args()
    chosen = options.parts.split(",")
    if unknown := [name for name in chosen if name not in PARTS]:
        parser.error(f"there is no part {unknown[0]}")
    if options.write and chosen != list(PARTS):
        parser.error("--write takes all parts")
    for program, package in (("taskset", "util-linux"), ("openssl", "openssl")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    if not pathlib.Path(options.binary).exists():
        missing(f"there is no {options.binary}: run 'make build', or name another with --binary")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        missing("it takes two processors: one for the server, and one for the tools")
    options.server_core, options.core, options.tools = cores[0], cores[-1], installed()
    with tempfile.TemporaryDirectory() as directory:
        options.scratch = pathlib.Path(directory)
        options.scratch.chmod(0o755)
        server = Server(options.binary, options.scratch, cores[0])
        try:
            tables = []
            for name in chosen:
                tables.append(PARTS[name](options, server))
                print(tables[-1] + "\n", flush=True)
        finally:
            server.end()
    if options.write:
        write(tables)


if __name__ == "__main__":
    main()
