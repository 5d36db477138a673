//! The safe values of `security_fields`, judged by the rules of MDN's HTTP Observatory: its own program, from
//! npm, checks a site of this test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;

use crate::support::{Server, Tree, skipped};

/// Where `scripts/setup-observatory.sh` puts it: below the target directory, in which the tests' binary is as
/// well.
fn observatory() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_touchstone"));
    let target = built.ancestors().nth(2).expect("the binary is in target/debug");
    let package = target.join("observatory/node_modules/@mdn/mdn-http-observatory");
    if !package.exists() {
        skipped("rules of the HTTP Observatory (install nodejs npm, then run scripts/setup-observatory.sh)");
        return None;
    }
    Some(package)
}

/// The program's result for a page of this site.
fn judged(tree: &Tree, package: &Path, keys: &str) -> Value {
    let authority_key = KeyPair::generate().expect("a key");
    let mut authority_params = CertificateParams::new(Vec::new()).expect("parameters");
    authority_params.distinguished_name.push(DnType::CommonName, "an authority of a test");
    authority_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = authority_params.self_signed(&authority_key).expect("a certificate");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["localhost".to_string()]).expect("parameters");
    let issuer = Issuer::new(authority_params, authority_key);
    let certificate = params.signed_by(&key, &issuer).expect("a certificate");
    fs::write(tree.beside("ca.pem"), authority.pem()).expect("written");
    fs::write(tree.beside("site.pem"), certificate.pem() + &key.serialize_pem()).expect("written");
    let text = format!(
        "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\ncertificate = \"site.pem\"\n{keys}\n\
         [[site]]\nlisten = [\"127.0.0.2:0\"]\nroot = {:?}\n",
        tree.root(),
        tree.root()
    );
    let server = Server::configured(tree.around(), &text);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols/browser_fields/observatory.mjs");
    let output = Command::new("node")
        .arg(script)
        .arg(package)
        .arg(server.address().port().to_string())
        .env("NODE_EXTRA_CA_CERTS", tree.beside("ca.pem"))
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said)
        .unwrap_or_else(|error| panic!("{error}: {said} {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_safe_values_pass_every_rule() {
    let Some(package) = observatory() else { return };
    let tree = Tree::standard();
    tree.write(
        "index.html",
        "<!DOCTYPE html><html lang=\"en\"><title>a</title><script src=\"a.js\"></script>",
    );
    let without = judged(&tree, &package, "");
    for (test, result) in [
        ("content-security-policy", "csp-not-implemented"),
        ("strict-transport-security", "hsts-not-implemented"),
        ("x-content-type-options", "x-content-type-options-not-implemented"),
        ("x-frame-options", "x-frame-options-not-implemented"),
    ] {
        assert_eq!(without[test]["result"], result, "{without}");
    }
    let safe = judged(&tree, &package, "security_fields = \"default\"");
    for (test, result) in [
        ("content-security-policy", "csp-implemented-with-no-unsafe"),
        ("cross-origin-resource-sharing", "cross-origin-resource-sharing-not-implemented"),
        ("referrer-policy", "referrer-policy-private"),
        ("strict-transport-security", "hsts-implemented-max-age-at-least-six-months"),
        ("x-content-type-options", "x-content-type-options-nosniff"),
        ("x-frame-options", "x-frame-options-implemented-via-csp"),
        ("cross-origin-resource-policy", "corp-implemented-with-same-origin"),
    ] {
        assert_eq!(safe[test]["result"], result, "{safe}");
        assert_eq!(safe[test]["pass"], true, "{test}: {safe}");
        assert!(safe[test]["modifier"].as_i64() >= Some(0), "{test}: {safe}");
    }
    let strict = "security_fields = { content_security_policy = \
                  \"default-src 'none'; script-src 'self'; base-uri 'none'; form-action 'self'; \
                  frame-ancestors 'none'\" }\ncors = { origins = [\"https://www.example.org\"] }";
    let strict = judged(&tree, &package, strict);
    let csp = &strict["content-security-policy"];
    assert_eq!(csp["result"], "csp-implemented-with-no-unsafe-default-src-none", "{strict}");
    // The program sends a request with an origin that is not listed.
    let cors = &strict["cross-origin-resource-sharing"];
    assert_eq!(cors["result"], "cross-origin-resource-sharing-not-implemented", "{strict}");
    let open = judged(&tree, &package, "cors = { origins = [\"*\"] }");
    let cors = &open["cross-origin-resource-sharing"];
    assert_eq!(cors["result"], "cross-origin-resource-sharing-implemented-with-public-access", "{open}");
    assert_eq!(cors["pass"], true, "{open}");
}
