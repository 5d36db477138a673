"""An ASGI application for the tests: one path for each thing that can happen."""

import asyncio
import contextvars
import os
import signal
import sys
import weakref

HERE = []
LEFT = []
WEAK = weakref.WeakKeyDictionary()
VARIABLE = contextvars.ContextVar("variable", default="unset")


async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        return await lifespan(scope, receive, send)
    name = scope["path"].strip("/").replace("-", "_") or "hello"
    await globals()["do_" + name](scope, receive, send)


def plain(scope, receive, send):
    """Is no coroutine function, and returns what can be awaited."""
    if scope["type"] == "lifespan":
        return lifespan(scope, receive, send)
    return Awaitable(send)


async def lifespan(scope, receive, send):
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            scope["state"]["started"] = "yes"
            await send({"type": "lifespan.startup.complete"})
        else:
            print("the lifespan ends")
            await send({"type": "lifespan.shutdown.complete"})
            return


async def answer(send, body, status=200, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain"), *headers]})
    await send({"type": "http.response.body", "body": body})


async def do_hello(scope, receive, send):
    await answer(send, b"hello")


async def do_scope(scope, receive, send):
    shown = {key: scope[key] for key in sorted(scope) if key not in ("extensions",)}
    await answer(send, repr(shown).encode())


async def do_echo(scope, receive, send):
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    await answer(send, body)


async def do_length(scope, receive, send):
    total, more = 0, True
    while more:
        message = await receive()
        total += len(message["body"])
        more = message["more_body"]
    await answer(send, str(total).encode())


async def do_large(scope, receive, send):
    size = int(scope["query_string"])
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while size > 0:
        piece = min(size, 65536)
        size -= piece
        await send({"type": "http.response.body", "body": bytes(piece), "more_body": size > 0})


async def do_wait(scope, receive, send):
    before = asyncio.current_task()
    VARIABLE.set("set")
    await asyncio.sleep(0.01)
    same = asyncio.current_task() is before
    await answer(send, f"{same} {VARIABLE.get()}".encode())


async def do_timeout(scope, receive, send):
    try:
        await asyncio.wait_for(asyncio.sleep(60), 0.05)
    except asyncio.TimeoutError:
        await answer(send, b"timed out")


async def do_token(scope, receive, send):
    """A token of a context variable is of the same context after a wait."""
    token = VARIABLE.set("set")
    await asyncio.sleep(0)
    VARIABLE.reset(token)
    await answer(send, VARIABLE.get().encode())


async def do_leave(scope, receive, send):
    """Leaves something in its task, without waiting."""
    task = asyncio.current_task()
    what = scope["query_string"]
    if what == b"variable":
        VARIABLE.set("left")
    elif what == b"name":
        task.set_name("left")
    elif what == b"callback":
        task.add_done_callback(lambda task: print("the task has ended"))
    elif what == b"reference":
        LEFT.append(task)
    elif what == b"weak":
        WEAK[task] = "left"
    elif what == b"cancel":
        task.cancel()
    await answer(send, b"left")


async def do_look(scope, receive, send):
    """What an earlier request has left."""
    task = asyncio.current_task()
    left = [VARIABLE.get(), task.get_name() == "left", task in LEFT, task in WEAK, task._must_cancel]
    await answer(send, repr(left).encode())


async def do_ended(scope, receive, send):
    """Whether the tasks that were left have ended, and how many there are."""
    await asyncio.sleep(0)
    await answer(send, f"{[task.done() for task in LEFT]} {len(asyncio.all_tasks())}".encode())


async def do_cancel(scope, receive, send):
    """Is cancelled before it waits."""
    asyncio.current_task().cancel()
    await asyncio.sleep(60)


class Awaitable:
    def __init__(self, send):
        self.send = send

    def __await__(self):
        return answer(self.send, b"awaited").__await__()


async def do_events(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for number in range(3):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await asyncio.sleep(0.05)
    await send({"type": "http.response.body", "body": b""})


async def do_disconnect(scope, receive, send):
    await receive()
    print("waits for its client to leave")
    message = await receive()
    print("then came", message["type"])


async def do_trailers(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [], "trailers": True})
    await send({"type": "http.response.body", "body": b"body"})
    await send({"type": "http.response.trailers", "headers": [(b"x-sum", b"7")]})


async def do_hints(scope, receive, send):
    await send({"type": "http.response.early_hint", "links": [b"</a.css>; rel=preload"]})
    await asyncio.sleep(0.05)
    await answer(send, b"hinted")


async def do_path(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.pathsend", "path": os.environ["TEST_FILE"]})


async def do_fails(scope, receive, send):
    raise ValueError("a secret of the trace")


async def do_fails_late(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
    raise ValueError("after some of it")


async def do_silent(scope, receive, send):
    pass


async def do_inject(scope, receive, send):
    await answer(send, b"x", headers=[(b"x-bad", b"a\r\nset-cookie: evil=1")])


def meet():
    HERE.append(None)
    while len(HERE) < 2:
        pass


async def do_meet(scope, receive, send):
    """Computes in a thread until two requests do, without giving the interpreter's lock away."""
    sys.setswitchinterval(3600)
    await asyncio.to_thread(meet)
    await answer(send, b"met without a lock")


async def do_kill(scope, receive, send):
    os.kill(os.getpid(), signal.SIGKILL)


async def do_spin(scope, receive, send):
    while True:
        pass


async def do_spin_later(scope, receive, send):
    await asyncio.sleep(0.01)
    await do_spin(scope, receive, send)


async def do_loop(scope, receive, send):
    await answer(send, type(asyncio.get_running_loop()).__module__.encode())


async def do_socket(scope, receive, send):
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            print("the socket ends with", message["code"])
            return
        await send({"type": "websocket.send", "text": "you said " + message["text"]})


async def do_refused_socket(scope, receive, send):
    await receive()
    await send({"type": "websocket.close"})
