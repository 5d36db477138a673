//! What operators see of applications in Python: in the metrics, on the status page and with `touchstone
//! status`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use super::*;
use crate::support::run;

/// A page of the admin listener.
fn admin(running: &Running, path: &str) -> String {
    let mut stream = UnixStream::connect(running.tree.around().join("admin.sock")).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer.split_once("\r\n\r\n").expect("it has a head").1.to_string()
}

/// The value of the metric with this name and these labels.
fn value(metrics: &str, name: &str, labels: &str) -> u64 {
    let line = metrics.lines().find(|line| line.starts_with(name) && line.contains(labels));
    let line = line.unwrap_or_else(|| panic!("no {name} with {labels}\n{metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a whole number")
}

#[test]
fn the_state_of_applications_and_workers_is_told() {
    if !has_python() {
        return;
    }
    let admin_socket = "[admin]\nlisten = \"unix:admin.sock\"\n";
    let keys = "workers = 2\nthreads = 1\nlimits = { queue = 77 }";
    let running = start_in(&apps(), "wsgi_app:application", keys, admin_socket);
    running.text("/hello");
    assert_eq!(running.post("/kill", b"x").status, 502);
    let is_so = |name: &str, labels: &str, wanted: u64| {
        wait_until(&format!("{name} {labels} is {wanted}"), PATIENCE, || {
            value(&admin(&running, "/metrics"), name, labels) == wanted
        });
    };
    is_so("touchstone_python_worker_restarts_total", "reason=\"end\"", 1);
    is_so("touchstone_python_workers{", "state=\"ready\"", 2);
    is_so("touchstone_python_application_up", "state=\"ready\"", 1);
    is_so("touchstone_python_application_up", "state=\"failed\"", 0);
    is_so("touchstone_python_request_failures_total", "reason=\"lost\"", 1);
    is_so("touchstone_python_workers_started_total", "application=\"wsgi_app:application\"", 3);
    is_so("touchstone_python_queue_limit", "route=\"/\"", 77);
    let memory = value(&admin(&running, "/metrics"), "touchstone_python_memory_bytes", "route=\"/\"");
    assert!(memory > 1 << 20, "{memory}");

    // One thread a worker: of five requests three wait.
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| running.text("/slow?5"));
        }
        is_so("touchstone_python_requests_under_way", "route=\"/\"", 2);
        is_so("touchstone_python_queue{", "route=\"/\"", 3);
    });
    is_so("touchstone_python_requests_under_way", "route=\"/\"", 0);
    is_so("touchstone_python_queue{", "route=\"/\"", 0);

    let status: serde_json::Value =
        serde_json::from_str(&admin(&running, "/status.json")).expect("the status is JSON");
    let application = &status["python"]["applications"][0];
    assert_eq!(application["protocol"], "wsgi", "{status}");
    assert_eq!(application["last_restart"]["reason"], "end", "{status}");
    let page = admin(&running, "/status");
    for text in ["wsgi_app:application, WSGI, Python 3.", "has ended by signal 9, with 1 requests"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let file = running.tree.around().join("touchstone.toml");
    let output = run(["status", "--config", file.to_str().expect("UTF-8")]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "python             wsgi_app:application ready, 2 of 2 workers, 0 requests busy, 0 wait, ",
        "python restarts    1 end; the last: worker ",
        "python failures    1 lost",
        "python worker      ",
    ] {
        assert!(lines.contains(part), "{part}: {lines} {output:?}");
    }
}
