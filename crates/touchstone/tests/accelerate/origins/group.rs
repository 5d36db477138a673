//! Several origins: which of them gets a request, and what happens to requests that one cannot answer.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{proxy, say, saying, text, to};
use crate::support::{Origin, Tree, free_port, read_head, run, wait_until};

fn counts(server: &super::Server, targets: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for target in targets {
        *counts.entry(text(server, &target)).or_insert(0) += 1;
    }
    counts
}

#[test]
fn requests_are_shared_out_by_weight() {
    let (a, b) = (saying("a"), saying("b"));
    let tree = Tree::standard();
    for balance in ["round_robin", "least_requests"] {
        let keys = format!("{}balance = \"{balance}\"\n", to(&[&a, &b], &["weight=3", ""]));
        let server = proxy(&tree, &keys, "");
        let counts = counts(&server, (0..80).map(|_| "/app/".to_string()));
        // Each core takes turns on its own; the draw by weight is not exact.
        let least = if balance == "round_robin" { 56 } else { 40 };
        assert!(counts["a"] >= least && counts["b"] >= 1, "{balance}: {counts:?}");
    }
}

#[test]
fn the_same_key_goes_to_the_same_origin() {
    let origins: Vec<Origin> = ["a", "b", "c"].map(saying).into();
    let tree = Tree::standard();
    let all: Vec<&Origin> = origins.iter().collect();
    let server = proxy(&tree, &format!("{}balance = \"hash\"\n", to(&all, &[])), "");
    let of_path = |server: &super::Server| -> Vec<String> {
        (0..60).map(|index| text(server, &format!("/app/{index}?query={index}"))).collect()
    };
    let before = of_path(&server);
    assert_eq!(of_path(&server), before);
    assert!(["a", "b", "c"].iter().all(|name| before.iter().any(|found| found == name)), "{before:?}");
    // Without one of them only its own paths move.
    let fewer = proxy(&tree, &format!("{}balance = \"hash\"\n", to(&all[..2], &[])), "");
    for (before, after) in before.iter().zip(of_path(&fewer)) {
        assert!(before == "c" || *before == after, "{before} {after}");
    }
    let by_cookie =
        proxy(&tree, &format!("{}balance = \"hash\"\nhash_by = \"cookie:id\"\n", to(&all, &[])), "");
    for id in 0..20 {
        let mut client = by_cookie.connect();
        let mut ask = |target: &str| {
            client
                .ask(format!("GET /app/{target} HTTP/1.1\r\nHost: a\r\nCookie: x=1; id={id}; y\r\n\r\n"))
                .body
        };
        assert_eq!(ask("1"), ask("2"));
    }
}

#[test]
fn a_backup_is_asked_when_no_other_can_be_and_one_that_drains_never() {
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (backup, draining) = (saying("backup"), saying("draining"));
    let tree = Tree::standard();
    let keys = format!(
        "to = [\"http://{dead}\", \"http://{} backup\", \"http://{} drain\"]\n",
        backup.address, draining.address
    );
    let server = proxy(&tree, &keys, "");
    for _ in 0..10 {
        assert_eq!(text(&server, "/app/"), "backup");
    }
    assert_eq!(draining.connections(), 0);
    server.wait_for_error_line("the dead one is left alone", |line| line.contains("gets no requests"));
    let status = run(["status", "--config", tree.around().join("touchstone.toml").to_str().unwrap()]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains(&format!("http://{dead} ejected")), "{status}");
    assert!(status.contains(&format!("http://{} up, 10 requests, 0 failures", backup.address)), "{status}");
}

/// An origin that closes each connection after the request's head, and counts the requests.
fn closing(requests: &Arc<AtomicUsize>) -> Origin {
    let requests = requests.clone();
    Origin::start(move |stream| {
        if read_head(stream).is_some() {
            requests.fetch_add(1, Ordering::SeqCst);
        }
    })
}

#[test]
fn only_what_is_safe_is_sent_again() {
    let requests = Arc::new(AtomicUsize::new(0));
    let bad = closing(&requests);
    let good = saying("good");
    let tree = Tree::standard();
    let health = "[site.route.proxy.health]\nmax_failures = 0\n";
    let server = proxy(&tree, &to(&[&bad, &good], &["", "backup"]), health);
    assert_eq!(text(&server, "/app/"), "good");
    let ask = |head: &str| server.connect().ask(format!("{head}\r\nHost: a\r\n\r\n")).status;
    assert_eq!(ask("DELETE /app/ HTTP/1.1"), 200);
    assert_eq!(ask("PUT /app/ HTTP/1.1\r\nContent-Length: 0"), 200);
    let put = server.connect().ask("PUT /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(put.status, 200);
    let query = server.connect().ask("QUERY /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(query.status, 200);
    let before = requests.load(Ordering::SeqCst);
    // The origin may have carried it out already.
    assert_eq!(ask("POST /app/ HTTP/1.1\r\nContent-Length: 0"), 502);
    assert_eq!(ask("PATCH /app/ HTTP/1.1\r\nContent-Length: 0"), 502);
    assert_eq!(requests.load(Ordering::SeqCst), before + 2);
    // An origin that accepted no connection cannot have carried it out.
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let keys = format!("to = [\"http://{dead}\", \"http://{} backup\"]\n", good.address);
    let server = proxy(&tree, &keys, health);
    let post = server.connect().ask("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(post.status, 200);
}

#[test]
fn retries_have_a_budget() {
    let requests = Arc::new(AtomicUsize::new(0));
    let (bad, good) = (closing(&requests), saying("good"));
    let tree = Tree::standard();
    let health = "[site.route.proxy.health]\nmax_failures = 0\n";
    let none = format!("{health}[site.route.proxy.retry]\nbudget_percent = 0\n");
    assert_eq!(proxy(&tree, &to(&[&bad, &good], &["", "backup"]), &none).get("/app/").status, 502);
    let never = format!("{health}[site.route.proxy.retry]\nattempts = 0\n");
    assert_eq!(proxy(&tree, &to(&[&bad, &good], &["", "backup"]), &never).get("/app/").status, 502);
    let server = proxy(&tree, &to(&[&bad, &good], &["", "backup"]), health);
    assert_eq!(server.get("/app/").status, 200);
    // Ten retries a second are free, and five requests earn one more: all clients together ask more often on
    // a slow machine too.
    let one_client = || (0..25).map(|_| server.get("/app/").status).collect::<Vec<u16>>();
    let statuses: Vec<u16> = thread::scope(|scope| {
        let clients: Vec<_> = (0..16).map(|_| scope.spawn(one_client)).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(statuses.iter().all(|status| [200, 502].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&502) && requests.load(Ordering::SeqCst) >= 400, "{statuses:?}");
}

#[test]
fn an_answer_of_an_unwanted_status_is_asked_for_elsewhere() {
    let busy = Origin::answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy");
    let good = saying("good");
    let tree = Tree::standard();
    let retry =
        "[site.route.proxy.retry]\nstatuses = [\"503\"]\n[site.route.proxy.health]\noutlier_percent = 0\n";
    let server = proxy(&tree, &to(&[&busy, &good], &["", "backup"]), retry);
    assert_eq!(text(&server, "/app/"), "good");
    assert_eq!(
        server.connect().ask("POST /app/ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").status,
        503
    );
    // The answer of the last origin is passed on.
    let alone = proxy(&tree, &to(&[&busy], &[]), retry);
    assert_eq!((alone.get("/app/").status, &alone.get("/app/").body[..]), (503, &b"busy"[..]));
}

#[test]
fn one_that_alone_gives_errors_is_left_alone() {
    let bad = Origin::answering(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    let good = saying("good");
    let tree = Tree::standard();
    let health = "[site.route.proxy.health]\noutlier_requests = 5\nwindow = \"60s\"\n";
    let keys = format!("{}balance = \"round_robin\"\n", to(&[&bad, &good], &[]));
    let server = proxy(&tree, &keys, health);
    wait_until("the bad one is found out", Duration::from_secs(60), || {
        server.get("/app/");
        server.error_text().contains("most of its answers are server errors")
    });
    assert!((0..20).all(|_| server.get("/app/").status == 200));
    // If all origins answer with server errors, all continue to get requests.
    let worse = Origin::answering(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n");
    let keys = format!("{}balance = \"round_robin\"\n", to(&[&bad, &worse], &[]));
    let server = proxy(&tree, &keys, health);
    assert!((0..40).all(|_| server.get("/app/").status == 500));
    assert!(!server.error_text().contains("gets no requests"));
}

#[test]
fn checks_take_one_out_and_bring_it_back() {
    let is_well = Arc::new(AtomicBool::new(true));
    let answer = is_well.clone();
    let checked = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            let is_check = head.starts_with("GET /health?deep HTTP/1.1\r\nHost: check.example\r\n");
            match (is_check, answer.load(Ordering::SeqCst)) {
                (true, true) | (false, _) => say(stream, "checked"),
                (true, false) => {
                    use std::io::Write;
                    stream.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            }
        }
    });
    let other = saying("other");
    let tree = Tree::standard();
    let keys = format!("{}balance = \"round_robin\"\n", to(&[&checked, &other], &[]));
    let check = "[site.route.proxy.check]\npath = \"/health?deep\"\nhost = \"check.example\"\n\
                 interval = \"50ms\"\n\
                 rise = 2\nfall = 2\n";
    let server = proxy(&tree, &keys, check);
    let names = || -> Vec<String> { (0..10).map(|_| text(&server, "/app/")).collect() };
    assert!(names().iter().any(|name| name == "checked"));
    is_well.store(false, Ordering::SeqCst);
    server.wait_for_error_line("it is out", |line| line.contains("fails its checks") && line.contains("503"));
    assert!(names().iter().all(|name| name == "other"));
    is_well.store(true, Ordering::SeqCst);
    server.wait_for_error_line("it is back", |line| line.contains("passes its checks again"));
    assert!(names().iter().any(|name| name == "checked"));
}

#[test]
fn checks_begin_before_the_first_request() {
    let checked = saying("checked");
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tree = Tree::standard();
    let check = "[site.route.proxy.check]\npath = \"/health\"\ninterval = \"50ms\"\nfall = 1\n";
    let keys = format!("to = [\"http://{}\", \"http://{dead}\"]\n", checked.address);
    let server = proxy(&tree, &keys, check);
    server.wait_for_error_line("one is out", |line| line.contains("fails its checks"));
    // Each origin is checked separately.
    wait_until("the other is asked", std::time::Duration::from_secs(60), || checked.connections() > 0);
    // The origins of the next configuration too, if its settings for them differ.
    let path = tree.beside("touchstone.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"/health\"", "\"/well\"")).unwrap();
    server.signal(rustix::process::Signal::HUP);
    wait_until("it is found again", std::time::Duration::from_secs(60), || {
        server.error_text().matches(&format!("{dead} fails its checks")).count() == 2
    });
}

#[test]
fn what_is_known_of_origins_outlives_a_reload() {
    let dead = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let good = saying("good");
    let tree = Tree::standard();
    let keys = format!("to = [\"http://{dead}\", \"http://{}\"]\nbalance = \"round_robin\"\n", good.address);
    let server = proxy(
        &tree,
        &keys,
        "[site.route.proxy.health]\nmax_failures = 1\nwindow = \"1h\"\nlongest = \"1h\"\n",
    );
    for _ in 0..6 {
        assert_eq!(text(&server, "/app/"), "good");
    }
    let connections = good.connections();
    server.signal(rustix::process::Signal::HUP);
    server.wait_for_error_line("it is read again", |line| {
        line.contains("configuration") && line.contains("applied")
    });
    for _ in 0..6 {
        assert_eq!(text(&server, "/app/"), "good");
    }
    assert_eq!(server.error_text().matches("gets no requests").count(), 1, "{}", server.error_text());
    // Its connections were kept, too.
    assert!(good.connections() <= connections.max(thread::available_parallelism().map_or(1, usize::from)));
}

/// An origin at an address that no origin listened on before.
fn begin_to_listen(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            while read_head(&mut stream).is_some() {
                say(&mut stream, "back");
            }
        }
    });
}

#[test]
fn an_origin_that_is_down_does_not_fill_the_log() {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let tree = Tree::standard();
    let server = proxy(&tree, &format!("to = \"http://{address}\"\n"), "");
    let ask = || assert_eq!(server.get("/app/a").status, 502);
    let begin = Instant::now();
    (0..20).for_each(|_| ask());
    // Waits for the next second, in which more lines may be written.
    thread::sleep(Duration::from_millis(1_100).saturating_sub(begin.elapsed()));
    (0..20).for_each(|_| ask());
    let failures: Vec<String> =
        server.error_text().lines().filter(|line| line.contains("origin")).map(str::to_string).collect();
    let name = format!("origin http://{address}");
    let reason = "cannot connect: Connection refused (os error 111) (GET /app/a)";
    for (line, begins) in
        failures.iter().zip([&format!("{name}: "), &format!("{name}: "), &format!("{name} is failing: ")])
    {
        assert!(line.ends_with(&format!(" warning {begins}{reason}")), "{line}");
    }
    assert_eq!(failures.len(), 3, "{failures:#?}");
    begin_to_listen(address);
    assert_eq!(text(&server, "/app/"), "back");
    let back = format!(" info {name} answers again, after 38 failures");
    server.wait_for_error_line("it is back", |line| line.ends_with(&back));
}
