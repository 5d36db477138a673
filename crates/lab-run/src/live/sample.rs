//! A run in its course, for tests of what shows one.

use super::State;
use crate::bench::{Event, Tick, Turn};
use crate::monitor::LatestFigures;
use hdrhistogram::Histogram;

/// A run in its second mix.
pub fn state() -> State {
    let mut state = State::new("spice", "lab-1");
    let mut latency: Histogram<u32> = Histogram::new(2).expect("a histogram");
    (1..=1000).for_each(|value| latency.record(value * 1000).expect("a histogram"));
    let turn = |number| Turn {
        system: "touchstone 0.1.0, CGI",
        mix: "8_clients",
        clients: 8,
        rate: None,
        is_counted: true,
        number,
        of: 4,
    };
    state.apply(&Event::Starting { system: "touchstone 0.1.0" });
    state.apply(&Event::Skipped { reason: "nginx 1.22.1 does not run CGI programs" });
    state.apply(&Event::MixStarted(turn(1)));
    state.apply(&Event::MixFinished {
        system: "touchstone 0.1.0, static file",
        result: &touchstone_lab::sample::mix(8, 41_234.0),
    });
    state.apply(&Event::MixStarted(turn(2)));
    for step in 1..=6 {
        state.apply(&Event::Tick(Tick {
            turn: turn(2),
            requests_per_second: 1200.0 * f64::from(step),
            errors: 3,
            bytes_per_second: 7.5e6,
            latency_ns: Some(&latency),
            monitor: LatestFigures {
                server_cpus: Some(0.97),
                server_resident_bytes: Some(12 << 20),
                load_cpus: Some(0.42),
                machine_share: Some(0.7),
            },
            elapsed_s: 0.25 * f64::from(step),
            length_s: 3.0,
            ramp_up_s: 0.5,
            ramp_down_s: 0.5,
            seconds_left: 7.5,
        }));
    }
    state
}
