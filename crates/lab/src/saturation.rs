//! Whether the server or the load engine was used up in a mix: the one measure that every statement rests on.

use crate::result::MixResult;

/// From this share of its processors on, a server is limited by them.
pub const PROCESSORS_FULL: f64 = 0.95;

/// The share of its processors that a system used, where it was watched. One that was not pinned (no `pinned`
/// processors) may use them all; its result counts in single processors.
pub fn server_share(pinned: &[usize], mix: &MixResult) -> Option<f64> {
    let share = mix.server.as_ref()?.cpu_share;
    let all = mix.machine.as_ref().map_or(1, |machine| machine.cpus.len().max(1));
    Some(if pinned.is_empty() { share / all as f64 } else { share })
}

/// Whether the server kept its processors busy.
pub fn processors_were_full(pinned: &[usize], mix: &MixResult) -> bool {
    server_share(pinned, mix).is_some_and(|share| share >= PROCESSORS_FULL)
}

/// The sign by which the load engine was at its limit or disturbed while the server had room: the rate is
/// then a lower bound. Every statement about a saturated load engine uses this measure.
pub fn engine_sign<'a>(pinned: &[usize], mix: &'a MixResult) -> Option<&'a str> {
    let sign = mix.generator_saturated.as_deref()?.trim_end_matches('.');
    (!processors_were_full(pinned, mix)).then_some(sign)
}
