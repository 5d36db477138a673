//! Third-party applications, with their own filters, pages, tag libraries, sessions and logins. All but
//! Tomcat's examples were written for `javax.servlet`, and are converted as they are started.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::{applications, ask, route, start, start_without_waiting, text, trial};
use crate::support::{Response, Server, Tree, skipped, wait_until};

fn fetched() -> Option<PathBuf> {
    trial()?;
    let apps = applications();
    if apps.is_none() {
        skipped("applications of others (Maven cannot fetch them; install maven unzip)");
    }
    apps
}

fn post(server: &Server, target: &str, kind: &str, body: &str) -> Response {
    let mut client = server.connect();
    client.ask(format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {kind}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// A server with an application that takes long to convert.
fn start_large(tree: &Tree, routes: &str) -> Server {
    let server = start_without_waiting(tree, "heap = \"384MiB\"\n", routes);
    wait_until("the application runs", Duration::from_secs(600), || {
        server.error_text().contains(" runs after ")
    });
    server
}

#[test]
fn tomcats_examples_and_jolokia_work() {
    let Some(apps) = fetched() else { return };
    let tree = Tree::empty();
    let users = tree.root().join("users.xml");
    let text_of_users =
        "<tomcat-users><user username=\"j\" password=\"k\" roles=\"jolokia\"/></tomcat-users>";
    fs::write(&users, text_of_users).unwrap();
    let routes = route("/examples/", &format!("app = {:?}", apps.join("examples")))
        + &route("/jolokia/", &format!("app = {:?}, users = {users:?}", apps.join("jolokia.war")));
    let server = start(&tree, "", &routes, 2);
    for (path, expected) in [
        ("/examples/", "Apache Tomcat Examples"),
        ("/examples/servlets/servlet/HelloWorldExample", "<h1>Hello World!</h1>"),
        ("/examples/servlets/servlet/RequestHeaderExample", "example.com"),
        ("/examples/jsp/jsp2/el/basic-arithmetic.jsp", "<td>3</td>"),
        ("/examples/jsp/jsp2/simpletag/repeat.jsp", "Invocation 5 of 5"),
        ("/examples/jsp/jsp2/tagfiles/panel.jsp", "Panel 1"),
        ("/examples/jsp/include/include.jsp", "In place evaluation"),
        ("/examples/jsp/tagplugin/foreach.jsp", "One"),
        ("/examples/async/async1", "Completed async request"),
        ("/examples/async/async3", "Completed async 3 request"),
    ] {
        let response = server.get(path);
        assert_eq!(response.status, 200, "{path}");
        assert!(text(&response).contains(expected), "{path}: {}", text(&response));
    }
    // It was written for javax.servlet, and requires a login itself.
    assert_eq!(server.get("/jolokia/version").status, 401);
    let version = ask(&server, "GET /jolokia/version HTTP/1.1\r\nAuthorization: Basic ajpr");
    assert!(version.status == 200 && text(&version).contains("\"agent\":\"1.7"), "{}", text(&version));
    let memory = ask(
        &server,
        "GET /jolokia/read/java.lang:type=Memory/HeapMemoryUsage HTTP/1.1\r\nAuthorization: Basic ajpr",
    );
    assert!(text(&memory).contains("\"used\""), "{}", text(&memory));
}

/// A dozen filters, names looked up in JNDI, an agent of its own, a page of one script, and a login.
#[test]
fn hawtio_works() {
    let Some(apps) = fetched() else { return };
    let tree = Tree::empty();
    let server = start_large(&tree, &route("/hawtio/", &format!("app = {:?}", apps.join("hawtio.war"))));
    // No login yet.
    assert_eq!(server.get("/hawtio/jolokia/version").status, 403);
    let top = server.get("/hawtio/");
    assert_eq!((top.status, top.field("location")), (302, Some("/hawtio/auth/login")));
    let page = server.get("/hawtio/auth/login");
    assert!(
        page.status == 200 && text(&page).contains("<title>Hawtio</title>"),
        "{} {}",
        page.status,
        text(&page)
    );
    assert_eq!(page.field("x-content-type-options"), Some("nosniff"), "its filters are asked");
    let wrong =
        post(&server, "/hawtio/auth/login", "application/json", "{\"username\":\"a\",\"password\":\"b\"}");
    assert_eq!(wrong.status, 403);
}
