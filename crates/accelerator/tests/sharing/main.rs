//! Nothing of one visitor reaches another: random histories on the real layer, judged by a model.
//!
//! A history has several users with and without cookies, authorization, client certificates and names that
//! the server has determined, concurrent requests, ranges, HEAD, conditions and directives of clients,
//! clients that disconnect, and an origin whose answers arrive when the history states: with every mix of
//! freshness, validators, `Vary`, `Set-Cookie` (refused, removed or stored), private fields, 304, 5xx and
//! bodies that are cut; purges, changes by POST, evictions, a clock that jumps, and, with a disk, restarts.
//! Every body names its page, its version and its user. [`oracle`] decides for every answer whether that
//! client may get it.
//!
//! ```sh
//! # 100,000 histories, the same ones each time
//! cargo test -p touchstone-accelerator --test sharing
//! # fewer or more of them
//! SHARING_HISTORIES=1000 cargo test -p touchstone-accelerator --test sharing
//! # one of them
//! SHARING_SEED=17 cargo test -p touchstone-accelerator --test sharing one
//! # others, for as long as you like
//! make soak
//! ```
//!
//! Each of these faults was put back into the layer, and was found within a minute:
//!
//! - answers to cookies stored with a validator alone;
//! - no check whether requests that have waited may get the answer;
//! - `max-stale` for answers to credentials;
//! - `Set-Cookie` of a 304 merged into the stored response, with the refusal to store it removed as well;
//! - the failure of one request returned to those that waited for it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says how to repeat it"
)]

mod history;
mod oracle;
mod world;

use std::path::Path;
use std::time::{Duration, Instant};

use history::History;
use world::World;

/// Histories in an ordinary run.
const HISTORIES: u64 = 100_000;

/// For so many without a disk there is one with a disk, which is slower.
const FOR_ONE_WITH_DISK: u64 = 500;

fn histories() -> u64 {
    let said = std::env::var("SHARING_HISTORIES").ok();
    said.map_or(HISTORIES, |text| text.parse().expect("SHARING_HISTORIES is a number"))
}

fn run(history: &History, directory: Option<&Path>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    run_on(&runtime, history, directory)
}

fn run_on(
    runtime: &tokio::runtime::Runtime,
    history: &History,
    directory: Option<&Path>,
) -> Result<(), String> {
    let local = tokio::task::LocalSet::new();
    local.block_on(runtime, async {
        let mut world = World::new(history, directory);
        for operation in &history.operations {
            world.carry_out(history, operation, directory).await;
        }
        world.end(history).await;
        let record = world.shared.record.borrow();
        oracle::judge(&record)
    })
}

fn run_seed(runtime: &tokio::runtime::Runtime, seed: u64, with_disk: bool) {
    let history = History::of_seed(seed, with_disk);
    let once = |history: &History| match with_disk {
        true => run(history, Some(tempfile::tempdir().unwrap().path())),
        false => run_on(runtime, history, None),
    };
    if once(&history).is_err() {
        let (shrunk, wrong) = shrink(history, &once);
        panic!(
            "seed {seed}{}: {wrong}\nthe shortest history that shows it:\n{shrunk:#?}\nrepeat it: \
             SHARING_SEED={seed} cargo test -p touchstone-accelerator --test sharing one",
            if with_disk { " with a disk" } else { "" }
        );
    }
}

/// Leaves out operations as long as something is wrong still.
fn shrink(mut history: History, once: &impl Fn(&History) -> Result<(), String>) -> (History, String) {
    let mut wrong = once(&history).err().unwrap_or_else(|| "only in one of two runs".to_string());
    let mut at = 0;
    while at < history.operations.len() {
        let mut shorter = history.clone();
        shorter.operations.remove(at);
        match once(&shorter) {
            Err(still) => (history, wrong, at) = (shorter, still, 0),
            Ok(()) => at += 1,
        }
    }
    (history, wrong)
}

fn run_seeds(seeds: impl Iterator<Item = u64>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    for seed in seeds {
        run_seed(&runtime, seed, false);
    }
}

#[test]
fn no_client_gets_what_is_not_for_it() {
    std::thread::scope(|scope| {
        for part in 0..2 {
            scope.spawn(move || run_seeds((part..histories()).step_by(2)));
        }
    });
}

#[test]
fn no_client_gets_what_is_not_for_it_from_a_disk() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    (0..histories().div_ceil(FOR_ONE_WITH_DISK)).for_each(|seed| run_seed(&runtime, seed, true));
}

#[test]
fn one() {
    let Ok(seed) = std::env::var("SHARING_SEED") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let seed = seed.parse().expect("SHARING_SEED is a number");
    run_seed(&runtime, seed, false);
    run_seed(&runtime, seed, true);
}

#[test]
#[ignore = "runs for as long as SECONDS_TO_RUN says: make soak"]
fn soak() {
    let seconds = std::env::var("SECONDS_TO_RUN").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let first = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let (runtime, start) =
        (tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap(), Instant::now());
    let mut count = 0u64;
    while start.elapsed() < Duration::from_secs(seconds) {
        run_seed(&runtime, first.wrapping_add(count), count.is_multiple_of(FOR_ONE_WITH_DISK));
        count += 1;
    }
    eprintln!("{count} histories from seed {first}, nothing found");
}
