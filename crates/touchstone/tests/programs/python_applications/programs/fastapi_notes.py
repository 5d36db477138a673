"""Notes in FastAPI: models and their errors, a page of documentation, dependencies, an upload, a background
task and a WebSocket."""

from typing import Annotated

from fastapi import BackgroundTasks, Depends, FastAPI, Header, HTTPException, UploadFile
from fastapi import WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

app = FastAPI(title="notes")
DONE = []


class Note(BaseModel):
    title: str = Field(max_length=20)
    tags: list[str] = []


def reader(x_reader: Annotated[str | None, Header()] = None):
    if x_reader is None:
        raise HTTPException(401, "who reads?", {"WWW-Authenticate": "Reader"})
    return x_reader


@app.get("/notes/{number}")
async def read(number: int, who: Annotated[str, Depends(reader)], q: str | None = None):
    return {"number": number, "who": who, "q": q}


@app.post("/notes", status_code=201)
async def write(note: Note, tasks: BackgroundTasks):
    tasks.add_task(DONE.append, note.title)
    return note


@app.get("/done")
def done():
    """In a thread, as it is not a coroutine."""
    return DONE


@app.post("/upload")
async def upload(file: UploadFile):
    return {"name": file.filename, "bytes": len(await file.read())}


@app.get("/stream")
async def stream():
    async def lines():
        for number in range(1000):
            yield f"line {number}\n"

    return StreamingResponse(lines(), media_type="text/plain")


@app.get("/fails")
async def fails():
    raise RuntimeError("secret of the application")


@app.websocket("/room/{name}")
async def room(socket: WebSocket, name: str):
    await socket.accept()
    try:
        while True:
            await socket.send_text(f"{name}: {await socket.receive_text()}")
    except WebSocketDisconnect:
        DONE.append(f"{name} was left")
