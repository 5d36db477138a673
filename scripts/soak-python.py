#!/usr/bin/env python3
"""Runs faulty Python applications under load, and reports the effect on other requests.

  scripts/soak-python.py                 five minutes each: kill, hang, exhaust, reload, hostile; WSGI and ASGI
  SECONDS_TO_RUN=30 scripts/soak-python.py         so many seconds each (at least 10)
  TOUCHSTONE=PROGRAM scripts/soak-python.py        a program that was built before, instead of a release build
  scripts/soak-python.py --only reload --protocol asgi

In each part one application has the fault, and its own requests are counted: GETs, which may be sent once
more, and POSTs, which are not. At the same time another application and a file are requested; their p99 is
compared with that of the quiet server. Exit codes: 0 all parts passed, 1 a request was lost that was in no
killed worker, or a p99 was more than twice that of the quiet server, 2 wrong usage.

Python's standard library only.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from common import TARGET, TOP, free_port

PARTS = ["kill", "hang", "exhaust", "reload", "hostile"]
QUIET_SECONDS = 10
# Requests a second of each load; with so few, the processors are never the limit.
RATE = 100
CLIENTS = 8
WORKERS = 2
# The interval at which a worker is killed, blocked, exhausted or reloaded.
PAUSE = {"kill": 2.0, "hang": 3.0, "exhaust": 3.0, "reload": 2.0, "hostile": 0.5}
# A p99 below this is within the variation of the load engine and the scheduler of the kernel.
NOISE_MS = 5.0

WSGI = '''
import time
BODY = b"x" * 6250
def application(environ, start_response):
    path = environ["PATH_INFO"].rsplit("/", 1)[-1]
    if path == "hang":
        while True: pass
    if path == "sleep":
        time.sleep(3600)
    if path == "exhaust":
        kept = []
        while True: kept.append(bytearray(1 << 24))
    fields = [("Content-Type", "text/plain")]
    if path == "endless":
        start_response("200 OK", fields)
        return iter(lambda: BODY, b"")
    if path == "inject":
        start_response("200 OK", [("X-Name", "a\\r\\nSet-Cookie: b=c")])
        return [BODY]
    if path == "exit":
        import os
        os._exit(3)
    environ["wsgi.input"].read()
    time.sleep(0.005)
    start_response("200 OK", fields + [("Content-Length", "6250")])
    return [BODY]
'''

ASGI = '''
import asyncio
BODY = b"x" * 6250
async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": kind + ".complete"})
            if kind == "lifespan.shutdown": return
    path = scope["path"].rsplit("/", 1)[-1]
    if path == "hang":
        while True: pass
    if path == "sleep":
        await asyncio.sleep(3600)
    if path == "exhaust":
        kept = []
        while True:
            kept.append(bytearray(1 << 24))
            await asyncio.sleep(0)
    fields = [(b"content-type", b"text/plain")]
    if path == "endless":
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        while True:
            await send({"type": "http.response.body", "body": BODY, "more_body": True})
    if path == "inject":
        fields = [(b"x-name", b"a\\r\\nset-cookie: b=c")]
    if path == "exit":
        import os
        os._exit(3)
    while (await receive()).get("more_body"): pass
    await asyncio.sleep(0.005)
    fields = fields + [(b"content-length", b"6250")]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": BODY})
'''


class Server:
    """The server with a file, the application beside, and the one with the fault."""

    def __init__(self, program, protocol):
        self.program = program
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="touchstone-soak-python-"))
        self.port = free_port()
        (self.place / "page.txt").write_bytes(b"x" * 6250)
        for name in ("faulty", "beside"):
            (self.place / name).mkdir()
            (self.place / name / "app.py").write_text(WSGI if protocol == "wsgi" else ASGI)
        (self.place / "touchstone.toml").write_text(f"""
[server]
control_socket = "{self.place}/control"

[error_log]
path = "{self.place}/error.log"

[[site]]
listen = ["127.0.0.1:{self.port}"]
root = "{self.place}"

[[site.route]]
path = "/faulty/"
[site.route.python]
app = "app"
directory = "{self.place}/faulty"
protocol = "{protocol}"
workers = {WORKERS}
limits = {{ answer = "1s", memory = "256MiB", queue = 200 }}

[[site.route]]
path = "/beside/"
[site.route.python]
app = "app"
directory = "{self.place}/beside"
protocol = "{protocol}"
workers = {WORKERS}
""")
        self.process = subprocess.Popen(
            [program, "serve", "--config", self.place / "touchstone.toml"],
            stdout=subprocess.DEVNULL, stderr=open(self.place / "stderr", "wb"),
        )
        for path in ("faulty/", "beside/"):
            self.wait_for(path)

    def wait_for(self, path):
        for _ in range(300):
            try:
                with urllib.request.urlopen(self.url(path), timeout=5) as answer:
                    answer.read()
                    return
            except OSError:
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        sys.exit(f"soak-python: no answer of /{path}\n{self.log()[-2000:]}")

    def url(self, path):
        return f"http://127.0.0.1:{self.port}/{path}"

    def log(self):
        texts = [self.place / "stderr", self.place / "error.log"]
        return "".join(text.read_text(errors="replace") for text in texts if text.exists())

    def workers(self):
        """The processes of the application with the fault."""
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                is_worker = b"python-worker" in (process / "cmdline").read_bytes()
                if is_worker and (process / "cwd").readlink() == self.place / "faulty":
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def reload(self):
        done = subprocess.run(
            [self.program, "reload", "--config", self.place / "touchstone.toml"], capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"soak-python: the reload failed: {done.stdout}{done.stderr}")

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.place, ignore_errors=True)


class Load:
    """Sends requests at a fixed rate with the engine of the laboratory."""

    def __init__(self, server, path, seconds, *more):
        command = [server.program, "load", server.url(path), "--rate", str(RATE), "--clients", str(CLIENTS)]
        command += ["--duration", f"{seconds}s", "--expect-size", "6250", "--json", *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self):
        out, error = self.process.communicate()
        try:
            return json.loads(out)
        except ValueError:
            sys.exit(f"soak-python: a load has failed: {error}")


def ask_and_leave(server, path, body=None, wait=5.0):
    """Sends a request to the faulty application, and reads for some time."""
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as client:
            head = f"{'POST' if body else 'GET'} /faulty/{path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            # A body that is declared and not sent.
            head += f"Content-Length: {body}\r\n\r\n" if body else "\r\n"
            client.sendall(head.encode())
            until = time.time() + wait
            while time.time() < until and client.recv(65536):
                pass
    except OSError:
        pass


def disturb(part, server, stop, counts):
    """Causes one kind of fault until the end of the part."""
    number = 0
    while not stop.wait(PAUSE[part]):
        number += 1
        if part == "kill":
            workers = server.workers()
            if workers:
                os.kill(workers[number % len(workers)], signal.SIGKILL)
                counts["done"] += 1
            continue
        if part == "reload":
            server.reload()
        else:
            paths = {"hang": ["hang", "sleep"], "exhaust": ["exhaust"]}
            among = paths.get(part, ["hang", "sleep", "exhaust", "endless", "inject", "exit", "body"])
            path = among[number % len(among)]
            body = 1_000_000 if path == "body" else None
            threading.Thread(target=ask_and_leave, args=(server, path, body), daemon=True).start()
        counts["done"] += 1


def loads(server, seconds):
    return {
        "file": Load(server, "page.txt", seconds),
        "beside": Load(server, "beside/", seconds),
    }


def run(program, protocol, part, seconds):
    """Runs one part; returns whether it passed."""
    server = Server(program, protocol)
    try:
        quiet = {name: load.result() for name, load in loads(server, QUIET_SECONDS).items()}
        beside = loads(server, seconds)
        own = {
            "GET": Load(server, "faulty/", seconds),
            "POST": Load(server, "faulty/", seconds, "--method", "POST", "--body", "a=b"),
        }
        stop, counts = threading.Event(), {"done": 0}
        harm = threading.Thread(target=disturb, args=(part, server, stop, counts))
        harm.start()
        time.sleep(seconds)
        stop.set()
        harm.join()
        beside = {name: load.result() for name, load in beside.items()}
        own = {name: load.result() for name, load in own.items()}
        if server.process.poll() is not None:
            print(f"soak-python: {protocol} {part}: the server has ended\n{server.log()[-2000:]}")
            return False
        return judge(protocol, part, counts["done"], quiet, beside, own)
    finally:
        server.end()


def judge(protocol, part, done, quiet, beside, own):
    held = True
    print(f"{protocol} {part}: done {done} times")
    for name, result in own.items():
        lost = result["errors"]
        # The requests in a worker that ended: at most all active requests at that time.
        allowed = 0 if part == "reload" else done * CLIENTS
        if name == "GET" and part == "kill":
            # They are sent once more; a second worker may be killed in that time.
            allowed = done
        kinds = {kind: count for kind, count in result["errors_by_kind"].items() if count}
        print(f"  {name}: {result['requests']:,} answers, {lost} lost {kinds or ''}")
        held &= lost <= allowed
    for name, result in beside.items():
        before, after = (each["latency_us"]["p99"] / 1000 for each in (quiet[name], result))
        print(f"  {name}: p99 {before:.2f} ms quiet, {after:.2f} ms now; {result['errors']} errors of "
              f"{result['requests']:,}")
        held &= after <= max(2 * before, NOISE_MS)
        held &= result["errors"] == 0
    print(f"  {'held' if held else 'FAILED'}", flush=True)
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; repeat for more")
    parser.add_argument("--protocol", choices=["wsgi", "asgi"], action="append", help="this protocol alone")
    arguments = parser.parse_args()
    seconds = int(os.environ.get("SECONDS_TO_RUN", "300"))
    if seconds < 10:
        sys.exit("soak-python: SECONDS_TO_RUN must be at least 10")
    program = os.environ.get("TOUCHSTONE")
    if not program:
        subprocess.run(["cargo", "build", "--release", "--locked", "-p", "touchstone"], cwd=TOP, check=True)
        program = TARGET / "release/touchstone"
    held = [
        run(program, protocol, part, seconds)
        for protocol in arguments.protocol or ["wsgi", "asgi"]
        for part in arguments.only or PARTS
    ]
    print("soak-python:", "all held" if all(held) else f"{held.count(False)} of {len(held)} parts FAILED")
    sys.exit(not all(held))


main()
