//! The same mix on several systems at the same time (`bench --at-once`).
//!
//! On a machine that other work disturbs, two mixes that follow each other differ by a quarter and more in
//! the processor time of a request. Where both run at the same time, on the same processors, each
//! disturbance falls on both, and the ratio of their processor times shows changes of a few per cent. Each
//! system has its own engine and its own monitor, as in turns.

use super::PlannedTurn;
use super::event::{Event, Observer};
use super::generator::LoadGenerator;
use super::measure::{MeasuredMix, Measurement};
use super::running_system::RunningSystem;
use std::sync::atomic::AtomicBool;

/// How many of the turns, from the first on, are of the same mix and run.
pub(super) fn count(turns: &[PlannedTurn]) -> usize {
    let place_of = |turn: &PlannedTurn| (turn.run, turn.mix, turn.part);
    turns.iter().take_while(|turn| place_of(turn) == place_of(&turns[0])).count()
}

/// The systems of some turns, in their order.
pub(super) fn chosen<'a>(
    running: &'a mut [RunningSystem],
    turns: &[PlannedTurn],
) -> Vec<&'a mut RunningSystem> {
    let mut all: Vec<Option<&mut RunningSystem>> = running.iter_mut().map(Some).collect();
    // Each system has one turn in a mix.
    turns.iter().filter_map(|turn| all[turn.running].take()).collect()
}

/// Runs all measurements at the same time.
pub(super) fn take(
    measurements: &[Measurement<'_>],
    running: Vec<&mut RunningSystem>,
    generator: &dyn LoadGenerator,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Vec<Result<MeasuredMix, String>> {
    for measurement in measurements {
        observer.event(Event::MixStarted(measurement.turn));
    }
    std::thread::scope(|scope| {
        let start = |(measurement, running)| {
            scope.spawn(move || {
                Measurement::take(measurement, generator, running, &mut SilentObserver, interrupt)
            })
        };
        let threads: Vec<_> = measurements.iter().zip(running).map(start).collect();
        let end = |thread: std::thread::ScopedJoinHandle<'_, Result<MeasuredMix, String>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(end).collect()
    })
}

/// Views show one mix at a time.
struct SilentObserver;

impl Observer for SilentObserver {
    fn event(&mut self, _event: Event<'_>) {}
}
