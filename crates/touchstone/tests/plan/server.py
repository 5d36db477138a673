"""A server of a suite's files with one thing wrong with it: server.py FAULT PORT TREE

lock   every request holds one lock for 4 ms
queue  a listening queue of one connection, and 20 ms for each connection that is accepted
none   nothing
"""

import socket
import sys
import threading
import time

fault, port, tree = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lock = threading.Lock()
files = {}


def content(path):
    if path not in files:
        with open(tree + path, "rb") as file:
            files[path] = file.read()
    return files[path]


def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    received = b""
    try:
        while True:
            while b"\r\n\r\n" not in received:
                more = connection.recv(65536)
                if not more:
                    return
                received += more
            head, received = received.split(b"\r\n\r\n", 1)
            if fault == "lock":
                with lock:
                    time.sleep(0.004)
            body = content(head.split(b" ")[1].decode())
            ends = b"connection: close" in head.lower()
            fields = b"Connection: close\r\n" if ends else b""
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), fields, body))
            if ends:
                return
    except OSError:
        # The client is gone, as clients go at the end of a run.
        pass
    finally:
        connection.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(1 if fault == "queue" else 128)
print("ready", flush=True)
while True:
    accepted, _ = listener.accept()
    if fault == "queue":
        time.sleep(0.02)
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
