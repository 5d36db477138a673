"""A server of WebSockets by the package websockets, for tests of the load engine.

    websocket_server.py [CERTIFICATE KEY]

Prints its port. When its input ends it prints what it saw, by its own count, as JSON.
"""

import asyncio
import json
import ssl
import sys
import time

from websockets.asyncio.server import serve

seen = {"opened": 0, "received": 0, "sent": 0, "sizes": 0, "codes": {}, "delays_us": []}
DELAY_S = 0.02


async def send(socket, message):
    await socket.send(message)
    seen["sent"] += 1


async def handle(socket):
    seen["opened"] += 1
    path = socket.request.path
    if path == "/greet":
        for number in range(5):
            await asyncio.sleep(DELAY_S)
            await send(socket, f"greeting {number}")
        await socket.close()
    elif path == "/refuse":
        await socket.close(1013, "no room")
    else:
        async for message in socket:
            came = time.monotonic()
            seen["received"] += 1
            seen["sizes"] += len(message)
            await asyncio.sleep(DELAY_S)
            # Messages in pieces are sent as fragments.
            middle = len(message) // 2
            pieces = [message[:middle], message[middle:]]
            seen["delays_us"].append((time.monotonic() - came) * 1e6)
            await send(socket, iter(pieces) if path == "/fragments" else message)
    await socket.wait_closed()
    code = str(socket.close_code)
    seen["codes"][code] = seen["codes"].get(code, 0) + 1


async def main():
    secure = None
    if len(sys.argv) > 1:
        secure = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        secure.load_cert_chain(sys.argv[1], sys.argv[2])
    async with serve(handle, "127.0.0.1", 0, ssl=secure, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        await asyncio.sleep(0.2)
        print(json.dumps(seen), flush=True)


asyncio.run(main())
