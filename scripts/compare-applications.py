#!/usr/bin/env python3
"""Crawls web applications of Maven Central here and in an unmodified Tomcat, and prints every difference.

    make applications                           those that are named below
    scripts/compare-applications.py [--binary FILE] [--isolated] [--pages N] [APPLICATION ...]

An application is GROUP:ARTIFACT:VERSION of a WAR, or a WAR file. GROUP:ARTIFACT:VERSION:TYPE!PATH is a WAR
within an archive, for example of a distribution.

Each application runs here and in two identical Tomcats. All three receive the same requests in the same
order: those for the paths of web.xml and for the pages of the WAR, then those for links, frames, scripts,
images and forms, which are sent unchanged. A difference is a different status, field or body. Values that
differ between the two Tomcats (session identifiers, random numbers) and clock times may differ. A page that
is different at each request may differ from Tomcat's as much as these differ from each other.

Exit codes: 0 no difference, 1 differences, 3 a requirement is missing.
"""

import argparse
import difflib
import hashlib
import html.parser
import http.client
import io
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import zipfile

from common import CACHE, TARGET, TOP, free_port, missing

TOMCAT = "apache-tomcat-11.0.25"

JETTY = "org.eclipse.jetty:jetty-distribution:10.0.0.beta1:tar.gz!" \
    "jetty-distribution-10.0.0.beta1/demo-base/webapps/"

# The examples of the distribution of Tomcat, the applications of the tests, and others of Maven Central.
APPLICATIONS = ["examples", *(f"{JETTY}{name}.war" for name in (
    "async-rest", "javadoc-proxy", "test", "test-jaas", "test-jndi", "test-spec")), *"""
    org.jolokia:jolokia-war:1.7.2
    io.hawt:hawtio-war:2.17.7
    io.hawt:hawtio-web:1.5.12
    org.apache.activemq:activemq-web-console:6.1.8
    org.apache.activemq:artemis-console-war:1.3.0
    org.apache.chemistry.opencmis:chemistry-opencmis-server-inmemory:1.1.0
    org.eclipse.jetty.demos:demo-simple-webapp:11.0.18
    org.jasig.cas:cas-server-webapp:4.0.0
    org.jolokia:jolokia-agent-war:2.0.0
    org.ops4j.pax.web.samples:war:4.2.2""".split()]

# Fields that state the server's name, the time of the answer, or the framing of the message.
OWN_FIELDS = {"server", "date", "connection", "keep-alive", "transfer-encoding", "content-length"}

CLOCK = re.compile(rb"\b\d\d?:\d\d:\d\d(\.\d+)?\b")
WORD = re.compile(rb"[A-Za-z0-9_.+=/@%:-]+|\s+|.", re.S)


def parts(binary):
    for program, package in (("mvn", "maven"), ("java", "default-jre-headless")):
        if shutil.which(program) is None:
            missing(f"there is no {program}: install {package}")
    if not (CACHE / TOMCAT).exists():
        missing("there is no Tomcat: run scripts/setup-tomcat.sh")
    if not binary.exists():
        missing(f"there is no {binary}: run 'make build', or name another with --binary")
    if not (binary.resolve().parent.parent / "java/touchstone-servlet.jar").exists():
        missing("the jars for servlets are missing: run 'make java'")
    return CACHE / TOMCAT


def fetch(artifact, directory):
    """The WAR of an artifact, fetched by Maven once."""
    artifact, _, entry = artifact.partition("!")
    _, name, version, *kind = artifact.split(":")
    kind = kind[0] if kind else "war"
    archive = directory / f"{name}-{version}.{kind}"
    if not archive.exists():
        directory.mkdir(parents=True, exist_ok=True)
        run = subprocess.run(["mvn", "--batch-mode", "--quiet",
                              "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
                              f"-Dartifact={':'.join(artifact.split(':')[:3])}:{kind}",
                              f"-DoutputDirectory={directory}"],
                             cwd=TOP, capture_output=True, text=True, check=False)
        if run.returncode:
            missing(f"Maven cannot fetch {artifact}:{kind}: {run.stdout.strip().splitlines()[:1]}")
    if not entry:
        return archive
    war = directory / f"{name}-{version}-{pathlib.PurePosixPath(entry).name}"
    if not war.exists():
        content = read_entry(archive, entry)
        if content is None:
            missing(f"{archive} does not hold {entry}")
        war.write_bytes(content)
    return war


def read_entry(archive, entry):
    """The bytes of an entry of an archive; None if it is missing."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            return opened.read(entry) if entry in opened.namelist() else None
    with tarfile.open(archive) as opened:
        return opened.extractfile(entry).read() if entry in opened.getnames() else None


def examples(program, directory):
    """Tomcat's own examples, as a WAR."""
    directory.mkdir(parents=True, exist_ok=True)
    war = directory / "examples.war"
    shutil.make_archive(str(war), "zip", program / "webapps/examples")
    war.with_suffix(".war.zip").rename(war)
    return war


# --- The servers.

class Server:
    """A server that runs one application under /app."""

    def __init__(self, directory, command, environment, port):
        self.port = port
        self.cookies = {}
        self.log = directory / "server.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log)

    def wait_for(self, lines, seconds=300):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            text = self.log.read_text(errors="replace")
            if any(line in text for line in lines):
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.2)
        raise RuntimeError("a server has not started: " + self.log.read_text(errors="replace")[-600:])

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def ask(self, method, target, body=None):
        """Status, fields and body of an answer; cookies are kept."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        fields = {"Host": f"localhost:{self.port}", "User-Agent": "compare", "Accept": "*/*",
                  "Accept-Language": "en"}
        if self.cookies:
            fields["Cookie"] = "; ".join(f"{name}={value}" for name, value in sorted(self.cookies.items()))
        if body is not None:
            fields["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            connection.request(method, target, body, fields)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as failure:
            return 0, [("failure", type(failure).__name__)], b""
        finally:
            connection.close()
        found = []
        for name, value in answer.getheaders():
            name = name.lower()
            if name == "set-cookie":
                pair = value.split(";")[0].split("=", 1)
                self.cookies[pair[0]] = pair[1] if len(pair) == 2 else ""
            if name not in OWN_FIELDS:
                found.append((name, value.replace(f":{self.port}", ":PORT")))
        content = CLOCK.sub(b"CLOCK", content.replace(f":{self.port}".encode(), b":PORT"))
        return answer.status, sorted(found), content


def touchstone(directory, binary, war, isolation):
    port = free_port()
    for name in ("www", "webapps"):
        (directory / name).mkdir()
    shutil.copy(war, directory / "webapps/app.war")
    configuration = directory / "touchstone.toml"
    configuration.write_text(f"""
[limits]
body_bytes = "100MiB"

[java]
heap = "1GiB"

[[site]]
listen = ["127.0.0.1:{port}"]
root = "{directory}/www"
compression = []

[[site.route]]
path = "/"

[site.route.servlet]
directory = "{directory}/webapps"
isolation = "{isolation}"
start_timeout = "10m"
error_text = false
""")
    return Server(directory, [binary, "serve", "--config", configuration], None, port)


def is_old(war):
    """Whether Tomcat must convert it: its classes, pages or libraries use the old package names."""
    with zipfile.ZipFile(war) as archive:
        texts = []
        for entry in archive.namelist():
            if entry.endswith((".class", ".jsp", ".tld")):
                texts.append(archive.read(entry))
            elif entry.startswith("WEB-INF/lib/") and entry.endswith(".jar"):
                with zipfile.ZipFile(io.BytesIO(archive.read(entry))) as jar:
                    texts += [jar.read(name) for name in jar.namelist() if name.endswith(".class")]
        is_new = any(b"jakarta/servlet" in text for text in texts)
        return not is_new and any(b"javax/servlet" in text or b"javax.servlet" in text for text in texts)


def tomcat(directory, program, war):
    port = free_port()
    for name in ("conf", "logs", "temp", "webapps", "webapps-javaee", "work"):
        (directory / name).mkdir(parents=True)
    for name in ("web.xml", "catalina.properties"):
        shutil.copy(program / "conf" / name, directory / "conf")
    shutil.copy(war, directory / ("webapps-javaee" if is_old(war) else "webapps") / "app.war")
    # Error pages contain only the status, as with `error_text = false` here.
    (directory / "conf/server.xml").write_text(f"""<Server port="-1"><Service name="Catalina">
<Connector address="127.0.0.1" port="{port}" protocol="HTTP/1.1" maxPostSize="2097152"/>
<Engine name="Catalina" defaultHost="localhost"><Host name="localhost" appBase="webapps">
<Valve className="org.apache.catalina.valves.ErrorReportValve" showReport="false" showServerInfo="false"/>
</Host></Engine></Service></Server>""")
    environment = dict(os.environ, CATALINA_HOME=str(program), CATALINA_BASE=str(directory),
                       CATALINA_OPTS="-Xmx1g")
    return Server(directory, [program / "bin/catalina.sh", "run"], environment, port)


# --- The links of a page.

class Page(html.parser.HTMLParser):
    """Links and forms of a page, in their order."""

    LINKS = {"a": "href", "area": "href", "frame": "src", "iframe": "src", "img": "src", "script": "src",
             "link": "href"}

    def __init__(self):
        super().__init__()
        self.requests = []
        self.form = None

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in self.LINKS and values.get(self.LINKS[tag]):
            self.requests.append(("GET", values[self.LINKS[tag]], None))
        elif tag == "form":
            self.end_form()
            self.form = (values.get("method", "get").upper(), values.get("action") or "", [])
        elif self.form and tag in ("input", "select", "textarea", "button") and values.get("name"):
            is_off = values.get("type") in ("checkbox", "radio", "file", "reset") and "checked" not in values
            if not is_off:
                self.form[2].append((values["name"], values.get("value") or ""))

    def handle_endtag(self, tag):
        if tag == "form":
            self.end_form()

    def end_form(self):
        if self.form:
            method, action, fields = self.form
            text = urllib.parse.urlencode(fields)
            if method == "POST":
                self.requests.append(("POST", action, text))
            else:
                self.requests.append(("GET", action.split("?")[0] + "?" + text, None))
        self.form = None


def next_requests(target, answer):
    """The requests for the links of an answer within the application."""
    _, fields, body = answer
    found = [("GET", value, None) for name, value in fields if name == "location"]
    kind = dict(fields).get("content-type", "")
    if "html" in kind or "xml" in kind:
        page = Page()
        page.feed(body.decode("utf-8", "replace"))
        page.end_form()
        found += page.requests
    for method, link, text in found:
        try:
            link = link.replace(":PORT", ":1").strip()
            absolute = urllib.parse.urljoin(f"http://localhost:1{target}", link)
            url = urllib.parse.urlsplit(absolute)
        except ValueError:
            continue
        if url.netloc in ("localhost:1", "127.0.0.1:1") and (url.path + "/").startswith("/app/"):
            path = urllib.parse.quote(url.path, safe="/;=:@!$&'()*+,~%-._")
            query = urllib.parse.quote(url.query, safe="/?;=:@!$&'()*+,~%-._")
            yield method, path + ("?" + query if query else ""), text


# --- The comparison.

def differs(first, second, ours):
    """The difference of ours from the first if the first and the second are equal; None if there is none."""
    if ours[0] != first[0] and first[0] == second[0]:
        return f"status {ours[0]} instead of {first[0]}"
    for what, one, other, own in (("field", fields_as_text(first), fields_as_text(second),
                                   fields_as_text(ours)), ("body", first[2], second[2], ours[2])):
        if own in (one, other):
            continue
        kind = dict(first[1]).get("content-type", "")
        if what == "body" and not re.search("text|html|xml|json|script|^$", kind):
            if hashlib.sha256(one).digest() == hashlib.sha256(other).digest():
                return f"body of {len(own)} bytes instead of {len(one)} bytes"
            continue
        place = first_place(one, other, own)
        if place:
            return f"{what}: {place[1]!r} instead of {place[0]!r}"
    return None


def fields_as_text(answer):
    return "\n".join(f"{name}: {value}" for name, value in answer[1]).encode()


def first_place(one, other, own):
    """The first position at which ours differs from the first and the second does not."""
    words, others, owns = (WORD.findall(text) for text in (one, other, own))
    random = [False] * (len(words) + 1)
    for kind, start, end, _, _ in difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        if kind != "equal":
            random[start:max(end, start + 1)] = [True] * max(end - start, 1)
    matcher = difflib.SequenceMatcher(None, words, owns, autojunk=False)
    for kind, start, end, own_start, own_end in matcher.get_opcodes():
        if kind != "equal" and not all(random[start:max(end, start + 1)]):
            return b"".join(words[max(start - 3, 0):end + 3])[:120], b"".join(
                owns[max(own_start - 3, 0):own_end + 3])[:120]
    return None


def distance(one, other):
    words, others = WORD.findall(one), WORD.findall(other)
    opcodes = difflib.SequenceMatcher(None, words, others, autojunk=False).get_opcodes()
    return sum(max(end - start, other_end - other_start)
               for kind, start, end, other_start, other_end in opcodes if kind != "equal")


def is_random(servers, target, own):
    """Whether the answers of the Tomcats differ as much as ours differs from the nearest of them."""
    samples = [server.ask("GET", own_target(server, target, servers))[2]
               for _ in range(3) for server in servers[1:]]
    among = max(distance(samples[0], other) for other in samples[1:])
    return among > 0 and min(distance(sample, own[2]) for sample in samples) <= among


def first_requests(war):
    """The first requests of a crawl: the start page, the paths of web.xml, and the pages."""
    targets = ["/app/"]
    with zipfile.ZipFile(war) as archive:
        names = archive.namelist()
        if "WEB-INF/web.xml" in names:
            text = re.sub(r"<!--.*?-->", "", archive.read("WEB-INF/web.xml").decode("utf-8", "replace"),
                          flags=re.S)
            patterns = re.findall(r"<url-pattern>\s*(/[^<]*?)\s*</url-pattern>", text)
            targets += ["/app" + pattern.removesuffix("*") for pattern in patterns]
        targets += ["/app/" + name for name in sorted(names)
                    if name.endswith((".html", ".htm", ".jsp", ".jspx", ".jsf", ".xhtml"))
                    and not name.startswith(("WEB-INF/", "META-INF/"))]
    return [("GET", urllib.parse.quote(target), None) for target in targets]


def crawl(servers, most, war):
    """Sends the same requests to all servers; returns their number, and the differences."""
    waiting, known, differences, count = first_requests(war), set(), [], 0
    while waiting and count < most:
        method, target, body = waiting.pop(0)
        key = tuple(re.sub("[0-9A-Fa-f]{24,}", "ID", part) for part in (method, target, body or ""))
        if key in known:
            continue
        known.add(key)
        count += 1
        # Each gets requests with its own links: they may contain its session.
        answers = [server.ask(method, own_target(server, target, servers), body) for server in servers]
        difference = differs(answers[1], answers[2], answers[0])
        if difference and not (method == "GET" and is_random(servers, target, answers[0])):
            differences.append(f"{method} {target}: {difference}")
        waiting += list(next_requests(target, answers[1]))
    return count, differences


def own_target(server, target, servers):
    """The target with the session of the server instead of that of the first Tomcat."""
    theirs, own = servers[1].cookies.get("JSESSIONID"), server.cookies.get("JSESSIONID")
    return target.replace(theirs, own) if theirs and own else target


def compare(artifact, war, arguments, program):
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        started, refused = [], False
        try:
            for number in range(3):
                place = directory / str(number)
                place.mkdir()
                isolation = "isolated" if arguments.isolated else "in-process"
                started.append(touchstone(place, arguments.binary, war, isolation) if number == 0
                               else tomcat(place, program, war))
            started[0].wait_for([" runs after ", "could not be started"])
            for server in started[1:]:
                server.wait_for(["Server startup in"])
            refused = ("could not be started" in started[0].log.read_text(errors="replace")
                       and re.search("startup failed|Error deploying web application",
                                     started[1].log.read_text(errors="replace")))
            count, differences = (0, []) if refused else crawl(started, arguments.pages, war)
        except RuntimeError as failure:
            count, differences = 0, [str(failure)]
        finally:
            for server in started:
                server.stop()
    outcome = "refused by both" if refused else f"{count} requests, {len(differences)} differences"
    print(f"{artifact}: {outcome}", flush=True)
    for difference in differences:
        print(f"    {difference}", flush=True)
    return len(differences)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=pathlib.Path, default=TARGET / "release/touchstone")
    parser.add_argument("--isolated", action="store_true", help="run in a separate process")
    parser.add_argument("--pages", type=int, default=300, help="the maximum number of requests for each")
    parser.add_argument("applications", nargs="*",
                        help="GROUP:ARTIFACT:VERSION[:TYPE!PATH], or the file of a WAR")
    arguments = parser.parse_args()
    arguments.binary = arguments.binary.resolve()
    program = parts(arguments.binary)
    differences = 0
    for artifact in arguments.applications or APPLICATIONS:
        war, kept = pathlib.Path(artifact), TARGET / "java-applications/compared"
        if artifact == "examples":
            war = examples(program, kept)
        elif not war.is_file():
            if not re.fullmatch(r"[^:!]+(:[^:!]+){2}(:[^:!]+!.+)?", artifact):
                missing(f"{artifact} is neither a file nor GROUP:ARTIFACT:VERSION[:TYPE!PATH]")
            war = fetch(artifact, kept)
        differences += compare(artifact, war, arguments, program)
    sys.exit(1 if differences else 0)


main()
