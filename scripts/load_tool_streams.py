"""The parts of compare-load-tools.py for gRPC, server-sent events and WebSockets.

The servers are those of other authors: grpcio, uvicorn and the Python package websockets. They count what
they served, and the counts of a tool are compared with theirs. The processor time that a tool needs for a
single call, mostly its start, is subtracted from that of its loads.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.request

from common import CACHE, TARGET, TOP, free_port
from load_tools import (
    CLIENTS, FILES, STALL, STALL_AT, STALL_RUN, NotMeasured, median, omit, run, table, three, written,
)

CALLERS = 16
CALL_RATE, STREAM_RATE, STREAM_MESSAGES = 500, 50, 10
EVENT_RATE, EVENTS, EVENT_SLEEPS = 200, 5, [0.03] + [0.02] * 4
SOCKETS = 16
STALLED_RATE, STALLED_CLIENTS = 100, 24
GATLING = CACHE / "gatling"
UVICORN = CACHE / "python-servers/bin/uvicorn"


# --- servers --------------------------------------------------------------------------------------------


class CountingServer:
    """A server that prints its port, and for each line of its input the number of its calls and messages."""

    def __init__(self, options, environment, setup, program):
        python = TARGET / environment / "bin/python"
        if not python.exists():
            raise NotMeasured(f"there is no server: run {setup}")
        self.process = subprocess.Popen(
            ["taskset", "-c", str(options.server_core), python, FILES / program],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.address = f"127.0.0.1:{self.process.stdout.readline().strip()}"

    def counts(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class EventServer:
    """uvicorn with the application of the tests, which has a log of what it sent, and when."""

    def __init__(self, options):
        if not UVICORN.exists():
            raise NotMeasured("there is no uvicorn: run scripts/setup-python-servers.sh")
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.process = subprocess.Popen(
            ["taskset", "-c", str(options.server_core), UVICORN, "sse_app:app", "--log-level", "error",
             "--host", "127.0.0.1", "--port", str(port), "--app-dir", TOP / "crates/touchstone/tests/lab"],
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise NotMeasured("uvicorn does not start")

    def log(self):
        with urllib.request.urlopen(f"http://{self.address}/log", timeout=30) as answer:
            return json.load(answer)

    def counts(self):
        log = self.log()
        # A stream that has begun is a call.
        return {"calls": len(log["first_us"]), "messages": log["events"]}

    __enter__, __exit__ = CountingServer.__enter__, CountingServer.__exit__


def grpc_server(options):
    return CountingServer(options, "grpcio", "scripts/setup-grpc.sh", "grpc_server.py")


def websocket_server(options):
    return CountingServer(options, "websockets", "scripts/setup-websockets.sh", "websocket_server.py")


# --- tools ----------------------------------------------------------------------------------------------
#
# A load is a dictionary: kind (Echo, Count, events, sockets), rate (0: closed), clients, seconds, once (a
# single call, to measure the start). The result has calls and messages (those that the tool counted), used,
# and in milliseconds p50, p95, p99 of a whole call, first_... to its first message, gap_... between messages.


def percentiles(prefix, of):
    """The figures of one of the histograms of `touchstone load`."""
    return {prefix + name: of[name] / 1000 for name in ("p50", "p95", "p99")} if of and of["count"] else {}


def touchstone(options, address, load):
    kind = load["kind"]
    command = [options.binary, "load", "--json", "--clients", "1" if load["once"] else load["clients"]]
    if kind in ("Echo", "Count"):
        body = options.scratch / "body.bin"
        body.write_bytes(b"\x0a\x05hello" if kind == "Echo" else bytes([8, STREAM_MESSAGES]))
        command += [f"http://{address}/load.Calls/{kind}", "--grpc", "--http2", "--body-file", body]
    elif kind == "events":
        command += [f"http://{address}/events", "--messages", "events"]
    else:
        # A WebSocket of a closed load lives as long as the run, one of an open load has one message.
        sends = "1" if load["once"] or load["rate"] else "all"
        command += [f"ws://{address}/", "--body", "hello", "--sends", sends]
    command += ["--requests", "1"] if load["once"] else ["--duration", f"{load['seconds']}s"]
    command += ["--rate", load["rate"]] if load["rate"] and not load["once"] else []
    text, used = run(command, options.core, load["seconds"])
    found = json.loads(text)
    if found["errors"]:
        raise NotMeasured(f"touchstone load: {found['error_reasons']}")
    messages = found["messages"]
    figures = {"calls": found["requests"], "messages": messages["whole_run"], "used": used}
    figures |= percentiles("", found["latency_us"]) | percentiles("first_", messages["first_us"])
    if kind == "sockets":
        figures |= percentiles("answer_", found["websockets"]["answer_us"])
        figures["sent"] = found["websockets"]["sent"]
    return figures | percentiles("gap_", messages["gap_us"])


def ghz(options, address, load):
    kind = load["kind"]
    data = '{"text":"hello"}' if kind == "Echo" else json.dumps({"number": STREAM_MESSAGES})
    command = ["ghz", "--insecure", "--proto", FILES / "calls.proto", "--call", f"load.Calls.{kind}"]
    command += ["-d", data, "-O", "json", "--timeout", "30s"]
    if load["once"]:
        command += ["-n", "1", "-c", "1"]
    elif load["rate"]:
        count = load["rate"] * load["seconds"]
        command += ["--async", "--rps", load["rate"], "-n", count, "-c", load["clients"]]
        command += ["--connections", load["clients"]]
    else:
        command += ["-z", f"{load['seconds']}s", "--duration-stop", "wait", "-c", load["clients"]]
        command += ["--connections", load["clients"]]
    text, used = run([*command, address], options.core, load["seconds"], environment={"GOMAXPROCS": "1"})
    report = json.loads(text)
    at = {row["percentage"]: row["latency"] / 1e6 for row in report["latencyDistribution"] or []}
    calls = report["statusCodeDistribution"].get("OK", 0)
    return {"calls": calls, "used": used, "p50": at.get(50), "p95": at.get(95), "p99": at.get(99)}


def k6(options, address, load):
    kind = load["kind"]
    script = {"Echo": "grpc", "Count": "grpc", "events": "http", "sockets": "sockets"}[kind]
    summary = options.scratch / "k6.json"
    environment = {
        "RATE": load["rate"], "SECONDS": load["seconds"], "CLIENTS": load["clients"],
        "ONCE": "1" if load["once"] else "", "GOMAXPROCS": "1", "K6_NO_USAGE_REPORT": "true",
        "ADDRESS": address, "METHOD": kind, "DEFINITIONS": FILES,
        "MESSAGES": STREAM_MESSAGES if script == "grpc" else "1" if load["rate"] or load["once"] else "all",
        "URL": f"ws://{address}/" if kind == "sockets" else f"http://{address}/events",
    }
    environment = {name: str(value) for name, value in environment.items()}
    command = ["k6", "run", f"--summary-export={summary}", FILES / f"k6_{script}.js"]
    _, used = run(command, options.core, load["seconds"], environment=environment)
    metrics = json.loads(summary.read_text())["metrics"]
    name = {"Echo": "grpc_req_duration", "Count": "whole", "events": "http_req_duration", "sockets": "answer"}
    if not (of := metrics.get(name[kind])):
        raise NotMeasured(f"k6 answered no {kind}")
    figures = {"calls": of["count"] - metrics.get("failed", {}).get("count", 0), "used": used}
    prefix = "first_" if kind == "sockets" else ""
    figures |= {prefix + "p50": of["med"], prefix + "p95": of["p(95)"], prefix + "p99": of["p(99)"]}
    if kind == "Count":
        figures["messages"] = metrics["grpc_streams_msgs_received"]["count"]
    if kind == "sockets":
        figures["messages"] = of["count"]
        figures["sent"] = metrics["ws_msgs_sent"]["count"]
    return figures


def vegeta(options, address, load):
    output = options.scratch / "vegeta.bin"
    rate, seconds = (1, 1) if load["once"] else (load["rate"], load["seconds"])
    attack = f"vegeta attack -duration={seconds}s -output={output} -rate={rate}/s -workers={load['clients']}"
    # The attack has no output.
    shell = f"{attack} -max-workers={load['clients']} && echo done"
    target, environment = f"GET http://{address}/events\n", {"GOMAXPROCS": "1"}
    _, used = run(["sh", "-c", shell], options.core, seconds, text=target, environment=environment)
    text, _ = run(["vegeta", "report", "-type=json", output], options.core, seconds)
    report = json.loads(text)
    at = lambda name: report["latencies"][name] / 1e6
    calls = report["status_codes"].get("200", 0)
    return {"calls": calls, "used": used, "p50": at("50th"), "p95": at("95th"), "p99": at("99th")}


def gatling(options, address, load):
    """Streams or WebSockets by Gatling; the program is compiled once."""
    libraries = f"{GATLING}/lib/*"
    compiled = options.scratch / "gatling"
    if not compiled.exists():
        source = FILES / "GatlingStreams.java"
        made = subprocess.run(["javac", "-cp", libraries, "-d", compiled, source], check=False,
                              capture_output=True, text=True)
        if made.returncode:
            raise NotMeasured(f"javac: {made.stderr[:400]}")
    rate = 0 if load["once"] else load["rate"]
    scheme = "http" if load["kind"] == "events" else "ws"
    command = ["java", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", f"{compiled}:{libraries}"]
    command += [f"-Dstreams={load['kind']}", f"-Drate={rate}", f"-Dseconds={load['seconds']}"]
    command += [f"-Durl={scheme}://{address}", f"-Dlogback.configurationFile={FILES / 'logback.xml'}"]
    command += ["io.gatling.app.Gatling", "-s", "GatlingStreams", "-nr"]
    command += ["-rf", options.scratch / "gatling-results"]
    text, used = run(command, options.core, load["seconds"])
    figures = {"used": used}
    # The whole of a WebSocket ends with its only message.
    names = {"first event": "first_", "next event": "gap_", "whole": "" if scheme == "http" else "first_"}
    pattern = r"(first event|next event|whole): (\d+)th percentile of response time .*?actual : ([\d.]+)"
    for name, percent, value in re.findall(pattern, text):
        figures[f"{names[name]}p{percent}"] = float(value)
    pattern = r"(first event|next event|whole): count of successful events .*?actual : ([\d.]+)"
    counts = {name: int(float(count)) for name, count in re.findall(pattern, text)}
    if not counts:
        raise NotMeasured(f"Gatling: {text[-400:]}")
    messages = sum(counts[name] for name in counts if name != "whole") or counts["whole"]
    return figures | {"calls": counts["whole"], "messages": messages}


TOOLS = {"touchstone load": touchstone, "ghz": ghz, "k6": k6, "Gatling": gatling, "vegeta": vegeta}


def chosen(options, *names):
    return {name: TOOLS[name] for name in names if name in options.tools}


# --- measuring ------------------------------------------------------------------------------------------


def compared(options, server, tool, load, start):
    """The figures of one load, with how far its count is from the server's."""
    before = server.counts()
    log = server.log() if isinstance(server, EventServer) else None
    figures = tool(options, server.address, load | {"once": False})
    counts = server.counts()
    # vegeta, ghz, and k6 where it reads events, do not count messages. At the end of a load of WebSockets
    # some messages are sent, and not answered any more.
    of = "messages" if "messages" in figures else "calls"
    figures["off"] = abs(figures.get("sent", figures[of]) - (counts[of] - before[of]))
    figures["counted"] = of
    figures["used"] = max(figures["used"] - start, 0.0)
    return figures | (server_times(server.log(), log) if log else {})


def measured(options, start_server, tools, load):
    """The medians of each tool. The server is a new one for each run, and its counts must be the tool's."""
    starts, found = {}, {}
    for _ in range(options.rounds):
        for name, tool in tools.items():
            if name not in options.tools:
                continue
            try:
                with start_server(options) as server:
                    if name not in starts:
                        starts[name] = tool(options, server.address, load | {"once": True})["used"]
                    found.setdefault(name, []).append(compared(options, server, tool, load, starts[name]))
            except NotMeasured as reason:
                omit(options, name, reason)
    result = {}
    for name, rows in found.items():
        keys = {key for row in rows for key in row} - {"counted"}
        result[name] = {key: median(rows, key) for key in keys}
        result[name]["off"] = f"{max(row['off'] for row in rows)} {rows[0]['counted']}"
    return result


def server_times(log, before):
    """The times of the events of one load by the server's clock, in milliseconds."""
    times = {}
    for name, of in (("first", "first_us"), ("gap", "gaps_us")):
        rows = sorted(log[of][len(before[of]):])
        for percent in (50, 99):
            times[f"server_{name}_p{percent}"] = rows[len(rows) * percent // 100] / 1000 if rows else None
    return times


def grpc(options, _server):
    """Unary calls and streams of the server, closed and open."""
    tools = chosen(options, "touchstone load", "ghz", "k6")
    rows = []
    for what, kind, rate in (
        (f"unary, {CALLERS} clients", "Echo", 0), (f"unary, {CALL_RATE} a second", "Echo", CALL_RATE),
        (f"streams of {STREAM_MESSAGES}, {CALLERS} clients", "Count", 0),
        (f"streams of {STREAM_MESSAGES}, {STREAM_RATE} a second", "Count", STREAM_RATE),
    ):
        clients = CLIENTS if rate else CALLERS
        load = {"kind": kind, "rate": rate, "clients": clients, "seconds": options.short}
        found = measured(options, grpc_server, tools, load)
        cost = lambda of: of["used"] * 1e6 / of["calls"]
        own = cost(found["touchstone load"])
        for name, of in found.items():
            figures = [written(of["calls"] / options.short), three(cost(of)), f"{own / cost(of):.2f}"]
            rows.append([f"{what}: {name}", *figures, three(of["p50"]), three(of["p99"]), of["off"]])
    heads = ["calls/s", "CPU µs a call", "ours / theirs", "p50 ms", "p99 ms", "counts differ by"]
    return table(["gRPC", *heads], rows)


def events(options, _server):
    """Streams of events that are 20 ms apart, the first after 30 ms, in an open load."""
    tools = chosen(options, "touchstone load", "Gatling", "k6", "vegeta")
    load = {"kind": "events", "rate": EVENT_RATE, "clients": CLIENTS, "seconds": options.short}
    found = measured(options, EventServer, tools, load)
    cost = lambda of: of["used"] * 1e6 / of["calls"]
    own = cost(found["touchstone load"])
    rows = []
    names = ["first_p50", "first_p99", "gap_p50", "gap_p99", "p50", "p99"]
    for name, of in found.items():
        figures = [three(of.get(key)) for key in names]
        rows.append([name, three(cost(of)), f"{own / cost(of):.2f}", *figures, of["off"]])
    by_server = [three(found["touchstone load"].get(f"server_{key}")) for key in names[:4]]
    rows.append(["the server's clock", "", "", *by_server, "", "", ""])
    heads = ["CPU µs a stream", "ours / theirs", "first event p50 ms", "p99", "next event p50 ms", "p99",
             "whole stream p50 ms", "p99", "counts differ by"]
    return table([f"{EVENT_RATE} streams of {EVENTS} events a second", *heads], rows)


def sockets(options, _server):
    """Each client sends the next message after the answer to the last one."""
    tools = chosen(options, "touchstone load", "k6")
    load = {"kind": "sockets", "rate": 0, "clients": SOCKETS, "seconds": options.seconds}
    found = measured(options, websocket_server, tools, load)
    cost = lambda of: of["used"] * 1e6 / of["messages"]
    own = cost(found["touchstone load"])
    rows = []
    for name, of in found.items():
        # k6 scripts have only whole milliseconds.
        times = [three(of.get("answer_p50")), three(of.get("answer_p99"))]
        rate = written(of["messages"] / options.seconds)
        rows.append([name, rate, three(cost(of)), f"{own / cost(of):.2f}", *times, of["off"]])
    heads = ["messages/s", "CPU µs a message", "ours / theirs", "p50 ms", "p99 ms", "counts differ by"]
    return table([f"{SOCKETS} WebSockets", *heads], rows)


def truth(sleeps):
    """Percentiles of the times to the end of these sleeps of a server that is stopped, in milliseconds."""
    waits = []
    for number in range(10_000):
        due = at = number / 10_000 * STALL_RUN
        for sleep in [0, *sleeps]:
            at += sleep
            if STALL_AT <= at < STALL_AT + STALL:
                at = STALL_AT + STALL
        waits.append((at - due) * 1000)
    waits.sort()
    return {f"p{percent}": waits[len(waits) * percent // 100] for percent in (50, 95, 99)}


def stalled(options, start_server, tool, load):
    """The figures of a tool whose server is stopped STALL_AT seconds after the first call."""
    with start_server(options) as server:
        ended = threading.Event()

        def stop():
            while not ended.is_set() and not server.counts()["calls"]:
                time.sleep(0.02)
            if ended.wait(STALL_AT):
                return
            server.process.send_signal(signal.SIGSTOP)
            ended.wait(STALL)
            server.process.send_signal(signal.SIGCONT)

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            return tool(options, server.address, load)
        finally:
            ended.set()
            stopper.join()


def stalled_streams(options, _server):
    """Open loads on servers that are stopped for 2 of 10 s."""
    kinds = [
        ("gRPC", "Echo", grpc_server, "", ["touchstone load", "ghz", "k6"], []),
        ("WebSocket, first message", "sockets", websocket_server, "first_",
         ["touchstone load", "Gatling", "k6"], []),
        ("first event", "events", EventServer, "first_", ["touchstone load"], EVENT_SLEEPS[:1]),
        ("whole stream", "events", EventServer, "", ["touchstone load", "Gatling", "k6", "vegeta"],
         EVENT_SLEEPS),
    ]
    rows, done = [], {}
    for what, kind, start_server, prefix, names, sleeps in kinds:
        for name, tool in chosen(options, *names).items():
            load = {"kind": kind, "rate": STALLED_RATE, "clients": STALLED_CLIENTS, "once": False}
            load["seconds"] = STALL_RUN
            try:
                if (kind, name) not in done:
                    done[kind, name] = stalled(options, start_server, tool, load)
            except NotMeasured as reason:
                omit(options, name, reason)
                continue
            of = done[kind, name]
            figures = [three(of.get(f"{prefix}p{percent}")) for percent in (50, 95, 99)]
            rows.append([f"{what}: {name}", written(of["calls"]), *figures])
        found = truth(sleeps)
        figures = [three(found[f"p{percent}"]) for percent in (50, 95, 99)]
        figures[0] = figures[0] if sleeps else "below 5"
        rows.append([f"{what}: the truth", written(STALLED_RATE * STALL_RUN), *figures])
    what = f"{STALLED_RATE} a second, {STALL} of {STALL_RUN} s without an answer"
    return table([what, "calls", "p50 ms", "p95 ms", "p99 ms"], rows)
