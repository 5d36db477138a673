# The Python side of a worker: what is not needed for every request. It runs in __main__ of the embedded
# interpreter, before the application is imported. `worker/process.rs` calls what is defined here.

import faulthandler
import importlib
import inspect
import io
import os
import stat
import sys
import traceback
import types
import weakref


def touchstone_enable_traces(signal):
    """Makes Python write the traces of its threads when it crashes, and when the server sends this signal."""
    try:
        faulthandler.enable()
        faulthandler.register(signal, all_threads=True)
    except Exception as error:
        print(f"there will be no traces of crashes: {error}", file=sys.stderr)


def touchstone_load(app, directory, path, protocol, is_factory):
    """Imports the application. Returns it and its protocol, "wsgi" or "asgi"."""
    places = [directory, *path]
    sys.path[:0] = places
    # Modules that read the arguments of the program, such as Django's, find no arguments.
    sys.argv = ["touchstone"]
    module_name, _, name = app.partition(":")
    module = importlib.import_module(module_name)
    found = module
    for part in (name or "application").split("."):
        found = getattr(found, part)
    if is_factory:
        found = found()
    if protocol == "detect":
        protocol = "asgi" if touchstone_is_asgi(found) else "wsgi"
    if not callable(found):
        raise TypeError(f"{app} is a {type(found).__name__}, which cannot be called")
    return found, protocol


def touchstone_is_asgi(app):
    if inspect.iscoroutinefunction(app):
        return True
    call = getattr(app, "__call__", None)
    return inspect.iscoroutinefunction(call)


def touchstone_has_lock():
    """Whether one thread at a time runs Python. A free-threaded build has a lock if a module needs it."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def touchstone_describe(error):
    """An exception with its trace, as Python would print it."""
    try:
        return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()
    except BaseException as second:
        return f"{type(error).__name__}, and it cannot be described: {type(second).__name__}"


def touchstone_source_files():
    """The files of all modules except those of Python itself."""
    inside = (os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix))
    found = set()
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and not os.path.realpath(name).startswith(inside):
            found.add(name)
    return sorted(found)


class TouchstoneNoInput:
    """wsgi.input of requests without a body."""

    def read(self, size=-1):
        return b""

    def readline(self, size=-1):
        return b""

    def readlines(self, hint=-1):
        return []

    def __iter__(self):
        return iter(())

    def close(self):
        pass


class TouchstoneInput(io.RawIOBase):
    """Below wsgi.input of requests with a body: `read` returns at most this many bytes, as they arrive."""

    def __init__(self, read):
        self._read = read

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self._read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def touchstone_input(read):
    return io.BufferedReader(TouchstoneInput(read), 65536)


class TouchstoneFileWrapper:
    """wsgi.file_wrapper: a file of the disk is sent by the server itself."""

    def __init__(self, filelike, blksize=65536):
        self.filelike = filelike
        self.blksize = blksize
        if hasattr(filelike, "close"):
            self.close = filelike.close

    def __iter__(self):
        return self

    def __next__(self):
        data = self.filelike.read(self.blksize)
        if data:
            return data
        raise StopIteration

    def touchstone_range(self):
        """Descriptor, place and length of the rest of a file of the disk; None for anything else."""
        try:
            descriptor = self.filelike.fileno()
            facts = os.fstat(descriptor)
            place = self.filelike.tell()
            # Files that change what they read, such as compressed ones, have a descriptor too.
            is_plain = isinstance(self.filelike, (io.FileIO, io.BufferedReader, io.BufferedRandom)) or (
                isinstance(getattr(self.filelike, "file", None), (io.FileIO, io.BufferedRandom))
            )
        except Exception:
            return None
        if not is_plain or not stat.S_ISREG(facts.st_mode) or place > facts.st_size:
            return None
        return descriptor, place, facts.st_size - place


class TouchstoneAsgi:
    """The event loop, and the lifespan of an ASGI application."""

    versions = {"version": "3.0", "spec_version": "2.4"}
    extensions = {
        "http.response.trailers": {},
        "http.response.early_hint": {},
        "http.response.pathsend": {},
    }
    socket_extensions = {"websocket.http.response": {}}

    def __init__(self, app):
        import asyncio

        self.asyncio = asyncio
        self.app = app
        try:
            import uvloop

            self.loop = uvloop.new_event_loop()
        except ImportError:
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.create_future = self.loop.create_future
        self.call_soon = self.loop.call_soon
        self.done = self.loop.create_future()
        self.done.set_result(None)
        self.tasks = set()
        self.task_class = asyncio.Task
        self.coroutine_class = types.CoroutineType
        self.enter_task = asyncio.tasks._enter_task
        self.leave_task = asyncio.tasks._leave_task
        self.register_task = asyncio.tasks._register_task
        self.unregister_task = asyncio.tasks._unregister_task
        self.count_references = sys.getrefcount
        self.count_weak_references = weakref.getweakrefcount

    def make_serve(self, end):
        """The coroutine of a request with its own task. `end` gets the request, and the exception or None."""
        app = self.app

        async def serve(scope, receive, send, request):
            try:
                await app(scope, receive, send)
            except BaseException as error:
                end(request, error)
            else:
                end(request, None)

        return serve

    def make_go_on(self, end, take_handed):
        """The coroutine of a spare task, which continues a request that waits."""

        @types.coroutine
        def resume(coroutine, awaited):
            while True:
                try:
                    yield awaited
                except GeneratorExit:
                    coroutine.close()
                    raise
                except BaseException as error:
                    try:
                        awaited = coroutine.throw(error)
                    except StopIteration:
                        return
                else:
                    return (yield from coroutine)

        async def go_on():
            handed = take_handed()
            if handed is None:
                return
            request, coroutine, awaited = handed
            del handed
            try:
                await resume(coroutine, awaited)
            except BaseException as error:
                end(request, error)
            else:
                end(request, None)

        return go_on

    @staticmethod
    async def as_coroutine(awaitable):
        await awaitable

    def cancel(self, coroutine):
        """Ends a coroutine whose task was cancelled in its first step. Returns the exception."""
        try:
            coroutine.throw(self.asyncio.CancelledError())
            coroutine.close()
        except BaseException as error:
            return error
        return self.asyncio.CancelledError()

    @staticmethod
    def has_items(context, items):
        return len(context) == len(items) and all(context.get(key) is items[key] for key in items)

    def keep(self, task):
        """Keeps a task that waits: the loop itself holds no task."""
        if not task.done():
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def begin(self):
        """Runs the application's startup. Returns its state, or None where it has no lifespan."""
        self.state = {}
        self.events = self.asyncio.Queue()
        self.started = self.loop.create_future()
        self.stopped = self.loop.create_future()
        self.lifespan = self.loop.create_task(self.run_lifespan())
        failure = self.loop.run_until_complete(self.started)
        if failure is not None:
            raise RuntimeError(failure)
        return self.state if self.has_lifespan else None

    async def run_lifespan(self):
        self.has_lifespan = True
        scope = {"type": "lifespan", "asgi": dict(self.versions), "state": self.state}
        await self.events.put({"type": "lifespan.startup"})
        try:
            await self.app(scope, self.events.get, self.send_lifespan)
        except BaseException as error:
            if self.started.done():
                print("the lifespan of the application has failed", file=sys.stderr)
                traceback.print_exception(type(error), error, error.__traceback__)
            # An application without support for lifespan raises an exception.
            self.has_lifespan = self.started.done()
        for future in (self.started, self.stopped):
            if not future.done():
                future.set_result(None)

    async def send_lifespan(self, message):
        kind = message["type"]
        future = self.started if kind.startswith("lifespan.startup.") else self.stopped
        if not future.done():
            text = message.get("message") or "the application gives no reason"
            future.set_result(text if kind.endswith(".failed") else None)

    def run(self, descriptor, read_rings):
        loop = self.loop

        def wake():
            if read_rings():
                loop.stop()

        loop.add_reader(descriptor, wake)
        loop.run_forever()
        loop.remove_reader(descriptor)
        if self.has_lifespan and not self.lifespan.done():
            self.events.put_nowait({"type": "lifespan.shutdown"})
            loop.run_until_complete(self.asyncio.wait([self.stopped], timeout=3))
        others = self.asyncio.all_tasks(loop)
        for task in others:
            task.cancel()
        if others:
            loop.run_until_complete(self.asyncio.wait(others, timeout=1))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
