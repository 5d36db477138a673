//! HTTPS and HTTP/2 from the outside, with curl: whatever the version, the bytes are the same.

use std::fs;
use std::path::Path;

use crate::support::{Server, Tree, bytes_of, curl, wait_until};

/// The versions that curl supports, by its options.
const VERSIONS: [&str; 3] = ["--http1.0", "--http1.1", "--http2"];

fn secure_server(tree: &Tree, more: &[&str]) -> Server {
    let root = tree.root();
    let root = root.to_str().expect("the path is text");
    let fixed = ["--listen", "127.0.0.1:0", "--root", root, "--development-certificate"];
    Server::start(fixed.iter().chain(more))
}

/// What curl prints for `target` of an HTTPS server; `None` where curl is missing.
fn ask(server: &Server, target: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let url = format!("https://{}{target}", server.address());
    let output = curl(["--insecure", url.as_str()].iter().chain(arguments))?;
    assert!(output.status.success(), "{arguments:?} {target}: {}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

#[test]
fn every_version_gets_the_same_bytes() {
    let tree = Tree::empty();
    let sizes = [0, 1, 6_250, 65_536, 65_537, 1 << 20, (5 << 20) + 1];
    for size in sizes {
        tree.write(&format!("{size}.bin"), bytes_of(size));
    }
    let server = secure_server(&tree, &[]);
    for version in VERSIONS {
        for size in sizes {
            let Some(body) = ask(&server, &format!("/{size}.bin"), &[version]) else { return };
            assert!(body == bytes_of(size), "{version}, {size} bytes");
        }
        let Some(part) = ask(&server, "/65537.bin", &[version, "--range", "65530-"]) else { return };
        assert!(part == bytes_of(65_537)[65_530..], "{version}, range");
    }
}

#[test]
fn http_2_answers_as_http_1_does() {
    let tree = Tree::standard();
    let server = secure_server(&tree, &[]);
    let head = |target: &str, arguments: &[&str]| {
        let all = [&["--dump-header", "-", "--output", "/dev/null"], arguments].concat();
        ask(&server, target, &all).map(|head| String::from_utf8(head).expect("a head is text"))
    };
    for (target, arguments, expected) in [
        ("/alphabet.txt", &[][..], "HTTP/2 200"),
        ("/missing", &[], "HTTP/2 404"),
        ("/alphabet.txt", &["--head"], "HTTP/2 200"),
        ("/alphabet.txt", &["--request", "DELETE"], "HTTP/2 405"),
        ("/alphabet.txt", &["--data", "abc"], "HTTP/2 405"),
        ("/alphabet.txt", &["--range", "100-"], "HTTP/2 416"),
        ("/alphabet.txt", &["--header", "if-none-match: *"], "HTTP/2 304"),
        ("/alphabet.txt", &["--request", "OPTIONS"], "HTTP/2 204"),
    ] {
        let arguments = [&["--http2"], arguments].concat();
        let Some(head) = head(target, &arguments) else { return };
        assert!(head.starts_with(expected), "{target} {arguments:?}: {head}");
        assert!(head.contains("\r\nserver: touchstone\r\n") && !head.contains("\r\nconnection:"), "{head}");
    }
}

/// Fields that do not fit must not be omitted: a rule or a program might use them.
#[test]
fn header_sections_over_the_limits_are_refused_in_every_version() {
    let tree = Tree::standard();
    let server = secure_server(&tree, &[]);
    let fields = |count: usize, value: &str| {
        (0..count).flat_map(|index| ["-H".to_string(), format!("x-{index}: {value}")]).collect::<Vec<_>>()
    };
    let status = ["--output", "/dev/null", "--write-out", "%{http_code}"];
    for version in ["--http1.1", "--http2"] {
        for (fields, status_expected) in [
            (fields(80, "v"), "200"),
            (fields(101, "v"), "431"),
            (fields(1, &"v".repeat(33 << 10)), "431"),
            (fields(20, &"v".repeat(2 << 10)), "431"),
        ] {
            let fields = fields.iter().map(String::as_str);
            let arguments: Vec<&str> = [version].iter().chain(&status).copied().chain(fields).collect();
            let Some(answer) = ask(&server, "/alphabet.txt", &arguments) else { return };
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert_eq!(answer, status_expected, "{version} {} arguments", arguments.len());
        }
    }
}

#[test]
fn http_2_in_the_clear_by_prior_knowledge() {
    let tree = Tree::empty();
    tree.write("page.bin", bytes_of(300_000));
    let server = Server::quick(&tree.root());
    let url = format!("http://{}/page.bin", server.address());
    // The first request fills the cache, the second one is a hit. (Each with its own curl: some versions of
    // it do not use such a connection again.)
    for _ in 0..2 {
        let Some(output) = curl(["--http2-prior-knowledge", &url]) else { return };
        assert!(output.stdout == bytes_of(300_000), "{} bytes", output.stdout.len());
    }
}

#[test]
fn one_connection_carries_many_requests() {
    let tree = Tree::empty();
    tree.write("page.bin", bytes_of(300_000));
    let server = secure_server(&tree, &[]);
    let url = format!("https://{}/page.bin", server.address());
    let several = ["--parallel", "--http2", "--insecure", "--write-out", "%{num_connects}", &url, &url, &url];
    let Some(output) = curl(several) else { return };
    assert_eq!(output.stdout.len(), 3 * (300_000 + 1));
}

#[test]
fn the_log_names_the_version() {
    let tree = Tree::standard();
    let log = tree.beside("access.log");
    let log_text = log.to_str().expect("the path is text");
    let mut server = secure_server(&tree, &["--access-log", log_text, "--access-log-format", "common"]);
    // The first request fills the cache, the second one is a hit.
    for _ in 0..2 {
        if ask(&server, "/alphabet.txt", &["--http2"]).is_none() {
            return;
        }
    }
    server.stop();
    let lines = fs::read_to_string(&log).expect("the log is there");
    let wanted = "\"GET /alphabet.txt HTTP/2.0\" 200 26";
    assert_eq!(lines.lines().filter(|line| line.ends_with(wanted)).count(), 2, "{lines}");
}

#[test]
fn plain_http_on_a_tls_port_is_told_so() {
    let tree = Tree::standard();
    let server = secure_server(&tree, &[]);
    let mut client = server.connect();
    let answer = client.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("https://"));
    client.end();
}

#[test]
fn a_renewed_certificate_is_taken_up_and_a_broken_one_is_not() {
    let tree = Tree::standard();
    let (certificate, key) = (tree.beside("a.pem"), tree.beside("a.key"));
    let make = |name: &str| make_certificate(name, &certificate, &key);
    if !make("one") {
        return;
    }
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncertificate = {certificate:?}\nkey = {key:?}\n",
        tree.root()
    );
    let server = Server::configured(tree.around(), &text);
    let subject = || {
        let url = format!("https://{}/alphabet.txt", server.address());
        let output = curl(["--insecure", "--verbose", &url]).expect("curl was there before");
        assert!(output.status.success());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        said.lines().find(|line| line.contains("subject:")).unwrap_or_default().to_string()
    };
    assert!(subject().contains("CN=one"), "{}", subject());
    assert!(make("two"));
    wait_until("the new certificate is shown", std::time::Duration::from_secs(60), || {
        subject().contains("CN=two")
    });
    fs::write(&certificate, "not a certificate").expect("the file can be written");
    server.wait_for_error_line("the broken file is named", |line| line.contains("a.pem"));
    assert!(subject().contains("CN=two"), "what was there before stays");
}

#[test]
fn a_site_that_wants_client_certificates_is_not_reached_through_another() {
    let tree = Tree::standard();
    let (certificate, key) = (tree.beside("a.pem"), tree.beside("a.key"));
    if !make_certificate("authority", &certificate, &key) {
        return;
    }
    let root = tree.root();
    let site = |host: &str, more: &str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nlisten = [\"127.0.0.1:0\"]\nroot = {root:?}\n\
             certificate = {certificate:?}\nkey = {key:?}\n{more}\n"
        )
    };
    let text = site("open.test", "") + &site("closed.test", &format!("client_authorities = {certificate:?}"));
    let server = Server::configured(tree.around(), &text);
    let port = server.address().port();
    let status = |host: &str, version: &str| {
        let resolve = format!("open.test:{port}:127.0.0.1");
        let (host, url) = (format!("Host: {host}"), format!("https://open.test:{port}/alphabet.txt"));
        let fixed =
            ["--insecure", "--resolve", &resolve, "--output", "/dev/null", "--write-out", "%{http_code}"];
        let output =
            curl(fixed.iter().copied().chain([version, "--header", &host, &url])).expect("curl was there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for version in ["--http1.1", "--http2"] {
        // Twice each: the first may be answered from the file, the second from the cache.
        for _ in 0..2 {
            assert_eq!(status("open.test", version), "200", "{version}");
            assert_eq!(status("closed.test", version), "421", "{version}");
        }
    }
}

/// Makes a certificate with openssl; false, with a visible word, where curl or openssl is missing.
fn make_certificate(name: &str, certificate: &Path, key: &Path) -> bool {
    if curl(["--version"]).is_none() {
        return false;
    }
    let made = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
        ])
        .args(["-subj", &format!("/CN={name}")])
        .arg("-keyout")
        .arg(key)
        .arg("-out")
        .arg(certificate)
        .output();
    match made {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            true
        }
        Err(_) => {
            crate::support::skipped("certificates that change (install openssl)");
            false
        }
    }
}

#[test]
fn wildcards_stand_for_names_below() {
    let (tree, other) = (Tree::empty(), Tree::empty());
    let mut sections = String::new();
    let names =
        [("one", "[\"*.example.org\"]"), ("two", "[\"*.b.example.org\", \"x.example.org\"]"), ("rest", "[]")];
    for (name, hosts) in names {
        let root = other.around().join(name);
        fs::create_dir_all(&root).expect("a directory");
        fs::write(root.join("who"), name).expect("a file");
        sections.push_str(&format!(
            "[[site]]\nlisten = [\"127.0.0.1:0\"]\nhosts = {hosts}\nroot = \"{}\"\n",
            root.display()
        ));
    }
    let server = Server::configured(tree.around(), &sections);
    for (host, expected) in [
        ("a.example.org", "one"),
        ("deep.a.example.org", "one"),
        ("A.EXAMPLE.org.:80", "one"),
        ("x.example.org", "two"),
        ("a.b.example.org", "two"),
        ("example.org", "rest"),
        ("example.org.evil", "rest"),
        ("b.example.org", "one"),
        ("", "rest"),
    ] {
        let answer = server.connect().ask(format!("GET /who HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(String::from_utf8_lossy(&answer.body), expected, "{host}");
    }
}
