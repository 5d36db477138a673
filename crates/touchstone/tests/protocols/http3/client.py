"""An HTTP/3 client for the tests, on aioquic: reads commands as lines of JSON and answers each with one.

connect   name, port, [server_name, early (requests in early data), resume (true: by the last ticket, "first"), ticket (wait for one),
          protocols, certificate, key, token, takes_bytes (and no more)]
requests  name, requests (method, path if there is one, headers, ...), [move_at]: all at the same time; goes on from another local
          port whenever the first answer has so many bytes; with "later" it does not wait for answers
rebind    name: go on from another local port
raw       name, kind (bidirectional, unidirectional) or stream, hex, [end]: bytes on a stream, whatever they mean
settings  name: those of the server
pause     name, seconds: only answer packets
cancel    name, stream: give up a request
reset     name, requests: ask, and give up at once
answers   name, streams, [bytes (or so many of the body of each)]: what came on them
data      name, stream, text, [end]: more of a request's body
wait      name, [for: closed (default), goaway]
close     name
garbage   port, seed, count: datagrams that are no packets

Every answer has "error" where the client itself failed. All waits end after WAIT_S.
"""

import base64
import hashlib
import json
import random
import select
import socket
import ssl
import sys
import time

from aioquic.buffer import Buffer, BufferReadError
from aioquic.h3.connection import H3_ALPN, FrameType, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

# Far longer than anything takes on a busy machine: each packet costs this client a millisecond of computing.
WAIT_S = 180
SMALL_BYTES = 4096


class Timeout(Exception):
    pass


class WatchedH3(H3Connection):
    """Takes note of GOAWAY, and knows that the answer to HEAD has no body; aioquic does neither."""

    def __init__(self, quic):
        super().__init__(quic)
        self.goaway = None
        self.heads = set()
        self.control = {}

    def handle_event(self, event):
        if isinstance(event, events.StreamDataReceived):
            if event.stream_id % 4 == 3:
                self.control[event.stream_id] = self.control.get(event.stream_id, b"") + event.data
        h3_events = super().handle_event(event)
        if self._peer_control_stream_id is not None:
            self.look_for_goaway(self.control.get(self._peer_control_stream_id, b""))
        return h3_events

    def look_for_goaway(self, data):
        buffer = Buffer(data=data)
        try:
            buffer.pull_uint_var()
            while True:
                frame_type, size = buffer.pull_uint_var(), buffer.pull_uint_var()
                payload = buffer.pull_bytes(size)
                if frame_type == FrameType.GOAWAY:
                    self.goaway = Buffer(data=payload).pull_uint_var()
        except BufferReadError:
            pass

    def _check_content_length(self, stream):
        if stream.stream_id not in self.heads:
            super()._check_content_length(stream)


class Answer:
    def __init__(self):
        self.headers = []
        self.interim = []
        self.body = bytearray()
        self.trailers = None
        self.ended = False
        self.reset = None
        # How many bytes of all answers of the connection had arrived at its end.
        self.ended_at = None

    def fields(self):
        names = {}
        for name, value in self.headers:
            name, value = name.decode(), value.decode("latin-1")
            # There may be several cookies.
            is_more = name == "set-cookie" and name in names
            names[name] = names[name] + "\n" + value if is_more else value
        result = {
            "status": int(names.get(":status", 0)),
            "headers": names,
            "interim": self.interim,
            "trailers": self.trailers,
            "bytes": len(self.body),
            "sha256": hashlib.sha256(self.body).hexdigest(),
            "reset": self.reset,
            "ended": self.ended,
            "ended_at": self.ended_at,
        }
        if len(self.body) <= SMALL_BYTES:
            result["body"] = base64.b64encode(self.body).decode()
        return result


class Client:
    tickets = []
    tokens = []

    def __init__(self, command):
        configuration = QuicConfiguration(
            is_client=True,
            alpn_protocols=command.get("protocols", H3_ALPN),
            verify_mode=ssl.CERT_NONE,
            server_name=command.get("server_name"),
            max_data=command.get("takes_bytes", 32 << 20),
            max_stream_data=command.get("takes_bytes", 32 << 20),
        )
        if command.get("certificate"):
            configuration.load_cert_chain(command["certificate"], command["key"])
        if command.get("resume"):
            configuration.session_ticket = Client.tickets[0 if command["resume"] == "first" else -1]
        if command.get("token") and Client.tokens:
            configuration.token = Client.tokens.pop()
        self.quic = QuicConnection(
            configuration=configuration,
            session_ticket_handler=Client.tickets.append,
            token_handler=Client.tokens.append,
        )
        if command.get("takes_bytes"):
            # It grants the server no credit for more.
            self.quic._write_connection_limits = self.quic._write_stream_limits = lambda *_, **__: None
        self.server = ("127.0.0.1", command["port"])
        self.h3 = None
        self.closed = None
        self.handshake = None
        self.answers = {}
        self.open_socket()
        self.quic.connect(self.server, now=time.time())
        # From the start: the server's first streams may arrive before the end of the handshake.
        if command.get("protocols", H3_ALPN) == H3_ALPN:
            self.h3 = WatchedH3(self.quic)

    def open_socket(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)

    def ask(self, request):
        stream = self.quic.get_next_available_stream_id()
        self.answers[stream] = Answer()
        headers = [
            (b":method", request.get("method", "GET").encode()),
            (b":authority", request.get("authority", "localhost").encode()),
        ]
        if "path" in request:
            headers += [(b":scheme", b"https"), (b":path", request["path"].encode())]
        headers += [(name.encode(), value.encode("latin-1")) for name, value in request.get("headers", [])]
        body = request.get("body", "").encode() + bytes(request.get("body_bytes", 0))
        trailers = request.get("trailers")
        if request.get("method") == "HEAD":
            self.h3.heads.add(stream)
        has_body = bool(body) or request.get("unended", False)
        self.h3.send_headers(stream, headers, end_stream=not has_body and not trailers)
        if body:
            self.h3.send_data(stream, body, end_stream=not trailers and not request.get("unended", False))
        if trailers:
            fields = [(name.encode(), value.encode()) for name, value in trailers]
            self.h3.send_headers(stream, fields, end_stream=True)
        return stream

    def flush(self):
        for datagram, _ in self.quic.datagrams_to_send(now=time.time()):
            try:
                self.socket.sendto(datagram, self.server)
            except BlockingIOError:
                select.select([], [self.socket], [], 1)
                self.socket.sendto(datagram, self.server)

    def run(self, done, wait_s=WAIT_S):
        """Drives the connection until `done()`."""
        end = time.time() + wait_s
        while True:
            self.flush()
            if done():
                return
            now = time.time()
            if now > end:
                raise Timeout(f"waited {wait_s} s without a result")
            if self.closed is not None:
                return
            timer = self.quic.get_timer() or end
            readable, _, _ = select.select([self.socket], [], [], max(0, min(timer, end) - now))
            if readable:
                for _ in range(64):
                    try:
                        datagram = self.socket.recv(65536)
                    except (BlockingIOError, ConnectionRefusedError):
                        break
                    self.quic.receive_datagram(datagram, self.server, now=time.time())
            timer = self.quic.get_timer()
            if timer is not None and time.time() >= timer:
                self.quic.handle_timer(now=time.time())
            self.take_events()

    def take_events(self):
        while (event := self.quic.next_event()) is not None:
            if isinstance(event, events.HandshakeCompleted):
                self.handshake = event
            elif isinstance(event, events.ConnectionTerminated):
                self.closed = event
            elif isinstance(event, events.StreamReset) and event.stream_id in self.answers:
                self.answers[event.stream_id].reset = event.error_code
                self.answers[event.stream_id].ended = True
            if self.h3 is None:
                continue
            for h3_event in self.h3.handle_event(event):
                self.take_h3_event(h3_event)

    def take_h3_event(self, event):
        answer = self.answers.get(getattr(event, "stream_id", None))
        if answer is None:
            return
        if isinstance(event, HeadersReceived):
            status = dict(event.headers).get(b":status")
            if status is None:
                answer.trailers = {name.decode(): value.decode("latin-1") for name, value in event.headers}
            elif status.startswith(b"1"):
                answer.interim.append(int(status))
            else:
                answer.headers = event.headers
        elif isinstance(event, DataReceived):
            answer.body += event.data
        if getattr(event, "stream_ended", False):
            answer.ended = True
            answer.ended_at = sum(len(other.body) for other in self.answers.values())

    def closing(self):
        if self.closed is None:
            return None
        return {"code": self.closed.error_code, "reason": self.closed.reason_phrase}


def connect(clients, command):
    client = clients[command["name"]] = Client(command)
    streams = [client.ask(request) for request in command.get("early", [])]
    client.run(lambda: client.handshake is not None and all(client.answers[s].ended for s in streams))
    result = {"closed": client.closing(), "answers": [client.answers[s].fields() for s in streams]}
    if client.handshake is not None:
        result["early_data_accepted"] = client.handshake.early_data_accepted
        result["resumed"] = client.handshake.session_resumed
        certificate = client.quic.tls._peer_certificate
        result["retried"] = client.quic._retry_source_connection_id is not None
        result["certificate"] = certificate.subject.rfc4514_string() if certificate else None
    if command.get("ticket"):
        client.run(lambda: Client.tickets)
    return result


def requests(clients, command):
    client = clients[command["name"]]
    streams = [client.ask(request) for request in command["requests"]]
    if command.get("later"):
        client.flush()
        return {"streams": streams}
    for move_at in command.get("move_at", []):
        client.run(lambda: len(client.answers[streams[0]].body) >= move_at)
        rebind(clients, command)
    client.run(lambda: all(client.answers[stream].ended for stream in streams))
    return {"closed": client.closing(), "answers": [client.answers[stream].fields() for stream in streams]}


def rebind(clients, command):
    client = clients[command["name"]]
    client.socket.close()
    client.open_socket()
    if command.get("new_id"):
        client.quic.change_connection_id()
    # The server learns the new address of the client only when the client sends something.
    client.quic.send_ping(client.socket.getsockname()[1])
    return {"port": client.socket.getsockname()[1]}


def raw(clients, command):
    client = clients[command["name"]]
    is_unidirectional = command.get("kind") == "unidirectional"
    stream = command.get("stream")
    if stream is None:
        stream = client.quic.get_next_available_stream_id(is_unidirectional=is_unidirectional)
    if not is_unidirectional:
        client.answers.setdefault(stream, Answer())
    client.quic.send_stream_data(stream, bytes.fromhex(command["hex"]), command.get("end", False))
    client.flush()
    return {"stream": stream}


def answers(clients, command):
    client = clients[command["name"]]
    bytes_wanted = command.get("bytes", sys.maxsize)
    found = [client.answers[stream] for stream in command["streams"]]
    client.run(lambda: all(answer.ended or len(answer.body) >= bytes_wanted for answer in found))
    found = [client.answers[stream].fields() for stream in command["streams"]]
    return {"closed": client.closing(), "answers": found}


def data(clients, command):
    client = clients[command["name"]]
    client.h3.send_data(command["stream"], command["text"].encode(), command.get("end", False))
    client.flush()
    return {}


def pause(clients, command):
    """Only answers packets for so many seconds."""
    client = clients[command["name"]]
    end = time.time() + command["seconds"]
    while time.time() < end:
        try:
            client.run(lambda: time.time() >= end, wait_s=command["seconds"])
        except Timeout:
            break
    return {"closed": client.closing()}


def settings(clients, command):
    """The server's settings, by their numbers."""
    return {str(number): value for number, value in clients[command["name"]].h3.received_settings.items()}


def cancel(clients, command):
    client = clients[command["name"]]
    client.quic.reset_stream(command["stream"], 0x10C)
    client.quic.stop_stream(command["stream"], 0x10C)
    client.flush()
    return {}


def reset(clients, command):
    client = clients[command["name"]]
    for request in command["requests"]:
        stream = client.ask(request)
        client.quic.reset_stream(stream, 0x10C)
        client.quic.stop_stream(stream, 0x10C)
        client.run(lambda: True)
        client.take_events()
    return {}


def wait(clients, command):
    client = clients[command["name"]]
    if command.get("for") == "goaway":
        client.run(lambda: client.h3.goaway is not None)
        if client.h3.goaway is None:
            raise Timeout("the connection was closed without GOAWAY")
        return {"goaway": client.h3.goaway}
    client.run(lambda: client.closed is not None)
    return {"closed": client.closing(), "goaway": client.h3.goaway if client.h3 else None}


def close(clients, command):
    client = clients.pop(command["name"])
    client.quic.close(error_code=0x100)
    client.flush()
    client.socket.close()
    return {}


def garbage(_clients, command):
    chance = random.Random(command["seed"])
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    whole = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN))
    whole.connect(("127.0.0.1", command["port"]), now=time.time())
    initial = whole.datagrams_to_send(now=time.time())[0][0]
    for _ in range(command["count"]):
        kind = chance.randrange(4)
        if kind == 0:
            datagram = chance.randbytes(chance.randrange(0, 1500))
        elif kind == 1:
            datagram = initial[: chance.randrange(len(initial))]
        elif kind == 2:
            changed = bytearray(initial)
            for _ in range(chance.randrange(1, 8)):
                changed[chance.randrange(min(len(changed), 60))] = chance.randrange(256)
            datagram = bytes(changed)
        else:
            # A long header of any version and type, padded as an Initial packet is.
            datagram = bytes([0xC0 | chance.randrange(64)]) + chance.randbytes(chance.randrange(30)) + bytes(1200)
        sender.sendto(datagram, ("127.0.0.1", command["port"]))
    return {}


def main():
    clients = {}
    commands = [connect, requests, rebind, raw, answers, data, pause, settings, cancel, reset, wait, close, garbage]
    table = {command.__name__: command for command in commands}
    for line in sys.stdin:
        command = json.loads(line)
        try:
            result = table[command["do"]](clients, command)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
