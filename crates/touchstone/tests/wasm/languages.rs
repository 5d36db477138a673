//! Components that toolchains of other projects have built, as they are: `scripts/setup-components.sh` builds
//! them from `programs/wasm`.

use std::path::{Path, PathBuf};

use super::{configuration, text};
use crate::support::{Server, Tree, bytes_of, skipped};

/// A component that setup has built; `None`, with a visible word, where it is not there.
fn component(name: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or(Path::new(&home).join(".cache"), PathBuf::from);
    let path = cache.join("touchstone/components").join(name);
    if !path.is_file() {
        skipped(&format!("the component {name} (run scripts/setup-components.sh)"));
        return None;
    }
    Some(path)
}

fn answers(name: &str, greeting: &str) {
    let Some(component) = component(name) else { return };
    let tree = Tree::empty();
    let server = Server::configured(tree.around(), &configuration(&tree, &component, ""));
    for _ in 0..3 {
        let answer = server.get("/");
        assert_eq!((answer.status, text(&answer).as_str()), (200, greeting), "{}", server.error_text());
    }
    let body = bytes_of(100_000);
    let mut request = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".to_vec();
    request.extend_from_slice(&body);
    let echoed = server.connect().ask(request);
    assert_eq!(echoed.status, 200);
    assert!(echoed.body == body, "another body ({} bytes)", echoed.body.len());
}

#[test]
#[ignore = "its component takes a compiler without optimisation minutes"]
fn python_by_componentize_py() {
    answers("python.wasm", "hello from Python\n");
}

#[test]
#[ignore = "its component takes a compiler without optimisation minutes"]
fn javascript_by_componentize_js() {
    answers("javascript.wasm", "hello from JavaScript\n");
}

#[test]
fn go_by_its_own_compiler() {
    answers("go.wasm", "hello from Go\n");
}
