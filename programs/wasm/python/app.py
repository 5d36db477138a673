"""A component in Python, for componentize-py: the world wasi:http/proxy, bodies in pieces."""

from componentize_py_types import Ok
from wit_world import exports
from wit_world.imports import poll
from wit_world.imports.types import (
    Fields, IncomingBody, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam,
)
from wit_world.imports.streams import StreamError_Closed
from componentize_py_types import Err


class IncomingHandler(exports.IncomingHandler):
    def handle(self, request: IncomingRequest, response_out: ResponseOutparam) -> None:
        path = request.path_with_query()
        response = OutgoingResponse(Fields.from_list([("content-type", b"text/plain")]))
        body = response.body()
        ResponseOutparam.set(response_out, Ok(response))
        stream = body.write()
        if path == "/echo":
            incoming = request.consume()
            read = incoming.stream()
            try:
                while True:
                    piece = read.blocking_read(4096)
                    stream.blocking_write_and_flush(piece)
            except Err as error:
                if not isinstance(error.value, StreamError_Closed):
                    raise
        else:
            stream.blocking_write_and_flush(b"hello from Python\n")
        stream.__exit__(None, None, None)
        OutgoingBody.finish(body, None)
