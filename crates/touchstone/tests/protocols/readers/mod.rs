//! What a rule denies cannot be reached by writing its path in another way: raw request targets, written by
//! hand, generated and mutated, go through every interface and every version of HTTP, and what arrives is
//! read by the parsers of others. The same for the lengths of bodies ([`framing`]).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod framing;
mod http2;
mod parsers;
mod recorders;
mod targets;

use std::io::Write;

use crate::http3::client as http3;
use crate::support::{Client, Origin, Server, Tree, read_head};
use http2::{End, Http2, Request};
use recorders::Recorder;
use serde_json::json;

/// A server that denies `/admin/`, and passes all other paths to `way`.
fn server(tree: &Tree, site: &str, way: &str) -> Server {
    let denied = "deny = [\"0.0.0.0/0\", \"::/0\"]";
    let routes = format!(
        "{site}\n[[site.route]]\npath = \"/admin/\"\n{denied}\n{way}\n[[site.route]]\npath = \"/\"\n{way}\n"
    );
    Server::configured(tree.around(), &format!("{}{routes}", tree.configuration("")))
}

/// An origin that answers with the target of the request.
fn echo() -> Origin {
    Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let target = head.split(' ').nth(1).unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{target}", target.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    })
}

/// What arrived behind the server for each target that was passed on: the target, and what the program read.
fn passed(server: &Server, targets: &[Vec<u8>]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut client: Option<Client> = None;
    let mut passed = Vec::new();
    for target in targets {
        let kept = client.get_or_insert_with(|| server.connect());
        let answer = kept.ask([b"GET ", &target[..], b" HTTP/1.1\r\nHost: a\r\n\r\n"].concat());
        if answer.field("connection") == Some("close") {
            client = None;
        }
        match answer.status {
            200 => passed.push((target.clone(), answer.body)),
            301 | 400 | 403 | 404 => {}
            status => panic!("{status}: {}", target.escape_ascii()),
        }
    }
    passed
}

/// The path that a reader gets never leads into the denied part.
fn assert_nothing_denied_is_reached(passed: &[(Vec<u8>, Vec<u8>)], inside: &str) {
    let arrived: Vec<Vec<u8>> = passed.iter().map(|(_, arrived)| arrived.clone()).collect();
    for (reader, paths) in parsers::all(&arrived) {
        for ((target, arrived), path) in passed.iter().zip(paths) {
            for reading in parsers::readings(path.as_deref()) {
                let is_bad = match inside {
                    "" => reading.starts_with("/admin/"),
                    inside => !reading.starts_with(inside),
                };
                assert!(
                    !is_bad,
                    "{reader} reads {reading:?} of {}, which was {}",
                    arrived.escape_ascii(),
                    target.escape_ascii()
                );
            }
        }
    }
}

#[test]
fn an_origin_is_asked_for_nothing_that_is_denied() {
    let origin = echo();
    let tree = Tree::standard();
    let way = format!("proxy = {{ to = \"http://{}\" }}", origin.address);
    for (site, generated) in [("", 2500), ("merge_slashes = false", 800), ("refuse_escapes = true", 300)] {
        let targets = targets::all(generated);
        let passed = passed(&server(&tree, site, &way), &targets);
        assert!(passed.len() > targets.len() / 10, "{site}: only {} of {}", passed.len(), targets.len());
        assert_nothing_denied_is_reached(&passed, "");
    }
}

#[test]
fn nothing_above_a_base_path_is_asked_for() {
    let origin = echo();
    let tree = Tree::standard();
    let way = format!("proxy = {{ to = \"http://{}/base/\" }}", origin.address);
    let passed = passed(&server(&tree, "", &way), &targets::all(600));
    assert_nothing_denied_is_reached(&passed, "/base/");
}

#[test]
fn a_rewritten_path_is_judged_again() {
    let origin = echo();
    let tree = Tree::standard();
    let way = format!("proxy = {{ to = \"http://{}\" }}", origin.address);
    let site = "[[site.route]]\npattern = \"/go/(.*)\"\nrewrite = { to = \"/$1\" }\n";
    let server = server(&tree, site, &way);
    let mut targets = Vec::new();
    for target in targets::all(600) {
        targets.push([b"/go", &target[..]].concat());
    }
    assert_nothing_denied_is_reached(&passed(&server, &targets), "");
    let arrives = |target: &str| {
        let answer = server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        (answer.status, String::from_utf8(answer.body).unwrap())
    };
    assert_eq!(arrives("/go/a%2Fb?c=d"), (200, "/a%2Fb?c=d".to_string()));
    for denied in ["/go/admin/x", "/go/%2Fadmin/x", "/go/admin%2Fx", "/go/admin;a/x", "/go/x/..%2Fadmin/x"] {
        assert!(matches!(arrives(denied).0, 400 | 403 | 404), "{denied}");
    }
}

/// What reached the program of each target.
fn recorded(recorder: &Recorder, targets: Vec<Vec<u8>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let arrived = recorder.take().into_iter().map(|request| request.target);
    targets.into_iter().zip(arrived).collect()
}

#[test]
fn programs_of_every_interface_are_told_what_was_judged() {
    let tree = Tree::standard();
    let targets = targets::all(600);
    let mut all = Vec::new();
    for recorder in Recorder::all(&tree) {
        let server = server(&tree, "", &recorder.way);
        let passed = passed(&server, &targets).into_iter().map(|(target, _)| target).collect::<Vec<_>>();
        assert!(passed.len() > targets.len() / 10, "{}: only {}", recorder.name, passed.len());
        all.extend(read_by_others(&recorder, recorded(&recorder, passed)));
    }
    assert_nothing_denied_is_reached(&all, "");
}

/// The input of the other parsers. Two interfaces define how their programs read a path: functions of NSAPI
/// get a path that is decoded once, and a container removes parameters before it decodes.
fn read_by_others(recorder: &Recorder, passed: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let read = match recorder.name {
        "NSAPI" => |arrived: &[u8]| parsers::readings(Some(arrived)),
        "AJP" => parsers::readings_of_container,
        _ => return passed,
    };
    for (target, arrived) in passed {
        for reading in read(&arrived) {
            let is_denied = reading.starts_with("/admin/");
            assert!(!is_denied, "{} is {reading:?} to {}", target.escape_ascii(), recorder.name);
        }
    }
    Vec::new()
}

#[test]
fn cgi_programs_are_told_what_was_judged() {
    let tree = Tree::empty();
    let recorder = Recorder::cgi(&tree);
    let routes = "[[site.route]]\npath = \"/p/admin/\"\ndeny = [\"0.0.0.0/0\"]\ncgi = {}\n\
                  [[site.route]]\npath = \"/p/\"\ncgi = {}\n";
    let server = Server::configured(tree.around(), &(tree.configuration("") + routes));
    let targets: Vec<Vec<u8>> =
        targets::all(300).iter().map(|target| [b"/p", &target[..]].concat()).collect();
    let passed = passed(&server, &targets).into_iter().map(|(target, _)| target).collect::<Vec<_>>();
    assert!(passed.len() > 30, "{}", passed.len());
    let mut passed = recorded(&recorder, passed);
    passed.iter_mut().for_each(|(_, arrived)| {
        *arrived = arrived.strip_prefix(b"/p").unwrap().to_vec();
    });
    passed.retain(|(_, arrived)| !arrived.is_empty());
    assert_nothing_denied_is_reached(&passed, "");
}

#[test]
fn http_2_targets_are_judged_alike() {
    let tree = Tree::standard();
    let targets = targets::all(1200);
    let mut all = Vec::new();
    for recorder in Recorder::all(&tree) {
        let server = server(&tree, "", &recorder.way);
        let mut client = None;
        let mut passed = Vec::new();
        for target in &targets {
            let kept = client.get_or_insert_with(|| Http2::connect(server.address()));
            let fields: http2::Lines<'_> =
                vec![(b":method", b"GET"), (b":scheme", b"http"), (b":authority", b"a"), (b":path", target)];
            let request = Request { fields, data: Vec::new(), trailers: Vec::new(), end: End::Stream };
            match kept.ask(&request).map(|(status, _)| status) {
                Some(200) => passed.push(target.clone()),
                Some(301 | 400 | 403 | 404) => {}
                None => client = None,
                Some(status) => panic!("{status}: {}", target.escape_ascii()),
            }
        }
        assert!(passed.len() > targets.len() / 10, "{}: only {}", recorder.name, passed.len());
        all.extend(read_by_others(&recorder, recorded(&recorder, passed)));
    }
    assert_nothing_denied_is_reached(&all, "");
}

#[test]
fn http_3_targets_are_judged_alike() {
    let Some(mut client) = http3::Client::start() else { return };
    let tree = Tree::standard();
    let targets: Vec<Vec<u8>> = targets::all(600).into_iter().filter(|target| target.is_ascii()).collect();
    let mut all = Vec::new();
    for recorder in Recorder::all(&tree) {
        let secure = "http3 = true\ndevelopment_certificate = true";
        let server = server(&tree, secure, &recorder.way);
        client.connect(recorder.name, &server);
        let mut passed = Vec::new();
        for target in &targets {
            let path = std::str::from_utf8(target).unwrap();
            let answers = client.requests(recorder.name, json!([{ "path": path }]));
            match answers[0].status() {
                200 => passed.push(target.clone()),
                // 0: the stream was reset.
                0 | 301 | 400 | 403 | 404 => {}
                status => panic!("{status}: {path}"),
            }
        }
        assert!(passed.len() > targets.len() / 10, "{}: only {}", recorder.name, passed.len());
        all.extend(read_by_others(&recorder, recorded(&recorder, passed)));
    }
    assert_nothing_denied_is_reached(&all, "");
}

#[test]
fn legal_paths_arrive_as_they_mean() {
    let origin = echo();
    let tree = Tree::standard();
    let way = format!("proxy = {{ to = \"http://{}\" }}", origin.address);
    let table = [
        ("/a%2Fb", "/a%2Fb"),
        ("/@scope%2fname", "/@scope%2Fname"),
        ("/api/queues/%2F/name", "/api/queues/%2F/name"),
        ("/x%09%0A%0Dy", "/x%09%0A%0Dy"),
        ("/a;b=c?d;e", "/a;b=c?d;e"),
        ("/caf%c3%a9/%7Euser", "/caf%C3%A9/~user"),
        ("/a%25%32f", "/a%252f"),
        ("/?q=..%2f..\\x//", "/?q=..%2f..\\x//"),
        ("http://a/b//c%2fd", "/b/c%2Fd"),
        ("/a/../b//c", "/b/c"),
    ];
    let usual = server(&tree, "", &way);
    for (target, arrives) in table {
        let answer = usual.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((answer.status, String::from_utf8(answer.body).unwrap()), (200, arrives.to_string()));
    }
    let status = |server: &Server, target: &str| {
        server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).status
    };
    for (target, expected) in
        [("/admin%2Fx", 400), ("/admin;x/y", 400), ("/admin\\x", 400), ("/admin/%2F", 403)]
    {
        assert_eq!(status(&usual, target), expected, "{target}");
    }
    let refusing = server(&tree, "refuse_escapes = true", &way);
    assert_eq!((status(&refusing, "/a%2Fb"), status(&refusing, "/a%09b")), (404, 400));
    let keeping = server(&tree, "merge_slashes = false", &way);
    let answer = keeping.connect().ask("GET /a//b///c HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"/a//b///c"[..]));
    for target in ["//a", "/a//../b", "/a/./b//c"] {
        assert_eq!(status(&keeping, target), 400, "{target}");
    }
}
