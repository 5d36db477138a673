//! What is counted of WebDAV.

use std::time::Duration;

use super::{ask, configuration, lock, put, status};
use crate::support::{Server, Tree, curl, free_port, wait_until};

#[test]
fn requests_refusals_bytes_and_locks_are_counted() {
    let tree = Tree::empty();
    let admin = free_port();
    let text = configuration(&tree, "127.0.0.1:0", ", locks = 3", "");
    let text = format!("[admin]\nlisten = \"127.0.0.1:{admin}\"\n{text}");
    let server = Server::configured(tree.around(), &text);
    let address = server.address();
    let page = || {
        let output = curl([format!("http://127.0.0.1:{admin}/metrics")])?;
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(before) = page() else { return };
    let site = before
        .lines()
        .find_map(|line| line.strip_prefix("touchstone_webdav_locks{site=\""))
        .and_then(|rest| rest.split_once('"'))
        .map(|(site, _)| site.to_string())
        .unwrap_or_else(|| panic!("{before}"));
    assert_eq!(put(address, "/a.txt", "0123456789"), 201);
    assert_eq!(put(address, "/none/a.txt", "0"), 409);
    let token = lock(address, "/a.txt", "");
    lock(address, "/b.txt", "Timeout: Second-1\r\n");
    assert_eq!(put(address, "/a.txt", "0"), 423);
    assert_eq!(status(address, "DELETE", "/c.txt", ""), 404);
    assert_eq!(status(address, "MKCOL", "/a.txt", ""), 405);
    assert_eq!(status(address, "REPORT", "/", ""), 501);
    assert_eq!(ask(address, "PUT", "/a.txt", "If-Match: \"x\"\r\n", b"").status, 412);
    let labels = format!("{{site=\"{site}\",route=\"/\"");
    let is_told = |line: String| {
        let is_there = || page().unwrap_or_default().lines().any(|found| found == line);
        wait_until(&format!("the metric {line}"), Duration::from_secs(60), is_there);
    };
    for (method, count) in [("PUT", 4), ("LOCK", 2), ("DELETE", 1), ("MKCOL", 1), ("COPY", 0)] {
        is_told(format!("touchstone_webdav_requests_total{labels},method=\"{method}\"}} {count}"));
    }
    for (reason, count) in
        [("locked", 1), ("conflict", 1), ("not_found", 1), ("method", 2), ("condition", 1), ("failed", 0)]
    {
        is_told(format!("touchstone_webdav_refusals_total{labels},reason=\"{reason}\"}} {count}"));
    }
    is_told(format!("touchstone_webdav_written_bytes_total{labels}}} 10"));
    // One of the two locks ends by its time, and the other by its client.
    is_told(format!("touchstone_webdav_locks{labels}}} 1"));
    assert_eq!(status(address, "UNLOCK", "/a.txt", &format!("Lock-Token: <{token}>\r\n")), 204);
    is_told(format!("touchstone_webdav_locks{labels}}} 0"));
    // Locks outlive the process.
    lock(address, "/a.txt", "");
    drop(server);
    let server = Server::configured(tree.around(), &text);
    is_told(format!("touchstone_webdav_locks{labels}}} 1"));
    drop(server);
}
