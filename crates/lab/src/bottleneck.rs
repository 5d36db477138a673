//! What limited a system: a verdict with its evidence.
//!
//! The method is Gregg's (USE): a resource is the bottleneck when it is used up, or when work waits for it.
//! Every rule prints its figure and its limit, also if it does not apply, so that a reader can check it. A
//! figure that was not measured is shown as such and does not affect the outcome.

use crate::figures::{clients, percent, significant};
use crate::raw::RawMix;
use crate::recording::Usage;
use crate::result::{MixResult, SystemResult};
use crate::saturation::{
    self, EngineLimit, OTHER_WORK_CPUS, PROCESSORS_FULL as FULL, Processor, other_work_cpus,
    processors_were_full,
};
use crate::series::Series;
use serde::Serialize;

/// What it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The processors of the system under test, or its quota of them.
    ServerCpu,
    /// One processor of several, or one thread.
    SingleCore,
    /// Interrupts and softirqs on one processor.
    Softirq,
    /// A network link, or the rate that it is limited to.
    Nic,
    /// A disk.
    Disk,
    /// Memory.
    Memory,
    /// The queue of connections that wait to be accepted.
    AcceptQueue,
    /// No resource is full and the rate does not rise: work waits for locks, or for a resource that was not
    /// monitored.
    LocksOrOther,
    /// The load engine alone, by its own delays.
    Generator,
    /// The load engine, because other work used its processor.
    EngineDisturbed,
    /// It is not known.
    Undetermined,
}

impl Verdict {
    /// Its name, as `touchstone plan` prints it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::ServerCpu => "server-cpu",
            Verdict::SingleCore => "single-core",
            Verdict::Softirq => "softirq",
            Verdict::Nic => "nic",
            Verdict::Disk => "disk",
            Verdict::Memory => "memory",
            Verdict::AcceptQueue => "accept-queue",
            Verdict::LocksOrOther => "locks/other",
            Verdict::Generator => "generator",
            Verdict::EngineDisturbed => "engine-disturbed",
            Verdict::Undetermined => "undetermined",
        }
    }
}

/// The figure of a rule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// The bottleneck that it is evidence for.
    pub verdict: Verdict,
    /// The figure, in words.
    pub figure: String,
    /// Its limit.
    pub limit: String,
    /// Whether it is evidence for that bottleneck; absent: not measured.
    pub speaks: Option<bool>,
}

/// The verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// What it was.
    pub verdict: Verdict,
    /// Why, in a sentence.
    pub sentence: String,
    /// Every rule.
    pub evidence: Vec<Evidence>,
}

/// The sum of a server's processors is this low when one of them can be the only one that is full.
const ONE_OF_SEVERAL: f64 = 0.80;
/// A processor that is full and spends this share of its time in softirqs is full of them.
const SOFTIRQ: f64 = 0.60;
/// A quota that holds processes back for this share of the time decides the rate.
const THROTTLED: f64 = 0.10;
/// A link with this share of its speed used is full: frames and gaps take the rest.
const LINK: f64 = 0.90;
/// A queueing discipline that made packets wait this often a second, with waiting packets in half of the
/// snapshots.
const OVER_LIMITS: f64 = 50.0;
const QUEUE_WAITING: f64 = 0.5;
/// A disk that is busy for this share of the time.
const DISK_BUSY: f64 = 0.90;
/// Tasks waited for input and output for this share of the time, and one at least at any time.
const PRESSURE_IO: f64 = 0.40;
const BLOCKED: f64 = 0.5;
/// Memory: pages swapped a second, share of time that tasks waited for it, share that is left.
const SWAPPED: f64 = 100.0;
const PRESSURE_MEMORY: f64 = 0.10;
const MEMORY_LEFT: f64 = 0.02;
/// Connections that found the accept queue full, as a share of those accepted.
const OVERFLOWS: f64 = 0.001;
/// A server that uses less than this of its processors has room.
const ROOM: f64 = 0.80;

/// The data of the rules.
#[derive(Debug, Clone, Copy)]
pub struct MixObservations<'a> {
    /// The mix of the highest rate.
    pub mix: &'a MixResult,
    /// The monitor's data of it; absent where the result has no raw data.
    pub usage: Option<&'a Usage>,
    /// The processors of the system under test; empty: not pinned.
    pub cpus: &'a [usize],
    /// Whether twice as many clients raised the rate by no more than a tenth.
    pub flat: bool,
}

/// The bottleneck of a series at its peak, with the monitor's figures; if no rule applies there, at the
/// heaviest load, because a bottleneck that refuses clients may lower the rate before a figure shows it.
/// `None` for a series without answers; `raw` may be empty.
pub fn of_series(series: &Series<'_>, raw: &[RawMix]) -> Option<(Bottleneck, Option<Usage>)> {
    let peak = series.peak()?;
    let complete: Vec<&MixResult> =
        series.mixes.iter().copied().filter(|mix| mix.complete && mix.requests > 0).collect();
    let flat = is_flat(&complete, peak);
    let at = |mix: &MixResult| at_mix(series.system, mix, raw, flat);
    let found = at(peak);
    let heaviest = complete.iter().max_by_key(|mix| mix.clients).filter(|mix| !std::ptr::eq(**mix, peak));
    let unclear = |verdict| matches!(verdict, Verdict::LocksOrOther | Verdict::Undetermined);
    Some(match heaviest.filter(|_| unclear(found.0.verdict)).map(|mix| (mix, at(mix))) {
        Some((mix, (mut beyond, usage))) if !unclear(beyond.verdict) => {
            beyond.sentence = format!("Beyond the peak, with {}: {}", clients(mix.clients), beyond.sentence);
            (beyond, usage)
        }
        _ => found,
    })
}

fn at_mix(system: &SystemResult, mix: &MixResult, raw: &[RawMix], flat: bool) -> (Bottleneck, Option<Usage>) {
    let row = system.mixes.iter().position(|other| std::ptr::eq(other, mix));
    let of_mix = raw.iter().find(|raw| raw.system == system.name && Some(raw.row) == row);
    let usage = of_mix.and_then(|raw| raw.recording.usage());
    let observed = MixObservations { mix, usage: usage.as_ref(), cpus: &system.cpus, flat };
    (find(&observed), usage)
}

/// Whether at least twice as many clients raised the rate of a lighter load by at most a tenth.
fn is_flat(mixes: &[&MixResult], peak: &MixResult) -> bool {
    let near = mixes.iter().filter(|mix| mix.requests_per_second >= 0.9 * peak.requests_per_second);
    let lightest = near.clone().map(|mix| mix.clients).min();
    let heaviest = mixes.iter().map(|mix| mix.clients).max();
    lightest.zip(heaviest).is_some_and(|(lightest, heaviest)| heaviest >= 2 * lightest)
}

type Rule = fn(&MixObservations<'_>) -> Evidence;

/// The rules in the order in which they decide: resources that the kernel reports as exhausted; then the load
/// engine, whose limit makes the figures of processors meaningless; then the processors.
const RULES: [Rule; 11] = [
    accept_queue,
    memory,
    disk,
    link,
    queue,
    quota,
    generator,
    softirq,
    single_core,
    single_thread,
    processors,
];

/// Finds what limited the mix.
pub fn find(observed: &MixObservations<'_>) -> Bottleneck {
    let mut evidence: Vec<Evidence> = RULES.iter().map(|rule| rule(observed)).collect();
    let deciding = evidence.iter().find(|it| it.speaks == Some(true)).cloned();
    let room = room(observed);
    evidence.push(room.clone());
    let (verdict, sentence) = match deciding {
        Some(it) => (
            it.verdict,
            format!("{} ({}){}.", description(it.verdict), it.figure, engine_too(observed, it.verdict)),
        ),
        None if room.speaks == Some(true) => {
            (Verdict::LocksOrOther, format!("{} ({}).", description(Verdict::LocksOrOther), room.figure))
        }
        None => (Verdict::Undetermined, undetermined(observed)),
    };
    Bottleneck { verdict, sentence, evidence }
}

impl Bottleneck {
    /// The sentence as the end of one that names the system.
    pub fn clause(&self) -> String {
        let (first, rest) = self.sentence.split_at(self.sentence.chars().next().map_or(0, char::len_utf8));
        format!("{}{rest}", first.to_lowercase())
    }
}

fn description(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::ServerCpu => "The system\u{2019}s processors were used up",
        Verdict::SingleCore => "One processor was used up while others had room",
        Verdict::Softirq => "Interrupts and softirqs used up a processor",
        Verdict::Nic => "The network link was full",
        Verdict::Disk => "The disk was used up",
        Verdict::Memory => "Memory was used up",
        Verdict::AcceptQueue => "Connections found the accept queue full",
        Verdict::LocksOrOther => {
            "Nothing was used up, and more clients brought no more answers: work waited for a lock, or \
             for something that was not watched"
        }
        Verdict::Generator => "The load engine was at its own limit: the figures are a lower bound",
        Verdict::EngineDisturbed => "The load engine was disturbed: the figures are a lower bound",
        Verdict::Undetermined => "It cannot be told",
    }
}

fn undetermined(observed: &MixObservations<'_>) -> String {
    let why = match (observed.mix.server.is_some(), observed.flat) {
        (false, _) => "the system was not watched",
        (true, false) => {
            "nothing was used up, and the rate was still rising with the most clients that were tried"
        }
        (true, true) => "no rule speaks clearly",
    };
    let other = other_work_cpus(observed.mix).filter(|cpus| *cpus >= OTHER_WORK_CPUS);
    let other = other.map(|cpus| {
        format!(
            "; other work used {} processors of the machine, and without it the rate may be higher",
            significant(cpus)
        )
    });
    format!("{}: {why}{}.", description(Verdict::Undetermined), other.unwrap_or_default())
}

/// If a resource of the system decides, and the load engine had no time left either, the rate is still a
/// lower bound.
fn engine_too(observed: &MixObservations<'_>, verdict: Verdict) -> String {
    let of_engine = matches!(verdict, Verdict::Generator | Verdict::EngineDisturbed);
    match saturation::engine_limit(observed.cpus, observed.mix).filter(|_| !of_engine) {
        Some((limit, sign)) => {
            format!("; {}, too, so the figures are a lower bound ({sign})", limit.description())
        }
        None => String::new(),
    }
}

fn evidence(verdict: Verdict, limit: &str, found: Option<(bool, String)>) -> Evidence {
    let (speaks, figure) = match found {
        Some((speaks, figure)) => (Some(speaks), figure),
        None => (None, "not measured".to_owned()),
    };
    Evidence { verdict, figure, limit: limit.to_owned(), speaks }
}

fn server_share(observed: &MixObservations<'_>) -> Option<f64> {
    saturation::server_share(observed.cpus, observed.mix)
}

fn generator(observed: &MixObservations<'_>) -> Evidence {
    let limit = saturation::engine_limit(observed.cpus, observed.mix);
    let verdict = match limit {
        Some((EngineLimit::Disturbed, _)) => Verdict::EngineDisturbed,
        _ => Verdict::Generator,
    };
    let figure = match observed.mix.generator_saturated.as_deref() {
        Some(sign) => sign.trim_end_matches('.').to_owned(),
        None => {
            format!("its busiest thread used {} of a processor", percent(observed.mix.load.busiest_thread))
        }
    };
    evidence(
        verdict,
        "no sign of saturation, a thread below 70 % with its waits, or a server whose processors are full",
        Some((limit.is_some(), figure)),
    )
}

fn accept_queue(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.and_then(|usage| {
        let overflows = usage.listen_overflows?.max(usage.listen_drops.unwrap_or(0));
        let accepted = usage.accepted.unwrap_or(0);
        let speaks = overflows as f64 > (accepted as f64 * OVERFLOWS).max(1.0);
        Some((speaks, format!("{overflows} connections were turned away while {accepted} were accepted")))
    });
    evidence(Verdict::AcceptQueue, "1 of 1,000 accepted", found)
}

fn memory(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.and_then(|usage| {
        let left = usage.memory_available_min?;
        let swapped = usage.swapped_pages_per_second.unwrap_or(0.0);
        let pressure = usage.pressure[1].unwrap_or(0.0);
        let killed = usage.killed_for_memory.unwrap_or(0);
        let speaks = swapped > SWAPPED || pressure > PRESSURE_MEMORY || killed > 0 || left < MEMORY_LEFT;
        let figure = format!(
            "{} of memory was left, {} pages were swapped a second, tasks waited for memory {} of the time",
            percent(left),
            significant(swapped),
            percent(pressure)
        );
        Some((speaks, figure))
    });
    evidence(Verdict::Memory, "2 % left, 100 pages swapped a second, 10 % of the time", found)
}

fn disk(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.map(|usage| {
        let busiest = usage.disks.iter().reduce(|most, disk| if disk.busy > most.busy { disk } else { most });
        let pressure = usage.pressure[2].unwrap_or(0.0);
        let blocked = usage.blocked_mean.unwrap_or(0.0);
        let busy = busiest.map_or(0.0, |disk| disk.busy);
        let speaks = busy >= DISK_BUSY || (pressure >= PRESSURE_IO && blocked >= BLOCKED);
        let of_disk = busiest.map_or("no disk was busy".to_owned(), |disk| {
            format!("{} was busy {} of the time", disk.name, percent(disk.busy))
        });
        (speaks, format!("{of_disk}, tasks waited for input and output {} of it", percent(pressure)))
    });
    evidence(Verdict::Disk, "90 % of the time, or tasks that wait 40 % of it", found)
}

fn link(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.and_then(|usage| {
        let known = usage.links.iter().filter_map(|link| Some((link, link.share?)));
        let (link, share) = known.reduce(|most, other| if other.1 > most.1 { other } else { most })?;
        Some((share >= LINK, format!("{} used {} of its speed", link.name, percent(share))))
    });
    evidence(Verdict::Nic, "90 % of its speed", found)
}

fn queue(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.and_then(|usage| {
        let over = usage.queue_over_limits_per_second?;
        let (waiting, drops) = (usage.queue_waiting.unwrap_or(0.0), usage.queue_drops.unwrap_or(0));
        let speaks = over >= OVER_LIMITS && (waiting >= QUEUE_WAITING || drops > 0);
        let figure = format!(
            "packets waited for a limited rate {} times a second, in {} of the looks some did, \
             {drops} were dropped",
            significant(over),
            percent(waiting)
        );
        Some((speaks, figure))
    });
    evidence(Verdict::Nic, "50 times a second, with a queue or drops", found)
}

fn quota(observed: &MixObservations<'_>) -> Evidence {
    let found = observed.usage.and_then(|usage| {
        let throttled = usage.throttled?;
        let figure = format!(
            "the control group\u{2019}s quota held the processes back {} of the time",
            percent(throttled)
        );
        Some((throttled >= THROTTLED, figure))
    });
    evidence(Verdict::ServerCpu, "10 % of the time", found)
}

/// The system's processors.
fn own_processors(observed: &MixObservations<'_>) -> Vec<Processor> {
    saturation::processors_of(observed.cpus, observed.mix)
}

fn softirq(observed: &MixObservations<'_>) -> Evidence {
    let cpus = own_processors(observed);
    let most = cpus.into_iter().reduce(|most, cpu| if cpu.softirq > most.softirq { cpu } else { most });
    let found = most.map(|Processor { number, busy, softirq }| {
        let figure = format!(
            "processor {number} spent {} of its time on softirqs and was {} busy",
            percent(softirq),
            percent(busy)
        );
        (softirq >= SOFTIRQ && busy >= FULL, figure)
    });
    evidence(Verdict::Softirq, "60 % of a full processor", found)
}

/// The share of a busy processor that the system itself must have used.
const HALF_A_PROCESSOR: f64 = 0.5;

fn single_core(observed: &MixObservations<'_>) -> Evidence {
    let cpus = own_processors(observed);
    let mean = cpus.iter().map(|cpu| cpu.busy).sum::<f64>() / cpus.len().max(1) as f64;
    let hottest = cpus.iter().copied().reduce(|most, cpu| if cpu.busy > most.busy { cpu } else { most });
    // A processor that other programs use is not where the system waits.
    let own = server_share(observed).map(|share| share * cpus.len() as f64);
    let is_own = own.is_none_or(|processors| processors >= HALF_A_PROCESSOR);
    let found = hottest.filter(|_| cpus.len() > 1).map(|Processor { number, busy, .. }| {
        let figure = format!(
            "processor {number} was {} busy, all {} of them {} on average",
            percent(busy),
            cpus.len(),
            percent(mean)
        );
        (busy >= FULL && mean < ONE_OF_SEVERAL && is_own, figure)
    });
    evidence(Verdict::SingleCore, "one at 95 %, half of it the system's, the mean below 80 %", found)
}

/// A thread that always runs while its process could use more processors. The kernel moves it between the
/// processors, so that possibly no single processor is full. The time that it waited for a busy processor
/// counts as time in which it would have run.
fn single_thread(observed: &MixObservations<'_>) -> Evidence {
    let several = own_processors(observed).len() > 1;
    let found =
        observed.usage.and_then(|usage| usage.busiest_thread.as_ref()).zip(server_share(observed)).map(
            |(thread, share)| {
                let figure = format!(
                    "thread {} of {} ran {} of the time and waited {} of it for a processor, the system \
                     used {} of its processors",
                    thread.tid,
                    thread.process,
                    percent(thread.share),
                    percent(thread.waited),
                    percent(share)
                );
                let always = thread.share >= HALF_A_PROCESSOR && thread.share + thread.waited >= FULL;
                (several && always && share < ONE_OF_SEVERAL, figure)
            },
        );
    evidence(Verdict::SingleCore, "one at 95 %, all below 80 %, with more than one processor", found)
}

fn processors(observed: &MixObservations<'_>) -> Evidence {
    let found = server_share(observed).map(|share| {
        let full = saturation::server_had_no_room(observed.cpus, observed.mix);
        let softirqs = saturation::softirq_share(observed.cpus, observed.mix);
        let mut figure = format!("the system used {} of its processors", percent(share));
        if share < FULL && softirqs > 0.0 {
            figure.push_str(&format!(", and softirqs {}", percent(softirqs)));
        }
        if full && !processors_were_full(observed.cpus, observed.mix) {
            figure.push_str(", and other work the rest: without it the rate may be higher");
        } else if full && share < FULL && observed.cpus.is_empty() {
            figure.push_str(", and the load engine the rest");
        }
        (full, figure)
    });
    evidence(Verdict::ServerCpu, "95 % of them busy", found)
}

/// Whether the system was not saturated and the rate still did not rise.
fn room(observed: &MixObservations<'_>) -> Evidence {
    let found = server_share(observed).map(|share| {
        let flat = if observed.flat { "did not rise" } else { "still rose" };
        let figure = format!(
            "the system used {} of its processors, and the rate {flat} with twice the clients",
            percent(share)
        );
        (share < ROOM && observed.flat, figure)
    });
    evidence(Verdict::LocksOrOther, "below 80 % and a rate that does not rise", found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{DiskUse, LinkUse, ThreadUse};
    use crate::result::CpuShares;

    /// A mix whose system has four processors, half used, and a quiet machine.
    fn quiet() -> (MixResult, Usage) {
        let mut mix = crate::sample::mix(16, 10_000.0);
        mix.server.as_mut().unwrap().cpu_share = 0.5;
        let cpu = |cpu| CpuShares { cpu, user: 0.3, system: 0.2, softirq: 0.05, steal: 0.0, idle: 0.45 };
        mix.machine.as_mut().unwrap().cpus = (0..4).map(cpu).collect();
        let usage = Usage {
            window_s: 10.0,
            memory_available_min: Some(0.6),
            listen_overflows: Some(0),
            accepted: Some(1000),
            queue_over_limits_per_second: Some(0.0),
            ..Usage::default()
        };
        (mix, usage)
    }

    fn verdict(flat: bool, change: impl FnOnce(&mut MixResult, &mut Usage)) -> Bottleneck {
        let (mut mix, mut usage) = quiet();
        change(&mut mix, &mut usage);
        find(&MixObservations { mix: &mix, usage: Some(&usage), cpus: &[0, 1, 2, 3], flat })
    }

    #[test]
    fn each_bottleneck_is_named_by_its_signs() {
        type Change = fn(&mut MixResult, &mut Usage);
        let cases: [(Verdict, Change); 17] = [
            (Verdict::EngineDisturbed, |mix, _| {
                mix.generator_saturated = Some("a thread waited 30 % of the time".into());
                mix.load.longest_waiting_thread = Some(0.3);
            }),
            (Verdict::Generator, |mix, _| {
                mix.generator_saturated = Some("a quota held the engine back 30 % of the time".into());
                mix.load.longest_waiting_thread = Some(0.3);
                mix.load.held_back_by_quota = Some(0.3);
            }),
            (Verdict::Generator, |mix, _| {
                mix.generator_saturated = Some("a thread was 99 % busy".into());
                mix.load.busiest_thread = 0.99;
            }),
            (Verdict::AcceptQueue, |_, usage| usage.listen_overflows = Some(40)),
            (Verdict::Memory, |_, usage| usage.swapped_pages_per_second = Some(5000.0)),
            (Verdict::Memory, |_, usage| usage.memory_available_min = Some(0.01)),
            (Verdict::Disk, |_, usage| {
                usage.disks = vec![DiskUse {
                    name: "sda".into(),
                    busy: 0.99,
                    queue: 8.0,
                    read_bytes_per_second: 1e7,
                    written_bytes_per_second: 0.0,
                }];
            }),
            (Verdict::Disk, |_, usage| (usage.pressure[2], usage.blocked_mean) = (Some(0.8), Some(3.0))),
            (Verdict::Nic, |_, usage| {
                usage.links = vec![LinkUse {
                    name: "eth0".into(),
                    received_bytes_per_second: 1e6,
                    sent_bytes_per_second: 1.18e8,
                    share: Some(0.94),
                    lost: 0,
                }];
            }),
            (Verdict::Nic, |_, usage| {
                (usage.queue_over_limits_per_second, usage.queue_waiting) = (Some(900.0), Some(0.9));
            }),
            (Verdict::ServerCpu, |_, usage| usage.throttled = Some(0.5)),
            (Verdict::Softirq, |mix, _| {
                let cpu = &mut mix.machine.as_mut().unwrap().cpus[2];
                (cpu.softirq, cpu.user, cpu.system, cpu.idle) = (0.8, 0.1, 0.1, 0.0);
            }),
            (Verdict::SingleCore, |mix, _| {
                let cpu = &mut mix.machine.as_mut().unwrap().cpus[1];
                (cpu.user, cpu.idle) = (0.75, 0.0);
            }),
            (Verdict::SingleCore, |_, usage| {
                usage.busiest_thread =
                    Some(ThreadUse { process: "node".into(), tid: 7, share: 0.99, waited: 0.0 });
            }),
            (Verdict::SingleCore, |_, usage| {
                usage.busiest_thread =
                    Some(ThreadUse { process: "node".into(), tid: 7, share: 0.7, waited: 0.28 });
            }),
            (Verdict::ServerCpu, |mix, _| mix.server.as_mut().unwrap().cpu_share = 0.98),
            (Verdict::LocksOrOther, |_, _| ()),
        ];
        for (expected, change) in cases {
            let found = verdict(true, change);
            assert_eq!(found.verdict, expected, "{found:#?}");
            assert_eq!(found.evidence.len(), RULES.len() + 1);
        }
    }

    #[test]
    fn what_is_not_clear_is_not_named() {
        assert_eq!(verdict(false, |_, _| ()).verdict, Verdict::Undetermined);
        let unwatched = verdict(true, |mix, _| mix.server = None);
        assert_eq!(unwatched.verdict, Verdict::Undetermined);
        assert!(unwatched.sentence.contains("was not watched"), "{}", unwatched.sentence);
        let (mix, _) = quiet();
        let without = find(&MixObservations { mix: &mix, usage: None, cpus: &[], flat: false });
        assert_eq!(without.verdict, Verdict::Undetermined);
        assert!(without.evidence.iter().any(|it| it.speaks.is_none() && it.figure == "not measured"));
    }

    #[test]
    fn an_engine_that_was_disturbed_and_did_little_is_not_what_held_the_system_back() {
        let found = verdict(true, |mix, _| {
            mix.generator_saturated = Some("a thread waited 11 % of the time".into());
            (mix.load.busiest_thread, mix.load.longest_waiting_thread) = (0.02, Some(0.11));
        });
        assert_eq!(found.verdict, Verdict::LocksOrOther);
    }

    #[test]
    fn a_resource_beside_an_engine_at_its_limit_leaves_a_lower_bound() {
        let found = verdict(true, |mix, usage| {
            usage.listen_overflows = Some(40);
            mix.generator_saturated = Some("a thread was 99 % busy".into());
            mix.load.busiest_thread = 0.99;
        });
        assert_eq!(found.verdict, Verdict::AcceptQueue);
        assert!(
            found.sentence.ends_with(
                "; the load engine was at its own limit, too, so the figures are a lower bound (a thread was \
                 99 % busy)."
            ),
            "{}",
            found.sentence
        );
    }

    #[test]
    fn a_full_server_is_named_although_the_engine_is_full_too() {
        let found = verdict(true, |mix, _| {
            mix.generator_saturated = Some("busy".into());
            mix.server.as_mut().unwrap().cpu_share = 0.99;
        });
        assert_eq!(found.verdict, Verdict::ServerCpu);
    }

    #[test]
    fn a_curve_is_flat_when_twice_the_clients_bring_nothing() {
        let mixes =
            [(1, 100.0), (8, 500.0), (16, 510.0)].map(|(clients, rate)| crate::sample::mix(clients, rate));
        let all: Vec<&MixResult> = mixes.iter().collect();
        assert!(is_flat(&all, &mixes[2]));
        assert!(!is_flat(&all[..2], &mixes[1]));
    }

    #[test]
    fn softirqs_on_a_pinned_systems_processors_count_as_its_own() {
        let found = verdict(true, |mix, _| {
            mix.server.as_mut().unwrap().cpu_share = 0.7;
            let machine = mix.machine.as_mut().unwrap();
            machine.cpus.iter_mut().for_each(|cpu| (cpu.softirq, cpu.idle) = (0.28, 0.02));
        });
        assert_eq!(found.verdict, Verdict::ServerCpu, "{found:#?}");
    }
}
