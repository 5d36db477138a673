#!/usr/bin/env python3
"""The soak of scripts/soak-all.sh: one server with everything, operated and loaded for a long time.

The parts: Site creates the content and the configuration; Origins starts and kills origins; Filler fills the
disk; Operator reloads, upgrades, rotates; Load runs the engine of the laboratory; Checker compares answers;
RudeClients are slow and broken; Sampler reads /proc; report() writes the report. Python's standard library
only.
"""

import argparse
import hashlib
import http.client
import http.server
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from common import free_port

QUARTER_HOUR = 900
SHORT_RUN = 3600
UPGRADE_MINUTES = 10
# Longer than drain_timeout.
DRAIN_SECONDS = 40
# Growth beyond this share is named: after the first hour, or in a short run after its first part.
GROWTH = 0.02
# The growth of an allocator and of caches that is allowed in a short run, beside that share.
SETTLING_KIB = 16 * 1024
# The report counts all faults, and describes this many.
MOST_TOLD = 50
# On a busy machine a client may need seconds for the first handshake of its life.
HEADER_SECONDS = 6
DISK_MIB = 8
# The size of the file system of the disk: it is full before the limit after Filler has used its part.
FILE_SYSTEM_MIB = 12


def tool(*names):
    for name in names:
        path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
        if path:
            return path
    return None


def pattern(size, seed=7):
    return bytes((seed * 31 + place + (place >> 8) * 7) % 251 for place in range(size))


class Soak:
    """The state that all parts share: paths, faults and counts."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="touchstone-soak-"))
        self.began = time.time()
        self.ends = self.began + arguments.seconds
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.wrong, self.left_out, self.events = [], [], []
        self.answers, self.expected_errors, self.latency = {}, {}, {}
        if arguments.seconds <= QUARTER_HOUR:
            self.interval = 60
        else:
            self.interval = 300 if arguments.seconds <= SHORT_RUN else QUARTER_HOUR

    def number(self):
        """The number of the present interval of the report."""
        return int((time.time() - self.began) / self.interval)

    def note_wrong(self, text):
        with self.lock:
            self.wrong.append((time.time() - self.began, text))
            is_told = len(self.wrong) <= MOST_TOLD
        if is_told:
            print(f"soak: {time.time() - self.began:7.0f} s WRONG {text}", flush=True)

    def note_event(self, text):
        with self.lock:
            self.events.append((time.time() - self.began, text))

    def count(self, kind, milliseconds):
        with self.lock:
            key = (self.number(), kind)
            self.answers[key] = self.answers.get(key, 0) + 1
            self.latency.setdefault(key, []).append(milliseconds)

    def count_error(self, kind):
        with self.lock:
            key = (self.number(), kind)
            self.expected_errors[key] = self.expected_errors.get(key, 0) + 1

    def wait(self, seconds):
        """Waits; true when the soak is over."""
        return self.stop.wait(max(0.0, min(seconds, self.ends - time.time()))) or time.time() >= self.ends


class Origins:
    """Two origins of the proxy, one of which is repeatedly killed and restarted."""

    def __init__(self, soak):
        self.soak = soak
        self.ports = [free_port(), free_port()]
        self.processes = [None, None]
        for number in (0, 1):
            self.start(number)

    def start(self, number):
        self.processes[number] = subprocess.Popen(
            [sys.executable, __file__, "--origin", str(self.ports[number])], stdin=subprocess.DEVNULL
        )

    def flap(self):
        while not self.soak.wait(random.uniform(4, 12)):
            number = random.randrange(2)
            self.processes[number].kill()
            self.processes[number].wait()
            self.soak.note_event(f"origin {number} was killed")
            if self.soak.wait(random.uniform(0.2, 2)):
                break
            self.start(number)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


class Filler:
    """Repeatedly uses all space of the file system of the disk, and frees it."""

    def __init__(self, soak):
        self.soak, self.directory = soak, soak.place / "disk"
        self.is_mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={FILE_SYSTEM_MIB}m,mode=700", "soak", self.directory],
            capture_output=True,
        ).returncode == 0
        if not self.is_mounted:
            soak.left_out.append("a file system that is full (needs root)")

    def work(self):
        while self.is_mounted and not self.soak.wait(20):
            filler = self.directory / "filler"
            with open(filler, "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(64 * 1024))
                except OSError:
                    self.soak.note_event("the disk is full")
            self.soak.wait(20)
            filler.unlink()
            self.soak.note_event("the disk has room")

    def end(self):
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", self.directory], check=False)


class OriginHandler(http.server.BaseHTTPRequestHandler):
    """Answers /api/N with N bytes, and /cached/N with a lifetime."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(self.path.rstrip("/").rsplit("/", 1)[-1].split("?")[0])
        body = pattern(size)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        if "/cached/" in self.path:
            self.send_header("Cache-Control", "public, max-age=20")
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Site:
    """The content and the configuration."""

    def __init__(self, soak, origins):
        self.soak, self.origins = soak, origins
        self.plain, self.secure = free_port(), free_port()
        self.root = soak.place / "www"
        self.config = soak.place / "touchstone.toml"
        self.pid_file = soak.place / "touchstone.pid"
        self.log = soak.place / "access.log"
        self.logged = 0
        self.checks = []
        for directory in ("www/cgi-bin", "www/php", "disk", "apps"):
            (soak.place / directory).mkdir(parents=True)
        self.files()
        self.renew_certificate()
        routes = [self.programs(), self.proxy(), self.php(), self.nsapi(), self.servlet()]
        self.config.write_text(self.text("\n".join(part for part in routes if part)))

    def check(self, kind, target, expected, method="GET", body=None):
        self.checks.append((kind, method, target, body, expected))

    def files(self):
        for size in (64, 6250, 300_000):
            (self.root / f"{size}.bin").write_bytes(pattern(size))
            self.check("static", f"/{size}.bin", pattern(size))
        (self.root / "menu.html").write_text("<b>menu</b>\n")
        (self.root / "page.shtml").write_text(
            '<!--#include virtual="/menu.html" --><!--#set var="a" value="1" --><!--#echo var="a" -->\n'
        )
        self.check("includes", "/page.shtml", b"<b>menu</b>\n1\n")

    def renew_certificate(self):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-keyout", self.soak.place / "key.new", "-out", self.soak.place / "cert.new",
             "-days", "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            check=True, capture_output=True,
        )
        os.chmod(self.soak.place / "key.new", 0o600)
        os.replace(self.soak.place / "key.new", self.soak.place / "key.pem")
        os.replace(self.soak.place / "cert.new", self.soak.place / "cert.pem")

    def rotate_log(self):
        """Renames the log as logrotate does; the previous renamed log is counted and removed."""
        self.count_log(f"{self.log}.1")
        os.replace(self.log, f"{self.log}.1")

    def count_log(self, path):
        if os.path.exists(path):
            with open(path, "rb") as log:
                self.logged += sum(1 for _ in log)

    def served_certificate(self):
        text = ssl.get_server_certificate(("127.0.0.1", self.secure))
        return ssl.PEM_cert_to_DER_cert(text)

    def certificate(self):
        return ssl.PEM_cert_to_DER_cert((self.soak.place / "cert.pem").read_text())

    def programs(self):
        script = self.root / "cgi-bin" / "echo"
        script.write_text("#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\ncat\necho \"$QUERY_STRING\"\n")
        script.chmod(0o755)
        self.check("cgi", "/cgi-bin/echo?a=1", b"a=1\n")
        self.check("cgi", "/cgi-bin/echo?b=2", b"bodyb=2\n", "POST", b"body")
        return '[[site.route]]\npath = "/cgi-bin/"\ncgi = { concurrency = 8 }\n'

    def proxy(self):
        to = ", ".join(f'"http://127.0.0.1:{port}"' for port in self.origins.ports)
        for size in (10, 50_000):
            self.check("proxy", f"/api/{size}", pattern(size))
        self.check("proxy", "/api/echo/1", b"x" * 20_000, "POST", b"x" * 20_000)
        # More than the size of the disk, so that it is always full.
        for size in range(20_000, 140_000, 900):
            self.check("accelerator", f"/cached/{size}", pattern(size))
        return (
            f'[[site.route]]\npath = "/api/"\nproxy = {{ to = [{to}] }}\n'
            f'[[site.route]]\npath = "/cached/"\nproxy = {{ to = [{to}] }}\ncache = {{ }}\n'
        )

    def php(self):
        if not tool("php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"):
            self.soak.left_out.append("php-fpm (install php-fpm)")
            return ""
        (self.root / "php" / "sum.php").write_text("<?php echo 'sum=', array_sum(range(1, 100)), \"\\n\";\n")
        self.check("php-fpm", "/php/sum.php", b"sum=5050\n")
        # A server of root has php-fpm run as another user, who must be able to read the script.
        user = 'user = "nobody"\n' if os.geteuid() == 0 else ""
        self.soak.place.chmod(0o755)
        return f'[[site.route]]\npath = "/php/"\n[site.route.php]\nprocesses = 2\n{user}'

    def nsapi(self):
        plugin = self.soak.arguments.programs / "nsapi" / "nsapi-send.so"
        if not plugin.exists():
            self.soak.left_out.append("NSAPI (run make programs)")
            return ""
        self.check("nsapi", "/plugin?size=500", None)
        return (
            '[[site.route]]\npath = "/plugin"\n[site.route.nsapi]\n'
            f'init = ["fn=load-modules shlib={plugin} funcs=nsapi-send"]\n'
            'directives = ["Service fn=nsapi-send method=(GET|HEAD)"]\n'
        )

    def servlet(self):
        war = self.soak.arguments.programs / "servlet" / "spice.war"
        if not war.exists() or not tool("java"):
            self.soak.left_out.append("servlets (install a JDK, run make programs)")
            return ""
        self.war = self.soak.place / "apps" / "spice.war"
        shutil.copy(war, self.war)
        self.check("servlet", "/apps/spice/writer", None)
        return (
            f'[[site.route]]\npath = "/apps/"\n[site.route.servlet]\n'
            f'directory = "{self.soak.place}/apps"\n'
        )

    def text(self, routes):
        place = self.soak.place
        return (
            f'[server]\npid_file = "{self.pid_file}"\ncores = 2\ndrain_timeout = "10s"\n'
            f'[access_log]\npath = "{self.log}"\n'
            f'[error_log]\npath = "{place}/error.log"\n'
            f'[accelerator]\nmemory = "1MiB"\ndisk = "{place}/disk"\ndisk_size = "{DISK_MIB}MiB"\n'
            # Memory that Java retains is not growth of the server.
            f'[java]\nheap = "48MiB"\n'
            f'[limits]\nheader_timeout = "{HEADER_SECONDS}s"\nstall_timeout = "5s"\n'
            f'[[site]]\nlisten = ["127.0.0.1:{self.plain}"]\nroot = "{self.root}"\n'
            f'[site.includes]\n{routes}\n'
            f'[[site]]\nlisten = ["127.0.0.1:{self.secure}"]\nroot = "{self.root}"\nhttp3 = true\n'
            f'certificate = "{place}/cert.pem"\nkey = "{place}/key.pem"\n[site.includes]\n{routes}\n'
        )


class Operator:
    """Starts the server, and runs the commands of operators more often."""

    def __init__(self, soak, site):
        self.soak, self.site = soak, site
        self.first = subprocess.Popen(
            [soak.arguments.binary, "serve", "--config", site.config],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=open(soak.place / "stderr", "wb"),
        )
        self.wait_until_it_serves()

    def wait_until_it_serves(self):
        until = time.time() + 60
        while time.time() < until:
            try:
                # It listens before all routes are ready, and ends if a route fails.
                connection = http.client.HTTPConnection("127.0.0.1", self.site.plain, timeout=5)
                connection.request("GET", "/64.bin")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                if self.first.poll() is not None:
                    break
            time.sleep(0.1)
        text = (self.soak.place / "stderr").read_text() + self.log_text()
        sys.exit(f"soak: the server does not serve:\n{text}")

    def log_text(self):
        path = self.soak.place / "error.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def pid(self):
        try:
            return int(self.site.pid_file.read_text())
        except (OSError, ValueError):
            return self.first.pid

    def command(self, *words):
        done = subprocess.run(
            [self.soak.arguments.binary, *words, "--config", self.site.config],
            capture_output=True, text=True, timeout=120,
        )
        self.soak.note_event(f"{' '.join(words)}: exit code {done.returncode}")
        if done.returncode != 0:
            self.soak.note_wrong(f"{' '.join(words)} failed: {done.stderr.strip()}")

    def upgrade(self):
        before = self.pid()
        self.command("upgrade")
        threading.Thread(target=self.expect_end, args=(before,)).start()

    def expect_end(self, pid):
        """Waits until the replaced process has ended after its clients."""
        until = time.time() + DRAIN_SECONDS
        while time.time() < until and is_running(pid):
            self.first.poll()
            time.sleep(0.5)
        if is_running(pid):
            self.soak.note_wrong(f"process {pid} was replaced, and is there after {DRAIN_SECONDS} s")

    def expect_certificate(self):
        """Checks that the renewed content is served after the reload."""
        until = time.time() + 10
        while time.time() < until:
            try:
                if self.site.served_certificate() == self.site.certificate():
                    return
            except OSError:
                pass
            time.sleep(0.2)
        self.soak.note_wrong("a renewed certificate is not served after a reload")

    def watch(self):
        """Ends the soak if the server has ended."""
        while not self.soak.wait(5):
            if not is_running(self.pid()) and self.soak.wait(5) is False and not is_running(self.pid()):
                self.soak.note_wrong(f"no server runs any more: the soak ends\n{self.log_text()[-2000:]}")
                self.soak.stop.set()

    def work(self):
        minute = 0
        while not self.soak.wait(60):
            minute += 1
            if minute % UPGRADE_MINUTES == 0:
                self.upgrade()
                continue
            if minute % 3 == 0:
                self.site.rotate_log()
                self.command("reload", "--logs-only")
                if not self.site.log.exists():
                    self.soak.note_wrong("the log is not there after its rotation")
            if minute % 4 == 0 and hasattr(self.site, "war"):
                os.utime(self.site.war)
                self.soak.note_event("the application is replaced")
            is_renewed = minute % 5 == 0
            if is_renewed:
                self.site.renew_certificate()
            self.command("reload")
            if is_renewed:
                self.expect_certificate()

    def end(self):
        pid = self.pid()
        try:
            os.kill(pid, signal.SIGTERM)
        except OSError:
            self.soak.note_wrong("the server had ended before its end")
        until = time.time() + 40
        while time.time() < until and os.path.exists(f"/proc/{pid}"):
            self.first.poll()
            time.sleep(0.1)
        if os.path.exists(f"/proc/{pid}") and self.first.poll() is None:
            self.soak.note_wrong("the server did not stop on SIGTERM")
            os.kill(pid, signal.SIGKILL)
        self.site.count_log(f"{self.site.log}.1")
        self.site.count_log(self.site.log)
        answers = sum(self.soak.answers.values())
        if self.site.logged < answers:
            self.soak.note_wrong(f"{answers} answers, and {self.site.logged} lines in the log")
        if "panicked at" in self.log_text() + (self.soak.place / "stderr").read_text(errors="replace"):
            self.soak.note_wrong("the server panicked: see its log")


def is_running(pid):
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


class Load:
    """Runs the load engine of the laboratory repeatedly, for one kind of connection."""

    # Their origins and applications are stopped and started; all answers of the others must be right.
    MAY_FAIL = ("proxy", "accelerator", "servlets")

    def __init__(self, soak, name, url, options, body=None):
        self.soak, self.name, self.url, self.options = soak, name, url, options
        if body is not None:
            self.options = [*options, "--expect-sha256", hashlib.sha256(body).hexdigest()]

    def work(self):
        while not self.soak.wait(0.2):
            seconds = max(1, min(20, int(self.soak.ends - time.time())))
            command = [
                self.soak.arguments.binary, "load", self.url, "--json", "--clients", "4",
                "--rate", str(self.soak.arguments.rate), "--duration", f"{seconds}s", *self.options,
            ]
            number = self.soak.number()
            done = subprocess.run(command, capture_output=True, text=True)
            try:
                outcome = json.loads(done.stdout)
            except ValueError:
                self.soak.note_wrong(f"load {self.name}: exit code {done.returncode}: {done.stderr.strip()}")
                continue
            self.take(number, outcome)

    def take(self, number, outcome):
        latency = find(outcome, "latency_us") or find(outcome, "latency") or {}
        p99 = latency.get("p99_us", latency.get("p99", 0)) or 0
        errors = find(outcome, "errors")
        errors = errors.get("total", 0) if isinstance(errors, dict) else errors or 0
        requests = find(outcome, "requests") or 0
        if errors and self.name not in self.MAY_FAIL:
            reasons = f"{outcome.get('errors_by_kind')} {outcome.get('error_reasons')}"
            self.soak.note_wrong(f"load {self.name}: {errors} of {requests + errors} failed: {reasons}")
        with self.soak.lock:
            key = (number, f"load {self.name}")
            self.soak.answers[key] = self.soak.answers.get(key, 0) + requests
            self.soak.latency.setdefault(key, []).append(p99 / 1000)
            self.soak.expected_errors[key] = self.soak.expected_errors.get(key, 0) + errors


def find(value, name):
    """The first value with this name, at any depth."""
    if isinstance(value, dict):
        if name in value:
            return value[name]
        for inner in value.values():
            found = find(inner, name)
            if found is not None:
                return found
    return None


class Checker:
    """Requests all targets, and compares every byte of every answer."""

    def __init__(self, soak, site, is_secure):
        self.soak, self.site, self.is_secure = soak, site, is_secure

    def connect(self):
        if not self.is_secure:
            return http.client.HTTPConnection("127.0.0.1", self.site.plain, timeout=60)
        context = ssl._create_unverified_context()
        return http.client.HTTPSConnection("127.0.0.1", self.site.secure, timeout=60, context=context)

    def work(self):
        connection, asked = None, 0
        while not self.soak.wait(random.uniform(0.005, 0.05)):
            # Each kind is equally frequent, independent of the number of its targets.
            wanted = random.choice(sorted({check[0] for check in self.site.checks}))
            checks = [check for check in self.site.checks if check[0] == wanted]
            kind, method, target, body, expected = random.choice(checks)
            if connection is None or asked > 50:
                connection, asked = self.connect(), 0
            began = time.time()
            try:
                connection.request(method, target, body)
                answer = connection.getresponse()
                content = answer.read()
                if answer.will_close:
                    connection = None
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                # A kept connection that the server has closed since then; a new one must work.
                if asked == 0:
                    self.soak.note_wrong(f"{kind} {target}: a new connection broke")
                connection = None
                continue
            except (OSError, http.client.HTTPException) as error:
                if kind in ("proxy", "accelerator") and isinstance(error, http.client.IncompleteRead):
                    # The origin was killed during its answer, so the server has aborted its own answer.
                    self.soak.count_error(kind)
                    connection = None
                    continue
                self.soak.note_wrong(f"{kind} {target}: {error!r}")
                connection = None
                continue
            asked += 1
            self.judge(kind, target, answer.status, content, expected, (time.time() - began) * 1000)

    def judge(self, kind, target, status, content, expected, milliseconds):
        # Both origins may be down at once, and an application may be between two starts: then the server
        # answers with an error.
        if kind in ("proxy", "accelerator") and status in (502, 503, 504):
            return self.soak.count_error(kind)
        if kind == "servlet" and status in (404, 503):
            return self.soak.count_error(kind)
        if status != 200:
            return self.soak.note_wrong(f"{kind} {target}: {status}")
        if expected is not None and content != expected:
            return self.soak.note_wrong(f"{kind} {target}: {len(content)} other bytes")
        self.soak.count(kind, milliseconds)


class RudeClients:
    """Clients that are slow, disconnect, or send invalid requests."""

    def __init__(self, soak, site):
        self.soak, self.site = soak, site

    def work(self):
        while not self.soak.wait(random.uniform(0.02, 0.2)):
            port = random.choice((self.site.plain, self.site.secure))
            ways = (self.slow, self.leaves, self.garbage, self.half, self.never_reads, self.resets)
            try:
                with socket.create_connection(("127.0.0.1", port), 5) as stream:
                    random.choice(ways)(stream)
            except OSError:
                pass
            if random.random() < 0.2:
                self.datagrams()

    def slow(self, stream):
        for byte in b"GET /6250.bin HTTP/1.1\r\nHost: a\r\nX: ":
            stream.sendall(bytes([byte]))
            if self.soak.wait(HEADER_SECONDS / 20):
                return

    def leaves(self, stream):
        stream.sendall(b"GET /300000.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        stream.recv(100)
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def garbage(self, stream):
        stream.sendall(random.randbytes(random.randrange(1, 2000)))
        stream.settimeout(1)
        stream.recv(1000)

    def half(self, stream):
        stream.sendall(b"POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\nonly this")
        self.soak.wait(0.2)

    def resets(self, stream):
        """Opens streams of HTTP/2 and resets them at once."""
        context = ssl._create_unverified_context()
        context.set_alpn_protocols(["h2"])
        if stream.getpeername()[1] == self.site.secure:
            stream = context.wrap_socket(stream)
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self.frame(4, 0, 0, b""))
        for number in range(random.randrange(1, 400)):
            request = self.frame(1, 5, 2 * number + 1, b"\x82\x87\x84\x41\x01a")
            stream.sendall(request + self.frame(3, 0, 2 * number + 1, bytes(4)))

    @staticmethod
    def frame(kind, flags, stream, payload):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def datagrams(self):
        """Sends invalid packets to the port of HTTP/3."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
            for _ in range(20):
                packet = b"\xc0\0\0\0\1\x08" + random.randbytes(random.randrange(20, 1200))
                one.sendto(packet, ("127.0.0.1", self.site.secure))

    def never_reads(self, stream):
        stream.sendall(b"GET /300000.bin HTTP/1.1\r\nHost: a\r\n\r\n" * 20)
        self.soak.wait(1)


class Sampler:
    """Records the memory, descriptors and threads of the server, every few seconds."""

    def __init__(self, soak, operator):
        self.soak, self.operator = soak, operator
        self.samples = []

    def work(self):
        while not self.soak.wait(2):
            pid = self.operator.pid()
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                memory = int(status.split("VmRSS:")[1].split()[0])
                threads = int(status.split("Threads:")[1].split()[0])
                descriptors = len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, IndexError):
                continue
            programs = programs_memory(pid)
            self.samples.append((self.soak.number(), pid, memory, descriptors, threads, programs))


def programs_memory(server):
    """The memory of all programs of the server in KiB: those of PHP, the JVM, CGI."""
    memory, parents = {}, {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        if "VmRSS:" in status:
            memory[int(entry.name)] = int(status.split("VmRSS:")[1].split()[0])
        parents[int(entry.name)] = int(status.split("PPid:")[1].split()[0])
    total = 0
    for pid in memory:
        above = parents.get(pid)
        while above and above != server:
            above = parents.get(above)
        total += memory[pid] if above == server else 0
    return total


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0


def report(soak, sampler):
    """The report as Markdown, and the resources that grew."""
    lines = [
        "# Soak", "",
        f"- length: {time.time() - soak.began:.0f} s; program: {soak.arguments.binary}",
        f"- left out: {', '.join(soak.left_out) or 'nothing'}",
        f"- wrong answers and failures: {len(soak.wrong)}",
    ]
    lines += [f"  - at {at:.0f} s: {text}" for at, text in soak.wrong[:MOST_TOLD]]
    grown = growth(soak, sampler)
    lines += [f"- growth: {'; '.join(grown) or 'none'}", "", "## What the server held", ""]
    unit = {60: "minute", 300: "five minutes", QUARTER_HOUR: "quarter hour"}[soak.interval]
    lines += [f"| {unit} | process | memory, MiB | its programs' memory, MiB | descriptors | threads |",
              "|---|---|---|---|---|---|"]
    groups = {}
    for number, pid, *values in sampler.samples:
        groups.setdefault((number, pid), []).append(values)
    for (number, pid), values in groups.items():
        memory, descriptors, threads, programs = (percentile(column, 0.5) for column in zip(*values))
        lines.append(f"| {number + 1} | {pid} | {memory / 1024:.1f} | {programs / 1024:.1f} "
                     f"| {descriptors} | {threads} |")
    lines += ["", "## Answers", "", f"| {unit} | kind | answers | refused or failed | p50, ms | p99, ms |",
              "|---|---|---|---|---|---|"]
    for number, kind in sorted(set(soak.answers) | set(soak.expected_errors)):
        values = soak.latency.get((number, kind), [])
        lines.append(
            f"| {number + 1} | {kind} | {soak.answers.get((number, kind), 0)} "
            f"| {soak.expected_errors.get((number, kind), 0)} "
            f"| {percentile(values, 0.5):.1f} | {percentile(values, 0.99):.1f} |"
        )
    lines += ["", "Of loads by the laboratory, p50 and p99 are those of the 99th percentiles of its runs."]
    lines += ["", "## What was done", ""]
    lines += [f"- {at:.0f} s: {text}" for at, text in soak.events]
    return "\n".join(lines) + "\n", grown


def growth(soak, sampler):
    """The resources that grew. Every upgrade starts a new process, so processes of equal age are compared at
    their ends: the last with the first that ended after the first hour, in a short run after its first third.
    Where there is one alone, its end is compared with the end of the first quarter of its life."""
    lives = {}
    for sample in sampler.samples:
        lives.setdefault(sample[1], []).append(sample)
    longest = max((len(life) for life in lives.values()), default=0)
    lives = [life for life in lives.values() if len(life) >= 40 and len(life) > longest * 0.8]
    if len(lives) > 1:
        warm = min(3600, soak.arguments.seconds / 3)
        ended_warm = [life for life in lives if (life[-1][0] + 1) * soak.interval >= warm]
        first, last = ended_warm[0][-10:], ended_warm[-1][-10:]
    elif lives:
        life = lives[0]
        first, last = life[len(life) // 4 : len(life) // 4 + 10], life[-10:]
    else:
        return []
    grown = []
    names = (("memory, KiB", 2, SETTLING_KIB), ("descriptors", 3, 16), ("threads", 4, 8),
             ("its programs' memory, KiB", 5, 4 * SETTLING_KIB))
    for name, place, settling in names:
        before = percentile([sample[place] for sample in first], 0.5)
        after = percentile([sample[place] for sample in last], 0.5)
        least = 0 if soak.arguments.seconds > 2 * SHORT_RUN and name == "memory, KiB" else settling
        if after > before * (1 + GROWTH) + least:
            grown.append(f"{name} from {before} (process {first[0][1]}) to {after} (process {last[0][1]})")
    return grown


def run(arguments):
    soak = Soak(arguments)
    origins = Origins(soak)
    filler = None
    try:
        site = Site(soak, origins)
        filler = Filler(soak)
        operator = Operator(soak, site)
    except BaseException:
        origins.end()
        if filler:
            filler.end()
        raise
    sampler = Sampler(soak, operator)
    plain, secure = f"http://127.0.0.1:{site.plain}", f"https://127.0.0.1:{site.secure}"
    page, included = pattern(6250), b"<b>menu</b>\n1\n"
    loads = [
        ("HTTP/1.1", f"{plain}/6250.bin", [], page),
        ("TLS", f"{secure}/6250.bin", ["--insecure"], page),
        ("HTTP/2", f"{secure}/6250.bin", ["--insecure", "--http2", "--streams", "2"], page),
        ("HTTP/3", f"{secure}/6250.bin", ["--insecure", "--http3"], page),
        ("includes", f"{plain}/page.shtml", [], included),
        ("CGI", f"{plain}/cgi-bin/echo?a=1", [], b"a=1\n"),
        ("proxy", f"{plain}/api/50000", [], pattern(50_000)),
        ("accelerator", f"{plain}/cached/20000", [], pattern(20_000)),
        # The cache fills the disk over HTTP/2 and 3 as well.
        ("accelerator", f"{secure}/cached/50000", ["--insecure", "--http2"], None),
        ("accelerator", f"{secure}/cached/90200", ["--insecure", "--http3"], None),
    ]
    kinds = {check[0] for check in site.checks}
    if "php-fpm" in kinds:
        loads.append(("php-fpm", f"{plain}/php/sum.php", [], b"sum=5050\n"))
    if "nsapi" in kinds:
        loads.append(("NSAPI", f"{plain}/plugin?size=500", [], None))
    if "servlet" in kinds:
        loads.append(("servlets", f"{plain}/apps/spice/writer", [], None))
    works = [origins.flap, operator.work, operator.watch, sampler.work, filler.work]
    works += [Load(soak, *load).work for load in loads]
    works += [Checker(soak, site, is_secure).work for is_secure in (False, False, True)]
    works += [RudeClients(soak, site).work for _ in range(3)]
    threads = [threading.Thread(target=work) for work in works]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        soak.stop.set()
        for thread in threads:
            thread.join()
    operator.end()
    origins.end()
    filler.end()
    for kind in sorted(kinds | {f"load {load[0]}" for load in loads}):
        if not any(of == kind and count for (_, of), count in soak.answers.items()):
            soak.note_wrong(f"{kind}: not one good answer")
    text, grown = report(soak, sampler)
    results = arguments.results / time.strftime("soak-%Y%m%d-%H%M%S")
    results.mkdir(parents=True)
    (results / "report.md").write_text(text)
    shutil.copy(soak.place / "error.log", results / "error.log")
    shutil.rmtree(soak.place, ignore_errors=True)
    print(f"soak: {sum(soak.answers.values())} answers, {len(soak.wrong)} wrong, "
          f"{len(grown)} kinds of growth: {results}/report.md")
    return 1 if soak.wrong or grown else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=28800)
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--results", type=pathlib.Path, default=pathlib.Path("results"))
    parser.add_argument("--origin", type=int, help="be an origin on this port")
    arguments = parser.parse_args()
    if arguments.origin:
        http.server.ThreadingHTTPServer(("127.0.0.1", arguments.origin), OriginHandler).serve_forever()
    sys.exit(run(arguments))


if __name__ == "__main__":
    main()
