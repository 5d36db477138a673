//! Traces and metrics by OTLP: the spans of a request and their order, at a real OpenTelemetry Collector by
//! HTTP and gRPC; which requests are recorded; what programs and origins get; collectors that are
//! unreachable, slow or full; reload, upgrade and stop; and that no secret is in a span.

mod collector;

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{
    Client, Origin, Server, Tree, error_lines, free_port, read_head, run, wait_until, write_program,
};
use collector::{Collector, Receiver, Span};

const PATIENCE: Duration = Duration::from_secs(60);

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const PARENT_TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// An origin that keeps the heads of its requests, and answers each with this status.
fn keeping_origin(status: &'static str) -> (Origin, Arc<Mutex<Vec<String>>>) {
    let heads: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = heads.clone();
    let origin = Origin::start(move |stream| {
        while let Some(head) = read_head(stream) {
            kept.lock().expect("no test thread has panicked").push(head.to_lowercase());
            let answer =
                format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nCache-Control: max-age=60\r\n\r\nok");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (origin, heads)
}

fn config(tree: &Tree, telemetry: &str, more: &str, site: &str) -> String {
    let root = tree.root();
    format!(
        "[server]\ncores = 1\n{more}\n[telemetry]\ninterval = '100ms'\n{telemetry}\n[[site]]\n\
         hosts = ['a']\nlisten = ['127.0.0.1:0']\nroot = '{}'\n{site}\n",
        root.display()
    )
}

fn start(tree: &Tree, telemetry: &str, more: &str, site: &str) -> Server {
    Server::configured(tree.around(), &config(tree, telemetry, more, site))
}

fn get(server: &Server, target: &str, fields: &str) -> u16 {
    server.connect().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).status
}

fn of_kind<'s>(spans: &'s [Span], kind: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.kind == kind).collect()
}

fn http(collector: &Collector, sample: &str) -> String {
    format!("endpoint = 'http://127.0.0.1:{}'\nsample = {sample}", collector.http)
}

/// The value of a field in a head of lower-case letters.
fn field<'h>(head: &'h str, name: &str) -> &'h str {
    let after = head.split_once(&format!("\r\n{name}: ")).map_or("", |(_, after)| after);
    after.split("\r\n").next().unwrap_or_default()
}

#[test]
fn a_request_to_an_origin_is_a_tree_of_spans() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let (origin, heads) = keeping_origin("200 OK");
    let server = start(&tree, &http(&collector, "1"), "", &origin.keys(""));
    let secrets =
        "Authorization: Basic c2VjcmV0OnNlY3JldA==\r\nCookie: session=s3cret\r\nUser-Agent: me/1\r\n";
    let fields = format!("{secrets}traceparent: {PARENT}\r\ntracestate: a=b\r\n");
    assert_eq!(get(&server, "/app/x?token=s3cret", &fields), 200);
    let spans = collector.wait_for(2);
    let ([request], [attempt]) = (&of_kind(&spans, "Server")[..], &of_kind(&spans, "Client")[..]) else {
        panic!("{spans:#?}")
    };
    assert_eq!((request.name.as_str(), request.parent.as_str()), ("GET /app/", ""));
    assert_eq!((&attempt.parent, &attempt.trace), (&request.id, &request.trace));
    // An untrusted client has no influence: its span is only linked.
    assert_ne!(request.trace, PARENT_TRACE);
    assert!(request.links.iter().any(|link| link.contains(PARENT_TRACE)), "{request:#?}");
    let told = heads.lock().expect("no test thread has panicked")[0].clone();
    assert_eq!(field(&told, "traceparent"), format!("00-{}-{}-03", request.trace, attempt.id));
    assert_eq!(field(&told, "tracestate"), "");
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/app/x"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("http.route", "/app/"),
        ("server.address", "a"),
        ("server.port", "80"),
        ("client.address", "127.0.0.1"),
        ("user_agent.original", "me/1"),
        ("network.protocol.version", "1.1"),
        ("touchstone.handler", "proxy"),
        ("touchstone.site", "a"),
        ("http.response.body.size", "2"),
        ("url.query", ""),
    ] {
        assert_eq!(request.get(name), value, "{name}: {request:#?}");
    }
    assert_eq!(attempt.get("server.address"), "127.0.0.1");
    assert_eq!(attempt.get("server.port"), origin.address.port().to_string());
    assert_eq!(attempt.get("http.response.status_code"), "200");
    assert_eq!(attempt.get("touchstone.connection.reused"), "false");
    assert!(attempt.events.iter().any(|event| event.contains("connected")), "{attempt:#?}");
    let text = collector.text();
    for secret in ["s3cret", "c2VjcmV0", "Authorization", "session"] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("service.name: Str(touchstone)"), "{text}");
    assert!(!text.contains("url.query"));
}

#[test]
fn hits_of_every_version_are_spans() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let tls = "development_certificate = true\nhttp3 = true";
    let server = start(&tree, &http(&collector, "1"), "", tls);
    let url = format!("https://{}/alphabet.txt", server.address());
    for version in [&[][..], &["--http2"], &["--http3"]] {
        let usual = ["load", &url, "--insecure", "--clients", "1", "--requests", "5"];
        let output = run([&usual[..], version].concat());
        assert_eq!(output.status.code(), Some(0), "{version:?}: {:?}", error_lines(&output));
    }
    let mut spans = Vec::new();
    wait_until("spans of all versions", PATIENCE, || {
        spans = collector.spans();
        let of =
            |version| spans.iter().filter(|span| span.get("network.protocol.version") == version).count();
        of("1.1") >= 5 && of("2") >= 5 && of("3") >= 5
    });
    for span in spans.iter().filter(|span| span.get("url.path") == "/alphabet.txt") {
        assert_eq!((span.name.as_str(), span.kind.as_str(), span.parent.as_str()), ("GET", "Server", ""));
        assert_eq!((span.get("url.scheme"), span.get("http.response.status_code")), ("https", "200"));
        assert_eq!((span.get("client.address"), span.get("touchstone.site")), ("127.0.0.1", "a"));
        assert_eq!(span.get("http.response.body.size"), "26");
    }
    let hits = |version: &str| {
        let is_hit = |span: &&Span| {
            span.get("network.protocol.version") == version && span.get("touchstone.handler") == "cache"
        };
        spans.iter().filter(is_hit).count()
    };
    assert!(hits("1.1") >= 3 && hits("2") >= 4 && hits("3") >= 4, "{spans:#?}");
}

#[test]
fn programs_and_caches_are_spans_by_grpc() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let (origin, heads) = keeping_origin("200 OK");
    let program = "#!/bin/sh\nprintf 'Content-Type: text/plain\\r\\n\\r\\n%s' \"$HTTP_TRACEPARENT\"\n";
    write_program(&tree.file("cgi-bin/trace"), program);
    let telemetry = format!(
        "endpoint = 'http://127.0.0.1:{}'\nprotocol = 'grpc'\ncompression = 'gzip'\nsample = 1\n\
         query = true\nservice_name = 'shop'\nresource = {{ zone = 'north' }}\nmetrics = '1s'",
        collector.grpc
    );
    let site = format!(
        "[[site.route]]\npath = '/cgi-bin/'\ncgi = {{}}\n[[site.route]]\npath = '/stored/'\n\
         proxy = {{ to = 'http://{}' }}\ncache = {{}}\n[[site.route]]\npath = '/quiet/'\n\
         telemetry = 'off'\nproxy = {{ to = 'http://{}' }}\n",
        origin.address, origin.address
    );
    let server = start(&tree, &telemetry, "", &site);
    let answer = server.connect().ask("GET /cgi-bin/trace?a=b&sig=s3cret HTTP/1.1\r\nHost: a\r\n\r\n");
    let told = String::from_utf8(answer.body).expect("text");
    let spans = collector.wait_for(2);
    let ([request], [program]) = (&of_kind(&spans, "Server")[..], &of_kind(&spans, "Internal")[..]) else {
        panic!("{spans:#?}")
    };
    assert_eq!((program.name.as_str(), &program.parent), ("cgi", &request.id));
    assert_eq!(told, format!("00-{}-{}-03", request.trace, program.id));
    assert_eq!(request.get("url.query"), "a=b&sig=REDACTED");
    assert_eq!(program.get("touchstone.interface"), "cgi");

    assert_eq!([(); 3].map(|()| get(&server, "/stored/1", "")), [200; 3]);
    // A route that is off is not recorded, and the trace context is passed on unchanged.
    let fields = format!("traceparent: {PARENT}\r\ntracestate: a=b\r\n");
    assert_eq!(get(&server, "/quiet/", &fields), 200);
    let spans = collector.wait_for(2 + 4);
    let cached: Vec<&str> =
        of_kind(&spans, "Server").iter().map(|span| span.get("touchstone.cache")).collect();
    assert_eq!(cached, ["", "miss", "hit", "hit"], "{spans:#?}");
    assert_eq!(of_kind(&spans, "Client").len(), 1);
    let quiet = heads.lock().expect("no test thread has panicked").last().cloned().unwrap_or_default();
    assert_eq!((field(&quiet, "traceparent"), field(&quiet, "tracestate")), (PARENT, "a=b"));

    wait_until("the metrics are there", PATIENCE, || {
        collector.text().contains("Name: touchstone_requests\n")
    });
    let text = collector.text();
    let (_, requests) = text.split_once("Name: touchstone_requests\n").expect("it is there");
    let requests = requests.split("Metric #").next().unwrap_or_default();
    assert!(requests.contains("IsMonotonic: true") && requests.contains("Cumulative"), "{requests}");
    assert!(requests.contains("-> version: Str(1.1)"), "{requests}");
    for expected in ["service.name: Str(shop)", "zone: Str(north)", "touchstone_request_duration_seconds"] {
        assert!(text.contains(expected), "{expected}");
    }
    assert!(!text.contains("s3cret"));
}

#[test]
fn repeated_attempts_are_spans_of_their_own() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let (origin, _) = keeping_origin("404 Not Found");
    let gone: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let site = format!(
        "[[site.route]]\npath = '/app/'\nproxy = {{ to = ['http://{gone}', 'http://{} backup'] }}\n",
        origin.address
    );
    let server = start(&tree, &http(&collector, "1"), "", &site);
    assert_eq!(get(&server, "/app/", ""), 404);
    let spans = collector.wait_for(3);
    let attempts = of_kind(&spans, "Client");
    let failed = attempts.iter().find(|span| span.get("error.type") == "connect").expect("one has failed");
    assert_eq!((failed.status.as_str(), failed.get("http.request.resend_count")), ("Error", ""));
    let second = attempts.iter().find(|span| span.get("http.request.resend_count") == "1");
    let second = second.expect("one was repeated");
    assert_eq!((second.get("http.response.status_code"), second.get("error.type")), ("404", "404"));
    // What the client has caused is no error of the server.
    let request = of_kind(&spans, "Server")[0].clone();
    assert_eq!((request.status.as_str(), request.get("error.type")), ("Unset", ""));
    assert!(attempts.iter().all(|span| span.parent == request.id));
}

#[test]
fn a_trusted_proxy_decides_and_a_client_does_not() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let (origin, heads) = keeping_origin("200 OK");
    let log = tree.beside("access.log");
    let more = format!(
        "[proxies]\ntrusted = ['127.0.0.1/32']\n[access_log]\npath = '{}'\n\
         format = '$status $trace_id $span_id'\n",
        log.display()
    );
    let mut server = start(&tree, &http(&collector, "0"), &more, &origin.keys(""));
    let sampled = format!("traceparent: {PARENT}\r\ntracestate: a=b,,c=d\r\n");
    assert_eq!(get(&server, "/app/", &sampled), 200);
    // Hits, too; the first request for a file makes it one.
    assert_eq!([(); 3].map(|()| get(&server, "/alphabet.txt", &sampled)), [200; 3]);
    let not_sampled = sampled.replace("-01\r\n", "-00\r\n");
    assert_eq!(get(&server, "/app/", &not_sampled), 200);
    assert_eq!([get(&server, "/app/", ""), get(&server, "/alphabet.txt", "")], [200; 2]);
    assert_eq!(get(&server, "/app/", "traceparent: nonsense\r\ntracestate: a=b\r\n"), 200);
    // A state that is too long is cut, and one that is not valid dropped.
    let long = format!("traceparent: {PARENT}\r\ntracestate: z={},{}\r\n", "x".repeat(250), "k=v");
    let long = format!("{long}tracestate: y={}\r\ntracestate: q={}\r\n", "y".repeat(250), "q".repeat(99));
    assert_eq!(get(&server, "/app/", &long), 200);
    let spans = collector.wait_for(1 + 1 + 3 + 2);
    assert!(spans.iter().all(|span| span.trace == PARENT_TRACE), "{spans:#?}");
    let requests = of_kind(&spans, "Server");
    assert!(requests.iter().all(|span| span.parent == "00f067aa0ba902b7"), "{spans:#?}");
    assert!(requests.iter().filter(|span| span.state == "a=b,c=d").count() == 4, "{spans:#?}");

    let heads = heads.lock().expect("no test thread has panicked").clone();
    let told: Vec<&str> = heads.iter().map(|head| field(head, "traceparent")).collect();
    let begins = format!("00-{PARENT_TRACE}-");
    assert!(
        told[0].starts_with(&begins) && told[0].ends_with("-01") && !told[0].contains("00f067aa0ba902b7")
    );
    assert!(told[1].starts_with(&begins) && told[1].ends_with("-00"), "{told:?}");
    assert!(!told[2].contains(PARENT_TRACE) && told[2].ends_with("-02") && told[2].len() == 55, "{told:?}");
    assert!(told[3].ends_with("-02"), "{told:?}");
    let states: Vec<&str> = heads.iter().map(|head| field(head, "tracestate")).collect();
    assert_eq!(states[..4], ["a=b,c=d", "a=b,c=d", "", ""]);
    assert!(states[4].contains("k=v") && states[4].len() <= 512, "{states:?}");

    server.stop();
    let log = fs::read_to_string(log).expect("the log is there");
    let lines: Vec<&str> = log.lines().collect();
    let [first, ..] = &lines[..] else { panic!("{log}") };
    let attempt = of_kind(&spans, "Client")[0];
    assert_eq!(*first, format!("200 {PARENT_TRACE} {}", attempt.parent));
    // A hit that is not recorded has no span.
    assert!(lines.contains(&"200 - -"), "{log}");
}

#[test]
fn clients_cannot_have_more_recorded_than_is_allowed() {
    let tree = Tree::standard();
    let receiver = Receiver::start(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_string());
    let telemetry =
        format!("endpoint = '{}'\nsample = 0\nparent = 'always'\nparent_rate = 0", receiver.endpoint());
    let mut server = start(&tree, &telemetry, "", "");
    let fields = format!("traceparent: {PARENT}\r\n");
    for _ in 0..200 {
        assert_eq!(get(&server, "/alphabet.txt", &fields), 200);
    }
    server.stop();
    assert!(receiver.received().is_empty(), "{} requests", receiver.received().len());
}

#[test]
fn the_share_of_requests_is_kept() {
    let tree = Tree::standard();
    let receiver = Receiver::start(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_string());
    let admin: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let telemetry = format!("endpoint = '{}'\nsample = 0.1", receiver.endpoint());
    let server = start(&tree, &telemetry, &format!("[admin]\nlisten = '{admin}'"), "");
    let mut client = server.connect();
    for _ in 0..2_000 {
        assert_eq!(client.ask("GET /alphabet.txt HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    }
    // Six deviations of the binomial distribution on each side.
    wait_until("a tenth is sent", PATIENCE, || {
        (120..=280).contains(&count(admin, "touchstone_telemetry_spans_total{result=\"sent\"}"))
    });
    assert_eq!(count(admin, "touchstone_telemetry_spans_total{result=\"dropped\"}"), 0);
}

/// The value of a sample of the admin listener.
fn count(admin: SocketAddr, sample: &str) -> u64 {
    let mut client = Client::connect(admin);
    let answer = client.ask(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n"));
    let text = String::from_utf8(answer.body).expect("text");
    let line = text.lines().find_map(|line| line.strip_prefix(sample));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or_default()
}

#[test]
fn a_collector_that_is_away_holds_nothing_up() {
    let tree = Tree::standard();
    let Some(mut collector) = Collector::prepare(&tree) else { return };
    let admin: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let telemetry = format!("{}\nqueue = 64", http(&collector, "1"));
    let server = start(&tree, &telemetry, &format!("[admin]\nlisten = '{admin}'"), "");
    for _ in 0..500 {
        assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    }
    wait_until("spans are dropped and counted", PATIENCE, || {
        count(admin, "touchstone_telemetry_spans_total{result=\"dropped\"}") >= 100
    });
    server.wait_for_error_line("says why", |line| line.contains("collector http://127.0.0.1"));
    collector.run();
    wait_until("what has waited comes", PATIENCE, || collector.spans().len() >= 64);
    assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    server.wait_for_error_line("says that it is back", |line| line.contains("answers again"));
    wait_until("spans are sent again", PATIENCE, || {
        count(admin, "touchstone_telemetry_exports_total{result=\"accepted\"}") >= 1
    });
}

#[test]
fn a_collector_that_is_full_gets_the_same_again() {
    let tree = Tree::standard();
    let receiver = Receiver::start(|number| match number {
        0 => "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n".to_string(),
        1 => "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_string(),
        // It closes without an answer.
        2 => String::new(),
        _ => "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_string(),
    });
    let fields = tree.beside("fields");
    fs::write(&fields, "# a comment\nX-Api-Key: s3cret\n").expect("a file");
    let telemetry =
        format!("endpoint = '{}'\nsample = 1\nheaders_file = '{}'", receiver.endpoint(), fields.display());
    let mut server = start(&tree, &telemetry, "", "");
    assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    wait_until("it is sent until it is accepted", PATIENCE, || receiver.received().len() >= 4);
    let received = receiver.received();
    assert!(received[1..4].iter().all(|(_, body)| *body == received[0].1), "another body");
    assert!(received[0].0.starts_with("post /v1/traces http/1.1\r\n"), "{}", received[0].0);
    assert!(received[0].0.contains("\r\nx-api-key: s3cret\r\n"), "{}", received[0].0);
    server.stop();
    assert!(!server.error_text().contains("s3cret"));
}

#[test]
fn what_waits_is_sent_at_the_end() {
    let tree = Tree::standard();
    let Some(collector) = Collector::start(&tree) else { return };
    let telemetry = http(&collector, "1");
    let text = config(&tree, &telemetry, "", "").replace("'100ms'", "'1h'");
    let mut server = Server::configured(tree.around(), &text);
    assert_eq!([(); 3].map(|()| get(&server, "/alphabet.txt", "")), [200; 3]);
    server.stop();
    collector.wait_for(3);
}

#[test]
fn a_slow_collector_does_not_stop_the_end() {
    let tree = Tree::standard();
    let receiver = Receiver::start(|_| {
        std::thread::sleep(Duration::from_secs(300));
        String::new()
    });
    let mut server = start(&tree, &format!("endpoint = '{}'\nsample = 1", receiver.endpoint()), "", "");
    assert_eq!([(); 3].map(|()| get(&server, "/alphabet.txt", "")), [200; 3]);
    wait_until("it is asked", PATIENCE, || !receiver.received().is_empty());
    assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    // `stop` fails the test if the end takes 25 seconds.
    server.stop();
}

#[test]
fn reloads_and_upgrades_lose_no_span() {
    let (tree, others) = (Tree::standard(), Tree::empty());
    let (Some(first), Some(second)) = (Collector::start(&tree), Collector::start(&others)) else { return };
    let port = free_port();
    let text = |collector: Option<&Collector>| {
        let telemetry = collector.map_or(String::new(), |collector| http(collector, "1"));
        let text = config(&tree, &telemetry, "pid_file = 'server.pid'", "");
        let text = text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")).replace("'100ms'", "'1h'");
        match collector {
            Some(_) => text,
            None => text.replace("[telemetry]\ninterval = '1h'\n", ""),
        }
    };
    let mut server = Server::configured(tree.around(), &text(Some(&first)));
    server.succeeded_by(tree.beside("server.pid"));
    let path = tree.beside("touchstone.toml");
    let order = |name: &str| {
        let output = run([name, "--config", path.to_str().expect("text")]);
        assert!(output.status.success(), "{name}: {:?}", error_lines(&output));
    };
    let ask = || assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    ask();
    // The records for one collector are sent to the next.
    fs::write(&path, text(Some(&second))).expect("a file");
    order("reload");
    ask();
    fs::write(&path, text(None)).expect("a file");
    order("reload");
    second.wait_for(2);
    ask();
    fs::write(&path, text(Some(&first))).expect("a file");
    order("reload");
    ask();
    let before = server.serving_pid();
    order("upgrade");
    // The old process sends what it has before it ends.
    first.wait_for(1);
    wait_until("another process serves", PATIENCE, || {
        server.serving_pid().is_some() && server.serving_pid() != before
    });
    ask();
    order("stop");
    first.wait_for(2);
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(second.spans().len(), 2);
}

#[test]
fn a_broken_configuration_is_refused_with_its_reason() {
    let tree = Tree::standard();
    for (telemetry, expected) in [
        ("endpoint = 'http://127.0.0.1:1'\nheaders_file = 'missing'", "headers_file"),
        ("endpoint = 'http://127.0.0.1:1'\nca_certificate = 'missing'", "ca_certificate"),
        ("endpoint = 'collector'", "http://"),
        ("sample = 1", "needs 'endpoint'"),
    ] {
        let path = tree.beside("bad.toml");
        fs::write(&path, config(&tree, telemetry, "", "")).expect("a file");
        let output = run(["check", "--config", path.to_str().expect("text")]);
        assert_ne!(output.status.code(), Some(0), "{telemetry}");
        let said = format!("{:?} {}", error_lines(&output), String::from_utf8_lossy(&output.stdout));
        assert!(said.contains(expected), "{telemetry}: {said}");
    }
}

#[test]
fn tls_to_a_collector_is_verified() {
    let tree = Tree::standard();
    // Another server with its own certificate takes the part of a collector: it answers, but it is not
    // trusted.
    let other = Server::configured(
        tree.around(),
        &format!(
            "[[site]]\nlisten = ['127.0.0.1:0']\nroot = '{}'\ndevelopment_certificate = true\n",
            tree.root().display()
        ),
    );
    let telemetry = format!("endpoint = 'https://{}'\nsample = 1", other.address());
    let directory = tree.beside("second");
    fs::create_dir(&directory).expect("a directory");
    let server = Server::configured(&directory, &config(&tree, &telemetry, "", ""));
    assert_eq!(get(&server, "/alphabet.txt", ""), 200);
    server.wait_for_error_line("names the key", |line| line.contains("telemetry.ca_certificate"));
}
