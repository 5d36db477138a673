//! Objects of Python that every request needs, made once.

use crate::worker::names::interned_names;

interned_names! {
    kind = c"type";
    http = c"http";
    websocket = c"websocket";
    asgi = c"asgi";
    http_version = c"http_version";
    method = c"method";
    scheme = c"scheme";
    path = c"path";
    raw_path = c"raw_path";
    query_string = c"query_string";
    root_path = c"root_path";
    headers = c"headers";
    client = c"client";
    server = c"server";
    state = c"state";
    extensions = c"extensions";
    subprotocols = c"subprotocols";
    request_id = c"touchstone.request_id";
    status = c"status";
    body = c"body";
    more_body = c"more_body";
    trailers = c"trailers";
    more_trailers = c"more_trailers";
    links = c"links";
    text = c"text";
    bytes = c"bytes";
    code = c"code";
    reason = c"reason";
    subprotocol = c"subprotocol";
    request = c"http.request";
    disconnect = c"http.disconnect";
    ws_connect = c"websocket.connect";
    ws_receive = c"websocket.receive";
    ws_disconnect = c"websocket.disconnect";
    done = c"done";
    set_result = c"set_result";
}
