//! The cases of ASGI 3: its specification of HTTP and WebSocket, version 2.5, and what applications rely on
//! in servers for it.

use super::exchange::{Case, case, get, get_with, post, post_chunks};

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = told();
    cases.extend(request_bodies());
    cases.extend(heads());
    cases.extend(wrong());
    cases.extend(bodies());
    cases.extend(sockets());
    cases
}

/// The scope of HTTP.
fn told() -> Vec<Case> {
    vec![
        case("the request line", get("/scope/b?x=%41&y=1+2")).has(&[
            "type='http'\n",
            "http_version='1.1'\n",
            "method='GET'\n",
            "scheme='http'\n",
            "path='/scope/b'\n",
            "raw_path=b'/scope/b'\n",
            "query_string=b'x=%41&y=1+2'\n",
            "root_path=''\n",
            "asgi.version='3.0'\n",
        ]),
        case("the path is decoded, the raw path is not", get("/scope/a%20b/%C3%A9"))
            .has(&["path='/scope/a b/\u{e9}'\n", "raw_path=b'/scope/a%20b/%C3%A9'\n"]),
        case("no query", get("/scope")).has(&["query_string=b''\n"]),
        case("both ends", get("/scope")).has(&["server is a pair=True\n", "client is a pair=True\n"]),
        case("HTTP/1.0", "GET /scope HTTP/1.0\r\n\r\n").has(&["http_version='1.0'\n"]),
        case("an unknown method", "PURGE /scope HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .has(&["method='PURGE'\n"]),
        case("names in small letters", get_with("/scope", "X-sOmE: Value\r\n"))
            .has(&["header b'x-some': b'Value'\n"]),
        case("lines of one name stay apart", get_with("/scope", "X-List: a\r\nX-Other: 1\r\nX-List: b\r\n"))
            .has(&["header b'x-list': b'a'\nheader b'x-other': b'1'\nheader b'x-list': b'b'\n"]),
        case(
            "bytes of a value",
            b"GET /scope HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-F: caf\xE9\r\n\r\n",
        )
        .has(&["header b'x-f': b'caf\\xe9'\n"]),
        case("the state of the lifespan", get("/scope")).has(&["('started', 'yes')"]),
        case("is a copy", get("/own-state")).has(&["seen=False\n", "shared=True\n"]),
        case("of each request", get("/own-state")).has(&["seen=False\n", "shared=True\n"]),
    ]
}

fn request_bodies() -> Vec<Case> {
    vec![
        case("a body with its length", post("/length", "hello"))
            .has(&["bytes=5\n", "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n"]),
        case("no body", get("/length")).has(&["bytes=0\n"]),
        case("a body in chunks", post_chunks("/length", &["he", "l", "lo"])).has(&["bytes=5\n"]),
        case("a body that is not read", post("/nothing-read", "unread")).has(&["not read\n"]),
        case(
            "a second request behind a body that is not read",
            "POST /nothing-read HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nunread\
             GET /no-content HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .status(204),
        case(
            "requests one behind the other",
            "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n\
             GET /no-content HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .status(204)
        .has(&["plainHTTP/1.1 204"]),
        case(
            "100 before a body that is read",
            "POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n\
             Content-Length: 5\r\n\r\nhello",
        )
        .has(&["bytes=5\n"]),
        case("what is received after the answer", get("/after-the-answer?one")).has(&["answered\n"]),
        case("is that it is over", get("/noted?one")).has(&["noted=http.disconnect\n"]).in_the_end(),
    ]
}

fn heads() -> Vec<Case> {
    vec![
        case("fields in their order", get("/fields")).has(&[
            "x-order: first\r\n",
            "x-order: second\r\n",
            "set-cookie: a=1\r\n",
            "set-cookie: b=2\r\n",
            "x-latin: caf\u{e9}\r\n",
        ]),
        case("no fields", get("/no-headers")).has(&["bare"]),
        case("HEAD", "HEAD /plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .has(&["content-length: 5\r\n"]),
        case(
            "HEAD of a length that is not known",
            "HEAD /unknown-length HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        ),
        case("204", get("/no-content")).status(204).lacks(&["transfer-encoding"]),
        case("304", get("/not-modified"))
            .status(304)
            .has(&["etag: \"one\"\r\n"])
            .lacks(&["transfer-encoding"]),
        case("no length", get("/unknown-length")).has(&["one ", "two ", "three"]),
        case("no chunks for HTTP/1.0", "GET /unknown-length HTTP/1.0\r\n\r\n")
            .has(&["one two three"])
            .lacks(&["transfer-encoding"])
            .not_on("uvicorn"),
        case("a coroutine that waits", get("/slept")).has(&["awake\n"]),
    ]
}

/// Applications that raise or break the rules.
fn wrong() -> Vec<Case> {
    let rejected = |name, target: &str| {
        case(name, get(target)).status(500).lacks(&["x-injected", "secret", "Traceback", "X-Injected"])
    };
    vec![
        rejected("an exception", "/raises"),
        case("an exception after the start", get("/raises-after-start"))
            .has(&["begun"])
            .lacks(&["secret", "Traceback"])
            .cut_short(),
        rejected("no answer", "/returns-without-answer"),
        case("half an answer", get("/returns-too-early")).has(&["begun"]).cut_short(),
        rejected("a body before its head", "/body-before-start"),
        rejected("an unknown message", "/unknown-message"),
        rejected("text as a field", "/text-as-field").not_on("uvicorn"),
        rejected("a line in a value", "/injected-value").not_on("uvicorn"),
        rejected("a line in a name", "/injected-name").not_on("uvicorn"),
        case("more than its length", get("/too-much")).lacks(&["Injected"]).not_on("uvicorn"),
        case("less than its length", get("/too-little")).cut_short(),
        case("after all of that", get("/plain")).has(&["plain"]),
    ]
}

/// Bodies of answers, and the extensions.
fn bodies() -> Vec<Case> {
    vec![
        case("extensions are named", get("/extensions"))
            .has(&["http.response.early_hint\n", "http.response.pathsend\n", "http.response.trailers\n"])
            .not_on("uvicorn"),
        case("trailers", get_with("/trailers", "TE: trailers\r\n"))
            .has(&["body", "x-digest: abc\r\n"])
            .not_on("uvicorn"),
        // Over HTTP/1.1 there is no 103: clients have taken it for the answer.
        case("an early hint", get("/early-hint"))
            .has(&["late\n"])
            .lacks(&["103 early hints"])
            .not_on("uvicorn"),
        case("a file by its path", get("/pathsend")).has(&["What the cases of ASGI call"]).not_on("uvicorn"),
    ]
}

/// Handshakes of WebSocket that do not open one.
fn sockets() -> Vec<Case> {
    let handshake = |target: &str| {
        get_with(target, "").replace(
            "Connection: close\r\n",
            "Connection: Upgrade, close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
        )
    };
    vec![
        case("a socket that is rejected", handshake("/rejects")).status(403),
        case("a socket that raises", handshake("/fails")).status(500).lacks(&["secret"]),
        case("a socket that is denied with an answer", handshake("/denies")).status(418).has(&["denied"]),
        case("a socket that is accepted and closed", handshake("/accepts-with-fields"))
            .status(101)
            .has(&["x-accepted: 1\r\n", "of the application"]),
    ]
}
