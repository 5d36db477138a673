//! The capabilities of a system under test, which a suite can require: the names that both use.

/// Every capability: its name, and what a system does that has it, to follow "does not ...".
const CAPABILITIES: [(&str, &str); 18] = [
    ("files", "serve files"),
    ("includes", "carry out the directives of pages (SHTML)"),
    ("cgi", "run CGI programs"),
    ("fastcgi", "call FastCGI programs"),
    ("nsapi", "run NSAPI plug-ins"),
    ("servlet", "run servlets"),
    ("jsp", "run Java Server Pages"),
    ("ajp", "call servlet containers over AJP"),
    ("wsgi", "call Python applications through WSGI"),
    ("asgi", "call Python applications through ASGI"),
    ("wasm", "run WebAssembly components"),
    ("wasm_reused", "have instances of WebAssembly components answer many requests"),
    ("cache", "keep the answers of another server"),
    ("tls", "serve the same over TLS"),
    ("http_two", "use HTTP/2 over TLS"),
    ("http_three", "use HTTP/3"),
    ("application", "call the small FastCGI application of the suites"),
    (
        "own_requests",
        "answer requests that are a suite's own and no files (name a server that runs by its URL)",
    ),
];

/// Serving files: what a workload of files needs.
pub const FILES: &str = "files";
/// A second port with TLS.
pub const TLS: &str = "tls";
/// HTTP/2 on that port.
pub const HTTP2: &str = "http_two";
/// HTTP/3 on the UDP port of the same number.
pub const HTTP3: &str = "http_three";
/// A cache before another server.
pub const CACHE: &str = "cache";
/// What no system that is started here has: a suite's own requests, which only a server of the user's can
/// answer.
pub const OWN_REQUESTS: &str = "own_requests";

/// The programs that an interface may name, which the laboratory can build.
pub const PROGRAMS: [&str; 11] = [
    "cgi",
    "cgi-send",
    "simcgi",
    "application",
    "fastcgi",
    "nsapi",
    "servlet",
    "jsp",
    "wsgi",
    "asgi",
    "wasm",
];

/// Whether there is such a capability.
pub fn is_known(name: &str) -> bool {
    CAPABILITIES.iter().any(|(known, _)| *known == name)
}

/// The names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    CAPABILITIES.iter().map(|(name, _)| *name)
}

/// What a system does that has it, for example `run CGI programs`.
pub fn in_words(name: &str) -> &str {
    CAPABILITIES.iter().find(|(known, _)| *known == name).map_or(name, |(_, words)| words)
}
