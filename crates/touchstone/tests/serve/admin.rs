//! The admin listener: counts that agree with what clients did, under every version of HTTP and over reloads;
//! sessions that show active requests; which clients are allowed and which not; names of requests in logs
//! and answers.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Client, Response, Server, Tree, curl, free_port, skipped, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server with an admin listener.
struct Watched {
    tree: Tree,
    server: Server,
    admin: SocketAddr,
}

impl Watched {
    /// With more sections, and more keys of the site.
    fn start(sections: &str, site: &str) -> Watched {
        let admin: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        let tree = Tree::standard();
        let directory = tree.beside("config");
        fs::create_dir_all(&directory).expect("a directory for the configuration");
        let text = config(&tree, &format!("listen = '{admin}'"), sections, site);
        let server = Server::configured(&directory, &text);
        Watched { tree, server, admin }
    }

    /// Writes another configuration and reloads; the server applies or refuses it.
    fn reload(&self, sections: &str, site: &str, listen: &str) {
        let text = config(&self.tree, listen, sections, site);
        fs::write(self.tree.beside("config").join("touchstone.toml"), text).expect("it can be written");
        self.server.signal(Signal::HUP);
    }

    fn ask(&self, path: &str, fields: &str) -> Response {
        ask(self.admin, path, fields)
    }

    fn metrics(&self) -> Metrics {
        let response = self.ask("/metrics", "");
        assert_eq!(response.status, 200);
        Metrics::read(&response.body)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.ask(path, "").body).expect("it is JSON")
    }

    fn get(&self, target: &str, fields: &str) -> Response {
        self.server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    }
}

fn config(tree: &Tree, admin: &str, sections: &str, site: &str) -> String {
    let root = tree.root();
    format!(
        "[server]\ncores = 2\n[admin]\n{admin}\n{sections}\n[[site]]\nlisten = ['127.0.0.1:0']\nroot = '{}'\n\
         {site}\n",
        root.display()
    )
}

fn ask(address: SocketAddr, path: &str, fields: &str) -> Response {
    let mut client = Client::connect(address);
    let response =
        client.ask(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{fields}Connection: close\r\n\r\n"));
    client.end();
    response
}

/// An exposition: each sample's name with its labels, and its value.
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn read(text: &[u8]) -> Metrics {
        let text = std::str::from_utf8(text).expect("it is text");
        let sample = |line: &str| {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            (name.to_owned(), value.parse().unwrap_or_else(|error| panic!("{line}: {error}")))
        };
        Metrics(text.lines().filter(|line| !line.starts_with('#')).map(sample).collect())
    }

    fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.0))
    }

    /// The sum of all samples whose name begins with this.
    fn sum(&self, start: &str) -> f64 {
        self.0.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, value)| value).sum()
    }
}

#[test]
fn counts_are_what_clients_did() {
    let watched = Watched::start("", "[[site.route]]\npath = '/old/'\nredirect = { to = '/alphabet.txt' }");
    for _ in 0..3 {
        assert_eq!(watched.get("/alphabet.txt", "").status, 200);
    }
    let mut client = watched.server.connect();
    assert_eq!(client.ask("GET /alphabet.txt HTTP/1.0\r\n\r\n").status, 200);
    assert_eq!(watched.get("/missing", "").status, 404);
    assert_eq!(watched.get("/alphabet.txt", "Range: bytes=0-4\r\n").status, 206);
    assert_eq!(watched.get("/old/a", "").status, 302);
    assert_eq!(watched.server.connect().ask("NONSENSE\r\n\r\n").status, 400);

    // An answer may be there before it is counted.
    // Its counts are written one after another.
    wait_until("all are counted", PATIENCE, || {
        let metrics = watched.metrics();
        let timed = metrics.sum("touchstone_request_duration_seconds_count");
        metrics.sum("touchstone_requests_total") == 8.0
            && metrics.sum("touchstone_responses_total") == 8.0
            && metrics.sum("touchstone_route_responses_total") == 8.0
            && timed + metrics.sum("touchstone_route_cache_hits_total") == 8.0
    });
    let metrics = watched.metrics();
    assert_eq!(metrics.get("touchstone_requests_total{version=\"1.0\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_requests_total{version=\"1.1\"}"), 7.0);
    for (class, code, count) in
        [("2xx", 200, 4.0), ("2xx", 206, 1.0), ("3xx", 302, 1.0), ("4xx", 400, 1.0), ("4xx", 404, 1.0)]
    {
        let name = format!("touchstone_responses_total{{class=\"{class}\",code=\"{code}\"}}");
        assert_eq!(metrics.get(&name), count, "{name}");
    }
    assert_eq!(metrics.sum("touchstone_route_responses_total"), 8.0);
    let site = "127.0.0.1:0";
    let old = format!("touchstone_route_responses_total{{site=\"{site}\",route=\"/old/\",class=\"3xx\"}}");
    assert_eq!(metrics.get(&old), 1.0);
    let body_bytes = format!("touchstone_route_response_body_bytes_total{{site=\"{site}\",route=\"-\"}}");
    let missing_body = watched.get("/missing", "").body.len();
    assert_eq!(metrics.get(&body_bytes), (4 * 26 + 5 + missing_body) as f64);
    // The file was read once, found again by three plain requests and by the one for a range.
    assert_eq!(metrics.get("touchstone_cache_hits_total"), 4.0);
    assert_eq!(metrics.get("touchstone_cache_files"), 1.0);
    assert_eq!(metrics.get("touchstone_connections_accepted_total"), 8.0);
    let timed = metrics.sum("touchstone_request_duration_seconds_count");
    let hits = metrics.sum("touchstone_route_cache_hits_total");
    assert_eq!(timed + hits, 8.0);

    wait_until("the bytes are published", PATIENCE, || {
        let metrics = watched.metrics();
        metrics.get("touchstone_sent_bytes_total") > (4 * 26 + 5) as f64
            && metrics.get("touchstone_received_bytes_total") > 8.0 * 20.0
    });
}

#[test]
fn kept_connections_are_seen_by_state() {
    let watched = Watched::start("[limits]\nheader_timeout = '600s'\nkeep_alive_timeout = '600s'", "");
    let mut idle = watched.server.connect();
    idle.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut reading = watched.server.connect();
    reading.send("GET /alphabet.txt HTTP/1.1\r\nHo");
    let state = |name: &str| watched.metrics().get(&format!("touchstone_connections{{state=\"{name}\"}}"));
    wait_until("both are counted", PATIENCE, || state("idle") == 1.0 && state("reading") == 1.0);
    drop((idle, reading));
    wait_until("both are gone", PATIENCE, || state("idle") + state("reading") == 0.0);
}

#[test]
fn timeouts_are_counted_by_kind() {
    let watched = Watched::start("[limits]\nheader_timeout = '200ms'\nkeep_alive_timeout = '200ms'", "");
    let mut slow = watched.server.connect();
    slow.send("GET / HT");
    assert_eq!(slow.answer().status, 408);
    let mut idle = watched.server.connect();
    idle.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    idle.end();
    wait_until("both are counted", PATIENCE, || watched.metrics().sum("touchstone_timeouts_total") == 2.0);
    let metrics = watched.metrics();
    assert_eq!(metrics.get("touchstone_timeouts_total{kind=\"header\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_timeouts_total{kind=\"idle\"}"), 1.0);
    assert_eq!(metrics.sum("touchstone_timeouts_total"), 2.0);
}

#[test]
fn tls_and_http_2_are_counted() {
    let watched = Watched::start("", "development_certificate = true");
    let address = watched.server.address();
    let url = format!("https://{address}/alphabet.txt");
    let Some(output) = curl(["-k", "--http2", "-o", "/dev/null", "-o", "/dev/null", &url, &url]) else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    curl(["-k", "--http1.1", "--tls-max", "1.2", "-o", "/dev/null", &url]).expect("curl is there");
    // A client that does not trust the certificate, and one without TLS.
    assert!(!curl(["-o", "/dev/null", &url]).expect("curl is there").status.success());
    curl(["-o", "/dev/null", &format!("http://{address}/")]).expect("curl is there");

    wait_until("all are counted", PATIENCE, || {
        let metrics = watched.metrics();
        metrics.sum("touchstone_requests_total") == 3.0
            && metrics.sum("touchstone_tls_handshake_failures_total") == 2.0
    });
    let metrics = watched.metrics();
    assert_eq!(metrics.get("touchstone_requests_total{version=\"2\"}"), 2.0);
    assert_eq!(metrics.get("touchstone_requests_total{version=\"1.1\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_http2_connections_total"), 1.0);
    assert_eq!(metrics.get("touchstone_tls_handshakes_total{version=\"1.3\",resumed=\"false\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_tls_handshakes_total{version=\"1.2\",resumed=\"false\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_tls_handshake_failures_total{reason=\"plain_http\"}"), 1.0);
    assert_eq!(metrics.get("touchstone_tls_handshake_failures_total{reason=\"ended_by_client\"}"), 1.0);
    assert_eq!(metrics.sum("touchstone_tls_handshake_failures_total"), 2.0);
}

/// The findings of the reference parsers of Prometheus and OpenMetrics on both formats.
#[test]
fn real_parsers_read_it() {
    const SCRIPT: &str = "
import sys
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
kind, path = sys.argv[1:]
text = open(path).read()
families = list((openmetrics if kind == 'openmetrics' else parser).text_string_to_metric_families(text))
print(len(families))
";
    let watched = Watched::start("", "");
    assert_eq!(watched.get("/alphabet.txt", "").status, 200);
    assert_eq!(watched.get("/missing", "").status, 404);
    let has_it = |python: &&&str| {
        let asked =
            Command::new(python).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].iter().find(has_it) else {
        return skipped(
            "the exposition read by the parsers of prometheus_client (install python3-prometheus-client)",
        );
    };
    for (kind, accept) in
        [("prometheus", "text/plain"), ("openmetrics", "application/openmetrics-text;version=1.0.0")]
    {
        let response = watched.ask("/metrics", &format!("Accept: {accept}\r\n"));
        let path = watched.tree.beside(kind);
        fs::write(&path, &response.body).expect("it can be written");
        let output =
            Command::new(python).args(["-c", SCRIPT, kind]).arg(&path).output().expect("python runs");
        assert!(output.status.success(), "{kind}: {}", String::from_utf8_lossy(&output.stderr));
        let families: u32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number");
        assert!(families > 30, "{kind}: {families}");
    }
}

#[test]
fn a_scrape_takes_nothing_from_a_loaded_server() {
    let watched = Watched::start("", "");
    assert_eq!(watched.get("/alphabet.txt", "").status, 200);
    const CLIENTS: usize = 4;
    const REQUESTS: usize = 500;
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                let mut client = watched.server.connect();
                for _ in 0..REQUESTS {
                    let response = client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
                    assert_eq!(response.status, 200);
                }
            });
        }
        let mut before = 0.0;
        for _ in 0..20 {
            let now = watched.metrics().get("touchstone_requests_total{version=\"1.1\"}");
            assert!(now >= before, "{now} after {before}");
            before = now;
        }
    });
    let all = (CLIENTS * REQUESTS + 1) as f64;
    wait_until("all are counted", PATIENCE, || {
        let metrics = watched.metrics();
        metrics.sum("touchstone_requests_total") >= all && metrics.sum("touchstone_responses_total") >= all
    });
    let metrics = watched.metrics();
    assert_eq!(metrics.get("touchstone_requests_total{version=\"1.1\"}"), all);
    assert_eq!(
        metrics.get("touchstone_responses_total{class=\"2xx\",code=\"200\"}"),
        (CLIENTS * REQUESTS + 1) as f64
    );
}

/// A client that requests more than all buffers hold, and reads none of it.
fn stuck_client(watched: &Watched) -> Client {
    fs::write(watched.tree.root().join("large.bin"), vec![7; 30_000_000]).expect("it can be written");
    let mut client = Client::connect_with_small_buffer(watched.server.address());
    client.send("GET /large.bin?q=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    client
}

#[test]
fn sessions_show_what_is_under_way() {
    let watched = Watched::start("", "");
    let mut idle = watched.server.connect();
    idle.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let stuck = stuck_client(&watched);
    let find = || {
        let sessions = watched.json("/sessions");
        let all = sessions["sessions"].as_array().expect("an array").clone();
        all.into_iter().find(|session| session["under_way_count"] == 1)
    };
    wait_until("the request is listed", PATIENCE, || {
        find().is_some_and(|session| session["state"] == "writing")
    });
    let session = find().expect("it is still there");
    let client = stuck.stream().local_addr().expect("it is connected").to_string();
    assert_eq!(session["client"], client.as_str());
    assert_eq!(session["protocol"], "http");
    let request = &session["under_way"][0];
    assert_eq!(
        (&request["method"], &request["target"], &request["handler"], &request["site"]),
        (&"GET".into(), &"/large.bin?q=1".into(), &"files".into(), &"127.0.0.1:0".into())
    );
    let listed = watched.json("/sessions");
    assert_eq!(listed["connections"], 2);
    // Sessions with active requests are first; the limit is one.
    assert_eq!(listed["sessions"][0]["under_way_count"], 1);
    let limited = watched.json("/sessions.json?limit=1");
    assert_eq!(limited["sessions"].as_array().map(Vec::len), Some(1));
    assert_eq!(limited["sessions"][0]["client"], client.as_str());

    let page = watched.ask("/sessions", "Accept: text/html\r\n");
    let text = String::from_utf8(page.body).expect("it is text");
    assert!(text.contains("GET /large.bin?q=1") && text.contains(&client), "{text}");
    stuck.vanish();
    wait_until("the request is gone", PATIENCE, || find().is_none());
}

#[test]
fn http_2_streams_are_among_the_sessions() {
    let watched = Watched::start("", "");
    fs::write(watched.tree.root().join("large.bin"), vec![7; 30_000_000]).expect("it can be written");
    let url = format!("http://{}/large.bin", watched.server.address());
    let arguments =
        ["--silent", "--http2-prior-knowledge", "--limit-rate", "10K", "--max-time", "30", "-o", "/dev/null"];
    let Ok(mut client) = Command::new("curl").args(arguments).arg(&url).spawn() else {
        return skipped("HTTP/2 sessions with curl (install curl)");
    };
    wait_until("the stream is listed", PATIENCE, || {
        let sessions = watched.json("/sessions");
        let session = &sessions["sessions"][0];
        session["protocol"] == "h2" && session["under_way"][0]["target"] == "/large.bin"
    });
    client.kill().expect("curl can be ended");
    client.wait().expect("curl ends");
    wait_until("the connection is gone", PATIENCE, || watched.json("/sessions")["connections"] == 0);
}

#[test]
fn the_pages_are_there_and_nothing_else_is() {
    let watched = Watched::start("", "error_pages = { 404 = '/alphabet.txt' }");
    let status = watched.ask("/status?refresh=7", "Accept: text/html\r\n");
    assert_eq!(status.status, 200);
    let page = String::from_utf8(status.body.clone()).expect("it is text");
    for part in ["<title>Status", "data-live=\"tiles\"", "content=\"7\"", "id=\"cache\"", "id=\"cores\""] {
        assert!(page.contains(part), "{part}");
    }
    assert!(
        status.field("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert_eq!(status.field("cache-control"), Some("no-store"));
    let json = watched.json("/status.json");
    assert_eq!(json["server"]["state"], "running");
    assert_eq!(json["cores"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["server"]["listeners"][0], format!("http://{}", watched.server.address()));
    assert_eq!(watched.ask("/", "").field("location"), Some("/status"));
    assert_eq!(watched.ask("/etc/passwd", "").status, 404);
    assert_eq!(watched.ask("/../status", "").status, 404);
    let mut client = Client::connect(watched.admin);
    let request = |method: &str| format!("{method} /health HTTP/1.1\r\nHost: {}\r\n\r\n", watched.admin);
    client.send(request("POST"));
    assert_eq!(client.answer().status, 405);
    assert_eq!(client.ask(request("GET")).status, 200, "the connection is kept");
    client.send("NONSENSE\r\n\r\n");
    assert_eq!(client.answer().status, 400);
    client.end();
    // The sites do not serve it.
    assert_eq!(watched.get("/metrics", "").status, 404);
}

#[test]
fn health_says_that_the_server_stops() {
    let mut watched = Watched::start("", "");
    // A core of a busy machine may begin late.
    wait_until("all cores answer", PATIENCE, || watched.json("/health")["status"] == "ok");
    let stuck = stuck_client(&watched);
    wait_until("it is active", PATIENCE, || watched.json("/sessions")["connections"] == 1);
    watched.server.signal(Signal::TERM);
    wait_until("it says so", PATIENCE, || watched.json("/health")["status"] == "draining");
    assert_eq!(watched.ask("/health", "").status, 503);
    assert_eq!(watched.json("/sessions")["sessions"][0]["under_way_count"], 1);
    stuck.vanish();
    assert_eq!(watched.server.wait().code(), Some(0));
}

#[test]
fn reloads_are_counted_and_counts_go_on() {
    let watched = Watched::start("", "");
    assert_eq!(watched.get("/alphabet.txt", "").status, 200);
    let listen = format!("listen = '{}'", watched.admin);
    watched.reload("", "fallback = 'nonsense'", &listen);
    let value = |name: &str| watched.metrics().get(name);
    wait_until("it is refused", PATIENCE, || {
        value("touchstone_config_reloads_total{result=\"failed\"}") == 1.0
    });
    assert_eq!(value("touchstone_config_generation"), 1.0);
    watched.reload("", "[[site.route]]\npath = '/new'\nrespond = { status = 410 }", &listen);
    wait_until("it is applied", PATIENCE, || watched.get("/new", "").status == 410);
    let metrics = watched.metrics();
    assert_eq!(metrics.get("touchstone_config_generation"), 2.0);
    assert_eq!(metrics.get("touchstone_config_reloads_total{result=\"taken_up\"}"), 1.0);
    // An answer may be there before it is counted.
    let new = "touchstone_route_responses_total{site=\"127.0.0.1:0\",route=\"/new\"";
    wait_until("it is counted", PATIENCE, || watched.metrics().sum(new) >= 1.0);
    assert_eq!(metrics.get("touchstone_responses_total{class=\"2xx\",code=\"200\"}"), 1.0);

    // It also moves with a reload; if it cannot move, the previous configuration is kept.
    let other = free_port();
    watched.reload("", "", &format!("listen = '127.0.0.1:{other}'"));
    let moved: SocketAddr = ([127, 0, 0, 1], other).into();
    wait_until("it has moved", PATIENCE, || Client::try_connect(moved).is_ok());
    assert_eq!(ask(moved, "/health", "").status, 200);
    wait_until("the old place is free", PATIENCE, || Client::try_connect(watched.admin).is_err());
}

#[test]
fn who_may_ask() {
    let tree = Tree::standard();
    let token = tree.beside("token");
    fs::write(&token, "0123456789abcdef-0123\n").expect("it can be written");
    let watched = Watched::start("", "");
    let host = |name: &str| {
        let mut client = Client::connect(watched.admin);
        client.ask(format!("GET /metrics HTTP/1.1\r\nHost: {name}\r\n\r\n")).status
    };
    assert_eq!(host("localhost:9180"), 200);
    assert_eq!(host("evil.example"), 421);
    assert_eq!(host("127.0.0.1.evil.example"), 421);

    // A reload applies permissions at the same place.
    let listen = format!("listen = '{}'", watched.admin);
    watched.reload("", "", &format!("{listen}\ntoken_file = '{}'", token.display()));
    wait_until("a token is asked for", PATIENCE, || watched.ask("/metrics", "").status == 401);
    assert_eq!(watched.ask("/status", "Authorization: Bearer 0123456789abcdef\r\n").status, 401);
    assert_eq!(watched.ask("/status", "Authorization: Bearer 0123456789abcdef-0123\r\n").status, 200);
    watched.reload("", "", &format!("{listen}\nallow = ['192.0.2.0/24']"));
    wait_until("strangers are refused", PATIENCE, || watched.ask("/metrics", "").status == 403);
}

#[test]
fn a_unix_socket_is_for_its_owner() {
    let tree = Tree::standard();
    let directory = tree.beside("config");
    fs::create_dir_all(&directory).expect("a directory");
    let socket = directory.join("admin.sock");
    let text = config(&tree, "listen = 'unix:admin.sock'", "", "");
    let mut server = Server::configured(&directory, &text);
    let mode = fs::metadata(&socket).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let answer = ask_unix(&socket, "/health");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"ok\""), "{answer}");
    server.stop();
    assert!(!socket.exists(), "the socket stays behind");

    // A socket that a killed server left behind is replaced.
    let mut killed = Server::configured(&directory, &text);
    killed.signal(Signal::KILL);
    killed.wait();
    assert!(socket.exists());
    let again = Server::configured(&directory, &text);
    assert!(ask_unix(&socket, "/health").starts_with("HTTP/1.1 200 OK"));
    drop(again);
}

fn ask_unix(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it can be connected to");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "GET {path} HTTP/1.1\r\nConnection: close\r\nHost: whatever\r\n\r\n").expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// A server whose log is read.
fn logged(format: &str, sections: &str) -> (Watched, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory").keep();
    let log = directory.join("access.log");
    let sections = format!("[access_log]\npath = '{}'\nformat = '{format}'\n{sections}", log.display());
    (Watched::start(&sections, ""), log)
}

fn lines(watched: &mut Watched, log: &Path) -> Vec<String> {
    watched.server.stop();
    let lines = fs::read_to_string(log).expect("the log is there").lines().map(str::to_owned).collect();
    fs::remove_dir_all(log.parent().expect("it lies in a directory")).expect("it can be removed");
    lines
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn requests_have_ids_in_logs_and_answers() {
    let (mut watched, log) =
        logged("$request_id $trace_id $status", "[request_id]\naccept = 'always'\nanswer = true");
    let fields = format!("X-Request-Id: mine-1\r\nTraceparent: {TRACE}\r\n");
    let given = watched.get("/alphabet.txt", &fields);
    assert_eq!(given.field("x-request-id"), Some("mine-1"));
    let bad = watched.get("/alphabet.txt", "X-Request-Id: \"><script>\r\ntraceparent: 00-0-0-00\r\n");
    let made = bad.field("x-request-id").expect("one is made").to_owned();
    assert!(made.len() == 36 && made.as_bytes()[14] == b'7', "{made}");
    let missing = watched.get("/missing", "");
    let third = missing.field("x-request-id").expect("errors have one too").to_owned();
    let mut lines = lines(&mut watched, &log);
    lines.sort();
    let mut expected = vec![
        "mine-1 4bf92f3577b34da6a3ce929d0e0e4736 200".to_owned(),
        format!("{made} - 200"),
        format!("{third} - 404"),
    ];
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn ids_of_strangers_are_not_taken() {
    let (mut watched, log) = logged("json", "");
    for _ in 0..3 {
        let response = watched.get("/alphabet.txt", "X-Request-Id: mine-1\r\n");
        assert_eq!(response.field("x-request-id"), None);
    }
    let ids: Vec<String> = lines(&mut watched, &log)
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).expect("it is JSON"))
        .map(|line| line["request_id"].as_str().expect("it has an id").to_owned())
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| id.len() == 36) && ids[0] != ids[1] && ids[1] != ids[2], "{ids:?}");
}

#[test]
fn a_line_of_ones_own() {
    let format = "$client|$method $path $query|$protocol|$status|$body_bytes|$header{accept}|$site|$handler|\
                  $$|$tls_version";
    let (mut watched, log) = logged(format, "");
    assert_eq!(watched.get("/missing?a=b", "Accept: te\"xt\r\n").status, 404);
    let body = watched.get("/alphabet.txt", "").body.len();
    assert_eq!(watched.get("/alphabet.txt", "").status, 200);
    let mut lines = lines(&mut watched, &log);
    lines.sort();
    let handlers: Vec<&str> = lines.iter().filter_map(|line| line.split('|').nth(7)).collect();
    assert_eq!(handlers, ["cache", "files", "files"]);
    assert_eq!(
        lines[0],
        format!("127.0.0.1|GET /alphabet.txt -|HTTP/1.1|200|{body}|-|127.0.0.1:0|cache|$|-")
    );
    assert!(lines[2].starts_with("127.0.0.1|GET /missing a=b|HTTP/1.1|404|"), "{}", lines[2]);
    assert!(lines[2].contains(r#"|te\"xt|"#), "{}", lines[2]);
}

/// Answers each request with the request's own head.
fn echo_origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                head.push(byte[0]);
            }
            let answer =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", head.len());
            // The client may have seen enough.
            let _ = stream.write_all(&[answer.into_bytes(), head].concat());
        }
    });
    address
}

#[test]
fn origins_get_the_id_and_a_trace_that_is_valid() {
    let origin = echo_origin();
    let route = format!("[[site.route]]\npath = '/app/'\nproxy = {{ to = 'http://{origin}' }}");
    let (id, none) = ("[request_id]\naccept = 'always'\nforward = true\nanswer = true", "");
    let seen = |watched: &Watched, fields: &str| {
        let response = watched.get("/app/", fields);
        assert_eq!(response.status, 200);
        (String::from_utf8(response.body.clone()).expect("it is text").to_lowercase(), response)
    };
    let named = Watched::start(id, &route);
    let (head, response) =
        seen(&named, &format!("X-Request-Id: a b\r\ntraceparent: {TRACE}\r\ntracestate: a=b\r\n"));
    let made = response.field("x-request-id").expect("it is named");
    assert_eq!(head.matches("x-request-id:").count(), 1, "{head}");
    assert!(head.contains(&format!("x-request-id: {made}\r\n")), "{head}");
    assert!(head.contains(TRACE) && head.contains("tracestate: a=b"), "{head}");

    let plain = Watched::start(none, &route);
    let (head, _) =
        seen(&plain, "X-Request-Id: mine\r\ntraceparent: nonsense\r\ntracestate: a=b\r\nAccept: x\r\n");
    assert!(head.contains("x-request-id: mine\r\n") && head.contains("accept: x\r\n"), "{head}");
    assert!(!head.contains("traceparent") && !head.contains("tracestate"), "{head}");
    let name = |route: &Value| route["route"] == "/app/" && route["duration"]["count"] == 1;
    wait_until("it is counted", PATIENCE, || {
        plain.json("/status.json")["routes"].as_array().is_some_and(|routes| routes.iter().any(name))
    });
}
