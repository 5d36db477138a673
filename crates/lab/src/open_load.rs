//! Open loads: mixes whose requests are sent at a given rate, even if earlier ones are not answered.
//!
//! Their rate is commanded and not found, so no peak follows from it. They show the cost of a request at that
//! rate, the time from when a request was due to its answer, and which rates a server cannot serve. A result
//! has only closed loads or only open ones.

use crate::arrivals::lost;
use crate::figures::{milliseconds, significant};
use crate::loads::representatives;
use crate::result::{MixResult, SystemResult};

/// The mix of the highest rate that a system carried, with the first of the rates that it did not.
pub fn highest_carried(system: &SystemResult) -> (Option<&MixResult>, Option<&MixResult>) {
    let mut mixes: Vec<&MixResult> =
        representatives(&system.mixes).into_iter().filter(|mix| mix.complete).collect();
    mixes.sort_by_key(|mix| mix.load());
    let carried = mixes.iter().rfind(|mix| mix.carried()).copied();
    let beyond = mixes.iter().find(|mix| !mix.carried()).copied();
    (carried, beyond)
}

/// What a system did with the rates, a sentence each.
pub fn sentences(system: &SystemResult) -> Vec<String> {
    let title = &system.title;
    let (carried, beyond) = highest_carried(system);
    let mut sentences = Vec::new();
    match carried {
        Some(mix) => sentences.push(format!(
            "{title} carried {}: from when they were due, answers took {} ms on average, 99 % within {} \
             ms{}.",
            mix.load_in_words(),
            milliseconds(mix.latency.mean_us),
            milliseconds(mix.latency.p99_us),
            cost(mix)
        )),
        None => sentences.push(format!("{title} carried none of the requested rates.")),
    }
    sentences
        .extend(beyond.map(|mix| format!("{title} did not carry {}: {}.", mix.load_in_words(), lost(mix))));
    sentences
}

fn cost(mix: &MixResult) -> String {
    mix.server.as_ref().map_or_else(String::new, |server| {
        format!("; a request took {} µs of processor time", significant(server.cpu_us_per_request))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_is_carried_and_what_is_not_is_said() {
        let result = sample::open();
        let (carried, beyond) = highest_carried(&result.systems[1]);
        assert_eq!((carried.map(MixResult::load), beyond.map(MixResult::load)), (Some(2_000), Some(4_000)));
        let found = sentences(&result.systems[1]);
        assert_eq!(
            found,
            [
                "nginx 1.22.1 carried 2,000 arrivals/s: from when they were due, answers took 1.00 ms on \
                 average, 99 % within 2.00 ms; a request took 24.0 µs of processor time.",
                "nginx 1.22.1 did not carry 4,000 arrivals/s: 30 % of 20,000 due requests had no valid \
                 answer and 6,000 were never started, as all 64 clients waited."
            ]
        );
        let mut none = result.systems[1].clone();
        none.mixes.retain(|mix| !mix.carried());
        assert!(sentences(&none)[0].contains("carried none of the requested rates"));
    }
}
