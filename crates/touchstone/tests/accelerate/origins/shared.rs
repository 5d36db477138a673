//! Routes to one origin: they share its connections, its limits and its health.

use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use super::http2::Http2Origin;
use super::limits::slow;
use super::{say, saying, text};
use crate::support::{Origin, Server, Tree, free_port, read_head, wait_until};

/// A server with a route for each of these, `/0/` for the first; each has a `proxy` with these keys.
fn routes(tree: &Tree, proxies: &[&str]) -> Server {
    let mut text = tree.configuration("[server]\ncores = 1");
    for (index, keys) in proxies.iter().enumerate() {
        text += &format!("[[site.route]]\npath = \"/{index}/\"\n[site.route.proxy]\n{keys}\n");
    }
    Server::configured(tree.around(), &text)
}

#[test]
fn one_connection_serves_all_routes_that_agree_on_it() {
    let origin = saying("ok");
    let keys = |path: &str, more: &str| format!("to = \"http://{}{path}\"\n{more}", origin.address);
    // What is sent, and for how long a response is waited for, is each route's own.
    let (plain, below) = (keys("", ""), keys("/base", "strip_prefix = \"/1\"\nresponse_timeout = \"7s\""));
    let tree = Tree::standard();
    let server = routes(&tree, &[&plain, &below]);
    for _ in 0..5 {
        assert_eq!((text(&server, "/0/"), text(&server, "/1/")), ("ok".to_string(), "ok".to_string()));
    }
    assert_eq!(origin.connections(), 1);
    let apart = routes(&tree, &[&plain, &keys("", "connection_requests = 100")]);
    assert_eq!((text(&apart, "/0/"), text(&apart, "/1/")), ("ok".to_string(), "ok".to_string()));
    assert_eq!(origin.connections(), 3, "other rules for connections: connections of their own");
}

#[test]
fn one_http2_connection_serves_all_routes_that_agree_on_it() {
    let origin = Http2Origin::start();
    let tree = Tree::standard();
    let server = routes(&tree, &[&origin.keys(), &origin.keys()]);
    for target in ["/0/a", "/1/a", "/0/a", "/1/a"] {
        assert_eq!(server.get(target).status, 200);
    }
    assert_eq!(origin.connections.load(Ordering::SeqCst), 1);
}

#[test]
fn a_limit_holds_for_the_routes_together() {
    let most = Arc::new(AtomicUsize::new(0));
    let origin = slow(&most);
    let keys = format!("to = \"http://{}\"\nconnections = 2", origin.address);
    let tree = Tree::standard();
    let server = routes(&tree, &[&keys, &keys]);
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    for (index, client) in clients.iter_mut().enumerate() {
        client.send(format!("GET /{}/ HTTP/1.1\r\nHost: a\r\n\r\n", index % 2));
    }
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[test]
fn what_one_route_has_met_spares_the_other_the_same() {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let closing = Origin::start(move |stream| {
        if read_head(stream).is_some() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
        let _ = stream.shutdown(Shutdown::Both);
    });
    let spare = saying("spare");
    let keys = format!("to = [\"http://{}\", \"http://{} backup\"]\n", closing.address, spare.address);
    let tree = Tree::standard();
    let server = routes(&tree, &[&keys, &keys]);
    wait_until("the origin is not left alone", Duration::from_secs(60), || {
        assert_eq!(text(&server, "/0/"), "spare");
        server.error_text().contains("gets no requests")
    });
    let before = asked.load(Ordering::SeqCst);
    assert_eq!(text(&server, "/1/"), "spare");
    assert_eq!(asked.load(Ordering::SeqCst), before, "the other route asked it again");
}

#[test]
fn one_route_checks_an_origin_for_all() {
    let (checks, is_well) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(true)));
    let (counted, wellness) = (checks.clone(), is_well.clone());
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            if !head.starts_with("GET /well ") {
                say(stream, "first");
                continue;
            }
            counted.fetch_add(1, Ordering::SeqCst);
            if !wellness.load(Ordering::SeqCst) {
                return;
            }
            say(stream, "well");
        }
    });
    let spare = saying("spare");
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let check = "[site.route.proxy.check]\npath = \"/well\"\ninterval = \"500ms\"\nfall = 1\nrise = 1";
    let to =
        |other: &str| format!("to = [\"http://{}\", \"http://{other} backup\"]\n{check}", origin.address);
    let (first, second) = (to(&spare.address.to_string()), to(&dead.to_string()));
    let tree = Tree::standard();
    let server = routes(&tree, &[&first, &second]);
    assert_eq!((text(&server, "/0/"), text(&server, "/1/")), ("first".to_string(), "first".to_string()));
    is_well.store(false, Ordering::SeqCst);
    let down = format!("origin http://{} fails its checks", origin.address);
    server.wait_for_error_line("says that the check fails", |line| line.contains(&down));
    assert_eq!(text(&server, "/0/"), "spare");
    assert_eq!(server.error_text().matches(&down).count(), 1, "one check is enough for both");
    assert!(checks.load(Ordering::SeqCst) > 0);
}
