//! WebAssembly components before a servlet. `middleware.wasm` is built from `programs/wasm/middleware.c`.

#![cfg(feature = "wasm")]

use std::path::Path;

use super::{BOTH, ask, start, text, trial};
use crate::support::Tree;

/// The first component refuses requests without a token, and adds a field to others; the second one adds a
/// field to the answer, without the body.
#[test]
fn two_components_stand_before_a_servlet() {
    let Some(trial) = trial() else { return };
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wasm/middleware.wasm");
    for isolation in BOTH {
        let tree = Tree::empty();
        let compiled = tree.beside("compiled");
        let middleware = |mode: &str| {
            format!(
                "[[site.route.middleware]]\ncomponent = {component:?}\ncompiled = {compiled:?}\n\
                 environment = {{ MODE = {mode:?} }}\n"
            )
        };
        let servlet = format!("servlet = {{ app = {trial:?}, isolation = {isolation:?} }}");
        let components = middleware("auth") + &middleware("tag");
        let route = format!("[[site.route]]\npath = \"/trial/\"\n{servlet}\n{components}");
        let server = start(&tree, "", &route, 1);
        let refused = ask(&server, "GET /trial/facts HTTP/1.1");
        assert_eq!((refused.status, text(&refused).as_str()), (403, "no token\n"));
        let answer = ask(&server, "GET /trial/facts?a=b HTTP/1.1\r\nX-Token: t");
        assert_eq!((answer.status, answer.field("x-tag")), (200, Some("1")), "{}", server.error_text());
        let facts = text(&answer);
        for line in ["query=a=b", "field x-user=[ada]"] {
            assert!(facts.lines().any(|each| each.eq_ignore_ascii_case(line)), "{line}\n{facts}");
        }
        // The bodies of both go past the components.
        let body = "x".repeat(300_000);
        let request = format!("POST /trial/echo HTTP/1.1\r\nX-Token: t\r\nContent-Length: {}", body.len());
        let mut client = server.connect();
        client.send(format!("{request}\r\nHost: a\r\nConnection: close\r\n\r\n{body}"));
        let echoed = client.answer();
        assert_eq!((echoed.status, echoed.field("x-tag")), (200, Some("1")));
        assert!(echoed.body == body.as_bytes(), "another body ({} bytes)", echoed.body.len());
    }
}
