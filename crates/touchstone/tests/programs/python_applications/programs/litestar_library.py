"""A library in Litestar: handlers with models, its own OpenAPI document, state of the application, streams,
server-sent events, files, and a WebSocket."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
from collections.abc import AsyncGenerator
from typing import Annotated

from litestar import Litestar, MediaType, Request, get, post, websocket_listener
from litestar.datastructures import State, UploadFile
from litestar.enums import RequestEncodingType
from litestar.exceptions import NotFoundException
from litestar.params import Body
from litestar.response import File, Redirect, ServerSentEvent, Stream


@dataclasses.dataclass
class Book:
    title: str
    pages: int


@get("/")
async def front(state: State) -> dict[str, int]:
    return {"books": len(state.books)}


@get("/books/{number:int}")
async def read(state: State, number: int) -> Book:
    if number not in state.books:
        raise NotFoundException(f"there is no book {number}")
    return state.books[number]


@post("/books")
async def write(state: State, data: Book) -> Book:
    state.books[len(state.books) + 1] = data
    return data


@get("/slow", sync_to_thread=True)
def slow(request: Request) -> str:
    """In a thread, as it is not a coroutine."""
    return f"{request.method} of {request.url.path}"


@post("/upload")
async def upload(
    data: Annotated[UploadFile, Body(media_type=RequestEncodingType.MULTI_PART)],
) -> dict[str, int]:
    return {"bytes": len(await data.read())}


@get("/stream")
async def stream() -> Stream:
    async def lines() -> AsyncGenerator[bytes, None]:
        for number in range(1000):
            yield b"line %d\n" % number

    return Stream(lines(), media_type=MediaType.TEXT)


@get("/events", sync_to_thread=False)
def events() -> ServerSentEvent:
    async def feed() -> AsyncGenerator[str, None]:
        for number in range(3):
            yield f"book {number}"
            await asyncio.sleep(0.01)

    return ServerSentEvent(feed())


@get("/source", sync_to_thread=False)
def source() -> File:
    return File(path=pathlib.Path(__file__), filename="litestar_library.py")


@get("/moved", sync_to_thread=False)
def moved() -> Redirect:
    return Redirect("/")


@get("/fails")
async def fails() -> None:
    raise RuntimeError("secret of the application")


@websocket_listener("/desk")
async def desk(data: str) -> str:
    return f"the desk has {data}"


async def fill(app: Litestar) -> None:
    app.state.books = {1: Book("one", 1)}


app = Litestar(
    [front, read, write, slow, upload, stream, events, source, moved, fails, desk], on_startup=[fill]
)
