//! Certificates by proofs in DNS: from real name servers, by a program, and by a permanent record.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::name_server::{Kind, NameServer, ZONE};
use super::pebble::{Pebble, Settings};
use super::{PATIENCE, Scene};
use crate::support::{run, wait_until};

/// A scene whose authority uses this name server.
fn scene_of(name_server: &NameServer) -> Scene {
    let scene = Scene::new();
    let settings = Settings { name_server: Some(name_server.port), ..scene.settings };
    Scene { settings, ..scene }
}

fn wildcard_by_updates(kind: Kind) {
    let Some(name_server) = NameServer::start(kind) else { return };
    let scene = scene_of(&name_server);
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let hosts = ["*.example.test", "example.test", "alias.example.test"];
    let text = scene.acme(Some(&pebble), &name_server.right_settings()) + &scene.secure_site(&hosts);
    let server = scene.start(&text);
    let root = pebble.root();
    for host in ["any.example.test", "example.test", "alias.example.test"] {
        scene.wait_until_served(host, &root);
    }
    assert!(scene.certificate_file("wildcard_.example.test").is_file());
    // No record remains in the zone, and the alias was followed.
    for name in ["_acme-challenge.example.test", "target.dynamic.example.test"] {
        wait_until("the record is removed", PATIENCE, || name_server.dig("TXT", name).is_empty());
    }
    let log = server.error_text();
    assert!(log.contains("by dns-01") && !log.contains("could not be removed"), "{log}");
}

#[test]
fn a_wildcard_by_updates_of_knot() {
    wildcard_by_updates(Kind::Knot);
}

#[test]
fn a_wildcard_by_updates_of_bind() {
    wildcard_by_updates(Kind::Bind);
}

#[test]
fn keys_that_the_name_server_refuses() {
    for kind in [Kind::Knot, Kind::Bind] {
        let Some(name_server) = NameServer::start(kind) else { return };
        let scene = scene_of(&name_server);
        let Some(pebble) = Pebble::start(&scene.settings) else { return };
        let secret = "YW5vdGhlciBzZWNyZXQgb2YgdGhlIGtleSBvZiB0aGUgdGVzdHM=";
        for (name, secret, expected) in [
            ("acme.key", secret, "it has another secret for the key acme.key (BADSIG)"),
            ("other.key", secret, "it has no key other.key with this algorithm (BADKEY)"),
        ] {
            let dns = name_server.settings(name, secret);
            let mut server =
                scene.start(&(scene.acme(Some(&pebble), &dns) + &scene.secure_site(&["*.example.test"])));
            server.wait_for_error_line("says what is wrong", |line| {
                line.contains("no certificate for *.example.test: it could not be proved by dns-01")
                    && line.contains(&format!("the zone {ZONE} cannot be changed"))
                    && line.contains(expected)
            });
            server.stop();
            assert!(!server.error_text().contains(&secret[..10]));
        }
    }
}

#[test]
fn a_program_sets_the_records() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let hook = scene.tree.beside("hook.sh");
    let calls = scene.tree.beside("calls");
    let management = pebble.name_management();
    fs::write(
        &hook,
        format!(
            "#!/bin/sh\necho \"$1 $2\" >> {calls:?}\n\
             case $1 in\n\
             present) exec curl -fsS -d \"{{\\\"host\\\": \\\"$2.\\\", \\\"value\\\": \\\"$3\\\"}}\" \
             {management}/set-txt ;;\n\
             cleanup) exec curl -fsS -d \"{{\\\"host\\\": \\\"$2.\\\"}}\" {management}/clear-txt ;;\n\
             esac\n"
        ),
    )
    .expect("the program is written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o700)).expect("its mode");
    let names = format!("127.0.0.1:{}", pebble.name_port());
    let dns = |hook: &str| {
        format!(
            "challenges = [\"dns-01\"]\n\
             dns = {{ hook = [{hook}], resolvers = [{names:?}], check_servers = [{names:?}] }}"
        )
    };
    let site = scene.secure_site(&["*.one.test"]);
    let right = dns(&format!("{hook:?}"));
    let mut server = scene.start(&(scene.acme(Some(&pebble), &right) + &site));
    scene.wait_until_served("any.one.test", &pebble.root());
    server.stop();
    let called = fs::read_to_string(&calls).expect("it was called");
    assert_eq!(called, "present _acme-challenge.one.test\ncleanup _acme-challenge.one.test\n");

    let failing = dns("\"/bin/sh\", \"-c\", \"echo the account is locked >&2; exit 2\"");
    let site = scene.secure_site(&["*.two.test"]);
    let server = scene.start(&(scene.acme(Some(&pebble), &failing) + &site));
    server.wait_for_error_line("says what the program said", |line| {
        line.contains("no certificate for *.two.test")
            && line.contains("the hook /bin/sh present failed with exit status: 2: the account is locked")
    });
}

#[test]
fn a_record_that_stays() {
    let scene = Scene::new();
    let Some(pebble) = Pebble::start(&scene.settings) else { return };
    let names = format!("127.0.0.1:{}", pebble.name_port());
    let dns = format!("challenges = [\"dns-persist-01\"]\ndns = {{ resolvers = [{names:?}] }}");
    let text = scene.acme(Some(&pebble), &dns) + &scene.secure_site(&["*.one.test"]);
    let server = scene.start(&text);
    let is_it =
        |line: &str| line.contains("set this record in DNS, once: _validation-persist.one.test. IN TXT \"");
    server.wait_for_error_line("says which record to set", is_it);
    let log = server.error_text();
    let line = log.lines().find(|line| is_it(line)).expect("it was there");
    let value = line.split('"').nth(1).expect("a value in quotes").to_string();
    assert!(value.starts_with("pebble.letsencrypt.org; accounturi=https://"), "{value}");
    // The check of the configuration reports the same.
    let file = scene.tree.beside("touchstone.toml");
    let output = run(["check", "--config", file.to_str().expect("the path is text")]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains(&value), "{said}");
    pebble.set_text("_validation-persist.one.test.", &value);
    scene.wait_until_served("any.one.test", &pebble.root());
}
