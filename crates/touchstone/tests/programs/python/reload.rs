//! Workers that are replaced: no request is lost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::process::Signal;

use super::*;

/// A directory with the application in this version.
fn copy_of_app(version: &str) -> Tree {
    let tree = Tree::empty();
    write_app(&tree, version);
    tree
}

fn write_app(tree: &Tree, version: &str) {
    let text = std::fs::read_to_string(apps().join("wsgi_app.py")).expect("the application is read");
    let text = text.replace("VERSION = \"one\"", &format!("VERSION = \"{version}\""));
    std::fs::write(tree.around().join("wsgi_app.py"), text).expect("the application is written");
}

#[test]
fn a_reload_brings_the_new_application_and_loses_no_request() {
    if !has_python() {
        return;
    }
    let app = copy_of_app("one");
    let running = start_in(app.around(), "wsgi_app:application", "workers = 2", "");
    assert!(running.text("/pid").ends_with(" one"));
    let is_over = AtomicBool::new(false);
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = running.server.connect();
                while !is_over.load(Ordering::SeqCst) {
                    let response = client.ask("GET /hello HTTP/1.1\r\nHost: a\r\n\r\n");
                    assert_eq!((response.status, &response.body[..]), (200, &b"hello"[..]));
                    answered.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // A request that is active ends in its old worker.
        let slow = scope.spawn(|| running.text("/slow?3"));
        running.server.wait_for_error_line("says so", |line| line.contains("a slow request begins"));
        write_app(&app, "two");
        running.server.signal(Signal::HUP);
        wait_until("the new application answers", PATIENCE, || running.text("/pid").ends_with(" two"));
        assert_eq!(slow.join().expect("it is answered"), "slow one");
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(answered.load(Ordering::SeqCst) > 0);
}

#[test]
fn a_reload_to_an_application_that_fails_keeps_the_old_one() {
    if !has_python() {
        return;
    }
    let app = copy_of_app("one");
    let running = start_in(app.around(), "wsgi_app:application", "workers = 1", "");
    assert!(running.text("/pid").ends_with(" one"));
    std::fs::write(app.around().join("wsgi_app.py"), "this is no Python").expect("it is written");
    running.server.signal(Signal::HUP);
    running.server.wait_for_error_line("tells of it", |line| line.contains("the present workers remain"));
    assert!(running.text("/pid").ends_with(" one"));
}

#[test]
fn source_files_are_watched_where_that_is_asked_for() {
    if !has_python() {
        return;
    }
    let app = copy_of_app("one");
    let running = start_in(app.around(), "wsgi_app:application", "workers = 1\nreload = true", "");
    assert!(running.text("/pid").ends_with(" one"));
    write_app(&app, "two");
    wait_until("the new application answers", PATIENCE, || running.text("/pid").ends_with(" two"));
}

#[test]
fn a_worker_is_replaced_after_its_requests() {
    if !has_python() {
        return;
    }
    let running = start("wsgi_app:application", "workers = 1\nlimits = { requests = 10 }");
    let first = running.text("/pid");
    for _ in 0..10 {
        running.text("/hello");
    }
    wait_until("another worker answers", PATIENCE, || running.text("/pid") != first);
}
