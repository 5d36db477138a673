//! Certificates for IP addresses (RFC 8738), which are short-lived.

use std::process::Command;

use super::pebble::Pebble;
use super::{PATIENCE, Scene};
use crate::support::{curl, skipped, wait_until};

/// Whether the certificate in this file ends within so many seconds.
fn ends_within(file: &std::path::Path, seconds: u64) -> bool {
    let status = Command::new("openssl")
        .args(["x509", "-noout", "-checkend", &seconds.to_string(), "-in"])
        .arg(file)
        .status()
        .expect("openssl was there");
    !status.success()
}

#[test]
fn an_address_beside_names_by_each_challenge() {
    if Command::new("openssl").arg("version").output().is_err() {
        return skipped("the lives of certificates (install openssl)");
    }
    for challenge in ["tls-alpn-01", "http-01"] {
        let mut scene = Scene::new();
        scene.settings.has_short_lived = true;
        let Some(pebble) = Pebble::start(&scene.settings) else { return };
        // The site with names is the first: a client without a name gets the site of the address anyway.
        let text = scene.acme(Some(&pebble), &format!("challenges = [{challenge:?}]"))
            + &scene.secure_site(&["one.test"])
            + &scene.secure_site(&["127.0.0.1"])
            + &scene.plain_site(&["one.test", "127.0.0.1"], "");
        let server = scene.start(&text);
        let root = pebble.root();
        scene.wait_until_served("one.test", &root);
        let url = format!("https://127.0.0.1:{}/alphabet.txt", scene.settings.tls_port);
        let root = root.to_str().expect("the path is text");
        wait_until("the address is served", PATIENCE, || {
            std::thread::sleep(std::time::Duration::from_millis(100));
            let output = curl(["--cacert", root, "--fail", &url]).expect("curl was there");
            output.status.success() && output.stdout == crate::support::ALPHABET.as_bytes()
        });
        // The authority has a short-lived profile, which is taken for addresses.
        assert!(ends_within(&scene.certificate_file("127.0.0.1"), 6 * 24 * 3600 + 3600));
        drop(server);
    }
}

#[test]
fn a_profile_for_all() {
    let mut scene = Scene::new();
    scene.settings.has_short_lived = true;
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let text = scene.acme(Some(&pebble), "profile = \"shortlived\"") + &scene.secure_site(&["one.test"]);
    let server = scene.start(&text);
    scene.wait_until_served("one.test", &pebble.root());
    assert!(ends_within(&scene.certificate_file("one.test"), 6 * 24 * 3600 + 3600));
    assert!(!ends_within(&scene.certificate_file("one.test"), 5 * 24 * 3600));
    drop(server);
}
