//! Whether the server or the load engine was at its limit in a mix: the measure that all statements use.

use crate::recording::{Recording, Usage};
use crate::result::MixResult;
use touchstone_load::Outcome;

/// From this share of its processors on, a server is limited by them.
pub const PROCESSORS_FULL: f64 = 0.95;
/// A thread of the load engine that ran, or could have run, for this share of the time decides the rate. One
/// that had more time left waited for answers: the server decides.
pub const ENGINE_USED: f64 = 0.70;
/// A thread that ran for more than this share of the time is at its own limit, by the rule of the load
/// engine.
const ENGINE_BUSY: f64 = 0.90;
/// From this many processors on, work other than server and load engine disturbs the figures.
pub const OTHER_WORK_CPUS: f64 = 0.1;
/// A system that may use all processors, and shares them with the load engine, is limited by them if all are
/// full, it has this share of them, and no other program runs.
const UNPINNED_SHARE: f64 = 0.4;
/// The kernel gives a server more than this share of the processors that it shares with others, if the server
/// can use it.
const PART_BESIDE_OTHERS: f64 = 0.25;
/// A quota that holds the engine back for this share of the time is a sign.
const THROTTLED: f64 = 0.10;

/// Why the load engine and not the server decided a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineLimit {
    /// It used its whole processor or quota, or was late for a reason of its own.
    Own,
    /// Other work used its processor.
    Disturbed,
}

impl EngineLimit {
    /// The description, in a sentence.
    pub fn description(self) -> &'static str {
        match self {
            EngineLimit::Own => "the load engine was at its own limit",
            EngineLimit::Disturbed => "the load engine was disturbed",
        }
    }

    /// In a cell of a table.
    pub fn remark(self) -> &'static str {
        match self {
            EngineLimit::Own => "load engine at its limit",
            EngineLimit::Disturbed => "load engine disturbed",
        }
    }
}

/// The share of its processors that a system used, where it was watched. One that was not pinned (no `pinned`
/// processors) may use them all; its result counts in single processors.
pub fn server_share(pinned: &[usize], mix: &MixResult) -> Option<f64> {
    let share = mix.server.as_ref()?.cpu_share;
    let all = mix.machine.as_ref().map_or(1, |machine| machine.cpus.len().max(1));
    Some(if pinned.is_empty() { share / all as f64 } else { share })
}

/// A processor in the window of a mix: its number, the share of its time that it was busy, and that of
/// softirqs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Processor {
    /// Its number.
    pub number: u32,
    /// Busy with any work.
    pub busy: f64,
    /// In softirqs.
    pub softirq: f64,
}

/// The processors that a system may use.
pub fn processors_of(pinned: &[usize], mix: &MixResult) -> Vec<Processor> {
    let all = mix.machine.as_ref().map_or(&[][..], |machine| &machine.cpus);
    let own = all.iter().filter(|cpu| pinned.is_empty() || pinned.contains(&(cpu.cpu as usize)));
    own.map(|cpu| Processor { number: cpu.cpu, busy: 1.0 - cpu.idle, softirq: cpu.softirq }).collect()
}

/// The share of a pinned system's processors that softirqs took. They work on behalf of the system and are
/// counted to no process; none where the system's processor time is that of its processors.
pub fn softirq_share(pinned: &[usize], mix: &MixResult) -> f64 {
    let counted = mix.server.as_ref().is_some_and(|server| server.of_processors);
    let own = processors_of(pinned, mix);
    if pinned.is_empty() || counted || own.is_empty() {
        return 0.0;
    }
    own.iter().map(|cpu| cpu.softirq).sum::<f64>() / own.len() as f64
}

/// Whether the server kept its processors busy.
pub fn processors_were_full(pinned: &[usize], mix: &MixResult) -> bool {
    let Some(share) = server_share(pinned, mix) else { return false };
    let busy = || processors_of(pinned, mix).iter().map(|cpu| cpu.busy).fold(1.0, f64::min);
    let alone = || other_work_cpus(mix).is_some_and(|cpus| cpus < OTHER_WORK_CPUS);
    match pinned.is_empty() {
        true => {
            let filled = mix.machine.is_some() && share >= UNPINNED_SHARE && busy() >= PROCESSORS_FULL;
            share >= PROCESSORS_FULL || (filled && alone())
        }
        false => share + softirq_share(pinned, mix) >= PROCESSORS_FULL,
    }
}

/// The processors that work other than the system under test and the load engine used in the window; absent
/// where the system was not watched. (Time in softirqs is no process's own and is left out.)
pub fn other_work_cpus(mix: &MixResult) -> Option<f64> {
    let (server, machine) = (mix.server.as_ref()?, mix.machine.as_ref()?);
    let used: f64 = machine.cpus.iter().map(|cpu| cpu.user + cpu.system).sum();
    let own = (server.user_s + server.system_s + mix.load.user_s + mix.load.system_s) / mix.window_s;
    Some((used - own).max(0.0)).filter(|cpus| cpus.is_finite())
}

/// Whether the server's processors were full, with its work and that of others: then the server could not
/// have done more, although it used only a part of them. A server that used a small part had little to do:
/// the kernel would have given it more.
pub fn server_had_no_room(pinned: &[usize], mix: &MixResult) -> bool {
    let own = processors_of(pinned, mix);
    let busy = own.iter().map(|cpu| cpu.busy).sum::<f64>() / own.len().max(1) as f64;
    let had_its_part = server_share(pinned, mix).is_some_and(|share| share >= PART_BESIDE_OTHERS);
    processors_were_full(pinned, mix) || (had_its_part && !own.is_empty() && busy >= PROCESSORS_FULL)
}

/// The reason why the load engine decided the rate of a mix, with the sign: it was at its limit or disturbed,
/// ran or could have run most of the time, and the server had room. The rate is then a lower bound. Every
/// statement about a saturated load engine uses this measure (`docs/method.md` has the experiment that it
/// comes from).
pub fn engine_limit<'a>(pinned: &[usize], mix: &'a MixResult) -> Option<(EngineLimit, &'a str)> {
    let sign = mix.generator_saturated.as_deref()?.trim_end_matches('.');
    // Of an older result it is not known how long the engine waited.
    let waited = mix.load.longest_waiting_thread;
    let used = mix.load.busiest_thread + waited.unwrap_or(1.0);
    // An open load is late however little its engine did.
    let decided = mix.arrivals.is_some() || used >= ENGINE_USED;
    let waited_long = waited.is_some_and(|waited| waited >= THROTTLED);
    let has_quota = mix.load.held_back_by_quota.is_some();
    let disturbed = mix.load.busiest_thread <= ENGINE_BUSY && waited_long && !has_quota;
    let limit = if disturbed { EngineLimit::Disturbed } else { EngineLimit::Own };
    (decided && !server_had_no_room(pinned, mix)).then_some((limit, sign))
}

/// The share of the time for which a thread of the load engine could have run and had no processor, because
/// other programs had it or a quota was used up.
pub fn engine_waited(longest_waiting_thread: f64, usage: Option<&Usage>) -> f64 {
    longest_waiting_thread + held_back_by_quota(usage).unwrap_or(0.0)
}

/// The share of the time for which a quota held the load engine back, where it is long enough to be a sign.
pub fn held_back_by_quota(usage: Option<&Usage>) -> Option<f64> {
    usage.and_then(|usage| usage.engine_throttled).filter(|share| *share >= THROTTLED)
}

/// All signs that the load engine was at its limit or disturbed: its own, and a quota that its control group
/// has.
pub fn signs(outcome: &Outcome, recording: &Recording) -> Option<String> {
    let quota = held_back_by_quota(recording.usage().as_ref()).map(|share| {
        format!(
            "a quota of processor time held the engine back {} of the time: give it a larger one",
            crate::figures::percent(share)
        )
    });
    let all: Vec<String> = outcome.saturation.engine_text().into_iter().chain(quota).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(busy: f64, waited: Option<f64>, server: f64) -> Option<EngineLimit> {
        let mut mix = crate::sample::mix(4, 1000.0);
        mix.generator_saturated = Some("a sign.".into());
        (mix.load.busiest_thread, mix.load.longest_waiting_thread) = (busy, waited);
        mix.server.as_mut().unwrap().cpu_share = server;
        mix.machine.as_mut().unwrap().cpus[0].idle = 1.0 - server;
        engine_limit(&[0], &mix).map(|(limit, sign)| {
            assert_eq!(sign, "a sign");
            limit
        })
    }

    #[test]
    fn an_engine_decides_where_it_had_no_time_left_and_the_server_had() {
        assert_eq!(limit(0.97, Some(0.0), 0.6), Some(EngineLimit::Own));
        assert_eq!(limit(0.97, Some(0.0), 0.96), None, "the server was full");
        assert_eq!(limit(0.5, Some(0.4), 0.6), Some(EngineLimit::Disturbed));
        assert_eq!(limit(0.1, Some(0.3), 0.6), None, "it waited for answers most of the time");
        assert_eq!(limit(0.1, None, 0.6), Some(EngineLimit::Own), "an older result");
        let mut mix = crate::sample::mix(4, 1000.0);
        assert_eq!(engine_limit(&[], &mix), None, "there is no sign");
        // Other work has what the server leaves of its processor.
        mix.generator_saturated = Some("a sign".into());
        mix.server.as_mut().unwrap().cpu_share = 0.5;
        mix.machine.as_mut().unwrap().cpus[0].idle = 0.02;
        assert!(server_had_no_room(&[0], &mix) && !processors_were_full(&[0], &mix));
        assert_eq!(engine_limit(&[0], &mix), None);
        // A server that uses a small part of its processor does not wait for it.
        mix.server.as_mut().unwrap().cpu_share = 0.03;
        assert!(!server_had_no_room(&[0], &mix));
    }

    #[test]
    fn a_quota_is_a_limit_of_the_engine() {
        let mut mix = crate::sample::mix(4, 1000.0);
        mix.generator_saturated = Some("a sign".into());
        (mix.load.busiest_thread, mix.load.longest_waiting_thread) = (0.05, Some(0.9));
        mix.server.as_mut().unwrap().cpu_share = 0.3;
        mix.machine.as_mut().unwrap().cpus[0].idle = 0.7;
        assert_eq!(engine_limit(&[0], &mix).map(|(limit, _)| limit), Some(EngineLimit::Disturbed));
        mix.load.held_back_by_quota = Some(0.9);
        assert_eq!(engine_limit(&[0], &mix).map(|(limit, _)| limit), Some(EngineLimit::Own));
    }

    #[test]
    fn what_a_quota_took_counts_as_waiting() {
        let usage = |share| Usage { engine_throttled: share, ..Usage::default() };
        assert!((engine_waited(0.2, Some(&usage(Some(0.4)))) - 0.6).abs() < 1e-9);
        assert!((engine_waited(0.2, Some(&usage(Some(0.05)))) - 0.2).abs() < 1e-9);
        assert!((engine_waited(0.2, None) - 0.2).abs() < 1e-9);
    }
}
