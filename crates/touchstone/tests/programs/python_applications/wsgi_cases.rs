//! The cases of WSGI: PEP 3333, and what applications rely on in servers for it.

use super::exchange::{Case, case, get, get_with, post, post_chunks};

/// All of them.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = told();
    cases.extend(header_variables());
    cases.extend(request_bodies());
    cases.extend(heads());
    cases.extend(wrong());
    cases.extend(framing());
    cases.extend(bodies());
    cases.extend(validated());
    cases
}

/// The variables of `environ` (PEP 3333, "environ Variables").
fn told() -> Vec<Case> {
    vec![
        case("the request line", get("/environ/b?x=%41&y=1+2")).has(&[
            "REQUEST_METHOD='GET'\n",
            "SCRIPT_NAME=''\n",
            "PATH_INFO='/environ/b'\n",
            "QUERY_STRING='x=%41&y=1+2'\n",
            "SERVER_PROTOCOL='HTTP/1.1'\n",
        ]),
        case("a path is decoded", get("/environ/a%20b%25c")).has(&["PATH_INFO='/environ/a b%c'\n"]),
        case("bytes of a path are characters of latin-1", get("/environ/%C3%A9%F0%9F%98%80"))
            .has(&["PATH_INFO='/environ/\u{c3}\u{a9}\u{f0}\\x9f\\x98\\x80'\n", "within latin-1=True"]),
        case("no query", get("/environ")).has(&["QUERY_STRING=''\n"]),
        case("an empty query", get("/environ?")).has(&["QUERY_STRING=''\n"]),
        case("a question mark in the query", get("/environ?a?b=c?")).has(&["QUERY_STRING='a?b=c?'\n"]),
        case("types", get("/environ")).has(&["exact dict=True", "native strings=True"]),
        case("wsgi.*", get("/environ")).has(&[
            "wsgi.version=(1, 0)\n",
            "wsgi.url_scheme='http'\n",
            "wsgi.run_once=False\n",
        ]),
        case("truth values", get("/environ")).lacks(&["wsgi.multithread=0", "wsgi.multithread=1"]),
        case("the client", get("/environ")).has(&["REMOTE_ADDR='127.0.0.1'\n"]),
        case("HTTP/1.0", "GET /environ HTTP/1.0\r\n\r\n").has(&["SERVER_PROTOCOL='HTTP/1.0'\n"]),
        case("HTTP/1.0 gets no chunks", "GET /unknown-length HTTP/1.0\r\n\r\n")
            .has(&["one two three"])
            .lacks(&["transfer-encoding"]),
        case(
            "the absolute form",
            "GET http://a.example/environ/x?q HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
        )
        .has(&["PATH_INFO='/environ/x'\n", "QUERY_STRING='q'\n"]),
        case("an unknown method", "PURGE /environ HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")
            .has(&["REQUEST_METHOD='PURGE'\n"]),
        case("a dictionary of its own", get("/own-environ")).has(&["seen=False"]),
        case("and the next one as well", get("/own-environ")).has(&["seen=False"]),
        case("what the next is told", get("/environ")).has(&["wsgi.version=(1, 0)\n"]).lacks(&["mark="]),
    ]
}

/// Header fields as variables.
fn header_variables() -> Vec<Case> {
    vec![
        case("a field", get_with("/environ", "X-Some-Field: value\r\n"))
            .has(&["HTTP_X_SOME_FIELD='value'\n"]),
        case("the case of a name", get_with("/environ", "x-sOmE-fielD: Value\r\n"))
            .has(&["HTTP_X_SOME_FIELD='Value'\n"]),
        case("white space around a value", get_with("/environ", "X-Field: \t a  b \t\r\n"))
            .has(&["HTTP_X_FIELD='a  b'\n"]),
        case("an empty value", get_with("/environ", "X-Field:\r\n")).has(&["HTTP_X_FIELD=''\n"]),
        case(
            "latin-1 in a value",
            b"GET /environ HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-F: caf\xE9\r\n\r\n",
        )
        .has(&["HTTP_X_F='caf\u{e9}'\n"]),
        case("lines of one name", get_with("/environ", "X-List: a\r\nX-Other: 1\r\nX-List: b\r\n"))
            .has(&["HTTP_X_LIST='a, b'\n"])
            .not_on("gunicorn"),
        case("lines of cookies", get_with("/environ", "Cookie: a=1\r\nCookie: b=2\r\n"))
            .has(&["HTTP_COOKIE='a=1; b=2'\n"])
            .not_on("gunicorn"),
        case("an underscore in a name does not feign another", get_with("/environ", "X_Auth_User: root\r\n"))
            .lacks(&["root"]),
        case("nor beside the real one", get_with("/environ", "X-Auth-User: ann\r\nX_Auth_User: root\r\n"))
            .has(&["HTTP_X_AUTH_USER='ann'\n"]),
        case("Proxy is not HTTP_PROXY", get_with("/environ", "Proxy: http://evil.example\r\n"))
            .lacks(&["HTTP_PROXY="])
            .not_on("gunicorn"),
        case("Content-Type has no HTTP_", get_with("/environ", "Content-Type: text/x\r\n"))
            .has(&["CONTENT_TYPE='text/x'\n"])
            .lacks(&["HTTP_CONTENT_TYPE"]),
        case("Content-Length has no HTTP_", post("/environ", "12345"))
            .has(&["CONTENT_LENGTH='5'\n", "REQUEST_METHOD='POST'\n"])
            .lacks(&["HTTP_CONTENT_LENGTH"]),
        case("Host", get("/environ")).has(&["HTTP_HOST='a.example'\n"]),
    ]
}

/// `wsgi.input` (PEP 3333, "Input and Error Streams").
fn request_bodies() -> Vec<Case> {
    vec![
        case("a body with its length", post("/length", "hello")).has(&[
            "bytes=5\n",
            "sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824\n",
            "after=b''\n",
        ]),
        case("no body", get("/length")).has(&["bytes=0\n", "after=b''\n"]),
        case("an empty body", post("/length", "")).has(&["bytes=0\n"]),
        case("a body in chunks", post_chunks("/length", &["he", "l", "lo"]))
            .has(&["bytes=5\n", "after=b''\n"]),
        case("an empty body in chunks", post_chunks("/length", &[])).has(&["bytes=0\n"]),
        case("every way to read", post("/pieces", "0123line\npartnext\none\ntwo")).has(&[
            "read=b'0123'\n",
            "line=b'line\\n'\n",
            "part=b'par'\n",
            "next=b'tnext\\n'\n",
            "lines=[b'one\\n', b'two']\n",
            "end=b'' b'' []\n",
        ]),
        case("and in chunks", post_chunks("/pieces", &["0123li", "ne\npartne", "xt\none\ntw", "o"])).has(&[
            "read=b'0123'\n",
            "line=b'line\\n'\n",
            "next=b'tnext\\n'\n",
            "lines=[b'one\\n', b'two']\n",
        ]),
        case("a body that is not read", post("/nothing-read", "unread")).has(&["not read\n"]),
        case(
            "a second request behind a body that is not read",
            "POST /nothing-read HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nunread\
             GET /reason HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .status(299),
        case(
            "requests one behind the other",
            "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n\
             GET /reason HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .status(299)
        .has(&["plainHTTP/1.1 299"]),
        case(
            "100 before a body that is read",
            "POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nExpect: 100-continue\r\n\
             Content-Length: 5\r\n\r\nhello",
        )
        .has(&["bytes=5\n"]),
    ]
}

/// `start_response` (PEP 3333, "The start_response() Callable").
fn heads() -> Vec<Case> {
    vec![
        case("a reason of its own", get("/reason")).status(299).has(&["http/1.1 299 fine by me\r\n"]),
        case("fields in their order", get("/fields")).has(&[
            "x-order: first\r\n",
            "x-order: second\r\n",
            "set-cookie: a=1\r\n",
            "set-cookie: b=2\r\n",
        ]),
        case("latin-1 in a field", get("/fields")).has(&["x-latin: caf\u{e9}\r\n"]),
        case("HEAD", "HEAD /plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .has(&["content-length: 5\r\n"])
            .lacks(&["\r\nplain"]),
        case(
            "HEAD of a length that is not known",
            "HEAD /unknown-length HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        )
        .lacks(&["one two"]),
        case("204", get("/no-content")).status(204).lacks(&["transfer-encoding", "content-length: 5"]),
        case("304", get("/not-modified"))
            .status(304)
            .has(&["etag: \"one\"\r\n"])
            .lacks(&["transfer-encoding"]),
        case("204 with a body", get("/body-with-no-content")).status(204).lacks(&["this must not be sent"]),
        case("called twice", get("/twice")).status(500).lacks(&["x-first", "x-second"]),
        case("replaced before anything was sent", get("/replaced"))
            .status(503)
            .has(&["x-second: 1\r\n", "later"])
            .lacks(&["x-first", "for the error log"])
            .not_on("gunicorn"),
        case("replaced too late", get("/replaced-too-late"))
            .has(&["begun"])
            .lacks(&["this must not be sent", "raised again"])
            .cut_short(),
        case("called by a generator", get("/lazy")).has(&["x-lazy: 1\r\n", "at last"]),
        case("write()", get("/write")).has(&["x-write: 1\r\n", "one ", "two ", "three"]),
    ]
}

/// Applications that raise or break the rules: a client gets 500 without the trace.
fn wrong() -> Vec<Case> {
    let rejected = |name, target: &str| {
        case(name, get(target)).status(500).lacks(&["x-injected", "secret", "Traceback", "X-Injected"])
    };
    vec![
        rejected("an exception", "/raises"),
        rejected("an exception after the start", "/raises-after-start").lacks(&["x-started"]),
        case("an exception in the body", get("/raises-in-body"))
            .has(&["xxxx"])
            .lacks(&["secret", "Traceback"])
            .cut_short(),
        case("its iterable is closed", get("/closed?raises-in-body")).has(&["closed=1\n"]).in_the_end(),
        rejected("no start", "/never-starts").not_on("gunicorn"),
        rejected("no bytes", "/text-not-bytes").lacks(&["text\n"]).not_on("gunicorn"),
        rejected("no iterable", "/returns-none"),
        rejected("no status", "/bad-status"),
        rejected("an interim status", "/interim-status").not_on("gunicorn"),
        rejected("a number as status", "/number-status"),
        rejected("bytes as fields", "/bytes-fields"),
        rejected("a line in a value", "/injected-value"),
        rejected("a line feed in a value", "/injected-line-feed"),
        rejected("a NUL in a value", "/injected-nul"),
        rejected("a line in a name", "/injected-name"),
        rejected("a line in the status", "/injected-status"),
        rejected("two lengths", "/two-lengths").not_on("gunicorn"),
        case("fields of the connection are the server's", get("/own-connection"))
            .has(&["body"])
            .lacks(&["upgrade: other"])
            .not_on("gunicorn"),
        case("the application does not frame", get("/own-framing"))
            .has(&["content-length: 4\r\n", "\r\n\r\nbody"])
            .lacks(&["transfer-encoding"])
            .not_on("gunicorn"),
        case("after all of that", get("/plain")).has(&["plain"]),
    ]
}

/// Lengths and their bodies.
fn framing() -> Vec<Case> {
    vec![
        case("more than its length", get("/too-much")).has(&["content-length: 4\r\n"]).lacks(&["Injected"]),
        case("less than its length", get("/too-little")).has(&["body"]).cut_short(),
        case("no length", get("/unknown-length")).has(&["one ", "two ", "three"]),
        case("close() at the end", get("/closing")).has(&["body"]),
        case("it was called once", get("/closed?closing")).has(&["closed=1\n"]).in_the_end(),
    ]
}

/// Bodies of answers.
fn bodies() -> Vec<Case> {
    vec![
        case("a file from where it stands", get("/file"))
            .has(&["content-length: 99995\r\n", "\r\n\r\n56789012"]),
        case("a file without a length", get("/file-without-length")).has(&["01234567890123456789"]),
        case("a part of a file", get("/part-of-file"))
            .status(206)
            .has(&["content-length: 10\r\n", "\r\n\r\n0123456789"]),
        case("a file without a descriptor", get("/memory-file")).has(&["\r\n\r\nmemory"]),
        case("which is closed", get("/closed?memory-file")).has(&["closed=1\n"]).in_the_end(),
        case("what is said to wsgi.errors", get("/errors")).has(&["said\n"]),
    ]
}

/// The same applications behind `wsgiref.validate`, which raises where PEP 3333 is broken.
fn validated() -> Vec<Case> {
    vec![
        case("validated: plain", get("/validated/plain")).has(&["plain"]),
        case("validated: streamed", get("/validated/streamed")).has(&["one ", "two"]),
        case("validated: environ", get_with("/validated/environ/x?y=1", "X-A: b\r\nCookie: c=d\r\n"))
            .has(&["PATH_INFO='/validated/environ/x'\n"]),
        case("validated: HEAD", "HEAD /validated/plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .has(&["content-length: 5\r\n"]),
        case("validated: a body", post("/validated/read-all", &"x".repeat(5000))).has(&["bytes=5000\n"]),
        case("validated: chunks", post_chunks("/validated/read-all", &["a", "bc", "def"]))
            .has(&["bytes=6\n"]),
        case("validated: lines", post("/validated/read-lines", "one\ntwo\nthree"))
            .has(&["first=b'one\\n'\n", "rest=[b'two\\n', b'three']\n"]),
        case("validated: no body", get("/validated/read-all")).has(&["bytes=0\n"]),
        case("validated: 204", get("/validated/no-content")).status(204),
        case("validated: write()", get("/validated/write")).status(500),
        case("validated: errors", get("/validated/errors")).has(&["said\n"]),
        case("validated: HTTP/1.0", "GET /validated/plain HTTP/1.0\r\n\r\n").has(&["plain"]),
    ]
}
