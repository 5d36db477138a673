//! Applications that fail, and workers that end: they cost their own requests alone.

use super::*;

#[test]
fn what_fails_is_told_to_the_log_alone() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1");
    for target in ["/fails", "/not-bytes", "/no-start", "/inject", "/sys-exit"] {
        let response = running.get(target);
        assert_eq!(response.status, 500, "{target}");
        assert_eq!(response.field("Set-Cookie"), None, "{target}");
        assert!(!String::from_utf8_lossy(&response.body).contains("Traceback"), "{target}");
    }
    running.server.wait_for_error_line("has the exception", |line| line.contains("a secret of the trace"));
    running.server.wait_for_error_line("has the trace", |line| line.contains("in do_fails"));
    assert_eq!(running.text("/hello"), "hello");
    // The end of a body that breaks off is missing.
    for target in ["/fails-late", "/short"] {
        let mut client = running.server.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.try_answer(crate::support::AnswerTo::Other).is_err(), "{target}");
    }
}

#[test]
fn a_worker_that_ends_costs_its_own_requests_alone() {
    if !has_python() {
        return;
    }
    for app in ["wsgi_app:application", "asgi_app:application"] {
        let running = start(app, "workers = 1");
        let before = running.text("/hello");
        assert_eq!(running.post("/kill", b"x").status, 502, "{app}");
        running.server.wait_for_error_line("tells of the end", |line| line.contains("has ended by signal 9"));
        assert_eq!(running.text("/hello"), before, "{app}");
    }
}

#[test]
fn a_request_that_takes_too_long_ends_and_its_worker_is_replaced() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1\nlimits = { answer = \"1s\", drain = \"1s\" }");
    let before = running.text("/pid");
    assert_eq!(running.get("/hang").status, 504);
    running.server.wait_for_error_line("tells of it", |line| line.contains("takes longer than it may"));
    wait_until("another worker answers", PATIENCE, || running.text("/pid") != before);
}

#[test]
fn memory_is_limited() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1\nlimits = { memory = \"1GiB\" }");
    assert_eq!(running.get("/memory").status, 500);
    running.server.wait_for_error_line("has the error", |line| line.contains("MemoryError"));
    assert_eq!(running.text("/hello"), "hello");
}

#[test]
fn an_application_that_cannot_be_imported_is_named() {
    if !has_python() {
        return;
    }
    let running = start("no_such_module:application", "workers = 1");
    assert_eq!(running.get("/").status, 503);
    running
        .server
        .wait_for_error_line("has the reason", |line| line.contains("No module named 'no_such_module'"));
}
