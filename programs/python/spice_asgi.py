"""The SPICE program for ASGI: the least that Python can do to answer with 6,250 bytes of HTML.

What a request to it costs beyond a file of the same size is the price of the interface: the dictionary of the
request, a coroutine that runs to its end, and the two events of the answer. So it does nothing by itself: both
events are made when it is loaded. It waits for nothing.
"""

BODY = (
    b'<!DOCTYPE html>\n<html lang="en"><head><title>SPICE</title></head><body>\n'
    + b"The least program that answers with 6,250 bytes\n" * 128
    + b"<p>That is all</p>\n</body></html>\n"
)
assert len(BODY) == 6250

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/html"), (b"content-length", b"6250")],
}
ANSWER = {"type": "http.response.body", "body": BODY}


async def application(scope, receive, send):
    # A server that speaks the lifespan protocol takes this for: there is nothing to start.
    if scope["type"] != "http":
        raise RuntimeError("this application answers HTTP requests only")
    await send(START)
    await send(ANSWER)
