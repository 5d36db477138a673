"""News in Starlette: a lifespan with state, mounts, sessions of its own files, events that are sent as they
happen, and streaming."""

import asyncio
import contextlib
import pathlib

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.responses import RedirectResponse, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles


@contextlib.asynccontextmanager
async def lifespan(app):
    yield {"paper": "the daily"}


async def front(request):
    return JSONResponse({"paper": request.state.paper, "url": str(request.url), "host": request.client.host})


async def echo(request):
    body = await request.body()
    return PlainTextResponse(body, headers={"x-bytes": str(len(body))})


async def slowly(request):
    total = 0
    async for piece in request.stream():
        total += len(piece)
        await asyncio.sleep(0)
    return JSONResponse({"bytes": total})


async def events(request):
    async def feed():
        for number in range(5):
            yield f"id: {number}\ndata: news {number}\n\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(feed(), media_type="text/event-stream")


async def source(request):
    return FileResponse(__file__, filename="news.py", media_type="text/x-python")


async def moved(request):
    return RedirectResponse(request.url_for("front"), 308)


app = Starlette(
    routes=[
        Route("/", front, name="front"),
        Route("/echo", echo, methods=["POST", "PUT"]),
        Route("/slowly", slowly, methods=["POST"]),
        Route("/events", events),
        Route("/source", source),
        Route("/moved", moved),
        Mount("/section", routes=[Route("/{name:path}", front)]),
        Mount("/files", StaticFiles(directory=pathlib.Path(__file__).parent)),
    ],
    middleware=[Middleware(GZipMiddleware, minimum_size=100000)],
    lifespan=lifespan,
)
