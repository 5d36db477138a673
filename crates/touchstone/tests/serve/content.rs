//! Answers made from files: content codings, listings, the fallback of an application, error pages and fields
//! of the site. Every coded body is decoded and compared with the file byte for byte.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{
    AnswerTo, Client, Response, Server, Tree, bytes_of, curl, error_lines, run, wait_until,
};
use proptest::prelude::*;
use rustix::process::Signal;

/// The server promises to see a change on disk within one second. The rest is for a busy machine, where one
/// request alone may take seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(1 + 30);

const BROWSER: &str = "gzip, deflate, br, zstd";

/// Text that shrinks, of this many bytes, with no two equal lines.
fn text_of(length: usize) -> Vec<u8> {
    let lines = (0u64..).flat_map(|line| {
        format!("<li id=\"{line}\">{:x}</li>\n", line.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
    });
    lines.take(length).collect()
}

/// A server of `tree` whose site has these keys.
fn site(tree: &Tree, keys: &str) -> Server {
    sections_and_site(tree, "", keys)
}

fn sections_and_site(tree: &Tree, sections: &str, keys: &str) -> Server {
    Server::configured(tree.around(), &format!("{}{keys}\n", tree.configuration(sections)))
}

/// GET, or another method, with these field lines (each with its CRLF) on a kept connection.
fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Response {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let to = if method == "HEAD" { AnswerTo::Head } else { AnswerTo::Other };
    client.try_answer(to).unwrap_or_else(|broken| panic!("{method} {target}: {broken}"))
}

fn get(client: &mut Client, target: &str, accept_encoding: &str) -> Response {
    ask(client, "GET", target, &format!("Accept-Encoding: {accept_encoding}\r\n"))
}

fn decoded(answer: &Response) -> Vec<u8> {
    let mut plain = Vec::new();
    let body = &answer.body[..];
    match answer.field("content-encoding") {
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_end(&mut plain),
        Some("zstd") => zstd::stream::read::Decoder::new(body).unwrap().read_to_end(&mut plain),
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_end(&mut plain),
        None => return answer.body.clone(),
        Some(other) => panic!("Content-Encoding: {other}"),
    }
    .unwrap_or_else(|error| panic!("a body that cannot be decoded: {error}"));
    plain
}

/// Fails the test unless this is the file in this coding, with the fields that belong to it.
fn assert_coded(answer: &Response, coding: Option<&str>, file: &[u8], context: &str) {
    assert_eq!(answer.status, 200, "{context}");
    assert_eq!(answer.field("content-encoding"), coding, "{context}");
    assert_eq!(answer.field("content-length"), Some(&*answer.body.len().to_string()), "{context}");
    assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{context}");
    assert_eq!(answer.field("accept-ranges"), coding.is_none().then_some("bytes"), "{context}");
    assert!(decoded(answer) == file, "{context}: another body");
    if coding.is_some() {
        assert!(answer.body.len() < file.len(), "{context}: it has not shrunk");
    }
}

fn set_modified(tree: &Tree, name: &str, unix_seconds: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(unix_seconds);
    File::options().write(true).open(tree.file(name)).unwrap().set_modified(time).unwrap();
}

// ---- content codings

#[test]
fn every_coding_of_every_size_byte_for_byte() {
    let tree = Tree::empty();
    let sizes = [256, 257, 1_000, 6_250, 65_535, 65_536, 65_537, 300_000, 1 << 20];
    for size in sizes {
        tree.write(&format!("{size}.html"), text_of(size));
    }
    let server = site(&tree, "");
    let mut client = server.connect();
    for size in sizes {
        let (target, file) = (format!("/{size}.html"), text_of(size));
        let mut tags = BTreeSet::new();
        for (accept, coding) in [
            ("br", Some("br")),
            ("zstd", Some("zstd")),
            ("gzip", Some("gzip")),
            (BROWSER, Some("br")),
            ("", None),
        ] {
            let mut first: Option<Response> = None;
            // Made, from the cache, and without a body.
            for method in ["GET", "GET", "HEAD"] {
                let context = format!("{method} {target} {accept:?}");
                let answer = ask(&mut client, method, &target, &format!("Accept-Encoding: {accept}\r\n"));
                match &first {
                    None => {
                        assert_coded(&answer, coding, &file, &context);
                        tags.insert(answer.field("etag").unwrap().to_owned());
                        first = Some(answer);
                    }
                    Some(first) => {
                        let sorted = |answer: &Response| {
                            answer.fields_without_date().into_iter().collect::<BTreeSet<_>>()
                        };
                        assert_eq!(sorted(&answer), sorted(first), "{context}");
                        assert!(method == "HEAD" || answer.body == first.body, "{context}");
                    }
                }
            }
        }
        assert_eq!(tags.len(), 4, "each representation has a tag of its own: {tags:?}");
        // A client without Accept-Encoding gets the file as it is, with Vary.
        assert_coded(&ask(&mut client, "GET", &target, ""), None, &file, &target);
    }
}

#[test]
fn codings_over_http_1_0_pipelined_and_with_head_first() {
    let tree = Tree::empty();
    let file = text_of(20_000);
    tree.write("page.html", &file);
    let server = site(&tree, "");
    let mut client = server.connect();
    let head = ask(&mut client, "HEAD", "/page.html", "Accept-Encoding: br\r\n");
    assert_eq!(head.field("content-encoding"), Some("br"));
    let pipelined: String = ["br", "gzip", "zstd", "identity"]
        .iter()
        .map(|accept| format!("GET /page.html HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n"))
        .collect();
    for _ in 0..2 {
        client.send(&pipelined);
        for coding in [Some("br"), Some("gzip"), Some("zstd"), None] {
            assert_coded(&client.answer(), coding, &file, "pipelined");
        }
    }
    let mut old = server.connect();
    for _ in 0..2 {
        let answer =
            old.ask("GET /page.html HTTP/1.0\r\nConnection: keep-alive\r\nAccept-Encoding: gzip\r\n\r\n");
        assert_coded(&answer, Some("gzip"), &file, "HTTP/1.0");
        assert_eq!(answer.field("connection"), Some("keep-alive"));
    }
}

#[test]
fn what_is_not_coded() {
    let tree = Tree::empty();
    for name in ["a.png", "a.woff2", "a.zip", "noextension"] {
        tree.write(name, text_of(5_000));
    }
    tree.write("short.html", text_of(255));
    tree.write("noise.txt", bytes_of(5_000));
    tree.write("large.txt", text_of((1 << 20) + 1));
    let server = site(&tree, "");
    let mut client = server.connect();
    for name in ["a.png", "a.woff2", "a.zip", "noextension", "short.html", "large.txt"] {
        let file = fs::read(tree.file(name)).unwrap();
        for accept in [BROWSER, "gzip", "identity;q=0", "*;q=0"] {
            let answer = get(&mut client, &format!("/{name}"), accept);
            assert!(answer.status == 200 && answer.body == file, "{name} {accept}");
            assert_eq!(answer.field("content-encoding"), None, "{name}");
            assert_eq!(answer.field("vary"), None, "{name}: there is nothing to choose from");
        }
    }
    // The type usually shrinks, but this file does not.
    for _ in 0..2 {
        assert_coded(&get(&mut client, "/noise.txt", BROWSER), None, &bytes_of(5_000), "noise");
    }
}

#[test]
fn weights_and_the_order_of_the_site() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    tree.write("a.css", &file);
    for (keys, table) in [
        (
            "",
            &[
                (BROWSER, Some("br")),
                ("gzip, zstd", Some("zstd")),
                ("gzip;q=1.0, br;q=0.9", Some("gzip")),
                ("br;q=0, zstd;q=0, *", Some("gzip")),
                ("*", Some("br")),
                ("*;q=0.5, br;q=0.1", Some("zstd")),
                ("GZIP", Some("gzip")),
                ("x-gzip", Some("gzip")),
                ("gzip;q=0", None),
                ("identity", None),
                ("identity, gzip;q=0.5", None),
                ("deflate", None),
                ("gzip;q=nonsense", None),
                ("identity;q=0, gzip;q=0.001", Some("gzip")),
            ][..],
        ),
        (
            "compression = ['gzip', 'br']",
            &[(BROWSER, Some("gzip")), ("br", Some("br")), ("zstd", None), ("zstd, br;q=0.2", Some("br"))],
        ),
        (
            "compression = ['zstd']\ncompression_levels = { zstd = 1 }",
            &[(BROWSER, Some("zstd")), ("gzip", None)],
        ),
    ] {
        let server = site(&tree, keys);
        let mut client = server.connect();
        for (accept, coding) in table {
            for _ in 0..2 {
                assert_coded(
                    &get(&mut client, "/a.css", accept),
                    *coding,
                    &file,
                    &format!("{keys} {accept}"),
                );
            }
        }
        // Two field lines are one list.
        let answer =
            ask(&mut client, "GET", "/a.css", "Accept-Encoding: br;q=0\r\nAccept-Encoding: gzip, zstd\r\n");
        assert_ne!(answer.field("content-encoding"), Some("br"), "{keys}");
        assert!(decoded(&answer) == file);
    }
}

#[test]
fn compression_off() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    tree.write("a.css", &file);
    for (sections, keys) in
        [("", "compression = []"), ("[cache]\nenabled = false", ""), ("[cache]\nfile_bytes = 2999", "")]
    {
        let server = sections_and_site(&tree, sections, keys);
        let mut client = server.connect();
        for accept in [BROWSER, "identity;q=0"] {
            let answer = get(&mut client, "/a.css", accept);
            assert!(answer.status == 200 && answer.body == file, "{sections} {keys} {accept}");
            assert_eq!(answer.field("vary"), None, "{sections} {keys}");
        }
    }
}

#[test]
fn nothing_acceptable() {
    let tree = Tree::empty();
    tree.write("a.css", text_of(3_000));
    let server = site(&tree, "");
    let mut client = server.connect();
    for accept in ["identity;q=0", "*;q=0", "identity;q=0, deflate"] {
        for method in ["GET", "HEAD", "GET"] {
            let answer = ask(&mut client, method, "/a.css", &format!("Accept-Encoding: {accept}\r\n"));
            assert_eq!((answer.status, answer.field("vary")), (406, Some("Accept-Encoding")), "{accept}");
        }
    }
}

#[test]
fn curl_decodes_what_it_asks_for() {
    let tree = Tree::empty();
    let file = text_of(100_000);
    tree.write("page.html", &file);
    let server = site(&tree, "");
    let url = format!("http://{}/page.html", server.address());
    for _ in 0..3 {
        let Some(output) = curl(["--fail", "--compressed", &url]) else { return };
        assert!(output.stdout == file, "curl --compressed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let Some(output) = curl(["--compressed", "--output", "/dev/null", "--dump-header", "-", &url]) else {
        return;
    };
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("Content-Encoding: "),
        "curl asked for a coding"
    );
}

#[test]
fn conditions_are_about_the_representation_that_is_chosen() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    tree.write("a.css", &file);
    let server = site(&tree, "");
    let mut client = server.connect();
    let tag =
        |client: &mut Client, accept: &str| get(client, "/a.css", accept).field("etag").unwrap().to_owned();
    let (plain, brotli, gzip) = (tag(&mut client, ""), tag(&mut client, "br"), tag(&mut client, "gzip"));
    for (accept, own, others) in
        [("", &plain, [&brotli, &gzip]), ("br", &brotli, [&plain, &gzip]), ("gzip", &gzip, [&plain, &brotli])]
    {
        for method in ["GET", "HEAD"] {
            let conditional = |client: &mut Client, field: &str, tag: &str| {
                ask(client, method, "/a.css", &format!("Accept-Encoding: {accept}\r\n{field}: {tag}\r\n"))
            };
            let answer = conditional(&mut client, "If-None-Match", own);
            assert_eq!((answer.status, answer.field("etag")), (304, Some(&**own)), "{accept}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"), "{accept}");
            assert_eq!(answer.field("content-encoding"), None, "{accept}: there is no content");
            assert_eq!(conditional(&mut client, "If-Match", own).status, 200);
            for other in others {
                assert_eq!(conditional(&mut client, "If-None-Match", other).status, 200, "{accept} {other}");
                assert_eq!(conditional(&mut client, "If-Match", other).status, 412, "{accept} {other}");
            }
        }
    }
}

#[test]
fn ranges_are_of_the_file_as_it_is() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    tree.write("a.css", &file);
    let server = site(&tree, "");
    let mut client = server.connect();
    let plain = get(&mut client, "/a.css", "").field("etag").unwrap().to_owned();
    let coded = get(&mut client, "/a.css", BROWSER).field("etag").unwrap().to_owned();
    let range = |client: &mut Client, fields: &str| {
        ask(client, "GET", "/a.css", &format!("Range: bytes=10-19\r\n{fields}"))
    };
    let browser = format!("Accept-Encoding: {BROWSER}\r\n");
    for fields in [String::new(), browser.clone(), format!("{browser}If-Range: {plain}\r\n")] {
        let answer = range(&mut client, &fields);
        assert_eq!((answer.status, &answer.body[..]), (206, &file[10..20]), "{fields}");
        assert_eq!(answer.field("content-range"), Some("bytes 10-19/3000"));
        assert_eq!(answer.field("content-encoding"), None);
        assert_eq!(answer.field("etag"), Some(&*plain));
        assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
    }
    // A range of a coded body is not continued with bytes of the file: the tag does not match.
    assert_coded(&range(&mut client, &format!("{browser}If-Range: {coded}\r\n")), None, &file, "If-Range");
    // A client that refuses the identity coding gets the whole file.
    let answer = range(&mut client, "Accept-Encoding: br, identity;q=0\r\n");
    assert_coded(&answer, Some("br"), &file, "identity refused");
    // Range has no meaning in HEAD.
    let head = ask(&mut client, "HEAD", "/a.css", &format!("Range: bytes=0-0\r\n{browser}"));
    assert_eq!((head.status, head.field("content-encoding")), (200, Some("br")));
}

#[test]
fn a_change_is_seen_in_every_coding() {
    let tree = Tree::empty();
    tree.write("a.css", text_of(3_000));
    let server = site(&tree, "");
    let mut client = server.connect();
    for length in [3_000, 4_000, 80_000, 300] {
        fs::write(tree.beside("new"), text_of(length)).unwrap();
        fs::rename(tree.beside("new"), tree.file("a.css")).unwrap();
        for accept in [BROWSER, "gzip", "zstd", ""] {
            wait_until(&format!("{length} bytes as {accept:?}"), SEEN_WITHIN, || {
                let answer = get(&mut client, "/a.css", accept);
                answer.status == 200 && decoded(&answer) == text_of(length)
            });
        }
    }
    fs::remove_file(tree.file("a.css")).unwrap();
    wait_until("it is gone in every coding", SEEN_WITHIN, || get(&mut client, "/a.css", "br").status == 404);
}

#[test]
fn many_clients_at_once_all_get_the_file() {
    let tree = Tree::empty();
    let file = text_of(1 << 20);
    tree.write("a.js", &file);
    let server = site(&tree, "compression_levels = { br = 9 }");
    std::thread::scope(|scope| {
        for number in 0..16 {
            let (server, file) = (&server, &file);
            scope.spawn(move || {
                let mut client = server.connect();
                // Some clients accept only the coding, and have to wait for it.
                let accept = if number % 4 == 0 { "br, identity;q=0" } else { BROWSER };
                for _ in 0..3 {
                    let answer = get(&mut client, "/a.js", accept);
                    assert_eq!(answer.status, 200);
                    assert!(number % 4 != 0 || answer.field("content-encoding") == Some("br"));
                    assert!(decoded(&answer) == *file);
                }
            });
        }
    });
    let mut client = server.connect();
    assert_coded(&get(&mut client, "/a.js", BROWSER), Some("br"), &file, "afterwards");
}

#[test]
fn a_cache_that_is_too_small_still_gives_right_answers() {
    let tree = Tree::empty();
    for number in 0..20 {
        tree.write(&format!("{number}.css"), text_of(4_000 + number));
    }
    for cache in ["bytes = 30000", "files = 1", "files = 0"] {
        let server = sections_and_site(&tree, &format!("[cache]\n{cache}"), "");
        let mut client = server.connect();
        for step in 0..200usize {
            let number = step * step % 20;
            let accept = [BROWSER, "gzip", "", "zstd"][step % 4];
            let answer = get(&mut client, &format!("/{number}.css"), accept);
            assert!(answer.status == 200 && decoded(&answer) == text_of(4_000 + number), "{cache} {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_accept_encoding_gets_an_answer_that_can_be_read(
        values in proptest::collection::vec(
            prop_oneof![
                "[ -~]{0,40}",
                proptest::collection::vec("(br|zstd|gzip|identity|\\*|deflate)(;q=(0|1|0\\.[0-9]{1,3}))?", 0..5)
                    .prop_map(|members| members.join(", ")),
            ],
            40,
        )
    ) {
        let tree = Tree::empty();
        let file = text_of(2_000);
        tree.write("a.css", &file);
        let server = site(&tree, "");
        let mut client = server.connect();
        for value in values {
            let answer = get(&mut client, "/a.css", &value);
            prop_assert!(matches!(answer.status, 200 | 406), "{}: {}", value, answer.status);
            prop_assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            prop_assert!(answer.status == 406 || decoded(&answer) == file, "{}", value);
        }
    }
}

// ---- compressed files beside a file

#[test]
fn a_twin_is_sent_byte_for_byte() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    tree.write("a.css", &file);
    tree.write("dir/index.html", &file);
    // Not the output of an encoder: these bytes can only be from the files.
    for (name, body) in
        [("a.css.br", "the br twin"), ("a.css.gz", "the gz twin"), ("dir/index.html.zst", "the index")]
    {
        tree.write(name, body);
    }
    let server = site(&tree, "");
    let mut client = server.connect();
    let original = get(&mut client, "/a.css", "");
    for _ in 0..2 {
        for (target, accept, coding, body) in [
            ("/a.css", BROWSER, "br", "the br twin"),
            ("/a.css", "gzip", "gzip", "the gz twin"),
            // A compressed file beside the file is preferred to a coding that must be made, at equal weights.
            ("/a.css", "zstd, gzip", "gzip", "the gz twin"),
            ("/dir/", "br, zstd", "zstd", "the index"),
        ] {
            let answer = get(&mut client, target, accept);
            assert_eq!(answer.field("content-encoding"), Some(coding), "{target} {accept}");
            assert_eq!(answer.body, body.as_bytes(), "{target} {accept}");
            assert_eq!(answer.field("vary"), Some("Accept-Encoding"));
            assert_eq!(
                answer.field("content-type"),
                Some(if target == "/a.css" { "text/css" } else { "text/html" })
            );
        }
        // A coding without a file beside it is made.
        assert_coded(&get(&mut client, "/a.css", "zstd"), Some("zstd"), &file, "no twin");
    }
    assert_eq!(get(&mut client, "/a.css", "br").field("last-modified"), original.field("last-modified"));
    // The compressed file itself is served like other files.
    let direct = get(&mut client, "/a.css.br", "");
    assert_eq!(
        (direct.field("content-type"), &direct.body[..]),
        (Some("application/x-brotli"), &b"the br twin"[..])
    );
    // Without the key the server does not search for such files.
    let server = site(&tree, "precompressed = false\ncompression = []");
    let answer = get(&mut server.connect(), "/a.css", BROWSER);
    assert_eq!((answer.body == file, answer.field("vary")), (true, None));
}

#[test]
fn a_twin_that_is_older_or_leads_outside_is_not_used() {
    let tree = Tree::empty();
    let file = text_of(3_000);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for name in ["old.css", "same.css", "link.css"] {
        tree.write(name, &file);
        set_modified(&tree, name, now - 100);
    }
    for (name, modified) in [("old.css.br", now - 101), ("same.css.br", now - 100)] {
        tree.write(name, "twin");
        set_modified(&tree, name, modified);
    }
    fs::write(tree.beside("secret"), "secret").unwrap();
    symlink("../secret", tree.file("link.css.br")).unwrap();
    let server = site(&tree, "");
    let mut client = server.connect();
    assert_coded(&get(&mut client, "/old.css", "br"), Some("br"), &file, "older: made here instead");
    assert_eq!(get(&mut client, "/same.css", "br").body, b"twin");
    assert_coded(&get(&mut client, "/link.css", "br"), Some("br"), &file, "outside");
}

#[test]
fn changes_of_twins_are_seen() {
    let tree = Tree::empty();
    // A size that is cached and one that is not.
    for size in [3_000, (1 << 20) + 1] {
        let file = text_of(size);
        tree.write("a.css", &file);
        let server = site(&tree, "compression = []");
        let mut client = server.connect();
        let mut sees = |what: &str, body: &[u8], coding: Option<&str>| {
            wait_until(&format!("{size} bytes, {what}"), SEEN_WITHIN, || {
                let answer = get(&mut client, "/a.css", "br");
                let known = answer.field("content-encoding").is_some() || answer.body == file;
                assert!(answer.status == 200 && known, "{what}");
                answer.body == body && answer.field("content-encoding") == coding
            });
        };
        sees("no twin", &file, None);
        tree.write("a.css.br", "first");
        sees("a new twin", b"first", Some("br"));
        fs::write(tree.beside("new"), "second twin").unwrap();
        fs::rename(tree.beside("new"), tree.file("a.css.br")).unwrap();
        sees("another twin", b"second twin", Some("br"));
        set_modified(&tree, "a.css.br", 1_000_000_000);
        sees("a twin that became old", &file, None);
        fs::remove_file(tree.file("a.css.br")).unwrap();
        sees("no twin again", &file, None);
    }
}

#[test]
fn twins_of_files_that_are_not_cached() {
    let tree = Tree::empty();
    let file = text_of((1 << 20) + 1);
    tree.write("large.css", &file);
    tree.write("large.css.gz", "the gz twin");
    for sections in ["", "[cache]\nenabled = false"] {
        let server = sections_and_site(&tree, sections, "");
        let mut client = server.connect();
        let coded = get(&mut client, "/large.css", BROWSER);
        assert_eq!((coded.field("content-encoding"), &coded.body[..]), (Some("gzip"), &b"the gz twin"[..]));
        let plain = get(&mut client, "/large.css", "br");
        assert_coded(&plain, None, &file, sections);
        assert_ne!(plain.field("etag"), coded.field("etag"));
        let condition =
            format!("Accept-Encoding: gzip\r\nIf-None-Match: {}\r\n", coded.field("etag").unwrap());
        assert_eq!(ask(&mut client, "GET", "/large.css", &condition).status, 304);
        let range = ask(&mut client, "GET", "/large.css", "Accept-Encoding: gzip\r\nRange: bytes=5-9\r\n");
        assert_eq!((range.status, &range.body[..]), (206, &file[5..10]));
        assert_eq!(get(&mut client, "/large.css", "identity;q=0, br").status, 406);
    }
}

// ---- listings

fn listing_tree() -> Tree {
    let tree = Tree::empty();
    tree.write("files/b.txt", "bbb");
    tree.write("files/A.txt", text_of(2_000));
    tree.write("files/a & <b>'\"#?%:.txt", "odd");
    tree.write("files/\u{fc}.txt", "u");
    tree.write("files/.hidden", "hidden");
    tree.write("files/sub/inner.txt", "inner");
    tree.write("files/zoo/index.html", "<p>zoo\n");
    tree.write("indexed/index.html", "<p>index\n");
    fs::write(tree.file("files").join(std::ffi::OsStr::from_bytes(b"raw\xff.txt")), "raw").unwrap();
    fs::write(tree.beside("outside.txt"), "secret").unwrap();
    symlink("../../outside.txt", tree.file("files/escape.txt")).unwrap();
    symlink("b.txt", tree.file("files/link.txt")).unwrap();
    tree
}

/// The links of a page, in order, as a browser would read them.
fn links(page: &str) -> Vec<String> {
    let after = page.split("href=\"").skip(1);
    after
        .map(|rest| {
            rest.split('"')
                .next()
                .unwrap()
                .replace("&#39;", "'")
                .replace("&quot;", "\"")
                .replace("&amp;", "&")
        })
        .collect()
}

#[test]
fn a_page_whose_links_all_work() {
    let tree = listing_tree();
    let server = site(&tree, "listing = 'html'");
    let mut client = server.connect();
    let answer = ask(&mut client, "GET", "/files/", "Accept: application/json\r\n");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(answer.field("vary"), None);
    let page = String::from_utf8(answer.body.clone()).unwrap();
    assert!(page.contains("<title>Index of /files/</title>"), "{page}");
    let links = links(&page);
    let expected = [
        "../",
        "./sub/",
        "./zoo/",
        "./a%20&%20%3Cb%3E'%22%23%3F%25:.txt",
        "./A.txt",
        "./b.txt",
        "./link.txt",
        "./raw%FF.txt",
        "./%C3%BC.txt",
    ];
    assert_eq!(links, expected, "{page}");
    for link in &links[1..] {
        let target = link.replacen("./", "/files/", 1);
        assert_eq!(ask(&mut client, "GET", &target, "").status, 200, "{target}");
    }
    assert!(!page.contains("hidden") && !page.contains("escape") && !page.contains("<b>"), "{page}");
    let head = ask(&mut client, "HEAD", "/files/", "");
    assert_eq!(head.field("content-length"), answer.field("content-length"));
    // With an index file, without the slash, missing, and a link to a target outside the root.
    assert_eq!(ask(&mut client, "GET", "/indexed/", "").body, b"<p>index\n");
    assert_eq!(ask(&mut client, "GET", "/files", "").field("location"), Some("/files/"));
    assert_eq!(ask(&mut client, "GET", "/missing/", "").status, 404);
    symlink("../", tree.file("out")).unwrap();
    assert_eq!(ask(&mut client, "GET", "/out/", "").status, 403);
    // The root has no parent, and a new file is listed at once.
    let page = String::from_utf8(ask(&mut client, "GET", "/", "").body).unwrap();
    assert!(page.contains("./files/") && !page.contains("\"../\""), "{page}");
    tree.write("new.txt", "new");
    assert!(String::from_utf8(ask(&mut client, "GET", "/", "").body).unwrap().contains("./new.txt"));
}

#[test]
fn an_array_for_programs() {
    let tree = listing_tree();
    set_modified(&tree, "files/b.txt", 1_767_323_045);
    let server = site(&tree, "listing = 'json'");
    let mut client = server.connect();
    let answer = ask(&mut client, "GET", "/files/", "Accept: text/html\r\n");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/json")));
    let listing: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    let entries = listing.as_array().unwrap();
    assert_eq!(entries.len(), 8);
    let named = |name: &str| entries.iter().find(|entry| entry["name"] == name).unwrap();
    let expected = serde_json::json!({
        "name": "b.txt", "type": "file", "size": 3, "modified": "2026-01-02T03:04:05Z", "url": "./b.txt"
    });
    assert_eq!(*named("b.txt"), expected);
    assert_eq!(named("sub")["type"], "directory");
    for entry in entries {
        let target = entry["url"].as_str().unwrap().replacen("./", "/files/", 1);
        let answer = ask(&mut client, "GET", &target, "");
        assert_eq!(answer.status, 200, "{target}");
        if let Some(size) = entry["size"].as_u64() {
            assert_eq!(answer.body.len() as u64, size, "{target}");
        }
    }
}

#[test]
fn the_accept_field_chooses_the_form() {
    let tree = listing_tree();
    let server = site(&tree, "listing = 'auto'\nhidden_files = true");
    let mut client = server.connect();
    for (fields, content_type) in [
        ("", "text/html; charset=utf-8"),
        ("Accept: */*\r\n", "text/html; charset=utf-8"),
        ("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n", "text/html; charset=utf-8"),
        ("Accept: application/json\r\n", "application/json"),
        ("Accept: text/html;q=0.5, application/json\r\n", "application/json"),
    ] {
        let answer = ask(&mut client, "GET", "/files/", fields);
        assert_eq!((answer.status, answer.field("content-type")), (200, Some(content_type)), "{fields}");
        assert_eq!(answer.field("vary"), Some("Accept"));
        assert!(String::from_utf8(answer.body).unwrap().contains(".hidden"), "hidden_files = true");
    }
}

#[test]
fn listings_are_off_unless_asked_for_and_have_a_limit() {
    let tree = listing_tree();
    assert_eq!(Server::quick(&tree.root()).get("/files/").status, 403);
    let server = site(&tree, "listing = 'json'\nlisting_entries = 3");
    let answer = server.get("/files/");
    let listing: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((listing.as_array().unwrap().len(), answer.field("listing-truncated")), (3, Some("?1")));
    let answer = server.get("/files/sub/");
    assert_eq!(answer.field("listing-truncated"), None);
}

// ---- fallback

#[test]
fn the_fallback_answers_for_places_in_an_application() {
    let tree = Tree::empty();
    let application = text_of(2_000);
    tree.write("index.html", &application);
    tree.write("real.txt", "real");
    tree.write("empty/x.txt", "x");
    let server = site(&tree, "fallback = '/index.html'");
    let mut client = server.connect();
    for target in ["/users/42", "/users/", "/v1.2/page?q=1", "/a%20b"] {
        for fields in ["", "Accept: text/html\r\n", "Accept: */*\r\n"] {
            let answer = ask(&mut client, "GET", target, fields);
            assert!(answer.status == 200 && answer.body == application, "{target} {fields}");
            assert_eq!(answer.field("content-type"), Some("text/html"));
            assert_eq!(answer.field("vary"), Some("Accept-Encoding, Accept"));
        }
        let coded = ask(&mut client, "GET", target, &format!("Accept-Encoding: {BROWSER}\r\n"));
        assert!(coded.field("content-encoding") == Some("br") && decoded(&coded) == application, "{target}");
        let tag = coded.field("etag").unwrap();
        let condition = format!("Accept-Encoding: {BROWSER}\r\nIf-None-Match: {tag}\r\n");
        let answer = ask(&mut client, "GET", target, &condition);
        assert_eq!((answer.status, answer.field("vary")), (304, Some("Accept-Encoding, Accept")));
        assert_eq!(ask(&mut client, "HEAD", target, "").field("content-length"), Some("2000"));
        let refused = ask(&mut client, "GET", target, "Accept: application/json\r\n");
        assert_eq!((refused.status, refused.field("vary")), (404, Some("Accept")), "{target}");
        assert_eq!(ask(&mut client, "POST", target, "Content-Length: 0\r\n").status, 405);
    }
    for (target, status) in [
        ("/logo.png", 404),
        ("/real.txt/", 404),
        ("/.git/config", 404),
        ("/a%2Fb", 404),
        ("/empty/", 403),
        ("/real.txt", 200),
    ] {
        let answer = ask(&mut client, "GET", target, "");
        assert_eq!(answer.status, status, "{target}");
        assert!(answer.body != application, "{target}");
    }
    // A new file is served as soon as it exists.
    tree.write("users/42", "a file");
    wait_until("the new file", SEEN_WITHIN, || ask(&mut client, "GET", "/users/42", "").body == b"a file");
}

#[test]
fn a_fallback_that_is_missing_is_said_in_the_log() {
    let tree = Tree::empty();
    let server = site(&tree, "fallback = '/application.html'");
    assert_eq!(server.get("/somewhere").status, 404);
    server.wait_for_error_line("names the fallback", |line| {
        line.contains("the fallback \"/application.html\"")
    });
    // A fallback that is made later is used.
    tree.write("application.html", "now");
    wait_until("the fallback", SEEN_WITHIN, || server.get("/somewhere").body == b"now");
}

// ---- error pages

#[test]
fn error_pages_keep_the_status_and_its_fields() {
    let tree = Tree::empty();
    let page = text_of(4_000);
    tree.write("errors/404.html", &page);
    tree.write("errors/other.txt", "another page");
    tree.write("bare/file.txt", text_of(500));
    let other = "'/errors/other.txt'";
    let server = site(
        &tree,
        &format!(
            "error_pages = {{ 404 = '/errors/404.html', 403 = {other}, 405 = {other}, 416 = {other}, 406 = \
             {other}, 400 = {other}, 501 = {other} }}"
        ),
    );
    let mut client = server.connect();
    for _ in 0..2 {
        let answer = ask(&mut client, "GET", "/missing", "");
        assert!(answer.status == 404 && answer.body == page);
        assert_eq!((answer.field("content-type"), answer.field("etag")), (Some("text/html"), None));
        assert_eq!((answer.field("accept-ranges"), answer.field("last-modified")), (None, None));
        assert_eq!(ask(&mut client, "HEAD", "/missing", "").field("content-length"), Some("4000"));
        let coded = get(&mut client, "/missing", BROWSER);
        assert!(
            coded.status == 404 && coded.field("content-encoding") == Some("br") && decoded(&coded) == page
        );
        assert_eq!(coded.field("vary"), Some("Accept-Encoding"));
        // Neither conditions nor ranges apply to an error page.
        let fields = "If-None-Match: *\r\nRange: bytes=0-0\r\n";
        let answer = ask(&mut client, "GET", "/missing", fields);
        assert!(answer.status == 404 && answer.body == page);
    }
    for (method, target, fields, status) in [
        ("GET", "/bare/", "", 403),
        ("DELETE", "/missing", "", 405),
        ("GET", "/bare/file.txt", "Range: bytes=9000-\r\n", 416),
        ("GET", "/bare/file.txt", "Accept-Encoding: *;q=0\r\n", 406),
        ("BREW", "/missing", "", 501),
        ("GET", "/%00", "", 400),
    ] {
        let answer = ask(&mut client, method, target, fields);
        assert_eq!((answer.status, &answer.body[..]), (status, &b"another page"[..]), "{method} {target}");
        assert_eq!(answer.field("content-type"), Some("text/plain"), "{method} {target}");
        match status {
            405 => assert_eq!(answer.field("allow"), Some("GET, HEAD, OPTIONS")),
            416 => assert_eq!(answer.field("content-range"), Some("bytes */500")),
            406 => assert_eq!(answer.field("vary"), Some("Accept-Encoding")),
            _ => {}
        }
    }
    // Under its own name it is a page like others; a change of it is seen.
    assert_eq!(ask(&mut client, "GET", "/errors/404.html", "").status, 200);
    tree.write("errors/404.html", "changed");
    wait_until("the page's change", SEEN_WITHIN, || {
        let answer = ask(&mut client, "GET", "/missing", "");
        assert_eq!(answer.status, 404);
        answer.body == b"changed"
    });
    // Redirects and similar answers are not errors.
    assert_eq!(ask(&mut client, "GET", "/bare", "").status, 301);
}

#[test]
fn a_missing_error_page_is_no_new_error() {
    let tree = Tree::empty();
    fs::create_dir(tree.file("directory")).unwrap();
    let server = site(&tree, "error_pages = { 404 = '/errors/404.html', 403 = '/directory' }");
    for (target, status) in [("/missing", 404), ("/", 403)] {
        let answer = server.get(target);
        assert_eq!(answer.status, status, "{target}");
        assert!(
            String::from_utf8(answer.body.clone()).unwrap().contains(&status.to_string()),
            "the built-in page"
        );
        assert_eq!(answer.field("location"), None);
    }
    server.wait_for_error_line("names the page", |line| line.contains("the error page \"/"));
}

#[test]
fn hidden_pages_are_for_the_configuration_alone() {
    let tree = Tree::empty();
    tree.write(".pages/404.html", "hidden page");
    tree.write(".pages/application.html", "hidden application");
    let server =
        site(&tree, "error_pages = { 404 = '/.pages/404.html' }\nfallback = '/.pages/application.html'");
    let mut client = server.connect();
    for _ in 0..2 {
        assert_eq!(ask(&mut client, "GET", "/missing.png", "").body, b"hidden page");
        assert_eq!(ask(&mut client, "GET", "/missing", "").body, b"hidden application");
        // The page is in the cache by now, and still not served under its name.
        for target in ["/.pages/404.html", "/.pages/application.html", "page%20/.pages/404.html"] {
            let answer = ask(&mut client, "GET", &format!("/{}", target.trim_start_matches('/')), "");
            assert_eq!((answer.status, &answer.body[..]), (404, &b"hidden page"[..]), "{target}");
        }
    }
}

// ---- fields of the site

#[test]
fn every_answer_has_the_fields_of_its_site() {
    let tree = Tree::standard();
    let root = tree.root();
    let text = format!(
        "[[site]]\nhosts = ['a']\nlisten = ['127.0.0.1:0']\nroot = {root:?}\nlisting = 'html'\n\
         error_pages = {{ 404 = '/page.html' }}\n\
         headers = {{ X-Frame-Options = 'DENY', Content-Security-Policy = \"default-src 'self'\", Vary = \
         'Origin' }}\n"
    );
    let server = Server::configured(tree.around(), &text);
    let mut client = server.connect();
    let numbers = ask(&mut client, "GET", "/numbers.txt", "").field("etag").unwrap().to_owned();
    for (method, target, fields, status) in [
        ("GET", "/alphabet.txt", "", 200),
        ("GET", "/alphabet.txt", "", 200),
        ("HEAD", "/alphabet.txt", "", 200),
        ("GET", "/numbers.txt", "Accept-Encoding: gzip\r\n", 200),
        ("GET", "/numbers.txt", "Accept-Encoding: gzip\r\n", 200),
        ("GET", "/numbers.txt", &format!("If-None-Match: {numbers}\r\n"), 304),
        ("GET", "/numbers.txt", "Range: bytes=0-9\r\n", 206),
        ("GET", "/numbers.txt", "Range: bytes=90000-\r\n", 416),
        ("GET", "/missing", "", 404),
        ("GET", "/%00", "", 400),
        ("GET", "/dir", "", 301),
        ("GET", "/bare/", "", 200),
        ("DELETE", "/alphabet.txt", "", 405),
        ("OPTIONS", "/alphabet.txt", "", 204),
    ] {
        let answer = ask(&mut client, method, target, fields);
        assert_eq!(answer.status, status, "{method} {target}");
        assert_eq!(answer.field("x-frame-options"), Some("DENY"), "{method} {target} {status}");
        assert_eq!(answer.field("content-security-policy"), Some("default-src 'self'"), "{method} {target}");
        assert!(answer.values("vary").any(|value| value == "Origin"), "{method} {target}");
    }
}

#[test]
fn a_reload_changes_what_a_site_adds() {
    let tree = Tree::standard();
    let with = |keys: &str| format!("{}{keys}\n", tree.configuration(""));
    let server = Server::configured(tree.around(), &with("headers = { X-Version = 'one' }"));
    let mut client = server.connect();
    assert_eq!(get(&mut client, "/numbers.txt", BROWSER).field("x-version"), Some("one"));
    fs::write(
        tree.around().join("touchstone.toml"),
        with("headers = { X-Version = 'two' }\ncompression = ['gzip']"),
    )
    .unwrap();
    server.signal(Signal::HUP);
    wait_until("the new configuration", Duration::from_secs(60), || {
        let answer = get(&mut client, "/numbers.txt", BROWSER);
        let state = (answer.field("x-version"), answer.field("content-encoding"));
        assert!(matches!(state, (Some("one"), Some("br")) | (Some("two"), Some("gzip"))), "{state:?}");
        state.0 == Some("two")
    });
}

#[test]
fn fields_that_would_break_answers_are_refused() {
    let tree = Tree::standard();
    for (keys, message) in [
        ("headers = { Content-Length = '5' }", "'headers': the server itself sets \"Content-Length\""),
        (
            "headers = { transfer-encoding = 'chunked' }",
            "'headers': the server itself sets \"transfer-encoding\"",
        ),
        (
            "headers = { X = \"a\\r\\nY: b\" }",
            "'headers': \"a\\r\\nY: b\" holds a control character, which a header value must not",
        ),
        (
            "error_pages = { 404 = '/../x' }",
            "'error_pages': \"/../x\" is not the path of a file; write it like \"/errors/404.html\"",
        ),
    ] {
        let path = tree.beside("bad.toml");
        fs::write(&path, format!("{}{keys}\n", tree.configuration(""))).unwrap();
        let output = run([std::ffi::OsStr::new("check"), "--config".as_ref(), path.as_os_str()]);
        assert_eq!(output.status.code(), Some(1), "{keys}");
        let said =
            [String::from_utf8_lossy(&output.stdout).into_owned(), error_lines(&output).join("\n")].concat();
        assert!(said.contains(message), "{keys}: {said}");
    }
}
