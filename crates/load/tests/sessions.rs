//! Tests of sessions with values: values from answers and files are used in later requests, cookies are
//! returned, redirects are followed, and a missing value is an error with an example.

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{After, Server, answer, write};
use touchstone_load::{
    DataPlan, ErrorCounts, ExtractPlan, HttpVersion, Outcome, Plan, PlannedRequest, Progress, RowOrder,
    ScriptPlan, StepPlan, run,
};

fn ran(plan: &Plan) -> Outcome {
    run(plan, &Progress::default()).expect("the plan can run")
}

fn extract(name: &str, from: &str) -> ExtractPlan {
    ExtractPlan { name: name.to_string(), from: from.to_string() }
}

/// A plan whose clients repeat these requests.
fn session(server: &Server, requests: Vec<PlannedRequest>, limit: u64) -> Plan {
    let mut plan = server.plan("/");
    plan.clients = 4;
    plan.request_limit = Some(limit);
    plan.length = Duration::from_secs(30);
    plan.script = Some(ScriptPlan::default());
    plan.requests = requests;
    let rest: Vec<usize> = (1..plan.requests.len()).collect();
    plan.requests[1..].iter_mut().for_each(|request| request.weight = 0.0);
    plan.requests[0].then = rest;
    plan.requests[0].is_session = true;
    plan
}

fn get(path: &str, step: StepPlan) -> PlannedRequest {
    PlannedRequest { step: Some(step), ..PlannedRequest::get(path) }
}

/// A simulated shop: each login returns a token, which orders must contain.
fn shop() -> (Server, Arc<Mutex<BTreeMap<String, u64>>>) {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let log = seen.clone();
    let server = Server::start(move |request, stream| {
        let mut seen = log.lock().expect("no thread panicked");
        let number = seen.values().sum::<u64>();
        *seen.entry(request.line.clone()).or_default() += 1;
        let path = request.line.split(' ').nth(1).expect("a path").to_string();
        let field = |name: &str| {
            request.fields.iter().find_map(|field| field.strip_prefix(&format!("{name}: "))).unwrap_or("")
        };
        if path.starts_with("/login") {
            let body = format!("{{\"user\":{{\"token\":\"t/{number}\"}},\"n\":{number}}}");
            let head = format!(
                "HTTP/1.1 200 OK\r\nSet-Cookie: SID=s{number}; Path=/\r\nX-Next: /basket/{number}\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            write(stream, format!("{head}{body}").as_bytes());
        } else {
            let number = path.trim_start_matches("/basket/").split('?').next().expect("a number");
            let is_right = path == format!("/basket/{number}?t=t%2F{number}")
                && field("X-Token") == format!("t/{number}")
                && field("Cookie") == format!("lang=en; SID=s{number}")
                && request.body == format!("{{\"t\":\"t/{number}\"}}").into_bytes();
            write(stream, &answer(if is_right { 201 } else { 400 }, b"<h1> Order 7 </h1>"));
        }
        After::Keep
    });
    (server, seen)
}

fn order() -> PlannedRequest {
    PlannedRequest {
        method: "POST".to_string(),
        headers: vec!["X-Token: ${token}".to_string()],
        body: Some(br#"{"t":"${token|json}"}"#.as_slice().into()),
        expected_status: vec![201..=201],
        ..get(
            "${next}?t=${token|query}",
            StepPlan { assert: vec!["css h1 == Order 7".to_string()], ..StepPlan::default() },
        )
    }
}

fn login() -> PlannedRequest {
    let step = StepPlan {
        extract: vec![extract("token", "json $.user.token"), extract("next", "header X-Next")],
        ..StepPlan::default()
    };
    get("/login", step)
}

#[test]
fn values_of_answers_are_used_in_later_requests() {
    let (server, seen) = shop();
    let mut plan = session(&server, vec![login(), order()], 400);
    plan.headers = vec!["Cookie: lang=en".to_string()];
    plan.script = Some(ScriptPlan { cookies: true, ..ScriptPlan::default() });
    let outcome = ran(&plan);
    assert_eq!(outcome.total_errors_by_kind, ErrorCounts::default(), "{:?}", outcome.error_reasons);
    assert_eq!((outcome.total_requests, server.requests()), (400, 400));
    let seen = seen.lock().expect("no thread panicked");
    // The last request of each of the four clients may be a login.
    assert!((200..=204).contains(&seen["GET /login HTTP/1.1"]));
    // Every order contains the number of its own login.
    assert!(seen.iter().all(|(line, count)| line.contains("/login") || *count == 1), "{seen:?}");
}

#[test]
fn a_missing_value_is_an_extraction_error_and_ends_the_session() {
    let server = Server::start(|_, stream| {
        write(stream, &answer(200, b"<p>no token here</p>"));
        After::Keep
    });
    let mut plan = session(&server, vec![login(), order()], 100);
    plan.requests[1].path = "/basket?t=${token}".to_string();
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors_by_kind.extraction), (0, 100));
    let reason = &outcome.error_reasons[0];
    assert_eq!((&reason.kind[..], reason.count), ("extraction", 100));
    assert_eq!(reason.reason, "there is no token: json $.user.token");
    assert_eq!(reason.first_request, "GET /login");
    assert_eq!(reason.first_answer.as_deref(), Some("<p>no token here</p>"));
}

#[test]
fn a_failed_assertion_is_an_assertion_error() {
    let server = Server::start(|request, stream| {
        let body: &[u8] = if request.before.is_multiple_of(2) { b"{\"ok\":true}" } else { b"{\"ok\":false}" };
        write(stream, &answer(200, body));
        After::Keep
    });
    let assert = vec!["json $.ok == true".to_string()];
    let mut plan = server.plan("/");
    plan.script = Some(ScriptPlan::default());
    plan.requests = vec![get("/", StepPlan { assert, ..StepPlan::default() })];
    plan.request_limit = Some(40);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors_by_kind.assertion), (20, 20));
    assert_eq!(outcome.error_reasons[0].reason, "the assertion is false: json $.ok == true");
    assert_eq!(outcome.error_reasons[0].first_answer.as_deref(), Some("{\"ok\":false}"));
}

#[test]
fn each_session_takes_a_row_of_the_data() {
    let (server, seen) = {
        let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
        let log = seen.clone();
        let server = Server::start(move |request, stream| {
            *log.lock().expect("no thread panicked").entry(request.line.clone()).or_default() += 1;
            write(stream, &answer(200, b"x"));
            After::Keep
        });
        (server, seen)
    };
    let mut plan = server.plan("/user/${name}?of=${client}");
    let rows: Vec<Vec<String>> = (0..12).map(|row| vec![format!("u {row}")]).collect();
    let name = "users.csv".to_string();
    let columns = vec!["name".to_string()];
    let data = vec![DataPlan { name, columns, rows: rows.into(), order: RowOrder::Sequence }];
    plan.script = Some(ScriptPlan { data, cookies: false });
    plan.clients = 3;
    plan.request_limit = Some(36);
    // The server answers the clients in turn, so that all of them send the same number of requests.
    plan.rate = Some(3000.0);
    plan.cores = Vec::new();
    let outcome = ran(&plan);
    assert_eq!(outcome.total_requests, 36);
    let seen = seen.lock().expect("no thread panicked");
    for client in 0..3 {
        let own = format!("of={client} ");
        for line in seen.keys().filter(|line| line.contains(&own)) {
            let row = line.split("u%20").nth(1).and_then(|rest| rest.split('?').next());
            let row: usize = row.expect("a row").parse().expect("a number");
            assert_eq!(row % 3, client, "{line}");
        }
    }
}

#[test]
fn redirects_are_followed_on_the_same_server() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = lines.clone();
    let server = Server::start(move |request, stream| {
        log.lock().expect("no thread panicked").push(format!("{} {}", request.line, request.body.len()));
        let redirect = |status: u16, to: &str| {
            format!("HTTP/1.1 {status} X\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        };
        let path = request.line.split(' ').nth(1).expect("a path");
        let bytes = match path {
            "/a/form" => redirect(307, "again?x=1"),
            "/a/again?x=1" => redirect(303, "/done#there"),
            "/loop" => redirect(302, "/loop"),
            "/away" => redirect(302, "http://elsewhere.example/"),
            _ => answer(200, b"done"),
        };
        write(stream, &bytes);
        After::Keep
    });
    let step =
        |assert: &str| StepPlan { redirects: 3, assert: vec![assert.to_string()], ..StepPlan::default() };
    let mut plan = server.plan("/");
    plan.script = Some(ScriptPlan::default());
    plan.requests = vec![PlannedRequest {
        method: "POST".to_string(),
        body: Some(b"abc".as_slice().into()),
        ..get("/a/form", step("body == done"))
    }];
    plan.request_limit = Some(3);
    let outcome = ran(&plan);
    assert_eq!((outcome.total_requests, outcome.total_errors), (3, 0), "{:?}", outcome.error_reasons);
    let expected = ["POST /a/form HTTP/1.1 3", "POST /a/again?x=1 HTTP/1.1 3", "GET /done HTTP/1.1 0"];
    assert_eq!(lines.lock().expect("no thread panicked").drain(..).collect::<Vec<_>>(), expected);
    // Three redirects are followed, and the fourth is the final answer. A redirect to another server is a
    // final answer at once.
    for (path, requests) in [("/loop", 4), ("/away", 1)] {
        plan.requests = vec![get(path, step("header Location"))];
        plan.request_limit = Some(requests);
        let outcome = ran(&plan);
        assert_eq!((outcome.total_requests, outcome.total_errors), (requests, 0), "{path}");
        assert_eq!(outcome.statuses.get(&302), Some(&requests), "{path}");
    }
}

#[test]
fn invalid_scripts_are_refused_before_the_run() {
    let server = Server::start(|_, _| After::Close);
    for (path, extract_from, said) in [
        ("/b?${toke}", "json $.t", "is \"token\" meant"),
        ("/b?${token", "json $.t", "the } of a variable is missing"),
        ("/b", "xpath //t", "write header NAME"),
        ("/b", "json t", "not a JSON path"),
    ] {
        let step = StepPlan { extract: vec![extract("token", extract_from)], ..StepPlan::default() };
        let plan = session(&server, vec![get("/a", step), PlannedRequest::get(path)], 10);
        let message = plan.check().expect_err(path).0;
        assert!(message.contains(said), "{message}");
    }
    let step = StepPlan { extract: vec![extract("token", "body")], ..StepPlan::default() };
    let plan = session(&server, vec![PlannedRequest::get("/b?${token}"), get("/a", step)], 10);
    assert!(plan.check().expect_err("used too early").0.contains("no request before it"));
    let mut http2 = server.plan("/${client}");
    http2.script = Some(ScriptPlan::default());
    http2.version = HttpVersion::Http2;
    assert!(http2.check().is_ok());
}
