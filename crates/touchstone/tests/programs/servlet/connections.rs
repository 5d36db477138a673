//! The information about a request's connection that applications get.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeSet;

use http::Request;

use super::http::{connect, runtime};
use super::{BOTH, START, text, trial, with_trial};
use crate::support::{Client, Tree};

/// The text after a name in the servlet's answer.
fn said<'t>(facts: &'t str, name: &str) -> &'t str {
    facts.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no {name}: {facts}"))
}

#[test]
fn connections_have_numbers_and_requests_have_streams() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        // Many requests on one connection: some are answered on its own thread.
        let (mut client, mut ids) = (Client::connect(server.address()), BTreeSet::new());
        client.set_patience(START);
        for _ in 0..300 {
            let facts = text(&client.ask("GET /trial/connection HTTP/1.1\r\nHost: a\r\n\r\n"));
            ids.insert(said(&facts, "id=").to_string());
            assert_eq!(said(&facts, "protocol="), "http/1.1");
            assert_eq!((said(&facts, "stream="), said(&facts, "connection=")), ("", ""));
        }
        assert_eq!(ids.len(), 1, "{isolation}: {ids:?}");
        let other = text(&server.get("/trial/connection"));
        assert!(ids.insert(said(&other, "id=").to_string()), "{isolation}");
        let name = said(&other, "local=");
        assert!(["localhost 127.0.0.1", "127.0.0.1 127.0.0.1"].contains(&name), "{isolation}: {name}");
        runtime().block_on(async {
            let mut requests = connect(&server).await;
            let mut streams = BTreeSet::new();
            for _ in 0..3 {
                let request = Request::get("http://a/trial/connection").body(()).unwrap();
                let (answer, _) = requests.send_request(request, true).unwrap();
                let mut body = answer.await.unwrap().into_body();
                let mut read = Vec::new();
                while let Some(piece) = body.data().await {
                    read.extend_from_slice(&piece.unwrap());
                }
                let facts = String::from_utf8(read).unwrap();
                assert_eq!((said(&facts, "protocol="), said(&facts, "connection=")), ("h2", ""));
                ids.insert(said(&facts, "id=").to_string());
                streams.insert(said(&facts, "stream=").parse::<u32>().unwrap());
            }
            assert_eq!((ids.len(), streams), (3, BTreeSet::from([1, 3, 5])), "{isolation}");
        });
    }
}
