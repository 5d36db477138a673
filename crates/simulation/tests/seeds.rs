//! Many lives, and those that have found a fault once: they must find none any more.

use std::sync::atomic::{AtomicU64, Ordering};

use touchstone_simulation::{PARTS, part, run};

/// So many seeds `make test` runs over all parts.
const SEEDS: u64 = 10_000;

/// What a seed has found, when it was new; each was mended, and its life is lived again.
const FOUND: &[(&str, u64, &str)] = &[
    ("disk", 327, "a purge was lost by a process that could not use the directory when it started"),
    ("disk", 2776, "a purge was lost by a process that could not use the directory at present"),
    ("disk", 8409, "a process that took over gave tickets from 0, and an older copy came after a restart"),
    ("disk", 11_559, "that nothing is to be believed was not written down, and not tried again"),
    ("disk", 13_364, "the same on a disk that had been read-only"),
    ("disk", 15_727, "a process wrote to a directory that another had made and locked anew"),
    ("disk", 18_537, "a purge was lost by a process that could not use the directory when it started"),
];

#[test]
fn ten_thousand_lives_find_nothing() {
    let shares: u64 = PARTS.iter().map(|part| part.share).sum();
    let lives: Vec<_> =
        PARTS.iter().flat_map(|part| (1..=SEEDS * part.share / shares).map(|seed| (*part, seed))).collect();
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((part, seed)) = lives.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    if let Err(fault) = run(*part, *seed) {
                        let trace = fault.trace.join("\n    ");
                        panic!("{} seed {}: {}\n    {trace}", fault.part, fault.seed, fault.message);
                    }
                }
            });
        }
    });
}

#[test]
fn a_life_is_repeated_exactly() {
    for &part in PARTS {
        for seed in 1..20 {
            let first = run(part, seed).expect("it finds nothing");
            assert_eq!(run(part, seed).expect("it finds nothing"), first, "{} {seed}", part.name);
        }
    }
}

#[test]
fn what_was_found_is_mended() {
    for (name, seed, what) in FOUND {
        let part = part(name).expect("the part is there");
        if let Err(fault) = run(part, *seed) {
            panic!("{name} seed {seed} ({what}): {}\n    {}", fault.message, fault.trace.join("\n    "));
        }
    }
}
