"""The gRPC server of scripts/compare-load-tools.py, with grpcio: the calls of calls.proto.

It prints its port. For each line of its input it prints what it has served: {"calls": .., "messages": ..}.
Messages are bytes, so that no compiler for their definitions is needed.
"""

import json
import sys
import threading
from concurrent import futures

import grpc

lock = threading.Lock()
served = {"calls": 0, "messages": 0}


def served_more(calls, messages):
    with lock:
        served["calls"] += calls
        served["messages"] += messages


def echo(request, context):
    served_more(1, 1)
    return request


def count(request, context):
    # Number { number = 1 } is the byte 8 and the number; larger ones than 127 are not asked for.
    number = request[1]
    for index in range(number):
        yield bytes([8, index])
    served_more(1, number)


def main():
    handlers = {
        "Echo": grpc.unary_unary_rpc_method_handler(echo),
        "Count": grpc.unary_stream_rpc_method_handler(count),
    }
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("load.Calls", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    for _ in sys.stdin:
        with lock:
            print(json.dumps(served), flush=True)


main()
