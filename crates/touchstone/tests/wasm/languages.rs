//! Components that toolchains of other projects have built, as they are: `scripts/setup-components.sh` builds
//! them from `programs/wasm`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{configuration, text};
use crate::support::{Origin, Server, Tree, bytes_of, read_head, skipped};

/// Where setup puts what it builds.
fn built(name: &str) -> PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or(Path::new(&home).join(".cache"), PathBuf::from);
    cache.join("touchstone/components").join(name)
}

/// What a language's binding has beside answers and bodies in both directions.
#[derive(Clone, Copy)]
struct Binding {
    trailers: bool,
}

/// A component answers, passes bodies on while they arrive, has trailers, and sends requests to another
/// server.
fn assert_serves(name: &str, toolchain: &str, greeting: &str, binding: Binding) {
    let component = built(name);
    if !component.is_file() {
        return skipped(&format!("the component {name} ({toolchain}; run scripts/setup-components.sh)"));
    }
    let tree = Tree::empty();
    let origin = Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            let line = head.lines().next().unwrap_or_default().to_string();
            let answer = format!("HTTP/1.1 203 OK\r\nContent-Length: {}\r\n\r\n{line}", line.len());
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let keys = format!("outgoing = [\"http://{}\"]", origin.address);
    // Compiling the largest of them takes long on a busy machine.
    let text_of = configuration(&tree, &component, &keys);
    let server = Server::configured_within(Duration::from_secs(600), tree.around(), &text_of);
    for _ in 0..3 {
        let answer = server.get("/");
        assert_eq!((answer.status, text(&answer).as_str()), (200, greeting), "{}", server.error_text());
    }
    assert_bodies_go_through(&server);
    if binding.trailers {
        assert_trailers_go_both_ways(&server);
    }
    let answer = server.get(&format!("/ask/http/{}/a?b=c", origin.address));
    assert_eq!(
        (answer.status, text(&answer).as_str()),
        (203, "GET /a?b=c HTTP/1.1"),
        "{}",
        server.error_text()
    );
    let elsewhere = Origin::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    // What JavaScript makes of the refusal has a body that never ends.
    let mut client = server.connect();
    client.send(format!(
        "GET /ask/http/{}/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        elsewhere.address
    ));
    client.wait_for(b"HTTP/1.1 50");
    assert_eq!(elsewhere.connections(), 0);
}

fn assert_bodies_go_through(server: &Server) {
    let body = bytes_of(100_000);
    let mut request = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n".to_vec();
    request.extend_from_slice(&body);
    let echoed = server.connect().ask(request);
    assert_eq!(echoed.status, 200, "{}", server.error_text());
    assert!(echoed.body == body, "another body ({} bytes)", echoed.body.len());
    // The first piece is returned before the second one is sent.
    let mut client = server.connect();
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
         7\r\nfirst, \r\n",
    );
    client.wait_for(b"first, ");
    client.send("6\r\nsecond\r\n0\r\n\r\n");
    let (rest, _) = client.read_to_end();
    assert!(rest.windows(6).any(|piece| piece == b"second"), "{}", rest.escape_ascii());
}

fn assert_trailers_go_both_ways(server: &Server) {
    for request in [
        "GET /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\
         Connection: close\r\n\r\n5\r\nbody\n\r\n0\r\nX-Checksum: abc\r\n\r\n",
    ] {
        let mut client = server.connect();
        client.send(request);
        let (bytes, _) = client.read_to_end();
        let answer = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
        assert!(answer.contains("body\n"), "{answer}\n{}", server.error_text());
        assert!(answer.ends_with("0\r\nx-checksum: abc\r\n\r\n"), "{answer}");
    }
}

#[test]
fn rust_by_its_own_compiler() {
    assert_serves(
        "rust.wasm",
        "rustup target add wasm32-wasip2",
        "hello from Rust\n",
        Binding { trailers: true },
    );
}

#[test]
fn rust_for_wasi_0_3() {
    let toolchain = "rustup target add wasm32-wasip2";
    assert_serves("rust-service.wasm", toolchain, "hello from Rust\n", Binding { trailers: true });
}

#[test]
fn python_by_componentize_py() {
    let toolchain = "componentize-py from PyPI";
    assert_serves("python.wasm", toolchain, "hello from Python\n", Binding { trailers: true });
}

#[test]
fn javascript_by_componentize_js() {
    // The requests and answers of service workers have no trailers.
    let toolchain = "componentize-js from npm";
    assert_serves("javascript.wasm", toolchain, "hello from JavaScript\n", Binding { trailers: false });
}

#[test]
fn go_by_its_own_compiler() {
    let toolchain = "wit-bindgen from crates.io";
    assert_serves("go.wasm", toolchain, "hello from Go\n", Binding { trailers: true });
}

/// The components that this repository carries are those that their sources make.
#[test]
fn what_is_carried_is_what_is_built() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, carried) in
        [("imports.wasm", here.join("tests/wasm")), ("spice.wasm", here.join("../../programs/wasm"))]
    {
        let built = built("carried").join(name);
        if !built.is_file() {
            return skipped(&format!("the build of {name} (rustup target add wasm32-wasip2)"));
        }
        let same = std::fs::read(built).unwrap() == std::fs::read(carried.join(name)).unwrap();
        assert!(same, "{name}: build it with scripts/setup-components.sh, and copy it with its hash");
    }
}
