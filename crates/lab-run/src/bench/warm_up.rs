//! The warm-up before the first mix: each system is loaded for a while with all requests of the suite, and
//! none of them counts. A program that its runtime compiles while it runs, such as Java's, is measured in its
//! compiled state; without the warm-up the first mixes of a short run would measure the compiler.
//!
//! All systems get the same warm-up, whether they need it or not, as in TechEmpower's rounds.

use super::Run;
use std::time::Duration;
use touchstone_lab::suite::Mix;

impl Run<'_> {
    /// Loads each part of every system, with the number of clients of the heaviest mix. An error is the
    /// reason why the run ends here.
    pub(super) fn warm_up(&mut self) -> Result<(), String> {
        let length_s = self.prepared.method.warm_up_s;
        let heaviest = self.prepared.mixes.iter().max_by_key(|mix| mix.clients);
        let Some(heaviest) = heaviest.filter(|_| length_s > 0.0) else { return Ok(()) };
        // No think time and no rate: more requests finish the compilation sooner.
        let mix = Mix {
            rate: None,
            ramp_up_s: 0.0,
            length_s,
            ramp_down_s: 0.0,
            delay_s: 0.0,
            think_time_s: 0.0,
            ..heaviest.clone()
        };
        let parts = 0..self.prepared.suite.parts.len();
        let of_system = |running| parts.clone().map(move |part| (running, part));
        let turns: Vec<(usize, usize)> = (0..self.running.len())
            .flat_map(of_system)
            .filter(|(running, part)| self.running[*running].runs(*part))
            .collect();
        let mixes_s: f64 = self.turns().iter().map(|turn| self.prepared.mixes[turn.mix].length_s).sum();
        for (number, &(running, part)) in turns.iter().enumerate() {
            let title = format!("warm-up of {}", self.title(running, part));
            let left_s = mixes_s + (turns.len() - number - 1) as f64 * length_s;
            let place = (number + 1, turns.len());
            self.load_apart((running, part), &mix, &title, place, Duration::from_secs_f64(left_s))?;
        }
        Ok(())
    }
}
