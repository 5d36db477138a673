//! What operators see of components: metrics, the status page, `touchstone status`; and `touchstone serve`
//! with a component.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{behaviours, configuration, text};
use crate::support::{Client, Server, Tree, binary, binary_for_all, free_port, run, skipped, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_server_that_has_given_up_roots_rights_can_find_written_pages() {
    if !rustix::process::geteuid().is_root() {
        return skipped("written pages of an instance (needs root)");
    }
    let tree = Tree::empty();
    let component = tree.beside("component.wasm");
    fs::copy(behaviours(), &component).unwrap();
    let text_of = tree.configuration("[server]\nuser = \"nobody\"\n")
        + &format!("[[site.route]]\n[site.route.wasm]\ncomponent = {component:?}\ncompiled = \"\"\n");
    fs::write(tree.beside("touchstone.toml"), text_of).unwrap();
    let mut command = Command::new(binary_for_all());
    command.args(["serve", "--config"]).arg(tree.beside("touchstone.toml"));
    let server = Server::start_piped(command);
    assert_eq!(server.get("/page").status, 200);
    let open = fs::read_dir(format!("/proc/{}/fd", server.pid().as_raw_nonzero())).unwrap();
    let is_pagemap = |file: std::path::PathBuf| file.ends_with("pagemap");
    assert!(open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(is_pagemap)));
}

#[test]
fn components_are_counted() {
    let tree = Tree::empty();
    let admin = free_port();
    let keys = "computing_timeout = \"10s\"\nmemory = \"32MiB\"\nreuse = 100";
    let text_of =
        format!("[admin]\nlisten = \"127.0.0.1:{admin}\"\n{}", configuration(&tree, &behaviours(), keys));
    let server = Server::configured(tree.around(), &text_of);
    let mut client = server.connect();
    for _ in 0..5 {
        assert_eq!(client.ask("GET /page HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    assert_eq!(server.get("/trap").status, 500);
    assert_eq!(server.get("/loop").status, 504);
    assert_eq!(server.get("/memory").status, 500);
    assert_eq!(server.get("/page").status, 200);

    let ask = |path: &str| {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], admin));
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        text(&Client::connect(address).ask(request))
    };
    let component = || -> Value {
        let status: Value = serde_json::from_str(&ask("/status.json")).unwrap();
        status["components"][0].clone()
    };
    // Those that have failed were removed, with their memory.
    let is_quiet = |found: &Value| {
        let number = |name: &str| found[name].as_u64().unwrap();
        number("under_way") == 0 && number("instances") + 3 == number("instances_made")
    };
    wait_until("no request is active", PATIENCE, || is_quiet(&component()));
    let found = component();
    assert_eq!(found["requests"], 9, "{found}");
    assert_eq!(found["failures"]["fault"], 1, "{found}");
    assert_eq!(found["failures"]["timeout"], 1, "{found}");
    assert_eq!(found["failures"]["memory"], 1, "{found}");
    assert_eq!(found["failures"]["full"], 0, "{found}");
    assert_eq!(found["computations_moved"].as_u64().map(|moved| moved >= 1), Some(true), "{found}");
    let made = found["instances_made"].as_u64().unwrap();
    let kept = found["instances"].as_u64().unwrap();
    let memory = found["memory_bytes"].as_u64().unwrap();
    // Each core that has answered keeps an instance of its own; `memory` limits each of them.
    assert!((1..=6).contains(&kept), "{found}");
    assert!(memory >= kept << 16 && memory <= kept * (32 << 20), "{found}");
    assert!(found["component"].as_str().unwrap().ends_with("behaviours.wasm"), "{found}");

    let metrics = ask("/metrics");
    for (name, number) in [
        ("touchstone_wasm_requests_total{", 9),
        ("touchstone_wasm_instances_made_total{", made),
        ("touchstone_wasm_instances{", kept),
        ("touchstone_wasm_memory_bytes{", memory),
        ("touchstone_wasm_requests_under_way{", 0),
    ] {
        let line = metrics.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| line.ends_with(&format!(" {number}"))), "{name}{line:?}");
    }
    assert!(metrics.contains("cause=\"timeout\"} 1\n"), "{metrics}");
    assert!(ask("/status").contains("behaviours.wasm"));
    let config = tree.beside("touchstone.toml");
    let printed = run(["status", "--config", config.to_str().unwrap()]);
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let line = printed.lines().find(|line| line.starts_with("component "));
    assert!(
        line.is_some_and(|line| line.contains("behaviours.wasm 9 requests, 0 active, 3 failures")),
        "{printed}"
    );
}

#[test]
fn a_component_is_served_by_its_file() {
    let tree = Tree::empty();
    let cache = tree.beside("cache");
    let start = || {
        let mut command = binary();
        command.arg("serve").arg(behaviours()).args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null());
        command.env("XDG_CACHE_HOME", &cache);
        Server::start_piped(command)
    };
    let server = start();
    assert_eq!(text(&server.get("/")), "hello\n");
    assert_eq!(text(&server.get("/page")).len(), 6250);
    assert!(server.error_text().contains("the component "), "{}", server.error_text());
    drop(server);
    // What was compiled is kept in the user's cache.
    let compiled = || fs::read_dir(cache.join("touchstone/wasm")).unwrap().count();
    assert_eq!(compiled(), 1);
    assert_eq!(text(&start().get("/")), "hello\n");
    assert_eq!(compiled(), 1);
}
