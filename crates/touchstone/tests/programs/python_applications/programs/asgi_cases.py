"""What the cases of ASGI call: one small application a path, for http and for websocket, and a lifespan whose
state all requests see.

`tests/programs/python_applications/asgi.rs` says what each must do.
"""

import asyncio
import hashlib
import os

CASES = {}
SOCKETS = {}
EVENTS = {}
NOTES = {}


def case(function):
    CASES[function.__name__.replace("_", "-")] = function
    return function


def socket(function):
    SOCKETS[function.__name__.replace("_", "-")] = function
    return function


def event(name):
    return EVENTS.setdefault(name, asyncio.Event())


async def text(send, lines, status=200):
    body = "".join(line + "\n" for line in lines).encode("latin-1")
    fields = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})


async def start(send, status=200, fields=(), **more):
    await send({"type": "http.response.start", "status": status, "headers": list(fields), **more})


async def piece(send, body=b"", more=False):
    await send({"type": "http.response.body", "body": body, "more_body": more})


# --- what the application is told ------------------------------------------------------------------------


@case
async def scope(scope, receive, send):
    named = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path")
    lines = [f"{name}={scope[name]!r}" for name in named]
    lines.append(f"asgi.version={scope['asgi']['version']!r}")
    lines.append(f"spec_version={scope['asgi'].get('spec_version')}")
    lines.append(f"server is a pair={len(scope['server']) == 2 and isinstance(scope['server'][1], int)}")
    client, port = scope["client"]
    lines.append(f"client is a pair={client == '127.0.0.1' and isinstance(port, int)}")
    lines += [f"header {name!r}: {value!r}" for name, value in scope["headers"]]
    lines.append(f"state={sorted(scope['state'].items())!r}")
    await text(send, lines)


@case
async def own_state(scope, receive, send):
    """The state is a shallow copy for each request: what is put in stays out of the others."""
    seen = "mark" in scope["state"]
    scope["state"]["mark"] = "left by a request"
    scope["state"]["shared"].append(1)
    await text(send, [f"seen={seen}", f"shared={len(scope['state']['shared']) > 0}"])


# --- bodies of requests ----------------------------------------------------------------------------------


@case
async def length(scope, receive, send):
    read, digest, more = 0, hashlib.sha256(), True
    while more:
        message = await receive()
        assert message["type"] == "http.request", message
        read += len(message.get("body", b""))
        digest.update(message.get("body", b""))
        more = message.get("more_body", False)
    await text(send, [f"bytes={read}", f"sha256={digest.hexdigest()}"])


@case
async def nothing_read(scope, receive, send):
    await text(send, ["not read"])


@case
async def after_the_answer(scope, receive, send):
    """What is received after the answer: it is over."""
    name = scope["query_string"].decode()
    while (await receive()).get("more_body"):
        pass
    await text(send, ["answered"])
    NOTES[name] = (await receive())["type"]


@case
async def noted(scope, receive, send):
    await text(send, [f"noted={NOTES.get(scope['query_string'].decode())}"])


# --- heads of answers ------------------------------------------------------------------------------------


@case
async def fields(scope, receive, send):
    first = [(b"set-cookie", b"a=1"), (b"x-order", b"first")]
    second = [(b"set-cookie", b"b=2"), (b"x-order", b"second")]
    await start(send, 200, [*first, *second, (b"x-latin", b"caf\xe9"), (b"content-length", b"2")])
    await piece(send, b"ok")


@case
async def no_headers(scope, receive, send):
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"bare"})


@case
async def no_content(scope, receive, send):
    await start(send, 204)
    await piece(send)


@case
async def not_modified(scope, receive, send):
    await start(send, 304, [(b"etag", b'"one"')])
    await piece(send)


@case
async def plain(scope, receive, send):
    await start(send, 200, [(b"content-type", b"text/plain"), (b"content-length", b"5")])
    await piece(send, b"plain")


@case
async def unknown_length(scope, receive, send):
    await start(send)
    for one in (b"one ", b"", b"two ", b"three"):
        await piece(send, one, True)
    await piece(send)


@case
async def slept(scope, receive, send):
    await asyncio.sleep(0.01)
    await text(send, ["awake"])


# --- what applications do wrong --------------------------------------------------------------------------


@case
async def raises(scope, receive, send):
    raise RuntimeError("secret of the application")


@case
async def raises_after_start(scope, receive, send):
    await start(send, 200, [(b"x-started", b"1"), (b"content-length", b"100")])
    await piece(send, b"begun", True)
    raise RuntimeError("secret of the application")


@case
async def returns_without_answer(scope, receive, send):
    return


@case
async def returns_too_early(scope, receive, send):
    await start(send)
    await piece(send, b"begun", True)


@case
async def body_before_start(scope, receive, send):
    await piece(send, b"x")


@case
async def start_twice(scope, receive, send):
    await start(send, 200, [(b"x-first", b"1")])
    await start(send, 404, [(b"x-second", b"1")])
    await piece(send, b"wrong")


@case
async def unknown_message(scope, receive, send):
    await send({"type": "http.response.unknown"})


@case
async def text_as_field(scope, receive, send):
    await start(send, 200, [("x-text", "1")])
    await piece(send, b"x")


@case
async def injected_value(scope, receive, send):
    await start(send, 200, [(b"x-value", b"a\r\nX-Injected: yes"), (b"content-length", b"1")])
    await piece(send, b"x")


@case
async def injected_name(scope, receive, send):
    await start(send, 200, [(b"x-injected: yes\r\nx-other", b"a"), (b"content-length", b"1")])
    await piece(send, b"x")


@case
async def too_much(scope, receive, send):
    await start(send, 200, [(b"content-length", b"4")])
    await piece(send, b"bodyHTTP/1.1 200 OK\r\nX-Injected: yes\r\n\r\n")


@case
async def too_little(scope, receive, send):
    await start(send, 200, [(b"content-length", b"40")])
    await piece(send, b"body")


# --- bodies of answers -----------------------------------------------------------------------------------


@case
async def large(scope, receive, send):
    await start(send)
    block = bytes(range(256)) * 256
    for _ in range(512):
        await piece(send, block, True)
    await piece(send)


@case
async def endless(scope, receive, send):
    """Sends until it is told that the client has left."""
    left = asyncio.ensure_future(disconnected(receive))
    await start(send)
    while not left.done():
        try:
            await piece(send, b"x" * 65536, True)
        except OSError:
            # The client has disconnected, and `receive` reports it in the next turn of the loop.
            await left
        await asyncio.sleep(0)
    NOTES["endless"] = "told"


async def disconnected(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


@case
async def flushed(scope, receive, send):
    await start(send)
    await piece(send, b"first ", True)
    await asyncio.wait_for(event(scope["query_string"].decode()).wait(), 60)
    await piece(send, b"second")


@case
async def release(scope, receive, send):
    event(scope["query_string"].decode()).set()
    await text(send, ["released"])


@case
async def trailers(scope, receive, send):
    await start(send, 200, [(b"trailer", b"x-digest")], trailers=True)
    await piece(send, b"body")
    await send({"type": "http.response.trailers", "headers": [(b"x-digest", b"abc")], "more_trailers": False})


@case
async def early_hint(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</style.css>; rel=preload"]})
    await text(send, ["late"])


@case
async def pathsend(scope, receive, send):
    await start(send, 200, [(b"content-type", b"text/x-python")])
    await send({"type": "http.response.pathsend", "path": __file__})


@case
async def extensions(scope, receive, send):
    await text(send, sorted(scope.get("extensions") or {}))


@case
async def exits(scope, receive, send):
    os._exit(3)


@case
async def spin(scope, receive, send):
    while True:
        pass


# --- websockets ------------------------------------------------------------------------------------------


@socket
async def echo(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept", "subprotocol": next(iter(scope["subprotocols"]), None)})
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await send({"type": "websocket.send", "text": message["text"]})
        else:
            await send({"type": "websocket.send", "bytes": message["bytes"]})
    NOTES["echo"] = f"{message['type']} {message['code']}"


@socket
async def accepts_with_fields(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept", "headers": [(b"x-accepted", b"1")]})
    await send({"type": "websocket.close", "code": 4001, "reason": "of the application"})


@socket
async def rejects(scope, receive, send):
    await receive()
    await send({"type": "websocket.close"})


@socket
async def denies(scope, receive, send):
    await receive()
    fields = [(b"content-type", b"text/plain"), (b"content-length", b"6")]
    await send({"type": "websocket.http.response.start", "status": 418, "headers": fields})
    await send({"type": "websocket.http.response.body", "body": b"denied"})


@socket
async def fails(scope, receive, send):
    raise RuntimeError("secret of the application")


@socket
async def fails_later(scope, receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    raise RuntimeError("secret of the application")


async def lifespan(scope, receive, send):
    assert (await receive())["type"] == "lifespan.startup"
    scope["state"]["started"] = "yes"
    scope["state"]["shared"] = []
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    print("the application is shut down", flush=True)
    await send({"type": "lifespan.shutdown.complete"})


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    name = scope["path"].split("/")[1]
    cases = SOCKETS if scope["type"] == "websocket" else CASES
    if name in cases:
        await cases[name](scope, receive, send)
    elif scope["type"] == "http":
        await text(send, [f"there is no case {name!r}"], 404)
    else:
        await receive()
        await send({"type": "websocket.close"})


async def fails_to_start(scope, receive, send):
    """An application that cannot start, and says why."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "there is no database"})
    else:
        await text(send, ["served all the same"])


async def without_lifespan(scope, receive, send):
    """An application that raises where it is asked for what it does not know: the protocol is off then."""
    assert scope["type"] == "http", scope["type"]
    await text(send, [f"state={scope.get('state')!r}"])
