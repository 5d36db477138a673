//! The audit of a result: sums that must hold for any measurement, each with its outcome.

use crate::{number, words};
use touchstone_lab::result::{ClassRecord, LatencyRecord, MixResult, ResultFile, SuiteRecord};

/// The tolerance between a figure and the same figure computed another way, for rounding and the window's
/// edges.
const SAME: f64 = 0.005;
/// The longest head of an answer that can explain the bytes beyond its body.
const HEAD_BYTES_MAX: f64 = 4096.0;
/// The most standard errors between a mean and its expectation.
const STANDARD_ERRORS: f64 = 4.0;

/// The outcome of one check of one mix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// True: it holds; false: it does not; absent: the figures for it were not measured.
    pub(crate) holds: Option<bool>,
    /// How far it is from holding exactly, 0 to 1 or more; for the choice of the worst.
    pub(crate) off_by: f64,
    /// The sum, with its figures.
    pub(crate) sum: String,
}

/// A check of a mix: its name, what must hold, and the sum.
pub(crate) type MixCheck = (&'static str, &'static str, fn(&SuiteRecord, &MixResult) -> Finding);

pub(crate) const MIX_CHECKS: [MixCheck; 9] = [
    (
        "Little\u{2019}s law",
        "clients = requests/s × (mean latency + think time), within 3 %, and where clients think within four \
         standard errors more",
        little,
    ),
    (
        "Arrivals",
        "of an open load: as many requests were due as the rate says, and none was answered that was not \
         started",
        arrivals,
    ),
    ("Rate", "requests/s = requests ÷ window", |_, mix| rate(mix)),
    ("Units", "Mbit/s = bytes/s × 8 ÷ 1,000,000", |_, mix| units(mix)),
    ("Bytes", "bytes/s = requests/s × (mean body + a head of at most 4,096 bytes)", |_, mix| bytes(mix)),
    (
        "Workload",
        "the mean body is that of the workload, within four standard errors and what sessions cut by the \
         window\u{2019}s edges explain",
        mean_body,
    ),
    (
        "Percentiles",
        "smallest ≤ p50 ≤ p90 ≤ p95 ≤ p99 ≤ p99.9 ≤ largest, and the curve never falls",
        |_, mix| percentiles(&mix.latency),
    ),
    ("Latencies", "every valid answer has its latency", |_, mix| latencies(mix)),
    ("Clients", "the clients\u{2019} requests add up to those of the mix", |_, mix| client_sum(mix)),
];

/// One check of one mix, or of the workload, for readers outside of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditOutcome {
    /// The check.
    pub check: &'static str,
    /// What was checked.
    pub subject: String,
    /// Whether it holds; absent: the figures for it were not measured.
    pub holds: Option<bool>,
    /// The sum, with its figures.
    pub sum: String,
}

/// Every check of a result.
pub fn audit_outcomes(result: &ResultFile) -> Vec<AuditOutcome> {
    let of_workload = workload(&result.suite).into_iter().map(|(check, _, finding)| AuditOutcome {
        check,
        subject: "workload".to_owned(),
        holds: finding.holds,
        sum: finding.sum,
    });
    let mixes = result.systems.iter().flat_map(|system| system.mixes.iter().map(move |mix| (system, mix)));
    let of_mixes = mixes.flat_map(|(system, mix)| {
        MIX_CHECKS.map(|(check, _, carry_out)| {
            let finding = carry_out(&result.suite, mix);
            let subject = format!("{}, {}", system.title, words::load(mix));
            AuditOutcome { check, subject, holds: finding.holds, sum: finding.sum }
        })
    });
    of_workload.chain(of_mixes).collect()
}

/// The checks of the workload's definition.
pub(crate) fn workload(suite: &SuiteRecord) -> Vec<(&'static str, &'static str, Finding)> {
    if suite.classes.is_empty() {
        return Vec::new();
    }
    let weights: f64 = suite.classes.iter().map(|class| class.weight_percent).sum();
    let mean: f64 = suite.classes.iter().map(|class| class.weight_percent / 100.0 * class.mean_bytes()).sum();
    let tree: f64 = suite.classes.iter().map(ClassRecord::tree_bytes).sum();
    vec![
        (
            "Weights",
            "the classes\u{2019} weights add up to 100 %",
            equal(weights, 100.0, 1e-9, format!("{}\u{a0}%", plain(weights))),
        ),
        (
            "Mean of the workload",
            "the weighted mean of the classes is the stated one",
            equal(
                mean,
                suite.mean_body_bytes,
                1e-6,
                format!(
                    "{} against {} bytes",
                    number::grouped(mean, 2),
                    number::grouped(suite.mean_body_bytes, 2)
                ),
            ),
        ),
        (
            "Tree",
            "the classes\u{2019} files have the stated bytes together",
            equal(
                tree,
                suite.tree_bytes as f64,
                1e-9,
                format!("{} against {} bytes", number::grouped(tree, 0), number::count(suite.tree_bytes)),
            ),
        ),
    ]
}

pub(crate) fn little_clients(suite: &SuiteRecord, mix: &MixResult) -> f64 {
    mix.requests_per_second * (mix.latency.mean_us / 1e6 + suite.think_s_per_request(mix))
}

fn little(suite: &SuiteRecord, mix: &MixResult) -> Finding {
    // In an open load clients wait for due requests.
    if mix.clients == 0 || mix.requests == 0 || mix.arrivals.is_some() {
        return absent();
    }
    let by_law = little_clients(suite, mix);
    equal(
        by_law,
        mix.clients as f64,
        suite.littles_law_tolerance(mix),
        format!(
            "{} against {} ({}\u{a0}%)",
            number::grouped(by_law, 2),
            words::load(mix),
            number::grouped((by_law / mix.clients as f64 - 1.0) * 100.0, 2)
        ),
    )
}

fn arrivals(suite: &SuiteRecord, mix: &MixResult) -> Finding {
    let Some(arrivals) = mix.arrivals.as_ref().filter(|_| mix.complete) else { return absent() };
    let (due, expected) = (arrivals.due as f64, arrivals.per_second * mix.window_s);
    // The next request of a page or session is due when the previous answer has arrived.
    let follows = suite.classes.iter().any(|class| class.page_requests > 1);
    let tolerance = arrivals.tolerance(mix.window_s);
    let as_many = due >= expected - tolerance && (follows || due <= expected + tolerance);
    let in_order = mix.latency.count <= arrivals.started && arrivals.started <= arrivals.due;
    Finding {
        holds: Some(as_many && in_order),
        off_by: if expected > 0.0 { (due / expected - 1.0).abs() } else { 0.0 },
        sum: format!(
            "{} due against {}, {} started, {} answered",
            number::count(arrivals.due),
            number::grouped(expected, 0),
            number::count(arrivals.started),
            number::count(mix.latency.count)
        ),
    }
}

fn rate(mix: &MixResult) -> Finding {
    if mix.window_s <= 0.0 {
        return absent();
    }
    let again = mix.requests as f64 / mix.window_s;
    equal(
        mix.requests_per_second,
        again,
        SAME,
        format!("{} against {}", number::rate(mix.requests_per_second), number::rate(again)),
    )
}

fn units(mix: &MixResult) -> Finding {
    let again = mix.bytes_per_second * 8.0 / 1e6;
    equal(
        mix.megabits_per_second,
        again,
        SAME,
        format!("{} against {}", number::grouped(mix.megabits_per_second, 2), number::grouped(again, 2)),
    )
}

fn bytes(mix: &MixResult) -> Finding {
    if mix.requests_per_second <= 0.0 {
        return absent();
    }
    let each = mix.bytes_per_second / mix.requests_per_second;
    let head = each - mix.mean_body_bytes;
    Finding {
        holds: Some((0.0..=HEAD_BYTES_MAX + frame_bytes(mix)).contains(&head)),
        off_by: head.abs(),
        sum: format!(
            "{} bytes an answer, {} of them body, {} head",
            number::grouped(each, 0),
            number::grouped(mix.mean_body_bytes, 0),
            number::grouped(head, 0)
        ),
    }
}

/// What the frames of WebSockets and of gRPC add to the bytes of an answer at most: 14 bytes for each message
/// (RFC 6455, section 5.2), and as many frames of control.
fn frame_bytes(mix: &MixResult) -> f64 {
    const FRAME_BYTES: f64 = 2.0 * 14.0;
    let each = |count: u64| count as f64 / mix.requests.max(1) as f64 * FRAME_BYTES;
    mix.messages.as_ref().map_or(0.0, |messages| each(messages.total))
}

fn mean_body(suite: &SuiteRecord, mix: &MixResult) -> Finding {
    if suite.classes.is_empty() || mix.requests == 0 || suite.classes.iter().any(|class| class.body_varies) {
        return absent();
    }
    let mean = suite.mean_body_bytes;
    let square: f64 =
        suite.classes.iter().map(|class| class.weight_percent / 100.0 * class.variance_around(mean)).sum();
    let error = (square / mix.requests as f64).sqrt();
    let off = (mix.mean_body_bytes - mean).abs();
    Finding {
        // The last part allows for the rounding of a workload that has a single size.
        holds: Some(off <= STANDARD_ERRORS * error + unfinished_sessions(suite, mix) + 0.5),
        off_by: if error > 0.0 { off / error } else { off },
        sum: format!(
            "{} against {} bytes",
            number::grouped(mix.mean_body_bytes, 1),
            number::grouped(mean, 1)
        ),
    }
}

/// How much the window's edges may change the mean body: at each edge every client is at some point of a
/// session, so that its larger answers may be inside the window and its smaller ones outside. 0 for clients
/// without think time.
fn unfinished_sessions(suite: &SuiteRecord, mix: &MixResult) -> f64 {
    let of_class = |class: &ClassRecord| {
        let stddev = class.sizes.as_ref().map_or(0.0, |sizes| sizes.stddev_bytes);
        class.weight_percent / 100.0 * class.page_requests as f64 / 2.0 * stddev
    };
    let sessions = suite.classes.iter().filter(|class| class.session_think_s > 0.0);
    2.0 * mix.clients as f64 * sessions.map(of_class).sum::<f64>() / mix.requests as f64
}

fn percentiles(latency: &LatencyRecord) -> Finding {
    if latency.count == 0 {
        return absent();
    }
    let ladder = [
        latency.min_us,
        latency.p50_us,
        latency.p90_us,
        latency.p95_us,
        latency.p99_us,
        latency.p999_us,
        latency.max_us,
    ];
    let rises = ladder.windows(2).all(|pair| pair[0] <= pair[1])
        && latency.curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1)
        && ladder.iter().all(|value| value.is_finite());
    Finding {
        holds: Some(rises),
        off_by: if rises { 0.0 } else { 1.0 },
        sum: format!("{} to {}", number::latency(latency.min_us), number::latency(latency.max_us)),
    }
}

fn latencies(mix: &MixResult) -> Finding {
    // For an open load they count the requests that were due in the window, whenever the answer arrived.
    if mix.arrivals.is_some() {
        return absent();
    }
    equal(
        mix.latency.count as f64,
        mix.requests as f64,
        0.0,
        format!("{} latencies, {} requests", number::count(mix.latency.count), number::count(mix.requests)),
    )
}

fn client_sum(mix: &MixResult) -> Finding {
    if mix.client_rows.is_empty() {
        return absent();
    }
    let sum = mix.client_rows.iter().map(|row| row.requests).fold(0, u64::saturating_add);
    let mut finding = equal(
        sum as f64,
        mix.requests as f64,
        0.0,
        format!("{} against {} requests", number::count(sum), number::count(mix.requests)),
    );
    if mix.client_rows.len() as u64 != mix.clients {
        finding.holds = Some(false);
        finding.off_by = 1.0;
        finding.sum = format!("{} rows for {}", mix.client_rows.len(), words::clients(mix.clients));
    }
    finding
}

fn equal(value: f64, expected: f64, tolerance: f64, sum: String) -> Finding {
    let off = (value - expected).abs();
    let off_by = if expected.abs() > 0.0 { off / expected.abs() } else { off };
    // Written so that NaN does not hold.
    Finding { holds: Some(off_by <= tolerance + 1e-12), off_by, sum }
}

fn absent() -> Finding {
    Finding { holds: None, off_by: 0.0, sum: String::new() }
}

fn plain(value: f64) -> String {
    if value.fract() == 0.0 { number::grouped(value, 0) } else { number::grouped(value, 6) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture;

    fn outcomes(change: impl Fn(&mut MixResult)) -> Vec<Option<bool>> {
        let result = fixture::full();
        let mut mix = result.systems[0].mixes[3].clone();
        change(&mut mix);
        MIX_CHECKS.iter().map(|(_, _, check)| check(&result.suite, &mix).holds).collect()
    }

    #[test]
    fn a_true_result_passes() {
        let mut expected = [Some(true); 9];
        expected[1] = None;
        assert_eq!(outcomes(|_| ()), expected);
        let result = fixture::full();
        assert!(workload(&result.suite).iter().all(|(_, _, finding)| finding.holds == Some(true)));
    }

    #[test]
    fn every_check_can_fail() {
        let changes: [&dyn Fn(&mut MixResult); 9] = [
            &|mix| mix.latency.mean_us *= 1.05,
            &|mix| {
                mix.arrivals = touchstone_lab::sample::open_mix(1_000.0, 1.0, 1.0).arrivals;
                mix.arrivals.iter_mut().for_each(|arrivals| arrivals.due = 0);
            },
            &|mix| mix.window_s *= 1.02,
            &|mix| mix.megabits_per_second *= 1.02,
            &|mix| mix.mean_body_bytes = mix.bytes_per_second / mix.requests_per_second + 1.0,
            &|mix| mix.mean_body_bytes *= 0.9,
            &|mix| mix.latency.p99_us = mix.latency.p95_us - 1.0,
            &|mix| mix.latency.count += 1,
            &|mix| mix.client_rows[0].requests += 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            assert_eq!(outcomes(change)[number], Some(false), "{}", MIX_CHECKS[number].0);
        }
        assert_eq!(outcomes(|mix| mix.latency.mean_us = f64::NAN)[0], Some(false));
    }

    #[test]
    fn an_open_load_is_checked_by_its_arrivals() {
        let result = touchstone_lab::sample::open();
        let outcomes = audit_outcomes(&result);
        let outcomes_of = |check: &str| -> Vec<Option<bool>> {
            outcomes.iter().filter(|it| it.check == check).map(|it| it.holds).collect()
        };
        assert_eq!(outcomes_of("Arrivals"), [Some(true); 6], "{outcomes:#?}");
        assert_eq!(
            (outcomes_of("Little\u{2019}s law"), outcomes_of("Latencies")),
            (vec![None; 6], vec![None; 6])
        );
        let mut mix = result.systems[0].mixes[0].clone();
        let holds = |mix: &MixResult| arrivals(&result.suite, mix).holds;
        mix.arrivals.as_mut().unwrap().started = mix.latency.count - 1;
        assert_eq!(holds(&mix), Some(false), "answered and not started");
        mix.arrivals.as_mut().unwrap().due = 4_000;
        assert_eq!(holds(&mix), Some(false), "too few were due");
    }

    #[test]
    fn think_time_belongs_to_littles_law() {
        let outcome = outcomes(|mix| {
            mix.think_time_s = mix.latency.mean_us / 1e6;
            mix.clients *= 2;
        });
        assert_eq!(outcome[0], Some(true));
    }

    #[test]
    fn pages_have_no_think_times_and_sessions_have_their_own() {
        let result = fixture::full();
        let mut mix = result.systems[0].mixes[3].clone();
        let mut suite = result.suite;
        // One class of four requests; its client thinks for a second between choices.
        suite.classes.truncate(1);
        (suite.classes[0].weight_percent, suite.classes[0].page_requests) = (100.0, 4);
        mix.think_time_s = 1.0;
        let clients =
            |suite: &SuiteRecord, mix: &MixResult| little_clients(suite, mix) / mix.requests_per_second;
        let latency_s = mix.latency.mean_us / 1e6;
        assert!((clients(&suite, &mix) - (latency_s + 0.25)).abs() < 1e-9);
        suite.classes[0].session_think_s = 7.0;
        assert!((clients(&suite, &mix) - (latency_s + 2.0)).abs() < 1e-9);
        mix.latency.max_us = 0.0;
        // 2,500 sessions of 8 s: chance changes their number by at most 4 / 50.
        (mix.requests, mix.clients) = (10_000, 100);
        let tolerance = suite.littles_law_tolerance(&mix);
        assert!((tolerance - 0.03 - 0.08).abs() < 0.001, "{tolerance}");
        mix.requests_per_second = 109.0 / (latency_s + 2.0);
        assert_eq!(little(&suite, &mix).holds, Some(true));
        mix.requests_per_second = 113.0 / (latency_s + 2.0);
        assert_eq!(little(&suite, &mix).holds, Some(false));
        // Without think times there is no random variation.
        (mix.think_time_s, suite.classes[0].session_think_s) = (0.0, 0.0);
        assert_eq!(suite.littles_law_tolerance(&mix), 0.03);
    }

    #[test]
    fn a_stall_at_the_edge_of_the_window_is_no_fault_of_the_figures() {
        let result = fixture::full();
        let (suite, mut mix) = (result.suite, result.systems[0].mixes[3].clone());
        (mix.think_time_s, mix.clients, mix.window_s, mix.latency.mean_us) = (0.0, 8, 1.4, 1000.0);
        let mut holds = |max_us: f64, clients_by_law: f64| {
            mix.latency.max_us = max_us;
            mix.requests_per_second = clients_by_law * 1000.0;
            little(&suite, &mix).holds
        };
        // The law may be off by 3 % and by 304 ms of 1.4 s: 1.98 of 8 clients.
        assert_eq!(holds(304_000.0, 9.9), Some(true));
        assert_eq!(holds(304_000.0, 10.1), Some(false));
        assert_eq!(holds(1_500.0, 9.9), Some(false));
    }

    #[test]
    fn sessions_that_are_cut_off_may_move_the_mean() {
        let result = fixture::full();
        let (mut suite, mut mix) = (result.suite, result.systems[0].mixes[3].clone());
        suite.classes.truncate(1);
        let class = &mut suite.classes[0];
        (class.weight_percent, class.page_requests) = (100.0, 10);
        class.sizes = Some(touchstone_lab::result::SizeRecord {
            smallest_bytes: 100,
            largest_bytes: 9_900,
            mean_bytes: 5_000.0,
            stddev_bytes: 3_000.0,
            tree_bytes: 50_000,
        });
        suite.mean_body_bytes = 5_000.0;
        (mix.requests, mix.clients, mix.mean_body_bytes) = (1_000, 10, 5_100.0);
        assert_eq!(mean_body(&suite, &mix).holds, Some(false));
        suite.classes[0].session_think_s = 60.0;
        assert_eq!(mean_body(&suite, &mix).holds, Some(true));
        mix.mean_body_bytes = 6_000.0;
        assert_eq!(mean_body(&suite, &mix).holds, Some(false));
    }
}
