//! Peaks: the mix in which a system was fastest, and whether its rate was the server's own.

use crate::loads;
use crate::result::{MixResult, SystemResult};
use crate::saturation::engine_limit;

/// Rates that differ by less than this are called equal: one run shows no smaller difference.
pub const EQUAL_BAND: f64 = 0.03;

/// The mix with the highest rate of valid answers, by the median of its runs; where several interfaces were
/// measured, of the first of them.
pub fn peak(system: &SystemResult) -> Option<&MixResult> {
    let first = &system.mixes.first()?.interface;
    let standing = loads::representatives(&system.mixes);
    peak_of(standing.into_iter().filter(|mix| mix.interface == *first))
}

/// The mix with the highest rate of valid answers. A mix that was cut short counts only where no other is
/// there.
pub fn peak_of<'a>(mixes: impl Iterator<Item = &'a MixResult> + Clone) -> Option<&'a MixResult> {
    let highest = |complete: bool| {
        mixes
            .clone()
            .filter(|mix| mix.complete == complete && mix.requests > 0)
            // The first of equals: the fewest clients that reach the rate.
            .reduce(|best, mix| if mix.requests_per_second > best.requests_per_second { mix } else { best })
    };
    highest(true).or_else(|| highest(false))
}

/// Whether the server and not the load engine set the rate.
pub fn rate_is_the_servers(system: &SystemResult, mix: &MixResult) -> bool {
    engine_limit(&system.cpus, mix).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_peak_is_the_highest_rate_of_a_complete_mix() {
        let mut result = sample::result();
        let system = &mut result.systems[0];
        assert_eq!(peak(system).unwrap().clients, 16);
        system.mixes[2].complete = false;
        assert_eq!(peak(system).unwrap().clients, 4);
        system.mixes.iter_mut().for_each(|mix| mix.complete = false);
        assert_eq!(peak(system).unwrap().clients, 16);
        system.mixes.iter_mut().for_each(|mix| mix.requests = 0);
        assert_eq!(peak(system), None);
    }
}
