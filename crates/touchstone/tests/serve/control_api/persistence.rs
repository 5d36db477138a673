//! How long changes last: until the reload, or over restarts; edits by hand; a writer that is killed; the
//! audit log over a rotation.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{CHANGE, Controlled, CountedOrigin, route_to};
use crate::support::{ALPHABET, run, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const SITE: &str = "/control/sites/127.0.0.1:0";
const KEPT: &str = "persist = 'file'\ndirectory = 'state'";

fn add_route(controlled: &Controlled, path: &str) {
    let route = json!({ "path": path, "respond": { "status": 200, "body": "new" } });
    let added = controlled.change("POST", &format!("{SITE}/routes"), &route);
    assert_eq!(added.status, 201, "{:#}", added.body);
}

#[test]
fn without_persistence_a_reload_drops_changes_and_says_which() {
    let origins = [CountedOrigin::start(), CountedOrigin::start()];
    let controlled = Controlled::start("", &route_to(&origins));
    add_route(&controlled, "/new");
    let drained = controlled.patch_origin(&origins[0].url, &json!({ "state": "drain" }));
    assert_eq!(drained.status, 200, "{:#}", drained.body);
    controlled.server.signal(Signal::HUP);
    let server = &controlled.server;
    server.wait_for_error_line("dropped changes", |line| {
        line.contains("drops a change of the control API: site 127.0.0.1:0 (changed by deploy")
    });
    server.wait_for_error_line("dropped orders", |line| line.contains(&format!("origin {}", origins[0].url)));
    server.wait_for_error_line("the reload", |line| line.contains("applied"));
    assert_eq!(controlled.get(&format!("{SITE}/routes")).body.as_array().map(Vec::len), Some(1));
    let state = controlled.get("/control/origins").body["groups"][0]["origins"][0]["state"].clone();
    assert_eq!(state, "ready");
    let before = origins[0].count();
    for _ in 0..4 {
        assert_eq!(server.get("/x").status, 200);
    }
    assert!(origins[0].count() > before);
}

#[test]
fn kept_changes_outlive_reload_and_restart() {
    let origins = [CountedOrigin::start(), CountedOrigin::start()];
    let sections = route_to(&origins);
    let mut controlled = Controlled::start(KEPT, &sections);
    add_route(&controlled, "/new");
    let drained = controlled.patch_origin(&origins[0].url, &json!({ "state": "drain", "weight": 4 }));
    assert_eq!(drained.status, 200, "{:#}", drained.body);
    controlled.server.signal(Signal::HUP);
    controlled.server.wait_for_error_line("the reload", |line| line.contains("touchstone.toml applied"));
    assert_eq!(controlled.get(&format!("{SITE}/routes")).body.as_array().map(Vec::len), Some(2));
    // Killed between the write of a new overlay and its rename.
    fs::write(controlled.tree.beside("state/overlay.json.99999.new"), "{").expect("written");
    controlled.restart(KEPT, &sections);
    assert_eq!(controlled.get(&format!("{SITE}/routes")).body.as_array().map(Vec::len), Some(2));
    let origin = &controlled.get("/control/origins").body["groups"][0]["origins"][0];
    assert_eq!((&origin["state"], &origin["weight"]), (&json!("drain"), &json!(4)));
    assert_eq!(origin["configured"], json!({ "state": "ready", "weight": 1 }));
    for _ in 0..4 {
        assert_eq!(controlled.server.get("/x").status, 200);
    }
    assert_eq!(origins[0].count(), 0, "drained from the first request on");
    assert!(!controlled.tree.beside("state/overlay.json.99999.new").exists());
    // Back to the file.
    let dropped = controlled.change("DELETE", "/control/overlay", &Value::Null);
    assert_eq!(dropped.status, 200, "{:#}", dropped.body);
    assert_eq!(controlled.get(&format!("{SITE}/routes")).body.as_array().map(Vec::len), Some(1));
    assert_eq!(controlled.get("/control/origins").body["groups"][0]["origins"][0]["state"], "ready");
}

#[test]
fn an_edit_by_hand_counts_and_the_change_is_set_aside() {
    let mut controlled = Controlled::start(KEPT, "");
    add_route(&controlled, "/new");
    let config = controlled.tree.beside("touchstone.toml");
    let config_text = config.to_str().expect("a name").to_string();
    assert_eq!(run(["check", &config_text]).status.code(), Some(0));
    let edited = "charset = 'utf-8'\n";
    let text = fs::read_to_string(&config).expect("the configuration");
    fs::write(&config, format!("{text}{edited}")).expect("written");
    let checked = run(["check", &config_text]);
    assert_eq!(checked.status.code(), Some(0));
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(said.contains("the change by deploy") && said.contains("was edited"), "{said}");
    controlled.server.signal(Signal::HUP);
    controlled
        .server
        .wait_for_error_line("the conflict", |line| line.contains("is set aside: it was edited"));
    controlled.server.wait_for_error_line("the reload", |line| line.contains("applied"));
    assert_eq!(controlled.get(&format!("{SITE}/routes")).body, json!([]));
    let overlay = controlled.get("/control/overlay").body;
    assert_eq!(overlay["set_aside"][0]["value"]["route"][0]["path"], "/new", "nothing is lost: {overlay:#}");
    controlled.restart(KEPT, edited);
    controlled.server.assert_serves("/alphabet.txt", ALPHABET.as_bytes());
    assert_eq!(controlled.get("/control/overlay").body["set_aside"].as_array().map(Vec::len), Some(1));
}

#[test]
fn an_overlay_that_cannot_be_written_changes_nothing() {
    let controlled = Controlled::start(KEPT, "");
    add_route(&controlled, "/new");
    let file = controlled.tree.beside("state/overlay.json");
    fs::remove_file(&file).expect("removed");
    fs::create_dir(&file).expect("a directory is in the way");
    let route = json!({ "path": "/other", "respond": { "status": 204 } });
    let refused = controlled.change("POST", &format!("{SITE}/routes"), &route);
    assert_eq!(refused.status, 422, "{:#}", refused.body);
    assert!(refused.body.to_string().contains("overlay.json cannot be written"), "{:#}", refused.body);
    assert_eq!(controlled.server.get("/other").status, 404);
    assert_eq!(controlled.server.get("/new").status, 200);
}

#[test]
fn the_audit_log_has_every_change_over_a_rotation() {
    let controlled = Controlled::start("audit_log = 'audit.log'", "");
    let path = controlled.tree.beside("audit.log");
    let fields = format!("Authorization: Bearer {CHANGE}\r\nX-Request-Id: order-17\r\n");
    let refused = controlled.send("PUT", SITE, &fields, "{}");
    assert_eq!((refused.status, refused.response.field("x-request-id")), (428, Some("order-17")));
    fs::rename(&path, controlled.tree.beside("audit.log.1")).expect("rotated");
    controlled.server.signal(Signal::USR1);
    wait_until("the log is opened again", PATIENCE, || path.exists());
    add_route(&controlled, "/new");
    let read = |name: &str| {
        let text = fs::read_to_string(controlled.tree.beside(name)).expect("the audit log");
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect::<Vec<_>>()
    };
    let (old, new) = (read("audit.log.1"), read("audit.log"));
    assert_eq!((old.len(), new.len()), (1, 1));
    assert_eq!((&old[0]["request_id"], &old[0]["result"]), (&json!("order-17"), &json!("conflict")));
    for (name, expected) in [
        ("who", json!("deploy")),
        ("method", json!("POST")),
        ("result", json!("applied")),
        ("status", json!(201)),
        ("subjects", json!(["site 127.0.0.1:0"])),
    ] {
        assert_eq!(new[0][name], expected, "{name}");
    }
    assert!(new[0]["address"].as_str().is_some_and(|address| address.starts_with("127.0.0.1:")));
    assert_eq!(new[0]["changes"][0]["after"][0]["path"], "/new");
    let history = controlled.get("/control/history").body;
    assert_eq!(history["changes"].as_array().map(Vec::len), Some(2));
    let metrics = crate::support::Client::connect(controlled.admin)
        .ask(format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", controlled.admin));
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(metrics.contains("touchstone_control_changes_total{result=\"applied\"} 1"), "{metrics}");
    assert!(metrics.contains("touchstone_control_changes_total{result=\"conflict\"} 1"), "{metrics}");
}
