//! The load of a simulated agent. Counts the requests, and checks that the agent may send them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hdrhistogram::Histogram;
use touchstone_fleet::runtime::{now, sleep};
use touchstone_load::{
    ClientOutcome, EngineUse, ErrorCounts, HandshakeCounts, Outcome, Plan, Portion, Progress, Saturation,
};

use super::scheduler::Scheduler;
use crate::random;

/// The interval between requests.
const SEND_INTERVAL: Duration = Duration::from_millis(40);

/// The time that an agent may send after its lease has expired, until it checks the lease.
const LEASE_CHECK_TIME: Duration = Duration::from_millis(300);

pub fn send(
    scheduler: &Scheduler,
    process: usize,
    plan: &Plan,
    portion: &Portion,
    start_ns: u64,
    progress: &Progress,
) -> Result<Outcome, String> {
    let agent = scheduler.sent_load.borrow().agents[&process].clone();
    let place = (plan.seed, agent.clone());
    let is_stopped = || progress.stop.load(Ordering::Relaxed);
    let ahead_ns = scheduler.process(process).monotonic_ahead_ns;
    let own_ns = || scheduler.age().as_nanos() as u64 + ahead_ns;
    while own_ns() < start_ns && !is_stopped() {
        sleep(Duration::from_nanos(start_ns - own_ns()).min(SEND_INTERVAL));
    }
    let (first, end_ns) = (own_ns(), start_ns + plan.length.as_nanos() as u64);
    scheduler.sent_load.borrow_mut().sent.entry(place.clone()).or_default().started += 1;
    let clients = portion.client_count(plan);
    let mut by_client = vec![0; clients];
    let mut requests = 0;
    while own_ns() < end_ns && !is_stopped() {
        check_lease(scheduler, process, &agent);
        let client = random::size(clients);
        by_client[client] += random::below(4);
        requests = by_client.iter().sum();
        progress.requests.store(requests, Ordering::Relaxed);
        sleep(SEND_INTERVAL);
    }
    let mut sent_load = scheduler.sent_load.borrow_mut();
    let sent = sent_load.sent.entry(place).or_default();
    sent.requests = requests;
    sent.ended += 1;
    drop(sent_load);
    random::note(|| {
        format!("{:?} {agent} has sent {requests} requests of mix {}", scheduler.age(), plan.seed)
    });
    let late = Duration::from_nanos(first.saturating_sub(start_ns));
    Ok(outcome(plan, &by_client, late, is_stopped()))
}

/// Checks that load is sent only while leases of the controller arrive.
fn check_lease(scheduler: &Scheduler, process: usize, agent: &str) {
    let stalled_until = scheduler.process(process).stalled_until;
    // An agent that continued just now after a pause has not checked the lease yet.
    if now() < stalled_until + LEASE_CHECK_TIME {
        return;
    }
    let latest = scheduler.broker.latest_lease(process);
    let age = latest.map(|at| now() - at);
    let is_led = age.is_some_and(|age| age <= touchstone_fleet::LEASE + LEASE_CHECK_TIME);
    assert!(is_led, "agent {agent} sends load, but its last lease arrived {age:?} ago");
}

fn outcome(plan: &Plan, by_client: &[u64], late: Duration, interrupted: bool) -> Outcome {
    let requests: u64 = by_client.iter().sum();
    let of_client = |requests: &u64| ClientOutcome {
        requests: *requests,
        errors: 0,
        bytes: 0,
        latency_ns: Histogram::new_with_bounds(1, 10, 1).expect("the bounds are possible"),
    };
    let histogram = || Histogram::new_with_bounds(1, 10, 1).expect("the bounds are possible");
    Outcome {
        window: plan.length,
        requests,
        requests_by_class: Vec::new(),
        classes: Vec::new(),
        statuses: BTreeMap::new(),
        errors: ErrorCounts::default(),
        bytes: 0,
        body_bytes: 0,
        connections: 0,
        started: requests,
        latency_ns: histogram(),
        service_ns: histogram(),
        connect_ns: histogram(),
        handshake_ns: histogram(),
        handshakes: HandshakeCounts::default(),
        messages: None,
        websockets: None,
        arrivals: None,
        stages: Vec::new(),
        clients: by_client.iter().map(of_client).collect(),
        intervals: Vec::new(),
        total_requests: requests,
        total_errors: 0,
        total_errors_by_kind: ErrorCounts::default(),
        error_reasons: Vec::new(),
        tls_error: None,
        total_connections: 0,
        total_retries: 0,
        warnings: Vec::new(),
        engine: EngineUse::default(),
        saturation: Saturation::default(),
        first_start_lateness: late,
        start_lateness: late,
        interrupted,
    }
}
