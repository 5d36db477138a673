//! Many seeds, and the seeds that found a fault earlier: none of them may find a fault.

use std::sync::atomic::{AtomicU64, Ordering};

use touchstone_simulation::{PARTS, part, run};

/// The number of seeds of `make test`, over all parts.
const SEEDS: u64 = 10_000;

/// Seeds that found a fault, and the fault. The faults were fixed.
const FOUND: &[(&str, u64, &str)] = &[
    ("disk", 327, "a purge was lost by a process that could not use the directory when it started"),
    ("disk", 2776, "a purge was lost by a process that could not use the directory at present"),
    (
        "disk",
        8409,
        "a process that took over issued sequence numbers from 0, so a restart found an older copy",
    ),
    (
        "disk",
        11_559,
        "the mark that the whole store is invalid was not written, and its writing was not repeated",
    ),
    ("disk", 13_364, "the same on a disk that had been read-only"),
    (
        "disk",
        15_727,
        "a process wrote to a directory that another process had removed, created and locked again",
    ),
    ("disk", 18_537, "a purge was lost by a process that could not use the directory when it started"),
    (
        "disk",
        33_565,
        "a process was killed after it had replaced a damaged file of purges, before it dropped all",
    ),
    ("disk", 195_223, "the same after a bit of the file of purges had changed"),
    ("disk", 242_684, "a process replaced the purges of another one that had created the directory again"),
    (
        "disk",
        380_440,
        "a process was killed after it had replaced a damaged file of purges, before it dropped all",
    ),
];

#[test]
fn ten_thousand_seeds_find_no_fault() {
    let shares: u64 = PARTS.iter().map(|part| part.share).sum();
    let runs: Vec<_> =
        PARTS.iter().flat_map(|part| (1..=SEEDS * part.share / shares).map(|seed| (*part, seed))).collect();
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((part, seed)) = runs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
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
fn a_run_is_repeated_exactly() {
    for &part in PARTS {
        for seed in 1..20 {
            let first = run(part, seed).expect("no fault");
            assert_eq!(run(part, seed).expect("no fault"), first, "{} {seed}", part.name);
        }
    }
}

#[test]
fn earlier_faults_do_not_return() {
    for (name, seed, what) in FOUND {
        let part = part(name).expect("the part is there");
        if let Err(fault) = run(part, *seed) {
            panic!("{name} seed {seed} ({what}): {}\n    {}", fault.message, fault.trace.join("\n    "));
        }
    }
}
