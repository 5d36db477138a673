//! Sessions over restarts, and requests that are routed back to the server that keeps a session.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::path::Path;

use super::{BOTH, ask, route, start, text, trial};
use crate::support::{Response, Server, Tree};

fn cookie(response: &Response) -> String {
    response.field("set-cookie").unwrap().split(';').next().unwrap().to_string()
}

fn count(server: &Server, cookie: &str) -> String {
    text(&ask(server, &format!("GET /trial/count HTTP/1.1\r\nCookie: {cookie}")))
}

#[test]
fn sessions_outlast_a_restart_where_there_is_a_directory_for_them() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let work = format!("work_directory = {:?}\n", tree.root().join("work"));
        let route = route("/trial/", &format!("app = {trial:?}, isolation = {isolation:?}"));
        let mut first = start(&tree, &work, &route, 1);
        let session = cookie(&first.get("/trial/count"));
        assert!(count(&first, &session).starts_with("2 "));
        first.stop();
        let mut second = start(&tree, &work, &route, 1);
        assert!(count(&second, &session).starts_with("3 "), "{isolation}");
        second.stop();
        // Without one they do not.
        let third = start(&tree, "", &route, 1);
        assert!(count(&third, &session).starts_with("1 "), "{isolation}");
    }
}

#[test]
fn sites_have_no_session_in_common() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let route = route("/trial/", &format!("app = {trial:?}, isolation = {isolation:?}"));
        let site = |host: &str| {
            format!(
                "hosts = [{host:?}]\n{route}[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n",
                tree.root()
            )
        };
        let work = format!("work_directory = {:?}\n", tree.root().join("work"));
        let routes = site("one.example") + "hosts = [\"two.example\"]\n" + &route;
        let server = start(&tree, &work, &routes, 2);
        let count = |host: &str, cookie: &str| {
            let request = format!(
                "GET /trial/count HTTP/1.1\r\nCookie: {cookie}\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            );
            server.connect().ask(request)
        };
        let first = count("one.example", "a=b");
        let session = cookie(&first);
        assert!(text(&count("one.example", &session)).starts_with("2 "), "{isolation}");
        assert!(text(&count("two.example", &session)).starts_with("1 "), "{isolation}");
        assert!(text(&count("one.example", &session)).starts_with("3 "), "{isolation}");
    }
}

/// One server of two, whose sessions name it.
fn node(tree: &Tree, trial: &Path, name: &str) -> Server {
    start(tree, "", &route("/trial/", &format!("app = {trial:?}, node = {name:?}")), 1)
}

#[test]
fn sessions_find_their_way_back_through_a_proxy() {
    let Some(trial) = trial() else { return };
    let (one, other) = (Tree::empty(), Tree::empty());
    let (one, mut other) = (node(&one, trial, "one"), node(&other, trial, "other"));
    let tree = Tree::empty();
    let front = Server::configured(
        &tree.root(),
        &format!(
            "[server]\ncores = 1\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n[[site.route]]\n\
             path = \"/trial/\"\nproxy = {{ to = [\"http://{} route=one\", \"http://{} route=other\"], \
             balance = \"round_robin\" }}\n",
            tree.root(),
            one.address(),
            other.address()
        ),
    );
    // New sessions are distributed, by each core for itself.
    let begun: Vec<Response> = (0..4).map(|_| front.get("/trial/count")).collect();
    let cookies: Vec<String> = begun.iter().map(cookie).collect();
    for name in ["one", "other"] {
        let ending = format!(".{name}");
        assert_eq!(cookies.iter().filter(|cookie| cookie.ends_with(&ending)).count(), 2, "{cookies:?}");
    }
    // Each is sent to its server, by its cookie or by its path.
    for round in [2, 3] {
        for cookie in &cookies {
            assert!(count(&front, cookie).starts_with(&format!("{round} ")), "{cookie}");
        }
    }
    for cookie in &cookies {
        let session = cookie.replace("JSESSIONID=", "");
        assert!(text(&front.get(&format!("/trial/count;jsessionid={session}"))).starts_with("4 "));
    }
    // If that server has ended, another one begins a new session.
    other.stop();
    let lost = cookies.iter().find(|cookie| cookie.ends_with(".other")).unwrap();
    let again = ask(&front, &format!("GET /trial/count HTTP/1.1\r\nCookie: {lost}"));
    assert!(text(&again).starts_with("1 ") && cookie(&again).ends_with(".one"), "{}", text(&again));
}
