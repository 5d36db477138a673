//! `touchstone-simulate [--part NAME] [--seed N] [--seeds N]`: runs many simulations, and prints the faults.
//! `make simulate` calls it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a command")]

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use touchstone_simulation::{Fault, PARTS, Part, part, part_of, run};

const USAGE: &str = "usage: touchstone-simulate [--part NAME] [--seed FIRST] [--seeds COUNT] [--threads N] \
                     [--seconds MOST] [--most-faults N]";

struct Arguments {
    part: Option<Part>,
    first: u64,
    seeds: u64,
    threads: u64,
    most: Option<Duration>,
    /// The number of faults after which it stops.
    most_faults: u64,
}

fn arguments() -> Result<Arguments, String> {
    let mut given = Arguments { part: None, first: 1, seeds: 10_000, threads: 1, most: None, most_faults: 5 };
    let (mut words, mut is_one) = (std::env::args().skip(1), None);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or(format!("{word} requires a value\n{USAGE}"))?;
            value
                .parse::<u64>()
                .map_err(|_| format!("{word} {value}: the value must be a whole number\n{USAGE}"))
        };
        match word.as_str() {
            "--part" => {
                let name = words.next().unwrap_or_default();
                let names = PARTS.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
                given.part = Some(part(&name).ok_or(format!("no part {name:?}: the parts are {names}"))?);
            }
            "--seed" => {
                given.first = number()?;
                is_one.get_or_insert(true);
            }
            "--seeds" => {
                given.seeds = number()?;
                is_one = Some(false);
            }
            "--threads" => given.threads = number()?.max(1),
            "--most-faults" => given.most_faults = number()?,
            "--seconds" => given.most = Some(Duration::from_secs(number()?)),
            _ => return Err(format!("{word}?\n{USAGE}")),
        }
    }
    if is_one == Some(true) {
        given.seeds = 1;
    }
    Ok(given)
}

/// The state that the threads share.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    is_over: AtomicBool,
    faults: Mutex<Vec<Fault>>,
    /// Runs and nanoseconds by part.
    spent: Mutex<BTreeMap<&'static str, (u64, u64)>>,
}

fn work(given: &Arguments, shared: &Shared, began: Instant) {
    let mut spent: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    while !shared.is_over.load(Ordering::Relaxed) && given.most.is_none_or(|most| began.elapsed() < most) {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if number >= given.seeds {
            break;
        }
        let seed = given.first.wrapping_add(number);
        let part = given.part.unwrap_or_else(|| part_of(seed));
        let since = Instant::now();
        let outcome = run(part, seed);
        let of_part = spent.entry(part.name).or_default();
        of_part.0 += 1;
        of_part.1 += since.elapsed().as_nanos() as u64;
        if let Err(fault) = outcome {
            let mut faults = shared.faults.lock().expect("no thread panics with it");
            faults.push(fault);
            shared.is_over.store(faults.len() as u64 >= given.most_faults, Ordering::Relaxed);
        }
    }
    let mut all = shared.spent.lock().expect("no thread panics with it");
    for (name, (runs, ns)) in spent {
        let of_part = all.entry(name).or_default();
        of_part.0 += runs;
        of_part.1 += ns;
    }
}

fn main() -> ExitCode {
    let given = match arguments() {
        Ok(given) => given,
        Err(message) => {
            eprintln!("touchstone-simulate: {message}");
            return ExitCode::from(2);
        }
    };
    let (shared, began) = (Shared::default(), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..given.threads {
            scope.spawn(|| work(&given, &shared, began));
        }
    });
    let mut faults = shared.faults.into_inner().unwrap_or_default();
    faults.sort_by_key(|fault| fault.seed);
    for fault in &faults {
        println!("{} seed {}: {}", fault.part, fault.seed, fault.message);
        fault.trace.iter().for_each(|line| println!("    {line}"));
        println!("    again: make simulate PART={} SEED={}\n", fault.part, fault.seed);
    }
    let spent = shared.spent.into_inner().unwrap_or_default();
    for (name, (runs, ns)) in &spent {
        let each = *ns as f64 / 1e6 / *runs as f64;
        println!("{name:8} {runs:9} seeds {:8.1} s {each:8.3} ms each", *ns as f64 / 1e9);
    }
    let runs: u64 = spent.values().map(|(runs, _)| runs).sum();
    println!("{runs} seeds in {:.1} s, {} faults", began.elapsed().as_secs_f64(), faults.len());
    ExitCode::from(u8::from(!faults.is_empty()))
}
