//! ASGI: the table of cases on our server and on uvicorn, and cases that a table cannot express.

use std::io::Read as _;
use std::time::Duration;

use super::exchange::{faults, get};
use super::rival::Rival;
use super::{Route, asgi_cases, environment, programs, serve};
use crate::servlet::websocket::WebSocket;
use crate::support::{Server, Tree, wait_until};

fn start(tree: &Tree, app: &str) -> Option<Server> {
    let route = Route::new("/", app, &programs(), environment()?);
    Some(serve(tree, &[route.with("workers = 1, protocol = \"asgi\"")], ""))
}

#[test]
fn every_case_is_answered_as_the_specification_has_it() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:application") else { return };
    let faults = faults("touchstone", server.address(), &asgi_cases::all());
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), server.error_text());
}

/// The table holds for a widely used server, too, except for the cases that it names.
#[test]
fn uvicorn_answers_the_cases_in_the_same_way() {
    let Some(environment) = environment() else { return };
    let rival = Rival::uvicorn("asgi_cases:application", &programs(), environment);
    let faults = faults("uvicorn", rival.address(), &asgi_cases::all());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_piece_arrives_before_the_next_is_made() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:application") else { return };
    let mut client = server.connect();
    client.send(get("/flushed?one"));
    let mut answer = Vec::new();
    let mut stream = client.stream();
    while !answer.ends_with(b"first \r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    assert_eq!(server.get("/release?one").body, b"released\n");
    let (rest, _) = client.read_to_end();
    assert!(rest.windows(6).any(|six| six == b"second"), "{}", rest.escape_ascii());
}

#[test]
fn an_application_is_told_that_its_client_has_left() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:application") else { return };
    let mut client = server.connect();
    client.send(get("/endless"));
    client.wait_for_bytes(1 << 20);
    client.vanish();
    wait_until("http.disconnect is received", Duration::from_secs(60), || {
        server.get("/noted?endless").body == b"noted=told\n"
    });
}

#[test]
fn a_large_body_passes_whole() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:application") else { return };
    let large = server.get("/large");
    assert_eq!(large.body.len(), 32 << 20);
    let is_whole = |block: &[u8]| block.iter().enumerate().all(|(at, byte)| at == usize::from(*byte));
    assert!(large.body.chunks(256).all(is_whole));
}

#[test]
fn websockets_echo_and_their_end_is_told() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:application") else { return };
    let mut socket = WebSocket::open(server.address(), "/echo").unwrap();
    for text in ["hello", "", "caf\u{e9}"] {
        socket.say(text).unwrap();
        assert_eq!(socket.hear().unwrap(), text);
    }
    socket.close().unwrap();
    wait_until("websocket.disconnect is received", Duration::from_secs(60), || {
        server.get("/noted?echo").body == b"noted=websocket.disconnect 1000\n"
    });
    let mut socket = WebSocket::open(server.address(), "/fails-later").unwrap();
    assert!(socket.hear().is_err(), "the server closes it");
}

#[test]
fn an_application_without_a_lifespan_is_served() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "asgi_cases:without_lifespan") else { return };
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn an_application_that_fails_to_start_says_why_and_is_not_asked() {
    let Some(environment) = environment() else { return };
    let tree = Tree::empty();
    let route = Route::new("/", "asgi_cases:fails_to_start", &programs(), environment);
    let server = super::start(&tree, &[route.with("workers = 1, protocol = \"asgi\"")], "");
    assert_eq!(server.get("/").status, 503);
    wait_until("the error log says why", Duration::from_secs(60), || {
        server.error_text().contains("there is no database")
    });
}

#[test]
fn a_stop_lets_the_application_shut_down() {
    let tree = Tree::empty();
    let Some(mut server) = start(&tree, "asgi_cases:application") else { return };
    assert_eq!(server.get("/plain").body, b"plain");
    server.stop();
    assert!(server.error_text().contains("the application is shut down"), "{}", server.error_text());
}

#[test]
fn the_event_loop_is_uvloop_where_that_is_installed() {
    let Some(environment) = environment() else { return };
    let apps = crate::python::apps();
    let tree = Tree::empty();
    let route = Route::new("/", "asgi_app:application", &apps, environment).with("workers = 1");
    let server = serve(&tree, &[route], "");
    assert_eq!(server.get("/loop").body, b"uvloop");
}
