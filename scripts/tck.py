#!/usr/bin/env python3
"""Runs the test kit of Jakarta Servlet 6.1 against Touchstone and an unmodified Tomcat, and compares them.

    make tck                                    both forms of Touchstone, and Tomcat
    make tck TCK=jakarta-servlet-tck-6.1.0.zip  with the kit as Eclipse publishes it
    make tck TCK=~/servlet                      with the kit's sources: a checkout of jakartaee/servlet

    scripts/tck.py [--kit FILE|DIRECTORY] [--binary FILE] [--tests PATTERN] [--results DIRECTORY]

The kit is the artifact jakarta.tck:servlet-tck-runtime of Maven, from the local or a remote repository. Maven
Central does not have it, so its sources are fetched from Debian (scripts/setup-servlet-tck.sh) and built; TCK
names another file or directory from which it is installed into the local repository. Exit codes: 0 no test
fails here that passes with Tomcat, 1 a test does, 3 a requirement is missing.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree
import zipfile

from common import CACHE, TARGET, TOP, free_port, missing

VERSION = "6.1.0"
TOMCAT = "apache-tomcat-11.0.25"
PARTS = ("servlet-tck", "servlet-tck-util", "servlet-tck-runtime")
USERS = """<tomcat-users>
<user username="j2ee" password="j2ee" roles="Administrator,Employee"/>
<user username="javajoe" password="javajoe" roles="VP,Manager"/>
</tomcat-users>
"""


def maven(*arguments, quiet=True):
    command = ["mvn", "--batch-mode", *(["--quiet"] if quiet else []), *map(str, arguments)]
    return subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)


def last_lines(run, count=12):
    lines = (run.stdout + run.stderr).strip().splitlines()
    return [line for line in lines if line.strip()][-count:]


# --- The kit.

def has_kit(version=VERSION):
    """Whether a local or remote repository of Maven has the kit."""
    artifact = f"jakarta.tck:servlet-tck-runtime:{version}"
    get = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:get"
    for offline in (["--offline"], []):
        if maven(*offline, get, f"-Dartifact={artifact}", "-Dtransitive=false").returncode == 0:
            return True
    return False


def install_published(archive):
    """Installs the kit's jars from the archive that Eclipse publishes."""
    with zipfile.ZipFile(archive) as kit, tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        files = {pathlib.PurePosixPath(entry).name: entry for entry in kit.namelist()}
        for part in PARTS:
            kind = "pom" if part == "servlet-tck" else "jar"
            wanted = f"{part}-{VERSION}.{kind}"
            if wanted not in files:
                missing(f"{archive} does not hold {wanted}: is it jakarta-servlet-tck-{VERSION}.zip?")
            (directory / wanted).write_bytes(kit.read(files[wanted]))
            install = "org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file"
            run = maven(install, f"-Dfile={directory / wanted}", "-DgroupId=jakarta.tck",
                        f"-DartifactId={part}", f"-Dversion={VERSION}", f"-Dpackaging={kind}")
            if run.returncode:
                missing(f"{wanted} could not be installed into Maven's local repository:", *last_lines(run))


def build_sources(directory):
    """Builds the kit from the sources of jakartaee/servlet, without its documents; its version."""
    pom = directory / "tck/pom.xml" if (directory / "tck/pom.xml").exists() else directory / "pom.xml"
    version = version_of_sources(pom)
    if version is None:
        missing(f"{directory} holds no sources of the kit: it has neither tck/pom.xml nor pom.xml of it")
    run = maven("--file", pom, "--projects", "tck-util,tck-runtime", "--also-make", "install", "-DskipTests",
                f"-Dservlet.api.version={VERSION}", "-Dmaven.compiler.source=17",
                "-Dmaven.compiler.target=17")
    if run.returncode:
        missing(f"the kit in {directory} could not be built:", *last_lines(run))
    return version


def version_of_sources(pom):
    """The version of the kit with these sources; None if they are not those of the kit."""
    if not pom.exists():
        return None
    names = {"m": "http://maven.apache.org/POM/4.0.0"}
    project = xml.etree.ElementTree.parse(pom).getroot()
    if project.findtext("m:artifactId", namespaces=names) != "servlet-tck":
        return None
    return project.findtext("m:version", namespaces=names)


def find_kit(kit):
    """Installs the kit in the local repository of Maven; returns its version."""
    version = VERSION
    if kit is not None and kit.is_dir():
        version = build_sources(kit)
    elif kit is not None:
        if not zipfile.is_zipfile(kit):
            missing(f"{kit} is neither a directory nor a whole zip archive")
        install_published(kit)
    elif not has_kit():
        fetch = subprocess.run([TOP / "scripts/setup-servlet-tck.sh", "--brief"], check=False)
        if fetch.returncode == 0:
            print("tck: building the kit", file=sys.stderr)
            version = build_sources(CACHE / f"servlet-tck-{VERSION}")
    if has_kit(version):
        return version
    missing(f"the test kit is missing: jakarta.tck:servlet-tck-runtime:{VERSION} and"
            f" jakarta.tck:servlet-tck-util:{VERSION}",
            "are neither in Maven's local repository nor where Maven fetches from; Maven Central does not",
            "have them, and Debian's source package jakarta-servlet-api could not be fetched. Eclipse",
            f"publishes them as jakarta-servlet-tck-{VERSION}.zip (jakarta.ee, Specifications, Servlet 6.1),",
            "and their sources in the repository jakartaee/servlet on GitHub.",
            "Then: make tck TCK=PATH, with the archive or a checkout.")


# --- The servers.

def parts(binary):
    for program, package in (("mvn", "maven"), ("javac", "openjdk-17-jdk-headless")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    tomcat = CACHE / TOMCAT
    if not tomcat.exists():
        missing("there is no Tomcat: run scripts/setup-tomcat.sh")
    if not binary.exists():
        missing(f"there is no {binary}: run 'make build', or name another with --binary")
    jars = binary.resolve().parent.parent / "java"
    if not (jars / "touchstone-servlet.jar").exists():
        missing(f"{jars} does not hold the jars for servlets: run 'make java'")
    return tomcat, jars


class Server:
    """A server that starts the applications of a directory."""

    def __init__(self, directory, command, environment, port):
        self.deployments = directory / "webapps"
        self.log = directory / "server.log"
        self.port = port
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return
            except OSError:
                time.sleep(0.1)
        self.stop()
        missing("a server has not started:", *self.log.read_text(errors="replace").splitlines()[-10:])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def touchstone(directory, binary, isolation):
    port = free_port()
    for name in ("www", "webapps"):
        (directory / name).mkdir()
    (directory / "users.xml").write_text(USERS)
    configuration = directory / "touchstone.toml"
    configuration.write_text(f"""
[limits]
body_bytes = "100MiB"

[java]
heap = "1GiB"

[[site]]
listen = ["127.0.0.1:{port}"]
root = "{directory}/www"

[[site.route]]
path = "/"

[site.route.servlet]
directory = "{directory}/webapps"
isolation = "{isolation}"
users = "{directory}/users.xml"
""")
    return Server(directory, [binary, "serve", "--config", configuration], None, port)


def tomcat(directory, program):
    port = free_port()
    for name in ("conf", "logs", "temp", "webapps", "work"):
        (directory / name).mkdir(parents=True)
    for name in ("web.xml", "catalina.properties"):
        shutil.copy(program / "conf" / name, directory / "conf")
    (directory / "conf/tomcat-users.xml").write_text(USERS)
    (directory / "conf/server.xml").write_text(f"""<Server port="-1">
<GlobalNamingResources><Resource name="users" type="org.apache.catalina.UserDatabase" auth="Container"
  factory="org.apache.catalina.users.MemoryUserDatabaseFactory" pathname="conf/tomcat-users.xml"/>
</GlobalNamingResources>
<Service name="Catalina">
<Connector address="127.0.0.1" port="{port}" protocol="HTTP/1.1"
           allowedTrailerHeaders="myTrailer,myTrailer2"/>
<Engine name="Catalina" defaultHost="localhost" backgroundProcessorDelay="1">
<Realm className="org.apache.catalina.realm.UserDatabaseRealm" resourceName="users"/>
<Host name="localhost" appBase="webapps"/>
</Engine></Service></Server>""")
    environment = dict(os.environ, CATALINA_HOME=str(program), CATALINA_BASE=str(directory),
                       CATALINA_OPTS="-Xmx1g")
    return Server(directory, [program / "bin/catalina.sh", "run"], environment, port)


# --- Runs and their results.

def run_kit(name, server, signatures, build, results, tests, version):
    reports = results / name
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir(parents=True)
    try:
        run = maven("--file", "java/tck/pom.xml", "test", f"-Dtouchstone.build={build}",
                    f"-Dtck.reports={reports}", f"-Dtck.deployments={server.deployments}",
                    f"-Dtck.log={server.log}", f"-Dtck.port={server.port}", f"-Dtck.signatures={signatures}",
                    f"-Dtck.version={version}", *([f"-Dtest={tests}"] if tests else []))
    finally:
        server.stop()
        shutil.copy(server.log, reports / "server.log")
    outcomes = read_reports(reports)
    if not outcomes:
        missing(f"Maven ran no test of the kit against {name}:", *last_lines(run))
    return outcomes


def read_reports(directory):
    """The outcome of each test, by class and name."""
    outcomes = {}
    for file in sorted(directory.glob("TEST-*.xml")):
        for case in xml.etree.ElementTree.parse(file).getroot().iter("testcase"):
            test = f"{case.get('classname')}.{case.get('name')}"
            if case.find("failure") is not None or case.find("error") is not None:
                outcomes[test] = "failed"
            else:
                outcomes[test] = "skipped" if case.find("skipped") is not None else "passed"
    return outcomes


def compare(runs):
    """Prints the sums and the differences; returns the number of tests that fail only here."""
    print(f"{'':24}  {'passed':>7}  {'failed':>7}  {'skipped':>7}")
    for name, outcomes in runs.items():
        counts = [sum(outcome == kind for outcome in outcomes.values())
                  for kind in ("passed", "failed", "skipped")]
        print(f"{name:24}  {counts[0]:7}  {counts[1]:7}  {counts[2]:7}")
    theirs = runs["tomcat"]
    worse = 0
    for name, outcomes in runs.items():
        tests = sorted(set(outcomes) | set(theirs))
        ours_alone = [test for test in tests
                      if theirs.get(test) == "passed" and outcomes.get(test) != "passed"]
        theirs_alone = [test for test in tests
                        if outcomes.get(test) == "passed" and theirs.get(test) != "passed"]
        for test in ours_alone:
            print(f"{name}: {outcomes.get(test, 'not run')}, and passed with tomcat: {test}")
        for test in theirs_alone:
            print(f"{name}: passed, and {theirs.get(test, 'not run')} with tomcat: {test}")
        worse += len(ours_alone)
    return worse


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=pathlib.Path, help="the published archive, or the sources")
    parser.add_argument("--binary", type=pathlib.Path, default=TARGET / "release/touchstone")
    parser.add_argument("--tests", default="", help="only these, as Maven's -Dtest takes them")
    parser.add_argument("--results", type=pathlib.Path, default=TOP / "results/tck")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    program, jars = parts(binary)
    version = find_kit(arguments.kit)
    results, build = arguments.results.resolve(), TARGET / "tck-build"
    own_api = next(jars.glob("tomcat-embed-core-*.jar"))
    starts = {
        "touchstone": lambda directory: (touchstone(directory, binary, "in-process"), own_api),
        "touchstone-isolated": lambda directory: (touchstone(directory, binary, "isolated"), own_api),
        "tomcat": lambda directory: (tomcat(directory, program), program / "lib/servlet-api.jar"),
    }

    def run(name):
        with tempfile.TemporaryDirectory() as directory:
            server, signatures = starts[name](pathlib.Path(directory))
            return run_kit(name, server, signatures, build / name, results, arguments.tests, version)

    # At the same time, because most of the time the kit waits for events that must not occur.
    print("tck: running the kit against " + ", ".join(starts), file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = dict(zip(starts, pool.map(run, starts)))
    worse = compare(runs)
    print(f"reports: {results}")
    sys.exit(1 if worse else 0)


main()
