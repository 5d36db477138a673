//! One mix on one system: the load engine on its threads, the monitor on its own, and this thread, which
//! monitors both, the end of the system and an interrupt.

use super::event::{Event, Observer, Tick, Turn};
use super::generator::LoadGenerator;
use super::running_system::RunningSystem;
use crate::monitor::{Exporter, Monitor, Watch};
use crate::remote::Session;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use touchstone_lab::recording::Recording;
use touchstone_lab::result::FleetUse;
use touchstone_load::{AbortWatch, Outcome, Plan, Progress, Threshold};

/// How often the system's life and the interrupt are looked at.
const CHECK_PERIOD: Duration = Duration::from_millis(50);
/// How often progress is reported.
const TICK_PERIOD: Duration = Duration::from_millis(250);
/// The time over which the reported rate is computed.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// What is to be measured.
pub(super) struct Measurement<'a> {
    pub(super) plan: Plan,
    /// What ends it early, bound to the plan.
    pub(super) abort_if: Vec<Threshold>,
    /// The thresholds that apply when it has ended, bound to the plan.
    pub(super) thresholds: Vec<Threshold>,
    pub(super) pids: Vec<u32>,
    pub(super) period: Duration,
    pub(super) exporter: Option<Exporter>,
    pub(super) session: Option<Session>,
    pub(super) turn: Turn<'a>,
    /// What the rest of the run takes after this mix.
    pub(super) seconds_after: f64,
}

/// What was measured.
pub(super) struct MeasuredMix {
    pub(super) outcome: Outcome,
    pub(super) recording: Recording,
    pub(super) ending: MixEnding,
    /// The load machines, where there are several.
    pub(super) fleet: Option<FleetUse>,
    /// When the counted window began.
    pub(super) window_start: SystemTime,
}

/// How a mix ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MixEnding {
    /// It ran its whole length.
    Whole,
    /// The interrupt ended it.
    Interrupted,
    /// A threshold ended it; the text states which one, and by how much it was missed.
    Aborted(String),
    /// The system ended; the text states how.
    SystemDied(String),
    /// The load differed from the plan; the text states why.
    LoadFailed(String),
}

impl Measurement<'_> {
    /// Runs the mix. An error is the reason why it could not run at all.
    pub(super) fn take(
        &self,
        generator: &dyn LoadGenerator,
        running: &mut RunningSystem,
        observer: &mut dyn Observer,
        interrupt: &AtomicBool,
    ) -> Result<MeasuredMix, String> {
        observer.event(Event::MixStarted(self.turn));
        let progress = Progress::default();
        let watch = AbortWatch::new(self.abort_if.clone());
        watch.begin(&progress);
        let load = generator
            .prepare(&self.plan, watch.checked_classes(), interrupt)
            .map_err(|error| error.to_string())?;
        let start = Instant::now();
        let window_start = SystemTime::now() + self.plan.ramp_up;
        let monitor = Monitor::start(Watch {
            pids: self.pids.clone(),
            period: self.period,
            start,
            window_start: self.plan.ramp_up,
            window_end: self.plan.length.saturating_sub(self.plan.ramp_down),
            cpus: self.plan.cores.clone(),
            exporter: self.exporter.clone(),
            session: self.session.clone(),
        })
        .map_err(|error| format!("the monitor cannot be started: {error}"))?;
        let (generated, ending) = std::thread::scope(|scope| {
            // Should the observer panic, the engine must not run on to the mix's end.
            let _stop = StopOnDrop(&progress);
            let engine = scope.spawn(|| load.run(&progress));
            let supervisor = MixSupervisor {
                measurement: self,
                generator,
                progress: &progress,
                monitor: &monitor,
                watch: &watch,
                start,
            };
            let ending = supervisor.until(&|| engine.is_finished(), running, observer, interrupt);
            (engine.join(), ending)
        });
        let recording = monitor.finish();
        let generated = generated
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .map_err(|error| error.to_string())?;
        let recording = generated.recording.unwrap_or(recording);
        let ending = match (ending, generated.invalid) {
            (MixEnding::Whole, Some(reason)) => MixEnding::LoadFailed(reason),
            (ending, _) => ending,
        };
        Ok(MeasuredMix {
            outcome: generated.outcome,
            recording,
            ending,
            fleet: generated.fleet,
            window_start,
        })
    }
}

/// Supervises a running mix: the system, the interrupt, the thresholds, the progress.
struct MixSupervisor<'a> {
    measurement: &'a Measurement<'a>,
    generator: &'a dyn LoadGenerator,
    progress: &'a Progress,
    monitor: &'a Monitor,
    watch: &'a AbortWatch,
    start: Instant,
}

impl MixSupervisor<'_> {
    /// Until the engine has ended, checks whether the system runs and whether there was an interrupt, and
    /// reports the progress.
    fn until(
        &self,
        engine_has_ended: &dyn Fn() -> bool,
        running: &mut RunningSystem,
        observer: &mut dyn Observer,
        interrupt: &AtomicBool,
    ) -> MixEnding {
        let mut ending = MixEnding::Whole;
        let mut rates = [LiveRate::starting(self.start), LiveRate::starting(self.start)];
        let mut next_tick = self.start + TICK_PERIOD;
        while !engine_has_ended() {
            std::thread::sleep(CHECK_PERIOD);
            if ending == MixEnding::Whole && !engine_has_ended() {
                self.watch.check(self.progress);
                ending = match self.watch.verdict() {
                    Some(verdict) => MixEnding::Aborted(verdict.to_string()),
                    None => early_ending(running, interrupt),
                };
                if ending != MixEnding::Whole {
                    self.progress.stop.store(true, Ordering::Relaxed);
                    self.monitor.end();
                }
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK_PERIOD;
                let latency_ns = self.progress.recent.histogram();
                observer.event(Event::Tick(self.tick(now, &mut rates, latency_ns.as_ref())));
                let machines = self.generator.machines();
                if !machines.is_empty() {
                    observer.event(Event::LoadMachines(&machines));
                }
            }
        }
        ending
    }

    fn tick<'t>(
        &'t self,
        now: Instant,
        [requests, bytes]: &mut [LiveRate; 2],
        latency_ns: Option<&'t Histogram<u32>>,
    ) -> Tick<'t> {
        let Measurement { plan, turn, seconds_after, .. } = self.measurement;
        Tick {
            turn: *turn,
            requests_per_second: requests.at(now, self.progress.requests.load(Ordering::Relaxed)),
            errors: self.progress.errors.load(Ordering::Relaxed),
            bytes_per_second: bytes.at(now, self.progress.bytes.load(Ordering::Relaxed)),
            latency_ns,
            monitor: self.monitor.latest(),
            elapsed_s: (now - self.start).as_secs_f64(),
            length_s: plan.length.as_secs_f64(),
            ramp_up_s: plan.ramp_up.as_secs_f64(),
            ramp_down_s: plan.ramp_down.as_secs_f64(),
            seconds_left: plan.length.saturating_sub(now - self.start).as_secs_f64() + seconds_after,
        }
    }
}

/// Whether a threshold ends the mix early.
fn early_ending(running: &mut RunningSystem, interrupt: &AtomicBool) -> MixEnding {
    if let Some(end) = running.has_ended() {
        MixEnding::SystemDied(end)
    } else if interrupt.load(Ordering::Relaxed) {
        MixEnding::Interrupted
    } else {
        MixEnding::Whole
    }
}

/// Ends the engine's run when it is dropped.
struct StopOnDrop<'a>(&'a Progress);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// The rate over about the last second.
struct LiveRate {
    points: std::collections::VecDeque<(Instant, u64)>,
}

impl LiveRate {
    fn starting(start: Instant) -> LiveRate {
        LiveRate { points: [(start, 0)].into() }
    }

    fn at(&mut self, now: Instant, requests: u64) -> f64 {
        while self.points.len() > 1 && now - self.points[1].0 >= RATE_PERIOD {
            self.points.pop_front();
        }
        let (then, before) = self.points[0];
        self.points.push_back((now, requests));
        let seconds = (now - then).as_secs_f64();
        if seconds > 0.0 { requests.saturating_sub(before) as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_rate_is_that_of_the_last_second() {
        let start = Instant::now();
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        let mut rate = LiveRate::starting(start);
        assert_eq!(rate.at(at(500), 100), 200.0);
        assert_eq!(rate.at(at(1000), 200), 200.0);
        assert_eq!(rate.at(at(1500), 700), 600.0);
        assert_eq!(rate.at(at(2000), 1200), 1000.0);
    }
}
