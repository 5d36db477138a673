"""gRPC as others have it: a server and a client of every kind of call.

    grpc_calls.py serve             prints the port, and serves until it is killed
    grpc_calls.py call HOST:PORT    makes each kind of call, and prints what came of it, one line of JSON each

Messages are bytes, so that no compiler for their definitions is needed.
"""

import json
import sys
import threading
import time
from concurrent import futures

import grpc

SERVICE = "trial.Trial"
LONG = bytes(range(256)) * 4096 * 2

# Longer than the server under test lets a body pause.
PAUSE = 2.5


def echo(request, context):
    sent = dict(context.invocation_metadata())
    context.send_initial_metadata((("x-initial", sent.get("x-asked", "nothing")),))
    context.set_trailing_metadata((("x-trailing", "behind"), ("x-bytes-bin", b"\x00\xff")))
    return request


def count(request, context):
    for number in range(int(request)):
        yield str(number).encode()


def total(requests, context):
    return str(sum(int(request) for request in requests)).encode()


def size(requests, context):
    return str(sum(len(request) for request in requests)).encode()


def chat(requests, context):
    for request in requests:
        yield b"heard " + request


def fail(request, context):
    context.set_trailing_metadata((("x-why", "none"),))
    context.abort(grpc.StatusCode.NOT_FOUND, "there is none: \u00e4\n")


def sleep(request, context):
    ended = threading.Event()
    context.add_callback(ended.set)
    ended.wait(30)
    return b"late"


def serve():
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    handlers = {
        "Echo": unary(echo),
        "Count": stream(count),
        "Total": grpc.stream_unary_rpc_method_handler(total),
        "Size": grpc.stream_unary_rpc_method_handler(size),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
        "Fail": unary(fail),
        "Sleep": unary(sleep),
    }
    options = [("grpc.max_receive_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), options=options)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


def say(what, value):
    print(json.dumps({"call": what, "result": value}), flush=True)


def chat_in_turns(channel, pause=0):
    """Each question is asked when the one before has been answered, and a pause has been made: both directions are open at
    once, and neither says anything in between."""
    heard = threading.Semaphore(0)

    def questions():
        time.sleep(pause)
        for question in (b"one", b"two", b"three"):
            yield question
            heard.acquire(timeout=20)
            time.sleep(pause)

    answers = []
    for answer in channel.stream_stream(f"/{SERVICE}/Chat")(questions(), timeout=30):
        answers.append(answer.decode())
        heard.release()
    return answers


def call(address):
    options = [("grpc.max_receive_message_length", -1), ("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(address, options=options) as channel:
        method = lambda name: channel.unary_unary(f"/{SERVICE}/{name}")
        answer, state = method("Echo").with_call(b"hello", metadata=(("x-asked", "this"),), timeout=30)
        metadata = [[key, value if isinstance(value, str) else value.hex()] for key, value in state.trailing_metadata()]
        initial = dict(state.initial_metadata()).get("x-initial")
        say("echo", [answer.decode(), initial, sorted(metadata), state.code().name])
        say("empty", method("Echo")(b"", timeout=30).decode())
        say("long", method("Echo")(LONG, timeout=60) == LONG)
        numbers = channel.unary_stream(f"/{SERVICE}/Count")(b"1000", timeout=60)
        say("count", sum(int(number) for number in numbers))
        total = channel.stream_unary(f"/{SERVICE}/Total")
        say("total", total(iter(str(number).encode() for number in range(1000)), timeout=60).decode())
        say("chat", chat_in_turns(channel))
        say("chat with pauses", chat_in_turns(channel, PAUSE))
        # Ten times what a body may usually be long.
        size = channel.stream_unary(f"/{SERVICE}/Size")
        say("stream", size((LONG[: 1 << 17] for _ in range(80)), timeout=120).decode())
        try:
            method("Fail")(b"", timeout=30)
        except grpc.RpcError as error:
            why = dict(error.trailing_metadata()).get("x-why")
            say("fail", [error.code().name, error.details(), why])
        try:
            method("Sleep")(b"", timeout=1)
        except grpc.RpcError as error:
            say("sleep", error.code().name)
        try:
            method("Unknown")(b"", timeout=30)
        except grpc.RpcError as error:
            say("unknown", error.code().name)
        many = [method("Echo").future(str(index).encode(), timeout=60) for index in range(200)]
        say("many", all(future.result() == str(index).encode() for index, future in enumerate(many)))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        call(sys.argv[2])
