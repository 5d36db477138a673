//! Real servers as origins of HTTP/3: our own, and Caddy, whose QUIC is quic-go's.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::super::{proxy, read_head, say, text};
use super::origin::Http3Origin;
use super::{INSECURE, head_of};
use crate::support::{Server, Tree, bytes_of, free_port, skipped, wait_until};

/// Our own server with HTTP/3 and a certificate for tests.
fn own_origin(tree: &Tree) -> Server {
    let root = tree.root();
    let listen = ["--listen", "127.0.0.1:0", "--access-log", "off", "--development-certificate", "--http3"];
    Server::start(listen.into_iter().chain(["--root", root.to_str().unwrap()]))
}

#[test]
fn our_own_server_is_an_origin() {
    let behind = Tree::standard();
    behind.write("app/long.bin", bytes_of(3 << 20));
    let origin = own_origin(&behind);
    let tree = Tree::standard();
    let keys = format!(
        "to = \"https://{}\"\nversion = \"3\"\nhost = \"origin\"\nconnect_timeout = \"20s\"\n",
        origin.address()
    );
    let server = proxy(&tree, &keys, INSECURE);
    for _ in 0..3 {
        assert!(server.get("/app/long.bin").body == bytes_of(3 << 20));
        assert_eq!(server.get("/app/missing").status, 404);
    }
    let range = "GET /app/long.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=10-19\r\n\r\n";
    let answer = server.connect().ask(range);
    assert_eq!((answer.status, answer.body), (206, bytes_of(3 << 20)[10..20].to_vec()));
    // The origin leaves, and its connections with it.
    drop(origin);
    wait_until("it is gone", Duration::from_secs(60), || {
        matches!(server.get("/app/long.bin").status, 502..=504)
    });
}

#[test]
fn a_cache_before_it_asks_once() {
    let origin = Http3Origin::start();
    let tree = Tree::standard();
    let text = format!(
        "{}[[site.route]]\npath = \"/app/\"\ncache = {{ default_freshness = \"1h\" }}\n\n\
         [site.route.proxy]\n{}\n{INSECURE}",
        tree.configuration(""),
        origin.keys("")
    );
    let server = Server::configured(tree.around(), &text);
    for _ in 0..10 {
        assert!(server.get("/app/long").body == bytes_of(3 << 20));
    }
    assert_eq!(origin.requests(), 1);
    // What breaks off is not stored.
    let mut client = server.connect();
    client.send("GET /app/breaks HTTP/1.1\r\nHost: a\r\n\r\n");
    let (bytes, _) = client.read_to_end();
    assert!(!bytes.ends_with(b"0\r\n\r\n"));
}

#[test]
fn a_websocket_goes_over_tcp() {
    // To the same port, without QUIC: an origin of HTTP/1.1 with TLS is enough to see that it is asked there.
    let origin = super::super::Origin::start(|stream| {
        while let Some(head) = read_head(stream) {
            say(stream, &head);
        }
    });
    let tree = Tree::standard();
    let keys =
        format!("to = \"https://{}\"\nversion = \"3\"\nhandshake_timeout = \"300ms\"\n", origin.address);
    let server = proxy(&tree, &keys, INSECURE);
    let upgrade = "GET /app/ HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(server.connect().ask(upgrade).status, 504);
    assert_eq!(origin.connections(), 1);
}

/// Caddy, which ends with the test.
struct Caddy {
    child: Child,
    port: u16,
}

impl Caddy {
    /// `None`, with a visible word, where it is not installed.
    fn start(tree: &Tree) -> Option<Caddy> {
        let port = free_port();
        let text = format!(
            "{{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\
             \tstorage file_system {}\n}}\n\
             https://localhost:{port} {{\n\ttls internal\n\troot * {}\n\tfile_server\n\
             \trespond /app/said \"{{http.request.proto}} {{http.request.method}}\"\n}}\n",
            tree.around().join("caddy").display(),
            tree.root().display()
        );
        let file = tree.around().join("Caddyfile");
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new("caddy");
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(&file);
        command.env("HOME", tree.around()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let Ok(child) = command.spawn() else {
            skipped("Caddy as an origin of HTTP/3 (install caddy)");
            return None;
        };
        let caddy = Caddy { child, port };
        wait_until("Caddy listens", Duration::from_secs(60), || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(caddy)
    }
}

impl Drop for Caddy {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn caddy_is_an_origin() {
    let behind = Tree::standard();
    behind.write("app/long.bin", bytes_of(3 << 20));
    behind.write("app/short.txt", "short");
    let Some(caddy) = Caddy::start(&behind) else { return };
    let tree = Tree::standard();
    let keys = format!("to = \"https://localhost:{}\"\nversion = \"3\"\nhost = \"origin\"\n", caddy.port);
    let server = proxy(&tree, &keys, INSECURE);
    // Its certificate is made a moment after it listens.
    wait_until("it answers", Duration::from_secs(60), || server.get("/app/said").status == 200);
    assert_eq!(text(&server, "/app/said"), "HTTP/3.0 GET");
    for _ in 0..3 {
        assert_eq!(text(&server, "/app/short.txt"), "short");
        assert!(server.get("/app/long.bin").body == bytes_of(3 << 20));
    }
    assert_eq!(server.get("/app/missing").status, 404);
    let head = head_of(&server, "/app/short.txt");
    assert_eq!((head.status, head.field("content-length")), (200, Some("5")));
    // Its body is not read.
    let body = format!("POST /app/said HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 1 << 20);
    let mut client = server.connect();
    client.send([body.as_bytes(), &bytes_of(1 << 20)].concat());
    assert_eq!(client.answer().status, 200);
}
