//! Applications that fail: in the middle of an answer, while they start, by a deadlock, out of memory, with
//! threads that they leave behind, or with the whole process. The log names them, their requests get an error
//! or a broken answer, and everything else continues.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::Request;

use super::http::{connect, runtime};
use super::{
    BOTH, START, configuration, copy, get_patiently, pack, replace, route, start, text, trial,
    wait_for_applications, with_trial,
};
use crate::support::{Client, Response, Server, Tree, wait_until};

/// How an answer may break off: the way it is written, the thread that writes it, and its framing.
const HALVES: [&str; 6] = [
    "form=stream",
    "form=writer",
    "form=stream&length=1000",
    "form=writer&length=1000",
    "form=stream&async",
    "form=writer&async&length=1000",
];

/// How many of them fail on the calling thread.
const SYNCHRONOUS: usize = 4;

#[test]
fn an_answer_that_breaks_off_does_not_look_whole() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for (number, how) in HALVES.iter().enumerate() {
            let mut client = server.connect();
            client.send(get(&format!("/trial/half?{how}&name=http-1-{number}")));
            is_half(client, how);
            let error = runtime().block_on(half_over_http_2(&server, &format!("{how}&name=http-2-{number}")));
            assert!(error.is_reset(), "{how}: {error}");
            for name in [format!(": http-1-{number}"), format!(": http-2-{number}")] {
                let said = || server.error_text().lines().filter(|line| line.contains(&name)).count();
                wait_until("the log says so", START, || said() > 0);
                assert_eq!(said(), 1, "{how}: {}", server.error_text());
                server
                    .wait_for_error_line("names it", |line| line.contains(&name) && line.contains("/trial"));
            }
        }
        // The threads and their memory are as before.
        let threads = servlet_threads(&server);
        for round in 0..60 {
            let mut client = server.connect();
            let how = HALVES[round % SYNCHRONOUS];
            client.send(get(&format!("/trial/half?{how}&name=again")));
            is_half(client, how);
        }
        assert!(servlet_threads(&server) <= threads + 10, "{isolation}");
        let big = server.get("/trial/big?bytes=200000");
        assert_eq!((big.status, big.body.len()), (200, 200_000));
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Reads an answer whose first part is there, and whose end is missing.
fn is_half(mut client: Client, how: &str) {
    client.set_patience(START);
    let (received, _) = client.read_to_end();
    let received = String::from_utf8_lossy(&received);
    assert!(received.starts_with("HTTP/1.1 200 ") && received.contains("half"), "{how}: {received}");
    assert!(!received.ends_with("0\r\n\r\n"), "{how}: {received}");
    assert_eq!(received.contains("Content-Length: 1000"), how.contains("length"), "{how}: {received}");
}

async fn half_over_http_2(server: &Server, how: &str) -> h2::Error {
    let mut requests = connect(server).await;
    let request = Request::get(format!("http://a/trial/half?{how}")).body(()).unwrap();
    let (answer, _) = requests.send_request(request, true).unwrap();
    let mut body = answer.await.unwrap().into_body();
    let mut read = Vec::new();
    loop {
        match body.data().await.expect("an end that is not an end") {
            Ok(piece) => read.extend_from_slice(&piece),
            Err(error) => {
                // The reset may overtake bytes on their way.
                assert!(b"half".starts_with(&read), "{}", String::from_utf8_lossy(&read));
                return error;
            }
        }
    }
}

/// The threads that answer requests, in the server or in the process of its applications.
fn servlet_threads(server: &Server) -> usize {
    let named = |process: i32| -> usize {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        tasks
            .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .filter(|name| name.starts_with("servlet-1"))
            .count()
    };
    named(server.process()) + children(server).first().map_or(0, |pid| named(*pid))
}

#[test]
fn answers_of_a_process_that_dies_do_not_look_whole() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = with_trial(&tree, trial, "isolated");
    let until = tree.root().join("until");
    let target = format!("/trial/held?how=stream&until={}", until.display());
    let mut client = server.connect();
    client.send(get(&target));
    client.wait_for_bytes(130);
    runtime().block_on(async {
        let mut requests = connect(&server).await;
        let request = Request::get(format!("http://a{target}")).body(()).unwrap();
        let (answer, _) = requests.send_request(request, true).unwrap();
        let mut body = answer.await.unwrap().into_body();
        assert_eq!(body.data().await.unwrap().unwrap(), "first ");
        kill(*children(&server).first().expect("a process of applications"));
        let error = body.data().await.unwrap().expect_err("half an answer is none");
        assert!(error.is_reset(), "{error}");
    });
    let (received, _) = client.read_to_end();
    assert!(!received.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&received));
    wait_until("it answers again", START, || server.get("/trial/facts").status == 200);
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).expect("a process");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it can be killed");
}

/// A server with an isolated route, whose temporary files go into a directory of the test.
fn with_temporary(tree: &Tree, trial: &Path, temporary: &Path) -> Server {
    let path = tree.root().join("touchstone.toml");
    let route = route("/trial/", &format!("app = {trial:?}, isolation = \"isolated\""));
    fs::write(&path, configuration(tree, "", &route)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_touchstone"));
    command.args(["serve", "--config"]).arg(path).env("TMPDIR", temporary);
    let server = Server::start_piped(command);
    wait_for_applications(&server, 1);
    server
}

#[test]
fn isolated_processes_leave_no_temporary_files_however_they_end() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let temporary = tree.root().join("tmp");
    fs::create_dir(&temporary).unwrap();
    let left = || fs::read_dir(&temporary).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let mut server = with_temporary(&tree, trial, &temporary);
    let file = text(&server.get("/trial/temporary"));
    assert!(file.starts_with(temporary.to_str().unwrap()) && Path::new(&file).is_file(), "{file}");
    let pid = *children(&server).first().expect("a process of applications");
    kill(pid);
    wait_until("its files are removed", START, || !Path::new(&file).exists());
    wait_until("it answers again", START, || server.get("/trial/temporary").status == 200);
    server.stop();
    assert_eq!(left(), Vec::<PathBuf>::new());

    // The processes of a killed server end with it; the next server removes their files.
    let server = with_temporary(&tree, trial, &temporary);
    let file = text(&server.get("/trial/temporary"));
    let processes = children(&server);
    kill(server.process());
    let is_there =
        |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty());
    wait_until("its processes have ended", START, || !processes.iter().any(is_there));
    assert!(Path::new(&file).exists());
    let mut next = with_temporary(&tree, trial, &temporary);
    assert!(!Path::new(&file).exists());
    next.stop();
    assert_eq!(left(), Vec::<PathBuf>::new());
}

#[test]
fn applications_that_do_not_start_are_named_and_others_run() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let apps = tree.root().join("apps");
        copy(trial, &apps.join("good"));
        for (name, descriptor) in [
            ("malformed", "<web-app><servlet>"),
            (
                "missing",
                "<web-app><listener><listener-class>trial.Nowhere</listener-class></listener></web-app>",
            ),
            ("throws", &listener("Throws")),
            ("exits", &listener("Exits")),
        ] {
            copy(trial, &apps.join(name));
            fs::write(apps.join(name).join("WEB-INF/web.xml"), descriptor).unwrap();
        }
        fs::write(apps.join("torn.war"), "PK\x03\x04 and no more").unwrap();
        let routes = route("/", &format!("directory = {apps:?}, isolation = {isolation:?}"));
        let server = start(&tree, "", &routes, 1);
        for file in ["malformed", "missing", "throws", "exits", "torn.war"] {
            let name = file.trim_end_matches(".war");
            server.wait_for_error_line("names it", |line| {
                line.contains(&format!("the application /{name} ({file}) could not be started"))
            });
            wait_until("the route has started", START, || server.get("/good/facts").status == 200);
            let unavailable = server.get(&format!("/{name}/facts"));
            assert_eq!((unavailable.status, unavailable.field("retry-after")), (503, Some("2")), "{name}");
        }
        server.wait_for_error_line("names what it has called", |line| {
            line.contains("the application exits has called System.exit(5), which is refused")
        });
    }
}

#[test]
fn an_application_that_takes_long_to_start_holds_no_other_up() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let (apps, until) = (tree.root().join("apps"), tree.root().join("until"));
        for name in ["slow", "quick"] {
            copy(trial, &apps.join(name));
        }
        let descriptor = format!(
            "<web-app><context-param><param-name>until</param-name><param-value>{}</param-value></context-param>\
             <listener><listener-class>trial.Answers$Slow</listener-class></listener></web-app>",
            until.display()
        );
        fs::write(apps.join("slow/WEB-INF/web.xml"), &descriptor).unwrap();
        let keys = format!("isolation = {isolation:?}, threads = 2, queue = 40, start_timeout = \"90s\"");
        let routes = route("/slow-alone/", &format!("app = {:?}, {keys}", apps.join("slow")))
            + &route("/alone/", &format!("app = {trial:?}, {keys}"))
            + &route("/", &format!("directory = {apps:?}, {keys}"));
        let server = start(&tree, "", &routes, 2);
        let mut waiting: Vec<Client> = (0..12)
            .map(|number| {
                let mut client = server.connect();
                client.set_patience(START);
                client.send(get(if number % 2 == 0 { "/slow/facts" } else { "/slow-alone/facts" }));
                client
            })
            .collect();
        for path in ["/alone", "/quick"] {
            assert_eq!(server.get(&format!("{path}/facts")).status, 200, "{isolation} {path}");
            assert_eq!(
                text(&server.get(&format!("{path}/async?how=timeout"))),
                "timed out",
                "{isolation} {path}"
            );
        }
        // A client that disconnects in that time does not disturb the others.
        waiting.remove(0);
        fs::write(&until, "").unwrap();
        for client in &mut waiting {
            assert_eq!(client.answer().status, 200, "{isolation}");
        }
    }
}

fn listener(name: &str) -> String {
    format!("<web-app><listener><listener-class>trial.Trial${name}</listener-class></listener></web-app>")
}

#[test]
fn threads_that_an_application_leaves_behind_are_named() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let war = tree.root().join("trial.war");
        pack(trial, &war);
        let server =
            start(&tree, "", &route("/trial/", &format!("app = {war:?}, isolation = {isolation:?}")), 1);
        assert_eq!(server.get("/trial/bad?how=leave").status, 200);
        replace(&war);
        server.wait_for_error_line("names both", |line| {
            line.contains("[trial]") && line.contains("thread named [left-behind]")
        });
        wait_until("the new one answers", START, || server.get("/trial/facts").status == 200);
    }
}

#[test]
fn a_process_without_memory_is_replaced_where_that_is_asked_for() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let java = "options = [\"-XX:+ExitOnOutOfMemoryError\"]\n";
    let route =
        route("/trial/", &format!("app = {trial:?}, isolation = \"isolated\", start_timeout = \"60s\""));
    let server = start(&tree, java, &route, 1);
    let mut client = server.connect();
    client.set_patience(START);
    let request = "POST /trial/bad?how=memory HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(client.ask(request).status, 502);
    server.wait_for_error_line("says so", |line| line.contains("ended (with exit code 3)"));
    assert_eq!(server.get("/plain.txt").status, 200);
    wait_until("it answers again", START, || server.get("/trial/facts").status == 200);
}

#[test]
fn bad_servlets_are_named_and_the_server_goes_on() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        are_named(&with_trial(&tree, trial, isolation));
    }
}

fn are_named(server: &Server) {
    for (how, status, line) in [
        ("throw", 500, "thrown on purpose"),
        ("exit", 500, "the application trial has called System.exit(3)"),
        ("error", 418, ""),
        ("stack", 500, "StackOverflowError"),
        ("long", 500, "header fields are longer"),
        ("memory", 500, "OutOfMemoryError"),
    ] {
        let response = server.get(&format!("/trial/bad?how={how}"));
        assert_eq!(response.status, status, "{how}");
        // The answer shows neither versions nor classes.
        let body = text(&response);
        assert!(!body.contains("Tomcat") && !body.contains("Exception"), "{how}: {body}");
        server.wait_for_error_line(line, |each| {
            each.contains(line) && (line.is_empty() || each.contains("/trial") || each.contains("trial "))
        });
    }
    let split = server.get("/trial/bad?how=header");
    assert_eq!((split.field("x-split"), split.field("set-cookie")), (Some("a  Set-Cookie: b"), None));
    assert_eq!(server.get("/trial/facts").status, 200);
    assert_eq!(server.get("/plain.txt").status, 200);
}

#[test]
fn stacks_are_readable_and_nothing_in_them_is_an_entry() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let ask = |query: &str| server.get(&format!("/trial/bad?how={query}")).status;
        let forged = "2026-11-20T10:00:00.123Z info forged";
        assert_eq!(ask("throw&cause=one%5Cn%0A2026-11-20T10:00:00.123Z%20info%20forged%0Djava:%20two"), 500);
        let end = |line: &str| line.contains("java | ") && line.ends_with("forged\\x0djava: two");
        server.wait_for_error_line("says why", end);
        let log = server.error_text();
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(" error java")).collect();
        let first = lines.iter().position(|line| line.contains("thrown on purpose")).unwrap();
        assert!(lines[first].contains(" error java: ") && lines[first].contains("Bad"), "{log}");
        assert!(lines[first + 1].contains(" error java |     at trial.Trial$Bad.doGet(Trial.java:"), "{log}");
        let cause = " error java | Caused by: java.lang.IllegalArgumentException: one\\n";
        let cause = lines.iter().position(|line| line.ends_with(cause)).unwrap();
        assert!(lines[cause + 1].contains(&format!(" error java | {forged}")), "{log}");
        assert!(!log.lines().any(|line| line.starts_with(forged)), "{log}");

        assert_eq!(ask("stack"), 500);
        server.wait_for_error_line("says how many are left out", |line| line.contains(" lines left out ..."));
        assert!(server.error_text().lines().filter(|line| line.contains("Trial.deeper(")).count() < 200);
        assert_eq!(ask("print"), 200);
        server.wait_for_error_line("has what was printed", |line| {
            line.contains(": java.lang.IllegalStateException: printed")
        });
        server.wait_for_error_line("has its stack", |line| {
            line.contains(" warning java:     at trial.Trial$Bad.")
        });
        assert!(!server.error_text().contains("\\x0a") && !server.error_text().contains("\\x09"));
    }
}

#[test]
fn threads_that_are_stuck_hold_up_their_own_route_alone() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        hold_up_their_own_route(trial, isolation);
    }
}

fn hold_up_their_own_route(trial: &Path, isolation: &str) {
    let tree = Tree::empty();
    let limited = route(
        "/stuck/",
        &format!(
            "app = {trial:?}, isolation = {isolation:?}, threads = 2, queue = 2, answer_timeout = \"6s\""
        ),
    );
    let routes = limited + &route("/trial/", &format!("app = {trial:?}"));
    let server = start(&tree, "", &routes, 2);
    // Two requests are in the threads and two wait; there is no place for a fifth.
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /stuck/bad?how=sleep HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    }
    assert_eq!(server.get("/trial/facts").status, 200);
    // A waiting request is answered with an error after the answer timeout of the route.
    let answers: Vec<Response> = clients.iter_mut().map(Client::answer).collect();
    let told: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    let refused: Vec<&Response> = answers.iter().filter(|answer| answer.status == 503).collect();
    assert!(refused.len() == 1 && told.iter().filter(|status| **status == 504).count() == 4, "{told:?}");
    assert_eq!(refused[0].field("retry-after"), Some("2"));
    wait_until("the threads are free again", START, || server.get("/stuck/facts").status == 200);
    // Two threads that wait for each other are named.
    let mut client = server.connect();
    client.send("GET /stuck/bad?how=lock HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().status, 504);
    server.wait_for_error_line("names the deadlock", |line| {
        line.contains("a deadlock") && line.contains("trial.Trial")
    });
}

/// The processes of applications that a server has started, the oldest first.
fn children(server: &Server) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.process())).expect("its threads");
    let mut found: Vec<(u64, i32)> = tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>())
        .filter_map(|pid| {
            let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
            // proc(5): the time of its start is the 22nd figure, and the name before it may hold anything.
            let facts = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let started = facts.rsplit(") ").next()?.split(' ').nth(19)?.parse().ok()?;
            command.contains("servlet-host").then_some((started, pid))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, pid)| pid).collect()
}

#[test]
fn a_process_of_applications_that_dies_is_replaced_and_nothing_else_notices() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let isolated =
        route("/trial/", &format!("app = {trial:?}, isolation = \"isolated\", start_timeout = \"60s\""));
    let mut server = start(&tree, "", &isolated, 1);
    wait_until("it answers", START, || server.get("/trial/facts").status == 200);
    // The second request has a body that never comes to its end.
    for (round, (length, body)) in [(0, ""), (10, "hello")].into_iter().enumerate() {
        let before = children(&server);
        // One process is at work, and perhaps another waits to take over.
        let pid = *before.first().expect("a process of applications");
        let mut waiting = server.connect();
        // The page writes a file when it has begun.
        let sign = tree.beside(&format!("begun-{round}"));
        waiting.send(format!(
            "POST /trial/bad?how=sleep&until={} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}",
            sign.display()
        ));
        let has_begun = || {
            let mut names = std::fs::read_dir(tree.around()).expect("a directory").flatten();
            names.any(|entry| entry.file_name().to_string_lossy().starts_with(&format!("begun-{round}-")))
        };
        wait_until("the process is at work", START, has_begun);
        let killed = rustix::process::Pid::from_raw(pid).expect("a process");
        rustix::process::kill_process(killed, rustix::process::Signal::KILL).expect("it can be killed");
        // An active request is lost; a later request is answered.
        assert_eq!(waiting.answer().status, 502, "{round}");
        assert_eq!(server.get("/plain.txt").status, 200);
        let mut client = server.connect();
        client.set_patience(START);
        let response = client.ask("GET /trial/facts HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(response.status, 200, "{round}");
        assert!(!children(&server).contains(&pid));
    }
    server.wait_for_error_line("says so", |line| line.contains("ended (by signal 9) and is started again"));
    // A process that an application itself ends is replaced as well.
    let mut client = server.connect();
    client.set_patience(START);
    let response = client.ask("GET /trial/bad?how=halt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    server
        .wait_for_error_line("says so", |line| line.contains("an application has ended Java (exit code 4)"));
    wait_until("it answers again", START, || server.get("/trial/facts").status == 200);
    let process = children(&server);
    server.stop();
    wait_until("its process has ended", START, || {
        process.iter().all(|pid| !Path::new(&format!("/proc/{pid}/exe")).exists())
    });
}

#[test]
fn a_process_that_is_ready_before_the_end_of_the_last_is_reported_answers() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = with_trial(&tree, trial, "isolated");
    let file = text(&server.get("/trial/temporary"));
    let temporary = Path::new(&file).parent().expect("the directory of the process");
    // They are removed before its end is reported, which takes longer than the next one to take over.
    for number in 0..20_000 {
        fs::write(temporary.join(format!("{number}.txt")), "").unwrap();
    }
    let is_waiting =
        || children(&server).len() == 2 && children(&server).last().is_some_and(|pid| has_lock_open(*pid));
    wait_until("another process waits to take over", START, is_waiting);
    let pid = *children(&server).first().expect("a process of applications");
    kill(pid);
    server.wait_for_error_line("says so", |line| line.contains("ended (by signal 9) and is started again"));
    for _ in 0..2 {
        assert_eq!(get_patiently(server.address(), "/trial/facts").status, 200);
    }
    wait_until("a third process waits to take over", START, is_waiting);
    assert!(!children(&server).contains(&pid));
}

/// Whether a process of applications answers requests, or waits for its turn to.
fn has_lock_open(pid: i32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.ends_with("lock")))
}

#[test]
fn an_application_that_ends_java_ends_servlets_alone() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let mut server =
        start(&tree, "", &route("/trial/", &format!("app = {trial:?}, answer_timeout = \"5s\"")), 1);
    let response = server.get("/trial/bad?how=halt");
    assert!(matches!(response.status, 502..=504), "{}", response.status);
    server
        .wait_for_error_line("says so", |line| line.contains("an application has ended Java (exit code 4)"));
    assert_eq!(server.get("/trial/facts").status, 503);
    assert_eq!(server.get("/plain.txt").status, 200);
    server.stop();
}
