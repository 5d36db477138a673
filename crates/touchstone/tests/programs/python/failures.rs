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
    let running = start("wsgi_app:application", "workers = 1\nlimits = { answer = \"5s\", drain = \"1s\" }");
    let before = running.text("/pid");
    assert_eq!(running.get("/hang").status, 504);
    running
        .server
        .wait_for_error_line("tells of it", |line| line.contains("exceeded the time limit of a request"));
    wait_until("another worker answers", PATIENCE, || running.text("/pid") != before);
}

#[test]
fn an_event_loop_that_does_not_come_back_is_ended_and_the_log_says_where_it_is() {
    if !has_python() {
        return;
    }
    let limits = "workers = 1\nprotocol = \"asgi\"\nlimits = { answer = \"5s\", drain = \"60s\" }";
    let running = start("asgi_app:application", limits);
    for target in ["/spin", "/spin-later"] {
        assert_eq!(running.text("/hello"), "hello");
        let mut waits = running.server.connect();
        let mut spins = running.server.connect();
        spins.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        std::thread::sleep(Duration::from_millis(200));
        // A later safe request is sent once more, to the next worker.
        waits.set_patience(PATIENCE);
        waits.send("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(spins.answer().status, 504, "{target}");
        let status = waits.answer().status;
        assert!([200, 504].contains(&status), "{target}: {status}");
        running.server.wait_for_error_line("tells of it", |line| {
            line.contains("has an event loop that has been blocked for ") && line.contains("it is killed")
        });
        running.server.wait_for_error_line("says where it is", |line| {
            line.contains("asgi_app.py\", line ") && line.ends_with(" in do_spin")
        });
        // The line may be that of the first time: the worker may still be there.
        wait_until("it is served again", PATIENCE, || running.server.get("/hello").status == 200);
    }
}

#[test]
fn a_crash_is_told_with_its_trace() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1");
    assert_eq!(running.post("/crash", b"x").status, 502);
    running.server.wait_for_error_line("has the trace", |line| line.ends_with(" in do_crash"));
    running.server.wait_for_error_line("tells of the end", |line| line.contains("has ended by signal 11"));
    assert_eq!(running.text("/hello"), "hello");
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
