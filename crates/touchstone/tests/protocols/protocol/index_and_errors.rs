//! Directories, their index and the redirect to them; error pages.

use crate::protocol::case::{Case, case, check, get, request};

#[test]
fn directories() {
    check(directories_table());
}

#[test]
fn error_pages() {
    check(errors());
}

fn directories_table() -> Vec<Case> {
    let redirect = |name, target: &str, location: &str| {
        case(name, get(target, "")).answers(301).field("Location", location).kept()
    };
    vec![
        case("the root", get("/", ""))
            .answers(200)
            .body("<!doctype html>\n<title>Index</title>\n<p>Welcome.\n")
            .field_starts("Content-Type", "text/html")
            .kept()
            .split(),
        case("the root with a query", get("/?a=b", ""))
            .answers(200)
            .field_starts("Content-Type", "text/html")
            .kept(),
        case("a directory", get("/dir/", ""))
            .answers(200)
            .body("<!doctype html>\n<title>Inner index</title>\n")
            .kept(),
        case("the index by its name", get("/dir/index.html", "")).answers(200).kept(),
        case("a directory without an index", get("/bare/", ""))
            .answers(403)
            .body_without("file.txt")
            .kept()
            .split(),
        case("a directory with a space in its name", get("/a%20dir/", ""))
            .answers(200)
            .body("a dir\n")
            .kept(),
        case("a missing directory", get("/missing/", "")).answers(404).kept(),
        redirect("a directory without its slash", "/dir", "/dir/").split(),
        redirect("a directory without its slash or index", "/bare", "/bare/"),
        redirect("the query is kept", "/dir?a=b&c=d", "/dir/?a=b&c=d"),
        case("an empty query is kept or dropped", get("/dir?", ""))
            .answers(301)
            .field_starts("Location", "/dir/")
            .kept(),
        redirect("the query is kept as it is", "/dir?a=%0d%0aX:%20y&%zz", "/dir/?a=%0d%0aX:%20y&%zz"),
        redirect("a space stays encoded", "/a%20dir", "/a%20dir/"),
        redirect("a question mark stays encoded", "/what%3F", "/what%3F/"),
        redirect("UTF-8 stays encoded", "/d%C3%AFr", "/d%C3%AFr/"),
        redirect("absolute form", "http://example.com/dir", "/dir/"),
        redirect("dot segments are resolved", "/bare/../dir", "/dir/"),
        // `Location: //dir/` would send the client to a host named dir.
        redirect("two slashes never name another host", "//dir", "/dir/").split(),
        redirect("many slashes never name another host", "////dir", "/dir/"),
        redirect("slashes and dots never name another host", "/.//dir", "/dir/"),
        case("two slashes before a foreign name", get("//example.org", ""))
            .answers(404)
            .without("Location")
            .kept(),
        case("two slashes and a way back", get("//example.org/..", ""))
            .answers(200)
            .or(301)
            .without("Refresh")
            .holds("no other host in Location", |response| {
                response.field("location").is_none_or(|location| !location.starts_with("//"))
            }),
        case("HEAD redirects too", request("HEAD", "/dir", ""))
            .answers(301)
            .field("Location", "/dir/")
            .kept(),
        case("OPTIONS of a directory", request("OPTIONS", "/dir", "")).answers(204).kept(),
        case("POST to a directory", request("POST", "/dir/", "")).answers(405).kept(),
        case("HTTP/1.0 redirects too", "GET /dir HTTP/1.0\r\n\r\n")
            .answers(301)
            .field("Location", "/dir/")
            .closed(),
    ]
}

/// Every error has a page that names its status, which [`check`] tests in all tables; this table has what it
/// must not contain.
fn errors() -> Vec<Case> {
    vec![
        case("404 has no entity tag of its own", get("/missing", ""))
            .answers(404)
            .without("ETag")
            .without("Last-Modified")
            .without("Accept-Ranges")
            .kept(),
        case("404 is not cached by mistake", get("/missing", "")).answers(404).without("Expires").kept(),
        case("403 does not say where the link leads", get("/escape.txt", ""))
            .answers(403)
            .body_without("outside")
            .without("Location")
            .kept(),
        case(
            "400 does not echo the request",
            "GET /<script>alert(1)</script> <script> HTTP/1.1\r\nHost: a\r\n\r\n",
        )
        .answers(400)
        .body_without("<script>")
        .closed(),
        case("505 says what is spoken", "GET / HTTP/5.0\r\nHost: a\r\n\r\n").answers(505).closed(),
        case("416 carries the length", get("/alphabet.txt", "Range: bytes=26-\r\n"))
            .answers(416)
            .field("Content-Range", "bytes */26")
            .kept(),
        case("412", get("/alphabet.txt", "If-Match: \"x\"\r\n")).answers(412).without("Content-Range").kept(),
        case("500 is never the answer to a strange name", get("/%F0%9F%92%A9%E2%80%AE/%C0%AF", ""))
            .answers(404)
            .kept(),
        case("an error page is no larger than it must be", get("/missing", ""))
            .answers(404)
            .holds("a body of at most 1 KiB", |response| response.body.len() <= 1024),
    ]
}
