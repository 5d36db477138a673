//! Sites: certificates by name, client certificates, which sites use HTTP/3 and announce it, logs, reload.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use crate::http3::client::Client;
use crate::http3::server_and_client;
use crate::support::{Server, Tree, curl, free_port, skipped, wait_until};

/// A self-signed certificate; false, with a visible message, if openssl is missing.
fn make_certificate(name: &str, certificate: &Path, key: &Path) -> bool {
    let kind =
        ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"];
    let made = Command::new("openssl")
        .args(kind)
        .args(["-subj", &format!("/CN={name}"), "-addext", "basicConstraints=critical,CA:FALSE"])
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
            skipped("certificates of several sites (install openssl)");
            false
        }
    }
}

#[test]
fn names_choose_certificates_and_rules() {
    let tree = Tree::standard();
    let Some(mut client) = Client::start() else { return };
    let mut text = String::from("[server]\ncores = 2\n");
    for (name, more) in [
        ("open.test", "http3 = true".to_string()),
        ("old.test", String::new()),
        ("closed.test", format!("http3 = true\nclient_authorities = {:?}", tree.beside("closed.test.pem"))),
    ] {
        let (certificate, key) = (tree.beside(&format!("{name}.pem")), tree.beside(&format!("{name}.key")));
        if !make_certificate(name, &certificate, &key) {
            return;
        }
        text += &format!(
            "[[site]]\nhosts = [{name:?}]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n\
             certificate = {certificate:?}\n\
             key = {key:?}\n{more}\n",
            tree.root()
        );
    }
    let server = Server::configured(tree.around(), &text);
    let ask = |client: &mut Client, connection: &str, authority: &str| {
        let request = json!([{"path": "/alphabet.txt", "authority": authority}]);
        client.requests(connection, request).remove(0).status()
    };

    let open = client.connect_with("open", &server, json!({"server_name": "open.test"}));
    assert_eq!(open["certificate"], "CN=open.test");
    assert_eq!(ask(&mut client, "open", "open.test"), 200);
    // Through this connection the client reaches neither a site without HTTP/3 nor one with other rules.
    assert_eq!(ask(&mut client, "open", "old.test"), 421);
    assert_eq!(ask(&mut client, "open", "closed.test"), 421);

    let old = client.connect_with("old", &server, json!({"server_name": "old.test"}));
    // CRYPTO_ERROR with the alert unrecognized_name (RFC 9001 section 4.8).
    assert_eq!(old["closed"]["code"], 0x100 + 112, "{old}");

    client.connect_with("no certificate", &server, json!({"server_name": "closed.test"}));
    // CRYPTO_ERROR with the alert certificate_required.
    assert_eq!(client.wait_closed("no certificate"), 0x100 + 116);
    let shown = json!({
        "server_name": "closed.test",
        "certificate": tree.beside("closed.test.pem"),
        "key": tree.beside("closed.test.key"),
    });
    client.connect_with("certificate", &server, shown);
    assert_eq!(ask(&mut client, "certificate", "closed.test"), 200);
    assert_eq!(ask(&mut client, "certificate", "open.test"), 421);
}

#[test]
fn a_renewed_certificate_is_shown() {
    let tree = Tree::standard();
    let Some(mut client) = Client::start() else { return };
    let (certificate, key) = (tree.beside("a.pem"), tree.beside("a.key"));
    if !make_certificate("one", &certificate, &key) {
        return;
    }
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncertificate = {certificate:?}\nkey = {key:?}\n\
         http3 = true\n",
        tree.root()
    );
    let server = Server::configured(tree.around(), &text);
    assert_eq!(client.connect("before", &server)["certificate"], "CN=one");
    make_certificate("two", &certificate, &key);
    wait_until("the new certificate", std::time::Duration::from_secs(60), || {
        client.connect("after", &server)["certificate"] == "CN=two"
    });
    assert_eq!(client.get("before", "/alphabet.txt").status(), 200);
}

#[test]
fn other_versions_are_told_of_it() {
    let tree = Tree::standard();
    let port = free_port();
    let root = tree.root();
    let root = root.to_str().expect("the path is text");
    let listen = format!("127.0.0.1:{port}");
    let server = Server::start(["--listen", &listen, "--root", root, "--development-certificate", "--http3"]);
    let url = format!("https://{}/alphabet.txt", server.address());
    // The second one is a hit.
    for version in ["--http1.1", "--http1.1", "--http2", "--http2"] {
        let Some(output) = curl([version, "--insecure", "--dump-header", "-", &url]) else { return };
        let head = String::from_utf8_lossy(&output.stdout).to_ascii_lowercase();
        assert!(head.contains(&format!("\r\nalt-svc: h3=\":{port}\"; ma=86400\r\n")), "{version}: {head}");
    }
}

#[test]
fn the_log_names_the_version() {
    let tree = Tree::standard();
    let log = tree.beside("access.log");
    let log_text = log.to_str().expect("the path is text");
    let more = ["--access-log", log_text, "--access-log-format", "common"];
    let Some((mut server, mut client)) = server_and_client(&tree, &more) else { return };
    client.connect("a", &server);
    // The first request fills the cache, the second one is a hit.
    for _ in 0..2 {
        assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
    }
    client.run(json!({"do": "close", "name": "a"}));
    server.stop();
    let lines = fs::read_to_string(&log).expect("the log is there");
    let wanted = "\"GET /alphabet.txt HTTP/3.0\" 200 26";
    assert_eq!(lines.lines().filter(|line| line.ends_with(wanted)).count(), 2, "{lines}");
}

#[test]
fn a_reload_switches_it_on_and_off() {
    let tree = Tree::standard();
    let Some(mut client) = Client::start() else { return };
    let with = |http3: bool, more: &str| {
        format!(
            "[server]\ncores = 2\n[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n\
             development_certificate = true\n\
             http3 = {http3}\n{more}",
            tree.root()
        )
    };
    let server = Server::configured(tree.around(), &with(false, ""));
    let reload = |http3: bool, more: &str, times: usize| {
        fs::write(tree.around().join("touchstone.toml"), with(http3, more)).expect("it is written");
        server.signal(Signal::HUP);
        wait_until("the configuration is applied", std::time::Duration::from_secs(60), || {
            server.error_text().matches("applied").count() == times
        });
    };
    reload(true, "", 1);
    client.connect("a", &server);
    assert_eq!(client.get("a", "/alphabet.txt").status(), 200);
    // Another configuration: the connection is kept, and new requests are answered by it.
    reload(true, "headers = { X-New = \"yes\" }", 2);
    assert_eq!(client.get("a", "/alphabet.txt").field("x-new"), Some("yes"));
    client.connect("b", &server);
    assert_eq!(client.get("b", "/alphabet.txt").field("x-new"), Some("yes"));
    reload(false, "", 3);
    for name in ["a", "b"] {
        client.run(json!({"do": "wait", "name": name, "for": "goaway"}));
        assert_eq!(client.wait_closed(name), 0x100);
    }
}
