"""Takes metrics by OTLP over HTTP (JSON) with the definitions that OpenTelemetry publishes: what does not fit
them is refused. Prints its port, and at the end of its input what it has received."""

import http.server
import json
import sys
import threading

from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service

seen = {"requests": 0, "refused": [], "metrics": {}}


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            assert self.headers["Content-Type"] == "application/json", self.headers["Content-Type"]
            request = json_format.Parse(body, service.ExportMetricsServiceRequest())
        except (AssertionError, json_format.ParseError) as error:
            seen["refused"].append(str(error))
            self.answer(400, b"{}")
            return
        seen["requests"] += 1
        for resource in request.resource_metrics:
            attributes = {pair.key: pair.value.string_value for pair in resource.resource.attributes}
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                self.keep(metric, attributes)
        self.answer(200, json_format.MessageToJson(service.ExportMetricsServiceResponse()).encode())

    def keep(self, metric, attributes):
        kind = metric.WhichOneof("data")
        data = getattr(metric, kind)
        points = {
            "".join(pair.value.string_value for pair in point.attributes): point.as_double
            for point in data.data_points
        }
        first = data.data_points[0]
        seen["metrics"][metric.name] = {
            "kind": kind,
            "unit": metric.unit,
            "points": points,
            "attributes": attributes,
            "times_are_in_order": 0 < first.start_time_unix_nano <= first.time_unix_nano,
            "is_cumulative": kind == "sum" and data.is_monotonic and data.aggregation_temporality == 2,
        }

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
print(json.dumps(seen))
