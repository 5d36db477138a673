"""What the cases of WSGI call: one small application a path. The first part of the path is the name of the
case; what stands behind it belongs to the case. `/validated/NAME` is the same behind wsgiref.validate, which
raises where server or application break PEP 3333.

`tests/programs/python_applications/wsgi.rs` says what each must do.
"""

import hashlib
import io
import os
import sys
import tempfile
import threading
from wsgiref.validate import validator

CASES = {}
EVENTS = {}
CLOSED = {}
LOCK = threading.Lock()


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def event(name):
    with LOCK:
        return EVENTS.setdefault(name, threading.Event())


def note_closed(name):
    with LOCK:
        CLOSED[name] = CLOSED.get(name, 0) + 1


def text(start_response, lines, status="200 OK"):
    body = "".join(line + "\n" for line in lines).encode("latin-1")
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


class Closing:
    """An iterable that notes its close()."""

    def __init__(self, name, pieces):
        self.name = name
        self.pieces = iter(pieces)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.pieces)

    def close(self):
        note_closed(self.name)


# --- what the application is told ------------------------------------------------------------------------


@case
def environ(environ, start_response):
    lines = [f"{name}={value!r}" for name, value in environ.items() if isinstance(value, str)]
    lines += [f"{name}={environ[name]!r}" for name in sorted(environ) if name.startswith("wsgi.multi")]
    lines.append(f"wsgi.version={environ['wsgi.version']!r}")
    lines.append(f"wsgi.run_once={environ['wsgi.run_once']!r}")
    lines.append(f"exact dict={type(environ) is dict}")
    named = ("REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "SERVER_NAME", "SERVER_PORT")
    lines.append(f"native strings={all(type(environ[name]) is str for name in named)}")
    latin = all(ord(c) < 256 for value in environ.values() if isinstance(value, str) for c in value)
    lines.append(f"within latin-1={latin}")
    return text(start_response, sorted(lines))


@case
def own_environ(environ, start_response):
    """Each request has a dictionary of its own, which the application may change."""
    seen = "mark" in environ
    environ["mark"] = "left by a request"
    environ["wsgi.version"] = "changed"
    return text(start_response, [f"seen={seen}"])


# --- bodies of requests ----------------------------------------------------------------------------------


@case
def length(environ, start_response):
    body = environ["wsgi.input"].read()
    digest = hashlib.sha256(body).hexdigest()
    after = environ["wsgi.input"].read(10)
    return text(start_response, [f"bytes={len(body)}", f"sha256={digest}", f"after={after!r}"])


@case
def pieces(environ, start_response):
    source = environ["wsgi.input"]
    lines = [f"read={source.read(4)!r}", f"line={source.readline()!r}", f"part={source.readline(3)!r}"]
    lines.append(f"next={next(iter(source), b'')!r}")
    lines.append(f"lines={source.readlines()!r}")
    lines.append(f"end={source.read(1)!r} {source.readline()!r} {list(source)!r}")
    return text(start_response, lines)


@case
def nothing_read(environ, start_response):
    return text(start_response, ["not read"])


# --- heads of answers ------------------------------------------------------------------------------------


@case
def reason(environ, start_response):
    start_response("299 Fine by me", [("Content-Length", "0")])
    return []


@case
def fields(environ, start_response):
    start_response(
        "200 OK",
        [
            ("Set-Cookie", "a=1"),
            ("X-Order", "first"),
            ("Set-Cookie", "b=2"),
            ("X-Order", "second"),
            ("X-Latin", "caf\u00e9"),
            ("x-lower-Mixed", "kept"),
            ("Content-Length", "2"),
        ],
    )
    return [b"ok"]


@case
def no_content(environ, start_response):
    start_response("204 No Content", [])
    return []


@case
def not_modified(environ, start_response):
    start_response("304 Not Modified", [("ETag", '"one"')])
    return []


@case
def body_with_no_content(environ, start_response):
    start_response("204 No Content", [])
    return [b"this must not be sent"]


@case
def twice(environ, start_response):
    start_response("200 OK", [("X-First", "1")])
    start_response("404 Not Found", [("X-Second", "1")])
    return [b"wrong"]


@case
def replaced(environ, start_response):
    start_response("200 OK", [("X-First", "1")])
    try:
        raise ValueError("for the error log")
    except ValueError:
        start_response("503 Replaced", [("X-Second", "1"), ("Content-Length", "5")], sys.exc_info())
    return [b"later"]


@case
def replaced_too_late(environ, start_response):
    start_response("200 OK", [])
    yield b"begun"
    try:
        raise ValueError("raised again by start_response")
    except ValueError:
        start_response("500 Too Late", [], sys.exc_info())
    yield b"this must not be sent"


@case
def lazy(environ, start_response):
    """A generator calls start_response when the server asks for the first piece."""
    start_response("200 OK", [("X-Lazy", "1")])
    yield b""
    yield b""
    yield b"at last"


@case
def write(environ, start_response):
    send = start_response("200 OK", [("X-Write", "1")])
    send(b"one ")
    send(b"two ")
    return [b"three"]


# --- what applications do wrong --------------------------------------------------------------------------


@case
def raises(environ, start_response):
    raise RuntimeError("secret of the application")


@case
def raises_after_start(environ, start_response):
    start_response("200 OK", [("X-Started", "1")])
    raise RuntimeError("secret of the application")


@case
def raises_in_body(environ, start_response):
    start_response("200 OK", [])

    def body():
        yield b"x" * 1000
        raise RuntimeError("secret of the application")

    return Closing("raises-in-body", body())


@case
def never_starts(environ, start_response):
    return [b"no status"]


@case
def text_not_bytes(environ, start_response):
    start_response("200 OK", [])
    return ["text"]


@case
def returns_none(environ, start_response):
    start_response("200 OK", [])


@case
def bad_status(environ, start_response):
    start_response("fine", [])
    return [b"x"]


@case
def interim_status(environ, start_response):
    start_response("100 Continue", [])
    return [b"x"]


@case
def number_status(environ, start_response):
    start_response(200, [])
    return [b"x"]


@case
def bytes_fields(environ, start_response):
    start_response("200 OK", [(b"X-Bytes", b"1")])
    return [b"x"]


@case
def injected_value(environ, start_response):
    start_response("200 OK", [("X-Value", "a\r\nX-Injected: yes"), ("Content-Length", "1")])
    return [b"x"]


@case
def injected_line_feed(environ, start_response):
    start_response("200 OK", [("X-Value", "a\nX-Injected: yes"), ("Content-Length", "1")])
    return [b"x"]


@case
def injected_nul(environ, start_response):
    start_response("200 OK", [("X-Value", "a\x00X-Injected: yes"), ("Content-Length", "1")])
    return [b"x"]


@case
def injected_name(environ, start_response):
    start_response("200 OK", [("X-Injected: yes\r\nX-Other", "a"), ("Content-Length", "1")])
    return [b"x"]


@case
def injected_status(environ, start_response):
    start_response("200 OK\r\nX-Injected: yes", [("Content-Length", "1")])
    return [b"x"]


@case
def own_framing(environ, start_response):
    start_response("200 OK", [("Transfer-Encoding", "chunked"), ("Content-Length", "4")])
    return [b"body"]


@case
def own_connection(environ, start_response):
    start_response("200 OK", [("Connection", "upgrade"), ("Upgrade", "other/1"), ("Content-Length", "4")])
    return [b"body"]


@case
def two_lengths(environ, start_response):
    start_response("200 OK", [("Content-Length", "4"), ("Content-Length", "40")])
    return [b"body"]


@case
def too_much(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"body", b"HTTP/1.1 200 OK\r\nX-Injected: yes\r\n\r\n"]


@case
def too_little(environ, start_response):
    start_response("200 OK", [("Content-Length", "40")])
    return [b"body"]


# --- bodies of answers -----------------------------------------------------------------------------------


@case
def unknown_length(environ, start_response):
    start_response("200 OK", [])
    return iter([b"one ", b"two ", b"three"])


@case
def large(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    block = bytes(range(256)) * 256
    return Closing("large", (block for _ in range(512)))


@case
def endless(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/octet-stream")])

    def body():
        while True:
            yield b"x" * 65536

    return Closing("endless", body())


@case
def flushed(environ, start_response):
    """The first piece must arrive before the second is there."""
    name = environ["QUERY_STRING"]
    start_response("200 OK", [])

    def body():
        yield b"first "
        yield b"second" if event(name).wait(60) else b"never released"

    return body()


@case
def release(environ, start_response):
    event(environ["QUERY_STRING"]).set()
    return text(start_response, ["released"])


@case
def closing(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return Closing("closing", [b"body"])


@case
def closed(environ, start_response):
    with LOCK:
        return text(start_response, [f"closed={CLOSED.get(environ['QUERY_STRING'], 0)}"])


@case
def file(environ, start_response):
    source = tempfile.TemporaryFile()
    source.write(b"0123456789" * 10000)
    source.seek(5)
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "99995")])
    return environ["wsgi.file_wrapper"](source, 4096)


@case
def file_without_length(environ, start_response):
    source = tempfile.TemporaryFile()
    source.write(b"0123456789" * 10000)
    source.seek(0)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](source)


@case
def part_of_file(environ, start_response):
    """A Content-Length shorter than the file ends the answer."""
    source = tempfile.TemporaryFile()
    source.write(b"0123456789" * 10000)
    source.seek(10)
    start_response("206 Partial Content", [("Content-Length", "10"), ("Content-Range", "bytes 10-19/100000")])
    return environ["wsgi.file_wrapper"](source)


class Memory(io.BytesIO):
    """A file without a descriptor, which notes its close()."""

    def close(self):
        if not self.closed:
            note_closed("memory-file")
        super().close()


@case
def memory_file(environ, start_response):
    start_response("200 OK", [("Content-Length", "6")])
    return environ["wsgi.file_wrapper"](Memory(b"memory"), 2)


@case
def errors(environ, start_response):
    print("said to wsgi.errors", file=environ["wsgi.errors"])
    environ["wsgi.errors"].writelines(["a line and ", "its end\n"])
    environ["wsgi.errors"].flush()
    return text(start_response, ["said"])


# --- behind wsgiref.validate -----------------------------------------------------------------------------


@case
def plain(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "5")])
    return [b"plain"]


@case
def streamed(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"one ", b"two"])


@case
def read_all(environ, start_response):
    source = environ["wsgi.input"]
    read = 0
    while True:
        piece = source.read(1000)
        if not piece:
            break
        read += len(piece)
    return text(start_response, [f"bytes={read}"])


@case
def read_lines(environ, start_response):
    source = environ["wsgi.input"]
    return text(start_response, [f"first={source.readline()!r}", f"rest={list(source)!r}"])


# --- what is hostile -------------------------------------------------------------------------------------


@case
def spin(environ, start_response):
    """An endless loop that never gives the interpreter away."""
    while True:
        pass


@case
def sleep(environ, start_response):
    threading.Event().wait()


@case
def memory(environ, start_response):
    held = []
    while True:
        held.append(bytearray(1 << 20))


@case
def exits(environ, start_response):
    os._exit(3)


@case
def crashes(environ, start_response):
    import ctypes

    ctypes.string_at(0)


@case
def worker(environ, start_response):
    return text(start_response, [f"worker={os.getpid()}"])


VALIDATED = {name: validator(function) for name, function in CASES.items()}


def application(environ, start_response):
    _, name, *rest = environ["PATH_INFO"].split("/")
    cases = CASES
    if name == "validated" and rest:
        name, cases = rest[0], VALIDATED
    if name not in cases:
        return text(start_response, [f"there is no case {name!r}"], "404 Not Found")
    return cases[name](environ, start_response)
