use super::*;
use crate::outcome::ErrorKind;

const SECOND: u64 = 1_000_000_000;

fn times() -> Times {
    Times::new(5 * SECOND, Duration::from_secs(1), Duration::from_millis(4500), Duration::from_secs(1))
}

fn answer(ended_ns: u64) -> ValidAnswer {
    ValidAnswer {
        intended_ns: ended_ns - 1000,
        ended_ns,
        latency_ns: 1000,
        service_ns: 1000,
        class: 1,
        bytes: 300,
        body_bytes: 200,
    }
}

/// A plan with three classes.
fn plan(rate: Option<f64>) -> Plan {
    let target = crate::target::Target::plain(([127, 0, 0, 1], 80).into(), "localhost");
    let mut plan = Plan { rate, ..Plan::of_one(target, "/") };
    plan.requests[0].class = 2;
    plan
}

fn record(clients: usize) -> Record {
    Record::new(&plan(None), times(), clients)
}

#[test]
fn only_requests_that_end_between_the_ramps_count() {
    let mut record = record(2);
    for ended in [5 * SECOND, 6 * SECOND - 1, 6 * SECOND, 8 * SECOND, 8_500_000_000, 9_600_000_000] {
        record.answered(1, &answer(ended));
        record.failed(0, 0, 2, ErrorKind::Timeout.into(), ended, Example::default());
        record.connected(Some(2), ended, 50);
        record.page_ended(1, ended);
        record.started(ended, ended, false);
    }
    assert_eq!((record.requests, record.total_requests), (2, 6));
    assert_eq!((record.errors.timeout, record.total_errors.timeout), (2, 6));
    assert_eq!((record.connections, record.total_connections), (2, 6));
    assert_eq!(record.started, 2);
    assert_eq!(record.classes.iter().map(|class| class.requests).collect::<Vec<_>>(), [0, 2, 0]);
    assert_eq!(record.classes.iter().map(|class| class.errors).collect::<Vec<_>>(), [0, 0, 2]);
    assert_eq!((record.classes[1].latency_ns.len(), record.classes[1].bytes), (2, 600));
    let class = &record.classes[1];
    assert_eq!((class.pages, class.body_bytes.count, class.body_bytes.mean()), (2, 2, 200.0));
    assert_eq!((class.answer_bytes.min, class.answer_bytes.max, class.response_ns.max), (300, 300, 1000));
    assert_eq!((class.connect_ns.count, record.classes[2].connect_ns.count), (0, 2));
    assert_eq!((record.bytes, record.body_bytes, record.total_bytes), (600, 400, 1800));
    assert_eq!(record.latency_ns.len(), 2);
    assert_eq!((record.clients[0].requests, record.clients[0].errors), (0, 2));
    assert_eq!((record.clients[1].requests, record.clients[1].errors), (2, 0));
}

#[test]
fn the_time_line_covers_exactly_the_length() {
    let mut record = record(1);
    record.answered(0, &answer(7 * SECOND + 5));
    record.answered(0, &answer(9_500_000_000));
    record.finish_intervals();
    let counts: Vec<u64> = record.intervals.iter().map(|interval| interval.requests).collect();
    assert_eq!(counts, [0, 0, 1, 0, 0]);
    assert_eq!(record.intervals[2].start_s, 2.0);
    assert_eq!(record.intervals[3].length_s, 1.0);
    assert_eq!(record.intervals[4].length_s, 0.5);
}

#[test]
fn merging_adds_everything() {
    let mut sum = Record::new(&plan(Some(1.0)), times(), 1);
    let mut other = Record::new(&plan(Some(1.0)), times(), 2);
    sum.answered(0, &answer(7 * SECOND));
    other.answered(1, &answer(8 * SECOND));
    other.failed(0, 0, 2, ErrorKind::Connect.into(), 7 * SECOND, Example::default());
    other.total_retries = 3;
    sum.merge(other);
    assert_eq!((sum.requests, sum.total_requests, sum.errors.total(), sum.total_retries), (2, 2, 1, 3));
    assert_eq!(sum.latency_ns.len(), 2);
    assert_eq!(sum.service_ns.as_ref().map(Histogram::len), Some(2));
    assert_eq!(sum.clients.iter().map(|client| client.requests).collect::<Vec<_>>(), [1, 0, 1]);
    assert_eq!(sum.intervals.iter().map(|interval| interval.requests).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!(sum.intervals[2].errors, 1);
}

#[test]
fn an_open_load_counts_latency_at_the_due_time_and_answers_at_their_end() {
    let mut record = Record::new(&plan(Some(10.0)), times(), 1);
    // One request is due in the window and answered after it, one is due before the window and answered in
    // it, and one is due in the window and not started.
    record.started(8 * SECOND, 8 * SECOND + 5_000_000, true);
    record
        .answered(0, &ValidAnswer { intended_ns: 8 * SECOND, latency_ns: 2 * SECOND, ..answer(10 * SECOND) });
    record.started(5 * SECOND, 5 * SECOND, false);
    record.answered(0, &ValidAnswer { intended_ns: 5 * SECOND, ..answer(7 * SECOND) });
    record.unsent(7 * SECOND);
    assert_eq!((record.requests, record.latency_ns.len(), record.started), (1, 1, 1));
    assert!(record.latency_ns.max() >= 2 * SECOND);
    let arrivals = record.arrivals.expect("an open load has arrivals");
    assert_eq!((arrivals.due, arrivals.started, arrivals.late, arrivals.unsent()), (2, 1, 1, 1));
    assert_eq!((arrivals.lateness_ns.len(), arrivals.engine_lateness_ns.len()), (1, 0));
}

#[test]
fn stages_have_their_own_figures() {
    let mut plan = plan(None);
    plan.stages =
        [1, 3].map(|length| crate::stages::Stage::constant(Duration::from_secs(length), 1.0)).to_vec();
    let mut record = Record::new(&plan, times(), 1);
    record.answered(0, &answer(5 * SECOND + 5000));
    record.answered(0, &answer(6 * SECOND));
    record.failed(0, 0, 2, ErrorKind::Tls.into(), 8 * SECOND, Example::default());
    record.failed(0, 0, 2, ErrorKind::Tls.into(), 9 * SECOND, Example::default());
    let counts: Vec<(u64, u64)> = record.stages.iter().map(|stage| (stage.requests, stage.errors)).collect();
    assert_eq!(counts, [(1, 0), (1, 1)]);
    assert_eq!((record.stages[1].start_s, record.stages[1].length_s), (1.0, 3.0));
}

#[test]
fn long_runs_have_longer_intervals() {
    let day = Duration::from_secs(24 * 3600);
    let times = Times::new(0, Duration::ZERO, day, Duration::ZERO);
    assert_eq!(times.interval_ns, 24 * SECOND);
}

#[test]
fn an_early_end_shortens_the_window() {
    let early = times().ended_at(7 * SECOND);
    assert_eq!(early.window(), Duration::from_secs(1));
    for at_ns in [0, 5 * SECOND + 1] {
        let at_once = times().ended_at(at_ns);
        assert_eq!(at_once.window(), Duration::ZERO);
        Record::new(&plan(None), at_once, 1).finish_intervals();
    }
}
