//! WSGI (PEP 3333).

use super::*;

#[test]
fn answers_of_every_form_are_whole() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1");
    for (target, body) in [
        ("/hello", "hello".to_string()),
        ("/write", "written returned".to_string()),
        ("/pieces", format!("a{}c", "b".repeat(100_000))),
        ("/file", "f".repeat(300_000)),
        ("/memory-file", "m".repeat(100_000)),
        ("/large?1000000", "\0".repeat(1_000_000)),
    ] {
        let text = running.text(target);
        assert!(text == body, "{target}: {} bytes", text.len());
    }
    running
        .server
        .wait_for_error_line("tells of the closed body", |line| line.contains("the body was closed"));
    let response = running.get("/status");
    assert_eq!((response.status, response.reason.as_str()), (404, "Gone fishing"));
    let response = running.get("/exc-info");
    assert_eq!(response.status, 503);
    assert_eq!((response.field("X-First"), response.field("X-Second")), (None, Some("2")));
    let response = running.get("/hop");
    assert_eq!((response.status, response.field("X-A")), (200, Some("b")));
    assert_eq!(running.text("/print"), "set");
    running
        .server
        .wait_for_error_line("has what is printed", |line| line.contains("printed by the application"));
    running.server.wait_for_error_line("has its errors", |line| line.contains("an error of the application"));
}

#[test]
fn many_requests_on_kept_connections() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1");
    running.server.assert_serves_many("/hello", "each has its own answer");
}

#[test]
fn an_application_is_told_of_its_request() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1\nthreads = 1\nscript_name = \"/shop\"");
    let mut client = running.server.connect();
    let response = client.ask(
        "GET /shop/environ?a=b%20c HTTP/1.1\r\nHost: shop.example:81\r\nX-Two: 1\r\nX-Two: 2\r\nX_Two: 3\r\n\
         Cookie: a=1\r\nCookie: b=2\r\nContent-Type: text/x\r\nProxy: evil\r\n\r\n",
    );
    let text = String::from_utf8_lossy(&response.body).into_owned();
    for line in [
        "PATH_INFO='/environ'",
        "SCRIPT_NAME='/shop'",
        "QUERY_STRING='a=b%20c'",
        "REQUEST_METHOD='GET'",
        "SERVER_NAME='shop.example'",
        "SERVER_PORT='81'",
        "SERVER_PROTOCOL='HTTP/1.1'",
        "REMOTE_ADDR='127.0.0.1'",
        "CONTENT_TYPE='text/x'",
        "HTTP_X_TWO='1, 2'",
        "HTTP_COOKIE='a=1; b=2'",
        "wsgi.url_scheme='http'",
        "wsgi.version=(1, 0)",
        "wsgi.multithread=False",
        "wsgi.multiprocess=False",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("HTTP_PROXY") && !text.contains("evil"), "{text}");
}

#[test]
fn bodies_of_requests_are_read() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1");
    for (target, body, expected) in [
        ("/echo", &b"a body"[..], "b'a body'"),
        ("/echo", b"", "b''"),
        ("/lines", b"one\ntwo\nthree", "[b'one\\n', b'two', [b'\\n', b'three']]"),
    ] {
        let response = running.post(target, body);
        assert_eq!(String::from_utf8_lossy(&response.body), expected, "{target}");
    }
    let response = running.post("/length", &vec![b'x'; 900_000]);
    assert_eq!(String::from_utf8_lossy(&response.body), "900000");
    // In chunks, and after `100 Continue`.
    let mut client = running.server.connect();
    let response = client.ask(
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
    );
    assert_eq!(String::from_utf8_lossy(&response.body), "b'abcde'");
    if let Some(output) = curl([
        "-H",
        "Expect: 100-continue",
        "--data-binary",
        "asked",
        &format!("http://{}/echo", running.server.address()),
    ]) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "b'asked'");
    }
}

#[test]
fn the_validator_of_the_standard_library_finds_nothing() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:validated", "workers = 1");
    assert_eq!(running.text("/"), "valid ");
    let response = running.post("/", b"0123456789");
    assert_eq!(
        (response.status, String::from_utf8_lossy(&response.body).as_ref()),
        (200, "valid 0123456789")
    );
}

#[test]
fn a_factory_makes_the_application_and_head_has_no_body() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:make", "workers = 1\nfactory = true");
    assert_eq!(running.text("/hello"), "hello");
    let mut client = running.server.connect();
    client.send("HEAD /large?70000 HTTP/1.1\r\nHost: a\r\n\r\n");
    let response = client.try_answer(crate::support::AnswerTo::Head).expect("a head");
    assert_eq!((response.status, response.field("Content-Length")), (200, Some("70000")));
    assert_eq!(client.ask("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").body, b"hello");
}

#[test]
fn requests_that_wait_are_taken_by_more_threads() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1\nthreads = 4");
    let threads: Vec<String> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..4).map(|_| scope.spawn(|| running.text("/thread"))).collect();
        asked.into_iter().map(|asked| asked.join().expect("it is answered")).collect()
    });
    let different: std::collections::HashSet<_> = threads.iter().collect();
    assert!(different.len() > 1, "{threads:?}");
}
