//! Applications that are replaced, and routes that a new configuration changes, while requests of every kind
//! are in them: those end without a disturbance, or at the route's time limit; at the same time the new
//! application answers new ones.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use super::tomcat::{Options, SECRET, Tomcat};
use super::websocket::WebSocket;
use super::{BOTH, START, ask, configuration, get_patiently, pack, replace, route, start, text, trial};
use crate::support::{Client, Server, Tree, wait_until};

/// A server with the application in a WAR, and what is kept beside it.
struct Replaceable {
    tree: Tree,
    war: PathBuf,
    isolation: &'static str,
    server: Server,
}

impl Replaceable {
    fn start(trial: &Path, isolation: &'static str, keys: &str) -> Replaceable {
        let tree = Tree::empty();
        let war = tree.root().join("trial.war");
        pack(trial, &war);
        let server = start(&tree, "", &Replaceable::route(&war, isolation, keys), 1);
        Replaceable { tree, war, isolation, server }
    }

    fn route(war: &Path, isolation: &str, keys: &str) -> String {
        route("/trial/", &format!("app = {war:?}, isolation = {isolation:?}{keys}"))
    }

    /// Makes the server load a configuration with another route.
    fn reload(&self, keys: &str) {
        reload_with(
            &self.server,
            &self.tree,
            &configuration(&self.tree, "", &Replaceable::route(&self.war, self.isolation, keys)),
        );
    }

    /// Which application answers.
    fn name(&self) -> String {
        let answer = get_patiently(self.server.address(), "/trial/held");
        assert_eq!(answer.status, 200, "{}", text(&answer));
        text(&answer)
    }

    fn wait_for_line(&self, line: &str) {
        wait_until(line, START, || self.server.error_text().contains(line));
    }
}

fn reload_with(server: &Server, tree: &Tree, configuration: &str) {
    let before = server.error_text().matches(" applied").count();
    fs::write(tree.root().join("touchstone.toml"), configuration).unwrap();
    server.signal(Signal::HUP);
    wait_until("it is applied", START, || server.error_text().matches(" applied").count() > before);
}

/// Requests of every kind, each in the middle.
struct UnderWay {
    answers: Vec<Client>,
    upload: Client,
    socket: WebSocket,
    /// The file that all but the upload wait for.
    until: PathBuf,
}

impl UnderWay {
    fn begin(server: &Server, tree: &Tree) -> UnderWay {
        let until = tree.root().join("until");
        let begin = |request: String| {
            let mut client = server.connect();
            client.set_patience(START);
            client.send(request);
            client
        };
        let answers = ["stream", "page", "async"]
            .map(|how| begin(get(&format!("/trial/held?how={how}&until={}", until.display()))))
            .into();
        let upload = begin(format!(
            "POST /trial/held?until={} HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nabc",
            until.display()
        ));
        let socket = WebSocket::open(server.address(), "/trial/socket").unwrap();
        for number in 1..=4 {
            let begun = format!("{}-{number}", until.display());
            wait_until("the requests are at work", START, || Path::new(&begun).exists());
        }
        UnderWay { answers, upload, socket, until }
    }

    /// Lets all of them continue, and checks that the application answered in which they were begun.
    fn end(mut self, name: &str) {
        self.socket.say("a").unwrap();
        assert_eq!(self.socket.hear().unwrap(), "heard a");
        fs::write(&self.until, "").unwrap();
        let told: Vec<String> = self
            .answers
            .iter_mut()
            .map(|client| client.answer())
            .map(|answer| format!("{} {}", answer.status, text(&answer).trim()))
            .collect();
        let expected =
            [format!("200 first {name}"), format!("200 {name} \npage=/held sum=3"), format!("200 {name}")];
        assert_eq!(told, expected);
        self.upload.send("def");
        assert_eq!(text(&self.upload.answer()), format!("abcdef {name}"));
        self.socket.say("b").unwrap();
        assert_eq!(self.socket.hear().unwrap(), "heard b");
        self.socket.close().unwrap();
    }
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn requests_go_on_while_their_application_is_replaced() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let it = Replaceable::start(trial, isolation, ", drain_timeout = \"10m\"");
        let old = it.name();
        let under_way = UnderWay::begin(&it.server, &it.tree);
        replace(&it.war);
        it.wait_for_line("(trial.war) runs again");
        let new = it.name();
        assert_ne!(new, old, "{isolation}");
        under_way.end(&old);
        it.wait_for_line("that was replaced has stopped");
        assert_eq!(it.name(), new);
    }
}

#[test]
fn requests_go_on_while_a_configuration_changes_their_route() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let it = Replaceable::start(trial, isolation, ", drain_timeout = \"10m\"");
        let old = it.name();
        let under_way = UnderWay::begin(&it.server, &it.tree);
        it.reload(", threads = 77");
        let new = it.name();
        assert_ne!(new, old, "{isolation}");
        under_way.end(&old);
        it.wait_for_line("have stopped");
        assert_eq!(it.name(), new);
        // One without a change does not restart the application.
        it.reload(", threads = 77");
        assert_eq!(it.name(), new);
    }
}

#[test]
fn pages_and_uploads_work_behind_a_reload_that_changes_their_route() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let it = Replaceable::start(trial, isolation, "");
        let works = || {
            let page = get_patiently(it.server.address(), "/trial/date.jsp");
            assert_eq!((page.status, text(&page).trim()), (200, "page=/date.jsp sum=3"), "{isolation}");
            let parts = format!(
                "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"n\"\r\n\r\n{}\r\n--b--\r\n",
                "x".repeat(50_000)
            );
            let answer = it.server.connect().ask(format!(
                "POST /trial/upload HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                 Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n{parts}",
                parts.len()
            ));
            assert_eq!((answer.status, text(&answer).as_str()), (200, "f n 50000\n"), "{isolation}");
        };
        works();
        for threads in [11, 12] {
            let stopped = it.server.error_text().matches("have stopped").count();
            it.reload(&format!(", threads = {threads}"));
            wait_until("the old ones end", START, || {
                it.server.error_text().matches("have stopped").count() > stopped
            });
            works();
        }
    }
}

/// Requests that would never end.
struct Endless {
    stream: Client,
    pending: Client,
    socket: WebSocket,
}

impl Endless {
    fn begin(server: &Server) -> Endless {
        let mut stream = server.connect();
        stream.send(get("/trial/endless"));
        stream.wait_for_bytes(200);
        let mut pending = server.connect();
        pending.send(get("/trial/async?how=never"));
        wait_until("it is at work", START, || text(&server.get("/trial/gone")) == "0 of 1");
        let socket = WebSocket::open(server.address(), "/trial/socket").unwrap();
        Endless { stream, pending, socket }
    }

    fn have_ended(mut self) {
        self.pending.set_patience(START);
        let answer = self.pending.answer();
        assert_eq!((answer.status, text(&answer).as_str()), (200, "timed out"));
        assert!(self.socket.hear().is_err(), "the socket is closed");
        let (received, _) = self.stream.read_to_end();
        assert!(!received.ends_with(b"0\r\n\r\n"), "half an answer does not look like a whole one");
    }
}

#[test]
fn requests_that_do_not_end_are_ended_after_their_time() {
    let Some(trial) = trial() else { return };
    for isolation in BOTH {
        let it = Replaceable::start(trial, isolation, ", drain_timeout = \"2s\"");
        let old = it.name();
        let endless = Endless::begin(&it.server);
        replace(&it.war);
        it.wait_for_line("(trial.war) runs again");
        let new = it.name();
        assert_ne!(new, old, "{isolation}");
        endless.have_ended();
        it.wait_for_line("was replaced, but requests in the old one exceeded its drain_timeout");

        let endless = Endless::begin(&it.server);
        it.reload(", threads = 77");
        assert_ne!(it.name(), new, "{isolation}");
        endless.have_ended();
        it.wait_for_line("were still in progress 2s after a change of the configuration");
        it.wait_for_line("have stopped");
    }
}

#[test]
fn sessions_are_those_of_the_new_application() {
    let Some(trial) = trial() else { return };
    let it = Replaceable::start(trial, "in-process", ", drain_timeout = \"10m\"");
    let first = it.server.get("/trial/count");
    let cookie = first.field("set-cookie").unwrap().split(';').next().unwrap().to_string();
    let count = || text(&ask(&it.server, &format!("GET /trial/count HTTP/1.1\r\nCookie: {cookie}")));
    assert!(count().starts_with("2 "));
    // While the old application still has requests, and once it has none.
    let under_way = UnderWay::begin(&it.server, &it.tree);
    let old = it.name();
    replace(&it.war);
    it.wait_for_line("(trial.war) runs again");
    assert!(count().starts_with("3 "));
    under_way.end(&old);
    it.wait_for_line("that was replaced has stopped");
    assert!(count().starts_with("4 "));
    it.reload(", threads = 77");
    assert!(count().starts_with("5 "));
    it.wait_for_line("have stopped");
    assert!(count().starts_with("6 "));
}

#[test]
fn answers_over_ajp_go_on_while_a_configuration_changes_their_route() {
    let Some(tomcat) = Tomcat::start(&Options::default()) else { return };
    let tree = Tree::empty();
    let with = |timeout: &str| {
        format!(
            "[[site]]\nlisten = [\"127.0.0.1:0\"]\nroot = {:?}\n[[site.route]]\npath = \"/shop/\"\n\
             servlet = {{ app = \"shop.war\", isolation = \"ajp\" }}\n\
             ajp = {{ backends = [{:?}], secret = {SECRET:?}, ping_timeout = {timeout:?} }}\n",
            tree.root(),
            tomcat.address()
        )
    };
    let server = Server::configured(&tree.root(), &with("5s"));
    let mut client = server.connect();
    client.set_patience(START);
    client.send(get(&format!("/shop/probe.jsp?do=slow&until={}", tomcat.beside("go").display())));
    client.wait_for_bytes(150);
    reload_with(&server, &tree, &with("6s"));
    assert_eq!(server.get("/shop/probe.jsp").status, 200);
    fs::write(tomcat.beside("go"), "").unwrap();
    assert_eq!(client.answer().body, b"first\nsecond\n");
}
