//! AJP against a real Tomcat: the request that a servlet gets, bodies of every size, sessions over two
//! containers, and faults.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

pub(crate) mod certificates;
pub(crate) mod tomcat;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::support::{AnswerTo, Origin, Response, Server, Tree, bytes_of, curl, free_port, wait_until};
use certificates::make_certificates;
use rustix::process::Signal;
use tomcat::{Options, SECRET, Tomcat};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server that passes `/shop/` to these containers.
fn with_backends(tree: &Tree, backends: &[String], keys: &str, routes: &str) -> Server {
    // On a busy machine a container can take seconds to answer a ping. It would count as failed, and its
    // sessions and requests would go elsewhere.
    let patience = if keys.contains("ping_timeout") { "" } else { "ping_timeout = \"50s\"\n" };
    let route = format!(
        "{routes}\n[[site.route]]\npath = \"/shop/\"\n[site.route.ajp]\nbackends = {backends:?}\n\
         secret = {SECRET:?}\n{patience}{keys}\n"
    );
    let sections = "[server]\ncores = 1\n[limits]\nbody_bytes = \"300MiB\"\nheader_bytes = \"64KiB\"\n\
                    header_fields = 500";
    Server::configured(tree.around(), &(tree.configuration(sections) + &route))
}

fn before(tomcat: &Tomcat, tree: &Tree, keys: &str) -> Server {
    with_backends(tree, &[tomcat.address()], keys, "")
}

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

#[track_caller]
fn assert_lines(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|each| each == *line), "{line} is not in\n{text}");
    }
}

#[test]
fn a_servlet_is_told_about_its_request() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::standard();
    let server = before(&tomcat, &tree, "attributes = { \"org.example.site\" = \"the shop\" }");
    let mut client = server.connect();
    let answer = client.ask(
        "GET /shop/./probe.jsp?do=info&x=%20y HTTP/1.1\r\nHost: www.example.org:81\r\nX-Plain: yes\r\n\
         X-Twice: 1\r\n\
         X-Twice: 2\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\n\
         Authorization: Basic YTpi\r\n\
         AJP_REMOTE_PORT: 1\r\nAJP_LOCAL_ADDR: 9.9.9.9\r\nsecret: guessed\r\nremote_user: root\r\n\
         jakarta.servlet.include.request_uri: /WEB-INF/web.xml\r\norg.example.smuggled: 1\r\n\r\n",
    );
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("text/plain;charset=utf-8")));
    let seen = text(&answer);
    assert_lines(
        &seen,
        &[
            "method=GET",
            "uri=/shop/probe.jsp",
            "url=http://www.example.org:81/shop/probe.jsp",
            "query=do=info&x=%20y",
            "protocol=HTTP/1.1",
            "remote_addr=127.0.0.1",
            "local_addr=127.0.0.1",
            "server=www.example.org:81",
            "secure=false http",
            "user=null null",
            "length=-1",
            "header host=www.example.org:81",
            "header x-plain=yes",
            "header x-twice=1",
            "header x-twice=2",
            "header authorization=Basic YTpi",
            "attribute org.example.site=the shop",
            // A field with the form of an attribute remains a field.
            "header ajp_remote_port=1",
            "header ajp_local_addr=9.9.9.9",
            "header secret=guessed",
            "header org.example.smuggled=1",
        ],
    );
    let attributes: Vec<&str> = seen.lines().filter(|line| line.starts_with("attribute ")).collect();
    assert_eq!(attributes, ["attribute org.example.site=the shop"]);
    for line in
        ["remote_port=1", "remote_port=0", "header x-hop=1", "header te=trailers", "header connection="]
    {
        assert!(!seen.lines().any(|each| each.starts_with(line)), "{line} is in\n{seen}");
    }
    assert!(seen.contains("remote_port="));
    // Without Host, the server's name is its address. The kernel chose the port for the test, so the port of
    // the scheme is sent.
    let answer = server.connect().ask("GET /shop/probe.jsp HTTP/1.0\r\n\r\n");
    assert_lines(&text(&answer), &["protocol=HTTP/1.0", "server=127.0.0.1:80"]);
    // Methods with and without an AJP code. The page answers only a few methods, and names the one of the
    // request.
    let answer = server.connect().ask("OPTIONS /shop/probe.jsp HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.field("allow"), Some("GET, HEAD, POST, OPTIONS"));
    for method in ["PATCH", "LOCK", "BREW"] {
        let ask = format!("{method} /shop/page.html HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let answer = server.connect().ask(ask);
        assert!(answer.status >= 405 && text(&answer).contains(method), "{method}: {}", text(&answer));
    }
    // Files of the site outside the route are served as before.
    server.assert_serves("/alphabet.txt", crate::support::ALPHABET.as_bytes());
}

#[test]
fn authorization_and_the_user_are_told_as_configured() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    // The password "secret", by htpasswd -nbB.
    let line = "ada:$2b$05$/xQhyvcKyBjD2E2McLGEwuZQfxGxxl6NKxp3z3ogIbXxECKJa/LDO\n";
    fs::write(tree.beside("users"), line).unwrap();
    let keys = format!(
        "pass_authorization = false\n[site.route.basic_authentication]\nfile = {:?}\nrealm = \"r\"",
        tree.beside("users")
    );
    let server = before(&tomcat, &tree, &keys);
    let ask = |credentials: &str| {
        let head = "GET /shop/probe.jsp HTTP/1.1\r\nHost: a\r\nAJP_REMOTE_USER: root\r\n";
        server.connect().ask(format!("{head}{credentials}\r\n"))
    };
    assert_eq!(ask("").status, 401);
    let seen = text(&ask("Authorization: Basic YWRhOnNlY3JldA==\r\n"));
    assert_lines(&seen, &["user=ada Basic"]);
    assert!(!seen.contains("header authorization"), "{seen}");
}

#[test]
fn bodies_of_every_size_arrive() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    // Around the sizes of the first packet, of two packets, of what is read ahead, and of a body that is
    // spooled.
    for length in [0, 1, 8_185, 8_186, 8_187, 16_372, 16_373, 65_535, 65_536, 65_537, 3_000_000] {
        let path = tree.beside("body.bin");
        fs::write(&path, bytes_of(length)).unwrap();
        let data = format!("@{}", path.display());
        let url = format!("http://{}/shop/probe.jsp?do=echo&back=1", server.address());
        for more in
            [&["--http1.1"][..], &["--header", "Transfer-Encoding: chunked"], &["--http2-prior-knowledge"]]
        {
            // As bytes, because getParameter would read a form.
            let fixed = ["--header", "Content-Type: application/x-bytes", "--data-binary", &data, &url];
            let Some(output) = curl(fixed.iter().chain(more)) else { return };
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{length} {more:?}: {errors}\n{}", server.error_text());
            assert!(output.stdout == bytes_of(length), "{length} {more:?}: {} bytes", output.stdout.len());
        }
    }
}

#[test]
fn a_hundred_megabytes_stream_through_in_packets_of_any_size() {
    const LENGTH: u64 = 100 << 20;
    let Some(_) = Tomcat::shared() else { return };
    let large = Options { connector: "packetSize='65536'".to_string(), ..Options::default() };
    let Some(tomcat) = Tomcat::start(&large) else { return };
    let tree = Tree::empty();
    let file = fs::File::create(tree.beside("body.bin")).unwrap();
    file.set_len(LENGTH).unwrap();
    let sum = Command::new("sha256sum").arg(tree.beside("body.bin")).output().unwrap();
    let sum = String::from_utf8_lossy(&sum.stdout)[..64].to_string();
    let server = before(&tomcat, &tree, "packet_bytes = \"64KiB\"");
    let url = format!("http://{}/shop/probe.jsp?do=echo", server.address());
    let data = tree.beside("body.bin");
    let data = data.to_str().unwrap();
    for more in [&["--http1.1"][..], &["--header", "Transfer-Encoding: chunked"]] {
        let fixed =
            ["--max-time", "300", "--request", "POST", "--header", "Expect:", "--upload-file", data, &url];
        let Some(output) = curl(fixed.iter().chain(more)) else { return };
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(said, format!("{LENGTH} {sum}"), "{more:?}\n{}", server.error_text());
    }
    let memory = fs::read_to_string(format!("/proc/{}/status", server.process())).unwrap();
    let peak = memory.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    let peak_kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak_kib * 1024 < LENGTH, "bodies are held: {peak}");
    // The other direction.
    let url = format!("http://{}/shop/probe.jsp?do=bytes&n={LENGTH}", server.address());
    let fixed = ["--output", "/dev/null", "--write-out", "%{size_download}", "--max-time", "300", &url];
    let Some(output) = curl(fixed) else { return };
    assert_eq!(String::from_utf8_lossy(&output.stdout), LENGTH.to_string());
}

#[test]
fn answers_of_every_kind_come_back() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    let mut client = server.connect();
    for (target, status, length) in [
        ("/shop/probe.jsp?do=bytes&n=0", 200, 0),
        ("/shop/probe.jsp?do=bytes&n=1&length=1", 200, 1),
        ("/shop/probe.jsp?do=bytes&n=8184", 200, 8184),
        ("/shop/probe.jsp?do=bytes&n=8185&length=1", 200, 8185),
        ("/shop/probe.jsp?do=bytes&n=500000", 200, 500_000),
        ("/shop/probe.jsp?do=bytes&n=500000&length=1", 200, 500_000),
        ("/shop/page.html", 200, 6),
    ] {
        let answer = client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!((answer.status, answer.body.len()), (status, length), "{target}");
        client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.try_answer(AnswerTo::Head).unwrap();
        assert_eq!(head.status, status, "HEAD {target}");
        if target.contains("length=1") || target.ends_with(".html") {
            assert!(head.field("content-length").is_some(), "HEAD {target}");
            assert_eq!(head.field("content-length"), answer.field("content-length"), "HEAD {target}");
        }
    }
    for (target, status) in [
        ("/shop/probe.jsp?do=status&s=404", 404),
        ("/shop/probe.jsp?do=status&s=503", 503),
        ("/shop/probe.jsp?do=status&s=204", 204),
        ("/shop/probe.jsp?do=throw", 500),
        ("/shop/missing", 404),
        ("/shop/WEB-INF/web.xml", 404),
    ] {
        let answer = client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, status, "{target}");
    }
    // A file of the container is requested again with a condition, and not sent twice.
    let page = client.ask("GET /shop/page.html HTTP/1.1\r\nHost: a\r\n\r\n");
    let tag = page.field("etag").unwrap();
    let again =
        client.ask(format!("GET /shop/page.html HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n"));
    assert_eq!((again.status, again.body.len()), (304, 0));
    let answer = client.ask("GET /shop/probe.jsp?do=headers&n=200&size=20 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((answer.status, answer.values("x-many-199").count()), (200, 1));
    assert_eq!(answer.values("set-cookie").collect::<Vec<_>>(), ["a=b; Path=/", "c=d"]);
    // More fields than the limit, and a head that fits into no packet, which Tomcat itself finds out.
    let answer = client.ask("GET /shop/probe.jsp?do=headers&n=300&size=2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status, 502);
    server.wait_for_error_line("names the fields", |line| line.contains("fields, and 256 are allowed"));
}

#[test]
fn large_heads_fit_or_are_refused_as_a_whole() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    let many: String = (0..150).map(|index| format!("X-Field-{index}: {index}\r\n")).collect();
    let seen = text(&server.connect().ask(format!("GET /shop/probe.jsp HTTP/1.1\r\nHost: a\r\n{many}\r\n")));
    assert_lines(&seen, &["header x-field-0=0", "header x-field-149=149"]);
    for (length, status) in [(4_000, 200), (7_000, 200), (9_000, 431), (40_000, 431)] {
        let large = "v".repeat(length);
        let answer = server
            .connect()
            .ask(format!("GET /shop/probe.jsp HTTP/1.1\r\nHost: a\r\nX-Large: {large}\r\n\r\n"));
        assert_eq!(answer.status, status, "{length} bytes");
        assert!(status != 200 || text(&answer).contains(&large), "{length} bytes");
    }
    let long = "q".repeat(8_100);
    let answer = server.connect().ask(format!("GET /shop/probe.jsp?{long} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(answer.status, 414);
    server.wait_for_error_line("says what to do", |line| line.contains("raise packet_bytes"));
}

#[test]
fn what_is_flushed_comes_at_once() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    let sign = tomcat.beside("sign");
    let _ = fs::remove_file(&sign);
    let mut client = server.connect();
    client.set_patience(PATIENCE);
    client.send(format!("GET /shop/probe.jsp?do=slow&until={} HTTP/1.1\r\nHost: a\r\n\r\n", sign.display()));
    // The head and the first line are here while the page waits for the file.
    client.wait_for_bytes(150);
    fs::write(&sign, "").unwrap();
    assert_eq!(client.answer().body, b"first\nsecond\n");
}

#[test]
fn a_body_that_is_not_read_does_no_harm() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    for (length, body) in [(10, bytes_of(10)), (50_000, bytes_of(50_000))] {
        for _ in 0..3 {
            let mut client = server.connect();
            client.send(format!(
                "POST /shop/probe.jsp?do=ignore HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n"
            ));
            client.send(&body);
            assert_eq!(client.answer().body, b"not read", "{length}");
            // The next request succeeds, on the same connection to the container or on a new one.
            let seen = text(&server.get("/shop/probe.jsp?do=info"));
            assert_lines(&seen, &["method=GET"]);
        }
    }
    // A client that leaves in the middle of the request body.
    let mut client = server.connect();
    client.send("POST /shop/probe.jsp?do=echo HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\n");
    client.send(bytes_of(100_000));
    client.vanish();
    assert_lines(&text(&server.get("/shop/probe.jsp?do=info")), &["method=GET"]);
}

#[test]
fn paths_lead_where_rules_say() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::standard();
    let closed = "[[site.route]]\npath = \"/shop/private/\"\ndeny = [\"0.0.0.0/0\"]\n\
                  [[site.route]]\npath = \"/shop/private.jsp\"\nrespond = { status = 410 }";
    let server = with_backends(&tree, &[tomcat.address()], "", closed);
    let status = |target: &str| {
        server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).status
    };
    for (target, expected) in [
        ("/shop/page.html", 200),
        ("/shop/page.html;a=b", 200),
        ("/shop;x/page.html", 400),
        ("/shop/a;b/../page.html", 200),
        ("/shop//page.html", 200),
        ("/shop/%70age.html", 200),
        // A closed path is closed in every spelling.
        ("/shop/private/page.html", 403),
        ("/shop/private;x/page.html", 403),
        ("/shop/private/;x/page.html", 403),
        ("/shop/x/..;/private/page.html", 400),
        ("/shop/%70rivate;/page.html", 403),
        ("/shop/private.jsp;jsessionid=1", 410),
        // No spelling reaches another application.
        ("/inner/index.html", 404),
        ("/shop/../inner/index.html", 404),
        ("/shop/..;/inner/index.html", 400),
        ("/shop/..;x=y/inner/index.html", 400),
        ("/shop/%2e%2e;/inner/index.html", 400),
        ("/shop/.%2e/inner/index.html", 404),
        ("/shop/..%3b/inner/index.html", 400),
        ("/shop/..%2finner/index.html", 404),
        ("/shop/..%5cinner/index.html", 400),
        ("/shop/..\\inner\\index.html", 400),
        ("/shop/%252e%252e/inner/index.html", 404),
        ("/shop/..%00/inner/index.html", 400),
        ("/shop/..;/..;/inner/index.html", 400),
    ] {
        let found = status(target);
        // A path that names neither a file of this site nor an application is 404, from the server or from
        // Tomcat.
        assert_eq!(found, expected, "{target}");
    }
}

#[test]
fn what_is_cached_is_no_way_around_a_rule() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let line = "ada:$2b$05$/xQhyvcKyBjD2E2McLGEwuZQfxGxxl6NKxp3z3ogIbXxECKJa/LDO\n";
    fs::write(tree.beside("users"), line).unwrap();
    let ajp = format!("ajp = {{ backends = [{:?}], secret = {SECRET:?} }}", tomcat.address());
    let fresh = "cache = {}";
    let routes = format!(
        "[[site.route]]\npath = \"/shop/private/\"\n{ajp}\n{fresh}\n[site.route.basic_authentication]\n\
         file = {:?}\n\
         realm = \"r\"\n[[site.route]]\npath = \"/shop/\"\n{ajp}\n{fresh}\n",
        tree.beside("users")
    );
    let server = Server::configured(tree.around(), &(tree.configuration("[server]\ncores = 1") + &routes));
    let ask = |target: &str, fields: &str| {
        server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let ada = "Authorization: Basic YWRhOnNlY3JldA==\r\n";
    for target in ["/shop/private/probe.jsp", "/shop/private;x/probe.jsp", "/shop/x;/../private/probe.jsp"] {
        let target = format!("{target}?do=public");
        for _ in 0..3 {
            // The answer allows every cache to store it; still, the server sends it to no other client.
            assert_eq!(ask(&target, ada).status, 200, "{target}");
            assert_eq!(ask(&target, "").status, 401, "{target}");
        }
    }
    // A page that needs no login is answered from the cache, unless its path has parameters.
    let bodies = |target: &str| [0, 1, 2].map(|_| text(&ask(target, "")));
    let [first, second, third] = bodies("/shop/probe.jsp?do=public");
    assert!(first == second && second == third, "{first} {second} {third}");
    let [first, second, third] = bodies("/shop/probe.jsp;x?do=public");
    assert!(first != second && second != third, "{first} {second} {third}");
}

#[test]
fn a_wrong_secret_is_refused_by_the_container() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    for (keys, status) in [("secret = \"guessed\"", 403), ("", 403), ("secret_file = \"FILE\"", 200)] {
        let file = tree.beside("secret");
        fs::write(&file, format!("{SECRET}\n")).unwrap();
        let keys = keys.replace("FILE", file.to_str().unwrap());
        let route = format!(
            "[[site.route]]\npath = \"/shop/\"\n[site.route.ajp]\nbackends = [\"{}\"]\n{keys}\n",
            tomcat.address()
        );
        let server = Server::configured(tree.around(), &(tree.configuration("") + &route));
        let answer = server
            .connect()
            .ask("GET /shop/page.html HTTP/1.1\r\nHost: a\r\nsecret: a secret of the tests\r\n\r\n");
        assert_eq!(answer.status, status, "{keys}");
    }
}

#[test]
fn an_attribute_that_the_container_does_not_know_is_refused_by_it() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "attributes = { \"com.example.other\" = \"1\" }");
    assert_eq!(server.get("/shop/page.html").status, 403);
}

#[test]
fn websockets_are_refused_in_so_many_words() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "");
    let answer = server.connect().ask(
        "GET /shop/page.html HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    assert_eq!(answer.status, 501);
    assert!(text(&answer).contains("AJP, which cannot carry WebSockets"));
    server.wait_for_error_line("says so too", |line| line.contains("AJP cannot carry WebSockets"));
    // Other upgrades are an offer, which the server may ignore.
    let answer = server
        .connect()
        .ask("GET /shop/page.html HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n");
    assert_eq!(answer.status, 200);
}

#[test]
fn a_servlet_sees_the_tls_session() {
    let Some(tomcat) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    if !make_certificates(&tree) {
        return;
    }
    let file = |name: &str| tree.beside(name).to_str().unwrap().to_string();
    let text = format!(
        "[server]\ncores = 1\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncertificate = {:?}\n\
         key = {:?}\n\
         client_authorities = {:?}\nclient_certificate = \"optional\"\n[[site.route]]\npath = \"/shop/\"\n\
         [site.route.ajp]\n\
         backends = [\"{}\"]\nsecret = {SECRET:?}\n",
        tree.root(),
        file("server.pem"),
        file("server.key"),
        file("authority.pem"),
        tomcat.address()
    );
    let server = Server::configured(tree.around(), &text);
    let port = server.address().port();
    let resolve = format!("localhost:{port}:127.0.0.1");
    let url = format!("https://localhost:{port}/shop/probe.jsp");
    let (authority, certificate, key) = (file("authority.pem"), file("client.pem"), file("client.key"));
    for more in [&["--http1.1"][..], &["--http2"], &["--http1.1", "--tls-max", "1.2"]] {
        for shows in [false, true] {
            let mut arguments = vec!["--cacert", &authority, "--resolve", &resolve, &url];
            arguments.extend_from_slice(more);
            if shows {
                arguments.extend_from_slice(&["--cert", &certificate, "--key", &key]);
            }
            let Some(output) = curl(arguments) else { return };
            let seen = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_old = more.contains(&"1.2");
            let version = if is_old { "tls protocol=TLSv1.2" } else { "tls protocol=TLSv1.3" };
            assert_lines(&seen, &["secure=true https", version]);
            let suite = seen.lines().find(|line| line.starts_with("tls cipher_suite=")).unwrap();
            let size = if suite.contains("128") { "tls key_size=128" } else { "tls key_size=256" };
            assert!(suite.contains("AES") || suite.contains("CHACHA"), "{suite}");
            let subject = if shows { "tls subject=CN=Ada, O=Example" } else { "tls subject=null" };
            assert_lines(&seen, &[size, subject]);
        }
    }
}

/// The text of a session's page, with the cookie of its answer.
struct Visit {
    count: String,
    route: String,
    link: String,
}

fn visit(server: &Server, target: &str, cookie: &str) -> (u16, Option<Visit>, Option<String>) {
    let answer = server
        .connect()
        .ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{cookie}Connection: close\r\n\r\n"));
    let said = text(&answer);
    let value = |name: &str| said.lines().find_map(|line| line.strip_prefix(name)).map(str::to_string);
    let visit = value("count=").map(|count| Visit {
        count,
        route: value("id=").unwrap().split_once('.').map_or(String::new(), |(_, route)| route.to_string()),
        link: value("link=").unwrap(),
    });
    let cookie = answer.field("set-cookie").and_then(|value| value.split(';').next()).map(str::to_string);
    (answer.status, visit, cookie)
}

#[test]
fn sessions_stay_with_their_container_and_survive_its_end_as_new_ones() {
    let Some(one) = Tomcat::start(&Options { route: "one", ..Options::default() }) else { return };
    let Some(mut two) = Tomcat::start(&Options { route: "two", ..Options::default() }).map(Some) else {
        return;
    };
    let tree = Tree::empty();
    let port_two = two.as_ref().unwrap().port;
    let backends =
        [format!("{} route=one weight=2", one.address()), format!("127.0.0.1:{port_two} route=two")];
    let keys =
        "balance = \"round-robin\"\nmax_failures = 1\nfail_timeout = \"300ms\"\ncheck_interval = \"100ms\"";
    let server = with_backends(&tree, &backends, keys, "");
    let page = "/shop/probe.jsp?do=session";
    // New sessions are distributed by weight.
    let (mut cookies, mut routes) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let (_, visit, cookie) = visit(&server, page, "");
        routes.push(visit.unwrap().route);
        cookies.push(cookie.unwrap());
    }
    assert_eq!(routes.iter().filter(|route| *route == "one").count(), 4, "{routes:?}");
    // Each session is sent to its container, by its cookie or by its path.
    for turn in 2..5 {
        for (cookie, route) in cookies.iter().zip(&routes) {
            let found = visit(&server, page, &format!("Cookie: x=y; {cookie}\r\n")).1.unwrap();
            assert_eq!((found.count, &found.route), (turn.to_string(), route));
        }
    }
    let (_, first, _) = visit(&server, page, "");
    let first = first.unwrap();
    assert!(first.link.contains(";jsessionid="), "{}", first.link);
    for turn in 2..5 {
        let found = visit(&server, &format!("{}?do=session", first.link), "").1.unwrap();
        assert_eq!((found.count, &found.route), (turn.to_string(), &first.route));
    }
    // One container is killed: the other answers all clients, with new sessions.
    two = None;
    for (cookie, route) in cookies.iter().zip(&routes) {
        let (status, found, _) = visit(&server, page, &format!("Cookie: {cookie}\r\n"));
        let found = found.unwrap();
        let expected = if route == "one" { "5" } else { "1" };
        assert_eq!((status, found.count.as_str(), found.route.as_str()), (200, expected, "one"));
    }
    assert!(two.is_none());
    server.wait_for_error_line("tells of it", |line| line.contains("gets no requests for"));
    // The container starts again and gets requests again.
    let again = Tomcat::start(&Options { route: "two", port: port_two, ..Options::default() });
    server.wait_for_error_line("tells of its return", |line| line.contains("is up again"));
    wait_until("the second is asked again", PATIENCE, || visit(&server, page, "").1.unwrap().route == "two");
    drop(again);
}

#[test]
fn sessions_that_are_bound_go_nowhere_else() {
    let Some(one) = Tomcat::start(&Options { route: "one", ..Options::default() }) else { return };
    let tree = Tree::empty();
    let backends = [format!("{} route=one", one.address()), format!("127.0.0.1:{} route=gone", free_port())];
    let server = with_backends(&tree, &backends, "sessions = \"bind\"", "");
    let page = "/shop/probe.jsp?do=session";
    assert_eq!(visit(&server, page, "Cookie: JSESSIONID=1F.gone\r\n").0, 502);
    assert_eq!(visit(&server, page, "Cookie: JSESSIONID=1F.one\r\n").0, 200);
    assert_eq!(visit(&server, page, "Cookie: JSESSIONID=1F.unknown\r\n").0, 200);
    // The same with sessions ignored.
    let server = with_backends(&tree, &backends, "sessions = \"ignore\"", "");
    assert_eq!(visit(&server, page, "Cookie: JSESSIONID=1F.gone\r\n").0, 200);
}

#[test]
fn a_container_that_has_hung_is_left_for_another() {
    let Some(one) = Tomcat::start(&Options { route: "one", ..Options::default() }) else { return };
    let Some(two) = Tomcat::shared() else { return };
    let tree = Tree::empty();
    let backends = [one.address(), format!("{} backup", two.address())];
    let keys = "ping_after = \"0s\"\nping_timeout = \"5s\"\nmax_failures = 1\n\
                fail_timeout = \"1h\"";
    let server = with_backends(&tree, &backends, keys, "");
    assert_eq!(server.get("/shop/page.html").status, 200);
    // The halted container still accepts connections, and the kept connection remains open.
    one.halt();
    let answer =
        server.connect().ask("POST /shop/page.html HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    // The request must not be repeated, so no byte of it was sent to the container that hangs.
    assert_eq!((answer.status, &answer.body[..]), (200, &b"a page"[..]));
    server.wait_for_error_line("tells of it", |line| line.contains("does not answer on them"));
    one.signal(Signal::CONT);
}

#[test]
fn a_container_that_hangs_costs_the_time_of_a_ping_however_many_connections_are_kept() {
    let tree = Tree::empty();
    let (first, second) = (Container::start(), Container::start());
    let backends = [first.address.clone(), format!("{} backup", second.address)];
    // With the time of one ping for each kept connection, the test would run into its patience.
    let keys = "ping_after = \"0s\"\nping_timeout = \"8s\"\nping_waiting = \"0s\"";
    let server = with_backends(&tree, &backends, keys, "");
    let mut clients: Vec<_> = (0..12).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| client.set_patience(PATIENCE));
    first.hold.store(true, Relaxed);
    clients.iter_mut().for_each(|client| client.send("GET /shop/ HTTP/1.1\r\nHost: a\r\n\r\n"));
    wait_until("twelve connections are used", PATIENCE, || first.requests.load(Relaxed) == 12);
    first.hold.store(false, Relaxed);
    clients.iter_mut().for_each(|client| assert_eq!(client.answer().status, 200));
    first.hangs.store(true, Relaxed);
    let mut client = server.connect();
    client.set_patience(PATIENCE);
    let answer = client.ask("POST /shop/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!((answer.status, second.requests.load(Relaxed)), (200, 1));
}

#[test]
fn a_request_that_waits_in_a_container_that_hangs_goes_to_another() {
    let tree = Tree::empty();
    let (first, second) = (Container::start(), Container::start());
    let backends = [first.address.clone(), format!("{} backup", second.address)];
    // The connection was used a moment ago, so it is not checked before the request.
    let keys = "ping_after = \"1h\"\nping_timeout = \"6s\"\nping_waiting = \"100ms\"\n\
                first_byte_timeout = \"1h\"";
    let server = with_backends(&tree, &backends, keys, "");
    assert_eq!(server.get("/shop/").status, 200);
    // One that is alive and slow keeps the request.
    first.hold.store(true, Relaxed);
    let mut client = server.connect();
    client.set_patience(PATIENCE);
    client.send("GET /shop/ HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("it was looked at three times", PATIENCE, || first.pings.load(Relaxed) >= 4);
    first.hold.store(false, Relaxed);
    assert_eq!((client.answer().status, second.requests.load(Relaxed)), (200, 0));
    first.hangs.store(true, Relaxed);
    assert_eq!(client.ask("GET /shop/ HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    assert_eq!(second.requests.load(Relaxed), 1);
    server.wait_for_error_line("says why", |line| line.contains("neither an answer nor that to a ping came"));
    // Alone it keeps its requests: no other container can answer them.
    let alone = Container::start();
    let keys = "ping_timeout = \"10ms\"\nping_waiting = \"10ms\"\nping_new = false\n\
                first_byte_timeout = \"500ms\"";
    let server = with_backends(&tree, std::slice::from_ref(&alone.address), keys, "");
    alone.hangs.store(true, Relaxed);
    assert_eq!(server.get("/shop/").status, 504);
    server.wait_for_error_line("says why", |line| line.contains("no answer came within 500ms"));
}

/// A container that answers every request with an empty page, as long as it does not hang.
#[derive(Clone, Default)]
struct Container {
    address: String,
    /// No request is answered, pings are.
    hold: Arc<AtomicBool>,
    /// Nothing is answered.
    hangs: Arc<AtomicBool>,
    requests: Arc<AtomicUsize>,
    pings: Arc<AtomicUsize>,
}

impl Container {
    fn start() -> Container {
        let container = Container::default();
        let serving = container.clone();
        let origin = Origin::start(move |stream| serving.answer(stream));
        Container { address: origin.address.to_string(), ..container }
    }

    /// Answers the packets of a connection until it ends.
    fn answer(&self, stream: &mut TcpStream) {
        let mut head = [0; 4];
        while stream.read_exact(&mut head).is_ok() {
            let mut packet = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
            if stream.read_exact(&mut packet).is_err() {
                return;
            }
            let is_ping = packet == [10];
            let count = if is_ping { &self.pings } else { &self.requests };
            count.fetch_add(1, Relaxed);
            while self.hangs.load(Relaxed) || !is_ping && self.hold.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let answer: &[u8] = match is_ping {
                true => b"AB\x00\x01\x09",
                false => b"AB\x00\x0a\x04\x00\xc8\x00\x02OK\x00\x00\x00AB\x00\x02\x05\x01",
            };
            if stream.write_all(answer).is_err() {
                return;
            }
        }
    }
}

#[test]
fn what_takes_too_long_or_is_not_there_is_said() {
    let tree = Tree::empty();
    // Accepts connections and sends no bytes.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = with_backends(
        &tree,
        &[silent.local_addr().unwrap().to_string()],
        "ping_new = false\nfirst_byte_timeout = \"100ms\"",
        "",
    );
    assert_eq!(server.get("/shop/").status, 504);
    let server = with_backends(&tree, &[format!("127.0.0.1:{}", free_port())], "", "");
    assert_eq!(server.get("/shop/").status, 502);
    for (bytes, what) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not speak AJP13"),
        (b"AB\x00\x04\x03\x00\x01a", "before the head"),
        (b"AB\x00\x02\x05\x01", "without a head"),
        (b"AB\xff\xff", "packetSize"),
        (b"AB\x00\x07\x04\x00\xc8\x00\x02OK", "ends before"),
        (b"", "without an answer"),
    ] {
        let address = answering(bytes);
        let server = with_backends(&tree, &[address.to_string()], "", "");
        assert_eq!(server.get("/shop/").status, 502, "{}", bytes.escape_ascii());
        server.wait_for_error_line(what, |line| line.contains(what));
    }
    // An answer that breaks off in the middle of its body does not pass for a whole one.
    let address = answering(b"AB\x00\x0a\x04\x00\xc8\x00\x02OK\x00\x00\x00AB\x00\x05\x03\x00\x01a\x00");
    let server = with_backends(&tree, &[address.to_string()], "", "");
    let mut client = server.connect();
    client.send("GET /shop/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!client.try_answer(AnswerTo::Other).is_ok_and(|answer| answer.status == 200));
}

#[test]
fn the_reason_phrase_of_a_container_reaches_its_client() {
    for (bytes, reason) in [
        (&b"AB\x00\x14\x04\x01\x94\x00\x0cGone fishing\x00\x00\x00AB\x00\x02\x05\x01"[..], "Gone fishing"),
        // What Tomcat sends.
        (b"AB\x00\x0b\x04\x01\x94\x00\x03404\x00\x00\x00AB\x00\x02\x05\x01", "Not Found"),
    ] {
        let tree = Tree::empty();
        let server = with_backends(&tree, &[answering(bytes).to_string()], "", "");
        let answer = server.get("/shop/");
        assert_eq!((answer.status, answer.reason.as_str()), (404, reason));
    }
}

/// A server that sends these bytes on each connection after a request, and closes it.
fn answering(bytes: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serve = move |mut stream: TcpStream| {
        let mut packet = [0; 8192];
        let ping = stream.read(&mut packet).unwrap_or(0);
        if packet[..ping] == *b"\x12\x34\x00\x01\x0a" {
            let _ = stream.write_all(b"AB\x00\x01\x09");
            let _ = stream.read(&mut packet);
        }
        let _ = stream.write_all(bytes);
        // A close with unread bytes would reset the connection, and the answer could be lost.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    };
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn connections_are_kept_and_those_that_the_container_ends_are_replaced() {
    let short = Options { connector: "keepAliveTimeout='1500'".to_string(), ..Options::default() };
    let Some(tomcat) = Tomcat::start(&short) else { return };
    let tree = Tree::empty();
    let server = before(&tomcat, &tree, "ping_after = \"1h\"");
    let mut client = server.connect();
    let mut post = || {
        let head = "POST /shop/probe.jsp?do=echo HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\n\
                    Content-Length: 3\r\n\r\n";
        let answer = client.ask(format!("{head}abc"));
        assert!(answer.status == 200 && text(&answer).starts_with("3 "), "{}", text(&answer));
    };
    post();
    let sockets = server.open_sockets();
    for _ in 0..10 {
        post();
    }
    wait_until("they share connections", PATIENCE, || server.open_sockets() <= sockets);
    for _ in 0..3 {
        wait_until("the container has ended them", PATIENCE, || !has_connections(tomcat.port));
        post();
    }
    assert!(!server.error_text().contains("program failed"), "{}", server.error_text());
}

/// Whether a connection to this port is open on both sides.
fn has_connections(port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let ending = format!(":{port:04X}");
    ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().any(|table| {
        fs::read_to_string(table).unwrap_or_default().lines().any(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            columns.get(2).is_some_and(|remote| remote.ends_with(&ending)) && columns[3] == ESTABLISHED
        })
    })
}

#[test]
fn unix_sockets_are_spoken_to() {
    let tree = Tree::empty();
    let socket = tree.beside("ajp.sock");
    let options = Options { socket: Some(socket.clone()), ..Options::default() };
    let Some(_tomcat) = Tomcat::start(&options) else { return };
    let server = with_backends(&tree, &[format!("unix:{}", socket.display())], "", "");
    assert_eq!(server.get("/shop/page.html").body, b"a page");
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let tree = Tree::empty();
    for (keys, what) in [
        ("backends = []", "there is none"),
        ("backends = [\"127.0.0.1:8009 backup\"]", "at least one must not be a backup"),
        ("backends = [\"127.0.0.1:8009 route=a b\"]", "route=NAME"),
        ("backends = [\"127.0.0.1:8009\"]\npacket_bytes = \"128KiB\"", "packet_bytes"),
        ("backends = [\"127.0.0.1:8009\"]\nattributes = { AJP_REMOTE_PORT = \"1\" }", "AJP_REMOTE_PORT"),
        ("backends = [\"127.0.0.1:8009\"]\nsecret_file = \"/nowhere/secret\"", "/nowhere/secret"),
    ] {
        let path = tree.beside("touchstone.toml");
        let route = format!("[[site.route]]\npath = \"/shop/\"\n[site.route.ajp]\n{keys}\n");
        fs::write(&path, tree.configuration("") + &route).unwrap();
        let output = crate::support::run([Path::new("check"), Path::new("--config"), &path]);
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(what), "{keys}: {said}");
    }
}
