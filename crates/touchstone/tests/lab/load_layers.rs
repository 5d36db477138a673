//! `touchstone load` with TLS, HTTP/2 and both: against this server and, where it is installed, against
//! nginx.

use crate::support::{Server, Tree, bytes_of, error_lines, free_port, run, skipped, wait_until};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn load(arguments: &[&str]) -> Output {
    run(["load"].iter().chain(arguments))
}

fn json(arguments: &[&str]) -> Value {
    let output = load(&[arguments, &["--json"]].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error} in: {text} {:?}", error_lines(&output)))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}

/// A server of the standard tree on HTTPS, with a certificate for `www.example` by an authority of its own,
/// and an access log. The authority's certificate is `authority.pem` beside the tree.
fn secure_server(tree: &Tree) -> Server {
    tree.write("page.bin", bytes_of(50_000));
    write_certificates(tree);
    let [root, certificate, key, log] =
        [tree.root(), tree.beside("server.pem"), tree.beside("server.key"), tree.beside("access.log")];
    let text = |path: &Path| path.to_str().expect("the path is text").to_string();
    Server::start([
        "--root",
        &text(&root),
        "--listen",
        "127.0.0.1:0",
        "--cert",
        &text(&certificate),
        "--key",
        &text(&key),
        "--access-log",
        &text(&log),
        "--cores",
        "1",
    ])
}

fn write_certificates(tree: &Tree) {
    let mut authority = CertificateParams::new([]).expect("no names");
    authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let authority = CertifiedIssuer::self_signed(authority, key).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let parameters = CertificateParams::new(["www.example".to_string()]).expect("a good name");
    let certificate = parameters.signed_by(&key, &authority).expect("a certificate");
    for (name, text) in [
        ("authority.pem", authority.pem()),
        ("server.pem", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        std::fs::write(tree.beside(name), text).expect("the directory can be written");
    }
}

/// Requests in the server's log, once it is stopped.
fn logged(tree: &Tree, server: &mut Server) -> usize {
    server.stop();
    let log = std::fs::read_to_string(tree.beside("access.log")).expect("the server has written its log");
    log.lines().count()
}

#[test]
fn every_way_through_the_layers_agrees_with_the_log() {
    let ways: [&[&str]; 6] = [
        &["--duration", "2s"],
        &["--duration", "2s", "--tls", "1.2"],
        &["--duration", "2s", "--http1.0"],
        &["--duration", "2s", "--http2", "--streams", "5"],
        &["--duration", "2s", "--http2", "--rate", "300"],
        &["--requests", "40", "--http2", "--new-connections"],
    ];
    for way in ways {
        let tree = Tree::standard();
        let mut server = secure_server(&tree);
        let authority = tree.beside("authority.pem");
        let address = server.address().to_string();
        let fixed = [
            "https://www.example/page.bin",
            "--connect-to",
            &address,
            "--ca",
            authority.to_str().expect("text"),
            "--clients",
            "10",
            "--expect-size",
            "50000",
        ];
        let value = json(&[&fixed, way].concat());
        assert_eq!(number(&value, "/errors"), 0.0, "{way:?}: {value:#}");
        assert!(number(&value, "/requests") >= 10.0, "{way:?}: {value:#}");
        assert_eq!(number(&value, "/requests") as usize, logged(&tree, &mut server), "{way:?}");
        let connections = number(&value, "/connections");
        let handshakes = number(&value, "/tls/full_handshakes") + number(&value, "/tls/resumed_handshakes");
        assert_eq!(connections, handshakes, "{way:?}");
        let expected = match way {
            [.., "--new-connections"] => 40.0,
            [.., "--streams", _] => 2.0,
            _ => 10.0,
        };
        assert_eq!(connections, expected, "{way:?}");
    }
}

#[test]
fn the_commanded_share_of_resumed_sessions_is_kept_and_counted() {
    let tree = Tree::standard();
    let server = secure_server(&tree);
    let url = format!("https://{}/alphabet.txt", server.address());
    for version in ["1.2", "1.3"] {
        for share in [0.0, 0.25, 0.75, 1.0] {
            let text = share.to_string();
            let value = json(&[
                &url,
                "--insecure",
                "--new-connections",
                "--requests",
                "200",
                "--clients",
                "4",
                "--tls",
                version,
                "--resumption-share",
                &text,
            ]);
            assert_eq!(number(&value, "/errors"), 0.0, "{value:#}");
            let (full, resumed) =
                (number(&value, "/tls/full_handshakes"), number(&value, "/tls/resumed_handshakes"));
            assert_eq!(full + resumed, 200.0);
            // The first connections of all clients have nothing to resume.
            let wanted = share * 200.0;
            assert!(
                (wanted - 4.0..=wanted + 1.0).contains(&resumed),
                "TLS {version}, {share}: {resumed} of 200"
            );
            assert_eq!(number(&value, "/tls/commanded_share"), share);
        }
    }
}

#[test]
fn a_certificate_is_held_against_name_and_authority() {
    let tree = Tree::standard();
    let server = secure_server(&tree);
    let address = server.address().to_string();
    let authority = tree.beside("authority.pem");
    let authority = authority.to_str().expect("the path is text");
    let cases: [(&str, &[&str], &str); 4] = [
        ("https://www.example/", &[], "UnknownIssuer"),
        ("https://other.example/", &["--ca", authority], "not valid for name"),
        ("https://other.example/", &["--ca", authority, "--server-name", "www.example"], ""),
        ("https://other.example/", &["--insecure"], ""),
    ];
    for (url, more, said) in cases {
        let fixed = [url, "--connect-to", &address, "--requests", "3", "--clients", "1"];
        let value = json(&[&fixed, more].concat());
        let failed = number(&value, "/errors_by_kind/tls");
        let first = value["tls"]["first_error"].as_str().unwrap_or_default();
        assert_eq!(failed, if said.is_empty() { 0.0 } else { 3.0 }, "{url} {more:?}: {value:#}");
        assert!(first.to_lowercase().contains(&said.to_lowercase()), "{url} {more:?}: {first:?}");
    }
}

/// A self-signed certificate and its key, beside the tree.
fn write_self_signed(tree: &Tree, name: &str, is_ca: IsCa) {
    let mut parameters = CertificateParams::new([name.to_string()]).expect("a good name");
    parameters.is_ca = is_ca;
    let key = KeyPair::generate().expect("a key");
    let certificate = parameters.self_signed(&key).expect("a certificate");
    for (ending, text) in [("pem", certificate.pem()), ("key", key.serialize_pem())] {
        std::fs::write(tree.beside(&format!("{name}.{ending}")), text).expect("the directory can be written");
    }
}

#[test]
fn a_self_signed_server_and_one_that_asks_for_a_certificate_are_loaded() {
    let tree = Tree::standard();
    // As most tools make it: also the certificate of an authority.
    write_self_signed(&tree, "own.example", IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    write_self_signed(&tree, "client.example", IsCa::NoCa);
    let text = |name: &str| tree.beside(name).to_str().expect("the path is text").to_string();
    let [own, own_key, client, client_key] =
        ["own.example.pem", "own.example.key", "client.example.pem", "client.example.key"].map(text);
    let config = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncertificate = {own:?}\nkey = {own_key:?}\n\
         client_authorities = {client:?}\n",
        tree.root()
    );
    let file = tree.beside("touchstone.toml");
    std::fs::write(&file, config).expect("the directory can be written");
    let server = Server::start(["--config", file.to_str().expect("the path is text")]);
    let address = server.address().to_string();
    for version in [&[][..], &["--http2"], &["--tls", "1.2"]] {
        let fixed = ["https://own.example/", "--connect-to", &address, "--ca", &own, "--requests", "20"];
        let shown = ["--cert", &client, "--key", &client_key];
        let value = json(&[&fixed[..], &shown, version].concat());
        assert_eq!((number(&value, "/errors"), number(&value, "/requests")), (0.0, 20.0), "{value:#}");
        let value = json(&[&fixed[..], version].concat());
        assert_eq!(number(&value, "/requests"), 0.0, "without a certificate: {value:#}");
    }
    let output = load(&["https://own.example/", "--connect-to", &address, "--ca", &own, "--cert", &own]);
    assert_eq!(output.status.code(), Some(2), "a certificate without its key: {:?}", error_lines(&output));
}

#[test]
fn http_2_without_tls_is_known_beforehand() {
    let tree = Tree::standard();
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/alphabet.txt", server.address());
    let value = json(&[&url, "--http2", "--streams", "8", "--clients", "24", "--requests", "500"]);
    assert_eq!((number(&value, "/errors"), number(&value, "/requests")), (0.0, 500.0), "{value:#}");
    assert_eq!(number(&value, "/connections"), 3.0);
    assert_eq!(value["plan"]["http_version"], Value::from("2"));
}

#[test]
fn a_server_without_http_2_is_told_from_a_broken_one() {
    let tree = Tree::standard();
    write_certificates(&tree);
    // A TLS server without ALPN: openssl's, which answers any request with a page.
    let port = free_port();
    let [certificate, key] = [tree.beside("server.pem"), tree.beside("server.key")];
    let started = Command::new("openssl")
        .args(["s_server", "-quiet", "-www", "-accept", &port.to_string()])
        .arg("-cert")
        .arg(certificate)
        .arg("-key")
        .arg(key)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else { return skipped("a server that agrees to no HTTP/2 (install openssl)") };
    let _ended = Ended(child);
    let listens = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until("openssl listens", Duration::from_secs(60), listens);
    let url = format!("https://127.0.0.1:{port}/");
    let value = json(&[&url, "--insecure", "--http2", "--requests", "2", "--clients", "1"]);
    assert_eq!(number(&value, "/errors_by_kind/tls"), 2.0, "{value:#}");
    assert!(value["tls"]["first_error"].as_str().is_some_and(|text| text.contains("HTTP/2")), "{value:#}");
    let value = json(&[&url, "--insecure", "--requests", "2", "--clients", "1"]);
    assert_eq!((number(&value, "/errors"), number(&value, "/requests")), (0.0, 2.0), "{value:#}");
}

#[test]
fn http_3_agrees_with_the_log() {
    let tree = Tree::standard();
    tree.write("page.bin", bytes_of(50_000));
    let log = tree.beside("access.log");
    let root = tree.root();
    let text = |path: &Path| path.to_str().expect("the path is text").to_string();
    let mut server = Server::start([
        "--root",
        &text(&root),
        "--listen",
        "127.0.0.1:0",
        "--development-certificate",
        "--http3",
        "--access-log",
        &text(&log),
        "--cores",
        "1",
    ]);
    let url = format!("https://{}/page.bin", server.address());
    let fixed = [&url, "--insecure", "--http3", "--expect-size", "50000", "--clients", "6"];
    let ways: [(&[&str], f64); 4] = [
        (&["--requests", "60"], 6.0),
        (&["--requests", "120", "--streams", "3"], 2.0),
        (&["--rate", "100", "--duration", "500ms", "--streams", "3"], 2.0),
        (&["--requests", "12", "--new-connections"], 12.0),
    ];
    let mut all = 0;
    for (way, connections) in ways {
        let value = json(&[&fixed, way].concat());
        assert_eq!(number(&value, "/errors"), 0.0, "{way:?}: {value:#}");
        assert!(number(&value, "/connections") <= connections, "{way:?}: {value:#}");
        assert_eq!(value["plan"]["http_version"], Value::from("3"));
        // On a machine that stalls for a moment some arrivals may be left that found no free client.
        let unsent = value.pointer("/arrivals/unsent").and_then(Value::as_u64).unwrap_or_default() as usize;
        let wanted = if way[0] == "--rate" { 50 - unsent } else { way[1].parse().expect("a number") };
        assert_eq!(number(&value, "/requests") as usize, wanted, "{way:?}: {value:#}");
        all += wanted;
    }
    let value = json(&[&url, "--http3", "--requests", "3", "--clients", "1"]);
    assert_eq!(number(&value, "/errors_by_kind/tls"), 3.0, "{value:#}");
    assert_eq!(logged(&tree, &mut server), all);
    // Another server may have its port by now.
    let url = format!("https://127.0.0.1:{}/page.bin", free_port());
    let value = json(&[&url, "--insecure", "--http3", "--requests", "3", "--clients", "1"]);
    assert_eq!(number(&value, "/errors_by_kind/connect"), 3.0, "{value:#}");
}

/// A process that ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// nginx with HTTP and HTTPS of both versions, and its log; `None` where it is not installed.
fn nginx(tree: &Tree) -> Option<(Ended, SocketAddr, SocketAddr)> {
    write_certificates(tree);
    let (plain, secure) = (free_port(), free_port());
    let (around, root) = (tree.around().display(), tree.root());
    let text = format!(
        "daemon off; master_process off; pid {around}/nginx.pid; error_log {around}/nginx.err;
        events {{ worker_connections 500; }}
        http {{
            access_log {around}/access.log; client_body_temp_path {around}/body; client_max_body_size 10m;
            proxy_temp_path {around}/p; fastcgi_temp_path {around}/f; uwsgi_temp_path {around}/u; \
            scgi_temp_path {around}/s;
            keepalive_requests 50;
            server {{ listen 127.0.0.1:{plain}; root {root}; error_page 405 =200 $uri; }}
            server {{
                listen 127.0.0.1:{secure} ssl http2; root {root}; error_page 405 =200 $uri;
                ssl_certificate {around}/server.pem; ssl_certificate_key {around}/server.key;
                ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:a:1m;
            }}
        }}",
        root = root.display()
    );
    std::fs::write(tree.beside("nginx.conf"), text).expect("the directory can be written");
    let started = Command::new("nginx")
        .arg("-c")
        .arg(tree.beside("nginx.conf"))
        .arg("-p")
        .arg(tree.around())
        .stderr(Stdio::null())
        .spawn();
    let Ok(child) = started else {
        skipped("the load engine against nginx (install nginx)");
        return None;
    };
    let child = Ended(child);
    let [plain, secure] = [plain, secure].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    wait_until("nginx listens", Duration::from_secs(60), || std::net::TcpStream::connect(secure).is_ok());
    Some((child, plain, secure))
}

#[test]
fn nginx_counts_the_same_requests() {
    let tree = Tree::standard();
    tree.write("page.bin", bytes_of(200_000));
    let Some((_nginx, plain, secure)) = nginx(&tree) else { return };
    let (plain, secure) = (format!("http://{plain}/page.bin"), format!("https://{secure}/page.bin"));
    // nginx ends each connection after 50 requests, in every version in its own way (Connection: close,
    // GOAWAY), which loses none and is not an error.
    let ways: [&[&str]; 6] = [
        &[&plain],
        &[&secure, "--insecure"],
        &[&secure, "--insecure", "--tls", "1.2", "--new-connections"],
        &[&secure, "--insecure", "--http2"],
        &[&secure, "--insecure", "--http2", "--streams", "10"],
        &[&secure, "--insecure", "--http2", "--streams", "10", "--method", "PUT", "--body-size", "300k"],
    ];
    let mut before = 0;
    for way in ways {
        let value =
            json(&[way, &["--clients", "20", "--requests", "600", "--expect-size", "200000"]].concat());
        assert_eq!(
            (number(&value, "/errors"), number(&value, "/requests")),
            (0.0, 600.0),
            "{way:?}: {value:#}"
        );
        let connections = number(&value, "/connections");
        assert!(connections >= 12.0, "{way:?}: {connections} connections of 50 requests at most");
        let counted = || {
            let log = std::fs::read_to_string(tree.beside("access.log")).unwrap_or_default();
            log.lines().filter(|line| line.contains("/page.bin") && line.contains(" 200 ")).count()
        };
        let wanted = before + 600;
        wait_until("nginx has logged all of them", Duration::from_secs(60), || counted() >= wanted);
        before = counted();
        assert_eq!(before, wanted, "{way:?}");
    }
}
