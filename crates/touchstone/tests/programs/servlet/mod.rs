//! Java servlets from the outside: applications compiled here, and third-party ones, in a running server.

mod ajp;
mod answers;
mod browser;
mod cache;
mod components;
mod connections;
mod conversions;
mod devtools;
mod failures;
mod http;
mod machines;
mod operators;
mod others;
mod reload;
mod sessions;
mod soak;
pub(crate) mod websocket;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::ajp::{certificates, tomcat};
use crate::support::{AnswerTo, Client, Response, Server, Tree, curl, skipped, wait_until};
use websocket::WebSocket;

/// How long an application may take to start on a busy machine.
const START: Duration = Duration::from_secs(180);

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn target() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_touchstone"))
        .ancestors()
        .nth(2)
        .expect("cargo builds below a target directory")
}

fn script(name: &str, arguments: &[&str]) -> Option<i32> {
    let mut command = Command::new(top().join("scripts").join(name));
    command.args(arguments).env("CARGO_TARGET_DIR", target());
    command.status().expect("the script can be run").code()
}

/// The directory of this test's application; `None`, with a visible message, without a JDK or Maven.
fn trial() -> Option<&'static Path> {
    static TRIAL: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let built = TRIAL.get_or_init(|| match script("java.sh", &["--brief"]) {
        Some(0) => Some(compile_trial()),
        Some(3) => None,
        other => panic!("scripts/java.sh: {other:?}"),
    });
    if built.is_none() {
        skipped("tests of servlets (install openjdk-17-jdk-headless maven)");
    }
    built.as_ref().map(tempfile::TempDir::path)
}

fn compile_trial() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory for the application");
    copy(&sources().join("pages"), directory.path());
    compile(&["Trial.java", "Answers.java"], directory.path(), &[]);
    directory
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/servlet")
}

/// Compiles classes into an application's directory, with Tomcat's jars and those of some directories.
fn compile(files: &[&str], application: &Path, libraries: &[PathBuf]) {
    let classes = application.join("WEB-INF/classes");
    fs::create_dir_all(&classes).expect("a directory for classes");
    let mut jars = format!("{}/*", target().join("java").display());
    libraries.iter().for_each(|library| jars += &format!(":{}/*", library.display()));
    let status = Command::new("javac")
        .args(["-nowarn", "--release", "17", "-cp", &jars, "-d"])
        .arg(&classes)
        .args(files.iter().map(|file| sources().join(file)))
        .status()
        .expect("javac runs");
    assert!(status.success(), "the application is compiled");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory that can be read") {
        let entry = entry.expect("an entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a file can be copied");
        }
    }
}

/// Packs an application into a WAR.
fn pack(application: &Path, war: &Path) {
    let status = Command::new("jar")
        .args(["--create", "--file"])
        .arg(war)
        .arg("-C")
        .arg(application)
        .arg(".")
        .status();
    assert!(status.expect("jar runs").success());
}

/// Replaces a WAR by another of the same content, atomically.
fn replace(war: &Path) {
    let beside = war.with_extension("new");
    fs::copy(war, &beside).expect("a file can be copied");
    fs::rename(&beside, war).expect("a file can be renamed");
}

/// The directory of third-party applications; `None` where they cannot be fetched.
fn applications() -> Option<PathBuf> {
    (script("java-applications.sh", &[]) == Some(0)).then(|| target().join("java-applications"))
}

/// A server whose routes have applications; returns when all of them run.
fn start(tree: &Tree, java: &str, routes: &str, applications: usize) -> Server {
    let server = start_without_waiting(tree, java, routes);
    wait_for_applications(&server, applications);
    server
}

fn start_without_waiting(tree: &Tree, java: &str, routes: &str) -> Server {
    fs::write(tree.root().join("plain.txt"), "a file\n").expect("a file");
    Server::configured(&tree.root(), &configuration(tree, java, routes))
}

fn configuration(tree: &Tree, java: &str, routes: &str) -> String {
    let heap = if java.contains("heap") { "" } else { "heap = \"128MiB\"\n" };
    format!(
        "[limits]\nbody_bytes = \"100MiB\"\nheader_timeout = \"10m\"\nstall_timeout = \"10m\"\n\
         [java]\n{heap}{java}\n[[site]]\n\
         listen = [\"127.0.0.1:0\"]\n\
         root = {:?}\n{routes}",
        tree.root()
    )
}

fn wait_for_applications(server: &Server, count: usize) {
    wait_until("the applications run", START, || {
        let text = server.error_text();
        text.lines().filter(|line| line.contains("the application ") && line.contains(" runs ")).count()
            >= count
    });
}

fn route(path: &str, servlet: &str) -> String {
    format!("[[site.route]]\npath = {path:?}\nservlet = {{ {servlet} }}\n")
}

fn with_trial(tree: &Tree, trial: &Path, isolation: &str) -> Server {
    start(tree, "", &route("/trial/", &format!("app = {trial:?}, isolation = {isolation:?}")), 1)
}

/// Where applications may run.
const BOTH: [&str; 2] = ["in-process", "isolated"];

fn text(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// GET, with enough patience for a page that is compiled first.
fn get_patiently(address: SocketAddr, target: &str) -> Response {
    let mut client = Client::connect(address);
    client.set_patience(START);
    client.ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
}

fn ask(server: &Server, request: &str) -> Response {
    let mut client = server.connect();
    let response = client.ask(format!("{request}\r\nHost: shop.example:8443\r\nConnection: close\r\n\r\n"));
    client.end();
    response
}

#[test]
fn the_java_side_passes_its_own_tests() {
    match script("java.sh", &["--test"]) {
        Some(0) => {}
        Some(3) => skipped("tests of the Java side (install openjdk-17-jdk-headless maven)"),
        other => panic!("scripts/java.sh: {other:?}"),
    }
}

#[test]
fn an_application_asked_for_without_its_slash_is_found_with_it() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = with_trial(&tree, trial, "in-process");
    let response = ask(&server, "GET /trial?a=b HTTP/1.1");
    assert_eq!((response.status, response.field("location")), (301, Some("/trial/?a=b")));
}

#[test]
fn a_servlet_is_told_what_was_asked() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let request =
            "GET /trial/facts/a%20b/c?name=w%C3%B6&x HTTP/1.1\r\nX-Two: 1\r\nX-Two: 2\r\nCookie: a=b";
        let response = ask(&server, request);
        assert_eq!(response.status, 200);
        assert_eq!(response.field("x-filtered"), Some("yes"));
        let facts = text(&response);
        for line in [
            "method=GET",
            "uri=/trial/facts/a%20b/c",
            "context=/trial",
            "servlet=/facts",
            "path=/a b/c",
            "query=name=w%C3%B6&x",
            "name=wö",
            "protocol=HTTP/1.1",
            "scheme=http secure=false",
            "server=shop.example:8443",
            "client=127.0.0.1 true",
            "user=null null",
            "length=-1",
            "field X-Two=[1, 2]",
            "field Cookie=[a=b]",
        ] {
            assert!(facts.lines().any(|each| each == line), "{line}\n{facts}");
        }
        let form = "POST /trial/facts HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                    Content-Length: 8";
        let mut client = server.connect();
        client.send(format!("{form}\r\nHost: a\r\nConnection: close\r\n\r\nname=abc"));
        let facts = text(&client.answer());
        assert!(facts.contains("\nname=abc\n") && facts.contains("\nlength=8\n"), "{facts}");
        // Methods that are unknown to the server are left to the application.
        assert!(text(&ask(&server, "PURGE /trial/facts HTTP/1.1")).starts_with("method=PURGE"));
        let mut client = server.connect();
        client.send("HEAD /trial/big?bytes=30000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let head = client.try_answer(AnswerTo::Head).expect("an answer to HEAD");
        assert_eq!((head.status, head.field("content-length")), (200, None));
    }
}

#[test]
fn bodies_stream_both_ways_however_long_they_are() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        stream_both_ways(&server, &tree);
        let big = server.get("/trial/big?bytes=5000000");
        assert_eq!((big.status, big.body.len()), (200, 5_000_000));
        // A client that leaves in the middle affects only its own answer.
        let mut client = server.connect();
        client.send("GET /trial/big?bytes=500000000 HTTP/1.1\r\nHost: a\r\n\r\n");
        client.wait_for_bytes(1000);
        client.vanish();
        assert_eq!(server.get("/trial/facts").status, 200);
    }
}

/// Has servlets send back what they read, through streams and through events.
fn stream_both_ways(server: &Server, tree: &Tree) {
    let (sent, got) = (tree.root().join("sent"), tree.root().join("got"));
    let content: Vec<u8> = (0..3_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&sent, &content).expect("a file");
    for (path, chunked) in [("echo", false), ("echo", true), ("echo-events", false), ("echo-events", true)] {
        let url = format!("http://{}/trial/{path}", server.address());
        let data = format!("@{}", sent.display());
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "X-Nothing: 1" };
        let output = got.to_str().expect("a name");
        let Some(result) = curl(["--data-binary", &data, "-H", framing, "-o", output, &url]) else {
            return;
        };
        assert!(result.status.success(), "{path} {chunked}: {result:?}");
        assert!(fs::read(&got).expect("a file") == content, "{path} {chunked}: another body");
    }
}

#[test]
fn a_client_that_waits_is_asked_for_its_body_when_the_servlet_reads_it() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let mut stream = std::net::TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time limit");
        let head = "POST /trial/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\
                    Connection: close\r\n\r\n";
        stream.write_all(head.as_bytes()).expect("a head is sent");
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).expect("an interim answer");
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(b"body").expect("a body is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("body"), "{answer}");
    }
}

#[test]
fn requests_that_go_on_by_themselves_are_answered() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        for (how, body) in [
            ("complete", "completed"),
            ("dispatch", "dispatched"),
            ("pieces", "piece 0\npiece 1\npiece 2\n"),
            ("timeout", "timed out"),
        ] {
            assert_eq!(text(&server.get(&format!("/trial/async?how={how}"))), body, "{how}");
        }
    }
}

#[test]
fn applications_hear_of_clients_that_have_left() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        // The clients of these requests have disconnected, and the applications are notified.
        let gone = || text(&server.get("/trial/gone"));
        for number in 1..=3 {
            let mut client = server.connect();
            client.send("GET /trial/async?how=never HTTP/1.1\r\nHost: a\r\n\r\n");
            wait_until("it is at work", START, || gone().ends_with(&format!(" of {number}")));
            client.vanish();
        }
        wait_until("applications know that clients have left", START, || gone() == "3 of 3");
    }
}

#[test]
fn sessions_pages_uploads_and_error_pages_work() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = with_trial(&tree, trial, "in-process");
    let first = server.get("/trial/count");
    let cookie =
        first.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_string();
    assert!(
        cookie.starts_with("JSESSIONID=")
            && first.field("set-cookie").unwrap_or_default().contains("HttpOnly")
    );
    let again = ask(&server, &format!("GET /trial/count HTTP/1.1\r\nCookie: {cookie}"));
    assert_eq!(text(&again), "2 count");
    // Without cookies the session is in the path.
    let link = text(&first).split_once(' ').expect("a link").1.to_string();
    assert!(link.starts_with("count;jsessionid="));
    assert!(text(&server.get(&format!("/trial/{link}"))).starts_with("3 "));

    assert_eq!(text(&server.get("/trial/date.jsp")).trim(), "page=/date.jsp sum=3");
    let missing = server.get("/trial/nowhere");
    assert_eq!((missing.status, text(&missing).trim()), (404, "nothing at /trial/nowhere"));

    let parts = "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n.txt\"\r\n\r\nabc\r\n\
                 --b\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\nde\r\n--b--\r\n";
    let mut client = server.connect();
    client.send(format!(
        "POST /trial/upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Content-Type: multipart/form-data; boundary=b\r\n\
         Content-Length: {}\r\n\r\n{parts}",
        parts.len()
    ));
    assert_eq!(text(&client.answer()), "f n.txt 3\ng null 2\n");
}

#[test]
fn a_socket_of_the_web_speaks_both_ways() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let mut socket = WebSocket::open(server.address(), "/trial/socket").expect("a switch");
        for message in ["one", "two", "three"] {
            socket.say(message).expect("a frame is sent");
            assert_eq!(socket.hear().expect("a frame"), format!("heard {message}"));
        }
        socket.close().expect("an end on both sides");
    }
}

#[test]
fn path_parameters_do_not_bypass_the_rules_of_the_server() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let denied = "[[site.route]]\npath = \"/trial/facts/secret/**\"\nrespond = { status = 403 }\n";
    let routes = denied.to_string() + &route("/trial/", &format!("app = {trial:?}"));
    let server = start(&tree, "", &routes, 1);
    for path in [
        "/trial/facts/secret/a",
        "/trial/facts/secret;x=1/a",
        "/trial/facts/;/secret/a",
        "/trial/facts/secret/a;jsessionid=1",
        "/trial/facts/%73ecret/a",
        "/trial/facts/x;y/%2e%2e/secret/a",
    ] {
        assert_eq!(server.get(path).status, 403, "{path}");
    }
    assert_eq!(server.get("/trial/facts/x/..;/secret/a").status, 400);
    assert!(matches!(server.get("/trial/..;/..;/trial/facts").status, 400 | 404));
    let facts = text(&server.get("/trial/facts/open;v=1/b;w"));
    assert!(facts.contains("uri=/trial/facts/open;v=1/b;w\n") && facts.contains("path=/open/b\n"), "{facts}");
}

#[test]
fn applications_come_and_go_and_others_do_not_notice() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let apps = tree.root().join("apps");
    copy(trial, &apps.join("kept"));
    let broken = apps.join("broken/WEB-INF");
    fs::create_dir_all(&broken).expect("a directory");
    fs::write(broken.join("web.xml"), "<web-app><servlet>").expect("a file");
    let server = start(&tree, "", &route("/", &format!("directory = {apps:?}")), 1);
    server.wait_for_error_line("names it", |line| {
        line.contains("the application /broken (broken) could not be started")
    });
    let unavailable = server.get("/broken/a");
    assert_eq!((unavailable.status, unavailable.field("retry-after")), (503, Some("2")));

    let first = server.get("/kept/count");
    let cookie =
        first.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_string();
    let war = apps.join("new#one.war");
    pack(trial, &war);
    wait_until("the new application runs", START, || server.get("/new/one/facts").status == 200);
    // A changed descriptor: the application is restarted, and its sessions are kept.
    let descriptor = apps.join("kept/WEB-INF/web.xml");
    let changed =
        fs::read_to_string(&descriptor).expect("a file").replace("</web-app>", "<!-- changed --></web-app>");
    std::thread::sleep(Duration::from_millis(20));
    fs::write(&descriptor, changed).expect("a file");
    server.wait_for_error_line("says so", |line| line.contains("the application /kept (kept) runs again"));
    assert!(text(&ask(&server, &format!("GET /kept/count HTTP/1.1\r\nCookie: {cookie}"))).starts_with("2 "));
    // If the new WAR cannot be read, the old application continues.
    fs::write(&war, "no archive").expect("a file");
    server.wait_for_error_line("continues", |line| {
        line.contains("/new/one (new#one.war) cannot be replaced and keeps running unchanged")
    });
    assert_eq!(server.get("/new/one/facts").status, 200);
    fs::remove_file(&war).expect("a file");
    wait_until("the application is gone", START, || server.get("/new/one/facts").status == 404);
    assert_eq!(server.get("/kept/facts").status, 200);
}

#[test]
fn files_are_answered_while_java_starts() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let routes = route("/trial/", &format!("app = {trial:?}, start_timeout = \"0s\""));
    let server = start_without_waiting(&tree, "", &routes);
    let early = server.get("/trial/facts");
    assert_eq!(server.get("/plain.txt").status, 200);
    // Unless the machine was very quick.
    if early.status != 200 {
        assert_eq!((early.status, early.field("retry-after")), (503, Some("2")));
    }
    wait_for_applications(&server, 1);
    wait_until("it is used", START, || server.get("/trial/facts").status == 200);
}

#[test]
fn java_that_does_not_start_costs_servlets_alone() {
    let Some(trial) = trial() else { return };
    // Java refuses the first at once; with the second it fails in the middle of its start.
    for java in ["options = [\"-XX:NoSuchOption=1\"]\n", "heap = \"1MiB\"\n"] {
        let tree = Tree::empty();
        let server = start_without_waiting(&tree, java, &route("/trial/", &format!("app = {trial:?}")));
        assert_eq!(server.get("/trial/facts").status, 503, "{java}");
        assert_eq!(server.get("/plain.txt").status, 200, "{java}");
        server.wait_for_error_line("says why", |line| line.contains("Java did not start"));
    }
}

#[test]
fn applications_know_of_tls() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let tls = "development_certificate = true\n";
    let server = start(&tree, "", &(tls.to_string() + &route("/trial/", &format!("app = {trial:?}"))), 1);
    let url = format!("https://localhost:{}/trial/facts", server.address().port());
    let Some(output) = curl(["--insecure", "--http2", &url]) else { return };
    let facts = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(facts.contains("scheme=https secure=true\n") && facts.contains("cipher=TLS_"), "{facts}");
    assert!(facts.contains("protocol=HTTP/2.0\n"), "{facts}");
}

/// A server with one core, and so with one thread for calls.
fn on_one_core(tree: &Tree, trial: &Path) -> Server {
    start(tree, "[server]\ncores = 1\n", &route("/trial/", &format!("app = {trial:?}")), 1)
}

/// A client whose connection is on the thread for calls of the only core.
fn caller(server: &Server) -> Client {
    let mut client = server.connect();
    wait_until("the connection is on the thread for calls", START, || {
        text(&client.ask("GET /trial/gate HTTP/1.1\r\nHost: a\r\n\r\n")).starts_with("worker-")
    });
    client
}

#[test]
fn connections_that_keep_asking_for_servlets_are_answered_by_one_thread() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = on_one_core(&tree, trial);
    let mut client = caller(&server);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    // An answer that is not short or not complete at once is written by the core, in the middle of a call if
    // needed.
    assert_eq!(client.ask(get("/trial/big?bytes=3000000")).body.len(), 3_000_000);
    let mut client = caller(&server);
    assert_eq!(client.ask(get("/trial/async")).status, 200);
    let mut client = caller(&server);
    assert_eq!(text(&client.ask(get("/plain.txt"))), "a file\n");
    let mut client = caller(&server);
    let form = "POST /trial/facts HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                Content-Length: 8";
    assert!(text(&client.ask(format!("{form}\r\n\r\nname=abc"))).contains("\nname=abc\n"));
    let mut client = caller(&server);
    assert_eq!(client.ask(get("/trial/bad?how=throw")).status, 500);
    let mut client = caller(&server);
    client.send(get("/trial/half?form=writer&name=called"));
    assert!(client.try_answer(AnswerTo::Other).is_err(), "half an answer is none");
    // Two requests at once, one of them in pieces.
    let mut client = caller(&server);
    client.send(get("/trial/gate") + &get("/trial/facts") + "GET /trial/ga");
    assert_eq!((client.answer().status, client.answer().status), (200, 200));
    client.send("te HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    client.end();
}

#[test]
fn texts_are_in_utf_8_by_default() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let tree = Tree::empty();
        let server = with_trial(&tree, trial, isolation);
        let head = "POST /trial/encodings HTTP/1.1\r\nHost: a\r\nConnection: close\r\n";
        let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 17";
        let answer = server.connect().ask(format!("{head}{form}\r\n\r\np=%C3%A9%E2%82%AC"));
        assert_eq!(answer.field("content-type"), Some("text/plain;charset=UTF-8"), "{isolation}");
        assert_eq!(text(&answer), "UTF-8 UTF-8 2 \u{e9}\u{20ac}", "{isolation}");
        wait_until("what it prints is in the error log", START, || {
            let log = server.error_text();
            log.contains("printed on purpose: ") && log.contains("printed as an error")
        });
    }
}

#[test]
fn heads_of_any_length_go_ahead_of_bodies() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = on_one_core(&tree, trial);
    // After a longer field there is no room for the head beside the body.
    for (field, body) in
        [(0, 100), (0, 6250), (200, 6250), (350, 6250), (600, 6250), (9000, 6250), (100, 60_000)]
    {
        let mut client = caller(&server);
        for _ in 0..3 {
            let get = format!("GET /trial/big?bytes={body}&field={field} HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.ask(get);
            assert_eq!(answer.status, 200);
            assert_eq!(answer.field("x-long").map(str::len), Some(field), "{field} {body}");
            assert!(
                answer.body.len() == body && answer.body.iter().all(|byte| *byte == b'x'),
                "{field} {body}"
            );
        }
    }
}

#[test]
fn whatever_comes_at_once_is_answered_on_the_thread_for_calls() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = on_one_core(&tree, trial);
    // 64 bytes each, so that each read ends with a whole request.
    let file = format!("GET /plain.txt HTTP/1.1\r\nHost: a\r\nX-Fill: {}\r\n\r\n", "z".repeat(18));
    assert_eq!(file.len(), 64, "{file}");
    let mut client = caller(&server);
    client.send(file.repeat(3000));
    for _ in 0..3000 {
        assert_eq!(text(&client.answer()), "a file\n");
    }
    // The client's end arrives with its last request.
    for _ in 0..20 {
        let mut client = caller(&server);
        client.send(&file);
        client.send_end();
        assert_eq!(text(&client.answer()), "a file\n");
        client.end();
    }
    // A long call, such as the first call of a servlet, continues on the core; there, a client that has sent
    // its end counts as disconnected.
    wait_until("a servlet answers a client that has ended", START, || {
        let mut client = caller(&server);
        client.send("GET /trial/facts HTTP/1.1\r\nHost: a\r\n\r\n");
        client.send_end();
        let answer = client.try_answer(AnswerTo::Other);
        client.end();
        answer.is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn connections_that_come_back_from_the_thread_for_calls_end_when_their_time_is_up() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let routes = route("/trial/", &format!("app = {trial:?}"));
    let of_others = configuration(&tree, "[server]\ncores = 1\n", &routes);
    let limits = "[limits]\nkeep_alive_timeout = \"5s\"\n";
    let mut server = Server::configured(&tree.root(), &of_others.replace("[limits]\n", limits));
    wait_for_applications(&server, 1);
    // A client that sends no more bytes, and clients that were just answered when the server stops.
    caller(&server).end();
    let _clients: Vec<Client> = (0..4).map(|_| caller(&server)).collect();
    server.stop();
    assert!(!server.error_text().contains("were not done"), "{}", server.error_text());
}

#[test]
fn a_long_call_delays_no_other_request() {
    let Some(trial) = trial() else { return };
    let tree = Tree::empty();
    let server = on_one_core(&tree, trial);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    wait_until("a call on the thread of its connection waits", START, || {
        let (mut other, mut third, mut waits) = (caller(&server), caller(&server), caller(&server));
        waits.send(get("/trial/gate?do=wait"));
        // The servlet waits until another client's request opens the gate; that request must be answered in
        // that time.
        for _ in 0..20 {
            assert_eq!(text(&other.ask(get("/plain.txt"))), "a file\n");
            assert_eq!(third.ask(get("/trial/facts")).status, 200);
        }
        assert_eq!(other.ask(get("/trial/gate?do=open")).status, 200);
        // On a slow machine its connection may have left the thread before it sent the request.
        text(&waits.answer()).starts_with("worker-")
    });
    // A client that leaves in the middle of such a call does not disturb the others.
    let (mut waits, mut third) = (caller(&server), caller(&server));
    waits.send(get("/trial/gate?do=wait"));
    drop(waits);
    assert_eq!(third.ask(get("/plain.txt")).status, 200);
    assert_eq!(third.ask(get("/trial/gate?do=open")).status, 200);
    drop(caller(&server));
}
