//! Origins with TLS: the server verifies certificates and names, and presents its own certificate if the
//! origin requests it.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::{proxy, text};
use crate::support::{Nginx, Server, Tree, bytes_of, free_port, run, skipped, wait_until};

/// An authority and its certificates, in files.
struct Files {
    authority: PathBuf,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    fn new(tree: &Tree) -> Files {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = tree.around().join("authority.pem");
        std::fs::write(&authority, issuer.pem()).unwrap();
        Files { authority, issuer }
    }

    fn certificate(&self, tree: &Tree, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (pem, key_pem) =
            (tree.around().join(format!("{name}.pem")), tree.around().join(format!("{name}.key")));
        std::fs::write(&pem, certificate.pem()).unwrap();
        std::fs::write(&key_pem, key.serialize_pem()).unwrap();
        (pem, key_pem)
    }
}

/// An origin that is this server itself, with TLS.
fn secure_origin(tree: &Tree, files: &Files, more: &str) -> Server {
    let (certificate, key) = files.certificate(tree, "localhost");
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = \"{}\"\ncertificate = \"{}\"\nkey = \"{}\"\n{more}",
        tree.root().display(),
        certificate.display(),
        key.display()
    );
    Server::configured(tree.around(), &text)
}

#[test]
fn certificates_are_verified_unless_that_is_spelled_out() {
    let behind = Tree::standard();
    behind.write("app/long.bin", bytes_of(3 << 20));
    behind.write("app/short.txt", "short");
    let files = Files::new(&behind);
    let origin = secure_origin(&behind, &files, "http3 = true\n");
    let port = origin.address().port();
    let tree = Tree::standard();
    let authority = files.authority.display();
    let trusting = format!("[site.route.proxy.tls]\nauthorities = \"{authority}\"\n");
    // Far longer than it takes on a busy machine.
    let patience = "connect_timeout = \"50s\"\nhandshake_timeout = \"50s\"";
    for version in ["1.1", "2", "auto", "3"] {
        let keys = format!("to = \"https://localhost:{port}\"\nversion = \"{version}\"\n{patience}\n");
        let server = proxy(&tree, &keys, &trusting);
        for _ in 0..3 {
            assert_eq!(text(&server, "/app/short.txt"), "short", "{version}");
            assert!(server.get("/app/long.bin").body == bytes_of(3 << 20), "{version}");
        }
        // No trusted authority has signed the certificate.
        let strict = proxy(&tree, &keys, "");
        assert_eq!(strict.get("/app/short.txt").status, 502);
        strict.wait_for_error_line("why", |line| line.contains("no TLS") && line.contains("UnknownIssuer"));
    }
    for version in ["1.1", "3"] {
        // The certificate is for another name.
        let keys = format!("to = \"https://127.0.0.1:{port}\"\nversion = \"{version}\"\n{patience}\n");
        let server = proxy(&tree, &keys, &trusting);
        assert_eq!(server.get("/app/short.txt").status, 502);
        server.wait_for_error_line("why", |line| line.contains("no TLS"));
        let named = proxy(&tree, &keys, &format!("{trusting}server_name = \"localhost\"\n"));
        assert_eq!(text(&named, "/app/short.txt"), "short");
        let insecure = proxy(&tree, &keys, "[site.route.proxy.tls]\ninsecure = true\n");
        assert_eq!(text(&insecure, "/app/short.txt"), "short");
    }
    // Plain HTTP to a port with TLS, and TLS to a port without.
    let plain = proxy(&tree, &format!("to = \"http://localhost:{port}\"\n"), "");
    assert_ne!(plain.get("/app/short.txt").status, 200);
    let http = super::saying("plain");
    let keys = format!("to = \"https://{}\"\nhandshake_timeout = \"200ms\"\n", http.address);
    let server = proxy(&tree, &keys, "");
    assert_eq!(server.get("/app/").status, 504);
    server.wait_for_error_line("which step", |line| line.contains("the TLS handshake was not completed"));
}

#[test]
fn a_certificate_of_version_1_is_named_as_such() {
    let tree = Tree::standard();
    let openssl = |arguments: &str| {
        let mut command = std::process::Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(tree.around()).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()
    };
    let new_key = "req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout old.key";
    let Ok(mut asked) = openssl(&format!("{new_key} -subj /CN=localhost -out old.csr")) else {
        return skipped("certificates of X.509 version 1 (install openssl)");
    };
    assert!(asked.wait().unwrap().success());
    let signed = openssl("x509 -req -in old.csr -signkey old.key -out old.pem").unwrap().wait();
    assert!(signed.unwrap().success());
    let port = free_port();
    let mut origin =
        openssl(&format!("s_server -quiet -www -accept {port} -cert old.pem -key old.key")).unwrap();
    wait_until("openssl listens", std::time::Duration::from_secs(60), || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    let authorities = tree.around().join("old.pem");
    let keys = format!("to = \"https://localhost:{port}\"\n");
    let trusting = format!("[site.route.proxy.tls]\nauthorities = \"{}\"\n", authorities.display());
    let server = proxy(&tree, &keys, &trusting);
    let status = server.get("/app/").status;
    origin.kill().unwrap();
    origin.wait().unwrap();
    assert_eq!(status, 502);
    server.wait_for_error_line("why", |line| line.contains("its certificate is of X.509 version 1"));
}

#[test]
fn connections_with_tls_are_kept() {
    let behind = Tree::standard();
    behind.write("app/short.txt", "short");
    let files = Files::new(&behind);
    let origin = secure_origin(&behind, &files, "http3 = true\n");
    let tree = Tree::standard();
    let trusting = format!("[site.route.proxy.tls]\nauthorities = \"{}\"\n", files.authority.display());
    for version in ["1.1", "2", "3"] {
        let keys =
            format!("to = \"https://localhost:{}\"\nversion = \"{version}\"\n", origin.address().port());
        let server = proxy(&tree, &keys, &trusting);
        for _ in 0..20 {
            assert_eq!(text(&server, "/app/short.txt"), "short");
        }
        let configuration = tree.around().join("touchstone.toml");
        let status = run(["status", "--json", "--config", configuration.to_str().unwrap()]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        let opened = &status["facts"]["origins"][0]["connections_opened"];
        // In HTTP/2 and HTTP/3 each core has one connection.
        let most = if version == "1.1" { 1 } else { 64 };
        assert!(
            opened.as_u64().is_some_and(|opened| (1..=most).contains(&opened) && opened < 20),
            "{status}"
        );
    }
}

#[test]
fn a_certificate_of_our_own_is_shown_to_who_asks() {
    let behind = Tree::standard();
    behind.write("app/short.txt", "short");
    let files = Files::new(&behind);
    let demanding = format!("http3 = true\nclient_authorities = \"{}\"\n", files.authority.display());
    let origin = secure_origin(&behind, &files, &demanding);
    let (certificate, key) = files.certificate(&behind, "proxy.example");
    let tree = Tree::standard();
    for version in ["1.1", "3"] {
        let port = origin.address().port();
        let keys = format!("to = \"https://localhost:{port}\"\nversion = \"{version}\"\n");
        let trusting = format!("[site.route.proxy.tls]\nauthorities = \"{}\"\n", files.authority.display());
        assert_eq!(proxy(&tree, &keys, &trusting).get("/app/short.txt").status, 502, "{version}");
        let own =
            format!("{trusting}certificate = \"{}\"\nkey = \"{}\"\n", certificate.display(), key.display());
        assert_eq!(text(&proxy(&tree, &keys, &own), "/app/short.txt"), "short", "{version}");
    }
}

#[test]
fn nginx_with_tls_and_http_2_is_an_origin() {
    let behind = Tree::standard();
    behind.write("app/long.bin", bytes_of(2 << 20));
    behind.write("app/short.txt", "short");
    let files = Files::new(&behind);
    let (certificate, key) = files.certificate(&behind, "localhost");
    let block = format!(
        "root {}; ssl_certificate {}; ssl_certificate_key {};",
        behind.root().display(),
        certificate.display(),
        key.display()
    );
    let Some(nginx) = Nginx::start(&behind, "ssl http2", &block) else { return };
    let tree = Tree::standard();
    let trusting = format!("[site.route.proxy.tls]\nauthorities = \"{}\"\n", files.authority.display());
    for version in ["1.1", "2", "auto"] {
        let keys = format!("to = \"https://localhost:{}\"\nversion = \"{version}\"\n", nginx.address.port());
        let server = proxy(&tree, &keys, &trusting);
        for _ in 0..3 {
            assert_eq!(text(&server, "/app/short.txt"), "short", "{version}");
            assert!(server.get("/app/long.bin").body == bytes_of(2 << 20), "{version}");
        }
        assert_eq!(server.get("/app/missing").status, 404);
    }
}
