//! Changes under a load at a kept rate: no request fails, and an origin gets no requests once the change that
//! takes it out was answered.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Controlled, CountedOrigin, route_to};
use crate::support::wait_until;

const PATIENCE: Duration = Duration::from_secs(60);

/// Loads the server at a kept rate for as long as `meanwhile` changes it.
fn under_load(url: &str, more: &[&str], has_begun: impl Fn() -> bool, meanwhile: impl FnOnce()) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_touchstone"))
        .args(["load", url, "--rate", "200", "--clients", "50", "--duration", "10m", "--json"])
        .args(more)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let end = EndOfLoad(Pid::from_child(&child));
    wait_until("the load has begun", PATIENCE, has_begun);
    meanwhile();
    assert!(child.try_wait().expect("it can be waited for").is_none(), "the load ended by itself");
    drop(end);
    let output = child.wait_with_output().expect("the load ends");
    let value: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(value["errors"], 0, "{value:#}");
    // The changes wait for three times 50 requests; those that are interrupted at the end do not count.
    assert!(value["requests"].as_u64().is_some_and(|requests| requests > 100), "{value:#}");
}

/// Interrupts the load, also if a test fails.
struct EndOfLoad(Pid);

impl Drop for EndOfLoad {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::INT);
    }
}

/// Drains, weighs, puts into maintenance and replaces while requests arrive.
fn change_everything(controlled: &Controlled, origins: &[CountedOrigin]) {
    let patch = |origin: &CountedOrigin, body: Value| {
        let answer = controlled.patch_origin(&origin.url, &body);
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        answer.body
    };
    let routes = "/control/sites/127.0.0.1:0/routes";
    // `wanted` more requests reach the origins, of which this one gets none.
    let gets_none = |origin: &CountedOrigin, wanted: usize| {
        let all = || origins.iter().map(CountedOrigin::count).sum::<usize>();
        // Those that were on their way when it was drained.
        wait_until("its requests are answered", PATIENCE, || {
            let groups = controlled.get("/control/origins").body;
            let found = groups["groups"][0]["origins"].as_array().expect("origins").iter();
            let mut found = found.filter(|known| known["origin"] == origin.url.as_str());
            found.next().is_some_and(|known| known["active_requests"] == 0)
        });
        let (before, of_all) = (origin.count(), all());
        wait_until("the others get requests", PATIENCE, || all() >= of_all + wanted);
        assert_eq!(origin.count(), before, "a drained origin got requests");
    };
    assert_eq!(patch(&origins[0], json!({ "state": "drain" }))["state"], "drain");
    gets_none(&origins[0], 50);
    // A replaced route has new groups: the drained origin remains drained from the first request on.
    let mut route = controlled.get(&format!("{routes}/0")).body;
    route["headers"] = json!({ "X-Changed": "1" });
    let before = origins[0].count();
    let replaced = controlled.change("PUT", &format!("{routes}/0"), &route);
    assert_eq!(replaced.status, 200, "{:#}", replaced.body);
    route["proxy"]["retry"] = json!({ "attempts": 2 });
    assert_eq!(controlled.change("PUT", &format!("{routes}/0"), &route).status, 200);
    gets_none(&origins[0], 50);
    assert_eq!(origins[0].count(), before, "a replaced route sent requests to a drained origin");
    patch(&origins[0], json!({ "state": "ready" }));
    wait_until("it gets requests again", PATIENCE, || origins[0].count() > before);
    patch(&origins[1], json!({ "state": "maintenance" }));
    gets_none(&origins[1], 50);
    patch(&origins[1], json!({ "state": null, "weight": 9 }));
    patch(&origins[2], json!({ "weight": 1 }));
    for number in 0..5 {
        let added = json!({ "path": format!("/other/{number}"), "respond": { "status": 204 } });
        assert_eq!(controlled.change("POST", routes, &added).status, 201);
    }
}

#[test]
fn changes_under_load_over_http1_lose_nothing() {
    let origins = [CountedOrigin::start(), CountedOrigin::start(), CountedOrigin::start()];
    let controlled = Controlled::start("", &route_to(&origins));
    let url = format!("http://{}/", controlled.server.address());
    let has_begun = || origins[0].count() > 0;
    under_load(&url, &[], has_begun, || change_everything(&controlled, &origins));
}

#[test]
fn changes_under_load_over_http2_lose_nothing() {
    let origins = [CountedOrigin::start(), CountedOrigin::start(), CountedOrigin::start()];
    let route = format!("development_certificate = true\n{}", route_to(&origins));
    let controlled = Controlled::start("", &route);
    let url = format!("https://{}/", controlled.server.address());
    let has_begun = || origins[0].count() > 0;
    let more = ["--http2", "--streams", "10", "--insecure"];
    under_load(&url, &more, has_begun, || change_everything(&controlled, &origins));
}
