#!/usr/bin/env python3
"""Measures 2,000 requests that wait 100 ms each with virtual threads, here and in an unmodified Tomcat.

    scripts/virtual-threads.py --binary target/release/touchstone [--rounds 5] [--requests 2000] [--wait 100]

Each server runs the same servlet on the same Java (21 or later) with the same heap. In each round every
connection sends one request, all at the same time. It prints the duration of a round, and the maximum memory
of the process (VmHWM). Exit codes: 0 measured, 1 an answer was wrong, 3 a requirement is missing.
"""

import argparse
import asyncio
import os
import pathlib
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from common import CACHE, free_port, missing

TOMCAT = "apache-tomcat-11.0.25"
HEAP = "512m"
SERVLET = """
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

@WebServlet("/wait")
public class Wait extends HttpServlet {
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            Thread.sleep(Long.parseLong(request.getParameter("ms")));
        } catch (InterruptedException exception) {
            throw new IOException(exception);
        }
        response.setContentType("text/plain");
        // The compiler may be Java 17's, which does not know of isVirtual.
        String thread = Thread.currentThread().toString();
        response.getWriter().print("virtual=" + thread.startsWith("VirtualThread"));
    }
}
"""


def parts(binary):
    """Java's home, Tomcat's, and the directory of our jars."""
    homes = [CACHE / f"java-{version}" for version in (25, 21)]
    home = next((home for home in homes if (home / "bin/java").exists()), None)
    if home is None:
        missing("there is no Java 21 or later: run scripts/setup-java.sh")
    tomcat = CACHE / TOMCAT
    if not tomcat.exists():
        missing("there is no Tomcat: run scripts/setup-tomcat.sh")
    if not binary.exists():
        missing(f"there is no {binary}: run 'make build', or name another with --binary")
    jars = binary.resolve().parent.parent / "java"
    if not (jars / "touchstone-servlet.jar").exists():
        missing(f"{jars} does not hold the jars for servlets: run 'make java'")
    if shutil.which("javac") is None:
        missing("there is no javac: install openjdk-17-jdk-headless")
    return home, tomcat, jars


def compile_application(directory, jars, home):
    application = directory / "app"
    classes = application / "WEB-INF/classes"
    classes.mkdir(parents=True)
    source = directory / "Wait.java"
    source.write_text(SERVLET)
    subprocess.run(["javac", "-nowarn", "--release", "17", "-cp", f"{jars}/*", "-d", classes, source],
                   check=True)
    return application


def touchstone(directory, binary, home, application):
    port = free_port()
    (directory / "www").mkdir()
    (directory / "touchstone.toml").write_text(f"""
[java]
home = "{home}"
heap = "512MiB"

[[site]]
listen = ["127.0.0.1:{port}"]
root = "{directory}/www"

[[site.route]]
path = "/app/"
servlet = {{ app = "{application}", threads = "virtual" }}
""")
    command = [binary, "serve", "--config", directory / "touchstone.toml"]
    return port, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tomcat(directory, program, home, application):
    port = free_port()
    base = directory / "tomcat"
    for name in ("conf", "logs", "temp", "webapps", "work"):
        (base / name).mkdir(parents=True)
    for name in ("web.xml", "catalina.properties"):
        shutil.copy(program / "conf" / name, base / "conf")
    shutil.copytree(application, base / "webapps/app")
    (base / "conf/server.xml").write_text(f"""<Server port="-1"><Service name="Catalina">
<Connector address="127.0.0.1" port="{port}" protocol="HTTP/1.1" useVirtualThreads="true"
           maxConnections="20000" acceptCount="4096" maxKeepAliveRequests="-1"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps"/></Engine>
</Service></Server>""")
    environment = dict(os.environ, JRE_HOME=str(home), JAVA_HOME=str(home), CATALINA_HOME=str(program),
                       CATALINA_BASE=str(base), CATALINA_OPTS=f"-Xmx{HEAP}")
    command = [program / "bin/catalina.sh", "run"]
    return port, subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)


def wait_until_it_answers(port, process):
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(b"GET /app/wait?ms=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                if b" 200 " in client.recv(100):
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError("a server has not started")


async def rounds(port, requests, wait, count):
    """The seconds of each round; all connections stay open."""
    async def open_one():
        return await asyncio.open_connection("127.0.0.1", port)

    async def ask(reader, writer):
        writer.write(f"GET /app/wait?ms={wait} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"an answer was {head[:60]!r}")
        if b"content-length:" not in lower:
            raise RuntimeError("an answer has no length")
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if body != b"virtual=true":
            raise RuntimeError(f"an answer was {body!r}")

    clients = []
    for _ in range(0, requests, 100):
        clients += await asyncio.gather(*(open_one() for _ in range(min(100, requests - len(clients)))))
    took = []
    for _ in range(count):
        began = time.monotonic()
        await asyncio.gather(*(ask(*client) for client in clients))
        took.append(time.monotonic() - began)
    for _, writer in clients:
        writer.close()
    return took


def most_memory(process):
    """The maximum memory of the process, in MiB."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(name, port, process, arguments):
    try:
        wait_until_it_answers(port, process)
        before = most_memory(process)
        took = asyncio.run(rounds(port, arguments.requests, arguments.wait, arguments.rounds))
        after = most_memory(process)
        print(f"{name:10}  {statistics.median(took) * 1000:8.0f} ms  {max(took) * 1000:8.0f} ms"
              f"  {before:8.0f} MiB  {after:8.0f} MiB")
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=pathlib.Path("target/release/touchstone"))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--wait", type=int, default=100, help="milliseconds")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < arguments.requests + 100:
        missing(f"a process may open {hard} files: ask for fewer --requests")
    wanted = arguments.requests * 2 + 1000
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    home, program, jars = parts(arguments.binary)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        application = compile_application(directory, jars, home)
        print(f"{arguments.requests} requests at a time, {arguments.wait} ms each, {home.name}, "
              f"heap {HEAP}, {os.cpu_count()} processors")
        print(f"{'':10}  {'median':>11}  {'slowest':>11}  {'started':>12}  {'at most':>12}")
        try:
            measure("touchstone", *touchstone(directory, arguments.binary, home, application), arguments)
            measure("tomcat", *tomcat(directory, program, home, application), arguments)
        except RuntimeError as failure:
            print(f"virtual-threads: {failure}", file=sys.stderr)
            sys.exit(1)


main()
