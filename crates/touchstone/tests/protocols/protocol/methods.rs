//! Methods (RFC 9110 section 9).

use crate::protocol::case::{Case, case, check, request};
use crate::support::ALPHABET;

#[test]
fn methods() {
    check(table());
}

fn table() -> Vec<Case> {
    let method = |name, method: &str| case(name, request(method, "/alphabet.txt", ""));
    vec![
        method("GET", "GET").answers(200).body(ALPHABET).kept(),
        method("HEAD", "HEAD").answers(200).field("Content-Length", "26").body("").kept().split(),
        case("HEAD of a missing file", request("HEAD", "/missing", "")).answers(404).body("").kept(),
        case("HEAD of a directory without a slash", request("HEAD", "/dir", "")).answers(301).body("").kept(),
        case("HEAD with close", request("HEAD", "/alphabet.txt", "Connection: close\r\n"))
            .answers(200)
            .body("")
            .closed(),
        case("HEAD with HTTP/1.0", "HEAD /alphabet.txt HTTP/1.0\r\n\r\n").answers(200).body("").closed(),
        method("OPTIONS", "OPTIONS")
            .answers(204)
            .field("Allow", "GET, HEAD, OPTIONS")
            .without("Content-Length")
            .body("")
            .kept()
            .split(),
        case("OPTIONS of the root", request("OPTIONS", "/", ""))
            .answers(204)
            .field("Allow", "GET, HEAD, OPTIONS")
            .kept(),
        case("OPTIONS of a missing file", request("OPTIONS", "/missing", "")).answers(204).or(404).kept(),
        case("OPTIONS with close", request("OPTIONS", "/", "Connection: close\r\n")).answers(204).closed(),
        method("POST", "POST").answers(405).kept(),
        case("POST of a missing file", request("POST", "/missing", "")).answers(405).or(404).kept(),
        method("PUT", "PUT").answers(405).kept(),
        method("DELETE", "DELETE").answers(405).kept().split(),
        method("PATCH", "PATCH").answers(405).kept(),
        case("TRACE does not echo", request("TRACE", "/alphabet.txt", "Cookie: secret\r\n"))
            .answers(405)
            .body_without("secret"),
        method("CONNECT to a path", "CONNECT").answers(405).or(400),
        method("an unknown method", "FOO").answers(501).split(),
        method("a method of WebDAV", "PROPFIND").answers(501),
        method("QUERY", "QUERY").answers(405).field("Allow", "GET, HEAD, OPTIONS").kept(),
        method("get in small letters is another method", "get").answers(501),
        method("Get with one capital is another method", "Get").answers(501),
        method("GETX", "GETX").answers(501),
        method("GE", "GE").answers(501),
        method("a method of one letter", "G").answers(501),
        method("a method of every byte that it may have", "!#$%&'*+-.^_`|~09AZaz").answers(501),
        case("a method of 1,000 letters", request(&"M".repeat(1000), "/", "")).answers(501).or(400),
    ]
}
