//! What a controller costs with many agents: makes a fleet, runs its agents without load engines in one process, and a controller
//! in another, whose processor time and memory are told.
//!
//! ```sh
//! cargo run --release -p touchstone-fleet --example simulate -- 1000 30
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use touchstone_fleet::{AgentEntry, Broker, Controller, ControllerOptions, Role, init, simulation};
use touchstone_lab::bench::LoadGenerator;
use touchstone_load::{Plan, Progress, Target};

fn main() -> Result<(), String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["agents", directory] => simulation::agents(Path::new(directory)),
        [count, seconds] => {
            let count = count.parse().map_err(|_| "the number of agents is none")?;
            let seconds = seconds.parse().map_err(|_| "the time is none")?;
            measure(count, Duration::from_secs(seconds))
        }
        _ => Err("give the number of agents and a time in seconds".to_string()),
    }
}

fn measure(count: usize, time: Duration) -> Result<(), String> {
    let place = std::env::temp_dir().join(format!("touchstone-simulate-{}", std::process::id()));
    let agents =
        (0..count).map(|number| AgentEntry::new(&format!("agent-{number:04}"), Role::Load)).collect();
    init(&place, "simulate", "127.0.0.1", 14_222, agents, None)?;
    let broker = Broker::start(&place)?;
    std::thread::sleep(Duration::from_secs(1));
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let agents = Command::new(own).arg("agents").arg(&place).spawn().map_err(|error| error.to_string())?;
    let agents = Ended(agents);
    let measured = control(&place, count, time, broker.id());
    drop(agents);
    drop(broker);
    std::fs::remove_dir_all(&place).map_err(|error| error.to_string())?;
    measured
}

fn control(place: &Path, count: usize, time: Duration, broker: u32) -> Result<(), String> {
    let interrupt = AtomicBool::new(false);
    let options = ControllerOptions { wait: Duration::from_secs(120), ..ControllerOptions::default() };
    let began = Instant::now();
    let controller = Controller::open(place, options, &interrupt).map_err(|error| error.to_string())?;
    println!("{count} agents came within {:.1} s", began.elapsed().as_secs_f64());
    let target = Target::plain(([127, 0, 0, 1], 1).into(), "127.0.0.1");
    let plan = Plan { clients: count, length: time * 2, ..Plan::of_one(target, "/") };
    let began = Instant::now();
    let load = controller.prepare(&plan, &interrupt).map_err(|error| error.to_string())?;
    println!("a mix began after {:.1} s", began.elapsed().as_secs_f64());
    let progress = Progress::default();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| load.run(&progress).map(drop));
        let (own_before, broker_before, began) = (cpu_s(std::process::id()), cpu_s(broker), Instant::now());
        let mut slowest = Duration::ZERO;
        let mut shown = 0;
        while began.elapsed() < time && !running.is_finished() {
            let asked = Instant::now();
            shown = controller.machines().iter().filter(|machine| machine.state == "running").count();
            slowest = slowest.max(asked.elapsed());
            std::thread::sleep(Duration::from_millis(250));
        }
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "{seconds:.0} s: controller {:.1} % of a processor, {} MiB; broker {:.1} %, {} MiB; {shown} agents running, \
             {} requests counted; the slowest look at all rows took {:.1} ms",
            (cpu_s(std::process::id()) - own_before) / seconds * 100.0,
            resident_mib(std::process::id()),
            (cpu_s(broker) - broker_before) / seconds * 100.0,
            resident_mib(broker),
            progress.requests.load(Ordering::Relaxed),
            slowest.as_secs_f64() * 1e3,
        );
        progress.stop.store(true, Ordering::Relaxed);
        // No agent hands in a result: that the run says so is what is expected.
        let _ = running.join();
    });
    Ok(())
}

/// User and system time of a process, by clock ticks of a hundredth of a second.
fn cpu_s(process: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn resident_mib(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// A process that ends with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
