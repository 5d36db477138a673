"""A component in Python, for componentize-py: the world wasi:http/proxy, bodies in pieces, trailers, outgoing
requests."""

from componentize_py_types import Err, Ok
from wit_world import exports
from wit_world.imports import outgoing_handler
from wit_world.imports.streams import StreamError_Closed
from wit_world.imports.types import (
    Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingRequest, OutgoingResponse, ResponseOutparam,
    Scheme_Http, Scheme_Https,
)


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        path = request.path_with_query() or "/"
        if path == "/echo":
            answer(response_out, 200, request.consume())
        elif path.startswith("/ask/"):
            response = ask(path.removeprefix("/ask/"))
            answer(response_out, response.status(), response.consume())
        elif path == "/trailers":
            trailers = Fields.from_list([("x-checksum", b"abc")])
            answer(response_out, 200, b"body\n", trailers)
        else:
            answer(response_out, 200, b"hello from Python\n")


def answer(out, status, content, trailers=None):
    response = OutgoingResponse(Fields.from_list([("content-type", b"text/plain")]))
    response.set_status_code(status)
    body = response.body()
    ResponseOutparam.set(out, Ok(response))
    with body.write() as stream:
        if isinstance(content, bytes):
            stream.blocking_write_and_flush(content)
        else:
            trailers = copy(content, stream)
    OutgoingBody.finish(body, trailers)


def copy(body, stream):
    """Passes a body on in pieces, and gives its trailers."""
    with body.stream() as read:
        try:
            while True:
                stream.blocking_write_and_flush(read.blocking_read(4096))
        except Err as error:
            if not isinstance(error.value, StreamError_Closed):
                raise
    return result(IncomingBody.finish(body))


def ask(target):
    """Asks another server: http/127.0.0.1:8080/path."""
    scheme, authority, path = target.split("/", 2)
    request = OutgoingRequest(Fields())
    request.set_scheme(Scheme_Https() if scheme == "https" else Scheme_Http())
    request.set_authority(authority)
    request.set_path_with_query("/" + path)
    return result(outgoing_handler.handle(request, None))


def result(future):
    """Waits for what a future has, an error of which is raised."""
    with future.subscribe() as ready:
        ready.block()
    value = future.get()
    while isinstance(value, Ok):
        value = value.value
    if isinstance(value, Err):
        raise value
    return value
