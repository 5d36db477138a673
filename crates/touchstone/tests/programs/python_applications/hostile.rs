//! Hostile applications: the faults of one do not affect the files and the other applications of the same
//! server, and it is available again afterwards.

use std::time::Duration;

use super::exchange::get;
use super::{Route, environment, programs, serve};
use crate::support::{Client, Server, Tree, wait_until};

/// The number of requests to the others while a hostile one runs.
const ASKED: usize = 50;

/// A server with a hostile application, another one, and files.
fn start(tree: &Tree, answer: &str) -> Option<Server> {
    let environment = environment()?;
    std::fs::write(tree.root().join("file.txt"), "a file\n").unwrap();
    let app = |path| Route::new(path, "wsgi_cases:application", &programs(), environment);
    let limits = format!(
        "workers = 1, limits = {{ answer = {answer:?}, memory = \"256MiB\", start = \"60s\", \
         drain = \"2s\" }}"
    );
    let other = Route::new("/scope/", "asgi_cases:application", &programs(), environment);
    let routes = [other.with("workers = 1, protocol = \"asgi\""), app("/").with(&limits)];
    let files = format!("[[site.route]]\npath = \"/files/\"\nalias = {:?}\n", tree.root());
    Some(serve(tree, &routes, &files))
}

/// The file and the other application answer as ever, each time.
fn others_serve(server: &Server) {
    for _ in 0..ASKED {
        let file = server.get("/files/file.txt");
        assert_eq!((file.status, &file.body[..]), (200, &b"a file\n"[..]));
        assert_eq!(server.get("/scope/").status, 200);
    }
}

fn is_there_again(server: &Server) {
    wait_until("the hostile application answers again", Duration::from_secs(120), || {
        server.get("/plain").body == b"plain"
    });
}

/// Sends a request without waiting for its answer.
fn ask(server: &Server, target: &str) -> Client {
    let mut client = server.connect();
    client.set_patience(Duration::from_secs(120));
    client.send(get(target));
    client
}

#[test]
fn endless_loops_cost_their_own_requests() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "4s") else { return };
    for target in ["/spin", "/sleep"] {
        let mut client = ask(&server, target);
        others_serve(&server);
        assert_eq!(client.answer().status, 504, "{target}");
        is_there_again(&server);
    }
}

#[test]
fn a_memory_bomb_ends_at_its_limit() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "60s") else { return };
    let mut client = ask(&server, "/memory");
    others_serve(&server);
    let status = client.answer().status;
    assert!([500, 502, 504].contains(&status), "{status}");
    is_there_again(&server);
}

#[test]
fn a_worker_that_exits_or_crashes_is_started_again() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "60s") else { return };
    for target in ["/exits", "/crashes"] {
        // A request with a body is not sent a second time.
        let mut client = server.connect();
        client.set_patience(Duration::from_secs(120));
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
        ));
        assert_eq!(client.answer().status, 502, "{target}");
        others_serve(&server);
        is_there_again(&server);
    }
}

#[test]
fn endless_output_that_is_not_read_holds_one_thread() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "60s") else { return };
    let unread: Vec<Client> = (0..3).map(|_| ask(&server, "/endless")).collect();
    others_serve(&server);
    is_there_again(&server);
    for client in unread {
        client.vanish();
    }
    wait_until("all are closed", Duration::from_secs(60), || {
        server.get("/closed?endless").body == b"closed=3\n"
    });
}

#[test]
fn slow_bodies_hold_no_other_request() {
    let tree = Tree::empty();
    let Some(server) = start(&tree, "60s") else { return };
    let mut slow: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = server.connect();
            client.set_patience(Duration::from_secs(120));
            client
                .send("POST /length HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhe");
            client
        })
        .collect();
    others_serve(&server);
    is_there_again(&server);
    for client in &mut slow {
        client.send("llo");
        assert!(client.answer().body.starts_with(b"bytes=5\n"));
    }
}
