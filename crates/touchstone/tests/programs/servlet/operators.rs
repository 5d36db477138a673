//! What operators see of applications: in the metrics, on the status page, with `touchstone status`, through
//! Tomcat's MBeans, in the log and with `touchstone check`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::process::Signal;

use super::{BOTH, START, applications, ask, compile, copy, pack, route, start, text, trial};
use crate::support::{Server, Tree, error_lines, run, skipped, wait_until};

/// A page of the admin listener.
fn admin(tree: &Tree, path: &str) -> String {
    let mut stream = UnixStream::connect(tree.root().join("admin.sock")).unwrap();
    stream
        .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    answer
}

const ADMIN: &str = "[admin]\nlisten = \"unix:admin.sock\"\n";

/// The value of the metric with this name and label.
fn value(metrics: &str, name: &str, label: &str) -> f64 {
    let is_it =
        |line: &&str| line.starts_with(name) && line[name.len()..].starts_with('{') && line.contains(label);
    let line = metrics.lines().find(is_it).unwrap_or_else(|| panic!("no {name} {label}\n{metrics}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn applications_are_shown_after_a_configuration_was_refused() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let keys = format!("app = {trial:?}, isolation = \"in-process\", threads = 9");
    let server = start(&tree, ADMIN, &route("/trial/", &keys), 1);
    // It has no route with applications, and the address of another program.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let refused = super::configuration(&tree, ADMIN, "").replace("127.0.0.1:0", &listen);
    fs::write(tree.root().join("touchstone.toml"), refused).unwrap();
    server.signal(Signal::HUP);
    wait_until("it is refused", START, || server.error_text().contains("the configuration was not applied"));
    let metrics = admin(&tree, "/metrics");
    assert_eq!(value(&metrics, "touchstone_servlet_threads_limit", "route=\"/trial/\""), 9.0);
}

#[test]
fn the_state_of_applications_threads_and_machines_is_told() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, threads = 9, queue = 7");
        let server = start(&tree, ADMIN, &route("/trial/", &keys), 1);
        assert_eq!(server.get("/trial/count").status, 200);
        assert_eq!(server.get("/trial/count").status, 200);
        assert_eq!(ask(&server, "GET /trial/bad?how=error HTTP/1.1").status, 418);

        let application = "route=\"/trial/\",context=\"/trial\",version=\"\"";
        // A request is counted after its client has the answer.
        let mut metrics = String::new();
        wait_until("all are counted", START, || {
            metrics = admin(&tree, "/metrics");
            let of = |name: &str, label: &str| value(&metrics, name, label);
            of("touchstone_servlet_application_requests_total", application) >= 3.0
                && of("touchstone_servlet_application_errors_total", application) >= 1.0
                && of("touchstone_servlet_requests_total", "thread=\"pool\"") >= 3.0
        });
        let of = |name: &str, label: &str| value(&metrics, name, label);
        assert_eq!(of("touchstone_servlet_application_up", &format!("{application},state=\"running\"")), 1.0);
        assert_eq!(of("touchstone_servlet_application_up", &format!("{application},state=\"failed\"")), 0.0);
        assert_eq!(of("touchstone_servlet_application_sessions", application), 2.0);
        assert_eq!(of("touchstone_servlet_application_requests_total", application), 3.0);
        assert_eq!(of("touchstone_servlet_application_errors_total", application), 1.0);
        assert!(of("touchstone_servlet_application_started_seconds", application) > 1.7e9);
        assert_eq!(of("touchstone_servlet_threads_limit", "route=\"/trial/\""), 9.0);
        assert_eq!(of("touchstone_servlet_queue_limit", "route=\"/trial/\""), 7.0);
        assert_eq!(of("touchstone_servlet_requests_total", "thread=\"pool\""), 3.0);
        assert_eq!(of("touchstone_servlet_class_loaders", "route=\"/trial/\""), 1.0);
        let machine = if isolation == "isolated" { "route=\"/trial/\"" } else { "route=\"-\"" };
        assert_eq!(
            of("touchstone_java_heap_bytes", &format!("{machine},amount=\"limit\"")),
            f64::from(128 << 20)
        );
        assert!(of("touchstone_java_heap_bytes", &format!("{machine},amount=\"used\"")) > 1e6);
        assert!(of("touchstone_java_classes", machine) > 1_000.0);
        assert!(of("touchstone_java_collections_total", machine) >= 0.0);

        let status = admin(&tree, "/status.json");
        let body = status.split_once("\r\n\r\n").unwrap().1;
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        let route = &status["servlets"]["routes"][0];
        assert_eq!(route["java"]["applications"][0]["sessions"], 2, "{status}");
        assert_eq!(route["java"]["requests"], 3);
        assert_eq!(route["is_isolated"], isolation == "isolated");
        let page = admin(&tree, "/status");
        assert!(page.contains("Servlets") && page.contains("/trial</th><td>running"), "{page}");

        let file = tree.root().join("touchstone.toml");
        let output = run(["status", "--config", file.to_str().unwrap()]);
        let lines = String::from_utf8_lossy(&output.stdout).into_owned();
        for part in [
            "application        /trial running for ",
            "2 sessions, 3 requests, 1 errors, for ",
            "busy, at most 9; 0 wait, 0 refused, for ",
            " of 128 MiB, ",
        ] {
            assert!(lines.contains(part), "{isolation} {part}: {lines} {output:?}");
        }
    }
}

#[test]
fn the_mbeans_of_tomcats_connectors_are_there() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, threads = 9");
        let server = start(&tree, "", &route("/trial/", &keys), 1);
        assert_eq!(ask(&server, "GET /trial/bad?how=error HTTP/1.1").status, 418);
        // They are registered some time after the start.
        wait_until("the MBeans are registered", START, || {
            let facts = text(&server.get("/trial/mbeans"));
            let is_there = |line: &str| facts.lines().any(|each| each == line);
            [
                "server=Catalina:type=Server",
                "servlets=true",
                "maxThreads=9",
                "currentThreadsBusy=1",
                "errorCount=1",
            ]
            .into_iter()
            .all(is_there)
                && facts.contains("requestCount=")
        });
    }
}

/// The sums and gauges that Micrometer's binder for Tomcat reads from the MBeans, by name.
#[test]
fn micrometer_has_tomcats_figures() {
    if trial().is_none() {
        return;
    }
    let Some(applications) = applications() else {
        return skipped("Micrometer's figures of Tomcat (Maven cannot fetch it; install maven unzip)");
    };
    let meters = tempfile::tempdir().unwrap();
    let library = applications.join("micrometer");
    copy(&library, &meters.path().join("WEB-INF/lib"));
    compile(&["Meters.java"], meters.path(), &[library]);
    for isolation in BOTH {
        let tree = Tree::empty();
        let app = meters.path();
        let keys = format!("app = {app:?}, isolation = {isolation:?}, threads = 9");
        let server = start(&tree, "", &route("/meters/", &keys), 1);
        wait_until("Micrometer has its figures", START, || {
            // Each request is counted when it has ended.
            let meters = text(&server.get("/meters/"));
            // The largest of several: each servlet has its own.
            let figure = |name: &str| -> Option<f64> {
                let values = meters.lines().filter_map(|line| line.strip_prefix(&format!("{name} ")));
                values.filter_map(|value| value.parse().ok()).reduce(f64::max)
            };
            figure("tomcat.threads.config.max") == Some(9.0)
                && figure("tomcat.threads.busy") == Some(1.0)
                && figure("tomcat.threads.current").is_some_and(|threads| threads >= 1.0)
                && figure("tomcat.global.request.COUNT").is_some_and(|requests| requests >= 1.0)
                && figure("tomcat.global.request.TOTAL_TIME").is_some_and(|seconds| seconds >= 0.0)
                && figure("tomcat.global.sent").is_some_and(|bytes| bytes > 100.0)
                && figure("tomcat.global.error").is_some()
                && figure("tomcat.servlet.request.COUNT").is_some_and(|requests| requests >= 1.0)
        });
    }
}

#[test]
fn uploads_and_forms_that_are_too_long_are_named() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}, form_size = \"10KiB\"");
        let server = start(&tree, "", &route("/trial/", &keys), 1);
        let post = |target: &str, fields: &str, body: &str| {
            let mut client = server.connect();
            client.send(format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            client.answer().status
        };
        let form = format!("name={}", "x".repeat(20_000));
        post("/trial/facts", "Content-Type: application/x-www-form-urlencoded", &form);
        server.wait_for_error_line("names the form", |line| {
            line.contains("POST /trial/facts (20005 bytes)") && line.contains("was refused")
        });
        let part = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n";
        let upload = format!("{part}{}\r\n--b--\r\n", "x".repeat(3_000));
        assert_eq!(
            post("/trial/small-upload", "Content-Type: multipart/form-data; boundary=b", &upload),
            413
        );
        server.wait_for_error_line("names the upload", |line| {
            line.contains("POST /trial/small-upload") && line.contains("was refused")
        });
        // A client that leaves has exceeded no limit.
        let mut client = server.connect();
        client.send(
            "POST /trial/small-upload HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\
             Expect: 100-continue\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n",
        );
        // The servlet reads.
        client.wait_for(b"HTTP/1.1 100 Continue\r\n\r\n");
        client.send(format!("{part}half"));
        drop(client);
        server.wait_for_error_line("says that it broke off", |line| {
            line.contains("POST /trial/small-upload (1000 bytes)") && line.contains("broke off")
        });
        let refused = "POST /trial/small-upload (1000 bytes)";
        assert!(!server.error_text().lines().any(|line| line.contains(refused) && line.contains("refused")));
    }
    // What is longer than the server itself takes.
    let tree = Tree::empty();
    let keys = format!("app = {trial:?}");
    let text = super::configuration(&tree, "", &route("/trial/", &keys)).replace("100MiB", "1KiB");
    let server = Server::configured(&tree.root(), &text);
    let head = "POST /trial/echo?secret=1 HTTP/1.1\r\nContent-Length: 2000";
    assert_eq!(ask(&server, head).status, 413);
    server.wait_for_error_line("names the body", |line| {
        line.contains("POST /trial/echo is refused: its body has 2000 bytes, and body_bytes allows 1024")
    });
}

#[test]
fn an_application_that_fails_in_a_loop_does_not_fill_the_log() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let keys = format!("app = {trial:?}, isolation = {isolation:?}");
        let server = start(&tree, "", &route("/trial/", &keys), 1);
        assert_eq!(server.get("/trial/flood").status, 200);
        server.wait_for_error_line("says that there were more", |line| {
            line.contains("too many lines a second")
        });
        let log = server.error_text();
        let mut seconds = std::collections::BTreeMap::<&str, usize>::new();
        for line in log.lines().filter(|line| line.contains(" java")) {
            *seconds.entry(&line[..line.len().min(19)]).or_default() += 1;
        }
        // The second of the log's clock is not the one of the limit.
        assert!(seconds.values().all(|lines| *lines <= 2 * 2_000 + 400), "{isolation} {seconds:?}");
    }
}

#[test]
fn check_names_wrong_values_of_java_and_broken_archives() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let check = |java: &str, servlet: &str| {
        let file = tree.beside("check.toml");
        let text = super::configuration(&tree, java, &route("/a/", servlet));
        fs::write(&file, text).unwrap();
        let output = run(["check", "--config", file.to_str().unwrap()]);
        (output.status.code(), error_lines(&output).join("\n"))
    };
    fs::create_dir_all(tree.root()).unwrap();
    let apps = tree.beside("apps");
    fs::create_dir_all(&apps).unwrap();
    pack(trial, &apps.join("good.war"));
    let whole = fs::read(apps.join("good.war")).unwrap();
    let directory = format!("directory = {apps:?}");
    assert_eq!(check("", &directory), (Some(0), String::new()));
    let found = check("home = \"/nowhere\"\n", &directory);
    assert!(
        found.0 == Some(1) && found.1.contains("'java.home': /nowhere does not contain Java"),
        "{found:?}"
    );
    let key = "library";
    let found = check(&format!("{key} = {apps:?}\n"), &directory);
    assert!(
        found.0 == Some(1) && found.1.contains(&format!("'java.{key}': ")) && found.1.contains("make java"),
        "{found:?}"
    );
    cut(&apps.join("cut.war"), &whole);
    let found = check("", &directory);
    assert!(found.0 == Some(1) && found.1.contains("cut.war: it is not a complete archive"), "{found:?}");
    let found = check("", &format!("app = {:?}", apps.join("cut.war")));
    assert!(found.0 == Some(1) && found.1.contains("'servlet.app': "), "{found:?}");
    // The server starts all the same, and others run.
    let server = start(&tree, "", &route("/a/", &directory), 1);
    assert_eq!(server.get("/a/good/version").status, 200);
    assert_eq!(server.get("/a/cut/").status, 503);
}

fn cut(war: &Path, whole: &[u8]) {
    fs::write(war, &whole[..whole.len() * 2 / 3]).unwrap();
}
