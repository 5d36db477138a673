//! Pages of one visitor are sent only to that visitor: responses to requests with credentials, cookies that
//! the origin sets, and failures that one request has caused.

use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use crate::accelerator::origin::{Origin, answer};
use crate::accelerator::{get, text};
use crate::support::{AnswerTo, Response, Server, Tree, wait_until};

const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
const VISITORS: [&str; 4] = ["ada", "bob", "cyd", "dan"];

fn visitor(name: &str) -> String {
    format!("Cookie: user={name}\r\n")
}

/// An origin whose pages name the visitor that they were made for. After the first one, requests for `/all`
/// are answered when those of all visitors have arrived.
fn personal(fields: &'static str) -> Origin {
    let barrier = Arc::new(Barrier::new(VISITORS.len()));
    Origin::start(move |asked, stream| {
        if asked.target == "/all" && asked.count > 1 {
            barrier.wait();
        }
        let name = asked.field("cookie").or(asked.field("authorization")).unwrap_or("nobody");
        let status = if asked.target == "/failing" && asked.count > 1 { 500 } else { 200 };
        answer(stream, status, fields, &format!("page of {name}"));
    })
}

#[test]
fn pages_with_a_validator_alone_go_to_no_other_visitor() {
    for fields in ["ETag: \"v\"\r\n", MODIFIED, "Cache-Control: max-age=0\r\nETag: \"v\"\r\n"] {
        let origin = personal(fields);
        let server = Server::accelerating(origin.address, &["--cores", "2"]);
        for target in ["/all", "/stale", "/failing"] {
            assert_eq!(text(&get(&server, target, &visitor("eve"))), "page of user=eve");
        }
        thread::scope(|scope| {
            for name in VISITORS {
                let server = &server;
                scope.spawn(move || {
                    let page = get(server, "/all", &visitor(name));
                    assert_eq!(text(&page), format!("page of user={name}"), "{fields}");
                });
            }
        });
        for (cookie, expected) in [(visitor("ada"), "page of user=ada"), (String::new(), "page of nobody")] {
            let page = get(&server, "/stale", &format!("{cookie}Cache-Control: max-stale\r\n"));
            assert_eq!(text(&page), expected, "{fields}");
            let failed = get(&server, "/failing", &format!("{cookie}Cache-Control: stale-if-error=600\r\n"));
            assert_eq!((failed.status, text(&failed)), (500, expected.to_string()), "{fields}");
        }
    }
}

#[test]
fn pages_for_authorization_are_shared_by_no_lifetime_of_their_own() {
    let origin = personal("Cache-Control: max-age=600\r\nETag: \"v\"\r\n");
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    for name in ["Basic YTph", "Basic Yjpi", "Basic YTph"] {
        let page = get(&server, "/a", &format!("Authorization: {name}\r\nCache-Control: max-stale\r\n"));
        assert_eq!(text(&page), format!("page of {name}"));
    }
    assert_eq!(text(&get(&server, "/a", "")), "page of nobody");
    assert_eq!(origin.count("/a"), 4);
}

#[test]
fn pages_are_shared_when_the_origin_says_so() {
    for (fields, credentials) in [
        ("Cache-Control: public, max-age=600\r\n", ["Cookie: a=1\r\n", "Authorization: Basic YTph\r\n"]),
        ("Cache-Control: s-maxage=600\r\n", ["Cookie: a=1\r\n", "Authorization: Basic YTph\r\n"]),
        ("Cache-Control: max-age=600\r\n", ["Cookie: a=1\r\n", "Cookie: a=2\r\n"]),
    ] {
        let origin = personal(fields);
        let server = Server::accelerating(origin.address, &["--cores", "1"]);
        for more in [credentials[0], credentials[1], ""] {
            assert_eq!(text(&get(&server, "/a", more)), "page of a=1", "{fields}");
        }
        assert_eq!(origin.count("/a"), 1, "{fields}");
    }
}

#[test]
fn responses_that_set_cookies_are_not_stored() {
    let (origin, server) =
        crate::accelerator::counting("Cache-Control: max-age=600\r\nSet-Cookie: session=1\r\n");
    for count in 1..=2 {
        let page = get(&server, "/a", "");
        assert_eq!((text(&page), page.field("set-cookie")), (format!("/a {count}"), Some("session=1")));
    }
    assert_eq!(origin.count("/a"), 2);
}

fn head(server: &Server, fields: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("HEAD /a HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.try_answer(AnswerTo::Head).unwrap()
}

/// The second and the third request are answered with fields of one visitor: a 304, and an answer to HEAD.
#[test]
fn cookies_of_a_304_and_of_head_are_not_stored() {
    let own = "Set-Cookie: session=1\r\nX-User: eve\r\n";
    for settings in ["", "ignore_cookies = true", "set_cookie = \"remove\""] {
        let origin = Origin::start(move |asked, stream| {
            let said = "Cache-Control: max-age=0, private=\"X-User\"\r\nETag: \"v\"\r\n";
            let own = if matches!(asked.count, 2 | 3) { own } else { "" };
            let status = if asked.field("if-none-match").is_some() { 304 } else { 200 };
            answer(stream, status, &format!("{said}{own}"), if status == 304 { "" } else { "body" });
        });
        let tree = Tree::standard();
        let route = format!(
            "[[site.route]]\nproxy = {{ to = \"http://{}\" }}\ncache = {{ {settings} }}\n",
            origin.address
        );
        let server = Server::configured(tree.around(), &format!("{}{route}", tree.configuration("")));
        assert_eq!(text(&get(&server, "/a", "")), "body");
        get(&server, "/a", "");
        head(&server, "");
        for directives in ["max-age=600", "max-stale", "only-if-cached, max-stale"] {
            let page = get(&server, "/a", &format!("Cache-Control: {directives}\r\n"));
            assert_eq!((page.status, text(&page)), (200, "body".to_string()), "{settings} {directives}");
            let given = (page.field("set-cookie"), page.field("x-user"));
            assert_eq!(given, (None, None), "{settings} {directives}");
        }
    }
}

#[test]
fn a_failed_fetch_fails_only_the_request_that_caused_it() {
    let (to_origin, from_test) = channel::<()>();
    let from_test = Mutex::new(from_test);
    let origin = Origin::start(move |asked, stream| {
        if asked.field("x-bad").is_none() {
            return answer(stream, 200, crate::accelerator::FRESH, "good");
        }
        from_test.lock().unwrap().recv().unwrap();
        answer(stream, 500, "", "bad");
    });
    let server = Server::accelerating(origin.address, &["--cores", "1"]);
    let mut first = server.connect();
    first.send("GET /a HTTP/1.1\r\nHost: a\r\nX-Bad: 1\r\n\r\n");
    wait_until("the origin is asked", Duration::from_secs(60), || origin.count("/a") == 1);
    let mut second = server.connect();
    second.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    // The second is waiting once the server, which has one core, has answered a request that arrived later.
    let missing = server.connect().ask("GET /b HTTP/1.1\r\nHost: a\r\nCache-Control: only-if-cached\r\n\r\n");
    assert_eq!(missing.status, 504);
    assert!(missing.field("cache-status").is_some());
    to_origin.send(()).unwrap();
    assert_eq!(text(&first.answer()), "bad");
    assert_eq!(text(&second.answer()), "good");
    assert_eq!(origin.count("/a"), 2);
}
