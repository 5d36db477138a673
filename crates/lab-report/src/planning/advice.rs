//! What to change first, and the gain: the bottleneck's own remedy, a faster machine, and the accelerator.
//!
//! Every gain is a bound or a model's figure and states which. A change whose gain cannot be computed from
//! the result is proposed without a number.

use super::Assumptions;
use super::mva::{self, Outcome};
use serde::Serialize;
use touchstone_lab::acceleration;
use touchstone_lab::bottleneck::{Bottleneck, Verdict};
use touchstone_lab::figures::{rate, significant};
use touchstone_lab::recording::Usage;
use touchstone_lab::result::{MixResult, ResultFile, SystemResult};

/// A change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What to do.
    pub change: String,
    /// The gain, and how it is known.
    pub gives: String,
    /// The requests a second that it would allow at most; absent if it cannot be computed.
    pub rate: Option<f64>,
}

/// The hit rates of the accelerator's cache, as rows of the advice.
pub const HIT_SHARES: [f64; 3] = [0.5, 0.8, 0.95];

/// The input of the advice.
pub(super) struct Situation<'a> {
    pub(super) result: &'a ResultFile,
    pub(super) system: &'a SystemResult,
    pub(super) peak: &'a MixResult,
    pub(super) bottleneck: &'a Bottleneck,
    pub(super) usage: Option<&'a Usage>,
    pub(super) mva: &'a Outcome,
    pub(super) assumed: &'a Assumptions,
}

/// All advice, the bottleneck's own first.
pub(super) fn for_situation(situation: &Situation<'_>) -> Vec<Advice> {
    let mut advice = remedy(situation);
    advice.extend(accelerator(situation));
    advice
}

fn change(change: &str, gives: String, rate: Option<f64>) -> Advice {
    Advice { change: change.to_owned(), gives, rate }
}

fn to_try(words: &str) -> Vec<Advice> {
    vec![change(words, "cannot be computed from this result; measure again afterwards".to_owned(), None)]
}

fn remedy(situation: &Situation<'_>) -> Vec<Advice> {
    match situation.bottleneck.verdict {
        Verdict::ServerCpu => processors(situation),
        Verdict::SingleCore => vec![more_workers(situation)],
        Verdict::Softirq => to_try(
            "spread interrupts over the processors: more receive queues of the network card, or receive \
             packet steering (/sys/class/net/DEVICE/queues/rx-*/rps_cpus)",
        ),
        Verdict::Nic => vec![link(situation)],
        Verdict::Disk => to_try(
            "keep what is asked for in memory: a larger file cache, or memory for the page cache; or a \
             faster disk",
        ),
        Verdict::Memory => to_try("more memory, or fewer or smaller processes"),
        Verdict::AcceptQueue => to_try(
            "a longer accept queue: the server\u{2019}s backlog, and net.core.somaxconn, which bounds it; \
             kept connections need it less",
        ),
        Verdict::LocksOrOther => to_try(
            "find what is waited for: the server\u{2019}s worker and connection limits, its upstreams, locks \
             (perf trace, off-CPU profile)",
        ),
        Verdict::Generator => {
            to_try("more processors or machines for the load engine; until then the peak is a lower bound")
        }
        Verdict::EngineDisturbed => to_try(
            "give the load engine a processor of its own: end the other work on its machine, or use \
             another one; until then the peak is a lower bound",
        ),
        Verdict::Undetermined => {
            to_try("measure with more clients, and with the monitor on the server\u{2019}s machine")
        }
    }
}

/// The limits that a result cannot show before they are reached: every rate beyond the measured ones has this
/// condition.
fn unless_hidden(situation: &Situation<'_>) -> String {
    format!(
        "; a limit above {} requests at a time would change that and shows only when it is reached: workers, \
         threads, a pool of connections to a database or an upstream, a lock, the network",
        touchstone_lab::figures::count(situation.peak.clients)
    )
}

/// Twice the processors, by the model if it is identified, otherwise by the utilisation law.
fn processors(situation: &Situation<'_>) -> Vec<Advice> {
    let what = "twice the processors, or a program that needs half of their time";
    let clients = u32::try_from(situation.peak.clients).unwrap_or(u32::MAX);
    if let Outcome::Identified(model) = situation.mva {
        let faster = |station: &mva::Station| mva::Station {
            servers: station.servers.saturating_mul(2),
            ..station.clone()
        };
        let stations: Vec<mva::Station> = model.stations.iter().map(faster).collect();
        // With more clients, a faster server could be used up as well.
        let twice = mva::curve(&stations, model.delay_s, model.think_s, clients.saturating_mul(2));
        let found = twice.last().map(|point| point.rate);
        let gives = found.map(|found| {
            format!(
                "{} requests/s with {} clients, by the model of queues{}",
                rate(found),
                clients.saturating_mul(2),
                unless_hidden(situation)
            )
        });
        return vec![change(what, gives.unwrap_or_default(), found)];
    }
    let most = 2.0 * situation.peak.requests_per_second;
    let gives = format!("at most {} requests/s{}", rate(most), unless_hidden(situation));
    vec![change(what, gives, Some(most))]
}

fn more_workers(situation: &Situation<'_>) -> Advice {
    let cpus = situation
        .system
        .cpus
        .len()
        .max(situation.peak.machine.as_ref().map_or(1, |machine| machine.cpus.len()));
    let most = situation.peak.requests_per_second * cpus as f64;
    change(
        "as many workers as processors, and connections shared evenly among them (SO_REUSEPORT)",
        format!(
            "at most {} requests/s: {cpus} times, if the work divides{}",
            rate(most),
            unless_hidden(situation)
        ),
        Some(most),
    )
}

fn link(situation: &Situation<'_>) -> Advice {
    let mix = situation.peak;
    let each = mix.bytes_per_second / mix.requests_per_second.max(f64::MIN_POSITIVE);
    let speed = situation.usage.and_then(|usage| {
        let sent =
            usage.links.iter().map(|link| link.sent_bytes_per_second.max(link.received_bytes_per_second));
        sent.reduce(f64::max)
    });
    let most = speed.map(|bytes_per_second| 10.0 * bytes_per_second / each.max(1.0));
    let gives = format!(
        "an answer takes {} bytes of the link; compression by a third gives up to 1.5 times the rate{}",
        significant(each),
        most.map(|most| format!(", a link of ten times the speed at most {} requests/s", rate(most)))
            .unwrap_or_default()
    );
    change("smaller answers (compression, better formats), or a faster link", gives, most)
}

/// The accelerator's processor time for a hit: as stated, as measured in this result, or not known.
fn accelerator_us(situation: &Situation<'_>) -> Option<(f64, String)> {
    if let Some(us) = situation.assumed.accelerator_us {
        return Some((us, "as you said".to_owned()));
    }
    let of_accelerator = acceleration::from_result(situation.result).into_iter().find_map(|it| {
        let peak = touchstone_lab::peaks::peak(it.accelerated)?;
        let with_origin = peak.server.as_ref()?.cpu_us_per_request;
        Some(with_origin - it.origin_at_peak()?.cpu_us_per_request).filter(|us| *us > 0.0)
    });
    if let Some(us) = of_accelerator {
        return Some((us, "as the accelerator does here".to_owned()));
    }
    let cost = |system: &SystemResult| {
        let alike = system.mixes.iter().filter(|mix| mix.interface == situation.peak.interface);
        let peak = touchstone_lab::peaks::peak_of(alike)?;
        peak.server.as_ref().map(|server| server.cpu_us_per_request).filter(|us| *us > 0.0)
    };
    let ours = situation.result.systems.iter().filter(|system| system.name == "touchstone").find_map(cost);
    // A system is not its own accelerator.
    ours.filter(|_| situation.system.name != "touchstone")
        .map(|us| (us, "as touchstone does here".to_owned()))
}

/// The measured gain of the accelerators in this result that are in front of the system.
fn measured_accelerators(situation: &Situation<'_>) -> Vec<Advice> {
    let before = |it: &acceleration::Acceleration<'_>| {
        it.alone.is_some_and(|alone| std::ptr::eq(alone, situation.system))
    };
    let row = |it: acceleration::Acceleration<'_>| {
        let (factors, peak) = (it.factors()?, touchstone_lab::peaks::peak(it.accelerated)?);
        let most = peak.requests_per_second;
        let gives =
            format!("{} times, {} requests/s, measured in this run", significant(factors.rate), rate(most));
        Some(change(&format!("{} in front", it.accelerated.title), gives, Some(most)))
    };
    acceleration::from_result(situation.result).into_iter().filter(before).filter_map(row).collect()
}

/// The accelerator on the same processors: a hit costs its own time, a miss that and the system's.
fn accelerator(situation: &Situation<'_>) -> Vec<Advice> {
    // In front of an accelerator another one has no effect.
    if situation.system.origin.is_some() {
        return Vec::new();
    }
    let measured = measured_accelerators(situation);
    if !measured.is_empty() {
        return measured;
    }
    let limited_by_work = matches!(
        situation.bottleneck.verdict,
        Verdict::ServerCpu | Verdict::SingleCore | Verdict::Disk | Verdict::LocksOrOther | Verdict::Memory
    );
    let own = situation.peak.server.as_ref().map(|server| server.cpu_us_per_request).filter(|us| *us > 0.0);
    let Some(own_us) = own.filter(|_| limited_by_work) else { return Vec::new() };
    let known = accelerator_us(situation);
    let row = |hits: f64| {
        let percent = hits * 100.0;
        let what = format!("the accelerator in front, with {percent:.0} % of the answers from its cache");
        let (factor, how) = match &known {
            Some((us, how)) => (
                own_us / (us + (1.0 - hits) * own_us),
                format!(
                    "with {} µs of processor time an answer, {how}, on the same processors",
                    significant(*us)
                ),
            ),
            None => (
                1.0 / (1.0 - hits),
                "at most: if the accelerator cost nothing (name its cost with --accelerator-us)".to_owned(),
            ),
        };
        let most = situation.peak.requests_per_second * factor;
        let gives = format!("{} times, {} requests/s, {how}", significant(factor), rate(most));
        change(&what, gives, Some(most))
    };
    HIT_SHARES.map(row).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::plan;

    fn advice_of(assumed: Assumptions, system: &str) -> Vec<Advice> {
        let plans = plan(&touchstone_lab::sample::result(), &[], &assumed);
        plans.into_iter().find(|plan| plan.system.starts_with(system)).unwrap().advice
    }

    #[test]
    fn the_accelerator_is_reckoned_with_its_own_cost() {
        // nginx spends 24 µs here, touchstone 16: at 80 % hits 24 / (16 + 0.2 x 24) = 1.154.
        let advice = advice_of(Assumptions::default(), "nginx");
        let row = advice.iter().find(|it| it.change.contains("80 %")).unwrap();
        assert!((row.rate.unwrap() / 40_000.0 - 24.0 / 20.8).abs() < 1e-9, "{row:?}");
        assert!(row.gives.contains("as touchstone does here"), "{row:?}");
        let advice = advice_of(Assumptions { accelerator_us: Some(2.4), ..Assumptions::default() }, "nginx");
        let row = advice.iter().find(|it| it.change.contains("95 %")).unwrap();
        assert!((row.rate.unwrap() / 40_000.0 - 24.0 / 3.6).abs() < 1e-9, "{row:?}");
        let own = advice_of(Assumptions::default(), "touchstone");
        let row = own.iter().find(|it| it.change.contains("50 %")).unwrap();
        assert!(
            row.gives.contains("at most") && (row.rate.unwrap() / 60_000.0 - 2.0).abs() < 1e-9,
            "{row:?}"
        );
    }

    #[test]
    fn an_accelerator_that_was_measured_says_what_it_gave() {
        let result = touchstone_lab::sample::accelerated();
        let plans = plan(&result, &[], &Assumptions::default());
        let before = plans[0].advice.iter().find(|it| it.change == "accelerator 1.0 in front").unwrap();
        assert!(before.gives.starts_with("6.50 times, 390,000 requests/s, measured"), "{before:?}");
        assert!(plans[1].advice.iter().all(|it| !it.change.contains("accelerator")));
    }

    #[test]
    fn the_bottlenecks_own_remedy_comes_first() {
        let advice = advice_of(Assumptions::default(), "touchstone");
        assert!(advice[0].change.contains("twice the processors"), "{advice:?}");
        let gives = &advice[0].gives;
        assert!(gives.contains("a limit above 16 requests at a time would change that"), "{gives}");
    }
}
