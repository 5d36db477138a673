"""A WSGI application for the tests: one path for each thing that can happen."""

import io
import os
import signal
import sys
import threading
import time

VERSION = "one"
HERE = []


class Closing:
    def __init__(self, pieces):
        self.pieces = iter(pieces)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.pieces)

    def close(self):
        print("the body was closed", file=sys.stderr)


def application(environ, start_response):
    name = environ["PATH_INFO"].strip("/").replace("-", "_") or "hello"
    return globals()["do_" + name](environ, start_response)


def text(start_response, body, status="200 OK", headers=()):
    start_response(status, [("Content-Type", "text/plain"), *headers])
    return [body.encode()]


def do_hello(environ, start_response):
    return text(start_response, "hello")


def do_environ(environ, start_response):
    lines = [f"{key}={environ[key]!r}\n" for key in sorted(environ) if isinstance(environ[key], (str, bool, tuple))]
    return text(start_response, "".join(lines))


def do_echo(environ, start_response):
    return text(start_response, repr(environ["wsgi.input"].read()))


def do_lines(environ, start_response):
    stream = environ["wsgi.input"]
    return text(start_response, repr([stream.readline(), stream.readline(3), list(stream)]))


def do_length(environ, start_response):
    total, stream = 0, environ["wsgi.input"]
    while piece := stream.read(65536):
        total += len(piece)
    return text(start_response, str(total))


def do_pieces(environ, start_response):
    start_response("200 OK", [])
    return Closing([b"a", b"", b"b" * 100_000, b"c"])


def do_large(environ, start_response):
    size = int(environ["QUERY_STRING"])
    start_response("200 OK", [("Content-Length", str(size))])
    piece = bytes(65536)
    return (piece[: min(65536, size - at)] for at in range(0, size, 65536))


def do_short(environ, start_response):
    start_response("200 OK", [("Content-Length", "10")])
    return iter([b"abc"])


def do_write(environ, start_response):
    write = start_response("200 OK", [])
    write(b"written ")
    return [b"returned"]


def do_status(environ, start_response):
    return text(start_response, "", status="404 Gone fishing")


def do_fails(environ, start_response):
    raise ValueError("a secret of the trace")


def do_fails_late(environ, start_response):
    start_response("200 OK", [])

    def pieces():
        yield b"x" * 100_000
        raise ValueError("after some of it")

    return pieces()


def do_exc_info(environ, start_response):
    start_response("200 OK", [("X-First", "1")])
    try:
        raise KeyError("mended")
    except KeyError:
        start_response("503 Mended", [("X-Second", "2")], sys.exc_info())
    return [b"mended"]


def do_inject(environ, start_response):
    return text(start_response, "x", headers=[("X-Bad", "a\r\nSet-Cookie: evil=1")])


def do_hop(environ, start_response):
    return text(start_response, "x", headers=[("Connection", "close"), ("Transfer-Encoding", "chunked"), ("X-A", "b")])


def do_not_bytes(environ, start_response):
    start_response("200 OK", [])
    return ["text"]


def do_no_start(environ, start_response):
    return [b"x"]


def do_file(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return environ["wsgi.file_wrapper"](open(os.environ["TEST_FILE"], "rb"))


def do_memory_file(environ, start_response):
    start_response("200 OK", [])
    return environ["wsgi.file_wrapper"](io.BytesIO(b"m" * 100_000))


def do_pid(environ, start_response):
    return text(start_response, f"{os.getpid()} {VERSION}")


def do_thread(environ, start_response):
    time.sleep(1)
    return text(start_response, str(threading.get_ident()))


def do_slow(environ, start_response):
    print("a slow request begins")
    time.sleep(float(environ["QUERY_STRING"]))
    return text(start_response, f"slow {VERSION}")


def do_meet(environ, start_response):
    """Computes until two requests are here, without giving the interpreter's lock away."""
    sys.setswitchinterval(3600)
    HERE.append(environ)
    while len(HERE) < 2:
        pass
    return text(start_response, "met without a lock")


def do_kill(environ, start_response):
    os.kill(os.getpid(), signal.SIGKILL)


def do_crash(environ, start_response):
    import ctypes

    ctypes.string_at(0)


def do_exit(environ, start_response):
    os._exit(7)


def do_sys_exit(environ, start_response):
    sys.exit(3)


def do_hang(environ, start_response):
    while True:
        time.sleep(1)


def do_memory(environ, start_response):
    return text(start_response, str(len(b"x" * (1 << 31))))


def do_print(environ, start_response):
    print("printed by the application")
    print("an error of the application", file=environ["wsgi.errors"])
    return text(start_response, os.environ.get("TEST_VARIABLE", "none"))


def make():
    return application


def validated(environ, start_response):
    from wsgiref.validate import validator

    def app(environ, start_response):
        body = environ["wsgi.input"].read(10) if environ["REQUEST_METHOD"] == "POST" else b""
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"valid ", body]

    return validator(app)(environ, start_response)
