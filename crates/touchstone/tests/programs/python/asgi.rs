//! ASGI 3.

use super::*;
use crate::servlet::websocket::WebSocket;

#[test]
fn answers_of_every_form_are_whole() {
    if !has_python() {
        return;
    }
    let mut running = start("asgi_app:application", "workers = 1");
    for (target, body) in [
        ("/hello", "hello".to_string()),
        ("/large?1000000", "\0".repeat(1_000_000)),
        ("/wait", "True set".to_string()),
        ("/timeout", "timed out".to_string()),
        ("/events", "data: 0\n\ndata: 1\n\ndata: 2\n\n".to_string()),
        ("/path", "f".repeat(300_000)),
    ] {
        let text = running.text(target);
        assert!(text == body, "{target}: {} bytes", text.len());
    }
    let mut client = running.server.connect();
    let hints = client.ask("GET /hints HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((hints.status, hints.field("Link")), (103, Some("</a.css>; rel=preload")));
    assert_eq!(client.answer().body, b"hinted");
    running.server.stop();
    assert!(running.server.error_text().contains("the lifespan ends"), "{}", running.server.error_text());
}

#[test]
fn an_application_is_told_of_its_request() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1\nprotocol = \"asgi\"");
    let mut client = running.server.connect();
    let response =
        client.ask("GET /scope?a=b HTTP/1.1\r\nHost: shop.example:81\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n");
    let text = String::from_utf8_lossy(&response.body).into_owned();
    for item in [
        "'type': 'http'",
        "'http_version': '1.1'",
        "'method': 'GET'",
        "'path': '/scope'",
        "'raw_path': b'/scope'",
        "'query_string': b'a=b'",
        "'scheme': 'http'",
        "'server': ('shop.example', 81)",
        "(b'x-two', b'1'), (b'x-two', b'2')",
        "'state': {'started': 'yes'}",
    ] {
        assert!(text.contains(item), "{item} is not in\n{text}");
    }
}

#[test]
fn a_request_leaves_nothing_in_the_task_of_the_next() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1");
    let clean = "['unset', False, False, False, False]";
    assert_eq!(running.text("/look"), clean);
    for what in ["nothing", "variable", "name", "callback", "reference", "weak", "cancel"] {
        assert_eq!(running.text(&format!("/leave?{what}")), "left", "{what}");
        assert_eq!(running.text("/look"), clean, "after {what}");
        assert_eq!(running.text("/token"), "unset", "after {what}");
        assert_eq!(running.text("/wait"), "True set", "after {what}");
    }
    running.server.wait_for_error_line("ends the task", |line| line.contains("the task has ended"));
    assert_eq!(running.text("/ended"), "[True] 2", "the lifespan, and this request");
    assert_eq!(running.get("/cancel").status, 500);
    assert_eq!(running.text("/look"), clean, "after a cancelled request");
    assert_eq!(running.text("/hello"), "hello");
}

#[test]
fn an_application_may_return_what_can_be_awaited() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:plain", "workers = 1\nprotocol = \"asgi\"");
    for _ in 0..3 {
        assert_eq!(running.text("/"), "awaited");
    }
}

#[test]
fn bodies_go_both_ways() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1");
    assert_eq!(running.post("/echo", b"a body").body, b"a body");
    assert_eq!(running.post("/length", &vec![b'x'; 900_000]).body, b"900000");
    let mut client = running.server.connect();
    client.send("GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    assert!(bytes.ends_with(b"\r\n\r\n4\r\nbody\r\n0\r\nx-sum: 7\r\n\r\n"), "{}", bytes.escape_ascii());
}

#[test]
fn what_fails_is_told_to_the_log_alone() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1");
    let response = running.get("/fails");
    assert_eq!(response.status, 500);
    assert!(!String::from_utf8_lossy(&response.body).contains("secret"));
    running.server.wait_for_error_line("has the exception", |line| line.contains("a secret of the trace"));
    assert_eq!(running.get("/silent").status, 500);
    let response = running.get("/inject");
    assert_eq!((response.status, response.field("Set-Cookie")), (500, None));
    assert_eq!(running.text("/hello"), "hello");
}

#[test]
fn a_client_that_leaves_is_told_to_the_application() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1");
    // The worker is ready then, and takes the next request at once.
    running.get("/hello");
    let mut client = running.server.connect();
    client.send("GET /disconnect HTTP/1.1\r\nHost: a\r\n\r\n");
    running
        .server
        .wait_for_error_line("says that it runs", |line| line.contains("waits for its client to leave"));
    drop(client);
    running.server.wait_for_error_line("tells of it", |line| line.contains("then came http.disconnect"));
}

#[test]
fn websockets_talk_and_end() {
    if !has_python() {
        return;
    }
    let running = start("asgi_app:application", "workers = 1");
    let mut socket = WebSocket::open(running.server.address(), "/socket").expect("it opens");
    for text in ["one", "two"] {
        socket.say(text).expect("it is sent");
        assert_eq!(socket.hear().expect("it answers"), format!("you said {text}"));
    }
    socket.close().expect("it is closed");
    running.server.wait_for_error_line("tells of the end", |line| line.contains("the socket ends with 1000"));
    let refused = WebSocket::open(running.server.address(), "/refused-socket").err().expect("it is refused");
    assert!(refused.to_string().starts_with("http/1.1 403 "), "{refused}");
}
