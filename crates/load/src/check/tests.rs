use super::*;
use crate::machine::allowed_cores;
use crate::plan::{Recorded, Session, TimeSpread};
use crate::stages::Stage;
use crate::target::TlsTarget;

fn plan() -> Plan {
    let target = Target::plain(([127, 0, 0, 1], 8080).into(), "localhost:8080");
    Plan::of_one(target, "/")
}

/// The error message for a plan with one mistake.
fn refusal(change: impl FnOnce(&mut Plan)) -> String {
    let mut plan = plan();
    change(&mut plan);
    plan.check().expect_err("the plan should be refused").0
}

#[test]
fn a_plain_plan_passes() {
    assert_eq!(plan().check(), Ok(Vec::new()));
}

#[test]
fn invalid_plans_are_refused_with_the_reason() {
    assert!(refusal(|plan| plan.requests.clear()).contains("no requests"));
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(refusal(|plan| plan.requests[0].weight = weight).contains("weights are numbers above 0"));
    }
    assert!(refusal(|plan| plan.requests[0].class = MAXIMUM_REQUESTS).contains("classes"));
    assert!(refusal(|plan| plan.requests[0].path = "index.html".into()).contains("begin with '/'"));
    assert!(refusal(|plan| plan.requests[0].path = "/a b".into()).contains("%20"));
    assert!(refusal(|plan| plan.requests[0].path = "/a\r\nX: y".into()).contains("%0D"));
    assert!(refusal(|plan| plan.requests[0].path = "/a#b".into()).contains("%23"));
    assert!(refusal(|plan| plan.clients = 0).contains("0 clients"));
    assert!(refusal(|plan| plan.clients = MAXIMUM_CLIENTS + 1).contains("1000001 clients"));
    assert!(refusal(|plan| plan.target.address.set_port(0)).contains("port is 0"));
    assert!(refusal(|plan| plan.target.host = "a b".into()).contains("Host field"));
    assert!(refusal(|plan| plan.length = Duration::ZERO).contains("above 0"));
    assert!(refusal(|plan| plan.timeout = Duration::ZERO).contains("timeout"));
    assert!(refusal(|plan| plan.receive_buffer_bytes = 0).contains("receive buffer"));
    assert!(refusal(|plan| plan.rate = Some(0.0)).contains("rate"));
    assert!(refusal(|plan| plan.rate = Some(f64::NAN)).contains("rate"));
}

#[test]
fn ramps_must_be_shorter_than_the_length() {
    let text = refusal(|plan| {
        plan.length = Duration::from_secs(10);
        plan.ramp_up = Duration::from_secs(6);
        plan.ramp_down = Duration::from_secs(4);
    });
    assert!(text.contains("leave nothing"), "{text}");
    let text = refusal(|plan| plan.ramp_up = Duration::MAX);
    assert!(text.contains("leave nothing"), "{text}");
}

#[test]
fn a_rate_excludes_think_time_and_delay() {
    for change in [
        |plan: &mut Plan| plan.think_time = Duration::from_millis(1),
        |plan: &mut Plan| plan.delay = Duration::from_millis(1),
    ] {
        let text = refusal(|plan| {
            plan.rate = Some(10.0);
            change(plan);
        });
        assert!(text.contains("leave out"), "{text}");
    }
}

#[test]
fn header_fields_cannot_break_the_request() {
    for (header, expected) in [
        ("no colon", "no colon"),
        (": value", "the name"),
        ("bad name: value", "the name"),
        ("Name : value", "the name"),
        ("A: b\r\nC: d", "line end"),
        ("Content-Length: 3", "body"),
        ("transfer-encoding: chunked", "body"),
    ] {
        let text = refusal(|plan| plan.headers.push(header.to_string()));
        assert!(text.contains(expected), "{header:?}: {text}");
    }
    let text = refusal(|plan| plan.headers.push(format!("A: {}", "b".repeat(MAXIMUM_HEADERS_BYTES))));
    assert!(text.contains("at most"), "{text}");
    let mut plan = plan();
    plan.headers.push("Accept-Language: fr, en;q=0.5".to_string());
    assert!(plan.check().is_ok());
}

#[test]
fn processors_must_exist_and_be_named_once() {
    let text = refusal(|plan| plan.cores = vec![rustix::thread::CpuSet::MAX_CPU - 1]);
    assert!(text.contains("not allowed"), "{text}");
    let core = allowed_cores()[0];
    let text = refusal(|plan| plan.cores = vec![core, core]);
    assert!(text.contains("twice"), "{text}");
}

#[test]
fn the_error_for_too_many_clients_states_the_needed_files_or_ports() {
    let text = refusal(|plan| plan.clients = MAXIMUM_CLIENTS);
    assert!(text.contains("open files") || text.contains("local ports"), "{text}");
    assert!(text.contains("1000"), "{text}");
}

#[test]
fn requests_that_cannot_be_sent_are_refused() {
    for method in ["", "GE T", "GET\r\n", "CONNECT"] {
        assert!(
            refusal(|plan| plan.requests[0].method = method.to_string()).contains("method")
                || method == "CONNECT"
        );
    }
    assert!(refusal(|plan| plan.requests[0].target = 1).contains("there are 1"));
    assert!(refusal(|plan| plan.requests[0].headers = vec!["x".to_string()]).contains("no colon"));
    assert!(refusal(|plan| plan.requests[0].expected_status = vec![100..=200]).contains("from 200 on"));
}

#[test]
fn the_stages_must_last_as_long_as_the_run() {
    let stages = |values: &[(u64, f64, f64)]| -> Vec<Stage> {
        values
            .iter()
            .map(|&(length, from, to)| Stage { length: Duration::from_secs(length), from, to })
            .collect()
    };
    assert!(refusal(|plan| plan.stages = stages(&[(5, 1.0, 1.0)])).contains("together"));
    assert!(refusal(|plan| plan.stages = stages(&[(10, 0.0, 2.0)])).contains("from 0 to 1"));
    assert!(refusal(|plan| plan.stages = stages(&[(10, 0.0, 0.0)])).contains("nothing would be sent"));
    assert!(refusal(|plan| plan.stages = stages(&[(10, -1.0, 1.0)])).contains("from 0"));
    assert!(refusal(|plan| plan.stages = stages(&[(10, f64::NAN, 1.0)])).contains("from 0"));
    let mut plan = plan();
    plan.rate = Some(1.0);
    plan.stages = stages(&[(4, 0.0, 500.0), (6, 500.0, 500.0)]);
    assert_eq!(plan.check(), Ok(Vec::new()));
}

#[test]
fn settings_of_shared_connections_are_checked() {
    assert!(refusal(|plan| plan.streams = 0).contains("0 streams"));
    let in_http10 = |plan: &mut Plan| (plan.streams, plan.version) = (2, HttpVersion::Http10);
    assert!(refusal(in_http10).contains("HTTP/2 or 3"));
    for share in [0.0, 1.0, f64::NAN] {
        assert!(
            refusal(|plan| plan.connections = ConnectionUse::NewShare(share)).contains("above 0 and below 1")
        );
    }
    let shared = |plan: &mut Plan| {
        plan.version = HttpVersion::Http2;
        plan.streams = 2;
    };
    assert!(
        refusal(|plan| {
            shared(plan);
            plan.connections = ConnectionUse::New;
        })
        .contains("cannot be shared")
    );
    let session = Session { requests: 0.5, spread: TimeSpread::Fixed };
    assert!(refusal(|plan| plan.session = Some(session)).contains("set a rate"));
    assert!(
        refusal(|plan| {
            plan.rate = Some(1.0);
            plan.session = Some(session);
        })
        .contains("at least 1")
    );
    assert!(refusal(|plan| plan.request_limit = Some(0)).contains("0 requests"));
}

#[test]
fn invalid_tls_settings_are_refused() {
    for (name, share, expected) in [("a b", 1.0, "certificate"), ("localhost", 1.5, "from 0 to 1")] {
        let text = refusal(|plan| {
            let tls = TlsTarget { trust: crate::target::Trust::Anything, ..TlsTarget::new(name) };
            plan.target.tls = Some(TlsTarget { resumption_share: share, ..tls });
        });
        assert!(text.contains(expected), "{text}");
    }
    let text = refusal(|plan| {
        let trust = crate::target::Trust::Authorities(b"nothing".to_vec());
        plan.target.tls = Some(TlsTarget { trust, ..TlsTarget::new("localhost") });
    });
    assert!(text.contains("contains no certificate"), "{text}");
}

#[test]
fn pages_must_not_contain_pages_and_other_requests_need_a_weight() {
    let page = |plan: &mut Plan, then: Vec<usize>| {
        plan.requests.push(PlannedRequest { weight: 0.0, ..PlannedRequest::get("/on-the-page") });
        plan.requests[0].then = then;
    };
    let mut valid = plan();
    page(&mut valid, vec![1, 1]);
    assert_eq!(valid.check(), Ok(Vec::new()));
    assert!(refusal(|plan| page(plan, vec![2])).contains("contains the request number 2, and there are 2"));
    assert!(refusal(|plan| page(plan, vec![1, 0])).contains("contains the page"));
    assert!(refusal(|plan| page(plan, vec![])).contains("weights are numbers above 0"));
    valid.requests[1].think_before = Duration::from_secs(5);
    assert_eq!(valid.check(), Ok(Vec::new()));
    valid.requests[1].think_before = Duration::from_secs(1 << 30);
    assert!(valid.check().unwrap_err().0.contains("is longer than the longest run"));
    let refused = refusal(|plan| plan.requests[0].think_before = Duration::from_secs(5));
    assert!(refused.contains("follows no other request"), "{refused}");
}

#[test]
fn recorded_requests_must_be_in_order_and_exclude_other_schedules() {
    let at = |after_s, request| Recorded { after: Duration::from_secs(after_s), request };
    let mut valid = plan();
    valid.recorded = vec![at(0, 0), at(0, 0), at(3, 0)].into();
    assert_eq!(valid.check(), Ok(Vec::new()));
    assert!(refusal(|plan| plan.recorded = vec![at(1, 0), at(0, 0)].into()).contains("must be in order"));
    assert!(refusal(|plan| plan.recorded = vec![at(1, 1)].into()).contains("request number 1 is recorded"));
    let refused = |change: fn(&mut Plan)| {
        refusal(|plan| {
            plan.recorded = vec![at(0, 0)].into();
            change(plan);
        })
    };
    assert!(refused(|plan| plan.rate = Some(1.0)).contains("have their own due times"));
    assert!(refused(|plan| plan.think_time = Duration::from_secs(1)).contains("have their own due times"));
}

#[test]
fn only_http_1_0_allows_requests_without_the_usual_fields() {
    assert!(refusal(|plan| plan.usual_fields = false).contains("requires a Host field"));
    let mut plan = plan();
    (plan.usual_fields, plan.version) = (false, HttpVersion::Http10);
    assert_eq!(plan.check(), Ok(Vec::new()));
}
