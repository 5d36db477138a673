//! Whether the load engine and not the server set the figures of a run.
//!
//! Each second is checked for signs that the engine, or its machine, was at its limit. A run in which a sign
//! shows in more than one second of a hundred is tainted: its rate is a lower bound, and its latencies hold
//! some of the engine's.

use serde::{Deserialize, Serialize};

/// A sign counts when it shows in more than this share of the seconds.
pub const SHARE_MAX: f64 = 0.01;
/// Sending may be late by this at its 99th percentile.
pub const LATENESS_MAX_US: f64 = 1000.0;
/// Or by this share of the median latency; the larger limit applies.
pub const LATENESS_SHARE_MAX: f64 = 0.05;
/// A thread of the engine may be this busy.
pub const BUSY_MAX: f64 = 0.80;
/// The least share of the planned requests that must be sent while the server does not fail.
pub const SENT_MIN: f64 = 0.99;
/// Softirq of the engine's processors, or use of its network link, at most.
pub const MACHINE_MAX: f64 = 0.80;
/// Local ports in use, at most.
pub const PORTS_MAX: f64 = 0.80;
/// Share of time for which some task of the engine's machine waited for a processor, at most.
pub const PRESSURE_MAX: f64 = 0.10;

/// One second of the load engine; figures that were not measured are absent and give no sign.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EngineSecond {
    /// How late requests left, 99th percentile, microseconds (with an arrival rate only).
    pub lateness_p99_us: Option<f64>,
    /// The server's median latency, microseconds.
    pub latency_p50_us: Option<f64>,
    /// The busiest thread's share of a processor.
    pub busiest_thread: Option<f64>,
    /// Requests that were sent, of those planned (with an arrival rate only).
    pub sent_share: Option<f64>,
    /// Whether requests failed in this second: then sending less is the server's fault.
    pub failing: bool,
    /// The largest softirq share of the engine's processors.
    pub softirq: Option<f64>,
    /// Use of the engine's network link.
    pub link: Option<f64>,
    /// The share of the local ports in use.
    pub ports: Option<f64>,
    /// Segments sent again, or connections dropped from a full queue, on the engine's machine.
    pub network_errors: Option<u64>,
    /// Share of the second for which some task waited for a processor. Of a machine that the server shares it
    /// is no sign, and absent.
    pub pressure: Option<f64>,
    /// How long the engine did not run at all, if this second is part of such a pause, seconds.
    pub stood_still_s: Option<f64>,
}

/// A sign that showed too often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sign {
    /// What it is, in words.
    pub what: String,
    /// In which share of the seconds.
    pub seconds_share: f64,
    /// Its worst figure.
    pub worst: f64,
    /// What it may be at most (of the sent share: at least).
    pub limit: f64,
}

/// The text of a sign, its limit, and its figure in one second if it is over the limit.
type Rule = (&'static str, f64, fn(&EngineSecond) -> Option<f64>);

/// The sign of an engine that did not run at all for a while.
pub const STOOD_STILL: &str = "the load engine stood still (seconds)";

const RULES: [Rule; 9] = [
    (STOOD_STILL, 0.0, |second| over(second.stood_still_s, 0.0)),
    ("requests left late (99th percentile, microseconds)", LATENESS_MAX_US, late),
    ("a thread of the load engine was busy", BUSY_MAX, |second| over(second.busiest_thread, BUSY_MAX)),
    ("fewer requests were sent than planned", SENT_MIN, unsent),
    ("softirqs filled a processor of the load engine", MACHINE_MAX, |second| {
        over(second.softirq, MACHINE_MAX)
    }),
    ("the load engine\u{2019}s network link was full", MACHINE_MAX, |second| over(second.link, MACHINE_MAX)),
    ("local ports ran out", PORTS_MAX, |second| over(second.ports, PORTS_MAX)),
    ("the load engine\u{2019}s machine sent segments again or dropped connections", 0.0, network_errors),
    ("tasks of the load engine\u{2019}s machine waited for a processor", PRESSURE_MAX, |second| {
        over(second.pressure, PRESSURE_MAX)
    }),
];

/// The signs of a run; empty: it is not tainted.
pub fn signs(seconds: &[EngineSecond]) -> Vec<Sign> {
    let found = |(what, limit, rule): Rule| {
        let figures: Vec<f64> = seconds.iter().filter_map(rule).collect();
        let worse = |left: f64, right: f64| if limit == SENT_MIN { left.min(right) } else { left.max(right) };
        let worst = figures.iter().copied().reduce(worse)?;
        let seconds_share = figures.len() as f64 / seconds.len() as f64;
        (seconds_share > SHARE_MAX).then(|| Sign { what: what.to_owned(), seconds_share, worst, limit })
    };
    RULES.into_iter().filter_map(found).collect()
}

fn over(figure: Option<f64>, limit: f64) -> Option<f64> {
    figure.filter(|figure| *figure > limit)
}

fn late(second: &EngineSecond) -> Option<f64> {
    let allowed =
        second.latency_p50_us.map_or(0.0, |median| median * LATENESS_SHARE_MAX).max(LATENESS_MAX_US);
    over(second.lateness_p99_us, allowed)
}

fn unsent(second: &EngineSecond) -> Option<f64> {
    second.sent_share.filter(|share| *share < SENT_MIN && !second.failing)
}

fn network_errors(second: &EngineSecond) -> Option<f64> {
    second.network_errors.filter(|errors| *errors > 0).map(|errors| errors as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 200 seconds, of which the first `bad` are as given.
    fn seconds(bad: usize, second: EngineSecond) -> Vec<EngineSecond> {
        let good =
            EngineSecond { busiest_thread: Some(0.5), sent_share: Some(1.0), ..EngineSecond::default() };
        (0..200).map(|index| if index < bad { second } else { good }).collect()
    }

    #[test]
    fn each_sign_taints_in_more_than_one_second_of_a_hundred_and_not_in_fewer() {
        let none = EngineSecond::default();
        let cases = [
            EngineSecond { lateness_p99_us: Some(1500.0), latency_p50_us: Some(900.0), ..none },
            EngineSecond { busiest_thread: Some(0.95), ..none },
            EngineSecond { sent_share: Some(0.9), ..none },
            EngineSecond { softirq: Some(0.9), ..none },
            EngineSecond { link: Some(0.95), ..none },
            EngineSecond { ports: Some(0.99), ..none },
            EngineSecond { network_errors: Some(3), ..none },
            EngineSecond { pressure: Some(0.5), ..none },
            EngineSecond { stood_still_s: Some(9.0), ..none },
        ];
        for second in cases {
            assert_eq!(signs(&seconds(3, second)).len(), 1, "{second:?}");
            assert_eq!(signs(&seconds(2, second)), [], "{second:?}");
        }
        assert_eq!(signs(&[]), []);
    }

    #[test]
    fn what_is_the_servers_fault_is_no_sign() {
        let none = EngineSecond::default();
        let failing = EngineSecond { sent_share: Some(0.5), failing: true, ..none };
        assert_eq!(signs(&seconds(100, failing)), []);
        // Of a server that takes 100 ms, 1.5 ms of lateness is not to be seen.
        let slow = EngineSecond { lateness_p99_us: Some(1500.0), latency_p50_us: Some(100_000.0), ..none };
        assert_eq!(signs(&seconds(100, slow)), []);
        let worst = &signs(&seconds(100, EngineSecond { sent_share: Some(0.7), ..none }))[0];
        assert_eq!((worst.worst, worst.seconds_share), (0.7, 0.5));
    }

    proptest! {
        #[test]
        fn more_bad_seconds_never_clear_a_run(bad in 0usize..199, busy in 0.0f64..1.0) {
            let second = EngineSecond { busiest_thread: Some(busy), ..EngineSecond::default() };
            prop_assert!(signs(&seconds(bad, second)).len() <= signs(&seconds(bad + 1, second)).len());
        }
    }
}
