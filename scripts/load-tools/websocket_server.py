"""The WebSocket server of scripts/compare-load-tools.py, with the package websockets: it answers each message
with the same message.

It prints its port. For each line of its input it prints what it has served: {"calls": .., "messages": ..}.
"""

import asyncio
import json
import sys

from websockets.asyncio.server import serve

served = {"calls": 0, "messages": 0}


async def echo(socket):
    served["calls"] += 1
    async for message in socket:
        served["messages"] += 1
        await socket.send(message)


def report():
    if not sys.stdin.readline():
        asyncio.get_running_loop().remove_reader(sys.stdin)
        return
    print(json.dumps(served), flush=True)


async def main():
    # The queue is longer than usual for the clients that connect while the server is stopped.
    async with serve(echo, "127.0.0.1", 0, compression=None, backlog=1024) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        asyncio.get_running_loop().add_reader(sys.stdin, report)
        await asyncio.get_running_loop().create_future()


asyncio.run(main())
