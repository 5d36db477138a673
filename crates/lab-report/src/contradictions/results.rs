//! Results of many kinds, made from seeds: those of named kinds, and any.

use touchstone_http::split_mix::SplitMix;
use touchstone_lab::result::{
    ErrorRecord, LoadUse, MixResult, ProcessUse, ResultFile, RunStatus, SkippedInterface,
};
use touchstone_lab::statistics::taint::{self, EngineSecond};
use touchstone_lab::{derived, sample};

pub(super) const KINDS: [Kind; 13] = [
    Kind { name: "quiet", noise: 0.005, ratio: 1.5, ..USUAL },
    Kind { name: "noisy", noise: 0.5, ratio: 1.2, ..USUAL },
    Kind { name: "a saturated engine", ratio: 1.3, change: saturated, ..USUAL },
    Kind { name: "a busy engine beside full servers", ratio: 1.3, change: busy_engine, ..USUAL },
    Kind { name: "failing", ratio: 1.4, change: failing, ..USUAL },
    Kind { name: "one run", runs: 1, noise: 0.02, ratio: 1.5, ..USUAL },
    Kind { name: "five runs", runs: 5, noise: 0.02, ratio: 1.1, ..USUAL },
    Kind { name: "ties", noise: 0.002, ratio: 1.0, ..USUAL },
    Kind { name: "servers with room", ratio: 1.2, change: with_room, ..USUAL },
    Kind { name: "a server behind one lock", light: 0.98, noise: 0.002, ratio: 1.3, ..USUAL },
    Kind { name: "a stall", ratio: 1.2, change: stall, ..USUAL },
    Kind { name: "a busy machine", noise: 0.1, ratio: 1.2, change: busy_machine, ..USUAL },
    Kind { name: "one run on a busy machine", runs: 1, ratio: 1.1, change: busy_machine, ..USUAL },
];
const USUAL: Kind = Kind { name: "", runs: 3, noise: 0.01, ratio: 1.5, light: 0.8, change: |_| () };
pub(super) const OF_EACH: u64 = 9;

/// A kind of results.
pub(super) struct Kind {
    pub(super) name: &'static str,
    runs: u64,
    noise: f64,
    ratio: f64,
    /// The rate of the lighter load, as a share of the other's.
    light: f64,
    change: fn(&mut MixResult),
}

fn saturated(mix: &mut MixResult) {
    mix.generator_saturated = Some("the busiest engine thread used 97 % of its processor".into());
    mix.load.busiest_thread = 0.97;
    mix.server.as_mut().unwrap().cpu_share = 0.6;
}

fn busy_engine(mix: &mut MixResult) {
    saturated(mix);
    mix.server.as_mut().unwrap().cpu_share = 0.98;
}

fn failing(mix: &mut MixResult) {
    mix.errors.reset = mix.clients * 3;
}

fn with_room(mix: &mut MixResult) {
    mix.server.as_mut().unwrap().cpu_share = 0.4;
    for cpu in &mut mix.machine.as_mut().unwrap().cpus {
        (cpu.user, cpu.system, cpu.softirq, cpu.idle) = (0.1, 0.3, 0.1, 0.5);
    }
}

/// The server was paused for 0.3 s of a window of 5 s: no client got an answer in that time.
fn stall(mix: &mut MixResult) {
    mix.latency.max_us = 300_000.0;
}

/// Other work takes half of every processor, and each client once waits for 0.2 s.
fn busy_machine(mix: &mut MixResult) {
    mix.latency.max_us = 200_000.0;
    // At the edges of the window some requests are counted whose time is partly outside.
    mix.littles_law_clients *= 0.95;
    mix.latency.mean_us *= 0.95;
    mix.server.as_mut().unwrap().cpu_share = 0.5;
    for cpu in &mut mix.machine.as_mut().unwrap().cpus {
        (cpu.user, cpu.system, cpu.softirq, cpu.idle) = (0.6, 0.3, 0.1, 0.0);
    }
}

/// A number from 0 to 1, always the same for the same seed.
pub(super) fn chance(seed: &mut u64) -> f64 {
    let mut generator = SplitMix(*seed);
    let fraction = generator.fraction();
    *seed = generator.0;
    fraction
}

/// A result of a kind.
pub(super) fn made(kind: &Kind, mut seed: u64) -> ResultFile {
    let mut result = sample::result();
    result.method.runs = kind.runs;
    // As a bench sets it: the required runs are no more than the runs that exist.
    result.method.useful.runs_min = result.method.useful.runs_min.min(kind.runs as usize);
    // Without the limit, and with few loads: a hundred pages must be made in little time.
    result.systems.truncate(2);
    for (system, top) in result.systems.iter_mut().zip([40_000.0 * kind.ratio, 40_000.0]) {
        system.mixes.clear();
        for run in 1..=kind.runs {
            for (clients, share) in [(4, kind.light), (16, 1.0)] {
                let noise = 1.0 + kind.noise * (2.0 * chance(&mut seed) - 1.0);
                let mut mix = MixResult { run, ..sample::mix(clients, top * share * noise) };
                (kind.change)(&mut mix);
                system.mixes.push(mix);
            }
        }
    }
    on_a_known_machine(&mut result);
    derived::make(&mut result);
    result
}

/// A source of random numbers.
struct Dice(u64);

impl Dice {
    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        chance(&mut self.0)
    }

    /// True once in this many times.
    fn one_in(&mut self, number: u64) -> bool {
        self.share() * (number as f64) < 1.0
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.share()
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[(self.share() * all.len() as f64) as usize].clone()
    }
}

/// Any result that a bench could have written: one to four systems and perhaps the limit, one to six runs of
/// one to five loads, curves that rise, stay level or fall, noise, engines at their limit or disturbed,
/// servers that are full and others that are not, other work, failures, stalls, unequal clients, mixes that
/// were cut short, systems that were not measured or gave no answer, runs that ended early.
pub(super) fn any_result(seed: u64) -> ResultFile {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9) ^ 0x5eed);
    let mut result = sample::result();
    let runs = dice.of(&[1, 1, 2, 3, 3, 4, 5, 6]);
    result.method.runs = runs;
    result.method.useful.runs_min = result.method.useful.runs_min.min(runs as usize);
    result.method.useful.p95_max_us = dice.one_in(3).then(|| dice.between(100.0, 20_000.0));
    result.suite.quick = dice.one_in(2);
    result.machine.same_host = !dice.one_in(4);
    let loads = dice.of(&[vec![8], vec![4, 16], vec![1, 4, 16], vec![1, 2, 8, 32], vec![1, 4, 16, 64, 128]]);
    let titles = ["touchstone 0.1.0", "nginx 1.22.1", "h2o 2.2.5", "Apache httpd 2.4.71"];
    let template = result.systems[0].clone();
    let limit = result.systems.pop().expect("the sample has the limit");
    result.systems.clear();
    let number = dice.of(&[1, 2, 2, 3, 4]);
    for title in &titles[..number] {
        let mut system = template.clone();
        (system.title, system.name) =
            ((*title).to_owned(), title.split(' ').next().unwrap_or_default().to_lowercase());
        result.systems.push(system);
    }
    if dice.one_in(2) {
        result.systems.push(limit);
    }
    let noise = dice.of(&[0.0, 0.002, 0.01, 0.1, 0.5]);
    let pinned = dice.of(&[vec![0], vec![0], vec![0, 1], vec![]]);
    let top = dice.of(&[800.0, 9_000.0, 45_000.0, 1_200_000.0]);
    for system in &mut result.systems {
        system.cpus = if system.is_limit { vec![0] } else { pinned.clone() };
        let own = Shape::any(&mut dice, top);
        system.mixes.clear();
        for run in 1..=runs {
            for (place, clients) in loads.iter().enumerate() {
                system.mixes.push(own.mix(&mut dice, run, *clients, (place, loads.len()), noise));
            }
        }
        if dice.one_in(25) {
            system.mixes.iter_mut().for_each(silence);
        } else if dice.one_in(20) && !system.is_limit {
            system.mixes.clear();
            system.skipped = vec![SkippedInterface {
                interface: String::new(),
                reason: format!("{} does not serve the same over TLS", system.title),
            }];
        }
    }
    if dice.one_in(12) {
        let last = result.systems.last_mut().expect("a system");
        last.mixes.truncate(1);
        last.mixes.iter_mut().for_each(|mix| mix.complete = false);
        result.status = RunStatus::Incomplete("nginx ended in mid-mix".to_owned());
    }
    result.warnings = touchstone_lab_run::bench::warnings_of(&result);
    on_a_known_machine(&mut result);
    derived::make(&mut result);
    result
}

/// The same machine wherever the tests run, so that what is disclosed of it is known.
fn on_a_known_machine(result: &mut ResultFile) {
    let machine = &mut result.machine;
    (machine.host, machine.os) = ("lab-1".to_owned(), "Debian".to_owned());
    (machine.kernel, machine.cpu_model) = ("6.18.2".to_owned(), "Example CPU".to_owned());
    (machine.cpus, machine.memory_bytes, machine.open_files_limit) = (2, 8 << 30, 1024);
    machine.virtualised = Some("kvm".to_owned());
    machine.sysctls.clear();
}

/// No answer.
fn silence(mix: &mut MixResult) {
    let silent = sample::mix(mix.clients, 0.2);
    *mix = MixResult {
        run: mix.run,
        errors: ErrorRecord { timeout: 7, ..ErrorRecord::default() },
        requests: 0,
        requests_per_second: 0.0,
        bytes_per_second: 0.0,
        megabits_per_second: 0.0,
        littles_law_clients: 0.0,
        client_rows: Vec::new(),
        server: None,
        total_requests: 0,
        timeline: Vec::new(),
        ..silent
    };
    mix.latency.count = 0;
}

/// What a system is like.
struct Shape {
    top: f64,
    /// How the rate depends on the load: the exponent of its rise, and how much of it is lost at the last
    /// load.
    rise: f64,
    fall: f64,
    server_share: f64,
    engine: f64,
    failing: f64,
    stall_us: f64,
    unequal: bool,
    other_work: f64,
}

impl Shape {
    fn any(dice: &mut Dice, top: f64) -> Shape {
        Shape {
            top: top * dice.of(&[1.0, 1.0, 1.01, 1.2, 1.5, 4.0]),
            rise: dice.of(&[0.0, 0.02, 0.5, 1.0]),
            fall: dice.of(&[0.0, 0.0, 0.01, 0.3]),
            server_share: dice.of(&[0.2, 0.5, 0.8, 0.96, 0.99]),
            engine: dice.of(&[0.3, 0.6, 0.6, 0.97]),
            failing: dice.of(&[0.0, 0.0, 0.0, 0.0005, 0.02]),
            stall_us: dice.of(&[0.0, 0.0, 304_000.0, 1_500_000.0]),
            unequal: dice.one_in(5),
            other_work: dice.of(&[0.0, 0.0, 0.4]),
        }
    }

    fn mix(
        &self,
        dice: &mut Dice,
        run: u64,
        clients: u64,
        (place, of): (usize, usize),
        noise: f64,
    ) -> MixResult {
        let part = (place + 1) as f64 / of as f64;
        let lost = if place + 1 == of && of > 1 { self.fall } else { 0.0 };
        let rate = self.top * part.powf(self.rise) * (1.0 - lost) * (1.0 + noise * (dice.share() - 0.5));
        let mut mix = MixResult { run, ..sample::mix(clients, rate) };
        // The audit's sums are correct, as in a measured result.
        mix.requests_per_second = mix.requests as f64 / mix.window_s;
        let share = (self.server_share * dice.between(0.98, 1.01)).min(1.0);
        let used = share * mix.window_s;
        if let Some(server) = &mut mix.server {
            *server = ProcessUse {
                user_s: used * 0.3,
                system_s: used * 0.7,
                cpu_share: share,
                cpu_us_per_request: used * 1e6 / mix.requests.max(1) as f64,
                ..server.clone()
            };
        }
        let busy = (self.engine * dice.between(0.97, 1.03)).min(1.0);
        let waited = if self.other_work > 0.0 && dice.one_in(2) { dice.between(0.1, 0.6) } else { 0.02 };
        mix.load = LoadUse {
            user_s: busy * mix.window_s * 0.3,
            system_s: busy * mix.window_s * 0.7,
            cpu_us_per_request: busy * mix.window_s * 1e6 / mix.requests.max(1) as f64,
            busiest_thread: busy,
            longest_waiting_thread: Some(waited),
            held_back_by_quota: None,
        };
        let signs = [
            (busy > 0.9)
                .then(|| format!("the busiest engine thread used {:.0} % of its processor", busy * 100.0)),
            (waited > 0.1).then(|| format!("an engine thread waited {:.0} % of the time", waited * 100.0)),
        ];
        let signs: Vec<String> = signs.into_iter().flatten().collect();
        mix.generator_saturated = (!signs.is_empty()).then(|| signs.join("; "));
        for cpu in &mut mix.machine.as_mut().expect("watched").cpus {
            let own = if cpu.cpu == 0 { share } else { busy };
            let busy = (own + self.other_work).min(1.0);
            (cpu.user, cpu.system, cpu.softirq) = (busy * 0.3, busy * 0.7, 0.0);
            (cpu.steal, cpu.idle) = (0.0, 1.0 - busy);
        }
        mix.errors.reset = (mix.requests as f64 * self.failing) as u64;
        if self.stall_us > mix.latency.p999_us && dice.one_in(3) {
            mix.latency.max_us = self.stall_us;
            mix.latency.curve.last_mut().expect("the largest").1 = self.stall_us;
        }
        if self.unequal && clients > 1 {
            let taken = mix.client_rows[0].requests / 2;
            mix.client_rows[0].requests -= taken;
            mix.client_rows[1].requests += taken;
            mix.client_rows[0].mean_us *= 2.0;
        }
        for row in &mut mix.timeline {
            row.requests_per_second *= 1.0 + 0.1 * (dice.share() - 0.5);
        }
        // The counted seconds have the rate of the mix as their mean.
        let counted: Vec<usize> = (1..6).collect();
        let mean = counted.iter().map(|row| mix.timeline[*row].requests_per_second).sum::<f64>() / 5.0;
        mix.timeline.iter_mut().for_each(|row| row.requests_per_second *= mix.requests_per_second / mean);
        mix.taint = if dice.one_in(40) {
            taint::signs(&[EngineSecond { stood_still_s: Some(2.0), ..EngineSecond::default() }])
        } else {
            Vec::new()
        };
        mix.complete = !dice.one_in(60);
        mix
    }
}
