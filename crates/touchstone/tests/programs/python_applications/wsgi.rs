//! WSGI: the table of cases on our server and on gunicorn, and cases that a table cannot express.

use std::io::Read as _;
use std::time::Duration;

use super::exchange::{faults, get};
use super::rival::Rival;
use super::{Route, environment, programs, serve, wsgi_cases};
use crate::support::{Client, Server, Tree, wait_until};

fn start(tree: &Tree, more: &str) -> Option<Server> {
    let route = Route::new("/", "wsgi_cases:application", &programs(), environment()?);
    Some(serve(tree, &[route.with("workers = 1").with(more)], ""))
}

#[test]
fn every_case_is_answered_as_pep_3333_has_it() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "protocol = \"wsgi\"") else { return };
    let faults = faults("touchstone", server.address(), &wsgi_cases::all());
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), server.error_text());
}

/// The table holds for a widely used server, too, except for the cases that it names.
#[test]
fn gunicorn_answers_the_cases_in_the_same_way() {
    let Some(environment) = environment() else { return };
    let rival = Rival::gunicorn("wsgi_cases:application", &programs(), environment);
    let faults = faults("gunicorn", rival.address(), &wsgi_cases::all());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_piece_arrives_before_the_next_is_made() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "threads = 4") else { return };
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
fn an_iterable_is_closed_when_its_client_leaves() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "threads = 4") else { return };
    let mut client = server.connect();
    client.send(get("/endless"));
    client.wait_for_bytes(1 << 20);
    client.vanish();
    wait_until("close() is called", Duration::from_secs(60), || {
        server.get("/closed?endless").body == b"closed=1\n"
    });
}

#[test]
fn large_bodies_pass_whole_in_both_directions() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "") else { return };
    let large = server.get("/large");
    assert_eq!(large.body.len(), 32 << 20);
    assert!(
        large
            .body
            .chunks(256)
            .all(|block| block.iter().enumerate().all(|(at, byte)| at == usize::from(*byte)))
    );

    // 48 MiB, of which the client sends each piece only once the one before is taken.
    let length = 48 << 20;
    let mut client: Client = server.connect();
    client.send(format!(
        "POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    ));
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..48 {
        client.send(&piece);
    }
    let answer = client.answer();
    let text = String::from_utf8(answer.body).unwrap();
    assert!(text.starts_with(&format!("bytes={length}\n")), "{text}");
}

#[test]
fn what_an_application_says_and_raises_is_in_the_error_log_alone() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "") else { return };
    assert_eq!(server.get("/errors").status, 200);
    assert_eq!(server.get("/raises").status, 500);
    wait_until("the error log has both", Duration::from_secs(60), || {
        let log = server.error_text();
        let has = |text: &str| log.contains(text);
        has("said to wsgi.errors")
            && has("a line and its end")
            && has("RuntimeError: secret of the application")
    });
}
