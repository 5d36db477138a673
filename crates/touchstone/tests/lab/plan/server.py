"""A server of a suite's files with one thing wrong with it: server.py FAULT PORT TREE

lock   every request holds one lock for 4 ms
queue  a listening queue of one connection, and 20 ms for each connection that is accepted
core   one thread does all the work, and a request costs it 2 ms of processor time
disk   every request reads its file from the disk, past the kernel's cache
none   nothing
"""

import mmap
import os
import selectors
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


def content_of_disk(path):
    """A file's bytes by direct input: its buffer and its lengths are whole blocks."""
    descriptor = os.open(tree + path, os.O_RDONLY | os.O_DIRECT)
    try:
        blocks = -(-os.fstat(descriptor).st_size // 4096) or 1
        with mmap.mmap(-1, blocks * 4096) as buffer:
            length = os.preadv(descriptor, [buffer], 0)
            return buffer[:length]
    finally:
        os.close(descriptor)


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def serve_with_one_thread(listener):
    ready = selectors.DefaultSelector()
    ready.register(listener, selectors.EVENT_READ)
    received = {}
    while True:
        for key, _ in ready.select():
            connection = key.fileobj
            if connection is listener:
                accepted, _ = listener.accept()
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                ready.register(accepted, selectors.EVENT_READ)
                received[accepted] = b""
                continue
            try:
                more = connection.recv(65536)
                received[connection] += more
                while b"\r\n\r\n" in received[connection]:
                    head, received[connection] = received[connection].split(b"\r\n\r\n", 1)
                    burn(0.002)
                    body = content(head.split(b" ")[1].decode())
                    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
                    connection.sendall(answer)
            except OSError:
                more = b""
            if not more:
                ready.unregister(connection)
                del received[connection]
                connection.close()


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
            read = content_of_disk if fault == "disk" else content
            body = read(head.split(b" ")[1].decode())
            ends = b"connection: close" in head.lower()
            fields = b"Connection: close\r\n" if ends else b""
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), fields, body))
            if ends:
                return
    except OSError:
        # The client has disconnected, as at the end of a run.
        pass
    finally:
        connection.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", port))
listener.listen(1 if fault == "queue" else 128)
print("ready", flush=True)
if fault == "core":
    serve_with_one_thread(listener)
while True:
    accepted, _ = listener.accept()
    if fault == "queue":
        time.sleep(0.02)
    threading.Thread(target=serve, args=(accepted,), daemon=True).start()
