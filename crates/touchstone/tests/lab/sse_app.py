"""Server-sent events as a plain ASGI application, for another's server to serve. GET /events sends five
events, GET /log what was sent so far, by the application's own count and clock."""

import asyncio
import json
import time

FIRST_S, GAP_S, EVENTS = 0.03, 0.02, 5
log = {"answers": 0, "events": 0, "first_us": [], "gaps_us": []}


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    is_log = scope["path"] == "/log"
    kind = b"application/json" if is_log else b"text/event-stream"
    began = time.monotonic()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if is_log:
        await send({"type": "http.response.body", "body": json.dumps(log).encode()})
        return
    last = began
    for number in range(EVENTS):
        await asyncio.sleep(GAP_S if number else FIRST_S)
        now = time.monotonic()
        log["gaps_us" if number else "first_us"].append((now - last) * 1e6)
        last = now
        log["events"] += 1
        event = f": a comment\nid: {number}\ndata: token\ndata: {number}\n\n".encode()
        await send({"type": "http.response.body", "body": event, "more_body": True})
    log["answers"] += 1
    await send({"type": "http.response.body", "body": b""})
