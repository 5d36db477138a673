//! Request targets, and the way from a target to a file (RFC 9112 section 3.2, RFC 3986).

use crate::protocol::case::{Case, case, check, get, request};
use crate::support::{ALPHABET, SECOND};

#[test]
fn forms_of_target() {
    check(forms());
}

#[test]
fn encoded_paths() {
    check(encoded());
}

#[test]
fn dot_segments_and_slashes() {
    check(dots_and_slashes());
}

#[test]
fn hidden_and_strange_names() {
    check(names());
}

fn target(name: &'static str, target: &str) -> Case {
    case(name, get(target, ""))
}

fn forms() -> Vec<Case> {
    vec![
        target("origin form", "/second.txt").answers(200).body(SECOND).kept(),
        target("a query is ignored for a file", "/alphabet.txt?a=b&c=%zz/../")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("an empty query", "/alphabet.txt?").answers(200).body(ALPHABET).kept(),
        target("question marks in a query", "/alphabet.txt?a?b??").answers(200).body(ALPHABET).kept(),
        target("a fragment", "/alphabet.txt#part").answers(400),
        target("a fragment in the query", "/alphabet.txt?a#part").answers(400),
        target("an empty fragment", "/#").answers(400),
        target("absolute form", "http://example.com/alphabet.txt").answers(200).body(ALPHABET).kept().split(),
        target("absolute form with a port", "http://example.com:8080/alphabet.txt")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("absolute form, an IPv6 address", "http://[::1]:80/alphabet.txt")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("absolute form, scheme in capitals", "HTTP://EXAMPLE.com/alphabet.txt")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("absolute form without a path", "http://example.com")
            .answers(200)
            .field_starts("Content-Type", "text/html")
            .kept(),
        target("absolute form with only a query", "http://example.com?a=b")
            .answers(200)
            .field_starts("Content-Type", "text/html")
            .kept(),
        target("absolute form with dot segments", "http://example.com/dir/../alphabet.txt")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        case(
            "absolute form wins over another Host",
            "GET http://example.com/alphabet.txt HTTP/1.1\r\nHost: other.example\r\n\r\n",
        )
        .answers(200)
        .body(ALPHABET)
        .kept(),
        case("absolute form still needs Host", "GET http://example.com/alphabet.txt HTTP/1.1\r\n\r\n")
            .answers(400)
            .closed(),
        case("absolute form with HTTP/1.0", "GET http://example.com/alphabet.txt HTTP/1.0\r\n\r\n")
            .answers(200)
            .body(ALPHABET)
            .closed(),
        target("absolute form without an authority", "http:///alphabet.txt").answers(400),
        target("absolute form with a bad port", "http://example.com:x/alphabet.txt").answers(400),
        target("absolute form with a fragment", "http://example.com/alphabet.txt#part").answers(400),
        target("no slash at the start", "alphabet.txt").answers(400),
        target("only a host", "example.com").answers(400),
        target("authority form with GET", "example.com:80").answers(400),
        case("authority form with CONNECT", request("CONNECT", "example.com:443", "")).answers(405),
        case("asterisk form with OPTIONS", request("OPTIONS", "*", ""))
            .answers(204)
            .field("Allow", "GET, HEAD, OPTIONS")
            .kept()
            .split(),
        target("asterisk form with GET", "*").answers(400),
        case("asterisk form with HEAD", request("HEAD", "*", "")).answers(400),
        target("asterisk and more", "*/").answers(400),
        case("asterisk and more with OPTIONS", request("OPTIONS", "*x", "")).answers(400),
        target("a backslash for a slash", "\\alphabet.txt").answers(400),
    ]
}

fn encoded() -> Vec<Case> {
    vec![
        target("an encoded letter", "/%61lphabet.txt").answers(200).body(ALPHABET).kept().split(),
        target("every letter encoded", "/%61%6C%70%68%61%62%65%74%2E%74%78%74")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("capital and small hexadecimal digits", "/%6cink%2Etxt").answers(200).body(ALPHABET).kept(),
        target("an encoded space", "/a%20b.txt").answers(200).body("a space b\n").kept(),
        target("a plus is a plus", "/a+b.txt").answers(200).body("a plus b\n").kept(),
        target("an encoded plus", "/a%2Bb.txt").answers(200).body("a plus b\n").kept(),
        target("a plus is not a space", "/a+b.html").answers(404).kept(),
        target("encoded UTF-8", "/%C3%BCn%c3%afcode.txt").answers(200).body("unicode\n").kept(),
        target("encoded bytes that are not UTF-8", "/%ff%fe.txt").answers(404).kept(),
        target("an encoded per cent sign", "/100%25.txt").answers(200).body("per cent\n").kept(),
        target("decoded once only", "/per%2520cent.txt").answers(200).body("literal per cent 20\n").kept(),
        target("not decoded twice", "/per%20cent.txt").answers(404).kept(),
        target("an encoded number sign", "/hash%23.txt").answers(200).body("hash\n").kept(),
        target("an encoded question mark", "/question%3F.txt").answers(200).body("question\n").kept(),
        target("an encoded question mark begins no query", "/alphabet.txt%3Fa").answers(404).kept(),
        target("a semicolon", "/semi;colon.txt").answers(200).body("semicolon\n").kept(),
        target("an encoded quotation mark", "/quote%22.txt").answers(200).body("quote\n").kept(),
        target("an encoded backslash", "/back%5Cslash.txt").answers(200).body("backslash\n").kept(),
        target("an encoded backslash is not a slash", "/dir%5Cinner.txt").answers(404).kept(),
        target("a per cent sign alone", "/%").answers(400),
        target("a per cent sign and one digit", "/%4").answers(400),
        target("a per cent sign and a letter", "/%zz").answers(400),
        target("a per cent sign and one good digit", "/%4g.txt").answers(400).split(),
        target("a per cent sign before a query", "/alphabet.txt%?a").answers(400),
        target("a per cent sign of another kind", "/%u0061lphabet.txt").answers(400),
        target("an encoded NUL", "/alphabet.txt%00").answers(400).split(),
        target("an encoded NUL before an ending", "/alphabet.txt%00.html").answers(400),
        target("an encoded CRLF", "/alphabet.txt%0d%0aX:%20y").answers(400),
        target("an encoded tab", "/%09").answers(400),
        target("an encoded control byte", "/%1f").answers(400),
        target("an encoded DEL", "/%7f").answers(400),
        target("an encoded slash", "/dir%2Finner.txt").answers(404).kept(),
        target("an encoded slash in small letters", "/dir%2finner.txt").answers(404).kept(),
        target("an encoded slash at the end", "/dir%2F").answers(404).kept(),
        target("an encoded slash at the start", "/%2Falphabet.txt").answers(404).kept(),
        target("bad escapes in a query are none of ours", "/alphabet.txt?%&%0&%zz&%00")
            .answers(200)
            .body(ALPHABET)
            .kept(),
    ]
}

fn dots_and_slashes() -> Vec<Case> {
    vec![
        target("one dot", "/./alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("two dots", "/dir/../alphabet.txt").answers(200).body(ALPHABET).kept().split(),
        target("one dot inside", "/dir/./inner.txt").answers(200).body("inner\n").kept(),
        target("an encoded dot", "/%2e/alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("encoded dots", "/dir/%2e%2E/alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("a dot and an encoded dot", "/dir/.%2e/alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("an encoded dot and a dot", "/dir/%2e./alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("two dots after a missing directory", "/missing/../alphabet.txt")
            .answers(200)
            .body(ALPHABET)
            .kept(),
        target("two dots after a file", "/page.html/../alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("one dot at the end", "/dir/.").answers(200).field_starts("Content-Type", "text/html").kept(),
        target("two dots at the end", "/dir/..")
            .answers(200)
            .field_starts("Content-Type", "text/html")
            .kept(),
        target("above the root", "/../alphabet.txt").answers(400).split(),
        target("above the root, encoded", "/%2e%2e/outside.txt").answers(400),
        target("above the root, half encoded", "/.%2E/outside.txt").answers(400),
        target("above the root and back", "/dir/../../root/alphabet.txt").answers(400),
        target("the parent of the root", "/..").answers(400),
        target("above the root after a double slash", "//../outside.txt").answers(400),
        target("far above the root", "/../../../../../../etc/passwd").answers(400),
        target("above the root with an encoded slash", "/..%2foutside.txt").answers(404).or(400),
        target("above the root, encoded twice", "/%252e%252e/outside.txt").answers(404).kept(),
        target("above the root with backslashes", "/..%5coutside.txt").answers(400).kept(),
        target("above the root in absolute form", "http://example.com/../outside.txt").answers(400),
        target("dots in a query do nothing", "/alphabet.txt?/../../x").answers(200).body(ALPHABET).kept(),
        target("three dots are a hidden name", "/...").answers(404).kept(),
        target("two dots and more are a hidden name", "/..alphabet.txt").answers(404).kept(),
        target("two slashes at the start", "//alphabet.txt").answers(200).body(ALPHABET).kept(),
        target("two slashes inside", "/dir//inner.txt").answers(200).body("inner\n").kept(),
        target("many slashes", "////dir////inner.txt").answers(200).body("inner\n").kept(),
        target("only slashes", "///").answers(200).field_starts("Content-Type", "text/html").kept(),
        target("two slashes after a directory", "/dir//")
            .answers(200)
            .field_starts("Content-Type", "text/html")
            .kept(),
        target("a slash after a file", "/page.html/").answers(404).kept(),
        target("a path below a file", "/page.html/more.html").answers(404).kept(),
        target("a dot after a file", "/page.html/.").answers(404).kept(),
        target("empty segments between dots", "/dir//../alphabet.txt").answers(200).or(404).kept(),
    ]
}

fn names() -> Vec<Case> {
    let long_name = format!("/{}", "n".repeat(300));
    let long_path = "/d".repeat(2500);
    vec![
        target("a hidden file", "/.hidden").answers(404).kept(),
        target("a hidden file, encoded", "/%2ehidden").answers(404).kept(),
        target("a hidden directory", "/.git/config").answers(404).kept(),
        target("a hidden directory, encoded", "/%2Egit/config").answers(404).kept(),
        target("a hidden directory itself", "/.git").answers(404).kept(),
        target("a hidden directory with a slash", "/.git/").answers(404).kept(),
        target("a hidden file in a directory", "/dir/.hidden").answers(404).kept(),
        target("a hidden directory and dots", "/.git/../alphabet.txt").answers(200).or(404).kept(),
        target("well known", "/.well-known/acme.txt").answers(200).body("well known\n").kept(),
        target("well known, not in another directory", "/dir/.well-known/acme.txt").answers(404).kept(),
        target("well known, with more to its name", "/.well-known-not/acme.txt").answers(404).kept(),
        target("a name that is too long", &long_name).answers(404).kept(),
        target("a path that is too long", &long_path).answers(404).kept(),
        target("a missing file", "/missing.txt").answers(404).kept().split(),
        target("a missing file in a missing directory", "/missing/missing.txt").answers(404).kept(),
        target("a name in other letters is another name", "/Alphabet.txt").answers(404).kept(),
        target("a name without its ending", "/alphabet").answers(404).kept(),
        target("a symbolic link inside the root", "/link.txt").answers(200).body(ALPHABET).kept(),
        target("a symbolic link that leaves the root", "/escape.txt")
            .answers(403)
            .body_without("secret")
            .kept(),
        target("markup in a missing name is not echoed", "/%3Cscript%3Ealert(1)%3C/script%3E")
            .answers(404)
            .body_without("<script>")
            .kept(),
        target("a missing name in a query is not echoed", "/missing?%3Cscript%3E<script>")
            .answers(404)
            .or(400)
            .body_without("<script>"),
        target("CSS", "/style.css").answers(200).field_starts("Content-Type", "text/css").kept(),
        target("JavaScript", "/script.js")
            .answers(200)
            .field_starts("Content-Type", "text/javascript")
            .kept(),
        target("JSON", "/data.json").answers(200).field_starts("Content-Type", "application/json").kept(),
        target("PNG", "/image.png").answers(200).field("Content-Type", "image/png").kept(),
        target("JPEG by an ending in capitals", "/photo.JPG")
            .answers(200)
            .field("Content-Type", "image/jpeg")
            .kept(),
        target("SVG", "/drawing.svg").answers(200).field_starts("Content-Type", "image/svg+xml").kept(),
        target("WebAssembly", "/module.wasm").answers(200).field("Content-Type", "application/wasm").kept(),
        target("HTML", "/page.html").answers(200).field_starts("Content-Type", "text/html").kept(),
        target("text", "/alphabet.txt").answers(200).field_starts("Content-Type", "text/plain").kept(),
        target("an unknown ending", "/unknown.zzz")
            .answers(200)
            .field("Content-Type", "application/octet-stream")
            .kept(),
        target("no ending", "/noextension")
            .answers(200)
            .field("Content-Type", "application/octet-stream")
            .kept(),
        target("two endings", "/archive.tar.gz")
            .answers(200)
            .field_starts("Content-Type", "application/")
            .kept(),
        target("an empty file", "/empty.txt")
            .answers(200)
            .body("")
            .field("Content-Length", "0")
            .kept()
            .split(),
    ]
}
